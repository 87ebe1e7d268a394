//! Warnings of a start with identities: what the flags beside the file mean for them.

use std::fs;

use tempfile::TempDir;

use super::{identity, key};
use crate::support::{Server, certificates::Certificates, cli, model, server::on};

/// Returns the warnings of a start with flags and variables, and its lines about keys; without ports.
fn warnings(flags: &[&str], variables: &[(&str, &str)]) -> String {
    let server = Server::start_in(variables, "dummy", flags);
    let log = server.log();
    let is_meant = |line: &&str| line.contains(" WARN ") || line.contains("/v3 only");
    let lines = log.lines().filter(is_meant);
    // Without the time.
    let lines = lines.map(|line| line.split_once(' ').unwrap().1.trim());
    let text = lines.collect::<Vec<_>>().join("\n");
    let text = text.replace(&server.port.to_string(), "PORT");
    text.replace(&server.rest_port.to_string(), "REST_PORT")
}

/// Writes a file of identities, and one with the key of `/v3`; returns both paths.
fn files(auth: &str) -> (TempDir, String, String) {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let auth = write("auth.toml", auth);
    let api_key = write("key", &format!("{}\n", key("user")));
    (folder, auth, api_key)
}

#[test]
fn a_key_of_v3_is_no_key_of_anything_else() {
    let (_folder, auth, file) = files(&identity("user", "infer = [\"*\"]"));
    insta::assert_snapshot!(warnings(&["--api_key_file", &file], &[]), @"INFO --api-key-file is for /v3 only; --auth has keys and rights for all paths");
    insta::assert_snapshot!(warnings(&[], &[("API_KEY", "x")]), @"INFO the variable API_KEY is for /v3 only; --auth has keys and rights for all paths");
    insta::assert_snapshot!(warnings(&["--auth", &auth], &[("API_KEY", "x")]), @"WARN --auth and the variable API_KEY both read the header `authorization`, so POST requests below /v3 need a key that is in both; unset API_KEY: --auth guards /v3 as well");
    assert_eq!(warnings(&["--auth", &auth], &[("API_KEY", "")]), "");
}

#[test]
fn keys_that_others_can_read_on_their_way_are_warned_of() {
    let (_folder, auth, file) = files(&identity("user", "infer = [\"*\"]"));
    let open = ["--auth", &auth, "--rest_bind_address=0.0.0.0"];
    let with_key = [&open[..], &["--api_key_file", &file]].concat();
    insta::assert_snapshot!(warnings(&with_key, &[]), @"
    WARN --auth and --api-key-file both read the header `authorization`, so POST requests below /v3 need a key that is in both; leave out --api-key-file: --auth guards /v3 as well
    WARN API keys and tokens travel to 0.0.0.0:REST_PORT in the clear; give --tls-cert, or put a proxy with TLS in front
    ");
    let made = Certificates::new();
    made.write("server", 90);
    let pair = made.server("server");
    let pair: Vec<&str> = pair.iter().map(String::as_str).collect();
    assert_eq!(warnings(&[&open[..], &pair].concat(), &[]), "");
}

#[test]
fn a_port_without_tls_knows_no_certificates() {
    let made = Certificates::new();
    made.write("server", 90);
    let (pair, ca) = (made.server("server"), made.text("ca.pem"));
    let by_name =
        "[[identity]]\nname = \"machine\"\ncertificates = [\"localhost\"]\ninfer = [\"*\"]\n";
    let (folder, auth, _) = files(by_name);
    let mut flags: Vec<&str> = pair.iter().map(String::as_str).collect();
    flags.extend(["--tls_client_ca", &ca, "--auth", &auth]);
    let with = |more: &str| {
        let text = warnings(&[&flags[..], &[more]].concat(), &[]);
        text.replace(&folder.path().display().to_string(), "DIR")
    };
    insta::assert_snapshot!(with("--grpc_tls"), @"WARN DIR/auth.toml: all identities have only certificates, but the REST port has no TLS: it would recognize none of them (give --rest-tls as well, or keys to the identities that use this port)");
    insta::assert_snapshot!(with("--rest_tls"), @"WARN DIR/auth.toml: all identities have only certificates, but the gRPC port has no TLS: it would recognize none of them (give --grpc-tls as well, or keys to the identities that use this port)");
    assert_eq!(with("--tls_min_version=1.3"), "");
    let check = || {
        let mut command = cli::command();
        command.args([
            "serve",
            "--check=syntax",
            "--model_name",
            "dummy",
            "--model_path",
        ]);
        command.arg(model("dummy")).args(on((9000, 8000)));
        cli::run(command.args(&flags).arg("--grpc_tls"))
    };
    let run = check();
    assert_eq!(run.code, Some(2), "{}", run.stderr);
    let expected = "auth.toml: all identities have only certificates, but the REST port";
    assert!(run.stderr.contains(expected), "{}", run.stderr);
    // One that has a key as well may be for that port.
    fs::write(
        &auth,
        format!("{by_name}{}", identity("user", "infer = [\"*\"]")),
    )
    .unwrap();
    assert_eq!(check().code, Some(0));
}
