//! The server: listeners, the load at the start, and the stop.
//!
//! [`bind`] opens the ports, so that a busy one is known at once; [`serve`] answers on them from
//! then on, loads the model, turns ready, and after the signal to stop drains and returns. It
//! knows no flags and no signals: the caller hands both in.

mod accept;
mod channel;
mod departure;
mod frames;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzz;
mod heads;
mod inline_calls;
mod io_timeout;
mod limits;
mod linger;
mod listen;
mod pieces;
mod poll_turns;
mod reaper;
mod stream;
mod tls;
mod unix_socket;
mod waiting_calls;
mod watchdog;

use std::{
    future::Future,
    sync::Arc,
    time::{Duration, Instant},
};

use super::{
    config::{Config, ServerSettings, TlsSettings},
    engine::{
        Engine, ReloadPart, Servable,
        reload::{ReloadError, Reloader},
    },
    frontends::{
        self, access::AccessLog, body::BodyLimits, dashboard::History, guard::Gate, rest::Rest,
        routes::HttpPort,
    },
    metrics::{Family, Metrics, NameError},
    model::{Loaded, Version, cleaner, keeper::Keeper},
    python,
    quota::Clients,
    shared_memory::SharedMemory,
    store::{SequenceStore, StoreAddress, StoreError},
    task::{self, Task},
};

use crate::openvino::runtime;

pub use accept::{Service, serve_stream};
pub use listen::{BindError, Listeners, bind, check_unix_sockets, open_auth};
pub use {stream::Listener, tls::ServerTls, unix_socket::UnixSocketError};

/// The least time that connections have to close after the last request is answered.
const CLOSE: Duration = Duration::from_secs(1);

/// Error of starting the server.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The configuration cannot be read, or the one model cannot be loaded.
    #[error(transparent)]
    Error(#[from] ReloadError),
    /// The load ended without an outcome; a bug of ours.
    #[error("the load at the start ended without an outcome")]
    Lost,
    /// The store of sequences cannot be used.
    #[error("sequence store cannot be used")]
    Store(#[from] StoreError),
    /// The list of metrics has a name that is unknown or there twice.
    #[error(transparent)]
    Metrics(#[from] NameError),
}

/// Time that custom nodes have to come to an end, once nobody waits for any request.
const CUSTOM_END: Duration = Duration::from_secs(5);

/// Wishes for a reload that may wait while one is in progress.
const RELOADS_WAITING: usize = 64;

/// Observer of the start, such as a command line.
///
/// Neither call may take long: the server waits for it.
pub trait Observer: Sync {
    /// The first load begins. From now on the engine reports how far it is; needs a runtime.
    fn loading(&self, _engine: &Arc<Engine>) {}
    /// The first load is over and the server is ready; these errors are logged already.
    fn ready(&self, _engine: &Arc<Engine>, _errors: &[ReloadError]) {}
}

/// Returns the time that a request waits for the store of sequences.
fn store_limit(settings: &ServerSettings) -> Duration {
    Duration::from_millis(settings.flags.sequence_store_timeout_ms.into())
}

async fn open_store(
    address: &StoreAddress,
    settings: &ServerSettings,
) -> Result<Arc<Keeper>, StoreError> {
    let store = SequenceStore::open(address, store_limit(settings)).await?;
    let durability = settings.flags.sequence_durability.unwrap_or_default();
    tracing::info!(%address, ?durability, "sequences are stored");
    // Whoever has chosen it knows what it means.
    if settings.flags.sequence_durability.is_none() {
        let interval = settings.flags.sequence_store_interval_ms;
        tracing::info!(
            "--sequence-durability is interval: a crash loses the sequences with steps that were not stored yet, \
             those of the last {interval} ms; --sequence-durability step stores each before its answer"
        );
    }
    let scan = settings.sequence_cleaner_poll();
    Ok(Keeper::new(store, durability, scan))
}

/// Warning of a store that no sequence will ever be in.
const STORE_WITHOUT_MODEL: &str = "no model uses --sequence-store: none is stateful, which takes --stateful, or \
     \"stateful\": true in a configuration file";

/// Maximum number of names that a warning has.
const MAX_NAMED: usize = 3;

/// Returns the warning that readiness means little, if nothing at all could be loaded. Nothing may be meant to come
/// later where nothing is wrong.
fn nothing_served(engine: &Engine, errors: &[ReloadError]) -> Option<String> {
    let serves = |servable: &Servable| !servable.available().is_empty();
    if errors.is_empty() || engine.servables().iter().any(serves) {
        return None;
    }
    let names = engine.configured().borrow().clone().unwrap_or_default();
    let named: Vec<String> = names
        .iter()
        .take(MAX_NAMED)
        .map(|name| format!("`{name}`"))
        .collect();
    let more = match names.len() - named.len() {
        0 => String::new(),
        more => format!(", and {more} more"),
    };
    let what = match names.len() {
        // Entries without a usable name.
        0 => "nothing of what is configured could be loaded".to_owned(),
        1 => format!("the one servable, {}, could not be loaded", named.join("")),
        count => format!(
            "none of the {count} servables could be loaded: {}{more}",
            named.join(", ")
        ),
    };
    Some(format!(
        "the server is ready, but {what}; the errors above say why. `/v2/models/NAME/ready` reports one of them, and \
         `ovms_loads` counts loads that failed"
    ))
}

/// Returns whether a version is stateful, or may come to be, or nothing is served that could tell.
fn may_have_sequences(engine: &Engine) -> bool {
    let is_stateful = |loaded: Arc<Loaded>| loaded.is_stateful();
    let may_have = |version: Arc<Version>| version.loaded().map_or(true, is_stateful);
    engine.servables().is_empty() || engine.versions().into_iter().any(may_have)
}

/// Serves until `shutdown` is done; `access` gets a line for each request.
///
/// # Errors
///
/// Fails if the configuration cannot be read, the one model of the flags cannot be loaded, or a
/// family of metrics is not known.
pub async fn serve(
    listeners: Listeners,
    config: Config,
    access: AccessLog,
    observer: &dyn Observer,
    shutdown: impl Future<Output = ()>,
) -> Result<(), StartError> {
    let settings = &config.settings;
    let (flags, shown) = (&settings.flags, &settings.metrics);
    // One for both ports that have the page.
    let history = (!flags.no_dashboard && settings.has_http()).then(Arc::<History>::default);
    let watched: &[Family] = match history {
        None => &[],
        Some(_) => &frontends::dashboard::COUNTED,
    };
    let metrics = Metrics::watched(shown.enable, shown.families.as_deref(), watched)?;
    let loading = Duration::from_secs(flags.loading_wait_seconds);
    let engine = Engine::with_streams(loading, flags.max_queued_requests, flags.max_streams);
    let limit = Duration::from_secs(flags.shutdown_timeout_seconds);
    engine.limit_stop(limit);
    engine.limit_strings(flags.max_string_elements);
    if let Some(prefix) = settings.shared_memory.clone() {
        engine.share_memory(SharedMemory::new(prefix, flags.max_shared_memory_regions));
    }
    let mut shutdown = std::pin::pin!(shutdown);
    let keeper = match &settings.sequence_store {
        Some(address) => tokio::select! {
            opened = open_store(address, settings) => Some(opened?),
            // Nothing is served yet that would have to come to an end.
            () = &mut shutdown => {
                tracing::info!("stopped before the sequence store {address} has answered");
                return Ok(());
            }
        },
        None => None,
    };
    if let Some(keeper) = &keeper {
        engine.keep_with(Arc::clone(keeper));
    }
    let mut reloader = Reloader::new(engine.clone(), config.source, Arc::clone(&metrics));
    reloader.read().await?;
    let body_limits = BodyLimits::of(settings);
    let message_size = channel::message_size(
        &settings.grpc_channel_arguments,
        flags.max_message_size.get(),
    );
    let auth = listeners.auth.clone();
    let has_limits = auth.is_some() || settings.client_limits.is_some();
    let refused = has_limits.then(|| metrics.refused_by_limits());
    let clients = Clients::new(refused.unwrap_or_default(), settings.budget.clone());
    if let Some(auth) = &auth {
        metrics.show_denials(Arc::clone(auth.denials()));
        metrics.show_file_reloads("auth", Arc::clone(auth.reloads()));
    }
    let gate = Gate::new(
        engine.clone(),
        auth.clone(),
        listeners.audit.clone(),
        clients,
        settings.client_limits.clone(),
    );
    let (grpc, mut health) =
        frontends::grpc::service(gate.clone(), body_limits.with_message_size(message_size));
    health.set(false).await;
    let _certificates = listeners.tls.clone().map(|tls| {
        metrics.show_file_reloads("tls", Arc::clone(tls.reloads()));
        let interval = TlsSettings::poll(flags);
        engine.reload_with(Arc::clone(&tls) as Arc<dyn ReloadPart>);
        Task::spawn(tls.watch(interval, Arc::clone(&metrics)))
    });
    let (shared, counted) = (body_limits.clone(), Arc::clone(&metrics));
    let _history = history.clone().map(|history| {
        let following = history.follow(gate.own(), settings.budget.clone());
        Task::spawn(following)
    });
    let rest = Rest::new(
        HttpPort::Rest,
        gate.clone(),
        body_limits,
        settings,
        metrics,
        history.clone(),
    );
    let management = Rest::new(
        HttpPort::Management,
        gate,
        shared,
        settings,
        counted,
        history,
    );
    if let Some(auth) = &auth {
        for warning in auth.rules().warnings() {
            tracing::warn!("{warning}");
        }
        auth.fetch().await;
        auth.follow_servables(engine.configured());
    }
    let _identities = auth
        .clone()
        .map(|auth| Task::spawn(auth.watch(settings.poll())));
    let _patterns = auth.clone().map(|auth| Task::spawn(auth.watch_servables()));
    let connections = accept::serve(listeners, grpc, rest, management, &access, settings);

    // On its own, so that the answers given meanwhile do not wait for it.
    observer.loading(&engine);
    let loading = Task::spawn(async move {
        let loaded = reloader.start().await;
        loaded.map(|errors| (reloader, errors))
    });
    let (reloader, errors) = tokio::select! {
        loaded = loading => loaded.map_err(|_| StartError::Lost)??,
        // A load cannot be broken off; the process ends without it.
        () = &mut shutdown => {
            engine.stop();
            health.end().await;
            connections.close(CLOSE).await;
            // The load may be at an end that nobody waits for.
            drop(tokio::time::timeout(CLOSE, engine.close()).await);
            return Ok(());
        }
    };
    let reloads = engine.accept_reloads(RELOADS_WAITING);
    let wait = Duration::from_secs(flags.reload_wait_seconds.into());
    let reloading = Task::spawn(reloader.run(settings.poll(), wait, reloads));
    let _cleaning = settings.sequence_cleaner_poll().map(|period| {
        let engine = engine.clone();
        Task::spawn(cleaner::run(period, move || engine.versions()))
    });
    let _keeping = keeper.clone().map(|keeper| {
        let engine = engine.clone();
        let interval = Duration::from_millis(flags.sequence_store_interval_ms.into());
        Task::spawn(async move { keeper.run(interval, || engine.versions()).await })
    });
    runtime::start::release();
    engine.set_ready();
    health.set(true).await;
    if let Some(auth) = &auth {
        // Before the word that it is ready, not whenever the task has its turn.
        auth.warn_of_unserved();
    }
    // What failed to load may be a stateful model.
    if keeper.is_some() && errors.is_empty() && !may_have_sequences(&engine) {
        tracing::warn!("{STORE_WITHOUT_MODEL}");
    }
    tracing::info!("ready");
    if let Some(warning) = nothing_served(&engine, &errors) {
        tracing::warn!("{warning}");
    }
    observer.ready(&engine, &errors);
    drop(errors);

    shutdown.await;
    let sequences = engine.sequences_to_drain();
    if sequences > 0 {
        // No sequence starts after the line is logged.
        let drained = engine.drain_sequences();
        tracing::info!(sequences, "stopping; waiting for sequences to end");
        health.set(false).await;
        drained.await;
    }
    engine.stop();
    health.set(false).await;
    let in_flight = engine.requests_in_flight();
    tracing::info!(
        requests = in_flight,
        limit_seconds = limit.as_secs(),
        "stopping; waiting for the requests in flight"
    );
    let asked = Instant::now();
    if tokio::time::timeout(limit, engine.idle()).await.is_err() {
        tracing::warn!(
            requests = engine.requests_in_flight(),
            "the shutdown timeout has passed; leaving requests unanswered"
        );
        engine.give_up_streams();
    }
    if let Some(keeper) = &keeper {
        let versions = engine.versions();
        let stored = tokio::time::timeout(store_limit(settings), keeper.close(&versions));
        if stored.await.is_err() {
            tracing::warn!("the sequence store takes too long; states of sequences are not stored");
        }
    }
    health.end().await;
    // Answers that are still being sent have the rest of the time.
    let rest = limit.saturating_sub(asked.elapsed());
    connections.close(rest.max(CLOSE)).await;
    // Custom nodes and graphs may have something to bring to an end. Nobody waits for what still runs.
    let rest = limit.saturating_sub(asked.elapsed());
    let rest = rest.min(CUSTOM_END).max(CLOSE);
    let closed = tokio::time::timeout(rest, async {
        reloading.end().await;
        engine.close().await;
    });
    if closed.await.is_err() {
        tracing::warn!("custom nodes of a pipeline, or nodes of a graph, still run; leaving them");
    }
    // What handlers have printed.
    task::blocking("end of Python", || python::stop(CLOSE)).await;
    tracing::info!("stopped");
    Ok(())
}
