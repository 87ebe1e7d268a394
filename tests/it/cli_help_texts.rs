//! The help of the program and of `ovms serve`, word for word.

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

          --model_version_policy <JSON>
              Versions to serve: '{"latest":{"num_versions":2}}', '{"specific":{"versions":[1,3]}}' or
              '{"all":{}}'

              [default: the latest one]

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

          --nireq <N>
              Number of infer requests, which is how many inferences run at once; 0 lets the device
              choose

              [default: 0]

          --inference_timeout_ms <N>
              Longest time of an inference in milliseconds; its client is answered then, and what does
              not end is replaced; 0 means any time

              [default: 0]

          --target_device <DEVICE>
              Device to run on, such as CPU, GPU, AUTO

              [default: CPU]

          --plugin_config <JSON>
              Device properties as a JSON object, such as '{"NUM_STREAMS":2}'

    Stateful model:
          --stateful[=<BOOL>]
              Keep the model's state from request to request of a sequence

          --idle_sequence_cleanup[=<BOOL>]
              Remove sequences that are not used; needs --stateful

              [default: true]

          --low_latency_transformation[=<BOOL>]
              Apply OpenVINO's low latency transformation; needs --stateful

              [default: false]

          --max_sequence_number <N>
              Most sequences at once; needs --stateful

              [default: 500]

          --drain_sequences_seconds <N>
              How long sequences may go on when their version is reloaded, retired, or the server stops;
              needs --stateful

              [default: 0]

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

          --management_port <PORT>
              Port for health, metrics, and reload alone; 0 means none

              It serves over HTTP what the REST port has for those who run the server: health, readiness
              and states of models, /metrics, /v1/config and /v1/config/reload, and the page at /. Its
              connections are counted apart: probes are answered when all those of the other ports are
              taken. What the REST port serves stays the same.

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
              Settings of gRPC connections by the names of the C++ server's library, as in
              grpc.max_concurrent_streams=100,grpc.max_connection_age_ms=60000; those without a
              counterpart are named in the log

          --grpc_max_concurrent_streams <N>
              Calls that one gRPC connection may have open at once

              [default: 128]

          --no_dashboard[=<BOOL>]
              Leave out the page at / of the REST port, which shows browsers what is served and how it
              does

    Access:
          --allow_credentials[=<BOOL>]
              Let browsers send credentials from other origins

          --allowed_origins <TEXT>
              Access-Control-Allow-Origin of HTTP answers but those of management; an empty text leaves
              it out

              [default: *]

          --allowed_methods <TEXT>
              Access-Control-Allow-Methods of the same answers; an empty text leaves it out

              [default: *]

          --allowed_headers <TEXT>
              Access-Control-Allow-Headers of the same answers; an empty text leaves it out

              [default: *]

          --allowed_hosts <LIST>
              Hosts, separated by commas, that browsers may manage

              A * means any, and 0.0.0.0 any numeric address. Under these names alone, and only for
              pages of the server's own, browsers may use /, /dashboard, /metrics, /v1/config, and what
              is below. Requests without Origin and Sec-Fetch-Site are not those of browsers.

              [default: loopback names and the bound addresses]

          --api_key_file <FILE>
              File whose first line is the key that clients of /v3 must send

          --allowed_local_media_path <DIR>
              Folder of local files that requests to /v3 may name

              [default: none]

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
              File for a line about each request; - for stdout

              [default: none]

    Metrics:
          --metrics_enable[=<BOOL>]
              Show metrics at /metrics of the REST port

          --metrics_list <LIST>
              Families to show, separated by commas; needs --metrics_enable

              [default: the usual ones]

    Python nodes:
          --python_environment <DIR>
              Virtual environment whose packages Python nodes see

              [default: the active one]

          --hide_python_errors[=<BOOL>]
              Do not tell clients what a Python node has raised; the log has it

    Limits:
          --max_message_size <BYTES>
              Largest message or body in bytes, as sent and as expanded

              [default: 1073741824]

          --max_bytes_in_flight <BYTES>
              Bytes of all requests and answers under way, as received, expanded, decoded and queued;
              more requests are refused (RESOURCE_EXHAUSTED, 503)

              [default: a quarter of the memory]

          --max_connections <N>
              Connections open at once on each port; more wait, and idle ones are closed for them

              [default: 4096]

          --max_connections_per_address <N>
              Connections open at once from one address; more are closed; 0 means any

              An IPv6 network of 64 bits counts as one address. Clients behind one proxy have one
              address as well.

              [default: 0]

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

          --recovery_interval_ms <N>
              Least time in milliseconds between two replacements of a compiled model after failed
              inferences

              [default: 1000]

          --hide_inference_errors[=<BOOL>]
              Do not tell clients why an inference failed; the log has it

          --max_string_elements <N>
              Strings of one input of a request, each of which takes far more memory than its bytes

              [default: 1048576]

          --read_timeout_seconds <N>
              Longest pause within a request that is being received

              [default: 60]

          --write_timeout_seconds <N>
              Longest time a client may take for 64 KiB of an answer

              [default: 60]

          --idle_timeout_seconds <N>
              Longest time a connection may have no request; much shorter when places run out

              [default: 900]

          --min_receive_rate <BYTES>
              Least bytes a second of a body, once the read timeout has been used up; 0 means any

              [default: 1024]

          --loading_wait_seconds <N>
              How long a request waits for a version that is loading

              [default: 10]

          --reload_wait_seconds <N>
              How long the answer of a reload waits for versions that it has retired; 0 means not at all

              [default: 2]

          --shutdown_timeout_seconds <N>
              How long requests under way may take after SIGINT or SIGTERM; a second signal ends at once

              [default: 30]

    Instead of serving:
          --check[=<DEPTH>]
              Check flags, files, models, pipelines and graphs, and serve nothing

              Loads what a server would, short of compiling: reads each model, asks each device for its
              properties, opens all libraries of custom nodes, and imports all handlers. --check=syntax
              is the fast form: it reads the flags, the configuration file and the graph files, and
              opens nothing that they name. Needs no ports. Exits with 0, with 1 if there is an error,
              or with 2 if there are only warnings, or something could not be checked.

          --list_models[=<BOOL>]
              List the models below --model_repository_path

          --add_to_config[=<BOOL>]
              Add --model_name with --model_path to the file of --config_path, which is made if it is
              not there

          --remove_from_config[=<BOOL>]
              Remove --model_name from the file of --config_path, whose comments stay

          --model_repository_path <DIR>
              Folder with a folder for each model

    Output:
      -q, --quiet
              Write neither notes nor progress to stderr; warnings and errors stay

          --output <FORMAT>
              Choose what goes to stdout

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
    failed, or --check found faults; 2 --check found warnings only; 64 usage; 72 no OpenVINO runtime;
    130 stopped by a second signal.
    "#);
}
