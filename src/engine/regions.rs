//! Tensors of a request that are in shared memory: inputs are copied out before it runs, and outputs in
//! afterwards.

use bytes::Bytes;

use crate::{
    error::{Error, Result},
    request::{Data, InferRequest, InferResponse, InputTensor, PlacedOutput},
    shared_memory::RegionTensors,
    task,
    tensor::named,
};

/// Estimated speed of copying bytes, as a multiple of the speed of processing the text that [`task::sized`]
/// reckons with.
const COPY_SPEED: usize = 16;

/// Reads the inputs, but for those that the inference reads itself. Nothing refers to the others afterwards: what their
/// owner writes there while the request runs changes nothing.
///
/// # Errors
///
/// Fails if a region is not as large any more, or the budget has no room.
pub(super) async fn read_inputs(
    tensors: &RegionTensors,
    request: &mut InferRequest,
    is_read_later: impl Fn(&InputTensor) -> bool,
) -> Result<()> {
    let budget = tensors.budget.clone();
    let mut parts = Vec::new();
    for (index, part) in &tensors.inputs {
        let input = &mut request.inputs[*index];
        if is_read_later(input) {
            input.data = Data::Region(part.to_input(&budget)?);
        } else {
            parts.push((*index, part.clone()));
        }
    }
    if parts.is_empty() {
        return Ok(());
    }
    let size: usize = parts.iter().map(|(_, part)| part.size()).sum();
    let read = move || {
        let read = parts
            .iter()
            .map(|(index, part)| Ok((*index, part.read(&budget)?)));
        read.collect::<Result<Vec<_>>>()
    };
    for (index, bytes) in task::sized("read shared memory", size / COPY_SPEED, read).await? {
        request.inputs[index].data = Data::Raw(bytes);
    }
    Ok(())
}

/// Writes the outputs, once all of them are known to fit.
///
/// # Errors
///
/// Fails if an output is larger than its part of a region, or a region is not as large any more.
pub(super) async fn write_outputs(
    tensors: Box<RegionTensors>,
    mut response: InferResponse,
) -> Result<InferResponse> {
    let mut writes = Vec::with_capacity(tensors.outputs.len());
    for (name, part) in tensors.outputs {
        let bytes = contents(&response, &name)?;
        if bytes.len() > part.size() {
            return Err(Error::invalid(format!(
                "shared memory size specified with the request for output '{name}' ({} bytes) should be at \
                 least {} bytes to hold the results",
                part.size(),
                bytes.len()
            )));
        }
        writes.push((name, part, bytes));
    }
    let size: usize = writes.iter().map(|(_, _, bytes)| bytes.len()).sum();
    let write = move || {
        let written = writes.into_iter().map(|(name, part, bytes)| {
            part.write(&bytes)?;
            let size = bytes.len();
            Ok(PlacedOutput { name, part, size })
        });
        written.collect::<Result<Vec<_>>>()
    };
    response.placed = task::sized("write shared memory", size / COPY_SPEED, write).await?;
    Ok(response)
}

/// Returns the bytes of an output.
fn contents(response: &InferResponse, name: &str) -> Result<Bytes> {
    let tensor = named(&response.outputs, name).map(|tensor| tensor.data());
    let loose = || {
        let mut loose = response.loose.iter();
        loose
            .find(|loose| loose.name == name)
            .map(|loose| &loose.data)
    };
    // Those that are asked for are there, or the request has failed.
    let bytes = tensor.or_else(loose);
    bytes
        .cloned()
        .ok_or_else(|| Error::internal(format!("there is no output {name}")))
}
