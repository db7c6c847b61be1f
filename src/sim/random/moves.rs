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
    /// Something happens to a node, a pod or a Job.
    Cluster,
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
            Move::Cluster => self.cluster(),
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

    /// Something happens to a node, a pod or a Job.
    fn cluster(&mut self) {
        let jobs: Vec<String> = self.world.model().list(Kind::Job).iter().map(name_of).collect();
        let job = self.dice.pick(&jobs).cloned();
        let (kind, node) = (self.dice.of(1..=9), self.dice.pick(&NODES).copied());
        let workload = self.world.workload();
        match (kind, job, node) {
            (1 | 2, _, Some(node)) => {
                workload.lose_node(node, kind == 1);
                let after = Duration::from_secs(self.dice.of(10..=120));
                self.later(after, Undo::ReturnNode(node));
            }
            (3, _, Some(node)) => {
                workload.remove_node(node);
                self.later(Duration::from_secs(30), Undo::ReturnNode(node));
            }
            (4, Some(job), _) => workload.evict("default", &job),
            (5, Some(job), _) => workload.vanish("default", &job),
            (6, Some(job), _) => workload.second_pod("default", &job),
            (7, Some(job), _) => workload.collect_finished("default", &job),
            (8, Some(job), _) => workload.suspend("default", &job, true),
            (9, Some(job), _) => workload.suspend("default", &job, false),
            _ => return,
        }
        self.world.note("something happens to a node, a pod or a Job");
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
