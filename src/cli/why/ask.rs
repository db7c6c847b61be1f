//! `KIND/NAME` of what is asked about.

use crate::cli::{
    CliError,
    target::{TargetKind, is_object_name},
};

/// Reads `KIND/NAME`.
pub(super) fn parse(target: &str) -> Result<(TargetKind, String), CliError> {
    const KNOWN: &str = "mocc, msched, rjob, rqueue, rsched or rtrace";
    let Some((kind, name)) = target.split_once('/') else {
        return Err(CliError::BadUsage(format!(
            "{target:?} does not say of which kind it is; write KIND/NAME with {KNOWN}, for example mocc/{target}"
        )));
    };
    let Some(kind) = TargetKind::named(kind) else {
        return Err(CliError::BadUsage(format!(
            "{kind:?} is no kind of Punctual; write KIND/NAME with {KNOWN}"
        )));
    };
    if !is_object_name(name) {
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
        for (kind, plural) in [
            (TargetKind::MaintenanceOccurrence, "maintenanceoccurrences"),
            (TargetKind::MaintenanceSchedule, "maintenanceschedules"),
            (TargetKind::ReportJob, "reportjobs"),
            (TargetKind::ReportQueue, "reportqueues"),
            (TargetKind::ReportSchedule, "reportschedules"),
            (TargetKind::RecoveryTrace, "recoverytraces"),
        ] {
            for name in [kind.short(), kind.kind(), plural] {
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
            ("mocc/a?watch=1", "-n NAMESPACE"),
            ("", "KIND/NAME"),
        ] {
            let error = parse(wrong).unwrap_err();
            assert_eq!(error.code(), crate::cli::BAD_USAGE);
            assert!(error.to_string().contains(part), "{wrong}: {error}");
        }
    }
}
