//! Labels of a pipeline: those of the models that its outputs come straight from.

use std::fs;

use serde_json::{Value, json};

use super::shared::SHARED;
use crate::support::{
    Server, eventually, fixture,
    http::get,
    infer, model, nodes,
    pipelines::{Config, custom, dl},
    repository,
};

const IMAGE: &str = "image=request.image";
const SCORES: &str = "scores=y";

/// Returns ten labels that begin with a letter.
fn labels(letter: &str) -> String {
    let lines: Vec<String> = (0..10).map(|at| format!("{letter}{at}")).collect();
    lines.join("\n")
}

fn properties(server: &Server, name: &str) -> Value {
    get(server, &format!("/v2/models/{name}")).json()["properties"].clone()
}

#[test]
fn outputs_have_the_labels_of_the_models_that_they_come_from() {
    let mut config = Config::of(&[]);
    for name in ["a", "b", "none"] {
        let folder = config.beside(name);
        repository::copy(&model("classifier").join("1"), &folder.join("1"));
        config.model(name, &folder);
    }
    let write = |config: &Config, name: &str, letter: &str| {
        fs::write(config.beside(name).join("labels.txt"), labels(letter)).unwrap();
    };
    write(&config, "a", "a");
    write(&config, "b", "b");
    config.library_at("shaped", &nodes::compiled("shaped.c"));
    let (a, b) = (dl("n", "a", IMAGE, SCORES), dl("m", "b", IMAGE, SCORES));
    let none = dl("m", "none", IMAGE, SCORES);
    config.pipeline("one", "image", std::slice::from_ref(&a), "out=n.y");
    config.pipeline(
        "same",
        "image",
        std::slice::from_ref(&a),
        "out=n.y again=n.y",
    );
    config.pipeline("two", "image", &[a.clone(), b], "out=n.y other=m.y");
    config.pipeline("half", "image", &[a.clone(), none], "out=n.y other=m.y");
    let params = json!({"in": "0,10", "out": "1,10"});
    let behind = custom("c", "shaped", &params, "in=n.y", "out=z");
    config.pipeline("behind", "image", &[a, behind], "out=c.z");
    let server = config.serve_with(&["--file_system_poll_wait_seconds", "1"]);

    assert_eq!(properties(&server, "one"), json!({"labels": labels("a")}));
    assert_eq!(properties(&server, "same"), json!({"labels": labels("a")}));
    let each = json!({"labels.out": labels("a"), "labels.other": labels("b")});
    assert_eq!(properties(&server, "two"), each);
    let half = json!({"labels.out": labels("a")});
    assert_eq!(properties(&server, "half"), half);
    let behind = properties(&server, "behind");
    assert!(behind.is_null() || behind == json!({}), "{behind}");

    let image = format!("@{}", fixture("images/star.png").display());
    let top = |api: &str, name: &str, output: &str| {
        let args = [
            "-q",
            name,
            "-i",
            &image,
            "--output-name",
            output,
            "--top",
            "1",
        ];
        let run = infer::infer(&server, api, &args);
        assert_eq!(run.code, Some(0), "{name}: {}", run.stderr);
        let text = run.text();
        let last = text.lines().last().unwrap_or_default();
        let mut words = last.split_whitespace();
        let label = words.find(|word| word.starts_with(['a', 'b']));
        label.map(str::to_owned)
    };
    for api in ["kserve-grpc", "kserve-rest"] {
        let label = |name: &str, output: &str| top(api, name, output);
        assert_eq!(label("one", "out").as_deref(), Some("a3"), "{api}");
        assert_eq!(label("two", "out").as_deref(), Some("a3"), "{api}");
        assert_eq!(label("two", "other").as_deref(), Some("b3"), "{api}");
        assert_eq!(label("half", "other"), None, "{api}");
    }

    // The labels are those of the model as it is now.
    write(&config, "a", "c");
    eventually("the labels follow their model", || {
        (properties(&server, "one") == json!({"labels": labels("c")})).then_some(())
    });
}

/// Adds models and pipelines to the shared server.
pub(super) fn add(config: &mut Config) {
    let prepared = [
        ("bgr", "color_format"),
        ("other", "color_format"),
        ("plain", "nireq"),
    ];
    for (name, key) in prepared {
        let value = match key {
            "nireq" => json!(1),
            _ => json!("RGB:BGR"),
        };
        let entry = config.model(name, &model("classifier"));
        entry["layout"] = json!("NHWC:NCHW");
        entry[key] = value;
    }
    let of = |model| dl(model, model, IMAGE, SCORES);
    config.pipeline("of_one", "image", &[of("bgr")], "out=bgr.y");
    config.pipeline(
        "of_same",
        "image",
        &[of("bgr"), of("other")],
        "a=bgr.y b=other.y",
    );
    config.pipeline(
        "of_two",
        "image",
        &[of("bgr"), of("plain")],
        "a=bgr.y b=plain.y",
    );
}

#[test]
fn inputs_are_prepared_as_the_models_do_that_take_them() {
    for name in ["bgr", "of_one", "of_same"] {
        assert_eq!(properties(&SHARED.server, name)["images"], "bgr");
    }
    assert!(properties(&SHARED.server, "of_two")["images"].is_null());
}
