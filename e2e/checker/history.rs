//! The history of a test: what was written to its objects, in the order in which it was committed.
//!
//! The source is the API server's audit log, never what the operator says. An object's
//! `resourceVersion` is etcd's revision, one counter for the whole cluster, so it orders all writes
//! of all kinds. Only a deletion leaves none behind: it stands after the last write that was answered
//! before it was asked for.

use std::fmt;

use jiff::Timestamp;
use serde_json::Value;

/// Pointer to the resourceVersion of an object.
const RESOURCE_VERSION: &str = "/metadata/resourceVersion";

/// Place of an entry in the history.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Revision of the cluster.
    revision: u64,
    /// Deletions come after the write of their revision, in the order of the log.
    after: usize,
}

/// Who an entry is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Actor {
    /// A replica of the operator: a service account outside kube-system.
    Operator,
    /// A part of Kubernetes.
    Cluster,
    /// A person, or the test.
    Person,
    /// Nobody: the object as read when the history was checked.
    Reading,
}

/// A write, refused or committed, or an object as read at the end.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Where it stands, if it was committed.
    pub place: Option<Place>,
    /// `create`, `update`, `patch`, `delete`, `deletecollection`, or `read`.
    pub verb: String,
    /// Plural of the kind.
    pub resource: String,
    /// `status` or empty.
    pub subresource: String,
    /// Name of the object.
    pub name: String,
    /// Uid of the object, if the log says it.
    pub uid: String,
    /// User.
    pub user: String,
    /// Who that is.
    pub actor: Actor,
    /// Status code of the answer.
    pub code: u64,
    /// The API server's sentence, if it refused.
    pub message: String,
    /// What was sent.
    pub request: Value,
    /// The object that the write left behind; null after a deletion.
    pub object: Value,
    /// When the request came.
    pub received: Timestamp,
    /// When it was answered.
    pub answered: Timestamp,
    /// Id in the audit log.
    pub audit_id: String,
}

/// A line of the log that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("audit log line {line}: {problem}")]
pub struct BadLine {
    /// Number of the line, from 1.
    pub line: usize,
    /// What is wrong.
    pub problem: String,
}

/// The history of one namespace.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// What was committed, in order.
    pub committed: Vec<Entry>,
    /// What was refused, in the order of the log.
    pub refused: Vec<Entry>,
}

impl History {
    /// Reads the lines of an audit log, `namespace` only, and adds objects read live. An object read
    /// at a version that the log does not have fills a hole that a killed API server leaves: it
    /// commits a write and dies before it records it.
    pub fn read<'a>(
        lines: impl IntoIterator<Item = &'a str>,
        namespace: &str,
        live: &[Value],
    ) -> Result<Self, BadLine> {
        let mut entries = Vec::new();
        for (index, line) in lines.into_iter().enumerate() {
            let bad = |problem: String| BadLine { line: index + 1, problem };
            let event: Value =
                serde_json::from_str(line).map_err(|error| bad(error.to_string()))?;
            if let Some(entry) = parse(&event, namespace).map_err(bad)? {
                entries.push((entry, revision(&event["responseObject"])));
            }
        }
        let mut history = Self::default();
        for (index, (entry, revision)) in entries.iter().enumerate() {
            let mut entry = entry.clone();
            if !(200..300).contains(&entry.code) {
                history.refused.push(entry);
                continue;
            }
            entry.place = Some(match revision {
                Some(revision) if !entry.is_gone() => Place { revision: *revision, after: 0 },
                // Whoever takes the last finalizer away is answered with the version before.
                Some(_) | None => {
                    Place { revision: answered_before(&entries, entry.received), after: index + 1 }
                }
            });
            history.committed.push(entry);
        }
        for object in live {
            history.add_reading(object);
        }
        history.committed.sort_by_key(|entry| (entry.place, entry.received));
        history.drop_writes_without_effect();
        Ok(history)
    }

    fn add_reading(&mut self, object: &Value) {
        let Some(revision) = revision(object) else { return };
        let place = Some(Place { revision, after: 0 });
        if self
            .committed
            .iter()
            .any(|entry| entry.place == place && entry.uid == at(object, "/metadata/uid"))
        {
            return;
        }
        self.committed.push(Entry {
            place,
            verb: "read".to_owned(),
            resource: plural(at(object, "/kind")).to_owned(),
            subresource: String::new(),
            name: at(object, "/metadata/name").to_owned(),
            uid: at(object, "/metadata/uid").to_owned(),
            user: String::new(),
            actor: Actor::Reading,
            code: 200,
            message: String::new(),
            request: Value::Null,
            object: object.clone(),
            received: Timestamp::UNIX_EPOCH,
            answered: Timestamp::UNIX_EPOCH,
            audit_id: String::new(),
        });
    }

    /// A write that changes nothing is answered with the version that was there before: it is no
    /// write, and its sender must not be taken for the writer of that version.
    fn drop_writes_without_effect(&mut self) {
        let mut seen = std::collections::BTreeSet::new();
        self.committed.retain(|entry| {
            let versioned = entry.place.filter(|place| place.after == 0);
            versioned.is_none_or(|place| seen.insert((place, entry.uid.clone())))
        });
    }

    /// Entries about one kind.
    pub fn of<'a>(&'a self, resource: &'a str) -> impl Iterator<Item = &'a Entry> {
        self.committed.iter().filter(move |entry| entry.resource == resource)
    }

    /// Whether the API server gave up on a write to this object, because time ran out or its sender
    /// hung up: the write may have been committed all the same, and then no entry shows it.
    pub fn gave_up(&self, resource: &str, name: &str) -> bool {
        self.refused
            .iter()
            .any(|entry| entry.code >= 500 && entry.resource == resource && entry.name == name)
    }

    /// Whether the log may lack the last versions of an object.
    pub fn may_lack(&self, object: &Value) -> bool {
        self.gave_up(plural(at(object, "/kind")), at(object, "/metadata/name"))
    }

    /// Whether the log has this version of this object, or a later one.
    pub fn reaches(&self, object: &Value) -> bool {
        let uid = at(object, "/metadata/uid");
        let wanted = revision(object);
        self.committed
            .iter()
            .filter(|entry| entry.actor != Actor::Reading && entry.uid == uid)
            .any(|entry| entry.place.map(|place| place.revision) >= wanted)
    }
}

impl Entry {
    /// The text at a pointer into the object left behind; empty if there is none.
    pub fn text(&self, pointer: &str) -> &str {
        at(&self.object, pointer)
    }

    /// An annotation of the object.
    pub fn annotation(&self, name: &str) -> &str {
        self.object["metadata"]["annotations"][name].as_str().unwrap_or_default()
    }

    /// `status.fence` of the object.
    pub fn fence(&self) -> Option<(i64, &str)> {
        let fence = &self.object["status"]["fence"];
        Some((fence["epoch"].as_i64()?, fence["nonce"].as_str()?))
    }

    /// `status.fence` of the body that was sent.
    pub fn sent_fence(&self) -> Option<(i64, &str)> {
        let fence = &self.request["status"]["fence"];
        Some((fence["epoch"].as_i64()?, fence["nonce"].as_str()?))
    }

    /// Whether the object is gone after it: deleted at once, or its last finalizer taken away.
    pub fn is_gone(&self) -> bool {
        if self.verb == "delete" && self.object.is_null() {
            return true;
        }
        let finalizers = self.object["metadata"]["finalizers"].as_array();
        !self.object["metadata"]["deletionTimestamp"].is_null()
            && finalizers.is_none_or(Vec::is_empty)
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let revision =
            self.place.map_or("refused".to_owned(), |place| format!("rv {}", place.revision));
        let slash = if self.subresource.is_empty() { "" } else { "/" };
        write!(
            f,
            "{} {}/{}{slash}{} by {} ({revision}, {}, audit {})",
            self.verb,
            self.resource,
            self.name,
            self.subresource,
            self.user,
            self.code,
            self.audit_id
        )
    }
}

/// The text at a pointer, empty if there is none.
pub fn at<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// The revision of an object; none of a `Status`.
pub fn revision(object: &Value) -> Option<u64> {
    at(object, RESOURCE_VERSION).parse().ok().filter(|_| object["kind"] != "Status")
}

/// The highest revision that was answered before `moment`.
fn answered_before(entries: &[(Entry, Option<u64>)], moment: Timestamp) -> u64 {
    entries
        .iter()
        .filter(|(entry, _)| entry.answered <= moment)
        .filter_map(|(_, revision)| *revision)
        .max()
        .unwrap_or(0)
}

fn plural(kind: &str) -> &str {
    match kind {
        "MaintenanceSchedule" => "maintenanceschedules",
        "MaintenanceOccurrence" => "maintenanceoccurrences",
        "ReportQueue" => "reportqueues",
        "ReportJob" => "reportjobs",
        "ReportSchedule" => "reportschedules",
        "RecoveryTrace" => "recoverytraces",
        "Job" => "jobs",
        "Lease" => "leases",
        other => other,
    }
}

fn actor(user: &str) -> Actor {
    if user.starts_with("system:serviceaccount:kube-system:") {
        Actor::Cluster
    } else if user.starts_with("system:serviceaccount:") {
        Actor::Operator
    } else if user.starts_with("system:") || user == "punctual-e2e-kwok" {
        Actor::Cluster
    } else {
        Actor::Person
    }
}

/// Whether the history has objects of this kind. CronJobs, beside which a scenario runs ours, are
/// nobody's business, and their audit records carry no objects.
fn is_kept(group: &str, resource: &str) -> bool {
    matches!(
        (group, resource),
        ("punctual.dev", _) | ("coordination.k8s.io", "leases") | ("batch", "jobs")
    )
}

/// A write to an object of the history, or nothing: another namespace, kind or stage, a read, a dry run.
fn parse(event: &Value, namespace: &str) -> Result<Option<Entry>, String> {
    let of = |pointer| at(event, pointer);
    let writes = ["create", "update", "patch", "delete", "deletecollection"];
    if of("/stage") != "ResponseComplete"
        || of("/objectRef/namespace") != namespace
        || !writes.contains(&of("/verb"))
        || !is_kept(of("/objectRef/apiGroup"), of("/objectRef/resource"))
    {
        return Ok(None);
    }
    let query = of("/requestURI").split_once('?').map_or("", |(_, query)| query);
    if query.contains("dryRun=") || !event["requestObject"]["dryRun"].is_null() {
        return Ok(None);
    }
    let code = event
        .pointer("/responseStatus/code")
        .and_then(Value::as_u64)
        .ok_or("it has no status code")?;
    let response = &event["responseObject"];
    let is_object = response["kind"] != "Status" && !response.is_null();
    let committed = (200..300).contains(&code);
    if committed && !is_object && !of("/verb").starts_with("delete") {
        return Err(
            "a write without the object it left behind: the audit level is too low".to_owned()
        );
    }
    let object = if committed && is_object { response.clone() } else { Value::Null };
    let first = |candidates: [&str; 4]| {
        candidates.into_iter().find(|text| !text.is_empty()).unwrap_or_default().to_owned()
    };
    let time = |pointer| of(pointer).parse().map_err(|error| format!("{pointer}: {error}"));
    Ok(Some(Entry {
        place: None,
        verb: of("/verb").to_owned(),
        resource: of("/objectRef/resource").to_owned(),
        subresource: of("/objectRef/subresource").to_owned(),
        name: first([
            at(&object, "/metadata/name"),
            of("/objectRef/name"),
            of("/requestObject/metadata/name"),
            "",
        ]),
        uid: first([
            at(&object, "/metadata/uid"),
            of("/responseObject/details/uid"),
            of("/objectRef/uid"),
            "",
        ]),
        user: of("/user/username").to_owned(),
        actor: actor(of("/user/username")),
        code,
        message: if committed { String::new() } else { of("/responseStatus/message").to_owned() },
        request: event["requestObject"].clone(),
        object,
        received: time("/requestReceivedTimestamp")?,
        answered: time("/stageTimestamp")?,
        audit_id: of("/auditID").to_owned(),
    }))
}
