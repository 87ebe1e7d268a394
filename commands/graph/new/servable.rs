//! Model in the middle of a new graph: its inputs and outputs, as far as known.

use std::path::{Path, PathBuf};

use ovms::{
    config::{self, Defaults},
    openvino::runtime,
    pipeline::{MissingModel, Sources},
    scaffold::{ScaffoldServable, ScaffoldStream},
    servable::{ServableInfo, TensorInfo},
    tensor::Dim,
};

use crate::{
    error::Failure,
    graph::source::models_of_graphs,
    pipeline::{facts::ConfigurationFacts, new::models},
    places, setup, ui,
};

/// Result of the search.
pub(super) struct Found {
    pub(super) servable: ScaffoldServable,
    /// Name and path of the entry that the configuration file needs for it.
    pub(super) entry: Option<(String, String)>,
}

/// Finds the servable of `--model`: a folder, or else a name of the configuration file.
pub(super) fn find(model: &str, config: &Path) -> Result<Found, Failure> {
    let folder = PathBuf::from(model);
    if model.contains('/') || folder.is_dir() {
        runtime::open(&places::all()).map_err(|error| setup::explain(&error))?;
        // The path in the file is below it only if that folder is there already.
        let base = config
            .parent()
            .filter(|base| base.is_dir() || *base == Path::new(""));
        let (found, _) = models::look(&[folder], base.and(Some(config)))?;
        let found = &found[0];
        return Ok(Found {
            servable: ScaffoldServable {
                name: found.name.clone(),
                ports: Some(ports(&found.info)),
            },
            entry: Some((found.name.clone(), found.base_path.clone())),
        });
    }
    let looked = look(model, config);
    if let Err(reason) = &looked {
        ui::note(&format!(
            "warning: cannot tell what `{model}` takes and gives, so that it is taken to have one input \
             and one output: {reason}"
        ));
    }
    Ok(Found {
        servable: ScaffoldServable {
            name: model.to_owned(),
            ports: looked.ok(),
        },
        entry: None,
    })
}

/// Returns the inputs and outputs of a model of the configuration file.
fn look(name: &str, config: &Path) -> Result<(Vec<ScaffoldStream>, Vec<ScaffoldStream>), String> {
    if !config.exists() {
        return Err(
            "there is no configuration file yet that has it; name one with --config".to_owned(),
        );
    }
    let mut file = config::read(config, &Defaults::default()).map_err(|error| error.to_string())?;
    let of_graphs = models_of_graphs(&file, None);
    file.models.extend(of_graphs);
    let facts = ConfigurationFacts::new(&file);
    match facts.model(name, None) {
        Ok(facts) => Ok(ports(&facts.info)),
        Err(MissingModel::NotAvailable(reason) | MissingModel::NotLooked { reason, .. }) => {
            Err(reason)
        }
        Err(_) if file.pipelines.iter().any(|it| it.name == name) => {
            Err("it is a pipeline".to_owned())
        }
        Err(_) => Err(format!("{} does not have it", config.display())),
    }
}

fn ports(info: &ServableInfo) -> (Vec<ScaffoldStream>, Vec<ScaffoldStream>) {
    let port = |tensor: &TensorInfo| ScaffoldStream {
        name: tensor.name.clone(),
        dtype: Some(tensor.dtype),
        shape: Some(tensor.shape.0.iter().copied().map(length).collect()),
    };
    (
        info.inputs.iter().map(port).collect(),
        info.outputs.iter().map(port).collect(),
    )
}

fn length(dim: Dim) -> i64 {
    match dim {
        Dim::Fixed(length) => i64::try_from(length).unwrap_or(-1),
        Dim::Range(..) | Dim::Any => -1,
    }
}
