//! What must hold, one function a scenario.

mod bed;
mod by_hand;
mod history;
mod proxy;
mod replicas;
