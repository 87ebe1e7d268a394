//! Comparison of a command's output with that on the page.
//!
//! `…` stands for any text within a line, and alone in a line for any lines. Times, rates, and percentages
//! may differ. White space counts as one space, but in drawings.

const UNITS: [&str; 7] = ["ns", "µs", "us", "ms", "s", "min", "%"];

/// Returns the difference from the expected text; `None` if there is none.
pub(crate) fn differs(expected: &[String], got: &str) -> Option<String> {
    let got: Vec<&str> = got.trim_end().lines().map(str::trim_end).collect();
    let missing = first_missing(expected, &got)?;
    let missing = match expected.get(missing) {
        Some(line) => format!("not found: {line}"),
        None => "more was said than expected".to_owned(),
    };
    Some(format!(
        "{missing}\n--- expected\n{}\n--- got\n{}\n---",
        expected.join("\n"),
        got.join("\n")
    ))
}

/// Returns the first expected line that the text lacks; the number of lines if it has them all, and more.
fn first_missing(expected: &[String], got: &[&str]) -> Option<usize> {
    let (mut at, mut line) = (0, 0);
    let mut furthest = 0;
    // Where to go on if what follows the last `…` turns out not to fit: it takes one line more.
    let mut last_gap = None;
    while line < got.len() {
        if expected.get(at).is_some_and(|text| text.trim() == "…") {
            last_gap = Some((at, line));
            at += 1;
        } else if expected
            .get(at)
            .is_some_and(|text| is_same(text, got[line]))
        {
            at += 1;
            line += 1;
        } else if let Some((gap, taken)) = last_gap {
            last_gap = Some((gap, taken + 1));
            (at, line) = (gap + 1, taken + 1);
        } else {
            return Some(furthest.max(at));
        }
        furthest = furthest.max(at);
    }
    let rest_is_gaps = expected[at..].iter().all(|text| text.trim() == "…");
    (!rest_is_gaps).then_some(furthest.min(expected.len()))
}

/// Returns whether a line matches the expected one.
pub(crate) fn is_same(expected: &str, got: &str) -> bool {
    let is_drawn = expected.contains(|c| ('─'..='╿').contains(&c));
    let (expected, got) = if is_drawn {
        (expected.to_owned(), got.to_owned())
    } else {
        (plain(expected), plain(got))
    };
    let mut pieces = expected.split('…');
    let first = pieces.next().unwrap_or_default();
    let Some(mut rest) = got.strip_prefix(first) else {
        return false;
    };
    let Some(last) = pieces.next_back() else {
        return rest.is_empty();
    };
    for piece in pieces {
        match rest.find(piece) {
            Some(at) => rest = &rest[at + piece.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

/// Returns a line with one space for white space, and without measured numbers.
fn plain(line: &str) -> String {
    let words: Vec<&str> = line.split_whitespace().collect();
    let mut plain: Vec<String> = Vec::new();
    for (index, word) in words.iter().enumerate() {
        let next = words.get(index + 1).copied().unwrap_or_default();
        plain.push(match number(word) {
            Some("") if is_unit(next) => "0".to_owned(),
            Some(unit) if is_unit(unit) => format!("0{}", ending(unit)),
            None if is_unit(word) && plain.last().is_some_and(|last| last == "0") => {
                format!("s{}", ending(word))
            }
            _ => (*word).to_owned(),
        });
    }
    plain.join(" ")
}

/// Returns the rest of a word after its leading number.
fn number(word: &str) -> Option<&str> {
    let word = word.trim_start_matches('(');
    if let Some(unit) = word.strip_prefix('…') {
        return Some(unit);
    }
    let unit = word.trim_start_matches(|c: char| c.is_ascii_digit() || ".,".contains(c));
    let is_number = word.starts_with(|c: char| c.is_ascii_digit());
    is_number.then_some(unit)
}

fn is_unit(word: &str) -> bool {
    let word = word.trim_end_matches(|c: char| ".,;:)".contains(c));
    UNITS.contains(&word) || word.ends_with("/s")
}

/// Returns the punctuation at the end of a word.
fn ending(word: &str) -> &str {
    &word[word.trim_end_matches(|c: char| ".,;:)".contains(c)).len()..]
}
