//! A server anywhere: its TLS, and whether it answers.

use std::time::{Duration, SystemTime};

use ovms::{
    client::{Address, Api, Client, ClientError, ClientOptions, TlsEndpoint, speaks_tls},
    error::chain,
    tls::{CertificateFacts, ClientTls, ClientTlsOptions, TlsProblem, in_words},
};
use reqwest::header::HeaderMap;

use super::{Check, Status};
use crate::{
    error::Failure,
    infer::{
        CredentialArgs, OF_CREDENTIALS, TlsArgs, address_failure, handshake, read_address,
        tls_failure,
    },
};

/// Time limit for a response.
const LIMIT: Duration = Duration::from_secs(5);

/// Checks the server of an address, if one is given.
pub(super) fn checks(
    url: Option<&str>,
    credentials: &CredentialArgs,
    tls: &TlsArgs,
) -> Result<Vec<Check>, Failure> {
    let tls = ClientTlsOptions::from(tls.clone());
    let Some(url) = url else {
        return match tls == ClientTlsOptions::default() {
            true => Ok(Vec::new()),
            false => Err(Failure::usage("TLS flags need `--url`")),
        };
    };
    let is_rest = ["http://", "https://"].iter().any(|scheme| {
        let start = url.get(..scheme.len());
        start.is_some_and(|start| start.eq_ignore_ascii_case(scheme))
    });
    let api = if is_rest {
        Api::KserveRest
    } else {
        Api::KserveGrpc
    };
    let address = read_address(url, api).map_err(|error| address_failure(url, &error))?;
    let mut options = ClientOptions {
        address,
        api,
        timeout: LIMIT,
        headers: HeaderMap::new(),
        concurrency: 1,
        tls: None,
    };
    credentials.add_to(&mut options.headers)?;
    if options.address.is_tls() {
        let read = ClientTls::new(tls.clone());
        options.tls = Some(read.map_err(|error| tls_failure(&error))?);
    } else if tls != ClientTlsOptions::default() {
        let text = format!("TLS flags do not fit the address {url}, which has no TLS");
        return Err(Failure::usage(text).hint("use grpcs:// or https://"));
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let mut checks = Vec::new();
        if options.address.is_tls() {
            checks.push(tls_of(&options, tls).await?);
        }
        checks.push(server(&options).await);
        Ok(checks)
    })
}

async fn tls_of(options: &ClientOptions, tls: ClientTlsOptions) -> Result<Check, Failure> {
    let looked = TlsEndpoint::look(options, tls).await;
    let endpoint = match looked.map_err(|error| tls_failure(&error))? {
        Ok(endpoint) => endpoint,
        Err(error) => {
            let cause = chain(&error);
            let cause = in_words(&cause);
            return Ok(match TlsProblem::of(&error) {
                Some(problem) => failed("TLS", &problem, &options.address, &cause),
                None => {
                    let text = format!("no handshake with {}: {cause}", options.address);
                    Check::new("TLS", Status::Warn, text)
                }
            });
        }
    };
    let protocol = endpoint.protocol.as_deref().unwrap_or("no ALPN");
    let text = format!("{} at {}, {protocol}", endpoint.version, options.address);
    let days = endpoint
        .facts
        .as_ref()
        .map(|it| it.days_left(SystemTime::now()));
    let is_near = days.is_some_and(|days| days < CertificateFacts::WARN_DAYS);
    let status = match endpoint.identity.verdict.is_ok() && !is_near {
        true => Status::Ok,
        false => Status::Warn,
    };
    let mut check = Check::new("TLS", status, text);
    if let Some(facts) = &endpoint.facts {
        check = check.detail(described(facts));
    }
    if let Some(days) = days.filter(|_| is_near) {
        check = check.hint(match days < 0 {
            true => "the certificate has expired; renew it".to_owned(),
            false => format!("the certificate expires in {days} days; renew it"),
        });
    }
    if let Err(error) = &endpoint.identity.verdict {
        let report = handshake(&TlsProblem::of_tls(error), &options.address);
        check = check
            .detail(format!(
                "it would be refused: {}: {}",
                report.text,
                in_words(&error.to_string())
            ))
            .hint(report.hint);
    }
    Ok(check)
}

/// Makes the check of a failed handshake.
fn failed(name: &'static str, problem: &TlsProblem, address: &Address, cause: &str) -> Check {
    let report = handshake(problem, address);
    Check::new(name, Status::Warn, report.text)
        .detail(cause.to_owned())
        .hint(report.hint)
}

fn described(facts: &CertificateFacts) -> String {
    format!("certificate {facts}")
}

async fn server(options: &ClientOptions) -> Check {
    let address = &options.address;
    let asked = async {
        let client = Client::connect(options).await?;
        client.server_metadata().await
    };
    match asked.await {
        Ok(Some(server)) => {
            let not = if server.is_ready { "" } else { "not " };
            let (name, version) = (&server.name, &server.version);
            let text = format!("{name} {version} answers at {address}, {not}ready");
            Check::new("server", Status::Ok, text)
        }
        Ok(None) => Check::new("server", Status::Ok, format!("{address} answers")),
        Err(error) => {
            let text = in_words(&chain(&error)).into_owned();
            let check = Check::new("server", Status::Warn, text.as_str());
            match &error {
                ClientError::Unreachable { source, .. } | ClientError::Closed { source, .. } => {
                    match TlsProblem::of(&**source) {
                        Some(problem) => failed("server", &problem, address, &text),
                        None => match of_other_scheme(options).await {
                            Some(check) => check.detail(text),
                            None => check.hint("is it running, and is the address right?"),
                        },
                    }
                }
                ClientError::Refused(refusal) if refusal.is_unauthenticated() => {
                    check.hint(OF_CREDENTIALS)
                }
                _ => check,
            }
        }
    }
}

/// Makes the check of a server that speaks TLS, or another protocol than the scheme of its address; `None` of any other.
async fn of_other_scheme(options: &ClientOptions) -> Option<Check> {
    let (address, api) = (&options.address, options.api);
    let check = |text: String| Check::new("server", Status::Warn, text);
    if let Some(with) = speaks_tls(options).await {
        let check = check(format!("the server at {address} speaks TLS"));
        return Some(check.hint(format!("check it with --url {with}")));
    }
    let other = Client::other_api(options).await?;
    let check = check(format!("the server at {address} speaks {other}, not {api}"));
    if address.unix_socket().is_some() {
        return Some(check);
    }
    let scheme = match (other.is_grpc(), address.is_tls()) {
        (true, false) => "grpc",
        (true, true) => "grpcs",
        (false, false) => "http",
        (false, true) => "https",
    };
    Some(check.hint(format!(
        "check it with --url {scheme}://{}",
        address.authority()
    )))
}
