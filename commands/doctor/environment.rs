//! Relevant environment variables: values if they hold no secret, names alone otherwise.

use std::env;

use super::report::{Check, Status};
use crate::ui::listed;

/// Variables shown with their values.
const REPORTED: &str = "
    OPENVINO_INSTALL_DIR VIRTUAL_ENV CONDA_PREFIX LD_LIBRARY_PATH PYTHONHOME PYTHONPATH
    OVMS_URL OVMS_API OVMS_CONFIG OVMS_TIMEOUT OVMS_MODEL_CACHE OVMS_MODEL_REPOSITORY_PATH
    OVMS_GRAPH_QUEUE_MAX_SIZE GRPC_SERVERS XDG_CACHE_HOME XDG_CONFIG_HOME XDG_DATA_HOME TMPDIR
    OMP_NUM_THREADS NO_PROXY no_proxy NO_COLOR SSL_CERT_FILE SSL_CERT_DIR TERM SHELL COLUMNS
";

/// Variables with possibly secret values.
const HIDDEN: &str =
    "API_KEY OVMS_HEADER HTTP_PROXY http_proxy HTTPS_PROXY https_proxy ALL_PROXY all_proxy";

/// Prefixes of the variables of each cloud.
const CLOUDS: [(&str, &[&str]); 3] = [
    ("S3", &["AWS_", "S3_"]),
    (
        "Google Cloud",
        &["GOOGLE_", "STORAGE_EMULATOR_HOST", "CLOUD_STORAGE_"],
    ),
    ("Azure", &["AZURE_"]),
];

/// Checks the credentials of clouds, and all other variables.
pub(super) fn all() -> [Check; 2] {
    let set = |name: &&str| env::var_os(name).is_some_and(|value| !value.is_empty());
    let reported = REPORTED.split_whitespace().filter(set).map(|name| {
        let value = env::var(name).unwrap_or_else(|_| "(no text)".to_owned());
        format!("{name}={}", harmless(&value))
    });
    let hidden = HIDDEN.split_whitespace().filter(set);
    let hidden = hidden.map(|name| format!("{name} (set, not shown)"));
    let variables: Vec<String> = reported.chain(hidden).collect();
    let variables = match variables.split_first() {
        None => Check::new("variables", Status::Note, "none that matter are set"),
        Some((first, rest)) => {
            let check = Check::new("variables", Status::Note, first.clone());
            rest.iter().cloned().fold(check, Check::detail)
        }
    };
    let names = env::vars_os().filter(|(_, value)| !value.is_empty());
    let names = names.filter_map(|(name, _)| name.into_string().ok());
    let mut names: Vec<String> = names.collect();
    names.sort();
    [clouds(&names), variables]
}

/// Lists the set variables of each cloud.
fn clouds(names: &[String]) -> Check {
    let found = CLOUDS.iter().filter_map(|(cloud, prefixes)| {
        let is_one = |name: &&String| prefixes.iter().any(|prefix| name.starts_with(prefix));
        let names: Vec<&String> = names.iter().filter(is_one).collect();
        (!names.is_empty()).then(|| format!("{cloud}: {}", listed(&names)))
    });
    let found: Vec<String> = found.collect();
    let text = match found.is_empty() {
        true => "no variables of S3, Google Cloud or Azure are set".to_owned(),
        false => format!("variables are set (values not shown): {}", found.join("; ")),
    };
    Check::new("clouds", Status::Note, text)
}

/// Returns a value, unless it may contain a password.
fn harmless(value: &str) -> &str {
    match value.contains('@') {
        true => "(set, not shown)",
        false => value,
    }
}

#[cfg(test)]
mod tests {
    use super::{clouds, harmless};

    #[test]
    fn values_with_a_password_are_not_shown() {
        assert_eq!(harmless("http://ann:secret@host"), "(set, not shown)");
        assert_eq!(harmless("localhost:9000"), "localhost:9000");
    }

    #[test]
    fn clouds_are_reported_by_the_names_of_their_variables() {
        let names = ["AWS_REGION", "AZURE_TENANT_ID", "AWS_PROFILE", "HOME"];
        let names: Vec<String> = names.map(str::to_owned).into();
        let check = format!("{:?}", clouds(&names));
        let text = "S3: AWS_REGION and AWS_PROFILE; Azure: AZURE_TENANT_ID";
        assert!(check.contains(text), "{check}");
    }
}
