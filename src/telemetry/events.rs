//! The way of events from decisions to the API server: a bounded queue that forgets its oldest.
//!
//! An event is a help for people, never a record that something depends on. So nobody waits for
//! one: [`EventQueue::publish`] never blocks, and when the API server is slower than what happens,
//! the oldest events are dropped and counted. The hand that sends them is in `cluster/events.rs`.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::Notify;

use super::{Metrics, Note};

/// Events that wait to be sent: a burst of one event for each of 1,000 schedules due at one instant
/// fits, at about 1 kB each.
pub const MAX_WAITING: usize = 1024;

/// The process's queue of events. Clones share it.
#[derive(Clone, Debug)]
pub struct EventQueue {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    waiting: Mutex<VecDeque<Note>>,
    capacity: usize,
    arrived: Notify,
    metrics: Arc<Metrics>,
}

impl EventQueue {
    /// A queue for at most [`MAX_WAITING`] events.
    pub fn new(metrics: Arc<Metrics>) -> Self {
        Self::with_capacity(metrics, MAX_WAITING)
    }

    /// A queue for at most `capacity` events (at least one).
    pub fn with_capacity(metrics: Arc<Metrics>, capacity: usize) -> Self {
        let shared = Shared {
            waiting: Mutex::default(),
            capacity: capacity.max(1),
            arrived: Notify::new(),
            metrics,
        };
        Self { shared: Arc::new(shared) }
    }

    /// Queues one event; drops the oldest if there is no room. Never waits.
    pub fn publish(&self, note: Note) {
        let mut waiting = self.lock();
        if waiting.len() >= self.shared.capacity {
            waiting.pop_front();
            self.shared.metrics.event_dropped();
        }
        waiting.push_back(note.fit());
        drop(waiting);
        self.shared.arrived.notify_one();
    }

    /// The next event, when there is one. Meant for one consumer.
    pub async fn next(&self) -> Note {
        loop {
            // Registered before looking, so an event that arrives in between wakes it.
            let arrived = self.shared.arrived.notified();
            if let Some(note) = self.try_next() {
                return note;
            }
            arrived.await;
        }
    }

    /// The next event, if there is one now.
    pub fn try_next(&self) -> Option<Note> {
        self.lock().pop_front()
    }

    /// How many events wait.
    pub fn len(&self) -> usize {
        self.lock().len()
    }

    /// Whether no event waits.
    pub fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Note>> {
        // A poisoned queue is still a queue: every change is one push or pop.
        self.shared.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::{NoteKind, ObjectRef, note::MAX_NOTE_BYTES};

    fn note(message: &str) -> Note {
        Note {
            object: ObjectRef::default(),
            kind: NoteKind::Normal,
            reason: "Created".into(),
            action: "Create".into(),
            message: message.to_owned(),
        }
    }

    #[test]
    fn the_oldest_is_dropped_and_counted() {
        let metrics = Arc::new(Metrics::new());
        let queue = EventQueue::with_capacity(Arc::clone(&metrics), 2);
        for n in 0..5 {
            queue.publish(note(&n.to_string()));
        }
        assert_eq!(queue.len(), 2);
        assert_eq!(queue.try_next().unwrap().message, "3");
        assert_eq!(queue.try_next().unwrap().message, "4");
        assert_eq!(queue.try_next(), None);
        assert!(metrics.encode().contains("punctual_events_dropped_total 3\n"));
    }

    #[test]
    fn events_are_cut_when_they_are_queued() {
        let queue = EventQueue::new(Arc::new(Metrics::new()));
        queue.publish(note(&"x".repeat(5 * MAX_NOTE_BYTES)));
        assert!(queue.try_next().unwrap().message.len() <= MAX_NOTE_BYTES);
    }

    #[tokio::test]
    async fn a_waiting_consumer_is_woken() {
        let queue = EventQueue::new(Arc::new(Metrics::new()));
        let consumer = tokio::spawn({
            let queue = queue.clone();
            async move { (queue.next().await.message, queue.next().await.message) }
        });
        tokio::task::yield_now().await; // lets it find the queue empty
        queue.publish(note("a"));
        queue.publish(note("b"));
        assert_eq!(consumer.await.unwrap(), ("a".to_owned(), "b".to_owned()));
    }
}
