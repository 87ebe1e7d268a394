//! Tokens (JWT): issuers with key sets of files and URLs, which change.

use std::{
    fs,
    io::{Read, Write},
    net::TcpListener,
    sync::{Arc, Mutex},
    time::SystemTime,
};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use ring::{
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _},
};
use rustls::{
    ServerConfig, ServerConnection, StreamOwned,
    crypto::ring::default_provider,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
};
use serde_json::{Value, json};

use super::Guarded;
use crate::support::{
    Server,
    certificates::{Authority, Certificates},
    eventually,
    http::send,
    thread,
};

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

fn ask(server: &Server, bearer: &str, path: &str) -> String {
    let answer = send(server, "GET", path, &[("authorization", bearer)], b"");
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
    assert_eq!(ask(&guarded.server, &ann, dummy), "200");
    assert!(ask(&guarded.server, &ann, secret).starts_with("404"));
    let bob = signer.bearer("bob", &json!({"groups": ["x", "ml"]}));
    assert_eq!(ask(&guarded.server, &bob, secret), "200");
    assert!(ask(&guarded.server, &bob, dummy).starts_with("404"));
    let said =
        |subject: &str, more: Value| ask(&guarded.server, &signer.bearer(subject, &more), dummy);
    insta::assert_snapshot!(said("bob", json!({})), @"401: Unauthorized request - the token is of none of the identities");
    insta::assert_snapshot!(said("ann", json!({"exp": 7})), @"401: Unauthorized request - the token has expired");
    insta::assert_snapshot!(said("ann", json!({"aud": "x"})), @"401: Unauthorized request - the token is for another audience");
    insta::assert_snapshot!(said("ann", json!({"iss": "x"})), @"401: Unauthorized request - the token is of another issuer");
    let stranger = Signer::new("one").bearer("ann", &json!({}));
    insta::assert_snapshot!(ask(&guarded.server, &stranger, dummy), @"401: Unauthorized request - the signature of the token is wrong");
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
    insta::assert_snapshot!(ask(&guarded.server, &token, dummy), @"401: Unauthorized request - the key of the token's signature is not known");
    fs::write(&set, next.set()).unwrap();
    eventually("the next key", || {
        (ask(&guarded.server, &token, dummy) == "200").then_some(())
    });
    assert!(ask(&guarded.server, &ann, dummy).starts_with("401"));
}

#[test]
fn an_issuer_may_be_away_and_a_key_set_may_come_after_its_file() {
    let poll = ["--file_system_poll_wait_seconds", "1"];
    let guarded = Guarded::with(&file("http://127.0.0.1:1/keys"), &poll);
    guarded
        .server
        .wait_log("keys of the issuer https://id.example stay as they are");
    let signer = Signer::new("one");
    let token = signer.bearer("ann", &json!({}));
    assert!(ask(&guarded.server, &token, "/v2").starts_with("401"));
    let set = guarded.path("keys.json");
    guarded.rewrite(&file(set.to_str().unwrap()));
    let said = guarded.server.wait_log("rights stay as they were");
    assert!(said.contains("cannot read the key set"), "{said}");
    fs::write(&set, signer.set()).unwrap();
    eventually("the rights of the file", || {
        (ask(&guarded.server, &token, "/v2/models/dummy") == "200").then_some(())
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
            assert!(ask(&guarded.server, &token, path).starts_with("401"));
        }
        assert_eq!(ask(&guarded.server, &good, path), "200");
    }
    let forged = Signer::new("one").bearer("ann", &json!({}));
    let answers: Vec<_> = (0..4)
        .map(|_| ask(&guarded.server, &forged, path))
        .collect();
    assert!(answers[2].starts_with("401"), "{answers:?}");
    assert!(answers[3].starts_with("429"), "{answers:?}");
}

/// Serves a text over HTTP, which may be changed, or over HTTPS with a certificate; returns its URL.
fn served(text: &Arc<Mutex<String>>, tls: Option<Arc<ServerConfig>>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let scheme = tls.as_ref().map_or("http", |_| "https");
    let url = format!("{scheme}://{}/keys", listener.local_addr().unwrap());
    let text = Arc::clone(text);
    // It ends with the tests.
    drop(thread(move || {
        for stream in listener.incoming() {
            let text = text.lock().unwrap().clone();
            match &tls {
                None => answer(stream.unwrap(), &text),
                Some(tls) => {
                    let connection = ServerConnection::new(Arc::clone(tls)).unwrap();
                    answer(StreamOwned::new(connection, stream.unwrap()), &text);
                }
            }
        }
    }));
    url
}

/// Reads a request and answers it; one that a client gives up is none.
fn answer(mut stream: impl Read + Write, text: &str) {
    let length = text.len();
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n");
    let _ = stream.read(&mut [0; 4096]).and_then(|_| {
        stream.write_all(format!("{head}{text}").as_bytes())?;
        stream.flush()
    });
}

#[test]
fn keys_are_fetched_from_a_server_whose_authority_the_system_trusts() {
    let made = Certificates::new();
    made.write("issuer", 90);
    let chain = CertificateDer::pem_file_iter(made.path("issuer.pem")).unwrap();
    let chain: Vec<_> = chain.map(Result::unwrap).collect();
    let key = PrivateKeyDer::from_pem_file(made.path("issuer.key")).unwrap();
    let tls = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .unwrap();
    let signer = Signer::new("one");
    let url = served(&Arc::new(Mutex::new(signer.set())), Some(Arc::new(tls)));
    let auth = made.path("auth.toml");
    fs::write(&auth, file(&url)).unwrap();
    let flags = ["--auth", auth.to_str().unwrap()];
    let bearer = signer.bearer("ann", &json!({}));
    let trusted = [("SSL_CERT_FILE", &*made.text("ca.pem"))];
    let server = Server::start_in(&trusted, "dummy", &flags);
    assert_eq!(ask(&server, &bearer, "/v2/models/dummy"), "200");
    // One that nobody vouches for gives no keys.
    let stranger = made.path("stranger.pem");
    fs::write(&stranger, Authority::new("stranger").pem()).unwrap();
    let trusted = [("SSL_CERT_FILE", stranger.to_str().unwrap())];
    let server = Server::start_in(&trusted, "dummy", &flags);
    let said = server.wait_log("stay as they are");
    assert!(
        said.contains(&format!("cannot fetch the key set {url}")),
        "{said}"
    );
    assert!(ask(&server, &bearer, "/v2/models/dummy").starts_with("401"));
}

#[test]
fn keys_of_this_machine_are_fetched_past_a_proxy() {
    let (own, foreign) = (Signer::new("one"), Signer::new("one"));
    let url = served(&Arc::new(Mutex::new(own.set())), None);
    let proxy = served(&Arc::new(Mutex::new(foreign.set())), None);
    let folder = tempfile::tempdir().unwrap();
    let auth = folder.path().join("auth.toml");
    fs::write(&auth, file(&url)).unwrap();
    let flags = ["--auth", auth.to_str().unwrap()];
    let server = Server::start_in(&[("http_proxy", &proxy)], "dummy", &flags);
    let asked = |signer: &Signer| {
        let bearer = signer.bearer("ann", &json!({}));
        ask(&server, &bearer, "/v2/models/dummy")
    };
    assert_eq!(asked(&own), "200");
    assert!(asked(&foreign).starts_with("401"));
}

#[test]
fn keys_are_fetched_and_fetched_again_for_one_that_is_not_known() {
    let (one, two) = (Signer::new("one"), Signer::new("two"));
    let text = Arc::new(Mutex::new(one.set()));
    let guarded = Guarded::with(&file(&served(&text, None)), &[]);
    let first = one.bearer("ann", &json!({}));
    assert_eq!(ask(&guarded.server, &first, "/v2/models/dummy"), "200");
    *text.lock().unwrap() = two.set();
    let second = two.bearer("ann", &json!({}));
    let started = std::time::Instant::now();
    eventually("the next key", || {
        (ask(&guarded.server, &second, "/v2/models/dummy") == "200").then_some(())
    });
    assert!(
        started.elapsed().as_secs() >= 5,
        "it is not fetched for each request"
    );
    assert!(ask(&guarded.server, &first, "/v2/models/dummy").starts_with("401"));
}
