//! Failed TLS handshakes in terms of the command line, for all protocols and commands.

use ovms::{
    client::{Address, Api, ClientOptions},
    tls::TlsProblem,
};

use crate::{
    error::{Failure, FailureKind},
    ui::listed,
};

/// Failed handshake: what is wrong, and the next step.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct HandshakeReport {
    pub(crate) text: String,
    pub(crate) hint: String,
}

/// Returns the report of a failed handshake with the server of an address.
pub(crate) fn handshake(problem: &TlsProblem, address: &Address) -> HandshakeReport {
    let plain = address.without_tls().unwrap_or_default();
    let (text, hint) = match problem {
        TlsProblem::NotTls => (
            format!("the server at {address} answers without TLS"),
            format!("its port has no TLS: use `--url {plain}`"),
        ),
        TlsProblem::Closed => (
            format!("the server at {address} closed the connection in the TLS handshake"),
            format!("if its port has no TLS, use `--url {plain}`"),
        ),
        TlsProblem::UnknownAuthority => (
            format!("the certificate of {address} is not signed by a trusted CA"),
            "`--cacert FILE` names the CA that signed it; `--insecure` accepts any \
             certificate"
                .to_owned(),
        ),
        TlsProblem::AuthorityItself => (
            format!(
                "the certificate of {address} is marked as a CA certificate, which a server certificate must not be"
            ),
            "make it with `openssl req -x509 -addext basicConstraints=critical,CA:FALSE`; \
             `--insecure` accepts any certificate"
                .to_owned(),
        ),
        TlsProblem::OtherName { names } => (
            format!(
                "the certificate of {address} is {}",
                for_names(names, address)
            ),
            "use a name of the certificate in `--url`, or a certificate for this name; \
             `--insecure` accepts any certificate"
                .to_owned(),
        ),
        TlsProblem::Expired { until } => (
            match until {
                Some(until) => format!("the certificate of {address} expired at {until}"),
                None => format!("the certificate of {address} has expired"),
            },
            "renew it on the server, or check the clock of this machine; `--insecure` accepts any \
             certificate"
                .to_owned(),
        ),
        TlsProblem::NotYetValid { since } => (
            match since {
                Some(since) => format!("the certificate of {address} is not valid before {since}"),
                None => format!("the certificate of {address} is not valid yet"),
            },
            "check the clocks of the server and of this machine; `--insecure` accepts any \
             certificate"
                .to_owned(),
        ),
        TlsProblem::UnsupportedSignature => (
            format!(
                "the certificate of {address} is signed with an algorithm that is not accepted here"
            ),
            "sign it again with SHA-256 or better: SHA-1 and MD5 are too weak; `--insecure` accepts \
             any certificate"
                .to_owned(),
        ),
        TlsProblem::OtherPurpose => (
            format!("the certificate of {address} is not a server certificate"),
            "make one with `extendedKeyUsage=serverAuth`, or without that extension; `--insecure` \
             accepts any certificate"
                .to_owned(),
        ),
        TlsProblem::CertificateRequired => (
            format!("the server at {address} requires a client certificate"),
            "give one that a CA of the server has signed: `--cert FILE` and `--key FILE`"
                .to_owned(),
        ),
        TlsProblem::CertificateRefused => (
            format!("the server at {address} rejected the client certificate"),
            "check that `--cert` is signed by a CA that the server trusts, and has not expired"
                .to_owned(),
        ),
        TlsProblem::NothingInCommon => (
            format!(
                "{address} and this client have no TLS version, cipher, or protocol (ALPN) in \
                 common"
            ),
            "check that the port is that of the API: `grpcs://` for gRPC, `https://` for REST"
                .to_owned(),
        ),
        TlsProblem::Other => (
            format!("the TLS handshake with {address} failed"),
            "the log of the server may say more".to_owned(),
        ),
    };
    HandshakeReport { text, hint }
}

/// Returns the failure for a server that is asked without TLS and has it, at the address with the scheme to use.
pub(super) fn has_tls(server: &ClientOptions, with: &str) -> Failure {
    let text = format!("the server at {} is asked over TLS", server.address);
    // An address of the other transport has its APIs.
    let is_grpc = with.starts_with("grpc");
    let api = match (is_grpc, server.api) {
        _ if is_grpc == server.api.is_grpc() => None,
        (true, Api::TfsRest) => Some(Api::TfsGrpc),
        (true, _) => Some(Api::KserveGrpc),
        (false, Api::TfsGrpc) => Some(Api::TfsRest),
        (false, _) => Some(Api::KserveRest),
    };
    let api = api.map_or_else(String::new, |api| {
        format!(", and no other `--api` than {api}")
    });
    Failure::new(FailureKind::Unreachable, text).hint(format!("write `--url {with}`{api}"))
}

/// Returns where a certificate's signer is shown, which the error of the TLS library does not say.
pub(super) fn signer(problem: &TlsProblem, address: &Address) -> Option<String> {
    (*problem == TlsProblem::UnknownAuthority)
        .then(|| format!("`ovms doctor --url {address}` shows who signed it"))
}

/// Describes the names of a certificate that is not for the host of an address.
fn for_names(names: &[String], address: &Address) -> String {
    let host = address.host().map_or("this name", |(host, _)| host);
    match names {
        [] => format!("not for {host}"),
        names => format!("for {}, not for {host}", listed(names)),
    }
}

#[cfg(test)]
mod tests {
    use ovms::{
        client::{Address, Api},
        tls::TlsProblem,
    };

    use super::handshake;

    fn text(problem: &TlsProblem) -> String {
        let address = Address::parse("https://models:8000", Api::KserveRest).unwrap();
        let report = handshake(problem, &address);
        format!("{}\nhint: {}", report.text, report.hint)
    }

    #[test]
    fn handshakes_fail_with_what_is_wrong_and_the_next_step() {
        insta::assert_snapshot!(text(&TlsProblem::NotTls), @"
        the server at https://models:8000 answers without TLS
        hint: its port has no TLS: use `--url http://models:8000`
        ");
        insta::assert_snapshot!(text(&TlsProblem::Closed), @"
        the server at https://models:8000 closed the connection in the TLS handshake
        hint: if its port has no TLS, use `--url http://models:8000`
        ");
        insta::assert_snapshot!(text(&TlsProblem::UnknownAuthority), @"
        the certificate of https://models:8000 is not signed by a trusted CA
        hint: `--cacert FILE` names the CA that signed it; `--insecure` accepts any certificate
        ");
        let names = ["a.example", "10.0.0.1"].map(str::to_owned).to_vec();
        insta::assert_snapshot!(text(&TlsProblem::OtherName { names }), @"
        the certificate of https://models:8000 is for a.example and 10.0.0.1, not for models
        hint: use a name of the certificate in `--url`, or a certificate for this name; `--insecure` accepts any certificate
        ");
        insta::assert_snapshot!(text(&TlsProblem::Expired { until: None }), @"
        the certificate of https://models:8000 has expired
        hint: renew it on the server, or check the clock of this machine; `--insecure` accepts any certificate
        ");
        insta::assert_snapshot!(text(&TlsProblem::UnsupportedSignature), @"
        the certificate of https://models:8000 is signed with an algorithm that is not accepted here
        hint: sign it again with SHA-256 or better: SHA-1 and MD5 are too weak; `--insecure` accepts any certificate
        ");
        insta::assert_snapshot!(text(&TlsProblem::OtherPurpose), @"
        the certificate of https://models:8000 is not a server certificate
        hint: make one with `extendedKeyUsage=serverAuth`, or without that extension; `--insecure` accepts any certificate
        ");
        insta::assert_snapshot!(text(&TlsProblem::CertificateRequired), @"
        the server at https://models:8000 requires a client certificate
        hint: give one that a CA of the server has signed: `--cert FILE` and `--key FILE`
        ");
    }
}
