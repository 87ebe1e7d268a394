//! Tokens (JWT): issuers with key sets of files and URLs, which change.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::TcpListener,
    sync::{Arc, Mutex},
    time::SystemTime,
};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use ring::{
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _},
};
use serde_json::{Value, json};

use super::Guarded;
use crate::support::{eventually, http::send, thread};

const ISSUER: &str = "https://id.example";

/// A key of an issuer.
struct Signer {
    id: &'static str,
    key: EcdsaKeyPair,
}

impl Signer {
    fn new(id: &'static str) -> Self {
        let random = SystemRandom::new();
        let algorithm = &ECDSA_P256_SHA256_FIXED_SIGNING;
        let key = EcdsaKeyPair::generate_pkcs8(algorithm, &random).unwrap();
        let key = EcdsaKeyPair::from_pkcs8(algorithm, key.as_ref(), &random).unwrap();
        Self { id, key }
    }

    /// Returns the key set with the public key.
    fn set(&self) -> String {
        let point = self.key.public_key().as_ref();
        let part = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        let (x, y) = (part(&point[1..33]), part(&point[33..]));
        let key =
            json!({"kty": "EC", "crv": "P-256", "use": "sig", "kid": self.id, "x": x, "y": y});
        json!({"keys": [key]}).to_string()
    }

    /// Returns the header of a token of somebody.
    fn bearer(&self, subject: &str, more: &Value) -> String {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let mut claims = json!({
            "iss": ISSUER,
            "aud": "ovms",
            "sub": subject,
            "exp": now.unwrap().as_secs() + 600,
        });
        for (name, value) in more.as_object().unwrap() {
            claims[name] = value.clone();
        }
        let header = json!({"alg": "ES256", "kid": self.id});
        let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let message = format!("{}.{}", part(&header), part(&claims));
        let signed = self
            .key
            .sign(&SystemRandom::new(), message.as_bytes())
            .unwrap();
        format!(
            "Bearer {message}.{}",
            URL_SAFE_NO_PAD.encode(signed.as_ref())
        )
    }
}

fn file(jwks: &str) -> String {
    format!(
        "max_failures_per_minute = 0\n[[jwt]]\nissuer = \"{ISSUER}\"\naudience = \"ovms\"\njwks = \"{jwks}\"\n\
         [[identity]]\nname = \"ml\"\ntokens = [{{ claims = {{ groups = \"ml\" }} }}]\ninfer = [\"secret\"]\n\
         [[identity]]\nname = \"people\"\ntokens = [{{ subject = \"a*\" }}]\ninfer = [\"dummy\"]\n"
    )
}

fn ask(guarded: &Guarded, bearer: &str, path: &str) -> String {
    let answer = send(
        &guarded.server,
        "GET",
        path,
        &[("authorization", bearer)],
        b"",
    );
    match answer.status {
        200 => "200".to_owned(),
        _ => answer.error(),
    }
}

#[test]
fn a_token_has_the_rights_of_its_subject_or_claims() {
    let signer = Signer::new("one");
    let folder = tempfile::tempdir().unwrap();
    let set = folder.path().join("keys.json");
    fs::write(&set, signer.set()).unwrap();
    let audit = folder.path().join("audit");
    let guarded = Guarded::with(
        &file(set.to_str().unwrap()),
        &[
            "--audit_log",
            audit.to_str().unwrap(),
            "--file_system_poll_wait_seconds",
            "1",
        ],
    );
    let (dummy, secret) = ("/v2/models/dummy", "/v2/models/secret");
    let ann = signer.bearer("ann", &json!({}));
    assert_eq!(ask(&guarded, &ann, dummy), "200");
    assert!(ask(&guarded, &ann, secret).starts_with("404"));
    let bob = signer.bearer("bob", &json!({"groups": ["x", "ml"]}));
    assert_eq!(ask(&guarded, &bob, secret), "200");
    assert!(ask(&guarded, &bob, dummy).starts_with("404"));
    let said = |subject: &str, more: Value| ask(&guarded, &signer.bearer(subject, &more), dummy);
    insta::assert_snapshot!(said("bob", json!({})), @"401: Unauthorized request - the token is of none of the identities");
    insta::assert_snapshot!(said("ann", json!({"exp": 7})), @"401: Unauthorized request - the token has expired");
    insta::assert_snapshot!(said("ann", json!({"aud": "x"})), @"401: Unauthorized request - the token is for another audience");
    insta::assert_snapshot!(said("ann", json!({"iss": "x"})), @"401: Unauthorized request - the token is of another issuer");
    let stranger = Signer::new("one").bearer("ann", &json!({}));
    insta::assert_snapshot!(ask(&guarded, &stranger, dummy), @"401: Unauthorized request - the signature of the token is wrong");
    let header = [("authorization", &*ann)];
    assert_eq!(
        send(&guarded.server, "POST", "/v1/config/reload", &header, b"").status,
        403
    );
    let line: Value = serde_json::from_str(&fs::read_to_string(&audit).unwrap()).unwrap();
    assert_eq!(
        (&line["identity"], &line["subject"]),
        (&"people".into(), &"ann".into())
    );
    // Another key, in the place of the first.
    let next = Signer::new("two");
    let token = next.bearer("ann", &json!({}));
    insta::assert_snapshot!(ask(&guarded, &token, dummy), @"401: Unauthorized request - the key of the token's signature is not known");
    fs::write(&set, next.set()).unwrap();
    eventually("the next key", || {
        (ask(&guarded, &token, dummy) == "200").then_some(())
    });
    assert!(ask(&guarded, &ann, dummy).starts_with("401"));
}

#[test]
fn a_key_set_that_comes_after_its_file_is_found() {
    let guarded = Guarded::start("", &["--file_system_poll_wait_seconds", "1"]);
    let signer = Signer::new("one");
    let set = guarded.path("keys.json");
    guarded.rewrite(&file(set.to_str().unwrap()));
    let said = guarded.server.wait_log("rights stay as they were");
    assert!(said.contains("cannot read the key set"), "{said}");
    fs::write(&set, signer.set()).unwrap();
    let token = signer.bearer("ann", &json!({}));
    eventually("the rights of the file", || {
        (ask(&guarded, &token, "/v2/models/dummy") == "200").then_some(())
    });
    let warnings = guarded
        .server
        .log()
        .matches("rights stay as they were")
        .count();
    assert_eq!(warnings, 1, "the same reason is said once");
}

#[test]
fn tokens_that_were_good_or_will_be_are_no_guesses() {
    let (signer, next) = (Signer::new("one"), Signer::new("two"));
    let folder = tempfile::tempdir().unwrap();
    let set = folder.path().join("keys.json");
    fs::write(&set, signer.set()).unwrap();
    let rules = file(set.to_str().unwrap());
    let rules = rules.replace("max_failures_per_minute = 0", "max_failures_per_minute = 3");
    let guarded = Guarded::with(&rules, &[]);
    let path = "/v2/models/dummy";
    let good = signer.bearer("ann", &json!({}));
    for token in [
        next.bearer("ann", &json!({})),
        signer.bearer("ann", &json!({"exp": 7})),
    ] {
        for _ in 0..4 {
            assert!(ask(&guarded, &token, path).starts_with("401"));
        }
        assert_eq!(ask(&guarded, &good, path), "200");
    }
    let forged = Signer::new("one").bearer("ann", &json!({}));
    let answers: Vec<_> = (0..4).map(|_| ask(&guarded, &forged, path)).collect();
    assert!(answers[2].starts_with("401"), "{answers:?}");
    assert!(answers[3].starts_with("429"), "{answers:?}");
}

/// Serves a text over HTTP, which may be changed; returns its URL.
fn served(text: &Arc<Mutex<String>>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/keys", listener.local_addr().unwrap());
    let text = Arc::clone(text);
    // It ends with the tests.
    drop(thread(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut head = [0; 4096];
            let _ = stream.read(&mut head);
            let text = text.lock().unwrap().clone();
            let length = text.len();
            let _ = write!(
                stream,
                "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{text}"
            );
        }
    }));
    url
}

#[test]
fn keys_are_fetched_and_fetched_again_for_one_that_is_not_known() {
    let (one, two) = (Signer::new("one"), Signer::new("two"));
    let text = Arc::new(Mutex::new(one.set()));
    let guarded = Guarded::with(&file(&served(&text)), &[]);
    let first = one.bearer("ann", &json!({}));
    assert_eq!(ask(&guarded, &first, "/v2/models/dummy"), "200");
    *text.lock().unwrap() = two.set();
    let second = two.bearer("ann", &json!({}));
    let started = std::time::Instant::now();
    eventually("the next key", || {
        (ask(&guarded, &second, "/v2/models/dummy") == "200").then_some(())
    });
    assert!(
        started.elapsed().as_secs() >= 5,
        "it is not fetched for each request"
    );
    assert!(ask(&guarded, &first, "/v2/models/dummy").starts_with("401"));
}

#[test]
fn an_issuer_that_is_away_does_not_keep_the_server_from_starting() {
    let guarded = Guarded::with(&file("http://127.0.0.1:1/keys"), &[]);
    guarded
        .server
        .wait_log("keys of the issuer https://id.example stay as they are");
    let token = Signer::new("one").bearer("ann", &json!({}));
    assert!(ask(&guarded, &token, "/v2").starts_with("401"));
}
