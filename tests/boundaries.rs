//! Holds the source text to the architecture: who may read a clock, who may talk to the API server,
//! what decisions may name, and that everything is bounded. A rule that cannot fail is no rule, so
//! each is tried on a forged text that breaks it.

#[path = "boundaries/code.rs"]
mod code;
#[path = "boundaries/determinism.rs"]
mod determinism;
#[path = "shared/repository.rs"]
mod repository;
#[path = "boundaries/rules.rs"]
mod rules;

use code::{Source, sources};
use repository::{files, root};
use rules::Breaches;

/// Fewer files than this means that the tests looked in the wrong place.
const LEAST_SOURCES: usize = 20;

/// Applies `rule` to every file of the library.
fn hold(rule: fn(&Source) -> Breaches) {
    let sources = sources("src");
    assert!(sources.len() >= LEAST_SOURCES, "only {} files in src", sources.len());
    report(&sources.iter().flat_map(rule).collect::<Breaches>());
}

fn report(breaches: &[String]) {
    assert!(breaches.is_empty(), "\n{}\n", breaches.join("\n"));
}

/// The number of breaches of `rule` in `text` at `path`.
fn forged(rule: fn(&Source) -> Breaches, path: &str, text: &str) -> usize {
    rule(&Source::new(path, text)).len()
}

#[test]
fn only_the_clock_boundary_reads_a_clock() {
    hold(rules::clock);
}

#[test]
fn forged_clock_readings_are_found() {
    for text in [
        "fn f() { let t = std::time::Instant::now(); }",
        "use std::time::SystemTime;",
        "use tokio::time::Instant;",
        "fn f() { jiff::Timestamp::now(); }",
        "fn f() { jiff::Zoned::now(); }",
        "fn f() { chrono::Utc::now(); }",
        "fn f() { start.elapsed(); }",
        "fn f() { rustix::time::clock_gettime(id); }",
        "fn f() { let d = tokio::time::Instant::now(); }",
    ] {
        assert_eq!(forged(rules::clock, "src/maintenance/x.rs", text), 1, "{text}");
    }
    let fine = "fn f(c: &WallClock) { c.now(); let i: LeaseInstant = x; } // Instant::now()";
    assert_eq!(forged(rules::clock, "src/maintenance/x.rs", fine), 0);
    for text in [
        "fn f() { let d = tokio::time::Instant::now() + x; }",
        "use tokio::time::Instant;\nfn f() { let d = Instant::now(); d.elapsed(); }",
        "use std::sync::Arc;\nuse tokio::{sync::watch, time::{Instant, sleep}};",
    ] {
        assert_eq!(forged(rules::clock, "src/operator/mod.rs", text), 0, "{text}");
        assert!(forged(rules::clock, "src/cluster/writer/mod.rs", text) > 0, "{text}");
    }
    for text in [
        "fn f() { let d = std::time::Instant::now(); }",
        "use std::time::Instant;",
        "use std::{sync::Arc, time::{Duration, Instant}};",
        "fn f() { SystemTime::now(); }",
    ] {
        assert_eq!(forged(rules::clock, "src/operator/mod.rs", text), 1, "{text}");
    }
    assert_eq!(forged(rules::clock, "src/time/clock.rs", "fn f() { Timestamp::now(); }"), 0);
}

#[test]
fn decisions_are_pure() {
    hold(rules::pure);
}

#[test]
fn decisions_are_where_the_rule_looks() {
    let pure: Vec<String> =
        sources("src").into_iter().map(|s| s.path).filter(|path| rules::is_pure(path)).collect();
    for known in [
        "src/identity.rs",
        "src/time/plan.rs",
        "src/api/schedule.rs",
        "src/yaml.rs",
        "src/runs/follow.rs",
        "src/reports/job/mod.rs",
    ] {
        assert!(pure.iter().any(|path| path == known), "{known} is not in {pure:?}");
    }
    for hand in ["src/time/clock.rs", "src/runs/hands.rs"] {
        assert!(!pure.iter().any(|path| path == hand), "{hand} is a hand");
    }
}

#[test]
fn forged_impurities_are_found() {
    for text in [
        "use tokio::sync::Notify;",
        "use tracing::info;",
        "async fn f() {}",
        "use kube::Client;",
        "use kube::runtime::watcher::Config as C;",
        "fn f() { let c: crate::time::WallClock; }",
        "use std::collections::HashMap;",
        "use rand::random;",
        "fn f() { std::env::var(x); }",
    ] {
        for path in ["src/time/plan.rs", "src/runs/person.rs", "src/providers/job/observe.rs"] {
            assert!(forged(rules::pure, path, text) >= 1, "{path}: {text}");
        }
        assert_eq!(forged(rules::pure, "src/maintenance/controller/mod.rs", text), 0, "{text}");
    }
    let fine = "//! tokio, tracing\nfn decide(now: Timestamp) -> &'static str { \"tokio\" }";
    assert_eq!(forged(rules::pure, "src/time/plan.rs", fine), 0);
}

#[test]
fn only_cluster_talks_to_the_api_server() {
    hold(rules::client);
}

#[test]
fn forged_clients_are_found() {
    for text in [
        "use kube::Client;",
        "use kube::{Api, ResourceExt};",
        "fn f() { let a: Api<Job> = x; }",
        "fn f() { kube::Api::<Job>::namespaced(c, n); }",
    ] {
        assert_eq!(forged(rules::client, "src/maintenance/controller/mod.rs", text), 1, "{text}");
        assert_eq!(forged(rules::client, "src/cluster/writer.rs", text), 0, "{text}");
    }
    let fine = "fn f() { match e { kube::Error::Api(status) => ApiServer, } }";
    assert_eq!(forged(rules::client, "src/maintenance/controller/mod.rs", fine), 0);
}

#[test]
fn replaceable_libraries_have_one_user_each() {
    hold(rules::single_users);
}

#[test]
fn forged_second_users_are_found() {
    for text in
        ["use serde_yaml::Value;", "use backoff::ExponentialBackoff;", "fn f() { backoff::x(); }"]
    {
        assert_eq!(forged(rules::single_users, "src/cli/run.rs", text), 1, "{text}");
    }
    assert_eq!(forged(rules::single_users, "src/yaml.rs", "use serde_yaml::Value;"), 0);
    assert_eq!(forged(rules::single_users, "src/retry.rs", "use backoff::X;"), 0);
    assert_eq!(
        forged(rules::single_users, "src/x.rs", "fn f(backoff: B) { self.backoff.go() }"),
        0
    );
}

#[test]
fn tasks_of_a_replica_are_spawned_in_one_room() {
    hold(determinism::spawning);
}

#[test]
fn forged_spawning_is_found() {
    for text in ["fn f() { tokio::spawn(x); }", "fn f() { set.spawn(x); }"] {
        assert_eq!(forged(determinism::spawning, "src/operator/x.rs", text), 1, "{text}");
        assert_eq!(forged(determinism::spawning, "src/sim/x.rs", text), 0, "{text}");
    }
    let fine = "fn f() { task::spawn_in(&mut set, x); } // tokio::spawn(x)";
    assert_eq!(forged(determinism::spawning, "src/operator/x.rs", fine), 0);
}

#[test]
fn no_order_is_drawn_at_random() {
    hold(determinism::order);
}

#[test]
fn forged_random_orders_are_found() {
    for text in [
        "fn f() { tokio::select! { a = b => {} } }",
        "fn f() { select!(a = b => {}) }",
        "use tokio::sync::watch;",
        "use tokio::{sync::{Notify, watch}, time::sleep};",
        "fn f() { tokio::sync::watch::channel(1); }",
    ] {
        assert_eq!(forged(determinism::order, "src/x.rs", text), 1, "{text}");
    }
    for text in [
        "fn f() { tokio::select! {\n    biased; // why\n    a = b => {} } }",
        "use crate::watch;",
        "fn select() {}",
        "use tokio::sync::Notify;\nuse crate::{task, watch};",
    ] {
        assert_eq!(forged(determinism::order, "src/x.rs", text), 0, "{text}");
    }
}

#[test]
fn every_channel_is_bounded() {
    hold(rules::bounded_channels);
}

#[test]
fn forged_unbounded_channels_are_found() {
    for text in [
        "fn f() { tokio::sync::mpsc::unbounded_channel::<u8>(); }",
        "fn f() { futures::channel::mpsc::unbounded::<u8>(); }",
        "use std::sync::mpsc::channel;",
    ] {
        assert_eq!(forged(rules::bounded_channels, "src/x.rs", text), 1, "{text}");
    }
    let fine = "fn f() { tokio::sync::mpsc::channel::<u8>(CAPACITY); }";
    assert_eq!(forged(rules::bounded_channels, "src/x.rs", fine), 0);
}

#[test]
fn nothing_panics_without_an_invariant() {
    hold(rules::panics);
}

#[test]
fn forged_panics_are_found() {
    for text in [
        "fn f() { x.unwrap(); }",
        "fn f() { x\n  .unwrap()\n; }",
        "fn f() { x.unwrap_err(); }",
        "fn f() { x.expect(\"\"); }",
        "fn f() { x.expect(\"no good\"); }",
        "fn f() { x.expect(message); }",
        "fn f() { panic!(\"x\"); }",
        "fn f() { todo!() }",
        "fn f() { unreachable!() }",
    ] {
        assert_eq!(forged(rules::panics, "src/x.rs", text), 1, "{text}");
    }
    for text in [
        "fn f() { x.unwrap_or(1); x.unwrap_or_else(y); }",
        "fn f() { x.expect(\"twelve digits always parse\"); }",
        "fn f() { x.expect(\n    \"twelve digits always parse\",\n); }",
        "fn f() { unreachable!(\"the loop above returns\"); }",
        "fn f() { panic!(\"no randomness after boot\"); }",
        "#[cfg(test)]\nmod tests { fn f() { x.unwrap(); panic!(); } }",
        "/// Never `.unwrap()`.\nfn f() {}",
    ] {
        assert_eq!(forged(rules::panics, "src/x.rs", text), 0, "{text}");
    }
}

#[test]
fn files_and_functions_are_small() {
    let all = ["src", "tests", "e2e", "bench"].into_iter().filter(|f| root().join(f).exists());
    let breaches: Breaches =
        all.flat_map(sources).flat_map(|source| rules::sizes(&source)).collect();
    report(&breaches);
}

#[test]
fn forged_giants_are_found() {
    let function = |lines: usize| format!("fn f() {{\n{}}}\n", "x();\n".repeat(lines - 2));
    assert_eq!(forged(rules::sizes, "src/x.rs", &function(rules::MAX_FUNCTION_LINES)), 0);
    assert_eq!(forged(rules::sizes, "src/x.rs", &function(rules::MAX_FUNCTION_LINES + 1)), 1);
    let file = |lines: usize| "use x;\n".repeat(lines);
    assert_eq!(forged(rules::sizes, "src/x.rs", &file(rules::MAX_FILE_LINES)), 0);
    assert_eq!(forged(rules::sizes, "src/x.rs", &file(rules::MAX_FILE_LINES + 1)), 1);
}

#[test]
fn no_path_of_a_developer_machine() {
    let skipped = ["target", ".git", "e2e/artifacts"];
    let mut breaches = Vec::new();
    for entry in std::fs::read_dir(root()).expect("the repository is readable") {
        let name = entry.expect("entries are readable").file_name().to_string_lossy().into_owned();
        if skipped.contains(&name.as_str()) {
            continue;
        }
        let texts = files(&name, &|path| {
            !path.ends_with("Cargo.lock")
                && !skipped.iter().any(|s| path.starts_with(root().join(s)))
        });
        breaches.extend(texts.iter().flat_map(|(path, text)| rules::machine_paths(path, text)));
    }
    report(&breaches);
}

#[test]
fn forged_machine_paths_are_found() {
    let bad =
        [concat!("cd /wo", "rk/x"), concat!("see \"/ho", "me/me/x\""), concat!("/ro", "ot/.cargo")];
    for text in bad {
        assert_eq!(rules::machine_paths("docs/x.md", text).len(), 1, "{text}");
    }
    for text in [concat!("$HOME/wo", "rk/x"), "a network/worker", concat!("img.example/ho", "me/x")]
    {
        assert_eq!(rules::machine_paths("docs/x.md", text).len(), 0, "{text}");
    }
}
