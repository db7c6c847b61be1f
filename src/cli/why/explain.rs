//! From what was read to an answer: pure.

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{
    answer::Answer,
    commands::Target,
    instant, occurrence, queue, report, schedule,
    snapshot::{Snapshot, instant_in, typed},
    trace,
};
use crate::{
    api::{
        MaintenanceOccurrence, MaintenanceSchedule, RecoveryTrace, ReportJob, ReportQueue,
        ReportSchedule,
    },
    cli::target::TargetKind,
    cluster::ObjectKey,
    identity::occurrence_name,
    schedules::Kind,
    time::IntendedTime,
};

/// Why what is asked about is as it is. An error is a sentence that says that there is nothing to be
/// explained.
pub(super) fn explain(snapshot: &Snapshot) -> Result<Answer, String> {
    let mut answer = match (snapshot.subject, snapshot.at) {
        (TargetKind::MaintenanceSchedule, Some(at)) => {
            of_instant::<MaintenanceSchedule>(snapshot, &snapshot.key.name, at)
        }
        (TargetKind::ReportSchedule, Some(at)) => {
            of_instant::<ReportSchedule>(snapshot, &snapshot.key.name, at)
        }
        (TargetKind::MaintenanceOccurrence | TargetKind::ReportJob, _) => of_work(snapshot),
        _ => of_other(snapshot),
    }?;
    answer.not_read.clone_from(&snapshot.not_read);
    if answer.actions.is_empty() {
        answer.can_do("Nothing has to be done.");
    }
    Ok(answer)
}

/// An occurrence or a report job, or the instant that its name says, if it is not there.
fn of_work(snapshot: &Snapshot) -> Result<Answer, String> {
    if let Some(object) = &snapshot.object {
        return Ok(work(snapshot, snapshot.subject, object));
    }
    match (instant_in(&snapshot.key.name), snapshot.subject) {
        (Some((name, at)), TargetKind::MaintenanceOccurrence) if snapshot.schedule.is_some() => {
            of_instant::<MaintenanceSchedule>(snapshot, name, at)
        }
        (Some((name, at)), TargetKind::ReportJob) if snapshot.schedule.is_some() => {
            of_instant::<ReportSchedule>(snapshot, name, at)
        }
        _ => Err(not_there(snapshot.subject, &snapshot.key)),
    }
}

/// What an instant of a schedule made, or why it made nothing.
fn of_instant<S: Scheduled>(
    snapshot: &Snapshot,
    name: &str,
    at: IntendedTime,
) -> Result<Answer, String> {
    let key = ObjectKey::new(&snapshot.key.namespace, name);
    if let Some(object) = &snapshot.object {
        return Ok(work(snapshot, S::WORK, object));
    }
    let Some(value) = &snapshot.schedule else { return Err(not_there(S::SUBJECT, &key)) };
    let mut answer = Answer::about(S::SUBJECT.short(), &key);
    let made = format!("{}/{}", S::WORK.short(), occurrence_name(name, at));
    let made = Target::new(made, &key.namespace);
    if let Some(schedule) = read::<S>(value, &mut answer) {
        instant::explain(snapshot, &schedule, at, &made, &mut answer);
    }
    Ok(answer)
}

fn work(snapshot: &Snapshot, subject: TargetKind, object: &Value) -> Answer {
    let name = super::snapshot::text(object, "/metadata/name");
    let mut answer = Answer::about(subject.short(), &ObjectKey::new(&snapshot.key.namespace, name));
    if subject == TargetKind::ReportJob {
        if let Some(report) = read::<ReportJob>(object, &mut answer) {
            report::explain(snapshot, &report, &mut answer);
        }
    } else if let Some(occurrence) = read::<MaintenanceOccurrence>(object, &mut answer) {
        occurrence::explain(snapshot, &occurrence, &mut answer);
    }
    answer
}

fn of_other(snapshot: &Snapshot) -> Result<Answer, String> {
    let (subject, key) = (snapshot.subject, &snapshot.key);
    let object = snapshot.object.as_ref().ok_or_else(|| not_there(subject, key))?;
    let mut answer = Answer::about(subject.short(), key);
    let to = &mut answer;
    match subject {
        TargetKind::MaintenanceSchedule => {
            if let Some(of) = read::<MaintenanceSchedule>(object, to) {
                schedule::explain(snapshot, &of, TargetKind::MaintenanceOccurrence.short(), to);
            }
        }
        TargetKind::ReportSchedule => {
            if let Some(of) = read::<ReportSchedule>(object, to) {
                schedule::explain(snapshot, &of, TargetKind::ReportJob.short(), to);
            }
        }
        TargetKind::ReportQueue => {
            if let Some(of) = read::<ReportQueue>(object, to) {
                queue::explain(snapshot, &of, to);
            }
        }
        TargetKind::RecoveryTrace => {
            if let Some(of) = read::<RecoveryTrace>(object, to) {
                trace::explain(snapshot, &of, to);
            }
        }
        TargetKind::MaintenanceOccurrence | TargetKind::ReportJob => return of_work(snapshot),
    }
    Ok(answer)
}

/// A kind of schedule, and the kind of what it makes.
trait Scheduled: Kind + DeserializeOwned {
    const SUBJECT: TargetKind;
    const WORK: TargetKind;
}

impl Scheduled for MaintenanceSchedule {
    const SUBJECT: TargetKind = TargetKind::MaintenanceSchedule;
    const WORK: TargetKind = TargetKind::MaintenanceOccurrence;
}

impl Scheduled for ReportSchedule {
    const SUBJECT: TargetKind = TargetKind::ReportSchedule;
    const WORK: TargetKind = TargetKind::ReportJob;
}

/// The object as its kind; if that is not possible the answer says so.
fn read<K: DeserializeOwned>(object: &Value, answer: &mut Answer) -> Option<K> {
    match typed(object) {
        Ok(read) => Some(read),
        Err(error) => {
            let target = Target::new(answer.object.clone(), &answer.namespace);
            answer.stands("Unreadable", None, "It exists, and this version cannot read it.");
            answer.because(format!("What is wrong with it: {error}."));
            answer.because("The operator decides nothing about an object that it cannot read, and goes on with all others.");
            answer.then(None, "It stays as it is until it is corrected, or until a version runs that can read it.");
            answer.can("To look at it", target.show());
            answer.can("To correct it", target.edit());
            None
        }
    }
}

fn not_there(subject: TargetKind, key: &ObjectKey) -> String {
    let (kind, short) = (subject.kind(), subject.short());
    format!(
        "there is no {kind} {:?} in namespace {:?}; kubectl get {short} -n {} lists them",
        key.name, key.namespace, key.namespace
    )
}
