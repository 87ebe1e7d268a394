//! `ovms serve` and its model: the served version, and errors of models that fail to load.

use std::fs;

use ovms::proto::kserve::ModelReadyRequest;

use crate::support::{
    Server,
    cli::{self, Run},
    grpc::{Grpc, error},
    http::get,
    model, repository,
    server::{free_ports, on},
};

/// Serves a model that cannot be served, with more flags; returns the run to its end.
fn failed(path: &str, flags: &[&str]) -> Run {
    let run = cli::run(
        cli::command()
            .args(["serve", "--model_name=m", "--model_path", path])
            .args(on(free_ports()))
            .args(flags),
    );
    assert_eq!(run.code, Some(1), "{}", run.stderr);
    run
}

/// Does the same with the fixture `dummy`.
fn failed_dummy(flags: &[&str]) -> String {
    failed(model("dummy").to_str().unwrap(), flags).failure()
}

#[test]
fn a_folder_that_is_missing_is_reported() {
    let run = failed("/nonexistent", &[]);
    insta::assert_snapshot!(run.failure(), @"
    exit 1
    error: cannot load model `m`
      caused by: The provided base path is invalid or doesn't exists - /nonexistent: No such file or directory (os error 2)
    hint: --model_path is a folder with version folders, such as /models/resnet for /models/resnet/1/model.xml, a folder with one model, or a model file
    ");
    let log = run.text();
    assert!(
        log.contains("ERROR cannot load model `m`: The provided base path"),
        "{log}"
    );
}

#[test]
fn a_path_through_its_parent_is_refused() {
    insta::assert_snapshot!(failed("/tmp/../tmp", &[]).failure(), @"
    exit 1
    error: cannot load model `m`
      caused by: The provided base path is invalid or doesn't exists - /tmp/../tmp: a path with `..` is not accepted
    hint: give --model_path without `..`: /tmp
    ");
}

#[test]
fn a_version_folder_without_a_model_is_reported() {
    let root = repository::folder();
    fs::create_dir(root.path().join("3")).unwrap();
    let path = root.path().to_str().unwrap();
    insta::assert_snapshot!(failed(path, &[]).failure().replace(path, "<folder>"), @"
    exit 1
    error: cannot load version 3 of model `m`
      caused by: File not found or cannot open - no model in <folder>/3; expected *.xml with *.bin, *.onnx, *.pdmodel with *.pdiparams, *.pb, or *.tflite
    ");
}

#[test]
fn a_broken_model_is_reported() {
    let path = model("broken");
    let text = failed(path.to_str().unwrap(), &[]).failure();
    insta::assert_snapshot!(text.replace(path.to_str().unwrap(), "<folder>"), @"
    exit 1
    error: cannot load version 1 of model `m`
      caused by: cannot read <folder>/1/model.xml
      caused by: Error parsing element attribute at offset 748
    hint: check that the file is whole, for example by exporting it again
    ");
}

#[test]
fn settings_that_the_model_does_not_take_are_reported() {
    let answers = [
        failed_dummy(&["--plugin_config", "{"]),
        failed_dummy(&["--plugin_config", "[1]"]),
        failed_dummy(&["--plugin_config", r#"{"NUM_STREAMS":[1]}"#]),
        failed_dummy(&["--plugin_config", r#"{"NUM_STREAM":1}"#]),
        failed_dummy(&["--plugin_config", r#"{"NUM_STREAMS":"many"}"#]),
        failed_dummy(&["--target_device", "TOASTER"]),
        failed_dummy(&["--nireq", "100001"]),
    ]
    .join("\n");
    insta::with_settings!({filters => [(r#""[^"]*/libopenvino_\w+plugin.so""#, "<plugin>")]}, {
        insta::assert_snapshot!(answers, @r#"
        exit 1
        error: Plugin config is in wrong format - expected a JSON object of properties: EOF while parsing an object at line 1 column 1

        exit 1
        error: Plugin config is in wrong format - expected a JSON object of properties: invalid type: sequence, expected a map at line 1 column 0

        exit 1
        error: Plugin config is in wrong format - property NUM_STREAMS is [1]; expected a string, number, true or false

        exit 1
        error: cannot load version 1 of model `m`
          caused by: Model config is invalid - device CPU has no property NUM_STREAM; did you mean NUM_STREAMS?
        hint: fix or leave out NUM_STREAM in plugin_config; its keys are properties of OpenVINO

        exit 1
        error: cannot load version 1 of model `m`
          caused by: Model config is invalid - device CPU refuses property NUM_STREAMS=many
          caused by: Could not read number of streams from str: many; stoi
        hint: fix or leave out NUM_STREAMS in plugin_config; its keys are properties of OpenVINO

        exit 1
        error: cannot load version 1 of model `m`
          caused by: cannot use device `TOASTER`
          caused by: Device with "TOASTER" name is not registered in the OpenVINO Runtime
        hint: target_device takes the devices of this machine (CPU), or AUTO, HETERO and MULTI with a list of them

        exit 1
        error: cannot load version 1 of model `m`
          caused by: Nireq parameter too high - Exceeded allowed nireq value: 100001; at most 100000
        "#);
    });
}

#[test]
fn a_folder_without_versions_is_served_without_any() {
    let root = repository::folder();
    let server = Server::begin("m", root.path(), &[]);
    server.wait_ready();
    server.wait_log("WARN model `m`: there is no version folder in");
    let grpc = Grpc::connect(&server);
    let request = ModelReadyRequest {
        name: "m".to_owned(),
        version: String::new(),
    };
    let ready = grpc.wait(grpc.client.clone().model_ready(request));
    insta::assert_snapshot!(error(&ready.unwrap_err()), @"NotFound: Model with requested version is not found");
    insta::assert_snapshot!(get(&server, "/v2/models/m/ready").error(), @"404: Model with requested version is not found");
}

#[test]
fn a_model_without_version_folders_is_version_1() {
    let root = repository::folder();
    let folder = root.path().join("m");
    repository::copy(&model("dummy").join("1"), &folder);
    let file = folder.read_dir().unwrap().flatten().map(|file| file.path());
    let xml = file
        .into_iter()
        .find(|file| file.extension().is_some_and(|it| it == "xml"));
    for path in [&folder, &xml.unwrap()] {
        let server = Server::begin("m", path, &[]);
        server.wait_ready();
        let metadata = get(&server, "/v2/models/m").json();
        assert_eq!(metadata["versions"], serde_json::json!(["1"]), "{path:?}");
    }

    fs::create_dir(folder.join("4")).unwrap();
    repository::copy(&model("scalar").join("1"), &folder.join("4"));
    let server = Server::begin("m", &folder, &[]);
    server.wait_ready();
    server.wait_log("ignoring a model beside version folders");
    let metadata = get(&server, "/v2/models/m").json();
    assert_eq!(metadata["versions"], serde_json::json!(["4"]));
}

#[test]
fn preprocessing_that_a_model_cannot_have_is_reported() {
    let reported = |name: &str, flags: &[&str]| {
        let path = model(name);
        failed(
            path.to_str().unwrap(),
            &[&["--layout=N..."], flags].concat(),
        )
        .failure()
    };
    let reported = [
        reported("add", &["--mean=1", "--layout={}"]),
        reported("passthrough_u8", &["--mean=1"]),
        reported("increment4d", &["--mean=(1,2)", "--layout=NCHW"]),
        reported("increment4d", &["--color_format=NV12:RGB", "--layout=NCHW"]),
    ];
    insta::assert_snapshot!(reported.join("\n"), @"
    exit 1
    error: cannot load version 1 of model `m`
      caused by: mean, scale, color_format and precision are for models with one input - the model has 2: input1, input2

    exit 1
    error: cannot load version 1 of model `m`
      caused by: cannot add the preprocessing of the input to the model
      caused by: Mean preprocessing can be applied to 'float' inputs. Consider using of 'convert_element_type' before scaling. Current type is: u8

    exit 1
    error: cannot load version 1 of model `m`
      caused by: cannot add the preprocessing of the input to the model
      caused by: Number of channels and mean/values size mismatch: Channels = 3, mean/scale = 2, shape = [1,3,20,30], layout = [N,C,H,W]

    exit 1
    error: cannot load version 1 of model `m`
      caused by: cannot add the preprocessing of the input to the model
      caused by: Source color format 'RGB' is not convertible to 'NV12 (single plane)'
    ");
}

#[test]
fn the_highest_version_is_served() {
    let root = repository::of(&[
        ("9", "dummy"),
        ("10", "scalar"),
        ("2", "add"),
        ("old", "noname"),
    ]);
    let server = Server::begin("m", root.path(), &[]);
    server.wait_ready();
    server.wait_log("ignoring a folder whose name is not a version number");
    let metadata = get(&server, "/v2/models/m").json();
    assert_eq!(metadata["versions"], serde_json::json!(["10"]));
    assert_eq!(metadata["inputs"][0]["name"], "x");
    assert_eq!(get(&server, "/v2/models/m/versions/10/ready").status, 200);
    assert_eq!(get(&server, "/v2/models/m/versions/9/ready").status, 404);
}

#[test]
fn a_relative_path_is_below_the_working_folder() {
    let ports = free_ports();
    let mut command = cli::command();
    command
        .current_dir(model("dummy").parent().unwrap())
        .args(["serve", "--model_name=m", "--model_path=dummy"])
        .args(on(ports));
    let server = Server::spawn(&mut command, ports);
    server.wait_ready();
    assert_eq!(get(&server, "/v2/models/m/ready").status, 200);
}

#[test]
fn as_many_slots_as_asked_for_are_made() {
    let server = Server::start_with("dummy", &["--nireq", "7"]);
    assert!(
        server.wait_log("loaded").contains("nireq=7"),
        "{}",
        server.log()
    );
}
