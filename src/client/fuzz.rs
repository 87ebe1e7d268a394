//! Fuzz targets of addresses, and of what servers answer.

use bytes::Bytes;
use strum::VariantArray;

use super::{
    address::{Address, Api},
    call::RawReply,
    error::AnswerError,
    kserve_rest,
    message::{ModelId, Request, TensorForm, TensorMetadata},
    tfs_rest,
};
use crate::{
    fuzzing::{choice, line},
    store::StoreAddress,
    tensor::TensorMap,
};

/// Addresses as people write them. What is shown of one is the same address, and no password is shown.
pub(crate) fn addresses(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    for api in Api::VARIANTS.iter().copied() {
        match Address::parse(&text, api) {
            Ok(address) if address.unix_socket().is_none() => {
                let shown = address.to_string();
                let again = Address::parse(&shown, api).expect("what is shown is an address");
                assert_eq!(again, address, "{shown}");
                assert!(address.host().is_some_and(|(_, port)| port > 0));
                assert!(!address.url().contains('@'));
            }
            Ok(_) => {}
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
    match text.parse::<StoreAddress>() {
        Ok(address) => match address {
            StoreAddress::Files { folder, .. } => assert!(folder.is_absolute()),
            StoreAddress::Redis(_) => {
                let shown = address.to_string();
                assert!(!shown.contains('@'), "{shown}");
                assert_eq!(format!("{address:?}"), shown);
            }
        },
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// Answers of servers: the header with the length of the JSON in the first line, behind a byte that chooses the protocol.
pub(crate) fn answers(data: &[u8]) {
    let (kind, data) = choice(data);
    let (header, body) = line(data);
    let output =
        |name: &str, dtype: &str| TensorMetadata::new(name.to_owned(), dtype.to_owned(), &[-1]);
    let model_outputs = match kind & 2 {
        0 => vec![output("y", "FP32")],
        _ => vec![output("y", "FP32"), output("z", "BYTES")],
    };
    let request = Request {
        model: ModelId::of("m"),
        id: String::new(),
        parameters: Vec::new(),
        inputs: TensorMap::default(),
        outputs: Vec::new(),
        model_outputs,
        form: TensorForm::Values,
    };
    let decoded = match kind & 1 {
        0 => {
            let mut headers = reqwest::header::HeaderMap::new();
            if let Ok(value) = reqwest::header::HeaderValue::from_bytes(header)
                && !header.is_empty()
            {
                headers.insert("inference-header-content-length", value);
            }
            kserve_rest::answer(&RawReply {
                headers,
                bytes: Bytes::copy_from_slice(body),
            })
        }
        _ => tfs_rest::answer(body, &request),
    };
    match decoded {
        Ok(answer) => {
            let opaque = answer.opaque.iter().map(|output| output.data.len());
            assert!(opaque.sum::<usize>() <= body.len());
        }
        Err(AnswerError::Missing(name)) => assert!(name.len() <= body.len()),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}
