//! The file: one line for each record, on disk before anything is answered.
//!
//! A process that is killed while it writes leaves half a line at the end. That record was never
//! answered for, so it is cut off.

use std::{
    fs::{File, OpenOptions, TryLockError},
    io::{self, BufRead as _, BufReader, Seek as _, SeekFrom, Write as _},
    path::Path,
};

use super::book::Record;

/// Longest line: a run with its parameters has less than 16 kB.
const MAX_LINE_BYTES: usize = 64 * 1024;

/// The file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The machine refused.
    #[error("the state file cannot be read or written")]
    Io(#[from] io::Error),
    /// Two processes would write over each other.
    #[error("another process uses it; end that, or use another file")]
    Taken,
    /// A line is no record.
    #[error("line {line} of the state file is no record of a fake provider; use another file")]
    Line {
        /// Number of the line, from 1.
        line: usize,
    },
}

/// An open file.
#[derive(Debug)]
pub struct Journal {
    file: File,
    /// Bytes of whole lines.
    length: u64,
}

impl Journal {
    /// Opens or creates the file and gives what is recorded in it.
    pub fn open(path: &Path) -> Result<(Self, Vec<Record>), JournalError> {
        let file = OpenOptions::new().read(true).append(true).create(true).open(path)?;
        // Held until the file is closed, by the end of the process too.
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(JournalError::Taken),
            Err(TryLockError::Error(error)) => return Err(error.into()),
        }
        let mut reader = BufReader::new(&file);
        let (mut records, mut length, mut line) = (Vec::new(), 0_u64, Vec::new());
        loop {
            line.clear();
            let read = reader.read_until(b'\n', &mut line)?;
            if line.last() != Some(&b'\n') {
                break; // the end, or a line that was never finished
            }
            let number = records.len() + 1;
            let record = serde_json::from_slice(&line);
            records.push(record.map_err(|_| JournalError::Line { line: number })?);
            length += u64::try_from(read).unwrap_or(u64::MAX);
        }
        file.set_len(length)?;
        file.sync_all()?;
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            File::open(folder)?.sync_all()?; // the file's name is on disk too
        }
        Ok((Self { file, length }, records))
    }

    /// Appends records; once this returns, they survive whatever happens to the process.
    pub fn append(&mut self, records: &[Record]) -> Result<(), JournalError> {
        if records.is_empty() {
            return Ok(());
        }
        let mut lines = Vec::new();
        for record in records {
            let line = serde_json::to_vec(record).map_err(io::Error::other)?;
            if line.len() > MAX_LINE_BYTES {
                return Err(io::Error::from(io::ErrorKind::InvalidData).into());
            }
            lines.extend(line);
            lines.push(b'\n');
        }
        let written = self.file.write_all(&lines).and_then(|()| self.file.sync_data());
        if let Err(error) = written {
            // Half a line must not stay in front of the next one.
            self.file.set_len(self.length)?;
            self.file.seek(SeekFrom::End(0))?;
            return Err(error.into());
        }
        self.length += u64::try_from(lines.len()).unwrap_or(u64::MAX);
        Ok(())
    }
}
