//! The model as a whole: one store, whoever reads or writes it.

use std::{
    collections::BTreeMap,
    fmt,
    future::Future,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    time::Duration,
};

use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::sync::Notify;

use super::{
    kinds,
    refusal::Refusal,
    request::{Request, Subresource},
    server::{Server, ServerState},
    store::{Store, Writer},
    write,
};
use crate::{
    api,
    sim::{Commit, Key, Kind},
    time::WallClock,
};

/// Who installs what a scenario begins with.
const INSTALLER: &str = "person";

type Listener = Box<dyn FnMut(&Commit) + Send>;

/// An in-memory API server: clones share one store.
///
/// It does what the real one does for the kinds and requests that the operator, and people around
/// it, use. Everything is synchronous but watches, so one order of requests is one history.
#[derive(Clone)]
pub struct Model {
    shared: Arc<Shared>,
}

struct Shared {
    store: Mutex<Store>,
    listeners: Mutex<Vec<Listener>>,
    changed: Notify,
    changed_kind: BTreeMap<Kind, Notify>,
    clock: WallClock,
    start: Timestamp,
    servers: Mutex<BTreeMap<usize, Arc<ServerState>>>,
}

impl fmt::Debug for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Model").field("revision", &self.revision()).finish_non_exhaustive()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic elsewhere fails the history anyway; what is stored is whole between two statements.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Model {
    /// An empty store with the namespace `default`. `clock` is the true time; the history begins
    /// now.
    pub fn new(clock: WallClock) -> Self {
        let start = clock.now();
        let model = Self {
            shared: Arc::new(Shared {
                store: Mutex::new(Store::new()),
                listeners: Mutex::default(),
                changed: Notify::new(),
                changed_kind: Kind::ALL.into_iter().map(|kind| (kind, Notify::new())).collect(),
                clock,
                start,
                servers: Mutex::default(),
            }),
        };
        model.add_namespace("default");
        model
    }

    /// Installs the CRDs of this program that are not there.
    pub fn install_crds(&self) {
        /// Made once: there is a model for each history.
        static MANIFESTS: OnceLock<Vec<Value>> = OnceLock::new();
        let manifest = |crd| serde_json::to_value(crd).expect("a CRD is always JSON");
        for manifest in MANIFESTS.get_or_init(|| api::crds().iter().map(manifest).collect()) {
            let name = manifest["metadata"]["name"].as_str().unwrap_or_default();
            if self.get(&Key::new(Kind::CustomResourceDefinition, "", name)).is_some() {
                continue;
            }
            let installed = self.install(manifest);
            // The rules of all CRDs of this program have twins; a test holds them to it.
            installed.expect("the CRDs of this program are understood by the model");
        }
    }

    /// Makes sure that a namespace exists.
    pub fn add_namespace(&self, name: &str) {
        let manifest = json!({"metadata": {"name": name}});
        // It may exist: then all is well.
        let _ = self.write(INSTALLER, Request::create(Kind::Namespace, "", manifest));
    }

    /// The API server of this number; all serve the same store. Asked again for the same number it
    /// is the same server.
    pub fn server(&self, index: usize) -> Server {
        let state = Arc::clone(lock(&self.shared.servers).entry(index).or_default());
        Server::new(self.clone(), state)
    }

    /// The true time.
    pub fn now(&self) -> Timestamp {
        self.shared.clock.now()
    }

    /// Virtual time since the start of the history.
    pub fn elapsed(&self) -> Duration {
        Duration::try_from(self.now().duration_since(self.shared.start)).unwrap_or_default()
    }

    /// Revision of the newest write.
    pub fn revision(&self) -> u64 {
        self.store().revision()
    }

    /// The object as it is now.
    pub fn get(&self, key: &Key) -> Option<Arc<Value>> {
        self.store().get(key).map(|stored| Arc::clone(&stored.object))
    }

    /// All objects of a kind, by key.
    pub fn list(&self, kind: Kind) -> Vec<Arc<Value>> {
        let store = self.store();
        let all = Store::of_kind(store.objects(), kind, "");
        all.map(|(_, stored)| Arc::clone(&stored.object)).collect()
    }

    /// Puts an object as it is given, its status included; defaults are filled in, and the rules of
    /// creation apply. Its namespace is made if it is missing. uid and creationTimestamp are kept if
    /// given.
    pub fn install(&self, manifest: &Value) -> Result<Key, String> {
        let kind = manifest["kind"].as_str().unwrap_or_default();
        let kind = Kind::named(kind).ok_or_else(|| format!("kind {kind:?} is not modelled"))?;
        let namespace = manifest["metadata"]["namespace"].as_str().unwrap_or("default");
        if kind.namespaced() {
            self.add_namespace(namespace);
        }
        self.act(INSTALLER, |store, writer| store.install(writer, kind, namespace, manifest))
            .map_err(|refusal| refusal.message)
    }

    /// Carries out one write, without a client and without faults. Gives the object as it is then,
    /// or for a deletion as it was.
    pub fn write(&self, by: &str, request: Request) -> Result<Arc<Value>, Refusal> {
        let outcome = self.act(by, |store, writer| store.carry_out(writer, request))?;
        Ok(Arc::clone(&outcome.stored().object))
    }

    /// Reads an object, changes it and writes it back, as a person with an editor does.
    pub fn edit(
        &self,
        by: &str,
        key: &Key,
        part: Subresource,
        change: impl FnOnce(&mut Value),
    ) -> Result<Arc<Value>, Refusal> {
        let found = self.get(key).ok_or_else(|| Refusal::not_found(key))?;
        let mut object = (*found).clone();
        change(&mut object);
        let key = key.clone();
        self.write(by, Request::Update { key, subresource: part, object, dry_run: false })
    }

    /// `listener` is called for every commit, in order, from now on. It may read the model; what it
    /// writes is told after it has returned.
    pub fn on_commit(&self, listener: Box<dyn FnMut(&Commit) + Send>) {
        lock(&self.shared.listeners).push(listener);
    }

    /// Waits for the next commit after this call.
    pub fn changed(&self) -> impl Future<Output = ()> + Send + use<> {
        let (model, seen) = (self.clone(), self.revision());
        async move {
            loop {
                let changed = model.shared.changed.notified();
                if model.revision() > seen {
                    return;
                }
                changed.await;
            }
        }
    }

    /// Waits for the next commit of a kind.
    pub(super) fn changed_kind(&self, kind: Kind) -> impl Future<Output = ()> + Send + '_ {
        self.shared.changed_kind[&kind].notified()
    }

    /// Forgets the past: lists and watches from before get 410.
    pub fn compact(&self) {
        self.store().compact();
        for changed in self.shared.changed_kind.values() {
            changed.notify_waiters();
        }
    }

    pub(super) fn store(&self) -> MutexGuard<'_, Store> {
        lock(&self.shared.store)
    }

    /// Does something to the store, and tells those who wait for commits.
    pub(super) fn act<T>(&self, by: &str, act: impl FnOnce(&mut Store, &Writer) -> T) -> T {
        let writer = Writer { by: by.into(), at: self.elapsed(), now: self.now() };
        let (done, kinds) = {
            let mut store = self.store();
            let before = store.revision();
            let done = act(&mut store, &writer);
            let new = store.untold.iter().rev().take_while(|commit| commit.revision > before);
            (done, new.map(|commit| commit.key.kind).collect::<Vec<Kind>>())
        };
        for kind in &kinds {
            self.shared.changed_kind[kind].notify_waiters();
        }
        if !kinds.is_empty() {
            self.shared.changed.notify_waiters();
            self.tell();
        }
        done
    }

    /// Tells the listeners what they have not heard. The store is not locked meanwhile. A listener
    /// that writes comes here again: the outer call tells that too.
    fn tell(&self) {
        let Ok(mut listeners) = self.shared.listeners.try_lock() else { return };
        loop {
            let Some(commit) = self.store().untold.pop_front() else { return };
            for listener in listeners.iter_mut() {
                listener(&commit);
            }
        }
    }
}

impl Store {
    fn install(
        &mut self,
        writer: &Writer,
        kind: Kind,
        namespace: &str,
        manifest: &Value,
    ) -> Result<Key, Refusal> {
        let custom = self.served(kind)?;
        let mut object = write::decode(kind, custom.as_deref(), manifest.clone())?;
        let given = object["metadata"].clone();
        let status = object.get("status").cloned();
        let key = super::meta::key_of_new(kind, namespace, &mut object, &self.next_uid())?;
        self.complete(writer, &key, custom.as_deref(), &mut object);
        for field in ["uid", "creationTimestamp", "generation"] {
            if let Some(value) = given.get(field) {
                object["metadata"][field] = value.clone();
            }
        }
        if let Some(status) = status
            && (kinds::is_custom(kind) || status.as_object().is_some_and(|s| !s.is_empty()))
        {
            object["status"] = status;
        }
        self.store_new(writer, &key, custom.as_deref(), object, false)?;
        Ok(key)
    }
}
