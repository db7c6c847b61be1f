//! What becomes of a request at the API server, and what is true, whoever knows it.

use super::{Job, Occurrence, Request, Schedule, State};

/// Whether nothing can ever come of a request: its version or uid is gone, or its term outranked.
pub(super) fn is_dead(state: &State, request: &Request) -> bool {
    match *request {
        Request::CreateOccurrence | Request::CreateJob { .. } => false,
        Request::Schedule { term, over, next } => !state
            .schedule
            .is_some_and(|now| now.uid == next.uid && now.version == over && now.fence <= term),
        Request::Occurrence { term, over, next } => !state.occurrence.is_some_and(|now| {
            now.uid == next.uid && now.version == over && now.fence <= term && !now.ended
        }),
        Request::Release { uid, version } | Request::DeleteJob { uid, version } => {
            !state.job.is_some_and(|job| job.uid == uid && job.version == version)
        }
        Request::DeleteOccurrence { uid, version } => {
            !state.occurrence.is_some_and(|o| o.uid == uid && o.version == version)
        }
    }
}

pub(super) fn arrive(state: &mut State, request: Request) {
    if is_dead(state, &request) {
        return;
    }
    match request {
        Request::CreateOccurrence => {
            if state.occurrence.is_none() {
                create_occurrence(state, false);
            }
        }
        Request::CreateJob { parent } => {
            if state.job.is_none() {
                state.uids += 1;
                let (uid, version) = (state.uids, 1);
                state.job = Some(Job { uid, version, parent, released: false, finished: false });
            }
        }
        Request::Schedule { term, next, .. } => {
            let open = state.occurrence.filter(|o| o.handle != 0 && !o.ended);
            let takes_over = state.schedule.is_some_and(|now| !now.taken_up);
            if let Some(open) = open
                && takes_over
                && state.committed_by < term
                && next.claim != Some(open.uid)
            {
                state.wrong =
                    Some("a schedule was taken over without what an older term had begun");
            }
            let claimed = state.schedule.and_then(|now| now.claim.filter(|_| now.taken_up));
            let acts = state.job.filter(|job| job.released && !job.finished);
            if let Some(job) = acts
                && claimed == Some(job.parent)
                && next.claim != claimed
            {
                state.wrong = Some("a claim was dropped while its run could act");
            }
            state.schedule = Some(next);
        }
        Request::Occurrence { term, next, .. } => {
            let commits = state.occurrence.is_some_and(|o| o.handle == 0) && next.handle != 0;
            let unknown = state
                .schedule
                .is_some_and(|s| s.taken_up && s.fence > term && s.claim != Some(next.uid));
            if commits && unknown {
                state.wrong =
                    Some("an older term committed a run that the newer one knows nothing of");
            }
            if commits {
                state.committed_by = term;
            }
            let started = state
                .job
                .is_some_and(|job| job.uid == next.handle && job.released && !job.finished);
            if next.ended && started {
                state.wrong = Some("an end was recorded while the run could act");
            }
            let claimed = state.schedule.is_some_and(|s| s.taken_up && s.claim == Some(next.uid));
            if next.ended && next.handle == 0 && claimed {
                state.wrong = Some("a claimed occurrence was ended as if nobody wanted it");
            }
            state.taken_over_midway |= next.handle != 0 && next.fence > 1;
            let ended_by_run = state.job.is_some_and(|job| job.uid == next.handle && job.finished);
            state.ended |= next.ended && ended_by_run;
            state.occurrence = Some(next);
        }
        Request::Release { .. } => release(state),
        Request::DeleteJob { .. } => state.job = None,
        Request::DeleteOccurrence { .. } => state.occurrence = None,
    }
}

fn release(state: &mut State) {
    let Some(job) = state.job.as_mut().filter(|job| !job.released) else { return };
    job.released = true;
    job.version += 1;
    if job.parent == state.asked_again && !state.ran_again {
        state.ran_again = true;
        return;
    }
    if state.ran {
        state.wrong = Some("the instant ran twice");
    } else if state.ended {
        state.wrong = Some("the instant ran after its end");
    }
    state.ran = true;
}

pub(super) fn create_occurrence(state: &mut State, by_hand: bool) {
    state.uids += 1;
    let uid = state.uids;
    state.occurrence =
        Some(Occurrence { uid, version: 1, fence: 0, by_hand, handle: 0, ended: false });
}

pub(super) fn new_schedule(uid: u8, wants: bool) -> Schedule {
    Schedule {
        uid,
        version: 1,
        fence: 0,
        taken_up: false,
        wants,
        decided: false,
        claim: None,
        marked: false,
    }
}
