//! What one replica is told, checked before it starts. Pure: reads no environment.

use std::{net::SocketAddr, time::Duration};

/// Shortest lease: below it three renewal attempts do not fit into the validity of a term.
pub const MIN_LEASE_SECONDS: u32 = 3;
/// Longest lease: a standby waits that long for a leader that died.
pub const MAX_LEASE_SECONDS: u32 = 300;
/// Longest clock skew that can be tolerated: an instant lasts a minute, and a leader whose clock is
/// off by more would run the wrong one.
pub const MAX_SKEW_SECONDS: u32 = 30;
/// Longest retention of records whose schedule is gone: ten years.
pub const MAX_ORPHAN_DAYS: u32 = 3650;
/// Largest offset of the epoch: sums stay below 2^53, so readers that use doubles see them exactly.
pub const MAX_EPOCH_OFFSET: i64 = 1 << 52;
/// Most objects reconciled at a time: the API server's default for requests in flight is 200 writes.
pub const MAX_CONCURRENCY: u32 = 256;
/// Most namespaces in `--watch-namespace`: each costs its own watches.
pub const MAX_WATCHED_NAMESPACES: usize = 64;
/// Longest name of a replica: the holder in the Lease is `<name>/<nonce>`.
pub const MAX_REPLICA_NAME: usize = 253;

/// Everything that one replica is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Name of this replica: the Pod's name.
    pub replica: String,
    /// Uid of the Pod, if known; events about the process refer to it.
    pub pod_uid: Option<String>,
    /// Namespace of the Lease.
    pub lease_namespace: String,
    /// Name of the Lease.
    pub lease_name: String,
    /// How long a term lasts without renewal, whole seconds.
    pub lease_seconds: u32,
    /// Namespaces to work in, sorted; empty means all.
    pub watch_namespaces: Vec<String>,
    /// Where `/livez`, `/readyz` and `/metrics` are served; `None` serves nothing.
    pub health_address: Option<SocketAddr>,
    /// Whether runs of the provider `simulated` are accepted.
    pub allow_simulated: bool,
    /// Whether runs of the provider `http` may call loopback and link-local addresses.
    pub allow_local_providers: bool,
    /// Largest difference to the API server's clock at which occurrences are created.
    pub max_clock_skew: Duration,
    /// Added to every epoch.
    pub epoch_offset: i64,
    /// How long records are kept whose schedule is gone.
    pub orphan_retention: Duration,
    /// Most objects of one kind reconciled at a time.
    pub concurrency: usize,
}

/// A setting that cannot be used; the sentence names the flag and the fix.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// A number outside its range.
    #[error("--{flag} {value}{unit}: must be from {min}{unit} to {max}{unit}; {reason}")]
    OutOfRange {
        /// The flag, without dashes.
        flag: &'static str,
        /// The value given.
        value: i64,
        /// Least value.
        min: i64,
        /// Greatest value.
        max: i64,
        /// What the numbers count, as it is written behind them.
        unit: &'static str,
        /// Why.
        reason: &'static str,
    },
    /// A text that cannot be the name of an object or namespace.
    #[error(
        "--{flag} {value:?}: must be at most {max} lower-case letters, digits{extra} and hyphens, \
         beginning and ending with a letter or digit"
    )]
    BadName {
        /// The flag, without dashes.
        flag: &'static str,
        /// The value given.
        value: String,
        /// Longest length.
        max: usize,
        /// Further characters allowed, as words.
        extra: &'static str,
    },
    /// Too many namespaces.
    #[error(
        "--watch-namespace: {count} namespaces, at most {MAX_WATCHED_NAMESPACES}; leave it out to \
         watch all"
    )]
    TooManyNamespaces {
        /// How many were given.
        count: usize,
    },
    /// No namespace for the Lease is known.
    #[error(
        "--lease-namespace is missing: set it, or POD_NAMESPACE, or a namespace in the kubeconfig's \
         context"
    )]
    NoLeaseNamespace,
}

/// Numbers as they were given, before their range is known to be right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Numbers {
    /// `--lease-duration`.
    pub lease_seconds: u32,
    /// `--max-clock-skew`.
    pub max_clock_skew_seconds: u32,
    /// `--epoch-offset`.
    pub epoch_offset: i64,
    /// `--orphan-retention`.
    pub orphan_retention_days: u32,
    /// `--concurrency`.
    pub concurrency: u32,
}

impl Numbers {
    /// Whether all are in range; the first that is not.
    pub fn check(&self) -> Result<(), ConfigError> {
        let ranges: [(&'static str, i64, i64, i64, &'static str, &'static str); 5] = [
            (
                "lease-duration",
                self.lease_seconds.into(),
                MIN_LEASE_SECONDS.into(),
                MAX_LEASE_SECONDS.into(),
                "s",
                "three renewal attempts must fit into six tenths of it",
            ),
            (
                "max-clock-skew",
                self.max_clock_skew_seconds.into(),
                1,
                MAX_SKEW_SECONDS.into(),
                "s",
                "an instant lasts a minute, and the API server's clock is read in whole seconds",
            ),
            (
                "epoch-offset",
                self.epoch_offset,
                0,
                MAX_EPOCH_OFFSET,
                "",
                "epochs only rise, and stay exact in JSON",
            ),
            (
                "orphan-retention",
                self.orphan_retention_days.into(),
                1,
                MAX_ORPHAN_DAYS.into(),
                "d",
                "records of deleted schedules show what ran",
            ),
            (
                "concurrency",
                self.concurrency.into(),
                1,
                MAX_CONCURRENCY.into(),
                "",
                "each takes a place in the API server's queue",
            ),
        ];
        for (flag, value, min, max, unit, reason) in ranges {
            if !(min..=max).contains(&value) {
                return Err(ConfigError::OutOfRange { flag, value, min, max, unit, reason });
            }
        }
        Ok(())
    }
}

/// Checks the name of a namespace: a DNS label.
pub fn check_namespace(flag: &'static str, value: &str) -> Result<(), ConfigError> {
    const MAX_LABEL: usize = 63;
    check_name(flag, value, MAX_LABEL, "")
}

/// Checks the name of the Lease: short enough that the records of its terms have names.
pub fn check_lease_name(flag: &'static str, value: &str) -> Result<(), ConfigError> {
    check_name(flag, value, crate::api::MAX_LEASE_NAME, ", dots")
}

/// Checks the name of an object: a DNS subdomain.
pub fn check_object_name(flag: &'static str, value: &str) -> Result<(), ConfigError> {
    check_name(flag, value, MAX_REPLICA_NAME, ", dots")
}

fn check_name(
    flag: &'static str,
    value: &str,
    max: usize,
    extra: &'static str,
) -> Result<(), ConfigError> {
    let part_is_good = |part: &str| {
        let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        !part.is_empty()
            && part.chars().all(inner)
            && !part.starts_with('-')
            && !part.ends_with('-')
    };
    let good =
        if extra.is_empty() { part_is_good(value) } else { value.split('.').all(part_is_good) };
    if good && value.len() <= max {
        return Ok(());
    }
    // What was given may be anything; the sentence repeats a bounded part of it.
    let value = crate::api::truncate(value, 80);
    Err(ConfigError::BadName { flag, value, max, extra })
}

/// Sorted, without repetitions and empty entries; each a good name.
pub fn check_namespaces(given: Vec<String>) -> Result<Vec<String>, ConfigError> {
    let mut all: Vec<String> =
        given.into_iter().map(|name| name.trim().to_owned()).filter(|n| !n.is_empty()).collect();
    all.sort();
    all.dedup();
    if all.len() > MAX_WATCHED_NAMESPACES {
        return Err(ConfigError::TooManyNamespaces { count: all.len() });
    }
    for name in &all {
        check_namespace("watch-namespace", name)?;
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: Numbers = Numbers {
        lease_seconds: 10,
        max_clock_skew_seconds: 5,
        epoch_offset: 0,
        orphan_retention_days: 90,
        concurrency: 16,
    };

    #[test]
    fn numbers_out_of_range_are_named_with_their_range() {
        assert_eq!(GOOD.check(), Ok(()));
        for (flag, bad) in [
            ("lease-duration 2s:", Numbers { lease_seconds: 2, ..GOOD }),
            ("lease-duration 301s:", Numbers { lease_seconds: 301, ..GOOD }),
            ("max-clock-skew 0s:", Numbers { max_clock_skew_seconds: 0, ..GOOD }),
            ("max-clock-skew 31s:", Numbers { max_clock_skew_seconds: 31, ..GOOD }),
            ("epoch-offset -1:", Numbers { epoch_offset: -1, ..GOOD }),
            ("epoch-offset 4503599627370497:", Numbers { epoch_offset: (1 << 52) + 1, ..GOOD }),
            ("orphan-retention 0d:", Numbers { orphan_retention_days: 0, ..GOOD }),
            ("orphan-retention 3651d:", Numbers { orphan_retention_days: 3651, ..GOOD }),
            ("concurrency 0:", Numbers { concurrency: 0, ..GOOD }),
            ("concurrency 257:", Numbers { concurrency: 257, ..GOOD }),
        ] {
            let error = bad.check().unwrap_err().to_string();
            assert!(error.starts_with(&format!("--{flag} must be from ")), "{error}");
        }
        assert_eq!(Numbers { lease_seconds: 3, ..GOOD }.check(), Ok(()));
    }

    #[test]
    fn namespaces_are_sorted_and_checked() {
        let given = ["b", " a ", "", "b"].map(str::to_owned).to_vec();
        assert_eq!(check_namespaces(given).unwrap(), ["a", "b"]);
        assert_eq!(check_namespaces(vec![]).unwrap(), Vec::<String>::new());
        for bad in ["A", "a_b", "-a", "a-", "a.b", "ä", "a b"] {
            let error = check_namespaces(vec![bad.to_owned()]).unwrap_err().to_string();
            assert!(error.starts_with(&format!("--watch-namespace {bad:?}: must be")), "{error}");
        }
        assert!(check_namespace("watch-namespace", &"a".repeat(63)).is_ok());
        assert!(check_namespace("watch-namespace", &"a".repeat(64)).is_err());
        let many = (0..=MAX_WATCHED_NAMESPACES).map(|n| format!("n{n}")).collect();
        assert_eq!(check_namespaces(many), Err(ConfigError::TooManyNamespaces { count: 65 }));
    }

    #[test]
    fn object_names_may_have_dots_and_long_nonsense_is_cut() {
        assert!(check_lease_name("lease-name", "punctual.v2").is_ok());
        assert!(check_lease_name("lease-name", &"a".repeat(233)).is_ok());
        assert!(check_lease_name("lease-name", &"a".repeat(234)).is_err());
        for bad in ["", ".", "a..b", "Punctual", "a/b"] {
            assert!(check_object_name("lease-name", bad).is_err(), "{bad:?}");
        }
        let error = check_object_name("lease-name", &"X".repeat(9999)).unwrap_err().to_string();
        assert!(error.len() < 400, "{error}");
    }
}
