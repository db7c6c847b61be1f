//! The identity of scheduled work: `(namespace, schedule name, intended UTC instant)`.
//!
//! It never contains an acquisition time, a process or leader name, an epoch, a UID or anything
//! random: two leaders, or one leader twice, name the same work alike. Inside the cluster the
//! object's *name* is the identity and the API server enforces it; for systems outside it has a
//! fixed hashed form. `docs/contracts/identity.md` is the contract with test vectors.

use std::fmt::Write as _;

use sha2::{Digest, Sha256};

use crate::time::IntendedTime;

mod canonical;

pub use canonical::canonical_json;

/// Longest schedule name, so that `<schedule>-<12 digits>-m<N>` and its pods fit into 63 characters.
pub const MAX_SCHEDULE_NAME: usize = 40;

/// First line of the hashed form of a maintenance occurrence.
const MAINTENANCE_DOMAIN: &str = "maintenance-occurrence/v1";

/// First line of the hashed form of a report job that a ReportSchedule makes.
const REPORT_DOMAIN: &str = "report-job/v1";

/// First line of the hashed form of a report job that a client names.
const NAMED_REPORT_DOMAIN: &str = "report-job-named/v1";

/// The name of the occurrence of `schedule` at `instant`: injective, readable, sorts by time.
pub fn occurrence_name(schedule: &str, instant: IntendedTime) -> String {
    format!("{schedule}-{}", instant.digits())
}

/// The name of attempt `number` of a maintenance occurrence, for the Job and its pods.
pub fn maintenance_attempt_name(occurrence: &str, number: i32) -> String {
    format!("{occurrence}-m{number}")
}

/// What stands between the name of an occurrence and the number of its attempt.
pub const MAINTENANCE_ATTEMPT: &str = "-m";
/// What stands between the name of a report job and the number of its attempt.
pub const REPORT_ATTEMPT: &str = "-r";

/// The name of the work and the number in the name of one of its attempts, which `infix` joins. `None`
/// if it is not such a name.
pub fn work_of_attempt<'a>(attempt: &'a str, infix: &str) -> Option<(&'a str, i32)> {
    let (work, number) = attempt.rsplit_once(infix)?;
    let digits = !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit());
    Some((work, number.parse().ok().filter(|_| digits)?))
}

/// Names of all attempts of one piece of work: of the Job and its pods, and of the run at a provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttemptNames {
    name: String,
    key: String,
}

impl AttemptNames {
    /// Those of a maintenance occurrence: `<occurrence>-m<N>` and `<id>-m<N>`.
    pub fn maintenance(occurrence: &str, work: WorkId) -> Self {
        let key = format!("{}{MAINTENANCE_ATTEMPT}", work.id());
        Self { name: format!("{occurrence}{MAINTENANCE_ATTEMPT}"), key }
    }

    /// Those of a report job that a ReportSchedule makes: `<job>-r<N>` and `<id>-r<N>`.
    pub fn report(job: &str, work: WorkId) -> Self {
        let key = format!("{}{REPORT_ATTEMPT}", work.id());
        Self { name: format!("{job}{REPORT_ATTEMPT}"), key }
    }

    /// Those of a report job that a client names: `<job>-r<N>` and `<id>-<u>-r<N>`, where `<u>` are
    /// the first 8 hex digits of the SHA-256 of the object's uid. Deleted and created again, it is a
    /// new run of the same request.
    pub fn named_report(job: &str, uid: &str, work: WorkId) -> Self {
        let object = &sha256_hex(uid.as_bytes())[..8];
        let key = format!("{}-{object}{REPORT_ATTEMPT}", work.id());
        Self { name: format!("{job}{REPORT_ATTEMPT}"), key }
    }

    /// Name of the Job of attempt `number`.
    pub fn name(&self, number: i32) -> String {
        format!("{}{number}", self.name)
    }

    /// The key by which providers know attempt `number`.
    pub fn key(&self, number: i32) -> String {
        format!("{}{number}", self.key)
    }
}

/// The identity of a run's work for systems outside the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WorkId([u8; 16]);

impl WorkId {
    /// The identity of a maintenance occurrence.
    pub fn maintenance(namespace: &str, schedule: &str, instant: IntendedTime) -> Self {
        Self::of(&[MAINTENANCE_DOMAIN, namespace, schedule, &instant.to_string()])
    }

    /// The identity of a report job that a ReportSchedule makes.
    pub fn report(namespace: &str, schedule: &str, instant: IntendedTime) -> Self {
        Self::of(&[REPORT_DOMAIN, namespace, schedule, &instant.to_string()])
    }

    /// The identity of a report job that a client names; `content_hash` is the hex SHA-256 of its
    /// canonical JSON (RFC 8785) as first sealed.
    pub fn named_report(namespace: &str, name: &str, content_hash: &str) -> Self {
        Self::of(&[NAMED_REPORT_DOMAIN, namespace, name, content_hash])
    }

    /// The identity whose [`WorkId::id`] this is; `None` if it is not one.
    pub fn parse(id: &str) -> Option<Self> {
        let digits = id.as_bytes();
        if digits.len() != 32 || id.bytes().any(|b| !matches!(b, b'0'..=b'9' | b'a'..=b'f')) {
            return None;
        }
        let mut bytes = [0; 16];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            let pair = std::str::from_utf8(pair).ok()?;
            *byte = u8::from_str_radix(pair, 16).ok()?;
        }
        Some(Self(bytes))
    }

    /// SHA-256 over the lines, each ended by LF. No part can contain LF (Kubernetes names, RFC 3339,
    /// hex), so different parts give different inputs.
    fn of(lines: &[&str]) -> Self {
        let mut hash = Sha256::new();
        for line in lines {
            hash.update(line.as_bytes());
            hash.update(b"\n");
        }
        let digest = hash.finalize();
        let mut first = [0; 16];
        first.copy_from_slice(&digest[..16]);
        Self(first)
    }

    /// 32 hex digits.
    pub fn id(&self) -> String {
        hex(&self.0)
    }

    /// The same bytes as a UUIDv8 (RFC 9562): version and variant bits replaced.
    pub fn request_id(&self) -> String {
        let mut b = self.0;
        b[6] = (b[6] & 0x0f) | 0x80;
        b[8] = (b[8] & 0x3f) | 0x80;
        let h = hex(&b);
        format!("{}-{}-{}-{}-{}", &h[..8], &h[8..12], &h[12..16], &h[16..20], &h[20..])
    }

    /// The key by which providers know maintenance attempt `number`.
    pub fn maintenance_run_key(&self, number: i32) -> String {
        format!("{}-m{number}", self.id())
    }
}

/// Lower-case hex digits of `bytes`.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut out, byte| {
        let _ = write!(out, "{byte:02x}"); // writing to a String cannot fail
        out
    })
}

/// Hex SHA-256 of `bytes`.
pub fn sha256_hex(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> IntendedTime {
        IntendedTime::parse_lenient(text).unwrap()
    }

    #[test]
    fn vectors_of_the_contract() {
        let cases = [
            (
                "default",
                "nightly-vacuum",
                "2026-03-08T07:00:00Z",
                "4c78fa5c685dd0f1904515254e6e61c1",
                "4c78fa5c-685d-80f1-9045-15254e6e61c1",
            ),
            (
                "default",
                "nightly-vacuum",
                "2026-11-01T05:30:00Z",
                "22914665bc9ae6af49000a265045a40c",
                "22914665-bc9a-86af-8900-0a265045a40c",
            ),
            (
                "default",
                "nightly-vacuum",
                "2026-11-01T01:30:00-04:00",
                "22914665bc9ae6af49000a265045a40c",
                "22914665-bc9a-86af-8900-0a265045a40c",
            ),
            (
                "a",
                "b-c",
                "2027-01-01T00:00:00Z",
                "b0f3a513d0eb7a44c0f173faef2e3702",
                "b0f3a513-d0eb-8a44-80f1-73faef2e3702",
            ),
            (
                "a-b",
                "c",
                "2027-01-01T00:00:00Z",
                "474b858ccaf4e2685b0622ca3667a0b2",
                "474b858c-caf4-8268-9b06-22ca3667a0b2",
            ),
        ];
        for (namespace, schedule, instant, id, request_id) in cases {
            let work = WorkId::maintenance(namespace, schedule, at(instant));
            assert_eq!(work.id(), id);
            assert_eq!(work.request_id(), request_id);
        }
        let report = WorkId::report("reports", "hourly-usage", at("2026-11-29T09:00:00Z"));
        assert_eq!(report.id(), "8d049a4a6b803923a53205501fd95f54");
        assert_eq!(report.request_id(), "8d049a4a-6b80-8923-a532-05501fd95f54");
        let content = r#"{"parameters":{"month":"2026-11"},"run":{"actionClass":"Idempotent","simulated":{}}}"#;
        let hash = sha256_hex(content.as_bytes());
        assert_eq!(hash, "579be3d25befe50d5a62858e8fdce0dea3163bbbad86762372dbf4ddaf96b8b6");
        let named = WorkId::named_report("reports", "acme-usage-2026-11", &hash);
        assert_eq!(named.id(), "960c23eb766849f2a0a7b37899a1b670");
        assert_eq!(named.request_id(), "960c23eb-7668-89f2-a0a7-b37899a1b670");
    }

    #[test]
    fn names_are_the_identity() {
        let name = occurrence_name("nightly-retention", at("2026-11-29T02:00:00Z"));
        assert_eq!(name, "nightly-retention-202611290200");
        assert_eq!(maintenance_attempt_name(&name, 1), "nightly-retention-202611290200-m1");
        let longest = "s".repeat(MAX_SCHEDULE_NAME);
        let attempt =
            maintenance_attempt_name(&occurrence_name(&longest, at("2026-11-29T02:00:00Z")), 9);
        assert!(
            attempt.len() + "-xxxxx".len() <= 63,
            "a pod's name is the Job's and six characters"
        );
    }

    #[test]
    fn run_keys_differ_by_attempt_only() {
        let work = WorkId::maintenance("default", "nightly-vacuum", at("2026-03-08T07:00:00Z"));
        assert_eq!(work.maintenance_run_key(2), "4c78fa5c685dd0f1904515254e6e61c1-m2");
        let attempts = AttemptNames::maintenance("nightly-vacuum-202603080700", work);
        assert_eq!(attempts.key(2), work.maintenance_run_key(2));
        assert_eq!(attempts.name(2), maintenance_attempt_name("nightly-vacuum-202603080700", 2));
        let report = WorkId::report("reports", "hourly-usage", at("2026-11-29T09:00:00Z"));
        let attempts = AttemptNames::report("hourly-usage-202611290900", report);
        assert_eq!(attempts.name(1), "hourly-usage-202611290900-r1");
        assert_eq!(attempts.key(1), "8d049a4a6b803923a53205501fd95f54-r1");
    }

    #[test]
    fn a_named_report_created_again_is_a_new_run_of_the_same_request() {
        let work = WorkId::named_report("reports", "acme-usage-2026-11", &sha256_hex(b"{}"));
        let runs =
            ["u1", "u2"].map(|uid| AttemptNames::named_report("acme-usage-2026-11", uid, work));
        assert_ne!(runs[0].key(1), runs[1].key(1));
        assert_eq!(runs[0].name(3), "acme-usage-2026-11-r3");
        let object = &sha256_hex(b"u1")[..8];
        assert_eq!(runs[0].key(3), format!("{}-{object}-r3", work.id()));
        assert!(runs[0].key(64).len() <= 64, "the bound of attempts[].runKey");
        let longest = AttemptNames::named_report(&"j".repeat(53), "u", work).name(64);
        assert!(
            longest.len() + "-xxxxx".len() <= 63,
            "a pod's name is the Job's and six characters"
        );
    }

    #[test]
    fn attempts_name_their_work() {
        let occurrence = |name| work_of_attempt(name, MAINTENANCE_ATTEMPT);
        let report = |name| work_of_attempt(name, REPORT_ATTEMPT);
        assert_eq!(occurrence("a-m-202611290200-m12"), Some(("a-m-202611290200", 12)));
        assert_eq!(report("acme-r2-r12"), Some(("acme-r2", 12)));
        assert_eq!((occurrence("acme-r2"), report("a-202611290200-m1")), (None, None));
        for name in ["a", "a-r", "a-rx", "a-r+1", "a-r99999999999"] {
            assert_eq!(report(name), None, "{name}");
        }
        let work = WorkId::named_report("n", "acme-r2", "h");
        assert_eq!(report(&AttemptNames::report("acme-r2", work).name(3)), Some(("acme-r2", 3)));
        let names = AttemptNames::maintenance("a-202611290200", work);
        assert_eq!(occurrence(&names.name(64)), Some(("a-202611290200", 64)));
    }

    #[test]
    fn an_id_is_read_back_and_nothing_else_is() {
        let work = WorkId::named_report("n", "j", "h");
        assert_eq!(WorkId::parse(&work.id()), Some(work));
        for text in ["", "4c78", &work.id().to_uppercase(), &work.request_id(), &"é".repeat(16)] {
            assert_eq!(WorkId::parse(text), None, "{text}");
        }
    }
}
