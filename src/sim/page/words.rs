//! A history in plain words: who led when and why that changed, what ran, what was refused, and what
//! comes next.

use std::{collections::BTreeSet, fmt::Write as _, time::Duration};

use jiff::{SignedDuration, Timestamp};

use crate::{
    authority::Gained,
    sim::{
        Kind,
        chronicle::{Chronicle, Run},
        scenario::show_time,
        world::{Down, Entry, Refused, Term, What},
    },
};

/// Most changes of leadership, schedules or objects that one sentence lists.
const MAX_LISTED: usize = 3;

/// The paragraphs of the headline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Headline {
    /// Who led when, and why it changed.
    pub led: String,
    /// How many runs there were, and how they went.
    pub ran: String,
    /// What was refused.
    pub refused: String,
    /// What happens next.
    pub next: String,
}

impl Headline {
    /// Says what happened.
    pub fn of(chronicle: &Chronicle) -> Self {
        Self {
            led: led(chronicle),
            ran: ran(chronicle),
            refused: refused(chronicle),
            next: next(chronicle),
        }
    }
}

/// What a true clock showed, `02:00:30`, with the date if the history has more than one.
pub fn wall(chronicle: &Chronicle, at: Duration) -> String {
    let time = wall_time(chronicle.start, at);
    let zoned = time.to_zoned(jiff::tz::TimeZone::UTC);
    let days = wall_time(chronicle.start, chronicle.end).to_zoned(jiff::tz::TimeZone::UTC).date()
        != chronicle.start.to_zoned(jiff::tz::TimeZone::UTC).date();
    let form = if days { "%m-%d %H:%M:%S" } else { "%H:%M:%S" };
    zoned.strftime(form).to_string()
}

fn wall_time(start: Timestamp, at: Duration) -> Timestamp {
    let passed = SignedDuration::try_from(at).unwrap_or(SignedDuration::MAX);
    start.saturating_add(passed).unwrap_or(Timestamp::MAX)
}

/// A duration for people: `11.5 s`, `3 min`, `2 h 30 min`.
pub fn span(duration: Duration) -> String {
    let secs = duration.as_secs();
    match secs {
        0..60 => {
            let tenths = (duration.as_millis() + 50) / 100;
            if tenths.is_multiple_of(10) {
                format!("{} s", tenths / 10)
            } else {
                format!("{}.{} s", tenths / 10, tenths % 10)
            }
        }
        60..3600 if secs.is_multiple_of(60) => format!("{} min", secs / 60),
        60..3600 => format!("{} min {} s", secs / 60, secs % 60),
        _ if (secs / 60).is_multiple_of(60) => format!("{} h", secs / 3600),
        _ => format!("{} h {} min", secs / 3600, secs / 60 % 60),
    }
}

/// `1 run`, `2 runs`, `no run`.
pub fn count(number: usize, one: &str, many: &str) -> String {
    match number {
        0 => format!("no {one}"),
        1 => format!("one {one}"),
        _ => format!("{number} {many}"),
    }
}

/// A sentence begins with a capital, a name stays as it is.
pub(super) fn capital(text: &str) -> String {
    let first = text.split_whitespace().next().unwrap_or_default();
    if first.contains(|c: char| c.is_ascii_digit()) {
        return text.to_owned();
    }
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

/// Who holds a term, as people call it.
pub fn leader(term: &Term) -> String {
    term.replica.map_or_else(|| term.holder.clone(), |replica| format!("r{replica}"))
}

fn led(chronicle: &Chronicle) -> String {
    let Some(first) = chronicle.terms.first() else {
        return "Nobody led: no replica acquired the Lease.".to_owned();
    };
    let mut text = format!("{} led first, with epoch {}", leader(first), first.epoch);
    if first.began > Duration::from_secs(1) {
        let _ = write!(text, ", from {}", wall(chronicle, first.began));
    }
    text.push('.');
    let changes: Vec<[&Term; 2]> =
        chronicle.terms.iter().zip(chronicle.terms.iter().skip(1)).map(|(a, b)| [a, b]).collect();
    if changes.len() > MAX_LISTED {
        let _ = write!(text, " Leadership changed {} times; the last time: ", changes.len());
    }
    let from = if changes.len() > MAX_LISTED { changes.len() - 1 } else { 0 };
    for [old, new] in &changes[from..] {
        let _ = write!(text, " {}", change(chronicle, old, new));
    }
    if changes.is_empty() {
        text.push_str(" It led to the end.");
    }
    if let Some((at, why)) = chronicle.terms.last().and_then(|term| term.ended.as_ref()) {
        let at = wall(chronicle, *at);
        let _ = write!(text, " That term ended at {at} ({why}), and nobody took over.");
    }
    text.replace("  ", " ")
}

/// Why leadership went from one to the other.
pub fn change(chronicle: &Chronicle, old: &Term, new: &Term) -> String {
    let who = leader(old);
    let taker = if leader(new) == who && new.process != old.process {
        format!("a new process of {who}")
    } else {
        leader(new)
    };
    let at = wall(chronicle, new.began);
    let took = format!("{taker} took over at {at} with epoch {}", new.epoch);
    let silent = span(new.began.saturating_sub(old.renewed));
    let cause = cause(chronicle, old, new);
    match new.gained {
        Gained::Expired => format!(
            "{cause}, so nobody renewed the Lease any more; {took}, {silent} after the last renewal."
        ),
        Gained::Released => {
            format!("{} and gave the Lease back; {took}.", cause.trim_end_matches('.'))
        }
        Gained::LeaseDeleted => format!("{cause}; {took}."),
        Gained::First => format!("{took}."),
    }
}

/// What ended a term, as a clause: what was done to its holder, or else to the Lease, or else to the
/// API server, or what the holder said itself.
fn cause(chronicle: &Chronicle, old: &Term, new: &Term) -> String {
    let who = leader(old);
    let until = old.ended.as_ref().map_or(new.began, |(at, _)| *at);
    let during = |entry: &&Entry| entry.at >= old.began && entry.at <= until;
    let latest = |what: &dyn Fn(&Entry) -> Option<String>| {
        chronicle.story.iter().filter(during).rev().find_map(what)
    };
    let at = |entry: &Entry| wall(chronicle, entry.at);
    let done_to_it = |entry: &Entry| {
        if entry.replica != old.replica {
            return None;
        }
        let what = match &entry.what {
            What::Down(Down::Killed) => "was killed".to_owned(),
            What::Down(Down::Crashed { point }) => format!("crashed {}", past(point)),
            What::Frozen => "was frozen".to_owned(),
            What::CutOff => "was cut off from the API server".to_owned(),
            What::Step { sentence } if sentence.contains("asked to stop") => {
                "was asked to stop".to_owned()
            }
            _ => return None,
        };
        Some(format!("at {} {who} {what}", at(entry)))
    };
    let done_to_the_lease = |entry: &Entry| match &entry.what {
        What::Step { sentence } if sentence.contains("the Lease") => {
            Some(format!("at {} {}", at(entry), past(sentence)))
        }
        _ => None,
    };
    let done_to_all = |entry: &Entry| match &entry.what {
        What::Fault { sentence } if entry.replica.is_none() && !sentence.contains("provider") => {
            Some(format!("at {} this began: {sentence}", at(entry)))
        }
        _ => None,
    };
    let by_itself = |entry: &Entry| match &entry.what {
        What::Down(Down::Ended { why, .. }) if entry.replica == old.replica => {
            Some(format!("at {} {who} ended ({why})", at(entry)))
        }
        _ => None,
    };
    let clause = latest(&done_to_it)
        .or_else(|| latest(&done_to_the_lease))
        .or_else(|| latest(&done_to_all))
        .or_else(|| latest(&by_itself));
    let ended =
        || old.ended.as_ref().map(|(at, why)| format!("at {}: {why}", wall(chronicle, *at)));
    capital(&clause.or_else(ended).unwrap_or_else(|| format!("{who} stopped leading")))
}

/// What the story tells in the present, as something that happened.
fn past(sentence: &str) -> String {
    [(" deletes ", " deleted "), (" edits ", " edited "), (" sees ", " saw ")]
        .into_iter()
        .fold(sentence.to_owned(), |text, (now, then)| text.replace(now, then))
}

/// Runs that were released.
fn released(chronicle: &Chronicle) -> Vec<&Run> {
    chronicle.runs.iter().filter(|run| run.released.is_some()).collect()
}

fn ran(chronicle: &Chronicle) -> String {
    let runs = released(chronicle);
    let works: BTreeSet<(&str, &str)> =
        runs.iter().map(|run| (run.namespace.as_str(), run.object.as_str())).collect();
    if runs.is_empty() {
        return "Nothing ran.".to_owned();
    }
    let keys: BTreeSet<&str> = runs.iter().map(|run| run.run_key.as_str()).collect();
    let states = states(chronicle).join(", ");
    let (one, many) = nouns(chronicle);
    let mut text = match &runs[..] {
        [run] if chronicle.works.len() == 1 => {
            format!("One run was released, of {}, which {states}.", run.object)
        }
        _ => {
            let runs = capital(&count(keys.len(), "run was", "runs were"));
            let works = count(works.len(), one, many);
            let all = count(chronicle.works.len(), one, many);
            format!("{runs} released, of {works}. Of {all} in all, at the end: {states}.")
        }
    };
    if keys.len() == works.len() {
        text.push_str(" Nothing ran twice.");
    } else {
        let again = count(keys.len() - works.len(), "of them was", "of them were");
        let _ = write!(text, " {} a further attempt at the same {one}.", capital(&again));
    }
    text
}

/// What the pieces of work are, one and many.
pub(super) fn nouns(chronicle: &Chronicle) -> (&'static str, &'static str) {
    let reports = chronicle.works.iter().filter(|work| work.key.kind == Kind::ReportJob).count();
    match reports {
        0 => ("occurrence", "occurrences"),
        all if all == chronicle.works.len() => ("report", "reports"),
        _ => ("piece of work", "pieces of work"),
    }
}

/// How many pieces of work are in which state at the end, the most frequent first.
fn states(chronicle: &Chronicle) -> Vec<String> {
    let mut numbers: Vec<(usize, &str)> = Vec::new();
    for work in &chronicle.works {
        match numbers.iter_mut().find(|(_, state)| *state == work.state()) {
            Some((number, _)) => *number += 1,
            None => numbers.push((1, work.state())),
        }
    }
    numbers.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(b.1)));
    // For one piece of work, and for many.
    let verb = |state: &str| match state {
        "Succeeded" => ("succeeded", "succeeded"),
        "Failed" => ("failed", "failed"),
        "Cancelled" => ("was cancelled", "cancelled"),
        "Skipped" => ("was skipped", "skipped"),
        "Superseded" => ("was superseded", "superseded"),
        "Running" => ("still runs", "running"),
        "Unresolved" => (
            "is unresolved: nobody can say how it ended",
            "unresolved (nobody can say how it ended)",
        ),
        "Cancelling" => ("is being cancelled", "being cancelled"),
        "Starting" => ("is starting", "starting"),
        "Admitted" => ("is admitted", "admitted"),
        "Rejected" => ("was rejected", "rejected"),
        _ => ("waits", "waiting"),
    };
    let sole = chronicle.works.len() == 1;
    let one = |(number, state): &(usize, &str)| {
        let (single, many) = verb(state);
        if sole { single.to_owned() } else { format!("{number} {many}") }
    };
    numbers.iter().map(one).collect()
}

/// Refused writes that mean something: those that the test itself refused, and campaigns that came
/// second, are left out.
pub fn is_telling(refused: &Refused) -> bool {
    !refused.injected && (refused.fenced || (refused.stale && !is_campaign(refused)))
}

/// Whether it was about the Lease: of several candidates one wins.
pub fn is_campaign(refused: &Refused) -> bool {
    refused.write.contains("lease")
}

fn refused(chronicle: &Chronicle) -> String {
    let all = chronicle.story.iter().filter_map(|entry| match &entry.what {
        What::Refused(refused) => Some((entry, refused)),
        _ => None,
    });
    let (telling, rest): (Vec<_>, Vec<_>) = all.partition(|(_, refused)| is_telling(refused));
    let injected = rest.iter().filter(|(_, refused)| refused.injected).count();
    let of_objects = |refused: &&Refused| !refused.injected && !is_campaign(refused);
    let ordinary = rest.iter().map(|(_, refused)| *refused).filter(of_objects).count();
    let person = chronicle.story.iter().find_map(|entry| match &entry.what {
        What::Step { sentence } => sentence.split_once("; refused: "),
        _ => None,
    });
    let mut text = match telling.first() {
        None => "Nothing that an old leader sent had to be refused.".to_owned(),
        Some((entry, refused)) => {
            let who = entry.replica.map_or_else(|| "somebody".into(), |r| format!("r{r}"));
            let at = wall(chronicle, entry.at);
            let number = capital(&count(telling.len(), "write", "writes"));
            let was = if telling.len() == 1 { "was" } else { "were" };
            format!(
                "{number} of a leader whose term was over {was} refused, first at {at}: {who} tried \
                 to {} {}.",
                refused.write, refused.object
            )
        }
    };
    if let Some((what, why)) = person {
        let _ = write!(text, " {} was refused: {}.", capital(&format!("what {what}")), short(why));
    }
    if injected > 0 {
        let writes = count(injected, "write was", "writes were");
        let _ = write!(text, " {} refused as the rehearsal wanted.", capital(&writes));
    }
    if ordinary > 0 {
        let writes = count(ordinary, "write", "writes");
        let _ = write!(
            text,
            " {} came upon a newer version and had to be decided anew, as every day.",
            capital(&writes)
        );
    }
    text
}

/// The first sentence of what the API server says.
fn short(why: &str) -> &str {
    why.split("; ").next().unwrap_or(why).trim_end_matches('.')
}

fn next(chronicle: &Chronicle) -> String {
    let mut parts = Vec::new();
    match chronicle.terms.last() {
        Some(term) if term.ended.is_none() => {
            parts.push(format!("{} leads (epoch {})", leader(term), term.epoch));
        }
        _ => parts.push("nobody leads; the next replica that starts takes over".to_owned()),
    }
    for (state, what) in [
        ("Unresolved", "waits for the provider or for a person's decision (spec.resolution)"),
        ("Running", "runs on and is followed to its end"),
        ("Cancelling", "waits until its end is confirmed"),
    ] {
        let works: Vec<&str> = chronicle
            .works
            .iter()
            .filter(|work| work.gone.is_none() && work.state() == state)
            .map(|work| work.key.name.as_str())
            .collect();
        if let Some(first) = works.first() {
            let more = works.len() - 1;
            let more = if more == 0 { String::new() } else { format!(" (and {more} more)") };
            parts.push(format!("{first}{more} {what}"));
        }
    }
    let mut due: Vec<(&str, &str)> = chronicle
        .schedules
        .iter()
        .filter_map(|schedule| {
            let next = schedule["status"]["nextScheduleTime"].as_str()?;
            Some((next, schedule["metadata"]["name"].as_str()?))
        })
        .collect();
    due.sort_unstable();
    if let Some((next, name)) = due.first() {
        let more = match due.len() - 1 {
            0 => String::new(),
            1 => ", another schedule later".to_owned(),
            more => format!(", {more} other schedules later"),
        };
        parts.push(format!("{name} is due next at {next}{more}"));
    }
    format!("{}.", capital(&parts.join("; ")))
}

/// One entry of the story as a sentence with its subject.
pub fn sentence(entry: &Entry) -> String {
    let what = match &entry.what {
        What::Refused(refused) => refusal(refused),
        what => what.to_string(),
    };
    match entry.replica {
        Some(replica) if what.starts_with("'s ") => format!("r{replica}{what}"),
        Some(replica) => format!("r{replica} {what}"),
        None => capital(&what),
    }
}

/// A refused write without its subject.
fn refusal(refused: &Refused) -> String {
    let Refused { write, object, code, reason, sentence, .. } = refused;
    let answer = format!("{code} {reason}: {sentence}");
    if refused.injected {
        format!("is refused, as the rehearsal wants it: {write} {object} ({code} {reason})")
    } else if is_telling(refused) {
        format!("is refused, since its term is over: {write} {object}, {answer}")
    } else if is_campaign(refused) {
        "comes too late for the Lease; somebody else was faster".to_owned()
    } else if *code == 409 {
        format!("meets a newer version of {object} and decides anew ({write}, {code} {reason})")
    } else {
        format!("is refused: {write} {object}, {answer}")
    }
}

/// Virtual time in seconds, as scenario files write it.
pub fn virtual_time(at: Duration) -> String {
    show_time(Duration::from_millis(u64::try_from(at.as_millis()).unwrap_or(u64::MAX)))
}
