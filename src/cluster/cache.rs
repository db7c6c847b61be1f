//! A watch cache of one kind that the own writes are put into at once.
//!
//! Two sources feed it: the watch, which lags, and the answers to the own writes. An older
//! resourceVersion never replaces a newer one, whichever comes first, so no decision is made from an
//! object older than the own last write to it. The cache is as large as the kind is in the cluster.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use futures::{StreamExt as _, future::join_all};
use kube::{
    Api, Client, Resource as _,
    core::{DeserializeGuard, error_boundary::InvalidObject},
    runtime::watcher::{self, Event, watcher},
};

use super::{
    Clients, Object, ObjectKey,
    client::{WATCH_SECONDS, WatchPause},
    reader, resource_version,
};
use crate::{
    api::{MAX_MESSAGE_CHARS, truncate},
    watch,
};

/// Deletions remembered, so that the late answer to an own write does not bring an object back. Such
/// an answer is at most a write deadline late; far fewer objects are deleted in that time.
const MAX_TOMBSTONES: usize = 4096;

/// What part of a kind a cache holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scope {
    /// These namespaces; none means all.
    pub namespaces: BTreeSet<String>,
    /// A label selector, or everything.
    pub labels: Option<String>,
}

/// What the cache knows about a name.
#[derive(Clone, Debug, PartialEq)]
pub enum Lookup<K> {
    /// The newest version known.
    Found(Arc<K>),
    /// It exists but is not what its kind promises; the text says what is wrong. Never to be taken
    /// for absent.
    Unreadable(Arc<str>),
    /// It is not there, as far as the watch has come.
    Absent,
}

/// One change of the cache, by the watch or by an own write.
#[derive(Debug)]
pub struct Change<'a, K> {
    /// Which object.
    pub key: &'a ObjectKey,
    /// The version before, if it was known and readable.
    pub old: Option<&'a K>,
    /// The version now, if there is one and it is readable.
    pub new: Option<&'a K>,
    /// If it went: whether its deletion was seen by watch, so that `old` is its last version. If not,
    /// it was only missing from a list, and versions in between may have been missed.
    pub witnessed: bool,
}

/// Is told what happens to a cache. Called without locks held; must be quick, typically a
/// [`super::Queue::add`].
pub trait Listener<K>: Send + Sync {
    /// An object came, changed or went.
    fn changed(&self, change: &Change<'_, K>);
    /// An object cannot be read. Told once a version.
    fn unreadable(&self, _key: &ObjectKey, _error: &str) {}
    /// The watch broke; it is taken up again by itself.
    fn watch_failed(&self, _error: &str) {}
}

impl<K, F: Fn(&Change<'_, K>) + Send + Sync> Listener<K> for F {
    fn changed(&self, change: &Change<'_, K>) {
        self(change);
    }
}

type IndexFn<K> = Box<dyn Fn(&K) -> Option<String> + Send + Sync>;
type PrepareFn<K> = Box<dyn Fn(&mut K) + Send + Sync>;

/// A watch cache; clones share it.
pub struct Cache<K> {
    inner: Arc<Inner<K>>,
}

impl<K> Clone for Cache<K> {
    fn clone(&self) -> Self {
        Self { inner: Arc::clone(&self.inner) }
    }
}

struct Inner<K> {
    state: Mutex<State<K>>,
    prepare: PrepareFn<K>,
    index: IndexFn<K>,
    listener: Box<dyn Listener<K>>,
    ready: watch::Sender<bool>,
}

enum Entry<K> {
    Found(Arc<K>),
    Unreadable(Arc<str>),
}

struct State<K> {
    /// Their keys are shared with the index: there may be very many.
    entries: BTreeMap<Arc<ObjectKey>, (u64, Entry<K>)>,
    index: BTreeMap<String, BTreeSet<Arc<ObjectKey>>>,
    tombstones: BTreeMap<ObjectKey, u64>,
    tombstone_order: VecDeque<ObjectKey>,
    /// Lists under way, by the namespace that they are of (`None`: all).
    listings: BTreeMap<Option<String>, Listing>,
    /// The namespaces that have been listed completely once.
    listed: BTreeSet<Option<String>>,
}

/// A list under way: what it showed so far, and what own writes brought meanwhile.
#[derive(Default)]
struct Listing {
    shown: BTreeSet<ObjectKey>,
    written: BTreeSet<ObjectKey>,
}

/// Whether a list of `namespace` (`None`: all) shows the object of this key if it exists.
fn covers(namespace: Option<&str>, key: &ObjectKey) -> bool {
    namespace.is_none_or(|namespace| namespace == key.namespace)
}

/// Who brings a version.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Origin {
    /// The watch or its list.
    Watch,
    /// The answer to an own write, or a live read.
    Own,
}

impl<K: Object> Cache<K> {
    /// An empty cache. `index` gives an object its second key, for example its schedule's name;
    /// `listener` is told every change.
    pub fn new(
        index: impl Fn(&K) -> Option<String> + Send + Sync + 'static,
        listener: impl Listener<K> + 'static,
    ) -> Self {
        Self::preparing(|_| {}, index, listener)
    }

    /// The same, with what is done to an object before it is kept: it may make it smaller, and must
    /// not change anything that is decided by or written.
    pub fn preparing(
        prepare: impl Fn(&mut K) + Send + Sync + 'static,
        index: impl Fn(&K) -> Option<String> + Send + Sync + 'static,
        listener: impl Listener<K> + 'static,
    ) -> Self {
        let state = State {
            entries: BTreeMap::new(),
            index: BTreeMap::new(),
            tombstones: BTreeMap::new(),
            tombstone_order: VecDeque::new(),
            listings: BTreeMap::new(),
            listed: BTreeSet::new(),
        };
        Self {
            inner: Arc::new(Inner {
                state: Mutex::new(state),
                prepare: Box::new(prepare),
                index: Box::new(index),
                listener: Box::new(listener),
                ready: watch::Sender::new(false),
            }),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<K>> {
        self.inner.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The object, if it is there and readable.
    pub fn get(&self, key: &ObjectKey) -> Option<Arc<K>> {
        match self.lookup(key) {
            Lookup::Found(object) => Some(object),
            Lookup::Unreadable(_) | Lookup::Absent => None,
        }
    }

    /// What is known about a name.
    pub fn lookup(&self, key: &ObjectKey) -> Lookup<K> {
        match self.lock().entries.get(key) {
            Some((_, Entry::Found(object))) => Lookup::Found(Arc::clone(object)),
            Some((_, Entry::Unreadable(error))) => Lookup::Unreadable(Arc::clone(error)),
            None => Lookup::Absent,
        }
    }

    /// All readable objects, by key.
    pub fn all(&self) -> Vec<Arc<K>> {
        self.lock().entries.values().filter_map(found).collect()
    }

    /// All objects that cannot be read, by key, with what is wrong with them.
    pub fn unreadable(&self) -> Vec<(ObjectKey, Arc<str>)> {
        let state = self.lock();
        let unreadable = state.entries.iter().filter_map(|(key, (_, entry))| match entry {
            Entry::Unreadable(error) => Some((ObjectKey::clone(key), Arc::clone(error))),
            Entry::Found(_) => None,
        });
        unreadable.collect()
    }

    /// The readable objects to which the index function gave `second_key`, by key.
    pub fn by_index(&self, second_key: &str) -> Vec<Arc<K>> {
        let state = self.lock();
        let keys = state.index.get(second_key).into_iter().flatten();
        keys.filter_map(|key| state.entries.get(key).and_then(found)).collect()
    }

    /// Number of objects, unreadable ones included.
    pub fn len(&self) -> usize {
        self.lock().entries.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether a first list has come in completely.
    pub fn is_ready(&self) -> bool {
        *self.inner.ready.borrow()
    }

    /// Waits until a first list has come in completely.
    pub async fn wait_ready(&self) {
        let mut ready = self.inner.ready.subscribe();
        // The sender lives as long as `self`, so this ends only by becoming true.
        let _ = ready.wait_for(|ready| *ready).await;
    }

    /// Takes the answer to an own write. Nothing happens if a newer version is known.
    pub fn observe(&self, object: K) {
        self.apply(object, Origin::Own);
    }

    /// Takes a version of an object.
    fn apply(&self, mut object: K, origin: Origin) {
        object.meta_mut().managed_fields = None; // half of the memory, of no use here
        (self.inner.prepare)(&mut object);
        let key = ObjectKey::of(object.meta());
        let version = resource_version(object.meta()).unwrap_or(0);
        let object = Arc::new(object);
        let Some(old) = self.put(&key, version, Entry::Found(Arc::clone(&object)), origin) else {
            return;
        };
        let change = Change { key: &key, old: old.as_deref(), new: Some(&object), witnessed: true };
        self.inner.listener.changed(&change);
    }

    /// Takes an object that cannot be read.
    fn apply_unreadable(&self, invalid: &InvalidObject, origin: Origin) {
        let key = ObjectKey::of(&invalid.metadata);
        let version = resource_version(&invalid.metadata).unwrap_or(0);
        let error = truncate(&invalid.error, MAX_MESSAGE_CHARS);
        let entry = Entry::Unreadable(error.as_str().into());
        let Some(old) = self.put(&key, version, entry, origin) else { return };
        self.inner.listener.unreadable(&key, &error);
        let change = Change { key: &key, old: old.as_deref(), new: None, witnessed: false };
        self.inner.listener.changed(&change);
    }

    /// Stores an entry unless what is known is as new. Gives the readable entry it replaced.
    #[expect(clippy::option_option, reason = "outer: whether stored; inner: what was there")]
    fn put(
        &self,
        key: &ObjectKey,
        version: u64,
        entry: Entry<K>,
        origin: Origin,
    ) -> Option<Option<Arc<K>>> {
        let mut state = self.lock();
        let state = &mut *state;
        for (namespace, listing) in &mut state.listings {
            if !covers(namespace.as_deref(), key) {
                continue;
            }
            match origin {
                Origin::Watch => listing.shown.insert(key.clone()),
                Origin::Own => listing.written.insert(key.clone()),
            };
        }
        if state.tombstones.get(key).is_some_and(|deleted| *deleted >= version) {
            return None;
        }
        if state.entries.get(key).is_some_and(|(known, _)| *known >= version) {
            return None;
        }
        let second_key = match &entry {
            Entry::Found(object) => (self.inner.index)(object),
            Entry::Unreadable(_) => None,
        };
        let known = state.entries.get_key_value(key).map(|(key, _)| Arc::clone(key));
        let key = known.unwrap_or_else(|| Arc::new(key.clone()));
        let old = state.entries.insert(Arc::clone(&key), (version, entry));
        let old = old.and_then(|old| found(&old));
        self.reindex(&mut state.index, &key, old.as_deref(), second_key);
        Some(old)
    }

    /// Moves `key` in the index from where `old` put it to `second_key`.
    fn reindex(
        &self,
        index: &mut BTreeMap<String, BTreeSet<Arc<ObjectKey>>>,
        key: &Arc<ObjectKey>,
        old: Option<&K>,
        second_key: Option<String>,
    ) {
        let before = old.and_then(|old| (self.inner.index)(old));
        if before == second_key {
            return;
        }
        if let Some(before) = before
            && let Some(keys) = index.get_mut(&before)
        {
            keys.remove(key);
            if keys.is_empty() {
                index.remove(&before);
            }
        }
        if let Some(second_key) = second_key {
            index.entry(second_key).or_default().insert(Arc::clone(key));
        }
    }

    /// Removes an object that is gone as of `version`.
    fn remove(&self, key: &ObjectKey, version: u64, witnessed: bool) {
        let old = {
            let mut state = self.lock();
            let state = &mut *state;
            if state.entries.get(key).is_some_and(|(known, _)| *known > version) {
                return;
            }
            bury(state, key, version);
            let Some((key, old)) = state.entries.remove_entry(key) else { return };
            let old = found(&old);
            self.reindex(&mut state.index, &key, old.as_deref(), None);
            old
        };
        self.inner.listener.changed(&Change { key, old: old.as_deref(), new: None, witnessed });
    }

    /// Follows the kind until the future is dropped. A broken watch is taken up again, with
    /// growing pauses.
    pub async fn run(&self, clients: &Clients, scope: &Scope) {
        let mut namespaces: BTreeSet<Option<String>> =
            scope.namespaces.iter().cloned().map(Some).collect();
        if namespaces.is_empty() {
            namespaces.insert(None);
        }
        let follow =
            namespaces.iter().map(|one| self.follow(clients, scope, one.as_deref(), &namespaces));
        join_all(follow).await;
    }

    /// Follows one namespace (`None`: all) of `namespaces`.
    async fn follow(
        &self,
        clients: &Clients,
        scope: &Scope,
        namespace: Option<&str>,
        namespaces: &BTreeSet<Option<String>>,
    ) {
        let client = clients.watch();
        let api: Api<DeserializeGuard<K>> = match namespace {
            Some(namespace) => Api::namespaced(client.clone(), namespace),
            None => Api::all(client.clone()),
        };
        let mut config = watcher::Config::default().timeout(WATCH_SECONDS);
        config.page_size = Some(reader::PAGE_SIZE);
        config.label_selector.clone_from(&scope.labels);
        let mut events = Box::pin(watcher(api, config)); // its state is large
        let mut pause = WatchPause::of::<K>();
        while let Some(event) = events.next().await {
            match event {
                Ok(event) => {
                    // The start of a list proves nothing: it comes before the request.
                    if !matches!(event, Event::Init) {
                        pause = WatchPause::of::<K>();
                    }
                    self.take(&client, event, namespace).await;
                    if self.lock().listed.is_superset(namespaces) {
                        self.inner.ready.send_replace(true);
                    }
                }
                Err(error) => self.failed(&error, &mut pause).await,
            }
        }
    }

    async fn failed(&self, error: &(dyn std::error::Error + Sync), pause: &mut WatchPause) {
        self.inner.listener.watch_failed(&truncate(&error.to_string(), MAX_MESSAGE_CHARS));
        pause.wait().await;
    }

    async fn take(
        &self,
        client: &Client,
        event: Event<DeserializeGuard<K>>,
        namespace: Option<&str>,
    ) {
        match event {
            Event::Init => {
                self.lock().listings.insert(namespace.map(ToOwned::to_owned), Listing::default());
            }
            Event::InitApply(object) | Event::Apply(object) => self.take_one(object, Origin::Watch),
            Event::Delete(object) => {
                let meta = object.meta();
                self.remove(&ObjectKey::of(meta), resource_version(meta).unwrap_or(0), true);
            }
            Event::InitDone => {
                self.sweep(client, namespace).await;
                self.lock().listed.insert(namespace.map(ToOwned::to_owned));
            }
        }
    }

    fn take_one(&self, DeserializeGuard(object): DeserializeGuard<K>, origin: Origin) {
        match object {
            Ok(object) => self.apply(object, origin),
            Err(invalid) => self.apply_unreadable(&invalid, origin),
        }
    }

    /// After a list: removes what it did not show. What an own write brought while the list ran is
    /// read live first, because the list may be older than that write: without the read the object
    /// would be wrongly there or wrongly gone until the next list.
    async fn sweep(&self, client: &Client, namespace: Option<&str>) {
        let (gone, doubtful) = {
            let mut state = self.lock();
            let of = namespace.map(ToOwned::to_owned);
            let listing = state.listings.remove(&of).unwrap_or_default();
            let unlisted = state
                .entries
                .iter()
                .filter(|(key, _)| covers(namespace, key) && !listing.shown.contains(&***key));
            unlisted
                .map(|(key, (version, _))| (ObjectKey::clone(key), *version))
                .partition::<Vec<_>, _>(|(key, _)| !listing.written.contains(key))
        };
        for (key, version) in gone {
            self.remove(&key, version, false);
        }
        for (key, version) in doubtful {
            let api = Api::namespaced(client.clone(), &key.namespace);
            let mut pause = WatchPause::of::<K>();
            let read = loop {
                match reader::get(&api, &key.name).await {
                    Ok(read) => break read,
                    Err(error) => self.failed(&error, &mut pause).await,
                }
            };
            match read {
                None => self.remove(&key, version, false),
                Some(object) => self.take_one(object, Origin::Own),
            }
        }
    }
}

fn found<K>((_, entry): &(u64, Entry<K>)) -> Option<Arc<K>> {
    match entry {
        Entry::Found(object) => Some(Arc::clone(object)),
        Entry::Unreadable(_) => None,
    }
}

/// Remembers that what `key` names was gone as of `version`.
fn bury<K>(state: &mut State<K>, key: &ObjectKey, version: u64) {
    if state.tombstones.insert(key.clone(), version).is_none() {
        state.tombstone_order.push_back(key.clone());
    }
    while state.tombstones.len() > MAX_TOMBSTONES {
        let Some(oldest) = state.tombstone_order.pop_front() else { break };
        state.tombstones.remove(&oldest);
    }
}

#[cfg(test)]
#[path = "cache_tests.rs"]
mod tests;
