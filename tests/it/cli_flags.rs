//! `ovms serve` before it serves: which flags it takes, in what words it refuses them, and its
//! help.

use crate::support::cli::{self, ovms};

/// Runs `ovms serve` with flags that it must refuse; returns exit code and stderr.
fn refused(flags: &[&str]) -> String {
    let run = ovms([&["serve"], flags].concat());
    assert_eq!(run.text(), "", "nothing is served, nothing is logged");
    run.failure()
}

const DUMMY: [&str; 4] = ["--model_name", "dummy", "--model_path", "/nonexistent"];

#[test]
fn flags_are_checked_in_the_order_that_start_scripts_know() {
    // Each breaks one rule less than the one above it.
    let wrong = [
        "--port=70000",
        "--rest_port=70000",
        "--rest_bind_address=?",
        "--grpc_bind_address=?",
        "--log_level=info",
    ];
    let with = |flags: &[&str]| refused(&[&DUMMY, flags].concat());
    let answers = [
        refused(&wrong),
        refused(&[&wrong[..], &["--model_name=dummy"]].concat()),
        with(&wrong[2..]),
        with(&wrong),
        with(&[&["--port=9000"], &wrong[1..]].concat()),
        with(&[&["--port=9000", "--rest_port=9000"], &wrong[2..]].concat()),
        with(&[&["--port=9000", "--rest_port=9000"], &wrong[3..]].concat()),
        with(&[&["--port=9000", "--rest_port=9000"], &wrong[4..]].concat()),
        with(&["--port=9000", "--log_level=info"]),
    ]
    .concat();
    insta::assert_snapshot!(answers, @"
    exit 64
    Use config_path or model_path with model_name
    hint: give both --model_name and --model_path, or --demo for an example
    exit 64
    Use config_path or model_path with model_name
    hint: give both --model_name and --model_path, or --demo for an example
    exit 64
    port and rest_port cannot both be unset
    hint: give --port for gRPC, --rest_port for REST, or both
    exit 64
    port number out of range from 0 to 65535
    exit 64
    rest_port number out of range from 0 to 65535
    exit 64
    rest_bind_address has invalid format: proper hostname or IP address expected.
    exit 64
    grpc_bind_address has invalid format: proper hostname or IP address expected.
    exit 64
    port and rest_port cannot have the same values
    exit 64
    log_level should be one of: TRACE, DEBUG, INFO, WARNING, ERROR
    ");
}

#[test]
fn unmatched_arguments_are_listed_with_what_was_meant() {
    let answers = [
        refused(&["--modelname", "dummy", "--port=9000"]),
        refused(&["--port", "9000", "dummy", "--unknown=1", "-x"]),
        refused(&["--demo", "true"]),
    ]
    .join("\n");
    insta::assert_snapshot!(answers, @"
    exit 64
    error parsing options - unmatched arguments: --modelname, dummy, 
    hint: for `--modelname`, did you mean `--model_name`?
    hint: `ovms serve --help` lists the flags

    exit 64
    error parsing options - unmatched arguments: dummy, --unknown=1, -x, 
    hint: `ovms serve --help` lists the flags

    exit 64
    error parsing options - unmatched arguments: true, 
    hint: `ovms serve --help` lists the flags
    ");
}

#[test]
fn values_of_another_kind_are_refused() {
    let answers = [
        refused(&["--port", "abc"]),
        refused(&["--port", "-1"]),
        refused(&["--port"]),
        refused(&["--nireq=1.5"]),
        refused(&["--max_connections=0"]),
        refused(&["--read_timeout_seconds=0"]),
        refused(&["--demo=yes"]),
        refused(&["--demo", "--model_name=dummy"]),
        refused(&["--port=1", "--port=2"]),
    ]
    .join("\n");
    insta::assert_snapshot!(answers, @"
    exit 64
    error parsing options: invalid value 'abc' for '--port <PORT>': invalid digit found in string

    For more information, try '--help'.

    exit 64
    error parsing options: unexpected argument '-1' found

    Usage: ovms serve [OPTIONS]

    For more information, try '--help'.

    exit 64
    error parsing options: a value is required for '--port <PORT>' but none was supplied

    For more information, try '--help'.

    exit 64
    error parsing options: invalid value '1.5' for '--nireq <N>': invalid digit found in string

    For more information, try '--help'.

    exit 64
    error parsing options: invalid value '0' for '--max_connections <N>': expected at least 1

    For more information, try '--help'.

    exit 64
    error parsing options: invalid value '0' for '--read_timeout_seconds <N>': 0 is not in 1..18446744073709551615

    For more information, try '--help'.

    exit 64
    error parsing options: invalid value 'yes' for '--demo[=<BOOL>]'
      [possible values: true, false]

    For more information, try '--help'.

    exit 64
    error parsing options: the argument '--demo[=<BOOL>]' cannot be used with '--model_name <NAME>'

    Usage: ovms serve --demo[=<BOOL>]

    For more information, try '--help'.

    exit 64
    error parsing options: the argument '--port <PORT>' cannot be used multiple times

    Usage: ovms serve [OPTIONS]

    For more information, try '--help'.
    ");
}

#[test]
fn without_arguments_there_is_help() {
    let none = ovms([""; 0]);
    let help = ovms(["--help"]);
    assert_eq!((none.code, help.code), (Some(0), Some(0)));
    assert_eq!((none.text(), none.stderr.as_str()), (help.text(), ""));
    insta::assert_snapshot!(help.text(), @"
    OpenVINO Model Server: serve models, and work with them by hand

    Usage: ovms <COMMAND>

    Commands:
      serve  Serve a model over gRPC and REST
      infer  Send inference requests to a server
      setup  Find or install the OpenVINO runtime
      help   Print this message or the help of the given subcommand(s)

    Options:
      -h, --help     Print help
      -V, --version  Print version

    Arguments that begin with a server flag mean `serve`: `ovms --port 9000 …` is `ovms serve --port
    9000 …`.
    ");
}

#[test]
fn the_version_begins_with_the_product_name() {
    let run = ovms(["--version"]);
    assert_eq!(run.code, Some(0));
    assert_eq!(run.text(), format!("ovms {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn the_help_of_serve_tells_every_flag() {
    let run = ovms(["serve", "--help"]);
    assert_eq!((run.code, run.stderr.as_str()), (Some(0), ""));
    let help: String = run
        .text()
        .lines()
        .map(|line| format!("{}\n", line.trim_end()))
        .collect();
    insta::assert_snapshot!(help, @r#"
    Serve a model over gRPC and REST

    Usage: ovms serve [OPTIONS]

    Options:
      -h, --help
              Print help (see a summary with '-h')

      -V, --version
              Print version

    Model:
          --model_name <NAME>
              Name that clients use for the model

          --model_path <DIR>
              Folder with the model's version folders

          --demo[=<BOOL>]
              Serve the built-in example, a classifier of drawn shapes

              Needs no files. Ports default to 9000 (gRPC) and 8000 (REST).

          --nireq <N>
              Number of infer requests, which is how many inferences run at once; 0 lets the device
              choose

              [default: 0]

          --target_device <DEVICE>
              Device to run on, such as CPU, GPU, AUTO

              [default: CPU]

          --plugin_config <JSON>
              Device properties as a JSON object, such as '{"NUM_STREAMS":2}'

    Network:
          --port <PORT>
              Port for gRPC; 0 means no gRPC

              [default: 0]

          --rest_port <PORT>
              Port for REST; 0 means no REST

              [default: 0]

          --grpc_bind_address <LIST>
              Addresses or host names for gRPC, separated by commas

              [default: 0.0.0.0]

          --rest_bind_address <LIST>
              Addresses or host names for REST, separated by commas

              [default: 0.0.0.0]

    Log:
          --log_level <LEVEL>
              Least important messages to log: TRACE, DEBUG, INFO, WARNING, ERROR

              [default: INFO]

          --log_path <FILE>
              File to log to, besides stdout

    Limits:
          --max_message_size <BYTES>
              Largest message or body in bytes, as sent and as expanded

              [default: 1073741824]

          --max_connections <N>
              Connections open at once on each port; more wait to be accepted

              [default: 4096]

          --max_queued_requests <N>
              Requests of a model that may wait for an infer request; more are refused (UNAVAILABLE,
              503)

              [default: 1024]

          --read_timeout_seconds <N>
              Longest pause within a request that is being received

              [default: 60]

          --loading_wait_seconds <N>
              How long a request waits for a version that is loading

              [default: 10]

          --shutdown_timeout_seconds <N>
              How long requests under way may take after SIGINT or SIGTERM; a second signal ends at once

              [default: 30]

    Examples:
      ovms serve --demo
      ovms serve --model_name resnet --model_path /models/resnet --port 9000 --rest_port 8000

    The model folder holds one folder for each version: /models/resnet/1/model.xml and model.bin.
    The highest version is served.
    "#);
}

#[test]
fn a_closed_pipe_is_a_quiet_end() {
    use std::process::Stdio;
    let mut child = cli::command()
        .args(["serve", "--help"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}
