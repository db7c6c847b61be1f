//! What of the spec has no effect: said once for each change of the spec.

use super::{MAX_ATTEMPTS, Note, Phase, View};

/// The run that was recorded first is used; a later one is not.
const SPEC_CHANGED: &str = "SpecChanged";
/// The decision of a person does not apply.
const RESOLUTION_IGNORED: &str = "ResolutionIgnored";

/// Whether a note says that something in the spec is ignored.
pub fn is_about_ignored(note: &Note) -> bool {
    [SPEC_CHANGED, RESOLUTION_IGNORED].contains(&note.reason)
}

impl View<'_> {
    /// What of this generation of the spec is ignored, unless that was said: the generation that a
    /// write recorded, or of which this process told, is not told of again.
    pub(super) fn ignored(&self) -> Vec<Note> {
        let generation = self.snapshot.asked.generation;
        if generation <= self.snapshot.observed.max(self.snapshot.told) {
            return Vec::new();
        }
        self.spec_changed().into_iter().chain(self.resolution_ignored()).collect()
    }

    /// The rules of the kind cannot hold a raw template immutable, so it may have been changed.
    fn spec_changed(&self) -> Option<Note> {
        let (wanted, sealed) = (self.snapshot.asked.run?, self.record.run.as_ref()?);
        (wanted != sealed).then(|| {
            Note::warning(
                SPEC_CHANGED,
                format!(
                    "spec.run differs from status.run, which was recorded first and is what runs: \
                     the change is ignored; to run something else, {}",
                    self.snapshot.words.run_other
                ),
            )
        })
    }

    fn resolution_ignored(&self) -> Option<Note> {
        let resolution = self.snapshot.asked.resolution?;
        let newest = self.record.newest();
        if self.applies(resolution, newest) || self.was_applied(resolution) {
            return None;
        }
        let named = resolution.attempt;
        let why = if self.phase.is_over() {
            format!("it is over ({})", self.snapshot.state)
        } else if named != newest {
            format!("the newest attempt is {newest}")
        } else if self.phase == Phase::Unresolved {
            format!("at most {MAX_ATTEMPTS} attempts are kept")
        } else {
            format!("it is {}, not Unresolved", self.snapshot.state)
        };
        Some(Note::warning(
            RESOLUTION_IGNORED,
            format!("spec.resolution decides attempt {named} and is ignored: {why}"),
        ))
    }
}
