//! Model in the middle of a new graph: its inputs and outputs, as far as known.

use std::path::{Path, PathBuf};

use ovms::{
    config::{self, Defaults},
    model::repository::names_a_model_file,
    pipeline::{MissingModel, Sources},
    scaffold::{ScaffoldServable, ScaffoldStream},
    servable::{ServableInfo, TensorInfo},
    tensor::{DataType, Dim},
};

use crate::{
    error::Failure,
    graph::source::models_of_graphs,
    local,
    pipeline::{facts::ConfigurationFacts, new::models},
    places, ui,
};

/// Ports of a servable: its inputs and outputs.
type Ports = (Vec<ScaffoldStream>, Vec<ScaffoldStream>);

/// Finds the servable of `--model`: a folder, or else a name of the configuration file. Returns with it
/// the name and path of the entry that the configuration file needs for it.
pub(super) fn find(
    model: &str,
    config: &Path,
) -> Result<(ScaffoldServable, Option<(String, String)>), Failure> {
    let servable = |name: &str, ports: Option<Ports>| ScaffoldServable {
        name: name.to_owned(),
        ports,
    };
    let folder = PathBuf::from(model);
    if model.contains('/') || folder.exists() {
        local::open_runtime()?;
        // The path in the file is below it only if that folder is there already.
        let base = places::folder_of(config).is_dir().then_some(config);
        let (mut found, _) = models::look(&[folder], base)?;
        let found = found.remove(0);
        let servable = servable(&found.name, Some(ports(&found.info)));
        return Ok((servable, Some((found.name, found.base_path))));
    }
    let looked = look(model, config);
    if looked.is_err() && names_a_model_file(Path::new(model)) {
        return Err(Failure::usage(format!("there is no model file `{model}`"))
            .hint("`--model` takes the path of a model's file or folder, or a name of the configuration file"));
    }
    if let Err(reason) = &looked {
        ui::note(&format!(
            "warning: the inputs and outputs of `{model}` are unknown; assuming one of each: {reason}"
        ));
    }
    Ok((servable(model, looked.ok()), None))
}

/// Refuses a model of strings: no tensor of them passes between a Python node and a model in a graph.
pub(super) fn refuse_strings(
    servable: &str,
    (inputs, outputs): &(Vec<ScaffoldStream>, Vec<ScaffoldStream>),
) -> Result<(), Failure> {
    let mut ports = inputs.iter().chain(outputs);
    let Some(port) = ports.find(|port| port.dtype == Some(DataType::String)) else {
        return Ok(());
    };
    let text = format!(
        "cannot make a graph around `{servable}`: `{}` is BYTES, and strings do not pass between a Python node and a \
         model in a graph",
        port.name
    );
    Err(Failure::failed(text)
        .hint("send strings to the model itself; a graph without `--model` takes them in Python"))
}

/// Returns the inputs and outputs of a model of the configuration file.
fn look(name: &str, config: &Path) -> Result<Ports, String> {
    if !config.exists() {
        let text = "no configuration file has it yet; name one with --config";
        return Err(text.to_owned());
    }
    let mut file = config::read(config, &Defaults::default()).map_err(|error| error.to_string())?;
    let of_graphs = models_of_graphs(&file, None, &Defaults::default());
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

fn ports(info: &ServableInfo) -> Ports {
    let port = |tensor: &TensorInfo| {
        let dims = &tensor.shape.0;
        let is_bounded = dims.iter().any(|dim| matches!(dim, Dim::Range(..)));
        ScaffoldStream {
            name: tensor.name.clone(),
            dtype: Some(tensor.dtype),
            shape: Some(tensor.shape.wire()),
            tried: is_bounded.then(|| dims.iter().copied().map(tried).collect()),
        }
    };
    let ports = |tensors: &[TensorInfo]| tensors.iter().map(port).collect();
    (ports(&info.inputs), ports(&info.outputs))
}

/// Returns a length that a dimension may have: 2, or the nearest to it.
fn tried(dim: Dim) -> i64 {
    match dim {
        Dim::Range(least, most) => Dim::Fixed(2.clamp(least, most.max(least))).wire(),
        Dim::Any => 2,
        fixed @ Dim::Fixed(_) => fixed.wire(),
    }
}
