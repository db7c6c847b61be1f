//! What must hold, one function a scenario.

mod bed;
mod by_hand;
mod election;
mod history;
mod proxy;
mod replicas;
mod work;
