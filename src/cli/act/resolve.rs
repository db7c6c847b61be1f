//! `punctual resolve`: a person decides about an attempt whose outcome nobody knows.

use std::io::{self, BufRead as _, IsTerminal as _, Write as _};

use serde::Serialize;
use serde_json::json;

use super::{
    Decision, act,
    work::{Piece, Recorded, Stage, Work},
};
use crate::{
    api::{MaintenanceOccurrence, ReportJob, Resolution, ResolutionDecision},
    cli::{
        CliError, DONE, output, program,
        target::{Connection, Output, Target, TargetKind, WORK, block_on, read},
    },
    cluster::Person,
    runs::MAX_ATTEMPTS,
};

/// Longest reason, as the kinds have it.
const MAX_REASON_CHARS: usize = 256;

/// Arguments of `punctual resolve`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  # It is over and it worked.
  kubectl punctual resolve mocc/nightly-retention-202611290200 --attempt 1 --decision Succeeded \\
    --reason '42 rows in the target table, checked by hand'
  # Run it again, once the old run is proven gone.
  kubectl punctual resolve rjob/acme-usage-2026-11 --attempt 1 --decision Retry \\
    --reason 'node was powered off at 02:10'
  # Run it again although nobody can prove that: the work may run twice.
  kubectl punctual resolve rjob/acme-usage-2026-11 --attempt 1 --decision Retry --accept-duplicate \\
    --reason 'the report only reads'

Exit codes: 0 decided; 1 there is nothing to decide, or something is wrong; 2 bad usage.")]
pub struct Args {
    /// What to decide about, like mocc/nightly-retention-202611290200 or rjob/acme-usage-2026-11.
    object: String,
    /// Number of the attempt that is decided, as in status.attempts.
    #[arg(long, value_name = "N")]
    attempt: i32,
    /// What is true of it: Succeeded or Failed, which are final, or Retry.
    #[arg(long, value_name = "DECISION", value_parser = parse_decision)]
    decision: ResolutionDecision,
    /// How you know. It is kept with the attempt.
    #[arg(long, value_name = "TEXT", value_parser = parse_reason)]
    reason: String,
    /// With Retry: start another attempt even if nobody can prove that the old run is over.
    #[arg(long)]
    accept_duplicate: bool,
    /// Do not ask whether the work may run twice.
    #[arg(short, long)]
    yes: bool,
    /// Form of the answer.
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
    #[command(flatten)]
    connection: Connection,
}

fn parse_decision(text: &str) -> Result<ResolutionDecision, String> {
    match text.to_ascii_lowercase().as_str() {
        "succeeded" => Ok(ResolutionDecision::Succeeded),
        "failed" => Ok(ResolutionDecision::Failed),
        "retry" => Ok(ResolutionDecision::Retry),
        _ => Err("must be Succeeded, Failed or Retry".to_owned()),
    }
}

/// Reads a reason or note.
pub(super) fn parse_reason(text: &str) -> Result<String, String> {
    let chars = text.trim().chars().count();
    if chars == 0 {
        return Err("must not be empty: the next person will want to know".to_owned());
    }
    if chars > MAX_REASON_CHARS {
        return Err(format!("has {chars} characters; at most {MAX_REASON_CHARS} are kept"));
    }
    Ok(text.trim().to_owned())
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Answer {
    #[serde(flatten)]
    recorded: Recorded,
    /// The decision that stands now.
    resolution: Resolution,
    /// Whether this call made it, rather than one before.
    requested: bool,
    /// What it does.
    next: String,
}

/// Runs `punctual resolve`.
pub fn run(args: &Args) -> Result<u8, CliError> {
    let target = Target::parse(&args.object, &WORK)?;
    let retry = args.decision == ResolutionDecision::Retry;
    if args.accept_duplicate && !retry {
        return Err(CliError::BadUsage(format!(
            "--accept-duplicate goes with --decision Retry; {:?} starts nothing",
            args.decision
        )));
    }
    block_on(async {
        let person = args.connection.connect().await?;
        match target.kind {
            TargetKind::ReportJob => resolve::<ReportJob>(&person, &target.name, args).await,
            _ => resolve::<MaintenanceOccurrence>(&person, &target.name, args).await,
        }
    })
}

async fn resolve<K: Piece>(person: &Person, name: &str, args: &Args) -> Result<u8, CliError> {
    let wish = Resolution {
        attempt: args.attempt,
        decision: args.decision,
        reason: args.reason.clone(),
        accept_duplicate: args.accept_duplicate,
    };
    if wish.accept_duplicate && !args.yes {
        let work = read::<K>(person, name).await?.work();
        // Nothing is asked that would then be refused.
        if let Decision::Write(..) = decide(&work, &wish, program())? {
            confirm(&work.recorded.to_string())?;
        }
    }
    let decided = act(person, name, |seen: &K| decide(&seen.work(), &wish, program())).await?;
    output::print(args.output, &decided, || sentences(&decided))?;
    Ok(DONE)
}

/// Asks on the terminal whether the work may run twice.
fn confirm(what: &str) -> Result<(), CliError> {
    if !io::stdin().is_terminal() {
        return Err(CliError::BadUsage(
            "with --accept-duplicate the work may run twice, and there is no terminal to ask you on; \
             say --yes if that is what you want"
                .to_owned(),
        ));
    }
    eprint!(
        "{what}\nThe old run may still act, and nobody can prove that it does not. Another attempt \
         starts all the same: the work may run twice. Go on? [y/N] "
    );
    let failed = |error| CliError::Failed(format!("cannot ask: {error}"));
    io::stderr().flush().map_err(failed)?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer).map_err(failed)?;
    match answer.trim().to_ascii_lowercase().as_str() {
        "y" | "yes" => Ok(()),
        _ => Err(CliError::Failed("nothing was decided".to_owned())),
    }
}

/// Sets `spec.resolution`, if it would have an effect.
fn decide(work: &Work, wish: &Resolution, program: &str) -> Result<Decision<Answer>, CliError> {
    let answer = |requested| Answer {
        recorded: work.recorded.clone(),
        resolution: wish.clone(),
        requested,
        next: next(work, wish),
    };
    if work.resolution.as_ref() == Some(wish) && work.heeds(wish) {
        return Ok(Decision::Say(answer(false)));
    }
    refusal(work, wish, program).map_or_else(
        || {
            // `null` takes away what an earlier decision accepted.
            let accept = wish.accept_duplicate.then_some(true);
            let patch = json!({"spec": {"resolution": {
                "attempt": wish.attempt, "decision": wish.decision, "reason": wish.reason,
                "acceptDuplicate": accept,
            }}});
            Ok(Decision::Write(patch, answer(true)))
        },
        |why| Err(CliError::Failed(why)),
    )
}

impl Work {
    /// Whether a decision that stands in the spec is about what is Unresolved now, or had its effect.
    fn heeds(&self, resolution: &Resolution) -> bool {
        match self.stage {
            Stage::Unresolved => self.recorded.attempt == Some(resolution.attempt),
            Stage::Cancelled | Stage::Over => {
                self.recorded.state == format!("{:?}", resolution.decision)
            }
            _ => resolution.decision == ResolutionDecision::Retry,
        }
    }
}

/// Why the decision would have no effect.
fn refusal(work: &Work, wish: &Resolution, program: &str) -> Option<String> {
    let Work { target, recorded, .. } = work;
    let newest = recorded.attempt.unwrap_or(0);
    if work.is_over() {
        return Some(format!("{recorded}. What is over never changes: nothing is left to decide"));
    }
    if work.stage != Stage::Unresolved {
        return Some(format!(
            "{recorded}. It is not Unresolved, so there is nothing to decide; `{program} cancel \
             {target}` stops it"
        ));
    }
    if newest != wish.attempt {
        return Some(format!(
            "attempt {} of {target} is not the one in question: attempt {newest} is Unresolved. Look \
             at that one, then decide with --attempt {newest}",
            wish.attempt
        ));
    }
    if wish.decision != ResolutionDecision::Retry {
        return None;
    }
    if work.cancel {
        return Some(format!(
            "{target} is being cancelled, so no other attempt would start; decide Succeeded or Failed"
        ));
    }
    let full = usize::try_from(newest).is_ok_and(|newest| newest >= MAX_ATTEMPTS);
    full.then(|| {
        format!(
            "{target} has had {MAX_ATTEMPTS} attempts, and no more are recorded; decide Succeeded or \
             Failed"
        )
    })
}

/// What the decision does.
fn next(work: &Work, wish: &Resolution) -> String {
    let Resolution { attempt, decision, accept_duplicate, .. } = wish;
    let holds = work.holds;
    match decision {
        ResolutionDecision::Succeeded | ResolutionDecision::Failed => format!(
            "the leader records {decision:?} and frees its {holds}. That is final, your word is the \
             proof, and what may be left of attempt {attempt} is cancelled as far as that is possible"
        ),
        ResolutionDecision::Retry if *accept_duplicate => format!(
            "the run of attempt {attempt} is cancelled first. Another attempt starts once it is over, \
             and also if its provider still cannot say: the work may run twice"
        ),
        ResolutionDecision::Retry => format!(
            "the run of attempt {attempt} is cancelled first. Another attempt starts once it is \
             proven over; until then it stays Unresolved. If nobody can prove it, decide again with \
             --accept-duplicate"
        ),
    }
}

/// The answer for people.
fn sentences(answer: &Answer) -> String {
    let Answer { recorded, resolution, requested, next } = answer;
    let Resolution { attempt, decision, .. } = resolution;
    let decided = if *requested { "Decided" } else { "Already decided" };
    format!("{recorded}\n{decided}: attempt {attempt} {decision:?}; {next}.\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::act::work::made;

    fn wish(decision: ResolutionDecision) -> Resolution {
        Resolution { attempt: 2, decision, reason: "seen".to_owned(), accept_duplicate: false }
    }

    fn unresolved() -> Work {
        let attempts = [made::failed(1), made::attempt(2)];
        made::report(&json!({}), &json!({"state": "Unresolved", "attempts": attempts})).work()
    }

    fn refused(work: &Work, wish: &Resolution) -> String {
        decide(work, wish, "punctual").unwrap_err().to_string()
    }

    #[test]
    fn a_decision_says_what_it_does() {
        for (decision, words) in [
            (ResolutionDecision::Succeeded, "That is final"),
            (ResolutionDecision::Failed, "frees its slot"),
            (ResolutionDecision::Retry, "decide again with --accept-duplicate"),
        ] {
            let Decision::Write(patch, answer) =
                decide(&unresolved(), &wish(decision), "punctual").unwrap()
            else {
                panic!("{decision:?} is new")
            };
            let written = &patch["spec"]["resolution"];
            assert_eq!(written["decision"], json!(decision));
            assert_eq!((&written["attempt"], &written["reason"]), (&json!(2), &json!("seen")));
            assert!(written["acceptDuplicate"].is_null(), "an earlier one is taken back");
            assert!(answer.next.contains(words) && answer.requested, "{}", answer.next);
        }
        let twice = Resolution { accept_duplicate: true, ..wish(ResolutionDecision::Retry) };
        let Decision::Write(patch, answer) = decide(&unresolved(), &twice, "punctual").unwrap()
        else {
            panic!("it is new")
        };
        assert_eq!(patch["spec"]["resolution"]["acceptDuplicate"], json!(true));
        assert!(answer.next.contains("may run twice"));
    }

    #[test]
    fn what_has_no_effect_is_refused_with_the_reason() {
        let retry = wish(ResolutionDecision::Retry);
        let running = made::occurrence(&json!({}), &json!({"state": "Running"})).work();
        assert!(refused(&running, &retry).contains("not Unresolved"));
        let over = made::occurrence(&json!({}), &json!({"state": "Failed"})).work();
        assert!(refused(&over, &retry).contains("never changes"));
        let other = Resolution { attempt: 1, ..retry.clone() };
        assert!(refused(&unresolved(), &other).contains("attempt 2 is Unresolved"));
        let cancelled = Work { cancel: true, ..unresolved() };
        assert!(refused(&cancelled, &retry).contains("being cancelled"));
        assert!(decide(&cancelled, &wish(ResolutionDecision::Failed), "punctual").is_ok());
        let last = i32::try_from(MAX_ATTEMPTS).unwrap();
        let status = json!({"state": "Unresolved", "attempts": [made::attempt(last)]});
        let full = made::report(&json!({}), &status).work();
        let of_last = Resolution { attempt: last, ..retry };
        assert!(refused(&full, &of_last).contains("64 attempts"));
    }

    #[test]
    fn a_decision_that_stands_is_not_written_again() {
        let retry = wish(ResolutionDecision::Retry);
        let stands = Work { resolution: Some(retry.clone()), ..unresolved() };
        let Decision::Say(answer) = decide(&stands, &retry, "punctual").unwrap() else {
            panic!("it stands")
        };
        assert!(!answer.requested && sentences(&answer).contains("Already decided"));
        // It had its effect: the next attempt runs.
        let taken = Work { stage: Stage::Runs, ..stands.clone() };
        assert!(matches!(decide(&taken, &retry, "punctual"), Ok(Decision::Say(_))));
        // It stood there in vain: its end is another.
        let over = Work { stage: Stage::Over, ..stands.clone() };
        assert!(refused(&over, &retry).contains("never changes"));
        // One about another attempt than the one in question had none.
        let mut newer = stands;
        newer.recorded.attempt = Some(3);
        assert!(refused(&newer, &retry).contains("attempt 3"));
    }

    #[test]
    fn reasons_and_decisions_are_read_as_people_write_them() {
        assert_eq!(parse_decision("retry"), Ok(ResolutionDecision::Retry));
        assert!(parse_decision("Maybe").is_err());
        assert_eq!(parse_reason("  seen "), Ok("seen".to_owned()));
        assert!(parse_reason("  ").is_err() && parse_reason(&"x".repeat(257)).is_err());
        assert!(parse_reason(&"ä".repeat(256)).is_ok());
    }
}
