//! Output that cannot be written. The exit codes of each subcommand are in the sheet `exits`.

use std::{fs, process::Stdio};

use crate::support::cli::{self, Run};

/// Help and version are output like any other: a full disk is an error, and a closed pipe is none.
#[test]
fn output_that_cannot_be_written_is_reported() {
    for line in [
        "--help",
        "--version",
        "",
        "help",
        "infer --help",
        "serve --version",
        "serve --help",
        "completions bash",
        "doctor --output json",
        "key new",
        "man infer",
    ] {
        let full = fs::File::options().write(true).open("/dev/full").unwrap();
        let (reader, closed) = std::io::pipe().unwrap();
        drop(reader);
        for (stdout, expected) in [
            (
                Stdio::from(full),
                "exit 1\nerror: cannot write to standard output\n  caused by: No space left on device (os error 28)\n",
            ),
            (Stdio::from(closed), "exit 0\n"),
        ] {
            let mut command = cli::command();
            command.args(line.split_whitespace());
            command.stdout(stdout).stderr(Stdio::piped());
            let output = command.spawn().unwrap().wait_with_output().unwrap();
            let run = Run {
                code: output.status.code(),
                stdout: output.stdout,
                stderr: String::from_utf8(output.stderr).unwrap(),
            };
            assert_eq!(run.failure(), expected, "ovms {line}");
        }
    }
}
