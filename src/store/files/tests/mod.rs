//! Records in folders: the rules of a store, one by one.

mod failures;
mod limits;
mod random;

use std::{cell::Cell, collections::BTreeMap, fs, path::Path, time::Duration};

use bytes::Bytes;
use tempfile::TempDir;

use super::{
    super::{
        NewSequence, OwnedSequence, SequenceKey, SequenceRecord, SequenceWrite, StartedSequence,
        StoredAnswer, StoredCount, TakenSequence, WriteOutcome,
    },
    FileStore,
    folder::LOCK,
};

thread_local! {
    /// The time of a test, in milliseconds since 1970.
    static NOW: Cell<u64> = const { Cell::new(1 << 40) };
}

/// Time limit of calls that are answered.
const LIMIT: Duration = Duration::from_secs(60);

fn pass(time: Duration) {
    NOW.set(NOW.get() + time.as_millis() as u64);
}

async fn open(folder: &Path) -> FileStore {
    let opened = FileStore::open_with(folder.to_owned(), false, LIMIT, || NOW.get()).await;
    opened.unwrap()
}

/// A start that waits for no step, of a model with room.
fn new(id: u64) -> NewSequence<'static> {
    NewSequence {
        model: "m",
        id,
        key: None,
        limit: 100,
        ahead: false,
        idle: None,
    }
}

fn key(id: u64) -> SequenceKey {
    let model = "m".to_owned();
    SequenceKey { model, id }
}

fn answer(key: &str) -> StoredAnswer {
    StoredAnswer {
        key: key.to_owned(),
        outputs: Bytes::from(format!("outputs of {key}")),
    }
}

/// A write of the first step.
fn write(key: &SequenceKey, epoch: u64) -> SequenceWrite<'_> {
    SequenceWrite {
        key,
        epoch,
        step: 1,
        state: Some(Bytes::from_static(b"state")),
        answer: None,
        recent: &[],
        ahead: false,
        idle: None,
        renews: true,
    }
}

/// Begins a sequence, and returns its id and its epoch.
async fn begin(store: &FileStore, new: NewSequence<'_>) -> (u64, u64) {
    match store.start(new).await.unwrap() {
        StartedSequence::Begun { id, epoch } => (id, epoch),
        other => panic!("{other:?}"),
    }
}

/// Begins a sequence, and writes its first step.
async fn written(store: &FileStore, new: NewSequence<'_>) -> (SequenceKey, u64) {
    let (id, epoch) = begin(store, new).await;
    let (key, idle) = (key(id), new.idle);
    let outcome = store
        .write(SequenceWrite {
            idle,
            ..write(&key, epoch)
        })
        .await;
    assert_eq!(outcome.unwrap(), WriteOutcome::Stored);
    (key, epoch)
}

async fn taken(store: &FileStore, key: &SequenceKey) -> SequenceRecord {
    match store.take(key).await.unwrap() {
        TakenSequence::Taken(record) => record,
        other => panic!("{other:?}"),
    }
}

/// Returns the files of the model, with the bytes of each.
fn files(folder: &TempDir) -> BTreeMap<String, Vec<u8>> {
    let Ok(list) = fs::read_dir(folder.path().join("m")) else {
        return BTreeMap::new();
    };
    let entries = list.map(Result::unwrap);
    entries
        .map(|entry| {
            let name = entry.file_name().into_string().unwrap();
            (name, fs::read(entry.path()).unwrap())
        })
        .collect()
}

#[tokio::test]
async fn a_record_comes_back_as_it_was_written_also_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path()).await;
    let (key, epoch) = written(&store, new(7)).await;
    let kept = answer("k");
    let step = SequenceWrite {
        step: 2,
        state: None,
        answer: Some(&kept),
        ..write(&key, epoch)
    };
    assert_eq!(store.write(step).await.unwrap(), WriteOutcome::Stored);
    let record = taken(&store, &key).await;
    let expected = SequenceRecord {
        epoch: record.epoch,
        step: 2,
        state: Bytes::from_static(b"state"),
        answer: Some(kept.clone()),
        recent: Bytes::new(),
        before: epoch,
        since: None,
    };
    assert_eq!(record, expected);
    drop(store);
    let again = taken(&open(folder.path()).await, &key).await;
    assert!(epoch < record.epoch && record.epoch < again.epoch);
    // Who took it and wrote nothing has left no trace.
    let epoch = again.epoch;
    assert_eq!(again, SequenceRecord { epoch, ..expected });
}

#[tokio::test]
async fn a_write_with_another_epoch_is_refused_and_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path()).await;
    let (key, old) = written(&store, new(0)).await;
    let owner = taken(&store, &key).await;
    let before = files(&folder);
    let late = write(&key, old);
    assert_eq!(store.write(late).await.unwrap(), WriteOutcome::Fenced);
    assert_eq!(
        store.end(&key, old, None).await.unwrap(),
        WriteOutcome::Fenced
    );
    let unknown = SequenceKey {
        id: 9,
        ..key.clone()
    };
    let outcome = store.write(write(&unknown, old)).await.unwrap();
    assert_eq!(outcome, WriteOutcome::Fenced);
    assert_eq!(files(&folder), before);
    let outcome = store.write(write(&key, owner.epoch)).await.unwrap();
    assert_eq!(outcome, WriteOutcome::Stored);
}

#[tokio::test]
async fn ids_are_the_lowest_free_ones_above_all_that_were_passed_over() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path()).await;
    begin(&store, new(2)).await;
    let (one, epoch) = begin(&store, new(0)).await;
    assert_eq!(one, 1);
    assert_eq!(
        store.end(&key(1), epoch, None).await.unwrap(),
        WriteOutcome::Stored
    );
    // It has not been passed over.
    let (one, epoch) = begin(&store, new(0)).await;
    assert_eq!(one, 1);
    assert_eq!(begin(&store, new(0)).await.0, 3);
    store.end(&key(1), epoch, None).await.unwrap();
    assert_eq!(begin(&store, new(0)).await.0, 4);
    let other = NewSequence {
        model: "../m/ü",
        ..new(0)
    };
    assert_eq!(begin(&store, other).await.0, 1);
}

#[tokio::test]
async fn a_start_looks_for_its_key_then_for_room_then_at_the_id() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path()).await;
    let keyed = NewSequence {
        key: Some("a"),
        limit: 1,
        ..new(0)
    };
    let (id, epoch) = begin(&store, keyed).await;
    let again = store.start(keyed).await.unwrap();
    assert_eq!(again, StartedSequence::Repeated(id));
    for (id, key) in [(0, None), (0, Some("b")), (id, None), (5, Some("a"))] {
        let full = store.start(NewSequence { id, key, ..keyed }).await.unwrap();
        assert_eq!(full, StartedSequence::Full, "{id} {key:?}");
    }
    let exists = NewSequence {
        id,
        limit: 2,
        ..keyed
    };
    assert_eq!(store.start(exists).await.unwrap(), StartedSequence::Exists);

    // The key of the start is that of a sequence whatever its later answers have; an id is looked up by its last answer.
    let (key, last) = (key(id), answer("b"));
    let step = SequenceWrite {
        answer: Some(&last),
        ..write(&key, epoch)
    };
    store.write(step).await.unwrap();
    assert_eq!(store.start(keyed).await.unwrap(), again);
    assert_eq!(store.start(exists).await.unwrap(), StartedSequence::Exists);
    let named = NewSequence {
        id,
        key: Some("b"),
        ..keyed
    };
    assert_eq!(store.start(named).await.unwrap(), again);

    // The same after its end and a restart, as long as the answer is kept.
    store.end(&key, epoch, Some(&last)).await.unwrap();
    drop(store);
    let store = open(folder.path()).await;
    assert_eq!(store.start(keyed).await.unwrap(), again);
    assert_eq!(store.start(named).await.unwrap(), again);
    // The first start begins nothing on the id that it was given then.
    assert_eq!(store.start(exists).await.unwrap(), again);
    pass(Duration::from_secs(300));
    assert_eq!(begin(&store, keyed).await.0, 1);
}

#[tokio::test]
async fn an_ended_sequence_has_its_answer_for_a_while_and_makes_room() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path()).await;
    let kept = Duration::from_secs(300);
    for idle in [None, Some(7), Some(3600)] {
        let idle = idle.map(Duration::from_secs);
        let alone = NewSequence {
            limit: 1,
            idle,
            ..new(3)
        };
        let (key, epoch) = written(&store, alone).await;
        let last = answer("last");
        let ended = store.end(&key, epoch, Some(&last)).await.unwrap();
        assert_eq!(ended, WriteOutcome::Stored);
        pass(kept - Duration::from_millis(1));
        for _ in 0..2 {
            let found = store.take(&key).await.unwrap();
            assert_eq!(found, TakenSequence::Ended(last.clone()));
        }
        let outcome = store.write(write(&key, epoch)).await.unwrap();
        assert_eq!(outcome, WriteOutcome::Fenced);
        // Only whoever names the id gets it before.
        let (id, other) = begin(&store, NewSequence { id: 0, ..alone }).await;
        assert_ne!(id, 3);
        store
            .end(&SequenceKey { id, ..key.clone() }, other, None)
            .await
            .unwrap();
        pass(Duration::from_millis(1));
        assert_eq!(store.take(&key).await.unwrap(), TakenSequence::Unknown);
        assert_eq!(files(&folder).len(), 0);
    }
    let (key, first) = written(&store, new(3)).await;
    store.end(&key, first, Some(&answer("last"))).await.unwrap();
    let (_, second) = begin(&store, new(3)).await;
    assert!(first < second);
    assert_eq!(files(&folder).len(), 0);
}

#[tokio::test]
async fn an_end_without_an_answer_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path()).await;
    let (key, epoch) = written(&store, new(0)).await;
    assert_eq!(files(&folder).len(), 1);
    store.end(&key, epoch, None).await.unwrap();
    assert_eq!(files(&folder).len(), 0);
    assert_eq!(store.take(&key).await.unwrap(), TakenSequence::Unknown);
    assert_eq!(
        store.end(&key, epoch, None).await.unwrap(),
        WriteOutcome::Fenced
    );
}

#[tokio::test]
async fn a_sequence_without_a_step_is_unknown_and_its_id_is_free() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path()).await;
    let (_, epoch) = begin(&store, new(4)).await;
    assert_eq!(store.take(&key(4)).await.unwrap(), TakenSequence::Unknown);
    let outcome = store.write(write(&key(4), epoch)).await.unwrap();
    assert_eq!(outcome, WriteOutcome::Fenced);
    begin(&store, new(4)).await;
    drop(store);
    let store = open(folder.path()).await;
    begin(&store, NewSequence { limit: 1, ..new(4) }).await;
}

#[tokio::test]
async fn a_record_that_was_ahead_of_a_process_that_died_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path()).await;
    let ahead = |id| NewSequence {
        ahead: true,
        ..new(id)
    };
    for id in 1..=3 {
        begin(&store, ahead(id)).await;
    }
    let (four, epoch) = written(&store, new(4)).await;
    let going = SequenceWrite {
        state: None,
        ahead: true,
        ..write(&four, epoch)
    };
    store.write(going).await.unwrap();
    let held = TakenSequence::Held("this server".to_owned());
    assert_eq!(store.take(&four).await.unwrap(), held);
    drop(store);
    let store = open(folder.path()).await;
    // They take no room, and nobody gets one of their ids without asking for it.
    let (id, _) = begin(&store, NewSequence { limit: 1, ..new(0) }).await;
    assert_eq!(id, 5);
    let (_, epoch) = begin(&store, new(3)).await;
    let outcome = store.write(write(&key(3), epoch)).await.unwrap();
    assert_eq!(outcome, WriteOutcome::Stored);
    for key in [key(1), key(2), four] {
        assert_eq!(store.take(&key).await.unwrap(), TakenSequence::Lost);
        assert_eq!(store.take(&key).await.unwrap(), TakenSequence::Unknown);
    }
    assert_eq!(files(&folder).len(), 1);
}

#[tokio::test]
async fn an_expired_record_is_as_if_it_had_never_been() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path()).await;
    let idle = Some(Duration::from_secs(10));
    let alone = NewSequence {
        limit: 1,
        idle,
        key: Some("k"),
        ..new(0)
    };
    let (key, epoch) = written(&store, alone).await;
    pass(Duration::from_secs(9));
    let step = SequenceWrite {
        idle,
        ..write(&key, epoch)
    };
    assert_eq!(
        store.write(step.clone()).await.unwrap(),
        WriteOutcome::Stored
    );
    pass(Duration::from_secs(9));
    assert_eq!(taken(&store, &key).await.step, 1);
    pass(Duration::from_secs(1));
    assert_eq!(store.write(step).await.unwrap(), WriteOutcome::Fenced);
    assert_eq!(store.take(&key).await.unwrap(), TakenSequence::Unknown);
    assert_eq!(files(&folder).len(), 0);
    written(&store, alone).await;
    drop(store);
    pass(Duration::from_secs(10));
    let store = open(folder.path()).await;
    assert_eq!(files(&folder).len(), 0);
    begin(&store, alone).await;
}

#[tokio::test]
async fn a_write_that_does_not_renew_a_record_lets_it_expire() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path()).await;
    let idle = Some(Duration::from_secs(10));
    let (key, epoch) = written(&store, NewSequence { idle, ..new(7) }).await;
    let forever = NewSequence {
        idle: None,
        ..new(8)
    };
    let (other, its) = written(&store, forever).await;
    pass(Duration::from_secs(9));
    for (key, epoch) in [(&key, epoch), (&other, its)] {
        let looks = SequenceWrite {
            idle,
            renews: false,
            ..write(key, epoch)
        };
        assert_eq!(store.write(looks).await.unwrap(), WriteOutcome::Stored);
    }
    pass(Duration::from_secs(1));
    assert_eq!(store.take(&key).await.unwrap(), TakenSequence::Unknown);
    pass(Duration::from_secs(10));
    assert_eq!(taken(&store, &other).await.step, 1);
}

#[tokio::test]
async fn those_that_live_are_counted_and_listed_and_those_that_expire_once() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path()).await;
    let idle = Some(Duration::from_secs(10));
    let (first, epoch) = written(&store, new(3)).await;
    let short = NewSequence { idle, ..new(4) };
    let (second, other) = begin(&store, short).await;
    let four = key(second);
    let step = SequenceWrite {
        idle,
        step: 5,
        ..write(&four, other)
    };
    store.write(step).await.unwrap();
    pass(Duration::from_secs(7));
    let mut listed = store.list("m", 10).await.unwrap();
    listed.sort_unstable_by_key(|it| it.id);
    let listed: Vec<_> = listed.iter().map(|it| (it.id, it.steps, it.idle)).collect();
    let seven = Some(Duration::from_secs(7));
    assert_eq!(listed, [(3, 1, None), (4, 5, seven)]);
    assert_eq!(store.list("m", 1).await.unwrap().len(), 1);
    assert_eq!(store.list("other", 1).await.unwrap(), []);
    let count = |live, expired| StoredCount { live, expired };
    assert_eq!(store.count("m").await.unwrap(), count(2, 0));
    pass(Duration::from_secs(3));
    assert_eq!(store.count("m").await.unwrap(), count(1, 1));
    assert_eq!(store.count("m").await.unwrap(), count(1, 0));
    assert_eq!(files(&folder).len(), 1);
    // The last answer of one that is over is no sequence.
    store.end(&first, epoch, Some(&answer("k"))).await.unwrap();
    assert_eq!(store.count("m").await.unwrap(), count(0, 0));
    pass(Duration::from_secs(600));
    assert_eq!(store.count("m").await.unwrap(), count(0, 0));
    assert_eq!(store.count("other").await.unwrap(), count(0, 0));
}

#[tokio::test]
async fn those_that_somebody_else_has_taken_or_ended_are_reported() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path()).await;
    let mut owned = Vec::new();
    for id in 1..=4 {
        let (id, epoch) = match id {
            4 => begin(&store, new(id)).await,
            _ => (id, written(&store, new(id)).await.1),
        };
        owned.push(OwnedSequence { id, epoch });
    }
    assert_eq!(store.passed("m", &owned).await.unwrap(), []);
    assert_eq!(store.passed("other", &owned).await.unwrap(), owned);
    let taken = taken(&store, &key(1)).await.epoch;
    let end = answer("k");
    store
        .end(&key(2), owned[1].epoch, Some(&end))
        .await
        .unwrap();
    store.end(&key(3), owned[2].epoch, None).await.unwrap();
    assert_eq!(store.passed("m", &owned).await.unwrap(), owned[..3]);
    owned[0].epoch = taken;
    assert_eq!(store.passed("m", &owned).await.unwrap(), owned[1..3]);
}

#[tokio::test]
async fn epochs_grow_over_restarts_even_without_the_number_in_the_lock_file() {
    let folder = tempfile::tempdir().unwrap();
    let mut last = 0;
    for round in 0..4 {
        let store = open(folder.path()).await;
        let (key, epoch) = written(&store, new(0)).await;
        assert!(last < epoch);
        last = epoch;
        if round % 2 == 0 {
            store.end(&key, epoch, None).await.unwrap();
        } else {
            fs::remove_file(folder.path().join(LOCK)).unwrap();
        }
    }
}

#[tokio::test]
async fn a_clock_that_is_set_changes_neither_owners_nor_records() {
    const DAY: u64 = 24 * 3600 * 1000;
    let folder = tempfile::tempdir().unwrap();
    let mut store = open(folder.path()).await;
    let (key, mut epoch) = written(&store, new(7)).await;
    let now = NOW.get();
    for (round, time) in [now - DAY, now + DAY, 0, now].into_iter().enumerate() {
        NOW.set(time);
        // Of a restart, and without one.
        if round % 2 == 0 {
            drop(store);
            store = open(folder.path()).await;
        }
        let record = taken(&store, &key).await;
        assert!(record.epoch > epoch, "at {time}");
        assert_eq!(record.state, Bytes::from_static(b"state"));
        let late = store.write(write(&key, epoch)).await.unwrap();
        assert_eq!(late, WriteOutcome::Fenced, "at {time}");
        epoch = record.epoch;
        let outcome = store.write(write(&key, epoch)).await.unwrap();
        assert_eq!(outcome, WriteOutcome::Stored, "at {time}");
        let count = store.count("m").await.unwrap();
        assert_eq!((count.live, count.expired), (1, 0), "at {time}");
    }
}
