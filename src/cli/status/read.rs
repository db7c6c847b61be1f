//! What `punctual status` needs, read by get and list.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::{coordination::v1::Lease, events::v1::Event};
use serde_json::Value;
use tokio::time::sleep;

use super::fences::{self, Fences, Key, fence_of};
use crate::{
    api::{
        MaintenanceOccurrence, MaintenanceSchedule, RecoveryTrace, ReportJob, ReportQueue,
        ReportSchedule,
    },
    cli::{
        CliError,
        target::TargetKind,
        trouble::Call,
        why::{self, snapshot::text},
    },
    cluster::{ApiError, Object, ObjectKey, Person},
    runs::{CREATE_REFUSED, PROVIDER_UNREACHABLE},
    time::WallClock,
};

/// How often the Lease is read again while a renewal is waited for.
const LOOK_AGAIN: Duration = Duration::from_millis(300);
/// Most looks: three seconds in all, twice the time between renewals.
const MAX_LOOKS: u32 = 10;

/// Reasons of what is accepted and cannot start until a person does something about it.
const STUCK: [&str; 4] =
    [CREATE_REFUSED, PROVIDER_UNREACHABLE, "ScheduleNotFound", "QueueNotFound"];

/// States of an occurrence that is over.
const OCCURRENCE_OVER: [&str; 5] = ["Succeeded", "Failed", "Cancelled", "Skipped", "Superseded"];
/// States of a report that is over.
const REPORT_OVER: [&str; 4] = ["Succeeded", "Failed", "Cancelled", "Rejected"];
/// Most objects that are read because an event names them: as many as are listed one by one.
const MAX_LOOKED_UP: usize = 30;

/// Whether nobody knows how something ended.
fn is_unresolved(work: &Value) -> bool {
    text(work, "/status/state") == "Unresolved"
}

/// Whether something is accepted and cannot start.
fn is_stuck(work: &Value) -> bool {
    ["Pending", "Queued"].contains(&text(work, "/status/state"))
        && STUCK.contains(&text(work, "/status/reason"))
}

/// Everything that the report depends on.
#[derive(Clone, Debug)]
pub(super) struct Facts {
    /// When it was read, by this machine's clock.
    pub(super) now: Timestamp,
    /// The API server's clock at the last look at the Lease.
    pub(super) server_time: Option<Timestamp>,
    /// The namespace looked at; `None` for all.
    pub(super) namespace: Option<String>,
    /// Which Lease was looked at.
    pub(super) lease_key: Option<ObjectKey>,
    /// The Lease at the last look.
    pub(super) lease: Option<Value>,
    /// Whether it changed while it was looked at.
    pub(super) renewed: bool,
    /// Schedules of both kinds.
    pub(super) schedules: Vec<Value>,
    /// Queues.
    pub(super) queues: Vec<Value>,
    /// Occurrences and reports that are Unresolved.
    pub(super) unresolved: Vec<Value>,
    /// Occurrences and reports that cannot start, for a reason that a person can remove.
    pub(super) stuck: Vec<Value>,
    /// Recovery traces.
    pub(super) traces: Vec<Value>,
    /// Fences of schedules, queues and what is not over, and of what events say is left alone.
    pub(super) fences: Fences,
    /// Events about objects that are left alone.
    pub(super) foreign: Vec<Value>,
    /// Events about the Lease.
    pub(super) lease_events: Vec<Value>,
    /// What could not be read, a sentence each.
    pub(super) not_read: Vec<String>,
}

/// Reads everything.
pub(super) async fn gather(
    person: &Person,
    all: bool,
    lease: &why::read::LeasePlace,
) -> Result<Facts, CliError> {
    let namespace = (!all).then(|| person.namespace().to_owned());
    let mut reading = Reading {
        person,
        namespace,
        fences: Fences::new(),
        not_read: Vec::new(),
        answers: false,
        trouble: None,
    };
    let traces = reading.traces(lease).await;
    let schedules = [
        reading.fenced::<MaintenanceSchedule>(TargetKind::MaintenanceSchedule).await,
        reading.fenced::<ReportSchedule>(TargetKind::ReportSchedule).await,
    ]
    .concat();
    let queues = reading.fenced::<ReportQueue>(TargetKind::ReportQueue).await;
    let occurrences = TargetKind::MaintenanceOccurrence;
    let work = [
        reading.open::<MaintenanceOccurrence>(occurrences, &OCCURRENCE_OVER).await,
        reading.open::<ReportJob>(TargetKind::ReportJob, &REPORT_OVER).await,
    ]
    .concat();
    let (unresolved, stuck) = work.into_iter().partition(is_unresolved);
    let foreign = reading.list::<Event>("reason=ForeignFence").await;
    reading.look_up(&foreign).await;
    let lease_key = lease.find(&traces);
    let lease_events = match &lease_key {
        Some(key) => reading.events_of_lease(key).await,
        None => Vec::new(),
    };
    if let (false, Some(trouble)) = (reading.answers, reading.trouble) {
        return Err(trouble);
    }
    let mut facts = Facts {
        now: WallClock::system().now(),
        server_time: None,
        namespace: reading.namespace.clone(),
        lease_key,
        lease: None,
        renewed: false,
        schedules,
        queues,
        unresolved,
        stuck,
        traces,
        fences: reading.fences,
        foreign,
        lease_events,
        not_read: reading.not_read,
    };
    look_at_lease(person, &mut facts).await;
    facts.now = WallClock::system().now();
    Ok(facts)
}

struct Reading<'a> {
    person: &'a Person,
    namespace: Option<String>,
    fences: Fences,
    not_read: Vec<String>,
    /// Whether anything was answered.
    answers: bool,
    /// What went wrong first.
    trouble: Option<CliError>,
}

impl Reading<'_> {
    async fn list<K: Object>(&mut self, fields: &str) -> Vec<Value> {
        let namespace = self.namespace.clone();
        let reader = self.person.reader();
        let read = why::read::list::<K>(&reader, namespace.as_deref(), fields).await;
        self.soft::<K>(namespace.as_deref(), read)
    }

    /// All of a kind.
    async fn fenced<K: Object>(&mut self, kind: TargetKind) -> Vec<Value> {
        let read = self.list::<K>("").await;
        self.fences.extend(read.iter().map(|object| (Key::of(kind, object), fence_of(object))));
        read
    }

    /// Of what is in none of these states, which may be thousands: what is Unresolved or cannot start.
    async fn open<K: Object>(&mut self, kind: TargetKind, over: &[&str]) -> Vec<Value> {
        let namespace = self.namespace.clone();
        let reader = self.person.reader();
        let fields: Vec<String> = over.iter().map(|s| format!("status.state!={s}")).collect();
        let fences = &mut self.fences;
        let keep = |object: &Value| {
            fences.insert(Key::of(kind, object), fence_of(object));
            is_unresolved(object) || is_stuck(object)
        };
        let place = namespace.as_deref();
        let read = why::read::sift::<K>(&reader, place, &fields.join(","), keep).await;
        self.soft::<K>(place, read)
    }

    /// What events say is left alone, and is not among what was read: it is over, or not there. What
    /// cannot be looked up stands as the event says.
    async fn look_up(&mut self, events: &[Value]) {
        let told = fences::told(events).into_iter();
        let unseen: Vec<_> = told.filter(|(key, _)| !self.fences.contains_key(key)).collect();
        for (key, told) in unseen.into_iter().take(MAX_LOOKED_UP) {
            let read = match told.kind {
                TargetKind::MaintenanceOccurrence => self.one::<MaintenanceOccurrence>(&key).await,
                TargetKind::MaintenanceSchedule => self.one::<MaintenanceSchedule>(&key).await,
                TargetKind::ReportJob => self.one::<ReportJob>(&key).await,
                TargetKind::ReportQueue => self.one::<ReportQueue>(&key).await,
                TargetKind::ReportSchedule => self.one::<ReportSchedule>(&key).await,
                TargetKind::RecoveryTrace => self.one::<RecoveryTrace>(&key).await,
            };
            if let Ok(found) = read {
                self.fences.insert(key, found.first().and_then(fence_of));
            }
        }
    }

    /// One object, by the right to list: no other is needed for the rest.
    async fn one<K: Object>(&self, key: &Key) -> Result<Vec<Value>, ApiError> {
        let fields = format!("metadata.name={}", key.name);
        why::read::list::<K>(&self.person.reader(), Some(&key.namespace), &fields).await
    }

    async fn traces(&mut self, lease: &why::read::LeasePlace) -> Vec<Value> {
        let (place, read) = why::read::traces(&self.person.reader(), lease).await;
        self.soft::<RecoveryTrace>(place, read)
    }

    async fn events_of_lease(&mut self, key: &ObjectKey) -> Vec<Value> {
        let (place, fields) = (Some(key.namespace.as_str()), why::read::events_of_lease(key));
        let read = why::read::list::<Event>(&self.person.reader(), place, &fields).await;
        self.soft::<Event>(place, read)
    }

    fn soft<K: Object>(
        &mut self,
        namespace: Option<&str>,
        read: Result<Vec<Value>, ApiError>,
    ) -> Vec<Value> {
        match read {
            Ok(read) => {
                self.answers = true;
                read
            }
            Err(error) => {
                let call = Call::of::<K>("list", self.person).within(namespace);
                let sentence = call.left_out(&error);
                if !self.not_read.contains(&sentence) {
                    self.not_read.push(sentence);
                }
                // A kind that is not installed is an answer: there are none.
                self.answers |= error == ApiError::NotFound;
                self.trouble.get_or_insert(call.failed(error));
                Vec::new()
            }
        }
    }
}

/// Reads the Lease until it was renewed, or for three seconds.
async fn look_at_lease(person: &Person, facts: &mut Facts) {
    let Some(key) = &facts.lease_key else { return };
    let api = person.lease(key.clone());
    let mut first: Option<String> = None;
    for look in 0..MAX_LOOKS {
        if look > 0 {
            sleep(LOOK_AGAIN).await;
        }
        let answered = match api.get().await {
            Ok(Some(answered)) => answered,
            Ok(None) => return,
            Err(error) => {
                let call = Call::of::<Lease>("get", person).within(Some(&key.namespace));
                facts.not_read.push(call.left_out(&error));
                return;
            }
        };
        let version = answered.lease.metadata.resource_version.clone();
        facts.server_time = answered.server_time;
        facts.lease = serde_json::to_value(answered.lease).ok();
        match &first {
            None => first = version,
            Some(_) if first != version => {
                facts.renewed = true;
                return;
            }
            Some(_) => {}
        }
    }
}
