//! One sequence: started, gone on with, ended.
//!
//! A [`SequenceClient`] starts a sequence, sends its steps one at a time and ends it, in whichever form the
//! wire has for that: request parameters over KServe, special inputs over TensorFlow Serving. Each
//! request has the id in a header as well ([`SEQUENCE`](super::SEQUENCE)), for proxies.

use bytes::Bytes;
use reqwest::header::HeaderValue;

use crate::{
    client::{
        connection::Client,
        error::{ClientError, ServerError},
        message::{ClientResponse, Request},
        sequence::{CONTROL, END, ID, START},
    },
    request::Parameter,
    tensor::{
        DataType, Tensor, TensorMap,
        values::{Value, values},
    },
};

/// The largest id that is chosen here: every reader of JSON has numbers up to it as they are.
const MAX_CHOSEN: u64 = (1 << 53) - 1;

/// Ends the text of a server that has dropped a sequence because a step failed.
const CLOSED: &str = " has been closed";

/// Role of a request in its sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepControl {
    /// The first one.
    Start,
    /// Neither first nor last.
    Continue,
    /// The last one.
    End,
    /// First and last at once; TensorFlow Serving's protocols have no form for it.
    Only,
}

impl StepControl {
    /// Returns what a step is. One that is first and last at once only starts where the protocol
    /// has no form for both.
    pub fn of(lives: bool, is_last: bool, is_tfs: bool) -> Self {
        match (lives, is_last) {
            (false, true) if !is_tfs => Self::Only,
            (false, _) => Self::Start,
            (true, false) => Self::Continue,
            (true, true) => Self::End,
        }
    }

    const fn starts(self) -> bool {
        matches!(self, Self::Start | Self::Only)
    }

    const fn ends(self) -> bool {
        matches!(self, Self::End | Self::Only)
    }
}

/// Error of a step of a sequence.
#[derive(Debug, thiserror::Error)]
pub enum SequenceError {
    /// The request failed.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The server does not report that it is a sequence, and the caller gave no id of his own.
    #[error("the response has no sequence id")]
    NoId,
}

/// A sequence of requests, one at a time.
///
/// Nothing is sent when it is dropped: call [`end`](Self::end) if it [lives](Self::lives).
#[derive(Debug)]
pub struct SequenceClient<'a> {
    client: &'a Client,
    request: Request,
    is_tfs: bool,
    id: u64,
    is_given: bool,
    /// Id by which proxies route the sequence: the one that it was begun with.
    route: u64,
    lives: bool,
    is_reported: bool,
    /// The inputs of the last step that was answered, for an end without a step of its own.
    last: Option<TensorMap>,
    /// Text that the attempts of one step have in common, so that a server with a store runs it once.
    key: Option<HeaderValue>,
}

impl<'a> SequenceClient<'a> {
    /// Prepares a sequence; without an id there is a [`random_id`].
    ///
    /// Every step is `request` with other inputs.
    pub fn new(client: &'a Client, request: Request, id: Option<u64>) -> Self {
        let is_given = id.is_some();
        let id = id.unwrap_or_else(random_id);
        Self {
            client,
            request,
            is_tfs: client.api().is_tfs(),
            id,
            is_given,
            route: id,
            lives: false,
            is_reported: false,
            last: None,
            key: None,
        }
    }

    /// Takes up a sequence that has been started before.
    pub fn resume(client: &'a Client, request: Request, id: u64) -> Self {
        Self {
            lives: true,
            ..Self::new(client, request, Some(id))
        }
    }

    /// Returns the id; from the first answer on, the one that the server reports.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Returns whether the server has the sequence, as far as can be known from here.
    pub fn lives(&self) -> bool {
        self.lives
    }

    /// Sets the idempotency key of the requests from here on: one for all attempts of a step, and another one for the
    /// next. One that headers cannot have is none.
    pub fn set_key(&mut self, key: Option<String>) {
        self.key = key.and_then(|key| HeaderValue::try_from(key).ok());
    }

    /// Returns whether an answer has confirmed the id. A server that ignores sequences does not.
    pub fn is_reported(&self) -> bool {
        self.is_reported
    }

    /// Returns what the next step is; after one that only starts the sequence still lives.
    pub fn next(&self, is_last: bool) -> StepControl {
        StepControl::of(self.lives, is_last, self.is_tfs)
    }

    /// Sends a step and waits for its answer, which is returned without the id.
    ///
    /// # Errors
    ///
    /// Fails if no answer comes, the server refuses, or it does not report an id and none was given.
    pub async fn send(
        &mut self,
        inputs: TensorMap,
        control: StepControl,
    ) -> Result<ClientResponse, SequenceError> {
        let mut request = self.request.clone();
        request.inputs = inputs.clone();
        mark(&mut request, self.is_tfs, self.id, control);
        // From here on the server may have it.
        match self.ask(&request).await {
            Ok(mut answer) => {
                self.lives = !control.ends();
                self.last = Some(inputs);
                if let Some(id) = take_id(&mut answer) {
                    self.id = id;
                    self.is_reported = true;
                } else if !self.is_given {
                    self.lives = false;
                    return Err(SequenceError::NoId);
                }
                Ok(answer)
            }
            Err(error) => {
                self.lives = self.may_live(control, &error);
                Err(error.into())
            }
        }
    }

    /// Ends the sequence by sending the last step once more; its state goes, and the answer too.
    ///
    /// Without a step that was answered, as after a start whose answer did not come, `inputs` are
    /// sent.
    ///
    /// # Errors
    ///
    /// Fails if no answer comes, or the server refuses; not if it does not know the sequence.
    pub async fn end(&mut self, inputs: Option<TensorMap>) -> Result<(), SequenceError> {
        let Some(inputs) = self.last.clone().or(inputs) else {
            return Ok(());
        };
        match self.send(inputs, StepControl::End).await {
            Err(SequenceError::Client(ClientError::Refused(_))) if !self.lives => Ok(()),
            result => result.map(drop),
        }
    }

    async fn ask(&self, request: &Request) -> Result<ClientResponse, ClientError> {
        let call = self
            .client
            .call_of(self.route, self.key.as_ref(), request)?;
        call.send(0).await?.read()
    }

    /// Returns whether the sequence may live after a request that failed.
    fn may_live(&self, control: StepControl, error: &ClientError) -> bool {
        match error {
            // Nothing was sent.
            ClientError::Request(_) => self.lives,
            ClientError::Refused(refusal) => {
                let is_gone = control.starts() || refusal.is_not_found() || is_closed(refusal);
                self.lives && !is_gone
            }
            // Nobody knows what the server did.
            ClientError::Unreachable { .. }
            | ClientError::Closed { .. }
            | ClientError::Timeout { .. }
            | ClientError::Partial { .. }
            | ClientError::Protocol { .. } => true,
        }
    }
}

/// Chooses an id.
///
/// Servers would choose as well, but each counts for itself: behind a proxy their ids are not the
/// only ones of their kind, and the request that starts a sequence would have none to be sent by.
pub fn random_id() -> u64 {
    rand::random_range(1..=MAX_CHOSEN)
}

/// Chooses a text for [`SequenceClient::set_key`].
pub fn random_key() -> String {
    let [high, low]: [u64; 2] = rand::random();
    format!("{high:016x}{low:016x}")
}

/// Writes into a request which sequence it is of, and what it is there, in the words of TensorFlow
/// Serving or KServe.
pub fn mark(request: &mut Request, is_tfs: bool, id: u64, control: StepControl) {
    if is_tfs {
        let tensor = special(DataType::U64, id.to_le_bytes().to_vec());
        request.inputs.push((ID.into(), tensor));
        let code: u32 = match control {
            StepControl::Start | StepControl::Only => 1,
            StepControl::End => 2,
            StepControl::Continue => return,
        };
        let tensor = special(DataType::U32, code.to_le_bytes().to_vec());
        request.inputs.push((CONTROL.into(), tensor));
        return;
    }
    let mut push = |key: &str, value| request.parameters.push((key.to_owned(), value));
    let value = match i64::try_from(id) {
        Ok(id) => Parameter::Int(id),
        Err(_) => Parameter::Text(id.to_string()),
    };
    push(ID, value);
    if control.starts() {
        push(START, Parameter::Bool(true));
    }
    if control.ends() {
        push(END, Parameter::Bool(true));
    }
}

/// Returns whether a refusal says that the server has dropped the sequence.
fn is_closed(refusal: &ServerError) -> bool {
    refusal.message.ends_with(CLOSED) && refusal.message.contains(" - sequence ")
}

fn special(dtype: DataType, data: Vec<u8>) -> Tensor {
    Tensor::new(dtype, vec![1], Bytes::from(data)).expect("one element")
}

/// Takes the id out of the outputs.
fn take_id(answer: &mut ClientResponse) -> Option<u64> {
    let mut id = None;
    let outputs = std::mem::take(&mut answer.outputs);
    let is_id = |name: &str, tensor: &Tensor| {
        name == ID && tensor.dtype() == DataType::U64 && tensor.len() == 1
    };
    for (name, tensor) in outputs {
        if is_id(&name, &tensor) {
            id = values(&tensor).find_map(|value| match value {
                Value::Uint(id) => Some(id),
                _ => None,
            });
        } else {
            answer.outputs.push((name, tensor));
        }
    }
    id
}

#[cfg(test)]
mod tests;
