//! What to look at next: a keyed work queue, as in client-go, but deterministic.
//!
//! Same calls in the same order, same hand-outs. A key is in the queue at most once and is never
//! handed out twice at once, so the queue is bounded by the number of distinct keys.

use std::{
    any::Any,
    collections::{BTreeMap, BTreeSet, VecDeque},
    future::Future,
    panic::AssertUnwindSafe,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures::FutureExt as _;
use tokio::{
    sync::Notify,
    task::JoinSet,
    time::{Instant, sleep_until},
};

use crate::task;

/// When a key is looked at again whose handler panicked: a defect, so rarely, but the others go on.
const AFTER_PANIC: Duration = Duration::from_secs(60);

/// A keyed work queue; clones share it.
#[derive(Debug)]
pub struct Queue<T> {
    inner: Arc<Inner<T>>,
}

impl<T> Clone for Queue<T> {
    fn clone(&self) -> Self {
        Self { inner: Arc::clone(&self.inner) }
    }
}

#[derive(Debug)]
struct Inner<T> {
    state: Mutex<State<T>>,
    changed: Notify,
}

#[derive(Debug)]
struct State<T> {
    /// Keys to hand out, in order; none of them is in `processing`.
    ready: VecDeque<T>,
    /// Keys to hand out now or once they are done.
    dirty: BTreeSet<T>,
    /// Keys handed out and not done.
    processing: BTreeSet<T>,
    /// Keys for later, by time.
    timers: BTreeSet<(Instant, T)>,
    /// The one timer of each key.
    due: BTreeMap<T, Instant>,
    closed: bool,
}

impl<T: Ord + Clone> State<T> {
    fn add(&mut self, key: T) {
        if self.dirty.insert(key.clone()) && !self.processing.contains(&key) {
            self.ready.push_back(key);
        }
    }

    /// Moves keys whose time has come to the ready ones.
    fn promote(&mut self, now: Instant) {
        while let Some((at, _)) = self.timers.first() {
            if *at > now {
                break;
            }
            let Some((_, key)) = self.timers.pop_first() else { break };
            self.due.remove(&key);
            self.add(key);
        }
    }
}

impl<T: Ord + Clone> Default for Queue<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Ord + Clone> Queue<T> {
    /// An empty queue.
    pub fn new() -> Self {
        let state = State {
            ready: VecDeque::new(),
            dirty: BTreeSet::new(),
            processing: BTreeSet::new(),
            timers: BTreeSet::new(),
            due: BTreeMap::new(),
            closed: false,
        };
        Self { inner: Arc::new(Inner { state: Mutex::new(state), changed: Notify::new() }) }
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        // Nothing in here panics between two changes that belong together.
        self.inner.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands `key` out as soon as a worker is free; if it is being worked on, once that is done.
    pub fn add(&self, key: T) {
        self.lock().add(key);
        self.inner.changed.notify_one();
    }

    /// Hands `key` out at `at`. A key has one timer: the earliest wins. A timer is not cancelled by
    /// the key being handed out for another reason in the meantime.
    pub fn add_at(&self, key: T, at: Instant) {
        {
            let mut state = self.lock();
            if let Some(old) = state.due.get(&key).copied() {
                if old <= at {
                    return;
                }
                state.timers.remove(&(old, key.clone()));
            }
            state.due.insert(key.clone(), at);
            state.timers.insert((at, key));
        }
        self.inner.changed.notify_one();
    }

    /// The next key, once there is one; `None` after [`Queue::close`]. Whoever gets a key must
    /// return it with [`Queue::done`].
    pub async fn next(&self) -> Option<T> {
        loop {
            let wake_at = {
                let mut state = self.lock();
                if state.closed {
                    drop(state);
                    self.inner.changed.notify_one(); // pass it on to the other workers
                    return None;
                }
                state.promote(Instant::now());
                if let Some(key) = state.ready.pop_front() {
                    state.dirty.remove(&key);
                    state.processing.insert(key.clone());
                    let more = !state.ready.is_empty();
                    drop(state);
                    if more {
                        self.inner.changed.notify_one();
                    }
                    return Some(key);
                }
                state.timers.first().map(|(at, _)| *at)
            };
            // A notification between the lock and here is kept by `notify_one`.
            match wake_at {
                Some(at) => tokio::select! {
                    biased;
                    () = self.inner.changed.notified() => {}
                    () = sleep_until(at) => {}
                },
                None => self.inner.changed.notified().await,
            }
        }
    }

    /// `key` was worked on. If it was added meanwhile it is handed out again.
    pub fn done(&self, key: &T) {
        {
            let mut state = self.lock();
            state.processing.remove(key);
            if state.dirty.contains(key) {
                state.ready.push_back(key.clone());
            }
        }
        self.inner.changed.notify_one();
    }

    /// Ends the queue: every worker gets `None`. What was not handed out is dropped.
    pub fn close(&self) {
        self.lock().closed = true;
        self.inner.changed.notify_one();
    }

    /// Number of keys that wait for a worker now.
    pub fn len(&self) -> usize {
        self.lock().ready.len()
    }

    /// Whether no key waits for a worker now.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Works on the queue with `concurrency` workers until it is closed.
///
/// The handler says when to look at the key again, if at all by itself. A handler that panics costs
/// its key a minute, not the others.
pub async fn run_workers<T, H, F>(queue: Queue<T>, concurrency: usize, handler: H)
where
    T: Ord + Clone + Send + std::fmt::Debug + 'static,
    H: Fn(T) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Option<Instant>> + Send + 'static,
{
    let mut workers = JoinSet::new();
    for _ in 0..concurrency.max(1) {
        task::spawn_in(&mut workers, work(queue.clone(), handler.clone()));
    }
    while workers.join_next().await.is_some() {}
}

async fn work<T, H, F>(queue: Queue<T>, handler: H)
where
    T: Ord + Clone + std::fmt::Debug,
    H: Fn(T) -> F,
    F: Future<Output = Option<Instant>>,
{
    while let Some(key) = queue.next().await {
        let of = key.clone();
        let outcome = AssertUnwindSafe(async { handler(of).await }).catch_unwind().await;
        let again = outcome.unwrap_or_else(|panic| {
            tracing::error!(?key, panic = words(&*panic), "handler panicked; this is a defect");
            Some(Instant::now() + AFTER_PANIC)
        });
        if let Some(at) = again {
            queue.add_at(key.clone(), at);
        }
        queue.done(&key);
    }
}

/// What a panic said.
fn words(panic: &(dyn Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The next key if one can be had without time passing.
    fn now<T: Ord + Clone>(queue: &Queue<T>) -> Option<T> {
        queue.next().now_or_never().flatten()
    }

    #[tokio::test(start_paused = true)]
    async fn keys_come_in_order_and_once() {
        let queue = Queue::new();
        for key in ["b", "a", "b"] {
            queue.add(key);
        }
        assert_eq!((queue.len(), queue.is_empty()), (2, false));
        assert_eq!((now(&queue), now(&queue), now(&queue)), (Some("b"), Some("a"), None));
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_is_never_out_twice_and_comes_again_if_added_meanwhile() {
        let queue = Queue::new();
        queue.add("a");
        assert_eq!(now(&queue), Some("a"));
        queue.add("a");
        queue.add("a");
        assert_eq!(now(&queue), None, "still being worked on");
        queue.done(&"a");
        assert_eq!(now(&queue), Some("a"));
        queue.done(&"a");
        assert_eq!(now(&queue), None, "two additions, one hand-out");
    }

    #[tokio::test(start_paused = true)]
    async fn the_earliest_time_wins_and_each_fires_once() {
        let queue = Queue::new();
        let start = Instant::now();
        let after = |secs| start + Duration::from_secs(secs);
        queue.add_at("late", after(9));
        queue.add_at("early", after(5));
        queue.add_at("late", after(3));
        queue.add_at("late", after(7));
        assert_eq!(queue.next().await, Some("late"));
        assert_eq!(Instant::now(), after(3));
        assert_eq!(queue.next().await, Some("early"));
        assert_eq!(Instant::now(), after(5));
        queue.done(&"late");
        tokio::time::advance(Duration::from_secs(20)).await;
        assert_eq!(now(&queue), None, "the later times were replaced");
    }

    #[tokio::test(start_paused = true)]
    async fn a_time_that_comes_while_the_key_is_out_is_not_lost() {
        let queue = Queue::new();
        queue.add("a");
        assert_eq!(now(&queue), Some("a"));
        queue.add_at("a", Instant::now() + Duration::from_secs(1));
        tokio::time::advance(Duration::from_secs(2)).await;
        assert_eq!(now(&queue), None);
        queue.done(&"a");
        assert_eq!(now(&queue), Some("a"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_waiting_worker_is_woken_by_an_earlier_time() {
        let queue = Queue::new();
        let start = Instant::now();
        queue.add_at("late", start + Duration::from_secs(60));
        let other = queue.clone();
        let waiting = tokio::spawn(async move { (other.next().await, Instant::now()) });
        tokio::task::yield_now().await;
        queue.add_at("soon", start + Duration::from_secs(2));
        assert_eq!(waiting.await.unwrap(), (Some("soon"), start + Duration::from_secs(2)));
    }

    #[tokio::test(start_paused = true)]
    async fn workers_keep_to_their_number_and_end_with_the_queue() {
        let queue = Queue::new();
        let running = Arc::new(Mutex::new((0_usize, 0_usize, Vec::new())));
        for key in 0..10 {
            queue.add(key);
        }
        let seen = Arc::clone(&running);
        let workers = tokio::spawn(run_workers(queue.clone(), 3, move |key: i32| {
            let seen = Arc::clone(&seen);
            async move {
                {
                    let mut seen = seen.lock().unwrap();
                    seen.0 += 1;
                    seen.1 = seen.1.max(seen.0);
                    seen.2.push(key);
                }
                tokio::time::sleep(Duration::from_secs(1)).await;
                seen.lock().unwrap().0 -= 1;
                None
            }
        }));
        tokio::time::sleep(Duration::from_secs(30)).await;
        queue.close();
        workers.await.unwrap();
        let seen = running.lock().unwrap();
        assert_eq!((seen.0, seen.1), (0, 3));
        assert_eq!(seen.2, (0..10).collect::<Vec<_>>());
    }

    #[tokio::test(start_paused = true)]
    async fn a_panic_costs_its_key_a_minute_and_nobody_else_anything() {
        let queue = Queue::new();
        let log = Arc::new(Mutex::new(Vec::new()));
        let start = Instant::now();
        queue.add("bad");
        queue.add("good");
        let seen = Arc::clone(&log);
        let handler = move |key: &'static str| {
            let mut seen = seen.lock().unwrap();
            seen.push((key, Instant::now().duration_since(start).as_secs()));
            let first = seen.len() == 1;
            drop(seen);
            async move {
                assert!(!first, "the first one panics");
                None
            }
        };
        let workers = tokio::spawn(run_workers(queue.clone(), 1, handler));
        tokio::time::sleep(Duration::from_secs(90)).await;
        queue.close();
        workers.await.unwrap();
        assert_eq!(*log.lock().unwrap(), [("bad", 0), ("good", 0), ("bad", 60)]);
    }
}
