//! Where in an object something is.

use std::fmt;

/// A path that is written out only when something is said about it.
#[derive(Clone, Copy, Debug)]
pub(super) enum Place<'a> {
    /// The object itself.
    Root,
    /// A field of it.
    Field(&'a Place<'a>, &'a str),
    /// An element of a list.
    Item(&'a Place<'a>, usize),
}

impl fmt::Display for Place<'_> {
    /// As the API server writes it: `spec.list[0].name`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => Ok(()),
            Self::Field(Self::Root, name) => f.write_str(name),
            Self::Field(parent, name) => write!(f, "{parent}.{name}"),
            Self::Item(parent, index) => write!(f, "{parent}[{index}]"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_written_with_dots_and_brackets() {
        let spec = Place::Field(&Place::Root, "spec");
        let list = Place::Field(&spec, "list");
        let item = Place::Item(&list, 2);
        assert_eq!(Place::Field(&item, "name").to_string(), "spec.list[2].name");
        assert_eq!(Place::Root.to_string(), "");
    }
}
