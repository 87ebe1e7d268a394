//! Fuzz target of keys.

use super::key::KeyPrefix;
use crate::{
    error::ErrorKind,
    fuzzing::{check_error, line},
};

/// A prefix in the first line, and a key behind it. A key that is allowed is one name with the prefix, in no other folder.
pub(crate) fn keys(data: &[u8]) {
    let (prefix, key) = line(data);
    let Ok(prefix) = String::from_utf8_lossy(prefix).parse::<KeyPrefix>() else {
        return;
    };
    let shown = prefix.to_string();
    assert!(
        shown.starts_with('/') && !shown[1..].contains(['/', '\0']),
        "{shown:?}"
    );
    assert_eq!(shown.parse::<KeyPrefix>().as_ref(), Ok(&prefix));
    let key = String::from_utf8_lossy(key);
    match prefix.file_name("region", &key) {
        Ok(name) => {
            assert!(!name.is_empty() && name.len() <= 255 && name != "." && name != "..");
            assert!(!name.contains(['/', '\0']) && name.starts_with(&shown[1..]));
        }
        Err(error) => {
            check_error(&error);
            let kinds = [ErrorKind::InvalidArgument, ErrorKind::Forbidden];
            assert!(kinds.contains(&error.kind()));
        }
    }
}
