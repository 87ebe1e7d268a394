//! Models of a new pipeline, as they are on disk.

use std::{
    collections::HashSet,
    path::{Path, PathBuf},
};

use ovms::{
    config::{self, Defaults},
    engine::reload::name_of,
    model::others,
    pipeline::{MissingModel, Sources},
};
use serde_json::json;

use super::wiring::{WiredModel, unique};
use crate::{
    error::Failure,
    pipeline::facts::ConfigurationFacts,
    places::{self, folder_of, has_parent, or_here},
};

/// Reads each folder once. Returns the models, and the index of the model for each folder; paths
/// are relative to the new file if possible.
pub(crate) fn look(
    folders: &[PathBuf],
    file: Option<&Path>,
) -> Result<(Vec<WiredModel>, Vec<usize>), Failure> {
    let mut places: Vec<PathBuf> = Vec::new();
    let mut steps = Vec::new();
    for folder in folders {
        let place = resolved(folder)?;
        steps.push(match places.iter().position(|known| *known == place) {
            Some(index) => index,
            None => {
                places.push(place);
                places.len() - 1
            }
        });
    }
    // Named in a file of their own first, so that they are looked at as the server does.
    let mut names = HashSet::new();
    let mut entries = Vec::new();
    for place in &places {
        let name = unique(&name_of(place), &names);
        let text = text(place)?;
        entries.push(json!({"config": {"name": name, "base_path": text}}));
        names.insert(name);
    }
    let content = json!({"model_config_list": entries}).to_string();
    let parsed = config::parse(content.as_bytes(), Path::new("/"), &Defaults::default());
    let parsed = parsed
        .map_err(|error| Failure::failed("these models cannot be configured").caused_by(&error))?;
    let mut facts = ConfigurationFacts::new(&parsed);
    facts.runs_custom_nodes = false;
    let base = file.map(|file| resolved_new(folder_of(file))).transpose()?;
    let mut models = Vec::new();
    for (entry, place) in entries.iter().zip(&places) {
        let name = entry["config"]["name"].as_str().unwrap_or_default();
        let facts = facts.model(name, None);
        let facts = facts.map_err(|missing| explain(place, missing))?;
        let below = base
            .as_deref()
            .and_then(|base| place.strip_prefix(base).ok());
        models.push(WiredModel {
            name: name.to_owned(),
            base_path: text(below.filter(|path| *path != Path::new("")).unwrap_or(place))?,
            info: facts.info,
        });
    }
    for note in facts.notes() {
        crate::ui::warn(&format!("warning: {note}"));
    }
    Ok((models, steps))
}

/// Makes a path absolute and without `..`, which the server does not accept.
fn resolved(path: &Path) -> Result<PathBuf, Failure> {
    let path = or_here(path);
    let fail = |error| Failure::cannot("find", path, &error);
    if has_parent(path) {
        return path.canonicalize().map_err(fail);
    }
    // Without the dots that stand for nothing.
    let path = std::path::absolute(path).map_err(fail)?;
    Ok(path.components().collect())
}

/// Resolves the path of a folder that may have to be made.
fn resolved_new(folder: &Path) -> Result<PathBuf, Failure> {
    match has_parent(folder) {
        true => places::resolved(folder).map_err(|error| Failure::cannot("find", folder, &error)),
        false => resolved(folder),
    }
}

/// Returns a path as a text for JSON.
pub(crate) fn text(path: &Path) -> Result<String, Failure> {
    path.to_str().map(str::to_owned).ok_or_else(|| {
        Failure::failed(format!("{} is not UTF-8, which JSON needs", path.display()))
    })
}

fn explain(place: &Path, missing: MissingModel) -> Failure {
    let folder = place.display();
    let (MissingModel::NotAvailable(reason) | MissingModel::NotLooked { reason, .. }) = missing
    else {
        return Failure::failed(format!("there is no model in {folder}"));
    };
    let text = format!("cannot use the model in {folder}: {reason}");
    Failure::failed(text).hint(match others::is_of_python(place) {
        true => {
            "name the models without it, and add to `nodes` of the file the node that `ovms pipeline new --python-node` \
             writes: it becomes the handler"
        }
        false => "MODEL_DIR is a folder with version folders: MODEL_DIR/1/model.xml",
    })
}
