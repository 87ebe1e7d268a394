//! Requests that a version answers before it serves, so that the first client does not pay for
//! what a runtime does at its first inferences.

use std::{io, path::Path};

use rand::RngExt;

use super::loaded::Loaded;
use crate::{
    config::{Warmup, WarmupData},
    error::{Error, Result},
    metrics::RequestRecord,
    openvino::{SlotInput, SlotQueue, Work},
    servable::TensorInfo,
    task,
    tensor::{DataType, Dim, ShapeText, Tensor, TensorError, byte_size, elements, npy},
};

/// Maximum bytes generated for one input.
const MAX_INPUT_SIZE: usize = 1 << 30;

/// Runs the warm-up requests of a version, one after the other.
///
/// # Errors
///
/// Fails with the first request that does.
pub(super) async fn run(loaded: &Loaded, warmups: &[Warmup]) -> Result<()> {
    // Nobody asked for these, so they count nowhere.
    let call = RequestRecord::uncounted();
    for warmup in warmups {
        let (infos, from) = (loaded.info.inputs.clone(), warmup.clone());
        let inputs = task::blocking("read warm-up", move || inputs(&infos, &from)).await?;
        let wanted = loaded.info.outputs.iter().map(|info| info.port).collect();
        let work = Work::new(inputs, wanted);
        for _ in 0..warmup.count {
            loaded
                .runner
                .infer(work.clone(), (), &call, SlotQueue::Bounded)
                .await
                .map_err(|error| {
                    Error::internal("warm-up: the inference failed").with_source(error)
                })?;
        }
    }
    Ok(())
}

/// Validates warm-up requests against the inputs of a version, without making them. Blocks.
///
/// # Errors
///
/// Fails with the error of the first one that cannot be made.
pub fn check(infos: &[TensorInfo], warmups: &[Warmup]) -> Result<()> {
    for warmup in warmups {
        check_names(infos, warmup)?;
        for info in infos {
            match file_of(info, warmup) {
                Some(path) => drop(read(info, path)?),
                None => drop(extent(info, warmup)?),
            }
        }
    }
    Ok(())
}

fn inputs(infos: &[TensorInfo], warmup: &Warmup) -> Result<Vec<SlotInput>> {
    check_names(infos, warmup)?;
    infos.iter().map(|info| input(info, warmup)).collect()
}

/// Refuses a file for an input that the model has not.
fn check_names(infos: &[TensorInfo], warmup: &Warmup) -> Result<()> {
    if let WarmupData::Files(files) = &warmup.data
        && let Some((input, _)) = files
            .iter()
            .find(|(name, _)| infos.iter().all(|info| info.name != *name))
    {
        let known: Vec<&str> = infos.iter().map(|info| info.name.as_str()).collect();
        return Err(Error::invalid(format!(
            "warm-up: the model has no input `{input}`; it has: {}",
            known.join(", ")
        )));
    }
    Ok(())
}

/// Returns the file with the elements of an input.
fn file_of<'a>(info: &TensorInfo, warmup: &'a Warmup) -> Option<&'a Path> {
    let WarmupData::Files(files) = &warmup.data else {
        return None;
    };
    let (_, path) = files.iter().find(|(name, _)| *name == info.name)?;
    Some(path)
}

fn input(info: &TensorInfo, warmup: &Warmup) -> Result<SlotInput> {
    if let Some(path) = file_of(info, warmup) {
        let (_, shape, data) = read(info, path)?.into_parts();
        return Ok(SlotInput::new(info.port, shape, data));
    }
    let (shape, size) = extent(info, warmup)?;
    let mut data = vec![0; size];
    if warmup.data == WarmupData::Random {
        randomise(info.dtype, &mut data);
    }
    Ok(SlotInput::new(info.port, shape, data))
}

/// Returns shape and bytes of an input without a file.
fn extent(info: &TensorInfo, warmup: &Warmup) -> Result<(Vec<usize>, usize)> {
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
    let error = |error: TensorError| {
        Error::invalid(format!("warm-up: input `{}`", info.name)).with_source(error)
    };
    let size = match byte_size(info.dtype, &shape).map_err(error)? {
        Some(size) => size,
        // Empty texts: four bytes of length each, all zero.
        None => elements(&shape).unwrap_or(usize::MAX).saturating_mul(4),
    };
    if size > MAX_INPUT_SIZE {
        return Err(error(TensorError::Overflow(ShapeText(&shape).to_string())));
    }
    Ok((shape, size))
}

fn read(info: &TensorInfo, path: &Path) -> Result<Tensor> {
    let file = path.display();
    let fail = || Error::invalid(format!("warm-up: cannot read {file}"));
    // A pipe would be waited for.
    let content = match std::fs::metadata(path) {
        Ok(found) if !found.is_file() => Err(io::Error::other("it is no file")),
        Ok(_) => std::fs::read(path),
        Err(error) => Err(error),
    };
    let content = content.map_err(|error| fail().with_source(error))?;
    let tensor = npy::read(&content.into()).map_err(|error| fail().with_source(error))?;
    if tensor.dtype() == info.dtype && info.shape.allows(tensor.shape()) {
        return Ok(tensor);
    }
    Err(Error::invalid(format!(
        "warm-up: {file} has {} {}, and input `{}` takes {} {}",
        tensor.dtype(),
        ShapeText(tensor.shape()),
        info.name,
        info.dtype,
        info.shape
    )))
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
