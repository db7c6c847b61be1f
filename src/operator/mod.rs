//! One replica of the operator, from start to hand-over.

pub mod config;

pub use config::{Config, ConfigError};
