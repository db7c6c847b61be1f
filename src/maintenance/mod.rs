//! What a schedule and an occurrence do next, and the controller that does it.
