//! Report schedules, and when their jobs may be answered and started.

use http::Method;

use super::{super::schedule::Claimed, *};

const SCHEDULE: &str = "/apis/punctual.dev/v1alpha1/namespaces/docs/reportschedules/daily";
const JOB: &str = "/apis/punctual.dev/v1alpha1/namespaces/docs/reportjobs/daily-202611290200";
const NAME: &str = "daily-202611290200";
const INSTANT: &str = "2026-11-29T02:00:00Z";

impl Scene {
    /// Stores a schedule of 02:00 with this status. The controller does not hear of it.
    fn put_schedule(&self, status: &Value) -> ReportSchedule {
        let template = json!({"queueName": "q", "tenant": "acme", "run": {"simulated": {}}});
        let object = json!({
            "apiVersion": "punctual.dev/v1alpha1", "kind": "ReportSchedule",
            "metadata": {"name": "daily", "creationTimestamp": "2026-11-29T01:30:00Z"},
            "spec": {"schedule": "0 2 * * *", "jobTemplate": {"spec": template}},
            "status": status,
        });
        serde_json::from_value(self.fake.put(SCHEDULES, object)).unwrap()
    }

    /// Stores the job of that instant. The controller does not hear of it.
    fn put_scheduled(&self, schedule: Option<&ReportSchedule>, status: &Value) -> ReportJob {
        let uid = schedule.and_then(|schedule| schedule.metadata.uid.clone());
        let object = json!({
            "apiVersion": "punctual.dev/v1alpha1", "kind": "ReportJob",
            "metadata": {"name": NAME, "creationTimestamp": INSTANT},
            "spec": {
                "queueName": "q", "tenant": "acme", "run": {"simulated": {}},
                "scheduleName": "daily", "intendedTime": INSTANT,
                "scheduleUID": uid.unwrap_or_else(|| "gone".into()),
            },
            "status": status,
        });
        serde_json::from_value(self.fake.put(JOBS, object)).unwrap()
    }

    /// The status that this term sealed after it decided the instant.
    fn decide(&self, epoch: i64, claimed: &Value) {
        self.fake.edit(SCHEDULE, |schedule| {
            schedule["status"] = json!({
                "fence": {"epoch": epoch, "nonce": "mine"}, "lastScheduleTime": INSTANT,
                "effectiveTime": "2026-11-29T01:30:00Z", "claimed": claimed,
                "observed": {"uid": schedule["metadata"]["uid"], "schedule": "0 2 * * *"},
            });
        });
    }

    fn observe_schedule(&self) {
        self.controller.schedules.observe(self.read(SCHEDULE));
    }

    async fn pass_schedule(&self) {
        self.controller.pass_schedule(&ObjectKey::new("docs", "daily")).await.unwrap();
    }

    /// Whether the job stands among those that its queue may admit.
    fn stands_in_its_book(&self) -> bool {
        let state = self.controller.state.lock();
        let book = state.books.get(&ObjectKey::new("docs", "q"));
        book.is_some_and(|book| !book.waiting().is_empty())
    }
}

fn claim(job: &ReportJob, start: bool) -> Value {
    json!([{
        "time": INSTANT, "start": start, "uid": job.metadata.uid, "runKey": "k",
        "actionClass": "Idempotent",
    }])
}

/// A scene with a queue, and a schedule that this term has sealed and whose claim starts the job.
fn started() -> (Scene, ReportJob) {
    let scene = Scene::new();
    scene.put_queue(&json!({"fence": {"epoch": 50, "nonce": "mine"}, "ledger": {}}));
    let schedule = scene.put_schedule(&Value::Null);
    let job = scene.put_scheduled(Some(&schedule), &Value::Null);
    scene.decide(50, &claim(&job, true));
    scene.observe_schedule();
    scene.controller.jobs.observe(job.clone());
    (scene, job)
}

#[tokio::test(start_paused = true)]
async fn an_instant_is_created_then_claimed_by_its_uid_in_one_sealed_write() {
    let scene = Scene::new();
    scene.put_queue(&Value::Null);
    scene.put_schedule(&Value::Null);
    scene.observe_schedule();
    scene.pass_schedule().await;
    let writes = scene.leader.writes();
    let methods: Vec<&Method> = writes.iter().map(|write| &write.method).collect();
    assert_eq!(methods, [Method::POST, Method::PUT], "{writes:?}");
    let uid = scene.fake.stored(JOB).unwrap()["metadata"]["uid"].clone();
    let claims = &writes[1].body["status"]["claimed"];
    assert_eq!((&claims[0]["uid"], claims.as_array().unwrap().len()), (&uid, 1));
    assert_eq!(writes[1].body["status"]["fence"], json!({"epoch": 50, "nonce": "mine"}));
}

#[tokio::test(start_paused = true)]
async fn a_new_schedule_is_sealed_after_every_open_job_of_its_name() {
    let scene = Scene::new();
    scene.put_schedule(&Value::Null);
    scene.put_scheduled(None, &Value::Null);
    scene.observe_schedule();
    scene.pass_schedule().await;
    let writes = scene.leader.writes();
    let paths: Vec<&str> = writes.iter().map(|write| write.path.as_str()).collect();
    assert_eq!(paths, [format!("{JOB}/status"), format!("{SCHEDULE}/status")]);
    assert_eq!(writes[0].body["status"]["fence"]["epoch"], 50);
}

#[tokio::test(start_paused = true)]
async fn a_schedule_is_not_taken_over_while_a_pass_over_its_job_may_still_commit() {
    let scene = Scene::new();
    scene.put_schedule(&Value::Null);
    scene.observe_schedule();
    let controller = scene.controller.clone();
    let under_way = controller.deps.pass().await;
    let mut taken_over = std::pin::pin!(scene.pass_schedule());
    let minute = std::time::Duration::from_secs(60);
    let early = tokio::time::timeout(minute, taken_over.as_mut()).await;
    assert!(early.is_err(), "it was taken over meanwhile");
    assert!(scene.fake.stored(SCHEDULE).unwrap()["status"].is_null());
    drop(under_way);
    taken_over.await;
    assert!(scene.fake.stored(SCHEDULE).unwrap()["status"]["observed"].is_object());
}

#[tokio::test(start_paused = true)]
async fn a_job_waits_in_its_queue_only_once_its_schedule_sealed_in_this_term_has_started_it() {
    for (what, epoch, start, waits) in [
        ("sealed by an earlier term", 49, true, false),
        ("claimed, not started", 50, false, false),
        ("started", 50, true, true),
    ] {
        let (scene, job) = started();
        scene.decide(epoch, &claim(&job, start));
        scene.observe_schedule();
        let permit = scene.controller.deps.permit().unwrap();
        scene.controller.follow_claims(&ObjectKey::new("docs", "daily"), &permit);
        assert_eq!(scene.stands_in_its_book(), waits, "{what}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_claim_of_an_earlier_life_starts_nothing() {
    let (scene, job) = started();
    scene.fake.edit(SCHEDULE, |schedule| {
        schedule["status"]["observed"]["uid"] = json!("of-an-earlier-life");
    });
    scene.observe_schedule();
    let permit = scene.controller.deps.permit().unwrap();
    scene.controller.follow_claims(&ObjectKey::new("docs", "daily"), &permit);
    assert!(!scene.stands_in_its_book());
    let judged = scene.controller.claimed(&job, &permit).await.unwrap();
    assert_eq!(judged, Claimed::Undecided, "nor is it judged by it");
}

#[tokio::test(start_paused = true)]
async fn a_delayed_job_joins_its_queue_when_its_time_has_come_by_a_trusted_clock() {
    let (scene, job) = started();
    scene.fake.edit(SCHEDULE, |schedule| {
        schedule["spec"]["spread"] = json!({"windowSeconds": 3600});
    });
    scene.observe_schedule();
    let schedule: ReportSchedule = scene.read(SCHEDULE);
    let at = crate::schedules::not_before(&schedule, job.spec.intended_time.unwrap());
    let wall = &scene.controller.deps.wall;
    assert!(at > wall.now(), "its delay is none: choose another name");
    let key = ObjectKey::new("docs", "daily");
    let next = scene.controller.pass_schedule(&key).await.unwrap();
    assert!(next.is_some_and(|next| next <= at), "looked at again by then");
    assert!(!scene.stands_in_its_book(), "before its time");
    wall.set(at);
    scene.leader.trusts_clock.store(false, Ordering::Relaxed);
    scene.pass_schedule().await;
    assert!(!scene.stands_in_its_book(), "nobody can tell whether its time has come");
    scene.leader.trusts_clock.store(true, Ordering::Relaxed);
    scene.pass_schedule().await;
    assert!(scene.stands_in_its_book());
}

#[tokio::test(start_paused = true)]
async fn only_a_live_read_says_that_nobody_claimed_a_job() {
    let (scene, job) = started();
    // The claim has been written, and the cache has not heard of it.
    scene.decide(50, &json!([]));
    scene.observe_schedule();
    scene.decide(50, &claim(&job, true));
    assert_ne!(scene.pass_job(NAME).await["state"], "Cancelled", "it is claimed");

    let (unclaimed, _) = started();
    unclaimed.decide(50, &json!([]));
    unclaimed.observe_schedule();
    let status = unclaimed.pass_job(NAME).await;
    assert_eq!((&status["state"], &status["reason"]), (&json!("Cancelled"), &json!("Superseded")));
}

#[tokio::test(start_paused = true)]
async fn only_a_live_read_says_that_a_schedule_is_gone() {
    let scene = Scene::new();
    let schedule = scene.put_schedule(&Value::Null);
    let job = scene.put_scheduled(Some(&schedule), &Value::Null);
    scene.controller.jobs.observe(job.clone());
    scene.decide(50, &claim(&job, true));
    assert_ne!(scene.pass_job(NAME).await["state"], "Cancelled", "the cache has not heard of it");
    scene.fake.remove(SCHEDULE);
    let gone = Scene::new();
    gone.controller.jobs.observe(gone.put_scheduled(None, &Value::Null));
    let status = gone.pass_job(NAME).await;
    let expected = (&json!("Cancelled"), &json!("ScheduleDeleted"));
    assert_eq!((&status["state"], &status["reason"]), expected);
}

#[tokio::test(start_paused = true)]
async fn what_was_prepared_goes_on_without_its_schedule() {
    let scene = Scene::new();
    scene.controller.jobs.observe(scene.put_scheduled(None, &running()));
    let started = "2026-11-29T01:59:01Z".parse().unwrap();
    scene.says("k-r1", RunStatus::Running { started, pod: None });
    assert_eq!(scene.pass_job(NAME).await["state"], "Running");
    assert_eq!(*scene.runs.asked.lock().unwrap(), [handle("k-r1")]);

    // One that failed and waits for another attempt was promised that one too.
    let again = Scene::new();
    again.put_queue(&json!({"fence": {"epoch": 50, "nonce": "mine"}, "ledger": {}}));
    let mut failed = running();
    failed["state"] = json!("Queued");
    failed["reason"] = json!("RetryScheduled");
    failed["attempts"][0]["outcome"] = json!("Failed");
    failed["attempts"][0]["reason"] = json!("ExitCode");
    failed["attempts"][0]["completionTime"] = json!("2026-11-29T02:00:00Z");
    again.controller.jobs.observe(again.put_scheduled(None, &failed));
    let status = again.pass_job(NAME).await;
    assert_eq!((&status["state"], &status["reason"]), (&json!("Queued"), &json!("RetryScheduled")));
}

#[tokio::test(start_paused = true)]
async fn jobs_of_a_schedule_with_a_foreign_fence_are_left_alone() {
    let (scene, job) = started();
    let lease = json!({
        "metadata": {"name": "punctual", "annotations": {"punctual.dev/nonce": "mine"}},
    });
    scene.fake.put("/apis/coordination.k8s.io/v1/namespaces/ops/leases", lease);
    scene.decide(90_000, &claim(&job, true));
    scene.observe_schedule();
    scene.pass_schedule().await;
    scene.pass_job(NAME).await;
    assert!(scene.leader.writes().is_empty());
    assert!(!scene.stands_in_its_book());
}

#[tokio::test(start_paused = true)]
async fn a_record_is_deleted_after_the_mark_is_stored() {
    let scene = Scene::new();
    let schedule = scene.put_schedule(&Value::Null);
    scene.fake.edit(SCHEDULE, |schedule| {
        schedule["spec"]["retention"] = json!({"successful": 0, "failed": 0});
    });
    scene.decide(50, &json!([]));
    let over = json!({"state": "Succeeded", "reason": "Completed"});
    let record = scene.put_scheduled(Some(&schedule), &over);
    scene.controller.jobs.observe(record);
    for _ in 0..2 {
        scene.observe_schedule();
        scene.pass_schedule().await;
    }
    let writes = scene.leader.writes();
    let methods: Vec<&Method> = writes.iter().map(|write| &write.method).collect();
    assert_eq!(methods, [Method::PUT, Method::DELETE], "{writes:?}");
    assert_eq!(writes[0].body["status"]["prunedThrough"], INSTANT);
}
