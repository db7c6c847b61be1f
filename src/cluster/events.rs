//! The hand that sends events: one for the process, one event at a time.
//!
//! Events are a help for people. One that cannot be sent is counted and forgotten; nothing waits for
//! it and nothing is decided by it. The recorder of kube-runtime is not used: it reads the machine's
//! clock by itself and remembers without bound.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::{
    api::{core::v1::ObjectReference, events::v1::Event},
    apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta},
};
use kube::{
    Api, Client,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::json;
use tokio::time::timeout;

use super::{ApiError, Clients};
use crate::{
    api::truncate,
    identity::sha256_hex,
    telemetry::{EventQueue, Metrics, Note, NoteKind, ObjectRef},
    time::WallClock,
};

/// Deadline of one event. The next ones wait meanwhile, and the queue drops the oldest.
const EVENT_TIMEOUT: Duration = Duration::from_secs(5);
/// An event like one that was sent so lately is counted in its series, as client-go does.
const SERIES_TTL: SignedDuration = SignedDuration::from_mins(6);
/// Most series that are remembered; when there are more, all begin anew, which costs repetitions.
const MAX_SERIES: usize = 2048;
/// Longest reporting instance that the API server accepts.
const MAX_INSTANCE_CHARS: usize = 128;
/// Longest part of an object's name that goes into the name of its events, so that there is room for
/// what follows it.
const MAX_NAME_PART: usize = 220;
/// Hex digits that tell the events of one object apart.
const UNIQUE_DIGITS: usize = 16;
/// Who reports.
const CONTROLLER: &str = "punctual.dev/operator";

/// Sends what is queued to the API server.
pub struct EventSender {
    client: Client,
    instance: String,
    wall: WallClock,
    /// By what makes events alike.
    series: BTreeMap<String, Series>,
    /// Events made so far: part of their names.
    made: u64,
    queue: EventQueue,
    metrics: Arc<Metrics>,
}

/// An event that was sent, and how often.
struct Series {
    namespace: String,
    name: String,
    count: i32,
    last: Timestamp,
}

impl EventSender {
    /// A sender for `queue`; `replica` is the reporting instance.
    pub fn new(
        clients: &Clients,
        replica: &str,
        wall: WallClock,
        queue: EventQueue,
        metrics: Arc<Metrics>,
    ) -> Self {
        let instance = truncate(replica, MAX_INSTANCE_CHARS);
        let (client, series) = (clients.work(), BTreeMap::new());
        Self { client, instance, wall, series, made: 0, queue, metrics }
    }

    /// Sends one event after the other, for ever. Calls `tick` before each and, when there are none,
    /// at least every `idle`.
    pub async fn run(&mut self, idle: Duration, tick: impl Fn()) {
        loop {
            tick();
            if let Ok(note) = timeout(idle, self.queue.next()).await {
                self.send(note).await;
            }
        }
    }

    /// Sends what is queued now; used when the process ends. The caller bounds the time.
    pub async fn flush(&mut self) {
        while let Some(note) = self.queue.try_next() {
            self.send(note).await;
        }
    }

    async fn send(&mut self, note: Note) {
        let note = note.fit();
        let mut sent = self.publish(&note).await;
        if sent == Err(ApiError::NotFound) {
            // The series it was counted in expired on the server: begin a new one.
            self.series.remove(&likeness(&note));
            sent = self.publish(&note).await;
        }
        if let Err(error) = sent {
            self.metrics.event_failed();
            tracing::debug!(%error, reason = %note.reason, "an event was not taken");
        }
    }

    async fn publish(&mut self, note: &Note) -> Result<(), ApiError> {
        let now = self.wall.now();
        self.series.retain(|_, series| now.duration_since(series.last) < SERIES_TTL);
        if self.series.len() >= MAX_SERIES {
            self.series.clear();
        }
        let likeness = likeness(note);
        let sent = async {
            if let Some(known) = self.series.get(&likeness) {
                return repeat(&self.client, known, now).await;
            }
            self.made += 1;
            create(&self.client, &self.event(note, now)).await
        };
        let series = timeout(EVENT_TIMEOUT, sent).await.map_err(|_| ApiError::deadline())??;
        self.series.insert(likeness, series);
        Ok(())
    }

    fn event(&self, note: &Note, now: Timestamp) -> Event {
        let ObjectRef { api_version, kind, namespace, name, uid } = note.object.clone();
        let some = |text: String| Some(text).filter(|text| !text.is_empty());
        // Two replicas may speak of one object at one moment.
        let mark = format!("{}\n{}\n{}", self.instance, self.made, now.as_nanosecond());
        let digits = sha256_hex(mark.as_bytes());
        let part: String = name.chars().take(MAX_NAME_PART).collect();
        Event {
            metadata: ObjectMeta {
                name: Some(format!("{part}.{}", &digits[..UNIQUE_DIGITS])),
                namespace: some(namespace.clone()),
                ..ObjectMeta::default()
            },
            event_time: Some(MicroTime(now)),
            type_: Some(
                match note.kind {
                    NoteKind::Normal => "Normal",
                    NoteKind::Warning => "Warning",
                }
                .to_owned(),
            ),
            reason: Some(note.reason.clone().into_owned()),
            action: Some(note.action.clone().into_owned()),
            note: some(note.message.clone()),
            reporting_controller: Some(CONTROLLER.to_owned()),
            reporting_instance: Some(self.instance.clone()),
            regarding: Some(ObjectReference {
                api_version: some(api_version),
                kind: some(kind),
                namespace: some(namespace),
                name: some(name),
                uid: some(uid),
                ..ObjectReference::default()
            }),
            ..Event::default()
        }
    }
}

/// Equal for events that are one series: same object, reason and action.
fn likeness(note: &Note) -> String {
    let ObjectRef { api_version, kind, namespace, name, uid } = &note.object;
    let Note { kind: note_kind, reason, action, .. } = note;
    let object = [api_version, kind, namespace, name, uid].map(String::as_str).join("\n");
    format!("{object}\n{note_kind:?}\n{reason}\n{action}")
}

async fn create(client: &Client, event: &Event) -> Result<Series, ApiError> {
    let namespace = event.metadata.namespace.clone().unwrap_or_default();
    let api: Api<Event> = Api::namespaced(client.clone(), &namespace);
    api.create(&PostParams::default(), event).await?;
    let name = event.metadata.name.clone().unwrap_or_default();
    let last = event.event_time.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0);
    Ok(Series { namespace, name, count: 1, last })
}

async fn repeat(client: &Client, known: &Series, now: Timestamp) -> Result<Series, ApiError> {
    let Series { namespace, name, count, .. } = known;
    let count = count.saturating_add(1);
    let api: Api<Event> = Api::namespaced(client.clone(), namespace);
    let patch = json!({"series": {"count": count, "lastObservedTime": MicroTime(now)}});
    api.patch(name, &PatchParams::default(), &Patch::Merge(&patch)).await?;
    Ok(Series { namespace: namespace.clone(), name: name.clone(), count, last: now })
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::*;
    use crate::cluster::fake::{FakeApi, Fault, Logged};

    const EVENTS: &str = "/apis/events.k8s.io/v1/namespaces/docs/events";

    fn note(reason: &'static str) -> Note {
        Note {
            object: ObjectRef {
                api_version: "punctual.dev/v1alpha1".into(),
                kind: "MaintenanceSchedule".into(),
                namespace: "docs".into(),
                name: "nightly".into(),
                uid: "u-1".into(),
            },
            kind: NoteKind::Warning,
            reason: reason.into(),
            action: "Reconcile".into(),
            message: "something happened".into(),
        }
    }

    struct Scene {
        fake: FakeApi,
        queue: EventQueue,
        metrics: Arc<Metrics>,
        sender: EventSender,
    }

    fn scene() -> Scene {
        let fake = FakeApi::new();
        let metrics = Arc::new(Metrics::new());
        let queue = EventQueue::new(Arc::clone(&metrics));
        let clients = Clients::single(fake.client());
        let sender = EventSender::new(
            &clients,
            "pod-0",
            WallClock::driven(Timestamp::UNIX_EPOCH),
            queue.clone(),
            Arc::clone(&metrics),
        );
        Scene { fake, queue, metrics, sender }
    }

    fn sent(fake: &FakeApi, method: &Method) -> Vec<Logged> {
        fake.log().into_iter().filter(|entry| entry.method == *method).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn an_event_names_object_reason_and_reporter() {
        let mut scene = scene();
        scene.queue.publish(note("Missed"));
        scene.sender.flush().await;
        let posts = sent(&scene.fake, &Method::POST);
        assert_eq!(posts.len(), 1);
        assert!(posts[0].path.starts_with(EVENTS), "{}", posts[0].path);
        let body = &posts[0].body;
        assert_eq!(body["regarding"]["name"], "nightly");
        assert_eq!(body["regarding"]["uid"], "u-1");
        assert_eq!(body["reason"], "Missed");
        assert_eq!(body["action"], "Reconcile");
        assert_eq!(body["type"], "Warning");
        assert_eq!(body["note"], "something happened");
        assert_eq!(body["reportingController"], CONTROLLER);
        assert_eq!(body["reportingInstance"], "pod-0");
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_cannot_be_sent_is_counted_and_the_next_is_sent() {
        let mut scene = scene();
        scene.fake.fault(Method::POST, "/events", Fault::Refuse(403, "Forbidden"));
        scene.queue.publish(note("Lost"));
        scene.queue.publish(note("Kept"));
        scene.sender.flush().await;
        assert!(scene.metrics.encode().contains("punctual_events_failed_total 1\n"));
        let reasons: Vec<_> = sent(&scene.fake, &Method::POST)
            .iter()
            .map(|post| post.body["reason"].clone())
            .collect();
        assert!(reasons.contains(&"Kept".into()), "{reasons:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_repetition_is_a_series_and_begins_anew_when_the_server_forgot_it() {
        let mut scene = scene();
        for _ in 0..2 {
            scene.queue.publish(note("Missed"));
        }
        scene.sender.flush().await;
        assert_eq!(sent(&scene.fake, &Method::PATCH).len(), 1, "counted, not made again");
        let name = sent(&scene.fake, &Method::POST)[0].body["metadata"]["name"].clone();
        scene.fake.remove(&format!("{EVENTS}/{}", name.as_str().unwrap()));
        scene.queue.publish(note("Missed"));
        scene.sender.flush().await;
        assert_eq!(sent(&scene.fake, &Method::POST).len(), 2);
        assert!(scene.metrics.encode().contains("punctual_events_failed_total 0\n"));
    }

    #[tokio::test(start_paused = true)]
    async fn events_of_one_moment_have_names_of_their_own_and_times_of_the_wall_clock() {
        let mut scene = scene();
        scene.queue.publish(note("Missed"));
        scene.queue.publish(note("Deadline"));
        scene.sender.flush().await;
        let posts = sent(&scene.fake, &Method::POST);
        let name = |of: usize| posts[of].body["metadata"]["name"].clone();
        assert_ne!(name(0), name(1));
        assert!(name(0).as_str().unwrap().starts_with("nightly."));
        assert_eq!(posts[0].body["eventTime"], "1970-01-01T00:00:00.000000Z");
        scene.sender.wall.set("1970-01-01T00:06:00Z".parse().unwrap());
        scene.queue.publish(note("Missed"));
        scene.sender.flush().await;
        assert_eq!(sent(&scene.fake, &Method::POST).len(), 3, "the series is old: a new one");
    }

    #[tokio::test(start_paused = true)]
    async fn running_sends_and_ticks_even_when_there_is_nothing_to_send() {
        let Scene { fake, queue, mut sender, .. } = scene();
        let ticks = Arc::new(std::sync::atomic::AtomicU32::new(0));
        let seen = Arc::clone(&ticks);
        let task = tokio::spawn(async move {
            let tick = || {
                seen.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            };
            sender.run(Duration::from_secs(10), tick).await;
        });
        tokio::time::sleep(Duration::from_secs(35)).await;
        assert_eq!(ticks.load(std::sync::atomic::Ordering::Relaxed), 4);
        queue.publish(note("Missed"));
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(sent(&fake, &Method::POST).len(), 1);
        task.abort();
    }
}
