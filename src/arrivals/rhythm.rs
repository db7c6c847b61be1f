//! When jobs come.

use jiff::{Timestamp, civil::Weekday, tz::TimeZone};

use super::{added_up, numbers, pick};
use crate::rng::Rng;

/// Milliseconds of an hour and of a minute.
const HOUR: i64 = 3_600_000;
const MINUTE: i64 = 60_000;

/// When jobs come: volume by hour, and moments within the hour at which many clients wake.
#[derive(Clone, Debug, PartialEq)]
pub struct Rhythm {
    /// Volume of each hour of the day in UTC, relative to the others.
    pub day: [f64; 24],
    /// By what the volume of Monday at 09 is multiplied: reports about the week that was.
    pub monday_morning: f64,
    /// By what the volume of the first of a month is multiplied: reports about the month.
    pub first_of_month: f64,
    /// Of a hundred jobs of an hour, how many are due at :00.
    pub at_hour: u64,
    /// How many at :30.
    pub at_half: u64,
    /// How many at :15 and at :45, each.
    pub at_quarter: u64,
    /// How many at the other eight marks of five minutes, together. The rest come at any time.
    pub at_five: u64,
    /// How late a client is that wakes at a mark, in seconds: the mean of an exponential distribution.
    pub lateness_seconds: f64,
    /// Of a hundred clients, how many spread their jobs evenly over a minute after the mark.
    pub spreading_percent: u64,
    /// By how much clocks of clients are wrong, in seconds: standard deviation.
    pub clock_sigma_seconds: f64,
    /// So many of the largest tenants submit what is due at a mark as one block within a second.
    pub blocks: u32,
}

impl Default for Rhythm {
    fn default() -> Self {
        Self {
            day: [
                3.0, 0.6, 0.5, 0.5, 0.6, 0.7, 0.9, 1.1, 1.3, 1.5, 1.5, 1.4, //
                1.3, 1.4, 1.5, 1.5, 1.4, 1.2, 1.0, 0.9, 0.8, 0.7, 0.7, 0.6,
            ],
            monday_morning: 2.0,
            first_of_month: 2.0,
            at_hour: 40,
            at_half: 10,
            at_quarter: 5,
            at_five: 10,
            lateness_seconds: 4.0,
            spreading_percent: 20,
            clock_sigma_seconds: 0.5,
            blocks: 1,
        }
    }
}

impl Rhythm {
    /// One burst and nothing else: all jobs are due at :00.
    #[must_use]
    pub fn burst() -> Self {
        Self { at_hour: 100, at_half: 0, at_quarter: 0, at_five: 0, ..Self::default() }
    }

    /// The moments of so many hours.
    pub fn moments(&self, from: Timestamp, hours: u32) -> Moments<'_> {
        let start = from.as_millisecond();
        let volume = |hour: u32| self.volume(start + i64::from(hour) * HOUR);
        Moments { rhythm: self, from: start, hours: added_up((0..hours.max(1)).map(volume)) }
    }

    /// The volume of the hour that begins then, relative to others.
    fn volume(&self, at: i64) -> f64 {
        let Ok(at) = Timestamp::from_millisecond(at) else { return 1.0 };
        let at = at.to_zoned(TimeZone::UTC);
        let hour = usize::try_from(at.hour()).unwrap_or(0);
        let mut volume = self.day.get(hour).copied().unwrap_or(1.0);
        if at.weekday() == Weekday::Monday && hour == 9 {
            volume *= self.monday_morning;
        }
        if at.day() == 1 {
            volume *= self.first_of_month;
        }
        volume.max(0.0)
    }

    /// The minute at which a job of an hour is due; none if it comes at any time.
    fn mark(&self, rng: &mut Rng) -> Option<i64> {
        const OTHERS: [i64; 8] = [5, 10, 20, 25, 35, 40, 50, 55];
        let mut roll = rng.of(0..=99);
        let other = rng.pick(&OTHERS).copied().unwrap_or(5);
        let marks = [
            (self.at_hour, 0),
            (self.at_half, 30),
            (self.at_quarter, 15),
            (self.at_quarter, 45),
            (self.at_five, other),
        ];
        for (percent, minute) in marks {
            let Some(rest) = roll.checked_sub(percent) else { return Some(minute) };
            roll = rest;
        }
        None
    }

    /// How long after the mark a client's job is there, in milliseconds; before it if its clock is fast.
    fn delay(&self, rng: &mut Rng, tenant: u32) -> i64 {
        let clock = numbers::millis(self.clock_sigma_seconds * numbers::normal(rng));
        let late = numbers::millis(numbers::exponential(rng, self.lateness_seconds));
        let spread = i64::try_from(rng.of(0..=59_999)).unwrap_or(0);
        let block = i64::try_from(rng.of(0..=999)).unwrap_or(0);
        let spreads = rng.chance(self.spreading_percent);
        if tenant < self.blocks {
            block
        } else if spreads {
            spread
        } else {
            clock + late.min(MINUTE)
        }
    }
}

/// The moments of a history, ready to be drawn from.
#[derive(Clone, Debug)]
pub struct Moments<'a> {
    rhythm: &'a Rhythm,
    from: i64,
    /// Volumes of the hours, added up.
    hours: Vec<f64>,
}

impl Moments<'_> {
    /// When a job of the tenant comes, in milliseconds since the epoch; never before the history.
    pub fn draw(&self, rng: &mut Rng, tenant: u32) -> i64 {
        let hour = self.from + i64::from(pick(&self.hours, numbers::unit(rng))) * HOUR;
        let anywhere = i64::try_from(rng.of(0..=3_599_999)).unwrap_or(0);
        let mark = self.rhythm.mark(rng);
        let delay = self.rhythm.delay(rng, tenant);
        mark.map_or(hour + anywhere, |minute| (hour + minute * MINUTE + delay).max(self.from))
    }
}
