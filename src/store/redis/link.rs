//! Connections to Redis: made again when they break, and calls that are tried again on them.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use futures::{Stream, StreamExt};
use parking_lot::Mutex;
use redis::{
    AsyncConnectionConfig, Client, Cmd, ErrorKind, FromRedisValue, Msg, RedisError, RedisResult,
    Script, ServerErrorKind, ToRedisArgs, Value,
    aio::{ConnectionLike, MultiplexedConnection},
    cluster::{ClusterClient, ClusterClientBuilder},
    cluster_async::ClusterConnection,
    cluster_routing::{Route, RoutingInfo, SingleNodeRoutingInfo, SlotAddr},
};
use tokio::sync::Semaphore;

use super::super::{StoreError, address::RedisAddress};

/// The longest time of one attempt.
pub(super) const MAX_ATTEMPT_TIME: Duration = Duration::from_secs(1);

/// The longest time to connect. Of a cluster it takes as long as an attempt to give up nodes that do not answer, and those
/// behind them come after that.
const MAX_CONNECT_TIME: Duration = Duration::from_secs(3);

/// The pause between two attempts.
const PAUSE: Duration = Duration::from_millis(20);

/// Time between two warnings of scripts that are refused.
const WARNING_PERIOD: Duration = Duration::from_secs(60);

/// Connections where writes are waited for, since such a wait holds up what comes behind it.
const WAITING_CONNECTIONS: usize = 8;

/// A call of a script.
pub(super) struct Call {
    script: &'static Script,
    keys: Vec<String>,
    arguments: Vec<Vec<u8>>,
}

impl Call {
    pub(super) fn new(script: &'static Script) -> Self {
        Self {
            script,
            keys: Vec::new(),
            arguments: Vec::new(),
        }
    }

    pub(super) fn key(&mut self, key: &str) -> &mut Self {
        self.keys.push(key.to_owned());
        self
    }

    pub(super) fn arg(&mut self, argument: impl ToRedisArgs) -> &mut Self {
        argument.write_redis_args(&mut self.arguments);
        self
    }
}

/// Answer of a script: a word, and what belongs to it.
#[derive(Debug)]
pub(super) struct ScriptAnswer(Vec<Bytes>);

impl ScriptAnswer {
    pub(super) fn of(answer: Value) -> RedisResult<Self> {
        let parts = Vec::<Value>::from_redis_value(answer)?.into_iter();
        let parts = parts.map(|part| match part {
            Value::BulkString(bytes) => Ok(bytes.into()),
            other => Ok(String::from_redis_value(other)?.into()),
        });
        parts.collect::<RedisResult<_>>().map(Self)
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn word(&self) -> &str {
        self.0
            .first()
            .map_or("", |word| std::str::from_utf8(word).unwrap_or_default())
    }

    pub(super) fn bytes(&self, place: usize) -> Bytes {
        self.0.get(place).cloned().unwrap_or_default()
    }

    pub(super) fn text(&self, place: usize) -> String {
        String::from_utf8_lossy(&self.bytes(place)).into_owned()
    }

    pub(super) fn number(&self, place: usize) -> Option<u64> {
        self.text(place).parse().ok()
    }
}

/// A connection.
#[derive(Clone)]
enum Connection {
    Single(MultiplexedConnection),
    Cluster(ClusterConnection),
}

/// A connection, and what scripts have to know of its server: whether it keeps what it has answered when it starts
/// again, and which run of the data set it has.
type Connected = (Connection, Arc<str>);

/// Client of a server or of a cluster.
enum Dial {
    Single(Box<Client>),
    Cluster(Box<ClusterClient>),
}

/// The way to the store.
pub(super) struct Link {
    dial: Dial,
    /// Clients for messages, which any node of a cluster passes on: of the named nodes, some may be gone.
    listeners: Vec<Client>,
    address: RedisAddress,
    limit: Duration,
    places: Vec<Place>,
    /// The clock of the store: a time of it in milliseconds, and when that was.
    clock: Mutex<(u64, Instant)>,
    /// Time of the last warning of a script that is refused.
    warned: Mutex<Option<Instant>>,
}

/// A message to the store.
enum Job<'a> {
    Script(&'a Call),
    Command(&'a Cmd),
}

/// Place of a connection.
struct Place {
    connected: Mutex<Option<Connected>>,
    /// One connects, the others wait for it.
    connecting: Semaphore,
}

impl std::fmt::Debug for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.address.fmt(f)
    }
}

impl Link {
    pub(super) fn new(address: &RedisAddress, limit: Duration) -> Result<Self, StoreError> {
        let refused = |error: RedisError| StoreError::Refused {
            address: address.to_string(),
            reason: error.to_string(),
        };
        let listeners = address.servers().map(Client::open);
        let listeners: Vec<_> = listeners.collect::<RedisResult<_>>().map_err(refused)?;
        let first = listeners.first().ok_or_else(|| StoreError::Refused {
            address: address.to_string(),
            reason: "no server is named".to_owned(),
        })?;
        let dial = if address.is_cluster {
            let cluster = ClusterClientBuilder::new(address.servers());
            let cluster = cluster.connection_timeout(MAX_ATTEMPT_TIME);
            let cluster = cluster
                .response_timeout(MAX_ATTEMPT_TIME)
                .retries(3)
                .build();
            Dial::Cluster(Box::new(cluster.map_err(refused)?))
        } else {
            Dial::Single(Box::new(first.clone()))
        };
        let connections = match (address.wait, address.is_cluster) {
            (1.., false) => WAITING_CONNECTIONS,
            _ => 1,
        };
        let place = || Place {
            connected: Mutex::default(),
            connecting: Semaphore::new(1),
        };
        Ok(Self {
            dial,
            listeners,
            address: address.clone(),
            limit,
            places: (0..connections).map(|_| place()).collect(),
            clock: Mutex::new((0, Instant::now())),
            warned: Mutex::default(),
        })
    }

    pub(super) fn limit(&self) -> Duration {
        self.limit
    }

    /// Calls a script. Returns whether an attempt before may have got through as well.
    pub(super) async fn call(&self, call: &Call) -> Result<(ScriptAnswer, bool), StoreError> {
        let called = self.attempts(&Job::Script(call)).await;
        let (answer, repeated) = called.inspect_err(|error| self.warn_of_refusal(error))?;
        let garbage = |error: &dyn std::fmt::Display| StoreError::Garbage {
            address: self.address.to_string(),
            reason: error.to_string(),
        };
        let answer = ScriptAnswer::of(answer).map_err(|error| garbage(&error))?;
        Ok((answer, repeated))
    }

    /// Warns of a script that the store refuses, now and then: nothing else says why requests fail.
    fn warn_of_refusal(&self, error: &StoreError) {
        if !matches!(error, StoreError::Refused { .. } | StoreError::Full { .. }) {
            return;
        }
        let mut warned = self.warned.lock();
        if warned.is_none_or(|at| at.elapsed() > WARNING_PERIOD) {
            *warned = Some(Instant::now());
            tracing::warn!("sequence store: {error}");
        }
    }

    /// Calls a script once; `repeated` marks an attempt after others, which may have got through.
    async fn try_script(
        &self,
        (connection, server): Connected,
        call: &Call,
        repeated: bool,
    ) -> RedisResult<Value> {
        loop {
            let mut script = call.script.prepare_invoke();
            for key in &call.keys {
                script.key(key);
            }
            let attempt = u64::try_from(MAX_ATTEMPT_TIME.as_millis()).unwrap_or(u64::MAX);
            script.arg(self.now().saturating_add(attempt)).arg(&*server);
            script.arg(u8::from(self.address.wait > 0));
            for argument in &call.arguments {
                script.arg(&**argument);
            }
            let value: Value = match connection.clone() {
                Connection::Single(mut it) => script.invoke_async(&mut it).await?,
                Connection::Cluster(mut it) => script.invoke_async(&mut it).await?,
            };
            let Value::Array(parts) = &value else {
                // Answers on this connection are not those of what was asked: another one is tried.
                let text = "found no answer of a script";
                return Err((ErrorKind::Io, text).into());
            };
            let text = |place: usize| match parts.get(place) {
                Some(Value::BulkString(text)) => std::str::from_utf8(text).unwrap_or_default(),
                _ => "",
            };
            match text(0) {
                // Another server with another clock, or a slow network.
                "late" => self.set_clock(text(1).parse().unwrap_or(0)),
                word => {
                    let is_written = match word {
                        "begun" | "taken" | "stored" => true,
                        // The attempt before may have been waited for in vain.
                        "unknown" => repeated,
                        _ => false,
                    };
                    if is_written && self.address.wait > 0 {
                        self.wait(connection, &call.keys[0]).await?;
                    }
                    return Ok(value);
                }
            }
        }
    }

    /// Waits until replicas have what the connection has written.
    async fn wait(&self, connection: Connection, key: &str) -> RedisResult<()> {
        let mut wait = redis::cmd("WAIT");
        wait.arg(self.address.wait)
            .arg(u64::try_from(MAX_ATTEMPT_TIME.as_millis()).unwrap_or(u64::MAX) / 2);
        let reached = match connection {
            Connection::Single(mut it) => wait.query_async(&mut it).await?,
            Connection::Cluster(mut it) => {
                let node =
                    SingleNodeRoutingInfo::SpecificNode(Route::with_key(key, SlotAddr::Master));
                it.route_command(wait, RoutingInfo::SingleNode(node))
                    .await?
            }
        };
        let reached = u32::from_redis_value(reached)?;
        if reached < self.address.wait {
            let text = format!("{reached} replicas have it, {} should", self.address.wait);
            return Err((ErrorKind::Io, "too few replicas", text).into());
        }
        Ok(())
    }

    /// Sends a command.
    pub(super) async fn command(&self, command: Cmd) -> Result<Value, StoreError> {
        Ok(self.attempts(&Job::Command(&command)).await?.0)
    }

    /// Drops connections whose server has another run of the data set than when they were made, without having
    /// broken: it was a replica meanwhile.
    pub(super) async fn verify(&self) -> Result<(), StoreError> {
        if self.address.is_cluster {
            return Ok(());
        }
        let now = self.command(replication()).await?;
        let now = run_of(&now).unwrap_or_default();
        for place in &self.places {
            let mut connected = place.lock();
            if connected
                .as_ref()
                .is_some_and(|(_, server)| !server.ends_with(&now))
            {
                *connected = None;
            }
        }
        Ok(())
    }

    /// Reads the clock of the store.
    pub(super) async fn synchronize(&self) -> Result<(), StoreError> {
        let time = self.command(redis::cmd("TIME")).await?;
        self.set_clock(milliseconds(time));
        Ok(())
    }

    /// Warns of settings of the store with which it loses sequences. One that does not report its settings is believed.
    pub(super) async fn warn_of_losses(&self) {
        let mut question = redis::cmd("CONFIG");
        question.arg("GET").arg("*");
        let Ok(settings) = self.command(question).await else {
            return;
        };
        let settings = HashMap::<String, String>::from_redis_value(settings).unwrap_or_default();
        for warning in losses(&settings, self.address.wait > 0) {
            tracing::warn!("sequence store {}: {warning}", self.address);
        }
    }

    fn set_clock(&self, now: u64) {
        *self.clock.lock() = (now, Instant::now());
    }

    /// Returns the time of the store, or a little less.
    fn now(&self) -> u64 {
        let (time, at) = *self.clock.lock();
        time.saturating_add(u64::try_from(at.elapsed().as_millis()).unwrap_or(0))
    }

    /// Listens to a channel until the connection breaks. Each `round` asks another one of the servers that are named.
    pub(super) async fn subscribe(
        &self,
        channel: &str,
        round: usize,
    ) -> RedisResult<impl Stream<Item = Msg> + use<>> {
        let listener = &self.listeners[round % self.listeners.len()];
        within(MAX_CONNECT_TIME, async {
            let mut listener = listener.get_async_pubsub().await?;
            listener.subscribe(channel).await?;
            Ok(listener.into_on_message().boxed())
        })
        .await
    }

    /// Warns that the store does not let this server listen.
    pub(super) fn warn_of_channel(&self, channels: &str, error: &RedisError) {
        tracing::warn!(
            "sequence store {}: other servers cannot ask this one for states that are not stored yet, since its user may not \
             use their channels; allow it those of {channels}: {error}",
            self.address
        );
    }

    pub(super) fn garbage(&self, answer: &ScriptAnswer) -> StoreError {
        StoreError::Garbage {
            address: self.address.to_string(),
            reason: format!("unexpected answer of a script: {:?}", answer.word()),
        }
    }

    /// Tries within the time limit, on new connections where one has broken. Returns whether it was not the first
    /// attempt.
    async fn attempts(&self, job: &Job<'_>) -> Result<(Value, bool), StoreError> {
        let asked = Instant::now();
        let place = &self.places[rand::random_range(0..self.places.len())];
        let mut repeated = false;
        loop {
            let error = match self.attempt(place, job, repeated, asked).await {
                Ok(done) => return Ok((done, repeated)),
                Err(error) => error,
            };
            repeated = true;
            let address = || self.address.to_string();
            let reason = error.to_string();
            match Remedy::of(&error) {
                Remedy::Reconnect => *place.lock() = None,
                Remedy::Wait => {}
                Remedy::MakeRoom => {
                    return Err(StoreError::Full {
                        address: address(),
                        reason,
                    });
                }
                Remedy::Repair => {
                    return Err(StoreError::Garbage {
                        address: address(),
                        reason,
                    });
                }
                Remedy::Foreign => return Err(StoreError::Foreign { address: address() }),
                Remedy::None => {
                    return Err(StoreError::Refused {
                        address: address(),
                        reason,
                    });
                }
            }
            if asked.elapsed() + PAUSE >= self.limit {
                let limit = self.limit;
                return Err(StoreError::Unreachable {
                    address: address(),
                    limit,
                    reason,
                });
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Makes one attempt, on a connection that is made for it if there is none.
    async fn attempt(
        &self,
        place: &Place,
        job: &Job<'_>,
        repeated: bool,
        asked: Instant,
    ) -> RedisResult<Value> {
        let connected = within(MAX_CONNECT_TIME, self.connected(place)).await?;
        // To connect is no part of it: else one that takes longer than what is left would never be made.
        let rest = self.limit.saturating_sub(asked.elapsed()).max(PAUSE);
        within(rest.min(MAX_ATTEMPT_TIME), async {
            match job {
                Job::Script(call) => self.try_script(connected, call, repeated).await,
                // Which has refusals as errors, too.
                Job::Command(command) => match connected.0 {
                    Connection::Single(mut it) => command.query_async(&mut it).await,
                    Connection::Cluster(mut it) => command.query_async(&mut it).await,
                },
            }
        })
        .await
    }

    async fn connected(&self, place: &Place) -> RedisResult<Connected> {
        if let Some(connected) = &*place.lock() {
            return Ok(connected.clone());
        }
        let _one = place.connecting.acquire().await;
        if let Some(connected) = &*place.lock() {
            return Ok(connected.clone());
        }
        let connected = self.connect().await?;
        *place.lock() = Some(connected.clone());
        Ok(connected)
    }

    async fn connect(&self) -> RedisResult<Connected> {
        match &self.dial {
            Dial::Single(client) => {
                let config = AsyncConnectionConfig::new()
                    .set_connection_timeout(Some(MAX_ATTEMPT_TIME))
                    .set_response_timeout(Some(MAX_ATTEMPT_TIME));
                let mut made = client
                    .get_multiplexed_async_connection_with_config(&config)
                    .await?;
                let durable = u8::from(is_durable(&mut made).await);
                let run = run_of(&replication().query_async(&mut made).await?)?;
                Ok((Connection::Single(made), format!("{durable} {run}").into()))
            }
            Dial::Cluster(client) => {
                let mut made = client.get_async_connection().await?;
                let durable = u8::from(is_durable(&mut made).await);
                // Each node has a run of its own, which scripts ask for.
                Ok((Connection::Cluster(made), durable.to_string().into()))
            }
        }
    }
}

impl Place {
    fn lock(&self) -> parking_lot::MutexGuard<'_, Option<Connected>> {
        self.connected.lock()
    }
}

/// Runs work that talks to a server, with a time limit.
async fn within<T>(time: Duration, work: impl Future<Output = RedisResult<T>>) -> RedisResult<T> {
    let done = tokio::time::timeout(time, work).await;
    done.unwrap_or_else(|_| Err((ErrorKind::Io, "no answer in time").into()))
}

/// Reads the clock of a server, in milliseconds; 0 if it does not report one.
pub(super) fn milliseconds(time: Value) -> u64 {
    let (seconds, micros) = <(u64, u64)>::from_redis_value(time).unwrap_or_default();
    seconds.saturating_mul(1000).saturating_add(micros / 1000)
}

fn replication() -> Cmd {
    let mut question = redis::cmd("INFO");
    question.arg("replication");
    question
}

/// Returns the run of the data set that a server has, and the one before.
pub(super) fn run_of(replication: &Value) -> RedisResult<String> {
    let text = String::from_redis_value(replication.clone())?;
    let value = |name: &str| {
        let mut lines = text.lines();
        lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
    };
    match (
        value("role"),
        value("master_replid"),
        value("master_replid2"),
    ) {
        (Some("master"), Some(run), Some(before)) => Ok(format!("{run} {before}")),
        (Some("slave"), ..) => Err((ErrorKind::Io, "it is a replica").into()),
        _ => Err((
            ErrorKind::UnexpectedReturnType,
            "it does not report its run",
        )
            .into()),
    }
}

/// Returns how a server with these settings loses sequences.
fn losses(settings: &HashMap<String, String>, waits: bool) -> Vec<String> {
    let is = |name: &str, value: &str| settings.get(name).is_some_and(|found| found == value);
    let mut losses = Vec::new();
    let may_forget = settings.contains_key("appendonly") && !is_durable_with(settings);
    if may_forget && !waits {
        losses.push(
            "sequences are lost when it restarts, since it may lack what was written last; with appendonly yes and \
             appendfsync always it has everything"
                .to_owned(),
        );
    }
    if let Some(policy) = settings.get("maxmemory-policy")
        && policy != "noeviction"
        && !is("maxmemory", "0")
    {
        losses.push(format!(
            "with maxmemory-policy {policy} it drops states when it is full; with noeviction it refuses new ones"
        ));
    }
    losses
}

/// Returns whether a server writes to its disk before it answers. One that does not say counts as one that does not.
async fn is_durable(connection: &mut impl ConnectionLike) -> bool {
    let mut question = redis::cmd("CONFIG");
    question.arg("GET").arg("append*");
    let answer: RedisResult<HashMap<String, String>> = question.query_async(connection).await;
    answer.is_ok_and(|found| is_durable_with(&found))
}

fn is_durable_with(settings: &HashMap<String, String>) -> bool {
    let is = |name: &str, value: &str| settings.get(name).is_some_and(|found| found == value);
    is("appendonly", "yes") && is("appendfsync", "always")
}

/// Remedy for an error.
enum Remedy {
    Reconnect,
    Wait,
    MakeRoom,
    Repair,
    /// Another address: it is no Redis.
    Foreign,
    None,
}

impl Remedy {
    fn of(error: &RedisError) -> Self {
        match (error.kind(), error.code()) {
            (_, Some("OOM" | "MISCONF")) => Self::MakeRoom,
            (_, Some("WRONGTYPE")) => Self::Repair,
            // Too few replicas for now, and a script of somebody else that takes long.
            (_, Some("NOREPLICAS" | "BUSY")) => Self::Wait,
            // It has become a replica during the wait for others.
            (_, Some("UNBLOCKED")) => Self::Reconnect,
            (ErrorKind::UnexpectedReturnType, _) => Self::Repair,
            (ErrorKind::Parse, _) => Self::Foreign,
            (ErrorKind::AuthenticationFailed, _) => Self::None,
            (
                ErrorKind::Server(
                    ServerErrorKind::BusyLoading
                    | ServerErrorKind::TryAgain
                    | ServerErrorKind::ClusterDown
                    | ServerErrorKind::Moved
                    | ServerErrorKind::Ask,
                ),
                _,
            ) => Self::Wait,
            (
                ErrorKind::Io
                | ErrorKind::ClusterConnectionNotFound
                | ErrorKind::Server(ServerErrorKind::ReadOnly | ServerErrorKind::MasterDown),
                _,
            ) => Self::Reconnect,
            _ if error.is_unrecoverable_error() => Self::Reconnect,
            _ => Self::None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::{Remedy, losses};

    #[test]
    fn what_passes_is_waited_for() {
        let of = |code: &str| Remedy::of(&redis::make_extension_error(code.to_owned(), None));
        for (code, is_expected) in [
            ("NOREPLICAS", matches!(of("NOREPLICAS"), Remedy::Wait)),
            ("BUSY", matches!(of("BUSY"), Remedy::Wait)),
            ("UNBLOCKED", matches!(of("UNBLOCKED"), Remedy::Reconnect)),
            ("OOM", matches!(of("OOM"), Remedy::MakeRoom)),
            ("NOAUTH", matches!(of("NOAUTH"), Remedy::None)),
        ] {
            assert!(is_expected, "{code}");
        }
    }

    #[test]
    fn settings_that_lose_sequences_are_reported() {
        let lost = |settings: &[(&str, &str)], waits| {
            let pairs = settings
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
            losses(&pairs.collect::<HashMap<_, _>>(), waits).len()
        };
        let durable = [("appendonly", "yes"), ("appendfsync", "always")];
        let lax = [("appendonly", "yes"), ("appendfsync", "everysec")];
        let evicts = [("maxmemory-policy", "allkeys-lru"), ("maxmemory", "1000")];
        let never_full = [("maxmemory-policy", "allkeys-lru"), ("maxmemory", "0")];
        // One that says nothing is believed, and replicas that are waited for have everything.
        assert_eq!(
            [lost(&[], false), lost(&durable, false), lost(&lax, true)],
            [0; 3]
        );
        assert_eq!(
            [
                lost(&lax, false),
                lost(&evicts, false),
                lost(&never_full, false)
            ],
            [1, 1, 0]
        );
    }
}
