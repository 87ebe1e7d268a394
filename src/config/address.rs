//! Lists of addresses and host names to listen on.

use std::net::{Ipv4Addr, Ipv6Addr};

/// Reads a comma-separated list; `None` if one of them is no address and no host name.
pub(super) fn parse_list(text: &str) -> Option<Vec<String>> {
    let mut addresses: Vec<String> = text
        .split(',')
        .map(|part| {
            let part = part.trim();
            let bare = part.strip_prefix('[').and_then(|p| p.strip_suffix(']'));
            let valid = match bare {
                Some(address) => address.parse::<Ipv6Addr>().is_ok(),
                None => part.parse::<Ipv6Addr>().is_ok() || is_host(part),
            };
            valid.then(|| bare.unwrap_or(part).to_owned())
        })
        .collect::<Option<_>>()?;
    // One that is given twice could not be opened twice.
    let mut seen = std::collections::HashSet::new();
    addresses.retain(|address| seen.insert(address.clone()));
    Some(addresses)
}

/// An IPv4 address, or a name of letters, digits and hyphens between dots (RFC 1123).
fn is_host(text: &str) -> bool {
    if text.chars().all(|c| c.is_ascii_digit() || c == '.') {
        return text.parse::<Ipv4Addr>().is_ok();
    }
    text.len() <= 253
        && text.split('.').all(|label| {
            !label.is_empty()
                && label.len() <= 63
                && !label.starts_with('-')
                && !label.ends_with('-')
                && label.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
        })
}

#[cfg(test)]
mod tests {
    use super::parse_list;

    #[test]
    fn addresses_and_names_are_reported_from_nonsense() {
        assert_eq!(
            parse_list("127.0.0.1, ::1,[::],my-host.local").unwrap(),
            ["127.0.0.1", "::1", "::", "my-host.local"]
        );
        assert_eq!(parse_list("::1,[::1],::1").unwrap(), ["::1"]);
        for wrong in [
            "",
            "1.2.3",
            "256.1.1.1",
            "a,,b",
            "-a",
            "a_b",
            "::1::",
            "[a]",
        ] {
            assert_eq!(parse_list(wrong), None, "{wrong}");
        }
    }
}
