//! Flags and files of TLS that cannot be used: the messages, the next steps, and exit codes.

use std::fs;

use super::tls::start;
use crate::support::{certificates::Certificates, cli, model};

/// Returns the text of a start that fails, without the folder.
fn refused(made: &Certificates, flags: &[&str]) -> String {
    let mut command = cli::command();
    command
        .args(["serve", "--model_name", "dummy", "--model_path"])
        .arg(model("dummy"))
        .args(["--port", "1", "--grpc_bind_address", "127.0.0.1"])
        .args(
            flags
                .iter()
                .map(|flag| flag.replace("DIR", &made.folder.path().display().to_string())),
        );
    let text = cli::run(&mut command).failure();
    text.replace(&made.folder.path().display().to_string(), "DIR")
}

#[test]
fn flags_that_contradict_each_other_are_usage_errors() {
    let made = Certificates::new();
    insta::assert_snapshot!(refused(&made, &["--tls_cert", "a.pem"]), @"
    exit 64
    tls_cert is set but tls_key is not set
    hint: give --tls-key FILE with the private key of the certificate, in PEM
    ");
    insta::assert_snapshot!(refused(&made, &["--tls_key", "a.key"]), @"
    exit 64
    tls_key is set but tls_cert is not set
    hint: give --tls-cert FILE with the certificate of the key, in PEM
    ");
    insta::assert_snapshot!(refused(&made, &["--grpc_tls"]), @"
    exit 64
    grpc_tls is set but tls_cert is not set
    hint: give --tls-cert FILE and --tls-key FILE, to enable TLS, or omit --grpc-tls
    ");
    for (flag, name) in [
        ("--tls_poll_wait_seconds=1", "tls_poll_wait_seconds"),
        (
            "--tls_handshake_timeout_seconds=1",
            "tls_handshake_timeout_seconds",
        ),
        ("--max_tls_handshakes=1", "max_tls_handshakes"),
    ] {
        let said = refused(&made, &[flag]);
        let hint = format!("to enable TLS, or omit --{}", name.replace('_', "-"));
        let expected = format!("exit 64\n{name} is set but tls_cert is not set\n");
        assert!(
            said.starts_with(&expected) && said.contains(&hint),
            "{said}"
        );
    }
    let pair = ["--tls_cert", "a.pem", "--tls_key", "a.key"];
    let with = |more: &[&str]| refused(&made, &[&pair, more].concat());
    insta::assert_snapshot!(with(&["--tls_client_auth", "required"]), @"
    exit 64
    tls_client_auth needs CA certificates, but tls_client_ca is not set
    hint: give --tls-client-ca FILE with the CA of the client certificates, or --tls-client-auth off
    ");
    insta::assert_snapshot!(with(&["--rest_tls"]), @"
    exit 64
    rest_tls is set but rest_port is not set
    hint: give --rest-port, or leave out --rest-tls
    ");
    insta::assert_snapshot!(with(&["--grpc_tls=false"]), @"
    exit 64
    tls_cert is set but no port has TLS
    hint: give a --port or --rest-port, and leave out --grpc-tls=false and --rest-tls=false; Unix sockets have no TLS
    ");
}

#[test]
fn files_that_cannot_be_used_are_named_with_the_reason() {
    let made = Certificates::new();
    made.write("a", 90);
    made.write("b", 90);
    let key = fs::read_to_string(made.path("a.key")).unwrap();
    fs::write(
        made.path("locked.key"),
        key.replace("PRIVATE", "ENCRYPTED PRIVATE"),
    )
    .unwrap();
    fs::write(made.path("empty"), "").unwrap();
    let with = |cert: &str, key: &str, more: &[&str]| {
        let pair = ["--tls_cert", cert, "--tls_key", key];
        refused(&made, &[&pair, more].concat())
    };
    insta::assert_snapshot!(with("DIR/none", "DIR/a.key", &[]), @"
    exit 1
    error: Failed to start the server with TLS
      caused by: cannot use --tls-cert DIR/none
      caused by: cannot read the file
      caused by: No such file or directory (os error 2)
    hint: check the path
    ");
    insta::assert_snapshot!(with("DIR/empty", "DIR/a.key", &[]), @"
    exit 1
    error: Failed to start the server with TLS
      caused by: cannot use --tls-cert DIR/empty
      caused by: found no certificate in PEM form, expected `-----BEGIN CERTIFICATE-----`
    hint: a certificate in DER form becomes PEM by `openssl x509 -inform DER -in DIR/empty`
    ");
    insta::assert_snapshot!(with("DIR/a.pem", "DIR/b.key", &[]), @"
    exit 1
    error: Failed to start the server with TLS
      caused by: cannot use --tls-key DIR/b.key
      caused by: the key is not that of the certificate in DIR/a.pem
    hint: give the key that the certificate was requested with
    ");
    insta::assert_snapshot!(with("DIR/a.pem", "DIR/locked.key", &[]), @"
    exit 1
    error: Failed to start the server with TLS
      caused by: cannot use --tls-key DIR/locked.key
      caused by: found an encrypted private key, expected one without a password
    hint: `openssl pkey -in DIR/locked.key` writes it without its password
    ");
    insta::assert_snapshot!(with("DIR/a.pem", "DIR/a.key", &["--tls_client_ca", "DIR/a.key"]), @"
    exit 1
    error: Failed to start the server with TLS
      caused by: cannot use --tls-client-ca DIR/a.key
      caused by: found no certificate in PEM form, expected `-----BEGIN CERTIFICATE-----`
    hint: DIR/a.key has a private key; are the files of certificate and key swapped?
    ");
}

#[test]
fn authorities_are_of_no_use_beside_any_certificate() {
    for command in ["infer", "bench", "doctor"] {
        let flags = [
            "--url",
            "grpcs://localhost:1",
            "--cacert",
            "ca.pem",
            "--insecure",
        ];
        let run = cli::run(cli::command().arg(command).args(flags));
        assert_eq!(run.code, Some(64), "{command}: {}", run.stderr);
        let reason = "'--cacert <FILE>' cannot be used with '--insecure'";
        assert!(run.stderr.contains(reason), "{command}: {}", run.stderr);
    }
}

#[test]
fn a_reload_with_a_broken_pair_says_so_and_takes_one_that_fits() {
    let made = Certificates::new();
    made.write("server", 90);
    made.write("stranger", 90);
    let ca = made.text("ca.pem");
    let server = start(&made, &["--metrics_enable", "--tls_poll_wait_seconds", "0"]);
    let curl = |path: &str, more: &[&str]| {
        let url = format!("https://localhost:{}{path}", server.rest_port);
        let mut command = cli::plain(std::process::Command::new("curl"));
        command.args(["-sS", "--max-time", "20", "--cacert", &ca, &url]);
        let run = cli::run(command.args(more));
        assert_eq!(run.code, Some(0), "{}", run.stderr);
        run.text()
            .replace(&made.folder.path().display().to_string(), "DIR")
    };
    let reload = || curl("/v1/config/reload", &["-X", "POST", "-w", "\n%{http_code}"]);
    let unchanged = reload();
    assert!(unchanged.ends_with("\n200"), "{unchanged}");
    let key = fs::read(made.path("server.key")).unwrap();
    fs::copy(made.path("stranger.key"), made.path("server.key")).unwrap();
    for _ in 0..2 {
        let refused = reload();
        let (start, rest) = refused.split_once(" until ").unwrap();
        let (_, reason) = rest.split_once(" - ").unwrap();
        insta::allow_duplicates! {
            insta::assert_snapshot!(format!("{start} until TIME - {reason}"), @r#"
            {"error":"TLS keeps using the certificate that is valid until TIME - cannot use --tls-key DIR/server.key: the key is not that of the certificate in DIR/server.pem"}
            412
            "#);
        }
    }
    server.wait_log("TLS keeps using the certificate that is valid until");
    let page = curl("/metrics", &[]);
    let counted = |line: &str| assert!(page.lines().any(|it| it == line), "{line}: {page}");
    counted(r#"ovms_reloads{result="fail"} 2"#);
    counted(r#"ovms_file_reloads{file="tls",result="fail"} 2"#);
    fs::write(made.path("server.key"), key).unwrap();
    let again = reload();
    assert!(again.ends_with("\n200"), "{again}");
    made.write("server", 30);
    let renewed = reload();
    assert!(renewed.ends_with("\n200"), "{renewed}");
    server.wait_log("TLS has a new certificate");
}
