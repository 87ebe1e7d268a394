//! Responses of a stream, as lines.

use ovms::client::{StreamAnswer, output};

use crate::{infer::outputs, ui::OutputFormat};

/// Width of timestamps and response numbers at the start of lines.
const PLACES: usize = 4;

/// Writes a response, the `number`th of the stream, as one line.
pub(super) fn line(format: OutputFormat, answer: &StreamAnswer, number: usize) -> Vec<u8> {
    if format == OutputFormat::Json {
        return outputs::json_line(output::stream_json(answer));
    }
    let start = match answer.timestamp {
        Some(timestamp) => format!("{timestamp:>PLACES$}"),
        None => format!("{number:>PLACES$}"),
    };
    outputs::line(start, &answer.answer).into_bytes()
}

/// Writes an error that does not end the stream as one line for programs.
pub(super) fn error(text: &str) -> Vec<u8> {
    outputs::json_line(serde_json::json!({ "error": text }).to_string())
}

#[cfg(test)]
mod tests {
    use ovms::{
        client::{ClientResponse, Opaque, StreamAnswer},
        tensor::{DataType, Tensor, TensorMap, values::Packer},
    };

    use super::{OutputFormat, error, line};

    fn answer(timestamp: Option<i64>) -> StreamAnswer {
        let mut packer = Packer::new(DataType::String, 1);
        packer.push_bytes("größe\n\u{1b}".as_bytes()).unwrap();
        let text = Tensor::new(DataType::String, vec![1], packer.finish()).unwrap();
        StreamAnswer {
            answer: ClientResponse {
                model_name: "g".to_owned(),
                model_version: "1".to_owned(),
                id: String::new(),
                outputs: TensorMap::from_iter([("out".to_owned(), text)]),
                opaque: vec![Opaque {
                    name: "own".to_owned(),
                    datatype: "my type".to_owned(),
                    shape: vec![20],
                    data: (0..20).collect::<Vec<u8>>().into(),
                }],
            },
            timestamp,
        }
    }

    fn reported(format: OutputFormat, timestamp: Option<i64>) -> String {
        String::from_utf8(line(format, &answer(timestamp), 3)).unwrap()
    }

    #[test]
    fn an_answer_is_one_line() {
        insta::assert_snapshot!(reported(OutputFormat::Table, Some(-5)), @r#"  -5  out: "größe\n\u{1b}"  own: my type of 20 bytes: 00 01 02 03 04 05 06 07 08 09 0a 0b 0c 0d 0e 0f …"#);
        insta::assert_snapshot!(reported(OutputFormat::Table, None), @r#"   3  out: "größe\n\u{1b}"  own: my type of 20 bytes: 00 01 02 03 04 05 06 07 08 09 0a 0b 0c 0d 0e 0f …"#);
        insta::assert_snapshot!(reported(OutputFormat::Json, Some(i64::MAX - 3)), @r#"{"model_name":"g","model_version":"1","id":"","timestamp":9223372036854775804,"outputs":[{"name":"out","datatype":"BYTES","shape":[1],"data":["größe\n\u001b"]},{"name":"own","datatype":"my type","shape":[20],"b64":"AAECAwQFBgcICQoLDA0ODxAREhM="}]}"#);
        insta::assert_snapshot!(String::from_utf8(error("a \"b\"")).unwrap(), @r#"{"error":"a \"b\""}"#);
    }
}
