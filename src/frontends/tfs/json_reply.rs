//! REST answers: predictions by row, or outputs by column.

use super::json::Format;
use crate::{
    error::{Error, Result},
    frontends::reply::{Whole, output_memory},
    request::InferResponse,
    tensor::{
        DataType, Tensor,
        nested::write_nested,
        values::{Value, Values, values, write_json_value},
    },
};

/// Outputs of strings with this end of their names are written as base64, each string of them.
const BYTES_SUFFIX: &str = "_bytes";

/// Returns the bytes of a response, and the memory that it may take while it is written: by rows it has the names of
/// several outputs in each of them.
pub(super) fn size(response: &InferResponse, format: Format) -> (usize, usize) {
    let is_named = response.outputs.len() > 1;
    let outputs = response.outputs.iter();
    outputs.fold((0, 0), |(size, memory), (name, tensor)| {
        let (shape, bytes) = (tensor.shape(), tensor.data().len());
        let elements = output_memory(tensor.dtype(), bytes, false);
        let rows = match (format, shape.first()) {
            (Format::Row, Some(&rows)) => rows,
            _ => 1,
        };
        let names = if is_named { rows } else { 1 };
        let marks = MAX_MARKS.saturating_mul(lists(shape).saturating_add(rows));
        let marks = marks.saturating_add(names.saturating_mul(MAX_MARKS + name.len()));
        // In a buffer that doubles.
        let marks = marks.saturating_mul(2);
        let memory = memory.saturating_add(elements).saturating_add(marks);
        (size + bytes, memory)
    })
}

/// Maximum number of characters for a list, a row, or a name beside what is in it.
const MAX_MARKS: usize = 4;

/// Returns how many lists there are in a tensor of a shape.
fn lists(shape: &[usize]) -> usize {
    let outer = &shape[..shape.len().saturating_sub(1)];
    let within = outer.iter().scan(1_usize, |lists, &length| {
        *lists = lists.saturating_mul(length);
        Some(*lists)
    });
    within.fold(1, usize::saturating_add)
}

/// Writes a response in the format of its request.
///
/// # Errors
///
/// Fails if the outputs cannot be divided into the same number of rows.
pub(super) fn encode(response: &InferResponse, format: Format) -> Result<Whole> {
    let outputs: Vec<Output<'_>> = response
        .outputs
        .iter()
        .map(|(name, tensor)| Output::new(name, tensor))
        .collect();
    // About what numbers take; an estimate.
    let size: usize = response
        .outputs
        .iter()
        .map(|(_, tensor)| 2 * tensor.data().len())
        .sum();
    let mut json = Vec::with_capacity(256 + size);
    match format {
        Format::Row => rows(outputs, &mut json)?,
        Format::Column => columns(outputs, &mut json),
    }
    Ok(Whole {
        body: json,
        headers: Vec::new(),
    })
}

/// One output, written from its first element to its last.
struct Output<'a> {
    name: &'a str,
    shape: &'a [usize],
    values: Values<'a>,
    base64: bool,
}

impl<'a> Output<'a> {
    fn new(name: &'a str, tensor: &'a Tensor) -> Self {
        Self {
            name,
            shape: tensor.shape(),
            values: values(tensor),
            base64: tensor.dtype() == DataType::String && name.ends_with(BYTES_SUFFIX),
        }
    }

    /// Writes the next elements, of the dimensions of the shape behind the outer ones.
    fn write(&mut self, outer: usize, json: &mut Vec<u8>) {
        write_nested(&mut self.values, &self.shape[outer..], self.base64, json);
    }

    fn write_name(&self, json: &mut Vec<u8>) {
        write_json_value(Value::Bytes(self.name.as_bytes()), json);
        json.push(b':');
    }
}

fn rows(mut outputs: Vec<Output<'_>>, json: &mut Vec<u8>) -> Result<()> {
    let mut batches = outputs.iter().map(|output| output.shape.first());
    let first = batches.next().flatten();
    let (Some(&batch), true) = (first, batches.all(|batch| batch == first)) else {
        return Err(Error::internal(
            "Response parsing to JSON error - the outputs have no batch dimension in common; send \
             the request in column format (`inputs`)",
        ));
    };
    json.extend_from_slice(b"{\"predictions\":[");
    for row in 0..batch {
        if row > 0 {
            json.push(b',');
        }
        if let [output] = &mut outputs[..] {
            output.write(1, json);
        } else {
            members(&mut outputs, 1, json);
        }
    }
    json.extend_from_slice(b"]}");
    Ok(())
}

fn columns(mut outputs: Vec<Output<'_>>, json: &mut Vec<u8>) {
    json.extend_from_slice(b"{\"outputs\":");
    if let [output] = &mut outputs[..] {
        output.write(0, json);
    } else {
        members(&mut outputs, 0, json);
    }
    json.push(b'}');
}

/// Writes an object of all outputs; their outer levels, as many as `outer`, are the caller's.
fn members(outputs: &mut [Output<'_>], outer: usize, json: &mut Vec<u8>) {
    json.push(b'{');
    for (index, output) in outputs.iter_mut().enumerate() {
        if index > 0 {
            json.push(b',');
        }
        output.write_name(json);
        output.write(outer, json);
    }
    json.push(b'}');
}

#[cfg(test)]
mod tests {
    use super::{Format, encode, size};
    use crate::{
        request::InferResponse,
        tensor::{DataType, Tensor},
    };

    fn response(outputs: Vec<(&str, DataType, &[usize], &[u8])>) -> InferResponse {
        InferResponse {
            model_name: "m".to_owned(),
            model_version: 1,
            id: String::new(),
            parameters: Vec::new(),
            loose: Vec::new(),
            placed: Vec::new(),
            texts: None,
            outputs: outputs
                .into_iter()
                .map(|(name, dtype, shape, data)| {
                    let data = data.to_vec().into();
                    let tensor = Tensor::new(dtype, shape.to_vec(), data).unwrap();
                    (name.to_owned(), tensor)
                })
                .collect(),
        }
    }

    fn written(outputs: Vec<(&str, DataType, &[usize], &[u8])>, format: Format) -> String {
        match encode(&response(outputs), format) {
            Ok(whole) => String::from_utf8(whole.body).unwrap(),
            Err(error) => format!("{} {error}", error.kind().http()),
        }
    }

    const U8: DataType = DataType::U8;
    const STRING: DataType = DataType::String;
    const FRAMED: &[u8] = b"\x02\0\0\0a\"\0\0\0\0";
    const MIXED: &[u8] = b"\x01\0\0\0\xff\x02\0\0\0\xc3\xbc";

    #[test]
    fn no_answer_takes_more_memory_than_is_charged_for_it() {
        const COUNT: usize = 1000;
        let small = -1.234_567_9e-5_f32;
        let half = |bytes: [u8; 4]| [bytes[2], bytes[3]];
        let elements: [(DataType, &[u8]); 12] = [
            (DataType::Bool, &[0]),
            (DataType::I8, &[0x80]),
            (U8, &[0xff]),
            (DataType::I16, &i16::MIN.to_le_bytes()),
            (DataType::I32, &i32::MIN.to_le_bytes()),
            (DataType::I64, &i64::MIN.to_le_bytes()),
            (DataType::U64, &u64::MAX.to_le_bytes()),
            (DataType::F16, &[0xff, 0x83]),
            (DataType::Bf16, &half(small.to_le_bytes())),
            (DataType::F32, &small.to_le_bytes()),
            (
                DataType::F64,
                &(-1.234_567_890_123_456_7e-5_f64).to_le_bytes(),
            ),
            (STRING, b"\x01\0\0\0\x01"),
        ];
        for (dtype, element) in elements {
            let data = element.repeat(COUNT);
            for shape in [&[COUNT][..], &[COUNT, 1, 1, 1], &[1, COUNT]] {
                let one = ("a name", dtype, shape, &data[..]);
                for outputs in [vec![one], vec![one, ("another", dtype, shape, &data)]] {
                    let response = response(outputs);
                    for format in [Format::Row, Format::Column] {
                        let written = encode(&response, format).unwrap().body.len();
                        let (_, memory) = size(&response, format);
                        assert!(2 * written <= memory, "{dtype} {shape:?}: {written}");
                    }
                }
            }
        }
    }

    #[test]
    fn one_output_is_plain_and_several_are_an_object() {
        let one = vec![("a", U8, &[2, 1, 2][..], &[1, 2, 3, 4][..])];
        let two = || {
            vec![
                ("a", U8, &[2, 2][..], &[1, 2, 3, 4][..]),
                ("b\"", U8, &[2], &[5, 6]),
            ]
        };
        let written = [
            written(one.clone(), Format::Row),
            written(one, Format::Column),
            written(two(), Format::Row),
            written(two(), Format::Column),
            written(vec![("a", U8, &[], &[7])], Format::Column),
            written(vec![("a", U8, &[0, 3], &[])], Format::Row),
            written(vec![("a", U8, &[2, 0], &[])], Format::Column),
        ];
        insta::assert_snapshot!(written.join("\n"), @r#"
        {"predictions":[[[1,2]],[[3,4]]]}
        {"outputs":[[[1,2]],[[3,4]]]}
        {"predictions":[{"a":[1,2],"b\"":5},{"a":[3,4],"b\"":6}]}
        {"outputs":{"a":[[1,2],[3,4]],"b\"":[5,6]}}
        {"outputs":7}
        {"predictions":[]}
        {"outputs":[[],[]]}
        "#);
    }

    #[test]
    fn strings_are_text_or_base64_by_name_and_contents() {
        let written = [
            written(vec![("text", STRING, &[2], FRAMED)], Format::Row),
            written(vec![("text_bytes", STRING, &[2], FRAMED)], Format::Row),
            written(vec![("n_bytes", U8, &[1], &[9])], Format::Column),
            written(vec![("text", STRING, &[3], FRAMED)], Format::Column),
            written(vec![("text", STRING, &[2], MIXED)], Format::Row),
            written(vec![("text", STRING, &[1, 2], MIXED)], Format::Column),
        ];
        insta::assert_snapshot!(written.join("\n"), @r#"
        {"predictions":["a\"",""]}
        {"predictions":[{"b64":"YSI="},{"b64":""}]}
        {"outputs":[9]}
        {"outputs":["a\"","",null]}
        {"predictions":[{"b64":"/w=="},"ü"]}
        {"outputs":[[{"b64":"/w=="},"ü"]]}
        "#);
    }

    #[test]
    fn rows_need_a_batch() {
        let written = [
            written(vec![("a", U8, &[], &[7])], Format::Row),
            written(
                vec![("a", U8, &[2], &[1, 2]), ("b", U8, &[1], &[5])],
                Format::Row,
            ),
            written(
                vec![("a", U8, &[2], &[1, 2]), ("b", U8, &[], &[5])],
                Format::Row,
            ),
        ];
        insta::assert_snapshot!(written.join("\n"), @r#"
        500 Response parsing to JSON error - the outputs have no batch dimension in common; send the request in column format (`inputs`)
        500 Response parsing to JSON error - the outputs have no batch dimension in common; send the request in column format (`inputs`)
        500 Response parsing to JSON error - the outputs have no batch dimension in common; send the request in column format (`inputs`)
        "#);
    }
}
