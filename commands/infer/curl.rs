//! `ovms infer --print-curl`: the request as a command of `curl` or `grpcurl`, printed and not sent.

use std::io::{self, IsTerminal as _};

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use ovms::{
    client::{
        Client, ClientError, ClientOptions, ModelId, ModelMetadata, Request, RequestError,
        SEQUENCE, TensorForm,
        session::{StepControl, mark, random_id},
        spelled::{self, GrpcCall, HttpCall, Spelled},
    },
    tls::ClientTlsOptions,
};

use super::{
    call_failure,
    feed::RequestFeed,
    job::Job,
    run::ask,
    sequence::{Plan as SequencePlan, Sequence},
};
use crate::{
    error::Failure,
    ui::{self, shell_word, visible},
};

/// Maximum length of data in the command line itself: systems limit the size of one argument.
const MAX_INLINE: usize = 64 << 10;

/// Maximum length of a body at a terminal, which a longer one would flood.
const MAX_AT_TERMINAL: usize = 8 << 10;

/// Number of bytes shown of a body that is left out.
const MAX_BEGINNING: usize = 160;

/// Length of a line of base64, in characters.
const LINE: usize = 76;

/// Prints one or more requests.
pub(super) async fn request(mut job: Job) -> Result<(), Failure> {
    let sequence = job.sequence.as_ref();
    let sequence = sequence.map(|sequence| sequence.id().unwrap_or_else(random_id));
    if let Some(id) = sequence {
        job.server.headers.entry(SEQUENCE).or_insert(id.into());
    }
    let model = if job.inputs.are_reported() && !matches!(job.sequence, Some(Sequence::All(_))) {
        // Nobody needs to be asked.
        ModelMetadata {
            name: job.model.name.clone(),
            ..ModelMetadata::default()
        }
    } else {
        job.open().await?.1
    };
    job.check_given(&model)?;
    let requests = requests(&job, &model, sequence.unwrap_or_default()).await?;
    let is_stream = job.stream.is_some();
    let spell = |requests: &[Request]| match is_stream {
        true => spelled::stream(&job.server, requests),
        false => {
            let requests = requests.iter();
            requests
                .map(|request| spelled::infer(&job.server, request))
                .collect()
        }
    };
    let spelled = if job.is_form_given {
        spell(&requests)
    } else {
        // Values one by one are what people read.
        let of_values = requests.iter().map(|request| Request {
            form: TensorForm::Values,
            outputs: job.outputs.clone(),
            ..request.clone()
        });
        let of_values: Vec<_> = of_values.collect();
        match spell(&of_values) {
            Err(RequestError::RawOnly { .. } | RequestError::NotText(_)) => spell(&requests),
            spelled => spelled,
        }
    };
    print(spelled.map_err(refused)?, job.shows_secrets)
}

/// Prints the request for the states of a model, or of all models.
pub(super) fn status(
    server: &ClientOptions,
    model: Option<&ModelId>,
    shows_secrets: bool,
) -> Result<(), Failure> {
    print(
        vec![spelled::status(server, model).map_err(refused)?],
        shows_secrets,
    )
}

/// Prints the request for the metadata of a model, or of each model of the server.
pub(super) async fn metadata(
    server: &ClientOptions,
    model: Option<&ModelId>,
    shows_secrets: bool,
) -> Result<(), Failure> {
    let models = match model {
        Some(model) => vec![model.clone()],
        None => {
            let question = async |client: &Client| client.models().await;
            let (_, models) = ask(server, None, question).await?;
            models.iter().map(|it| ModelId::of(&it.name)).collect()
        }
    };
    let models = models.iter();
    let spelled = models.map(|model| spelled::metadata(server, model));
    print(
        spelled.collect::<Result<Vec<_>, _>>().map_err(refused)?,
        shows_secrets,
    )
}

/// Prints the request for the live sequences of a model.
pub(super) fn sequences(
    server: &ClientOptions,
    model: &ModelId,
    shows_secrets: bool,
) -> Result<(), Failure> {
    let spelled = spelled::sequences(server, model).map_err(refused)?;
    print(vec![spelled], shows_secrets)
}

fn refused(error: RequestError) -> Failure {
    call_failure::client(ClientError::Request(error))
}

/// Creates every request of the job.
async fn requests(
    job: &Job,
    model: &ModelMetadata,
    sequence: u64,
) -> Result<Vec<Request>, Failure> {
    let mut request = job.request(model)?;
    if let Some(plan) = &job.stream {
        return all(RequestFeed::new(
            &plan.requests,
            &job.inputs,
            request,
            model,
        )?)
        .await;
    }
    let is_tfs = job.server.api.is_tfs();
    match &job.sequence {
        None => {}
        Some(Sequence::One { control, .. }) => mark(&mut request, is_tfs, sequence, *control),
        Some(Sequence::All(plan)) => {
            let feed = RequestFeed::new(&plan.requests, &job.inputs, request, model)?;
            let mut requests = all(feed).await?;
            mark_steps(&mut requests, plan, is_tfs, sequence);
            return Ok(requests);
        }
    }
    Ok(vec![request])
}

async fn all(mut feed: RequestFeed<'_>) -> Result<Vec<Request>, Failure> {
    let mut requests = Vec::new();
    while let Some(request) = feed.next().await? {
        requests.push(request);
    }
    Ok(requests)
}

/// Makes requests the steps of a sequence.
fn mark_steps(requests: &mut Vec<Request>, plan: &SequencePlan, is_tfs: bool, id: u64) {
    let (goes_on, ends_by_itself) = (plan.goes_on, !plan.requests.has_lines());
    // That a line was the last is known when it is over, and one that is first and last only starts
    // where there is no form for both: then the last is sent again to end the sequence.
    if let [.., last] = &requests[..]
        && !plan.stays_open
        && (!ends_by_itself || (is_tfs && !goes_on && requests.len() == 1))
    {
        let last = last.clone();
        requests.push(last);
    }
    let count = requests.len();
    for (index, request) in requests.iter_mut().enumerate() {
        let ends = index + 1 == count && !plan.stays_open;
        let control = StepControl::of(goes_on || index > 0, ends, is_tfs);
        mark(request, is_tfs, id, control);
    }
}

/// Prints commands, with `***` for credentials unless they are to be shown.
fn print(mut spelled: Vec<Spelled>, shows_secrets: bool) -> Result<(), Failure> {
    let mut masked = false;
    for spelled in spelled.iter_mut().filter(|_| !shows_secrets) {
        masked |= mask(match spelled {
            Spelled::Http(call) => &mut call.headers,
            Spelled::Grpc(call) => &mut call.headers,
        });
    }
    if masked {
        ui::note("Credentials are shown as `***`; --show-secrets prints them.");
    }
    let is_cut = io::stdout().is_terminal();
    let commands: String = spelled
        .iter()
        .map(|spelled| match spelled {
            Spelled::Http(call) => curl(call, is_cut),
            Spelled::Grpc(call) => grpcurl(call, is_cut),
        })
        .collect();
    ui::print(commands)
}

/// Returns the comment in place of a body that is left out.
fn left_out(body: &[u8]) -> String {
    let size = body.len().div_ceil(1 << 10);
    let beginning = String::from_utf8_lossy(&body[..body.len().min(MAX_BEGINNING)]);
    // Behind JSON there are the bytes of tensors.
    let beginning = beginning
        .split(['\u{fffd}', '\0'])
        .next()
        .unwrap_or_default();
    let beginning = visible(beginning);
    format!(
        "# The body, {size} KiB, is not shown at a terminal: `> request.sh` saves the whole command,\n# and `sh \
         request.sh` sends it. It starts with {beginning}…\n"
    )
}

fn curl(call: &HttpCall, is_cut: bool) -> String {
    let mut command = "curl -sS".to_owned();
    if call.has_events {
        command.push_str(" -N");
    }
    // Else brackets in a URL are patterns.
    if call.url.contains(['[', ']', '{', '}']) {
        command.push_str(" -g");
    }
    push_tls(
        &mut command,
        call.tls.as_ref(),
        ["--cacert", "--cert", "--key", "--insecure"],
    );
    if let Some(path) = &call.unix_socket {
        command.extend([" --unix-socket ", &shell_word(path)]);
    }
    if call.body.is_empty() && call.method != "GET" {
        command.extend([" -X ", call.method]);
    }
    command.extend([" ", &shell_word(&call.url)]);
    push_headers(&mut command, &call.headers);
    if call.body.is_empty() {
        return command + "\n";
    }
    if is_cut && call.body.len() > MAX_AT_TERMINAL {
        return format!("{}{command} --data-binary @BODY\n", left_out(&call.body));
    }
    match std::str::from_utf8(&call.body) {
        Ok(text) if call.body.len() <= MAX_INLINE && !text.contains('\0') => {
            command + " -d " + &shell_word(text) + "\n"
        }
        // The line feed before EOF belongs to the body: JSON takes it, tensors behind JSON do not.
        Ok(text) if !text.contains(['\0', '\n']) && !has_bytes_behind(call) => {
            format!("{command} --data-binary @- <<'EOF'\n{text}\nEOF\n")
        }
        _ => {
            let text = BASE64.encode(&call.body);
            let lines: Vec<&str> = (0..text.len().div_ceil(LINE))
                .map(|line| &text[line * LINE..text.len().min((line + 1) * LINE)])
                .collect();
            let lines = lines.join("\n");
            format!("base64 -d <<'EOF' | {command} --data-binary @-\n{lines}\nEOF\n")
        }
    }
}

/// Returns whether the body is JSON followed by the bytes of tensors, whose length matters.
fn has_bytes_behind(call: &HttpCall) -> bool {
    let mut names = call.headers.iter().map(|(name, _)| name);
    names.any(|name| name.eq_ignore_ascii_case("inference-header-content-length"))
}

fn grpcurl(call: &GrpcCall, is_cut: bool) -> String {
    let mut command = "grpcurl".to_owned();
    if call.tls.is_none() {
        command.push_str(" -plaintext");
    }
    push_tls(
        &mut command,
        call.tls.as_ref(),
        ["-cacert", "-cert", "-key", "-insecure"],
    );
    if call.is_unix_socket {
        command.push_str(" -unix");
    }
    push_headers(&mut command, &call.headers);
    let data = call.messages.join("\n");
    let target = format!("{} {}", shell_word(&call.address), call.method);
    if is_cut && data.len() > MAX_AT_TERMINAL {
        let comment = left_out(data.as_bytes());
        format!("{comment}{command} -d @ {target} < BODY\n")
    } else if data.len() <= MAX_INLINE {
        format!("{command} -d {} {target}\n", shell_word(&data))
    } else {
        format!("{command} -d @ {target} <<'EOF'\n{data}\nEOF\n")
    }
}

/// Parts of the names of headers with credentials.
const SECRET: [&str; 10] = [
    "auth",
    "jwt",
    "pwd",
    "cookie",
    "token",
    "secret",
    "key",
    "password",
    "credential",
    "session",
];

/// Replaces credentials by `***`. Returns whether there were any.
fn mask(headers: &mut [(String, String)]) -> bool {
    let mut masked = false;
    for (name, value) in headers {
        let name = name.to_ascii_lowercase();
        let scheme = ["Bearer ", "Basic "].into_iter().find(|scheme| {
            let start = value.get(..scheme.len());
            start.is_some_and(|start| start.eq_ignore_ascii_case(scheme))
        });
        if scheme.is_some() || SECRET.iter().any(|part| name.contains(part)) {
            *value = format!("{}***", scheme.unwrap_or_default());
            masked = true;
        }
    }
    masked
}

/// Adds the flags of TLS: those of authorities, certificate, key, and of any certificate.
pub(super) fn push_tls(command: &mut String, tls: Option<&ClientTlsOptions>, flags: [&str; 4]) {
    let Some(tls) = tls else { return };
    let [cacert, cert, key, insecure] = flags;
    for (flag, path) in [(cacert, &tls.cacert), (cert, &tls.cert), (key, &tls.key)] {
        if let Some(path) = path {
            command.extend([" ", flag, " ", &shell_word(&path.to_string_lossy())]);
        }
    }
    if tls.insecure {
        command.extend([" ", insecure]);
    }
}

fn push_headers(command: &mut String, headers: &[(String, String)]) {
    for (name, value) in headers {
        command.extend([" -H ", &shell_word(&format!("{name}: {value}"))]);
    }
}

#[cfg(test)]
mod tests {
    use ovms::{
        client::spelled::{GrpcCall, HttpCall},
        tls::ClientTlsOptions,
    };

    use super::{MAX_AT_TERMINAL, MAX_INLINE, curl, grpcurl, mask};

    fn call(body: &[u8]) -> HttpCall {
        HttpCall {
            method: "POST",
            url: "http://localhost:8000/v2/models/m/infer".to_owned(),
            unix_socket: None,
            tls: None,
            headers: vec![("A".to_owned(), "it's".to_owned())],
            body: body.to_vec().into(),
            has_events: false,
        }
    }

    #[test]
    fn bodies_stand_where_they_fit() {
        insta::assert_snapshot!(curl(&call(b"{\"a\":1}"), false), @r#"curl -sS http://localhost:8000/v2/models/m/infer -H 'A: it'\''s' -d '{"a":1}'"#);
        insta::assert_snapshot!(curl(&call(b""), false), @r"curl -sS -X POST http://localhost:8000/v2/models/m/infer -H 'A: it'\''s'");
        insta::assert_snapshot!(curl(&call(&[0xff; 60]), false), @r"
        base64 -d <<'EOF' | curl -sS http://localhost:8000/v2/models/m/infer -H 'A: it'\''s' --data-binary @-
        ////////////////////////////////////////////////////////////////////////////
        ////
        EOF
        ");
        let long = curl(&call(&vec![b'1'; MAX_INLINE + 1]), false);
        assert!(long.contains("--data-binary @- <<'EOF'\n111"), "{long}");
        assert!(long.ends_with("1\nEOF\n"), "{long}");
        let mut counted = call(&vec![b'1'; MAX_INLINE + 1]);
        let header = ("Inference-Header-Content-Length".to_owned(), "1".to_owned());
        counted.headers.push(header);
        assert!(curl(&counted, false).starts_with("base64 -d "));
        let mut named = call(b"");
        named.url.push_str("/[a]");
        assert!(curl(&named, false).starts_with("curl -sS -g -X POST "));
        named.unix_socket = Some("/run/o v".to_owned());
        assert!(curl(&named, false).starts_with("curl -sS -g --unix-socket '/run/o v' -X POST "));
    }

    #[test]
    fn a_long_body_is_left_out_at_a_terminal() {
        let json = format!(
            "{{\"inputs\":[{{\"data\":[{}1.0]}}]}}",
            "1.0,".repeat(400_000)
        );
        let cut = curl(&call(json.as_bytes()), true);
        let begin = "# The body, 1563 KiB, is not shown at a terminal: `> request.sh` saves";
        assert!(cut.starts_with(begin), "{cut}");
        assert!(
            cut.contains("It starts with {\"inputs\":[{\"data\":[1.0,"),
            "{cut}"
        );
        assert!(
            cut.ends_with("'A: it'\\''s' --data-binary @BODY\n"),
            "{cut}"
        );
        let behind = [&b"{\"inputs\":[]}"[..], &vec![0xff; MAX_AT_TERMINAL]].concat();
        let cut = curl(&call(&behind), true);
        assert!(cut.contains("starts with {\"inputs\":[]}…\ncurl "), "{cut}");
        let short = call(b"{\"a\":1}");
        assert_eq!(curl(&short, true), curl(&short, false));
        let of_grpc = GrpcCall {
            address: "localhost:9000".to_owned(),
            is_unix_socket: false,
            tls: None,
            method: "a.B/C".to_owned(),
            headers: Vec::new(),
            messages: vec!["1".repeat(MAX_AT_TERMINAL), "2".to_owned()],
        };
        let cut = grpcurl(&of_grpc, true);
        assert!(cut.starts_with("# The body, "), "{cut}");
        assert!(
            cut.ends_with("…\ngrpcurl -plaintext -d @ localhost:9000 a.B/C < BODY\n"),
            "{cut}"
        );
    }

    #[test]
    fn credentials_are_masked() {
        let mut headers = [
            ("authorization", "bearer abc"),
            ("x-api-key", "abc"),
            ("x-goog-iap-jwt-assertion", "abc"),
            ("X-Pwd", "abc"),
            ("Cookie", "a=b"),
            ("x-a", "Basic abc"),
            ("x-b", "abc"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert!(mask(&mut headers));
        let values = headers.map(|(_, value)| value);
        let masked = ["Bearer ***", "***", "***", "***", "***", "Basic ***", "abc"];
        assert_eq!(values, masked);
    }

    #[test]
    fn messages_of_a_stream_follow_each_other() {
        let mut call = GrpcCall {
            address: "localhost:9000".to_owned(),
            is_unix_socket: false,
            tls: None,
            method: "a.B/C".to_owned(),
            headers: Vec::new(),
            messages: vec!["{}".to_owned(), "{\"a\":1}".to_owned()],
        };
        insta::assert_snapshot!(grpcurl(&call, false), @r#"
        grpcurl -plaintext -d '{}
        {"a":1}' localhost:9000 a.B/C
        "#);
        call.is_unix_socket = true;
        assert!(grpcurl(&call, false).starts_with("grpcurl -plaintext -unix -d "));
        call.is_unix_socket = false;
        call.tls = Some(ClientTlsOptions {
            cacert: Some("a b.pem".into()),
            insecure: true,
            ..ClientTlsOptions::default()
        });
        assert!(grpcurl(&call, false).starts_with("grpcurl -cacert 'a b.pem' -insecure -d "));
        call.messages = vec!["1".repeat(MAX_INLINE + 1)];
        assert!(grpcurl(&call, false).contains(" -d @ localhost:9000 a.B/C <<'EOF'\n1"));
    }
}
