//! Punctual: scheduled work that must happen once, on time and explainably.
//!
//! ```text
//!   kubectl ──> MaintenanceSchedule ─┐                       ┌─> MaintenanceOccurrence ──> Job ──> Pod
//!                                    │ watch                 │ create inert, claim, seal   prepare, commit, release
//!                        ┌───────────▼───────────────────────┴──┐
//!   Lease <── authority ─┤  controller: observe, decide, act    │
//!             (permit)   └───────────┬──────────────────────────┘
//!                                    └─> events, conditions, metrics, health
//! ```
//!
//! The rooms, named after what the product does. In each, the *decision* is pure and the *hands*
//! are thin: `decide(&Snapshot, now) -> Plan`, same snapshot, same plan.
//!
//! | room | what it holds |
//! |---|---|
//! | [`api`] | the kinds users write: types, validation rules, conditions |
//! | [`identity`] | one identity for every occurrence, whoever creates it |
//! | [`time`] | the clock boundary, cron, time zones, the plan of a schedule |
//! | [`authority`] | who leads (Lease, epoch) and what counts (fence, permit, sealed objects) |
//! | [`runs`] | the life of a run's attempts: commit, release, follow, stop, retry, resolve |
//! | [`schedules`] | what every kind of schedule decides: create inert, claim, account, prune |
//! | [`maintenance`] | what a schedule and an occurrence do next, and the controller that does it |
//! | [`providers`] | what executes a run: Jobs, services outside the cluster, simulated runs |
//! | [`fakeprovider`] | a reference service for runs outside the cluster, with faults |
//! | [`reports`] | how the jobs of many tenants share the slots of a queue |
//! | [`arrivals`] | a model of how report jobs come: bursts, cost, tenants, failures |
//! | [`simulate`] | a queue played on that model, through the code that the operator runs |
//! | [`reconcile`] | what controllers do alike: passes, means, what is left alone |
//! | [`recovery`] | what a new leader finds, and the record of it |
//! | [`cluster`] | the only room that talks to the API server |
//! | [`telemetry`] | metrics, health, logs, events |
//! | [`sim`] | deterministic simulation: API-server model, replicas, faults, invariants, scenarios |
//! | [`cli`] | one file a subcommand |
//! | [`task`] | where the tasks of a replica are spawned, so that a simulation can stop them all |
//! | [`watch`] | the latest value of something, and news of it |
//! | [`connections`] | accepting connections, a bounded number at a time |
//! | [`rng`] | the numbers of a seed, for simulations and models |
//! | [`retry`], [`yaml`] | the only users of `backoff` and of the YAML library |
//!
//! Three rules hold everywhere. *Safety needs no clock*: the Lease decides who works, the fence on
//! the written object decides what counts. *Whatever is created is inert* until a compare-and-swap
//! on a sealed parent has recorded its uid. *Everything is bounded*, by named constants.
//!
//! `docs/architecture.md` walks through one occurrence from instant to outcome.

pub mod api;
pub mod arrivals;
pub mod authority;
pub mod cli;
pub mod cluster;
pub mod connections;
pub mod fakeprovider;
pub mod glob;
pub mod identity;
pub mod maintenance;
pub mod operator;
pub mod providers;
pub mod reconcile;
pub mod recovery;
pub mod reports;
pub mod retry;
pub mod rng;
pub mod runs;
pub mod schedules;
pub mod sim;
pub mod simulate;
pub mod task;
pub mod telemetry;
pub mod time;
pub mod watch;
pub mod yaml;
