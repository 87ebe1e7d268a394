//! Sizes in bytes, as flags and files write them: a number, with a unit or without.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// A number of bytes. As a text it may have a unit of 1024s behind it, such as `64M`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(try_from = "ByteText")]
pub struct ByteSize(pub usize);

/// The two forms of a number of bytes in a file.
#[derive(Deserialize)]
#[serde(untagged)]
pub(crate) enum ByteText {
    Number(u64),
    Text(String),
}

/// A text that is no number of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ByteSizeError {
    /// Text of another form.
    #[error(
        "expected a number of bytes: a whole number from 0, alone or with the unit K, M, or G (powers of 1024), such as 64M"
    )]
    Form,
    /// Number beyond the address space.
    #[error(
        "expected a number of bytes of at most {}, which is the maximum of this machine",
        usize::MAX
    )]
    TooLarge,
}

impl ByteSize {
    /// The units, with the powers of two that they stand for.
    const UNITS: [(char, u32); 3] = [('K', 10), ('M', 20), ('G', 30)];

    /// Returns the number.
    pub fn get(self) -> usize {
        self.0
    }
}

impl FromStr for ByteSize {
    type Err = ByteSizeError;

    fn from_str(text: &str) -> Result<Self, ByteSizeError> {
        let unit = Self::UNITS.into_iter().find_map(|(name, shift)| {
            let digits = text.strip_suffix(name)?;
            Some((digits, shift))
        });
        let (digits, shift) = unit.unwrap_or((text, 0));
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(ByteSizeError::Form);
        }
        let number: Option<usize> = digits.parse().ok();
        let bytes = number.and_then(|number| number.checked_mul(1 << shift));
        bytes.map(Self).ok_or(ByteSizeError::TooLarge)
    }
}

impl TryFrom<ByteText> for ByteSize {
    type Error = ByteSizeError;

    fn try_from(text: ByteText) -> Result<Self, ByteSizeError> {
        match text {
            ByteText::Number(number) => usize::try_from(number)
                .map(Self)
                .map_err(|_| ByteSizeError::TooLarge),
            ByteText::Text(text) => text.parse(),
        }
    }
}

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::{ByteSize, ByteSizeError};

    #[test]
    fn units_are_powers_of_1024() {
        for (text, bytes) in [
            ("0", 0),
            ("0G", 0),
            ("1000000", 1_000_000),
            ("007", 7),
            ("64K", 64 << 10),
            ("64M", 64 << 20),
            ("2G", 2 << 30),
            ("18446744073709551615", usize::MAX),
        ] {
            assert_eq!(text.parse(), Ok(ByteSize(bytes)), "{text}");
        }
    }

    #[test]
    fn nonsense_is_refused() {
        for text in [
            "", "K", "12X", "1T", "1.5G", "64 M", "64m", "64MB", "-1", "+1", "-1M", "1KK", "0x10",
        ] {
            assert_eq!(text.parse::<ByteSize>(), Err(ByteSizeError::Form), "{text}");
        }
        for text in ["18446744073709551616", "17179869184G"] {
            assert_eq!(
                text.parse::<ByteSize>(),
                Err(ByteSizeError::TooLarge),
                "{text}"
            );
        }
    }

    #[test]
    fn files_have_numbers_or_texts() {
        let read = |json: &str| serde_json::from_str::<ByteSize>(json);
        assert_eq!(read("65536").unwrap(), read("\"64K\"").unwrap());
        assert_eq!(
            serde_json::to_string(&read("\"64K\"").unwrap()).unwrap(),
            "65536"
        );
        assert!(read("\"64X\"").is_err() && read("-1").is_err() && read("1.5").is_err());
    }
}
