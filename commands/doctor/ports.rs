//! State of the ports: free or in use.

use std::{
    io::ErrorKind,
    net::{Ipv4Addr, TcpListener},
    time::Duration,
};

use ovms::client::{Address, Api, Client, ClientOptions, ServerMetadata};

use super::report::{Check, Status};
use crate::error::Failure;

/// Time limit for a response.
const LIMIT: Duration = Duration::from_secs(2);

/// Checks both ports.
pub(super) fn all(grpc: u16, rest: u16) -> Result<[Check; 2], Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    Ok(runtime.block_on(async {
        let (grpc, rest) = futures::join!(
            check("gRPC port", "--port", grpc, Api::KserveGrpc),
            check("REST port", "--rest_port", rest, Api::KserveRest),
        );
        [grpc, rest]
    }))
}

async fn check(name: &'static str, flag: &str, port: u16, api: Api) -> Check {
    match TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)) {
        Ok(_) => return Check::new(name, Status::Ok, format!("{port} is free")),
        Err(error) if error.kind() == ErrorKind::AddrInUse => {}
        Err(error) => {
            let text = format!("{port} cannot be opened: {error}");
            let hint = format!("serve on another port with {flag}");
            return Check::new(name, Status::Warn, text).hint(hint);
        }
    }
    let options = ClientOptions {
        address: match Address::parse(&format!("127.0.0.1:{port}"), api) {
            Ok(address) => address,
            Err(error) => return Check::new(name, Status::Warn, error.to_string()),
        },
        api,
        timeout: LIMIT,
        headers: reqwest::header::HeaderMap::new(),
        concurrency: 1,
    };
    if let Some(server) = ask(&options).await {
        let not = if server.is_ready { "" } else { "not " };
        let (name_of, version) = (&server.name, &server.version);
        let text = format!("{port} is in use: {name_of} {version} answers, {not}ready");
        return Check::new(name, Status::Ok, text);
    }
    let other = tokio::time::timeout(LIMIT * 2, Client::other_api(&options)).await;
    let text = match other.ok().flatten() {
        Some(other) => format!("{port} is in use: what answers speaks {other}, not {api}"),
        None => format!("{port} is in use by something that is no model server"),
    };
    Check::new(name, Status::Warn, text).hint(format!(
        "serve on another port with {flag}; `ss -ltnp 'sport = :{port}'` tells who has this one"
    ))
}

async fn ask(options: &ClientOptions) -> Option<ServerMetadata> {
    let asked = async {
        let client = Client::connect(options).await.ok()?;
        client.server_metadata().await.ok()?
    };
    tokio::time::timeout(LIMIT, asked).await.ok()?
}
