//! The validation rules and the shape of the schemas.
