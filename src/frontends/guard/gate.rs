//! Admission of requests, by their heads alone.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use arc_swap::ArcSwap;
use axum::{
    http::{HeaderMap, HeaderName, HeaderValue, Request, Response, header::WWW_AUTHENTICATE},
    response::IntoResponse as _,
};
use parking_lot::Mutex;
use tonic::Status;

use super::{
    access::{Access, Sender, lacking},
    audit::{AuditLog, Outcome, Recording, Trail},
    credential::{self, EXPECTED, Schemes},
    failures::{Failures, Wait},
    rules::Rule,
};
use crate::{
    auth::{Auth, Credential, CredentialRefusal, Denial, Identified, Identity, KeyDigest, Right},
    budget::Budget,
    engine::Engine,
    error::{Error, ErrorKind},
    frontends::access::{Note, Peer, Protocol},
    quota::{ClientLimits, Clients, CountedClient},
};

/// Challenge for a client that has shown nothing, or something wrong.
const CHALLENGE: HeaderValue = HeaderValue::from_static("Bearer realm=\"ovms\"");

/// The same for what people look at: browsers ask for a password, which is the key.
const BASIC_CHALLENGE: HeaderValue = HeaderValue::from_static("Basic realm=\"ovms\"");

/// Header of browsers about the page that sends a request, which no page can set.
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// The way of every request to the engine.
#[derive(Debug)]
pub struct Gate {
    engine: Arc<Engine>,
    auth: Option<Arc<Auth>>,
    audit: Option<AuditLog>,
    failures: Failures,
    clients: Clients,
    /// Limits of each address, where there are no identities.
    limits: Option<Arc<ClientLimits>>,
}

/// Sender of the requests of a connection, with the identity of the last one.
#[derive(Debug)]
pub(in crate::frontends) struct Caller {
    peer: Peer,
    /// Names of its certificate.
    names: Vec<String>,
    recent: Mutex<Option<Recent>>,
    /// The client of its address, if addresses are counted.
    client: Option<ArcSwap<CountedClient>>,
}

/// An identity that was found.
#[derive(Debug)]
struct Recent {
    /// Generation of the rules by which it was found.
    generation: u64,
    /// Digest of its key or token; `None` if it was found by the certificate.
    digest: Option<KeyDigest>,
    found: Identified,
    /// The client that it counts for, if it has limits.
    client: Option<Arc<CountedClient>>,
}

/// An identity with the client that it counts for, if it has limits.
type Counted = (Arc<Identity>, Option<Arc<CountedClient>>);

/// Knowledge of a credential from the request before.
enum Known {
    /// The identity, which still counts.
    Counts(Counted),
    /// An identity that has to be found again: its time is over, or the rules have changed since.
    Before,
    /// None, or another credential.
    No,
}

impl Caller {
    /// Returns what the request before says of a credential.
    fn known(&self, generation: u64, digest: Option<&KeyDigest>) -> Known {
        let recent = self.recent.lock();
        let Some(recent) = recent.as_ref() else {
            return Known::No;
        };
        let is_same = match (&recent.digest, digest) {
            (Some(known), Some(digest)) => known.is(digest),
            (known, digest) => known.is_none() && digest.is_none(),
        };
        let until = recent.found.until;
        let is_over = || until.is_some_and(|until| until <= SystemTime::now());
        match is_same {
            false => Known::No,
            true if recent.generation != generation || is_over() => Known::Before,
            true => Known::Counts((Arc::clone(&recent.found.identity), recent.client.clone())),
        }
    }
}

/// A request that is admitted.
pub(in crate::frontends) struct Admitted {
    pub(in crate::frontends) access: Access,
    /// Line of the audit log, if it gets one.
    pub(in crate::frontends) recording: Option<Recording>,
}

/// A request that is not.
pub(in crate::frontends) struct Refusal {
    error: Error,
    headers: Vec<(HeaderName, HeaderValue)>,
    /// Line of the audit log, which knows its result.
    recording: Option<Box<Recording>>,
    /// The client, if it has sent too much.
    client: Option<Arc<CountedClient>>,
}

impl Refusal {
    fn of(error: Error) -> Self {
        Self {
            error,
            headers: Vec::new(),
            recording: None,
            client: None,
        }
    }

    /// Refuses a credential, or the lack of any.
    fn unknown(rule: Rule, reason: &str) -> Self {
        let text = format!("Unauthorized request - {reason}");
        let mut refusal = Self::of(Error::new(ErrorKind::Unauthorized, text));
        if rule == Rule::With(Right::Dashboard) {
            refusal.headers.push((WWW_AUTHENTICATE, BASIC_CHALLENGE));
        }
        refusal.headers.push((WWW_AUTHENTICATE, CHALLENGE));
        refusal
    }

    /// Takes what there is to be done before the answer: the line of the audit log is written, and a client that does
    /// not wait when it is refused does so here.
    pub(in crate::frontends) fn before_answer(
        &mut self,
    ) -> Option<impl Future<Output = ()> + Send + use<>> {
        let (recording, client) = (self.recording.take(), self.client.take());
        let is_due = recording.is_some() || client.is_some();
        is_due.then_some(async move {
            if let Some(recording) = recording {
                recording.end_refused().await;
            }
            if let Some(client) = client {
                client.hold().await;
            }
        })
    }

    pub(super) fn into_response(self) -> axum::response::Response {
        let mut response = self.error.into_response();
        for (name, value) in self.headers {
            response.headers_mut().append(name, value);
        }
        response
    }

    /// Makes the answer of a call.
    pub(in crate::frontends) fn into_call<B: Default>(self) -> Response<B> {
        let mut response = Status::from(self.error).into_http();
        for (name, value) in self.headers {
            response.headers_mut().append(name, value);
        }
        response
    }
}

/// Returns the kinds of credentials that count. Browsers send a password again for any page that asks them to; paths of the
/// dashboard are no use to other pages, and they say which requests are of a page of this server (Fetch Metadata).
fn schemes(rule: Rule, headers: &HeaderMap) -> Schemes {
    let is_same_origin = || {
        headers
            .get(FETCH_SITE)
            .is_some_and(|it| it == "same-origin")
    };
    match rule {
        Rule::With(Right::Dashboard) => Schemes::BearerOrBasic,
        _ if is_same_origin() => Schemes::BearerOrBasic,
        _ => Schemes::Bearer,
    }
}

impl Gate {
    /// Makes one that asks nobody and writes nothing down.
    pub fn open(engine: Arc<Engine>) -> Arc<Self> {
        let clients = Clients::new(Arc::default(), Budget::default());
        Self::new(engine, None, None, clients, None)
    }

    /// Makes one that asks for the identities of a file, if there is any, and counts the clients that have limits:
    /// identities those of the file, addresses these.
    pub fn new(
        engine: Arc<Engine>,
        auth: Option<Arc<Auth>>,
        audit: Option<AuditLog>,
        clients: Clients,
        limits: Option<Arc<ClientLimits>>,
    ) -> Arc<Self> {
        Arc::new(Self {
            engine,
            auth,
            audit,
            failures: Failures::default(),
            clients,
            limits,
        })
    }

    /// Returns whether there is anything to ask, to count, or to write down.
    pub(in crate::frontends) fn is_guarded(&self) -> bool {
        self.auth.is_some() || self.audit.is_some() || self.limits.is_some()
    }

    /// Returns whether the names of certificates count.
    pub(crate) fn reads_certificates(&self) -> bool {
        self.auth.is_some()
    }

    /// Begins a connection; `None` if nobody is asked.
    pub(in crate::frontends) fn caller(
        &self,
        peer: Peer,
        names: Vec<String>,
    ) -> Option<Arc<Caller>> {
        self.is_guarded().then(|| {
            let limits = self.limits.as_ref();
            let client = limits.map(|limits| self.clients.find(&peer.source().into(), limits));
            Arc::new(Caller {
                peer,
                names,
                recent: Mutex::new(None),
                client: client.map(ArcSwap::new),
            })
        })
    }

    /// Returns the access of the server itself, for what is done without a request.
    pub(crate) fn own(&self) -> Access {
        Access::new(&self.engine, Sender::Anyone, None, None, (None, None))
    }

    /// Returns the access of anyone, if nobody is asked.
    pub(in crate::frontends) fn unguarded(&self) -> Option<Access> {
        (!self.is_guarded()).then(|| self.own())
    }

    /// Finds who sends a request, and whether the rule of its endpoint lets it pass. The identity is among the
    /// extensions of the request from then on.
    ///
    /// # Errors
    ///
    /// Fails if it does not.
    pub(in crate::frontends) fn admit<B>(
        &self,
        rule: Rule,
        protocol: Protocol,
        caller: Option<&Arc<Caller>>,
        request: &mut Request<B>,
    ) -> Result<Admitted, Refusal> {
        let auth = self.auth.as_ref();
        let Some(caller) = caller else {
            return Err(Refusal::of(Error::internal("Internal error")));
        };
        let (sender, client) = match auth {
            None => (Sender::Anyone, self.address(caller)),
            Some(auth) if rule == Rule::Health && auth.has_open_health() => {
                (Sender::Nobody, self.address(caller))
            }
            Some(auth) => match self.identify(auth, rule, caller, request.headers()) {
                Ok((identity, client)) => {
                    if let Some(note) = Note::of(request.extensions()) {
                        note.identified(&identity);
                    }
                    request.extensions_mut().insert(Arc::clone(&identity));
                    (Sender::Known(identity), client)
                }
                Err(refusal) => {
                    auth.denials().add(match refusal.error.kind() {
                        ErrorKind::Throttled => Denial::Failures,
                        _ => Denial::Credentials,
                    });
                    return Err(self.stranger(caller, refusal));
                }
            },
        };
        let trail = || {
            let action = match protocol {
                Protocol::Grpc => request.uri().path().to_owned(),
                Protocol::Http => format!("{} {}", request.method(), request.uri().path()),
            };
            let identity = match &sender {
                Sender::Known(identity) => Some(Arc::clone(identity)),
                Sender::Anyone | Sender::Nobody => None,
            };
            Arc::new(Trail::new(identity, caller.peer, protocol, &action))
        };
        let audit = self.audit.as_ref();
        let audit = audit.filter(|_| rule == Rule::With(Right::Admin));
        let trail = audit.map(|_| trail());
        let recording = audit.zip(trail.clone());
        let recording = recording.map(|(audit, trail)| Recording::new(audit, trail));
        // Probes and scrapers are not to fail because of others at their address.
        let counts = !matches!(rule, Rule::Health | Rule::With(Right::Metrics));
        let place = client.as_ref().filter(|_| counts).map(|client| {
            self.clients.seen(client);
            client.request()
        });
        let place = match place.transpose() {
            Ok(place) => place,
            Err(error) => {
                return Err(Refusal {
                    recording: recording.map(|it| Box::new(it.refused(Outcome::limited(protocol)))),
                    client,
                    ..Refusal::of(error)
                });
            }
        };
        if let (Rule::With(right), Sender::Known(identity)) = (rule, &sender)
            && !identity.may(right)
        {
            auth.inspect(|auth| auth.denials().add(Denial::Right));
            return Err(Refusal {
                recording: recording.map(|it| Box::new(it.refused(Outcome::denied(protocol)))),
                ..Refusal::of(lacking(right))
            });
        }
        let access = Access::new(&self.engine, sender, auth, trail, (client, place));
        Ok(Admitted { access, recording })
    }

    /// Returns the client of an address, if addresses have limits. One that had no place is looked for again: there may be room
    /// by now.
    fn address(&self, caller: &Caller) -> Option<Arc<CountedClient>> {
        let (place, limits) = (caller.client.as_ref()?, self.limits.as_ref()?);
        let client = place.load_full();
        if !client.is_shared() {
            return Some(client);
        }
        let client = self.clients.find(&caller.peer.source().into(), limits);
        place.store(Arc::clone(&client));
        Some(client)
    }

    /// Returns the client of an identity that was known, as [`Self::address`] does.
    fn again(
        &self,
        caller: &Caller,
        identity: &Arc<Identity>,
        client: Option<Arc<CountedClient>>,
    ) -> Option<Arc<CountedClient>> {
        let (key, limits) = match &client {
            Some(client) if client.is_shared() => identity.client()?,
            _ => return client,
        };
        let client = self.clients.find(&key, limits);
        if let Some(recent) = &mut *caller.recent.lock()
            && Arc::ptr_eq(&recent.found.identity, identity)
        {
            recent.client = Some(Arc::clone(&client));
        }
        Some(client)
    }

    /// Counts a request of nobody that is known for its address, if addresses have limits.
    fn stranger(&self, caller: &Caller, refusal: Refusal) -> Refusal {
        let Some(client) = self.address(caller) else {
            return refusal;
        };
        self.clients.seen(&client);
        let refusal = match client.request() {
            Ok(_) => refusal,
            Err(error) => Refusal::of(error),
        };
        Refusal {
            client: Some(client),
            ..refusal
        }
    }

    /// Finds the identity of a request.
    fn identify(
        &self,
        auth: &Auth,
        rule: Rule,
        caller: &Caller,
        headers: &HeaderMap,
    ) -> Result<Counted, Refusal> {
        let secret = credential::secret(headers, schemes(rule, headers))
            .map_err(|error| Refusal::unknown(rule, &format!("{error}; {EXPECTED}")))?;
        // Before it is looked for, so that what changes meanwhile is looked for again.
        let generation = auth.generation();
        let digest = secret
            .as_ref()
            .map(|secret| KeyDigest::of(secret.as_bytes()));
        let was_known = match caller.known(generation, digest.as_ref()) {
            Known::Counts((identity, client)) => {
                let client = self.again(caller, &identity, client);
                return Ok((identity, client));
            }
            Known::Before => true,
            Known::No => false,
        };
        let found = match &secret {
            None if caller.names.is_empty() => {
                let reason = format!("there are no credentials; {EXPECTED}");
                return Err(Refusal::unknown(rule, &reason));
            }
            None => auth.identify(Credential::Certificate(&caller.names)),
            Some(secret) => {
                let most = auth.max_failures();
                let source = caller.peer.source();
                // What was right is no guess: others at its address cannot keep it out when the rules change.
                if !was_known {
                    match self.failures.wait(source, most) {
                        Some(Wait::All(wait)) => return Err(throttled(wait)),
                        // A key is looked up in no time, so that strangers keep nobody out who has one.
                        Some(Wait::Tokens(wait)) if !auth.has_key(digest.as_ref()) => {
                            return Err(throttled(wait));
                        }
                        Some(Wait::Tokens(_)) | None => {}
                    }
                }
                let found = auth.identify(Credential::Secret(secret));
                let is_guess = found.as_ref().is_err_and(CredentialRefusal::may_be_guess);
                if is_guess && was_known {
                    // From now on it is one like any other.
                    *caller.recent.lock() = None;
                }
                if is_guess && self.failures.add(source, most) {
                    tracing::warn!(
                        "{most} credentials of {source} were refused in a minute; further ones are not looked at for \
                         the rest of it; see max_failures_per_minute"
                    );
                }
                found
            }
        };
        let found = found.map_err(|error| {
            tracing::debug!("credentials of {} are refused: {error}", caller.peer);
            Refusal::unknown(rule, &error.to_string())
        })?;
        let identity = Arc::clone(&found.identity);
        let client = identity.client();
        let client = client.map(|(key, limits)| self.clients.find(&key, limits));
        *caller.recent.lock() = Some(Recent {
            generation,
            digest,
            found,
            client: client.clone(),
        });
        Ok((identity, client))
    }
}

/// Refuses an address that has to wait.
fn throttled(wait: Duration) -> Refusal {
    let seconds = wait.as_secs() + 1;
    let text =
        format!("Too many credentials of this address were refused; try again in {seconds} s");
    let wait = Duration::from_secs(seconds);
    Refusal::of(Error::new(ErrorKind::Throttled, text).retry_after(wait))
}
