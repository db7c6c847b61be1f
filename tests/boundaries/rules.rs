//! The rules. Each takes one file and says what is wrong with it, so each can be shown to fail.

use super::code::{Source, functions};

/// Longest file, in lines. What does not fit is more than one thing.
pub(crate) const MAX_FILE_LINES: usize = 500;
/// Longest function, in lines: one screen.
pub(crate) const MAX_FUNCTION_LINES: usize = 70;

/// The only file that reads a clock.
const CLOCK: &str = "src/time/clock.rs";

/// Hands that may use tokio's `Instant`, for when to wake and how long something took. They decide
/// nothing by it: leases are judged by the `LeaseClock`, schedules by the `WallClock`.
const TOKIO_INSTANT_HANDS: [&str; 7] = [
    "src/authority/elector",       // when the next attempt is due
    "src/cluster/queue.rs",        // when a key is handed out again
    "src/maintenance/controller/", // how long a pass took
    "src/operator/",               // how long the hand-over may take
    "src/reconcile/",              // how long a pass took, and when the next is due
    "src/reports/controller/",     // when a pass began
    "src/sim/",                    // virtual time is the runtime's own
];

/// Modules of decisions: same input, same output. A name that ends in `/` is a folder; one that
/// begins with `/` is a file of any provider.
const PURE: [&str; 20] = [
    "src/api/",
    "src/arrivals/",
    "src/authority/lease",
    "src/fakeprovider/book.rs",
    "src/identity",
    "src/maintenance/",
    "src/providers/http/answer.rs",
    "src/providers/http/wire.rs",
    "src/recovery/classify.rs",
    "src/recovery/trace.rs",
    "src/reports/",
    "src/rng.rs",
    "src/runs/",
    "src/schedules/",
    "src/simulate/",
    "src/telemetry/note.rs",
    "src/time/",
    "src/yaml.rs",
    "/build.rs",
    "/observe.rs",
];

/// Hands inside folders of decisions.
const NOT_PURE: [&str; 5] = [
    CLOCK,
    "src/maintenance/controller/",
    "src/reports/controller/",
    "src/runs/hands.rs",
    "src/schedules/hands.rs",
];

/// Where YAML, backoff and the client live.
const YAML: &str = "src/yaml.rs";
const RETRY: &str = "src/retry.rs";
const CLUSTER: &str = "src/cluster/";
/// Serves clients instead of the API server.
const SIMULATION: &str = "src/sim/";
/// Asks execution services, with a client of its own.
const SERVICES: &str = "src/providers/http/transport.rs";

/// One breach of a rule.
pub(crate) type Breaches = Vec<String>;

pub(crate) fn breach(source: &Source, at: usize, what: &str) -> String {
    format!("{}:{}: {what}", source.path, source.line_of(at))
}

/// Whether a file is one of decisions.
pub(crate) fn is_pure(path: &str) -> bool {
    !NOT_PURE.iter().any(|hand| path.starts_with(hand))
        && PURE.iter().any(|pure| {
            if pure.starts_with('/') {
                path.starts_with("src/providers/") && path.ends_with(pure)
            } else {
                path.starts_with(pure)
            }
        })
}

/// Nothing but the clock boundary reads a clock.
pub(crate) fn clock(source: &Source) -> Breaches {
    if source.path == CLOCK {
        return Vec::new();
    }
    let hand = TOKIO_INSTANT_HANDS.iter().any(|hand| source.path.starts_with(hand));
    let mut found = Vec::new();
    for word in ["SystemTime", "clock_gettime", "elapsed", "Instant"] {
        let of_tokio = word == "elapsed" || word == "Instant";
        let hits = source
            .words(word)
            .filter(|&at| word != "elapsed" || source.is_method_call(at, word))
            .filter(|&at| !(hand && of_tokio && !is_std(source, at)));
        found.extend(hits.map(|at| breach(source, at, &only_clock(word))));
    }
    for at in source.words("now") {
        let before = source.before(at);
        let of_type = ["Timestamp::", "Zoned::", "Utc::", "Local::"];
        if of_type.iter().any(|kind| before.ends_with(kind)) {
            found.push(breach(source, at, &only_clock("now")));
        }
    }
    found
}

fn only_clock(word: &str) -> String {
    format!(
        "{word}: only {CLOCK} reads a clock; pass a LeaseClock or WallClock (hands on the rule's \
         list may use tokio's Instant)"
    )
}

/// Whether the name at `at` comes from the standard library: by its path, or because the statement
/// it stands in is a `use std…`.
fn is_std(source: &Source, at: usize) -> bool {
    let before = source.before(at);
    let statement = before.rsplit(';').next().unwrap_or(before).trim_start();
    before.ends_with("std::time::") || statement.starts_with("use std")
}

/// Words that no module of decisions names.
const IMPURE: [&str; 18] = [
    "tokio",
    "futures",
    "async",
    "await",
    "tracing",
    "prometheus_client",
    "Client",
    "watcher",
    "reflector",
    "LeaseClock",
    "WallClock",
    "rand",
    "getrandom",
    "rustix",
    "RandomState",
    "HashMap",
    "HashSet",
    "Mutex",
];

/// Decisions name no client, runtime, clock, randomness, log, nor a map without an order.
pub(crate) fn pure(source: &Source) -> Breaches {
    if !is_pure(&source.path) {
        return Vec::new();
    }
    let mut found = Vec::new();
    for word in IMPURE {
        let hits = source.words(word).filter(|_| !reexports_clock(source, word));
        found.extend(hits.map(|at| {
            breach(source, at, &format!("{word} in a module of decisions, which are pure"))
        }));
    }
    for path in
        ["kube::client", "kube::runtime", "kube::api::Api", "std::fs", "std::net", "std::env"]
    {
        found.extend(source.words(path).map(|at| {
            breach(source, at, &format!("{path} in a module of decisions, which are pure"))
        }));
    }
    found
}

/// `src/time/mod.rs` hands the two clock types on without reading them.
fn reexports_clock(source: &Source, word: &str) -> bool {
    source.path == "src/time/mod.rs" && word.ends_with("Clock")
}

/// Only `cluster/` talks to the API server.
pub(crate) fn client(source: &Source) -> Breaches {
    if [CLUSTER, SIMULATION, SERVICES].iter().any(|room| source.path.starts_with(room)) {
        return Vec::new();
    }
    let mut found: Breaches = source
        .words("Client")
        .map(|at| breach(source, at, "Client: only src/cluster talks to the API server"))
        .collect();
    // `Error::Api(…)` is a variant of kube's error, not the type of handles.
    let handles = source.words("Api").filter(|&at| !source.after(at + 3).starts_with('('));
    found.extend(
        handles.map(|at| breach(source, at, "Api: only src/cluster talks to the API server")),
    );
    found
}

/// Libraries that must stay replaceable are named in one file each.
pub(crate) fn single_users(source: &Source) -> Breaches {
    let mut found = Vec::new();
    if source.path != YAML {
        found.extend(source.words("serde_yaml").map(|at| {
            breach(source, at, &format!("serde_yaml: only {YAML} uses the YAML library"))
        }));
    }
    if source.path != RETRY {
        let paths = source.words("backoff").filter(|&at| {
            source.after(at + "backoff".len()).starts_with("::")
                || source.before(at).ends_with("use")
        });
        found.extend(
            paths.map(|at| breach(source, at, &format!("backoff: only {RETRY} uses the crate"))),
        );
    }
    found
}

/// Every channel has a bound.
pub(crate) fn bounded_channels(source: &Source) -> Breaches {
    let names = ["unbounded_channel", "UnboundedSender", "UnboundedReceiver", "unbounded"];
    let mut found = Vec::new();
    for name in names {
        found.extend(
            source.words(name).map(|at| breach(source, at, &format!("{name}: give it a bound"))),
        );
    }
    let std_channels = source
        .words("std::sync::mpsc")
        .map(|at| breach(source, at, "std::sync::mpsc: its channel has no bound"));
    found.extend(std_channels);
    found
}

/// No panic outside tests, except with a sentence that states the invariant.
pub(crate) fn panics(source: &Source) -> Breaches {
    let mut found = Vec::new();
    for word in ["unwrap", "unwrap_err", "expect_err"] {
        let calls = source.words(word).filter(|&at| source.is_method_call(at, word));
        found.extend(calls.map(|at| breach(source, at, &format!(".{word}() outside tests"))));
    }
    for word in ["todo", "unimplemented", "dbg"] {
        let calls = source.words(word).filter(|&at| source.after(at + word.len()).starts_with('!'));
        found.extend(calls.map(|at| breach(source, at, &format!("{word}! outside tests"))));
    }
    for word in ["expect", "unreachable", "panic"] {
        for at in source.words(word) {
            let method = word == "expect" && source.before(at).ends_with('.');
            let makro = word != "expect" && source.after(at + word.len()).starts_with('!');
            if (method || makro) && !states_invariant(source, at + word.len()) {
                found.push(breach(
                    source,
                    at,
                    &format!(
                        "{word} without a sentence (three words or more) that states the invariant"
                    ),
                ));
            }
        }
    }
    found
}

/// Whether the first string after `at` has at least three words. A call that takes something else
/// than a literal does not.
fn states_invariant(source: &Source, at: usize) -> bool {
    let opening = source.code[at..].find(|c: char| !"!( \n\t".contains(c)).unwrap_or(0) + at;
    let text = source.text[opening..].strip_prefix('"').unwrap_or("");
    let sentence = text.split('"').next().unwrap_or("");
    sentence.split_whitespace().count() >= 3
}

/// Files and functions stay small enough to be read. A test that is a long table is not
/// followed step by step, so tests count only as lines of their file.
pub(crate) fn sizes(source: &Source) -> Breaches {
    let mut found = Vec::new();
    let lines = source.text.lines().count();
    if lines > MAX_FILE_LINES {
        found.push(format!("{}: {lines} lines, at most {MAX_FILE_LINES}", source.path));
    }
    for function in functions(source) {
        if function.lines > MAX_FUNCTION_LINES {
            found.push(format!(
                "{}:{}: fn {} has {} lines, at most {MAX_FUNCTION_LINES}",
                source.path, function.line, function.name, function.lines
            ));
        }
    }
    found
}

/// No file knows the folders of the machine it was written on.
pub(crate) fn machine_paths(path: &str, text: &str) -> Breaches {
    // Put together here, so that this file does not contain what it looks for.
    let folders = [
        concat!("/wo", "rk/"),
        concat!("/ho", "me/"),
        concat!("/Us", "ers/"),
        concat!("/ro", "ot/"),
    ];
    let mut found = Vec::new();
    for (number, line) in text.lines().enumerate() {
        for folder in folders {
            let absolute = line.match_indices(folder).any(|(at, _)| {
                !line[..at].ends_with(|c: char| c.is_alphanumeric() || "._-}$~".contains(c))
            });
            if absolute {
                found.push(format!("{path}:{}: {folder} is a folder of one machine", number + 1));
            }
        }
    }
    found
}
