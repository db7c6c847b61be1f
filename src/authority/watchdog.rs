//! The last resort: ends the process when its term ran out and nobody said so.
//!
//! An OS thread, not a task, so that it works when the runtime does not. Normally the elector notices
//! first, publishes the loss, and this thread finds nothing to do.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use super::Gate;
use crate::time::{LeaseClock, LeaseInstant};

/// How often the validity is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// How long after the end of the validity the elector has to say so itself. Takeover by another
/// replica comes later than that for every allowed duration.
const GRACE: Duration = Duration::from_millis(500);

/// A running watchdog; dropping it ends it.
#[derive(Debug)]
pub struct Watchdog {
    stop: Arc<AtomicBool>,
    thread: thread::Thread,
}

impl Watchdog {
    /// Starts the thread. `exit` is called at most once, and is meant to end the process.
    ///
    /// # Errors
    /// If the operating system gives no thread.
    pub fn start(
        gate: Gate,
        clock: LeaseClock,
        exit: impl FnOnce() + Send + 'static,
    ) -> std::io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let spawned = thread::Builder::new().name("watchdog".to_owned()).spawn(move || {
            while !stopped.load(Ordering::Acquire) {
                if ran_out(&gate, clock.now()) {
                    exit();
                    return;
                }
                thread::park_timeout(LOOK_EVERY);
            }
        })?;
        Ok(Self { stop, thread: spawned.thread().clone() })
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        self.thread.unpark();
    }
}

/// Whether the gate still stands open after its term and the grace.
fn ran_out(gate: &Gate, now: LeaseInstant) -> bool {
    // A lost gate has no validity.
    gate.valid_until().is_some_and(|until| now >= until.after(GRACE))
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::sync_channel;

    use super::*;
    use crate::authority::Term;

    const SECOND: u64 = 1_000_000_000;

    fn gate() -> (Gate, LeaseClock) {
        let clock = LeaseClock::driven(LeaseInstant::from_nanos(0));
        (Gate::new(clock.clone()), clock)
    }

    fn open(gate: &Gate, secs: u64) {
        let term = Term { epoch: 5, nonce: "n".into() };
        gate.open(&term, LeaseInstant::from_nanos(secs * SECOND));
    }

    #[test]
    fn only_an_open_gate_can_run_out() {
        let (gate, _) = gate();
        let late = LeaseInstant::from_nanos(9 * SECOND);
        assert!(!ran_out(&gate, late), "never led");
        open(&gate, 6);
        assert!(!ran_out(&gate, LeaseInstant::from_nanos(6 * SECOND)), "the elector's turn");
        assert!(ran_out(&gate, LeaseInstant::from_nanos(6 * SECOND + SECOND / 2)));
        open(&gate, 20);
        assert!(!ran_out(&gate, late), "renewed");
        gate.lose();
        assert!(!ran_out(&gate, LeaseInstant::from_nanos(99 * SECOND)), "said so itself");
    }

    #[test]
    fn the_thread_ends_the_process_without_any_runtime() {
        let (gate, clock) = gate();
        open(&gate, 6);
        let (sender, receiver) = sync_channel(1);
        let _watchdog = Watchdog::start(gate, clock.clone(), move || {
            sender.send(()).unwrap();
        })
        .unwrap();
        clock.set(LeaseInstant::from_nanos(7 * SECOND));
        receiver.recv_timeout(Duration::from_secs(10)).unwrap();
    }

    #[test]
    fn a_dropped_watchdog_ends_nothing() {
        let (gate, clock) = gate();
        open(&gate, 6);
        let (sender, receiver) = sync_channel::<()>(1);
        let exit = move || sender.send(()).unwrap();
        drop(Watchdog::start(gate, clock.clone(), exit).unwrap());
        // The thread is gone when its sender is.
        receiver.recv_timeout(Duration::from_secs(10)).unwrap_err();
        clock.set(LeaseInstant::from_nanos(99 * SECOND));
    }
}
