//! Fuzz target of base paths in the cloud.

use super::{
    is_remote,
    location::{Location, Service},
};

/// A base path. It names one host at most, and that only of S3; a bucket; and a prefix that does not lead upward.
pub(crate) fn paths(data: &[u8]) {
    let path = String::from_utf8_lossy(data);
    match Location::parse(&path) {
        Ok(location) => {
            assert!(is_remote(&path));
            assert_eq!(location.to_string(), path);
            assert!(!location.bucket.is_empty() && !location.bucket.contains(['/', ':', '@']));
            assert!(location.prefix.parts().all(|part| part.as_ref() != ".."));
            if let Some(endpoint) = &location.endpoint {
                assert_eq!(location.service, Service::S3);
                assert!(endpoint.starts_with("http://"));
                assert!(!endpoint["http://".len()..].contains('/'), "{endpoint}");
            }
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}
