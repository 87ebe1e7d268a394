//! Requests of a load, and what is done with each.

use std::cell::{Cell, RefCell};

use rand::{RngExt, SeedableRng, rngs::StdRng};

use super::{
    driver::Exchange,
    lane::{Lane, SequenceLane},
};
use crate::{
    client::{
        connection::Client,
        error::ClientError,
        message::{ModelId, Request},
        server_counters::ServerCounters,
        wire::{Answered, Wire, WireRequest},
    },
    tensor::{DataType, TensorMap},
};

/// Maximum number of bytes of encoded steps that are kept for all sequences; beyond it, each step is encoded when
/// it is sent.
const MAX_ENCODED_STEPS: usize = 256 << 20;

/// Use of the requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TrafficKind {
    /// Each by itself.
    Unary,
    /// Steps of sequences of this many; the requests of a mix are the steps in their order.
    Sequences {
        /// Number of steps; two at least over TensorFlow Serving, which has no form for a single one.
        length: usize,
    },
    /// Requests over streams, one in each lane; only KServe has them.
    Streams {
        /// Number of responses that answer a request; `None` for as many as come until the server ends the stream,
        /// so that each request has a stream of its own, as over REST in any case.
        responses: Option<u64>,
    },
}

/// Request of a mix.
#[derive(Debug, Clone, PartialEq)]
pub struct WeightedRequest {
    /// The request.
    pub request: Request,
    /// Frequency, relative to the other requests.
    pub weight: f64,
}

/// Requests, encoded, with connections for them.
#[derive(Debug)]
pub struct Traffic<'a> {
    pub(super) client: &'a Client,
    pub(super) wire: Wire,
    pub(super) kind: TrafficKind,
    pub(super) items: Vec<Item>,
    /// Sums of the weights up to each item, for choosing.
    sums: Vec<f64>,
    random: RefCell<StdRng>,
    /// Index of the next request, if they are sent one after the other.
    next: Cell<Option<usize>>,
    /// Keeps encoded steps of sequences.
    pub(super) keeps_steps: bool,
    model: ModelId,
}

/// Request with its bytes.
#[derive(Debug)]
pub(super) struct Item {
    /// The request, of which the steps of sequences are encoded; empty otherwise.
    pub(super) request: Request,
    pub(super) wire: WireRequest,
    /// Number of rows.
    pub(super) rows: u64,
}

impl<'a> Traffic<'a> {
    /// Encodes the requests, which are of one model; nothing is sent yet. The weights are positive, and the seed is
    /// that of the choice among several requests.
    ///
    /// # Errors
    ///
    /// Fails if a request has no form in the protocol, or the protocol has no streams.
    pub fn new(
        client: &'a Client,
        requests: Vec<WeightedRequest>,
        kind: TrafficKind,
        max_lanes: usize,
        seed: u64,
    ) -> Result<Self, ClientError> {
        let model = requests.first().map(|first| first.request.model.clone());
        let (mut items, mut sums) = (Vec::new(), Vec::new());
        let (mut sum, mut size) = (0.0, 0);
        for WeightedRequest { request, weight } in requests {
            let wire = match kind {
                TrafficKind::Streams { .. } => client.on_stream(&request)?,
                TrafficKind::Unary | TrafficKind::Sequences { .. } => {
                    client.call(&request)?.on_wire()?
                }
            };
            sum += weight;
            size += wire.body.len();
            sums.push(sum);
            let rows = rows(&request.inputs);
            let request = match kind {
                TrafficKind::Sequences { .. } => request,
                TrafficKind::Unary | TrafficKind::Streams { .. } => Request::default(),
            };
            items.push(Item {
                request,
                wire,
                rows,
            });
        }
        Ok(Self {
            client,
            wire: Wire::new(client.options())?,
            kind,
            items,
            sums,
            random: RefCell::new(StdRng::seed_from_u64(seed)),
            next: Cell::new(None),
            keeps_steps: size.saturating_mul(3 * max_lanes) <= MAX_ENCODED_STEPS,
            model: model.unwrap_or_default(),
        })
    }

    /// Sends the requests one after the other, and from the first one again, instead of by their weights.
    #[must_use]
    pub fn in_turn(self) -> Self {
        self.next.set(Some(0));
        self
    }

    /// Sends every request once, in a lane of its own, so that errors show before the load.
    ///
    /// # Errors
    ///
    /// Fails with the index of the first request that fails, and its error.
    pub async fn probe(&self) -> Result<(), (usize, ClientError)> {
        let mut lane = self.lane(0);
        let steps = match self.kind {
            TrafficKind::Sequences { length } => length.min(2.max(self.items.len())),
            TrafficKind::Unary | TrafficKind::Streams { .. } => self.items.len(),
        };
        let mut sent = Ok(());
        for step in 0..steps {
            let item = step % self.items.len();
            let answer = self.send(&mut lane, item).await;
            if let Err(error) = answer {
                sent = Err((item, error));
                break;
            }
        }
        self.close(lane).await;
        sent
    }

    /// Returns the number of requests of the mix.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Returns whether there are no requests.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Chooses a request: the next one, or one by the weights.
    fn choose(&self) -> usize {
        if let Some(index) = self.next.get() {
            self.next.set(Some((index + 1) % self.items.len()));
            return index;
        }
        let Some(sum) = self.sums.last().filter(|_| self.sums.len() > 1) else {
            return 0;
        };
        let place = self.random.borrow_mut().random::<f64>() * sum;
        let index = self.sums.partition_point(|sum| *sum <= place);
        index.min(self.sums.len() - 1)
    }

    async fn send(&self, lane: &mut Lane, item: usize) -> Result<Answered, ClientError> {
        let index = lane.index;
        if let Some(sequence) = &mut lane.sequence {
            return sequence.step(self, index).await;
        }
        let Item { wire, rows, .. } = &self.items[item];
        let answered = match (self.kind, &self.wire) {
            (TrafficKind::Streams { responses }, Wire::Http2(http2)) => {
                lane.over_stream(http2, wire, responses).await
            }
            (TrafficKind::Streams { .. }, Wire::Http1(http1)) => http1.events(index, wire).await,
            _ => self.wire.send(index, wire).await.map(|()| Answered::ONCE),
        };
        answered.map(|answered| answered.of(*rows))
    }
}

/// Returns the number of rows of a request: the length of its inputs along the first dimension, or 1 where that is
/// not the same for all of them. A list of numbers is one row, and so is a single value.
fn rows(inputs: &TensorMap) -> u64 {
    let lengths = inputs.iter().filter_map(|(_, tensor)| {
        let is_one = match tensor.shape().len() {
            0 => true,
            1 => tensor.dtype() != DataType::String,
            _ => false,
        };
        tensor.shape().first().copied().filter(|_| !is_one)
    });
    let mut lengths = lengths.map(|length| length.max(1) as u64);
    let first = lengths.next().unwrap_or(1);
    match lengths.all(|length| length == first) {
        true => first,
        false => 1,
    }
}

impl Exchange for Traffic<'_> {
    type Lane = Lane;

    fn lane(&self, index: usize) -> Lane {
        let sequence = match self.kind {
            TrafficKind::Sequences { length } => Some(SequenceLane::new(length)),
            TrafficKind::Unary | TrafficKind::Streams { .. } => None,
        };
        Lane {
            index,
            sequence,
            stream: None,
        }
    }

    async fn exchange(&self, lane: &mut Lane) -> Result<Answered, ClientError> {
        self.send(lane, self.choose()).await
    }

    async fn close(&self, mut lane: Lane) {
        if let Some(sequence) = &mut lane.sequence {
            sequence.end(self, lane.index).await;
        }
        if let (Some(stream), Wire::Http2(http2)) = (lane.stream.take(), &self.wire) {
            Lane::end_stream(http2, stream).await;
        }
    }

    async fn counters(&self) -> Option<ServerCounters> {
        self.client.statistics(&self.model).await
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use rand::{SeedableRng, rngs::StdRng};

    use super::rows;
    use crate::{
        client::{
            Address, Api, Client, ClientOptions,
            load::{Traffic, TrafficKind, WeightedRequest},
            message::Request,
        },
        tensor::{DataType, Tensor},
    };

    async fn client() -> Client {
        // Over REST a client connects with its first request.
        let options = ClientOptions {
            address: Address::parse("localhost:1", Api::KserveRest).unwrap(),
            api: Api::KserveRest,
            timeout: std::time::Duration::from_secs(1),
            headers: reqwest::header::HeaderMap::new(),
            concurrency: 1,
            tls: None,
        };
        Client::connect(&options).await.unwrap()
    }

    /// Datatype and shape of an input.
    type Typed<'a> = (DataType, &'a [usize]);

    #[test]
    fn rows_are_the_first_dimension_that_all_inputs_have() {
        let of = |inputs: &[Typed<'_>]| {
            let input = |(dtype, shape): &Typed<'_>| {
                let count: usize = shape.iter().product();
                let data = vec![0; count * 4].into();
                let tensor = Tensor::new(*dtype, shape.to_vec(), data).unwrap();
                ("x".to_owned(), tensor)
            };
            rows(&inputs.iter().map(input).collect())
        };
        let (floats, texts) = (DataType::F32, DataType::String);
        let cases: [(&[Typed<'_>], u64); 10] = [
            (&[(floats, &[1, 10])], 1),
            (&[(floats, &[8, 10])], 8),
            (&[(floats, &[8, 10]), (floats, &[8])], 8),
            (&[(floats, &[8, 10]), (texts, &[8])], 8),
            (&[(floats, &[8, 10]), (floats, &[1, 4])], 1),
            // A list of numbers is a row, texts are one each.
            (&[(floats, &[10])], 1),
            (&[(texts, &[3])], 3),
            (&[(floats, &[])], 1),
            (&[(floats, &[0, 10])], 1),
            (&[], 1),
        ];
        for (inputs, expected) in cases {
            assert_eq!(of(inputs), expected, "{inputs:?}");
        }
    }

    #[tokio::test]
    async fn requests_come_in_turn() {
        let client = client().await;
        let requests = [9.0, 1.0, 1.0].map(|weight| WeightedRequest {
            request: Request::default(),
            weight,
        });
        let traffic = Traffic::new(&client, requests.into(), TrafficKind::Unary, 1, 7).unwrap();
        let traffic = traffic.in_turn();
        let chosen: Vec<_> = (0..7).map(|_| traffic.choose()).collect();
        assert_eq!(chosen, [0, 1, 2, 0, 1, 2, 0]);
    }

    #[tokio::test]
    async fn requests_are_chosen_by_their_weights() {
        let client = client().await;
        let requests = [1.0, 2.0, 5.0].map(|weight| WeightedRequest {
            request: Request::default(),
            weight,
        });
        let traffic = Traffic::new(&client, requests.into(), TrafficKind::Unary, 1, 7).unwrap();
        let mut counts = [0; 3];
        for _ in 0..8000 {
            counts[traffic.choose()] += 1;
        }
        for (count, expected) in counts.iter().zip([1000.0, 2000.0, 5000.0]) {
            let share = f64::from(*count) / expected;
            assert!((share - 1.0).abs() < 0.1, "{counts:?}");
        }
        let again = RefCell::new(StdRng::seed_from_u64(7));
        traffic.random.swap(&again);
        let chosen: Vec<_> = (0..20).map(|_| traffic.choose()).collect();
        traffic.random.swap(&RefCell::new(StdRng::seed_from_u64(7)));
        let same: Vec<_> = (0..20).map(|_| traffic.choose()).collect();
        assert_eq!(chosen, same);
    }
}
