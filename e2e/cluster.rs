//! A throw-away cluster to play with: `cargo test --test cluster -- up` starts it, says how to reach
//! it, and ends it with Ctrl-C. It is the cluster of the suite.

#![allow(
    unreachable_pub,
    dead_code,
    unused_imports,
    reason = "shares the bed of the e2e suite, uses a part of it, and runs none of its tests"
)]

mod bed;
mod checker;

use bed::{Bed, control_plane::PlaneOptions, run::block_on, scenario::ok};

fn main() {
    // Whoever runs all test targets must not wait here for a Ctrl-C.
    if std::env::args().nth(1).as_deref() != Some("up") {
        println!("usage: cargo test --test cluster -- up");
        return;
    }
    block_on(async {
        let bed = ok(Bed::own("cluster", &PlaneOptions::default()).await);
        println!("export KUBECONFIG={}", bed.kubeconfig.display());
        println!("kubectl: {}", ok(bed.tools.path("kubectl")).display());
        println!("helm:    {}", ok(bed.tools.path("helm")).display());
        println!("Ctrl-C ends the cluster and removes everything.");
        let interrupted = tokio::signal::ctrl_c();
        // The keeper ends what was started, whichever way this program ends.
        if let Err(error) = interrupted.await {
            eprintln!("cannot wait for Ctrl-C: {error}");
        }
    });
}
