//! A progress bar, on a terminal only.

use std::io::{self, IsTerminal as _, Write as _};

/// Width of the bar, in characters.
const WIDTH: u64 = 24;
/// Longest name beside it.
const MAX_NAME_CHARS: usize = 40;

/// Shows how far the work is. It goes to standard error, so that answers stay clean.
pub(super) struct Progress {
    total: u64,
    done: u64,
    shown: bool,
    /// What is on the line; the same is not written again.
    last: String,
}

impl Progress {
    pub(super) fn new(total: u64) -> Self {
        Self { total, done: 0, shown: io::stderr().is_terminal(), last: String::new() }
    }

    /// The next piece of work begins.
    pub(super) fn at(&mut self, name: &str) {
        self.show(self.done, name);
        self.done += 1;
    }

    /// So many pieces of work are done.
    pub(super) fn reached(&mut self, done: u64, name: &str) {
        self.done = done;
        self.show(done, name);
    }

    fn show(&mut self, done: u64, name: &str) {
        if !self.shown {
            return;
        }
        let line = bar(done, self.total, name);
        if line != self.last {
            // A bar that cannot be drawn is no reason to stop.
            let _ = write!(io::stderr(), "\r\x1b[2K{line}");
            let _ = io::stderr().flush();
            self.last = line;
        }
    }

    /// Takes the bar away.
    pub(super) fn done(&mut self) {
        if self.shown {
            let _ = write!(io::stderr(), "\r\x1b[2K");
            let _ = io::stderr().flush();
        }
    }
}

fn bar(done: u64, total: u64, name: &str) -> String {
    let filled = (done.min(total) * WIDTH).checked_div(total).unwrap_or(WIDTH);
    let count = |number| usize::try_from(number).unwrap_or(0);
    let (full, empty) = ("#".repeat(count(filled)), ".".repeat(count(WIDTH - filled)));
    let name: String = name.chars().take(MAX_NAME_CHARS).collect();
    format!("[{full}{empty}] {done}/{total} {name}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bar_fills_up() {
        assert_eq!(bar(0, 4, "x"), format!("[{}] 0/4 x", ".".repeat(24)));
        assert_eq!(bar(2, 4, "x"), format!("[{}{}] 2/4 x", "#".repeat(12), ".".repeat(12)));
        assert_eq!(bar(4, 4, ""), format!("[{}] 4/4 ", "#".repeat(24)));
        assert_eq!(bar(0, 0, ""), format!("[{}] 0/0 ", "#".repeat(24)));
    }
}
