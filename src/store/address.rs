//! Addresses of stores, as `--sequence-store` has them.

use std::{fmt, path::PathBuf, str::FromStr};

use redis::{ConnectionInfo, IntoConnectionInfo};

/// Address of a store.
#[derive(Clone, PartialEq, Eq)]
pub enum StoreAddress {
    /// `file:///FOLDER[?fsync=true]`.
    Files {
        /// The folder.
        folder: PathBuf,
        /// Makes each write reach the disk before it counts.
        fsync: bool,
    },
    /// `redis://…` or `rediss://…`, also as `valkey://…` or `valkeys://…`; several with commas between them are nodes of
    /// a cluster.
    Redis(RedisAddress),
}

/// Address of Redis or Valkey.
#[derive(Clone, PartialEq, Eq)]
pub struct RedisAddress {
    /// A server, or nodes of a cluster, as URLs.
    nodes: Vec<String>,
    /// Marks a cluster.
    pub(super) is_cluster: bool,
    /// First part of all keys.
    pub(super) prefix: String,
    /// The number of replicas that a write has to reach before it counts.
    pub(super) wait: u32,
}

impl RedisAddress {
    /// Returns the servers.
    pub(super) fn servers(&self) -> impl Iterator<Item = ConnectionInfo> {
        let servers = self.nodes.iter();
        servers.filter_map(|url| url.as_str().into_connection_info().ok())
    }
}

/// Error of an address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}; expected redis://HOST[:PORT][/DB], rediss://… or file:///FOLDER")]
pub struct StoreAddressError {
    reason: String,
    hint: Option<String>,
}

impl StoreAddressError {
    /// Returns the next step, if it is known.
    pub fn hint(&self) -> Option<String> {
        self.hint.clone()
    }
}

/// Schemes of addresses, and what each is here.
const SCHEMES: [(&str, &str); 4] = [
    ("redis", "redis"),
    ("rediss", "rediss"),
    ("valkey", "redis"),
    ("valkeys", "rediss"),
];

/// Schemes that others have for Redis, and the next step for each.
const OTHER_SCHEMES: [(&[&str], &str); 5] = [
    (
        &[
            "redis+tls",
            "redis+ssl",
            "redis-tls",
            "valkey+tls",
            "valkey+ssl",
            "tls",
        ],
        "write rediss:// for TLS",
    ),
    (
        &[
            "redis-cluster",
            "redis+cluster",
            "rediss+cluster",
            "valkey-cluster",
        ],
        "write redis://NODE1,redis://NODE2 for a cluster, or redis://NODE?cluster=true",
    ),
    (
        &["redis-sentinel", "redis+sentinel", "sentinel"],
        "Sentinel is not supported: write redis://HOST:PORT of the primary, or of an address that follows it",
    ),
    (
        &["unix", "redis+unix", "redis-socket", "valkey+unix"],
        "Redis is only reached over TCP, not over a Unix socket: write redis://localhost:PORT",
    ),
    (
        &["memory", "mem", "none"],
        "omit sequence_store to keep sequences in the memory of the server",
    ),
];

/// Returns an address with the scheme as it is known here; an error names one that is not.
fn with_known_scheme(address: &str) -> Result<String, &str> {
    let (scheme, rest) = address.split_once("://").ok_or("")?;
    let is_named = |(name, _): &&(&str, &str)| scheme.eq_ignore_ascii_case(name);
    let known = SCHEMES.iter().find(is_named);
    known
        .map(|(_, known)| format!("{known}://{rest}"))
        .ok_or(scheme)
}

/// Returns the next step for an address of something like Redis whose beginning is wrong.
fn of_redis(text: &str) -> Option<String> {
    if let Some((scheme, _)) = text.split_once("://") {
        let scheme = scheme.to_ascii_lowercase();
        let mut others = OTHER_SCHEMES.iter();
        return others
            .find(|(names, _)| names.contains(&&*scheme))
            .map(|(_, hint)| (*hint).to_owned());
    }
    // No hint repeats a password.
    if text.contains(['@', '/']) || text.is_empty() {
        return None;
    }
    let place = match text.split_once(':') {
        Some((scheme, rest)) if SCHEMES.iter().any(|(known, _)| *known == scheme) => rest,
        _ => text,
    };
    let (host, port) = place.split_once(':').unwrap_or((place, "6379"));
    let is_host = |name: &str| {
        let fits = |it: char| it.is_ascii_alphanumeric() || matches!(it, '-' | '.');
        !name.is_empty() && name.chars().all(fits)
    };
    let is_port = port.parse::<u16>().is_ok();
    // A bare word may be meant as either.
    let more = match text.contains([':', '.']) {
        true => "",
        false => ", or file:///FOLDER for a folder",
    };
    (is_host(host) && is_port).then(|| format!("write redis://{host}:{port} for Redis{more}"))
}

/// Returns the address that the path of a folder stands for.
fn of_folder(text: &str) -> Option<String> {
    let path = text.strip_prefix("file:").unwrap_or(text);
    let is_path = path.contains('/') && !path.starts_with("//") && !path.contains(['@', '?', ':']);
    let folder = is_path.then(|| std::path::absolute(path).ok()).flatten()?;
    Some(format!("write file://{} for the folder", folder.display()))
}

/// The address without user and password.
impl fmt::Display for StoreAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Files { folder, .. } => write!(f, "file://{}", folder.display()),
            Self::Redis(address) => address.fmt(f),
        }
    }
}

impl fmt::Display for RedisAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, node) in self.nodes.iter().enumerate() {
            let (scheme, rest) = node.split_once("://").unwrap_or(("redis", node));
            let host = rest.rsplit_once('@').map_or(rest, |(_, host)| host);
            let comma = if place > 0 { "," } else { "" };
            write!(f, "{comma}{scheme}://{host}")?;
        }
        Ok(())
    }
}

/// Debug form, which is that of `Display`: it has no password.
impl fmt::Debug for StoreAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl fmt::Debug for RedisAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl serde::Serialize for StoreAddress {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl FromStr for StoreAddress {
    type Err = StoreAddressError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let refused = |reason: String| StoreAddressError {
            reason,
            hint: of_folder(text).or_else(|| of_redis(text)),
        };
        let (place, query) = text.split_once('?').unwrap_or((text, ""));
        let mut options: Vec<_> = form_urlencoded::parse(query.as_bytes())
            .into_owned()
            .collect();
        let mut take = |name: &str| {
            let place = options.iter().position(|(key, _)| key == name);
            place.map(|place| options.swap_remove(place).1)
        };
        let truth = |name: &str, value: Option<String>| match value.as_deref() {
            None => Ok(None),
            Some("true") => Ok(Some(true)),
            Some("false") => Ok(Some(false)),
            Some(other) => Err(refused(format!(
                "option {name} is {other}, not true or false"
            ))),
        };
        let of_file = place.split_once("://");
        let of_file = of_file.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("file"));
        let address = if let Some((_, path)) = of_file {
            if !path.starts_with('/') {
                return Err(refused("the folder is not an absolute path".to_owned()));
            }
            let fsync = truth("fsync", take("fsync"))?.unwrap_or(false);
            let folder = path.into();
            Self::Files { folder, fsync }
        } else {
            let nodes = place.split(',').map(with_known_scheme);
            let nodes = nodes.collect::<Result<Vec<_>, _>>();
            let nodes = nodes.map_err(|scheme| {
                refused(match scheme {
                    "" => "it has no scheme".to_owned(),
                    scheme => format!("unknown scheme {scheme}://"),
                })
            })?;
            for node in &nodes {
                if node.as_str().into_connection_info().is_err() {
                    return Err(refused(
                        "it has no host, or another part is not valid".to_owned(),
                    ));
                }
            }
            let is_cluster = truth("cluster", take("cluster"))?.unwrap_or(nodes.len() > 1);
            let wait = take("wait").map_or(Ok(0), |text| {
                let number = text.parse();
                number.map_err(|_| {
                    refused(format!("option wait is {text}, not a number of replicas"))
                })
            })?;
            let prefix = take("prefix").unwrap_or_else(|| "ovms".to_owned());
            if prefix.contains(['{', '}']) {
                return Err(refused("option prefix has a brace".to_owned()));
            }
            Self::Redis(RedisAddress {
                nodes,
                is_cluster,
                prefix,
                wait,
            })
        };
        match options.first() {
            Some((name, _)) => Err(refused(format!("unknown option {name}"))),
            None => Ok(address),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{StoreAddress, StoreAddressError};

    fn parse(text: &str) -> Result<StoreAddress, StoreAddressError> {
        text.parse()
    }

    #[test]
    fn addresses_have_a_host_or_a_folder() {
        for (text, shown) in [
            ("redis://h", "redis://h"),
            ("rediss://user:pass@h:1/2?wait=1", "rediss://h:1/2"),
            ("redis://:p@a:1,redis://:p@b:2", "redis://a:1,redis://b:2"),
            ("valkey://h:1", "redis://h:1"),
            ("valkeys://user:pass@h", "rediss://h"),
            ("REDIS://h", "redis://h"),
            ("Rediss://h,VALKEYS://i", "rediss://h,rediss://i"),
            ("FILE:///var/lib/s", "file:///var/lib/s"),
            ("file:///var/lib/s?fsync=true", "file:///var/lib/s"),
        ] {
            let address = parse(text).unwrap();
            assert_eq!(address.to_string(), shown);
            assert_eq!(format!("{address:?}"), shown, "no password");
        }
        let StoreAddress::Redis(cluster) = parse("redis://a,redis://b?prefix=x").unwrap() else {
            panic!()
        };
        assert!(cluster.is_cluster && cluster.prefix == "x" && cluster.wait == 0);
        assert_eq!(cluster.servers().count(), 2);
    }

    #[test]
    fn the_path_of_a_folder_has_a_hint() {
        let hint = |text| parse(text).unwrap_err().hint();
        let expected = Some("write file:///var/lib/s for the folder".to_owned());
        assert_eq!(hint("/var/lib/s"), expected);
        assert_eq!(hint("file:/var/lib/s"), expected);
        let relative = hint("./states").unwrap();
        assert!(
            relative.starts_with("write file:///") && relative.ends_with("/states for the folder")
        );
        for other in ["", "http://h", "://h", "user:pass@h/1", "file:///x?wait=1"] {
            assert_eq!(hint(other), None, "{other}");
        }
    }

    #[test]
    fn what_others_write_for_redis_has_a_hint() {
        let hint = |text: &str| parse(text).unwrap_err().hint().unwrap_or_default();
        insta::assert_snapshot!(
            [
                "redis+tls://h", "redis+ssl://:secret@h", "redis-cluster://h:1", "redis+sentinel://h/mymaster",
                "unix:///run/redis.sock", "redis+unix:///run/redis.sock", "UNIX:///run/redis.sock",
                "redis://a,unix:///b", "memory://", "h:6379", "localhost", "redis:h", "redis:h:1", "redis", "h:x", "user:pass",
            ]
            .map(|text| format!("{text}: {}", hint(text)))
            .join("\n"),
            @"
        redis+tls://h: write rediss:// for TLS
        redis+ssl://:secret@h: write rediss:// for TLS
        redis-cluster://h:1: write redis://NODE1,redis://NODE2 for a cluster, or redis://NODE?cluster=true
        redis+sentinel://h/mymaster: Sentinel is not supported: write redis://HOST:PORT of the primary, or of an address that follows it
        unix:///run/redis.sock: Redis is only reached over TCP, not over a Unix socket: write redis://localhost:PORT
        redis+unix:///run/redis.sock: Redis is only reached over TCP, not over a Unix socket: write redis://localhost:PORT
        UNIX:///run/redis.sock: Redis is only reached over TCP, not over a Unix socket: write redis://localhost:PORT
        redis://a,unix:///b: 
        memory://: omit sequence_store to keep sequences in the memory of the server
        h:6379: write redis://h:6379 for Redis
        localhost: write redis://localhost:6379 for Redis, or file:///FOLDER for a folder
        redis:h: write redis://h:6379 for Redis
        redis:h:1: write redis://h:1 for Redis
        redis: write redis://redis:6379 for Redis, or file:///FOLDER for a folder
        h:x: 
        user:pass: 
        "
        );
        assert!(!hint("redis+ssl://:secret@h").contains("secret"));
    }

    #[test]
    fn what_is_wrong_is_reported() {
        let reason = |text| parse(text).unwrap_err().reason;
        insta::assert_snapshot!(
            [
                "", "h:6379", "http://h", "redis://", "file://x", "redis://h?wait=x",
                "redis://h?color=red", "redis://h?cluster=1", "file:///x?wait=1",
            ]
            .map(|text| format!("{text}: {}", reason(text)))
            .join("\n"),
            @"
        : it has no scheme
        h:6379: it has no scheme
        http://h: unknown scheme http://
        redis://: it has no host, or another part is not valid
        file://x: the folder is not an absolute path
        redis://h?wait=x: option wait is x, not a number of replicas
        redis://h?color=red: unknown option color
        redis://h?cluster=1: option cluster is 1, not true or false
        file:///x?wait=1: unknown option wait
        "
        );
    }
}
