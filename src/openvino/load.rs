//! From a model file to a compiled model with its slots.

use std::path::{Path, PathBuf};

use openvino::{CompiledModel, Core, DeviceType, InferenceError, Node, PropertyKey, RwPropertyKey};

use super::{
    convert,
    fault::Fault,
    run::Runner,
    slot::{Slot, SlotError},
};
use crate::{
    servable::{ServableInfo, TensorInfo},
    tensor::byte_size,
};

/// The most infer requests that a model may ask for.
pub const NIREQ_LIMIT: u32 = 100_000;

/// How to load a model.
#[derive(Debug, Clone)]
pub struct LoadOptions {
    /// The device, such as `CPU` or `AUTO`.
    pub device: String,
    /// Properties of the device, by OpenVINO's names.
    pub properties: Vec<(String, String)>,
    /// How many infer requests; 0 for as many as the device says is best, and one for each core at
    /// least if the model's tensors are small.
    pub nireq: u32,
    /// How many requests may wait for one.
    pub most_waiting: usize,
}

/// A model that is ready to run.
pub struct Compiled {
    /// Inputs and outputs, sorted by name.
    pub info: ServableInfo,
    /// Its slots.
    pub runner: Runner,
}

/// Why a model cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The runtime does not start.
    #[error("cannot start OpenVINO")]
    Runtime(#[source] Fault),
    /// The device refuses a property.
    #[error("Model config is invalid - device {device} refuses property {key}={value}")]
    Property {
        /// The device.
        device: String,
        /// The devices of this machine.
        known: Vec<String>,
        /// The property's name.
        key: String,
        /// The value given.
        value: String,
        /// What the runtime said.
        #[source]
        source: Fault,
    },
    /// The model file cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the runtime said.
        #[source]
        source: Fault,
    },
    /// The device cannot compile the model.
    #[error("cannot compile the model for device {device}")]
    Compile {
        /// The device.
        device: String,
        /// The devices of this machine.
        known: Vec<String>,
        /// What the runtime said.
        #[source]
        source: Fault,
    },
    /// An input or output cannot be described.
    #[error("cannot describe {direction} {port} of the model")]
    Port {
        /// `input` or `output`.
        direction: &'static str,
        /// Its place.
        port: usize,
        /// What the runtime said.
        #[source]
        source: Fault,
    },
    /// A tensor has a type that no protocol can carry.
    #[error("{direction} `{name}` has element type {element}, which no protocol can carry")]
    ElementType {
        /// `input` or `output`.
        direction: &'static str,
        /// Its name.
        name: String,
        /// OpenVINO's name of the type.
        element: String,
    },
    /// A tensor has no fixed rank.
    #[error("{direction} `{name}` has no fixed number of dimensions; reshape the model first")]
    Rank {
        /// `input` or `output`.
        direction: &'static str,
        /// Its name.
        name: String,
    },
    /// Too many infer requests are asked for.
    #[error("Nireq parameter too high - Exceeded allowed nireq value: {0}; at most 100000")]
    Nireq(u32),
    /// The infer requests cannot be made.
    #[error(transparent)]
    Slot(#[from] SlotError),
}

/// Reads, compiles and readies a model; blocks for as long as that takes.
///
/// `weights` is the second file of formats that have two. `name` is for thread names.
///
/// # Errors
///
/// See [`LoadError`].
pub fn load(
    name: &str,
    model: &Path,
    weights: Option<&Path>,
    options: &LoadOptions,
) -> Result<Compiled, LoadError> {
    if options.nireq > NIREQ_LIMIT {
        return Err(LoadError::Nireq(options.nireq));
    }
    let mut core = Core::new().map_err(|error| LoadError::Runtime(error.into()))?;
    set_properties(&mut core, options)?;
    let read = core
        .read_model_from_file(
            &model.to_string_lossy(),
            &weights.map(Path::to_string_lossy).unwrap_or_default(),
        )
        .map_err(|error| LoadError::Read {
            path: model.to_owned(),
            source: error.into(),
        })?;
    let device = DeviceType::Other(options.device.as_str().into());
    let mut compiled = core
        .compile_model(&read, device)
        .map_err(|error| LoadError::Compile {
            device: options.device.clone(),
            known: devices(&core),
            source: error.into(),
        })?;
    // What was read is compiled now; its graph and weights need no longer stay.
    drop(read);

    let (inputs, outputs) = describe(&compiled)?;
    let nireq = match options.nireq {
        0 => optimal_nireq(&compiled).max(one_for_each_core(&inputs, &outputs)),
        nireq => nireq,
    };
    let slots = (0..nireq)
        .map(|_| Slot::new(&mut compiled, &inputs, &outputs))
        .collect::<Result<Vec<_>, _>>()?;
    let steady = inputs.iter().all(|input| input.shape.fixed().is_some());
    Ok(Compiled {
        info: ServableInfo::new(inputs, outputs),
        runner: Runner::new(slots, options.most_waiting, steady, name),
    })
}

fn set_properties(core: &mut Core, options: &LoadOptions) -> Result<(), LoadError> {
    // `AUTO:GPU,CPU` is the device AUTO with a list; properties go to the device.
    let device = options.device.split(':').next().unwrap_or_default();
    for (key, value) in &options.properties {
        core.set_property(
            &DeviceType::Other(device.into()),
            &RwPropertyKey::Other(key.clone().into()),
            value,
        )
        .map_err(|error| LoadError::Property {
            device: device.to_owned(),
            known: devices(core),
            key: key.clone(),
            value: value.clone(),
            source: error.into(),
        })?;
    }
    Ok(())
}

/// Returns the number of cores for a model whose tensors are small, else 1.
///
/// A device may say that one infer request is best, which it is for a client that waits for each
/// answer. A server has a thread on each core, and with small tensors another infer request costs
/// next to nothing. Measured with a tiny model and 16 clients: threads that waited for the one
/// infer request took 7 % of the processor time.
fn one_for_each_core(inputs: &[TensorInfo], outputs: &[TensorInfo]) -> u32 {
    const SMALL: usize = 1 << 20;
    let bytes = |info: &TensorInfo| {
        let shape = info.shape.fixed()?;
        byte_size(info.dtype, &shape).ok().flatten()
    };
    let total = inputs
        .iter()
        .chain(outputs)
        .try_fold(0_usize, |sum, info| sum.checked_add(bytes(info)?));
    if total.is_none_or(|total| total > SMALL) {
        return 1;
    }
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    u32::try_from(cores).unwrap_or(1)
}

/// Lists the devices of this machine; none if the runtime does not say.
fn devices(core: &Core) -> Vec<String> {
    core.available_devices()
        .unwrap_or_default()
        .iter()
        .map(|device| device.as_ref().to_owned())
        .collect()
}

/// Asks the device for the number of infer requests that keeps it busy.
fn optimal_nireq(compiled: &CompiledModel) -> u32 {
    compiled
        .get_property(&PropertyKey::OptimalNumberOfInferRequests)
        .ok()
        .and_then(|text| text.trim().parse().ok())
        .unwrap_or(1)
        .clamp(1, NIREQ_LIMIT)
}

fn describe(compiled: &CompiledModel) -> Result<(Vec<TensorInfo>, Vec<TensorInfo>), LoadError> {
    let inputs = ports(
        "input",
        compiled.get_input_size(),
        |port| compiled.get_input_by_index(port),
        "input_",
    )?;
    let outputs = ports(
        "output",
        compiled.get_output_size(),
        |port| compiled.get_output_by_index(port),
        // The name that clients of model servers know for an output without one.
        "out_",
    )?;
    Ok((inputs, outputs))
}

fn ports(
    direction: &'static str,
    count: Result<usize, InferenceError>,
    node: impl Fn(usize) -> Result<Node, InferenceError>,
    prefix: &str,
) -> Result<Vec<TensorInfo>, LoadError> {
    let fail = |port| {
        move |error: InferenceError| LoadError::Port {
            direction,
            port,
            source: error.into(),
        }
    };
    (0..count.map_err(fail(0))?)
        .map(|port| {
            let node = node(port).map_err(fail(port))?;
            // A tensor without a name makes the call fail.
            let name = node
                .get_name()
                .ok()
                .filter(|name| !name.is_empty())
                .unwrap_or_else(|| format!("{prefix}{port}"));
            let element = node.get_element_type().map_err(fail(port))?;
            let dtype = convert::dtype(element).ok_or_else(|| LoadError::ElementType {
                direction,
                name: name.clone(),
                element: element.to_string(),
            })?;
            let shape = node.get_partial_shape().map_err(fail(port))?;
            let Some(shape) = convert::partial_shape(&shape) else {
                return Err(LoadError::Rank { direction, name });
            };
            Ok(TensorInfo {
                name,
                dtype,
                shape,
                port,
            })
        })
        .collect()
}
