//! Streams to servers over TLS.

use std::{io, sync::Arc, time::Duration};

use rustls::{ClientConfig, pki_types::ServerName};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpStream, UnixStream},
    time::timeout,
};
use tokio_rustls::{TlsConnector, client::TlsStream};

use super::{Api, address::Address, options::ClientOptions};
use crate::tls::{
    CertificateFacts, ClientTls, ClientTlsError, ClientTlsOptions, ServerIdentity, TlsProblem,
};

/// Protocols as ALPN names them.
pub(super) const GRPC: &[u8] = b"h2";
pub(super) const HTTP: &[u8] = b"http/1.1";

/// Time limit for probing an address for TLS.
const PROBE_LIMIT: Duration = Duration::from_secs(2);

/// Stream of bytes to a server, over whatever leads there.
pub(super) trait ClientStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> ClientStream for T {}

/// Connects to an address: its Unix socket, or its port, over TLS if there are settings for it.
pub(super) async fn open(
    address: Address,
    tls: Option<Arc<ClientConfig>>,
) -> io::Result<Box<dyn ClientStream>> {
    if let Some(path) = address.unix_socket() {
        return Ok(Box::new(UnixStream::connect(path).await?));
    }
    if let Some(config) = tls {
        return Ok(Box::new(connect(address, config).await?));
    }
    let stream = TcpStream::connect(address.authority()).await?;
    stream.set_nodelay(true)?;
    Ok(Box::new(stream))
}

/// Connects to the port of an address, and shakes hands.
pub(super) async fn connect(
    address: Address,
    config: Arc<ClientConfig>,
) -> io::Result<TlsStream<TcpStream>> {
    let Some((host, port)) = address.host() else {
        return Err(io::ErrorKind::Unsupported.into());
    };
    let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
    let stream = TcpStream::connect((host, port)).await?;
    stream.set_nodelay(true)?;
    TlsConnector::from(config).connect(name, stream).await
}

/// TLS of a server, as a handshake shows it.
#[derive(Debug, Clone)]
pub struct TlsEndpoint {
    /// The version, such as `TLSv1_3`.
    pub version: String,
    /// The protocol that both ends chose (ALPN), if they did.
    pub protocol: Option<String>,
    /// The certificate, and the verdict on it.
    pub identity: ServerIdentity,
    /// Contents of the certificate, if it can be read.
    pub facts: Option<CertificateFacts>,
}

impl TlsEndpoint {
    /// Shakes hands with the server of an address, whatever its certificate is; blocks while files are
    /// read.
    ///
    /// # Errors
    ///
    /// Fails if a file of the options cannot be used. The inner error is that of the connection.
    pub async fn look(
        options: &ClientOptions,
        tls: ClientTlsOptions,
    ) -> Result<io::Result<Self>, ClientTlsError> {
        let (tls, observed) = ClientTls::observing(tls)?;
        let protocol = if options.api.is_grpc() { GRPC } else { HTTP };
        let config = Arc::new(tls.config(protocol));
        let connected = timeout(options.timeout, connect(options.address.clone(), config)).await;
        let stream = match connected {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => return Ok(Err(error)),
            Err(_) => return Ok(Err(io::ErrorKind::TimedOut.into())),
        };
        let (_, session) = stream.get_ref();
        let Some(identity) = observed.seen().cloned() else {
            return Ok(Err(io::Error::other("the server has shown no certificate")));
        };
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ok(Ok(Self {
            version: session
                .protocol_version()
                .map_or_else(String::new, |version| format!("{version:?}")),
            protocol: session.alpn_protocol().map(text),
            facts: CertificateFacts::read(&identity.certificate).ok(),
            identity,
        }))
    }
}

/// Finds out whether an address that was asked without TLS has it; the address with the scheme to use, which is that
/// of the other transport where the port speaks that one alone.
pub async fn speaks_tls(options: &ClientOptions) -> Option<Address> {
    let address = options.address.with_tls(options.api)?;
    let any = ClientTlsOptions {
        insecure: true,
        ..ClientTlsOptions::default()
    };
    let mut config = ClientTls::new(any).ok()?.config(GRPC);
    // So that a server of any protocol answers.
    config.alpn_protocols.clear();
    let limit = PROBE_LIMIT.min(options.timeout);
    let tried = timeout(limit, connect(address.clone(), Arc::new(config.clone()))).await;
    let has_tls = match tried.ok()? {
        Ok(_) => true,
        // One that refuses the handshake speaks it as well.
        Err(error) => !matches!(
            TlsProblem::of(&error),
            None | Some(TlsProblem::NotTls | TlsProblem::Closed)
        ),
    };
    if !has_tls {
        return None;
    }
    let refuses = async |protocol: &[u8]| {
        let mut config = config.clone();
        config.alpn_protocols = vec![protocol.to_vec()];
        let tried = timeout(limit, connect(address.clone(), Arc::new(config))).await;
        let problem = tried.ok()?.err().and_then(|error| TlsProblem::of(&error));
        Some(problem == Some(TlsProblem::NothingInCommon))
    };
    let (own, other) = match options.api.is_grpc() {
        true => (GRPC, (HTTP, Api::KserveRest)),
        false => (HTTP, (GRPC, Api::KserveGrpc)),
    };
    let is_other = refuses(own).await == Some(true) && refuses(other.0).await == Some(false);
    match is_other {
        true => options.address.with_tls(other.1),
        false => Some(address),
    }
}
