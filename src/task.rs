//! Where the tasks of one replica are spawned: all of them belong to its [`Process`], if it has one.
//!
//! In production a replica is an operating-system process, and nothing here does anything. In a
//! simulation many replicas live in one process, and what SIGSTOP, SIGCONT and SIGKILL do to an
//! operating-system process is done by a [`Process`] to every task of a replica, however deep it was
//! spawned. No task of a replica is spawned anywhere else; `tests/boundaries.rs` enforces it.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
};

use tokio::task::JoinSet;

tokio::task_local! {
    static CURRENT: Process;
}

/// Spawns into a set, as a task of the process that the caller belongs to.
pub fn spawn_in<T: Send + 'static>(
    set: &mut JoinSet<T>,
    future: impl Future<Output = T> + Send + 'static,
) {
    match CURRENT.try_with(Clone::clone) {
        Ok(process) => set.spawn(process.contain(future)),
        Err(_) => set.spawn(future),
    };
}

/// What the tasks of one simulated replica have in common; clones share it.
#[derive(Clone, Default)]
pub struct Process(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    mode: Mode,
    /// Tasks that were to run while the process was frozen, in that order. At most one entry a task
    /// and poll.
    frozen: Vec<Waker>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Mode {
    #[default]
    Runs,
    Frozen,
    Dead,
}

impl fmt::Debug for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Process").field(&self.lock().mode).finish()
    }
}

impl Process {
    /// A process that runs.
    pub fn new() -> Self {
        Self::default()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Every change is an assignment or a push.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The future as a task of this process, as is whatever it spawns by [`spawn_in`].
    pub fn contain<F: Future>(&self, future: F) -> Contained<F> {
        Contained { process: self.clone(), future: Some(Box::pin(future)) }
    }

    /// Stops all tasks, as SIGSTOP does: time goes on, nothing else does.
    pub fn freeze(&self) {
        let mut state = self.lock();
        if state.mode == Mode::Runs {
            state.mode = Mode::Frozen;
        }
    }

    /// Lets all tasks go on, as SIGCONT does.
    pub fn thaw(&self) {
        let mut state = self.lock();
        if state.mode != Mode::Frozen {
            return;
        }
        state.mode = Mode::Runs;
        let frozen = std::mem::take(&mut state.frozen);
        drop(state);
        frozen.into_iter().for_each(Waker::wake);
    }

    /// Ends all tasks, as SIGKILL does: none of them takes another step. What they hold is dropped
    /// when they would have run, or when the task at the root is aborted.
    pub fn kill(&self) {
        let mut state = self.lock();
        state.mode = Mode::Dead;
        let frozen = std::mem::take(&mut state.frozen);
        drop(state);
        frozen.into_iter().for_each(Waker::wake);
    }

    /// Whether it is frozen.
    pub fn is_frozen(&self) -> bool {
        self.lock().mode == Mode::Frozen
    }

    /// Whether it was killed.
    pub fn is_dead(&self) -> bool {
        self.lock().mode == Mode::Dead
    }

    /// Whether a task may take a step; if it is frozen, it is woken later.
    fn admits(&self, context: &Context<'_>) -> Mode {
        let mut state = self.lock();
        if state.mode == Mode::Frozen {
            state.frozen.push(context.waker().clone());
        }
        state.mode
    }
}

/// A future that is a task of a [`Process`]. It is never ready once the process is dead.
pub struct Contained<F> {
    process: Process,
    future: Option<Pin<Box<F>>>,
}

impl<F: Future> Future for Contained<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        match self.process.admits(context) {
            Mode::Frozen => return Poll::Pending,
            Mode::Dead => {
                self.future = None;
                return Poll::Pending;
            }
            Mode::Runs => {}
        }
        let process = self.process.clone();
        let Some(future) = &mut self.future else { return Poll::Pending };
        CURRENT.sync_scope(process, || future.as_mut().poll(context))
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::atomic::{AtomicU32, Ordering},
        time::Duration,
    };

    use tokio::time::sleep;

    use super::*;

    const TICK: Duration = Duration::from_secs(1);

    /// Counts seconds in a task two levels below the root.
    async fn nested(count: Arc<AtomicU32>) {
        let mut outer = JoinSet::new();
        spawn_in(&mut outer, async move {
            let mut inner = JoinSet::new();
            spawn_in(&mut inner, async move {
                loop {
                    sleep(TICK).await;
                    count.fetch_add(1, Ordering::Relaxed);
                }
            });
            inner.join_next().await
        });
        outer.join_next().await;
    }

    #[tokio::test(start_paused = true)]
    async fn all_tasks_stop_and_go_on_together() {
        let (count, process) = (Arc::<AtomicU32>::default(), Process::new());
        let root = tokio::spawn(process.contain(nested(Arc::clone(&count))));
        sleep(TICK * 3 + TICK / 2).await;
        assert_eq!(count.load(Ordering::Relaxed), 3);
        process.freeze();
        assert!(process.is_frozen());
        sleep(TICK * 10).await;
        assert_eq!(count.load(Ordering::Relaxed), 3, "time goes on, the process does not");
        process.thaw();
        sleep(TICK / 10).await;
        assert_eq!(count.load(Ordering::Relaxed), 4, "the sleep that ended meanwhile");
        sleep(TICK).await;
        assert_eq!(count.load(Ordering::Relaxed), 5);
        root.abort();
    }

    #[tokio::test(start_paused = true)]
    async fn a_killed_process_takes_no_step_and_lets_go_of_everything() {
        for frozen in [false, true] {
            let (count, process) = (Arc::<AtomicU32>::default(), Process::new());
            let root = tokio::spawn(process.contain(nested(Arc::clone(&count))));
            sleep(TICK * 2 + TICK / 2).await;
            if frozen {
                process.freeze();
                sleep(TICK * 2).await;
            }
            process.kill();
            root.abort();
            process.thaw();
            sleep(TICK * 5).await;
            assert!(process.is_dead(), "a dead process does not thaw");
            assert_eq!(count.load(Ordering::Relaxed), 2);
            assert_eq!(Arc::strong_count(&count), 1, "dropped");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn without_a_process_a_task_is_a_task() {
        let mut set = JoinSet::new();
        spawn_in(&mut set, async { 7 });
        assert_eq!(set.join_next().await.unwrap().unwrap(), 7);
    }
}
