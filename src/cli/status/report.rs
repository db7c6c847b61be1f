//! The answer of `punctual status`: as data for scripts, as text for people.

use std::fmt::Write as _;

use jiff::Timestamp;
use serde::Serialize;

use crate::{
    api::Time,
    cli::{
        output,
        why::{from_now, second},
    },
};

/// How everything stands.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Report {
    /// The namespace that was looked at; absent for all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) namespace: Option<String>,
    /// Who leads.
    pub(super) leader: Leader,
    /// Whether clocks agree.
    pub(super) clocks: Clocks,
    /// What needs a person, the most urgent first.
    pub(super) needs: Bounded<Need>,
    /// Schedules of both kinds.
    pub(super) schedules: Schedules,
    /// Queues.
    pub(super) queues: Bounded<QueueRow>,
    /// The newest recovery.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) recovery: Option<Recovery>,
    /// What could not be read, so that it is missing above.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) not_read: Vec<String>,
}

/// The first of a list, and how many there are.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Bounded<T> {
    /// How many there are.
    pub(super) total: usize,
    /// The first of them.
    pub(super) items: Vec<T>,
}

impl<T> Bounded<T> {
    /// The first `most` of these.
    pub(super) fn of(mut items: Vec<T>, most: usize) -> Self {
        let total = items.len();
        items.truncate(most);
        Self { total, items }
    }

    fn more(&self) -> usize {
        self.total - self.items.len()
    }
}

/// Who leads.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Leader {
    /// The Lease, as `NAMESPACE/NAME`; absent if it is not known where it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) lease: Option<String>,
    /// Who holds it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) holder: Option<String>,
    /// Epoch of the term.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) epoch: Option<i64>,
    /// Since when.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) since: Option<Time>,
    /// Seconds since the last renewal, as the API server's clock has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) renewed_seconds_ago: Option<i64>,
    /// Whether a renewal was seen while this command looked.
    pub(super) renews: bool,
    /// Whether somebody leads, as far as can be seen.
    pub(super) leads: bool,
    /// In a sentence.
    pub(super) message: String,
}

/// Whether clocks agree.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Clocks {
    /// Whether the leader said last that its clock and the API server's differ too much.
    pub(super) skewed: bool,
    /// By how many seconds this machine's clock is ahead of the API server's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) own_ahead_seconds: Option<i64>,
    /// In a sentence.
    pub(super) message: String,
}

/// Something that needs a person.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Need {
    /// What it is about, for example `docs/mocc/nightly-202611290200`.
    pub(super) object: String,
    /// What is wrong, in one word.
    pub(super) reason: String,
    /// What is wrong, in a sentence.
    pub(super) message: String,
    /// Since when.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) since: Option<Time>,
    /// The line that tells more.
    pub(super) command: String,
}

/// How schedules stand.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Schedules {
    /// All.
    pub(super) total: usize,
    /// Whose instants run.
    pub(super) active: usize,
    /// Suspended.
    pub(super) suspended: usize,
    /// That cannot be used.
    pub(super) invalid: usize,
    /// That no leader has looked at.
    pub(super) new: usize,
    /// Whose next instant has come and is not decided.
    pub(super) late: usize,
    /// What they have started and is not over.
    pub(super) running: usize,
    /// By how much the newest start of a MaintenanceSchedule was late, the most of all, and whose it
    /// is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) lateness: Option<Lateness>,
    /// The next instant of all, and whose it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) next: Option<NextInstant>,
}

/// How late the newest start of a schedule was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Lateness {
    /// Seconds from the instant to the start, the delay of `spec.spread` included.
    pub(super) seconds: i64,
    /// Whose, for example `docs/msched/nightly`.
    pub(super) schedule: String,
}

/// An instant that is to come.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct NextInstant {
    /// When.
    pub(super) time: Time,
    /// Whose, for example `docs/msched/nightly`.
    pub(super) schedule: String,
}

/// A queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct QueueRow {
    /// `NAMESPACE/NAME`.
    pub(super) queue: String,
    /// Slots that are taken, of all.
    pub(super) slots: String,
    /// Reports that wait.
    pub(super) waiting: i32,
    /// Whether it takes and starts reports.
    pub(super) admissions: String,
    /// Why, in one word.
    pub(super) reason: String,
    /// About when what waits now is done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) drained: Option<Time>,
}

/// The newest recovery.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Recovery {
    /// Its trace, as `NAMESPACE/NAME`.
    pub(super) trace: String,
    /// Epoch of the term.
    pub(super) epoch: i64,
    /// How leadership was gained.
    pub(super) gained: String,
    /// When the term began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) start: Option<Time>,
    /// How long it took; absent while it is under way.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) duration: Option<String>,
    /// Items of each class.
    pub(super) resumed: i32,
    /// Items whose provider answered.
    pub(super) reconciled: i32,
    /// Items that were over.
    pub(super) preserved: i32,
    /// Items of which nobody could say.
    pub(super) uncertain: i32,
}

impl Report {
    /// Whether all is well: somebody leads, nothing needs a person, and nothing is left out, so that
    /// this is known.
    pub(super) fn is_well(&self) -> bool {
        let known = self.not_read.is_empty();
        self.leader.leads && !self.clocks.skewed && self.needs.total == 0 && known
    }

    /// The report as text.
    pub(super) fn text(&self, now: Timestamp) -> String {
        let mut out = String::new();
        // Writing to a String cannot fail.
        let place = self.namespace.as_ref().map_or_else(
            || "all namespaces".to_owned(),
            |namespace| format!("namespace {namespace} (-A for all)"),
        );
        let _ = writeln!(out, "Leader      {}", self.leader.message);
        if let Some((namespace, _)) = self.leader.lease.as_ref().and_then(|key| key.split_once('/'))
        {
            let _ = writeln!(
                out,
                "Standby     not in the Lease; kubectl get pods -n {namespace} -l app.kubernetes.io/name=punctual"
            );
        }
        let _ = writeln!(out, "Clocks      {}", self.clocks.message);
        if let Some(recovery) = &self.recovery {
            let _ = writeln!(out, "Recovery    {}", recovery.sentence(now));
        }
        let _ = writeln!(out, "Looked at   {place}");
        self.needs_text(&mut out, now);
        let _ = writeln!(out, "\n{}", self.schedules.sentence(now));
        if let Some(Lateness { seconds, schedule }) = &self.schedules.lateness {
            let _ = writeln!(out, "Newest starts were at most {seconds} s late ({schedule}).");
        }
        self.queues_text(&mut out, now);
        if !self.not_read.is_empty() {
            let _ = writeln!(out, "\nNot read:");
            for sentence in &self.not_read {
                let _ = writeln!(out, "  {sentence}");
            }
        }
        out
    }

    fn needs_text(&self, out: &mut String, now: Timestamp) {
        if self.needs.total == 0 {
            let known = if self.not_read.is_empty() {
                "Nothing needs a person."
            } else {
                "Nothing that could be read needs a person. Not everything could be read: see below."
            };
            let _ = writeln!(out, "\n{known}");
            return;
        }
        let noun = if self.needs.total == 1 { "thing needs" } else { "things need" };
        let _ = writeln!(out, "\n{} {noun} a person:", self.needs.total);
        for need in &self.needs.items {
            let since = need.since.map(|at| format!(", {}", from_now(at.0, now)));
            let Need { object, reason, message, command, .. } = need;
            let _ = writeln!(out, "  {object} {reason}{}", since.unwrap_or_default());
            let _ = writeln!(out, "      {message}");
            let _ = writeln!(out, "      {command}");
        }
        more(out, self.needs.more());
    }

    fn queues_text(&self, out: &mut String, now: Timestamp) {
        if self.queues.total == 0 {
            let _ = writeln!(out, "\nNo queues.");
            return;
        }
        let rows: Vec<[String; 6]> = self
            .queues
            .items
            .iter()
            .map(|row| {
                let drained = row.drained.map(|at| from_now(at.0, now)).unwrap_or_default();
                [
                    row.queue.clone(),
                    row.slots.clone(),
                    row.waiting.to_string(),
                    row.admissions.clone(),
                    row.reason.clone(),
                    drained,
                ]
            })
            .collect();
        let header = ["QUEUE", "SLOTS", "WAITING", "ADMISSIONS", "REASON", "DRAINED ABOUT"];
        let _ = write!(out, "\n{}", output::table(header, &rows));
        more(out, self.queues.more());
    }
}

fn more(out: &mut String, more: usize) {
    if more > 0 {
        let _ = writeln!(out, "  … and {more} more");
    }
}

impl Schedules {
    fn sentence(&self, now: Timestamp) -> String {
        let Self { total, active, suspended, invalid, new, late, running, next, .. } = self;
        if *total == 0 {
            return "No schedules.".to_owned();
        }
        let mut text = format!(
            "{total} schedules: {active} active, {suspended} suspended, {invalid} invalid, {new} new; {late} late, {running} running."
        );
        if let Some(NextInstant { time, schedule }) = next {
            let _ = write!(
                text,
                " Next: {schedule} at {} ({}).",
                second(time.0),
                from_now(time.0, now)
            );
        }
        text
    }
}

impl Recovery {
    fn sentence(&self, now: Timestamp) -> String {
        let Self { trace, gained, resumed, reconciled, preserved, uncertain, .. } = self;
        let began =
            self.start.map_or_else(String::new, |at| format!(", began {}", from_now(at.0, now)));
        let took = self.duration.as_ref().map_or_else(
            || "is not complete".to_owned(),
            |duration| format!("complete after {duration}"),
        );
        format!(
            "{trace} ({gained}{began}): {took}; {resumed} resumed, {reconciled} reconciled, {preserved} preserved, {uncertain} uncertain"
        )
    }
}
