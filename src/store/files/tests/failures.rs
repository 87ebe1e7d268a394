//! Folders that others have or have changed, killed processes, full disks, and many calls at once.

use std::{collections::BTreeMap, fs, io, os::unix::fs::symlink, sync::Arc};

use bytes::Bytes;
use tempfile::TempDir;

use super::{
    super::{
        FileStore, NewSequence, SequenceWrite, StartedSequence, StoreError, TakenSequence,
        WriteOutcome, folder::LOCK,
    },
    LIMIT, answer, begin, files, key, new, open, taken, write, written,
};
use crate::task::Task;

#[tokio::test]
async fn a_folder_is_of_one_server_at_a_time() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("deep").join("er");
    let store = open(&path).await;
    let refused = FileStore::open(path.clone(), true, LIMIT)
        .await
        .unwrap_err();
    assert_eq!(
        refused.to_string(),
        format!(
            "another server uses the folder {}; each needs its own, or a store that can be shared: \
             redis://HOST",
            path.display()
        )
    );
    // With waits for the disk, too, everything comes back.
    drop(store);
    let store = FileStore::open(path.clone(), true, LIMIT).await.unwrap();
    let (one, _) = written(&store, new(1)).await;
    let (two, epoch) = written(&store, new(2)).await;
    store.end(&two, epoch, None).await.unwrap();
    drop(store);
    let store = FileStore::open(path, true, LIMIT).await.unwrap();
    assert_eq!(taken(&store, &one).await.state, "state");
    assert_eq!(store.take(&two).await.unwrap(), TakenSequence::Unknown);
}

#[tokio::test]
async fn a_folder_that_cannot_be_one_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    fs::write(&path, "").unwrap();
    let refused = FileStore::open(path.clone(), false, LIMIT)
        .await
        .unwrap_err();
    assert_eq!(
        refused.to_string(),
        format!("cannot create {}", path.display())
    );
    let path = folder.path().join(LOCK);
    fs::write(&path, "me").unwrap();
    let refused = FileStore::open(folder.path().to_owned(), false, LIMIT).await;
    let expected = format!(
        "{} has something else in the place of a sequence: \"me\"; expected a whole number",
        path.display()
    );
    assert_eq!(refused.unwrap_err().to_string(), expected);
}

#[tokio::test]
async fn what_a_killed_process_had_begun_to_write_is_deleted_and_the_old_record_stays() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path()).await;
    let (key, _) = written(&store, new(1)).await;
    drop(store);
    let model = folder.path().join("m");
    let whole = fs::read(model.join("1")).unwrap();
    fs::write(model.join("1.part"), &whole[..20]).unwrap();
    fs::write(model.join("2.part"), "").unwrap();
    let others = ["notes", "notes.part", "01", "0", "1.party", "-1"];
    for name in others {
        fs::write(model.join(name), "of somebody else").unwrap();
    }
    fs::create_dir(folder.path().join("not%-ours")).unwrap();
    fs::write(folder.path().join("not%-ours").join("1"), "").unwrap();
    let store = open(folder.path()).await;
    assert_eq!(taken(&store, &key).await.state, "state");
    let mut expected = Vec::from(others);
    expected.push("1");
    expected.sort_unstable();
    assert!(files(&folder).keys().eq(&expected));
}

#[tokio::test]
async fn a_file_that_is_no_record_is_named_and_the_others_are_served() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path()).await;
    for id in 1..=2 {
        written(&store, new(id)).await;
    }
    let path = folder.path().join("m").join("1");
    let whole = fs::read(&path).unwrap();
    let mut store = Some(store);
    let mut changed: Vec<Vec<u8>> = (0..whole.len()).map(|end| whole[..end].to_vec()).collect();
    changed.push([&*whole, b"!"].concat());
    // The state has a checksum of the caller.
    for place in 0..whole.len() - "state".len() {
        let mut bits = whole.clone();
        bits[place] ^= 0x10;
        changed.push(bits);
    }
    for (number, bytes) in changed.iter().enumerate() {
        fs::write(&path, bytes).unwrap();
        // Every few of them are there at the start.
        if number % 8 == 0 {
            drop(store.take());
        }
        let store = match &store {
            Some(store) => store,
            None => store.insert(open(folder.path()).await),
        };
        let error = store.take(&key(1)).await.unwrap_err();
        assert!(
            matches!(error, StoreError::Garbage { .. }),
            "{number}: {error}"
        );
        assert!(
            error.to_string().starts_with(path.to_str().unwrap()),
            "{error}"
        );
    }
    let store = open({
        drop(store.take());
        fs::write(&path, "ovmsseq2 of a newer server").unwrap();
        folder.path()
    })
    .await;
    insta::assert_snapshot!(
        store.take(&key(1)).await.unwrap_err().to_string().replace(path.to_str().unwrap(), "FILE"),
        @"FILE has something else in the place of a sequence: begins with ovmsseq2; expected ovmsseq1"
    );
    assert_eq!(begin(&store, NewSequence { limit: 2, ..new(0) }).await.0, 3);
    let exists = store.start(new(1)).await.unwrap();
    assert_eq!(exists, StartedSequence::Exists);
    assert_eq!(taken(&store, &key(2)).await.state, "state");
    // It is as it was once somebody has put it back, and gone once somebody has deleted it.
    fs::write(&path, &whole).unwrap();
    assert_eq!(taken(&store, &key(1)).await.state, "state");
    fs::remove_file(&path).unwrap();
    assert_eq!(store.take(&key(1)).await.unwrap(), TakenSequence::Unknown);
    begin(&store, new(1)).await;
}

#[tokio::test]
async fn a_file_that_is_no_record_can_be_discarded_and_others_cannot() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path()).await;
    for id in 1..=2 {
        written(&store, new(id)).await;
    }
    let path = folder.path().join("m").join("1");
    fs::write(&path, "text").unwrap();
    for is_known in [false, true] {
        // Whether a start has a key or not.
        let key = is_known.then_some("k");
        let again = NewSequence { key, ..new(1) };
        let exists = store.start(again).await.unwrap();
        assert_eq!(exists, StartedSequence::Exists);
    }
    let sound = |_: &Bytes| None;
    let found = store.discard(&key(1), sound).await.unwrap();
    insta::assert_snapshot!(found.unwrap().replace(&folder.path().display().to_string(), "<folder>"), @"<folder>/m/1 has something else in the place of a sequence: 4 bytes; expected at least 16");
    assert!(!path.exists());
    assert_eq!(store.take(&key(1)).await.unwrap(), TakenSequence::Unknown);
    assert_eq!(store.discard(&key(1), sound).await.unwrap(), None);
    assert_eq!(store.discard(&key(2), sound).await.unwrap(), None);
    assert_eq!(taken(&store, &key(2)).await.state, "state");
    begin(&store, new(1)).await;
}

#[tokio::test]
async fn a_look_for_damage_takes_nothing_from_an_owner() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path()).await;
    let damaged = |_: &Bytes| Some("damaged".to_owned());
    let (id, epoch) = begin(&store, new(1)).await;
    let key = key(id);
    // One that has no record yet is none that is damaged.
    assert_eq!(store.discard(&key, damaged).await.unwrap(), None);
    let first = write(&key, epoch);
    assert_eq!(store.write(first).await.unwrap(), WriteOutcome::Stored);
    assert_eq!(store.discard(&key, |_| None).await.unwrap(), None);
    let second = write(&key, epoch);
    assert_eq!(store.write(second).await.unwrap(), WriteOutcome::Stored);
    let found = store.discard(&key, damaged).await.unwrap();
    assert_eq!(found.as_deref(), Some("damaged"));
    begin(&store, new(1)).await;
}

/// Makes the next file of the sequence one that has no room.
fn fill_up(folder: &TempDir, id: u64) {
    let model = folder.path().join("m");
    fs::create_dir_all(&model).unwrap();
    symlink("/dev/full", model.join(format!("{id}.part"))).unwrap();
}

#[track_caller]
fn assert_full<T: std::fmt::Debug>(result: Result<T, StoreError>) {
    match result.unwrap_err() {
        StoreError::Files { source, .. } => {
            assert_eq!(source.kind(), io::ErrorKind::StorageFull);
        }
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn a_full_disk_leaves_the_old_record() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path()).await;
    let ahead = NewSequence {
        ahead: true,
        limit: 1,
        ..new(1)
    };
    fill_up(&folder, 1);
    assert_full(store.start(ahead).await);
    assert_eq!(files(&folder).len(), 0);
    let (key, epoch) = written(&store, NewSequence { limit: 1, ..new(1) }).await;
    let before = files(&folder);
    fill_up(&folder, 1);
    let step = SequenceWrite {
        step: 2,
        ..write(&key, epoch)
    };
    assert_full(store.write(step.clone()).await);
    assert_eq!(files(&folder), before);
    fill_up(&folder, 1);
    assert_full(store.end(&key, epoch, Some(&answer("k"))).await);
    assert_eq!(files(&folder), before);
    // It is as before, and the owner goes on.
    assert_eq!(store.write(step).await.unwrap(), WriteOutcome::Stored);
    assert_eq!(taken(&store, &key).await.step, 2);
    let epoch = taken(&store, &key).await.epoch;
    store.end(&key, epoch, Some(&answer("k"))).await.unwrap();
    fill_up(&folder, 1);
    assert_full(store.start(ahead).await);
    let kept = TakenSequence::Ended(answer("k"));
    assert_eq!(store.take(&key).await.unwrap(), kept);
    begin(&store, ahead).await;
}

#[tokio::test]
async fn a_folder_that_has_gone_is_no_loss_of_the_server() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = open(&path).await;
    let (key, epoch) = written(&store, new(1)).await;
    fs::remove_dir_all(&path).unwrap();
    let error = store.write(write(&key, epoch)).await.unwrap_err();
    let place = path.join("m").join("1");
    assert_eq!(
        error.to_string(),
        format!("cannot write {}", place.display())
    );
    let error = store.take(&key).await.unwrap_err();
    let lock = path.join(LOCK);
    assert_eq!(error.to_string(), format!("cannot read {}", lock.display()));
    let ended = store.end(&key, epoch, None).await;
    assert_eq!(ended.unwrap_err().to_string(), error.to_string());
}

#[tokio::test]
async fn what_cannot_be_ended_is_in_nobodys_way() {
    let folder = tempfile::tempdir().unwrap();
    let [path, away] = ["store", "away"].map(|name| folder.path().join(name));
    let store = open(&path).await;
    let ahead = |id| NewSequence {
        ahead: true,
        limit: 1,
        ..new(id)
    };
    let (id, epoch) = begin(&store, ahead(1)).await;
    let key = key(id);
    fs::rename(&path, &away).unwrap();
    store.end(&key, epoch, None).await.unwrap_err();
    store.end_later(&key, epoch);
    fs::rename(&away, &path).unwrap();
    assert_eq!(store.take(&key).await.unwrap(), TakenSequence::Lost);
    let (_, epoch) = begin(&store, ahead(1)).await;
    // One that has begun since is none of them.
    store.end_later(&key, epoch - 1);
    let exists = store
        .start(NewSequence {
            limit: 2,
            ..ahead(1)
        })
        .await;
    assert_eq!(exists.unwrap(), StartedSequence::Exists);
    store.end_later(&key, epoch);
    begin(&store, ahead(1)).await;
}

#[tokio::test]
async fn a_folder_that_comes_back_has_its_records() {
    let folder = tempfile::tempdir().unwrap();
    let [path, away] = ["store", "away"].map(|name| folder.path().join(name));
    let store = open(&path).await;
    let (key, _) = written(&store, new(1)).await;
    let deleted = written(&store, new(2)).await.0;
    fs::rename(&path, &away).unwrap();
    store.take(&key).await.unwrap_err();
    // An empty one, as the place of what is to be mounted there.
    fs::create_dir(&path).unwrap();
    store.take(&key).await.unwrap_err();
    let ahead = |id| NewSequence {
        ahead: true,
        ..new(id)
    };
    store.start(ahead(3)).await.unwrap_err();
    fs::write(path.join(LOCK), "").unwrap();
    store.take(&key).await.unwrap_err();
    store.start(ahead(3)).await.unwrap_err();
    // Nothing is written that another server would have as well.
    assert!(!path.join("m").exists());
    fs::remove_dir_all(&path).unwrap();
    fs::rename(&away, &path).unwrap();
    assert_eq!(taken(&store, &key).await.step, 1);
    begin(&store, ahead(3)).await;
    // What somebody has deleted is unknown.
    fs::remove_file(path.join("m").join("2")).unwrap();
    assert_eq!(store.take(&deleted).await.unwrap(), TakenSequence::Unknown);
}

#[tokio::test]
async fn a_file_of_an_earlier_step_is_not_gone_on_with() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path()).await;
    let (key, epoch) = written(&store, new(1)).await;
    let path = folder.path().join("m").join("1");
    let before = fs::read(&path).unwrap();
    let second = SequenceWrite {
        step: 2,
        ..write(&key, epoch)
    };
    assert_eq!(store.write(second).await.unwrap(), WriteOutcome::Stored);
    let newest = fs::read(&path).unwrap();
    assert_eq!(taken(&store, &key).await.step, 2);
    fs::write(&path, before).unwrap();
    assert_eq!(store.take(&key).await.unwrap(), TakenSequence::Lost);
    assert_eq!(store.take(&key).await.unwrap(), TakenSequence::Unknown);
    // One of a later step is that of a write whose end nobody has waited for.
    written(&store, new(1)).await;
    fs::write(&path, newest).unwrap();
    assert_eq!(taken(&store, &key).await.step, 2);
}

#[tokio::test]
async fn a_first_step_that_cannot_be_stored_leaves_no_sequence() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path()).await;
    let one = |id| NewSequence {
        limit: 1,
        ..new(id)
    };
    for id in 1..4 {
        let (id, epoch) = begin(&store, one(id)).await;
        fill_up(&folder, id);
        assert_full(store.write(write(&key(id), epoch)).await);
        assert_eq!(store.count("m").await.unwrap().live, 0);
    }
    assert_eq!(files(&folder).len(), 0);
    written(&store, one(1)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn thousands_of_sequences_at_once_lose_nothing() {
    const SEQUENCES: u64 = 2000;
    let folder = tempfile::tempdir().unwrap();
    let store = FileStore::open(folder.path().to_owned(), false, LIMIT).await;
    let store = Arc::new(store.unwrap());
    let one = |number: u64| {
        let store = Arc::clone(&store);
        Task::spawn(async move {
            let start = NewSequence {
                limit: SEQUENCES as u32,
                ahead: number.is_multiple_of(3),
                ..new(0)
            };
            let (id, mut epoch) = begin(&store, start).await;
            let key = key(id);
            for step in 1..=4 {
                let state = Bytes::from(format!("{id} {step}"));
                let (state, ahead) = (Some(state), step == 2 && number.is_multiple_of(3));
                let write = SequenceWrite {
                    step,
                    state,
                    ahead,
                    ..write(&key, epoch)
                };
                assert_eq!(store.write(write).await.unwrap(), WriteOutcome::Stored);
                if step == 3 {
                    let record = taken(&store, &key).await;
                    assert_eq!(record.state, format!("{id} 3"));
                    epoch = record.epoch;
                }
            }
            if number.is_multiple_of(4) {
                let ended = store.end(&key, epoch, None).await.unwrap();
                assert_eq!(ended, WriteOutcome::Stored);
            }
            (id, epoch)
        })
    };
    let tasks: Vec<_> = (0..SEQUENCES).map(one).collect();
    let mut seen = Vec::new();
    for task in tasks {
        seen.push(task.await.unwrap());
    }
    let mut epochs: Vec<u64> = seen.iter().map(|seen| seen.1).collect();
    epochs.sort_unstable();
    epochs.dedup();
    assert_eq!(epochs.len(), seen.len());
    let expected: BTreeMap<u64, u64> = seen
        .into_iter()
        .enumerate()
        .filter(|(number, _)| number % 4 != 0)
        .map(|(_, seen)| seen)
        .collect();
    // Ids of those that have ended were used again.
    assert_eq!(expected.len() as u64, SEQUENCES / 4 * 3);
    let names = files(&folder).into_keys();
    let mut names: Vec<u64> = names.map(|name| name.parse().unwrap()).collect();
    names.sort_unstable();
    assert!(names.iter().eq(expected.keys()));
    drop(store);
    let store = open(folder.path()).await;
    for &id in expected.keys() {
        let record = taken(&store, &key(id)).await;
        assert_eq!((record.step, record.state), (4, format!("{id} 4").into()));
    }
}
