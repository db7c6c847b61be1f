//! What is stored: every object at its newest version, and the recent past.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, OnceLock},
    time::Duration,
};

use hyper::body::Bytes;
use serde_json::Value;

use super::{custom::Custom, request::Subresource};
use crate::sim::{Commit, Key, Kind, Verb};

/// Events of one kind that are remembered. A watch that is further behind is told to list again, as
/// the real watch cache does; a watch of this operator is behind by seconds.
const MAX_HISTORY: usize = 4096;

/// Name of an object's version in its metadata.
pub(super) const RESOURCE_VERSION: &str = "resourceVersion";

/// One version of an object.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) object: Arc<Value>,
    bytes: OnceLock<Bytes>,
}

pub(super) type Stored = Arc<Entry>;

impl Entry {
    fn new(object: Value) -> Stored {
        Arc::new(Self { object: Arc::new(object), bytes: OnceLock::new() })
    }

    /// The version as JSON text, made once.
    pub(super) fn bytes(&self) -> &Bytes {
        self.bytes.get_or_init(|| to_bytes(&self.object))
    }
}

/// A value as JSON text.
pub(super) fn to_bytes(value: &Value) -> Bytes {
    Bytes::from(serde_json::to_vec(value).expect("a JSON value is always JSON text"))
}

/// One change, as watches see it.
#[derive(Debug)]
pub(super) struct Event {
    pub(super) at: Duration,
    pub(super) revision: u64,
    pub(super) key: Key,
    pub(super) old: Option<Stored>,
    /// The version after it; for a deletion the last one, under the revision of the deletion.
    pub(super) shown: Stored,
    pub(super) deleted: bool,
}

#[derive(Debug, Default)]
struct History {
    events: VecDeque<Arc<Event>>,
    /// Revision of the newest event that was forgotten.
    forgotten: u64,
}

/// Every object of some kinds at one moment.
pub(super) type Objects = BTreeMap<Key, Stored>;

/// Who writes, and when.
#[derive(Clone, Debug)]
pub(super) struct Writer {
    pub(super) by: Arc<str>,
    /// Virtual time since the start.
    pub(super) at: Duration,
    pub(super) now: jiff::Timestamp,
}

/// The store.
#[derive(Debug)]
pub(super) struct Store {
    revision: u64,
    uids: u64,
    objects: Objects,
    history: BTreeMap<Kind, History>,
    /// A watch or list from before this revision is refused.
    compacted: u64,
    /// The kinds whose CRD is installed.
    pub(super) customs: BTreeMap<Kind, Arc<Custom>>,
    /// Commits that nobody was told of yet.
    pub(super) untold: VecDeque<Commit>,
}

impl Store {
    pub(super) fn new() -> Self {
        Self {
            // No object has a version that is zero or looks like an age.
            revision: 100,
            uids: 0,
            objects: Objects::new(),
            history: BTreeMap::new(),
            compacted: 0,
            customs: BTreeMap::new(),
            untold: VecDeque::new(),
        }
    }

    pub(super) fn revision(&self) -> u64 {
        self.revision
    }

    pub(super) fn get(&self, key: &Key) -> Option<&Stored> {
        self.objects.get(key)
    }

    pub(super) fn objects(&self) -> &Objects {
        &self.objects
    }

    /// The objects of a kind, in one namespace or (empty) in all, by key.
    pub(super) fn of_kind<'a>(
        objects: &'a Objects,
        kind: Kind,
        namespace: &'a str,
    ) -> impl Iterator<Item = (&'a Key, &'a Stored)> {
        let from = Key { kind, namespace: namespace.to_owned(), name: String::new() };
        objects.range(from..).take_while(move |(key, _)| {
            key.kind == kind && (namespace.is_empty() || key.namespace == namespace)
        })
    }

    /// The uid of the next object: no object had it before.
    pub(super) fn next_uid(&self) -> String {
        format!("00000000-0000-4000-8000-{:012x}", self.uids + 1)
    }

    /// An object has the uid now; the next one gets another.
    pub(super) fn use_uid(&mut self) {
        self.uids += 1;
    }

    /// A version that is shown but not stored.
    pub(super) fn unstored(object: Value) -> Stored {
        Entry::new(object)
    }

    /// Stores a version of an object.
    pub(super) fn put(
        &mut self,
        writer: &Writer,
        key: &Key,
        part: Subresource,
        object: Value,
    ) -> Stored {
        self.revision += 1;
        let new = Entry::new(versioned(object, self.revision));
        let old = self.objects.insert(key.clone(), Arc::clone(&new));
        let verb = if old.is_some() { Verb::Update } else { Verb::Create };
        self.record(writer, key, verb, part, old, &new);
        new
    }

    /// Removes an object; gives its last version under the revision of the deletion.
    pub(super) fn remove(&mut self, writer: &Writer, key: &Key, part: Subresource) -> Stored {
        let old = self.objects.remove(key).expect("only an object that was found is removed");
        self.revision += 1;
        let last = Entry::new(versioned((*old.object).clone(), self.revision));
        self.record(writer, key, Verb::Delete, part, Some(old), &last);
        last
    }

    fn record(
        &mut self,
        writer: &Writer,
        key: &Key,
        verb: Verb,
        part: Subresource,
        old: Option<Stored>,
        shown: &Stored,
    ) {
        let deleted = verb == Verb::Delete;
        self.untold.push_back(Commit {
            revision: self.revision,
            at: writer.at,
            by: Arc::clone(&writer.by),
            verb,
            subresource: part.as_str(),
            key: key.clone(),
            old: old.as_ref().map(|old| Arc::clone(&old.object)),
            new: (!deleted).then(|| Arc::clone(&shown.object)),
        });
        let history = self.history.entry(key.kind).or_default();
        history.events.push_back(Arc::new(Event {
            at: writer.at,
            revision: self.revision,
            key: key.clone(),
            old,
            shown: Arc::clone(shown),
            deleted,
        }));
        while history.events.len() > MAX_HISTORY
            && let Some(oldest) = history.events.pop_front()
        {
            history.forgotten = oldest.revision;
        }
    }

    /// Forgets the past: whoever asks for a version before this moment is told to list again.
    pub(super) fn compact(&mut self) {
        self.compacted = self.revision;
        for history in self.history.values_mut() {
            if let Some(newest) = history.events.back() {
                history.forgotten = newest.revision;
            }
            history.events.clear();
        }
    }

    /// Whether a list or a new watch may start at `revision`.
    pub(super) fn is_kept(&self, kind: Kind, revision: u64) -> bool {
        revision >= self.compacted && self.remembers(kind, revision)
    }

    /// Whether every event of a kind after `revision` is remembered.
    pub(super) fn remembers(&self, kind: Kind, revision: u64) -> bool {
        self.history.get(&kind).is_none_or(|history| revision >= history.forgotten)
    }

    /// The events of a kind after `revision`.
    pub(super) fn events_after(
        &self,
        kind: Kind,
        revision: u64,
    ) -> impl Iterator<Item = &Arc<Event>> {
        let events = self.history.get(&kind).map(|history| &history.events);
        let from =
            events.map_or(0, |events| events.partition_point(|event| event.revision <= revision));
        events.into_iter().flat_map(move |events| events.range(from..))
    }

    /// The objects of a kind as they were at `revision`, which must be kept.
    pub(super) fn as_of(&self, kind: Kind, revision: u64) -> Objects {
        let mut objects: Objects = Self::of_kind(&self.objects, kind, "")
            .map(|(key, stored)| (key.clone(), Arc::clone(stored)))
            .collect();
        let after: Vec<_> = self.events_after(kind, revision).collect();
        for event in after.into_iter().rev() {
            match &event.old {
                Some(old) => objects.insert(event.key.clone(), Arc::clone(old)),
                None => objects.remove(&event.key),
            };
        }
        objects
    }
}

fn versioned(mut object: Value, revision: u64) -> Value {
    object["metadata"][RESOURCE_VERSION] = revision.to_string().into();
    object
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn writer() -> Writer {
        Writer { by: "r0".into(), at: Duration::ZERO, now: jiff::Timestamp::UNIX_EPOCH }
    }

    fn put(store: &mut Store, name: &str, value: i64) -> u64 {
        let key = Key::new(Kind::Lease, "ops", name);
        let object = json!({"metadata": {"name": name}, "spec": value});
        store.put(&writer(), &key, Subresource::Main, object);
        store.revision()
    }

    #[test]
    fn the_past_can_be_read_until_it_is_forgotten() {
        let mut store = Store::new();
        let first = put(&mut store, "a", 1);
        put(&mut store, "b", 1);
        put(&mut store, "a", 2);
        store.remove(&writer(), &Key::new(Kind::Lease, "ops", "a"), Subresource::Main);
        let then = store.as_of(Kind::Lease, first);
        assert_eq!(then.len(), 1);
        assert_eq!(then.values().next().unwrap().object["spec"], 1);
        assert_eq!(store.as_of(Kind::Lease, store.revision()).len(), 1);
        assert!(store.is_kept(Kind::Lease, first));
        store.compact();
        assert!(!store.is_kept(Kind::Lease, first));
        assert!(!store.is_kept(Kind::Job, first), "one store, one past");
        assert!(store.is_kept(Kind::Lease, store.revision()));
    }

    #[test]
    fn history_is_bounded() {
        let mut store = Store::new();
        let first = put(&mut store, "a", 0);
        for value in 0..=i64::try_from(MAX_HISTORY).unwrap() {
            put(&mut store, "a", value);
        }
        assert!(!store.is_kept(Kind::Lease, first));
        assert!(store.is_kept(Kind::Lease, first + 1));
        assert!(store.is_kept(Kind::Job, first));
        assert_eq!(store.events_after(Kind::Lease, 0).count(), MAX_HISTORY);
    }
}
