//! `ovms pipeline check`: a file without rights, and models that are looked at without being compiled. The rest is in the
//! sheets `check` and `check_files`.

use std::{fs, os::unix::fs::PermissionsExt};

use crate::support::{
    checks::{Case, dummy, file, shown, sound},
    cli, loaded, model,
};

#[test]
fn a_file_without_rights_is_refused() {
    let case = Case::new();
    case.config(&file(&[dummy()], &[], &[sound("p")]));
    let path = case.path().join("config.json");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o000)).unwrap();
    let command = cli::without_rights(&path);
    insta::assert_snapshot!(shown(&case.run(command, &[])), @"
    exit 1
    error: cannot read the configuration file config.json
      caused by: Permission denied (os error 13)
    hint: permission denied: let the user that runs ovms read config.json
    ");
}

#[test]
fn a_model_that_is_looked_at_is_what_it_is_when_loaded() {
    let mut options = loaded::options();
    for name in [
        "dummy",
        "two_outputs",
        "noname",
        "scalar",
        "columns",
        "passthrough_bf16",
        "passthrough_f16",
        "passthrough_string",
        "passthrough_boolean",
        "dummy_onnx",
        "dummy_tflite",
        "dummy_savedmodel",
        "classifier",
    ] {
        let compiled = loaded::load(&model(name), &options, &[]).unwrap();
        let inspected = ovms::model::inspect(name, &model(name).join("1"), &options);
        let info = inspected.unwrap().info;
        assert_eq!(info, compiled.info, "{name}");
        assert!(!info.inputs.is_empty(), "{name}");
    }
    // Errors before the model is compiled are reported as at its load.
    options
        .properties
        .push(("NO_SUCH".to_owned(), "1".to_owned()));
    let refused = loaded::load(&model("dummy"), &options, &[]).err().unwrap();
    let inspected = ovms::model::inspect("dummy", &model("dummy").join("1"), &options);
    assert_eq!(inspected.unwrap_err().to_string(), refused.to_string());
}
