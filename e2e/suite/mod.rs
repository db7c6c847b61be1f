//! What must hold, one function a scenario.

mod bed;
mod history;
mod proxy;
mod replicas;
