//! Reports: how jobs of many tenants share the slots of one queue.
//!
//! Everything here is pure, except [`controller`]. The [`ledger`] of a queue is one list in its status, and writing it is
//! the transaction; the index of [`waiting`] jobs is made from the jobs themselves and can be made
//! again at any time. From these two everything else follows: who is [admitted](admission::admit)
//! and why another is [not](admission::explain), whose job is [accepted](limits::accept), when the
//! queue is [drained](drain) and when a job is likely to start.
//!
//! | room | what it holds |
//! |---|---|
//! | [`rules`] | what the queue's spec says, within bounds; shares of retries |
//! | [`waiting`] | the index of waiting jobs |
//! | [`fairness`] | start-time fair queueing: virtual time, finish tags, the order of admission |
//! | [`budget`] | what retries may cost |
//! | [`ledger`] | the ledger in memory: open, settle, close; made again from runs that were found |
//! | [`admission`] | who is next, and why a job is not |
//! | [`limits`] | which new jobs are accepted, and when a rejected one may try again |
//! | [`schedule`] | what a report schedule is to [`crate::schedules`]: the job that an instant makes |
//! | [`job`] | what one report job does next: its states, its place, its attempts |
//! | [`drain`] | when the queue is empty, when a job starts |
//! | [`queue`] | what a queue does next: settle, answer, admit, in one write |
//! | [`job`] | what a report job does next: its states, its attempts, its artifact |
//! | [`controller`] | the hands |
//!
//! Times are whole milliseconds, costs are slot-milliseconds: one slot for so long.

pub mod admission;
pub mod budget;
pub mod controller;
pub mod drain;
pub mod facts;
pub mod fairness;
pub mod job;
pub mod ledger;
pub mod limits;
mod name;
pub mod queue;
pub mod rules;
pub mod schedule;
#[cfg(test)]
mod tests;
pub mod waiting;
