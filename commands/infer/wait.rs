//! Waits until a server with all of its models, or one model of it, takes requests.

use std::time::Duration;

use ovms::{
    client::{Client, ClientError, ClientOptions, ModelId, ModelStatus, VersionStatus},
    servable::REMOVED,
    tls::TlsProblem,
};
use tokio::time::{Instant, sleep, timeout};

use super::run::why;
use crate::error::{Failure, FailureKind};

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

/// States in which a version is about to serve.
const COMING: [&str; 2] = ["START", "LOADING"];

/// State of KServe for a version that does not serve, and the reasons of one that did not fail.
const UNAVAILABLE: &str = "UNAVAILABLE";
const AS_PLANNED: [&str; 4] = ["", "unloaded", REMOVED, "there is no version"];

/// Answer to a question.
#[derive(Debug)]
enum Seen {
    Ready,
    /// No ready version; with the states, if there are any.
    Waiting(Option<String>),
    /// Servables that failed to load, with their errors, of so many; nothing is loading any more.
    Broken(Vec<String>, usize),
    /// Error that may pass with time.
    Failed(ClientError),
}

impl Wait {
    /// Returns when it is ready.
    pub(super) async fn done(&self) -> Result<(), Failure> {
        let end = Instant::now() + self.limit;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let left = Duration::from_millis(left.as_millis() as u64);
            let seen = self.look(left.max(PAUSE)).await?;
            match seen {
                Seen::Ready => return Ok(()),
                Seen::Broken(errors, count) => return Err(broken(&errors, count)),
                Seen::Waiting(_) | Seen::Failed(_) => {}
            }
            if Instant::now() + PAUSE >= end {
                return Err(self.over(seen).await);
            }
            sleep(PAUSE).await;
        }
    }

    /// Asks once. Only errors that do not pass with time are errors.
    async fn look(&self, limit: Duration) -> Result<Seen, Failure> {
        let options = ClientOptions {
            timeout: self.server.timeout.min(limit),
            ..self.server.clone()
        };
        // A question is several requests, each of which has the limit.
        let asked = match timeout(options.timeout, self.ask(&options)).await {
            Ok(asked) => asked,
            Err(_) => Err(options.unanswered()),
        };
        match asked {
            Ok(seen) => Ok(seen),
            Err(error) if is_passing(&error) => Ok(Seen::Failed(error)),
            Err(error) => Err(self.why(error).await),
        }
    }

    async fn ask(&self, options: &ClientOptions) -> Result<Seen, ClientError> {
        let client = Client::connect(options).await?;
        let Some(model) = &self.model else {
            if !client.server_ready().await? {
                return Ok(Seen::Waiting(None));
            }
            return match client.models().await {
                Ok(models) => Ok(all(&models)),
                // Not every server has a list of its models, or shows it to everyone.
                Err(ClientError::Refused(_)) => Ok(Seen::Ready),
                Err(error) => Err(error),
            };
        };
        let status = client.model_status(model).await?;
        if status.versions.iter().any(VersionStatus::is_ready) {
            return Ok(Seen::Ready);
        }
        let waiting = Seen::Waiting(Some(states(&status)));
        Ok(match all(&[status]) {
            failed @ Seen::Broken(..) => failed,
            _ => waiting,
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
            Seen::Waiting(states) => {
                let text = match states {
                    Some(states) => format!("{text}: {states}"),
                    None => text,
                };
                let hint = "`--status` shows its models and their states";
                let hint = self.model.is_none().then(|| hint.to_owned());
                Failure::failed(text).may_hint(hint)
            }
            Seen::Ready => Failure::failed(text),
            Seen::Broken(errors, count) => broken(&errors, count),
            Seen::Failed(error) => {
                if matches!(error, ClientError::Timeout { .. }) {
                    let (address, kind) = (&self.server.address, FailureKind::Unreachable);
                    let failure = Failure::new(kind, format!("{text}: {address} does not answer"));
                    return failure.hint(self.of_silence());
                }
                let last = self.why(error).await;
                let text = format!("{text}: {}", last.line());
                last.retold(text)
            }
        }
    }

    /// Returns the next step for a server that connects and does not answer.
    fn of_silence(&self) -> String {
        let timeout = self.server.timeout;
        match timeout < self.limit {
            true => format!(
                "each question has the {timeout:?} of `--timeout`; a longer one gives a slow server time to answer"
            ),
            false => "is that a model server? `--url` names another address; a longer `--wait` gives a slow server time to \
                      answer"
                .to_owned(),
        }
    }
}

/// Returns what the states of all servables come to. One with a version that serves is ready, whatever its others are.
fn all(models: &[ModelStatus]) -> Seen {
    let is_ready = |it: &&ModelStatus| it.versions.iter().any(VersionStatus::is_ready);
    let is_coming = |it: &&VersionStatus| failure_of(it).is_none() && COMING.contains(&&*it.state);
    let waiting: Vec<&ModelStatus> = models.iter().filter(|it| !is_ready(it)).collect();
    let errors: Vec<String> = waiting.iter().filter_map(|it| failed(it)).collect();
    let mut coming = models.iter().filter(|it| {
        // One that fails may be for want of another that is loaded again.
        let matters = !errors.is_empty() || !is_ready(it);
        matters && it.versions.iter().any(|it| is_coming(&it))
    });
    match coming.next() {
        Some(model) => Seen::Waiting(Some(format!("`{}`: {}", model.name, states(model)))),
        None if errors.is_empty() => Seen::Ready,
        None => Seen::Broken(errors, models.len()),
    }
}

/// Returns why a servable does not serve if it is since it failed to load, with its name.
pub(super) fn failed_to_load(status: &ModelStatus) -> Option<String> {
    match all(std::slice::from_ref(status)) {
        Seen::Broken(errors, _) => errors.into_iter().next(),
        Seen::Waiting(_) | Seen::Ready | Seen::Failed(_) => None,
    }
}

/// Describes the versions of a servable that failed to load; `None` if there are none.
fn failed(model: &ModelStatus) -> Option<String> {
    let versions = model.versions.iter();
    let error = |it: &VersionStatus| {
        let error = failure_of(it)?;
        Some(match it.version.as_str() {
            "" => error,
            version => format!("version {version}: {error}"),
        })
    };
    let errors: Vec<String> = versions.filter_map(error).collect();
    (!errors.is_empty()).then(|| format!("`{}`: {}", model.name, errors.join("; ")))
}

/// Returns the error of a version that failed to load.
fn failure_of(version: &VersionStatus) -> Option<String> {
    let message = in_a_line(&version.message);
    match version.code.as_deref() {
        _ if version.is_ready() => None,
        Some("OK") => None,
        Some(code) if message.is_empty() => Some(code.to_owned()),
        Some(_) => Some(message),
        // KServe has no codes.
        None if version.state == UNAVAILABLE && !AS_PLANNED.contains(&&*message) => Some(message),
        None => None,
    }
}

/// Returns the failure for servables that failed to load, with their errors.
fn broken(errors: &[String], count: usize) -> Failure {
    let text = match count {
        1 => "the servable failed to load".to_owned(),
        _ => format!("{} of {count} servables failed to load", errors.len()),
    };
    let failure = errors.iter().fold(Failure::failed(text), Failure::detail);
    failure
        .hint("`ovms infer --status` shows the states of all, and the log of the server has more")
}

fn in_a_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns the states of a model's versions in a line.
pub(super) fn states(status: &ModelStatus) -> String {
    let state = |it: &VersionStatus| {
        let version = match it.version.as_str() {
            "" => String::new(),
            version => format!("version {version} is "),
        };
        let reason = match in_a_line(&it.message) {
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
fn is_passing(error: &ClientError) -> bool {
    match error {
        // A certificate that is not trusted stays so, and whoever may not connect.
        ClientError::Unreachable { source, .. } | ClientError::Closed { source, .. } => {
            TlsProblem::of(&**source).is_none_or(|problem| {
                use TlsProblem as P;
                matches!(
                    problem,
                    P::NotTls | P::Closed | P::NotYetValid { .. } | P::Other
                )
            })
        }
        ClientError::Timeout { .. } | ClientError::Partial { .. } => true,
        ClientError::Refused(refusal) => refusal.is_not_found() || refusal.is_unavailable(),
        ClientError::Protocol { .. } | ClientError::Request(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use ovms::client::{Address, Api, ClientOptions, ModelStatus, VersionStatus};
    use reqwest::header::HeaderMap;

    use super::{Seen, Wait, all, broken};

    #[tokio::test]
    async fn a_server_that_does_not_answer_has_a_next_step() {
        let text = async |limit, timeout| {
            let server = ClientOptions {
                address: Address::parse("localhost", Api::KserveGrpc).unwrap(),
                api: Api::KserveGrpc,
                timeout: Duration::from_millis(timeout),
                headers: HeaderMap::new(),
                concurrency: 1,
                tls: None,
            };
            let last = Seen::Failed(server.unanswered());
            let wait = Wait {
                limit: Duration::from_millis(limit),
                server,
                model: None,
            };
            wait.over(last).await.text()
        };
        insta::assert_snapshot!(text(1000, 1).await, @r"
        error: the server is not ready after 1s: localhost:9000 does not answer
        hint: each question has the 1ms of `--timeout`; a longer one gives a slow server time to answer
        ");
        insta::assert_snapshot!(text(1000, 30_000).await, @r"
        error: the server is not ready after 1s: localhost:9000 does not answer
        hint: is that a model server? `--url` names another address; a longer `--wait` gives a slow server time to answer
        ");
    }

    /// Each servable as its versions: state, code, and message.
    fn seen(models: &[&[(&str, Option<&str>, &str)]]) -> String {
        let models: Vec<ModelStatus> = models
            .iter()
            .zip(["a", "b", "c"])
            .map(|(versions, name)| ModelStatus {
                name: name.to_owned(),
                versions: versions
                    .iter()
                    .zip(1..)
                    .map(|((state, code, message), number)| VersionStatus {
                        version: number.to_string(),
                        state: (*state).to_owned(),
                        code: code.map(str::to_owned),
                        message: (*message).to_owned(),
                    })
                    .collect(),
            })
            .collect();
        match all(&models) {
            Seen::Ready => "ready".to_owned(),
            Seen::Waiting(states) => format!("waits: {}", states.unwrap_or_default()),
            Seen::Broken(errors, count) => broken(&errors, count).text(),
            Seen::Failed(error) => error.to_string(),
        }
    }

    #[test]
    fn a_server_is_waited_for_until_its_servables_serve_or_one_has_failed() {
        let ready = ("READY", None, "");
        let coming = ("LOADING", None, "");
        let broken = ("UNAVAILABLE", None, "cannot read\n the model");
        assert_eq!(seen(&[]), "ready");
        assert_eq!(seen(&[&[ready], &[ready]]), "ready");
        assert_eq!(
            seen(&[&[ready], &[coming]]),
            "waits: `b`: version 1 is LOADING"
        );
        insta::assert_snapshot!(seen(&[&[ready], &[broken]]), @r"
        error: 1 of 2 servables failed to load
          `b`: version 1: cannot read the model
        hint: `ovms infer --status` shows the states of all, and the log of the server has more
        ");
        // While something is loading, whatever has failed may come back.
        assert_eq!(
            seen(&[&[coming], &[broken]]),
            "waits: `a`: version 1 is LOADING"
        );
        assert_eq!(
            seen(&[&[ready, coming], &[broken]]),
            "waits: `a`: version 1 is READY, version 2 is LOADING"
        );
        // Another version serves, is loaded beside, or was unloaded as planned.
        assert_eq!(seen(&[&[ready, broken], &[ready]]), "ready");
        assert_eq!(seen(&[&[ready, coming]]), "ready");
        let unloaded = ("UNAVAILABLE", None, "unloaded");
        let none = ("UNAVAILABLE", None, "there is no version");
        assert_eq!(seen(&[&[unloaded], &[none], &[]]), "ready");
        let removed = ("UNAVAILABLE", None, "removed from the configuration");
        assert_eq!(seen(&[&[ready], &[removed]]), "ready");
    }

    #[test]
    fn codes_of_tensorflow_serving_say_what_has_failed() {
        let ready = ("AVAILABLE", Some("OK"), "OK");
        let kept = ("AVAILABLE", Some("UNKNOWN"), "cannot read");
        let ended = ("END", Some("OK"), "OK");
        assert_eq!(seen(&[&[ready], &[kept], &[ended]]), "ready");
        let coming = ("START", Some("OK"), "OK");
        let broken = ("LOADING", Some("UNKNOWN"), "cannot read");
        assert!(seen(&[&[broken], &[coming]]).starts_with("waits: `b`: version 1 is START"));
        insta::assert_snapshot!(seen(&[&[ready], &[broken, ("LOADING", Some("FAILED_PRECONDITION"), "")]]), @r"
        error: 1 of 2 servables failed to load
          `b`: version 1: cannot read; version 2: FAILED_PRECONDITION
        hint: `ovms infer --status` shows the states of all, and the log of the server has more
        ");
    }
}
