//! `strftime` of a given time. There is no clock in this crate: the caller passes the time.

use crate::error::{Error, Result};

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const DAYS: [&str; 7] =
    ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

/// A local time without a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CivilTime {
    year: i32,
    month: u32,
    day: u32,
    hour: u32,
    minute: u32,
    second: u32,
}

impl CivilTime {
    /// Reads `2025-07-04T09:05:03`.
    pub fn parse(text: &str) -> Result<CivilTime> {
        let fail =
            || Error::invalid(format!("now: {text:?} is not a time like 2025-07-04T09:05:03"));
        let (date, time) = text.split_once('T').ok_or_else(fail)?;
        let numbers = |text: &str, separator: char| -> Result<[u32; 3]> {
            let parts: Vec<u32> = text
                .split(separator)
                .map(|part| part.parse().map_err(|_| fail()))
                .collect::<Result<_>>()?;
            parts.try_into().map_err(|_| fail())
        };
        let [year, month, day] = numbers(date, '-')?;
        let [hour, minute, second] = numbers(time, ':')?;
        let in_range = (1..=9999).contains(&year) && (1..=12).contains(&month);
        if !in_range || hour > 23 || minute > 59 || second > 60 {
            return Err(fail());
        }
        let time = CivilTime { year: year as i32, month, day, hour, minute, second };
        if !(1..=time.days_in_month(month)).contains(&day) {
            return Err(fail());
        }
        Ok(time)
    }

    fn days_in_month(&self, month: u32) -> u32 {
        match month {
            2 if self.year % 4 == 0 && (self.year % 100 != 0 || self.year % 400 == 0) => 29,
            2 => 28,
            4 | 6 | 9 | 11 => 30,
            _ => 31,
        }
    }

    /// 1 for the first of January.
    fn day_of_year(&self) -> u32 {
        (1..self.month).map(|m| self.days_in_month(m)).sum::<u32>() + self.day
    }

    /// 0 for Sunday.
    fn weekday(&self) -> u32 {
        let y = self.year as u32 - 1;
        (y * 365 + y / 4 - y / 100 + y / 400 + self.day_of_year()) % 7
    }

    /// `%-d` (no padding) is understood for every number, as the GNU C library does.
    pub fn format(&self, format: &str) -> Result<String> {
        let mut out = String::new();
        let mut chars = format.chars();
        while let Some(c) = chars.next() {
            if c != '%' {
                out.push(c);
                continue;
            }
            let mut directive = chars.next();
            let unpadded = directive == Some('-');
            if unpadded {
                directive = chars.next();
            }
            let piece = directive.and_then(|d| self.field(d)).ok_or_else(|| {
                Error::unsupported(format!(
                    "strftime_now: directive %{} in {format:?} is not supported",
                    directive.map(String::from).unwrap_or_default()
                ))
            })?;
            out.push_str(if unpadded { unpad(&piece) } else { &piece });
        }
        Ok(out)
    }

    fn field(&self, directive: char) -> Option<String> {
        let month = MONTHS[self.month as usize - 1];
        let day = DAYS[self.weekday() as usize];
        let hour12 = (self.hour + 11) % 12 + 1;
        Some(match directive {
            'a' => day[..3].to_string(),
            'A' => day.to_string(),
            'b' | 'h' => month[..3].to_string(),
            'B' => month.to_string(),
            'd' => format!("{:02}", self.day),
            'e' => format!("{:2}", self.day),
            'm' => format!("{:02}", self.month),
            'y' => format!("{:02}", self.year % 100),
            'Y' => self.year.to_string(),
            'H' => format!("{:02}", self.hour),
            'I' => format!("{hour12:02}"),
            'M' => format!("{:02}", self.minute),
            'S' => format!("{:02}", self.second),
            'f' => "000000".to_string(),
            'p' => if self.hour < 12 { "AM" } else { "PM" }.to_string(),
            'j' => format!("{:03}", self.day_of_year()),
            'u' => ((self.weekday() + 6) % 7 + 1).to_string(),
            'w' => self.weekday().to_string(),
            'F' => self.format("%Y-%m-%d").ok()?,
            'T' | 'X' => self.format("%H:%M:%S").ok()?,
            'D' | 'x' => self.format("%m/%d/%y").ok()?,
            'R' => self.format("%H:%M").ok()?,
            'c' => self.format("%a %b %e %H:%M:%S %Y").ok()?,
            // A time without a zone, as datetime.now() is.
            'z' | 'Z' => String::new(),
            'n' => "\n".to_string(),
            't' => "\t".to_string(),
            '%' => "%".to_string(),
            _ => return None,
        })
    }
}

fn unpad(piece: &str) -> &str {
    let stripped = piece.trim_start_matches(['0', ' ']);
    if stripped.is_empty() && !piece.is_empty() {
        &piece[piece.len() - 1..]
    } else {
        stripped
    }
}

#[cfg(test)]
mod tests {
    use super::CivilTime;

    #[test]
    fn fields_read_as_in_python() {
        let time = CivilTime::parse("2025-07-04T09:05:03").unwrap();
        for (format, text) in [
            ("%d %b %Y", "04 Jul 2025"),
            ("%B %d, %Y", "July 04, 2025"),
            ("%A %a %j %u %w", "Friday Fri 185 5 5"),
            ("%-d %-m %-H %I %p", "4 7 9 09 AM"),
            ("%F %T %y 100%%", "2025-07-04 09:05:03 25 100%"),
        ] {
            assert_eq!(time.format(format).unwrap(), text);
        }
        let leap = CivilTime::parse("2024-02-29T00:00:00").unwrap();
        assert_eq!(leap.format("%A %j %I %-S").unwrap(), "Thursday 060 12 0");
    }

    #[test]
    fn what_is_no_time_is_refused_and_named() {
        for text in ["", "2025-07-04", "2025-02-30T00:00:00", "2025-13-01T00:00:00", "xT00:00:00"] {
            let message = CivilTime::parse(text).unwrap_err().message;
            assert!(message.contains(&format!("{text:?}")), "{message}");
        }
        let time = CivilTime::parse("2025-07-04T09:05:03").unwrap();
        assert!(time.format("%Q").unwrap_err().message.contains("%Q"));
    }
}
