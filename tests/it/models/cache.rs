//! Cache of compiled models between loads.

use std::{fs, path::Path};

use ovms::openvino::LoadOptions;

use crate::support::{
    loaded::{infer, load, options},
    model, repository,
};

fn cached(folder: &Path, device: &str) -> LoadOptions {
    LoadOptions {
        device: device.to_owned(),
        cache_dir: Some(folder.to_owned()),
        ..options()
    }
}

fn files(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

#[test]
fn the_second_load_comes_from_the_cache() {
    for device in ["CPU", "AUTO:CPU", "HETERO:CPU"] {
        let root = repository::folder();
        // Not there yet: it is made.
        let folder = root.path().join("cache");
        let options = cached(&folder, device);
        let first = load(&model("classifier"), &options, &[]).unwrap();
        assert!(!first.from_cache, "{device}");
        let kept = files(&folder);
        assert!(!kept.is_empty(), "{device}");
        let second = load(&model("classifier"), &options, &[]).unwrap();
        assert!(second.from_cache, "{device}");
        assert_eq!(files(&folder), kept, "{device}");
        assert_eq!(first.info, second.info, "{device}");
        let image = vec![128.0; 3 * 224 * 224];
        let scores = |model| infer(model, &[("image", &[1, 3, 224, 224], &image)]).unwrap();
        assert_eq!(scores(&first), scores(&second), "{device}");
    }
}

#[test]
fn another_shape_is_another_model_in_the_cache() {
    use ovms::{openvino::BatchOption, tensor::Dim};
    let root = repository::folder();
    let mut options = cached(root.path(), "CPU");
    assert!(!load(&model("dummy"), &options, &[]).unwrap().from_cache);
    options.batch = Some(BatchOption::Dim(Dim::Fixed(2)));
    assert!(!load(&model("dummy"), &options, &[]).unwrap().from_cache);
    assert!(load(&model("dummy"), &options, &[]).unwrap().from_cache);
    assert_eq!(files(root.path()).len(), 2);
}

#[test]
fn a_folder_that_cannot_be_used_is_done_without() {
    let root = repository::folder();
    let file = root.path().join("file");
    fs::write(&file, "").unwrap();
    for folder in [&file, &file.join("below")] {
        let dummy = load(&model("dummy"), &cached(folder, "CPU"), &[]).unwrap();
        assert!(!dummy.from_cache);
        let outputs = infer(&dummy, &[("b", &[1, 10], &[1.0; 10])]).unwrap();
        assert_eq!(outputs, [(vec![1, 10], vec![2.0; 10])]);
    }
}

#[test]
fn a_spoiled_cache_is_not_believed() {
    let root = repository::folder();
    let options = cached(root.path(), "CPU");
    load(&model("dummy"), &options, &[]).unwrap();
    let blob = root.path().join(&files(root.path())[0]);
    fs::write(&blob, "spoiled").unwrap();
    let dummy = load(&model("dummy"), &options, &[]).unwrap();
    let outputs = infer(&dummy, &[("b", &[1, 10], &[1.0; 10])]).unwrap();
    assert_eq!(outputs, [(vec![1, 10], vec![2.0; 10])]);
}
