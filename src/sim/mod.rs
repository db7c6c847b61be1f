//! Deterministic simulation: the production controllers, elector and API client over an in-memory
//! API server, on virtual time, with faults.
//!
//! ```text
//!   scenario ──> World ──> replicas ── Wire (faults) ──> Server (lag) ──┐
//!   or seed        │          │                          person, Job ───┼──> Model: one store,
//!                  │          └── Provider (outside)     controller ────┘    every commit in order
//!                  └── virtual time, clocks                                     │
//!                                                            invariants <───────┘
//! ```
//!
//! One seed is one history. [`Kind`] and [`Key`] name what is stored; a [`Commit`] is one change of
//! the store, the ground truth that the invariants judge.
//!
//! | room | what it holds |
//! |---|---|
//! | [`api`] | the model of the API server; `e2e/suite/api_model` holds it to a real one |
//! | [`world`] | replicas with clocks of their own, the wire between them and the servers, faults, the story |
//! | [`provider`] | the simulated provider, outside all replicas |
//! | [`workload`] | the Job controller, nodes and pods, garbage collection |
//! | [`invariants`] | what must hold after every commit and at the end |
//! | [`random`] | histories by seed, and every point of a history to crash at |
//! | [`scenario`] | scenario files: parser, runner, expectations |
//! | [`chronicle`], [`page`] | what happened, for people, as text and as a page |

pub mod api;
pub mod chronicle;
mod commit;
pub mod invariants;
mod kind;
pub mod page;
pub mod provider;
pub mod random;
mod run_event;
pub mod scenario;
pub mod workload;
pub mod world;

pub use crate::rng;
pub use commit::{Commit, Verb};
pub use kind::{Key, Kind};
pub use run_event::{RunChange, RunEvent};
