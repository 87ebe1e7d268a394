//! REST answers: predictions by row, or outputs by column.

use super::json::Format;
use crate::{
    error::{Error, Result},
    frontends::reply::Whole,
    request::InferResponse,
    tensor::{
        DataType, Tensor,
        nested::write_nested,
        values::{Value, Values, values, write_json_value},
    },
};

/// Outputs of strings with this end of their names are written as base64, each string of them.
const BYTES_SUFFIX: &str = "_bytes";

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
    use super::{Format, encode};
    use crate::{
        request::InferResponse,
        tensor::{DataType, Tensor},
    };

    fn written(outputs: Vec<(&str, DataType, &[usize], &[u8])>, format: Format) -> String {
        let response = InferResponse {
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
        };
        match encode(&response, format) {
            Ok(whole) => String::from_utf8(whole.body).unwrap(),
            Err(error) => format!("{} {error}", error.kind().http()),
        }
    }

    const U8: DataType = DataType::U8;
    const STRING: DataType = DataType::String;
    const FRAMED: &[u8] = b"\x02\0\0\0a\"\0\0\0\0";
    const MIXED: &[u8] = b"\x01\0\0\0\xff\x02\0\0\0\xc3\xbc";

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
