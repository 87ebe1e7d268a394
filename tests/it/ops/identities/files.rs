//! The file of identities: at the start, when it changes, and when it is wrong.

use std::{fs, path::Path};

use super::{Guarded, bearer, configuration, identity, key, sha256};
use crate::support::{Server, certificates::Certificates, cli, eventually, http::send, model};

fn status(server: &Server, name: &str, path: &str) -> u16 {
    let header = [("authorization", &*bearer(name))];
    send(server, "GET", path, &header, b"").status
}

#[test]
fn the_file_is_followed_and_a_faulty_one_is_not() {
    let flags = ["--metrics_enable", "--file_system_poll_wait_seconds", "1"];
    let guarded = Guarded::start("", &flags);
    let server = &guarded.server;
    assert_eq!(status(server, "root", "/v2/models/secret"), 200);
    assert_eq!(status(server, "new", "/v2"), 401);
    guarded.rewrite("[[identity]]\nname = \"new\"\nkeys = [\"x\"]\n");
    let said = server.wait_log("rights stay as they were");
    assert!(
        said.contains("auth.toml:3:9: found a key that is not a SHA-256 digest"),
        "{said}"
    );
    assert_eq!(status(server, "root", "/v2/models/secret"), 200);
    let header = [("authorization", &*bearer("root"))];
    let page = send(server, "GET", "/metrics", &header, b"").text();
    let line = |page: &str, start: &str| {
        let mut lines = page.lines();
        lines.any(|line| line.starts_with(start) && !line.ends_with(" 0"))
    };
    assert!(
        line(&page, r#"ovms_file_reloads{file="auth",result="fail"}"#),
        "{page}"
    );
    guarded.rewrite(&identity("new", "metadata = [\"secret\"]"));
    server.wait_log("rights are those of");
    eventually("the new rights", || {
        (status(server, "new", "/v2") == 200).then_some(())
    });
    assert_eq!(status(server, "root", "/v2"), 401);
    assert_eq!(status(server, "new", "/v2/models/secret"), 200);
    assert_eq!(status(server, "new", "/v2/models/dummy"), 404);
    fs::remove_file(guarded.path("auth.toml")).unwrap();
    server.wait_log("cannot read --auth");
    assert_eq!(status(server, "new", "/v2"), 200);
}

#[test]
fn a_reload_reads_the_file_too_and_says_so_if_it_cannot_be_used() {
    // The audit log may be stdout.
    let flags = [
        "--metrics_enable",
        "--file_system_poll_wait_seconds=0",
        "--audit_log=-",
    ];
    let guarded = Guarded::start("", &flags);
    let server = &guarded.server;
    let header = [("authorization", &*bearer("root"))];
    let reload = || send(server, "POST", "/v1/config/reload", &header, b"");
    let error = || {
        let folder = guarded.folder.path().display().to_string();
        reload().error().replace(&folder, "FOLDER")
    };
    let counts = || {
        let page = send(server, "GET", "/metrics", &header, b"").text();
        let lines = page.lines().filter(|line| line.contains("reloads{"));
        lines.collect::<Vec<_>>().join("\n")
    };
    guarded.rewrite("[[identity]]\nname = \"new\"\nkeys = [\"x\"]\n");
    insta::assert_snapshot!(error(), @"412: Rights stay as they were - cannot use --auth FOLDER/auth.toml: FOLDER/auth.toml:3:9: found a key that is not a SHA-256 digest (expected sha256: and 64 hexadecimal digits, as `ovms key new` prints them)");
    server.wait_log("rights stay as they were: ");
    insta::assert_snapshot!(counts(), @r#"
    ovms_reloads{result="success"} 0
    ovms_reloads{result="fail"} 1
    ovms_file_reloads{file="auth",result="success"} 0
    ovms_file_reloads{file="auth",result="fail"} 1
    "#);
    fs::remove_file(guarded.path("auth.toml")).unwrap();
    insta::assert_snapshot!(error(), @"412: Rights stay as they were - cannot read --auth FOLDER/auth.toml: No such file or directory (os error 2)");
    // The old ones still count.
    assert_eq!(status(server, "root", "/v2/models/secret"), 200);
    assert_eq!(status(server, "new", "/v2"), 401);

    let root = identity("root", "admin = true");
    guarded.rewrite(&format!("{root}{}", identity("new", "")));
    assert_eq!(status(server, "new", "/v2"), 401);
    let reloaded = reload();
    assert_eq!(reloaded.status, 200, "{}", reloaded.text());
    assert_eq!(status(server, "new", "/v2"), 200);
    assert_eq!(status(server, "root", "/v2/models/dummy"), 404);
    let audited = server.wait_log("\"result\":\"done\"");
    let action = "\"action\":\"POST /v1/config/reload\"";
    assert!(audited.contains(action), "{audited}");
    assert!(!Path::new("-").exists());

    // The configuration is broken as well: the answer has both.
    guarded.rewrite("[");
    fs::write(guarded.path("config.json"), "{").unwrap();
    let both = reload();
    assert_eq!(both.status, 412);
    let error = both.error();
    assert!(error.contains("Reloading config file failed."), "{error}");
    assert!(error.contains("; Rights stay as they were - "), "{error}");
}

/// Starts a server that does not start; returns the failure without what differs.
fn refused(text: Option<&str>, flags: &[&str]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("auth.toml");
    if let Some(text) = text {
        fs::write(&path, text).unwrap();
    }
    let socket = folder.path().join("socket");
    let run = cli::run(
        cli::command()
            .args(["serve", "--model-name", "dummy", "--model-path"])
            .arg(model("dummy"))
            .arg("--grpc-unix-socket")
            .arg(&socket)
            .arg("--auth")
            .arg(&path)
            .args(flags),
    );
    run.failure()
        .replace(&folder.path().display().to_string(), "FOLDER")
}

#[test]
fn a_file_that_cannot_be_used_ends_the_start() {
    let says = |said: &str, expected: &[&str]| {
        let found = expected.iter().all(|it| said.contains(it));
        assert!(found, "{expected:?}: {said}");
    };
    let missing = [
        "exit 1\n",
        "cannot read --auth FOLDER/auth.toml",
        "hint: check the path",
    ];
    says(&refused(None, &[]), &missing);
    let wrong = "[[identity]]\nname = \"a\"\ncertificates = [\"a.example\"]\ninfer = [\"[\"]\n";
    says(
        &refused(Some(wrong), &[]),
        &[
            "exit 1\n",
            "error: cannot use --auth FOLDER/auth.toml\n",
            "\n  FOLDER/auth.toml:3:17: found certificates, and the server does not verify any",
            "\n  FOLDER/auth.toml:4:10: found a pattern that cannot be read",
        ],
    );
    let key = key("a");
    let refused = refused(
        Some(&format!("[[identity]]\nname = \"a\"\nkeys = [\"{key}\"]\n")),
        &[],
    );
    assert!(!refused.contains(&key), "{refused}");
    assert!(refused.contains(&sha256(&key)), "{refused}");
}

#[test]
fn a_check_looks_at_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let config = configuration(folder.path());
    let auth = folder.path().join("auth.toml");
    let check = |text: &str| {
        fs::write(&auth, text).unwrap();
        let run = cli::run(
            cli::command()
                .args(["serve", "--check", "--config-path"])
                .arg(&config)
                .arg("--auth")
                .arg(&auth),
        );
        let text = format!("{}{}", run.text(), run.failure());
        text.replace(&folder.path().display().to_string(), "FOLDER")
    };
    for (rights, code, expected) in [
        ("infer = [\"dummy\"]", 0, "dummy"),
        (
            "infer = [\"dumy\", \"*\"]",
            2,
            "FOLDER/auth.toml:4:10: nothing that is served fits `dumy`",
        ),
        ("infer = 7", 1, "FOLDER/auth.toml:4:9: "),
    ] {
        let said = check(&identity("a", rights));
        assert!(said.contains(expected), "{said}");
        assert!(said.contains(&format!("exit {code}\n")), "{said}");
    }
    let doctor = |text: &str| {
        fs::write(&auth, text).unwrap();
        let run = cli::run(cli::command().args(["doctor", "--auth"]).arg(&auth));
        let line = run
            .text()
            .lines()
            .find(|it| it.contains("identities"))
            .unwrap()
            .to_owned();
        line.replace(&folder.path().display().to_string(), "FOLDER")
    };
    let good = doctor(&identity("a", "infer = [\"dummy\"]"));
    assert!(
        good.starts_with("ok ") && good.ends_with("FOLDER/auth.toml has 1 identity"),
        "{good}"
    );
    let wrong = doctor("x = 1\n");
    assert!(
        wrong.starts_with("warn ") && wrong.contains("cannot use --auth"),
        "{wrong}"
    );
}

#[test]
fn a_certificate_is_a_credential() {
    let made = Certificates::new();
    made.write("server", 90);
    made.write("client", 90);
    let (ca, pair) = (made.text("ca.pem"), made.server("server"));
    let mut flags: Vec<&str> = pair.iter().map(String::as_str).collect();
    flags.extend(["--tls_client_ca", &ca, "--tls_client_auth", "optional"]);
    let by_name =
        "[[identity]]\nname = \"machine\"\ncertificates = [\"LOCALHOST\"]\ninfer = [\"dummy\"]\n";
    let guarded = Guarded::with(
        &format!("{by_name}{}", identity("user", "infer = [\"secret\"]")),
        &flags,
    );
    let (cert, private) = (made.text("client.pem"), made.text("client.key"));
    let infer = |model: &str, api: &str, flags: &[&str]| {
        let url = match api.ends_with("grpc") {
            true => format!("grpcs://localhost:{}", guarded.server.port),
            false => format!("https://localhost:{}", guarded.server.rest_port),
        };
        let words = [
            "infer", model, "--zeros", "--api", api, "--cacert", &ca, "--url", &url,
        ];
        cli::run(cli::command().args(words).args(flags))
    };
    let own = ["--cert", &*cert, "--key", &private];
    for api in ["kserve-grpc", "tfs-grpc", "kserve-rest", "tfs-rest"] {
        let run = infer("dummy", api, &own);
        assert_eq!(run.code, Some(0), "{api}: {}", run.stderr);
        let run = infer("secret", api, &own);
        assert!(run.stderr.contains("not found"), "{api}: {}", run.stderr);
        let run = infer("dummy", api, &[]);
        assert!(
            run.stderr.contains("there are no credentials"),
            "{api}: {}",
            run.stderr
        );
        // A key that comes with it goes first, good or not.
        let key = key("user");
        let run = infer("secret", api, &[&own[..], &["--api-key", &key]].concat());
        assert_eq!(run.code, Some(0), "{api}: {}", run.stderr);
        let run = infer("dummy", api, &[&own[..], &["--api-key", "wrong"]].concat());
        assert!(
            run.stderr.contains("the API key is not known"),
            "{api}: {}",
            run.stderr
        );
    }
}
