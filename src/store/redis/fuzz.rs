//! Fuzz target of what Redis answers.

use redis::parse_redis_value;

use super::{
    link::{ScriptAnswer, milliseconds, run_of},
    started, taken, wanted,
};

/// An answer: that of each script, of the clock, of the run, and a message of another server.
pub(crate) fn answers(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    if let Some(key) = wanted(&text) {
        assert!(key.model.len() < text.len());
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
