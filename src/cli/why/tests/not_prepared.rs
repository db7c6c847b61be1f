//! What may start and cannot be prepared: the operator's own decisions make what is stored.

use serde_json::json;

use super::{
    golden::{QUEUE, SCHEDULE, answers_everything, report, says},
    *,
};
use crate::{
    api::{Fence, ReportJob, ReportState},
    providers::Prepared,
    reports::job::{Snapshot as Decided, Standing, decide},
    runs::{Heard, Step},
};

/// A report that holds the one slot of its queue, and what it runs.
fn admitted(run: &Value) -> Snapshot {
    let mut spec = format!("{QUEUE}  spec: {{slots: 1}}\n");
    spec += &report("stuck", "acme", "");
    spec += &report("waits", "acme", "");
    spec += "provider:\n- {match: '*', duration: 10m}\nend: 1m\n";
    let scene = scene("stuck", &spec);
    let mut read = scene.gather("docs", "rjob/stuck", None);
    let job = read.object.as_mut().unwrap();
    (job["spec"]["run"], job["status"]["run"]) = (run.clone(), run.clone());
    // As it stood when its queue had admitted it and nothing of it was committed.
    let status = job["status"].as_object_mut().unwrap();
    for later in ["attempt", "attempts", "conditions", "reason", "message"] {
        status.remove(later);
    }
    status.insert("state".to_owned(), json!("Queued"));
    read
}

/// What the operator records when what runs it is asked for and this comes back.
fn record(read: &mut Snapshot, prepared: Prepared, refused_for: SignedDuration) {
    let job: ReportJob = super::super::snapshot::known(read.object.as_ref()).unwrap();
    let fence: Fence = job.status.as_ref().and_then(|status| status.fence.clone()).unwrap();
    let decided = Decided {
        job,
        standing: Standing::Admitted { attempt: 1 },
        queue_run: None,
        place: None,
        late: Vec::new(),
        heard: Heard { prepared: Some(prepared), ..Heard::default() },
        told: None,
        trust_clock: true,
        fence,
    };
    let Step::Write(status) = decide(&decided, read.now - refused_for).step else {
        panic!("something is recorded")
    };
    assert_eq!(status.state, Some(ReportState::Queued));
    read.object.as_mut().unwrap()["status"] = serde_json::to_value(status).unwrap();
}

fn text(read: &Snapshot) -> String {
    explain(read).unwrap().text(read.now)
}

/// What only holds of a report that its queue has not admitted.
const WAITS: [&str; 5] = [
    "has not answered it",
    "Rejected",
    "that is a promise",
    "queueDeadlineSeconds",
    "has given no answer for a minute",
];

#[test]
fn an_admitted_report_that_is_refused_says_by_what_and_until_when() {
    let mut read = admitted(&json!({"job": {"template": {}}}));
    read.object.as_mut().unwrap()["spec"]["queueDeadlineSeconds"] = json!(3600);
    let message = "pods \"stuck-r1\" is forbidden: exceeded quota: compute, requested: pods=1";
    let prepared = Prepared::NotYet { message: message.to_owned() };
    record(&mut read, prepared, SignedDuration::from_secs(30));
    let text = text(&read);
    answers_everything(&text);
    says(
        &text,
        &[
            "Queued (CreateRefused)",
            "exceeded quota: compute",
            "an entry for attempt 1",
            "tried again every 5s",
            "(in 9m 30s): If it is still refused by then, it ends Failed",
            "its slot is free at once",
            "Remove the cause",
        ],
    );
    for wrong in WAITS {
        assert!(!text.contains(wrong), "{wrong:?} is in\n{text}");
    }
}

#[test]
fn an_admitted_report_whose_service_is_silent_keeps_its_slot_until_it_answers() {
    let mut read = admitted(&json!({"http": {"url": "https://reports.example/runs"}}));
    let prepared = Prepared::NoAnswer { message: "connection refused".to_owned() };
    record(&mut read, prepared, SignedDuration::ZERO);
    let silent = text(&read);
    answers_everything(&silent);
    says(
        &silent,
        &[
            "Queued (ProviderUnreachable)",
            "connection refused",
            "tried again every 5s",
            "its slot is free once the service confirms",
        ],
    );
    for wrong in WAITS.iter().chain(&["is free at once", "it ends Failed"]) {
        assert!(!silent.contains(wrong), "{wrong:?} is in\n{silent}");
    }
    read.object.as_mut().unwrap()["spec"]["cancel"] = json!(true);
    let cancelled = text(&read);
    says(&cancelled, &["about to be cancelled", "as soon as the service confirms that"]);
    assert!(!cancelled.contains("nothing of it runs, so"), "{cancelled}");
    assert!(!cancelled.contains("as soon as a leader looks"), "{cancelled}");
}

#[test]
fn a_report_that_was_admitted_just_now_is_about_to_start() {
    let mut read = admitted(&json!({"simulated": {}}));
    says(&text(&read), &["It has a slot and is about to start.", "prepared and started"]);
    read.object.as_mut().unwrap().as_object_mut().unwrap().remove("status");
    let new = text(&read);
    says(&new, &["New", "It has a slot and is about to start."]);
    for wrong in WAITS {
        assert!(!new.contains(wrong), "{wrong:?} is in\n{new}");
    }
}

#[test]
fn the_slot_of_an_attempt_that_is_over_starts_nothing() {
    let mut read = admitted(&json!({"simulated": {}}));
    let at = "2026-11-29T02:00:10Z";
    read.object.as_mut().unwrap()["status"]["attempts"] = json!([{
        "number": 1, "runKey": "k-r1", "epoch": 1, "handle": "h", "preparedTime": at,
        "completionTime": at, "outcome": "Failed", "reason": "ExitCode",
    }]);
    let text = text(&read);
    says(&text, &["that is a promise", "its place is free at once"]);
    assert!(!text.contains("an entry for attempt"), "{text}");
}

#[test]
fn an_occurrence_that_is_refused_is_not_said_to_be_given_up() {
    let scene = scene("refused-occurrence", &format!("{SCHEDULE}end: 10m\n"));
    let mut read = scene.gather("docs", "mocc/nightly-202611290200", None);
    let object = read.object.as_mut().unwrap();
    for (reason, wrong) in
        [("CreateRefused", "It was tried"), ("ProviderUnreachable", "no answer for a minute")]
    {
        object["status"] = json!({"state": "Pending", "reason": reason, "message": "the cause"});
        let mut read = Snapshot {
            object: Some(object.clone()),
            ..scene.gather("docs", "mocc/nightly-202611290200", None)
        };
        let text = self::text(&read);
        says(&text, &["the cause", "tried again every 5s"]);
        assert!(!text.contains(wrong), "{wrong:?} is in\n{text}");
        // One that may start may have been asked for.
        let claimed = &mut read.schedule.as_mut().unwrap()["status"]["claimed"];
        *claimed = json!([{"time": "2026-11-29T02:00:00Z", "uid": object["metadata"]["uid"], "start": true, "runKey": "k-m1", "actionClass": "Fenced"}]);
        let asked = read.object.as_mut().unwrap();
        asked["spec"]["cancel"] = json!(true);
        says(&self::text(&read), &["nothing of it runs, so it is Cancelled"]);
        read.object.as_mut().unwrap()["status"]["run"] =
            json!({"http": {"url": "https://a.example"}});
        says(&self::text(&read), &["as soon as the service confirms that nothing of it runs"]);
    }
}
