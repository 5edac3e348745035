//! Times as people write them: `500ms`, `10s`, `1h 30m`. Exact to the nanosecond, both ways.
//!
//! The crate `humantime` takes `M` for a month beside `m` for a minute, a slip that nobody would be
//! told of, and writes 90 days as months, days, hours, minutes and seconds.

use std::time::Duration;

use serde::de::{Error, Unexpected};
use serde::{Deserialize, Deserializer, Serializer};

/// Reads a sum of whole numbers with units, largest first or not, with spaces or without.
pub(crate) fn parse(text: &str) -> Option<Duration> {
    let mut rest = text.trim_start();
    let mut nanos = 0u128;
    while !rest.is_empty() {
        let (number, after) = rest.split_at(digits(rest));
        let end = after.find(|c: char| !c.is_ascii_alphabetic());
        let (unit, after) = after.split_at(end.unwrap_or(after.len()));
        let (_, length) = UNITS.iter().find(|(name, _)| *name == unit)?;
        let number = u128::from(number.parse::<u64>().ok()?);
        nanos = nanos.checked_add(number.checked_mul(*length)?)?;
        rest = after.trim_start();
    }
    let seconds = u64::try_from(nanos / SECOND).ok()?;
    let nanos = u32::try_from(nanos % SECOND).ok()?;
    (!text.trim().is_empty()).then(|| Duration::new(seconds, nanos))
}

/// Writes what [`parse`] reads.
pub(crate) fn text(period: Duration) -> String {
    let mut rest = period.as_nanos();
    let mut text = String::new();
    for (unit, length) in UNITS {
        let number = rest / length;
        if number > 0 {
            let gap = if text.is_empty() { "" } else { " " };
            text += &format!("{gap}{number}{unit}");
            rest %= length;
        }
    }
    if text.is_empty() {
        text.push_str("0s");
    }
    text
}

pub(crate) fn serialize<S: Serializer>(
    period: &Duration,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&text(*period))
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Duration, D::Error> {
    let written = String::deserialize(d)?;
    parse(&written).ok_or_else(|| D::Error::invalid_value(Unexpected::Str(&written), &EXPECTED))
}

/// Times longer than zero.
pub(crate) mod positive {
    use super::*;

    pub(crate) use super::serialize;

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Duration, D::Error> {
        let period = super::deserialize(d)?;
        if period.is_zero() {
            let written = text(period);
            let expected = "a time longer than zero";
            return Err(D::Error::invalid_value(
                Unexpected::Str(&written),
                &expected,
            ));
        }
        Ok(period)
    }
}

/// Times that need not be there.
pub(crate) mod maybe {
    use super::*;

    pub(crate) fn serialize<S: Serializer>(
        period: &Option<Duration>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match period {
            Some(period) => super::serialize(period, serializer),
            None => serializer.serialize_none(),
        }
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        d: D,
    ) -> Result<Option<Duration>, D::Error> {
        super::deserialize(d).map(Some)
    }
}

fn digits(text: &str) -> usize {
    text.find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len())
}

const SECOND: u128 = 1_000_000_000;

const UNITS: [(&str, u128); 7] = [
    ("d", 24 * 3600 * SECOND),
    ("h", 3600 * SECOND),
    ("m", 60 * SECOND),
    ("s", SECOND),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("ns", 1),
];

const EXPECTED: &str = "whole numbers with units (d, h, m, s, ms, us, ns), such as \"1m 30s\"";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read() {
        for (text, expected) in [
            ("0s", Duration::ZERO),
            ("500ms", Duration::from_millis(500)),
            ("10s", Duration::from_secs(10)),
            ("1m30s", Duration::from_secs(90)),
            (" 30s 1m ", Duration::from_secs(90)),
            ("1d 2h 3m 4s 5ms 6us 7ns", Duration::new(93_784, 5_006_007)),
            ("18446744073709551615s", Duration::from_secs(u64::MAX)),
        ] {
            assert_eq!(parse(text), Some(expected), "{text}");
        }
    }

    #[test]
    fn what_is_no_time_is_refused() {
        for text in [
            "",
            " ",
            "10",
            "s",
            "1.5s",
            "-1s",
            "1 s",
            "1M",
            "1s,",
            "1µs",
            "18446744073709551616s",
            "18446744073709551615s 1s",
            "99999999999999999999d",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn times_are_written_and_read_back() {
        for (period, expected) in [
            (Duration::ZERO, "0s"),
            (Duration::from_millis(1500), "1s 500ms"),
            (Duration::from_secs(86_400 + 60), "1d 1m"),
            (Duration::from_nanos(1), "1ns"),
        ] {
            assert_eq!(text(period), expected);
        }
        for period in [Duration::MAX, Duration::new(123_456_789, 987_654_321)] {
            assert_eq!(parse(&text(period)), Some(period));
        }
    }
}
