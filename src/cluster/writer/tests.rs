use std::sync::Arc;

use http::Method;
use k8s_openapi::api::batch::v1::Job;
use serde_json::{Value, json};

use super::*;
use crate::{
    api::{
        MaintenanceOccurrence, MaintenanceSchedule, MaintenanceScheduleStatus, ReportJob,
        ReportQueue, ReportSchedule, ScheduleState,
    },
    authority::{Fenced, Gate, Term},
    cluster::{
        Clients,
        fake::{FakeApi, Fault},
    },
    time::{LeaseClock, LeaseInstant},
};

const SCHEDULES: &str = "/apis/punctual.dev/v1alpha1/namespaces/shop/maintenanceschedules";
const JOBS: &str = "/apis/batch/v1/namespaces/shop/jobs";

/// Remembers what it is told.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

impl WriteObserver for Log {
    fn wrote(&self, verb: Verb, kind: &'static str, result: &'static str) {
        self.0.lock().unwrap().push(format!("{} {kind} {result}", verb.as_str()));
    }
}

struct Scene {
    fake: FakeApi,
    writer: FencedWriter,
    clients: Clients,
    gate: Gate,
    log: Log,
}

impl Scene {
    /// A leader in term 50, and a schedule `nightly` that no term has sealed.
    fn new() -> Self {
        let fake = FakeApi::new();
        let clients = Clients::single(fake.client());
        let gate = Gate::new(LeaseClock::driven(LeaseInstant::from_nanos(0)));
        gate.open(&term(50), LeaseInstant::from_nanos(1));
        let spec = json!({"schedule": "0 2 * * *", "run": {"simulated": {}}});
        fake.put(
            SCHEDULES,
            json!({
                "apiVersion": "punctual.dev/v1alpha1", "kind": "MaintenanceSchedule",
                "metadata": {"name": "nightly"}, "spec": spec,
            }),
        );
        let log = Log::default();
        Self { writer: clients.writer(log.clone()), fake, clients, gate, log }
    }

    fn permit(&self) -> Permit {
        self.gate.permit().unwrap()
    }

    async fn schedule(&self) -> MaintenanceSchedule {
        self.clients.reader().get(&ObjectKey::new("shop", "nightly")).await.unwrap().unwrap()
    }

    async fn seal(&self) -> Sealed<MaintenanceSchedule> {
        let read = self.schedule().await;
        self.writer.write_status(&self.permit(), &read, active(&read)).await.unwrap()
    }

    fn stored_fence(&self) -> Value {
        self.fake.stored(&format!("{SCHEDULES}/nightly")).unwrap()["status"]["fence"].clone()
    }

    /// Methods of the writes that arrived and were meant, in order.
    fn writes(&self) -> Vec<(String, u16)> {
        let log = self.fake.log().into_iter();
        log.filter(|entry| entry.method != Method::GET && !entry.query.contains("dryRun"))
            .map(|entry| (entry.method.to_string(), entry.code))
            .collect()
    }
}

fn term(epoch: i64) -> Term {
    Term { epoch, nonce: format!("n{epoch}") }
}

fn active(read: &MaintenanceSchedule) -> MaintenanceSchedule {
    let mut next = read.clone();
    let status = next.status.get_or_insert_with(MaintenanceScheduleStatus::default);
    status.state = Some(ScheduleState::Active);
    next
}

fn job(name: &str) -> Job {
    serde_json::from_value(json!({
        "metadata": {"namespace": "shop", "name": name},
        "spec": {"suspend": true, "template": {"spec": {"containers": [], "restartPolicy": "Never"}}},
    }))
    .unwrap()
}

#[tokio::test(start_paused = true)]
async fn the_first_seal_of_each_kind_is_followed_by_a_trial_of_its_own() {
    async fn seals<K: Object + Fenced>(scene: &Scene, plural: &str, spec: Value) {
        let path = format!("/apis/punctual.dev/v1alpha1/namespaces/shop/{plural}");
        let name = json!({"name": "a"});
        let (version, kind) = (K::api_version(&()), K::kind(&()));
        scene.fake.put(
            &path,
            json!({"apiVersion": version, "kind": kind, "metadata": name, "spec": spec}),
        );
        let before = scene.fake.log().len();
        let read: K =
            scene.clients.reader().get(&ObjectKey::new("shop", "a")).await.unwrap().unwrap();
        let mut next = read.clone();
        next.set_fence(term(50).fence());
        scene.writer.write_status(&scene.permit(), &read, next).await.unwrap();
        let log = scene.fake.log().split_off(before);
        let writes = log.iter().filter(|entry| entry.method == Method::PUT);
        let epochs: Vec<_> = writes
            .map(|put| (&put.body["status"]["fence"]["epoch"], put.query.contains("dryRun")))
            .collect();
        assert_eq!(epochs, [(&json!(50), false), (&json!(49), true)], "{kind}");
    }
    let scene = Scene::new();
    let job = json!({"queueName": "q", "tenant": "t"});
    seals::<ReportQueue>(&scene, "reportqueues", json!({"slots": 1})).await;
    seals::<ReportJob>(&scene, "reportjobs", job.clone()).await;
    let schedule = json!({"schedule": "@daily", "jobTemplate": {"spec": job}});
    seals::<ReportSchedule>(&scene, "reportschedules", schedule).await;
}

#[tokio::test(start_paused = true)]
async fn the_first_status_write_seals_and_every_write_names_version_object_and_term() {
    let scene = Scene::new();
    let read = scene.schedule().await;
    let sealed = scene.seal().await;
    assert_eq!(sealed.status.as_ref().unwrap().state, Some(ScheduleState::Active));
    let mut next = (*sealed).clone();
    next.status.as_mut().unwrap().active = Some(1);
    scene.writer.write_status(&scene.permit(), &*sealed, next).await.unwrap();

    let writes: Vec<_> =
        scene.fake.log().into_iter().filter(|entry| entry.method == Method::PUT).collect();
    assert_eq!(writes.len(), 3, "seal, trial, second write");
    for entry in &writes {
        assert!(entry.path.ends_with("/nightly/status"), "{}", entry.path);
        assert_eq!(entry.body["metadata"]["uid"], json!(read.metadata.uid));
        assert!(entry.body["metadata"]["resourceVersion"].is_string());
        assert!(entry.body["status"]["fence"]["epoch"].is_i64());
    }
    assert_eq!(writes[0].body["status"]["fence"], json!({"epoch": 50, "nonce": "n50"}));
    assert_eq!(writes[1].body["status"]["fence"]["epoch"], json!(49));
    assert!(writes[1].query.contains("dryRun=All"), "the trial changes nothing");
    assert_eq!(
        *scene.log.0.lock().unwrap(),
        [
            "update_status MaintenanceSchedule ok",
            "dry_run MaintenanceSchedule fence_refused",
            "update_status MaintenanceSchedule ok",
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn nothing_is_sent_without_leading() {
    let scene = Scene::new();
    let sealed = scene.seal().await;
    let permit = scene.permit();
    scene.gate.lose();
    scene.fake.clear_log();
    let mut next = (*sealed).clone();
    next.status.as_mut().unwrap().active = Some(1);
    let refused = WriteError::NotLeading(NotLeading);
    let writer = &scene.writer;
    assert_eq!(writer.write_status(&permit, &*sealed, next).await.unwrap_err(), refused);
    assert_eq!(writer.create(&permit, &job("a")).await.unwrap_err(), refused);
    let orphan = PropagationPolicy::Foreground;
    assert_eq!(writer.delete(&permit, &*sealed, orphan).await.unwrap_err(), refused);
    let mut known = job("a");
    known.metadata.uid = Some("u".into());
    known.metadata.resource_version = Some("1".into());
    assert_eq!(writer.release_job(&sealed, &known).await.unwrap_err(), refused);
    assert!(scene.fake.log().is_empty());
}

#[tokio::test(start_paused = true)]
async fn nothing_is_sent_without_a_precondition() {
    let scene = Scene::new();
    let sealed = scene.seal().await;
    scene.fake.clear_log();
    let permit = scene.permit();
    for (field, strip) in [
        ("metadata.uid", (|m: &mut ObjectMeta| m.uid = None) as fn(&mut ObjectMeta)),
        ("metadata.resourceVersion", |m| m.resource_version = None),
        ("metadata.resourceVersion", |m| m.resource_version = Some(String::new())),
        ("metadata.name", |m| m.name = None),
        ("metadata.namespace", |m| m.namespace = None),
    ] {
        let mut read = (*sealed).clone();
        strip(&mut read.metadata);
        let expected = WriteError::Incomplete { field };
        let writer = &scene.writer;
        let status = writer.write_status(&permit, &read, active(&read)).await;
        assert_eq!(status.unwrap_err(), expected);
        let deleted = writer.delete(&permit, &read, PropagationPolicy::Background).await;
        assert_eq!(deleted.unwrap_err(), expected);
        let patched = writer.patch_child(&sealed, &read, json!({})).await;
        assert_eq!(patched.unwrap_err(), expected);
    }
    let mut generated = job("");
    generated.metadata.name = None;
    generated.metadata.generate_name = Some("a-".into());
    assert_eq!(
        scene.writer.create(&permit, &generated).await.unwrap_err(),
        WriteError::Incomplete { field: "metadata.name" },
    );
    assert!(scene.fake.log().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_newer_fence_is_never_written_over() {
    let scene = Scene::new();
    let path = format!("{SCHEDULES}/nightly");
    for (epoch, nonce, foreign) in [(51, "x", true), (50, "x", true), (49, "x", false)] {
        scene.fake.edit(&path, |object| {
            object["status"] = json!({"fence": {"epoch": epoch, "nonce": nonce}});
        });
        let read = scene.schedule().await;
        scene.fake.clear_log();
        let outcome = scene.writer.write_status(&scene.permit(), &read, active(&read)).await;
        assert_eq!(matches!(outcome, Err(WriteError::ForeignFence { .. })), foreign, "{epoch}");
        assert_eq!(scene.writes().is_empty(), foreign, "{epoch}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_server_refuses_what_an_old_term_decided_from_an_old_version() {
    let scene = Scene::new();
    let read = scene.schedule().await;
    scene.seal().await;
    // Another process, in an older term, still holds the version from before the seal.
    let gate = Gate::new(LeaseClock::driven(LeaseInstant::from_nanos(0)));
    gate.open(&term(40), LeaseInstant::from_nanos(1));
    let stale = scene.clients.writer(NoObserver);
    let outcome = stale.write_status(&gate.permit().unwrap(), &read, active(&read)).await;
    assert_eq!(outcome.unwrap_err().category(), "conflict");
    assert_eq!(scene.stored_fence()["epoch"], json!(50));
}

#[tokio::test(start_paused = true)]
async fn a_write_that_changes_nothing_is_not_sent() {
    let scene = Scene::new();
    let sealed = scene.seal().await;
    scene.fake.clear_log();
    let again =
        scene.writer.write_status(&scene.permit(), &*sealed, (*sealed).clone()).await.unwrap();
    assert_eq!(again.metadata.resource_version, sealed.metadata.resource_version);
    assert!(scene.fake.log().is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_unknown_status_write_counts_only_if_it_is_seen() {
    for (fault, written) in [
        (Fault::LoseResponse, true),
        (Fault::LoseRequest, false),
        (Fault::LandLater(Duration::from_secs(60)), false),
        (Fault::Refuse(500, "InternalError"), false),
        (Fault::Refuse(503, "ServiceUnavailable"), false),
    ] {
        let scene = Scene::new();
        let sealed = scene.seal().await;
        let mut next = (*sealed).clone();
        next.status.as_mut().unwrap().active = Some(3);
        scene.fake.clear_log();
        scene.fake.fault(Method::PUT, "nightly", fault.clone());
        let outcome = scene.writer.write_status(&scene.permit(), &*sealed, next).await;
        match outcome {
            Ok(sealed) => {
                assert!(written, "{fault:?}");
                assert_eq!(sealed.status.as_ref().unwrap().active, Some(3));
                assert_ne!(sealed.metadata.resource_version, None);
            }
            Err(error) => {
                assert!(!written, "{fault:?}");
                assert!(matches!(&error, WriteError::Api(api) if api.is_outcome_unknown()));
            }
        }
        assert!(scene.writes().len() <= 1, "{fault:?}: never sent again");
    }
}

#[tokio::test(start_paused = true)]
async fn an_unknown_status_write_does_not_count_if_the_object_shows_something_else() {
    let scene = Scene::new();
    let sealed = scene.seal().await;
    let mut next = (*sealed).clone();
    next.status.as_mut().unwrap().active = Some(3);
    // It lands, but by the time of the read it is another object of the same name.
    scene.fake.fault(Method::PUT, "nightly", Fault::LoseResponse);
    let recreate = scene.fake.clone();
    scene.fake.fault(Method::GET, "nightly", Fault::LoseRequest);
    let outcome = scene.writer.write_status(&scene.permit(), &*sealed, next.clone()).await;
    assert!(outcome.is_err(), "unread is unknown");
    let path = format!("{SCHEDULES}/nightly");
    let object = recreate.stored(&path).unwrap();
    recreate.remove(&path);
    recreate.put(SCHEDULES, object);
    scene.fake.fault(Method::PUT, "nightly", Fault::LoseRequest);
    let mut other = next;
    other.status.as_mut().unwrap().active = Some(3);
    let outcome = scene.writer.write_status(&scene.permit(), &*sealed, other).await;
    assert!(outcome.is_err(), "another uid is another object");
}

#[tokio::test(start_paused = true)]
async fn a_term_ends_when_the_server_accepts_an_older_epoch() {
    let scene = Scene::new();
    scene.fake.without_fence_rule();
    let read = scene.schedule().await;
    let outcome = scene.writer.write_status(&scene.permit(), &read, active(&read)).await;
    let kind = "MaintenanceSchedule";
    assert_eq!(outcome.unwrap_err(), WriteError::FenceNotEnforced { kind });
    assert!(scene.gate.is_lost());
}

#[tokio::test(start_paused = true)]
async fn nothing_follows_the_seal_until_the_trial_gave_a_clear_answer() {
    let scene = Scene::new();
    let read = scene.schedule().await;
    let next = active(&read);
    // The seal lands, the trial does not get an answer.
    scene.writer.write_status(&scene.permit(), &read, next.clone()).await.unwrap();
    let scene = Scene::new();
    let read = scene.schedule().await;
    scene.fake.fault(Method::PUT, "other", Fault::LoseRequest);
    scene.fake.fault(Method::PUT, "nightly", Fault::LoseResponse); // the seal, seen by a read
    scene.fake.fault(Method::PUT, "nightly", Fault::LoseRequest); // the trial
    let outcome = scene.writer.write_status(&scene.permit(), &read, next).await;
    assert!(matches!(outcome, Err(WriteError::Api(_))), "{outcome:?}");
    assert_eq!(scene.stored_fence()["epoch"], json!(50), "sealed all the same");
    // Next time the write is not needed any more, but the trial is made up for.
    let read = scene.schedule().await;
    scene.fake.clear_log();
    scene.writer.write_status(&scene.permit(), &read, read.clone()).await.unwrap();
    assert!(scene.writes().is_empty());
    assert_eq!(scene.fake.log().len(), 1, "the trial");
}

#[tokio::test(start_paused = true)]
async fn a_create_is_stamped_and_tells_new_from_existing() {
    let scene = Scene::new();
    let permit = scene.permit();
    let Created::New(made) = scene.writer.create(&permit, &job("a")).await.unwrap() else {
        panic!("it did not exist");
    };
    assert_eq!(made.metadata.annotations.as_ref().unwrap()[ANNOTATION_EPOCH], "50");
    let Created::Existing(found) = scene.writer.create(&permit, &job("a")).await.unwrap() else {
        panic!("it exists");
    };
    assert_eq!(found.metadata.uid, made.metadata.uid);
    // After a lost answer nobody knows who made it.
    scene.fake.fault(Method::POST, "jobs", Fault::LoseResponse);
    let lost = scene.writer.create(&permit, &job("b")).await.unwrap();
    assert!(matches!(lost, Created::Existing(_)));
    scene.fake.fault(Method::POST, "jobs", Fault::LoseRequest);
    let nothing = scene.writer.create(&permit, &job("c")).await.unwrap_err();
    assert!(matches!(nothing, WriteError::Api(ApiError::OutcomeUnknown { .. })));
    scene.fake.fault(Method::POST, "jobs", Fault::Refuse(403, "Forbidden"));
    let refused = scene.writer.create(&permit, &job("d")).await.unwrap_err();
    assert_eq!(refused.category(), "forbidden");
}

#[tokio::test(start_paused = true)]
async fn a_release_is_one_patch_on_one_version() {
    let scene = Scene::new();
    let parent = scene.seal().await;
    let made = scene.writer.create(&scene.permit(), &job("a")).await.unwrap().into_inner();
    let stale = made.clone();
    let released = scene.writer.release_job(&parent, &made).await.unwrap();
    assert_eq!(released.spec.as_ref().unwrap().suspend, Some(false));
    assert_eq!(released.metadata.annotations.as_ref().unwrap()[ANNOTATION_RELEASED], "50");
    let conflict = scene.writer.adopt_job(&parent, &stale).await.unwrap_err();
    assert_eq!(conflict.category(), "conflict", "an older version");
    let mut other = released.clone();
    other.metadata.uid = Some("of-another-one".into());
    let conflict = scene.writer.release_job(&parent, &other).await.unwrap_err();
    assert_eq!(conflict.category(), "conflict", "a PATCH with a wrong uid is answered with 422");
    let patch = scene.fake.log().into_iter().find(|entry| entry.method == Method::PATCH).unwrap();
    assert_eq!(patch.body["metadata"]["uid"], json!(made.metadata.uid));
    assert_eq!(patch.body["metadata"]["resourceVersion"], json!(made.metadata.resource_version));
}

#[tokio::test(start_paused = true)]
async fn an_unknown_patch_counts_only_if_it_is_seen() {
    for (fault, written) in [(Fault::LoseResponse, true), (Fault::LoseRequest, false)] {
        let scene = Scene::new();
        let parent = scene.seal().await;
        let made = scene.writer.create(&scene.permit(), &job("a")).await.unwrap().into_inner();
        scene.fake.clear_log();
        scene.fake.fault(Method::PATCH, "jobs/a", fault.clone());
        let outcome = scene.writer.release_job(&parent, &made).await;
        assert_eq!(outcome.is_ok(), written, "{fault:?}");
        assert_eq!(scene.writes().len(), usize::from(written), "{fault:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_delete_takes_exactly_one_version() {
    let scene = Scene::new();
    let permit = scene.permit();
    let writer = &scene.writer;
    let made = writer.create(&permit, &job("a")).await.unwrap().into_inner();
    scene.fake.edit(&format!("{JOBS}/a"), |job| job["spec"]["parallelism"] = json!(2));
    let foreground = || PropagationPolicy::Foreground;
    let conflict = writer.delete(&permit, &made, foreground()).await.unwrap_err();
    assert_eq!(conflict.category(), "conflict");
    let read: Job =
        scene.clients.reader().get(&ObjectKey::new("shop", "a")).await.unwrap().unwrap();
    scene.fake.fault(Method::DELETE, "jobs/a", Fault::LoseRequest);
    let unknown = writer.delete(&permit, &read, foreground()).await.unwrap_err();
    assert!(matches!(unknown, WriteError::Api(api) if api.is_outcome_unknown()));
    scene.fake.fault(Method::DELETE, "jobs/a", Fault::LoseResponse);
    assert_eq!(writer.delete(&permit, &read, foreground()).await, Ok(Deletion::Gone));
    assert_eq!(writer.delete(&permit, &read, foreground()).await, Ok(Deletion::Gone));
    let sent = scene.fake.log().into_iter().find(|e| e.method == Method::DELETE).unwrap();
    assert_eq!(sent.body["propagationPolicy"], json!("Foreground"));
    assert_eq!(sent.body["preconditions"]["uid"], json!(made.metadata.uid));
    assert!(sent.body["preconditions"]["resourceVersion"].is_string());
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_creates_nothing() {
    let scene = Scene::new();
    scene.writer.dry_run_create(&job("a")).await.unwrap();
    assert_eq!(scene.fake.stored(&format!("{JOBS}/a")), None);
    let occurrence: MaintenanceOccurrence = serde_json::from_value(json!({
        "metadata": {"namespace": "shop", "name": "wrong"},
        "spec": {"scheduleName": "nightly", "intendedTime": "2026-11-29T02:00:00Z"},
    }))
    .unwrap();
    let refused = scene.writer.dry_run_create(&occurrence).await.unwrap_err();
    assert_eq!(refused.category(), "invalid");
}

#[test]
fn merge_patches_follow_the_examples_of_rfc_7396() {
    for (target, patch, result) in [
        (json!({"a": "b"}), json!({"a": "c"}), json!({"a": "c"})),
        (json!({"a": "b"}), json!({"b": "c"}), json!({"a": "b", "b": "c"})),
        (json!({"a": "b"}), json!({"a": null}), json!({})),
        (json!({"a": ["b"]}), json!({"a": "c"}), json!({"a": "c"})),
        (json!({"a": {"b": "c"}}), json!({"a": {"b": "d", "c": null}}), json!({"a": {"b": "d"}})),
        (json!(["a", "b"]), json!({"a": "b"}), json!({"a": "b"})),
        (json!({}), json!({"a": {"bb": {"ccc": null}}}), json!({"a": {"bb": {}}})),
    ] {
        let mut merged = target.clone();
        merge(&mut merged, &patch);
        assert_eq!(merged, result, "{target} with {patch}");
    }
}
