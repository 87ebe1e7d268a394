//! `--list_models`, `--add_to_config` and `--remove_from_config`.

use std::{fs, os::unix::fs::PermissionsExt};

use crate::support::{
    cli::{self, Run},
    model, repository,
};

fn serve(flags: &[&str]) -> Run {
    cli::ovms([&["serve"], flags].concat())
}

#[test]
fn models_of_a_repository_are_listed_by_name() {
    let folder = repository::folder();
    let root = folder.path();
    for file in [
        "resnet/1/m.onnx",
        "owner/bert/7/m.xml",
        "owner/bert/7/m.bin",
        "graph/graph.pbtxt",
        "versioned_graph/1/graph.pbtxt",
        "incomplete/1/m.xml",
        "notes/readme.txt",
    ] {
        let path = root.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "").unwrap();
    }
    let path = root.to_str().unwrap();
    let run = serve(&["--list_models", "--model_repository_path", path]);
    let expected = "graph\nowner/bert\nresnet\nversioned_graph\n";
    assert_eq!((run.code, run.text().as_str()), (Some(0), expected));
    // The plain binary, and the environment, as in start scripts.
    let run = cli::run(
        cli::command()
            .arg("--list_models")
            .env("OVMS_MODEL_REPOSITORY_PATH", path),
    );
    assert_eq!((run.code, run.text().as_str()), (Some(0), expected));

    let none = cli::run(
        cli::command()
            .args(["serve", "--list_models"])
            .env_remove("OVMS_MODEL_REPOSITORY_PATH"),
    );
    insta::assert_snapshot!(none.failure(), @"
    exit 64
    Use --list_models with --model_repository_path
    ");
    let missing = serve(&["--list_models", "--model_repository_path=/nonexistent"]);
    insta::assert_snapshot!(missing.failure(), @"
    exit 1
    error: cannot read the model repository /nonexistent
      caused by: No such file or directory (os error 2)
    ");
}

#[test]
fn models_are_added_to_a_file_and_removed_from_it() {
    let folder = repository::folder();
    let path = folder.path().join("config.json");
    let config = path.to_str().unwrap();
    let base = folder.path().to_str().unwrap();
    let edit = |directive: &str, flags: &[&str]| {
        let run = serve(&[&[directive, "--config_path", config], flags].concat());
        assert_eq!(run.text(), "");
        run.failure().replace(base, "<folder>")
    };
    let add = |name: &str| {
        edit(
            "--add_to_config",
            &["--model_name", name, "--model_path", base],
        )
    };
    insta::assert_snapshot!(add("a"), @"
    exit 0
    Added model `a` to <folder>/config.json.
    ");
    assert_eq!(
        fs::metadata(&path).unwrap().permissions().mode() & 0o777,
        0o644
    );
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    let text = fs::read_to_string(&path).unwrap();
    fs::write(
        &path,
        text.replace(
            "]\n",
            "# the end\n    ],\n    \"mediapipe_config_list\": []\n",
        ),
    )
    .unwrap();
    let run = edit(
        "--add_to_config",
        &["--model_name=b", "--model_repository_path=/models"],
    );
    insta::assert_snapshot!(run, @"
    exit 0
    note: there is no folder /models/b
    Added model `b` to <folder>/config.json.
    ");
    assert_eq!(
        fs::metadata(&path).unwrap().permissions().mode() & 0o777,
        0o640,
        "the rights stay"
    );
    let edited = fs::read_to_string(&path).unwrap();
    insta::assert_snapshot!(edited.replace(base, "<folder>"), @r#"
    {
        "model_config_list": [
            {"config": {"name": "a", "base_path": "<folder>"}},
        # the end
            {"config": {"name": "b", "base_path": "/models/b"}}
        ],
        "mediapipe_config_list": []
    }
    "#);
    let same = add("a");
    assert!(same.starts_with("exit 0"), "{same}");
    assert_eq!(fs::read_to_string(&path).unwrap(), edited);

    insta::assert_snapshot!(edit("--remove_from_config", &["--model_name=c"]), @"
    exit 1
    error: cannot edit the configuration file <folder>/config.json
      caused by: there is no model `c` in it; the models are a, b
    ");
    insta::assert_snapshot!(edit("--remove_from_config", &["--model_name=b"]), @"
    exit 0
    Removed model `b` from <folder>/config.json.
    ");
    insta::assert_snapshot!(fs::read_to_string(&path).unwrap().replace(base, "<folder>"), @r#"
    {
        "model_config_list": [
            {"config": {"name": "a", "base_path": "<folder>"}}
        # the end
        ],
        "mediapipe_config_list": []
    }
    "#);
    let taken = edit(
        "--add_to_config",
        &["--model_name=a", "--model_path=/elsewhere"],
    );
    insta::assert_snapshot!(taken, @"
    exit 1
    error: cannot edit the configuration file <folder>/config.json
      caused by: Given model name is already occupied - `a`
    hint: remove it first with --remove_from_config
    ");

    let checked = serve(&["--check", "--config_path", config]);
    assert_eq!(checked.code, Some(2), "{}", checked.stderr);
    let left = fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(left, 1, "no temporary file is left");
}

#[test]
fn a_relative_path_is_relative_to_the_file() {
    let folder = repository::folder();
    let root = folder.path();
    repository::copy(&model("dummy/1"), &root.join("models/dummy/1"));
    let config = root.join("config.json");
    let config = config.to_str().unwrap();
    let add = |name: &str, path: &str| {
        let name = format!("--model_name={name}");
        let path = format!("--model_path={path}");
        let run = serve(&["--add_to_config", "--config_path", config, &name, &path]);
        run.failure().replace(root.to_str().unwrap(), "<folder>")
    };
    insta::assert_snapshot!(add("dummy", "models/dummy"), @"
    exit 0
    Added model `dummy` to <folder>/config.json.
    ");
    insta::assert_snapshot!(add("later", "models/later"), @"
    exit 0
    note: there is no folder <folder>/models/later; a relative path is relative to the configuration file
    Added model `later` to <folder>/config.json.
    ");
    insta::assert_snapshot!(fs::read_to_string(config).unwrap(), @r#"
    {
        "model_config_list": [
            {"config": {"name": "dummy", "base_path": "models/dummy"}},
            {"config": {"name": "later", "base_path": "models/later"}}
        ]
    }
    "#);
    let checked = serve(&["--check", "--config_path", config]);
    assert!(
        checked.text().contains("dummy  1         ok"),
        "{}",
        checked.text()
    );
}

#[test]
fn flags_of_the_model_become_settings_of_its_entry() {
    let folder = repository::folder();
    let config = folder.path().join("config.json");
    let config = config.to_str().unwrap();
    let add = |flags: &[&str]| {
        let add = [
            "--add_to_config",
            "--model_name=m",
            "--model_path=/m",
            "--config_path",
        ];
        let run = serve(&[&add[..], &[config], flags].concat());
        run.failure()
            .replace(folder.path().to_str().unwrap(), "<folder>")
    };
    let refused = [
        add(&["--plugin_config=[]"]),
        add(&["--scale=0"]),
        add(&["--max_sequence_number=4"]),
        add(&["--plugin_config={\"DEVICE_PROPERTIES\":{\"CPU\":{}}}"]),
    ]
    .concat();
    insta::assert_snapshot!(refused, @"
    exit 64
    error parsing options - --plugin_config: found `[]`; expected a JSON object
    exit 64
    error: the settings of model `m` are refused
      caused by: The provided scale is in wrong format - found `0`; expected a number that is not 0, or one for each channel, such as (58.4,57.1,57.4)
    exit 64
    error: the settings of model `m` are refused
      caused by: Stateful model config parameter used for non stateful model - max_sequence_number
    exit 64
    error: the settings of model `m` are refused
      caused by: The file is not valid json - the configuration file <folder>/config.json has 1 error: 3:91 model_config_list[0].config.plugin_config.DEVICE_PROPERTIES: found an object; expected a text, a number, true or false
    ");
    assert!(!std::path::Path::new(config).exists(), "nothing is written");
    let added = add(&[
        "--batch_size=auto",
        "--shape={\"a\": \"(1,3)\"}",
        "--layout=NHWC:NCHW",
        "--mean=(1,2,3)",
        "--scale=2.5",
        "--color_format=RGB:BGR",
        "--precision=fp32:uint8",
        "--model_version_policy={\"all\":{}}",
        "--nireq=2",
        "--inference_timeout_ms=300",
        "--target_device=CPU",
        "--plugin_config={\"NUM_STREAMS\":2}",
        "--cache_dir=cache",
    ]);
    assert!(added.starts_with("exit 0"), "{added}");
    insta::assert_snapshot!(fs::read_to_string(config).unwrap(), @r#"
    {
        "model_config_list": [
            {"config": {"name": "m", "base_path": "/m", "batch_size": "auto", "shape": {"a":"(1,3)"}, "layout": "NHWC:NCHW", "mean": "(1,2,3)", "scale": "2.5", "color_format": "RGB:BGR", "precision": "fp32:uint8", "model_version_policy": {"all":{}}, "target_device": "CPU", "plugin_config": {"NUM_STREAMS":2}, "nireq": 2, "inference_timeout_ms": 300, "cache_dir": "cache"}}
        ]
    }
    "#);
    fs::remove_file(config).unwrap();
    let stateful = add(&[
        "--stateful",
        "--idle_sequence_cleanup=false",
        "--low_latency_transformation",
        "--max_sequence_number=7",
        "--drain_sequences_seconds=3",
    ]);
    assert!(stateful.starts_with("exit 0"), "{stateful}");
    let text = fs::read_to_string(config).unwrap();
    let expected = r#""/m", "stateful": true, "idle_sequence_cleanup": false, "low_latency_transformation": true, "max_sequence_number": 7, "drain_sequences_seconds": 3}"#;
    assert!(text.contains(expected), "{text}");
}

#[test]
fn what_a_directive_needs_is_reported() {
    let reported: Vec<String> = [
        &["--add_to_config", "--model_name=a", "--config_path=/x/c"][..],
        &["--add_to_config", "--model_path=a", "--config_path=/x/c"],
        &["--remove_from_config", "--config_path=/x/c"],
        &["--remove_from_config", "--model_name=a"],
        &[
            "--remove_from_config",
            "--model_name=a",
            "--model_path=m",
            "--nireq=2",
            "--config_path=/x/c",
        ],
        &[
            "--remove_from_config",
            "--model_name=a",
            "--config_path=/x/c",
        ],
        &["--add_to_config", "--list_models"],
    ]
    .iter()
    .map(|flags| {
        let run = cli::run(
            cli::command()
                .arg("serve")
                .args(*flags)
                .env_remove("OVMS_MODEL_REPOSITORY_PATH"),
        );
        run.failure()
    })
    .collect();
    insta::assert_snapshot!(reported.concat(), @"
    exit 64
    Set model_name either with model_path or model_repository_path with add_to_config
    Usage: 
      ovms --add_to_config --model_name <model_name> --model_repository_path <repo_path> --config_path <config_path>
      ovms --add_to_config --model_name <model_name> --model_path <model_path> --config_path <config_path>
    exit 64
    Set model_name with add_to_config/remove_from_config
    Usage: 
      ovms --add_to_config --model_name <model_name> --model_repository_path <repo_path> --config_path <config_path>
      ovms --add_to_config --model_name <model_name> --model_path <model_path> --config_path <config_path>
      ovms --remove_from_config --model_name <model_name> --config_path <config_path>
    exit 64
    Set model_name with add_to_config/remove_from_config
    Usage: 
      ovms --add_to_config --model_name <model_name> --model_repository_path <repo_path> --config_path <config_path>
      ovms --add_to_config --model_name <model_name> --model_path <model_path> --config_path <config_path>
      ovms --remove_from_config --model_name <model_name> --config_path <config_path>
    exit 64
    Set config_path with add_to_config/remove_from_config
    exit 64
    Removing models from the configuration file, allows passing only model_name parameter. Invalid parameters passed: model_path, nireq, 
    exit 1
    error: cannot read the configuration file /x/c
      caused by: No such file or directory (os error 2)
    exit 64
    error: --list_models and --add_to_config are given; expected one of them
    ");
}
