//! Fuzz targets of requests of KServe.

use allocation_counter::measure;
use bytes::Bytes;
use prost::Message as _;
use serde::de::IgnoredAny;

use super::{codec, generate, json, regions::RegionReader};
use crate::{
    budget::Budget,
    error::ErrorKind,
    frontends::{guard::NoRegions, weight},
    fuzzing::{
        BUDGET, check_charge, check_decoded, check_error, check_request, check_tensors, choice,
        line, servable, servable_of_one,
    },
    proto::kserve::ModelInferRequest,
};

/// Memory of a call, whatever its body is.
const CALL: usize = 8 << 10;

/// Nesting up to which JSON is compared with another reader of it, which gives up at 128.
const MAX_COMPARED: usize = 100;

/// A message of `ModelInfer`. Decoded, it takes what it is charged for at most.
pub(crate) fn grpc(data: &[u8]) {
    let wire = Bytes::copy_from_slice(data);
    let weight = weight::INFER.weight(&wire);
    let mut decoded = None;
    let used = measure(|| decoded = ModelInferRequest::decode(wire).ok());
    let Some(message) = decoded else {
        return;
    };
    check_charge(&used, weight + data.len() + CALL);
    let again = ModelInferRequest::decode(&*message.encode_to_vec()).expect("it was written");
    assert_eq!(again.encoded_len(), message.encoded_len());
    if let Err(error) = codec::version(&message.model_version) {
        check_error(&error);
    }
    let _ = codec::time_limit(&message);
    let budget = Budget::new(BUDGET);
    check_decoded(
        codec::decode(message, &budget, Err(NoRegions::Off)),
        &budget,
    );
}

/// A body of `infer`: the header with the length of its JSON in the first line, and the body.
pub(crate) fn json(data: &[u8]) {
    let (header, body) = line(data);
    let length = (!header.is_empty()).then_some(header);
    let body = Bytes::copy_from_slice(body);
    let budget = Budget::new(BUDGET);
    let bytes = json::length(&body, length);
    let weight = weight::of_json(&body[..bytes]);
    let mut decoded = None;
    let used = measure(|| {
        decoded = Some(json::decode(
            &body,
            length,
            RegionReader::new(Err(NoRegions::Off), &budget),
        ));
    });
    check_charge(&used, weight + 3 * body.len() + CALL);
    match decoded.expect("it was asked for") {
        Ok((request, wishes)) => {
            assert_eq!(request.outputs.len(), wishes.listed.len());
            check_json(&body[..bytes]);
            check_request(&request);
            check_tensors(&servable(), request);
        }
        Err(error) => {
            check_error(&error);
            // The words of another reader come for what is no JSON, and for nothing else.
            if error.kind() == ErrorKind::InvalidJson {
                assert!(serde_json::from_slice::<IgnoredAny>(&body[..bytes]).is_err());
            }
        }
    }
}

/// Asserts that what was read is JSON to another reader, too, but for the words for what is no finite number.
pub(crate) fn check_json(text: &[u8]) {
    let text = String::from_utf8_lossy(text);
    let words = ["NaN", "-Infinity", "Infinity"];
    let text = words
        .iter()
        .fold(text.into_owned(), |text, word| text.replace(word, "0"));
    let text = text.as_bytes();
    let mut depth = 0_usize;
    let mut deepest = 0;
    for byte in text {
        match byte {
            b'[' | b'{' => depth += 1,
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(depth);
    }
    if deepest <= MAX_COMPARED {
        let read = serde_json::from_slice::<IgnoredAny>(text);
        read.expect("what was read is JSON");
    }
}

/// A body of `generate`, behind a byte that chooses what it is for.
pub(crate) fn generate(data: &[u8]) {
    let (kind, body) = choice(data);
    let mut info = match kind & 1 {
        0 => servable(),
        _ => servable_of_one(kind >> 2),
    };
    if kind & 2 != 0 {
        for input in &mut info.inputs {
            input.is_open = true;
            input.shape.0.clear();
        }
    }
    match generate::read(body, &info.inputs) {
        Ok(request) => {
            check_json(body);
            check_request(&request);
            check_tensors(&info, request);
        }
        Err(error) => check_error(&error),
    }
}
