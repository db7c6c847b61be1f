//! Cron expressions: exactly the grammar that Kubernetes CronJob accepts.
//!
//! That grammar is `ParseStandard` of the Go package `robfig/cron` v3 without `TZ=` prefixes: five
//! fields separated by white space, or a descriptor such as `@daily`. Its less known corners are
//! kept, because a CronJob's expression must work here unchanged: `?` equals `*`, empty list items
//! are ignored (`,` alone matches nothing), `5/15` means `5-59/15`, a number may carry a plus sign,
//! `*-5` is a star, a step may exceed its range. Sunday is 0; 7 is refused.
//!
//! One thing differs on purpose: `@every D` needs whole minutes, because instants have the minute
//! as their grain, and runs on a fixed grid (see [`crate::time::Schedule`]).

use std::fmt;

/// Longest accepted expression in bytes. Real ones have fewer than 100; the bound keeps messages,
/// status fields and parsing time small.
pub const MAX_EXPRESSION_BYTES: usize = 256;

/// The hours of a whole day.
const ALL_HOURS: u32 = (1 << 24) - 1;

/// An accepted expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CronExpression {
    /// Five fields, or a descriptor that stands for five fields.
    Fields(CronFields),
    /// `@every D`.
    Every(EveryMinutes),
}

/// The sets of the five fields, as bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CronFields {
    /// Bits 0 to 59.
    pub(super) minutes: u64,
    /// Bits 0 to 23.
    pub(super) hours: u32,
    /// Bits 1 to 31.
    pub(super) days: u32,
    /// Bits 1 to 12.
    pub(super) months: u16,
    /// Bits 0 (Sunday) to 6.
    pub(super) weekdays: u8,
    /// Whether a day must match both day fields (one of them is a star) or either.
    pub(super) both_days: bool,
}

/// The length of an `@every` interval in whole minutes, at least one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EveryMinutes(i64);

/// One of the five fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CronField {
    /// 0-59.
    Minute,
    /// 0-23.
    Hour,
    /// 1-31.
    DayOfMonth,
    /// 1-12 or JAN-DEC.
    Month,
    /// 0-6 or SUN-SAT.
    DayOfWeek,
}

/// Why an expression is refused: what is wrong and how to write it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CronError {
    /// Nothing but white space.
    #[error("is empty; write five fields like \"0 2 * * *\", or a descriptor like @daily")]
    Empty,
    /// Longer than [`MAX_EXPRESSION_BYTES`].
    #[error("has {0} bytes; at most {MAX_EXPRESSION_BYTES} are accepted")]
    TooLong(usize),
    /// `TZ=` or `CRON_TZ=`, which CronJob refuses too.
    #[error("must not contain TZ= or CRON_TZ=; use spec.timeZone")]
    TimeZoneInside,
    /// Not five fields.
    #[error(
        "has {0} fields where exactly five are needed: minute, hour, day of month, month, \
         day of week{hint}",
        hint = if *.0 > 5 { " (no seconds, no years)" } else { "" }
    )]
    FieldCount(usize),
    /// A word after `@` that does not exist.
    #[error(
        "{0:?} is not a descriptor; use @yearly, @annually, @monthly, @weekly, @daily, @midnight, \
         @hourly or \"@every 6h\", in lower case and without further blanks"
    )]
    UnknownDescriptor(String),
    /// `@every` with something that is not a duration.
    #[error("@every needs a duration like 90m or 1h30m, not {0:?}")]
    EveryNotADuration(String),
    /// `@every` with a duration that is not a positive number of whole minutes.
    #[error(
        "@every {0:?} must be a whole number of minutes, at least 1m; schedules have minutes as \
         their grain"
    )]
    EveryNotWholeMinutes(String),
    /// A list item of a field is wrong.
    #[error("{field}: {item:?} {problem}")]
    Item {
        /// The field.
        field: CronField,
        /// The list item as written.
        item: String,
        /// What is wrong with it.
        problem: ItemProblem,
    },
}

/// What is wrong with one list item of a field.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ItemProblem {
    /// Not a number or a known name.
    #[error("is not {0}{hint}", hint = .1)]
    NotAValue(&'static str, &'static str),
    /// Below or above what the field has.
    #[error("is outside {0}")]
    Outside(&'static str),
    /// 7 as a weekday.
    #[error("is outside 0-6: 7 is not a weekday; use 0 or SUN for Sunday")]
    SundayAsSeven,
    /// The first number of a range is above the second.
    #[error("runs backwards; write two ranges, {0}")]
    Backwards(String),
    /// More than one hyphen.
    #[error("has more than one hyphen; a range is written like 1-5")]
    Hyphens,
    /// More than one slash.
    #[error("has more than one slash; a step is written like */15 or 10-50/10")]
    Slashes,
    /// The step is not a number.
    #[error("has a step that is not a positive number; write it like */15")]
    Step,
}

impl fmt::Display for CronField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Minute => "minute",
            Self::Hour => "hour",
            Self::DayOfMonth => "day of month",
            Self::Month => "month",
            Self::DayOfWeek => "day of week",
        })
    }
}

impl CronField {
    /// Smallest and largest value.
    const fn range(self) -> (u64, u64) {
        match self {
            Self::Minute => (0, 59),
            Self::Hour => (0, 23),
            Self::DayOfMonth => (1, 31),
            Self::Month => (1, 12),
            Self::DayOfWeek => (0, 6),
        }
    }

    /// What the field takes, for people.
    const fn takes(self) -> &'static str {
        match self {
            Self::Minute => "0-59",
            Self::Hour => "0-23",
            Self::DayOfMonth => "1-31",
            Self::Month => "1-12 or JAN-DEC",
            Self::DayOfWeek => "0-6 or SUN-SAT",
        }
    }

    /// Names for values, from the smallest value on.
    const fn names(self) -> &'static [&'static str] {
        match self {
            Self::Month => &[
                "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
            ],
            Self::DayOfWeek => &["sun", "mon", "tue", "wed", "thu", "fri", "sat"],
            _ => &[],
        }
    }
}

impl CronExpression {
    /// Parses an expression.
    pub fn parse(text: &str) -> Result<Self, CronError> {
        if text.len() > MAX_EXPRESSION_BYTES {
            return Err(CronError::TooLong(text.len()));
        }
        if text.contains("TZ=") {
            return Err(CronError::TimeZoneInside);
        }
        if let Some(interval) = text.strip_prefix("@every ") {
            return EveryMinutes::parse(interval).map(Self::Every);
        }
        let fields = match text {
            "@yearly" | "@annually" => "0 0 1 1 *",
            "@monthly" => "0 0 1 * *",
            "@weekly" => "0 0 * * 0",
            "@daily" | "@midnight" => "0 0 * * *",
            "@hourly" => "0 * * * *",
            _ if text.trim_start().starts_with('@') => {
                return Err(CronError::UnknownDescriptor(text.to_owned()));
            }
            _ => text,
        };
        CronFields::parse(fields).map(Self::Fields)
    }

    /// Whether no date of the calendar matches, such as 30 February.
    pub fn never_fires(&self) -> bool {
        match self {
            Self::Fields(fields) => fields.never_fires(),
            Self::Every(_) => false,
        }
    }
}

impl CronFields {
    /// Parses five fields. `split_whitespace` splits at the same characters as Go's
    /// `strings.Fields`, wide and exotic blanks included.
    fn parse(text: &str) -> Result<Self, CronError> {
        let fields: Vec<&str> = text.split_whitespace().collect();
        let [minute, hour, day, month, weekday] = fields[..] else {
            return Err(match fields.len() {
                0 => CronError::Empty,
                n => CronError::FieldCount(n),
            });
        };
        let (minutes, _) = parse_field(CronField::Minute, minute)?;
        let (hours, _) = parse_field(CronField::Hour, hour)?;
        let (days, any_day) = parse_field(CronField::DayOfMonth, day)?;
        let (months, _) = parse_field(CronField::Month, month)?;
        let (weekdays, any_weekday) = parse_field(CronField::DayOfWeek, weekday)?;
        Ok(Self {
            minutes,
            hours: narrow(hours),
            days: narrow(days),
            months: narrow(months),
            weekdays: narrow(weekdays),
            both_days: any_day || any_weekday,
        })
    }

    /// Whether the hours cover the whole day.
    pub(super) fn covers_all_hours(&self) -> bool {
        self.hours == ALL_HOURS
    }

    /// Whether no date of the calendar matches. Where both day fields must match, one of them is a
    /// star and therefore full, so only the length of months can rule out every date.
    fn never_fires(&self) -> bool {
        const LONGEST: [u32; 13] = [0, 31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
        if self.minutes == 0 || self.hours == 0 || self.months == 0 {
            return true;
        }
        let some_date = (1..=12).any(|month| {
            let dates = (1_u64 << (LONGEST[month] + 1)) - 2;
            self.months & (1 << month) != 0 && dates & u64::from(self.days) != 0
        });
        let some_weekday = self.weekdays != 0;
        if self.both_days { !(some_date && some_weekday) } else { !(some_date || some_weekday) }
    }
}

/// Narrows the bits of a field, which by construction lie in the field's range.
fn narrow<T: TryFrom<u64>>(bits: u64) -> T {
    T::try_from(bits).ok().expect("the bits of a field stay in the field's range")
}

/// The set of one field, and whether one of its items is a star.
fn parse_field(field: CronField, text: &str) -> Result<(u64, bool), CronError> {
    let mut bits = 0;
    let mut star = false;
    for item in text.split(',').filter(|item| !item.is_empty()) {
        let (item_bits, item_star) = parse_item(field, item)
            .map_err(|problem| CronError::Item { field, item: item.to_owned(), problem })?;
        bits |= item_bits;
        star |= item_star;
    }
    Ok((bits, star))
}

/// The set of one list item: `*`, `?`, a value or a range, each with an optional step.
fn parse_item(field: CronField, item: &str) -> Result<(u64, bool), ItemProblem> {
    let (min, max) = field.range();
    let mut by_slash = item.split('/');
    let range = by_slash.next().unwrap_or_default();
    let step_text = by_slash.next();
    if by_slash.next().is_some() {
        return Err(ItemProblem::Slashes);
    }
    let mut by_hyphen = range.split('-');
    let low = by_hyphen.next().unwrap_or_default();
    let high = by_hyphen.next();
    let mut star = low == "*" || low == "?";
    let (start, mut end) = if star {
        (min, max) // whatever follows a hyphen after a star is ignored
    } else if by_hyphen.next().is_some() {
        return Err(ItemProblem::Hyphens);
    } else {
        let start = parse_value(field, low)?;
        (start, high.map_or(Ok(start), |high| parse_value(field, high))?)
    };
    let step = match step_text {
        None => 1,
        Some(text) => {
            if high.is_none() {
                end = max; // "5/15" means "5-59/15"
            }
            match parse_number(text) {
                None | Some(0) => return Err(ItemProblem::Step),
                Some(step) => step,
            }
        }
    };
    star &= step == 1;
    if start < min || start > max || end > max {
        return Err(match field {
            CronField::DayOfWeek if start == 7 || end == 7 => ItemProblem::SundayAsSeven,
            _ => ItemProblem::Outside(field.takes()),
        });
    }
    if start > end {
        return Err(ItemProblem::Backwards(format!("{start}-{max},{min}-{end}")));
    }
    let mut bits = 0;
    let mut value = start;
    while value <= end {
        bits |= 1 << value;
        value = value.saturating_add(step);
    }
    Ok((bits, star))
}

/// A number or a name of the field.
fn parse_value(field: CronField, text: &str) -> Result<u64, ItemProblem> {
    let (min, _) = field.range();
    let by_name = field.names().iter().position(|name| is_name(text, name));
    if let Some(position) = by_name {
        return Ok(min + position as u64);
    }
    parse_number(text).ok_or_else(|| {
        let foreign = text.contains(['L', 'W', '#', 'H', 'l', 'w', 'h']) && text.len() <= 3;
        let hint = if foreign { "; L, W, # and H are not part of the syntax" } else { "" };
        ItemProblem::NotAValue(field.takes(), hint)
    })
}

/// Whether `text` is `name` in any case. CronJob lowers with Go's `strings.ToLower`, by which the
/// dotted capital I becomes an ASCII i; no other letter outside ASCII becomes one of a name.
fn is_name(text: &str, name: &str) -> bool {
    let lowered = text.chars().map(|c| if c == 'İ' { 'i' } else { c.to_ascii_lowercase() });
    lowered.eq(name.chars())
}

/// A number as Go's `strconv.Atoi` reads it, if it is not negative: an optional plus sign and ASCII
/// digits, at most 2^63 - 1.
fn parse_number(text: &str) -> Option<u64> {
    let digits = text.strip_prefix('+').unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        // "-0" is zero for Go; it can only stand in a step, where zero is refused as well.
        return None;
    }
    digits.parse::<i64>().ok().and_then(|n| u64::try_from(n).ok())
}

impl EveryMinutes {
    /// Parses a Go duration and requires whole minutes.
    fn parse(text: &str) -> Result<Self, CronError> {
        let nanos =
            parse_go_duration(text).ok_or_else(|| CronError::EveryNotADuration(text.to_owned()))?;
        let minutes = nanos / NANOS_PER_MINUTE;
        if nanos % NANOS_PER_MINUTE != 0 || minutes < 1 {
            return Err(CronError::EveryNotWholeMinutes(text.to_owned()));
        }
        Ok(Self(minutes))
    }

    /// Minutes from one instant to the next.
    pub fn minutes(self) -> i64 {
        self.0
    }
}

/// Nanoseconds of a minute.
const NANOS_PER_MINUTE: i64 = 60_000_000_000;

/// A duration as Go's `time.ParseDuration` reads it, in nanoseconds: `1h30m`, `1.5h`, `-3m`, `0`.
fn parse_go_duration(text: &str) -> Option<i64> {
    let (negative, mut rest) = match text.strip_prefix(['-', '+']) {
        Some(rest) => (text.starts_with('-'), rest),
        None => (false, text),
    };
    if rest == "0" {
        return Some(0);
    }
    if rest.is_empty() {
        return None;
    }
    let mut total: u64 = 0;
    while !rest.is_empty() {
        let (part, after) = parse_duration_part(rest)?;
        total = total.checked_add(part).filter(|&t| t <= 1 << 63)?;
        rest = after;
    }
    if negative { 0_i64.checked_sub_unsigned(total) } else { i64::try_from(total).ok() }
}

/// One number with its unit, and what follows it.
fn parse_duration_part(text: &str) -> Option<(u64, &str)> {
    let (whole, after_whole) = leading_digits(text);
    let (fraction, after_number) = match after_whole.strip_prefix('.') {
        Some(after_point) => leading_digits(after_point),
        None => ("", after_whole),
    };
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let unit_end =
        after_number.find(|c: char| c == '.' || c.is_ascii_digit()).unwrap_or(after_number.len());
    let (unit, rest) = after_number.split_at(unit_end);
    let unit_nanos: u64 = match unit {
        "ns" => 1,
        "us" | "µs" | "μs" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return None,
    };
    let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let nanos = whole.checked_mul(unit_nanos).filter(|&n| n <= 1 << 63)?;
    nanos.checked_add(fraction_nanos(fraction, unit_nanos)).map(|n| (n, rest))
}

/// The nanoseconds of a decimal fraction of a unit, truncated, in the floating point that Go uses.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the same arithmetic as Go's, for the same answers; the result is below one hour"
)]
fn fraction_nanos(digits: &str, unit_nanos: u64) -> u64 {
    // Digits beyond what 63 bits hold change nothing and are ignored, as Go does.
    let mut value: u64 = 0;
    let mut scale = 1.0;
    for digit in digits.bytes() {
        let Some(next) = value
            .checked_mul(10)
            .and_then(|v| v.checked_add(u64::from(digit - b'0')))
            .filter(|&v| v <= 1 << 63)
        else {
            break;
        };
        value = next;
        scale *= 10.0;
    }
    (value as f64 * (unit_nanos as f64 / scale)) as u64
}

/// The ASCII digits at the start of `text`, and what follows them.
fn leading_digits(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    text.split_at(end)
}
