//! Waits until a server, or a model of it, takes requests.

use std::time::Duration;

use ovms::client::{Client, ClientError, ClientOptions, ModelId, ModelStatus, VersionStatus};
use tokio::time::{Instant, sleep};

use super::run::why;
use crate::error::Failure;

/// Time between two questions.
const PAUSE: Duration = Duration::from_millis(200);

/// Wait with a limit.
#[derive(Debug)]
pub(super) struct Wait {
    pub(super) limit: Duration,
    pub(super) server: ClientOptions,
    /// Model to wait for; `None` for the server.
    pub(super) model: Option<ModelId>,
}

/// Answer to a question.
enum Seen {
    Ready,
    /// Nothing that is ready, as it is told.
    Waiting(String),
    /// Error that time may mend.
    Failed(ClientError),
}

impl Wait {
    /// Returns when it is ready.
    pub(super) async fn done(&self) -> Result<(), Failure> {
        let end = Instant::now() + self.limit;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let seen = self.look(left.max(PAUSE)).await?;
            if matches!(seen, Seen::Ready) {
                return Ok(());
            }
            if Instant::now() + PAUSE >= end {
                return Err(self.over(seen).await);
            }
            sleep(PAUSE).await;
        }
    }

    /// Asks once. Only errors that waiting does not mend are errors.
    async fn look(&self, limit: Duration) -> Result<Seen, Failure> {
        let options = ClientOptions {
            timeout: self.server.timeout.min(limit),
            ..self.server.clone()
        };
        match self.ask(&options).await {
            Ok(seen) => Ok(seen),
            Err(error) if is_mended(&error) => Ok(Seen::Failed(error)),
            Err(error) => Err(self.why(error).await),
        }
    }

    async fn ask(&self, options: &ClientOptions) -> Result<Seen, ClientError> {
        let client = Client::connect(options).await?;
        let Some(model) = &self.model else {
            return Ok(match client.server_ready().await? {
                true => Seen::Ready,
                false => Seen::Waiting("the server is not ready".to_owned()),
            });
        };
        let status = client.model_status(model).await?;
        Ok(match status.versions.iter().any(VersionStatus::is_ready) {
            true => Seen::Ready,
            false => Seen::Waiting(states(&status)),
        })
    }

    /// Returns the failure of a question, with its cause.
    async fn why(&self, error: ClientError) -> Failure {
        let client = Client::connect(&self.server).await.ok();
        let name = self.model.as_ref().map(|model| model.name.as_str());
        why(error, &self.server, client.as_ref(), name).await
    }

    /// Returns the failure when the time is over.
    async fn over(&self, seen: Seen) -> Failure {
        let what = match &self.model {
            Some(model) => format!("model `{}`", model.name),
            None => "the server".to_owned(),
        };
        let text = format!("{what} is not ready after {:?}", self.limit);
        match seen {
            Seen::Ready | Seen::Waiting(_) if self.model.is_none() => {
                Failure::failed(text).hint("`--status` shows its models and their states")
            }
            Seen::Ready => Failure::failed(text),
            Seen::Waiting(states) => Failure::failed(format!("{text}: {states}")),
            Seen::Failed(error) => {
                let last = self.why(error).await;
                let failure = Failure::new(last.kind(), format!("{text}: {}", last.line()));
                let hints = last.hints().iter().cloned();
                hints.fold(failure, Failure::hint)
            }
        }
    }
}

/// Returns the states of a model's versions in a line.
pub(super) fn states(status: &ModelStatus) -> String {
    let state = |it: &VersionStatus| {
        let version = match it.version.as_str() {
            "" => String::new(),
            version => format!("version {version} is "),
        };
        let reason = match it.message.split_whitespace().collect::<Vec<_>>().join(" ") {
            reason if reason.is_empty() => reason,
            reason => format!(" ({reason})"),
        };
        format!("{version}{}{reason}", it.state)
    };
    match status.versions.as_slice() {
        [] => "it has no versions".to_owned(),
        versions => versions.iter().map(state).collect::<Vec<_>>().join(", "),
    }
}

/// Returns whether an error may be gone after a while: nothing listens yet, or the model is not there yet.
fn is_mended(error: &ClientError) -> bool {
    match error {
        ClientError::Unreachable { .. } | ClientError::Timeout { .. } => true,
        ClientError::Refused(refusal) => refusal.is_not_found() || refusal.is_unavailable(),
        ClientError::Protocol { .. } | ClientError::Request(_) => false,
    }
}
