//! Other spellings of paths: none of them gets more than the path itself.

use super::{Guarded, bearer};
use crate::support::http::{Answer, SPELLINGS, send};

/// Returns whether a spelling may be that of a list, which each identity gets with what it may know.
fn is_list(path: &str) -> bool {
    let is_config = path.contains("onfig") && !path.contains("eload");
    is_config || path.contains("repository/index")
}

/// Asserts that an answer has nothing of what its sender has no right to.
fn check_less(what: &str, answer: &Answer, hidden: &[&str]) {
    let text = String::from_utf8_lossy(&answer.body);
    for hidden in hidden
        .iter()
        .chain(&["secret", "# HELP", "ovms_", "\"totals\""])
    {
        assert!(!text.contains(hidden), "{what}: {text}");
    }
}

#[test]
fn no_spelling_of_a_path_goes_around_identities_and_rights() {
    let guarded = Guarded::start("max_failures_per_minute = 0", &["--metrics_enable"]);
    for path in SPELLINGS {
        for method in ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "reload"] {
            let what = format!("{method} {path}");
            for headers in [&[][..], &[("authorization", &*bearer("wrong"))]] {
                let answer = send(&guarded.server, method, path, headers, b"{}");
                // 400 of a path with `..`, which is that of nothing.
                let is_refused =
                    answer.status == 401 || path.contains("..") && answer.status == 400;
                assert!(is_refused, "{what}: {answer:?}");
                check_less(&what, &answer, &["dummy"]);
            }
            for (name, hidden) in [
                ("none", &["dummy"][..]),
                ("runner", &["dummy"]),
                ("user", &[]),
            ] {
                let bearer = bearer(name);
                let headers = [("authorization", &*bearer)];
                let answer = send(&guarded.server, method, path, &headers, b"{}");
                let what = format!("{name}: {what}");
                let is_refused = [400, 403, 404, 405].contains(&answer.status);
                assert!(
                    is_refused || is_list(path) && answer.status == 200,
                    "{what}: {answer:?}"
                );
                check_less(&what, &answer, hidden);
            }
        }
    }
    // A reload would have read the file of identities.
    let log = guarded.server.log();
    assert!(!log.contains("rights are those of"), "{log}");
    let header = [("authorization", &*bearer("root"))];
    for (method, path) in [
        ("GET", "/metrics"),
        ("GET", "/dashboard/state"),
        ("POST", "/v1/config/reload"),
    ] {
        let answer = send(&guarded.server, method, path, &header, b"{}");
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
    }
    guarded.server.wait_log("rights are those of");
}
