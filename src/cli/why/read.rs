//! What an answer needs, read from the cluster by get and list.

use jiff::Timestamp;
use k8s_openapi::api::{coordination::v1::Lease, events::v1::Event};
use serde_json::Value;

use super::snapshot::{Snapshot, instant_in, text};
use crate::{
    api::{
        MaintenanceOccurrence, MaintenanceSchedule, RecoveryTrace, ReportJob, ReportQueue,
        ReportSchedule,
    },
    cli::{CliError, target::TargetKind, trouble::Call},
    cluster::{ApiError, Listed, Object, ObjectKey, Person, Raw, Reader},
    identity::occurrence_name,
    time::{IntendedTime, SkipReason},
};

/// Name of the Lease unless it is said: the chart's.
const DEFAULT_LEASE: &str = "punctual";

/// Which Lease the operator has; without it, the one that the newest recovery trace names.
#[derive(Debug, Default, clap::Args)]
pub(in crate::cli) struct LeasePlace {
    /// Namespace of the operator's Lease; default: that of the newest RecoveryTrace.
    #[arg(long, value_name = "NAMESPACE")]
    pub(in crate::cli) lease_namespace: Option<String>,
    /// Name of the operator's Lease; default: the one in the newest RecoveryTrace, else punctual.
    #[arg(long, value_name = "NAME")]
    pub(in crate::cli) lease_name: Option<String>,
}

impl LeasePlace {
    /// The Lease, as far as it is known.
    pub(in crate::cli) fn find(&self, traces: &[Value]) -> Option<ObjectKey> {
        let epoch = |trace: &&Value| trace.pointer("/spec/epoch").and_then(Value::as_i64);
        let newest = traces
            .iter()
            .filter(|trace| {
                let place = text(trace, "/metadata/namespace");
                self.lease_namespace.as_deref().is_none_or(|wanted| wanted == place)
            })
            .filter(|trace| {
                let name = text(trace, "/spec/leaseName");
                self.lease_name.as_deref().is_none_or(|wanted| wanted == name)
            })
            .max_by_key(epoch);
        let of_trace = |pointer: &str| newest.map(|trace| text(trace, pointer).to_owned());
        let namespace = self.lease_namespace.clone().or_else(|| of_trace("/metadata/namespace"))?;
        let name = self.lease_name.clone().or_else(|| of_trace("/spec/leaseName"));
        Some(ObjectKey::new(namespace, name.unwrap_or_else(|| DEFAULT_LEASE.to_owned())))
    }
}

/// An object as it is, whatever it contains.
pub(super) async fn get<K: Object>(
    reader: &Reader,
    key: &ObjectKey,
) -> Result<Option<Value>, ApiError> {
    let found: Option<Raw<K>> = reader.get(key).await?;
    found.map(to_value).transpose()
}

fn to_value<K: Object>(raw: Raw<K>) -> Result<Value, ApiError> {
    serde_json::to_value(raw).map_err(|error| ApiError::Malformed { message: error.to_string() })
}

/// Objects of a namespace or of all that match a field selector, as they are.
pub(in crate::cli) async fn list<K: Object>(
    reader: &Reader,
    namespace: Option<&str>,
    fields: &str,
) -> Result<Vec<Value>, ApiError> {
    let listed = reader.list_where::<Raw<K>>(namespace, fields).await?;
    listed.items.into_iter().map(to_value).collect()
}

/// Objects of a namespace or of all that match a field selector and that `keep` wants. They are read
/// page by page, and of a long list only these are held.
pub(in crate::cli) async fn sift<K: Object>(
    reader: &Reader,
    namespace: Option<&str>,
    fields: &str,
    mut keep: impl FnMut(&Value) -> bool,
) -> Result<Vec<Value>, ApiError> {
    let (mut kept, mut broken) = (Vec::new(), None);
    let take = |begins: bool, page: Listed<Raw<K>>, _: i64| {
        if begins {
            kept.clear();
        }
        for read in page.items.into_iter().map(to_value) {
            match read {
                Ok(value) if keep(&value) => kept.push(value),
                Ok(_) => {}
                Err(error) => broken = Some(error),
            }
        }
    };
    reader.pages(namespace, fields, take).await?;
    broken.map_or(Ok(kept), Err)
}

/// Recovery traces of all namespaces, or, where that is not allowed, of the operator's; and where that
/// was.
pub(in crate::cli) async fn traces<'a>(
    reader: &Reader,
    place: &'a LeasePlace,
) -> (Option<&'a str>, Result<Vec<Value>, ApiError>) {
    match (list::<RecoveryTrace>(reader, None, "").await, place.lease_namespace.as_deref()) {
        (Err(ApiError::Forbidden { .. }), Some(namespace)) => {
            (Some(namespace), list::<RecoveryTrace>(reader, Some(namespace), "").await)
        }
        (read, _) => (None, read),
    }
}

/// What tells of the Lease among events.
pub(in crate::cli) fn events_of_lease(lease: &ObjectKey) -> String {
    format!("regarding.kind=Lease,regarding.name={}", lease.name)
}

/// What is asked.
#[derive(Clone, Debug)]
pub(super) struct Question {
    /// The kind.
    pub(super) subject: TargetKind,
    /// The object, or the schedule whose instant is asked about.
    pub(super) key: ObjectKey,
    /// The instant of a schedule.
    pub(super) at: Option<IntendedTime>,
    /// When it is asked.
    pub(super) now: Timestamp,
}

/// Reads everything that the answer depends on.
pub(super) async fn gather(
    person: &Person,
    question: Question,
    lease: &LeasePlace,
) -> Result<Snapshot, CliError> {
    let Question { subject, key, at, now } = question;
    let mut snapshot = Snapshot::of(subject, key, now);
    snapshot.at = at;
    let mut gathering = Gathering { person, reader: person.reader(), snapshot };
    gathering.object(subject).await?;
    gathering.relatives(subject).await?;
    gathering.events().await;
    gathering.leaders(lease).await;
    Ok(gathering.snapshot)
}

struct Gathering<'a> {
    person: &'a Person,
    reader: Reader,
    snapshot: Snapshot,
}

impl Gathering<'_> {
    fn key(&self, name: &str) -> ObjectKey {
        ObjectKey::new(&self.snapshot.key.namespace, name)
    }

    /// The object itself: without it there is no answer.
    async fn object(&mut self, subject: TargetKind) -> Result<(), CliError> {
        let name = self.snapshot.key.name.clone();
        self.snapshot.object = match (subject, self.snapshot.at) {
            (TargetKind::MaintenanceSchedule, Some(at)) => {
                self.need::<MaintenanceOccurrence>(&occurrence_name(&name, at)).await?
            }
            (TargetKind::ReportSchedule, Some(at)) => {
                self.need::<ReportJob>(&occurrence_name(&name, at)).await?
            }
            (TargetKind::MaintenanceOccurrence, _) => {
                self.need::<MaintenanceOccurrence>(&name).await?
            }
            (TargetKind::MaintenanceSchedule, None) => {
                self.need::<MaintenanceSchedule>(&name).await?
            }
            (TargetKind::ReportJob, _) => self.need::<ReportJob>(&name).await?,
            (TargetKind::ReportQueue, _) => self.need::<ReportQueue>(&name).await?,
            (TargetKind::ReportSchedule, None) => self.need::<ReportSchedule>(&name).await?,
            (TargetKind::RecoveryTrace, _) => self.need::<RecoveryTrace>(&name).await?,
        };
        Ok(())
    }

    async fn need<K: Object>(&self, name: &str) -> Result<Option<Value>, CliError> {
        let read = get::<K>(&self.reader, &self.key(name)).await;
        read.map_err(|error| self.call::<K>("get").failed(error))
    }

    /// A call about objects beside the one that is asked about.
    fn call<K: Object>(&self, verb: &'static str) -> Call {
        Call::of::<K>(verb, self.person).within(Some(&self.snapshot.key.namespace))
    }

    /// Its schedule, its queue, and what else waits in that.
    async fn relatives(&mut self, subject: TargetKind) -> Result<(), CliError> {
        let name = self.snapshot.key.name.clone();
        let object = self.snapshot.object.clone().unwrap_or_default();
        let named =
            |pointer: &str| Some(text(&object, pointer).to_owned()).filter(|n| !n.is_empty());
        let in_name = || instant_in(&name).map(|(schedule, _)| schedule.to_owned());
        match subject {
            TargetKind::MaintenanceOccurrence => {
                if let Some(schedule) = named("/spec/scheduleName").or_else(in_name) {
                    self.snapshot.schedule = self.need::<MaintenanceSchedule>(&schedule).await?;
                    self.siblings::<MaintenanceOccurrence>(&schedule, &object).await;
                }
            }
            TargetKind::MaintenanceSchedule => {
                self.snapshot.schedule = self.need::<MaintenanceSchedule>(&name).await?;
                if self.snapshot.at.is_some() {
                    self.siblings::<MaintenanceOccurrence>(&name, &object).await;
                }
            }
            TargetKind::ReportSchedule => {
                self.snapshot.schedule = self.need::<ReportSchedule>(&name).await?;
                if self.snapshot.at.is_some() && self.snapshot.object.is_none() {
                    self.siblings::<ReportJob>(&name, &object).await;
                }
                if let Some(queue) = named("/spec/queueName") {
                    self.queue(&queue, &object).await;
                }
            }
            TargetKind::ReportJob => {
                let scheduled = named("/spec/scheduleName")
                    .or_else(|| in_name().filter(|_| self.snapshot.object.is_none()));
                if let Some(schedule) = scheduled {
                    self.snapshot.schedule = self.need::<ReportSchedule>(&schedule).await?;
                    if self.snapshot.object.is_none() {
                        self.siblings::<ReportJob>(&schedule, &object).await;
                    }
                }
                if let Some(queue) = named("/spec/queueName") {
                    self.queue(&queue, &object).await;
                }
            }
            TargetKind::ReportQueue => {
                self.snapshot.queue.clone_from(&self.snapshot.object);
                self.line(&name).await;
            }
            TargetKind::RecoveryTrace => {}
        }
        Ok(())
    }

    /// What else a schedule made: something of it may be, or have been, in the way of this one.
    async fn siblings<K: Object>(&mut self, schedule: &str, object: &Value) {
        let waits = matches!(text(object, "/status/state"), "" | "Pending");
        let gave_way = text(object, "/status/reason") == SkipReason::Concurrent.as_str();
        if self.snapshot.schedule.is_none() || !(waits || gave_way) {
            return;
        }
        let namespace = self.snapshot.key.namespace.clone();
        let fields = format!("spec.scheduleName={schedule}");
        let read = list::<K>(&self.reader, Some(&namespace), &fields).await;
        self.snapshot.others_read = read.is_ok();
        self.snapshot.others = self.soft(&self.call::<K>("list"), read);
    }

    async fn queue(&mut self, queue: &str, report: &Value) {
        let key = self.key(queue);
        let read = get::<ReportQueue>(&self.reader, &key).await;
        self.snapshot.queue = self.soft(&self.call::<ReportQueue>("get"), read);
        // Only what waits has others before it.
        if self.snapshot.queue.is_some() && matches!(text(report, "/status/state"), "" | "Queued") {
            self.line(queue).await;
        }
    }

    /// What is not over in a queue.
    async fn line(&mut self, queue: &str) {
        let namespace = self.snapshot.key.namespace.clone();
        let over = ["Succeeded", "Failed", "Cancelled", "Rejected"];
        let open = over.map(|state| format!("status.state!={state}")).join(",");
        let fields = format!("spec.queueName={queue},{open}");
        let read = list::<ReportJob>(&self.reader, Some(&namespace), &fields).await;
        self.snapshot.others = self.soft(&self.call::<ReportJob>("list"), read);
    }

    async fn events(&mut self) {
        let namespace = self.snapshot.key.namespace.clone();
        let of = |kind: &str, name: &str| format!("regarding.kind={kind},regarding.name={name}");
        // What has no object is told of by its schedule.
        let object = self.snapshot.object.as_ref().or(self.snapshot.schedule.as_ref());
        let named = |pointer: &str| object.map(|o| text(o, pointer).to_owned());
        let kind = named("/kind").filter(|kind| !kind.is_empty());
        let kind = kind.unwrap_or_else(|| self.snapshot.subject.kind().to_owned());
        let name = named("/metadata/name").unwrap_or_else(|| self.snapshot.key.name.clone());
        let read = list::<Event>(&self.reader, Some(&namespace), &of(&kind, &name)).await;
        self.snapshot.events = self.soft(&self.call::<Event>("list"), read);
    }

    /// Who led, and who leads.
    async fn leaders(&mut self, place: &LeasePlace) {
        let (of, traces) = traces(&self.reader, place).await;
        self.snapshot.traces = self.soft(&self.call::<RecoveryTrace>("list").within(of), traces);
        let Some(lease) = place.find(&self.snapshot.traces) else { return };
        let place = Some(lease.namespace.as_str());
        let read = get::<Lease>(&self.reader, &lease).await;
        self.snapshot.lease = self.soft(&self.call::<Lease>("get").within(place), read);
        let read = list::<Event>(&self.reader, place, &events_of_lease(&lease)).await;
        let call = self.call::<Event>("list").within(place);
        self.snapshot.lease_events = self.soft(&call, read);
    }

    /// What can be done without: if it cannot be read, the answer says that it is missing.
    fn soft<T: Default>(&mut self, call: &Call, read: Result<T, ApiError>) -> T {
        read.unwrap_or_else(|error| {
            let sentence = call.left_out(&error);
            if !self.snapshot.not_read.contains(&sentence) {
                self.snapshot.not_read.push(sentence);
            }
            T::default()
        })
    }
}
