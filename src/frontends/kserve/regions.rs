//! Parameters of tensors that are in shared memory, by which requests name a part of a region, and responses the
//! part that was written.

use crate::{
    budget::Budget,
    error::{Error, Result},
    frontends::guard::NoRegions,
    request::{Parameter, Parameters, PlacedOutput},
    shared_memory::{RegionPart, RegionTensors, SharedMemory},
};

const REGION: &str = "shared_memory_region";
const OFFSET: &str = "shared_memory_offset";
const BYTE_SIZE: &str = "shared_memory_byte_size";

/// Reader of the tensors of one request.
pub(super) struct RegionReader<'a> {
    memory: Result<&'a SharedMemory, NoRegions>,
    budget: &'a Budget,
    tensors: Option<Box<RegionTensors>>,
}

impl<'a> RegionReader<'a> {
    /// Makes a reader that has found nothing.
    pub(super) fn new(memory: Result<&'a SharedMemory, NoRegions>, budget: &'a Budget) -> Self {
        Self {
            memory,
            budget,
            tensors: None,
        }
    }

    /// Reads the parameters of the input at an index; indices come in ascending order. Returns whether the input
    /// is in a region, so that it has no data of its own.
    pub(super) fn input(&mut self, index: usize, name: &str, given: &Parameters) -> Result<bool> {
        let part = part(&self.memory, name, given)?;
        let found = part.is_some();
        if let Some(part) = part {
            self.found().inputs.push((index, part));
        }
        Ok(found)
    }

    /// Reads the parameters of a requested output.
    pub(super) fn output(&mut self, name: &str, given: &Parameters) -> Result<()> {
        if let Some(part) = part(&self.memory, name, given)? {
            self.found().outputs.push((name.to_owned(), part));
        }
        Ok(())
    }

    fn found(&mut self) -> &mut RegionTensors {
        self.tensors.get_or_insert_with(|| {
            Box::new(RegionTensors {
                inputs: Vec::new(),
                outputs: Vec::new(),
                budget: self.budget.clone(),
            })
        })
    }

    /// Returns what was found.
    pub(super) fn finish(self) -> Option<Box<RegionTensors>> {
        self.tensors
    }
}

/// Reads the parameters of a tensor: a region with a size, and an offset, which is 0 if it is not there.
fn part(
    memory: &Result<&SharedMemory, NoRegions>,
    tensor: &str,
    given: &Parameters,
) -> Result<Option<RegionPart>> {
    let find = |name: &str| given.iter().find(|(known, _)| known == name);
    let region = match find(REGION) {
        None => {
            return match find(OFFSET).or_else(|| find(BYTE_SIZE)) {
                None => Ok(None),
                Some((name, _)) => Err(Error::invalid(format!(
                    "'{name}' can not be specified without '{REGION}' parameter for tensor '{tensor}'"
                ))),
            };
        }
        Some((_, Parameter::Text(region))) => region,
        Some(_) => return Err(invalid(REGION, tensor, "a text")),
    };
    let number = |name: &str| match find(name) {
        None => Ok(None),
        Some((_, Parameter::UInt(value))) => Ok(Some(*value)),
        Some((_, Parameter::Int(value))) if *value >= 0 => Ok(Some(value.unsigned_abs())),
        Some(_) => Err(invalid(name, tensor, "a number of bytes")),
    };
    let offset = number(OFFSET)?.unwrap_or(0);
    let byte_size = number(BYTE_SIZE)?.ok_or_else(|| {
        Error::invalid(format!(
            "'{BYTE_SIZE}' must be specified along with '{REGION}' parameter for tensor '{tensor}'"
        ))
    })?;
    let memory = memory.as_ref().map_err(|denied| {
        denied.count();
        denied.clone()
    })?;
    memory.part(region, offset, byte_size).map(Some)
}

fn invalid(parameter: &str, tensor: &str, expected: &str) -> Error {
    Error::invalid(format!(
        "invalid value type for '{parameter}' parameter for tensor '{tensor}', expected {expected}"
    ))
}

/// Refuses the data of an input that is in a region.
pub(super) fn refuse_data(name: &str) -> Error {
    Error::invalid(format!(
        "unexpected 'content' provided when using shared memory for input tensor '{name}' - send its elements \
         either in the request or in the region"
    ))
}

/// Returns the parameters of an output that was written: the region, the offset within it unless that is 0, and
/// the bytes that were written.
pub(super) fn parameters(placed: &PlacedOutput) -> Parameters {
    let number = |value: u64| i64::try_from(value).map_or(Parameter::UInt(value), Parameter::Int);
    let region = Parameter::Text(placed.part.region().to_owned());
    let mut written = vec![(REGION.to_owned(), region)];
    if placed.part.offset() > 0 {
        written.push((OFFSET.to_owned(), number(placed.part.offset())));
    }
    written.push((BYTE_SIZE.to_owned(), number(placed.size as u64)));
    written
}
