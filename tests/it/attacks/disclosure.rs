//! Errors that would show clients something of the machine, of the server's code, or of what others use.

use std::{fs, sync::LazyLock};

use serde_json::json;

use crate::support::{
    Server,
    graphs::{CODE, add_python, code, reported},
    grpc::{Grpc, dummy, raw},
    http::{get, post, send},
    model,
    pipelines::Config,
    repository,
    tfs::{Tfs, request},
};

/// Asserts that a text has nothing of the machine, of the code, and of a servable that it is not about.
fn check(what: &str, text: &str) {
    let known = [
        SERVED.1.as_str(),
        env!("WORKSPACE_ROOT"),
        "/usr/",
        "/home/",
        "/root",
        "/proc/",
        "site-packages",
        "Traceback",
        "handler.py",
        ".rs:",
        ".cpp",
        "panicked",
        "hidden_one",
        "ov::",
    ];
    for part in known {
        assert!(!text.contains(part), "{what}: `{part}` in: {text}");
    }
}

/// A server of what can be served and what cannot, and the folder of its files.
static SERVED: LazyLock<(Server, String)> = LazyLock::new(|| {
    let mut config = Config::of(&["dummy", "pair"]);
    config.model("hidden_one", &model("two_outputs"));
    add_python(&mut config, "graph", CODE);
    let broken = config.beside("broken");
    repository::copy(&model("dummy").join("1"), &broken.join("1"));
    fs::write(repository::graph(&broken), "<net>").unwrap();
    config.model("broken", &broken);
    config.model("absent", &config.beside("nothing"));
    add_python(&mut config, "broken_graph", "import nothing_like_it\n");
    let m = config.beside("m");
    repository::copy(&model("dummy").join("1"), &m.join("1"));
    config.model("m", &m)["shape"] = json!("auto");
    let folder = config.beside("").display().to_string();
    let folder = folder.trim_end_matches('/').to_owned();
    (config.serve_kept(&[]), folder)
});

#[test]
fn errors_of_clients_name_nothing_of_the_machine_and_of_others() {
    let server = &SERVED.0;
    let (grpc, tfs) = (Grpc::connect(server), Tfs::connect(server));
    let mut texts = Vec::new();
    for name in [
        "hidden",
        "hidden_on",
        "HIDDEN_ONE",
        "",
        "dummy2",
        "../hidden_one",
    ] {
        let mut named = dummy();
        named.model_name = name.to_owned();
        texts.push(grpc.refused(named));
        texts.push(tfs.refused(request(name, [])));
        for path in ["", "/config", "/stats", "/ready", "/versions/1"] {
            texts.push(get(server, &format!("/v2/models/{name}{path}")).text());
        }
        texts.push(get(server, &format!("/v1/models/{name}")).text());
        texts.push(get(server, &format!("/v3/models/{name}")).text());
    }
    for input in ["x", "b", ""] {
        for datatype in ["FP32", "INT64", "BYTES", "none"] {
            texts.push(grpc.refused(raw("dummy", input, datatype, &[1, 11], &[0; 3])));
        }
    }
    for body in [
        "",
        "{",
        "[]",
        "{}",
        r#"{"inputs":[{"name":"x","shape":[1],"datatype":"FP32","data":[1]}]}"#,
    ] {
        for path in [
            "/v2/models/dummy/infer",
            "/v2/models/dummy/generate",
            "/v2/models/dummy/generate_stream",
            "/v1/models/dummy:predict",
            "/v1/models/dummy:classify",
            "/v2/repository/models/dummy/load",
            "/v2/systemsharedmemory/region/x/register",
            "/v3/chat/completions",
        ] {
            texts.push(post(server, path, body.as_bytes()).text());
        }
        texts.push(
            send(
                server,
                "PUT",
                "/v1/models/dummy/sequences/1",
                &[],
                body.as_bytes(),
            )
            .text(),
        );
    }
    // An inference that fails in the runtime.
    let kserve = json!({ "inputs": [
        { "name": "a", "shape": [1, 3], "datatype": "INT64", "data": [1, 2, 3] },
        { "name": "b", "shape": [1, 2], "datatype": "INT64", "data": [1, 2] },
    ] });
    let failed = post(
        server,
        "/v2/models/pair/infer",
        kserve.to_string().as_bytes(),
    );
    assert_eq!(failed.status, 500);
    texts.push(failed.text());
    for text in &texts {
        check("an error", text);
    }
}

/// The states of its versions do (`/v1/models/NAME`): they are for whoever runs the server.
#[test]
fn calls_about_what_cannot_be_served_name_no_paths() {
    for name in ["broken", "absent", "broken_graph"] {
        for path in [
            format!("/v2/models/{name}"),
            format!("/v2/models/{name}/ready"),
            format!("/v2/models/{name}/config"),
        ] {
            check(&path, &get(&SERVED.0, &path).text());
        }
    }
}

#[test]
fn a_shape_that_a_model_cannot_be_loaded_for_names_no_paths() {
    fs::remove_dir_all(format!("{}/m/1", SERVED.1)).unwrap();
    let other = raw("m", "b", "FP32", &[2, 3], &[0; 24]);
    let refused = Grpc::connect(&SERVED.0).refused(other);
    let known =
        "Model could not be reshaped with requested shape - File not found or cannot open - 1: ";
    assert!(refused.contains(known), "{refused}");
    check("a shape", &refused);
}

#[test]
fn errors_of_python_handlers_name_no_files() {
    let grpc = Grpc::connect(&SERVED.0);
    for body in [
        "raise ValueError('no')",
        "import nothing_like_it",
        "return 1 / 0",
        "return [1]",
    ] {
        let text = reported(&grpc, code("graph", body));
        check(body, &text);
    }
}
