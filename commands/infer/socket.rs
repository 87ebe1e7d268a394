//! Unix sockets that are none, and names that are those of Unix sockets.

use std::{fs, os::unix::fs::FileTypeExt as _, path::Path};

use ovms::client::Address;

use crate::error::{Failure, FailureKind};

/// Returns whether there is a socket at a path.
fn is_socket(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|it| it.file_type().is_socket())
}

/// Returns the failure for an address at which something else than a Unix socket is.
pub(super) fn none(address: &Address) -> Option<Failure> {
    let path = address.unix_socket()?;
    if !path.exists() || is_socket(path) {
        return None;
    }
    let text = format!("{} is not a socket", path.display());
    let hint = "`--url unix:PATH` names the socket of `ovms serve --grpc-unix-socket PATH` or `--rest-unix-socket PATH`";
    Some(Failure::new(FailureKind::Unreachable, text).hint(hint))
}

/// Returns the hint for an address that is the path of a Unix socket without its scheme.
pub(super) fn without_scheme(url: &str) -> Option<String> {
    is_socket(Path::new(url))
        .then(|| format!("that is a Unix socket, which is written `--url unix:{url}`"))
}
