//! Watches: the changes of a kind, as lines, until the time is over.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use futures::{Stream, stream};
use hyper::body::Bytes;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::{
    kinds,
    model::Model,
    refusal::Refusal,
    select::Selector,
    server::ServerState,
    store::{Event, RESOURCE_VERSION, Store, to_bytes},
};
use crate::sim::Kind;

/// How long a watch stays open if it does not say: the real server takes half an hour to an hour.
const DEFAULT_SECONDS: u64 = 1800;
/// How often a watch is told how far it is, if it wants to know.
const BOOKMARK_EVERY: Duration = Duration::from_secs(60);
/// A last bookmark comes so long before the end, so that the next watch starts from there.
const BOOKMARK_BEFORE_END: Duration = Duration::from_secs(2);
/// Shortest sleep: timers count whole milliseconds.
const SHORTEST_SLEEP: Duration = Duration::from_millis(1);

/// What a watch is asked to show.
#[derive(Clone, Debug)]
pub(super) struct Wanted {
    pub(super) kind: Kind,
    pub(super) namespace: String,
    pub(super) selector: Selector,
    /// Everything after this revision; zero: what is there, then everything.
    pub(super) after: u64,
    pub(super) seconds: Option<u64>,
    pub(super) bookmarks: bool,
}

/// A watch under way.
struct Watch {
    model: Model,
    server: Arc<ServerState>,
    wanted: Wanted,
    /// Everything of the kind up to this revision was shown.
    cursor: u64,
    deadline: Duration,
    /// When the next bookmark is due; none is if the last one came shortly before the end.
    bookmark_at: Option<Duration>,
    first: VecDeque<Bytes>,
    broken: bool,
}

/// The lines of a watch.
pub(super) fn lines(
    model: Model,
    server: Arc<ServerState>,
    wanted: Wanted,
) -> impl Stream<Item = Bytes> + Send + 'static {
    let now = model.elapsed();
    let deadline = now + Duration::from_secs(wanted.seconds.unwrap_or(DEFAULT_SECONDS));
    let (first, cursor, broken) = begin(&model, &server, &wanted);
    let mut watch =
        Watch { model, server, wanted, cursor, deadline, bookmark_at: None, first, broken };
    if watch.wanted.bookmarks {
        watch.bookmark_at = Some((now + BOOKMARK_EVERY).min(watch.last_bookmark()));
    }
    stream::unfold(watch, |mut watch| async move { Some((watch.next().await?, watch)) })
}

/// What is shown at once, from where on the rest is shown, and whether that is all.
fn begin(model: &Model, server: &ServerState, wanted: &Wanted) -> (VecDeque<Bytes>, u64, bool) {
    let store = model.store();
    if wanted.after == 0 {
        let stale = server.stale(model.elapsed());
        let (objects, revision) = stale
            .as_ref()
            .map_or((store.objects(), store.revision()), |stale| (&*stale.objects, stale.revision));
        let all = Store::of_kind(objects, wanted.kind, &wanted.namespace);
        let shown = all.filter(|(_, stored)| wanted.selector.shows(&stored.object));
        let lines = shown.map(|(_, stored)| line("ADDED", stored.bytes())).collect();
        return (lines, revision, false);
    }
    if store.is_kept(wanted.kind, wanted.after) {
        return (VecDeque::new(), wanted.after, false);
    }
    (VecDeque::from([too_old(wanted.after, store.revision())]), wanted.after, true)
}

fn too_old(after: u64, now: u64) -> Bytes {
    let gone = Refusal::expired(format!("too old resource version: {after} ({now})"));
    line("ERROR", &to_bytes(&gone.status()))
}

fn line(of: &str, object: &[u8]) -> Bytes {
    let mut line = Vec::with_capacity(object.len() + 40);
    write_line(&mut line, of, object);
    line.into()
}

fn write_line(line: &mut Vec<u8>, of: &str, object: &[u8]) {
    line.extend_from_slice(b"{\"type\":\"");
    line.extend_from_slice(of.as_bytes());
    line.extend_from_slice(b"\",\"object\":");
    line.extend_from_slice(object);
    line.extend_from_slice(b"}\n");
}

impl Watch {
    /// The next lines, or the end.
    async fn next(&mut self) -> Option<Bytes> {
        let model = self.model.clone();
        loop {
            if let Some(line) = self.first.pop_front() {
                return Some(line);
            }
            if self.broken {
                return None;
            }
            let changed = model.changed_kind(self.wanted.kind);
            let now = model.elapsed();
            let wake = match self.collect(now) {
                Ok(lines) => return Some(lines),
                Err(wake) => wake,
            };
            if now >= self.deadline {
                return None;
            }
            if self.bookmark_at.is_some_and(|at| now >= at) {
                let last = self.last_bookmark();
                self.bookmark_at = (now < last).then(|| (now + BOOKMARK_EVERY).min(last));
                return Some(self.bookmark());
            }
            let due = [wake, self.bookmark_at].into_iter().flatten();
            let wake = due.fold(self.deadline, Duration::min);
            // Whether it was woken or the time came: both are looked at again.
            let _ = timeout(wake.saturating_sub(now).max(SHORTEST_SLEEP), changed).await;
        }
    }

    /// The lines that may be shown now; without any, when to look again at the latest.
    fn collect(&mut self, now: Duration) -> Result<Bytes, Option<Duration>> {
        let (lag, stale) = (self.server.lag(), self.server.stale(now));
        let store = self.model.store();
        if !store.remembers(self.wanted.kind, self.cursor) {
            self.broken = true;
            return Ok(too_old(self.cursor, store.revision()));
        }
        let mut lines = Vec::new();
        let mut wake = None;
        for event in store.events_after(self.wanted.kind, self.cursor) {
            if let Some(stale) = stale.as_ref().filter(|stale| event.revision > stale.revision) {
                wake = Some(stale.until);
                break;
            }
            if event.at + lag > now {
                wake = Some(event.at + lag);
                break;
            }
            self.cursor = event.revision;
            show(&self.wanted, event, &mut lines);
        }
        if wake.is_none() {
            let seen = stale.map_or(store.revision(), |stale| stale.revision);
            self.cursor = self.cursor.max(seen);
        }
        if lines.is_empty() { Err(wake) } else { Ok(lines.into()) }
    }

    /// When the last bookmark is due; a watch that is shorter than that gets it at once.
    fn last_bookmark(&self) -> Duration {
        self.deadline.saturating_sub(BOOKMARK_BEFORE_END)
    }

    fn bookmark(&self) -> Bytes {
        let kind = self.wanted.kind;
        let object = json!({
            "kind": kind.name(), "apiVersion": kinds::api_version(kind),
            "metadata": {RESOURCE_VERSION: self.cursor.to_string()},
        });
        line("BOOKMARK", &to_bytes(&object))
    }
}

/// The line of an event, if it concerns what is wanted. What no longer matches is shown as deleted,
/// what begins to match as added.
fn show(wanted: &Wanted, event: &Event, lines: &mut Vec<u8>) {
    if !wanted.namespace.is_empty() && event.key.namespace != wanted.namespace {
        return;
    }
    let shows = |object: &Value| wanted.selector.shows(object);
    let old = event.old.as_ref().filter(|old| shows(&old.object));
    let new = Some(&event.shown).filter(|new| !event.deleted && shows(&new.object));
    match (old, new) {
        (None, None) => {}
        (None, Some(new)) => write_line(lines, "ADDED", new.bytes()),
        (Some(_), Some(new)) => write_line(lines, "MODIFIED", new.bytes()),
        (Some(_), None) if event.deleted => write_line(lines, "DELETED", event.shown.bytes()),
        (Some(old), None) => {
            let mut last = (*old.object).clone();
            last["metadata"][RESOURCE_VERSION] = event.revision.to_string().into();
            write_line(lines, "DELETED", &to_bytes(&last));
        }
    }
}
