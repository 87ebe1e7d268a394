//! States, metadata, and sequences of models as tables and JSON.

mod sequences;

use ovms::client::{
    Api, Client, ClientError, ClientOptions, ModelBatching, ModelId, ModelMetadata, ModelStatus,
    ReloadFailure, ServerMetadata, VersionStatus,
};
use serde::Serialize;

use self::sequences::SequenceListing;
use super::{
    args::InferArgs,
    call_failure::{OR_NONE_TO_SEE, shows_identity},
    curl,
    explain::{explanation, tensor_cells},
    job::{misfit, server},
    run::{ask, unless_interrupted},
};
use crate::{
    error::Failure,
    ui::{self, Cell, Look, OutputFormat, Table, Tone},
};

/// States of a version in transition.
const PASSING: [&str; 3] = ["START", "LOADING", "UNLOADING"];

/// State of a version that was unloaded as planned.
const OVER: &str = "END";

/// Response of a server about one or all of its models.
#[derive(Debug, Serialize)]
pub(super) struct Listing {
    pub(super) api: Api,
    #[serde(skip)]
    pub(super) is_of_all: bool,
    /// Indicates that the query has shown who sends it.
    #[serde(skip)]
    pub(super) has_identity: bool,
    /// Server metadata, with a query for all models and if the protocol has it.
    pub(super) server: Option<ServerMetadata>,
    pub(super) models: Models,
    /// Reason why the server does not serve its configuration as it stands, for a query of states, if it gives one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reload_failure: Option<ReloadFailure>,
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(super) enum Models {
    States(Vec<ModelStatus>),
    Tensors(Vec<MetadataRow>),
}

/// Metadata of a model, or the error in its place.
#[derive(Debug, Serialize)]
pub(super) struct MetadataRow {
    pub(super) name: String,
    #[serde(flatten)]
    pub(super) metadata: ModelMetadata,
    pub(super) error: Option<String>,
    /// Batching of its requests, if there is any, and the model is the only one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) batching: Option<ModelBatching>,
}

impl Listing {
    /// Prints to stdout, and notes that do not fit a table to stderr.
    pub(super) fn print(&self, is_json: bool) -> Result<(), Failure> {
        if is_json {
            return ui::print(self.json() + "\n");
        }
        for note in self.notes() {
            ui::note(&note);
        }
        if let Some(warning) = self.warning() {
            ui::warn(&warning);
        }
        ui::print(self.text(Look::of_stdout()))
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if let Some(server) = &self.server {
            let not = if server.is_ready { "" } else { "not " };
            notes.push(format!("{} {} is {not}ready.", server.name, server.version));
        }
        match &self.models {
            Models::States(models) if !models.is_empty() => {}
            Models::Tensors(rows) if !rows.is_empty() => {
                notes.extend(rows.iter().filter_map(|row| match &row.error {
                    None => (!self.is_of_all).then(|| headline(&row.metadata)),
                    Some(error) => Some(format!("Model `{}` has no metadata: {error}", row.name)),
                }));
                notes.extend(
                    rows.iter()
                        .filter_map(|row| batches(row.batching.as_ref()?)),
                );
                if !self.is_of_all {
                    let unmet = rows
                        .iter()
                        .flat_map(|row| row.metadata.properties.unmet_batches());
                    notes.extend(unmet.map(|(setting, text)| format!("{setting} is {text}.")));
                }
            }
            _ => notes.push(match self.has_identity {
                false => "The server has no models.".to_owned(),
                true => format!("The server has no models, {OR_NONE_TO_SEE}."),
            }),
        }
        notes
    }

    fn warning(&self) -> Option<String> {
        let ReloadFailure { since, reason } = self.reload_failure.as_ref()?;
        Some(format!(
            "warning: the server has run an outdated configuration since {since}: {reason}"
        ))
    }

    fn text(&self, look: Look) -> String {
        match &self.models {
            Models::States(models) => states_table(models).draw(look),
            Models::Tensors(rows) => match rows.as_slice() {
                [
                    MetadataRow {
                        metadata,
                        error: None,
                        ..
                    },
                ] if !self.is_of_all => explanation(metadata, look),
                rows => tensors_table(rows).draw(look),
            },
        }
    }

    fn json(&self) -> String {
        serde_json::to_string(self).expect("texts and numbers have a JSON form")
    }
}

fn headline(model: &ModelMetadata) -> String {
    let versions = match model.versions.as_slice() {
        [] => String::new(),
        [only] => format!(", version {only}"),
        several => format!(", versions {}", several.join(", ")),
    };
    let platform = match model.platform.as_str() {
        "" => String::new(),
        platform => format!(", platform {platform}"),
    };
    format!("Model `{}`{versions}{platform}.", model.name)
}

/// Describes the batches of a model.
fn batches(batching: &ModelBatching) -> Option<String> {
    let sizes = batching.preferred_batch_size.iter();
    let sizes: Vec<String> = sizes.map(ToString::to_string).collect();
    let delay = match batching.max_queue_delay_microseconds {
        0 => String::new(),
        delay => format!("; a request waits up to {delay} µs for others"),
    };
    (!sizes.is_empty()).then(|| {
        format!(
            "Queued requests run in batches of {} rows{delay}.",
            sizes.join(", ")
        )
    })
}

/// Returns the table of states, with a column for the reason if there is one.
fn states_table(models: &[ModelStatus]) -> Table {
    let mut versions = models.iter().flat_map(|model| &model.versions);
    let has_reasons = versions.any(|version| !reason(version).is_empty());
    let mut table = Table::new()
        .left(["model"])
        .right(["version"])
        .left(["state"]);
    if has_reasons {
        table = table.left(["reason"]);
    }
    let or_nothing = |text: String| {
        if text.is_empty() {
            ui::NOTHING.to_owned()
        } else {
            text
        }
    };
    for model in models {
        if model.versions.is_empty() {
            let nothing = std::iter::repeat_n(ui::NOTHING, 2 + usize::from(has_reasons));
            table.row([&*model.name].into_iter().chain(nothing).map(str::to_owned));
        }
        for version in &model.versions {
            let state = or_nothing(version.state.clone());
            let mut cells = vec![
                model.name.clone().into(),
                or_nothing(version.version.clone()).into(),
                Cell::toned(state, tone(version)),
            ];
            if has_reasons {
                cells.push(or_nothing(reason(version)).into());
            }
            table.row(cells);
        }
    }
    table
}

/// Returns the reason of a state in one line: a code that is not OK, and the server's text.
fn reason(version: &VersionStatus) -> String {
    let words: Vec<_> = version.message.split_whitespace().collect();
    match (&version.code, words.join(" ")) {
        (Some(code), message) if code != "OK" && message.is_empty() => code.clone(),
        (Some(code), message) if code != "OK" => format!("{code}: {message}"),
        (_, message) => message,
    }
}

fn tone(version: &VersionStatus) -> Option<Tone> {
    let has_failed = version.code.as_ref().is_some_and(|code| code != "OK");
    match version.state.as_str() {
        _ if version.is_removed() => None,
        // What was there before goes on.
        _ if version.is_ready() && has_failed => Some(Tone::Warn),
        _ if has_failed => Some(Tone::Bad),
        _ if version.is_ready() => Some(Tone::Good),
        state if PASSING.contains(&state) => Some(Tone::Warn),
        "" | OVER => None,
        _ => Some(Tone::Bad),
    }
}

fn tensors_table(rows: &[MetadataRow]) -> Table {
    let mut table = Table::new().left(["model", "tensor", "name", "datatype", "shape"]);
    for row in rows {
        if row.error.is_some() {
            let nothing = [ui::NOTHING; 4].map(str::to_owned);
            table.row([row.name.clone()].into_iter().chain(nothing));
        }
        let model = &row.metadata;
        let inputs = model.inputs.iter().map(|tensor| ("input", tensor));
        let outputs = model.outputs.iter().map(|tensor| ("output", tensor));
        for (kind, tensor) in inputs.chain(outputs) {
            let start = [row.name.clone(), kind.to_owned()];
            table.row(start.into_iter().chain(tensor_cells(tensor)));
        }
    }
    table
}

/// Query with checked arguments.
#[derive(Debug)]
pub(super) struct Inspection {
    pub(super) server: ClientOptions,
    /// Model to query; `None` for all.
    pub(super) model: Option<ModelId>,
    question: Question,
    is_json: bool,
    is_printed: bool,
    shows_secrets: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Question {
    Status,
    Metadata,
    Sequences,
}

impl Inspection {
    /// Checks the flags; `None` if they ask for no query.
    pub(super) fn new(args: &InferArgs) -> Result<Option<Self>, Failure> {
        let asked = &args.question;
        let (question, what) = match (asked.status, asked.metadata, asked.sequences) {
            (true, ..) => (Question::Status, "the status"),
            (_, true, _) => (Question::Metadata, "the metadata"),
            (.., true) => (Question::Sequences, "the list of sequences"),
            _ => return Ok(None),
        };
        let is_json = args.output.output.of_many(what)? == OutputFormat::Json;
        let api = args.server.api();
        if question == Question::Sequences && api.is_grpc() {
            return Err(misfit("--sequences", api).hint(
                "sequences are listed over REST: `--url http://HOST:PORT`, with the server's \
                 `--rest-port` or `--management-port`",
            ));
        }
        let version = args.request.model_version;
        let model = args.model.clone().map(|name| ModelId {
            name,
            version: version.map(|version| version.to_string()),
        });
        Ok(Some(Self {
            server: server(args.server.clone(), 1)?,
            model,
            question,
            is_json,
            is_printed: args.question.print_curl,
            shows_secrets: args.question.show_secrets,
        }))
    }

    /// Sends the query and prints the response.
    pub(super) async fn run(self) -> Result<(), Failure> {
        if self.is_printed {
            let (server, model) = (&self.server, self.model.as_ref());
            return match self.question {
                Question::Status => curl::status(server, model, self.shows_secrets),
                Question::Metadata => {
                    unless_interrupted(curl::metadata(server, model, self.shows_secrets)).await
                }
                Question::Sequences => match model {
                    Some(model) => curl::sequences(server, model, self.shows_secrets),
                    None => Ok(()),
                },
            };
        }
        if let (Question::Sequences, Some(model)) = (self.question, &self.model) {
            let question = async |client: &Client| client.sequences(model).await;
            let asked = ask(&self.server, Some(&model.name), question);
            let (_, found) = unless_interrupted(asked).await?;
            return SequenceListing::new(self.server.api, model, found).print(self.is_json);
        }
        let listing = unless_interrupted(self.ask()).await?;
        listing.print(self.is_json)
    }

    async fn ask(&self) -> Result<Listing, Failure> {
        let name = self.model.as_ref().map(|model| model.name.as_str());
        let question = async |client: &Client| {
            let (server, models) = match &self.model {
                Some(model) => (None, self.one(client, model).await?),
                None => self.all(client).await?,
            };
            let reload_failure = match (self.question, &server) {
                (Question::Status, Some(server)) => server.reload_failure.clone(),
                // The state of the model is worth printing without.
                (Question::Status, None) if self.model.is_some() => {
                    let server = client.server_metadata().await.ok().flatten();
                    server.and_then(|server| server.reload_failure)
                }
                _ => None,
            };
            Ok(Listing {
                api: self.server.api,
                is_of_all: self.model.is_none(),
                has_identity: shows_identity(&self.server),
                server,
                models,
                reload_failure,
            })
        };
        Ok(ask(&self.server, name, question).await?.1)
    }

    async fn one(&self, client: &Client, model: &ModelId) -> Result<Models, ClientError> {
        Ok(match self.question {
            Question::Status => Models::States(vec![client.model_status(model).await?]),
            Question::Metadata | Question::Sequences => Models::Tensors(vec![MetadataRow {
                name: model.name.clone(),
                metadata: client.model_metadata(model).await?,
                error: None,
                batching: client.model_batching(model).await,
            }]),
        })
    }

    async fn all(&self, client: &Client) -> Result<(Option<ServerMetadata>, Models), ClientError> {
        let models = client.models().await?;
        let server = match client.server_metadata().await {
            // What the models are is worth printing all the same.
            Err(ClientError::Refused(_)) => None,
            server => server?,
        };
        if self.question == Question::Status {
            return Ok((server, Models::States(models)));
        }
        let mut rows = Vec::with_capacity(models.len());
        for ModelStatus { name, .. } in models.into_iter().filter(|it| !it.is_removed()) {
            let (metadata, error) = match client.model_metadata(&ModelId::of(&name)).await {
                // Such as one that is not loaded.
                Err(ClientError::Refused(refusal)) => {
                    (ModelMetadata::default(), Some(refusal.to_string()))
                }
                metadata => (metadata?, None),
            };
            rows.push(MetadataRow {
                name,
                metadata,
                error,
                batching: None,
            });
        }
        Ok((server, Models::Tensors(rows)))
    }
}

#[cfg(test)]
mod tests;
