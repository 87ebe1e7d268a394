//! Opens the ports.

use std::net::{SocketAddr, TcpListener, ToSocketAddrs};

use socket2::{Domain, Protocol, Socket, Type};

use crate::config::ServerSettings;

/// Connections that the system keeps for us while we are busy.
const BACKLOG: i32 = 1024;

/// The open ports of both sides.
#[derive(Debug, Default)]
pub struct Listeners {
    /// For gRPC.
    pub grpc: Vec<TcpListener>,
    /// For HTTP.
    pub rest: Vec<TcpListener>,
}

/// Why a port was not opened.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// Another process has it.
    #[error("Failed to start {side} server at {address}:{port} - port is busy")]
    Busy {
        /// `gRPC` or `REST`.
        side: &'static str,
        /// The address as given.
        address: String,
        /// The port.
        port: u16,
    },
    /// The address cannot be used on this machine.
    #[error("Failed to start {side} server at {address}:{port}")]
    Address {
        /// `gRPC` or `REST`.
        side: &'static str,
        /// The address as given.
        address: String,
        /// The port.
        port: u16,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
}

/// Opens every address of both sides.
///
/// # Errors
///
/// Fails at the first that cannot be opened; the others are closed again.
pub fn bind(settings: &ServerSettings) -> Result<Listeners, BindError> {
    Ok(Listeners {
        grpc: bind_all("gRPC", &settings.grpc_bind_addresses, settings.port)?,
        rest: bind_all("REST", &settings.rest_bind_addresses, settings.rest_port)?,
    })
}

fn bind_all(
    side: &'static str,
    addresses: &[String],
    port: Option<u16>,
) -> Result<Vec<TcpListener>, BindError> {
    let Some(port) = port else {
        return Ok(Vec::new());
    };
    let fault = |address: &str, source: std::io::Error| {
        let address = address.to_owned();
        if source.kind() == std::io::ErrorKind::AddrInUse {
            BindError::Busy {
                side,
                address,
                port,
            }
        } else {
            BindError::Address {
                side,
                address,
                port,
                source,
            }
        }
    };
    // A name may stand for addresses of both families.
    let mut names = Vec::with_capacity(addresses.len());
    for address in addresses {
        let found: Vec<SocketAddr> = (address.as_str(), port)
            .to_socket_addrs()
            .map_err(|source| fault(address, source))?
            .collect();
        names.push((address, found));
    }
    let wildcards: Vec<SocketAddr> = names
        .iter()
        .flat_map(|(_, found)| found)
        .filter(|address| address.ip().is_unspecified())
        .copied()
        .collect();
    let mut opened: Vec<SocketAddr> = Vec::new();
    let mut listeners = Vec::new();
    for (name, found) in names {
        let mut refused = std::io::Error::other("the name has no address");
        let mut any = false;
        for address in found {
            let covered = wildcards
                .iter()
                .any(|wildcard| *wildcard != address && wildcard.is_ipv4() == address.is_ipv4());
            if covered || opened.contains(&address) {
                any = true;
                continue;
            }
            match bind_one(address) {
                Ok(listener) => {
                    opened.push(address);
                    listeners.push(listener);
                    any = true;
                }
                Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => {
                    return Err(fault(name, error));
                }
                // Such as one of IPv6 on a machine without it; another one may do.
                Err(error) => refused = error,
            }
        }
        if !any {
            return Err(fault(name, refused));
        }
    }
    Ok(listeners)
}

fn bind_one(address: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM,
        Some(Protocol::TCP),
    )?;
    // A restart must not wait for the connections of the last run to be forgotten.
    socket.set_reuse_address(true)?;
    if address.is_ipv6() {
        // `::` and `0.0.0.0` can then be given side by side.
        socket.set_only_v6(true)?;
    }
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

#[cfg(test)]
mod tests {
    use super::{BindError, bind_all};

    /// A port that is free on every address of the machine.
    fn free_port() -> u16 {
        let anywhere = std::net::TcpListener::bind("0.0.0.0:0").unwrap();
        anywhere.local_addr().unwrap().port()
    }

    #[test]
    fn an_address_within_another_is_opened_once() {
        let open = |addresses: &[&str]| {
            let addresses: Vec<String> = addresses.iter().map(|&a| a.to_owned()).collect();
            let listeners = bind_all("REST", &addresses, Some(free_port())).unwrap();
            let mut opened: Vec<String> = listeners
                .iter()
                .map(|listener| listener.local_addr().unwrap().ip().to_string())
                .collect();
            opened.sort();
            opened
        };
        assert_eq!(
            open(&["127.0.0.1", "127.0.0.2"]),
            ["127.0.0.1", "127.0.0.2"]
        );
        assert_eq!(open(&["127.0.0.1", "0.0.0.0"]), ["0.0.0.0"]);
        assert_eq!(open(&["0.0.0.0", "::"]), ["0.0.0.0", "::"]);
        assert!(open(&["localhost"]).contains(&"127.0.0.1".to_owned()));
    }

    #[test]
    fn a_busy_port_is_named() {
        let local = ["127.0.0.1".to_owned()];
        let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = taken.local_addr().unwrap().port();
        let error = bind_all("gRPC", &local, Some(port)).unwrap_err();
        assert!(matches!(error, BindError::Busy { .. }));
        assert_eq!(
            error.to_string(),
            format!("Failed to start gRPC server at 127.0.0.1:{port} - port is busy")
        );
    }
}
