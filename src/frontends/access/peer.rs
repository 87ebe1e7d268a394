//! The other end of a connection.

use std::{
    fmt,
    net::{IpAddr, Ipv6Addr, SocketAddr},
};

use serde::{Serialize, Serializer};

use crate::quota::{ClientKey, site_of};

/// The client of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Peer {
    /// An address, IPv4 never as a mapped one.
    Address(SocketAddr),
    /// A process of this machine, over a Unix socket.
    Unix {
        /// User id of the process.
        user: u32,
        /// Process id at the time of the connection, as far as the system has one.
        process: Option<i32>,
    },
}

/// Clients that limits count as one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Source {
    /// Clients of an IP address.
    Address(IpAddr),
    /// Clients of a user of this machine, over Unix sockets.
    User(u32),
}

/// The bits of an IPv6 address that tell networks from each other; a client may have all addresses
/// of its network.
const NETWORK: u128 = u128::MAX << 64;

impl Source {
    /// Returns the clients that it counts as one with, where it is an address of IPv6.
    pub(crate) fn network(self) -> Self {
        match self {
            Self::Address(IpAddr::V6(address)) => {
                Self::Address(Ipv6Addr::from_bits(address.to_bits() & NETWORK).into())
            }
            source => source,
        }
    }

    /// Returns the first address of the site that it is in, where it is an address of IPv6.
    pub(crate) fn site(self) -> Option<Ipv6Addr> {
        match self {
            Self::Address(address) => site_of(address),
            Self::User(_) => None,
        }
    }
}

impl From<Source> for ClientKey {
    fn from(source: Source) -> Self {
        match source.network() {
            Source::Address(address) => Self::Address(address),
            Source::User(user) => Self::User(user),
        }
    }
}

impl Peer {
    /// Makes the client of an address; a listener of both families has those of IPv4 as mapped ones.
    pub(crate) fn of_address(address: SocketAddr) -> Self {
        Self::Address(SocketAddr::new(address.ip().to_canonical(), address.port()))
    }

    /// Returns the clients that it counts as one with.
    pub(crate) fn source(self) -> Source {
        match self {
            Self::Address(address) => Source::Address(address.ip()),
            Self::Unix { user, .. } => Source::User(user),
        }
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => address.fmt(f),
            Self::Unix { user, process } => {
                write!(f, "unix:uid={user}")?;
                process.map_or(Ok(()), |process| write!(f, ",pid={process}"))
            }
        }
    }
}

impl Serialize for Peer {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => address.fmt(f),
            Self::User(user) => write!(f, "the user with id {user}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Peer;

    #[test]
    fn peers_are_addresses_or_processes() {
        let mapped = Peer::of_address("[::ffff:10.0.0.1]:80".parse().unwrap());
        assert_eq!(mapped.to_string(), "10.0.0.1:80");
        let unix = |process| Peer::Unix { user: 7, process };
        assert_eq!(unix(Some(12)).to_string(), "unix:uid=7,pid=12");
        assert_eq!(unix(None).to_string(), "unix:uid=7");
    }
}
