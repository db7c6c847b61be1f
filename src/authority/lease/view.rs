//! The Lease object: what this operator reads in it and what it writes into it.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta},
};

use super::{LeaseConfig, Term};
use crate::{
    api::{ANNOTATION_ATTEMPT, ANNOTATION_EPOCH, ANNOTATION_NONCE, MAX_NAME_CHARS, truncate},
    authority::config::{MAX_DURATION, MIN_DURATION},
};

/// Longest holder identity that is kept, in characters: `<pod>/<nonce>`.
const MAX_HOLDER_CHARS: usize = MAX_NAME_CHARS + 1 + 64;

/// What a Lease says, as far as decisions go. Anything a person may have written into it is
/// tolerated: what cannot be used counts as absent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseView {
    /// Uid of the object.
    pub uid: String,
    /// Its version; the epoch of whoever replaces it.
    pub resource_version: i64,
    /// Who holds it; `None` if nobody does.
    pub holder: Option<String>,
    /// For how long, if it says so sensibly.
    pub duration: Option<Duration>,
    /// Published epoch of the term.
    pub epoch: Option<i64>,
    /// Nonce of the acquisition.
    pub nonce: Option<String>,
    /// Number of the renewal.
    pub attempt: Option<u64>,
    /// Somebody set `strategy` or `preferredHolder`: another party steers this Lease.
    pub steered: bool,
}

/// A Lease that no API server would give out: nothing can be decided from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnusableLease {
    /// No uid.
    #[error("the Lease has no metadata.uid")]
    NoUid,
    /// No resourceVersion, or one that is no positive number.
    #[error("the Lease's metadata.resourceVersion is not a positive number")]
    NoVersion,
}

impl LeaseView {
    /// Reads a Lease.
    pub fn of(lease: &Lease) -> Result<Self, UnusableLease> {
        let uid = lease.metadata.uid.clone().filter(|uid| !uid.is_empty());
        let version = lease.metadata.resource_version.as_deref();
        let version = version.and_then(|text| text.parse().ok()).filter(|version| *version > 0);
        let spec = lease.spec.as_ref();
        let of_spec = |get: fn(&LeaseSpec) -> &Option<String>| {
            spec.and_then(|spec| get(spec).clone()).filter(|text| !text.is_empty())
        };
        let secs = spec.and_then(|spec| spec.lease_duration_seconds);
        let note = |name: &str| {
            let notes = lease.metadata.annotations.as_ref()?;
            notes.get(name).filter(|text| !text.is_empty()).cloned()
        };
        Ok(Self {
            uid: uid.ok_or(UnusableLease::NoUid)?,
            resource_version: version.ok_or(UnusableLease::NoVersion)?,
            holder: of_spec(|spec| &spec.holder_identity)
                .map(|holder| truncate(&holder, MAX_HOLDER_CHARS)),
            duration: secs
                .and_then(|secs| u64::try_from(secs).ok())
                .map(Duration::from_secs)
                .filter(|duration| (MIN_DURATION..=MAX_DURATION).contains(duration)),
            epoch: note(ANNOTATION_EPOCH).and_then(|text| text.parse().ok()),
            nonce: note(ANNOTATION_NONCE),
            attempt: note(ANNOTATION_ATTEMPT).and_then(|text| text.parse().ok()),
            steered: of_spec(|spec| &spec.strategy).is_some()
                || of_spec(|spec| &spec.preferred_holder).is_some(),
        })
    }
}

/// Holder identity of an acquisition: `<pod>/<nonce>`.
pub fn holder(pod: &str, nonce: &str) -> String {
    format!("{pod}/{nonce}")
}

/// A Lease that nobody holds, to be created where there is none.
pub(in crate::authority) fn unheld(namespace: &str, name: &str, config: &LeaseConfig) -> Lease {
    Lease {
        metadata: ObjectMeta {
            namespace: Some(namespace.to_owned()),
            name: Some(name.to_owned()),
            ..ObjectMeta::default()
        },
        spec: Some(LeaseSpec {
            lease_duration_seconds: Some(config.duration_secs()),
            ..LeaseSpec::default()
        }),
    }
}

/// `read`, taken by a new term. Labels and annotations of others stay; a steering by others ends,
/// for whoever steered has had its way when the term before ended.
pub(in crate::authority) fn acquired(
    read: &Lease,
    term: &Term,
    pod: &str,
    config: &LeaseConfig,
    now: Timestamp,
) -> Lease {
    let before = read.spec.clone().unwrap_or_default();
    let mut lease = stamped(read, term, 0);
    lease.spec = Some(LeaseSpec {
        acquire_time: Some(MicroTime(now)),
        holder_identity: Some(holder(pod, &term.nonce)),
        lease_duration_seconds: Some(config.duration_secs()),
        lease_transitions: Some(before.lease_transitions.unwrap_or(0).saturating_add(1).max(1)),
        preferred_holder: None,
        renew_time: Some(MicroTime(now)),
        strategy: None,
    });
    lease
}

/// `read`, renewed by the term that holds it.
pub(in crate::authority) fn renewed(
    read: &Lease,
    term: &Term,
    attempt: u64,
    config: &LeaseConfig,
    now: Timestamp,
) -> Lease {
    let mut lease = stamped(read, term, attempt);
    let spec = lease.spec.get_or_insert_default();
    spec.lease_duration_seconds = Some(config.duration_secs());
    spec.renew_time = Some(MicroTime(now));
    lease
}

/// `read`, given back by the term that held it. Its annotations stay: they say which term it was.
pub(in crate::authority) fn given_back(read: &Lease, now: Timestamp) -> Lease {
    let mut lease = read.clone();
    lease.metadata.managed_fields = None;
    let spec = lease.spec.get_or_insert_default();
    spec.holder_identity = Some(String::new());
    spec.renew_time = Some(MicroTime(now));
    lease
}

fn stamped(read: &Lease, term: &Term, attempt: u64) -> Lease {
    let mut lease = read.clone();
    lease.metadata.managed_fields = None;
    let notes = lease.metadata.annotations.get_or_insert_default();
    notes.insert(ANNOTATION_EPOCH.to_owned(), term.epoch.to_string());
    notes.insert(ANNOTATION_NONCE.to_owned(), term.nonce.clone());
    notes.insert(ANNOTATION_ATTEMPT.to_owned(), attempt.to_string());
    lease
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn view(lease: Value) -> Result<LeaseView, UnusableLease> {
        LeaseView::of(&serde_json::from_value(lease).unwrap())
    }

    #[test]
    fn a_whole_lease_is_read() {
        let seen = view(json!({
            "metadata": {"uid": "u", "resourceVersion": "17", "annotations": {
                "punctual.dev/epoch": "12", "punctual.dev/nonce": "n", "punctual.dev/attempt": "3",
            }},
            "spec": {"holderIdentity": "pod/n", "leaseDurationSeconds": 10},
        }));
        let expected = LeaseView {
            uid: "u".into(),
            resource_version: 17,
            holder: Some("pod/n".into()),
            duration: Some(Duration::from_secs(10)),
            epoch: Some(12),
            nonce: Some("n".into()),
            attempt: Some(3),
            steered: false,
        };
        assert_eq!(seen, Ok(expected));
    }

    #[test]
    fn what_cannot_be_used_counts_as_absent() {
        let seen = view(json!({
            "metadata": {"uid": "u", "resourceVersion": "17", "annotations": {
                "punctual.dev/epoch": "twelve", "punctual.dev/nonce": "",
                "punctual.dev/attempt": "-3",
            }},
            "spec": {"holderIdentity": "", "leaseDurationSeconds": -5},
        }))
        .unwrap();
        assert_eq!((seen.holder, seen.duration), (None, None));
        assert_eq!((seen.epoch, seen.nonce, seen.attempt), (None, None, None));
        for secs in [0, 1, 301, i32::MAX] {
            let seen = view(json!({
                "metadata": {"uid": "u", "resourceVersion": "1"},
                "spec": {"leaseDurationSeconds": secs},
            }));
            assert_eq!(seen.unwrap().duration, None, "{secs} s is absurd");
        }
        let bare = view(json!({"metadata": {"uid": "u", "resourceVersion": "1"}})).unwrap();
        assert_eq!((bare.holder, bare.steered), (None, false));
    }

    #[test]
    fn without_uid_or_version_nothing_can_be_decided() {
        for (meta, why) in [
            (json!({"resourceVersion": "1"}), UnusableLease::NoUid),
            (json!({"uid": "", "resourceVersion": "1"}), UnusableLease::NoUid),
            (json!({"uid": "u"}), UnusableLease::NoVersion),
            (json!({"uid": "u", "resourceVersion": "x1"}), UnusableLease::NoVersion),
            (json!({"uid": "u", "resourceVersion": "0"}), UnusableLease::NoVersion),
            (json!({"uid": "u", "resourceVersion": "-4"}), UnusableLease::NoVersion),
        ] {
            assert_eq!(view(json!({"metadata": meta})), Err(why), "{meta}");
        }
    }

    #[test]
    fn steering_is_seen_in_both_fields() {
        for (field, steered) in [("strategy", true), ("preferredHolder", true), ("other", false)] {
            let seen = view(json!({
                "metadata": {"uid": "u", "resourceVersion": "1"}, "spec": {field: "x"},
            }));
            assert_eq!(seen.unwrap().steered, steered, "{field}");
        }
    }

    #[test]
    fn writes_keep_what_others_put_there_and_the_precondition() {
        let config = LeaseConfig::new(Duration::from_secs(10), 0).unwrap();
        let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let read: Lease = serde_json::from_value(json!({
            "metadata": {
                "name": "punctual", "namespace": "ops", "uid": "u", "resourceVersion": "17",
                "labels": {"team": "a"}, "annotations": {"note": "b", "punctual.dev/epoch": "1"},
                "managedFields": [{"manager": "x"}],
            },
            "spec": {"holderIdentity": "old", "leaseTransitions": 4, "strategy": "Oldest",
                "preferredHolder": "z"},
        }))
        .unwrap();
        let term = Term { epoch: 17, nonce: "n".into() };
        let taken = acquired(&read, &term, "pod", &config, now);
        let seen = LeaseView::of(&taken).unwrap();
        assert_eq!((seen.uid.as_str(), seen.resource_version), ("u", 17));
        assert_eq!((seen.epoch, seen.nonce.as_deref()), (Some(17), Some("n")));
        assert_eq!((seen.holder.as_deref(), seen.attempt), (Some("pod/n"), Some(0)));
        assert!(!seen.steered, "a new term starts unsteered");
        let spec = taken.spec.as_ref().unwrap();
        assert_eq!((spec.lease_transitions, spec.lease_duration_seconds), (Some(5), Some(10)));
        let annotations = taken.metadata.annotations.as_ref().unwrap();
        assert_eq!((annotations["note"].as_str(), annotations.len()), ("b", 4));
        assert_eq!(taken.metadata.labels.as_ref().unwrap()["team"], "a");
        assert_eq!(taken.metadata.managed_fields, None);

        let renewal = renewed(&taken, &term, 8, &config, now);
        assert_eq!(LeaseView::of(&renewal).unwrap().attempt, Some(8));
        assert_eq!(renewal.spec.as_ref().unwrap().lease_transitions, Some(5));
        let free = LeaseView::of(&given_back(&renewal, now)).unwrap();
        assert_eq!((free.holder, free.nonce.as_deref()), (None, Some("n")));
        let new = unheld("ops", "punctual", &config);
        assert_eq!((new.metadata.name.as_deref(), new.metadata.uid), (Some("punctual"), None));
    }
}
