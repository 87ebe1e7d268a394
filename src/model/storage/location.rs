//! Base paths in the cloud: `s3://`, `gs://` and `az://`, a bucket or container, and a prefix.

use std::fmt;

use object_store::path::Path;

use super::StorageError;

/// The schemes of the services, as they stand in a base path.
const SCHEMES: [(&str, Service); 4] = [
    ("s3://", Service::S3),
    ("gs://", Service::Gcs),
    ("az://", Service::Azure),
    ("azfs://", Service::AzureFiles),
];

/// A service that keeps objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Service {
    /// Amazon S3, and servers that speak its protocol.
    S3,
    /// Google Cloud Storage.
    Gcs,
    /// Azure Blob Storage.
    Azure,
    /// Azure Files, which is known and not supported.
    AzureFiles,
}

/// Returns whether a base path is in the cloud, by its scheme.
pub fn is_remote(base_path: &str) -> bool {
    split(base_path).is_some()
}

/// Validates a base path in the cloud, without asking for it.
///
/// # Errors
///
/// Fails if it is none that any server could look at.
pub fn check_remote(base_path: &str) -> Result<(), StorageError> {
    Location::parse(base_path).map(drop)
}

fn split(base_path: &str) -> Option<(Service, &str)> {
    SCHEMES.iter().find_map(|(scheme, service)| {
        base_path
            .strip_prefix(scheme)
            .map(|below| (*service, below))
    })
}

/// A base path, taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Location {
    base_path: String,
    pub(super) service: Service,
    /// The server of `s3://host:port/bucket/prefix`.
    pub(super) endpoint: Option<String>,
    /// The bucket, or container.
    pub(super) bucket: String,
    /// The names of all objects begin with it.
    pub(super) prefix: Path,
}

impl Location {
    pub(super) fn parse(base_path: &str) -> Result<Self, StorageError> {
        let refuse = |reason: &str| StorageError::base_path(base_path, reason);
        let (service, mut below) = split(base_path)
            .ok_or_else(|| refuse("it begins with none of `s3://`, `gs://` and `az://`"))?;
        if service == Service::AzureFiles {
            let hint = "copy the models to a blob container and name it as az://container/path";
            return Err(refuse("Azure file shares are not supported").with_hint(hint));
        }
        if base_path.split('/').any(|part| part == "..") {
            return Err(refuse("a path with `..` is not accepted"));
        }
        let mut endpoint = None;
        if let Some((server, rest)) = below.split_once('/')
            && service == Service::S3
            && is_host_and_port(server)
        {
            endpoint = Some(format!("http://{server}"));
            below = rest;
        }
        let (bucket, prefix) = below.split_once('/').unwrap_or((below, ""));
        let allowed = |c: char| c.is_ascii_alphanumeric() || ".-_$".contains(c);
        if bucket.is_empty() {
            return Err(refuse("there is no bucket in it"));
        }
        if !bucket.chars().all(allowed) {
            return Err(refuse(&format!("`{bucket}` is not a bucket name")));
        }
        let prefix = prefix.trim_matches('/');
        let prefix =
            Path::parse(prefix).map_err(|_| refuse(&format!("`{prefix}` is not a plain path")))?;
        Ok(Self {
            base_path: base_path.to_owned(),
            service,
            endpoint,
            bucket: bucket.to_owned(),
            prefix,
        })
    }

    /// Returns the variables to set for the service's credentials.
    pub(super) fn wanted(&self) -> &'static str {
        match self.service {
            Service::S3 => "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE",
            Service::Gcs => "GOOGLE_APPLICATION_CREDENTIALS to the key file of a service account",
            Service::Azure | Service::AzureFiles => {
                "AZURE_STORAGE_CONNECTION_STRING with a key or a signature in it"
            }
        }
    }
}

fn is_host_and_port(server: &str) -> bool {
    server
        .split_once(':')
        .is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok())
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.base_path)
    }
}

#[cfg(test)]
mod tests {
    use super::{Location, Service, is_remote};

    fn parts(base_path: &str) -> (Service, Option<String>, String, String) {
        let location = Location::parse(base_path).unwrap();
        let prefix = location.prefix.to_string();
        (location.service, location.endpoint, location.bucket, prefix)
    }

    #[test]
    fn base_paths_are_taken_apart() {
        let expected = |service, endpoint: Option<&str>, bucket: &str, prefix: &str| {
            let endpoint = endpoint.map(str::to_owned);
            (service, endpoint, bucket.to_owned(), prefix.to_owned())
        };
        assert_eq!(
            parts("s3://models/vision/resnet/"),
            expected(Service::S3, None, "models", "vision/resnet")
        );
        assert_eq!(
            parts("s3://minio.local:9000/models/resnet"),
            expected(
                Service::S3,
                Some("http://minio.local:9000"),
                "models",
                "resnet"
            )
        );
        assert_eq!(
            parts("gs://models"),
            expected(Service::Gcs, None, "models", "")
        );
        assert_eq!(
            parts("az://$web/a b/%41"),
            expected(Service::Azure, None, "$web", "a b/%41")
        );
    }

    #[test]
    fn local_paths_are_not_remote() {
        for path in ["/models", "models", "s3:/models", "S3://models", "c://x"] {
            assert!(!is_remote(path), "{path}");
        }
        assert!(is_remote("azfs://share/models"));
    }

    #[test]
    fn what_cannot_be_a_base_path_says_why() {
        let refusal = |path: &str| Location::parse(path).unwrap_err().to_string();
        let all = [
            "s3://",
            "s3:///models",
            "gs://mo dels/x",
            "s3://models/../secrets",
            "s3://models/a//b",
            "azfs://share/models",
        ]
        .map(|path| format!("{path}: {}", refusal(path)))
        .join("\n");
        insta::assert_snapshot!(all, @r"
        s3://: The provided base path is invalid or doesn't exists - s3://: there is no bucket in it
        s3:///models: The provided base path is invalid or doesn't exists - s3:///models: there is no bucket in it
        gs://mo dels/x: The provided base path is invalid or doesn't exists - gs://mo dels/x: `mo dels` is not a bucket name
        s3://models/../secrets: The provided base path is invalid or doesn't exists - s3://models/../secrets: a path with `..` is not accepted
        s3://models/a//b: The provided base path is invalid or doesn't exists - s3://models/a//b: `a//b` is not a plain path
        azfs://share/models: The provided base path is invalid or doesn't exists - azfs://share/models: Azure file shares are not supported
        ");
    }
}
