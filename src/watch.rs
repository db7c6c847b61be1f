//! The latest value of something, and news of it: what `tokio::sync::watch` does, with one difference
//! that a simulation needs. Whoever waits is woken in the order in which he began to wait; tokio's
//! channel draws that order at random. `docs/decisions/0015-one-seed-one-history.md` says why.

use std::{
    ops::Deref,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use tokio::sync::Notify;

/// A value with one who sets it and many who follow it.
pub fn channel<T>(value: T) -> (Sender<T>, Receiver<T>) {
    let sender = Sender::new(value);
    let receiver = sender.subscribe();
    (sender, receiver)
}

/// Sets the value. Dropping it ends the news.
#[derive(Debug)]
pub struct Sender<T>(Arc<Shared<T>>);

/// Follows the value.
#[derive(Debug)]
pub struct Receiver<T> {
    shared: Arc<Shared<T>>,
    /// The version seen last.
    seen: u64,
}

/// Nobody will ever set the value again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("nobody sets this value any more")]
pub struct Closed;

#[derive(Debug)]
struct Shared<T> {
    state: Mutex<State<T>>,
    /// Not in the state: the sender may go while somebody looks at the value, on the same thread.
    closed: AtomicBool,
    changed: Notify,
}

#[derive(Debug)]
struct State<T> {
    value: T,
    version: u64,
}

/// The value while it is looked at; nobody can set it meanwhile, so it is never kept over an `await`.
pub struct Ref<'a, T>(MutexGuard<'a, State<T>>);

impl<T> Deref for Ref<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0.value
    }
}

impl<T> Shared<T> {
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        // A change is made by the caller's closure; one that panics leaves what it had made by then,
        // as it would without a lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Sender<T> {
    /// A value that nobody follows yet.
    pub fn new(value: T) -> Self {
        let state = Mutex::new(State { value, version: 0 });
        Self(Arc::new(Shared { state, closed: AtomicBool::new(false), changed: Notify::new() }))
    }

    /// One more who follows; the present value is no news to him.
    pub fn subscribe(&self) -> Receiver<T> {
        let seen = self.0.lock().version;
        Receiver { shared: Arc::clone(&self.0), seen }
    }

    /// The value.
    pub fn borrow(&self) -> Ref<'_, T> {
        Ref(self.0.lock())
    }

    /// Sets the value, which is news even if it is the same; gives the one before.
    pub fn send_replace(&self, value: T) -> T {
        let mut old = value;
        self.send_if_modified(|value| {
            std::mem::swap(value, &mut old);
            true
        });
        old
    }

    /// Changes the value, which is news.
    pub fn send_modify(&self, change: impl FnOnce(&mut T)) {
        self.send_if_modified(|value| {
            change(value);
            true
        });
    }

    /// Changes the value; it is news if `change` says so, which is returned.
    pub fn send_if_modified(&self, change: impl FnOnce(&mut T) -> bool) -> bool {
        let news = {
            let mut state = self.0.lock();
            let news = change(&mut state.value);
            state.version += u64::from(news);
            news
        };
        if news {
            self.0.changed.notify_waiters();
        }
        news
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        self.0.closed.store(true, Ordering::SeqCst);
        self.0.changed.notify_waiters();
    }
}

impl<T> Clone for Receiver<T> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared), seen: self.seen }
    }
}

impl<T> Receiver<T> {
    /// The value.
    pub fn borrow(&self) -> Ref<'_, T> {
        Ref(self.shared.lock())
    }

    /// The value, which is no news from now on.
    pub fn borrow_and_update(&mut self) -> Ref<'_, T> {
        let state = self.shared.lock();
        self.seen = state.version;
        Ref(state)
    }

    /// Waits for news.
    ///
    /// # Errors
    /// If there is none and never will be.
    pub async fn changed(&mut self) -> Result<(), Closed> {
        loop {
            // Before the look: what happens in between wakes it.
            let changed = self.shared.changed.notified();
            {
                let state = self.shared.lock();
                if state.version != self.seen {
                    self.seen = state.version;
                    return Ok(());
                }
                if self.shared.closed.load(Ordering::SeqCst) {
                    return Err(Closed);
                }
            }
            changed.await;
        }
    }

    /// Waits until the value is as wanted; it may be so already.
    ///
    /// # Errors
    /// If it is not and never will be.
    pub async fn wait_for(
        &mut self,
        mut wanted: impl FnMut(&T) -> bool,
    ) -> Result<Ref<'_, T>, Closed> {
        loop {
            let changed = self.shared.changed.notified();
            {
                let state = self.shared.lock();
                self.seen = state.version;
                if wanted(&state.value) {
                    return Ok(Ref(state));
                }
                if self.shared.closed.load(Ordering::SeqCst) {
                    return Err(Closed);
                }
            }
            changed.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    #[test]
    fn the_sender_may_go_while_the_value_is_looked_at() {
        let (sender, receiver) = channel(1);
        let seen = receiver.borrow();
        drop(sender);
        assert_eq!(*seen, 1);
    }

    #[tokio::test]
    async fn news_is_told_once_to_each_and_the_end_is_told_too() {
        let (sender, mut first) = channel(1);
        let mut second = first.clone();
        assert_eq!(first.changed().now_or_never(), None);
        assert_eq!(sender.send_replace(2), 1);
        assert_eq!(first.changed().now_or_never(), Some(Ok(())));
        assert_eq!(first.changed().now_or_never(), None);
        assert_eq!(*second.borrow(), 2);
        assert_eq!(*second.borrow_and_update(), 2);
        assert_eq!(second.changed().now_or_never(), None, "seen");
        assert!(!sender.send_if_modified(|_| false));
        assert_eq!(first.changed().now_or_never(), None, "no news");
        sender.send_modify(|value| *value += 5);
        assert_eq!(*first.borrow_and_update(), 7);
        sender.send_replace(3);
        drop(sender);
        assert_eq!(first.changed().now_or_never(), Some(Ok(())), "the last news comes first");
        assert_eq!(first.changed().now_or_never(), Some(Err(Closed)));
        assert_eq!(*first.borrow(), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_waits_is_woken_in_order() {
        let (sender, receiver) = channel(0);
        let woken: Arc<Mutex<Vec<usize>>> = Arc::default();
        let mut tasks = tokio::task::JoinSet::new();
        for number in 0..20 {
            let (mut receiver, woken) = (receiver.clone(), Arc::clone(&woken));
            tasks.spawn(async move {
                receiver.wait_for(|value| *value == 1).await.map(|_| ()).unwrap();
                woken.lock().unwrap().push(number);
            });
        }
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        sender.send_replace(1);
        while tasks.join_next().await.is_some() {}
        assert_eq!(*woken.lock().unwrap(), (0..20).collect::<Vec<_>>());
    }

    #[tokio::test]
    async fn waiting_for_a_value_ends_with_the_value_or_the_sender() {
        let (sender, mut receiver) = channel(1);
        assert!(receiver.wait_for(|value| *value == 1).await.is_ok());
        assert!(receiver.wait_for(|value| *value == 2).now_or_never().is_none());
        drop(sender);
        assert!(receiver.wait_for(|value| *value == 2).await.is_err());
        assert!(receiver.wait_for(|value| *value == 1).await.is_ok());
    }
}
