//! The engine as one caller sees it.

use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::watch;

use super::audit::Trail;
use crate::{
    auth::{Auth, Denial, DenialCounts, Identity, Right},
    budget::Budget,
    engine::{
        ConfigFailure, Engine, Reload, SequenceList, Servable, ServableFacts, Target, not_found,
        stream::{Course, OpenStream, StreamHead, StreamPlace},
    },
    error::{Error, ErrorKind, Result},
    frontends::body::BodyLimits,
    graph::Graph,
    quota::{ClientPlace, CountedClient, PriorityBounds, RequestOwner},
    request::RequestOrigin,
    servable::ServableInfo,
    shared_memory::SharedMemory,
};

/// The engine as the sender of a request sees it: what its identity has no right to is as if it were not there.
///
/// Handlers have no other way to the engine, so that none can forget to ask. Models of a pipeline or graph are not
/// asked for again: the right to that is enough.
#[derive(Clone)]
pub(crate) struct Access {
    engine: Arc<Engine>,
    caller: Sender,
    /// File of identities, which a reload reads as well.
    auth: Option<Arc<Auth>>,
    /// Audit record of the request, if it gets one.
    trail: Option<Arc<Trail>>,
    /// Client of the request, if it has limits.
    client: Option<Arc<CountedClient>>,
    /// Place of the request among those of its client.
    place: Option<Arc<RequestPlace>>,
}

/// Place of a request, which counts until its last access is gone and its last run has ended; `None` once it counts as a
/// stream instead.
struct RequestPlace(Mutex<Option<Arc<ClientPlace>>>);

/// Reason why a sender has no shared memory.
#[derive(Debug, Clone)]
pub(in crate::frontends) enum NoRegions {
    /// The server has none.
    Off,
    /// The sender lacks the right; requests that need it are counted.
    Denied(Option<Arc<DenialCounts>>),
}

impl NoRegions {
    /// Counts a request that needs regions.
    pub(in crate::frontends) fn count(&self) {
        if let Self::Denied(Some(counts)) = self {
            counts.add(Denial::Right);
        }
    }
}

/// Sender of a request, as far as rights go.
#[derive(Clone)]
pub(super) enum Sender {
    /// Anyone, as there are no identities.
    Anyone,
    /// A client without credentials, which may see nothing but health.
    Nobody,
    Known(Arc<Identity>),
}

impl Access {
    pub(super) fn new(
        engine: &Arc<Engine>,
        caller: Sender,
        auth: Option<&Arc<Auth>>,
        trail: Option<Arc<Trail>>,
        (client, place): (Option<Arc<CountedClient>>, Option<ClientPlace>),
    ) -> Self {
        let place = place.map(|place| Arc::new(RequestPlace(Mutex::new(Some(Arc::new(place))))));
        Self {
            engine: Arc::clone(engine),
            caller,
            auth: auth.cloned(),
            trail,
            client,
            place,
        }
    }

    /// Returns the client of the request, if it has limits.
    pub(in crate::frontends) fn client(&self) -> Option<&Arc<CountedClient>> {
        self.client.as_ref()
    }

    /// Returns the sender as the engine knows it.
    fn sender(&self) -> RequestOwner {
        RequestOwner {
            priorities: match &self.caller {
                Sender::Known(identity) => identity.priorities(),
                Sender::Anyone | Sender::Nobody => PriorityBounds::default(),
            },
            client: self.client.clone(),
            place: self.place.as_ref().and_then(|place| place.0.lock().clone()),
        }
    }

    /// Returns bounds of bodies that count for the client as well.
    pub(in crate::frontends) fn body_limits(&self, limits: &BodyLimits) -> BodyLimits {
        match self.client().and_then(|client| client.budget()) {
            None => limits.clone(),
            Some(budget) => limits.with_budget(budget),
        }
    }

    fn may(&self, right: Right) -> bool {
        match &self.caller {
            Sender::Anyone => true,
            Sender::Nobody => false,
            Sender::Known(identity) => identity.may(right),
        }
    }

    fn may_infer(&self, name: &str) -> bool {
        match &self.caller {
            Sender::Anyone => true,
            Sender::Nobody => false,
            Sender::Known(identity) => identity.may_infer(name),
        }
    }

    fn may_describe(&self, name: &str) -> bool {
        match &self.caller {
            Sender::Anyone => true,
            Sender::Nobody => false,
            Sender::Known(identity) => identity.may_describe(name),
        }
    }

    fn denied(&self, denial: Denial) {
        if let Some(auth) = &self.auth {
            auth.denials().add(denial);
        }
    }

    /// Refuses a servable as if it were not there.
    fn hidden(&self) -> Error {
        self.denied(Denial::Servable);
        not_found()
    }

    /// Asks for a right beyond what the endpoint needs.
    fn admin(&self) -> Result<()> {
        match self.may(Right::Admin) {
            true => Ok(()),
            false => {
                self.denied(Denial::Right);
                Err(lacking(Right::Admin))
            }
        }
    }

    /// Returns whether the request has a line in the audit log.
    pub(in crate::frontends) fn is_audited(&self) -> bool {
        self.trail.is_some()
    }

    /// Records the target of the request for the audit log.
    pub(in crate::frontends) fn about(&self, target: &str) {
        if let Some(trail) = &self.trail {
            trail.about(target);
        }
    }

    /// Finds what a request is for, as [`Engine::find`].
    ///
    /// # Errors
    ///
    /// Fails as that, and as for an unknown name if the sender may not run it.
    pub(in crate::frontends) async fn find(
        &self,
        name: &str,
        version: Option<i64>,
        origin: RequestOrigin,
    ) -> Result<Target> {
        self.runs(name)?;
        let target = self.engine.find(name, version, origin).await?;
        // What anyone sends has no owner.
        if matches!(self.caller, Sender::Anyone) && self.client.is_none() {
            return Ok(target);
        }
        Ok(target.sent_by(&self.sender()))
    }

    /// Asks for the right to run a servable, before anything of a request is read but its name.
    ///
    /// # Errors
    ///
    /// Fails as for an unknown name if the sender may not run it.
    pub(in crate::frontends) fn runs(&self, name: &str) -> Result<()> {
        match self.may_infer(name) {
            true => Ok(()),
            false => Err(self.hidden()),
        }
    }

    /// Opens a stream in a place that it has, as [`Engine::open_stream`].
    ///
    /// # Errors
    ///
    /// Fails as that, and as for an unknown name if the sender may not run it.
    pub(in crate::frontends) async fn open_stream(
        &self,
        mut head: StreamHead<'_>,
        place: StreamPlace,
    ) -> Result<OpenStream> {
        self.runs(head.name)?;
        head.sender = self.sender();
        self.engine.open_stream(head, place).await
    }

    /// Finds a servable to run.
    ///
    /// # Errors
    ///
    /// Fails if there is none that the sender may run.
    pub(in crate::frontends) fn runnable(&self, name: &str) -> Result<Servable> {
        self.runs(name)?;
        self.engine.servable(name)
    }

    /// Finds a servable whose inputs, outputs, states, and figures are to be reported.
    ///
    /// # Errors
    ///
    /// Fails if there is none that the sender may know.
    pub(in crate::frontends) fn servable(&self, name: &str) -> Result<Servable> {
        match self.may_describe(name) {
            true => self.engine.servable(name),
            false => Err(self.hidden()),
        }
    }

    /// Returns the properties of what the sender may describe, see [`Engine::properties`].
    pub(in crate::frontends) fn properties(
        &self,
        facts: &ServableFacts,
    ) -> Vec<(String, Arc<str>)> {
        self.engine.properties(facts)
    }

    /// Finds a servable of which no more than its state is to be reported.
    ///
    /// # Errors
    ///
    /// Fails if there is none that the sender may run or know.
    pub(in crate::frontends) fn visible(&self, name: &str) -> Result<Servable> {
        match self.may_infer(name) || self.may_describe(name) {
            true => self.engine.servable(name),
            false => Err(self.hidden()),
        }
    }

    /// Returns everything that the sender may know, sorted by name.
    pub(in crate::frontends) fn servables(&self) -> Vec<Servable> {
        let mut servables = self.engine.servables();
        servables.retain(|servable| self.may_describe(servable.name()));
        servables
    }

    /// Returns whether a servable is configured, as opposed to one that was removed.
    pub(in crate::frontends) fn is_configured(&self, name: &str) -> bool {
        self.engine.is_configured(name)
    }

    /// Returns why the configuration is not served as it stands, for those who manage the server or look at its
    /// dashboard: errors name servables and paths.
    pub(in crate::frontends) fn config_failure(&self) -> Option<Arc<ConfigFailure>> {
        let may_know = self.may(Right::Admin) || self.may(Right::Dashboard);
        may_know.then(|| self.engine.config_failure()).flatten()
    }

    /// Returns about how much [`Access::servables`] has to look at.
    pub(in crate::frontends) fn count(&self) -> usize {
        self.engine.count()
    }

    /// Returns inputs and outputs of a graph, as [`Engine::graph_info`].
    ///
    /// # Errors
    ///
    /// Fails as that.
    pub(in crate::frontends) async fn graph_info(
        &self,
        graph: &Arc<Graph>,
    ) -> Result<ServableInfo> {
        self.engine.graph_info(graph).await
    }

    /// Counts a request that was refused early, as [`Engine::refused`]; not one that the sender may not send.
    pub(in crate::frontends) fn refused(
        &self,
        name: &str,
        version: Option<i64>,
        origin: RequestOrigin,
    ) {
        if self.may_infer(name) {
            self.engine.refused(name, version, origin);
        }
    }

    /// Returns the regions that clients have registered. Who may not register any may not use any: regions have no
    /// owners, and can be read by way of a model.
    ///
    /// # Errors
    ///
    /// Fails if there are none for the sender.
    pub(in crate::frontends) fn shared_memory(&self) -> Result<Arc<SharedMemory>, NoRegions> {
        let memory = self.engine.shared_memory().ok_or(NoRegions::Off)?;
        match self.may(Right::Admin) {
            true => Ok(memory),
            false => {
                let counts = self.auth.as_ref().map(|auth| Arc::clone(auth.denials()));
                Err(NoRegions::Denied(counts))
            }
        }
    }

    /// Saves the state of a sequence, as [`Engine::save_sequence`].
    ///
    /// # Errors
    ///
    /// Fails as that, if the sender does not manage the server, and as for an unknown name if it may not see it.
    pub(in crate::frontends) async fn save_sequence(
        &self,
        model: &str,
        version: Option<i64>,
        id: u64,
        budget: &Budget,
    ) -> Result<(Bytes, i64)> {
        self.admin()?;
        self.visible(model)?;
        self.engine.save_sequence(model, version, id, budget).await
    }

    /// Begins a sequence with a saved state, as [`Engine::restore_sequence`].
    ///
    /// # Errors
    ///
    /// Fails as that, if the sender does not manage the server, and as for an unknown name if it may not see it.
    pub(in crate::frontends) async fn restore_sequence(
        &self,
        model: &str,
        version: Option<i64>,
        id: u64,
        file: Bytes,
    ) -> Result<i64> {
        self.admin()?;
        self.visible(model)?;
        let place = self.client.as_ref().map(CountedClient::sequence);
        let place = place.transpose()?;
        self.engine
            .restore_sequence(model, version, id, (file, place))
            .await
    }

    /// Lists live sequences, as [`Engine::sequences`].
    ///
    /// # Errors
    ///
    /// Fails as that, if the sender does not manage the server, and as for an unknown name if it may not see it.
    pub(in crate::frontends) async fn sequences(
        &self,
        model: &str,
        version: Option<i64>,
        most: usize,
    ) -> Result<SequenceList> {
        self.admin()?;
        self.visible(model)?;
        self.engine.sequences(model, version, most).await
    }

    /// Ends a sequence, as [`Engine::end_sequence`].
    ///
    /// # Errors
    ///
    /// Fails as that, if the sender does not manage the server, and as for an unknown name if it may not see it.
    pub(in crate::frontends) async fn end_sequence(
        &self,
        model: &str,
        version: Option<i64>,
        id: u64,
    ) -> Result<i64> {
        self.admin()?;
        self.visible(model)?;
        self.engine.end_sequence(model, version, id).await
    }

    /// Reads the configuration again, as [`Engine::reload`], and the file of identities.
    ///
    /// # Errors
    ///
    /// Fails as that, and if the sender does not manage the server.
    pub(in crate::frontends) async fn reload(&self) -> Result<Reload> {
        self.admin()?;
        let rights = match &self.auth {
            Some(auth) => auth.reload().await,
            None => Ok(()),
        };
        let reload = self.engine.reload_after(rights).await;
        if let Some(auth) = &self.auth {
            auth.warn_of_unserved();
        }
        reload
    }

    /// Takes one of the places of streams, as [`Engine::stream_place`]; the request counts as a stream from then on.
    ///
    /// # Errors
    ///
    /// Fails as that, and if the client has as many streams as it may.
    pub(in crate::frontends) fn stream_place(&self) -> Result<StreamPlace> {
        let of_client = self.client.as_ref().map(CountedClient::stream);
        let is_stranger = matches!(self.caller, Sender::Nobody);
        let place = self
            .engine
            .stream_place(is_stranger, of_client.transpose()?)?;
        if let Some(place) = &self.place {
            place.0.lock().take();
        }
        Ok(place)
    }

    /// Returns the number of open streams.
    pub(in crate::frontends) fn streams_open(&self) -> usize {
        self.engine.streams_open()
    }

    /// Returns a receiver that says whether open streams may go on.
    pub(in crate::frontends) fn course(&self) -> watch::Receiver<Course> {
        self.engine.course()
    }

    /// Returns whether the first load is over and the server is not stopping.
    pub(in crate::frontends) fn ready(&self) -> bool {
        self.engine.ready()
    }

    /// Returns whether the server is about to end.
    pub(in crate::frontends) fn is_stopping(&self) -> bool {
        self.engine.is_stopping()
    }

    /// Returns the number of requests in flight.
    pub(in crate::frontends) fn requests_in_flight(&self) -> usize {
        self.engine.requests_in_flight()
    }

    /// Returns the number of requests that wait or run.
    pub(in crate::frontends) fn requests_pending(&self) -> usize {
        self.engine.requests_pending()
    }
}

/// Refuses a known sender.
pub(super) fn lacking(right: Right) -> Error {
    let text = format!("Forbidden request - its identity lacks the right `{right}`");
    Error::new(ErrorKind::Forbidden, text)
}
