//! `KIND/NAME` of what is asked about.

use crate::cli::CliError;

/// A kind that can be asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Subject {
    /// MaintenanceOccurrence.
    Occurrence,
    /// MaintenanceSchedule.
    Schedule,
    /// ReportJob.
    Report,
    /// ReportQueue.
    Queue,
    /// ReportSchedule.
    ReportSchedule,
    /// RecoveryTrace.
    Trace,
}

impl Subject {
    /// All of them.
    pub(super) const ALL: [Self; 6] = [
        Self::Occurrence,
        Self::Schedule,
        Self::Report,
        Self::Queue,
        Self::ReportSchedule,
        Self::Trace,
    ];

    /// Short name, kind and plural.
    fn names(self) -> [&'static str; 3] {
        match self {
            Self::Occurrence => ["mocc", "MaintenanceOccurrence", "maintenanceoccurrences"],
            Self::Schedule => ["msched", "MaintenanceSchedule", "maintenanceschedules"],
            Self::Report => ["rjob", "ReportJob", "reportjobs"],
            Self::Queue => ["rqueue", "ReportQueue", "reportqueues"],
            Self::ReportSchedule => ["rsched", "ReportSchedule", "reportschedules"],
            Self::Trace => ["rtrace", "RecoveryTrace", "recoverytraces"],
        }
    }

    /// The short name.
    pub(super) fn short(self) -> &'static str {
        self.names()[0]
    }

    /// The kind.
    pub(super) fn kind(self) -> &'static str {
        self.names()[1]
    }

    /// The kind with this name, in any spelling that kubectl knows.
    fn named(name: &str) -> Option<Self> {
        let name = name.to_ascii_lowercase();
        let name = name.strip_suffix(".punctual.dev").unwrap_or(&name);
        Self::ALL.into_iter().find(|kind| kind.names().iter().any(|n| n.eq_ignore_ascii_case(name)))
    }
}

/// Reads `KIND/NAME`.
pub(super) fn parse(target: &str) -> Result<(Subject, String), CliError> {
    const KNOWN: &str = "mocc, msched, rjob, rqueue, rsched or rtrace";
    let Some((kind, name)) = target.split_once('/') else {
        return Err(CliError::BadUsage(format!(
            "{target:?} does not say of which kind it is; write KIND/NAME with {KNOWN}, for example mocc/{target}"
        )));
    };
    let Some(kind) = Subject::named(kind) else {
        return Err(CliError::BadUsage(format!(
            "{kind:?} is no kind of Punctual; write KIND/NAME with {KNOWN}"
        )));
    };
    if name.is_empty() || name.contains('/') {
        return Err(CliError::BadUsage(format!(
            "{target:?} has no name; write it like {}/NAME, and the namespace as -n NAMESPACE",
            kind.short()
        )));
    }
    Ok((kind, name.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_known_by_the_names_of_kubectl() {
        for kind in Subject::ALL {
            for name in kind.names() {
                for name in [name.to_owned(), name.to_uppercase(), format!("{name}.punctual.dev")] {
                    let parsed = parse(&format!("{name}/x")).unwrap();
                    assert_eq!(parsed, (kind, "x".to_owned()), "{name}");
                }
            }
        }
    }

    #[test]
    fn what_names_no_object_is_told_how_to() {
        for (wrong, part) in [
            ("nightly", "for example mocc/nightly"),
            ("cronjob/x", "\"cronjob\" is no kind"),
            ("mocc/", "like mocc/NAME"),
            ("rjob/a/b", "-n NAMESPACE"),
            ("", "KIND/NAME"),
        ] {
            let error = parse(wrong).unwrap_err();
            assert_eq!(error.code(), crate::cli::BAD_USAGE);
            assert!(error.to_string().contains(part), "{wrong}: {error}");
        }
    }
}
