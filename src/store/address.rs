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
        /// Whether each write reaches the disk before it counts.
        fsync: bool,
    },
    /// `redis://…` or `rediss://…`; several with commas between them are nodes of a cluster.
    Redis(RedisAddress),
}

/// Address of Redis or Valkey.
#[derive(Clone, PartialEq, Eq)]
pub struct RedisAddress {
    /// A server, or nodes of a cluster, as URLs.
    nodes: Vec<String>,
    /// Whether it is a cluster.
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

/// As shown: passwords are for nobody.
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
            hint: of_folder(text),
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
        let address = if let Some(path) = place.strip_prefix("file://") {
            if !path.starts_with('/') {
                return Err(refused("the folder is not an absolute path".to_owned()));
            }
            let fsync = truth("fsync", take("fsync"))?.unwrap_or(false);
            let folder = path.into();
            Self::Files { folder, fsync }
        } else {
            let nodes: Vec<String> = place.split(',').map(str::to_owned).collect();
            for node in &nodes {
                let known = ["redis://", "rediss://"];
                let scheme = known.iter().find(|scheme| node.starts_with(**scheme));
                if scheme.is_none() {
                    return Err(refused(match node.split_once("://") {
                        Some((scheme, _)) => format!("unknown scheme {scheme}://"),
                        None => "it has no scheme".to_owned(),
                    }));
                }
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
        for other in [
            "",
            "h:6379",
            "http://h",
            "user:pass@h/1",
            "file:///x?wait=1",
        ] {
            assert_eq!(hint(other), None, "{other}");
        }
    }

    #[test]
    fn what_is_wrong_is_told() {
        let told = |text| parse(text).unwrap_err().reason;
        insta::assert_snapshot!(
            [
                "", "h:6379", "http://h", "redis://", "file://x", "redis://h?wait=x",
                "redis://h?color=red", "redis://h?cluster=1", "file:///x?wait=1",
            ]
            .map(|text| format!("{text}: {}", told(text)))
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
