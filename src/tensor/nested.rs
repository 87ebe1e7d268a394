//! Elements as lists within lists, which TensorFlow Serving's REST API has tensors as, both ways.

use base64::{Engine as _, prelude::BASE64_STANDARD};

use super::values::{Value, Values, write_json_value};

/// Writes as many elements as a shape has; strings are objects with `b64` if they are to be, or are no UTF-8.
pub(crate) fn write_nested(
    elements: &mut Values<'_>,
    shape: &[usize],
    is_base64: bool,
    json: &mut Vec<u8>,
) {
    let Some((&length, inner)) = shape.split_first() else {
        match elements.next() {
            Some(Value::Bytes(bytes)) if is_base64 || str::from_utf8(bytes).is_err() => {
                json.extend_from_slice(b"{\"b64\":\"");
                json.extend_from_slice(BASE64_STANDARD.encode(bytes).as_bytes());
                json.extend_from_slice(b"\"}");
            }
            Some(value) => write_json_value(value, json),
            None => json.extend_from_slice(b"null"),
        }
        return;
    };
    json.push(b'[');
    for index in 0..length {
        if index > 0 {
            json.push(b',');
        }
        write_nested(elements, inner, is_base64, json);
    }
    json.push(b']');
}
