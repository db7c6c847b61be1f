//! Ports that nobody else takes, neither another run nor an outgoing connection.

use std::{
    fs::{self, File},
    net::{Ipv4Addr, TcpListener},
    sync::Mutex,
};

use super::error::{BedError, Context as _, Result};

/// Below the range from which Linux takes the ports of outgoing connections (32768 and up), so that
/// a chosen port stays free until the server under test binds it.
const FIRST: u16 = 20_000;
/// Number of ports to choose from; a run needs about ten for each control plane.
const COUNT: u16 = 10_000;

/// Locks of the ports this run has taken: held until the process ends.
static TAKEN: Mutex<Vec<File>> = Mutex::new(Vec::new());

/// A free port on 127.0.0.1 that is this run's until its end.
pub fn take() -> Result<u16> {
    let dir = std::env::temp_dir().join("punctual-e2e-ports");
    fs::create_dir_all(&dir).context(|| format!("make {}", dir.display()))?;
    let start = u16::try_from(std::process::id() % u32::from(COUNT)).expect("below COUNT");
    for step in 0..COUNT {
        // 37 and COUNT have no common divisor, so every port is visited once.
        let port = FIRST
            + (start
                + u16::try_from(u32::from(step) * 37 % u32::from(COUNT)).expect("below COUNT"))
                % COUNT;
        let path = dir.join(port.to_string());
        let Ok(lock) = File::create(&path) else { continue };
        if lock.try_lock().is_ok() && TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            TAKEN.lock().expect("no holder panics").push(lock);
            return Ok(port);
        }
    }
    Err(BedError(format!("no free port between {FIRST} and {}", FIRST + COUNT)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_distinct_and_free() {
        let ports: std::collections::BTreeSet<u16> = (0..20).map(|_| take().unwrap()).collect();
        assert_eq!(ports.len(), 20);
        for port in ports {
            TcpListener::bind((Ipv4Addr::LOCALHOST, port)).expect("nobody has bound it");
        }
    }
}
