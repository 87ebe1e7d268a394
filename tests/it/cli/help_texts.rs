//! Help of the program and of `ovms serve`, word for word.

use crate::support::cli::ovms;

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
      doctor       Diagnose the installation
      completions  Print a shell's completion script, or install it
      man          Show a page of the manual, or write all of them
      help         Print this message or the help of the given subcommand(s)

    Options:
      -h, --help     Print help
      -V, --version  Print version

    Output:
      -q, --quiet  Suppress progress and informational messages

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

          --model_path <PATH>
              Folder with the model's version folders or with one model, or a model file

          --demo[=<BOOL>]
              Serve the built-in example, a classifier of drawn shapes

              Needs no files. Ports default to 9000 (gRPC) and 8000 (REST).

          --batch_size <SIZE>
              Batch size: a number, a range such as 1:8, -1 for any, or auto for that of each request

              Ignored when --shape is given.

          --shape <SHAPE>
              Shape of the input, such as '(1,3,224,224)', '(1:8,3,-1,-1)' or auto; or a JSON object of
              shapes by input name

          --layout <LAYOUT>
              Layout of the input, such as NHWC, or NHWC:NCHW for requests in NHWC to a model in NCHW;
              or a JSON object of layouts by input and output name

          --mean <NUMBERS>
              Numbers to subtract from the input: 123.7, or one for each channel: '(123.7,116.8,103.9)'

              For models with one input; needs --layout.

          --scale <NUMBERS>
              Numbers to divide the input by: 58.4, or one for each channel: '(58.4,57.1,57.4)'

              For models with one input; needs --layout.

          --color_format <FORMAT>
              Colors of the model and of requests, such as RGB:BGR for requests in BGR to a model in RGB

              Of RGB, BGR, GRAY, NV12, NV12_2, I420, I420_3. For models with one input; needs --layout.

          --precision <TYPE>
              Element types of the model and of requests, such as fp32:uint8 for requests of bytes

              Of fp64, fp32, fp16, bf16, int8 to int64, uint1, uint8 to uint64. For models with one
              input; needs --layout.

          --model_version_policy <JSON>
              Versions to serve: '{"latest":{"num_versions":2}}', '{"specific":{"versions":[1,3]}}' or
              '{"all":{}}'

              [default: the latest one]

          --nireq <N>
              Number of infer requests: inferences that run in parallel; 0 lets the device choose

              [default: 0]

          --inference_timeout_ms <N>
              Timeout of an inference in milliseconds: the client gets an error, and a compiled model
              that does not end is replaced; 0 disables it

              [default: 0]

          --target_device <DEVICE>
              Device to run on, such as CPU, GPU, AUTO

              [default: CPU]

          --plugin_config <JSON>
              Device properties as a JSON object, such as '{"NUM_STREAMS":2}'

    Stateful model:
          --stateful[=<BOOL>]
              Keep the model's state between the requests of a sequence

          --idle_sequence_cleanup[=<BOOL>]
              Remove idle sequences; needs --stateful

              [default: true]

          --low_latency_transformation[=<BOOL>]
              Apply OpenVINO's low latency transformation; needs --stateful

              [default: false]

          --max_sequence_number <N>
              Maximum number of sequences; needs --stateful

              [default: 500]

          --drain_sequences_seconds <N>
              Seconds that sequences may continue when their version is reloaded or retired, or the
              server stops; needs --stateful

              [default: 0]

          --sequence_cleaner_poll_wait_minutes <N>
              Minutes between two scans for idle sequences; 0 disables them

              [default: 5]

    Configuration file:
          --config_path <FILE>
              JSON file with the models to serve, instead of --model_name and --model_path

          --file_system_poll_wait_seconds <N>
              Seconds between two checks of the file and of the version folders; 0 means only on POST
              /v1/config/reload

              [default: 1]

          --custom_node_resources_cleaner_interval_seconds <N>
              Seconds between two cleanups of custom node resources; 0 disables them

              [default: 300]

    Runtime:
          --cache_dir <DIR>
              Cache folder for compiled models, for a faster start; created if missing

              [default: /opt/cache if there is such a folder]

          --cpu_extension <FILE>
              Shared library with custom operations for the CPU

    Network:
          --port <PORT>
              gRPC port; 0 disables gRPC

              [default: 0]

          --rest_port <PORT>
              REST port; 0 disables REST

              [default: 0]

          --management_port <PORT>
              Port for health, metrics, and reload only; 0 disables it

              Serves the operator's part of the REST port over HTTP: health, readiness and model states,
              /metrics, /v1/config and /v1/config/reload, and the dashboard. Its connections are counted
              separately, so that probes are answered when the other ports are full. The REST port stays
              the same.

              [default: 0]

          --grpc_bind_address <LIST>
              Addresses or host names for gRPC, separated by commas

              [default: 0.0.0.0; with --demo 127.0.0.1]

          --rest_bind_address <LIST>
              Addresses or host names for REST, separated by commas

              [default: 0.0.0.0; with --demo 127.0.0.1]

          --management_bind_address <LIST>
              Addresses or host names for management, separated by commas

              [default: those of REST]

          --grpc_channel_arguments <LIST>
              gRPC channel arguments by their names in gRPC C++, such as
              grpc.max_concurrent_streams=100,grpc.max_connection_age_ms=60000; unsupported ones are
              logged

          --grpc_max_concurrent_streams <N>
              Maximum number of concurrent streams of a gRPC connection

              [default: 128]

          --no_dashboard[=<BOOL>]
              Disable the web dashboard

    Access:
          --allow_credentials[=<BOOL>]
              Allow cross-origin requests with credentials

          --allowed_origins <TEXT>
              Access-Control-Allow-Origin header of responses, except those of management; empty omits
              it

              [default: *]

          --allowed_methods <TEXT>
              Access-Control-Allow-Methods header of the same responses; empty omits it

              [default: *]

          --allowed_headers <TEXT>
              Access-Control-Allow-Headers header of the same responses; empty omits it

              [default: *]

          --allowed_hosts <LIST>
              Host names under which browsers may use management pages, separated by commas

              A * allows any, and 0.0.0.0 any numeric address. For browsers, /, /dashboard, /metrics,
              /v1/config, and all paths below them are restricted to these names and to pages of the
              server itself. Requests without Origin and Sec-Fetch-Site do not count as a browser's.

              [default: loopback names and the bound addresses]

          --api_key_file <FILE>
              File with the API key for /v3, in its first line

          --allowed_local_media_path <DIR>
              Folder of local files that requests to /v3 may refer to

              [default: none]

    Log:
          --log_level <LEVEL>
              Minimum level to log: TRACE, DEBUG, INFO, WARNING, ERROR

              [default: INFO]

          --log_path <FILE>
              Log file, in addition to stdout

          --log_format <FORMAT>
              Format of the log: text, or one JSON object per line

              [default: text]
              [possible values: text, json]

          --access_log <FILE>
              Access log file, one line per request; - is stdout

              [default: none]

    Metrics:
          --metrics_enable[=<BOOL>]
              Expose Prometheus metrics at /metrics of the REST port

          --metrics_list <LIST>
              Metric families to expose, separated by commas; needs --metrics_enable

              [default: the usual ones]

    Python nodes:
          --python_environment <DIR>
              Virtual environment with the packages of Python nodes

              [default: the active one]

          --hide_python_errors[=<BOOL>]
              Hide exceptions of Python nodes from clients; they are still logged

    Limits:
          --max_message_size <BYTES>
              Maximum size of a message or body in bytes, compressed and decompressed

              [default: 1073741824]

          --max_bytes_in_flight <BYTES>
              Maximum bytes of all requests and responses in flight, as received, decompressed, decoded
              and queued; further requests are rejected (RESOURCE_EXHAUSTED, 503)

              [default: a quarter of the memory]

          --max_connections <N>
              Maximum number of connections of each port; further ones wait, and idle ones are closed
              for them

              [default: 4096]

          --max_connections_per_address <N>
              Maximum number of connections from one address; further ones are closed; 0 means no limit

              A /64 network of IPv6 counts as one address. Clients behind a proxy share its address.

              [default: 0]

          --max_queued_requests <N>
              Maximum number of queued requests of a model; further ones are rejected (UNAVAILABLE, 503)

              [default: 1024]

          --max_custom_node_runs <N>
              Maximum number of concurrent runs of a custom node; further ones wait

              [default: 16]

          --custom_node_load_seconds <N>
              Timeout in seconds for loading the custom nodes of a pipeline

              [default: 300]

          --max_graph_runs <N>
              Maximum number of concurrent runs of a graph; further ones wait

              [default: 256]

          --graph_load_seconds <N>
              Timeout in seconds for loading a graph with its Python nodes

              [default: 300]

          --max_streams <N>
              Maximum number of open streams (ModelStreamInfer); further ones are rejected (UNAVAILABLE)

              [default: 4096]

          --max_python_runs <N>
              Maximum number of concurrent runs of Python nodes, sleeping ones included; further ones
              wait

              [default: 64]

          --max_image_pixels <N>
              Maximum number of pixels of an image, checked before it is decoded

              [default: 67108864]

          --recovery_interval_ms <N>
              Minimum milliseconds between two replacements of a compiled model after failed inferences

              [default: 1000]

          --hide_inference_errors[=<BOOL>]
              Hide the reasons of failed inferences from clients; they are still logged

          --max_string_elements <N>
              Maximum number of strings of an input

              [default: 1048576]

          --read_timeout_seconds <N>
              Timeout in seconds for the next bytes of a request

              [default: 60]

          --write_timeout_seconds <N>
              Timeout in seconds for a client to take 64 KiB of a response

              [default: 60]

          --idle_timeout_seconds <N>
              Timeout in seconds for idle connections; much shorter when the limit of connections is
              near

              [default: 900]

          --min_receive_rate <BYTES>
              Minimum rate of a request body in bytes per second, after the read timeout; 0 means no
              minimum

              [default: 1024]

          --loading_wait_seconds <N>
              Seconds that a request waits for a version that is loading

              [default: 10]

          --reload_wait_seconds <N>
              Seconds that the response to a reload waits for retired versions to be unloaded; 0 means
              it does not wait

              [default: 2]

          --shutdown_timeout_seconds <N>
              Seconds that requests in flight may take after SIGINT or SIGTERM; a second signal exits at
              once

              [default: 30]

    Instead of serving:
          --check[=<DEPTH>]
              Check flags, files, models, pipelines and graphs, then exit

              Loads everything that a server would, short of compiling: reads each model, queries each
              device for its properties, opens all custom node libraries, and imports all handlers. The
              fast form, --check=syntax, reads the flags, the configuration file and the graph files
              only. Needs no ports. Exits with 0, with 1 on errors, or with 2 if there are only warnings
              or something could not be checked.

          --list_models[=<BOOL>]
              List the models below --model_repository_path

          --add_to_config[=<BOOL>]
              Add --model_name with --model_path to the file of --config_path; created if missing

          --remove_from_config[=<BOOL>]
              Remove --model_name from the file of --config_path; comments are kept

          --model_repository_path <DIR>
              Folder with one folder per model

    Output:
      -q, --quiet
              Suppress progress and informational messages

          --output <FORMAT>
              Output format

              For the flags above: a server has its log there.

              Possible values:
              - table: Text for people
              - json:  The same as one JSON object

              [default: table]

    Checked, without effect (one thread for each core serves all connections):
          --grpc_workers <N>
              Number of gRPC servers, from 1 to the number of cores

              [default: 1]

          --grpc_max_threads <N>
              Most threads for gRPC; 0 means no cap

              [default: 8 for each core]

          --grpc_memory_quota <BYTES>
              Most bytes of buffers for gRPC; 0 means no quota

              [default: 2147483648]

          --rest_workers <N>
              Number of threads for REST, from 2 to 10000

              [default: one for each core]

    The model folder holds one folder for each version: /models/resnet/1/model.xml and model.bin. The
    highest version is served, unless --model_version_policy says otherwise. A folder that holds a model
    and no version folder, or a model file, is version 1.

    Environment: GRPC_SERVERS goes before --grpc_workers, API_KEY is used without --api_key_file, and
    OVMS_MODEL_REPOSITORY_PATH without --model_repository_path.

    Examples:
      ovms serve --demo
      ovms serve --model_name resnet --model_path /models/resnet --port 9000
      ovms serve --config_path /models/config.json --port 9000 --rest_port 8000
      ovms serve --check --config_path /models/config.json

    Exit codes: 0 stopped by SIGINT or SIGTERM, or what was asked for instead is done; 1 the start
    failed, or --check found errors; 2 --check found warnings only; 64 usage; 72 no OpenVINO runtime;
    130 stopped by a second signal.
    "#);
}
