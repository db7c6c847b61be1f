//! What can happen in a random history, and the hand that makes it happen.

use std::{collections::BTreeMap, time::Duration};

use jiff::SignedDuration;
use serde_json::{Value, json};

use crate::sim::{
    Kind,
    provider::Rule,
    rng::Rng,
    workload::NODES,
    world::{ApiFault, Fault, World},
};

/// Who something happens to, named when it happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// The holder of the Lease.
    Leader,
    /// The living replica with the lowest number that is not.
    Standby,
    /// All replicas.
    All,
}

/// One thing that happens. What lasts, is undone after that time.
#[derive(Clone, Debug, PartialEq)]
pub enum Move {
    /// SIGSTOP, then SIGCONT.
    Pause(Who, Duration),
    /// SIGKILL, then a new process.
    Kill(Who, Duration),
    /// SIGTERM, then a new process.
    Stop(Who, Duration),
    /// Cut off from the API server.
    Partition(Who, Duration),
    /// A crash after so many writes, then a new process.
    CrashAfter(Who, u32, Duration),
    /// A fault that waits for one of the next requests, of somebody or of anyone.
    Inject(Option<Who>, Fault),
    /// Something happens to the API server.
    Api(ApiFault),
    /// A person deletes the Lease.
    DeleteLease,
    /// A person names another holder, who does nothing.
    TakeLease,
    /// A person asks for another holder, as the coordinated election of Kubernetes does.
    SteerLease,
    /// The wall clock is set by so many seconds.
    Jump(Who, i64),
    /// The lease clock runs at so many percent of the right rate.
    Rate(Who, u32, Duration),
    /// The provider behaves like this from now on.
    ProviderRule(Rule),
    /// The provider cannot be reached.
    ProviderUnreachable(Duration),
    /// The provider's next answers get lost.
    ProviderDropsAnswers(u32),
    /// The provider forgets a run that is not over.
    ProviderLoses,
    /// A person does something with a schedule or an occurrence.
    Person,
    /// A client or a person does something with a report, its queue or its schedule.
    Client,
    /// A person decides about work of this kind whose end nobody knows.
    Resolve(Kind),
    /// A person lets the first schedule that runs Jobs run another image.
    NewImage,
    /// A person creates an object.
    Create(Value),
    /// A person edits the object of this name by a merge patch.
    Patch(Kind, &'static str, Value),
    /// A person deletes the object of this name.
    Delete(Kind, &'static str),
    /// Something happens to a node, a pod or a Job.
    Around(Around),
    /// The same to one of the Jobs whose names begin so.
    AroundOne(Around, &'static str),
    /// Any of that.
    Cluster,
}

/// What happens to a node, a pod or a Job; which one is left to chance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Around {
    /// A node falls silent, and its containers run on.
    LoseNode,
    /// A node falls silent, and its containers end.
    CrashNode,
    /// All nodes crash, and return after a while.
    NoNodes,
    /// A Node object is deleted.
    RemoveNode,
    /// A pod is evicted.
    Evict,
    /// A pod vanishes without a trace.
    Vanish,
    /// The Job controller makes a second pod.
    SecondPod,
    /// Finished pods are collected.
    Collect,
    /// Somebody suspends a Job.
    Suspend,
    /// Somebody lets a Job go on.
    Resume,
    /// Somebody deletes a Job.
    DeleteJob,
    /// Somebody deletes a Job and leaves its pods behind.
    Orphan,
    /// The Job controller does nothing for a while.
    NoController,
}

impl Around {
    /// What chance picks from; the rest is for situations that need it.
    const ALL: [Self; 12] = [
        Self::LoseNode,
        Self::CrashNode,
        Self::NoNodes,
        Self::RemoveNode,
        Self::Evict,
        Self::Vanish,
        Self::SecondPod,
        Self::Collect,
        Self::Suspend,
        Self::Resume,
        Self::DeleteJob,
        Self::Orphan,
    ];
}

/// What is undone later.
#[derive(Clone, Debug)]
enum Undo {
    Resume(usize),
    Restart(usize),
    Heal(usize),
    RightRate(usize),
    ReturnNode(&'static str),
    LetThrough,
}

/// How long there is no node at all: longer than a run waits for its start in some schedules.
const NO_NODES_FOR: Duration = Duration::from_secs(50);
/// How long the Job controller does nothing: until another leader of the operator has looked around,
/// and less than the operator waits for a pod that may be about to be created.
const NO_CONTROLLER_FOR: Duration = Duration::from_secs(45);
/// Requests that are held back land after this time: long after another replica leads.
const HELD_FOR: Duration = Duration::from_secs(40);

/// Makes moves and undoes them in time.
pub(super) struct Hand<'a> {
    pub(super) world: &'a World,
    pub(super) dice: Rng,
    undo: BTreeMap<(Duration, usize), Undo>,
    undone: usize,
}

impl<'a> Hand<'a> {
    pub(super) fn new(world: &'a World, dice: Rng) -> Self {
        Self { world, dice, undo: BTreeMap::new(), undone: 0 }
    }

    /// Lets time pass until then, and undoes what is to be undone meanwhile.
    pub(super) async fn until(&mut self, at: Duration) {
        while let Some(entry) = self.undo.first_entry().filter(|entry| entry.key().0 <= at) {
            let ((due, _), undo) = entry.remove_entry();
            self.world.run_until(due).await;
            self.take_back(&undo);
        }
        self.world.run_until(at).await;
    }

    fn later(&mut self, after: Duration, undo: Undo) {
        self.undone += 1;
        self.undo.insert((self.world.elapsed() + after, self.undone), undo);
    }

    fn take_back(&self, undo: &Undo) {
        match undo {
            Undo::Resume(replica) => self.world.resume(*replica),
            Undo::Restart(replica) => {
                if !self.world.living().contains(replica) {
                    self.world.restart(*replica);
                }
            }
            Undo::Heal(replica) => self.world.heal(*replica),
            Undo::RightRate(replica) => self.world.set_rate(*replica, 1.0),
            Undo::ReturnNode(node) => self.world.workload().return_node(node),
            Undo::LetThrough => self.world.let_through(),
        }
    }

    fn replicas(&self, who: Who) -> Vec<usize> {
        match who {
            Who::Leader => self.world.leader().into_iter().collect(),
            Who::Standby => self.world.standby().into_iter().collect(),
            Who::All => (0..self.world.setup().replicas).collect(),
        }
    }

    /// Makes it happen.
    pub(super) fn make(&mut self, one: &Move) {
        match one {
            Move::Pause(who, lasting) => self.each(*who, *lasting, World::pause, Undo::Resume),
            Move::Kill(who, lasting) => self.each(*who, *lasting, World::kill, Undo::Restart),
            Move::Stop(who, lasting) => self.each(*who, *lasting, World::stop, Undo::Restart),
            Move::Partition(who, lasting) => {
                self.each(*who, *lasting, World::partition, Undo::Heal);
            }
            Move::CrashAfter(who, writes, lasting) => {
                let crash = |world: &World, replica| world.crash_after_write(replica, *writes);
                self.each(*who, *lasting, crash, Undo::Restart);
            }
            Move::Inject(whose, fault) => self.inject(*whose, fault),
            Move::Api(fault) => self.world.api(fault),
            Move::DeleteLease => self.world.delete_lease(),
            Move::TakeLease => {
                let annotations = json!({"punctual.dev/nonce": "somebody-else"});
                let spec = json!({"holderIdentity": "somebody/else"});
                self.edit_lease(json!({"metadata": {"annotations": annotations}, "spec": spec}));
            }
            Move::SteerLease => {
                self.edit_lease(json!({"spec": {"strategy": "OldestEmulationVersion"}}));
            }
            Move::Jump(who, seconds) => {
                for replica in self.replicas(*who) {
                    self.world.jump_clock(replica, SignedDuration::from_secs(*seconds));
                }
            }
            Move::Rate(who, percent, lasting) => {
                let rate = |world: &World, replica| {
                    world.set_rate(replica, f64::from(*percent) / 100.0);
                };
                self.each(*who, *lasting, rate, Undo::RightRate);
            }
            Move::ProviderRule(rule) => {
                self.world.provider().put_rule(rule.clone());
                self.world.count_fault(&format!("provider: {:?}", rule.outcome));
                self.world.note(format!("runs end as {:?} from now on", rule.outcome));
            }
            Move::ProviderUnreachable(lasting) => self.world.provider_unreachable(*lasting),
            Move::ProviderDropsAnswers(calls) => {
                self.world.provider().drop_answers(*calls);
                self.world.count_fault("provider: answers lost");
                self.world.note(format!("the provider's next {calls} answers get lost"));
            }
            Move::ProviderLoses => self.lose_a_run(),
            Move::Person => self.person(),
            Move::Client => self.client(),
            Move::Resolve(kind) => self.resolve(*kind),
            Move::NewImage => self.new_image(),
            Move::Create(object) => self.create(object),
            Move::Patch(kind, name, patch) => self.patch(*kind, name, patch),
            Move::Delete(kind, name) => self.delete_named(*kind, name),
            Move::Around(what) => self.around(*what, ""),
            Move::AroundOne(what, prefix) => self.around(*what, prefix),
            Move::Cluster => {
                if let Some(what) = self.dice.pick(&Around::ALL).copied() {
                    self.around(what, "");
                }
            }
        }
    }

    fn each(
        &mut self,
        who: Who,
        lasting: Duration,
        make: impl Fn(&World, usize),
        undo: fn(usize) -> Undo,
    ) {
        for replica in self.replicas(who) {
            make(self.world, replica);
            self.later(lasting, undo(replica));
        }
    }

    fn inject(&mut self, whose: Option<Who>, fault: &Fault) {
        let replica = whose.and_then(|who| self.replicas(who).first().copied());
        self.world.inject(Fault { replica, ..fault.clone() });
        self.later(HELD_FOR, Undo::LetThrough);
    }

    fn edit_lease(&self, patch: Value) {
        // There may be no Lease to edit.
        let _ = self.world.patch_lease(patch);
    }

    fn lose_a_run(&mut self) {
        let runs = self.world.provider().runs();
        let open: Vec<&str> = runs
            .iter()
            .filter(|run| run.may_act() && !run.lost)
            .map(|run| run.attempt_name.as_str())
            .collect();
        if let Some(attempt) = self.dice.pick(&open) {
            self.world.provider_loses(attempt);
        }
    }

    /// Something happens to a node, a pod or a Job, of those whose names begin so.
    fn around(&mut self, what: Around, prefix: &str) {
        let all = self.world.model().list(Kind::Job);
        let names = all.iter().map(name_of);
        let jobs: Vec<String> = names.filter(|name| name.starts_with(prefix)).collect();
        let job = self.dice.pick(&jobs).cloned().unwrap_or_default();
        let Some(node) = self.dice.pick(&NODES).copied() else { return };
        let after = Duration::from_secs(self.dice.of(10..=120));
        let workload = self.world.workload();
        match what {
            Around::LoseNode | Around::CrashNode => {
                workload.lose_node(node, what == Around::CrashNode);
                self.later(after, Undo::ReturnNode(node));
            }
            Around::NoNodes => {
                for node in NODES {
                    workload.lose_node(node, true);
                    self.later(NO_NODES_FOR, Undo::ReturnNode(node));
                }
            }
            Around::RemoveNode => {
                workload.remove_node(node);
                self.later(Duration::from_secs(30), Undo::ReturnNode(node));
            }
            Around::NoController => workload.controller_away(NO_CONTROLLER_FOR),
            _ if job.is_empty() => return,
            Around::Evict => workload.evict("default", &job),
            Around::Vanish => workload.vanish("default", &job),
            Around::SecondPod => workload.second_pod("default", &job),
            Around::Collect => workload.collect_finished("default", &job),
            Around::Suspend => workload.suspend("default", &job, true),
            Around::Resume => workload.suspend("default", &job, false),
            Around::DeleteJob => self.delete_job(&job),
            Around::Orphan => workload.orphan("default", &job),
        }
        self.world.note(format!("{what:?}: {job} {node}"));
    }

    /// Everything is as it should be from now on.
    pub(super) fn repair(&mut self) {
        self.world.note("everything is repaired");
        self.undo.clear();
        self.world.clear_faults();
        self.world.let_through();
        self.world.provider().drop_answers(0);
        for replica in 0..self.world.setup().replicas {
            self.world.resume(replica);
            self.world.heal(replica);
            self.world.right_clocks(replica);
            if !self.world.living().contains(&replica) {
                self.world.restart(replica);
            }
        }
        for node in NODES {
            self.world.workload().return_node(node);
        }
        let lease = json!({"spec": {"strategy": null, "preferredHolder": null}});
        self.edit_lease(lease);
    }
}

/// The name of a stored object.
pub(super) fn name_of<V: AsRef<Value>>(object: &V) -> String {
    object.as_ref()["metadata"]["name"].as_str().unwrap_or_default().to_owned()
}
