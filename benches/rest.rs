//! What REST costs: JSON in bytes a second, and binary data against gRPC.

use ovms::{
    client::{Api, Form},
    tensor::{DataType, Tensor, values::write_json},
};

use crate::{
    INPUT_600K, Model, TINY,
    cells::{self, Length},
    peer::Peer,
    report::Times,
    targets::{line, pairs},
};

/// Clients at once. With one alone the time of a request is mostly that of waking up.
const CONCURRENCY: usize = 16;

/// Measures and prints the targets of REST.
pub(crate) fn run(times: &Times) {
    let rate = pairs(times.pairs, || json_rate(times.tiny));
    line(
        "REST JSON of 1x3x224x224 floats: MB of body for each second of the server's CPU time",
        "≥ 60 MB/s",
        &format!("{rate:.0} MB/s"),
        rate >= 60.0,
    );
    for (model, least) in [(&INPUT_600K, Some(0.8)), (&TINY, None)] {
        let ratio = pairs(times.pairs, || binary_ratio(model, times.tiny));
        let wanted = least.map_or("—".to_owned(), |least| format!("≥ {least:.2}"));
        line(
            &format!(
                "{}: requests/s over REST with binary data against gRPC, concurrency {CONCURRENCY}",
                model.name
            ),
            &wanted,
            &format!("{ratio:.3}"),
            least.is_none_or(|least| ratio >= least),
        );
    }
}

/// Returns megabytes of JSON a second of processor time, which has all that the server does for a
/// request in it: to receive the body, to parse it, and to run the model.
fn json_rate(seconds: f64) -> f64 {
    let model = &INPUT_600K;
    let elements: usize = model.shape.iter().product();
    // As many digits as a float of a picture has. A fixed sequence, so that runs compare.
    let data: Vec<u8> = (0..elements as u32)
        .map(|index| index.wrapping_mul(2_654_435_761))
        .flat_map(|hash| (hash as f32 / u32::MAX as f32).to_le_bytes())
        .collect();
    let tensor = Tensor::new(DataType::F32, model.shape.to_vec(), data.clone().into())
        .expect("as many bytes as the shape needs");
    let mut json = Vec::new();
    write_json(&tensor, &mut json);
    let request = cells::request_of(model, data, Form::Values);
    let peer = Peer::ovms(model);
    let cell = cells::load(
        &peer,
        Api::KserveRest,
        &request,
        2,
        Length::Seconds(seconds),
    );
    json.len() as f64 / cell.cpu_us
}

/// Returns how many requests a second REST answers for each that gRPC does, of one server.
fn binary_ratio(model: &Model, seconds: f64) -> f64 {
    let peer = Peer::ovms(model);
    let rate =
        |api| cells::served(&peer, api, model, CONCURRENCY, Length::Seconds(seconds)).per_second;
    let grpc = rate(Api::KserveGrpc);
    rate(Api::KserveRest) / grpc
}
