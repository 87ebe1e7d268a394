//! Identities and rights: who may use what over REST and gRPC, and what the others see.

mod audit;
mod client;
mod files;
mod grpc;
mod patterns;
mod rest;
mod spellings;
mod tokens;
mod unread;
mod warnings;

use std::{
    fs,
    path::{Path, PathBuf},
    sync::LazyLock,
};

use ring::digest::{SHA256, digest};
use serde_json::json;
use tempfile::TempDir;

use crate::support::{Server, model};

/// A server with two models, `dummy` and `secret`, and a file of identities.
pub(super) struct Guarded {
    pub(super) server: Server,
    folder: TempDir,
}

/// Identities of most tests. `none` has no rights at all.
const RIGHTS: [(&str, &str); 8] = [
    ("runner", "infer = [\"dummy\"]\nmetadata = []"),
    ("reader", "metadata = [\"dum*\"]"),
    ("user", "infer = [\"dummy\"]"),
    ("scraper", "metrics = true"),
    ("viewer", "dashboard = true\nmetadata = [\"dummy\"]"),
    (
        "root",
        "infer = [\"*\"]\nmetrics = true\nadmin = true\ndashboard = true",
    ),
    ("operator", "admin = true"),
    ("none", ""),
];

/// The server of the tests that leave it as it was: with the usual identities, any number of failures, metrics, and
/// regions of shared memory.
static SERVER: LazyLock<Server> = LazyLock::new(|| {
    let flags = ["--metrics_enable", "--shared_memory", "/ovms_"];
    let guarded = Guarded::start("max_failures_per_minute = 0", &flags);
    guarded.server.kept(Some(guarded.folder))
});

impl Guarded {
    /// Starts a server with the usual identities, and more lines before them.
    fn start(lines: &str, flags: &[&str]) -> Self {
        let identities: Vec<String> = RIGHTS
            .iter()
            .map(|(name, rights)| identity(name, rights))
            .collect();
        Self::with(&format!("{lines}\n{}", identities.concat()), flags)
    }

    /// Starts a server with a file of identities.
    pub(super) fn with(auth: &str, flags: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let config = configuration(folder.path());
        let file = folder.path().join("auth.toml");
        fs::write(&file, auth).unwrap();
        let auth = ["--auth", file.to_str().unwrap()];
        let server = Server::of_file(&config, &[&auth[..], flags].concat());
        match flags.contains(&"json") {
            true => drop(server.wait_log(r#""message":"ready""#)),
            false => server.wait_ready(),
        }
        Self { server, folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes the file of identities again.
    pub(super) fn rewrite(&self, auth: &str) {
        let next = self.path("auth.next");
        fs::write(&next, auth).unwrap();
        fs::rename(next, self.path("auth.toml")).unwrap();
    }
}

/// Writes a configuration file with both models.
fn configuration(folder: &Path) -> PathBuf {
    let path = folder.join("config.json");
    let entry = |name: &str| json!({"config": {"name": name, "base_path": model("dummy")}});
    let config = json!({"model_config_list": [entry("dummy"), entry("secret")]});
    fs::write(&path, config.to_string()).unwrap();
    path
}

/// Returns the key of an identity.
pub(super) fn key(name: &str) -> String {
    format!("ovms_key_of_{name}")
}

pub(super) fn sha256(text: &str) -> String {
    let bytes = digest(&SHA256, text.as_bytes());
    let hex: Vec<String> = bytes
        .as_ref()
        .iter()
        .map(|it| format!("{it:02x}"))
        .collect();
    format!("sha256:{}", hex.concat())
}

/// Returns the lines of an identity with its key.
pub(super) fn identity(name: &str, rights: &str) -> String {
    let digest = sha256(&key(name));
    format!("[[identity]]\nname = \"{name}\"\nkeys = [\"{digest}\"]\n{rights}\n")
}

/// Returns the header with the key of an identity.
pub(super) fn bearer(name: &str) -> String {
    format!("Bearer {}", key(name))
}
