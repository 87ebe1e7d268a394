//! Files that do not answer, as those of a mount whose server is away: here pipes, which are opened once somebody has
//! the other end.

use std::{
    fs::{self, File},
    io::Read as _,
    path::Path,
    time::Duration,
};

use futures::future::join_all;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use tempfile::TempDir;

use super::{
    super::{FileStore, MAX_AT_ONCE, NewSequence, StoreError, TakenSequence},
    begin, key, new, taken, written,
};
use crate::task;

/// Time limit of calls that are not answered.
const SHORT: Duration = Duration::from_secs(1);

/// Time after which a test has failed.
const MAX_WAIT: Duration = Duration::from_secs(60);

async fn open(folder: &TempDir) -> FileStore {
    let opened = FileStore::open(folder.path().to_owned(), false, SHORT).await;
    opened.unwrap()
}

fn hang(path: &Path) {
    let mode = Mode::RUSR | Mode::WUSR;
    mknodat(CWD, path, FileType::Fifo, mode, 0).unwrap();
}

#[track_caller]
fn assert_late<T: std::fmt::Debug>(result: Result<T, StoreError>, folder: &TempDir) {
    let text = result.unwrap_err().to_string();
    let path = folder.path().display();
    let expected = format!("no answer of {path} within 1s: the system is not done with its files");
    assert_eq!(text, expected);
}

#[test]
fn files_that_do_not_answer_hold_up_nobody_for_longer_and_leave_threads_for_others() {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_time().max_blocking_threads(MAX_AT_ONCE + 1);
    runtime.build().unwrap().block_on(async {
        let folder = tempfile::tempdir().unwrap();
        let store = open(&folder).await;
        for id in 1..=2 {
            written(&store, new(id)).await;
        }
        let place = folder.path().join("m").join("1");
        fs::remove_file(&place).unwrap();
        hang(&place);
        let (hangs, other) = (key(1), key(2));
        let calls = (0..=MAX_AT_ONCE).map(|_| store.take(&hangs));
        for late in join_all(calls).await {
            assert_late(late, &folder);
        }
        assert_late(store.take(&other).await, &folder);
        let others = task::blocking("test", || ());
        tokio::time::timeout(MAX_WAIT, others)
            .await
            .expect("there is a thread");
        // It answers again: nothing is in there.
        let end = fs::OpenOptions::new().read(true).write(true).open(&place);
        let end = end.unwrap();
        fs::remove_file(&place).unwrap();
        drop(end);
        let all = store.places.acquire_many(MAX_AT_ONCE as u32);
        drop(tokio::time::timeout(MAX_WAIT, all).await.expect("they end"));
        assert_eq!(taken(&store, &other).await.state, "state");
        assert_eq!(store.take(&hangs).await.unwrap(), TakenSequence::Unknown);
    });
}

#[tokio::test]
async fn a_start_that_comes_too_late_leaves_no_sequence() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder).await;
    let model = folder.path().join("m");
    fs::create_dir(&model).unwrap();
    let place = model.join("1.part");
    hang(&place);
    let ahead = NewSequence {
        ahead: true,
        limit: 1,
        ..new(1)
    };
    assert_late(store.start(ahead).await, &folder);
    let mut content = Vec::new();
    File::open(&place)
        .unwrap()
        .read_to_end(&mut content)
        .unwrap();
    assert!(!content.is_empty());
    let all = store.places.acquire_many(MAX_AT_ONCE as u32);
    drop(tokio::time::timeout(MAX_WAIT, all).await.expect("it ends"));
    begin(&store, ahead).await;
}

#[test]
fn a_folder_that_does_not_answer_cannot_be_opened() {
    let folder = tempfile::tempdir().unwrap();
    // The server has both ends of it, and waits for what it would have written itself.
    hang(&folder.path().join(super::LOCK));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build();
    let runtime = runtime.unwrap();
    let opened = FileStore::open(folder.path().to_owned(), false, SHORT);
    assert_late(runtime.block_on(opened), &folder);
    // The thread is not waited for.
    runtime.shutdown_background();
}
