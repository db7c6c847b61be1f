//! Metrics, health, logs, events.
