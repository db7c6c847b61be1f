//! What must hold, one function a scenario.

mod absence;
mod bad_input;
mod bed;
mod burst;
mod by_hand;
mod chart;
mod commands;
mod concurrency;
mod election;
mod failover;
mod faults;
mod fencing;
mod flood;
mod history;
mod jobs;
mod outside;
mod parity;
mod people;
mod proxy;
mod replicas;
mod report_schedules;
mod reports;
mod schedules;
mod steps;
mod work;
