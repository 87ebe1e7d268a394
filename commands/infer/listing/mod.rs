//! States and metadata of models as tables and JSON.

use ovms::client::{
    Api, ModelMetadata, ModelStatus, ServerError, ServerMetadata, TensorMetadata, VersionStatus,
};
use serde::Serialize;

use super::explain::{explanation, tensor_cells};
use crate::{
    error::Failure,
    ui::{self, Cell, Look, Table, Tone},
};

/// States of a version in transition.
const PASSING: [&str; 3] = ["START", "LOADING", "UNLOADING"];

/// State of a version that was unloaded as planned.
const OVER: &str = "END";

/// Response of a server about one or all of its models.
#[derive(Debug)]
pub(super) struct Listing {
    pub(super) api: Api,
    pub(super) is_of_all: bool,
    /// Server metadata, with a query for all models and if the protocol has it.
    pub(super) server: Option<ServerMetadata>,
    pub(super) models: Models,
}

#[derive(Debug)]
pub(super) enum Models {
    States(Vec<ModelStatus>),
    Tensors(Vec<MetadataRow>),
}

/// Metadata of a model, or the error in its place.
#[derive(Debug)]
pub(super) struct MetadataRow {
    pub(super) name: String,
    pub(super) reported: Result<ModelMetadata, ServerError>,
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
                notes.extend(rows.iter().filter_map(|row| match &row.reported {
                    Ok(model) => (!self.is_of_all).then(|| headline(model)),
                    Err(refusal) => {
                        Some(format!("Model `{}` has no metadata: {refusal}", row.name))
                    }
                }));
            }
            _ => notes.push("The server has no models.".to_owned()),
        }
        notes
    }

    fn text(&self, look: Look) -> String {
        match &self.models {
            Models::States(models) => states_table(models).draw(look),
            Models::Tensors(rows) => match rows.as_slice() {
                [
                    MetadataRow {
                        reported: Ok(model),
                        ..
                    },
                ] if !self.is_of_all => explanation(model, look),
                rows => tensors_table(rows).draw(look),
            },
        }
    }

    fn json(&self) -> String {
        let listing = ListingJson {
            api: self.api.to_string(),
            server: self.server.as_ref(),
            models: match &self.models {
                Models::States(models) => {
                    ModelsJson::States(models.iter().map(StatusJson::new).collect())
                }
                Models::Tensors(rows) => {
                    ModelsJson::Tensors(rows.iter().map(MetadataJson::new).collect())
                }
            },
        };
        serde_json::to_string(&listing).expect("texts and numbers have a JSON form")
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
        let Ok(model) = &row.reported else {
            let nothing = [ui::NOTHING; 4].map(str::to_owned);
            table.row([row.name.clone()].into_iter().chain(nothing));
            continue;
        };
        let inputs = model.inputs.iter().map(|tensor| ("input", tensor));
        let outputs = model.outputs.iter().map(|tensor| ("output", tensor));
        for (kind, tensor) in inputs.chain(outputs) {
            let start = [row.name.clone(), kind.to_owned()];
            table.row(start.into_iter().chain(tensor_cells(tensor)));
        }
    }
    table
}

/// JSON form of a listing; the fields are in output order.
#[derive(Debug, Serialize)]
struct ListingJson<'a> {
    api: String,
    server: Option<&'a ServerMetadata>,
    models: ModelsJson<'a>,
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum ModelsJson<'a> {
    States(Vec<StatusJson<'a>>),
    Tensors(Vec<MetadataJson<'a>>),
}

#[derive(Debug, Serialize)]
struct StatusJson<'a> {
    name: &'a str,
    versions: Vec<VersionJson<'a>>,
}

#[derive(Debug, Serialize)]
struct VersionJson<'a> {
    version: Option<&'a str>,
    state: &'a str,
    ready: bool,
    error_code: Option<&'a str>,
    reason: &'a str,
}

#[derive(Debug, Serialize)]
struct MetadataJson<'a> {
    name: &'a str,
    versions: &'a [String],
    platform: Option<&'a str>,
    inputs: &'a [TensorMetadata],
    outputs: &'a [TensorMetadata],
    error: Option<String>,
}

fn if_reported(text: &str) -> Option<&str> {
    (!text.is_empty()).then_some(text)
}

impl<'a> StatusJson<'a> {
    fn new(model: &'a ModelStatus) -> Self {
        let version = |it: &'a VersionStatus| VersionJson {
            version: if_reported(&it.version),
            state: &it.state,
            ready: it.is_ready(),
            error_code: it.code.as_deref(),
            reason: &it.message,
        };
        Self {
            name: &model.name,
            versions: model.versions.iter().map(version).collect(),
        }
    }
}

impl<'a> MetadataJson<'a> {
    fn new(row: &'a MetadataRow) -> Self {
        let model = row.reported.as_ref().ok();
        Self {
            name: &row.name,
            versions: model.map_or(&[], |model| &model.versions),
            platform: model.and_then(|model| if_reported(&model.platform)),
            inputs: model.map_or(&[], |model| &model.inputs),
            outputs: model.map_or(&[], |model| &model.outputs),
            error: row.reported.as_ref().err().map(ToString::to_string),
        }
    }
}

#[cfg(test)]
mod tests;
