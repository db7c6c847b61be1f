//! What a Job of a CronJob says about its CronJob and its instant.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::batch::v1::Job;

/// Annotation that the CronJob controller sets since Kubernetes 1.32: the scheduled time, RFC 3339.
const SCHEDULED: &str = "batch.kubernetes.io/cronjob-scheduled-timestamp";
/// Annotation of `kubectl create job --from=cronjob/…`.
const INSTANTIATE: &str = "cronjob.kubernetes.io/instantiate";
/// A suffix of so many digits is the scheduled time in minutes since 1970: from 1989 to 2160.
const MINUTE_DIGITS: usize = 8;
/// A suffix of so many digits is the scheduled time in seconds since 1970, as the CronJob controller
/// before Kubernetes 1.21 named its Jobs: from 2001 to 2286.
const SECOND_DIGITS: usize = 10;

/// A Job is not created so long before its instant, whatever clocks say,
const MOST_EARLY: SignedDuration = SignedDuration::from_hours(1);
/// nor so long after it: a controller that was down so long gives up.
const MOST_LATE: SignedDuration = SignedDuration::from_hours(24 * 100);

/// A Job of a CronJob.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OfCronJob {
    /// Name of the CronJob.
    pub(super) cronjob: String,
    /// The instant, if the Job says it.
    pub(super) instant: Option<Timestamp>,
    /// How that is known.
    pub(super) known_by: &'static str,
}

/// Which CronJob made this Job, and for which instant; `None` if none did.
pub(super) fn of(job: &Job) -> Option<OfCronJob> {
    let name = job.metadata.name.as_deref().unwrap_or_default();
    let notes = job.metadata.annotations.as_ref();
    let note = |key: &str| notes.and_then(|all| all.get(key)).map(String::as_str);
    let owners = job.metadata.owner_references.iter().flatten();
    let owner =
        owners.filter(|owner| owner.kind == "CronJob").map(|owner| owner.name.as_str()).next();
    let created = job.metadata.creation_timestamp.as_ref().map(|at| at.0);
    let suffix = name.rsplit_once('-').and_then(|(stem, digits)| {
        let instant = from_suffix(digits).filter(|instant| is_likely(*instant, created))?;
        Some((stem, instant))
    });
    if let Some(scheduled) = note(SCHEDULED).and_then(|text| text.parse::<Timestamp>().ok()) {
        // An orphan has lost its owner, and its name still tells it.
        let cronjob =
            owner.or(suffix.map(|(stem, _)| stem)).or(name.rsplit_once('-').map(|(s, _)| s));
        return Some(OfCronJob {
            cronjob: cronjob.unwrap_or(name).to_owned(),
            instant: Some(scheduled),
            known_by: "scheduled-timestamp annotation",
        });
    }
    let owner = owner?;
    if note(INSTANTIATE) == Some("manual") {
        let cronjob = owner.to_owned();
        return Some(OfCronJob {
            cronjob,
            instant: None,
            known_by: "made by hand from the CronJob",
        });
    }
    let named = suffix.filter(|(stem, _)| *stem == owner);
    Some(OfCronJob {
        cronjob: owner.to_owned(),
        instant: named.map(|(_, instant)| instant),
        known_by: if named.is_some() { "name suffix" } else { "no instant in the Job" },
    })
}

/// Whether a Job that was created then can be for this instant. The first CronJob controllers ended
/// names with the digits of a hash, which read as times of any year.
fn is_likely(instant: Timestamp, created: Option<Timestamp>) -> bool {
    let Some(created) = created else { return true };
    let late = created.duration_since(instant);
    (-MOST_EARLY..=MOST_LATE).contains(&late)
}

/// The instant that the digits at the end of a Job's name stand for.
fn from_suffix(digits: &str) -> Option<Timestamp> {
    if digits.is_empty()
        || !digits.bytes().all(|byte| byte.is_ascii_digit())
        || digits.starts_with('0')
    {
        return None;
    }
    let number: i64 = digits.parse().ok()?;
    let seconds = match digits.len() {
        MINUTE_DIGITS => number.checked_mul(60)?,
        SECOND_DIGITS => number,
        _ => return None,
    };
    Timestamp::from_second(seconds).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn job(name: &str, owner: Option<&str>, notes: &Value) -> Job {
        let owners = owner.map(|owner| json!([{
            "apiVersion": "batch/v1", "kind": "CronJob", "name": owner, "uid": "c1", "controller": true,
        }]));
        serde_json::from_value(json!({
            "metadata": {"name": name, "namespace": "docs", "ownerReferences": owners, "annotations": notes},
        }))
        .unwrap()
    }

    #[test]
    fn the_instant_is_in_the_annotation_or_in_the_name() {
        let at = |text: &str| Some(text.parse::<Timestamp>().unwrap());
        let scheduled = |text: &str| json!({SCHEDULED: text});
        for (description, (name, owner, notes), cronjob, instant, known_by) in [
            (
                "the annotation, in its own zone",
                ("nightly-29334840", Some("nightly"), scheduled("2025-10-11T04:00:00+02:00")),
                "nightly",
                at("2025-10-11T02:00:00Z"),
                "scheduled-timestamp annotation",
            ),
            (
                "an orphan keeps the annotation",
                ("nightly-29334840", None, scheduled("2025-10-11T02:00:00Z")),
                "nightly",
                at("2025-10-11T02:00:00Z"),
                "scheduled-timestamp annotation",
            ),
            (
                "minutes in the name",
                ("nightly-27345600", Some("nightly"), Value::Null),
                "nightly",
                at("2021-12-29T00:00:00Z"),
                "name suffix",
            ),
            (
                "seconds in the name",
                ("nightly-1609459200", Some("nightly"), Value::Null),
                "nightly",
                at("2021-01-01T00:00:00Z"),
                "name suffix",
            ),
            (
                "a name of its own",
                ("nightly-again", Some("nightly"), Value::Null),
                "nightly",
                None,
                "no instant in the Job",
            ),
            (
                "digits that are no time",
                ("nightly-12", Some("nightly"), Value::Null),
                "nightly",
                None,
                "no instant in the Job",
            ),
            (
                "made by hand, with digits",
                ("nightly-27345600", Some("nightly"), json!({INSTANTIATE: "manual"})),
                "nightly",
                None,
                "made by hand from the CronJob",
            ),
            (
                "digits of another name",
                ("other-27345600", Some("nightly"), Value::Null),
                "nightly",
                None,
                "no instant in the Job",
            ),
        ] {
            let found = of(&job(name, owner, &notes)).unwrap();
            assert_eq!(
                (found.cronjob.as_str(), found.instant, found.known_by),
                (cronjob, instant, known_by),
                "{description}"
            );
        }
    }

    #[test]
    fn digits_that_cannot_be_the_time_of_the_job_are_a_hash() {
        let mut hashed = job("hello-1859028810", Some("hello"), &Value::Null);
        hashed.metadata.creation_timestamp =
            serde_json::from_value(json!("2016-10-25T10:00:00Z")).unwrap();
        assert_eq!(of(&hashed).unwrap().instant, None);
        let mut late = job("hello-27345600", Some("hello"), &Value::Null);
        late.metadata.creation_timestamp =
            serde_json::from_value(json!("2021-12-31T00:00:00Z")).unwrap();
        assert!(of(&late).unwrap().instant.is_some(), "two days late is a Job of that instant");
    }

    #[test]
    fn a_job_of_nobody_is_no_ones() {
        assert_eq!(
            of(&job("nightly-27345600", None, &Value::Null)),
            None,
            "digits alone prove nothing"
        );
        assert_eq!(of(&job("x", None, &json!({SCHEDULED: "soon"}))), None);
    }
}
