//! Fuzz target of what Redis answers.

use redis::parse_redis_value;

use super::{
    counted, epochs,
    link::{ScriptAnswer, milliseconds, run_of},
    listed, started, taken, wanted,
};

/// Returns at least how many elements the arrays, sets, and maps of an answer claim to have.
fn claimed(data: &[u8]) -> usize {
    let (mut sum, mut end) = (0_usize, None);
    // Wherever one may begin; its number goes to the end of the line, with any white space around it.
    for (at, byte) in data.iter().enumerate().rev() {
        if data[at..].starts_with(b"\r\n") {
            end = Some(at);
        }
        let times = match byte {
            b'*' | b'~' | b'>' => 1,
            b'%' | b'|' => 2,
            _ => continue,
        };
        let line = end.and_then(|end| std::str::from_utf8(&data[at + 1..end]).ok());
        let number = line.and_then(|line| line.trim().parse::<usize>().ok());
        sum = sum.saturating_add(number.unwrap_or(0).saturating_mul(times));
    }
    sum
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
    let _ = (started(&answer), taken(&answer), counted(&answer));
    assert!(listed(&answer).is_none_or(|all| all.len() < data.len()));
    assert!(epochs(&answer).is_none_or(|all| all.len() < data.len()));
    assert!(answer.word().len() <= data.len());
}
