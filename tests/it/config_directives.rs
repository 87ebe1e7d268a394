//! `--list_models`, `--add_to_config` and `--remove_from_config`.

use std::{fs, os::unix::fs::PermissionsExt};

use crate::support::{
    cli::{self, Run},
    repository,
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
    error: --list_models needs --model_repository_path
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
    note: there is no folder /elsewhere
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
fn what_a_directive_needs_is_told() {
    let told: Vec<String> = [
        &["--add_to_config", "--model_name=a", "--config_path=/x/c"][..],
        &["--add_to_config", "--model_path=a", "--config_path=/x/c"],
        &["--remove_from_config", "--config_path=/x/c"],
        &["--remove_from_config", "--model_name=a"],
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
    insta::assert_snapshot!(told.concat(), @"
    exit 64
    error: --add_to_config needs --model_path or --model_repository_path
    exit 64
    error: --add_to_config needs --model_name
    exit 64
    error: --remove_from_config needs --model_name
    exit 64
    error: --remove_from_config needs --config_path
    exit 1
    error: cannot read the configuration file /x/c
      caused by: No such file or directory (os error 2)
    exit 64
    error: --list_models and --add_to_config are given; expected one of them
    ");
}
