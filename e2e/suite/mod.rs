//! What must hold, one function a scenario.

mod asks;
mod bad_input;
mod bed;
mod burst;
mod by_hand;
mod chart;
mod commands;
mod election;
mod failover;
mod faults;
mod fencing;
mod flood;
mod history;
mod jobs;
mod parity;
mod people;
mod proxy;
mod replicas;
mod report_schedules;
mod reports;
mod schedules;
mod steps;
mod work;
