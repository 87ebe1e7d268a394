//! Options of the connection to a server, with its time limit.

use std::time::Duration;

use reqwest::header::HeaderMap;

use super::{
    address::{Address, Api},
    error::{CallPhase, ClientError},
};
use crate::tls::{ClientTls, ClientTlsError, ClientTlsOptions};

/// Options of the connection to a server.
#[derive(Debug, Clone)]
pub struct ClientOptions {
    /// The server's address.
    pub address: Address,
    /// The protocol.
    pub api: Api,
    /// The limit for the connection, and for each request.
    pub timeout: Duration,
    /// Sent with every request; see [`header`](super::header).
    pub headers: HeaderMap,
    /// Number of calls that will be in flight at once.
    pub concurrency: usize,
    /// TLS, for an address that has it; the authorities of the system if `None`.
    pub tls: Option<ClientTls>,
}

impl ClientOptions {
    /// Returns the TLS for the address; blocks while the authorities of the system are read.
    pub(super) fn tls(&self) -> Result<Option<ClientTls>, ClientTlsError> {
        match (self.address.is_tls(), &self.tls) {
            (false, _) => Ok(None),
            (true, Some(tls)) => Ok(Some(tls.clone())),
            (true, None) => ClientTls::new(ClientTlsOptions::default()).map(Some),
        }
    }

    /// Runs a step of a call within the time limit.
    pub(super) async fn within<T>(
        &self,
        step: CallPhase,
        work: impl Future<Output = Result<T, ClientError>>,
    ) -> Result<T, ClientError> {
        match tokio::time::timeout(self.timeout, work).await {
            Ok(result) => result,
            Err(_) => Err(self.timeout_in(step)),
        }
    }

    /// Makes the error of a question that has no answer when the time limit passes.
    pub fn unanswered(&self) -> ClientError {
        self.timeout_in(CallPhase::Answer)
    }

    fn timeout_in(&self, step: CallPhase) -> ClientError {
        ClientError::Timeout {
            address: self.address.clone(),
            limit: self.timeout,
            step,
        }
    }
}
