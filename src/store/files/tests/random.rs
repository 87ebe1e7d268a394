//! Random calls, whose answers are those of a plain list.

use std::time::Duration;

use bytes::Bytes;
use proptest::prelude::*;

use super::{answer, open, pass};
use crate::store::{
    NewSequence, SequenceKey, SequenceRecord, SequenceWrite, StartedSequence, TakenSequence,
    WriteOutcome,
};

/// A call, or an event, of the random test.
#[derive(Debug, Clone)]
enum Call {
    Start {
        model: u8,
        id: u64,
        key: Option<u8>,
        limit: u32,
        ahead: bool,
        idle: Option<u64>,
    },
    Take {
        model: u8,
        id: u64,
    },
    Write {
        model: u8,
        id: u64,
        stale: bool,
        state: Option<u8>,
        key: Option<u8>,
        ahead: bool,
        idle: Option<u64>,
    },
    End {
        model: u8,
        id: u64,
        stale: bool,
        key: Option<u8>,
    },
    Pass {
        seconds: u64,
    },
    Restart,
}

fn calls() -> impl Strategy<Value = Call> {
    let (model, id) = (0..2_u8, 1..4_u64);
    let key = || proptest::option::of(0..3_u8);
    let idle = || proptest::option::of(1..100_u64);
    prop_oneof![
        4 => (model.clone(), 0..4_u64, key(), 1..4_u32, any::<bool>(), idle())
            .prop_map(|(model, id, key, limit, ahead, idle)| Call::Start { model, id, key, limit, ahead, idle }),
        3 => (model.clone(), id.clone()).prop_map(|(model, id)| Call::Take { model, id }),
        4 => (model.clone(), id.clone(), proptest::bool::weighted(0.2), proptest::option::of(any::<u8>()), key(), any::<bool>(), idle())
            .prop_map(|(model, id, stale, state, key, ahead, idle)| Call::Write { model, id, stale, state, key, ahead, idle }),
        3 => (model, id, proptest::bool::weighted(0.2), key())
            .prop_map(|(model, id, stale, key)| Call::End { model, id, stale, key }),
        2 => (1..70_u64).prop_map(|seconds| Call::Pass { seconds }),
        1 => Just(Call::Restart),
    ]
}

/// A record of the plain model.
#[derive(Debug, Clone)]
struct Plain {
    model: u8,
    id: u64,
    epoch: u64,
    expires: Option<u64>,
    begun_with: Option<u8>,
    /// Step, state, and key of the answer.
    content: Option<(u64, Vec<u8>, Option<u8>)>,
    ahead: bool,
    ended: bool,
    lost: bool,
    /// Owned by this process.
    owned: bool,
}

impl Plain {
    fn is_live(&self) -> bool {
        !self.ended && !self.lost
    }
}

/// A store as a list, which is searched for everything.
#[derive(Debug, Default)]
struct PlainStore {
    records: Vec<Plain>,
    now: u64,
    next: [u64; 2],
}

impl PlainStore {
    fn find(&mut self, model: u8, id: u64) -> Option<&mut Plain> {
        self.records
            .iter_mut()
            .find(|it| (it.model, it.id) == (model, id))
    }

    fn remove(&mut self, model: u8, id: u64) {
        self.records.retain(|it| (it.model, it.id) != (model, id));
    }

    fn owned(&mut self, model: u8, id: u64, epoch: u64) -> Option<&mut Plain> {
        self.find(model, id)
            .filter(|it| it.is_live() && it.owned && it.epoch == epoch)
    }

    fn expire(&mut self) {
        let now = self.now;
        self.records
            .retain(|it| it.expires.is_none_or(|expires| expires > now));
    }

    fn restart(&mut self) {
        self.records.retain(|it| it.content.is_some() || it.ahead);
        for record in &mut self.records {
            record.lost = record.ahead;
            record.owned = false;
        }
        self.next = [1, 1];
    }

    /// Returns the answer to a start, with 0 for the epoch, and the id to begin with.
    fn start(
        &mut self,
        model: u8,
        id: u64,
        key: Option<u8>,
        limit: u32,
    ) -> Result<u64, StartedSequence> {
        let of = || self.records.iter().filter(|it| it.model == model);
        let repeats = |it: &&Plain| {
            key.is_some()
                && !it.lost
                && if id == 0 {
                    it.begun_with == key
                } else {
                    let has_ended = it.ended && it.begun_with == key;
                    let answers = it.content.as_ref().is_some_and(|content| content.2 == key);
                    it.id == id && (answers || has_ended)
                }
        };
        if let Some(found) = of().find(repeats) {
            return Err(StartedSequence::Repeated(found.id));
        }
        if of().filter(|it| it.is_live()).count() >= limit as usize {
            return Err(StartedSequence::Full);
        }
        if of().any(|it| it.id == id && it.is_live()) {
            return Err(StartedSequence::Exists);
        }
        if id != 0 {
            return Ok(id);
        }
        let mut next = self.next[usize::from(model)];
        while of().any(|it| it.id == next) {
            next += 1;
        }
        self.next[usize::from(model)] = next;
        Ok(next)
    }
}

fn named(key: Option<u8>) -> Option<String> {
    key.map(|key| format!("k{key}"))
}

/// Makes the calls of a store and of the plain one, and compares what they return.
async fn compare(calls: Vec<Call>) {
    const MODELS: [&str; 2] = ["m", "a/b %"];
    let folder = tempfile::tempdir().unwrap();
    let mut store = open(folder.path()).await;
    let mut plain = PlainStore {
        next: [1, 1],
        ..PlainStore::default()
    };
    let (mut last, mut step) = (0, 0);
    let seconds = |idle: Option<u64>| idle.map(Duration::from_secs);
    for call in calls {
        plain.expire();
        let now = plain.now;
        let until = |idle: Option<u64>| idle.map(|idle| now + idle);
        let sequence = |model: u8, id| SequenceKey {
            model: MODELS[usize::from(model)].to_owned(),
            id,
        };
        let epoch_of = |plain: &mut PlainStore, model, id, stale| {
            let epoch = plain.find(model, id).map_or(1, |it| it.epoch);
            epoch - u64::from(stale)
        };
        let context = format!("{call:?} of {plain:?}");
        match call {
            Call::Start {
                model,
                id,
                key,
                limit,
                ahead,
                idle,
            } => {
                let text = named(key);
                let new = NewSequence {
                    model: MODELS[usize::from(model)],
                    id,
                    key: text.as_deref(),
                    limit,
                    ahead,
                    idle: seconds(idle),
                };
                let started = store.start(new).await.unwrap();
                match plain.start(model, id, key, limit) {
                    Err(expected) => assert_eq!(started, expected, "{context}"),
                    Ok(expected) => {
                        let StartedSequence::Begun { id: found, epoch } = started else {
                            panic!("{started:?}: {context}");
                        };
                        assert_eq!(found, expected, "{context}");
                        assert!(last < epoch, "{context}");
                        last = epoch;
                        plain.remove(model, found);
                        let begun_with = key.filter(|_| id == 0);
                        plain.records.push(Plain {
                            model,
                            id: found,
                            epoch,
                            expires: until(idle),
                            begun_with,
                            content: None,
                            ahead,
                            ended: false,
                            lost: false,
                            owned: true,
                        });
                    }
                }
            }
            Call::Take { model, id } => {
                let found = store.take(&sequence(model, id)).await.unwrap();
                let record = plain.find(model, id);
                let expected = match record {
                    None => TakenSequence::Unknown,
                    Some(it) if it.lost => TakenSequence::Lost,
                    Some(it) if it.ahead => TakenSequence::Held("this server".to_owned()),
                    Some(Plain { content: None, .. }) => TakenSequence::Unknown,
                    Some(it) => {
                        let (step, state, key) = it.content.clone().unwrap();
                        let answer = named(key).map(|key| answer(&key));
                        if it.ended {
                            TakenSequence::Ended(answer.unwrap())
                        } else {
                            let TakenSequence::Taken(SequenceRecord { epoch, before, .. }) = found
                            else {
                                panic!("{found:?}: {context}");
                            };
                            assert!(last < epoch, "{context}");
                            last = epoch;
                            it.epoch = epoch;
                            it.owned = true;
                            TakenSequence::Taken(SequenceRecord {
                                epoch,
                                before,
                                step,
                                state: state.into(),
                                answer,
                                recent: Bytes::new(),
                                since: None,
                            })
                        }
                    }
                };
                if matches!(expected, TakenSequence::Unknown | TakenSequence::Lost) {
                    plain.remove(model, id);
                }
                assert_eq!(found, expected, "{context}");
            }
            Call::Write {
                model,
                id,
                stale,
                state,
                key,
                ahead,
                idle,
            } => {
                step += 1;
                let epoch = epoch_of(&mut plain, model, id, stale);
                let state = state.map(|byte| vec![byte; usize::from(byte) * 20]);
                let answer = named(key).map(|key| answer(&key));
                let sequence = sequence(model, id);
                let write = SequenceWrite {
                    key: &sequence,
                    epoch,
                    step,
                    state: state.clone().map(Bytes::from),
                    answer: answer.as_ref(),
                    recent: &[],
                    ahead,
                    idle: seconds(idle),
                    renews: true,
                };
                let outcome = store.write(write).await.unwrap();
                let expected = match plain.owned(model, id, epoch) {
                    None => WriteOutcome::Fenced,
                    Some(it) => {
                        let old = it.content.take().map(|content| content.1);
                        it.content = Some((step, state.or(old).unwrap_or_default(), key));
                        (it.ahead, it.expires) = (ahead, until(idle));
                        WriteOutcome::Stored
                    }
                };
                assert_eq!(outcome, expected, "{context}");
            }
            Call::End {
                model,
                id,
                stale,
                key,
            } => {
                let epoch = epoch_of(&mut plain, model, id, stale);
                let answer = named(key).map(|key| answer(&key));
                let outcome = store
                    .end(&sequence(model, id), epoch, answer.as_ref())
                    .await
                    .unwrap();
                let expected = match plain.owned(model, id, epoch) {
                    None => WriteOutcome::Fenced,
                    Some(it) => {
                        it.ended = true;
                        it.ahead = false;
                        it.expires = Some(now + 300);
                        it.content = Some((0, Vec::new(), key));
                        if key.is_none() {
                            plain.remove(model, id);
                        }
                        WriteOutcome::Stored
                    }
                };
                assert_eq!(outcome, expected, "{context}");
            }
            Call::Pass { seconds } => {
                plain.now += seconds;
                pass(Duration::from_secs(seconds));
            }
            Call::Restart => {
                drop(store);
                store = open(folder.path()).await;
                plain.restart();
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn random_calls_have_the_answers_of_a_plain_list(
        calls in proptest::collection::vec(calls(), 1..60),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
        let runtime = runtime.unwrap();
        runtime.block_on(compare(calls));
    }
}
