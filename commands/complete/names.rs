//! Possible values of the argument with the cursor: from the server, or from a file.

use std::{env, path::Path, time::Instant};

use ovms::{
    client::{
        Address, Api, Client, ClientOptions, ModelId, ModelMetadata, ModelStatus, TensorMetadata,
        header, input::Argument,
    },
    config::{self, Defaults, FileConfig, ModelEntry},
};

use super::position::Position;
use crate::graph;

/// Options with names as values, by command and id; arguments without a flag are not listed.
pub(crate) const OPTIONS: [(&str, &str); 7] = [
    ("infer", "inputs"),
    ("infer", "output_name"),
    ("infer", "model_version"),
    ("pipeline run", "inputs"),
    ("graph run", "inputs"),
    ("graph new", "model"),
    ("serve", "model_name"),
];

/// Variable with a configuration file, whose servables are offered if no server responds.
const CONFIG: &str = "OVMS_CONFIG";

/// Names to offer.
#[derive(Debug)]
pub(super) struct Names {
    /// Whether a value follows each name in the same word.
    pub(super) are_inputs: bool,
    /// The names.
    pub(super) names: Vec<Name>,
}

/// One name.
#[derive(Debug)]
pub(super) struct Name {
    /// Name as the program knows it.
    pub(super) name: String,
    /// Short description.
    pub(super) about: String,
}

/// Finds the names; `None` if there are none to offer.
pub(super) fn find(position: &Position, deadline: Instant) -> Option<Names> {
    let argument = position.argument.as_str();
    let names = match (position.command.as_str(), argument) {
        ("infer", "model") => match env::var(CONFIG) {
            Ok(path) if !path.is_empty() => {
                // Time is left for reading the file.
                let left = deadline.saturating_duration_since(Instant::now());
                let server = of_server(position, deadline.checked_sub(left / 4)?);
                server.or_else(|| servables(&path))?
            }
            _ => of_server(position, deadline)?,
        },
        ("infer", "inputs" | "output_name" | "model_version") => of_server(position, deadline)?,
        ("pipeline show" | "pipeline check" | "pipeline run", "name") => {
            let file = file(position.text("config")?)?;
            let pipelines = file.pipelines.into_iter();
            named(pipelines.map(|it| it.name), "pipeline")
        }
        ("pipeline run", "inputs") => {
            let (file, name) = (file(position.text("config")?)?, position.text("name")?);
            let pipeline = file.pipelines.into_iter().find(|it| it.name == name)?;
            named(pipeline.inputs, "input")
        }
        ("graph show" | "graph check" | "graph run", "name") => {
            let file = file(position.text("path")?)?;
            named(file.graphs.into_iter().map(|it| it.name), "graph")
        }
        ("graph run", "inputs") => {
            let path = Path::new(position.text("path")?);
            let inputs = graph::inputs(path, position.text("name"))?;
            named(inputs, "input")
        }
        ("graph new", "model") => models(position.text("config")?)?,
        ("serve", "model_name") => models(position.text("config_path")?)?,
        _ => return None,
    };
    let mut names = names;
    if argument == "inputs" {
        // A file or a value is being typed.
        if position.value.contains(['=', '@', '[', '{', '"']) {
            return None;
        }
        let given: Vec<Argument> = position
            .texts("inputs")
            .filter_map(|text| text.parse().ok())
            .collect();
        names.retain(|name| !given.iter().any(|it| it.name.as_ref() == Some(&name.name)));
        // Not those of which something would be taken for a datatype, a shape or a value.
        names.retain(|name| {
            let argument = format!("{}=0", name.name).parse::<Argument>();
            argument.is_ok_and(|it| it.name.as_ref() == Some(&name.name))
        });
    }
    Some(Names {
        are_inputs: argument == "inputs",
        names,
    })
}

fn named(names: impl IntoIterator<Item = String>, about: &str) -> Vec<Name> {
    let name = |name| Name {
        name,
        about: about.to_owned(),
    };
    names.into_iter().map(name).collect()
}

fn file(path: &str) -> Option<FileConfig> {
    // What is no file might be a pipe, and reading it takes from whom it is meant for.
    let path = Path::new(path);
    path.is_file().then_some(())?;
    config::read(path, &Defaults::default()).ok()
}

/// Returns all names in a configuration file.
fn servables(path: &str) -> Option<Vec<Name>> {
    let mut names = models(path)?;
    let file = file(path)?;
    names.extend(named(
        file.pipelines.into_iter().map(|it| it.name),
        "pipeline",
    ));
    names.extend(named(file.graphs.into_iter().map(|it| it.name), "graph"));
    Some(names)
}

/// Returns the models of a configuration file, including rejected ones.
fn models(path: &str) -> Option<Vec<Name>> {
    let models = file(path)?.models.into_iter().map(|entry| match entry {
        ModelEntry::Model(model) => model.name,
        ModelEntry::Refused { name, .. } => name,
    });
    Some(named(models, "model"))
}

/// Queries the server that the line, or the environment, names.
fn of_server(position: &Position, deadline: Instant) -> Option<Vec<Name>> {
    let options = options(position, deadline)?;
    let model = position.text("model").map(|name| ModelId {
        name: name.to_owned(),
        version: position.text("model_version").map(str::to_owned),
    });
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .ok()?;
    runtime.block_on(async {
        let client = Client::connect(&options).await.ok()?;
        match position.argument.as_str() {
            // Their states would be a question for each.
            "model" if options.api == Api::TfsGrpc => {
                Some(named(client.model_names().await?, "servable"))
            }
            "model" => {
                let models = client.models().await.ok()?;
                Some(models.into_iter().map(servable).collect())
            }
            "model_version" => {
                let versions = client.model_status(&model?).await.ok()?.versions;
                let version = versions.into_iter().map(|version| Name {
                    name: version.version,
                    about: version.state,
                });
                Some(version.collect())
            }
            argument => {
                let metadata = client.model_metadata(&model?).await.ok()?;
                let ModelMetadata {
                    inputs, outputs, ..
                } = metadata;
                let tensors = if argument == "inputs" {
                    inputs
                } else {
                    outputs
                };
                let given: Vec<&str> = position.texts("output_name").collect();
                let tensors = tensors.into_iter().filter(|tensor| {
                    argument == "inputs" || !given.contains(&tensor.name.as_str())
                });
                Some(tensors.map(tensor).collect())
            }
        }
    })
}

fn options(position: &Position, deadline: Instant) -> Option<ClientOptions> {
    let api = match position.text("api") {
        None => Api::KserveGrpc,
        Some(name) => Api::ALL.into_iter().find(|api| api.to_string() == name)?,
    };
    let url = position.text("url").unwrap_or("localhost");
    let headers = position.texts("header").map(|text| {
        let (name, value) = text.split_once('=')?;
        header(name, value).ok()
    });
    Some(ClientOptions {
        address: Address::parse(url, api).ok()?,
        api,
        timeout: deadline.saturating_duration_since(Instant::now()),
        headers: headers.collect::<Option<_>>()?,
        concurrency: 1,
    })
}

/// Describes a servable by its versions, as in `1 READY, 2 LOADING`.
fn servable(model: ModelStatus) -> Name {
    let versions = model.versions.iter().map(|version| {
        let words = [version.version.as_str(), version.state.as_str()];
        words.join(" ").trim().to_owned()
    });
    Name {
        about: versions.collect::<Vec<_>>().join(", "),
        name: model.name,
    }
}

fn tensor(tensor: TensorMetadata) -> Name {
    let lengths: Vec<String> = tensor.shape.wire().iter().map(i64::to_string).collect();
    Name {
        about: format!("{} [{}]", tensor.datatype, lengths.join(",")),
        name: tensor.name,
    }
}
