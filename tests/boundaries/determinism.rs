//! What keeps one seed one history: tasks of a replica are spawned in one room, and nothing is woken
//! or chosen in an order that is drawn at random.

use super::{
    code::Source,
    rules::{Breaches, breach},
};

/// Who may spawn: the room itself, the world of a simulation, what serves connections, and commands, which
/// are processes of their own.
const SPAWNERS: [&str; 5] = [
    "src/task.rs",
    "src/sim/",
    "src/connections.rs",
    "src/cli/",
    "src/authority/watchdog.rs", // a thread, which ends the process
];

/// Tasks of a replica are spawned by `task::spawn_in` alone, so that a simulation catches them all.
pub(crate) fn spawning(source: &Source) -> Breaches {
    if SPAWNERS.iter().any(|room| source.path.starts_with(room)) {
        return Vec::new();
    }
    let calls = source.words("spawn").filter(|&at| source.after(at + 5).starts_with('('));
    let breach = |at| breach(source, at, "spawn: tasks of a replica are spawned by task::spawn_in");
    calls.map(breach).collect()
}

/// No order is drawn at random: branches of `select!`, and receivers of tokio's watch channel.
pub(crate) fn order(source: &Source) -> Breaches {
    let mut found = Vec::new();
    for at in source.words("select") {
        let Some(body) = source.after(at + 6).strip_prefix('!') else { continue };
        if !body.trim_start_matches([' ', '{', '(', '\n']).starts_with("biased") {
            found.push(breach(
                source,
                at,
                "select! without biased draws the order of its branches",
            ));
        }
    }
    let watch = "tokio's watch wakes its receivers in an order drawn at random; use crate::watch";
    for at in source.words("watch") {
        let before = source.before(at);
        let statement = before.rsplit(';').next().unwrap_or(before).trim_start();
        let from_tokio = before.ends_with("sync::")
            || (statement.starts_with("use tokio") && statement.contains("sync"));
        if from_tokio {
            found.push(breach(source, at, watch));
        }
    }
    found
}
