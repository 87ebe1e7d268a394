//! The server: listeners, the load at the start, and the stop.
//!
//! [`bind`] opens the ports, so that a busy one is known at once; [`serve`] answers on them from
//! then on, loads the model, turns ready, and after the signal to stop drains and returns. It
//! knows no flags and no signals: the caller hands both in.

mod accept;
mod listen;
mod load;
mod pace;

use std::{
    future::Future,
    time::{Duration, Instant},
};

pub use listen::{BindError, Listeners, bind};
pub use load::StartError;

use crate::{config::Config, engine::Engine, frontends, task};

/// The least time that connections have to close after the last request is answered.
const CLOSE: Duration = Duration::from_secs(1);

/// Serves until `shutdown` is done.
///
/// # Errors
///
/// Fails if the model cannot be loaded.
pub async fn serve(
    listeners: Listeners,
    config: Config,
    shutdown: impl Future<Output = ()>,
) -> Result<(), StartError> {
    let limits = config.settings.limits.clone();
    let engine = Engine::new(limits.loading, config.model.load.most_waiting);
    let (grpc, health) = frontends::grpc::service(engine.clone(), &limits);
    health.set(false).await;
    let rest = frontends::rest::router(engine.clone(), &limits);
    let connections = accept::serve(listeners, grpc, rest, &limits);

    let mut shutdown = std::pin::pin!(shutdown);
    let loading = {
        let engine = engine.clone();
        task::blocking("load", move || load::load(&engine, &config.model))
    };
    tokio::select! {
        loaded = loading => loaded?,
        // A load cannot be broken off; the process ends without it.
        () = &mut shutdown => {
            engine.stop();
            connections.close(CLOSE).await;
            return Ok(());
        }
    }
    engine.set_ready();
    health.set(true).await;
    tracing::info!("ready");

    shutdown.await;
    engine.stop();
    health.set(false).await;
    let under_way = engine.requests_under_way();
    tracing::info!(
        requests = under_way,
        limit_seconds = limits.shutdown.as_secs(),
        "stopping; waiting for the requests under way"
    );
    let asked = Instant::now();
    if tokio::time::timeout(limits.shutdown, engine.idle())
        .await
        .is_err()
    {
        tracing::warn!(
            requests = engine.requests_under_way(),
            "the time to stop is over; leaving requests unanswered"
        );
    }
    // Answers that are still being sent have the rest of the time.
    let rest = limits.shutdown.saturating_sub(asked.elapsed());
    connections.close(rest.max(CLOSE)).await;
    tracing::info!("stopped");
    Ok(())
}
