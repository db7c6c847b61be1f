//! What is worth an event, as data: decisions produce it, [`super::events`] carries it.

use std::borrow::Cow;

use crate::api::truncate;

/// Longest event note that the API server accepts; it counts bytes, not characters.
pub const MAX_NOTE_BYTES: usize = 1024;
/// Longest reason and action that the API server accepts.
pub const MAX_WORD_CHARS: usize = 128;

/// The object that an event is about.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectRef {
    /// API version, for example `punctual.dev/v1alpha1`.
    pub api_version: String,
    /// Kind.
    pub kind: String,
    /// Namespace; empty for objects without one.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// Uid; may be empty if it is not known.
    pub uid: String,
}

/// Whether somebody should look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NoteKind {
    /// Something happened as intended.
    Normal,
    /// Somebody should look.
    Warning,
}

/// One event: something happened to an object. Never "looked and found nothing".
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Note {
    /// What it happened to.
    pub object: ObjectRef,
    /// Whether somebody should look.
    pub kind: NoteKind,
    /// One word in `PascalCase`: why.
    pub reason: Cow<'static, str>,
    /// One word in `PascalCase`: what the operator did.
    pub action: Cow<'static, str>,
    /// One sentence for people.
    pub message: String,
}

impl Note {
    /// The same, cut to what the API server accepts.
    #[must_use]
    pub fn fit(mut self) -> Self {
        if self.reason.chars().count() > MAX_WORD_CHARS {
            self.reason = truncate(&self.reason, MAX_WORD_CHARS).into();
        }
        if self.action.chars().count() > MAX_WORD_CHARS {
            self.action = truncate(&self.action, MAX_WORD_CHARS).into();
        }
        if self.message.len() > MAX_NOTE_BYTES {
            self.message = truncate_bytes(&self.message, MAX_NOTE_BYTES);
        }
        self
    }
}

/// `text`, at most `max` bytes, cut between characters; a cut is shown by an ellipsis.
fn truncate_bytes(text: &str, max: usize) -> String {
    const ELLIPSIS: &str = "…";
    let mut end = max.saturating_sub(ELLIPSIS.len()).min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}{ELLIPSIS}", &text[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(message: &str) -> Note {
        Note {
            object: ObjectRef::default(),
            kind: NoteKind::Normal,
            reason: "Created".into(),
            action: "Create".into(),
            message: message.into(),
        }
    }

    #[test]
    fn what_fits_is_not_changed() {
        let exact = "x".repeat(MAX_NOTE_BYTES);
        assert_eq!(note(&exact).fit(), note(&exact));
    }

    #[test]
    fn a_long_message_is_cut_by_bytes_between_characters() {
        for filler in ["x", "ä", "…", "🕑"] {
            let fitted = note(&filler.repeat(2 * MAX_NOTE_BYTES)).fit();
            assert!(fitted.message.len() <= MAX_NOTE_BYTES, "{filler}: {}", fitted.message.len());
            assert!(fitted.message.len() > MAX_NOTE_BYTES - 8, "{filler}");
            assert!(fitted.message.ends_with('…'));
        }
    }

    #[test]
    fn long_words_are_cut_too() {
        let mut long = note("");
        long.reason = "R".repeat(500).into();
        long.action = "A".repeat(500).into();
        let fitted = long.fit();
        assert_eq!(fitted.reason.chars().count(), MAX_WORD_CHARS);
        assert_eq!(fitted.action.chars().count(), MAX_WORD_CHARS);
    }
}
