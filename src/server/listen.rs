//! Opens the ports and Unix sockets.

use std::{
    net::{Ipv4Addr, SocketAddr, TcpListener, ToSocketAddrs},
    path::{Path, PathBuf},
    sync::Arc,
};

use socket2::{Domain, Protocol, Socket, Type};

use super::{
    stream::Listener,
    tls::ServerTls,
    unix_socket::{UnixSocket, UnixSocketError},
};
use crate::{
    auth::{Auth, AuthFileError, AuthTerms},
    config::{ClientAuth, ServerSettings, TlsSettings},
    frontends::guard::AuditLog,
    tls::TlsFileError,
};

/// Connections that the system keeps for us while we are busy.
pub(super) const BACKLOG: i32 = 1024;

/// The open ports and Unix sockets of all sides.
#[derive(Debug, Default)]
pub struct Listeners {
    /// Listeners for gRPC.
    pub grpc: Vec<Listener>,
    /// Listeners for HTTP.
    pub rest: Vec<Listener>,
    /// Listeners for the HTTP requests that manage the server.
    pub management: Vec<Listener>,
    /// TLS of the ports that have it.
    pub tls: Option<Arc<ServerTls>>,
    /// Identities of clients, if they are asked for.
    pub auth: Option<Arc<Auth>>,
    /// Audit log, if there is one.
    pub audit: Option<AuditLog>,
}

/// Error of opening a port or a Unix socket.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// A port.
    #[error("Failed to start {side} server at {address}:{port}{}", if source.is_none() { " - port is busy" } else { "" })]
    Port {
        /// `gRPC`, `REST`, or `management`.
        side: &'static str,
        /// The address as given.
        address: String,
        /// The port.
        port: u16,
        /// Reason why the address cannot be used on this machine; `None` if another process has it.
        source: Option<std::io::Error>,
    },
    /// The certificate of the ports, its key, or the authorities of clients.
    #[error("Failed to start the server with TLS")]
    Tls(#[source] TlsFileError),
    /// The file of identities.
    #[error("Failed to start the server with --auth")]
    Auth(#[source] AuthFileError),
    /// The audit log.
    #[error("Failed to open the audit log {}", path.display())]
    AuditLog {
        /// The file.
        path: PathBuf,
        /// Error from the operating system.
        source: std::io::Error,
    },
    /// A Unix socket.
    #[error("Failed to start {side} server at unix:{}", path.display())]
    UnixSocket {
        /// `gRPC` or `REST`.
        side: &'static str,
        /// The path as given.
        path: PathBuf,
        /// Reason.
        source: UnixSocketError,
    },
}

impl Listeners {
    /// Returns the addresses that other machines may reach, without those of this machine for itself, and
    /// whether they have TLS.
    pub fn reachable(&self, tls: Option<&TlsSettings>) -> impl Iterator<Item = (SocketAddr, bool)> {
        let all = [
            (&self.grpc, tls.is_some_and(|tls| tls.grpc)),
            (&self.rest, tls.is_some_and(|tls| tls.rest)),
            (&self.management, tls.is_some_and(|tls| tls.management)),
        ];
        let addresses = all.into_iter().flat_map(|(listeners, has_tls)| {
            let listeners = listeners.iter();
            listeners.filter_map(move |listener| match listener {
                Listener::Tcp(listener) => Some((listener.local_addr().ok()?, has_tls)),
                Listener::Unix(_) => None,
            })
        });
        addresses.filter(|(address, _)| !address.ip().to_canonical().is_loopback())
    }
}

/// Opens every address and Unix socket of all sides.
///
/// # Errors
///
/// Fails at the first that cannot be opened; the others are closed again.
pub fn bind(settings: &ServerSettings) -> Result<Listeners, BindError> {
    let tcp = |side, addresses: &[String], port| {
        let listeners = bind_all(side, addresses, port)?.into_iter();
        Ok(listeners.map(Listener::Tcp).collect::<Vec<_>>())
    };
    let unix = |side, path: &Option<PathBuf>| {
        let opened = path
            .as_deref()
            .map(|path| unix(side, path, settings.unix_socket_mode));
        opened.transpose().map(|it| it.map(Listener::Unix))
    };
    // Before any port is open.
    let tls = settings.tls.as_ref().map(ServerTls::open).transpose();
    let tls = tls.map_err(BindError::Tls)?.map(Arc::new);
    let auth = open_auth(settings).map_err(BindError::Auth)?;
    let audit = settings.flags.audit_log.as_deref().map(|path| {
        AuditLog::open(path).map_err(|source| BindError::AuditLog {
            path: path.to_owned(),
            source,
        })
    });
    let mut listeners = Listeners {
        tls,
        auth: auth.map(Arc::new),
        audit: audit.transpose()?,
        grpc: tcp("gRPC", &settings.grpc_bind_addresses, settings.port)?,
        rest: tcp("REST", &settings.rest_bind_addresses, settings.rest_port)?,
        management: tcp(
            "management",
            &settings.management_bind_addresses,
            settings.management_port,
        )?,
    };
    let flags = &settings.flags;
    listeners
        .grpc
        .extend(unix("gRPC", &flags.grpc_unix_socket)?);
    listeners
        .rest
        .extend(unix("REST", &flags.rest_unix_socket)?);
    Ok(listeners)
}

/// Opens the file of identities, if there is one; blocks meanwhile.
///
/// # Errors
///
/// Fails if it cannot be used.
pub fn open_auth(settings: &ServerSettings) -> Result<Option<Auth>, AuthFileError> {
    let tls = settings.tls.as_ref();
    let verifying = tls.filter(|tls| tls.client_auth != ClientAuth::Off);
    let terms = AuthTerms {
        has_client_ca: verifying.is_some(),
        plain_port: verifying.and_then(|tls| {
            let grpc = (settings.port.is_some() && !tls.grpc).then_some("gRPC");
            let rest = (settings.rest_port.is_some() && !tls.rest).then_some("REST");
            grpc.or(rest)
        }),
    };
    let path = settings.flags.auth.as_deref();
    path.map(|path| Auth::open(path, terms)).transpose()
}

/// Finds what keeps Unix sockets from being opened, without opening them. A server that runs on them does
/// not: it may be the one that is to be replaced.
pub fn check_unix_sockets(settings: &ServerSettings) -> Vec<BindError> {
    let flags = &settings.flags;
    let sides = [
        ("gRPC", &flags.grpc_unix_socket),
        ("REST", &flags.rest_unix_socket),
    ];
    let errors = sides.into_iter().filter_map(|(side, path)| {
        let path = path.as_ref()?;
        match UnixSocket::check(path) {
            Ok(_) | Err(UnixSocketError::InUse) => None,
            Err(source) => Some(BindError::UnixSocket {
                side,
                path: path.clone(),
                source,
            }),
        }
    });
    errors.collect()
}

fn unix(side: &'static str, path: &Path, mode: u32) -> Result<UnixSocket, BindError> {
    UnixSocket::open(path, mode).map_err(|source| BindError::UnixSocket {
        side,
        path: path.to_owned(),
        source,
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
    let failure = |address: &str, source: std::io::Error| BindError::Port {
        side,
        address: address.to_owned(),
        port,
        source: Some(source).filter(|it| it.kind() != std::io::ErrorKind::AddrInUse),
    };
    let mut names = Vec::with_capacity(addresses.len());
    for address in addresses {
        let found: Vec<SocketAddr> = (address.as_str(), port)
            .to_socket_addrs()
            .map_err(|source| failure(address, source))?
            .collect();
        names.push((address, found));
    }
    let wildcards: Vec<SocketAddr> = names
        .iter()
        .flat_map(|(_, found)| found)
        .filter(|address| address.ip().is_unspecified())
        .copied()
        .collect();
    // What `::` alone means to others: every address of the machine. Beside an address of IPv4 it is
    // IPv6 only, or one of the two could not be opened.
    let mut addresses = names.iter().flat_map(|(_, found)| found);
    let families = match addresses.any(SocketAddr::is_ipv4) {
        true => Families::Own,
        false => Families::Both,
    };
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
            match bind_one(address, families, open) {
                Ok(listener) => {
                    opened.push(address);
                    listeners.push(listener);
                    any = true;
                }
                Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => {
                    return Err(failure(name, error));
                }
                // Such as one of IPv6 on a machine without it; another one may do.
                Err(error) => refused = error,
            }
        }
        if !any {
            return Err(failure(name, refused));
        }
    }
    Ok(listeners)
}

/// Address families of the listener of `::`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Families {
    /// IPv6.
    Own,
    /// IPv6, and IPv4 as mapped addresses of it.
    Both,
}

/// Opens an address; `open` receives whether it is IPv6 only.
fn bind_one(
    address: SocketAddr,
    families: Families,
    open: impl Fn(SocketAddr, bool) -> std::io::Result<TcpListener>,
) -> std::io::Result<TcpListener> {
    let both = families == Families::Both && address.is_ipv6() && address.ip().is_unspecified();
    match open(address, !both) {
        // Where there is no IPv6, all addresses are those of IPv4.
        Err(error) if both && error.kind() != std::io::ErrorKind::AddrInUse => {
            open((Ipv4Addr::UNSPECIFIED, address.port()).into(), true).map_err(|_| error)
        }
        opened => opened,
    }
}

fn open(address: SocketAddr, only_v6: bool) -> std::io::Result<TcpListener> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM,
        Some(Protocol::TCP),
    )?;
    // A restart must not wait for the connections of the last run to be forgotten.
    socket.set_reuse_address(true)?;
    if address.is_ipv6() {
        // Whatever the system's default is.
        socket.set_only_v6(only_v6)?;
    }
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

    use socket2::{Domain, SockRef};

    use super::{BindError, Families, bind_all, bind_one, open};

    /// A port that is free on every address of the machine.
    fn free_port() -> u16 {
        let anywhere = std::net::TcpListener::bind("0.0.0.0:0").unwrap();
        anywhere.local_addr().unwrap().port()
    }

    #[test]
    fn an_address_within_another_is_opened_once() {
        let opened = |addresses: &[&str]| {
            let addresses: Vec<String> = addresses.iter().map(|&a| a.to_owned()).collect();
            let listeners = bind_all("REST", &addresses, Some(free_port())).unwrap();
            let mut ips: Vec<String> = listeners
                .iter()
                .map(|listener| listener.local_addr().unwrap().ip().to_string())
                .collect();
            ips.sort();
            ips
        };
        assert_eq!(
            opened(&["127.0.0.1", "127.0.0.2"]),
            ["127.0.0.1", "127.0.0.2"]
        );
        assert_eq!(opened(&["127.0.0.1", "0.0.0.0"]), ["0.0.0.0"]);
        assert_eq!(opened(&["0.0.0.0", "::"]), ["0.0.0.0", "::"]);
        assert_eq!(opened(&["::"]), ["::"]);
        assert_eq!(opened(&["::1", "::"]), ["::"]);
        assert_eq!(opened(&["127.0.0.1", "::"]), ["127.0.0.1", "::"]);
        assert!(opened(&["localhost"]).contains(&"127.0.0.1".to_owned()));
    }

    #[test]
    fn all_addresses_of_ipv6_are_all_of_the_machine_unless_one_of_ipv4_is_named() {
        let only_v6 = |addresses: &[&str]| {
            let addresses: Vec<String> = addresses.iter().map(|&a| a.to_owned()).collect();
            let listeners = bind_all("REST", &addresses, Some(free_port())).unwrap();
            let mut listeners = listeners.iter().map(SockRef::from);
            let it = listeners.find(|it| it.domain().unwrap() == Domain::IPV6);
            it.unwrap().only_v6().unwrap()
        };
        assert!(!only_v6(&["::"]));
        assert!(!only_v6(&["::1", "::"]));
        for addresses in [&["::", "0.0.0.0"][..], &["::", "127.0.0.1"], &["::1"]] {
            assert!(only_v6(addresses), "{addresses:?}");
        }
    }

    #[test]
    fn without_ipv6_all_addresses_of_the_machine_are_those_of_ipv4() {
        let without = |address: SocketAddr, only_v6| match address.is_ipv6() {
            true => Err(std::io::ErrorKind::Unsupported.into()),
            false => open(address, only_v6),
        };
        let bind = |ip: Ipv6Addr, families| bind_one((ip, 0).into(), families, without);
        let opened = bind(Ipv6Addr::UNSPECIFIED, Families::Both).unwrap();
        assert_eq!(opened.local_addr().unwrap().ip(), Ipv4Addr::UNSPECIFIED);
        // `0.0.0.0` beside it would be opened twice.
        assert!(bind(Ipv6Addr::UNSPECIFIED, Families::Own).is_err());
        assert!(bind(Ipv6Addr::LOCALHOST, Families::Both).is_err());
    }

    #[test]
    fn a_port_that_is_busy_for_one_family_is_busy() {
        let taken = std::net::TcpListener::bind("0.0.0.0:0").unwrap();
        let port = taken.local_addr().unwrap().port();
        let error = bind_all("REST", &["::".to_owned()], Some(port)).unwrap_err();
        assert!(matches!(error, BindError::Port { source: None, .. }));
    }

    #[test]
    fn a_busy_port_is_named() {
        let local = ["127.0.0.1".to_owned()];
        let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = taken.local_addr().unwrap().port();
        let error = bind_all("gRPC", &local, Some(port)).unwrap_err();
        assert!(matches!(error, BindError::Port { source: None, .. }));
        assert_eq!(
            error.to_string(),
            format!("Failed to start gRPC server at 127.0.0.1:{port} - port is busy")
        );
    }
}
