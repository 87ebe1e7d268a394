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
}

#[test]
fn unmatched_arguments_are_listed_with_what_was_meant() {
    let answers = [
        refused(&["--modelname", "dummy", "--port=9000"]),
        refused(&["--port", "9000", "dummy", "--unknown=1", "-x"]),
        refused(&["--demo", "true"]),
        refused(&["--stateful", "false", "--batchsize=1"]),
        refused(&["--mean=1", "--source_model=a"]),
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

    exit 64
    error parsing options - unmatched arguments: false, --batchsize=1, 
    hint: for `--batchsize=1`, did you mean `--batch_size`?
    hint: `ovms serve --help` lists the flags

    exit 64
    error parsing options - unmatched arguments: --mean=1, --source_model=a, 
    hint: `--source_model` is a flag of the C++ server that this release does not have
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
        refused(&["--stateful=1"]),
        refused(&["--max_sequence_number=4294967296"]),
        refused(&["--log_format=xml"]),
        refused(&["--access_log="]),
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
    error parsing options: invalid value '1' for '--stateful[=<BOOL>]'
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
    error parsing options: invalid value '' for '--access_log <FILE>': expected a file, or - for stdout

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

    Usage: ovms [OPTIONS] <COMMAND>

    Commands:
      serve        Serve models, pipelines and graphs over gRPC and REST
      infer        Send inference requests to a server, or ask what it serves
      pipeline     Write, draw, check and try pipelines
      graph        Write, draw, check and try graphs with Python nodes
      setup        Find or install the OpenVINO runtime
      doctor       Look for what keeps the server from working, and report it
      completions  Print a shell's completion script, or install it
      man          Show a page of the manual, or write all of them
      help         Print this message or the help of the given subcommand(s)

    Options:
      -h, --help     Print help
      -V, --version  Print version

    Output:
      -q, --quiet  Write neither notes nor progress to stderr; warnings and errors stay

    Arguments that begin with a server flag mean `serve`: `ovms --port 9000 …` is `ovms serve --port
    9000 …`.

    Examples:
      ovms setup
      ovms serve --demo
      ovms infer --status

    Exit codes: 0 done; 1 failed; 2 done with warnings; 64 usage; 69 the server cannot be reached; 70 a
    bug of ovms; 72 the OpenVINO runtime is missing; 130 Ctrl-C. Each subcommand's help says what they
    mean there.
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
    Serve models, pipelines and graphs over gRPC and REST

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

          --model_version_policy <JSON>
              Versions to serve: '{"latest":{"num_versions":2}}', '{"specific":{"versions":[1,3]}}' or
              '{"all":{}}' [default: the latest one]

          --batch_size <SIZE>
              Batch size: a number, a range such as 1:8, -1 for any, or auto for that of each request

              Ignored when --shape is given.

          --shape <SHAPE>
              Shape of the input, such as '(1,3,224,224)', '(1:8,3,-1,-1)' or auto; or a JSON object of
              shapes by input name

          --layout <LAYOUT>
              Layout of the input, such as NHWC, or NHWC:NCHW for requests in NHWC to a model in NCHW;
              or a JSON object of layouts by input and output name

          --nireq <N>
              Number of infer requests, which is how many inferences run at once; 0 lets the device
              choose

              [default: 0]

          --target_device <DEVICE>
              Device to run on, such as CPU, GPU, AUTO [default: CPU]

          --plugin_config <JSON>
              Device properties as a JSON object, such as '{"NUM_STREAMS":2}'

    Stateful model:
          --stateful[=<BOOL>]
              Keep the model's state from request to request of a sequence

          --idle_sequence_cleanup[=<BOOL>]
              Remove sequences that are not used; needs --stateful [default: true]

          --low_latency_transformation[=<BOOL>]
              Apply OpenVINO's low latency transformation; needs --stateful [default: false]

          --max_sequence_number <N>
              Most sequences at once; needs --stateful [default: 500]

          --drain_sequences_seconds <N>
              How long sequences may go on when their version is reloaded, retired, or the server stops;
              needs --stateful [default: 0]

          --sequence_cleaner_poll_wait_minutes <N>
              How often sequences that are not used are removed; 0 means never

              [default: 5]

    Configuration file:
          --config_path <FILE>
              JSON file with the models to serve, instead of --model_name and --model_path

          --file_system_poll_wait_seconds <N>
              How often the file and the version folders are looked at; 0 means only on POST
              /v1/config/reload

              [default: 1]

          --custom_node_resources_cleaner_interval_seconds <N>
              How often resources of custom nodes that are not used are removed; 0 means never

              [default: 300]

    Runtime:
          --cache_dir <DIR>
              Folder for compiled models, which makes the next start faster; made if it is not there
              [default: /opt/cache if there is such a folder]

          --cpu_extension <FILE>
              Shared library with more operations for the CPU

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

          --grpc_channel_arguments <LIST>
              Settings of gRPC connections by the names of the C++ server's library, as in
              grpc.max_concurrent_streams=100,grpc.max_connection_age_ms=60000; those without a
              counterpart are named in the log

    Access:
          --allow_credentials[=<BOOL>]
              Let browsers send credentials from other origins

          --allowed_origins <TEXT>
              Access-Control-Allow-Origin of every HTTP answer; an empty text leaves it out

              [default: *]

          --allowed_methods <TEXT>
              Access-Control-Allow-Methods of every HTTP answer; an empty text leaves it out

              [default: *]

          --allowed_headers <TEXT>
              Access-Control-Allow-Headers of every HTTP answer; an empty text leaves it out

              [default: *]

          --api_key_file <FILE>
              File whose first line is the key that clients of /v3 must send

          --allowed_local_media_path <DIR>
              Folder of local files that requests to /v3 may name [default: none]

    Log:
          --log_level <LEVEL>
              Least important messages to log: TRACE, DEBUG, INFO, WARNING, ERROR

              [default: INFO]

          --log_path <FILE>
              File to log to, besides stdout

          --log_format <FORMAT>
              Lines for people, or a JSON object a line

              [default: text]
              [possible values: text, json]

          --access_log <FILE>
              File for a line about each request; - for stdout [default: none]

    Metrics:
          --metrics_enable[=<BOOL>]
              Show metrics at /metrics of the REST port

          --metrics_list <LIST>
              Families to show, separated by commas; needs --metrics_enable [default: the usual ones]

    Python nodes:
          --python_environment <DIR>
              Virtual environment whose packages Python nodes see [default: the active one]

          --hide_python_errors
              Do not tell clients what a Python node has raised; the log has it

    Limits:
          --max_message_size <BYTES>
              Largest message or body in bytes, as sent and as expanded

              [default: 1073741824]

          --max_bytes_in_flight <BYTES>
              Bytes of the bodies of all requests under way; more requests are refused (UNAVAILABLE,
              503)

              [default: 4294967296]

          --max_connections <N>
              Connections open at once on each port; more wait to be accepted

              [default: 4096]

          --max_queued_requests <N>
              Requests of a model that may wait for an infer request; more are refused (UNAVAILABLE,
              503)

              [default: 1024]

          --max_custom_node_runs <N>
              Runs of one custom node at the same time; more wait

              [default: 16]

          --custom_node_load_seconds <N>
              How long the custom nodes of a pipeline may take until they are made and described

              [default: 300]

          --max_graph_runs <N>
              Runs of one graph at the same time; more wait

              [default: 256]

          --graph_load_seconds <N>
              How long a graph may take to load, its Python nodes with it

              [default: 300]

          --max_streams <N>
              Streams open at once (ModelStreamInfer); more are refused (UNAVAILABLE)

              [default: 4096]

          --max_python_runs <N>
              Runs of Python nodes at the same time, those that sleep or wait among them; more wait

              [default: 64]

          --max_image_pixels <N>
              Pixels of a picture in a request, which are known before it is decoded

              [default: 67108864]

          --read_timeout_seconds <N>
              Longest pause within a request that is being received

              [default: 60]

          --min_receive_rate <BYTES>
              Least bytes a second of a body, once the read timeout has been used up; 0 means any

              [default: 1024]

          --loading_wait_seconds <N>
              How long a request waits for a version that is loading

              [default: 10]

          --shutdown_timeout_seconds <N>
              How long requests under way may take after SIGINT or SIGTERM; a second signal ends at once

              [default: 30]

    Instead of serving:
          --check[=<BOOL>]
              Check flags, configuration file and model folders without serving

              Needs no ports and no runtime. Ends with 0, with 1 if there is a fault, or with 2 if there
              are only warnings.

          --list_models[=<BOOL>]
              List the models below --model_repository_path

          --add_to_config[=<BOOL>]
              Add --model_name with --model_path to the file of --config_path, which is made if it is
              not there

          --remove_from_config[=<BOOL>]
              Remove --model_name from the file of --config_path, whose comments stay

          --model_repository_path <DIR>
              Folder with a folder for each model

    Checked, without effect (one thread for each core serves all connections):
          --grpc_workers <N>
              Number of gRPC servers, from 1 to the number of cores

              [default: 1]

          --grpc_max_threads <N>
              Most threads for gRPC; 0 means no cap [default: 8 for each core]

          --grpc_memory_quota <BYTES>
              Most bytes of buffers for gRPC; 0 means no quota

              [default: 2147483648]

          --rest_workers <N>
              Number of threads for REST, from 2 to 10000 [default: one for each core]

    The model folder holds one folder for each version: /models/resnet/1/model.xml and model.bin. The
    highest version is served, unless --model_version_policy says otherwise.

    Environment: GRPC_SERVERS goes before --grpc_workers, API_KEY is used without --api_key_file, and
    OVMS_MODEL_REPOSITORY_PATH without --model_repository_path.

    Examples:
      ovms serve --demo
      ovms serve --model_name resnet --model_path /models/resnet --port 9000
      ovms serve --config_path /models/config.json --port 9000 --rest_port 8000
      ovms serve --check --config_path /models/config.json

    Exit codes: 0 stopped by SIGINT or SIGTERM, or what was asked for instead is done; 1 the start
    failed, or --check found faults; 2 --check found warnings only; 64 usage; 72 no OpenVINO runtime;
    130 stopped by a second signal.
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
