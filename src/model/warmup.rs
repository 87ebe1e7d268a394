//! Requests that a version answers before it serves, so that the first client does not pay for
//! what a runtime does at its first inferences.

use std::{io, path::PathBuf};

use bytes::Bytes;
use rand::RngExt;

use super::loaded::Loaded;
use crate::{
    config::{Warmup, WarmupData},
    metrics::RequestRecord,
    openvino::{RunError, SlotInput},
    servable::TensorInfo,
    task,
    tensor::{
        DataType, Dim, ShapeText, Tensor, TensorError, byte_size, elements,
        npy::{self, NpyError},
    },
};

/// Maximum bytes generated for one input.
const LARGEST: usize = 1 << 30;

/// Error of a warm-up request.
#[derive(Debug, thiserror::Error)]
pub enum WarmupError {
    /// A file cannot be read.
    #[error("warm-up: cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Error from the operating system.
        #[source]
        source: std::io::Error,
    },
    /// A file is no `.npy` file.
    #[error("warm-up: cannot read {}", path.display())]
    Npy {
        /// The file.
        path: PathBuf,
        /// Error in the file.
        #[source]
        source: NpyError,
    },
    /// A file's tensor does not fit the input.
    #[error("warm-up: {} has {found}, and input `{input}` takes {expected}", path.display())]
    Misfit {
        /// The input.
        input: String,
        /// The file.
        path: PathBuf,
        /// Type and shape in the file.
        found: String,
        /// Type and shape of the model.
        expected: String,
    },
    /// A file is named for an input that the model does not have.
    #[error("warm-up: the model has no input `{input}`; it has: {known}")]
    Unknown {
        /// The name.
        input: String,
        /// The names that there are.
        known: String,
    },
    /// The tensor of an input is too large.
    #[error("warm-up: input `{input}`")]
    Size {
        /// The input.
        input: String,
        /// Its shape.
        #[source]
        source: TensorError,
    },
    /// The inference failed.
    #[error("warm-up: the inference failed")]
    Run(#[source] RunError),
}

/// Runs the warm-up requests of a version, one after the other.
///
/// # Errors
///
/// Fails with the first request that does.
pub(super) async fn run(loaded: &Loaded, warmups: &[Warmup]) -> Result<(), WarmupError> {
    // Nobody asked for these, so they count nowhere.
    let call = RequestRecord::uncounted();
    for warmup in warmups {
        let (infos, from) = (loaded.info.inputs.clone(), warmup.clone());
        let inputs = task::blocking("read warm-up", move || inputs(&infos, &from)).await?;
        let wanted: Vec<usize> = loaded.info.outputs.iter().map(|info| info.port).collect();
        for _ in 0..warmup.count {
            loaded
                .runner
                .infer(inputs.clone(), wanted.clone(), (), &call)
                .await
                .map_err(WarmupError::Run)?;
        }
    }
    Ok(())
}

fn inputs(infos: &[TensorInfo], warmup: &Warmup) -> Result<Vec<SlotInput>, WarmupError> {
    if let WarmupData::Files(files) = &warmup.data
        && let Some((input, _)) = files
            .iter()
            .find(|(name, _)| infos.iter().all(|info| info.name != *name))
    {
        let known: Vec<&str> = infos.iter().map(|info| info.name.as_str()).collect();
        return Err(WarmupError::Unknown {
            input: input.clone(),
            known: known.join(", "),
        });
    }
    infos.iter().map(|info| input(info, warmup)).collect()
}

fn input(info: &TensorInfo, warmup: &Warmup) -> Result<SlotInput, WarmupError> {
    if let WarmupData::Files(files) = &warmup.data
        && let Some((_, path)) = files.iter().find(|(name, _)| *name == info.name)
    {
        let (_, shape, data) = read(info, path)?.into_parts();
        return Ok(SlotInput {
            port: info.port,
            shape,
            data,
        });
    }
    let shape: Vec<usize> = info
        .shape
        .0
        .iter()
        .map(|dim| match *dim {
            Dim::Fixed(length) => length,
            Dim::Range(low, high) => warmup.dynamic_length.clamp(low, high),
            Dim::Any => warmup.dynamic_length,
        })
        .collect();
    let error = |source| WarmupError::Size {
        input: info.name.clone(),
        source,
    };
    let size = match byte_size(info.dtype, &shape).map_err(error)? {
        Some(size) => size,
        // Empty texts: four bytes of length each, all zero.
        None => elements(&shape).unwrap_or(usize::MAX).saturating_mul(4),
    };
    if size > LARGEST {
        return Err(error(TensorError::Overflow(ShapeText(&shape).to_string())));
    }
    let mut data = vec![0; size];
    if warmup.data == WarmupData::Random {
        randomise(info.dtype, &mut data);
    }
    Ok(SlotInput {
        port: info.port,
        shape,
        data: Bytes::from(data),
    })
}

fn read(info: &TensorInfo, path: &PathBuf) -> Result<Tensor, WarmupError> {
    let error = |source| WarmupError::Read {
        path: path.clone(),
        source,
    };
    // A pipe would be waited for.
    if !std::fs::metadata(path).map_err(error)?.is_file() {
        return Err(error(io::Error::other("it is no file")));
    }
    let content = std::fs::read(path).map_err(error)?;
    let tensor = npy::read(&content.into()).map_err(|source| WarmupError::Npy {
        path: path.clone(),
        source,
    })?;
    let fits = tensor.dtype() == info.dtype
        && tensor.shape().len() == info.shape.0.len()
        && tensor
            .shape()
            .iter()
            .zip(&info.shape.0)
            .all(|(&length, dim)| dim.allows(length));
    if fits {
        return Ok(tensor);
    }
    Err(WarmupError::Misfit {
        input: info.name.clone(),
        path: path.clone(),
        found: format!("{} {}", tensor.dtype(), ShapeText(tensor.shape())),
        expected: format!("{} {}", info.dtype, info.shape),
    })
}

/// Fills with values that every model can stand: from 0 to 1, and 0 or 1 for whole numbers.
fn randomise(dtype: DataType, data: &mut [u8]) {
    let mut random = rand::rng();
    let Some(size) = dtype.size() else {
        return;
    };
    for element in data.chunks_exact_mut(size) {
        let value: f32 = random.random();
        match dtype {
            DataType::F32 => element.copy_from_slice(&value.to_le_bytes()),
            DataType::F64 => element.copy_from_slice(&f64::from(value).to_le_bytes()),
            DataType::F16 => element.copy_from_slice(&half::f16::from_f32(value).to_le_bytes()),
            DataType::Bf16 => element.copy_from_slice(&half::bf16::from_f32(value).to_le_bytes()),
            // Little endian: the lowest byte comes first.
            _ => element[0] = u8::from(value > 0.5),
        }
    }
}
