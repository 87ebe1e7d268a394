//! Sequences on the server, and the program with pipes as standard streams.

use std::{
    io::Write as _,
    process::{Child, Command, Stdio},
};

use serde_json::Value;

use super::{
    Server,
    cli::Run,
    infer::{GRPC, REST, TFS_GRPC, TFS_REST, command, infer},
};

/// Every API.
pub(crate) const ALL: [&str; 4] = [GRPC, REST, TFS_GRPC, TFS_REST];

/// Three steps for `running_total`, and their sum.
pub(crate) const STEPS: &str = "x=[[1,2,3,4],[10,20,30,40],[100,200,300,400]]";
pub(crate) const TOTALS: [f64; 12] = [
    1.0, 2.0, 3.0, 4.0, 11.0, 22.0, 33.0, 44.0, 111.0, 222.0, 333.0, 444.0,
];

/// Inputs of a single step.
pub(crate) const ONE: &str = "x=[1,2,3,4]";

/// Panics if the server has a sequence of this id.
pub(crate) fn is_gone(server: &Server, model: &str, id: &str) {
    let flags = [model, "--zeros", "--continue", "--sequence-id", id];
    let flags = if model == "running_fail" {
        [&flags[..], &["-i=split=[1]"]].concat()
    } else {
        flags.to_vec()
    };
    let run = infer(server, GRPC, &flags);
    let text = "NOT_FOUND: Sequence with provided ID does not exist";
    assert!(run.stderr.contains(text), "{id}: {}", run.stderr);
}

/// Returns the sequence id of a JSON response.
pub(crate) fn id_of(answer: &Value) -> String {
    answer["sequence_id"].as_u64().unwrap().to_string()
}

/// Starts a command with pipes as its standard streams.
pub(crate) fn spawn(command: &mut Command) -> Child {
    let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
    command.stderr(Stdio::piped()).spawn().unwrap()
}

/// Runs a command with a text as its standard input.
pub(crate) fn piped(server: &Server, api: &str, args: &[&str], text: &str) -> Run {
    let mut child = spawn(command(server, api).args(args));
    // It may end before it has read all of it.
    let _ = child.stdin.take().unwrap().write_all(text.as_bytes());
    ended(child)
}

/// Waits for the end of a command.
pub(crate) fn ended(child: Child) -> Run {
    let output = child.wait_with_output().unwrap();
    Run {
        code: output.status.code(),
        stdout: output.stdout,
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}
