//! The `Host` of an HTTP/1 request: one, and not two or none (RFC 9112, 3.2).

use axum::http::{Request, Version, header};

use crate::error::{Error, Result};

/// Checks that a request says once whom it is for. HTTP/1.0 has no such header.
///
/// # Errors
///
/// Fails if it does not: what two servers in a row make of such a request need not be the same.
pub(super) fn check<B>(request: &Request<B>) -> Result<()> {
    let hosts = request.headers().get_all(header::HOST).iter().count();
    match hosts {
        1 => Ok(()),
        0 if request.version() == Version::HTTP_10 => Ok(()),
        hosts => Err(Error::invalid(format!(
            "a request needs one Host header; found {hosts}"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use axum::http::{Request, Version};

    use super::check;

    #[test]
    fn one_host_is_right_and_none_for_the_old_version() {
        let check = |version, hosts: &[&str]| {
            let mut request = Request::builder().version(version);
            for host in hosts {
                request = request.header("host", *host);
            }
            check(&request.body(()).unwrap()).map_err(|error| error.to_string())
        };
        assert_eq!(check(Version::HTTP_11, &["a"]), Ok(()));
        assert_eq!(check(Version::HTTP_10, &[]), Ok(()));
        insta::assert_debug_snapshot!(check(Version::HTTP_11, &[]), @r#"
        Err(
            "a request needs one Host header; found 0",
        )
        "#);
        insta::assert_debug_snapshot!(check(Version::HTTP_10, &["a", "a"]), @r#"
        Err(
            "a request needs one Host header; found 2",
        )
        "#);
    }
}
