//! Sequences in Redis or Valkey, for any number of servers.
//!
//! A record is a hash, and each change of it one script, so that it happens whole or not at all, by the clock of
//! the store. Keys of one model have one hash tag: in a cluster they are on one node, since the scripts count its sequences.
//!
//! | key, behind the prefix | |
//! |---|---|
//! | `:{MODEL}:s:ID` | record of a sequence |
//! | `:{MODEL}:live` | ids of live sequences, each with the time at which it is over if nobody uses it, and of those that are over until they are counted |
//! | `:{MODEL}:epoch`, `:{MODEL}:next` | counters of epochs and of ids |
//! | `:{MODEL}:failover` | the last failover that is known |
//! | `:{MODEL}:k:KEY` | id that a start with an idempotency key was given |
//! | `:{MODEL}:t:TOKEN` | id that one without was given, for as long as it may be tried again |
//! | `:server:NAME` | a server that lives |
//! | `:wanted:NAME` | channel on which it is asked for sequences |

#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzz;
mod link;
mod undo;

use std::{
    sync::{
        Arc, LazyLock,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use bytes::Bytes;
use futures::StreamExt;
use parking_lot::Mutex;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use redis::{Cmd, Script};
use tokio::sync::mpsc;

use self::{
    link::{Call, Link, ScriptAnswer},
    undo::{FailedCall, FailedCalls},
};
use super::{
    NewSequence, OwnedSequence, SequenceKey, SequenceRecord, SequenceWrite, StartedSequence,
    StoreError, StoredAnswer, StoredCount, StoredSequence, TakenSequence, WriteOutcome,
    address::RedisAddress,
};
use crate::task::Task;

/// Time for which other servers count on one, after it has announced itself.
const LEASE: Duration = Duration::from_secs(5);

/// Sequences that others want and that nobody has looked at yet.
const WANTED: usize = 1024;

/// Maximum time for which an answer of a sequence that is over is kept.
const MAX_ENDED_TIME: Duration = Duration::from_secs(300);

/// The first pause before another look at a sequence that its owner still has, and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_millis(2), Duration::from_millis(50));

/// Maximum number of sequences that one script looks at, which takes Redis 0.14 ms, so that it holds up no others.
const MAX_SEQUENCES: usize = 256;

/// A script behind what all of them begin with.
macro_rules! script {
    ($name:ident, $file:literal) => {
        static $name: LazyLock<Script> = LazyLock::new(|| {
            Script::new(concat!(include_str!("prelude.lua"), include_str!($file)))
        });
    };
}

script!(START, "start.lua");
script!(TAKE, "take.lua");
script!(WRITE, "write.lua");
script!(END, "end.lua");
script!(COUNT, "count.lua");
script!(LIST, "list.lua");
script!(EPOCHS, "epochs.lua");
script!(UNDO, "undo.lua");

/// Time beyond the limit of its call for which a start with neither id nor key can be taken back, or sent again, by its
/// token.
const TOKEN_TIME: Duration = Duration::from_secs(60);

/// A store in Redis.
#[derive(Debug)]
pub struct RedisStore {
    server: Arc<Server>,
    wanted: Mutex<Option<mpsc::Receiver<SequenceKey>>>,
    /// Tasks that announce that this server lives, that listen to others, and that tidy up, until it is closed.
    tasks: Mutex<Option<[Task<()>; 3]>>,
}

/// This server among those that share the store.
#[derive(Debug)]
struct Server {
    name: String,
    prefix: String,
    link: Link,
    /// End of the time for which others count on it, in milliseconds since `epoch`.
    sure: AtomicU64,
    /// Number of times that the store did not know, or no longer knew, that it lives.
    lives: AtomicU64,
    since: Instant,
    /// Calls to be undone, or to be done.
    failed: FailedCalls,
}

impl RedisStore {
    /// Connects, and says that this server lives.
    ///
    /// # Errors
    ///
    /// Fails if there is no answer within the time limit.
    pub(super) async fn open(address: &RedisAddress, limit: Duration) -> Result<Self, StoreError> {
        let link = Link::new(address, limit)?;
        let server = Arc::new(Server {
            name: format!("{:016x}", rand::random::<u64>()),
            prefix: address.prefix.clone(),
            link,
            sure: AtomicU64::new(0),
            lives: AtomicU64::new(0),
            since: Instant::now(),
            failed: FailedCalls::default(),
        });
        server.live().await?;
        server.link.warn_of_losses().await;
        let (wanted, receiver) = mpsc::channel(WANTED);
        let [living, listening, tidying] = [(); 3].map(|()| Arc::clone(&server));
        Ok(Self {
            wanted: Mutex::new(Some(receiver)),
            tasks: Mutex::new(Some([
                Task::spawn(async move { living.keep_alive().await }),
                Task::spawn(async move { listening.listen(&wanted).await }),
                Task::spawn(async move { tidying.tidy().await }),
            ])),
            server,
        })
    }

    pub(super) async fn start(&self, new: NewSequence<'_>) -> Result<StartedSequence, StoreError> {
        let server = &self.server;
        // What one before has begun without having heard of it is in the way.
        server.undo_failed_of(&new).await?;
        let base = server.base(new.model);
        let mut call = Call::new(&START);
        call.key(&base).key(&format!("{base}live"));
        call.arg(&server.name)
            .arg(new.id)
            .arg(new.key.unwrap_or(""));
        let ahead = if new.ahead { "1" } else { "s" };
        call.arg(new.limit).arg(ahead).arg(milliseconds(new.idle));
        // One attempt that follows another, whose answer was lost, begins no other sequence.
        let token = format!("{:016x}", rand::random::<u64>());
        call.arg(&token);
        call.arg(milliseconds(Some(server.link.limit() + TOKEN_TIME)));
        let called = server.link.call(&call).await;
        if called.is_err() {
            server.failed.add(FailedCall::start(&new, token));
        }
        let (answer, _) = called?;
        started(&answer).ok_or_else(|| server.link.garbage(&answer))
    }

    pub(super) async fn take(&self, key: &SequenceKey) -> Result<TakenSequence, StoreError> {
        let server = &self.server;
        let deadline = Instant::now() + server.link.limit();
        let (mut pause, longest) = PAUSES;
        let mut gone = None;
        loop {
            let taken = server.take(key, gone.as_deref()).await?;
            let TakenSequence::Held(owner) = &taken else {
                return Ok(taken);
            };
            let lives = server.ask(owner, key).await?;
            if Instant::now() >= deadline {
                return Ok(taken);
            }
            gone = (!lives).then(|| owner.clone());
            if lives {
                tokio::time::sleep(pause).await;
                pause = longest.min(pause * 2);
            }
        }
    }

    /// Removes a sequence that is lost with its owner, which is another server and gone; returns whether there was one.
    pub(crate) async fn discard_lost(&self, key: &SequenceKey) -> Result<bool, StoreError> {
        let server = &self.server;
        let mut command = redis::cmd("HMGET");
        command.arg(server.record(key)).arg("o").arg("a");
        let found = server.link.command(command).await?;
        let Ok((Some(owner), Some(ahead))) =
            redis::from_redis_value::<(Option<String>, Option<String>)>(found)
        else {
            return Ok(false);
        };
        // One that is stored goes on.
        if ahead == "0" || owner == server.name || server.lives(&owner).await? {
            return Ok(false);
        }
        Ok(server.take(key, Some(&owner)).await? == TakenSequence::Lost)
    }

    pub(super) async fn write(&self, write: SequenceWrite<'_>) -> Result<WriteOutcome, StoreError> {
        let mut call = self.server.call(&WRITE, write.key);
        call.arg(write.epoch).arg(write.step);
        call.arg(u8::from(write.ahead));
        match write.renews {
            true => call.arg(milliseconds(write.idle)),
            false => call.arg(""),
        };
        call.arg(&*write.state.unwrap_or_default());
        call.answer(write.answer).arg(write.recent);
        let (answer, _) = self.server.link.call(&call).await?;
        match answer.word() {
            "stored" => Ok(WriteOutcome::Stored),
            "fenced" => Ok(WriteOutcome::Fenced),
            _ => Err(self.server.link.garbage(&answer)),
        }
    }

    pub(super) async fn end(
        &self,
        key: &SequenceKey,
        epoch: u64,
        answer: Option<&StoredAnswer>,
    ) -> Result<WriteOutcome, StoreError> {
        let server = &self.server;
        let (answer, repeated) = server.end(key, epoch, answer).await?;
        match answer.word() {
            "stored" => Ok(WriteOutcome::Stored),
            // The attempt before may have got through.
            "unknown" if repeated => Ok(WriteOutcome::Stored),
            "unknown" | "fenced" => Ok(WriteOutcome::Fenced),
            _ => Err(server.link.garbage(&answer)),
        }
    }

    /// Ends a sequence whose state is nowhere, once the store answers again.
    pub(super) fn end_later(&self, key: &SequenceKey, epoch: u64) {
        self.server.failed.add(FailedCall::end(key, epoch));
    }

    /// Ends a sequence that this server owns in vain, since the newest state is nowhere, unless it `is_in_use` here by now.
    pub(crate) async fn let_go(
        &self,
        key: &SequenceKey,
        is_in_use: impl Future<Output = bool>,
    ) -> Result<(), StoreError> {
        let server = &self.server;
        let mut command = redis::cmd("HMGET");
        command.arg(server.record(key)).arg("o").arg("a").arg("e");
        let found = server.link.command(command).await?;
        let found: (Option<String>, Option<String>, Option<u64>) =
            redis::from_redis_value(found).unwrap_or_default();
        if let (Some(owner), Some(ahead), Some(epoch)) = found
            && owner == server.name
            && ahead != "0"
            && !is_in_use.await
        {
            // One that has begun since has another epoch.
            server.end(key, epoch, None).await?;
        }
        Ok(())
    }

    pub(super) async fn count(&self, model: &str) -> Result<StoredCount, StoreError> {
        let call = self.server.call_of_all(&COUNT, model);
        let (answer, _) = self.server.link.call(&call).await?;
        counted(&answer).ok_or_else(|| self.server.link.garbage(&answer))
    }

    pub(super) async fn list(
        &self,
        model: &str,
        most: usize,
    ) -> Result<Vec<StoredSequence>, StoreError> {
        let mut call = self.server.call_of_all(&LIST, model);
        call.arg(most);
        let (answer, _) = self.server.link.call(&call).await?;
        listed(&answer).ok_or_else(|| self.server.link.garbage(&answer))
    }

    pub(super) async fn passed(
        &self,
        model: &str,
        owned: &[OwnedSequence],
    ) -> Result<Vec<OwnedSequence>, StoreError> {
        let mut passed = Vec::new();
        for some in owned.chunks(MAX_SEQUENCES) {
            let mut call = self.server.call_of_all(&EPOCHS, model);
            for one in some {
                call.arg(one.id);
            }
            let (answer, _) = self.server.link.call(&call).await?;
            let epochs = epochs(&answer).filter(|epochs| epochs.len() == some.len());
            let epochs = epochs.ok_or_else(|| self.server.link.garbage(&answer))?;
            let pairs = some.iter().zip(epochs);
            let others = pairs.filter(|(one, epoch)| *epoch != Some(one.epoch));
            passed.extend(others.map(|(one, _)| *one));
        }
        Ok(passed)
    }

    /// Returns the sequences that others want, the first time.
    pub(super) fn wanted(&self) -> Option<mpsc::Receiver<SequenceKey>> {
        let mut wanted = self.wanted.lock();
        wanted.take()
    }

    pub(super) fn life(&self) -> Option<u64> {
        self.server.life()
    }

    pub(super) async fn close(&self) {
        let tasks = self.tasks.lock().take();
        // Before the word that it is gone, which they would take back.
        for task in tasks.into_iter().flatten() {
            task.end().await;
        }
        let key = self.server.alive(&self.server.name);
        // It is over in a few seconds without that.
        drop(self.server.link.command(Cmd::del(key)).await);
        self.server.undo_failed().await;
    }
}

impl Server {
    /// Returns the beginning of the keys of a model.
    fn base(&self, model: &str) -> String {
        let model = utf8_percent_encode(model, NON_ALPHANUMERIC);
        format!("{}:{{{model}}}:", self.prefix)
    }

    /// Returns the key of a record.
    fn record(&self, key: &SequenceKey) -> String {
        format!("{}s:{}", self.base(&key.model), key.id)
    }

    fn alive(&self, name: &str) -> String {
        format!("{}:server:{name}", self.prefix)
    }

    fn channel(&self, name: &str) -> String {
        format!("{}:wanted:{name}", self.prefix)
    }

    /// Makes a call about a sequence that exists.
    fn call(&self, script: &'static Script, key: &SequenceKey) -> Call {
        let base = self.base(&key.model);
        let mut call = Call::new(script);
        call.key(&base);
        call.key(&self.record(key));
        call.key(&format!("{base}live"));
        if std::ptr::eq(script, &raw const *TAKE) {
            call.arg(&self.name);
        }
        call.arg(key.id);
        call
    }

    /// Makes a call about all sequences of a model.
    fn call_of_all(&self, script: &'static Script, model: &str) -> Call {
        let base = self.base(model);
        let mut call = Call::new(script);
        call.key(&base).key(&format!("{base}live"));
        call
    }

    /// Takes a sequence over; `gone` names a server that does not live, from which it is taken even if it is ahead.
    async fn take(
        &self,
        key: &SequenceKey,
        gone: Option<&str>,
    ) -> Result<TakenSequence, StoreError> {
        let mut call = self.call(&TAKE, key);
        call.arg(gone.unwrap_or_default());
        let (answer, _) = self.link.call(&call).await?;
        taken(&answer).ok_or_else(|| self.link.garbage(&answer))
    }

    async fn end(
        &self,
        key: &SequenceKey,
        epoch: u64,
        answer: Option<&StoredAnswer>,
    ) -> Result<(ScriptAnswer, bool), StoreError> {
        let mut call = self.call(&END, key);
        call.arg(epoch).answer(answer);
        call.arg(milliseconds(Some(MAX_ENDED_TIME)));
        self.link.call(&call).await
    }

    /// Asks another server for a sequence. Returns whether it lives.
    async fn ask(&self, owner: &str, key: &SequenceKey) -> Result<bool, StoreError> {
        if !self.lives(owner).await? {
            return Ok(false);
        }
        let message = format!("{} {}", key.id, key.model);
        self.link
            .command(Cmd::publish(self.channel(owner), message))
            .await?;
        Ok(true)
    }

    /// Returns whether a server lives.
    async fn lives(&self, name: &str) -> Result<bool, StoreError> {
        let found = self.link.command(Cmd::exists(self.alive(name))).await?;
        Ok(found != redis::Value::Int(0))
    }

    /// Announces that this server lives.
    async fn live(&self) -> Result<(), StoreError> {
        let said = self.since.elapsed();
        let lease = milliseconds(Some(LEASE));
        let say = |only: &str| {
            let mut command = redis::cmd("SET");
            command.arg(self.alive(&self.name)).arg(1);
            command.arg("PX").arg(lease).arg(only);
            self.link.command(command)
        };
        if say("XX").await? == redis::Value::Nil {
            self.lives.fetch_add(1, Ordering::Release);
            say("NX").await?;
        }
        self.link.synchronize().await?;
        self.link.verify().await?;
        let until = u64::try_from((said + LEASE).as_millis()).unwrap_or(u64::MAX);
        self.sure.store(until, Ordering::Release);
        Ok(())
    }

    async fn keep_alive(&self) {
        let mut ticks = tokio::time::interval(LEASE / 4);
        let mut failing = false;
        loop {
            ticks.tick().await;
            match self.live().await {
                Ok(()) if failing => tracing::info!("the sequence store answers again"),
                Err(error) if !failing => tracing::warn!("sequence store: {error}"),
                _ => {}
            }
            failing = self.life().is_none();
        }
    }

    /// Performs the periodic work that may take longer than others count on this server.
    async fn tidy(&self) {
        let mut ticks = tokio::time::interval(LEASE / 4);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            if self.life().is_some() {
                self.send_sign().await;
                self.undo_failed().await;
            }
        }
    }

    fn life(&self) -> Option<u64> {
        let life = self.lives.load(Ordering::Acquire);
        let is_sure =
            u128::from(self.sure.load(Ordering::Acquire)) > self.since.elapsed().as_millis();
        is_sure.then_some(life)
    }

    /// Passes on what other servers want, for as long as there is somebody to take it.
    async fn listen(&self, wanted: &mpsc::Sender<SequenceKey>) {
        let mut is_refused = false;
        for round in 0.. {
            if wanted.is_closed() {
                return;
            }
            match self.link.subscribe(&self.channel(&self.name), round).await {
                Ok(mut messages) => {
                    is_refused = false;
                    // Its own message comes in between, so that silence is that of a machine that is gone.
                    while let Ok(Some(message)) = tokio::time::timeout(LEASE, messages.next()).await
                    {
                        let text = message.get_payload::<String>().unwrap_or_default();
                        if let Some(key) = self::wanted(&text) {
                            // They ask again.
                            drop(wanted.try_send(key));
                        }
                    }
                }
                Err(error) if error.code() == Some("NOPERM") && !is_refused => {
                    is_refused = true;
                    self.link.warn_of_channel(&self.channel("*"), &error);
                }
                // One that cannot be reached is reported by what needs it.
                Err(_) => {}
            }
            tokio::time::sleep(PAUSES.1).await;
        }
    }

    /// Sends an empty message to its own channel, as a sign that messages still come.
    async fn send_sign(&self) {
        let sign = Cmd::publish(self.channel(&self.name), "");
        drop(self.link.command(sign).await);
    }
}

/// Reads the answer to a start.
fn started(answer: &ScriptAnswer) -> Option<StartedSequence> {
    Some(match (answer.word(), answer.number(1), answer.number(2)) {
        ("begun", Some(id), Some(epoch)) => StartedSequence::Begun { id, epoch },
        ("repeated", Some(id), _) => StartedSequence::Repeated(id),
        ("full", ..) => StartedSequence::Full,
        ("exists", ..) => StartedSequence::Exists,
        _ => return None,
    })
}

/// Reads the answer to the wish for a sequence.
fn taken(answer: &ScriptAnswer) -> Option<TakenSequence> {
    let stored = |key: usize| StoredAnswer {
        key: answer.text(key),
        outputs: answer.bytes(key + 1),
    };
    Some(match (answer.word(), answer.number(1), answer.number(2)) {
        ("taken", Some(epoch), Some(step)) => TakenSequence::Taken(SequenceRecord {
            epoch,
            before: answer.number(8).unwrap_or(0),
            step,
            state: answer.bytes(5),
            answer: Some(stored(3)).filter(|answer| !answer.key.is_empty()),
            recent: answer.bytes(7),
            since: answer.number(6).map(Duration::from_millis),
        }),
        ("ended", ..) => TakenSequence::Ended(stored(1)),
        ("unknown", ..) => TakenSequence::Unknown,
        ("lost", ..) => TakenSequence::Lost,
        ("held", ..) => TakenSequence::Held(answer.text(1)),
        _ => return None,
    })
}

/// Reads the answer to a count.
fn counted(answer: &ScriptAnswer) -> Option<StoredCount> {
    match (answer.word(), answer.number(1), answer.number(2)) {
        ("counted", Some(live), Some(expired)) => Some(StoredCount { live, expired }),
        _ => None,
    }
}

/// Reads a list.
fn listed(answer: &ScriptAnswer) -> Option<Vec<StoredSequence>> {
    if answer.word() != "listed" {
        return None;
    }
    let places = (1..answer.len()).step_by(3);
    let listed = places.map(|place| {
        Some(StoredSequence {
            id: answer.number(place)?,
            steps: answer.number(place + 1)?,
            idle: answer.number(place + 2).map(Duration::from_millis),
        })
    });
    listed.collect()
}

/// Reads the epochs of sequences, each of which may be none.
fn epochs(answer: &ScriptAnswer) -> Option<Vec<Option<u64>>> {
    if answer.word() != "epochs" {
        return None;
    }
    let places = 1..answer.len();
    let epochs = places.map(|place| match answer.bytes(place).is_empty() {
        true => Some(None),
        false => answer.number(place).map(Some),
    });
    epochs.collect()
}

/// Reads the message of a server that wants a sequence.
fn wanted(text: &str) -> Option<SequenceKey> {
    let (id, model) = text.split_once(' ')?;
    Some(SequenceKey {
        model: model.to_owned(),
        id: id.parse().ok()?,
    })
}

/// A time as the scripts have it; 0 for ever.
fn milliseconds(time: Option<Duration>) -> u64 {
    time.map_or(0, |time| {
        u64::try_from(time.as_millis()).unwrap_or(u64::MAX).max(1)
    })
}

impl Call {
    fn answer(&mut self, answer: Option<&StoredAnswer>) -> &mut Self {
        let empty = Bytes::new();
        let (key, outputs) = answer.map_or(("", &empty), |answer| (&answer.key, &answer.outputs));
        self.arg(key).arg(&**outputs)
    }
}
