//! Tests of all tables and objects.

use ovms::{
    client::{
        Api, ModelMetadata, ModelStatus, ReloadFailure, ServerMetadata, TensorMetadata,
        VersionStatus,
    },
    tensor::{Dim, PartialShape},
};

use super::{Listing, MetadataRow, Models, states_table, tone};
use crate::ui::{Look, Tone};

fn version(version: &str, state: &str, code: Option<&str>, message: &str) -> VersionStatus {
    VersionStatus {
        version: version.to_owned(),
        state: state.to_owned(),
        code: code.map(str::to_owned),
        message: message.to_owned(),
    }
}

fn status(name: &str, versions: Vec<VersionStatus>) -> ModelStatus {
    ModelStatus {
        name: name.to_owned(),
        versions,
    }
}

fn tensor(name: &str, datatype: &str, dims: &[Dim]) -> TensorMetadata {
    TensorMetadata {
        name: name.to_owned(),
        datatype: datatype.to_owned(),
        shape: PartialShape(dims.to_vec()),
    }
}

fn resnet(versions: &[&str]) -> MetadataRow {
    let image = [Dim::Any, Dim::Fixed(3), Dim::Fixed(224), Dim::Fixed(224)];
    MetadataRow {
        name: "resnet".to_owned(),
        metadata: ModelMetadata {
            name: "resnet".to_owned(),
            versions: versions.iter().map(|it| (*it).to_owned()).collect(),
            platform: "OpenVINO".to_owned(),
            properties: Default::default(),
            inputs: vec![tensor("pixels", "FP32", &image)],
            outputs: vec![
                tensor("logits", "FP32", &[Dim::Any, Dim::Fixed(1000)]),
                tensor("stream", "INVALID", &[]),
            ],
        },
        error: None,
        batching: None,
    }
}

fn refused() -> MetadataRow {
    MetadataRow {
        name: "bert".to_owned(),
        metadata: ModelMetadata::default(),
        error: Some("UNAVAILABLE: Model with requested version is not loaded yet".to_owned()),
        batching: None,
    }
}

fn listing(is_of_all: bool, models: Models) -> Listing {
    Listing {
        api: Api::KserveGrpc,
        is_of_all,
        has_identity: false,
        server: is_of_all.then(|| ServerMetadata {
            name: "OpenVINO Model Server".to_owned(),
            version: "1.2".to_owned(),
            is_ready: false,
            reload_failure: None,
        }),
        models,
        reload_failure: None,
    }
}

#[test]
fn states_are_a_row_for_each_version() {
    let models = [
        status("bert", vec![version("1", "READY", None, "")]),
        status("none", Vec::new()),
        status(
            "resnet",
            vec![
                version("9", "LOADING", None, ""),
                version("10", "READY", None, ""),
            ],
        ),
    ];
    insta::assert_snapshot!(states_table(&models).draw(Look::Plain), @"
    model   version  state
    bert          1  READY
    none          -  -
    resnet        9  LOADING
    resnet       10  READY
    ");
}

#[test]
fn reasons_have_a_column_if_there_are_any() {
    let models = [
        status(
            "bert",
            vec![
                version("1", "END", Some("OK"), ""),
                version("2", "AVAILABLE", Some("OK"), ""),
                version("3", "LOADING", Some("UNKNOWN"), "no\nmodel file"),
                version("4", "LOADING", Some("UNKNOWN"), ""),
            ],
        ),
        status("none", Vec::new()),
        status(
            "resnet",
            vec![version("", "UNAVAILABLE", None, "there is no version")],
        ),
    ];
    insta::assert_snapshot!(states_table(&models).draw(Look::Plain), @"
    model   version  state        reason
    bert          1  END          -
    bert          2  AVAILABLE    -
    bert          3  LOADING      UNKNOWN: no model file
    bert          4  LOADING      UNKNOWN
    none          -  -            -
    resnet        -  UNAVAILABLE  there is no version
    ");
    insta::assert_snapshot!(listing(false, Models::States(models.to_vec())).json(), @r#"{"api":"kserve-grpc","server":null,"models":[{"name":"bert","versions":[{"version":"1","state":"END","ready":false,"error_code":"OK","reason":""},{"version":"2","state":"AVAILABLE","ready":true,"error_code":"OK","reason":""},{"version":"3","state":"LOADING","ready":false,"error_code":"UNKNOWN","reason":"no\nmodel file"},{"version":"4","state":"LOADING","ready":false,"error_code":"UNKNOWN","reason":""}]},{"name":"none","versions":[]},{"name":"resnet","versions":[{"version":null,"state":"UNAVAILABLE","ready":false,"error_code":null,"reason":"there is no version"}]}]}"#);
}

#[test]
fn states_have_a_tone() {
    let tone = |state, code| tone(&version("1", state, code, ""));
    for (state, expected) in [
        ("READY", Some(Tone::Good)),
        ("AVAILABLE", Some(Tone::Good)),
        ("START", Some(Tone::Warn)),
        ("LOADING", Some(Tone::Warn)),
        ("UNLOADING", Some(Tone::Warn)),
        ("UNAVAILABLE", Some(Tone::Bad)),
        ("END", None),
        ("", None),
    ] {
        assert_eq!(tone(state, None), expected, "{state}");
        assert_eq!(tone(state, Some("OK")), expected, "{state}");
        let goes_on = expected == Some(Tone::Good);
        let failed = if goes_on { Tone::Warn } else { Tone::Bad };
        assert_eq!(tone(state, Some("UNKNOWN")), Some(failed), "{state}");
    }
}

#[test]
fn all_models_come_with_the_server() {
    let models = vec![status("bert", vec![version("1", "READY", None, "")])];
    let listing = listing(true, Models::States(models));
    insta::assert_snapshot!(listing.notes().join("\n"), @"OpenVINO Model Server 1.2 is not ready.");
    insta::assert_snapshot!(listing.json(), @r#"{"api":"kserve-grpc","server":{"name":"OpenVINO Model Server","version":"1.2","ready":false},"models":[{"name":"bert","versions":[{"version":"1","state":"READY","ready":true,"error_code":null,"reason":""}]}]}"#);
}

#[test]
fn a_failed_reload_is_reported_with_the_states() {
    let models = vec![
        status("bert", vec![version("1", "READY", None, "")]),
        status(
            "old",
            vec![version(
                "1",
                "UNAVAILABLE",
                None,
                "removed from the configuration",
            )],
        ),
    ];
    let mut listing = listing(false, Models::States(models));
    assert_eq!(listing.warning(), None);
    listing.reload_failure = Some(ReloadFailure {
        since: "2026-11-27T22:10:00Z".to_owned(),
        reason: "cannot read the configuration".to_owned(),
    });
    insta::assert_snapshot!(listing.warning().unwrap(), @"warning: the server has run an outdated configuration since 2026-11-27T22:10:00Z: cannot read the configuration");
    insta::assert_snapshot!(listing.text(Look::Plain), @"
    model  version  state        reason
    bert         1  READY        -
    old          1  UNAVAILABLE  removed from the configuration
    ");
    insta::assert_snapshot!(listing.json(), @r#"{"api":"kserve-grpc","server":null,"models":[{"name":"bert","versions":[{"version":"1","state":"READY","ready":true,"error_code":null,"reason":""}]},{"name":"old","versions":[{"version":"1","state":"UNAVAILABLE","ready":false,"error_code":null,"reason":"removed from the configuration"}]}],"reload_failure":{"since":"2026-11-27T22:10:00Z","reason":"cannot read the configuration"}}"#);
    let Models::States(models) = &listing.models else {
        unreachable!("they are states");
    };
    let is_removed: Vec<bool> = models.iter().map(ModelStatus::is_removed).collect();
    assert_eq!(is_removed, [false, true]);
    let removed = &models[1].versions[0];
    assert_eq!(tone(removed), None, "nothing is wrong with it");
}

#[test]
fn the_metadata_of_one_model_is_a_table_for_inputs_and_one_for_outputs() {
    let listing = listing(false, Models::Tensors(vec![resnet(&["1", "2"])]));
    insta::assert_snapshot!(listing.notes().join("\n"), @"Model `resnet`, versions 1, 2, platform OpenVINO.");
    insta::assert_snapshot!(listing.text(Look::Plain), @"
    input   datatype  shape
    pixels  FP32      (-1,3,224,224)

    output  datatype  shape
    logits  FP32      (-1,1000)
    stream  unknown   ()
    ");
    insta::assert_snapshot!(listing.json(), @r#"{"api":"kserve-grpc","server":null,"models":[{"name":"resnet","versions":["1","2"],"platform":"OpenVINO","inputs":[{"name":"pixels","datatype":"FP32","shape":[-1,3,224,224]}],"outputs":[{"name":"logits","datatype":"FP32","shape":[-1,1000]},{"name":"stream","datatype":"INVALID","shape":[]}],"error":null}]}"#);
}

#[test]
fn the_metadata_of_all_models_is_a_row_for_each_tensor() {
    let listing = listing(true, Models::Tensors(vec![refused(), resnet(&["1"])]));
    insta::assert_snapshot!(listing.notes().join("\n"), @"
    OpenVINO Model Server 1.2 is not ready.
    Model `bert` has no metadata: UNAVAILABLE: Model with requested version is not loaded yet
    ");
    insta::assert_snapshot!(listing.text(Look::Plain), @"
    model   tensor  name    datatype  shape
    bert    -       -       -         -
    resnet  input   pixels  FP32      (-1,3,224,224)
    resnet  output  logits  FP32      (-1,1000)
    resnet  output  stream  unknown   ()
    ");
    insta::assert_snapshot!(listing.json(), @r#"{"api":"kserve-grpc","server":{"name":"OpenVINO Model Server","version":"1.2","ready":false},"models":[{"name":"bert","versions":[],"platform":null,"inputs":[],"outputs":[],"error":"UNAVAILABLE: Model with requested version is not loaded yet"},{"name":"resnet","versions":["1"],"platform":"OpenVINO","inputs":[{"name":"pixels","datatype":"FP32","shape":[-1,3,224,224]}],"outputs":[{"name":"logits","datatype":"FP32","shape":[-1,1000]},{"name":"stream","datatype":"INVALID","shape":[]}],"error":null}]}"#);
}

#[test]
fn no_models_are_reported() {
    let mut listing = listing(true, Models::States(Vec::new()));
    listing.server = None;
    assert_eq!(listing.notes(), ["The server has no models."]);
    listing.has_identity = true;
    insta::assert_snapshot!(listing.notes().join("\n"), @"The server has no models, or none that this identity may see: one with the right `admin` alone sees none, unless it has `metadata` or `infer` as well.");
    insta::assert_snapshot!(listing.text(Look::Plain), @"model  version  state");
    insta::assert_snapshot!(listing.json(), @r#"{"api":"kserve-grpc","server":null,"models":[]}"#);
}
