//! The hand that sends events: one recorder for the process, one event at a time.
//!
//! Events are a help for people. One that cannot be sent is counted and forgotten; nothing waits for
//! it and nothing is decided by it.

use std::{sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::ObjectReference;
use kube::{
    Client,
    runtime::events::{Event, EventType, Recorder, Reporter},
};
use tokio::time::timeout;

use super::{ApiError, Clients};
use crate::{
    api::truncate,
    telemetry::{EventQueue, Metrics, Note, NoteKind, ObjectRef},
};

/// Deadline of one event. The next ones wait meanwhile, and the queue drops the oldest.
const EVENT_TIMEOUT: Duration = Duration::from_secs(5);
/// Events after which a new recorder begins: it remembers each event of the last six minutes to
/// count repetitions, and nothing else bounds how many those are.
const EVENTS_PER_RECORDER: usize = 2048;
/// Longest reporting instance that the API server accepts.
const MAX_INSTANCE_CHARS: usize = 128;
/// Who reports.
const CONTROLLER: &str = "punctual.dev/operator";

/// Sends what is queued to the API server.
pub struct EventSender {
    client: Client,
    reporter: Reporter,
    recorder: Recorder,
    recorded: usize,
    queue: EventQueue,
    metrics: Arc<Metrics>,
}

impl EventSender {
    /// A sender for `queue`; `replica` is the reporting instance.
    pub fn new(clients: &Clients, replica: &str, queue: EventQueue, metrics: Arc<Metrics>) -> Self {
        let client = clients.work();
        let instance = Some(truncate(replica, MAX_INSTANCE_CHARS));
        let reporter = Reporter { controller: CONTROLLER.to_owned(), instance };
        let recorder = Recorder::new(client.clone(), reporter.clone());
        Self { client, reporter, recorder, recorded: 0, queue, metrics }
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
        let (event, regarding) = event_of(note);
        let mut sent = self.publish(&event, &regarding).await;
        if sent == Err(ApiError::NotFound) {
            // The series it was counted in expired on the server: begin a new one.
            self.renew();
            sent = self.publish(&event, &regarding).await;
        }
        if let Err(error) = sent {
            self.metrics.event_failed();
            tracing::debug!(%error, reason = event.reason, "an event was not taken");
        }
    }

    async fn publish(
        &mut self,
        event: &Event,
        regarding: &ObjectReference,
    ) -> Result<(), ApiError> {
        if self.recorded >= EVENTS_PER_RECORDER {
            self.renew();
        }
        self.recorded += 1;
        match timeout(EVENT_TIMEOUT, self.recorder.publish(event, regarding)).await {
            Ok(sent) => sent.map_err(ApiError::from),
            Err(_) => Err(ApiError::deadline()),
        }
    }

    fn renew(&mut self) {
        self.recorder = Recorder::new(self.client.clone(), self.reporter.clone());
        self.recorded = 0;
    }
}

fn event_of(note: Note) -> (Event, ObjectReference) {
    let Note { object, kind, reason, action, message } = note.fit();
    let ObjectRef { api_version, kind: object_kind, namespace, name, uid } = object;
    let some = |text: String| Some(text).filter(|text| !text.is_empty());
    let regarding = ObjectReference {
        api_version: some(api_version),
        kind: some(object_kind),
        namespace: some(namespace),
        name: some(name),
        uid: some(uid),
        ..ObjectReference::default()
    };
    let event = Event {
        type_: match kind {
            NoteKind::Normal => EventType::Normal,
            NoteKind::Warning => EventType::Warning,
        },
        reason: reason.into_owned(),
        note: some(message),
        action: action.into_owned(),
        secondary: None,
    };
    (event, regarding)
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
        let sender = EventSender::new(&clients, "pod-0", queue.clone(), Arc::clone(&metrics));
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
