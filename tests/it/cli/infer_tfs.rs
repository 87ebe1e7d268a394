//! `ovms infer` over TensorFlow Serving's APIs: requests, loads, queries, and their errors.

use serde_json::json;

use crate::{
    cli::infer::{has, sent_bytes},
    support::{
        Server,
        cli::Run,
        dtypes,
        infer::{GRPC, TFS_APIS, TFS_GRPC, TFS_REST, data, infer, json as json_of},
        repository,
    },
};

#[test]
fn a_version_is_asked_for_by_its_number() {
    let server = Server::shared("dummy");
    let flags = ["dummy", "--zeros", "--model-version", "1"];
    for api in TFS_APIS {
        assert_eq!(json_of(server, api, &flags)["model_version"], "1", "{api}");
    }
    let requests = String::from_utf8_lossy(&sent_bytes(server, TFS_REST, &flags)).into_owned();
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
        let bytes = sent_bytes(server, api, &args);
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
