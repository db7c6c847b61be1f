//! The simulated provider: one service outside all replicas.
//!
//! Runs go on while replicas are dead, frozen or cut off, and every replica can ask. What a run does
//! is computed from the rules whenever somebody asks, so a new rule applies to running ones too; a
//! success or failure that has happened stays.

mod rules;
#[cfg(test)]
mod tests;

pub use rules::Rule;

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use jiff::Timestamp;
use serde_json::Value;
use tokio::sync::Notify;

use self::rules::Behaviour;
use super::{Key, Kind, RunChange, RunEvent, world::Time};
use crate::{
    api::{ActionClass, SimulatedOutcome, SimulatedRun},
    providers::{
        Delivered, Prepared, ProviderError, RunRequest, RunStatus,
        simulated::{SimulatedService, class_of, handle_prefix},
    },
};

/// Most runs of a history; one with more is no rehearsal but a load test.
pub const MAX_RUNS: usize = 100_000;
/// Most calls in one moment: every run of a history a hundred times over.
const MAX_CALLS_AT_ONCE: u32 = 10_000;
/// Most rules; a scenario file has a handful, and each step adds at most one.
pub const MAX_RULES: usize = 1024;

/// One run, as the provider's ledger has it. Times are virtual, since the start.
#[derive(Clone, Debug, PartialEq)]
pub struct RunRecord {
    /// Kind of the object it belongs to.
    pub kind: String,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
    /// Number of the attempt.
    pub attempt: i32,
    /// Name of the attempt, by which [`Provider::lose`] knows it.
    pub attempt_name: String,
    /// The run key.
    pub run_key: String,
    /// Its action class.
    pub class: ActionClass,
    /// Epoch of the term that prepared it last.
    pub epoch: i64,
    /// The handle.
    pub handle: String,
    /// When it was prepared.
    pub held_at: Duration,
    /// When it was released first.
    pub released_at: Option<Duration>,
    /// When it started; at its release.
    pub started_at: Option<Duration>,
    /// When it ended with success or failure.
    pub ended_at: Option<Duration>,
    /// When it was cancelled first.
    pub cancelled_at: Option<Duration>,
    /// How it ended, or that nobody can say.
    pub outcome: Option<SimulatedOutcome>,
    /// The artifact it left.
    pub artifact: Option<Value>,
    /// Whether the service forgot it.
    pub lost: bool,
}

impl RunRecord {
    /// Whether it may act now: released, not ended, and no cancel confirmed.
    pub fn may_act(&self) -> bool {
        self.released_at.is_some() && self.ended_at.is_none() && !self.is_cancelled()
    }

    fn is_cancelled(&self) -> bool {
        self.cancelled_at.is_some() && self.outcome != Some(SimulatedOutcome::Hang)
    }
}

type Hears = Box<dyn FnMut(&RunEvent) + Send>;

/// The service; clones share it.
#[derive(Clone)]
pub struct Provider {
    state: Arc<Mutex<State>>,
    time: Time,
    /// Something may end earlier than it was known to.
    pub(super) changed: Arc<Notify>,
}

impl fmt::Debug for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Provider").field("runs", &self.lock().runs.len()).finish_non_exhaustive()
    }
}

#[derive(Default)]
struct State {
    rules: Vec<Rule>,
    runs: Vec<Run>,
    /// The newest run of each handle.
    by_handle: BTreeMap<String, usize>,
    /// The newest run of each run key, and how many there were: one more after each that was lost.
    by_key: BTreeMap<String, (usize, u32)>,
    unreachable_until: Duration,
    /// Calls that are carried out and not answered.
    drop_answers: u32,
    /// When it was last called, and how often in that moment.
    called: (Duration, u32),
    /// When it was first called without pause.
    restless: Option<Duration>,
    hears: Vec<Hears>,
}

struct Run {
    record: RunRecord,
    spec: SimulatedRun,
    /// What it did, once it has ended: later rules do not change the past.
    did: Option<Behaviour>,
}

impl Run {
    fn behaviour(&self, rules: &[Rule]) -> Behaviour {
        Behaviour::of(rules, &self.record.name, self.record.attempt, &self.spec)
    }

    /// When it ends by itself, with what.
    fn end(&self, rules: &[Rule]) -> Option<(Duration, Behaviour)> {
        if !self.record.may_act() {
            return None;
        }
        let behaviour = self.behaviour(rules);
        let ends =
            matches!(behaviour.outcome, SimulatedOutcome::Succeeded | SimulatedOutcome::Failed);
        let started = self.record.started_at.filter(|_| ends)?;
        Some((started + behaviour.duration, behaviour))
    }
}

impl State {
    fn tell(&mut self, at: Duration, index: usize, what: RunChange) {
        let Some(run) = self.runs.get(index) else { return };
        let RunRecord { kind, namespace, name, uid, run_key, handle, .. } = &run.record;
        let Some(kind) = Kind::named(kind) else { return };
        let event = RunEvent {
            at,
            parent: Key::new(kind, namespace, name),
            parent_uid: uid.clone(),
            run_key: run_key.clone(),
            handle: handle.clone(),
            what,
        };
        self.hears.iter_mut().for_each(|hear| hear(&event));
    }

    /// Lets everything end that ends by now, in order of time.
    fn advance(&mut self, now: Duration) {
        let rules = std::mem::take(&mut self.rules);
        let mut ending: Vec<(Duration, usize, Behaviour)> = self
            .runs
            .iter()
            .enumerate()
            .filter_map(|(index, run)| run.end(&rules).map(|(at, of)| (at, index, of)))
            .filter(|(at, ..)| *at <= now)
            .collect();
        self.rules = rules;
        ending.sort_by_key(|(at, index, _)| (*at, *index));
        for (at, index, behaviour) in ending {
            let run = &mut self.runs[index];
            run.record.ended_at = Some(at);
            run.record.outcome = Some(behaviour.outcome);
            run.record.artifact.clone_from(&behaviour.artifact);
            let outcome = format!("{:?}", behaviour.outcome);
            run.did = Some(behaviour);
            self.tell(at, index, RunChange::Ended { outcome });
        }
    }

    /// The run of a handle, unless it was lost.
    fn find(&mut self, handle: &str) -> Option<(usize, &mut Run)> {
        let index = *self.by_handle.get(handle)?;
        let run = self.runs.get_mut(index).filter(|run| !run.record.lost)?;
        Some((index, run))
    }
}

impl Provider {
    /// A service without runs.
    pub fn new(time: Time) -> Self {
        Self { state: Arc::default(), time, changed: Arc::default() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The state, with everything ended that ends by now.
    fn now(&self) -> MutexGuard<'_, State> {
        let now = self.time.elapsed();
        let mut state = self.lock();
        state.advance(now);
        state
    }

    /// Is told everything that happens to runs, in order.
    pub fn on_event(&self, hear: impl FnMut(&RunEvent) + Send + 'static) {
        self.lock().hears.push(Box::new(hear));
    }

    /// Puts rules behind those that are there.
    pub fn add_rules(&self, rules: impl IntoIterator<Item = Rule>) {
        let mut state = self.now();
        state.rules.extend(rules);
        state.rules.truncate(MAX_RULES);
        drop(state);
        self.changed.notify_one();
    }

    /// Puts a rule in front; it applies to running ones too.
    pub fn put_rule(&self, rule: Rule) {
        let mut state = self.now();
        state.rules.insert(0, rule);
        state.rules.truncate(MAX_RULES);
        drop(state);
        self.changed.notify_one();
    }

    /// Forgets the runs of that attempt (`<object>-m1`) for ever; gives how many there were.
    pub fn lose(&self, attempt_name: &str) -> usize {
        let now = self.time.elapsed();
        let mut state = self.now();
        let of: Vec<usize> = (0..state.runs.len())
            .filter(|&index| {
                let record = &state.runs[index].record;
                record.attempt_name == attempt_name && !record.lost
            })
            .collect();
        for &index in &of {
            state.runs[index].record.lost = true;
            state.tell(now, index, RunChange::Lost);
        }
        of.len()
    }

    /// Nobody can ask it until then.
    pub fn unreachable_until(&self, until: Duration) {
        let mut state = self.now();
        state.unreachable_until = state.unreachable_until.max(until);
    }

    /// Carries the next calls out without answering them.
    pub fn drop_answers(&self, calls: u32) {
        self.now().drop_answers = calls;
    }

    /// The ledger, in the order in which runs were prepared.
    pub fn runs(&self) -> Vec<RunRecord> {
        let state = self.now();
        let record = |run: &Run| {
            let mut record = run.record.clone();
            if self.is_unknown(run, &state.rules) {
                record.outcome = Some(SimulatedOutcome::Unknown);
            }
            record
        };
        state.runs.iter().map(record).collect()
    }

    /// What a run does, by the rules of now or else by its manifest.
    pub(super) fn behaviour(&self, name: &str, attempt: i32, spec: &SimulatedRun) -> Behaviour {
        Behaviour::of(&self.lock().rules, name, attempt, spec)
    }

    /// When the next run ends by itself, as far as is known now.
    pub(super) fn next_end(&self) -> Option<Duration> {
        let state = self.now();
        state.runs.iter().filter_map(|run| Some(run.end(&state.rules)?.0)).min()
    }

    /// Lets everything end that ends by now.
    pub(super) fn advance(&self) {
        drop(self.now());
    }

    /// When it was first called [`MAX_CALLS_AT_ONCE`] times in one moment: somebody asks without pause,
    /// so that virtual time would stand still for ever.
    pub fn restless(&self) -> Option<Duration> {
        self.lock().restless
    }

    /// The state for a call from outside.
    fn called(&self) -> Result<MutexGuard<'_, State>, ProviderError> {
        let (mut state, now) = (self.now(), self.time.elapsed());
        let (at, calls) = state.called;
        state.called = if at == now { (now, calls + 1) } else { (now, 1) };
        if state.called.1 > MAX_CALLS_AT_ONCE {
            state.restless.get_or_insert(now);
            return Err(ProviderError::Unreachable("asked too often".into()));
        }
        if self.time.elapsed() < state.unreachable_until {
            return Err(ProviderError::Unreachable("connection refused".into()));
        }
        Ok(state)
    }

    /// Gives an answer, or loses it.
    fn answer<T>(mut state: MutexGuard<'_, State>, answer: T) -> Result<T, ProviderError> {
        if state.drop_answers == 0 {
            return Ok(answer);
        }
        state.drop_answers -= 1;
        Err(ProviderError::Unreachable("the answer was lost".into()))
    }

    fn wall(&self, at: Duration) -> Timestamp {
        self.time.wall_at(at)
    }

    fn status_of(&self, run: &Run, rules: &[Rule]) -> RunStatus {
        let record = &run.record;
        let Some(started) = record.started_at else {
            return if record.cancelled_at.is_some() { RunStatus::Absent } else { RunStatus::Held };
        };
        let at = self.wall(started);
        if let (Some(did), Some(ended)) = (&run.did, record.ended_at) {
            return ended_as(did, at, self.wall(ended));
        }
        if record.cancelled_at.is_some() {
            return if record.may_act() { RunStatus::Stopping } else { RunStatus::Absent };
        }
        if self.is_unknown(run, rules) {
            let message = "the simulated provider cannot say how the run ended, as it was told to";
            return RunStatus::Unknown { reason: "EndNotSeen".into(), message: message.into() };
        }
        RunStatus::Running { started: at, pod: None }
    }

    /// Whether it should have ended, and nobody can say how.
    fn is_unknown(&self, run: &Run, rules: &[Rule]) -> bool {
        let behaviour = run.behaviour(rules);
        let over = run.record.started_at.map(|started| started + behaviour.duration);
        run.record.may_act()
            && behaviour.outcome == SimulatedOutcome::Unknown
            && over.is_some_and(|over| self.time.elapsed() >= over)
    }

    fn record(&self, request: &RunRequest, handle: &str) -> RunRecord {
        RunRecord {
            kind: request.parent.kind.clone(),
            namespace: request.parent.namespace.clone(),
            name: request.parent.name.clone(),
            uid: request.parent.uid.clone(),
            attempt: request.attempt,
            attempt_name: request.attempt_name.clone(),
            run_key: request.run_key.clone(),
            class: request.class,
            epoch: request.epoch,
            handle: handle.to_owned(),
            held_at: self.time.elapsed(),
            released_at: None,
            started_at: None,
            ended_at: None,
            cancelled_at: None,
            outcome: None,
            artifact: None,
            lost: false,
        }
    }
}

/// The status of a run that has ended.
fn ended_as(did: &Behaviour, started: Timestamp, completed: Timestamp) -> RunStatus {
    let (started, completed) = (Some(started), Some(completed));
    if did.outcome == SimulatedOutcome::Failed {
        return RunStatus::Failed {
            started,
            completed,
            class: class_of(&did.reason),
            message: format!("the simulated run failed as it was told to ({})", did.reason),
            reason: did.reason.clone(),
        };
    }
    let artifact = did.artifact.clone().map_or(Delivered::Nothing, |artifact| {
        serde_json::from_value(artifact).map_or(Delivered::Unreadable, Delivered::artifact)
    });
    RunStatus::Succeeded {
        started,
        completed,
        result: did.result.clone(),
        result_lost: false,
        artifact,
    }
}

impl SimulatedService for Provider {
    fn prepare(&self, request: &RunRequest) -> Result<Prepared, ProviderError> {
        let mut state = self.called()?;
        let spec = request.run.simulated.clone().unwrap_or_default();
        let known = state.by_key.get(&request.run_key).copied();
        if let Some((index, _)) = known
            && let Some(run) = state.runs.get_mut(index).filter(|run| !run.record.lost)
        {
            if run.record.released_at.is_none() {
                run.spec = spec;
                run.record.epoch = request.epoch;
            }
            let handle = run.record.handle.clone();
            return Self::answer(state, Prepared::Ready { handle });
        }
        if state.runs.len() >= MAX_RUNS {
            let message = format!("{MAX_RUNS} simulated runs were made");
            return Self::answer(state, Prepared::NotYet { message });
        }
        // A run that was lost is gone for ever, its handle too: this is another one.
        let earlier = known.map_or(0, |(_, earlier)| earlier);
        let again = if earlier == 0 { String::new() } else { format!("/{}", earlier + 1) };
        let handle = format!("{}{}{again}", handle_prefix(), request.run_key);
        let record = self.record(request, &handle);
        let index = state.runs.len();
        state.runs.push(Run { record, spec, did: None });
        state.by_handle.insert(handle.clone(), index);
        state.by_key.insert(request.run_key.clone(), (index, earlier + 1));
        state.tell(self.time.elapsed(), index, RunChange::Held);
        Self::answer(state, Prepared::Ready { handle })
    }

    fn find(&self, run_key: &str) -> Result<Option<String>, ProviderError> {
        let state = self.called()?;
        let run = state.by_key.get(run_key).and_then(|(index, _)| state.runs.get(*index));
        let handle = run.filter(|run| !run.record.lost).map(|run| run.record.handle.clone());
        Self::answer(state, handle)
    }

    fn release(&self, handle: &str) -> Result<(), ProviderError> {
        let now = self.time.elapsed();
        let mut state = self.called()?;
        let Some((index, run)) = state.find(handle) else {
            return Err(ProviderError::Conflict("the simulated run is not known here".into()));
        };
        if run.record.cancelled_at.is_some() {
            return Err(ProviderError::Conflict("the simulated run was cancelled".into()));
        }
        if run.record.released_at.is_none() {
            run.record.released_at = Some(now);
            run.record.started_at = Some(now);
            state.tell(now, index, RunChange::Released);
            state.tell(now, index, RunChange::Started);
            state.advance(now); // one that takes no time is over at once
            self.changed.notify_one();
        }
        Self::answer(state, ())
    }

    fn status(&self, handle: &str) -> Result<Option<RunStatus>, ProviderError> {
        let mut state = self.called()?;
        let rules = std::mem::take(&mut state.rules);
        let status = state.find(handle).map(|(_, run)| self.status_of(run, &rules));
        state.rules = rules;
        Self::answer(state, status)
    }

    fn cancel(&self, handle: &str) -> Result<(), ProviderError> {
        let now = self.time.elapsed();
        let mut state = self.called()?;
        let rules = std::mem::take(&mut state.rules);
        let asked = state.find(handle).and_then(|(index, run)| {
            let known = run.record.cancelled_at.is_some() && !run.record.may_act();
            if run.record.ended_at.is_some() || known {
                return None; // what ended before it was cancelled stays so
            }
            run.record.cancelled_at.get_or_insert(now);
            let hangs = run.record.started_at.is_some()
                && run.behaviour(&rules).outcome == SimulatedOutcome::Hang;
            run.record.outcome = hangs.then_some(SimulatedOutcome::Hang);
            Some((index, hangs))
        });
        state.rules = rules;
        if let Some((index, hangs)) = asked {
            state.tell(now, index, RunChange::CancelAsked);
            if !hangs {
                state.tell(now, index, RunChange::CancelConfirmed);
            }
        }
        Self::answer(state, ())
    }
}
