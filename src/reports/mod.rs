//! What report jobs and their queues do next.

pub mod job;
