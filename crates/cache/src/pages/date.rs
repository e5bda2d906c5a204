//! Dates in headers (RFC 9110, section 5.6.7), as a cache reads them.
//!
//! | form | example |
//! |---|---|
//! | the one that is written today | `Sun, 06 Nov 1994 08:49:37 GMT` |
//! | that of RFC 850 | `Sunday, 06-Nov-94 08:49:37 GMT` |
//! | that of `asctime()` | `Sun Nov  6 08:49:37 1994` |
//!
//! Case does not count (RFC 9111, section 5.3), nor whether the day of the week is that of the
//! date. Anything else that differs is not a date: whoever says it fresh by such a date has it
//! stale. A year of two digits is one of 1970 to 2069.

use std::time::{Duration, SystemTime};

/// The point in time that a header says.
pub(crate) fn parse(text: &str) -> Option<SystemTime> {
    let text = text.to_ascii_lowercase();
    let date = match text.split_once(", ") {
        Some((weekday, rest)) if WEEKDAYS.contains(&weekday) => Date::of_numbers(rest, ' ')?,
        Some((weekday, rest)) => {
            let short = weekday.strip_suffix("day")?;
            let is_weekday = short.get(..3).is_some_and(|short| WEEKDAYS.contains(&short));
            is_weekday.then(|| Date::of_numbers(rest, '-'))??
        }
        None => Date::of_asctime(&text)?,
    };
    date.time()
}

/// A date, as it is written.
struct Date {
    year: u64,
    /// From 0.
    month: u64,
    day: u64,
    /// Seconds of the day.
    seconds: u64,
}

impl Date {
    /// `06 nov 1994 08:49:37 gmt`, or with `-` and a year of two digits.
    fn of_numbers(text: &str, separator: char) -> Option<Self> {
        let text = text.strip_suffix(" gmt")?;
        let (date, clock) = text.rsplit_once(' ')?;
        let mut parts = date.split(separator);
        let day = parts.next()?;
        let month = parts.next()?;
        let year = parts.next()?;
        let year = match separator {
            '-' => match number(year, 2)? {
                year @ 70.. => 1900 + year,
                year => 2000 + year,
            },
            _ => number(year, 4)?,
        };
        let date =
            Self { year, month: month_of(month)?, day: number(day, 2)?, seconds: of(clock)? };
        parts.next().is_none().then_some(date)
    }

    /// `sun nov  6 08:49:37 1994`.
    fn of_asctime(text: &str) -> Option<Self> {
        let (weekday, rest) = text.split_once(' ')?;
        WEEKDAYS.contains(&weekday).then_some(())?;
        let (month, rest) = rest.split_once(' ')?;
        let (day, rest) = rest.split_at_checked(2)?;
        let day = match day.strip_prefix(' ') {
            Some(digit) => number(digit, 1)?,
            None => number(day, 2)?,
        };
        let (clock, year) = rest.strip_prefix(' ')?.split_once(' ')?;
        Some(Self { year: number(year, 4)?, month: month_of(month)?, day, seconds: of(clock)? })
    }

    fn time(&self) -> Option<SystemTime> {
        let Self { year, month, day, seconds } = *self;
        let is_leap = |year: u64| {
            year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
        };
        let days_of = |month: u64| match month {
            1 => 28 + u64::from(is_leap(year)),
            3 | 5 | 8 | 10 => 30,
            _ => 31,
        };
        if year < 1970 || day == 0 || day > days_of(month) {
            return None;
        }
        let before = year - 1;
        let leaps = |year: u64| year / 4 - year / 100 + year / 400;
        let years = (year - 1970) * 365 + leaps(before) - leaps(1969);
        let days = years + (0..month).map(days_of).sum::<u64>() + day - 1;
        SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(days * 86_400 + seconds))
    }
}

/// Seconds of the day: `08:49:37`. A leap second is that before it.
fn of(clock: &str) -> Option<u64> {
    let mut parts = clock.split(':');
    let mut part = |max: u64| number(parts.next()?, 2).filter(|it| *it <= max);
    let hours = part(23)?;
    let minutes = part(59)?;
    let seconds = part(60)?;
    parts.next().is_none().then_some(hours * 3600 + minutes * 60 + seconds.min(59))
}

/// A number of so many digits.
fn number(text: &str, digits: usize) -> Option<u64> {
    let is_number = text.len() == digits && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().ok())?
}

fn month_of(text: &str) -> Option<u64> {
    (0..).zip(MONTHS).find_map(|(number, name)| (name == text).then_some(number))
}

const WEEKDAYS: [&str; 7] = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];
const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(text: &str) -> Option<u64> {
        parse(text)?.duration_since(SystemTime::UNIX_EPOCH).ok().map(|time| time.as_secs())
    }

    #[test]
    fn each_form_says_the_same_time() {
        for text in [
            "Sun, 06 Nov 1994 08:49:37 GMT",
            "SUN, 06 nOV 1994 08:49:37 gmt",
            "Mon, 06 Nov 1994 08:49:37 GMT",
            "Sunday, 06-Nov-94 08:49:37 GMT",
            "Wednesday, 06-NOV-94 08:49:37 GMT",
            "Sun Nov  6 08:49:37 1994",
            "sun nov 06 08:49:37 1994",
        ] {
            assert_eq!(seconds(text), Some(784_111_777), "{text}");
        }
    }

    #[test]
    fn what_is_not_a_date_is_none() {
        for text in [
            "",
            "0",
            "-1",
            "Thu, 18 Aug 2050 02:01:18 UTC",
            "Thu, 18 Aug 2050 02:01:18 AEST",
            "Thu, 18 Aug 2050 02:01:18",
            "Thu, 18 Aug 50 02:01:18 GMT",
            "Thu 18 Aug 2050 02:01:18 GMT",
            "Thu,18 Aug 2050 02:01:18 GMT",
            "Thu, 18  Aug  2050 02:01:18 GMT",
            "Thu, 18-Aug-2050 02:01:18 GMT",
            "Thu, 18 Aug 2050 02.01.18 GMT",
            "Thu, 18 Aug 2050 2:01:18 GMT",
            "Thu, 8 Aug 2050 02:01:18 GMT",
            "Thu, 31 Feb 2050 02:01:18 GMT",
            "Thu, 29 Feb 2050 02:01:18 GMT",
            "Thu, 00 Aug 2050 02:01:18 GMT",
            "Thu, 18 Aug 2050 24:01:18 GMT",
            "Thu, 18 Aug 1950 02:01:18 GMT",
            "Thu, 18 Aug 2050 02:01:18 GMT, Thu, 18 Aug 2050 02:01:18 GMT",
            "Thu Aug 8 02:01:18 2050",
            "Foo, 18 Aug 2050 02:01:18 GMT",
            "Day, 18-Aug-50 02:01:18 GMT",
            "ééday, 18-Aug-50 02:01:18 GMT",
            "Thu Aug é 02:01:18 2050",
        ] {
            assert_eq!(seconds(text), None, "{text}");
        }
    }

    #[test]
    fn what_is_written_here_is_read_here() {
        let mut time = 0_u64;
        while time < 16_725_225_600 {
            let date = SystemTime::UNIX_EPOCH + Duration::from_secs(time);
            assert_eq!(seconds(&httpdate::fmt_http_date(date)), Some(time));
            time += 86_400 * 13 + 3_607;
        }
    }
}
