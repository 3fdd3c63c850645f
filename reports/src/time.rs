//! Points in time: as people write them on the command line, in the manner of journalctl, and as
//! the reports print them.

use jiff::civil::{Date, DateTime, Time};
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp, Zoned};

/// The forms of a time, for whom none was found in what they wrote.
const FORMS: &str = "write local time as 14:30, 14:30:15, 2026-05-01 or '2026-05-01 14:30:15'; \
    today, yesterday, tomorrow or now; -10min or '10min ago'; @SECONDS since 1970; or with a zone: \
    '2026-05-01 14:30 UTC', 2026-05-01T14:30Z, 2026-05-01T14:30+02:00";

/// What is longer than this was rolled up, not saved at once: nanoseconds.
pub(crate) const MUCH: i64 = 600_000_000_000;

/// A point in time as nanoseconds of the Unix epoch, 1677 to 2262. What names no zone is in
/// that of `now`.
///
/// # Errors
/// What is wrong with it, and which forms there are.
pub(crate) fn parse(text: &str, now: &Zoned) -> Result<i64, String> {
    let bad = || format!("{text:?} is no time; {FORMS}");
    let instant = instant(text.trim(), now).ok_or_else(bad)?;
    i64::try_from(instant.as_nanosecond()).map_err(|_| bad())
}

fn instant(text: &str, now: &Zoned) -> Option<Timestamp> {
    if let Some(seconds) = text.strip_prefix('@') {
        return since_1970(seconds);
    }
    if text.starts_with(['-', '+']) || text.ends_with("ago") {
        let span: Span = text.parse().ok()?;
        return Some(now.checked_add(span).ok()?.timestamp());
    }
    if let Ok(instant) = text.parse() {
        return Some(instant);
    }
    match text.strip_suffix("UTC") {
        Some(text) => civil(text.trim_end(), &now.with_time_zone(TimeZone::UTC)),
        None => civil(text, now),
    }
}

/// A time as a clock on the wall where `now` is shows it.
fn civil(text: &str, now: &Zoned) -> Option<Timestamp> {
    let midnight = |date: Date| date.to_datetime(Time::midnight());
    let today = now.date();
    let civil = match text {
        "now" => return Some(now.timestamp()),
        "today" => midnight(today),
        "yesterday" => midnight(today.yesterday().ok()?),
        "tomorrow" => midnight(today.tomorrow().ok()?),
        _ if text.contains('-') => text.parse::<DateTime>().ok()?,
        // Four digits without a colon might be a year.
        _ if text.contains(':') => today.to_datetime(text.parse::<Time>().ok()?),
        _ => return None,
    };
    now.time_zone().to_timestamp(civil).ok()
}

/// Seconds since 1970, whole or with a fraction.
fn since_1970(seconds: &str) -> Option<Timestamp> {
    let digits = seconds.strip_prefix('-').unwrap_or(seconds);
    let plain = |c: char| c.is_ascii_digit() || c == '.';
    if !digits.starts_with(|c: char| c.is_ascii_digit()) || !digits.chars().all(plain) {
        return None;
    }
    let span: Span = format!("{seconds}s").parse().ok()?;
    Timestamp::UNIX_EPOCH.checked_add(span).ok()
}

/// A time (nanoseconds of the Unix epoch) to the second as the clocks here show it, with their
/// distance from UTC. [`parse`] takes it.
pub(crate) fn local(nanoseconds: i64) -> String {
    in_zone(nanoseconds, TimeZone::system())
}

fn in_zone(nanoseconds: i64, zone: TimeZone) -> String {
    match Timestamp::from_nanosecond(i128::from(nanoseconds)) {
        Ok(time) => time
            .to_zoned(zone)
            .strftime("%Y-%m-%d %H:%M:%S%:z")
            .to_string(),
        Err(_) => nanoseconds.to_string(),
    }
}

/// A time (nanoseconds of the Unix epoch) to the second in UTC, as programs read it (RFC 3339).
pub(crate) fn utc(nanoseconds: i64) -> String {
    match Timestamp::from_nanosecond(i128::from(nanoseconds)) {
        Ok(time) => time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        Err(_) => nanoseconds.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Noon of a day in a zone two hours ahead of UTC.
    fn now() -> Zoned {
        "2026-05-01T12:00:00+02:00[+02:00]"
            .parse()
            .expect("is a time")
    }

    /// Seconds from [`now`] on.
    fn from_now(text: &str) -> Option<i64> {
        let nanoseconds = parse(text, &now()).ok()?;
        let now = now().timestamp().as_second();
        Some(nanoseconds.div_euclid(1_000_000_000) - now)
    }

    /// Every form is the moment that it says; without a zone it is local time.
    #[test]
    fn times() {
        const HOUR: i64 = 3600;
        const DAY: i64 = 24 * HOUR;
        for (text, expected) in [
            ("now", 0),
            (" now ", 0),
            ("today", -12 * HOUR),
            ("yesterday", -36 * HOUR),
            ("tomorrow", 12 * HOUR),
            ("11:30", -HOUR / 2),
            ("11:30:15", -HOUR / 2 + 15),
            ("23:00", 11 * HOUR),
            ("11:30 UTC", 3 * HOUR / 2),
            ("-5min", -300),
            ("-1h30min", -5400),
            ("-2h", -2 * HOUR),
            ("+10s", 10),
            ("5min ago", -300),
            ("2 hours ago", -2 * HOUR),
            ("1 day ago", -DAY),
            ("2026-05-01", -12 * HOUR),
            ("2026-05-01 12:00", 0),
            ("2026-05-01 12:00:01", 1),
            ("2026-05-01T12:00", 0),
            ("2026-05-01 12:00 UTC", 2 * HOUR),
            ("2026-05-01 10:00:00UTC", 0),
            ("2026-05-01T10:00Z", 0),
            ("2026-05-01T10:00:00Z", 0),
            ("2026-05-01 12:00:00+02:00", 0),
            ("2026-05-01T05:30-04:30", 0),
            ("@1777629600", 0),
            ("@1777629601.5", 1),
        ] {
            assert_eq!(from_now(text), Some(expected), "{text:?}");
        }
        assert_eq!(parse("@0.25", &now()), Ok(250_000_000));
        assert_eq!(parse("@-1", &now()), Ok(-1_000_000_000));
    }

    /// What is no time, or none that a database could hold, is refused with the forms there are.
    #[test]
    fn bad_times() {
        for text in [
            "",
            "yesterday-ish",
            "5min",
            "12",
            "2026",
            "25:00",
            "12:60",
            "2026-02-30",
            "-",
            "ago",
            "@",
            "@noon",
            "@1e9",
            "-9999999999999y",
            "9999-12-30",
            "@99999999999999999999",
        ] {
            let error = parse(text, &now()).expect_err(text);
            assert!(error.contains("is no time") && error.contains("14:30"));
        }
    }

    /// A time that was printed is read as the same second.
    #[test]
    fn printed_times_are_read() {
        let nanoseconds = now().timestamp().as_second() * 1_000_000_000 + 999;
        for text in [
            in_zone(nanoseconds, now().time_zone().clone()),
            utc(nanoseconds),
        ] {
            assert_eq!(from_now(&text), Some(0), "{text}");
        }
        let text = in_zone(nanoseconds, now().time_zone().clone());
        assert_eq!(text, "2026-05-01 12:00:00+02:00");
    }
}
