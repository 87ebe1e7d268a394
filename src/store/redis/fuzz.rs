//! Fuzz target of what Redis answers.

use redis::parse_redis_value;

use super::{
    link::{ScriptAnswer, milliseconds, run_of},
    started, taken, wanted,
};

/// Returns at least how many elements the arrays, sets, and maps of an answer claim to have.
fn claimed(data: &[u8]) -> usize {
    let count = |line: &[u8]| {
        let (kind, number) = line.split_first()?;
        let number: usize = std::str::from_utf8(number).ok()?.parse().ok()?;
        match kind {
            b'*' | b'~' | b'>' => Some(number),
            b'%' | b'|' => Some(number.saturating_mul(2)),
            _ => None,
        }
    };
    let lines = data.split(|byte| *byte == b'\n');
    let lines = lines.map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    lines.filter_map(count).fold(0, usize::saturating_add)
}

/// An answer: that of each script, of the clock, of the run, and a message of another server.
pub(crate) fn answers(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    if let Some(key) = wanted(&text) {
        assert!(key.model.len() < text.len());
    }
    // It is refused, after its library has reserved room for what is claimed, up to a number of its own.
    if claimed(data) > data.len() {
        return;
    }
    let Ok(value) = parse_redis_value(data) else {
        return;
    };
    let _ = milliseconds(value.clone());
    if let Ok(run) = run_of(&value) {
        assert!(run.contains(' '));
    }
    let Ok(answer) = ScriptAnswer::of(value) else {
        return;
    };
    let _ = (started(&answer), taken(&answer));
    assert!(answer.word().len() <= data.len());
}
