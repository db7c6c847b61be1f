//! Structured logs on standard error.
//!
//! Info: state changed. Debug: looked and found nothing. One span for each reconcile, with kind,
//! namespace, name, uid, generation and attempt.

use std::io::IsTerminal as _;

use tracing_subscriber::{EnvFilter, filter::ParseError, fmt, util::SubscriberInitExt as _};

/// What is logged unless told otherwise: the libraries only when something is wrong. kube's client
/// logs every failed connection as an error; whoever asked reports it, once.
pub const DEFAULT_FILTER: &str =
    "info,kube=warn,kube_client::client::builder=off,hyper=warn,tower=warn,rustls=warn";

/// How a line looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// Logging could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The filter cannot be read.
    #[error("--log-filter {filter}: {source}; an example that works is info,punctual=debug")]
    Filter {
        /// The filter as given.
        filter: String,
        /// What is wrong with it.
        source: ParseError,
    },
    /// There is already a subscriber.
    #[error("logging was already set up in this process")]
    AlreadySet,
}

/// Checks a filter such as `info,punctual=debug`.
pub fn parse_filter(filter: &str) -> Result<EnvFilter, LogError> {
    EnvFilter::builder()
        .parse(filter)
        .map_err(|source| LogError::Filter { filter: filter.to_owned(), source })
}

/// Sets up logging for the whole process, once.
pub fn init(format: LogFormat, filter: &str) -> Result<(), LogError> {
    let builder =
        fmt().with_env_filter(parse_filter(filter)?).with_writer(std::io::stderr).with_target(true);
    let done = match format {
        LogFormat::Text => builder.with_ansi(std::io::stderr().is_terminal()).finish().try_init(),
        LogFormat::Json => {
            builder.json().flatten_event(true).with_span_list(false).finish().try_init()
        }
    };
    done.map_err(|_| LogError::AlreadySet)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_filter_is_valid() {
        assert!(parse_filter(DEFAULT_FILTER).is_ok());
    }

    #[test]
    fn a_bad_filter_is_named_with_an_example() {
        let error = parse_filter("punctual=loud").unwrap_err().to_string();
        assert!(
            error.contains("punctual=loud") && error.contains("info,punctual=debug"),
            "{error}"
        );
    }
}
