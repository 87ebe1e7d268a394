//! The JSON of a request, in one pass: elements go from the text to the bytes of a tensor.
//!
//! Only where the data of an input stands before its datatype, it is passed over and read later.

use super::Unread;
use crate::{
    error::{Error, nearest},
    frontends::{
        json_numbers::{Cursor, Elements, JsonError, Rules},
        kserve::json,
    },
    request::{Data, Declared, Parameter, Parameters},
    tensor::{DataType, elements},
    text::first_chars,
};

/// Parsed JSON of a request.
#[derive(Debug, Default)]
pub(super) struct Envelope {
    pub(super) inputs: Vec<Input>,
    pub(super) outputs: Vec<Output>,
    pub(super) id: Option<String>,
    pub(super) parameters: Parameters,
}

/// One entry of `inputs`.
#[derive(Debug)]
pub(super) struct Input {
    pub(super) name: String,
    pub(super) datatype: Declared,
    pub(super) shape: Vec<i64>,
    pub(super) parameters: Parameters,
    /// The elements, if they are in the JSON.
    pub(super) data: Option<Data>,
}

/// One entry of `outputs`.
#[derive(Debug)]
pub(super) struct Output {
    pub(super) name: String,
    pub(super) parameters: Parameters,
}

/// Reads the JSON of a request.
pub(super) fn read(json: &[u8]) -> Result<Envelope, Unread> {
    let mut cursor = Cursor::new(json);
    let mut reader = Reader {
        // No more is set aside than that by the word of shapes alone.
        room: json.len().saturating_mul(2),
    };
    let (mut inputs, mut outputs, mut id, mut parameters) = (None, None, None, None);
    cursor.members(|cursor, key| match &*key {
        "inputs" => once(&mut inputs, &key, reader.inputs(cursor)?),
        "outputs" => once(&mut outputs, &key, read_outputs(cursor)?),
        "id" => once(
            &mut id,
            &key,
            optional(cursor, |cursor| text(cursor, &key))?,
        ),
        "parameters" => once(&mut parameters, &key, read_parameters(cursor)?),
        _ => Ok(cursor.skip()?),
    })?;
    if cursor.token().is_some() {
        return Err(JsonError::Syntax.into());
    }
    Ok(Envelope {
        inputs: inputs.unwrap_or_default(),
        outputs: outputs.unwrap_or_default(),
        id: id.flatten(),
        parameters: parameters.unwrap_or_default(),
    })
}

struct Reader {
    /// Bytes that may still be set aside for elements that have not been seen.
    room: usize,
}

impl Reader {
    fn inputs(&mut self, cursor: &mut Cursor<'_>) -> Result<Vec<Input>, Unread> {
        let mut inputs = Vec::new();
        let read = optional(cursor, |cursor| {
            if cursor.token() != Some(b'[') {
                return Err(json::not_an_array().into());
            }
            list(cursor, |cursor| {
                inputs.push(self.input(cursor)?);
                Ok(())
            })
        });
        read.map(|_| inputs)
    }

    fn input(&mut self, cursor: &mut Cursor<'_>) -> Result<Input, Unread> {
        let (mut name, mut datatype, mut shape) = (None, None, None);
        let (mut parameters, mut data) = (None, None);
        if cursor.token() != Some(b'{') {
            return Err(unfit("an input is no object"));
        }
        cursor.members(|cursor, key| match &*key {
            "name" => once(&mut name, &key, text(cursor, &key)?),
            "datatype" => {
                let declared = Declared::from_kserve(text(cursor, &key)?);
                once(&mut datatype, &key, declared)
            }
            "shape" => once(&mut shape, &key, read_shape(cursor)?),
            "parameters" => once(&mut parameters, &key, read_parameters(cursor)?),
            "data" => {
                let place = cursor.clone();
                let read = optional(cursor, |cursor| match &datatype {
                    Some(datatype) => {
                        let shape = shape.as_deref().unwrap_or_default();
                        self.data(cursor, (datatype, name.as_deref()), shape)
                            .map(Place::Read)
                    }
                    None => {
                        cursor.skip_data()?;
                        Ok(Place::Later(place))
                    }
                })?;
                once(&mut data, &key, read)
            }
            _ => Ok(cursor.skip()?),
        })?;
        let missing = |name: &str| unfit(&format!("missing field `{name}`"));
        let name = name.ok_or_else(|| missing("name"))?;
        let shape: Vec<i64> = shape.ok_or_else(|| missing("shape"))?;
        let datatype = datatype.ok_or_else(|| missing("datatype"))?;
        let data = match data.flatten() {
            None => None,
            Some(Place::Read(data)) => Some(data),
            Some(Place::Later(mut cursor)) => {
                let of = (&datatype, Some(&*name));
                Some(self.data(&mut cursor, of, &shape)?)
            }
        };
        Ok(Input {
            name,
            datatype,
            shape,
            parameters: parameters.unwrap_or_default(),
            data,
        })
    }

    /// Reads the elements of an input; only their number matters, not how they are nested.
    fn data(
        &mut self,
        cursor: &mut Cursor<'_>,
        (datatype, name): (&Declared, Option<&str>),
        shape: &[i64],
    ) -> Result<Data, Unread> {
        let dtype = match datatype {
            Declared::Known(dtype) => *dtype,
            Declared::Unknown(found) => return Err(unknown_type(found, name).into()),
        };
        if matches!(dtype, DataType::F16 | DataType::Bf16) {
            return Err(unfit(&format!(
                "{dtype} has no JSON form; send it as binary data"
            )));
        }
        let size = dtype.size().unwrap_or(1);
        let expected = shape
            .iter()
            .map(|&length| usize::try_from(length).ok())
            .collect::<Option<Vec<_>>>()
            .and_then(|shape| elements(&shape))
            .unwrap_or(0)
            .min(self.room / size);
        self.room -= expected * size;
        let mut elements = Elements::new(dtype, Rules::KServe, expected, cursor.left());
        elements.read(cursor, 0)?;
        let count = elements.count();
        let (_, bytes) = elements.finish();
        Ok(Data::Values { count, bytes })
    }
}

/// Maximum number of characters of a type, or a name, in an error.
const MAX_NAME_LEN: usize = 64;

/// Makes the error of a type that there is not, with the one that may be meant.
fn unknown_type(found: &str, input: Option<&str>) -> Error {
    let plain = found
        .strip_prefix("TYPE_")
        .unwrap_or(found)
        .to_ascii_uppercase();
    let mut known = DataType::ALL.into_iter().map(DataType::kserve);
    let meant = match &*plain {
        "STRING" => Some(DataType::String.kserve()),
        "FLOAT" => Some(DataType::F32.kserve()),
        "DOUBLE" => Some(DataType::F64.kserve()),
        plain => known
            .clone()
            .find(|it| *it == plain)
            .or_else(|| nearest(plain, &mut known)),
    };
    let meant = meant.map_or_else(String::new, |meant| format!(" (did you mean {meant}?)"));
    let input = input.map_or_else(String::new, |name| {
        format!("; input name: {}", first_chars(name, MAX_NAME_LEN))
    });
    Error::invalid(format!(
        "Could not parse input content. Unsupported data precision detected - found `{}`{meant}{input}",
        first_chars(found, MAX_NAME_LEN)
    ))
}

/// Place of the elements of an input.
enum Place<'a> {
    Read(Data),
    Later(Cursor<'a>),
}

fn read_outputs(cursor: &mut Cursor<'_>) -> Result<Vec<Output>, Unread> {
    let failure = || Unread::from(Error::invalid("Could not parse output content."));
    let mut outputs = Vec::new();
    optional(cursor, |cursor| {
        if cursor.token() != Some(b'[') {
            return Err(failure());
        }
        list(cursor, |cursor| {
            let (mut name, mut parameters) = (None, None);
            if cursor.token() != Some(b'{') {
                return Err(failure());
            }
            cursor.members(|cursor, key| match &*key {
                "name" if cursor.token() != Some(b'"') => Err(failure()),
                "name" => once(&mut name, &key, text(cursor, &key)?),
                "parameters" => once(&mut parameters, &key, read_parameters(cursor)?),
                _ => Ok(cursor.skip()?),
            })?;
            outputs.push(Output {
                name: name.ok_or_else(failure)?,
                parameters: parameters.unwrap_or_default(),
            });
            Ok(())
        })
    })?;
    Ok(outputs)
}

fn read_shape(cursor: &mut Cursor<'_>) -> Result<Vec<i64>, Unread> {
    let place = cursor.clone();
    if let Some(shape) = plain_shape(cursor) {
        return Ok(shape);
    }
    *cursor = place;
    let lengths: Vec<u64> = serde_json::from_slice(cursor.value()?)
        .map_err(|error| unfit(&format!("shape: {}", json::reason(&error))))?;
    lengths
        .into_iter()
        .map(|length| i64::try_from(length).map_err(|_| json::not_an_array().into()))
        .collect()
}

/// Reads a shape of plain lengths; `None` if it has anything else.
fn plain_shape(cursor: &mut Cursor<'_>) -> Option<Vec<i64>> {
    let mut shape = Vec::new();
    cursor.expect(b'[').ok()?;
    let mut more = !cursor.take(b']');
    while more {
        shape.push(plain_number(cursor.value().ok()?)?);
        more = cursor.more(b']').ok()?;
    }
    Some(shape)
}

/// Maximum number of digits of a number that fits whatever they are.
const MAX_DIGITS: usize = 18;

/// Reads a JSON value if it is a whole number in digits alone, as nearly all are.
fn plain_number(value: &[u8]) -> Option<i64> {
    let is_plain = value.len() <= MAX_DIGITS && value.iter().all(u8::is_ascii_digit);
    let digit = |number: i64, digit: &u8| number * 10 + i64::from(digit - b'0');
    (is_plain && !value.is_empty()).then(|| value.iter().fold(0, digit))
}

/// Reads the value of a parameter called so.
fn read_parameter(value: &[u8], name: &str) -> Result<Parameter, Unread> {
    let failure = || Unread::from(Error::invalid("Could not parse request parameters"));
    if let Some(number) = plain_number(value) {
        return Ok(Parameter::Int(number));
    }
    Ok(
        match serde_json::from_slice(value).map_err(|_| failure())? {
            serde_json::Value::Bool(value) => Parameter::Bool(value),
            serde_json::Value::String(value) => Parameter::Text(value),
            serde_json::Value::Number(value) => match value.as_i64() {
                Some(value) => Parameter::Int(value),
                None if name == "binary_data_size" => return Err(super::bad_size().into()),
                None => Parameter::UInt(value.as_u64().ok_or_else(failure)?),
            },
            _ => return Err(failure()),
        },
    )
}

fn read_parameters(cursor: &mut Cursor<'_>) -> Result<Parameters, Unread> {
    let failure = || Unread::from(Error::invalid("Could not parse request parameters"));
    let mut parameters = Parameters::new();
    optional(cursor, |cursor| {
        if cursor.token() != Some(b'{') {
            return Err(failure());
        }
        cursor.members(|cursor, name| {
            // Nothing nested is a parameter, and a tree of it would take many times what is charged for its text.
            if matches!(cursor.token(), Some(b'{' | b'[')) {
                return Err(failure());
            }
            let value = read_parameter(cursor.value()?, &name)?;
            parameters.push((name.into_owned(), value));
            Ok(())
        })
    })?;
    parameters.sort_by(|(one, _), (other, _)| one.cmp(other));
    // Of several with one name the last one counts.
    parameters.dedup_by(|later, kept| {
        let is_same = later.0 == kept.0;
        if is_same {
            std::mem::swap(later, kept);
        }
        is_same
    });
    Ok(parameters)
}

/// Visits the values of a list.
fn list<'a>(
    cursor: &mut Cursor<'a>,
    mut value: impl FnMut(&mut Cursor<'a>) -> Result<(), Unread>,
) -> Result<(), Unread> {
    cursor.expect(b'[')?;
    let mut more = !cursor.take(b']');
    while more {
        value(cursor)?;
        more = cursor.more(b']')?;
    }
    Ok(())
}

/// Reads a value that may be `null`.
fn optional<'a, T>(
    cursor: &mut Cursor<'a>,
    read: impl FnOnce(&mut Cursor<'a>) -> Result<T, Unread>,
) -> Result<Option<T>, Unread> {
    if cursor.token() == Some(b'n') {
        cursor.skip()?;
        return Ok(None);
    }
    read(cursor).map(Some)
}

fn text(cursor: &mut Cursor<'_>, key: &str) -> Result<String, Unread> {
    if cursor.token() != Some(b'"') {
        return Err(unfit(&format!("{key}: expected a string")));
    }
    Ok(cursor.string()?.into_owned())
}

/// Takes a member that may be there once.
fn once<T>(place: &mut Option<T>, key: &str, value: T) -> Result<(), Unread> {
    if place.replace(value).is_some() {
        return Err(unfit(&format!("duplicate field `{key}`")));
    }
    Ok(())
}

fn unfit(reason: &str) -> Unread {
    Error::invalid(format!("{} - {reason}", json::not_an_array().message())).into()
}
