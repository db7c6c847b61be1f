//! What is the same for everything that runs: its attempts, and the question how one ended.

use jiff::{SignedDuration, Timestamp};

use super::{
    answer::{Answer, second, span},
    commands::Target,
    terms::Terms,
    words,
};
use crate::{
    api::{
        ActionClass, Attempt, AttemptOutcome, Condition, Resolution, ResolutionDecision, RunSpec,
    },
    runs::{UNRESOLVED_INTERVAL, conditions, open_attempt},
};

/// Something that runs.
pub(super) struct Run<'a> {
    /// How commands name it.
    pub(super) target: &'a Target,
    /// Its uid.
    pub(super) uid: &'a str,
    /// Its attempts, oldest first.
    pub(super) attempts: &'a [Attempt],
    /// What it runs.
    pub(super) spec: Option<&'a RunSpec>,
    /// What it may do.
    pub(super) class: ActionClass,
    /// Its conditions.
    pub(super) conditions: &'a [Condition],
    /// What it was due for, if it has an instant.
    pub(super) due: Option<Timestamp>,
    /// A person wants it stopped.
    pub(super) cancel: bool,
    /// A person's decision.
    pub(super) resolution: Option<&'a Resolution>,
    /// The reason that is recorded.
    pub(super) reason: &'a str,
    /// The sentence that is recorded.
    pub(super) message: &'a str,
}

impl Run<'_> {
    /// What runs it, in words.
    fn provider(&self) -> String {
        match self.spec {
            Some(run) if run.job.is_some() => "its Job".to_owned(),
            Some(RunSpec { http: Some(http), .. }) => format!("the service {}", http.url),
            Some(run) if run.simulated.is_some() => "the simulated provider".to_owned(),
            _ => "its provider".to_owned(),
        }
    }

    /// Tells of every attempt.
    pub(super) fn tell(&self, answer: &mut Answer, terms: &Terms) {
        for attempt in self.attempts {
            self.tell_attempt(answer, terms, attempt);
        }
    }

    fn tell_attempt(&self, answer: &mut Answer, terms: &Terms, attempt: &Attempt) {
        let (n, epoch) = (attempt.number, Some(attempt.epoch));
        if let Some(at) = attempt.prepared_time {
            let who = terms.who(attempt.epoch);
            let what = format!("attempt {n} was prepared, held back, and recorded here ({who})");
            answer.happened(Some(at.0), what, epoch);
        }
        if let Some(at) = attempt.released_time {
            answer.happened(Some(at.0), format!("attempt {n} was released: it may run"), epoch);
        }
        if let Some(at) = attempt.start_time {
            let late = self.due.filter(|_| n == 1).map(|due| at.0.duration_since(due));
            let late = match late {
                Some(late) if late.as_secs() > 0 => format!(", {} after its instant", span(late)),
                _ => String::new(),
            };
            answer.happened(Some(at.0), format!("attempt {n} started{late}"), None);
        }
        if let Some(at) = attempt.stop_requested_time {
            let why = attempt.stop_reason.as_deref().unwrap_or("no reason recorded");
            answer.happened(Some(at.0), format!("attempt {n} was asked to stop ({why})"), None);
        }
        if let (Some(at), Some(outcome)) = (attempt.completion_time, attempt.outcome) {
            let why = attempt.reason.as_deref().map(|r| format!(" ({r})")).unwrap_or_default();
            answer.happened(Some(at.0), format!("attempt {n} ended: {outcome:?}{why}"), None);
        } else if attempt.outcome == Some(AttemptOutcome::Unknown) {
            let why = attempt.reason.as_deref().unwrap_or("no reason recorded");
            let since = conditions::unresolved_since(self.conditions);
            answer.happened(since, format!("nobody knows how attempt {n} ended ({why})"), None);
        }
    }

    /// Why nobody knows how it ended, what that means, and what can be decided. `holds`: what it
    /// keeps others from, meanwhile.
    pub(super) fn explain_unresolved(&self, answer: &mut Answer, holds: &str) {
        let n = self.attempts.last().map_or(1, |attempt| attempt.number);
        let since = conditions::unresolved_since(self.conditions);
        let since = since.map_or_else(String::new, |at| format!(" since {}", second(at)));
        answer.summary = format!(
            "Nobody can say how attempt {n} ended{since}. It is not run again by itself; it waits for an answer or for a person."
        );
        let provider = self.provider();
        answer.because(format!(
            "What was asked: {provider} was told to run attempt {n}{}.",
            self.key()
        ));
        let said = if self.message.is_empty() { "no more is recorded" } else { self.message };
        answer.because(format!("What is unknown: {said}."));
        if let Some(meaning) = words::meaning(self.reason) {
            answer.because(meaning);
        }
        answer.because(words::class_rule(self.class));
        answer.because(holds);
        let every = span(UNRESOLVED_INTERVAL);
        answer.then(None, format!("The operator asks {provider} again every {every}. A definite answer ends this by itself; without one it stays as it is, for as long as it takes."));
        self.explain_decision(answer, n);
        self.offer_decisions(answer, n);
    }

    /// The key by which the provider knows the newest attempt.
    fn key(&self) -> String {
        let attempt = self.attempts.last();
        attempt.map_or_else(String::new, |attempt| format!(" (run key {})", attempt.run_key))
    }

    /// What a person has decided already.
    fn explain_decision(&self, answer: &mut Answer, newest: i32) {
        if self.cancel {
            answer.then(None, "A person asked to cancel it: it is Cancelled once the provider confirms that nothing acts any more.");
        }
        match self.resolution {
            Some(asked) if asked.attempt != newest => answer.because(format!(
                "spec.resolution speaks of attempt {}, but the newest is {newest}: it has no effect.",
                asked.attempt
            )),
            Some(Resolution { decision: ResolutionDecision::Retry, accept_duplicate: false, .. }) => {
                answer.then(None, "A person asked to run it again: the old run is cancelled first. The next attempt starts once the provider says that it is gone. If the provider can never say, --accept-duplicate is needed.");
            }
            Some(asked) => answer.then(
                None,
                format!("A person decided {:?}: the operator is about to record it.", asked.decision),
            ),
            None => {}
        }
    }

    fn offer_decisions(&self, answer: &mut Answer, n: i32) {
        use ResolutionDecision::{Failed, Retry, Succeeded};
        let target = self.target;
        if self.spec.is_some_and(|run| run.job.is_some()) {
            answer.can("To see what it printed, if its pod is still there", target.logs());
            answer.can(
                "To see its pods",
                format!(
                    "kubectl get pods -n {} -l punctual.dev/parent-uid={}",
                    target.namespace, self.uid
                ),
            );
        }
        answer.can(
            "If you know that the work was done (recorded as Succeeded, for good; nothing runs again)",
            target.resolve(Succeeded, n, false),
        );
        answer.can(
            "If you know that it was not done, or you repair it yourself (recorded as Failed, for good; nothing runs again)",
            target.resolve(Failed, n, false),
        );
        answer.can(
            "If it should run again (the old run is cancelled first, and the next attempt starts only when it is proven over)",
            target.resolve(Retry, n, false),
        );
        answer.can(
            "The same if nobody can ever prove that, and doing the work twice does no harm",
            target.resolve(Retry, n, true),
        );
        if !self.cancel {
            answer.can(
                "If it is not wanted any more (Cancelled once the provider confirms that nothing acts)",
                target.cancel(),
            );
        }
    }

    /// What happens next to what runs.
    pub(super) fn explain_running(&self, answer: &mut Answer, now: Timestamp) {
        let Some(attempt) = open_attempt(self.attempts) else { return };
        let after = |from: Option<crate::api::Time>, seconds: i64| {
            from?.0.checked_add(SignedDuration::from_secs(seconds)).ok()
        };
        let Some(run) = self.spec else { return };
        if attempt.start_time.is_none() {
            let from = attempt.released_time.or(attempt.prepared_time);
            let limit = i64::from(run.start_timeout());
            answer.then(after(from, limit), format!("If it has not started by then it is cancelled and ends Failed (NeverStarted): run.startTimeoutSeconds is {limit}."));
        } else if let Some(limit) = run.timeout_seconds {
            let end = after(attempt.start_time, i64::from(limit));
            answer.then(end, format!("If it still runs then it is cancelled and ends Failed (DeadlineExceeded): run.timeoutSeconds is {limit}."));
        } else {
            let ran = attempt.start_time.map(|at| span(now.duration_since(at.0)));
            let ran = ran.map_or_else(String::new, |ran| format!(" It has run for {ran}."));
            answer.then(None, format!("Its end is recorded within about 2 seconds. There is no limit on how long it may run (run.timeoutSeconds is not set).{ran}"));
        }
    }

    /// What is left of attempts, said of a failed end.
    pub(super) fn explain_attempts(&self, answer: &mut Answer, limit: i32) {
        let made = self.attempts.len();
        if made == 0 {
            return;
        }
        answer.because(format!(
            "{made} {} made; run.maxAttempts is {limit}. Disruptions by the platform and repetitions that a person ordered are counted apart.",
            if made == 1 { "attempt was" } else { "attempts were" },
        ));
    }
}
