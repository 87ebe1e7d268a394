//! What a request has found: a servable that stays alive until the request is done.

use std::{collections::HashSet, sync::Arc, time::Instant};

use super::{Engine, Place};
use crate::{
    error::{Error, Result},
    metrics::Call,
    model::{Loaded, Model, Version},
    request::{InferRequest, InferResponse, Parameters},
    sequence::{Answer, Arrival, Command, control},
    servable::ServableInfo,
};

/// A servable found for one request.
pub struct Target {
    version: Arc<Version>,
    loaded: Arc<Loaded>,
    /// What a request to a stateful model needs to know beside that.
    stateful: Option<Box<Stateful>>,
    /// Counts the request as failed, unless it is answered.
    call: Call,
    /// The request counts as under way for as long as it has its target.
    _place: Place,
}

/// Around the version of a stateful model.
struct Stateful {
    engine: Arc<Engine>,
    model: Arc<Model>,
    /// Whether the request names its version.
    named: bool,
    /// Why no sequence can start, if the version is retired.
    no_start: Option<Error>,
    /// The place of the request on its connection.
    arrival: Option<Arc<Arrival>>,
}

impl Target {
    pub(super) fn new(
        version: Arc<Version>,
        loaded: Arc<Loaded>,
        call: Call,
        place: Place,
    ) -> Self {
        Self {
            version,
            loaded,
            stateful: None,
            call,
            _place: place,
        }
    }

    /// Adds what is needed if the model is stateful.
    pub(super) fn among(
        mut self,
        engine: &Arc<Engine>,
        model: &Arc<Model>,
        named: bool,
        no_start: Option<Error>,
    ) -> Self {
        if self.loaded.is_stateful() {
            self.stateful = Some(Box::new(Stateful {
                engine: Arc::clone(engine),
                model: Arc::clone(model),
                named,
                no_start,
                arrival: None,
            }));
        }
        self
    }

    /// Says when the request was received, for a frontend that had work with it before it asked
    /// for its target. Without this it began with the look-up.
    #[must_use]
    pub fn since(mut self, received: Instant) -> Self {
        self.call.begun(received);
        self
    }

    /// Says where among the requests of its connection the request is, which counts if it is one
    /// of a sequence.
    #[must_use]
    pub fn arrived(mut self, arrival: Arc<Arrival>) -> Self {
        match &mut self.stateful {
            Some(stateful) => stateful.arrival = Some(arrival),
            None => arrival.leave(),
        }
        self
    }

    /// Returns inputs and outputs.
    #[must_use]
    pub fn info(&self) -> &ServableInfo {
        &self.loaded.info
    }

    /// Tells whether requests belong to sequences, so that they have special inputs.
    #[must_use]
    pub fn is_stateful(&self) -> bool {
        self.stateful.is_some()
    }

    /// Runs a request.
    ///
    /// # Errors
    ///
    /// Fails if the request does not fit, no slot comes free, the rules of sequences do not allow
    /// it, or the runtime fails.
    pub async fn infer(&self, mut request: InferRequest) -> Result<InferResponse> {
        let id = std::mem::take(&mut request.id);
        if let Some(stateful) = &self.stateful {
            return self.infer_in_sequence(stateful, id, request).await;
        }
        let (outputs, ran) = self
            .version
            .infer(&self.loaded, request, &self.call)
            .await?;
        self.call.answered(ran);
        Ok(InferResponse {
            model_name: self.version.model().to_owned(),
            model_version: self.version.number(),
            id,
            outputs,
            parameters: Parameters::new(),
        })
    }

    async fn infer_in_sequence(
        &self,
        stateful: &Stateful,
        request_id: String,
        mut request: InferRequest,
    ) -> Result<InferResponse> {
        let (command, echo) = control::take(&mut request)?;
        let (version, loaded) = stateful
            .place(&self.version, command)?
            .unwrap_or_else(|| (Arc::clone(&self.version), Arc::clone(&self.loaded)));
        let taken = stateful.taken(&version, command);
        let arrival = stateful.arrival.as_deref();
        let answer = version
            .infer_in_sequence(&loaded, command, request, arrival, &taken, &self.call)
            .await?;
        let Answer { outputs, id, ran } = answer;
        self.call.answered(ran);
        Ok(InferResponse {
            model_name: version.model().to_owned(),
            model_version: version.number(),
            id: request_id,
            outputs,
            parameters: echo.parameter(id).into_iter().collect(),
        })
    }
}

impl Stateful {
    /// Finds the version that a request goes on with, if that is another one than it would be
    /// for a new sequence: one that is retired and still has the sequence.
    fn place(
        &self,
        version: &Version,
        command: Command,
    ) -> Result<Option<(Arc<Version>, Arc<Loaded>)>> {
        if command.control.starts() {
            let stopping = self.engine.refuses_sequences();
            return match self.no_start.as_ref().or(stopping.as_ref()) {
                Some(error) => Err(Error::new(error.kind(), error.message())),
                None => Ok(None),
            };
        }
        let has = |version: &Version| version.sequences().instance(command.id).is_some();
        if self.named || has(version) {
            return Ok(None);
        }
        let mut draining = self.draining();
        Ok(draining.find(|(version, _)| has(version)))
    }

    /// Returns ids that new sequences cannot have, since requests without a version that have them
    /// go on with a version that is retired.
    fn taken(&self, version: &Arc<Version>, command: Command) -> HashSet<u64> {
        if !command.control.starts() {
            return HashSet::new();
        }
        self.draining()
            .filter(|(other, _)| !Arc::ptr_eq(other, version))
            .flat_map(|(other, _)| other.sequences().ids())
            .collect()
    }

    /// Goes through the versions that are retired and still have sequences, the newest first.
    fn draining(&self) -> impl Iterator<Item = (Arc<Version>, Arc<Loaded>)> {
        let versions = self.model.versions().into_iter().rev();
        versions.filter_map(|version| {
            let loaded = version.draining()?;
            Some((version, loaded))
        })
    }
}
