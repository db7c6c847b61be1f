//! What can be done to a world: to processes, machines, the network, the API server, the Lease and the
//! provider.

use std::time::Duration;

use jiff::SignedDuration;
use serde_json::Value;

use super::{
    World,
    faults::{Class, Effect, Fault},
    story::What,
    time::Machine,
};
use crate::{
    sim::api::{Deletion, Refusal, Request},
    time::LeaseClock,
};

/// What happens to the API server as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ApiFault {
    /// Nobody reaches it for this time.
    Unavailable(Duration),
    /// The next writes of anyone, the Lease included, are carried out, and their answers are lost.
    DropResponses(u32),
    /// The next conditional writes other than the Lease are answered with 409.
    Conflicts(u32),
    /// The next writes of anyone are answered with this code; whether they were carried out all the
    /// same.
    Refuse {
        /// HTTP status.
        code: u16,
        /// How many.
        times: u32,
        /// Whether they are carried out.
        committed: bool,
    },
    /// Everything takes this much longer, for a time.
    Latency {
        /// How much longer, there and back together.
        extra: Duration,
        /// For how long.
        lasting: Duration,
    },
    /// Lists and watches answer as of now for this time.
    StaleReads(Duration),
    /// Lists of pods are answered with 503 for this time; everything else goes on.
    PodsNotListed(Duration),
    /// Old versions are forgotten: watches and lists from before get 410.
    Compact,
    /// All connections break once.
    BreakConnections,
}

impl World {
    /// SIGSTOP.
    pub fn pause(&self, replica: usize) {
        self.fleet.freeze(replica);
    }

    /// SIGCONT.
    pub fn resume(&self, replica: usize) {
        self.fleet.thaw(replica);
    }

    /// SIGKILL: nothing is given back. The replica stays dead until [`World::restart`].
    pub fn kill(&self, replica: usize) {
        self.fleet.kill(replica);
    }

    /// SIGKILL, if it runs, then a new process.
    pub fn restart(&self, replica: usize) {
        self.fleet.kill(replica);
        self.fleet.launch(replica);
    }

    /// SIGTERM: the process hands over and ends; it stays down until [`World::restart`].
    pub fn stop(&self, replica: usize) {
        self.fleet.stop(replica);
    }

    /// Cuts the replica off from the API server, not from the provider: nothing arrives, nothing comes
    /// back, and nobody says so.
    pub fn partition(&self, replica: usize) {
        if self.shared.net().cut_off(replica, true) {
            self.shared.fault("partition", Some(replica), What::CutOff);
        }
    }

    /// Ends that.
    pub fn heal(&self, replica: usize) {
        if self.shared.net().cut_off(replica, false) {
            self.shared.tell(Some(replica), What::Reachable);
        }
    }

    /// The replica's process dies right after that many committed writes from now on, the Lease and
    /// events not counted, before it sees the answer to the last one; 0 means before the next one
    /// arrives.
    pub fn crash_after_write(&self, replica: usize, writes: u32) {
        if writes == 0 {
            let fault = Fault::next_write(Effect::CrashBefore);
            return self.inject(Fault { replica: Some(replica), ..fault });
        }
        let mut hosts = self.shared.hosts();
        if let Some(host) = hosts.get_mut(replica).filter(|host| host.running.is_some()) {
            host.crash_after = Some(writes);
        }
    }

    /// Sets the replica's wall clock forward, or back.
    pub fn jump_clock(&self, replica: usize, by: SignedDuration) {
        if let Some(machine) = self.machine(replica) {
            machine.jump(by);
            let sentence = format!("'s wall clock is set by {:.3} s", by.as_secs_f64());
            self.shared.fault("clock jump", Some(replica), What::Fault { sentence });
        }
    }

    /// Lets the replica's lease clock run at this rate: 1 is right.
    pub fn set_rate(&self, replica: usize, rate: f64) {
        if let Some(machine) = self.machine(replica) {
            machine.set_rate(rate);
            let sentence = format!("'s lease clock runs at {rate} times the right rate");
            self.shared.fault("clock rate", Some(replica), What::Fault { sentence });
        }
    }

    /// Both clocks of the replica's machine are right from now on.
    pub fn right_clocks(&self, replica: usize) {
        if let Some(machine) = self.machine(replica).filter(|machine| !machine.is_right()) {
            machine.set_right();
            self.shared.tell(Some(replica), What::Step { sentence: "'s clocks are right".into() });
        }
    }

    /// The replica's lease clock.
    pub fn lease_clock(&self, replica: usize) -> Option<LeaseClock> {
        self.machine(replica).map(|machine| machine.lease_clock())
    }

    pub(super) fn machine(&self, replica: usize) -> Option<Machine> {
        self.shared.hosts().get(replica).map(|host| host.machine.clone())
    }

    /// A fault that waits for its request.
    pub fn inject(&self, fault: Fault) {
        self.shared.net().inject(fault);
    }

    /// Faults that wait strike no more.
    pub fn clear_faults(&self) {
        self.shared.net().clear_faults();
    }

    /// Lets all requests through that are held back, in the order in which they were held.
    pub fn let_through(&self) {
        self.shared.let_through();
    }

    /// Something happens to the API server as a whole.
    pub fn api(&self, fault: &ApiFault) {
        let now = self.elapsed();
        let lasting = match fault {
            ApiFault::Unavailable(lasting)
            | ApiFault::Latency { lasting, .. }
            | ApiFault::PodsNotListed(lasting)
            | ApiFault::StaleReads(lasting) => *lasting,
            _ => Duration::ZERO,
        };
        self.shared.book().trouble_until(now + lasting);
        let next = |times, class, effect| Fault { class, times, ..Fault::next_write(effect) };
        let (name, sentence) = match fault {
            ApiFault::Unavailable(lasting) => {
                self.shared.net().go_away(now + *lasting);
                ("API server away", format!("the API server is away for {}", shown(*lasting)))
            }
            ApiFault::DropResponses(times) => {
                let silent = self.shared.net().coin();
                self.inject(next(*times, Class::Write, Effect::LoseResponse { silent }));
                ("responses dropped", format!("the answers to the next {times} writes get lost"))
            }
            ApiFault::Conflicts(times) => {
                let effect = Effect::Refuse { code: 409, committed: false };
                self.inject(next(*times, Class::Conditional, effect));
                ("conflicts", format!("the next {times} conditional writes conflict"))
            }
            ApiFault::Refuse { code, times, committed } => {
                let effect = Effect::Refuse { code: *code, committed: *committed };
                self.inject(next(*times, Class::Write, effect));
                ("refusals", format!("the next {times} writes are answered with {code}"))
            }
            ApiFault::Latency { extra, lasting } => {
                self.shared.net().slow_down(*extra, now + *lasting);
                let (extra, lasting) = (shown(*extra), shown(*lasting));
                ("slow", format!("everything takes {extra} longer for {lasting}"))
            }
            ApiFault::StaleReads(lasting) => {
                for server in &self.fleet.servers {
                    server.stale_reads_until(now + *lasting);
                }
                let lasting = shown(*lasting);
                ("stale reads", format!("lists and watches answer as of now for {lasting}"))
            }
            ApiFault::PodsNotListed(lasting) => {
                self.shared.net().hide_pods(now + *lasting);
                let lasting = shown(*lasting);
                ("pods not listed", format!("lists of pods are answered with 503 for {lasting}"))
            }
            ApiFault::Compact => {
                self.model.compact();
                ("compaction", "the API server forgets old versions".to_owned())
            }
            ApiFault::BreakConnections => {
                self.shared.net().break_connections(None);
                ("connections broken", "all connections break".to_owned())
            }
        };
        self.shared.fault(name, None, What::Fault { sentence });
    }

    /// A person deletes the Lease, if there is one.
    pub fn delete_lease(&self) {
        let delete = Request::delete(&Self::lease_key(), Deletion::default());
        if self.model.write("person", delete).is_ok() {
            self.shared.fault("Lease deleted", None, step("a person deletes the Lease"));
        }
    }

    /// A person edits the Lease by a merge patch.
    ///
    /// # Errors
    /// As the API server refuses it.
    pub fn patch_lease(&self, patch: Value) -> Result<(), Refusal> {
        self.model.write("person", Request::patch(&Self::lease_key(), patch))?;
        self.shared.fault("Lease edited", None, step("a person edits the Lease"));
        Ok(())
    }

    /// The provider cannot be asked for a time.
    pub fn provider_unreachable(&self, lasting: Duration) {
        let until = self.elapsed() + lasting;
        self.provider.unreachable_until(until);
        self.shared.book().trouble_until(until);
        let sentence = format!("the provider cannot be reached for {}", shown(lasting));
        self.shared.fault("provider unreachable", None, What::Fault { sentence });
    }

    /// The provider forgets the runs of an attempt (`<object>-m1`).
    pub fn provider_loses(&self, attempt_name: &str) {
        if self.provider.lose(attempt_name) > 0 {
            let sentence = format!("the provider loses {attempt_name}");
            self.shared.fault("provider loses a run", None, What::Fault { sentence });
        }
    }
}

fn step(sentence: &str) -> What {
    What::Step { sentence: sentence.to_owned() }
}

/// A duration for a sentence.
fn shown(duration: Duration) -> String {
    format!("{} s", duration.as_secs_f64())
}
