//! The kinds users write: types, validation rules, conditions.
