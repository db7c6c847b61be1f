//! What kept an instant from running is named, as far as anything tells it.

use super::{
    golden::{answers_everything, says},
    *,
};

/// A schedule that comes due twice an hour, with a policy, what its runs do, and how it ends.
fn busy(name: &str, policy: &str, provider: &str, end: &str) -> Scene {
    let spec = format!(
        "\
start: \"2026-11-29T01:58:00Z\"
objects:
- apiVersion: punctual.dev/v1alpha1
  kind: MaintenanceSchedule
  metadata: {{name: nightly, namespace: docs}}
  spec:
    schedule: \"*/30 * * * *\"
    concurrencyPolicy: {policy}
    missedRuns: {{limit: 1}}
    run: {{actionClass: Fenced, simulated: {{}}}}
provider:
- {provider}
end: {end}
"
    );
    scene(name, &spec)
}

const SKIPPED: Option<&str> = Some("2026-11-29T02:30:00Z");
const LONG: &str = "{match: '*', duration: 40m}";

#[test]
fn one_that_has_ended_since_is_named_with_its_end() {
    let scene = busy("ended", "Forbid", LONG, "50m");
    let text = scene.golden("skipped-for-one-that-ended", "docs", "msched/nightly", SKIPPED);
    answers_everything(&text);
    says(
        &text,
        &[
            "In its way was mocc/nightly-202611290200: at 2026-11-29T02:30:00Z it was running since 2026-11-29T02:00:",
            "It ended at 2026-11-29T02:40:",
            ": Succeeded.",
            "To see why that one took so long:\n    kubectl punctual why mocc/nightly-202611290200 -n docs",
        ],
    );
    assert!(!text.contains("cancel"), "nothing of it can be stopped any more:\n{text}");
}

#[test]
fn one_that_is_unresolved_is_to_be_decided() {
    let lost = "{match: 'nightly-202611290200', duration: 5m, outcome: Unknown}";
    let scene = busy("lost", "Forbid", lost, "40m");
    let text = scene.golden("skipped-for-an-unresolved-one", "docs", "msched/nightly", SKIPPED);
    answers_everything(&text);
    says(
        &text,
        &[
            "it was Unresolved since 2026-11-29T02:05:",
            "It is Unresolved now.",
            "To see what can be decided:\n    kubectl punctual why mocc/nightly-202611290200 -n docs",
        ],
    );
}

#[test]
fn one_whose_record_is_gone_is_not_invented() {
    let scene = busy("ended", "Forbid", LONG, "50m");
    let mut read = scene.gather("docs", "msched/nightly", SKIPPED);
    read.others.clear();
    let text = scene.golden_of("skipped-for-one-that-is-gone", &read);
    answers_everything(&text);
    says(
        &text,
        &[
            "Which one was in its way is not known any more",
            "no MaintenanceOccurrence of this schedule that still exists was open at 2026-11-29T02:30:00Z",
        ],
    );
    assert!(!text.contains("nightly-202611290200"), "{text}");
    // Those that exist and had nothing to do with it are not blamed.
    let mut later = scene.gather("docs", "msched/nightly", SKIPPED);
    for pointer in ["preparedTime", "releasedTime", "startTime"] {
        later.others[0]["status"]["attempts"][0][pointer] = "2026-11-29T02:31:00Z".into();
    }
    says(&explain(&later).unwrap().text(scene.now), &["is not known any more"]);
}

#[test]
fn one_that_was_deleted_while_it_ran_is_still_claimed() {
    let scene = busy("deleted", "Forbid", LONG, "35m");
    let mut read = scene.gather("docs", "msched/nightly", SKIPPED);
    read.others.clear();
    let text = explain(&read).unwrap().text(scene.now);
    says(&text, &["Deleted, and still claimed: mocc/nightly-202611290200."]);
}

#[test]
fn what_may_not_be_looked_up_is_not_said_to_be_gone() {
    let scene = busy("deleted", "Forbid", LONG, "35m");
    let mut read = scene.gather("docs", "msched/nightly", SKIPPED);
    read.others.clear();
    read.others_read = false;
    let missing = "you may not list maintenanceoccurrences.punctual.dev in namespace \"docs\"";
    read.not_read.push(missing.to_owned());
    let text = explain(&read).unwrap().text(scene.now);
    says(&text, &["Which one was in its way could not be looked up.", "Not read"]);
    assert!(!text.contains("still claimed"), "{text}");
}

#[test]
fn one_that_waits_says_since_when_the_other_runs() {
    let scene = busy("waits", "Enqueue", LONG, "35m");
    let waits = "mocc/nightly-202611290230";
    let text = scene.why("docs", waits, None).text(scene.now);
    says(
        &text,
        &[
            "mocc/nightly-202611290200 is running since 2026-11-29T02:00:",
            "cancel mocc/nightly-202611290200",
        ],
    );
    let lost = "{match: 'nightly-202611290200', duration: 5m, outcome: Unknown}";
    let scene = busy("waits-for-lost", "Enqueue", lost, "40m");
    let text = scene.golden("occurrence-behind-an-unresolved-one", "docs", waits, None);
    answers_everything(&text);
    says(&text, &["mocc/nightly-202611290200 is Unresolved since", "To see what can be decided"]);
    let mut read = scene.gather("docs", waits, None);
    read.others.retain(|other| other["metadata"]["name"] != "nightly-202611290200");
    let text = explain(&read).unwrap().text(scene.now);
    says(&text, &["Before it: mocc/nightly-202611290200.", "Deleted, and still claimed"]);
}

#[test]
fn one_that_gave_way_names_what_it_waited_for() {
    let scene = busy("gave-way", "Enqueue", "{match: '*', duration: 100m}", "80m");
    let text = scene.golden("occurrence-that-gave-way", "docs", "mocc/nightly-202611290230", None);
    answers_everything(&text);
    says(
        &text,
        &[
            "Skipped (Concurrent)",
            "In its way was mocc/nightly-202611290200",
            "it was running since",
        ],
    );
}
