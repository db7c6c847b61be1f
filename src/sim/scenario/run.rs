//! Plays a scenario on the world.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use serde_json::Value;

use super::{
    ApiFault, DEFAULT_NAMESPACE, DEFAULT_REST, Expectation, Manifest, Problem, ReplicaVerb,
    Scenario, ScenarioError, Step, Verb, When, Who,
    check::{Ground, RunFact},
    show_time,
};
use crate::sim::{
    Kind,
    api::{Deletion, Refusal, Request},
    chronicle::{Chronicle, Recorder, Run},
    world::{self, Setup, World, history},
};

/// How often a condition that is waited for is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// How long after the end of a run its end is recorded at the latest, and a little more.
const LAST_LOOK: Duration = Duration::from_secs(3);
/// Seconds of the Lease: the default of the flag.
const LEASE_SECONDS: u32 = 10;
/// Who writes what steps say.
const PERSON: &str = "person";

/// How a scenario went.
#[derive(Clone, Debug)]
pub struct Played {
    /// The seed that was used.
    pub seed: u64,
    /// What was expected and is not so, in the order it was noticed.
    pub failures: Vec<Failure>,
    /// Invariants that did not hold, and defects of the operator, a sentence each.
    pub broken: Vec<String>,
    /// What happened.
    pub chronicle: Chronicle,
    /// Every committed write, a line each.
    pub write_log: String,
    /// Every object as it was stored at the end.
    pub objects: Vec<Arc<Value>>,
}

impl Played {
    /// Whether everything was as expected.
    pub fn passed(&self) -> bool {
        self.failures.is_empty() && self.broken.is_empty()
    }
}

/// Something that was expected and is not so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Line of the expectation or step.
    pub line: usize,
    /// When it was judged.
    pub at: Duration,
    /// What was expected.
    pub expected: String,
    /// What was there.
    pub found: String,
}

/// Plays a scenario with its own seed or another one.
///
/// # Errors
/// If the API server refuses one of its `objects`: then the file is wrong.
pub fn play(scenario: &Scenario, seed: Option<u64>) -> Result<Played, ScenarioError> {
    history(async {
        let seed = seed.unwrap_or(scenario.seed);
        let mut stage = Stage::set(scenario, seed)?;
        let mut rest_from = Duration::ZERO;
        for step in &scenario.steps {
            stage.take(step).await;
            rest_from = rest_from.max(stage.world.elapsed());
            if let When::At(at) = step.when {
                rest_from = rest_from.max(at);
            }
        }
        let end = scenario.end.unwrap_or(rest_from + DEFAULT_REST);
        stage.world.run_until(end).await;
        stage.world.settle().await;
        let Scenario { expect: at_the_end, .. } = scenario;
        stage.judge(at_the_end);
        Ok(stage.finish(seed).await)
    })
}

/// A scenario under way.
struct Stage<'a> {
    scenario: &'a Scenario,
    world: World,
    recorder: Recorder,
    failures: Vec<Failure>,
}

impl<'a> Stage<'a> {
    /// Everything at virtual time 0, the replicas started.
    fn set(scenario: &'a Scenario, seed: u64) -> Result<Self, ScenarioError> {
        let (start, replicas) = (scenario.start, scenario.replicas);
        let world = World::new(Setup { start, replicas, seed, lease_seconds: LEASE_SECONDS });
        let recorder = Recorder::attach(&world);
        for namespace in namespaces(scenario) {
            world.model().add_namespace(&namespace);
        }
        for (index, manifest) in scenario.objects.iter().enumerate() {
            world.model().install(&manifest.value).map_err(|refused| {
                let line = scenario.line(manifest.place);
                let field = format!("spec.objects[{index}]");
                let sentence = format!("is refused by the API server: {refused}");
                let problems = vec![Problem { line, field, sentence }];
                ScenarioError { file: scenario.file.clone(), problems }
            })?;
        }
        world.provider().add_rules(scenario.rules.iter().cloned());
        world.start();
        Ok(Self { scenario, world, recorder, failures: Vec::new() })
    }

    async fn take(&mut self, step: &Step) {
        match step.when {
            When::At(at) => self.world.run_until(at).await,
            When::Within(most) => {
                if let Verb::Until(list) = &step.verb {
                    self.wait(list, most).await;
                }
                return;
            }
        }
        let outcome = self.act(&step.verb).await;
        let line = self.scenario.line(step.place);
        let at = self.world.elapsed();
        let mut fail = |expected: String, found: String| {
            self.failures.push(Failure { line, at, expected, found });
        };
        match (outcome, &step.refused) {
            (Ok(()), None) => {}
            (Ok(()), Some(wanted)) => fail(
                format!("the API server to refuse this step with {wanted:?}"),
                "it did what was asked".to_owned(),
            ),
            (Err(refusal), Some(wanted)) if refusal.contains(wanted.as_str()) => {}
            (Err(refusal), Some(wanted)) => {
                fail(format!("the API server to refuse this step with {wanted:?}"), refusal);
            }
            (Err(refusal), None) => {
                fail("the API server to do what this step asks".to_owned(), refusal);
            }
        }
    }

    /// Does what the verb says; a refusal of the API server is told as a sentence.
    async fn act(&mut self, verb: &Verb) -> Result<(), String> {
        match verb {
            Verb::Replica(what, who) => self.replica(*what, *who),
            Verb::Crash { who, after_write } => {
                for replica in self.who(*who) {
                    self.world.crash_after_write(replica, *after_write);
                }
            }
            Verb::Apply(manifest) => return self.apply(manifest),
            Verb::Patch { object, merge } => {
                let key = object.key();
                let request = Request::patch(&key, merge.clone());
                return self.write(&format!("patches {object}"), request);
            }
            Verb::Cancel(object) => {
                let key = object.key();
                let patch = serde_json::json!({"spec": {"cancel": true}});
                return self.write(&format!("cancels {object}"), Request::patch(&key, patch));
            }
            Verb::Delete(object) => {
                let key = object.key();
                if self.world.model().get(&key).is_none() {
                    return Ok(());
                }
                let request = Request::delete(&key, Deletion::default());
                return self.write(&format!("deletes {object}"), request);
            }
            Verb::DeleteLease => self.world.delete_lease(),
            Verb::PatchLease(patch) => {
                if self.world.model().get(&World::lease_key()).is_some() {
                    return self.world.patch_lease(patch.clone()).map_err(|r| sentence(&r));
                }
            }
            Verb::ClockJump(who, by) => {
                for replica in self.who(*who) {
                    self.world.jump_clock(replica, *by);
                }
            }
            Verb::ClockRate(who, rate) => {
                for replica in self.who(*who) {
                    self.world.set_rate(replica, *rate);
                }
            }
            Verb::Api(fault) => self.api(*fault),
            Verb::Provider(rule) => self.world.provider().put_rule(rule.clone()),
            Verb::Lose(run) => self.world.provider_loses(&run.to_string()),
            Verb::Expect(list) => {
                self.world.settle().await;
                self.judge(list);
            }
            Verb::Until(_) => {}
        }
        Ok(())
    }

    /// The replicas that are meant, at this moment.
    fn who(&self, who: Who) -> Vec<usize> {
        let all = self.scenario.replicas;
        match who {
            Who::Leader => self.world.leader().filter(|index| *index < all).into_iter().collect(),
            Who::Standby => self.world.standby().into_iter().collect(),
            Who::All => (0..all).collect(),
            Who::Replica(index) => vec![index],
        }
    }

    fn replica(&self, what: ReplicaVerb, who: Who) {
        let meant = self.who(who);
        if what == ReplicaVerb::Restart {
            // All of them at once: none takes over from another that is about to be killed.
            for replica in &meant {
                self.world.kill(*replica);
            }
        }
        for replica in meant {
            match what {
                ReplicaVerb::Pause => self.world.pause(replica),
                ReplicaVerb::Resume => self.world.resume(replica),
                ReplicaVerb::Kill => self.world.kill(replica),
                ReplicaVerb::Restart => self.world.restart(replica),
                ReplicaVerb::Partition => self.world.partition(replica),
                ReplicaVerb::Heal => self.world.heal(replica),
            }
        }
    }

    fn api(&self, fault: ApiFault) {
        self.world.api(&match fault {
            ApiFault::Unavailable(lasts) => world::ApiFault::Unavailable(lasts),
            ApiFault::DropResponses(n) => world::ApiFault::DropResponses(n),
            ApiFault::Conflicts(n) => world::ApiFault::Conflicts(n),
            ApiFault::Latency { delay, lasts } => {
                world::ApiFault::Latency { extra: delay, lasting: lasts }
            }
            ApiFault::StaleReads(lasts) => world::ApiFault::StaleReads(lasts),
            ApiFault::Compact => world::ApiFault::Compact,
        });
    }

    fn apply(&self, manifest: &Manifest) -> Result<(), String> {
        let object = &manifest.object;
        let key = object.key();
        let request = if self.world.model().get(&key).is_some() {
            Request::patch(&key, manifest.value.clone())
        } else {
            Request::create(key.kind, &key.namespace, manifest.value.clone())
        };
        self.write(&format!("applies {object}"), request)
    }

    /// A write of a person.
    fn write(&self, what: &str, request: Request) -> Result<(), String> {
        match self.world.model().write(PERSON, request) {
            Ok(_) => {
                self.world.note(format!("a person {what}"));
                Ok(())
            }
            Err(refusal) => {
                let sentence = sentence(&refusal);
                self.world.note(format!("a person {what}; refused: {sentence}"));
                Err(sentence)
            }
        }
    }

    async fn wait(&mut self, list: &[Expectation], most: Duration) {
        let deadline = self.world.elapsed() + most;
        loop {
            if self.misses(list).is_empty() {
                return;
            }
            let now = self.world.elapsed();
            if now >= deadline {
                let mut failures = self.misses(list);
                for failure in &mut failures {
                    failure.expected = format!("{} within {}", failure.expected, show_time(most));
                }
                self.failures.append(&mut failures);
                return;
            }
            self.world.run_until((now + LOOK_EVERY).min(deadline)).await;
        }
    }

    fn judge(&mut self, list: &[Expectation]) {
        let mut failures = self.misses(list);
        self.failures.append(&mut failures);
    }

    /// Those of the list that do not hold now.
    fn misses(&self, list: &[Expectation]) -> Vec<Failure> {
        let runs: Vec<RunFact> = self.recorder.runs(&self.world).iter().map(fact).collect();
        let traces = self.recorder.traces();
        let terms = self.world.terms().len();
        let ground = Ground { model: self.world.model(), runs: &runs, traces: &traces, terms };
        let at = self.world.elapsed();
        let miss = |one: &Expectation| {
            let miss = one.what.judge(ground).err()?;
            let line = self.scenario.line(one.place);
            Some(Failure { line, at, expected: miss.expected, found: miss.found })
        };
        list.iter().filter_map(miss).collect()
    }

    /// Ends the history. What must have converged is judged a moment later: whoever follows a run
    /// looks every two seconds.
    async fn finish(self, seed: u64) -> Played {
        let chronicle = self.recorder.chronicle(&self.world);
        let model = self.world.model();
        let objects = Kind::ALL.into_iter().flat_map(|kind| model.list(kind)).collect();
        self.world.run_until(self.world.elapsed() + LAST_LOOK).await;
        self.world.settle().await;
        let mut broken: Vec<String> = self.world.finish().iter().map(ToString::to_string).collect();
        broken.extend(self.world.defects());
        let write_log = self.world.write_log();
        Played { seed, failures: self.failures, broken, chronicle, write_log, objects }
    }
}

/// Namespaces that manifests of the file name, so that nobody needs to create them.
fn namespaces(scenario: &Scenario) -> BTreeSet<String> {
    let applied = scenario.steps.iter().filter_map(|step| match &step.verb {
        Verb::Apply(manifest) => Some(manifest),
        _ => None,
    });
    let all = scenario.objects.iter().chain(applied).map(|one| one.object.namespace.clone());
    all.filter(|namespace| !namespace.is_empty() && namespace != DEFAULT_NAMESPACE).collect()
}

fn fact(run: &Run) -> RunFact {
    RunFact {
        kind: run.kind.clone(),
        namespace: run.namespace.clone(),
        name: run.object.clone(),
        run_key: run.run_key.clone(),
        released_at: run.released,
    }
}

/// A refusal with everything that a `refused` may name.
fn sentence(refusal: &Refusal) -> String {
    format!("{} {}: {}", refusal.code, refusal.reason, refusal.message)
}
