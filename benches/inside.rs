//! Rows measured in a child process: this program again.

use std::{
    ffi::OsStr,
    process::{Command, Stdio},
};

use crate::report::row::Row;

/// Starts this program with arguments, and returns the rows that it measures.
pub(crate) fn rows(args: &[&OsStr]) -> Vec<Row> {
    let output = Command::new(std::env::current_exe().expect("a program has a path"))
        .arg("--inner")
        .args(args)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .expect("the program starts again");
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).expect("it says text");
    let line = text.lines().last().expect("it says something");
    serde_json::from_str(line).expect("as it was written")
}

/// Writes rows to the parent process.
pub(crate) fn say(rows: &[Row]) {
    let line = serde_json::to_string(rows).expect("plain numbers and texts");
    println!("{line}");
}
