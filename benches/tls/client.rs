//! Clients that send the same bytes again and again, over TLS or without, and clients that only make handshakes.

use std::sync::Arc;

use rustls::{
    CipherSuite, ClientConfig, HandshakeKind, RootCertStore,
    client::Resumption,
    crypto::{CryptoProvider, ring},
    pki_types::{CertificateDer, ServerName},
    version::TLS13,
};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::TcpStream,
};
use tokio_rustls::{TlsConnector, client::TlsStream};

/// Host that certificates are for.
pub(super) const HOST: &str = "localhost";

/// The cipher of all connections: clients offer no other.
const SUITE: CipherSuite = CipherSuite::TLS13_AES_128_GCM_SHA256;

/// Description of what all connections use.
pub(super) const NEGOTIATED: &str =
    "TLS 1.3 with AES_128_GCM, X25519, and ECDSA P-256 on both sides";

/// Settings of a client that has one version, one cipher, one group, and no session to resume.
pub(super) fn config(trusted: CertificateDer<'static>) -> Arc<ClientConfig> {
    let provider = CryptoProvider {
        cipher_suites: vec![ring::cipher_suite::TLS13_AES_128_GCM_SHA256],
        kx_groups: vec![ring::kx_group::X25519],
        ..ring::default_provider()
    };
    let mut roots = RootCertStore::empty();
    roots.add(trusted).expect("it was made a moment ago");
    let builder = ClientConfig::builder_with_provider(provider.into());
    let builder = builder.with_protocol_versions(&[&TLS13]);
    let mut config = builder
        .expect("the cipher is one of the version")
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    config.resumption = Resumption::disabled();
    config.into()
}

async fn connect(port: u16) -> TcpStream {
    let stream = TcpStream::connect(("127.0.0.1", port)).await;
    let stream = stream.expect("the server listens");
    stream.set_nodelay(true).expect("a socket has options");
    stream
}

/// Connects with a full handshake.
async fn secure(port: u16, config: &Arc<ClientConfig>) -> TlsStream<TcpStream> {
    let connector = TlsConnector::from(Arc::clone(config));
    let host = ServerName::try_from(HOST).expect("a valid name");
    let stream = connector.connect(host, connect(port).await).await;
    let stream = stream.expect("the certificate is trusted");
    let (_, session) = stream.get_ref();
    let suite = session.negotiated_cipher_suite();
    assert_eq!(suite.map(|suite| suite.suite()), Some(SUITE));
    assert_eq!(session.handshake_kind(), Some(HandshakeKind::Full));
    stream
}

/// Makes a connection of which nothing is wanted but its handshake.
pub(super) async fn handshake(port: u16, config: &Arc<ClientConfig>) {
    let mut stream = secure(port, config).await;
    stream.shutdown().await.expect("the server listens");
    // The server is done with the handshake when it closes; how it does that is its affair.
    let (tcp, _) = stream.get_mut();
    let _ = tcp.read_to_end(&mut Vec::new()).await;
}

/// Stream of a connection.
trait Wire: AsyncRead + AsyncWrite + Unpin {}

impl<T: AsyncRead + AsyncWrite + Unpin> Wire for T {}

/// A connection of HTTP/1.1 that is kept.
pub(super) struct Connection {
    wire: Box<dyn Wire>,
    answer: Vec<u8>,
}

impl Connection {
    /// Connects, with TLS if there are settings for it.
    pub(super) async fn open(port: u16, tls: Option<&Arc<ClientConfig>>) -> Self {
        let wire: Box<dyn Wire> = match tls {
            Some(config) => Box::new(secure(port, config).await),
            None => Box::new(connect(port).await),
        };
        let answer = Vec::with_capacity(4096);
        Self { wire, answer }
    }

    /// Sends a request as it stands, and reads the answer to its end.
    pub(super) async fn send(&mut self, request: &[u8]) {
        let sent = self.wire.write_all(request).await;
        sent.expect("the connection is kept");
        self.wire.flush().await.expect("the connection is kept");
        self.answer.clear();
        while self.answer.len() < end(&self.answer).unwrap_or(usize::MAX) {
            let read = self.wire.read_buf(&mut self.answer).await;
            assert_ne!(read.expect("the connection is kept"), 0, "it is answered");
        }
    }
}

/// Returns where a good answer ends, once all of its head is there.
fn end(answer: &[u8]) -> Option<usize> {
    let head = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n")?;
    let text = str::from_utf8(&answer[..head]).expect("a head is text");
    assert!(text.starts_with("HTTP/1.1 200 "), "{text}");
    let length = text.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        let is_length = name.eq_ignore_ascii_case("content-length");
        is_length.then(|| value.trim().parse::<usize>())
    });
    let length = length.expect("an answer has a length");
    Some(head + 4 + length.expect("a length is a number"))
}
