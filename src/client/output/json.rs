//! Answers as JSON, for programs.

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use serde_json::json;

use super::{Detections, Ranked, elements};
use crate::{
    client::{StreamAnswer, message::ClientResponse},
    request::FINAL,
    tensor::values::{Value, write_json_value},
};

/// Sequence that a response belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OfSequence {
    /// The id.
    pub id: u64,
    /// Part of the sequence that the response covers.
    pub part: ResponsePart,
}

/// Part of a sequence that a response covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResponsePart {
    /// A step whose place is not known.
    Single,
    /// The step with this number, from 1 on.
    Step(usize),
    /// A number of steps, put together.
    Steps(usize),
}

/// Writes an answer as one JSON object.
///
/// The elements of an output are a flat list, as the protocol has them. JSON has no form for
/// infinities and for what is not a number: those are `null`, and `not_finite` has their places and
/// what they are. Bytes that are no text stand as `{"b64": "…"}`, and so do, without a list, the bytes
/// of outputs whose types are the server's own.
///
/// `files` are those of the images of the request, in the order of its batch.
pub fn answer_json(
    answer: &ClientResponse,
    sequence: Option<OfSequence>,
    files: &[String],
) -> Vec<u8> {
    let mut head = head(answer, sequence);
    push_files(files, &mut head);
    with_outputs(head, answer)
}

/// Writes the files of images, if there are any.
fn push_files(files: &[impl serde::Serialize], out: &mut Vec<u8>) {
    if !files.is_empty() {
        out.extend_from_slice(format!(r#","files":{}"#, json!(files)).as_bytes());
    }
}

fn with_outputs(mut head: Vec<u8>, answer: &ClientResponse) -> Vec<u8> {
    let out = &mut head;
    out.extend_from_slice(br#","outputs":["#);
    for (index, (name, tensor)) in answer.outputs.iter().enumerate() {
        separate(index, out);
        let datatype = tensor.dtype().kserve();
        let (name, shape) = (json!(name), json!(tensor.shape()));
        let start = format!(r#"{{"name":{name},"datatype":"{datatype}","shape":{shape},"data":["#);
        out.extend_from_slice(start.as_bytes());
        let mut holes = Vec::new();
        for (index, value) in elements(tensor).enumerate() {
            separate(index, out);
            if let Some(word) = finite(value, out) {
                holes.push((index, word));
            }
        }
        out.push(b']');
        if !holes.is_empty() {
            out.extend_from_slice(br#","not_finite":"#);
            serde_json::to_writer(&mut *out, &holes).expect("numbers and words have a JSON form");
        }
        out.push(b'}');
    }
    for (index, opaque) in answer.opaque.iter().enumerate() {
        separate(index + answer.outputs.len(), out);
        let object = format!(
            r#"{{"name":{},"datatype":{},"shape":{},"b64":"{}"}}"#,
            json!(opaque.name),
            json!(opaque.datatype),
            json!(opaque.shape),
            BASE64.encode(&opaque.data),
        );
        out.extend_from_slice(object.as_bytes());
    }
    out.extend_from_slice(b"]}");
    head
}

/// Writes an answer of a stream in the same way, with its timestamp if it has one, and whether it is the last one of its
/// request if the server reports that.
pub fn stream_json(answer: &StreamAnswer) -> Vec<u8> {
    let mut out = head(&answer.answer, None);
    if let Some(timestamp) = answer.timestamp {
        out.extend_from_slice(format!(r#","timestamp":{timestamp}"#).as_bytes());
    }
    if let Some(is_final) = answer.is_final {
        out.extend_from_slice(format!(r#","{FINAL}":{is_final}"#).as_bytes());
    }
    with_outputs(out, &answer.answer)
}

/// Writes the best scores of an output as one JSON object: a list for each row, the best first.
///
/// `files` has the file of each row, or none.
pub fn ranking_json(
    answer: &ClientResponse,
    sequence: Option<OfSequence>,
    output: &str,
    rows: &[Vec<Ranked<'_>>],
    labels: &[String],
    files: &[&str],
) -> Vec<u8> {
    let mut out = head(answer, sequence);
    push_files(files, &mut out);
    out.push(b',');
    out.extend_from_slice(&ranking_members(output, rows, labels)[1..]);
    out
}

/// Writes the best scores of an output as a JSON object by themselves.
pub fn ranking_members(output: &str, rows: &[Vec<Ranked<'_>>], labels: &[String]) -> Vec<u8> {
    let mut out = format!(r#"{{"output":{},"top":["#, json!(output)).into_bytes();
    for (index, row) in rows.iter().enumerate() {
        separate(index, &mut out);
        out.push(b'[');
        for (place, ranked) in row.iter().enumerate() {
            separate(place, &mut out);
            let start = format!(r#"{{"rank":{},"index":{}"#, place + 1, ranked.index);
            out.extend_from_slice(start.as_bytes());
            if let Some(label) = labels.get(ranked.index) {
                out.extend_from_slice(format!(r#","label":{}"#, json!(label)).as_bytes());
            }
            push_score(ranked.score, &[], &mut out);
            out.push(b'}');
        }
        out.push(b']');
    }
    out.extend_from_slice(b"]}");
    out
}

/// Writes detections as one JSON object: a list for each image, the surest first.
///
/// `files` has the file of each image, or none.
pub fn detections_json(
    answer: &ClientResponse,
    sequence: Option<OfSequence>,
    found: &Detections<'_>,
    files: &[String],
) -> Vec<u8> {
    let mut out = head(answer, sequence);
    push_files(files, &mut out);
    out.push(b',');
    out.extend_from_slice(&detection_members(found)[1..]);
    out
}

/// Writes the name of the output with the boxes, and the detections of each image, as an object.
pub fn detection_members(found: &Detections<'_>) -> Vec<u8> {
    let mut out = format!(r#"{{"output":{},"top":["#, json!(found.output)).into_bytes();
    for (index, image) in found.images.iter().enumerate() {
        separate(index, &mut out);
        out.push(b'[');
        for (place, it) in image.iter().enumerate() {
            separate(place, &mut out);
            let start = format!(r#"{{"rank":{},"index":{}"#, place + 1, it.index);
            out.extend_from_slice(start.as_bytes());
            if let Some(class) = it.class {
                out.extend_from_slice(format!(r#","class":{class}"#).as_bytes());
            }
            if let Some(label) = &it.label {
                out.extend_from_slice(format!(r#","label":{}"#, json!(label)).as_bytes());
            }
            push_score(it.score, &it.bounds, &mut out);
            out.push(b'}');
        }
        out.push(b']');
    }
    out.extend_from_slice(b"]}");
    out
}

/// Writes a score as a member, and a box if there is one; behind them stands which numbers are not finite, if any is.
fn push_score(score: Value<'_>, bounds: &[Value<'_>], out: &mut Vec<u8>) {
    out.extend_from_slice(br#","score":"#);
    let word = finite(score, out);
    let mut holes = Vec::new();
    if !bounds.is_empty() {
        out.extend_from_slice(br#","box":["#);
        for (place, number) in bounds.iter().enumerate() {
            separate(place, out);
            holes.extend(finite(*number, out).map(|word| (place, word)));
        }
        out.push(b']');
    }
    let mut members = Vec::new();
    members.extend(word.map(|word| format!(r#""score":"{word}""#)));
    if !holes.is_empty() {
        members.push(format!(r#""box":{}"#, json!(holes)));
    }
    if !members.is_empty() {
        let members = members.join(",");
        out.extend_from_slice(format!(r#","not_finite":{{{members}}}"#).as_bytes());
    }
}

/// Begins an object with what every answer has.
fn head(answer: &ClientResponse, sequence: Option<OfSequence>) -> Vec<u8> {
    let (name, version) = (json!(answer.model_name), json!(answer.model_version));
    let id = json!(answer.id);
    let sequence = sequence.map_or_else(String::new, |OfSequence { id, part }| match part {
        ResponsePart::Single => format!(r#","sequence_id":{id}"#),
        ResponsePart::Step(number) => format!(r#","sequence_id":{id},"step":{number}"#),
        ResponsePart::Steps(count) => format!(r#","sequence_id":{id},"steps":{count}"#),
    });
    format!(r#"{{"model_name":{name},"model_version":{version},"id":{id}{sequence}"#).into_bytes()
}

fn separate(index: usize, out: &mut Vec<u8>) {
    if index > 0 {
        out.push(b',');
    }
}

/// Writes a value; returns the word for a number that JSON has no form for.
fn finite(value: Value<'_>, out: &mut Vec<u8>) -> Option<&'static str> {
    let number = match value {
        Value::Single(value) => f64::from(value),
        Value::Double(value) => value,
        Value::Bytes(bytes) if std::str::from_utf8(bytes).is_err() => {
            let text = BASE64.encode(bytes);
            out.extend_from_slice(format!(r#"{{"b64":"{text}"}}"#).as_bytes());
            return None;
        }
        _ => 0.0,
    };
    if number.is_finite() {
        write_json_value(value, out);
        return None;
    }
    out.extend_from_slice(b"null");
    Some(match number {
        f64::INFINITY => "Infinity",
        f64::NEG_INFINITY => "-Infinity",
        _ => "NaN",
    })
}

#[cfg(test)]
mod tests {
    use super::{OfSequence, ResponsePart, answer_json, push_score, ranking_json, ranking_members};
    use {
        crate::client::message::ClientResponse, crate::client::output::summary::top,
        crate::tensor::DataType, crate::tensor::Tensor, crate::tensor::TensorMap,
        crate::tensor::values::Packer, crate::tensor::values::Value,
    };

    fn example() -> ClientResponse {
        let mut floats = Packer::new(DataType::F32, 3);
        for number in [0.1, f64::NAN, 2.0] {
            floats.push_f64(number).unwrap();
        }
        let mut strings = Packer::new(DataType::String, 1);
        strings.push_bytes("\"é".as_bytes()).unwrap();
        let floats = Tensor::new(DataType::F32, vec![1, 3], floats.finish()).unwrap();
        let strings = Tensor::new(DataType::String, vec![1], strings.finish()).unwrap();
        ClientResponse {
            model_name: "m".to_owned(),
            model_version: "1".to_owned(),
            id: String::new(),
            outputs: TensorMap::from_iter([("y".to_owned(), floats), ("t".to_owned(), strings)]),
            opaque: Vec::new(),
        }
    }

    #[test]
    fn an_answer_is_one_object() {
        insta::assert_snapshot!(
            String::from_utf8(answer_json(&example(), None, &[])).unwrap(),
            @r#"{"model_name":"m","model_version":"1","id":"","outputs":[{"name":"y","datatype":"FP32","shape":[1,3],"data":[0.1,null,2.0],"not_finite":[[1,"NaN"]]},{"name":"t","datatype":"BYTES","shape":[1],"data":["\"é"]}]}"#
        );
    }

    #[test]
    fn strings_without_lengths_are_one_text() {
        let bare = |data: &'static [u8]| {
            let tensor = Tensor::new(DataType::String, vec![1], data.into()).unwrap();
            let mut answer = example();
            answer.outputs = TensorMap::from_iter([("t".to_owned(), tensor)]);
            String::from_utf8(answer_json(&answer, None, &[])).unwrap()
        };
        for (data, expected) in [
            (&b"hello there"[..], r#""data":["hello there"]"#),
            (b"", r#""data":[""]"#),
            // A length, but one string too many.
            (b"\x01\0\0\0a\0\0\0\0", r#""data":["\u0001\u0000"#),
        ] {
            let json = bare(data);
            assert!(json.contains(expected), "{json}");
        }
    }

    #[test]
    fn a_ranking_has_labels_as_far_as_they_go() {
        let answer = example();
        let rows = top(crate::tensor::named(&answer.outputs, "y").unwrap(), 2).unwrap();
        insta::assert_snapshot!(
            String::from_utf8(ranking_json(&answer, None, "y", &rows, &["cat".to_owned()], &["a.png"])).unwrap(),
            @r#"{"model_name":"m","model_version":"1","id":"","files":["a.png"],"output":"y","top":[[{"rank":1,"index":2,"score":2.0},{"rank":2,"index":0,"label":"cat","score":0.1}]]}"#
        );
    }

    #[test]
    fn scores_and_boxes_that_are_not_finite_say_what_they_are() {
        let mut floats = Packer::new(DataType::F32, 3);
        for number in [f64::NEG_INFINITY, 0.5, f64::INFINITY] {
            floats.push_f64(number).unwrap();
        }
        let scores = Tensor::new(DataType::F32, vec![1, 3], floats.finish()).unwrap();
        let rows = top(&scores, 3).unwrap();
        insta::assert_snapshot!(
            String::from_utf8(ranking_members("y", &rows, &[])).unwrap(),
            @r#"{"output":"y","top":[[{"rank":1,"index":2,"score":null,"not_finite":{"score":"Infinity"}},{"rank":2,"index":1,"score":0.5},{"rank":3,"index":0,"score":null,"not_finite":{"score":"-Infinity"}}]]}"#
        );
        let mut out = Vec::new();
        let bounds = [1.0, f32::NAN, 2.0, f32::NEG_INFINITY].map(Value::Single);
        push_score(Value::Single(0.5), &bounds, &mut out);
        insta::assert_snapshot!(
            String::from_utf8(out).unwrap(),
            @r#","score":0.5,"box":[1.0,null,2.0,null],"not_finite":{"box":[[1,"NaN"],[3,"-Infinity"]]}"#
        );
    }

    #[test]
    fn an_answer_of_a_sequence_says_which_and_how_much() {
        for (part, expected) in [
            (
                ResponsePart::Single,
                r#"{"model_name":"m","model_version":"1","id":"","sequence_id":7,"#,
            ),
            (
                ResponsePart::Step(3),
                r#""id":"","sequence_id":7,"step":3,"outputs":["#,
            ),
            (
                ResponsePart::Steps(9),
                r#""id":"","sequence_id":7,"steps":9,"outputs":["#,
            ),
        ] {
            let json = answer_json(&example(), Some(OfSequence { id: 7, part }), &[]);
            let json = String::from_utf8(json).unwrap();
            assert!(json.contains(expected), "{json}");
        }
    }
}
