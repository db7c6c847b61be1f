//! The suite on a real API server: real etcd, kube-apiserver, controller-manager and scheduler, pods
//! played by kwok, and the operator as processes that can be frozen, killed and cut off.
//!
//! ```text
//!   suite/    what must hold, one function a scenario
//!   bed/      the throw-away cluster, replicas of the operator, a proxy that holds their writes
//!   checker/  reads the API server's audit log and proves that nothing ran twice
//! ```
//!
//! `e2e/README.md` says how to run it against another cluster and how to add a scenario.

#![allow(unreachable_pub, reason = "no crate uses this one; `pub` marks what a scenario may use")]
#![allow(dead_code, reason = "the bed is complete before the scenarios that use it")]

mod bed;
mod checker;
#[path = "../tests/shared/resident.rs"]
mod resident;
mod restart;
mod suite;
