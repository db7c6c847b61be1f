//! What memory a process takes.

/// Resident memory of a process in bytes, as Linux tells it; `process` is its number, or `self`.
#[allow(dead_code, reason = "not every user asks for both")]
pub(crate) fn resident(process: &str) -> usize {
    told(process, "VmRSS:")
}

/// The most that it ever was.
#[allow(dead_code, reason = "not every user asks for both")]
pub(crate) fn peak(process: &str) -> usize {
    told(process, "VmHWM:")
}

fn told(process: &str, field: &str) -> usize {
    let path = format!("/proc/{process}/status");
    let status = std::fs::read_to_string(&path).expect("a running process has a status");
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB")).map(str::trim);
    let kib = kib.and_then(|kib| kib.parse::<usize>().ok());
    kib.unwrap_or_else(|| panic!("no {field} in {path}: {status}")) * 1024
}
