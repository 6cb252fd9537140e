//! Pure: points in time and lengths of it, written as Kafka's tools take them.

use protocol::types::Timestamp;

const DAY_MS: i64 = 24 * 60 * 60 * 1_000;

/// `2024-12-31T23:59:59.000`, perhaps with `Z`, `+01`, `+01:00` or `+0100` behind it; else it is
/// UTC. The milliseconds may be left out.
#[must_use]
pub fn parse_datetime(text: &str) -> Option<Timestamp> {
    let (date, time) = text.split_once('T')?;
    let (year, month_and_day) = date.split_once('-')?;
    let (month, day) = month_and_day.split_once('-')?;
    let (year, month, day) = (digits(year, 4)?, digits(month, 2)?, digits(day, 2)?);
    let (time, zone) = match time.find(['Z', '+', '-']) {
        Some(at) => time.split_at(at),
        None => (time, "Z"),
    };
    let mut parts = time.split(':');
    let (hour, minute) = (digits(parts.next()?, 2)?, digits(parts.next()?, 2)?);
    let seconds = parts.next()?;
    let (second, millis) = seconds.split_once('.').unwrap_or((seconds, "000"));
    let (second, millis) = (digits(second, 2)?, digits(millis, 3)?);
    let is_time = hour < 24 && minute < 60 && second < 60 && parts.next().is_none();
    let is_date = (1..=12).contains(&month) && (1..=days_in(year, month)).contains(&day);
    if !is_time || !is_date {
        return None;
    }
    let of_day = ((hour * 60 + minute) * 60 + second) * 1_000 + millis;
    Some(Timestamp(days_since_1970(year, month, day) * DAY_MS + of_day - zone_ms(zone)?))
}

fn digits(text: &str, count: usize) -> Option<i64> {
    let is_number = text.len() == count && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_number)
}

fn zone_ms(zone: &str) -> Option<i64> {
    let (sign, rest) = match zone.split_at_checked(1)? {
        ("Z", "") => return Some(0),
        ("+", rest) => (1, rest),
        ("-", rest) => (-1, rest),
        _ => return None,
    };
    let (hours, minutes) = match (rest.split_once(':'), rest.len()) {
        (Some(parts), _) => parts,
        (None, 2) => (rest, "00"),
        (None, _) => rest.split_at_checked(2)?,
    };
    let (hours, minutes) = (digits(hours, 2)?, digits(minutes, 2)?);
    (hours < 24 && minutes < 60).then_some(sign * (hours * 60 + minutes) * 60_000)
}

fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

fn days_in(year: i64, month: i64) -> i64 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let leap_days = |before: i64| (before - 1) / 4 - (before - 1) / 100 + (before - 1) / 400;
    let years = (year - 1970) * 365 + leap_days(year) - leap_days(1970);
    let months: i64 = (1..month).map(|month| days_in(year, month)).sum();
    years + months + day - 1
}

/// ISO 8601 as Java reads it: `P1DT2H30M`, `PT0.5S`, `-PT1H`, `PT-1H`. Milliseconds.
#[must_use]
pub fn parse_duration(text: &str) -> Option<i64> {
    let text = text.to_ascii_uppercase();
    let (sign, rest) = match text.strip_prefix(['-', '+']) {
        Some(rest) => (if text.starts_with('-') { -1 } else { 1 }, rest),
        None => (1, text.as_str()),
    };
    let rest = rest.strip_prefix('P')?;
    let (days, rest) = match rest.split_once('D') {
        Some((days, rest)) => (Some(days), rest),
        None => (None, rest),
    };
    let time = match rest.strip_prefix('T') {
        Some(time) if !time.is_empty() => Some(time),
        None if rest.is_empty() && days.is_some() => None,
        _ => return None,
    };
    let mut total_ms = days.map_or(Some(0), |days| amount(days, DAY_MS))?;
    let mut rest = time.unwrap_or_default();
    for (unit, ms) in [('H', 3_600_000), ('M', 60_000)] {
        if let Some((number, behind)) = rest.split_once(unit) {
            total_ms = total_ms.checked_add(amount(number, ms)?)?;
            rest = behind;
        }
    }
    if !rest.is_empty() {
        total_ms = total_ms.checked_add(seconds(rest.strip_suffix('S')?)?)?;
    }
    total_ms.checked_mul(sign)
}

fn amount(number: &str, unit_ms: i64) -> Option<i64> {
    number.parse::<i64>().ok()?.checked_mul(unit_ms)
}

/// Seconds with up to nine decimals, of which three count.
fn seconds(text: &str) -> Option<i64> {
    let (whole, decimals) = text.split_once(['.', ',']).unwrap_or((text, ""));
    if decimals.len() > 9 || !decimals.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let millis: i64 = format!("{decimals:0<3}").get(..3)?.parse().ok()?;
    let millis = if whole.starts_with('-') { -millis } else { millis };
    amount(whole, 1_000)?.checked_add(millis)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn datetimes_are_taken_as_kafkas_tool_takes_them() {
        let ms = |text| parse_datetime(text).map(|at| at.0);
        assert_eq!(ms("1970-01-01T00:00:00.000"), Some(0));
        assert_eq!(ms("2024-02-29T12:30:45.678Z"), Some(1_709_209_845_678));
        assert_eq!(ms("2024-02-29T12:30:45.678+01:00"), Some(1_709_206_245_678));
        assert_eq!(ms("2024-02-29T12:30:45.678-0130"), Some(1_709_215_245_678));
        assert_eq!(ms("2024-02-29T12:30:45.678+01"), Some(1_709_206_245_678));
        assert_eq!(ms("2024-02-29T12:30:45"), Some(1_709_209_845_000));
        assert_eq!(ms("1969-12-31T23:59:59.999"), Some(-1));
        assert_eq!(ms("2000-03-01T00:00:00.000"), Some(951_868_800_000));
        assert_eq!(ms("1900-03-01T00:00:00.000"), Some(-2_203_891_200_000));
    }

    #[test]
    fn what_is_no_datetime_is_refused() {
        for wrong in [
            "",
            "2024-02-29",
            "2023-02-29T00:00:00.000",
            "2024-13-01T00:00:00.000",
            "2024-00-01T00:00:00.000",
            "2024-01-32T00:00:00.000",
            "2024-01-01T24:00:00.000",
            "2024-01-01T00:60:00.000",
            "2024-01-01T00:00",
            "2024-01-01T00:00:00.0",
            "2024-01-01T00:00:00:00.000",
            "2024-01-01T00:00:00.000+",
            "2024-01-01T00:00:00.000+1",
            "2024-01-01T00:00:00.000ZZ",
            "2024-01-01 00:00:00.000",
            "24-01-01T00:00:00.000",
            "2024-01-01T00:00:00.000+é",
        ] {
            assert_eq!(parse_datetime(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn durations_are_taken_as_java_takes_them() {
        for (text, ms) in [
            ("PT1H", 3_600_000),
            ("P1D", 86_400_000),
            ("P1DT2H3M4.5S", 93_784_500),
            ("pt10m", 600_000),
            ("-PT1M", -60_000),
            ("PT-1M", -60_000),
            ("PT-0.5S", -500),
            ("PT0S", 0),
            ("+PT1,25S", 1_250),
        ] {
            assert_eq!(parse_duration(text), Some(ms), "{text}");
        }
        for wrong in ["", "P", "PT", "1H", "PT1", "P1H", "PT1D", "PT1S1M", "P1DT", "PTxH", "PT1.xS"]
        {
            assert_eq!(parse_duration(wrong), None, "{wrong}");
        }
        assert_eq!(parse_duration("P999999999999999999D"), None);
    }
}
