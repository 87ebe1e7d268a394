//! `ovms infer` over TensorFlow Serving's APIs: requests, loads, queries, and their errors.

use serde_json::{Value, json};

use crate::support::{
    Server,
    cli::{self, Run},
    dtypes,
    infer::{
        APIS, GRPC, TFS_APIS, TFS_GRPC, TFS_REST, at, data, failures, infer, json as json_of, port,
        redacted,
    },
    relay::Relay,
    repository,
};

const NUMBERS: &str = "[0,1,2,3,4,5,6,7,8,9]";

/// Runs a command that succeeds through a relay; returns the bytes on the wire.
fn sent(server: &Server, api: &str, args: &[&str]) -> Vec<u8> {
    let relay = Relay::to(port(server, api));
    let run = cli::run(at(relay.port, api).args(args));
    assert_eq!(run.code, Some(0), "{args:?}: {}", run.stderr);
    relay.sent()
}

fn has(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

#[test]
fn a_request_is_answered_with_a_table() {
    let _redacted = redacted();
    let server = Server::shared("dummy");
    for api in TFS_APIS {
        let run = infer(server, api, &["dummy", "-i", NUMBERS]);
        insta::allow_duplicates! {
            insta::assert_snapshot!(run.failure(), @"
            exit 0
            Model `dummy` answered in <time> ms.
            ");
            insta::assert_snapshot!(run.text(), @"
            output  datatype  shape   min  mean  max  values
            a       FP32      (1,10)    1   5.5   10  1, 2, 3, 4, 5, 6, …
            ");
        }
    }
}

#[test]
fn a_request_is_answered_with_json() {
    let server = Server::shared("dummy");
    for api in TFS_APIS {
        let run = infer(server, api, &["dummy", "-i", NUMBERS, "--output", "json"]);
        assert_eq!(run.failure(), "exit 0\n");
        insta::allow_duplicates! {
            insta::assert_snapshot!(run.text(), @r#"{"model_name":"dummy","model_version":"","id":"","outputs":[{"name":"a","datatype":"FP32","shape":[1,10],"data":[1.0,2.0,3.0,4.0,5.0,6.0,7.0,8.0,9.0,10.0]}]}"#);
        }
    }
}

#[test]
fn a_version_is_asked_for_by_its_number() {
    let server = Server::shared("dummy");
    let flags = ["dummy", "--zeros", "--model-version", "1"];
    for api in TFS_APIS {
        assert_eq!(json_of(server, api, &flags)["model_version"], "1", "{api}");
    }
    let requests = String::from_utf8_lossy(&sent(server, TFS_REST, &flags)).into_owned();
    for path in [
        "GET /v1/models/dummy/versions/1/metadata ",
        "POST /v1/models/dummy/versions/1:predict ",
    ] {
        assert!(requests.contains(path), "{path} is not in {requests}");
    }
}

#[test]
fn elements_travel_in_the_form_asked_for() {
    let server = Server::shared("passthrough_i32");
    let elements = [7_i32, -8, 9];
    let raw: Vec<u8> = elements.iter().flat_map(|it| it.to_le_bytes()).collect();
    let value = ["passthrough_i32", "-i", "[[7,-8,9]]"];
    for (api, flags, is_raw) in [
        (TFS_GRPC, &[][..], true),
        (TFS_GRPC, &["--raw"], true),
        (TFS_GRPC, &["--typed"], false),
        (TFS_REST, &[], false),
        (TFS_REST, &["--json-data"], false),
    ] {
        let args = [&value[..], flags].concat();
        let bytes = sent(server, api, &args);
        assert_eq!(has(&bytes, &raw), is_raw, "{api} {flags:?}");
        assert_eq!(data(server, api, &args), json!(elements));
        let is_json = has(&bytes, br#"{"inputs":{"in":[[7,-8,9]]}}"#);
        assert_eq!(is_json, api == TFS_REST, "{flags:?}");
    }
}

/// Every datatype arrives as it was sent, in each form that it has.
#[test]
fn every_datatype_travels_in_every_form() {
    let folder = repository::folder();
    let file = folder.path().join("in.bin");
    let from_file = format!("in::1,{}=@{}", dtypes::ELEMENTS, file.display());
    for row in dtypes::rows() {
        let server = Server::start(row.model);
        std::fs::write(&file, &row.raw).unwrap();
        for (api, form) in [
            (TFS_GRPC, "--raw"),
            (TFS_GRPC, "--typed"),
            (TFS_REST, "--json-data"),
        ] {
            let args = [row.model, "-i", &from_file, form, "--output", "raw"];
            let raw = infer(&server, api, &args);
            assert_eq!(raw.failure(), "exit 0\n", "{args:?}");
            assert_eq!(raw.stdout, row.raw, "{args:?}");
        }
    }
}

/// As they do over KServe.
#[test]
fn strings_travel_as_bytes() {
    let server = Server::shared("passthrough_string");
    for api in TFS_APIS.into_iter().chain(APIS) {
        let args = ["passthrough_string", "-i", r#"["two\nlines","é"]"#];
        let answer = json_of(server, api, &args);
        let output = &answer["outputs"][0];
        assert_eq!(output["datatype"], "BYTES", "{api}");
        assert_eq!(output["data"], json!(["two\nlines", "é"]), "{api}");
    }
    let args = ["passthrough_string", "-i", r#"["é"]"#];
    assert!(has(&sent(server, TFS_REST, &args), br#"[{"b64":"w6k="}]"#));
}

/// Rows of bytes that the server makes of texts, and texts of them.
#[test]
fn texts_travel_for_the_server_to_take_apart() {
    let server = Server::shared("text");
    for api in TFS_APIS.into_iter().chain(APIS) {
        let answer = json_of(server, api, &["text", "-i", r#"text:BYTES=["ab","c"]"#]);
        let output = &answer["outputs"][0];
        assert_eq!(output["datatype"], "BYTES", "{api}");
        assert_eq!(output["data"], json!(["ab", "c"]), "{api}");
    }
}

#[test]
fn images_travel_for_the_server_to_decode() {
    let server = Server::shared("image_fixed");
    let image = concat!(env!("WORKSPACE_ROOT"), "/fixtures/images/star.png");
    let input = format!("image:BYTES=@{image}");
    let decoded = |api| {
        let answer = json_of(server, api, &["image_fixed", "-i", &input]);
        let output = answer["outputs"][0].clone();
        assert_eq!(output["shape"], json!([1, 4, 6, 3]), "{api}");
        output["data"].clone()
    };
    let expected = decoded(GRPC);
    for api in TFS_APIS {
        assert_eq!(decoded(api), expected, "{api}");
    }
}

#[test]
fn a_scalar_is_a_bare_number() {
    let server = Server::shared("scalar");
    for api in TFS_APIS {
        let answer = json_of(server, api, &["scalar", "-i", "3"]);
        assert_eq!(answer["outputs"][0]["shape"], json!([]), "{answer}");
        assert_eq!(answer["outputs"][0]["data"].as_array().unwrap().len(), 1);
    }
    assert!(has(
        &sent(server, TFS_REST, &["scalar", "-i", "3"]),
        b":3.0}}"
    ));
}

#[test]
fn outputs_come_in_the_order_asked_for() {
    let server = Server::shared("two_outputs");
    for api in TFS_APIS {
        for names in [&["total", "twice"][..], &["twice", "total"], &["twice"]] {
            let mut args = vec!["two_outputs", "-i", "[[1,2,3,4]]"];
            for name in names {
                args.extend(["--output-name", name]);
            }
            let answer = json_of(server, api, &args);
            let came: Vec<_> = answer["outputs"]
                .as_array()
                .unwrap()
                .iter()
                .map(|output| output["name"].as_str().unwrap())
                .collect();
            assert_eq!(came, names, "{api}");
        }
        let all = json_of(server, api, &["two_outputs", "-i", "[[1,2,3,4]]"]);
        assert_eq!(all["outputs"][0]["data"], json!([10.0]), "{api}");
        assert_eq!(
            all["outputs"][1]["data"],
            json!([2.0, 4.0, 6.0, 8.0]),
            "{api}"
        );
    }
}

#[test]
fn a_load_is_measured() {
    let server = Server::start("dummy");
    for api in TFS_APIS {
        let flags = [
            "dummy",
            "--random",
            "--repeat=100",
            "--concurrency=20",
            "--warmup=3",
        ];
        let report = json_of(&server, api, &flags);
        assert_eq!((&report["ok"], &report["failed"]), (&100.into(), &0.into()));
        let in_time = json_of(&server, api, &["dummy", "--zeros", "--duration=100ms"]);
        assert!(in_time["ok"].as_u64().unwrap() > 0, "{in_time}");
    }
}

#[test]
fn a_load_that_is_refused_fails() {
    let server = Server::start("dummy");
    for api in TFS_APIS {
        let flags = ["dummy", "-i=b::2,5=[0,1,2,3,4,5,6,7,8,9]", "--repeat=7"];
        let run: Run = infer(&server, api, &flags);
        assert_eq!(run.failure(), "exit 1\nerror: 7 of 7 requests failed\n");
        assert!(
            run.text().contains("Invalid input batch size"),
            "{}",
            run.text()
        );
    }
}

#[test]
fn states_are_reported_in_the_protocols_words() {
    let server = Server::shared("dummy");
    for api in TFS_APIS {
        for flags in [&["dummy", "--status"][..], &["--status"]] {
            let run = infer(server, api, flags);
            assert_eq!(run.failure(), "exit 0\n");
            insta::allow_duplicates! {
                insta::assert_snapshot!(run.text(), @"
                model  version  state
                dummy        1  AVAILABLE
                ");
            }
            let version = json!({
                "version": "1",
                "state": "AVAILABLE",
                "ready": true,
                "error_code": "OK",
                "reason": "",
            });
            let models = json!([{ "name": "dummy", "versions": [version] }]);
            assert_eq!(
                json_of(server, api, flags),
                json!({ "api": api, "server": null, "models": models })
            );
        }
    }
}

#[test]
fn a_version_that_is_loading_is_reported() {
    let root = repository::endless();
    let server = Server::begin("slow", root.path(), &["--loading_wait_seconds=0"]);
    server.wait_log("loading");
    for api in TFS_APIS {
        for flags in [&["slow", "--status"][..], &["--status"]] {
            let run = infer(&server, api, flags);
            assert_eq!(run.failure(), "exit 0\n");
            insta::allow_duplicates! {
                insta::assert_snapshot!(run.text(), @"
                model  version  state
                slow         1  LOADING
                ");
            }
        }
    }
}

#[test]
fn metadata_is_reported() {
    let server = Server::shared("two_outputs");
    for api in TFS_APIS {
        let one = infer(server, api, &["two_outputs", "--metadata"]);
        let all = infer(server, api, &["--metadata"]);
        assert_eq!(all.failure(), "exit 0\n");
        insta::allow_duplicates! {
            insta::assert_snapshot!(one.failure(), @"
            exit 0
            Model `two_outputs`, version 1.
            ");
            insta::assert_snapshot!(one.text(), @"
            input  datatype  shape
            x      FP32      (-1,4)

            output  datatype  shape
            total   FP32      (-1)
            twice   FP32      (-1,4)
            ");
            insta::assert_snapshot!(all.text(), @"
            model        tensor  name   datatype  shape
            two_outputs  input   x      FP32      (-1,4)
            two_outputs  output  total  FP32      (-1)
            two_outputs  output  twice  FP32      (-1,4)
            ");
        }
        let reported = json_of(server, api, &["two_outputs", "--metadata"]);
        let model = &reported["models"][0];
        assert_eq!(model["platform"], Value::Null);
        assert_eq!(model["versions"], json!(["1"]));
        let input = json!([{ "name": "x", "datatype": "FP32", "shape": [-1, 4] }]);
        assert_eq!(model["inputs"], input);
    }
}

#[test]
fn what_the_server_does_not_have_is_reported_with_the_nearest_name() {
    let server = Server::shared("dummy");
    let commands: [&[&str]; 5] = [
        &["dumy", "--zeros"],
        &["dumy", "--status"],
        &["dummy", "--zeros", "--model-version=7"],
        &["dummy", "--status", "--model-version=7"],
        &["dummy", "--zeros", "--output-name=b"],
    ];
    insta::assert_snapshot!(failures(server, TFS_GRPC, &commands), @"
    exit 1
    error: the server refused the request: NOT_FOUND: Model with requested name is not found
    hint: did you mean `dummy`?
    hint: the server has `dummy`

    exit 1
    error: the server refused the request: NOT_FOUND: Model with requested name is not found
    hint: did you mean `dummy`?
    hint: the server has `dummy`

    exit 1
    error: the server refused the request: NOT_FOUND: Model with requested version is not found
    hint: the server has the model: `--status` shows its versions and their states

    exit 1
    error: the server refused the request: NOT_FOUND: Model with requested version is not found
    hint: the server has the model: `--status` shows its versions and their states

    exit 64
    error: the model has no output `b`
    hint: the outputs are `a`
    ");
    insta::assert_snapshot!(failures(server, TFS_REST, &commands), @"
    exit 1
    error: the server refused the request: 404 Not Found: Model with requested name is not found
    hint: did you mean `dummy`?
    hint: the server has `dummy`

    exit 1
    error: the server refused the request: 404 Not Found: Model with requested name is not found
    hint: did you mean `dummy`?
    hint: the server has `dummy`

    exit 1
    error: the server refused the request: 404 Not Found: Model with requested version is not found
    hint: the server has the model: `--status` shows its versions and their states

    exit 1
    error: the server refused the request: 404 Not Found: Model with requested version is not found
    hint: the server has the model: `--status` shows its versions and their states

    exit 64
    error: the model has no output `b`
    hint: the outputs are `a`
    ");
}

#[test]
fn what_the_server_refuses_has_its_own_text() {
    let server = Server::shared("dummy");
    let commands: [&[&str]; 3] = [
        &["dummy", "-i=b::2,5=[0,1,2,3,4,5,6,7,8,9]"],
        &["dummy", "-i=c:FP32:1=[1]", "-i=b=[0,1,2,3,4,5,6,7,8,9]"],
        // Numbers in JSON have no datatype.
        &["dummy", "-i=b:INT32=[0,1,2,3,4,5,6,7,8,9]"],
    ];
    insta::assert_snapshot!(failures(server, TFS_GRPC, &commands), @"
    exit 1
    error: the server refused the request: INVALID_ARGUMENT: Invalid input batch size - Expected: 1; Actual: 2; input name: b

    exit 1
    error: the server refused the request: INVALID_ARGUMENT: Invalid number of inputs - Expected: 1; Actual: 2

    exit 1
    error: the server refused the request: INVALID_ARGUMENT: Invalid input precision - Expected: FP32; Actual: I32; input name: b
    ");
    insta::assert_snapshot!(failures(server, TFS_REST, &commands[..2]), @"
    exit 1
    error: the server refused the request: 400 Bad Request: Invalid input batch size - Expected: 1; Actual: 2; input name: b

    exit 1
    error: the server refused the request: 400 Bad Request: Invalid number of inputs - Expected: 1; Actual: 2
    ");
}

#[test]
fn what_the_protocol_has_no_place_for_is_refused_before_anything_is_sent() {
    let commands: [&[&str]; 4] = [
        &["dummy", "--zeros", "--id=7"],
        &["dummy", "--zeros", "--param=a=1"],
        &["dummy", "--zeros", "--binary"],
        &["dummy", "-i=b::0,10=[]"],
    ];
    let server = Server::shared("dummy");
    insta::assert_snapshot!(failures(server, TFS_GRPC, &commands[..3]), @"
    exit 64
    error: `--id` does not fit `--api tfs-grpc`
    hint: only KServe's requests have a place for it

    exit 64
    error: `--param` does not fit `--api tfs-grpc`
    hint: only KServe's requests have a place for it

    exit 64
    error: `--binary` does not fit `--api tfs-grpc`
    hint: over tfs-grpc it is `--raw`
    ");
    insta::assert_snapshot!(failures(server, TFS_REST, &commands), @"
    exit 64
    error: `--id` does not fit `--api tfs-rest`
    hint: only KServe's requests have a place for it

    exit 64
    error: `--param` does not fit `--api tfs-rest`
    hint: only KServe's requests have a place for it

    exit 64
    error: `--binary` does not fit `--api tfs-rest`
    hint: over tfs-rest tensors are always JSON

    exit 64
    error: cannot write the request
      caused by: input `b` has no elements, and lists in JSON cannot tell its shape
    hint: `--api tfs-grpc` has a place for it
    ");
}

#[test]
fn the_port_of_the_other_protocol_is_reported() {
    let server = Server::shared("dummy");
    for (api, other, port) in [
        (TFS_GRPC, TFS_REST, server.rest_port),
        (TFS_REST, TFS_GRPC, server.port),
    ] {
        let run = cli::run(at(port, api).args(["dummy", "--zeros"]));
        assert_eq!(run.code, Some(69), "{}", run.stderr);
        let reported = format!("does not speak {api}");
        assert!(run.stderr.contains(&reported), "{other}: {}", run.stderr);
    }
}
