//! One replica of the operator, from start to hand-over.

pub mod config;
mod replica;

pub use config::{Config, ConfigError};
pub use replica::{Parts, StartError, run};
