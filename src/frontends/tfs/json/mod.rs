//! REST bodies of predictions: `instances` by row, or `inputs` by column.
//!
//! A body is read in one pass, each number straight into the tensor that it belongs to, since the
//! model and with it the types of its inputs are known. Only when that fails is the body looked at
//! again, slowly, for an error that is more basic than the one that was met.

use std::{collections::BTreeMap, fmt::Display};

use crate::{
    error::{Error, Result},
    frontends::{
        gather,
        json_numbers::{Cursor, Elements, JsonError, Rules, is_base64, no_object},
    },
    request::{Data, Declared, Dialect, InferRequest, InputTensor},
    sequence::{CONTROL_INPUT, SEQUENCE_ID},
    servable::{ServableInfo, TensorInfo},
    tensor::{DataType, Dim, elements},
};

/// Layout of a body, and so of its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    /// One element of `instances` for each row of the batch.
    Row,
    /// Whole tensors in `inputs`.
    Column,
}

impl Format {
    fn key(self) -> &'static str {
        match self {
            Self::Row => "instances",
            Self::Column => "inputs",
        }
    }

    /// Returns the error of a value that is no tensor.
    fn no_array(self, error: &dyn Display) -> Error {
        let what = match self {
            Self::Row => "instance",
            Self::Column => "input",
        };
        Error::invalid(format!(
            "Could not parse {what} content. Not valid ndarray detected - {error}"
        ))
    }
}

/// Method that a body is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A model. If it has one input, that need not be named.
    Plain,
    /// A stateful model, which has special inputs besides.
    Stateful,
    /// A pipeline, whose inputs are named always.
    Named,
}

/// Reads a request body for a servable with these inputs.
///
/// # Errors
///
/// Fails with the most basic error.
pub(super) fn decode(
    body: &[u8],
    info: &ServableInfo,
    kind: Kind,
) -> Result<(InferRequest, Format)> {
    let model = Model { info, kind };
    read(body, model).map_err(|error| no_object(body).or_else(|| no_format(body)).unwrap_or(error))
}

/// Finds the id of the sequence in a body of columns, if there is one.
pub(super) fn sequence_id(body: &[u8]) -> Option<u64> {
    let mut id = None;
    let mut cursor = Cursor::new(body);
    let read: Result<()> = cursor.members(|cursor, key| {
        if key != Format::Column.key() || cursor.token() != Some(b'{') {
            return Ok(cursor.skip()?);
        }
        cursor.members(|cursor, name| {
            let value = cursor.data()?;
            if name == SEQUENCE_ID
                && let Ok([number]) = serde_json::from_slice::<[u64; 1]>(value)
            {
                id = Some(number);
            }
            Ok(())
        })
    });
    read.ok().and(id)
}

/// Inputs of the model.
#[derive(Clone, Copy)]
struct Model<'a> {
    info: &'a ServableInfo,
    kind: Kind,
}

impl<'a> Model<'a> {
    fn input(self, name: &str) -> Option<&'a TensorInfo> {
        // They are sorted by name.
        let inputs = &self.info.inputs;
        let index = inputs.binary_search_by(|input| input.name.as_str().cmp(name));
        index.ok().map(|index| &inputs[index])
    }

    /// Finds the type of a special input.
    fn special(self, name: &str) -> Option<DataType> {
        match name {
            SEQUENCE_ID if self.kind == Kind::Stateful => Some(DataType::U64),
            CONTROL_INPUT if self.kind == Kind::Stateful => Some(DataType::U32),
            _ => None,
        }
    }
}

fn read(body: &[u8], model: Model<'_>) -> Result<(InferRequest, Format)> {
    let mut cursor = Cursor::new(body);
    let mut found = None;
    cursor.members(|cursor, key| {
        let format = match &*key {
            "instances" => Format::Row,
            "inputs" => Format::Column,
            // Signatures and whatever else there is.
            _ => return Ok(cursor.skip()?),
        };
        if found.is_some() {
            return Err(undetected());
        }
        let inputs = match format {
            Format::Row => rows(cursor, model)?,
            Format::Column => columns(cursor, model)?,
        };
        found = Some((inputs, format));
        Ok(())
    })?;
    if cursor.token().is_some() {
        return Err(JsonError::Syntax.into());
    }
    let (inputs, format) = found.ok_or_else(undetected)?;
    let request = InferRequest {
        inputs,
        dialect: Dialect::TensorFlowServing,
        ..InferRequest::default()
    };
    Ok((request, format))
}

fn undetected() -> Error {
    Error::invalid("Invalid JSON structure. Could not detect row or column format")
}

/// Returns an error if a JSON object has neither of the two formats, or both.
fn no_format(body: &[u8]) -> Option<Error> {
    let mut formats = 0;
    let seen: Result<()> = Cursor::new(body).members(|cursor, key| {
        let known = [Format::Row, Format::Column];
        formats += usize::from(known.iter().any(|format| format.key() == key));
        Ok(cursor.skip_data()?)
    });
    (seen.is_ok() && formats != 1).then(undetected)
}

fn rows(cursor: &mut Cursor<'_>, model: Model<'_>) -> Result<Vec<InputTensor>> {
    let info = model.info;
    if cursor.token() != Some(b'[') {
        return Err(Error::invalid(
            "Invalid JSON structure. Nonamed instance is not an array.",
        ));
    }
    let mut first = cursor.clone();
    first.take(b'[');
    match first.token() {
        Some(b']') => Err(Error::invalid(
            "Invalid JSON structure. Missing instances in row format",
        )),
        Some(b'{') if !is_base64(&first) => named_rows(cursor, model),
        Some(b'{' | b'[' | b'"' | b'-' | b'0'..=b'9' | b'N' | b'I') => {
            alone(cursor, model, Format::Row)
        }
        Some(b't' | b'f') if only_truths(info) => alone(cursor, model, Format::Row),
        _ => Err(Error::invalid(
            "Could not detect neither named or nonamed format",
        )),
    }
}

fn columns(cursor: &mut Cursor<'_>, model: Model<'_>) -> Result<Vec<InputTensor>> {
    let info = model.info;
    match cursor.token() {
        Some(b'{') => named_columns(cursor, model),
        Some(b'[') => alone(cursor, model, Format::Column),
        Some(b'-' | b'0'..=b'9' | b'N' | b'I') if info.inputs.len() == 1 => {
            alone(cursor, model, Format::Column)
        }
        Some(b't' | b'f') if only_truths(info) => alone(cursor, model, Format::Column),
        _ => Err(Error::invalid(
            "Invalid JSON structure. One of inputs is not a JSON object.",
        )),
    }
}

/// Returns whether the only input takes truth values, which are no data for any other.
fn only_truths(info: &ServableInfo) -> bool {
    matches!(&info.inputs[..], [input] if input.dtype == DataType::Bool)
}

/// Reads the data of the only input, without its name.
fn alone(cursor: &mut Cursor<'_>, model: Model<'_>, format: Format) -> Result<Vec<InputTensor>> {
    if model.kind == Kind::Named {
        return Err(Error::invalid(
            "Inputs inside buffer does not match expected format. - inputs of a pipeline have to be \
             named",
        ));
    }
    let [input] = &model.info.inputs[..] else {
        return Err(Error::invalid(
            "Inputs inside buffer does not match expected format.",
        ));
    };
    let mut elements = collector(input, cursor);
    collect(&mut elements, cursor, 0, format)?;
    Ok(vec![tensor(input.name.clone(), elements, None)])
}

/// Values of an input, by its name.
enum Named {
    Input(Elements),
    Special(Numbers),
    /// An input that the model does not have, which is refused later.
    Stranger,
}

impl Named {
    fn new(name: &str, cursor: &Cursor<'_>, model: Model<'_>) -> Self {
        match (model.input(name), model.special(name)) {
            (Some(input), _) => Self::Input(collector(input, cursor)),
            (None, Some(dtype)) => Self::Special(Numbers::new(dtype)),
            (None, None) => Self::Stranger,
        }
    }

    /// Takes one value off a text: all of the input, or a row of it.
    fn read(&mut self, cursor: &mut Cursor<'_>, format: Format) -> Result<()> {
        match self {
            Self::Input(elements) => {
                let outer = usize::from(format == Format::Row);
                collect(elements, cursor, outer, format)
            }
            Self::Special(numbers) => numbers.read(cursor, format),
            Self::Stranger => Ok(cursor.skip_data()?),
        }
    }

    /// Makes the input; `batch` is how many rows there were.
    fn tensor(self, name: String, batch: Option<usize>) -> InputTensor {
        match self {
            Self::Input(elements) => tensor(name, elements, batch),
            Self::Special(numbers) => numbers.tensor(name, batch),
            Self::Stranger => InputTensor {
                name,
                datatype: Declared::Unknown("INVALID".to_owned()),
                shape: Vec::new(),
                data: gather::values(0, Vec::new()),
            },
        }
    }
}

fn named_columns(cursor: &mut Cursor<'_>, model: Model<'_>) -> Result<Vec<InputTensor>> {
    let mut inputs: BTreeMap<String, Named> = BTreeMap::new();
    cursor.members(|cursor, name| {
        if inputs.contains_key(&*name) {
            return Err(twice(Format::Column, &name));
        }
        let mut input = Named::new(&name, cursor, model);
        input.read(cursor, Format::Column)?;
        inputs.insert(name.into_owned(), input);
        Ok(())
    })?;
    if inputs.is_empty() {
        return Err(Error::invalid("Invalid JSON structure, missing inputs"));
    }
    let inputs = inputs.into_iter();
    Ok(inputs
        .map(|(name, input)| input.tensor(name, None))
        .collect())
}

fn named_rows(cursor: &mut Cursor<'_>, model: Model<'_>) -> Result<Vec<InputTensor>> {
    // With how many rows there are so far of each input.
    let mut inputs: BTreeMap<String, (Named, usize)> = BTreeMap::new();
    let mut batch = 0;
    cursor.expect(b'[')?;
    loop {
        if cursor.token() != Some(b'{') {
            return Err(Error::invalid(
                "Invalid JSON structure. One of named instances is not a JSON object.",
            ));
        }
        let mut is_empty = true;
        cursor.members(|cursor, name| {
            is_empty = false;
            if !inputs.contains_key(&*name) {
                let input = Named::new(&name, cursor, model);
                inputs.insert(name.clone().into_owned(), (input, 0));
            }
            let Some((input, rows)) = inputs.get_mut(&*name) else {
                return Ok(());
            };
            if *rows > batch {
                return Err(twice(Format::Row, &name));
            }
            *rows += 1;
            input.read(cursor, Format::Row)
        })?;
        if is_empty {
            return Err(Format::Row.no_array(&"an instance names no input"));
        }
        batch += 1;
        if !cursor.more(b']')? {
            break;
        }
    }
    if inputs.values().any(|(_, rows)| *rows != batch) {
        return Err(Error::invalid(
            "Invalid JSON structure. Request inputs have different batch sizes",
        ));
    }
    let inputs = inputs.into_iter();
    let inputs = inputs.map(|(name, (input, _))| input.tensor(name, Some(batch)));
    Ok(inputs.collect())
}

fn twice(format: Format, name: &str) -> Error {
    let error = JsonError::Twice(name.to_owned());
    format.no_array(&error)
}

fn collector(input: &TensorInfo, cursor: &Cursor<'_>) -> Elements {
    let least: Vec<usize> = input.shape.0.iter().map(Dim::least).collect();
    let expected = elements(&least).unwrap_or(0);
    Elements::new(
        input.dtype,
        Rules::TensorFlowServing,
        expected,
        cursor.left(),
    )
}

/// Takes one value off a text, which is in `outer` lists already.
///
/// # Errors
///
/// Fails if it is no tensor, or an instance without elements: only whole tensors may have none.
fn collect(
    elements: &mut Elements,
    cursor: &mut Cursor<'_>,
    outer: usize,
    format: Format,
) -> Result<()> {
    elements
        .read(cursor, outer)
        .map_err(|error| format.no_array(&error))?;
    // The lists are rectangular, so that one without elements is none among others that have some.
    if format == Format::Row && elements.count() == 0 {
        return Err(format.no_array(&"an instance has an empty list"));
    }
    Ok(())
}

/// Makes the tensor of what was collected; `batch` is the length of the outermost dimension where
/// that was no list of one value.
fn tensor(name: String, elements: Elements, batch: Option<usize>) -> InputTensor {
    let (dtype, count) = (elements.dtype(), elements.count());
    let (mut shape, bytes) = elements.finish();
    if let (Some(length), Some(batch)) = (shape.first_mut(), batch) {
        *length = batch;
    }
    InputTensor {
        name,
        datatype: Declared::Known(dtype),
        shape: shape
            .into_iter()
            .map(|length| i64::try_from(length).unwrap_or(i64::MAX))
            .collect(),
        data: gather::values(count, bytes),
    }
}

/// The numbers of a special input, from one value or from one of each row.
struct Numbers {
    dtype: DataType,
    /// The length of a list; none if there was a number without one.
    length: Option<usize>,
    count: usize,
    bytes: Vec<u8>,
}

impl Numbers {
    /// Begins an input of type UINT64 or UINT32.
    fn new(dtype: DataType) -> Self {
        Self {
            dtype,
            length: None,
            count: 0,
            bytes: Vec::new(),
        }
    }

    /// Takes one value off a text: a number, or a list of numbers.
    fn read(&mut self, cursor: &mut Cursor<'_>, format: Format) -> Result<()> {
        let expected = || {
            let what = self.dtype;
            format.no_array(&format_args!(
                "expected one whole number of {what} in a list"
            ))
        };
        let text = cursor.value()?;
        let numbers: Vec<u64> = if let Ok(number) = serde_json::from_slice(text) {
            vec![number]
        } else {
            let list: Vec<u64> = serde_json::from_slice(text).map_err(|_| expected())?;
            self.length = Some(list.len());
            list
        };
        self.count += numbers.len();
        for number in numbers {
            match self.dtype {
                DataType::U32 => {
                    let number = u32::try_from(number).map_err(|_| expected())?;
                    self.bytes.extend_from_slice(&number.to_le_bytes());
                }
                _ => self.bytes.extend_from_slice(&number.to_le_bytes()),
            }
        }
        Ok(())
    }

    /// Makes the input; `batch` is how many rows there were.
    fn tensor(self, name: String, batch: Option<usize>) -> InputTensor {
        // Each row would have an id of its own, so that the shape is wrong, also if there is one row.
        let of_row = self.length.or(batch.map(|_| 1));
        let lengths = batch.into_iter().chain(of_row);
        InputTensor {
            name,
            datatype: Declared::Known(self.dtype),
            shape: lengths
                .map(|length| i64::try_from(length).unwrap_or(i64::MAX))
                .collect(),
            data: Data::Values {
                count: self.count,
                bytes: self.bytes.into(),
            },
        }
    }
}

#[cfg(test)]
mod tests;
