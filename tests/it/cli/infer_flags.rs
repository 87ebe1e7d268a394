//! Command line of `ovms infer`: its help, and flags that are refused before anything is sent.

use crate::support::{
    Server,
    cli::ovms,
    infer::{APIS, GRPC, REST, failures},
};

#[test]
fn the_help_explains_every_flag() {
    let help = ovms(["infer", "--help"]);
    assert_eq!(help.failure(), "exit 0\n");
    let text = help.text();
    let lines: Vec<_> = text.lines().map(str::trim_end).collect();
    insta::assert_snapshot!(lines.join("\n"), @r#"
    Send inference requests to a server, or ask what it serves

    Usage: ovms infer [OPTIONS] <MODEL>
           ovms infer [OPTIONS] <--status|--metadata> [MODEL]

    Arguments:
      [MODEL]
              Name of the model; optional with --status or --metadata

    Options:
      -h, --help
              Print help (see a summary with '-h')

      -V, --version
              Print version

    Instead of a request:
          --status
              Show the versions of the model and their states

              Without MODEL, those of all models of the server.

          --metadata
              Show the inputs and outputs of the model

              Without MODEL, those of all models of the server. -1 is a dynamic dimension.

          --print-curl
              Print the request as a curl command (grpcurl over gRPC) instead of sending it

              The command is quoted for a shell. Elements are written one by one, unless --raw or
              --binary is given or their datatype has no such form. The server is queried for datatypes
              and shapes only, and not at all if each input has its own. A sequence gives one command
              per step. Also works with --status and --metadata.

          --show-secrets
              Show credentials in the output of --print-curl

              By default, the values of headers with credentials are shown as `***`.

    Inputs:
      -i, --input <[NAME[:DTYPE[:SHAPE]]=]VALUE>
              Input value: JSON, @FILE, or - for standard input

              Datatype and shape default to the model's. Can be repeated.

          --zeros
              Fill all other inputs with zeros

              Dynamic dimensions become 1.

          --random
              Fill all other inputs with random values

              Floating-point values are in [0, 1), integers from 0 to 100. Dynamic dimensions become 1.

          --seed <N>
              Seed of the random values

    Images:
          --layout <LAYOUT>
              Layout of images: NCHW, NHWC, CHW or HWC

              Defaults to that of the model's shape: the dimension of size 3 or 1 is the channels.

          --mean <A,B,C>
              Mean to subtract from the values, which are 0 to 255: one number, or one per channel

          --scale <A,B,C>
              Scale to divide the values by after that: one number, or one per channel

          --bgr
              Send channels as BGR; means and scales follow this order

    Request:
          --model-version <N>
              Version of the model

              [default: the server's choice]

          --output-name <NAME>
              Request only this output

              Can be repeated; outputs are shown in this order.

          --id <TEXT>
              Request id, which the response repeats (KServe only)

          --param <KEY=VALUE>
              Send a request parameter

              KServe only. `true` and `false` are booleans and whole numbers are integers; anything
              else, and anything in double quotes, is a string. Can be repeated.

              [alias: --parameter]

          --raw
              Send tensors as raw bytes over gRPC (default)

          --typed
              Send tensors in typed fields over gRPC

          --binary
              Send and ask for tensors as bytes over kserve-rest (default)

          --json-data
              Send and ask for tensors as JSON over REST (over tfs-rest always so)

    Output:
      -q, --quiet
              Suppress progress and informational messages

          --output <FORMAT>
              Output format

              Possible values:
              - table: A table of outputs, scores, latencies or models
              - json:  The same as one JSON object; `null` stands for what is not a finite number, and
                `not_finite` tells what it is
              - npy:   The output as the bytes of a .npy file
              - raw:   The output's bytes, little endian

              [default: table]

          --save <DIR>
              Save each output as a .npy file in this folder

              Created if missing. BF16, which NumPy lacks, becomes FP32.

          --top <K>
              Show the K highest scores of the last axis of the output

          --labels <FILE>
              File with the label of each score, one per line

    Sequences of requests to a stateful model:
          --sequence
              Send the inputs step by step as one sequence: start, steps, end

              An array or list with as many dimensions as the model's input is cut into steps in which
              the axis is 1 long; one with a dimension more into steps without the axis. What has the
              model's own shape, or one step, goes with every step. The outputs of all steps are shown
              as one: put together along the axis if the steps have it and the output has it with length
              1, else stacked along a new one.

              With `-i -`, or `-i NAME=-`, each line of standard input is a step: an object of inputs by
              name, or the value of one input. A line is sent as soon as it is there. The requests have
              no end without a step, so at the end of the input the last one is sent again to end the
              sequence; its answer is not shown.

              The sequence is also ended when a step fails, and at Ctrl-C; a second Ctrl-C leaves at
              once.

          --axis <K>
              Cut the inputs along this axis, counted from 0

              [default: 0]

          --each
              Show the outputs of each step as they come, a line for each step

              With `--output json` each line is one object.

          --sequence-id <ID>
              Id of the sequence

              Required by `--continue` and `--end`. Responses have it as `sequence_id`.

              [default: a random one]

          --start
              Send one request that starts a sequence

              With `--end`, a sequence of one request (KServe only).

          --continue
              Send one request of a sequence that was started

          --end
              Send the last request of a sequence

    Streams of requests (kserve-grpc only):
          --stream
              Send requests over one stream, and show responses as they arrive

              The inputs are one request, and all its answers are shown until the server ends the
              stream. Inputs may be left out; a graph has what it gets.

              With `--axis`, each part of the arrays along the axis is a request. With `-i -`, `-i
              NAME=-` or `--requests`, each line is a request, sent as soon as it is there: an object of
              inputs by name, or the value of one input. Beside the inputs, or beside `inputs`, which
              holds them by name or as REST requests do, `timestamp`, `parameters` and `id` are the
              request's own.

              With `--output json` each answer is one object in a line, and so is each error, as
              `{"error": "…"}`. Errors that do not end the stream show in the exit code at the end.
              `--timeout` is for how long nothing may come once all is sent. Ctrl-C cancels the stream.

          --requests <FILE>
              File with one request per line; - is standard input

          --timestamp <N>
              Timestamp of the first request; the next ones have N + 1, N + 2, …

              Without it the server gives them. A `timestamp` in a line goes first, and the next request
              has the one after it.

    Load:
          --repeat <N>
              Send the request N times and measure latencies

          --duration <TIME>
              Send the request repeatedly for this long, such as 10s, and measure latencies

              With --repeat, whichever ends first.

          --concurrency <C>
              Number of concurrent requests

              [default: 1]

          --warmup <N>
              Number of warm-up requests, which are not measured

    Server:
          --url <HOST:PORT>
              Address of the server

              [default: localhost:9000, or localhost:8000 over REST]

              [env: OVMS_URL]

          --api <PROTOCOL>
              Protocol to use

              Possible values:
              - kserve-grpc: KServe v2 over gRPC
              - kserve-rest: KServe v2 over REST
              - tfs-grpc:    TensorFlow Serving over gRPC
              - tfs-rest:    TensorFlow Serving over REST

              [env: OVMS_API]
              [default: kserve-grpc]

          --timeout <TIME>
              Timeout of the connection and of each request

              [env: OVMS_TIMEOUT]
              [default: 30s]

          --header <KEY=VALUE>
              HTTP header or gRPC metadata to send with each request

              Can be repeated. The environment variable has one per line.

              [env: OVMS_HEADER]

    Values of inputs:
      [1, 2.5]        JSON: a number, true, false, a string, or lists of them; a
                      flat list takes the model's shape, and a text that is no
                      list is a string as it is
      @file.npy       an array of NumPy, of the model's datatype
      @file.npz       the array of the input's name; without NAME=, every array is
                      an input
      @file.png|jpg   an image, resized and laid out as the model takes it
      @file.json      JSON; without NAME=, an object of inputs by name is taken
                      apart
      @file.txt       a string as it is, or numbers with blanks or commas between
                      them
      @file.bin       the bytes of the tensor, little endian
      -               JSON from standard input, an answer of --output json, a .npy
                      file or an image
      -:OUTPUT        this output of that answer; also @file.json:OUTPUT and
                      @file.npz:ARRAY
      @-.bin          standard input as a file of this kind
      (nothing)       what --zeros or --random give: x::8,10= is a random x of
                      shape 8,10

    NAME may be left out for a model with one input. DTYPE is BOOL, INT8 to INT64, UINT8 to UINT64,
    FP16, BF16, FP32, FP64 or BYTES, and stands in for the model's: arrays are converted to it, and
    images as BYTES are sent as they are, for the server to decode.

    Examples:
      ovms infer resnet -i @cat.png --scale 255 --top 5 --labels imagenet.txt
      ovms infer resnet -i x:FP32=@batch.npy --output npy > scores.npy
      ovms infer adder -i a='[1, 2]' -i b='[3, 4]' --output json
      ovms infer a -i @page.png --output json | ovms infer b -i crops=-:boxes
      ovms infer resnet --random --duration 10s --concurrency 16
      ovms infer vad -i frames=@frames.npy --sequence --output npy > speech.npy
      id=$(ovms infer vad -i @first.npy --start --output json | jq .sequence_id)
      ovms infer generator -i prompt='once upon' --stream
      ovms infer --status
      ovms infer resnet --metadata --output json
      ovms infer adder --zeros --api kserve-rest --print-curl | sh

    Exit codes: 0 done; 1 refused by the server, or failed; 64 usage; 69 the server cannot be reached;
    130 Ctrl-C.
    "#);
}

#[test]
fn flags_that_make_no_sense_are_refused() {
    let texts: Vec<_> = [
        &["infer"][..],
        &["infer", "dummy", "--zros"],
        &["infer", "dummy", "more"],
        &["infer", "dummy", "--zeros", "--random"],
        &["infer", "dummy", "--seed=1"],
        &["infer", "dummy", "--random", "--seed=-1"],
        &["infer", "dummy", "--raw", "--typed"],
        &["infer", "dummy", "--api=grpc"],
        &["infer", "dummy", "--output=csv"],
        &["infer", "dummy", "--timeout=5"],
        &["infer", "dummy", "--model-version=0"],
        &["infer", "dummy", "--param=priority"],
        &["infer", "dummy", "--id"],
    ]
    .iter()
    .map(|args| ovms(*args).failure())
    .collect();
    insta::assert_snapshot!(texts.join("\n"), @"
    exit 64
    error parsing options: the following required arguments were not provided:
      <MODEL>

    Usage: ovms infer [OPTIONS] <MODEL>
           ovms infer [OPTIONS] <--status|--metadata> [MODEL]

    For more information, try '--help'.

    exit 64
    error parsing options: unexpected argument '--zros' found

      tip: a similar argument exists: '--zeros'

    Usage: ovms infer [OPTIONS] <MODEL>
           ovms infer [OPTIONS] <--status|--metadata> [MODEL]

    For more information, try '--help'.

    exit 64
    error parsing options: unexpected argument 'more' found

    Usage: ovms infer [OPTIONS] <MODEL>
           ovms infer [OPTIONS] <--status|--metadata> [MODEL]

    For more information, try '--help'.

    exit 64
    error parsing options: the argument '--zeros' cannot be used with '--random'

    Usage: ovms infer [OPTIONS] <MODEL>
           ovms infer [OPTIONS] <--status|--metadata> [MODEL]

    For more information, try '--help'.

    exit 64
    error parsing options: the following required arguments were not provided:
      --random

    Usage: ovms infer [OPTIONS] <MODEL>
           ovms infer [OPTIONS] <--status|--metadata> [MODEL]

    For more information, try '--help'.

    exit 64
    error parsing options: invalid value '-1' for '--seed <N>': invalid digit found in string

    For more information, try '--help'.

    exit 64
    error parsing options: the argument '--raw' cannot be used with '--typed'

    Usage: ovms infer [OPTIONS] <MODEL>
           ovms infer [OPTIONS] <--status|--metadata> [MODEL]

    For more information, try '--help'.

    exit 64
    error parsing options: invalid value 'grpc' for '--api <PROTOCOL>'
      [possible values: kserve-grpc, kserve-rest, tfs-grpc, tfs-rest]

    For more information, try '--help'.

    exit 64
    error parsing options: invalid value 'csv' for '--output <FORMAT>'
      [possible values: table, json, npy, raw]

    For more information, try '--help'.

    exit 64
    error parsing options: invalid value '5' for '--timeout <TIME>': found `5`, expected a number with a unit, such as 500ms or 10s

    For more information, try '--help'.

    exit 64
    error parsing options: invalid value '0' for '--model-version <N>': 0 is not in 1..18446744073709551615

    For more information, try '--help'.

    exit 64
    error parsing options: invalid value 'priority' for '--param <KEY=VALUE>': found `priority`, expected KEY=VALUE

    For more information, try '--help'.

    exit 64
    error parsing options: a value is required for '--id <TEXT>' but none was supplied

    For more information, try '--help'.
    ");
}

#[test]
fn flags_of_a_load_that_make_no_sense_are_refused() {
    let server = Server::start("dummy");
    insta::assert_snapshot!(failures(&server, GRPC, &[
        &["dummy", "--zeros", "--repeat=0"],
        &["dummy", "--zeros", "--repeat=many"],
        &["dummy", "--zeros", "--duration=300"],
        &["dummy", "--zeros", "--concurrency=2"],
        &["dummy", "--zeros", "--repeat=2", "--concurrency=0"],
        &["dummy", "--zeros", "--warmup=2"],
        &["dummy", "--zeros", "--repeat=2", "--top=1"],
        &["dummy", "--zeros", "--repeat=2", "--save=folder"],
        &["dummy", "--zeros", "--repeat=2", "--output=raw"],
    ]), @"
    exit 64
    error parsing options: invalid value '0' for '--repeat <N>': 0 is not in 1..18446744073709551615

    For more information, try '--help'.

    exit 64
    error parsing options: invalid value 'many' for '--repeat <N>': invalid digit found in string

    For more information, try '--help'.

    exit 64
    error parsing options: invalid value '300' for '--duration <TIME>': found `300`, expected a number with a unit, such as 500ms or 10s

    For more information, try '--help'.

    exit 64
    error parsing options: the following required arguments were not provided:
      <--repeat <N>|--duration <TIME>>

    Usage: ovms infer [OPTIONS] <MODEL>
           ovms infer [OPTIONS] <--status|--metadata> [MODEL]

    For more information, try '--help'.

    exit 64
    error parsing options: invalid value '0' for '--concurrency <C>': 0 is not in 1..=65535

    For more information, try '--help'.

    exit 64
    error parsing options: the following required arguments were not provided:
      <--repeat <N>|--duration <TIME>>

    Usage: ovms infer [OPTIONS] <MODEL>
           ovms infer [OPTIONS] <--status|--metadata> [MODEL]

    For more information, try '--help'.

    exit 64
    error parsing options: the argument '--repeat <N>' cannot be used with '--top <K>'

    Usage: ovms infer [OPTIONS] <MODEL>
           ovms infer [OPTIONS] <--status|--metadata> [MODEL]

    For more information, try '--help'.

    exit 64
    error parsing options: the argument '--repeat <N>' cannot be used with '--save <DIR>'

    Usage: ovms infer [OPTIONS] <MODEL>
           ovms infer [OPTIONS] <--status|--metadata> [MODEL]

    For more information, try '--help'.

    exit 64
    error: a measurement has no form as `--output npy` or `--output raw`
    hint: use `--output table` or `--output json`
    ");
}

#[test]
fn a_form_of_the_other_protocol_is_refused() {
    let server = Server::shared("dummy");
    let texts = [
        failures(server, GRPC, &[&["dummy", "--zeros", "--binary"]]),
        failures(server, GRPC, &[&["dummy", "--zeros", "--json-data"]]),
        failures(server, REST, &[&["dummy", "--zeros", "--raw"]]),
        failures(server, REST, &[&["dummy", "--zeros", "--typed"]]),
    ];
    insta::assert_snapshot!(texts.join("\n"), @"
    exit 64
    error: `--binary` does not fit `--api kserve-grpc`
    hint: over kserve-grpc it is `--raw`

    exit 64
    error: `--json-data` does not fit `--api kserve-grpc`
    hint: over kserve-grpc it is `--typed`

    exit 64
    error: `--raw` does not fit `--api kserve-rest`
    hint: over kserve-rest it is `--binary`

    exit 64
    error: `--typed` does not fit `--api kserve-rest`
    hint: over kserve-rest it is `--json-data`
    ");
}

#[test]
fn headers_that_cannot_be_sent_are_refused() {
    let server = Server::shared("dummy");
    for api in APIS {
        let texts = failures(
            server,
            api,
            &[
                &["dummy", "--header", "x-one"],
                &["dummy", "--header", "=1"],
                &["dummy", "--header", "x one=1"],
                &["dummy", "--header", "x-one=a\nb"],
                &["dummy", "--header", "x-one=a\nx-two=b"],
                &["dummy", "--header", "content-length=1"],
            ],
        );
        insta::allow_duplicates! {
            insta::assert_snapshot!(texts, @"
            exit 64
            error parsing options: invalid value for '--header <KEY=VALUE>' or OVMS_HEADER: expected KEY=VALUE
            hint: the value is not shown, since it may be a secret

            exit 64
            error parsing options: invalid value for '--header <KEY=VALUE>' or OVMS_HEADER: expected KEY=VALUE
            hint: the value is not shown, since it may be a secret

            exit 64
            error: cannot write the request
              caused by: a header has a name that cannot be sent
            hint: write --header KEY=VALUE, with letters, digits and `-` in the key; neither is shown here, since it may be a secret

            exit 64
            error: cannot write the request
              caused by: the header `x-one` cannot be sent
            hint: the protocol sets it itself, or it has characters that headers do not have

            exit 64
            error: cannot write the request
              caused by: the header `x-one` cannot be sent
            hint: the protocol sets it itself, or it has characters that headers do not have

            exit 64
            error: cannot write the request
              caused by: the header `content-length` cannot be sent
            hint: the protocol sets it itself, or it has characters that headers do not have
            ");
        }
    }
}

#[test]
fn an_address_of_another_form_is_refused() {
    let texts: Vec<_> = [
        "https://localhost:9000",
        "localhost:port",
        "localhost:0",
        "localhost:9000/v2",
        ":9000",
        "a b",
    ]
    .iter()
    .map(|url| ovms(["infer", "dummy", "--url", url]).failure())
    .collect();
    insta::assert_snapshot!(texts.join("\n"), @"
    exit 64
    error: cannot use the address `https://localhost:9000`
      caused by: found the scheme `https`, expected `http` or `grpc`, or none
    hint: requests are not encrypted: go through a tunnel (`ssh -L 8000:localhost:8000 HOST`) and ask localhost:8000

    exit 64
    error: cannot use the address `localhost:port`
      caused by: found the port `port`, expected a number from 1 to 65535

    exit 64
    error: cannot use the address `localhost:0`
      caused by: found the port `0`, expected a number from 1 to 65535

    exit 64
    error: cannot use the address `localhost:9000/v2`
      caused by: found `/v2` after the host and port, expected nothing
    hint: leave it out: each API has paths of its own

    exit 64
    error: cannot use the address `:9000`
      caused by: found the host ``, expected a name or an IP address

    exit 64
    error: cannot use the address `a b`
      caused by: found the host `a b`, expected a name or an IP address
    ");
    let run = ovms([
        "infer",
        "dummy",
        "--api=kserve-rest",
        "--url=grpc://localhost",
    ]);
    insta::assert_snapshot!(run.failure(), @"
    exit 64
    error: cannot use the address `grpc://localhost`
      caused by: found the scheme `grpc`, which does not fit the API kserve-rest
    hint: leave `grpc://` out, or `--api`
    ");
}
