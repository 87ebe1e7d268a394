//! Levels of load, and shapes of inputs, as they are typed.

use std::str::FromStr;

/// Maximum number of levels.
const MAX_LEVELS: usize = 200;

/// Levels in the order in which they are measured; at least one.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Levels {
    pub(super) levels: Vec<f64>,
    /// Text that was typed.
    pub(super) typed: String,
}

/// Reason why a text is no levels.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub(super) enum LevelsError {
    #[error(
        "found `{0}`, expected a number above 0, such as 8, or a range, such as 1:64 or 1:64:2x"
    )]
    Form(String),
    #[error("the range `{0}` ends before it begins")]
    Backwards(String),
    #[error("found a step of {0}, which leads nowhere")]
    Step(String),
    #[error("found more than {MAX_LEVELS} levels")]
    Many,
}

impl FromStr for Levels {
    type Err = LevelsError;

    fn from_str(text: &str) -> Result<Self, LevelsError> {
        let mut levels = Vec::new();
        for part in text.split(',') {
            add(part.trim(), &mut levels)?;
            if levels.len() > MAX_LEVELS {
                return Err(LevelsError::Many);
            }
        }
        Ok(Self {
            levels,
            typed: text.to_owned(),
        })
    }
}

/// Adds a number or a range.
fn add(part: &str, levels: &mut Vec<f64>) -> Result<(), LevelsError> {
    let form = || LevelsError::Form(part.to_owned());
    let number = |text: &str| {
        let is_plain = text.bytes().all(|it| it.is_ascii_digit() || it == b'.');
        let number = text.parse().ok().filter(|_| is_plain);
        number.filter(|number| *number > 0.0).ok_or_else(form)
    };
    let mut fields = part.split(':');
    let (first, last, step) = (fields.next(), fields.next(), fields.next());
    if fields.next().is_some() {
        return Err(form());
    }
    let first: f64 = number(first.unwrap_or_default())?;
    let Some(last) = last else {
        levels.push(first);
        return Ok(());
    };
    let last = number(last)?;
    if last < first {
        return Err(LevelsError::Backwards(part.to_owned()));
    }
    let step = step.unwrap_or("2x");
    let factor = step.strip_suffix('x');
    let amount = number(factor.unwrap_or(step))?;
    if factor.is_some() && amount <= 1.0 {
        return Err(LevelsError::Step(step.to_owned()));
    }
    let mut level = first;
    // With room for what adding fractions loses.
    while level < last * (1.0 - 1e-9) {
        levels.push(level);
        if levels.len() > MAX_LEVELS {
            return Err(LevelsError::Many);
        }
        level = match factor {
            Some(_) => level * amount,
            None => level + amount,
        };
    }
    // The end is always measured.
    levels.push(last);
    Ok(())
}

impl Levels {
    /// Returns the levels as numbers of requests; `Err` has one that is none.
    pub(super) fn whole(&self) -> Result<Vec<usize>, f64> {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a small whole number above 0"
        )]
        let whole = |level: &f64| match level.fract() == 0.0 && *level <= f64::from(u16::MAX) {
            true => Ok(*level as usize),
            false => Err(*level),
        };
        self.levels.iter().map(whole).collect()
    }
}

/// Shape for the input of a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NamedShape {
    pub(super) name: String,
    pub(super) shape: Vec<usize>,
}

impl FromStr for NamedShape {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = || format!("found `{text}`, expected NAME:DIMS, such as image:1,3,224,224");
        // Names may have colons themselves.
        let (name, dims) = text.rsplit_once(':').ok_or_else(expected)?;
        let shape = dims.split(',').map(|length| length.trim().parse().ok());
        let shape: Option<Vec<usize>> = shape.collect();
        match shape {
            Some(shape) if !name.is_empty() => Ok(Self {
                name: name.to_owned(),
                shape,
            }),
            _ => Err(expected()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Levels, NamedShape};

    #[test]
    fn levels_are_numbers_ranges_and_lists() {
        for (text, expected) in [
            ("8", &[8.0][..]),
            ("1,4,16", &[1.0, 4.0, 16.0]),
            ("1:64", &[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0]),
            ("1:64:2x", &[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0]),
            // The end is measured, whether a step meets it or not.
            ("3:20", &[3.0, 6.0, 12.0, 20.0]),
            ("100:400:100", &[100.0, 200.0, 300.0, 400.0]),
            ("100:350:100", &[100.0, 200.0, 300.0, 350.0]),
            ("0.1:0.3:0.1", &[0.1, 0.2, 0.3]),
            ("1:100:10x", &[1.0, 10.0, 100.0]),
            ("1, 4:16:4x", &[1.0, 4.0, 16.0]),
            ("5:5", &[5.0]),
        ] {
            let Levels { levels, typed } = text.parse().unwrap();
            assert_eq!(typed, text);
            assert_eq!(levels.len(), expected.len(), "{text}: {levels:?}");
            for (level, expected) in levels.iter().zip(expected) {
                assert!((level - expected).abs() < 1e-9, "{text}: {levels:?}");
            }
        }
    }

    #[test]
    fn what_is_no_levels_is_refused() {
        for (text, expected) in [
            ("", "found ``"),
            ("0", "found `0`"),
            ("1:", "found `1:`"),
            ("1:2:3:4", "found `1:2:3:4`"),
            ("a", "found `a`"),
            ("1e3", "found `1e3`"),
            ("-1", "found `-1`"),
            ("inf", "found `inf`"),
            ("64:1", "the range `64:1` ends before it begins"),
            ("1:64:1x", "found a step of 1x, which leads nowhere"),
            ("1:64:0", "found `1:64:0`"),
            ("1:1000:1", "found more than 200 levels"),
            ("1:1000000:1.0000001x", "found more than 200 levels"),
        ] {
            let error = text.parse::<Levels>().unwrap_err().to_string();
            assert!(error.starts_with(expected), "{text}: {error}");
        }
        let fraction: Levels = "1,2.5".parse().unwrap();
        assert_eq!(fraction.whole(), Err(2.5));
        assert_eq!("1,2".parse::<Levels>().unwrap().whole(), Ok(vec![1, 2]));
    }

    #[test]
    fn shapes_have_the_name_of_an_input() {
        let shape: NamedShape = "a:0:1,3".parse().unwrap();
        assert_eq!(
            (shape.name.as_str(), &shape.shape[..]),
            ("a:0", &[1, 3][..])
        );
        for text in ["", "a", ":1", "a:", "a:1,b", "a:-1"] {
            let error = text.parse::<NamedShape>().unwrap_err();
            assert!(error.contains("expected NAME:DIMS"), "{text}");
        }
    }
}
