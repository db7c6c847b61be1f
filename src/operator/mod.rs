//! One replica of the operator, from start to hand-over.

mod campaign;
pub mod config;
#[cfg(test)]
mod lab;
mod notes;
mod replica;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_http;
#[cfg(test)]
mod tests_recovery;
#[cfg(test)]
mod tests_scale;
mod work;

pub use config::{Config, ConfigError};
pub use replica::{Exit, Parts, StartError, run};
