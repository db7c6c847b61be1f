//! The intended instant of scheduled work: whole minutes, UTC, one spelling.

use std::{borrow::Cow, fmt, str::FromStr};

use jiff::Timestamp;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Seconds in a minute, the grain of schedules.
const SECONDS_PER_MINUTE: i64 = 60;

/// An instant for which work is intended: UTC, whole minutes.
///
/// Written `2026-11-29T02:00:00Z` and in no other way, because it is part of an identity
/// (see [`crate::identity`]). Never the moment something was created, acquired or started.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IntendedTime(Timestamp);

/// Why a text or timestamp is not an intended instant.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IntendedTimeError {
    /// Not an RFC 3339 timestamp at all.
    #[error("{0:?} is not a time like 2026-11-29T02:00:00Z")]
    NotATime(String),
    /// A time, but between two minutes.
    #[error("{0} is not a whole minute; schedules have minutes as their grain")]
    NotAWholeMinute(Timestamp),
    /// Outside the years 1..=9999, which the canonical form cannot write.
    #[error("{0} is outside the years 0001 to 9999")]
    OutOfRange(Timestamp),
}

impl IntendedTime {
    /// Takes a timestamp that already is a whole minute.
    pub fn new(at: Timestamp) -> Result<Self, IntendedTimeError> {
        if at.as_second() % SECONDS_PER_MINUTE != 0 || at.subsec_nanosecond() != 0 {
            return Err(IntendedTimeError::NotAWholeMinute(at));
        }
        let year = jiff::tz::TimeZone::UTC.to_datetime(at).year();
        if !(1..=9999).contains(&year) {
            return Err(IntendedTimeError::OutOfRange(at));
        }
        Ok(Self(at))
    }

    /// The minute that contains `at`.
    ///
    /// # Panics
    /// Never for years 1 to 9999, which is every time a clock of this system shows.
    pub fn floor(at: Timestamp) -> Self {
        let second = at.as_second() - at.as_second().rem_euclid(SECONDS_PER_MINUTE);
        Self(Timestamp::from_second(second).expect("flooring to the minute stays in range"))
    }

    /// Parses any RFC 3339 spelling of a whole minute, as people type it; the result has one spelling.
    pub fn parse_lenient(text: &str) -> Result<Self, IntendedTimeError> {
        let at: Timestamp =
            text.parse().map_err(|_| IntendedTimeError::NotATime(text.to_owned()))?;
        Self::new(at)
    }

    /// The instant as a timestamp.
    pub fn timestamp(self) -> Timestamp {
        self.0
    }

    /// The twelve digits `YYYYMMDDHHMM` (UTC) that object names carry.
    pub fn digits(self) -> String {
        let t = jiff::tz::TimeZone::UTC.to_datetime(self.0);
        format!("{:04}{:02}{:02}{:02}{:02}", t.year(), t.month(), t.day(), t.hour(), t.minute())
    }
}

impl fmt::Display for IntendedTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let t = jiff::tz::TimeZone::UTC.to_datetime(self.0);
        write!(
            f,
            "{:04}-{:02}-{:02}T{:02}:{:02}:00Z",
            t.year(),
            t.month(),
            t.day(),
            t.hour(),
            t.minute()
        )
    }
}

impl fmt::Debug for IntendedTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for IntendedTime {
    type Err = IntendedTimeError;

    /// Accepts the canonical spelling only.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parsed = Self::parse_lenient(text)?;
        if parsed.to_string() != text {
            return Err(IntendedTimeError::NotATime(text.to_owned()));
        }
        Ok(parsed)
    }
}

impl From<IntendedTime> for Timestamp {
    fn from(value: IntendedTime) -> Self {
        value.0
    }
}

impl Serialize for IntendedTime {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for IntendedTime {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

impl JsonSchema for IntendedTime {
    fn schema_name() -> Cow<'static, str> {
        "IntendedTime".into()
    }

    fn inline_schema() -> bool {
        true
    }

    // `format: date-time` would normalise nothing and break the rule that compares the name with
    // the digits of this string; the pattern alone accepts month 13, hence the rule beside it.
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:00Z$",
            "maxLength": 40,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn canonical_spelling_only() {
        let at: IntendedTime = "2026-11-29T02:00:00Z".parse().unwrap();
        assert_eq!(at.to_string(), "2026-11-29T02:00:00Z");
        assert_eq!(at.digits(), "202611290200");
        for other in [
            "2026-11-29T03:00:00+01:00",
            "2026-11-29T02:00Z",
            "2026-11-29T02:00:00.0Z",
            "2026-11-29 02:00:00Z",
            "2026-11-29T02:00:30Z",
            "2026-13-29T02:00:00Z",
            "",
        ] {
            assert!(other.parse::<IntendedTime>().is_err(), "{other}");
        }
    }

    #[test]
    fn people_may_spell_it_otherwise() {
        let at = IntendedTime::parse_lenient("2026-11-29T03:00:00+01:00").unwrap();
        assert_eq!(at.to_string(), "2026-11-29T02:00:00Z");
    }

    #[test]
    fn flooring_goes_down_also_before_the_epoch() {
        let at = "1969-12-31T23:59:30Z".parse().unwrap();
        assert_eq!(IntendedTime::floor(at).to_string(), "1969-12-31T23:59:00Z");
    }
}
