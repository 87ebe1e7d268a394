//! `ovms serve` before it serves: its flags, errors of invalid ones, and its help.

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
    hint: give --config_path, or both --model_name and --model_path, or --demo for an example
    exit 64
    Use config_path or model_path with model_name
    hint: give --config_path, or both --model_name and --model_path, or --demo for an example
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
fn every_rule_has_its_text() {
    let cores = std::thread::available_parallelism().unwrap();
    let file = ["--config_path=/nonexistent/config.json", "--port=9000"];
    let file = |flags: &[&str]| refused(&[&file[..], flags].concat());
    let dummy = |flags: &[&str]| refused(&[&DUMMY[..], flags].concat());
    let answers = [
        file(&["--model_name=a"]),
        file(&["--model_path=a"]),
        file(&["--batch_size=-1"]),
        file(&["--nireq=2"]),
        file(&["--plugin_config={}"]),
        dummy(&["--port=9000", "--grpc_workers=1000000"]),
        dummy(&["--port=9000", "--metrics_enable"]),
        dummy(&["--port=9000", "--metrics_list=a"]),
        dummy(&[
            "--rest_port=8000",
            "--metrics_enable=false",
            "--metrics_list=a",
        ]),
        dummy(&["--rest_port=8000", "--rest_workers=1"]),
        dummy(&["--port=9000", "--rest_workers=2"]),
        dummy(&["--port=9000", "--cpu_extension=/nonexistent/a.so"]),
        dummy(&["--port=9000", "--max_sequence_number=500"]),
        dummy(&["--port=9000", "--stateful=false", "--idle_sequence_cleanup"]),
        dummy(&["--port=9000", "--api_key_file=/nonexistent/key"]),
    ]
    .concat()
    .replace(&format!("count : {cores}"), "count : <cores>");
    insta::assert_snapshot!(answers, @"
    exit 64
    Use either config_path or model_path with model_name
    exit 64
    Use either config_path or model_path with model_name
    exit 64
    Model parameters in CLI are exclusive with the config file
    hint: write them into the file, at the model that they are for
    exit 64
    Model parameters in CLI are exclusive with the config file
    hint: write them into the file, at the model that they are for
    exit 64
    Model parameters in CLI are exclusive with the config file
    hint: write them into the file, at the model that they are for
    exit 64
    grpc_workers count should be from 1 to CPU core count : <cores>
    exit 64
    rest_port setting is missing, metrics are enabled on rest port
    exit 64
    metrics_enable setting is missing, required when metrics_list is provided
    exit 64
    metrics_enable setting is missing, required when metrics_list is provided
    exit 64
    rest_workers count should be from 2 to 10000
    exit 64
    rest_workers is set but rest_port is not set. rest_port is required to start rest servers
    exit 64
    File path provided as an --cpu_extension parameter does not exist in the filesystem: /nonexistent/a.so
    exit 64
    Setting low_latency_transformation, max_sequence_number and idle_sequence_cleanup require setting stateful flag for the model.
    hint: add --stateful; with --config_path, write both into the file, at the model that they are for
    exit 64
    Setting low_latency_transformation, max_sequence_number and idle_sequence_cleanup require setting stateful flag for the model.
    hint: add --stateful; with --config_path, write both into the file, at the model that they are for
    exit 64
    Unable to read API key file /nonexistent/key: No such file or directory (os error 2)
    ");
}

#[test]
fn preprocessing_needs_a_layout_and_forms_that_are_known() {
    let with = |flags: &[&str]| refused(&[&DUMMY, flags].concat());
    let reported = [
        with(&["--mean=1"]),
        with(&["--scale=(1,2)", "--precision=x"]),
        with(&["--color_format=RGB"]),
        with(&["--precision=fp32"]),
        with(&["--layout=NCHW", "--mean=(1,x)"]),
        with(&["--layout=NCHW", "--color_format=RGB:RGBA"]),
    ]
    .concat();
    insta::assert_snapshot!(reported, @"
    exit 64
    error parsing options - --mean parameter requires --layout to be set
    exit 64
    error parsing options - --scale parameter requires --layout to be set
    exit 64
    error parsing options - --color_format parameter requires --layout to be set
    exit 64
    error parsing options - --precision parameter requires --layout to be set
    exit 64
    error parsing options - The provided mean is in wrong format - found `(1,x)`; expected a number, or one for each channel, such as (123.7,116.8,103.9)
    exit 64
    error parsing options - The provided color_format is in wrong format - found `RGB:RGBA`; expected TARGET or TARGET:SOURCE of RGB, BGR, GRAY, NV12, NV12_2, I420, I420_3, where SOURCE is what clients send
    ");
}

#[test]
fn texts_that_describe_the_model_are_no_usage_errors() {
    let start = |flag: &str| {
        let run = ovms([&["serve", "--port=9000", flag], &DUMMY[..]].concat());
        assert!(run.text().contains("ERROR"), "{}", run.text());
        run.failure()
    };
    let answers = [
        start("--shape=[1,2]"),
        start("--layout=NN"),
        start("--model_version_policy={\"newest\":{}}"),
        start("--plugin_config=[]"),
        start("--grpc_channel_arguments=a"),
    ]
    .concat();
    insta::assert_snapshot!(answers, @"
    exit 1
    error: The provided shape is in wrong format - found `[1,2]`; expected auto, (d1,d2,…) with each d a number, -1 or a range such as 1:8, or a JSON object of those by input name
    exit 1
    error: The provided layout is in wrong format - found `NN`; expected letters N, C, H, W, D (each once), `?`, and `...` (once)
    exit 1
    error: Model version policy contains unsupported key - found the unknown key `newest`; expected one of latest, all, specific
    exit 1
    error: Plugin config is in wrong format - expected a JSON object of properties: invalid type: sequence, expected a map at line 1 column 0
    exit 1
    error: Grpc channel arguments passed in wrong format - a
    ");
}

#[test]
fn the_environment_stands_in_for_flags() {
    let run = cli::run(
        cli::command()
            .args(["serve", "--port=9000", "--grpc_workers=1"])
            .args(DUMMY)
            .env("GRPC_SERVERS", "1000000"),
    );
    assert!(
        run.failure()
            .starts_with("exit 64\ngrpc_workers count should be from 1 to CPU core count : "),
        "{}",
        run.stderr
    );
    let hint = "hint: the environment has GRPC_SERVERS=1000000, which goes before --grpc_workers;";
    assert!(run.stderr.contains(hint), "{}", run.stderr);
}

#[test]
fn unmatched_arguments_are_listed_with_what_was_meant() {
    let answers = [
        refused(&["--modelname", "dummy", "--port=9000"]),
        refused(&["--port", "9000", "dummy", "--unknown=1", "-x"]),
        refused(&["--demo", "true"]),
        refused(&["--stateful", "false", "--batchsize=1"]),
        refused(&["--max_num_seqs=1", "--source_model=a"]),
        refused(&["--model_name=", "--model_path=m", "--port=1"]),
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
    hint: write `--demo=true` in place of `--demo true`
    hint: `ovms serve --help` lists the flags

    exit 64
    error parsing options - unmatched arguments: false, --batchsize=1, 
    hint: write `--stateful=false` in place of `--stateful false`
    hint: for `--batchsize=1`, did you mean `--batch_size`?
    hint: `ovms serve --help` lists the flags

    exit 64
    error parsing options - unmatched arguments: --max_num_seqs=1, --source_model=a, 
    hint: `--max_num_seqs` is absent from this server on purpose: it is for graphs of large language models; docs/moving.md lists what is absent
    hint: `--source_model` is absent from this server on purpose: it is for downloading models; docs/moving.md lists what is absent
    hint: `ovms serve --help` lists the flags

    exit 64
    Use config_path or model_path with model_name
    hint: give --config_path, or both --model_name and --model_path, or --demo for an example
    ");
}

#[test]
fn of_a_flag_that_is_given_twice_the_last_value_counts() {
    let with = |flags: &[&str]| refused(&[&DUMMY, flags].concat());
    let reported = [
        with(&["--port=9000", "--port=70000"]),
        with(&["--port", "70000", "--port=9000", "--log_level=info"]),
        with(&[
            "--port=1",
            "--metrics_enable",
            "--metrics_enable=false",
            "--metrics_list=a",
        ]),
        with(&["--port=1", "--metrics_enable=false", "--metrics_enable"]),
    ]
    .concat();
    insta::assert_snapshot!(reported, @"
    exit 64
    port number out of range from 0 to 65535
    exit 64
    log_level should be one of: TRACE, DEBUG, INFO, WARNING, ERROR
    exit 64
    metrics_enable setting is missing, required when metrics_list is provided
    exit 64
    rest_port setting is missing, metrics are enabled on rest port
    ");
}

#[test]
fn booleans_have_the_spellings_of_the_other_server() {
    let reported = |flag: &str, value: &str| {
        let flag = format!("--{flag}={value}");
        refused(&[&DUMMY[..], &["--port=1", &flag, "--metrics_list=a"]].concat())
    };
    for yes in ["true", "True", "t", "T", "1"] {
        let enabled = reported("metrics_enable", yes);
        assert!(enabled.contains("metrics are enabled"), "{yes}: {enabled}");
    }
    for no in ["false", "False", "f", "F", "0"] {
        let disabled = reported("metrics_enable", no);
        assert!(
            disabled.contains("is missing, required"),
            "{no}: {disabled}"
        );
    }
    let help = cli::ovms(["serve", "--help"]).text();
    let flags = help
        .lines()
        .filter_map(|line| line.trim().strip_prefix("--"));
    let (booleans, others): (Vec<&str>, Vec<&str>) = flags
        .filter(|flag| !flag.contains(" <"))
        .partition(|flag| flag.ends_with("[=<BOOL>]"));
    assert_eq!(others, ["check[=<DEPTH>]"], "flags without a value");
    for flag in booleans.iter().chain(&["check"]) {
        let flag = flag.trim_end_matches("[=<BOOL>]");
        if ["demo", "list_models", "add_to_config", "remove_from_config"].contains(&flag) {
            continue;
        }
        let taken = reported(flag, "True");
        let missing = ["is missing, required", "metrics are enabled"];
        assert!(
            missing.iter().any(|text| taken.contains(text)),
            "{flag}: {taken}"
        );
    }
}

#[test]
fn a_flag_with_an_empty_text_is_not_given() {
    let with = |flags: &[&str]| refused(&[&DUMMY, flags].concat());
    let reported = [
        // Each would be refused for another reason if the empty text counted.
        with(&["--config_path=", "--port=70000"]),
        with(&["--log_level=", "--grpc_bind_address=", "--port=70000"]),
        with(&["--metrics_list=", "--access_log", "", "--port=70000"]),
        with(&["--model_path=", "--port=9000"]),
    ]
    .concat();
    insta::assert_snapshot!(reported, @"
    exit 64
    port number out of range from 0 to 65535
    exit 64
    port number out of range from 0 to 65535
    exit 64
    port number out of range from 0 to 65535
    exit 64
    Use config_path or model_path with model_name
    hint: give --config_path, or both --model_name and --model_path, or --demo for an example
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
        refused(&["--stateful=2"]),
        refused(&["--max_sequence_number=4294967296"]),
        refused(&["--log_format=xml"]),
        refused(&["--port="]),
        refused(&["--demo", "--model_name=dummy"]),
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
    error parsing options: invalid value '2' for '--stateful[=<BOOL>]'
      [possible values: true, false]

    For more information, try '--help'.

    exit 64
    error parsing options: invalid value '4294967296' for '--max_sequence_number <N>': 4294967296 is not in 0..=4294967295

    For more information, try '--help'.

    exit 64
    error parsing options: invalid value 'xml' for '--log_format <FORMAT>'
      [possible values: text, json]

    For more information, try '--help'.

    exit 64
    error parsing options: invalid value '' for '--port <PORT>': cannot parse integer from empty string

    For more information, try '--help'.

    exit 64
    error parsing options: the argument '--demo[=<BOOL>]' cannot be used with '--model_name <NAME>'

    Usage: ovms serve --demo[=<BOOL>]

    For more information, try '--help'.
    ");
}

#[test]
fn the_version_begins_with_the_product_name() {
    let run = ovms(["--version"]);
    assert_eq!(run.code, Some(0));
    assert_eq!(run.text(), format!("ovms {}\n", env!("CARGO_PKG_VERSION")));
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
