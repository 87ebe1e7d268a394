//! Model repositories in S3, on an emulator.

use std::{fs, path::Path};

use ovms::model::storage::{DownloadProgress, RemoteVersion, Repository};

use crate::support::{cloud::Lab, emulator::Emulator, fixture, relay::Relay};

/// Puts one model with two versions into a bucket of a test; the second version contains folders.
fn with_models(bucket: &str) -> &'static Emulator {
    let emulator = Emulator::shared_s3();
    emulator.s3_call("PUT", &format!("/{bucket}"), b"");
    for (name, body) in [
        ("dummy/1/dummy.xml", "one"),
        ("dummy/1/dummy.bin", "weights of one"),
        ("dummy/1/mapping_config.json", "{}"),
        ("dummy/2/saved_model.pb", "two"),
        ("dummy/2/variables/variables.index", "index"),
        ("dummy/2/variables/", ""),
        ("dummy/2/assets/", ""),
        ("dummy/backup/dummy.xml", "old"),
        ("dummy/readme.txt", "text"),
        ("dummies/9/dummy.onnx", "of another model"),
    ] {
        emulator.s3_call("PUT", &format!("/{bucket}/{name}"), body.as_bytes());
    }
    emulator
}

fn numbers(versions: &[RemoteVersion]) -> Vec<i64> {
    versions.iter().map(|version| version.number).collect()
}

/// Counts downloads of objects over a relay.
fn downloads(relay: &Relay) -> usize {
    let sent = relay.sent();
    String::from_utf8_lossy(&sent)
        .lines()
        .filter(|line| line.starts_with("GET /once/dummy/"))
        .count()
}

#[tokio::test]
async fn versions_are_listed_and_downloaded_with_the_folders_in_them() {
    let emulator = with_models("listed");
    let lab = Lab::s3(emulator.port);
    let storage = lab.open("s3://listed/dummy").await;
    let versions = storage.survey().await.unwrap().versions;
    assert_eq!(numbers(&versions), [1, 2]);
    let one = storage.fetch(&versions[0]).await.unwrap();
    let mut names: Vec<_> = fs::read_dir(&one)
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    names.sort();
    assert_eq!(names, ["dummy.bin", "dummy.xml", "mapping_config.json"]);
    assert_eq!(fs::read(one.join("dummy.bin")).unwrap(), b"weights of one");
    let progress = storage.progress();
    let two = storage.fetch(&versions[1]).await.unwrap();
    let index = two.join("variables/variables.index");
    assert_eq!(fs::read(index).unwrap(), b"index");
    let whole = DownloadProgress {
        version: 2,
        received: 8,
        expected: 8,
    };
    assert_eq!(*progress.borrow(), whole);
}

#[tokio::test]
async fn what_is_there_is_not_downloaded_again() {
    let emulator = with_models("once");
    let relay = Relay::to(emulator.port);
    let lab = Lab::s3(relay.port);
    let storage = lab.open("s3://once/dummy").await;
    let versions = storage.survey().await.unwrap().versions;
    let first = storage.fetch(&versions[0]).await.unwrap();
    assert_eq!(downloads(&relay), 3);
    assert_eq!(storage.fetch(&versions[0]).await.unwrap(), first);
    drop(storage);
    let storage = lab.open("s3://once/dummy").await;
    let versions = storage.survey().await.unwrap().versions;
    assert_eq!(storage.fetch(&versions[0]).await.unwrap(), first);
    assert_eq!(downloads(&relay), 3);
}

#[tokio::test]
async fn a_changed_version_is_noticed_and_downloaded_beside_the_old_one() {
    let emulator = with_models("changed");
    let lab = Lab::s3(emulator.port);
    let open = || lab.open("s3://changed/dummy");
    let storage = open().await;
    let before = storage.survey().await.unwrap().versions;
    let old = storage.fetch(&before[0]).await.unwrap();
    emulator.s3_call("PUT", "/changed/dummy/1/dummy.xml", b"new");
    let after = storage.survey().await.unwrap().versions;
    assert_ne!(before[0].identity, after[0].identity);
    assert_eq!(before[1].identity, after[1].identity);
    let new = storage.fetch(&after[0]).await.unwrap();
    assert_eq!(fs::read(new.join("dummy.xml")).unwrap(), b"new");
    // What is loaded from it goes on until it is swapped.
    assert_eq!(fs::read(old.join("dummy.xml")).unwrap(), b"one");
    removed(&old, async || storage.keep_only(&after).await).await;
    assert!(new.exists());
}

#[tokio::test]
async fn removed_objects_and_versions_are_gone() {
    let emulator = with_models("removed");
    let lab = Lab::s3(emulator.port);
    let storage = lab.open("s3://removed/dummy").await;
    let before = storage.survey().await.unwrap().versions;
    let copy = storage.fetch(&before[0]).await.unwrap();
    emulator.s3_call("DELETE", "/removed/dummy/1/mapping_config.json", b"");
    let after = storage.survey().await.unwrap().versions;
    assert_eq!(after[0].objects.len(), 2);
    // Listed, and gone when it is downloaded.
    removed(&copy, async || storage.keep_only(&before[1..]).await).await;
    let refused = storage.fetch(&before[0]).await.unwrap_err();
    assert_eq!(
        refused.to_string(),
        "`dummy/1/mapping_config.json` changed while it was downloaded"
    );
    for name in ["dummy.xml", "dummy.bin"] {
        emulator.s3_call("DELETE", &format!("/removed/dummy/1/{name}"), b"");
    }
    assert_eq!(numbers(&storage.survey().await.unwrap().versions), [2]);
    assert_eq!(lab.copies(), [""; 0]);
}

#[tokio::test]
async fn the_bucket_or_the_server_may_be_part_of_the_base_path() {
    let emulator = with_models("named");
    let lab = Lab::new(&[]);
    let path = format!("s3://127.0.0.1:{}/named/dummies/", emulator.port);
    // Nobody's identity is enough for this server.
    assert_eq!(numbers(&lab.list(&path).await.unwrap()), [9]);
    emulator.s3_call("PUT", "/root", b"");
    let root = format!("s3://127.0.0.1:{}/root", emulator.port);
    assert_eq!(numbers(&lab.list(&root).await.unwrap()), [0; 0]);
    emulator.s3_call("PUT", "/root/4/m.onnx", b"model");
    assert_eq!(numbers(&lab.list(&root).await.unwrap()), [4]);
}

#[tokio::test]
async fn more_than_a_page_of_objects_is_listed() {
    let emulator = Emulator::s3_with_pages(10);
    emulator.s3_call("PUT", "/models", b"");
    for number in 0..21 {
        emulator.s3_call("PUT", &format!("/models/many/1/{number}"), b"");
    }
    let page = emulator.s3_call("GET", "/models?list-type=2", b"");
    assert_eq!(page.matches("<Key>").count(), 10, "{page}");
    let lab = Lab::s3(emulator.port);
    let versions = lab.list("s3://models/many").await.unwrap();
    assert_eq!(versions[0].objects.len(), 21);
}

#[tokio::test]
async fn a_real_model_comes_whole() {
    let emulator = Emulator::shared_s3();
    emulator.s3_call("PUT", "/real", b"");
    let folder = fixture("models/classifier/1");
    for entry in fs::read_dir(&folder).unwrap().flatten() {
        let name = entry.file_name().into_string().unwrap();
        let body = fs::read(entry.path()).unwrap();
        emulator.s3_call("PUT", &format!("/real/classifier/1/{name}"), &body);
    }
    let lab = Lab::s3(emulator.port);
    let options = || Ok(lab.options.clone());
    let repository = Repository::open("s3://real/classifier", options)
        .await
        .unwrap();
    let found = repository.survey(None).await.unwrap().versions;
    let copy = repository.local(&found[0].locator).await.unwrap();
    for entry in fs::read_dir(&folder).unwrap().flatten() {
        let copied = fs::read(copy.join(entry.file_name())).unwrap();
        assert!(copied == fs::read(entry.path()).unwrap());
    }
    assert!(ovms::model::repository::files(&copy).is_ok());
    removed(&copy, async || repository.keep_only(&[]).await).await;
}

/// Removes what is not to be kept until a copy is gone: a process that another test is about to start may still have its
/// lock, as it has all files of this one.
async fn removed(copy: &Path, remove: impl AsyncFn()) {
    for _ in 0..500 {
        remove().await;
        if !copy.exists() {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    panic!("{} is still there", copy.display());
}
