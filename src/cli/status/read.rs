//! What `punctual status` needs, read by get and list.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::{coordination::v1::Lease, events::v1::Event};
use serde_json::Value;
use tokio::time::sleep;

use crate::{
    api::{
        MaintenanceOccurrence, MaintenanceSchedule, RecoveryTrace, ReportJob, ReportQueue,
        ReportSchedule,
    },
    cli::{CliError, trouble::Call, why},
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

/// Whether something is accepted and cannot start.
fn is_stuck(work: &Value) -> bool {
    let reason = work.pointer("/status/reason").and_then(Value::as_str);
    reason.is_some_and(|reason| STUCK.contains(&reason))
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
    let mut reading =
        Reading { person, namespace, not_read: Vec::new(), answers: false, trouble: None };
    let traces = reading.traces(lease).await;
    let schedules =
        [reading.list::<MaintenanceSchedule>("").await, reading.list::<ReportSchedule>("").await]
            .concat();
    let queues = reading.list::<ReportQueue>("").await;
    let unresolved = [
        reading.list::<MaintenanceOccurrence>("status.state=Unresolved").await,
        reading.list::<ReportJob>("status.state=Unresolved").await,
    ]
    .concat();
    let stuck = [
        reading.stuck::<MaintenanceOccurrence>("status.state=Pending").await,
        reading.stuck::<ReportJob>("status.state=Queued").await,
    ]
    .concat();
    let foreign = reading.list::<Event>("reason=ForeignFence").await;
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

    /// What cannot start among what waits. Thousands may wait.
    async fn stuck<K: Object>(&mut self, fields: &str) -> Vec<Value> {
        let namespace = self.namespace.clone();
        let reader = self.person.reader();
        let read = why::read::sift::<K>(&reader, namespace.as_deref(), fields, is_stuck).await;
        self.soft::<K>(namespace.as_deref(), read)
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
