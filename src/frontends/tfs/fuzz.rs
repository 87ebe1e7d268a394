//! Fuzz targets of requests of TensorFlow Serving.

use allocation_counter::measure;
use bytes::Bytes;
use percent_encoding::percent_decode_str;
use prost::Message as _;

use super::{
    json::{self, Kind},
    rest::{self, Call},
    tensors,
};
use crate::{
    budget::Budget,
    frontends::{cross_origin::is_management, kserve::fuzz::check_json, routes::NO_NUMBER, weight},
    fuzzing::{
        BUDGET, check_charge, check_decoded, check_error, check_request, check_tensors, choice,
        servable, servable_of_one,
    },
    proto::tensorflow_serving::PredictRequest,
};

/// Memory of a call, whatever its body is.
const CALL: usize = 8 << 10;

/// A message of `Predict`, behind a byte that says whether the model is stateful. Decoded, it takes what it is charged for at
/// most.
pub(crate) fn grpc(data: &[u8]) {
    let (kind, wire) = choice(data);
    let wire = Bytes::copy_from_slice(wire);
    let length = wire.len();
    let weight = weight::PREDICT.weight(&wire);
    let mut decoded = None;
    let used = measure(|| decoded = PredictRequest::decode(wire).ok());
    let Some(message) = decoded else {
        return;
    };
    check_charge(&used, weight + length + CALL);
    let again = PredictRequest::decode(&*message.encode_to_vec()).expect("it was written");
    assert_eq!(again.encoded_len(), message.encoded_len());
    let budget = Budget::new(BUDGET);
    check_decoded(tensors::decode(message, kind & 1 != 0, &budget), &budget);
}

/// A body of `predict`, behind a byte that chooses what it is for.
pub(crate) fn json(data: &[u8]) {
    let (choice, body) = choice(data);
    let kind = match choice & 3 {
        0 | 1 => Kind::Plain,
        2 => Kind::Stateful,
        _ => Kind::Named,
    };
    let info = match choice & 4 {
        0 => servable(),
        _ => servable_of_one(choice >> 3),
    };
    let _ = json::sequence_id(body);
    let weight = weight::of_json(body);
    let mut decoded = None;
    let used = measure(|| decoded = Some(json::decode(body, &info, kind)));
    check_charge(&used, weight + 3 * body.len() + CALL);
    match decoded.expect("it was asked for") {
        Ok((request, _)) => {
            check_json(body);
            check_request(&request);
            check_tensors(&info, request);
        }
        Err(error) => check_error(&error),
    }
}

/// A path. What manages the server is known as such to the rules for browsers, however it is written.
pub(crate) fn paths(data: &[u8]) {
    let path = String::from_utf8_lossy(data);
    let is_routed = ["/v1/", "//v1/"].iter().any(|root| path.starts_with(root));
    match rest::parse(&path) {
        Ok(call) => {
            let manages = matches!(
                call,
                Call::Sequence(..) | Call::Sequences(_) | Call::Config | Call::Reload
            );
            assert!(!manages || !is_routed || is_management(&path), "{path}");
            match call {
                Call::Sequence(names, id) => {
                    assert!(id > 0);
                    check_names(&path, &names);
                }
                Call::Predict(names)
                | Call::Status(names)
                | Call::Metadata(names)
                | Call::Sequences(names) => {
                    check_names(&path, &names);
                }
                Call::Config | Call::Reload | Call::Unserved => {}
            }
        }
        Err(error) => check_error(&error),
    }
    let _ = is_management(&path);
}

fn check_names(path: &str, names: &rest::Names) {
    let decoded = percent_decode_str(path).decode_utf8_lossy();
    assert!(!names.model.is_empty() && decoded.contains(&names.model));
    let is_read = |version| version > 0 || version == NO_NUMBER;
    assert!(names.version.is_none_or(is_read));
}
