//! Errors of calls in terms of the command line: kind, causes, and the next step.

use std::error::Error;

use ovms::{
    client::{
        Address, AnswerError, Api, CallPhase, ClientError, ClientOptions, ForeignAnswer,
        ModelMetadata, RequestError,
    },
    tls::{ClientTls, TlsProblem},
};

use super::{handshake, refusal, socket};
use crate::{
    error::{FailedCall, Failure, FailureKind},
    ui::quoted_names,
};

/// Returns the failure of a call.
pub(crate) fn client(error: ClientError) -> Failure {
    of_request(error, None)
}

/// Returns the failure of a request of a load.
pub(crate) fn of_load(error: ClientError) -> Failure {
    if let ClientError::Refused(refusal) = &error
        && let Some(hint) = refusal::of_load(refusal)
    {
        let failure = Failure::failed(error.to_string());
        return failure
            .of_call(FailedCall::Refused(refusal.code))
            .hint(hint);
    }
    client(error)
}

/// Returns the failure of a request to a model, of which the metadata is known.
pub(super) fn of_request(error: ClientError, model: Option<&ModelMetadata>) -> Failure {
    let text = error.to_string();
    let was_closed = matches!(error, ClientError::Closed { .. });
    match error {
        ClientError::Unreachable { address, source } | ClientError::Closed { address, source } => {
            if let Some(failure) = socket::none(&address) {
                return failure;
            }
            let problem = TlsProblem::of(&*source);
            let signer = (problem.as_ref()).and_then(|it| handshake::signer(it, &address));
            let (text, hint) = match problem {
                Some(problem) => {
                    let report = handshake::handshake(&problem, &address);
                    (report.text, report.hint)
                }
                None => {
                    let hint = match was_closed {
                        true => "has the server stopped meanwhile? Its log may say more",
                        false => "is `ovms serve` running? `--url` names another address",
                    };
                    let of_socket = address.host().and_then(|it| socket::without_scheme(it.0));
                    (text, of_socket.unwrap_or_else(|| hint.to_owned()))
                }
            };
            let failure = Failure::new(FailureKind::Unreachable, text).hint(hint);
            failure.caused_by(deepest(&*source)).may_hint(signer)
        }
        ClientError::Timeout { step, .. } => {
            let kind = match step {
                CallPhase::Connect => FailureKind::Unreachable,
                CallPhase::Answer => FailureKind::Failed,
            };
            let failure = Failure::new(kind, text).of_call(FailedCall::Timeout);
            failure.hint("`--timeout` sets the limit")
        }
        ClientError::Partial { came, .. } => {
            let failure = Failure::failed(text).of_call(FailedCall::Timeout);
            failure.hint(format!(
                "a request seems to have fewer responses: write `--responses {came}`, or `--responses end` for all that come \
                 until the server ends the stream; `--timeout` sets the limit"
            ))
        }
        ClientError::Refused(refusal) => {
            let hints = refusal::next_steps(&refusal, model);
            let failure = Failure::failed(text).of_call(FailedCall::Refused(refusal.code));
            hints.into_iter().fold(failure, Failure::hint)
        }
        ClientError::Protocol { source, .. } => {
            let kind = match source {
                AnswerError::Decode(_) | AnswerError::Page(_) | AnswerError::NoModel => {
                    FailureKind::Unreachable
                }
                _ => FailureKind::Failed,
            };
            let failure = Failure::new(kind, text).caused_by(&source);
            match (kind, source) {
                (FailureKind::Unreachable, _) => {
                    failure.hint("is that a model server? check host and port, which `--url` names")
                }
                (_, AnswerError::Size(_)) => failure
                    .hint("send fewer rows at once, or ask for fewer outputs with `--output-name`"),
                _ => failure,
            }
        }
        ClientError::Request(source) => {
            let failure = Failure::usage(text).caused_by(&source);
            match source {
                RequestError::RawOnly { .. } | RequestError::NotText(_) => {
                    failure.hint("leave out `--typed` or `--json-data`")
                }
                RequestError::Header(_) => failure.hint(
                    "the protocol sets it itself, or it has characters that headers do not have",
                ),
                RequestError::HeaderName => failure.hint(
                    "write --header KEY=VALUE, with letters, digits and `-` in the key; neither is \
                     shown here, since it may be a secret",
                ),
                RequestError::NoField { .. } => failure.hint("only KServe's requests have it"),
                RequestError::Size | RequestError::Version(_) | RequestError::Value(_) => failure,
                RequestError::Empty(_) => failure.hint("`--api tfs-grpc` has a place for it"),
            }
        }
    }
}

/// Returns the failure for an address that speaks another protocol.
pub(super) fn other_api(address: &str, asked: Api, found: Api) -> Failure {
    let text = format!("the server at {address} does not speak {asked}");
    Failure::new(FailureKind::Unreachable, text).hint(format!(
        "it speaks `--api {found}`, or `--url` names another address"
    ))
}

/// Returns the failure for an address where something else than a model server answers.
pub(super) fn foreign(
    error: &ClientError,
    address: &Address,
    api: Api,
    found: &ForeignAnswer,
) -> Failure {
    let failure = match found {
        ForeignAnswer::Bytes(_) => {
            let expected = if api.is_grpc() { "HTTP/2" } else { "HTTP" };
            let text = format!(
                "the service at {address} does not speak {expected}, which {api} needs: it answered with {found}"
            );
            Failure::new(FailureKind::Unreachable, text)
        }
        _ => {
            let text = format!("the server at {address} is not a model server: it sends {found}");
            Failure::new(FailureKind::Unreachable, text).caused_by(error)
        }
    };
    failure.hint("check host and port of `--url`; `ovms serve` prints its own at startup")
}

/// Returns the failure for a server that does not list its models.
pub(super) fn no_list(error: ClientError) -> Failure {
    let can_list = !matches!(&error, ClientError::Refused(refusal) if refusal.is_unknown_call());
    let failure = client(error);
    if can_list {
        return failure;
    }
    failure.hint("not every server has a list of its models; name a model")
}

/// Returns the failure for a model that is being loaded.
pub(super) fn not_yet(error: ClientError, states: &str) -> Failure {
    client(error).hint(format!(
        "the server has the model, {states}: `--wait 60` waits until it is ready"
    ))
}

/// Returns the failure for a version that there is not, of a model that is served; `states` has its versions.
pub(super) fn unknown_version(error: ClientError, states: &str) -> Failure {
    client(error).hint(format!(
        "of the model, {states}; without `--model-version` the server takes the newest that is ready"
    ))
}

/// Returns the failure for a model that failed to load; `failed` has its name and its errors.
pub(super) fn not_loaded(error: ClientError, failed: &str) -> Failure {
    let failure = client(error);
    let hint = refusal::failed_to_load(failure.message(), failed);
    failure.hint(hint)
}

/// Other reason for an empty list of a server with identities, which does not say what is hidden.
pub(super) const OR_NONE_TO_SEE: &str = "or none that this identity may see: one with the right `admin` alone sees none, \
    unless it has `metadata` or `infer` as well";

/// Returns whether requests show who sends them: by a key, a token, or a certificate.
pub(super) fn shows_identity(server: &ClientOptions) -> bool {
    let has_certificate = server.tls.as_ref().is_some_and(ClientTls::has_certificate);
    has_certificate
        || ["authorization", "x-api-key"]
            .iter()
            .any(|name| server.headers.contains_key(*name))
}

/// Returns the failure for an unknown model; `known` are the models of the server that the sender may see.
pub(super) fn unknown_model(
    error: ClientError,
    name: &str,
    known: Option<&[String]>,
    server: &ClientOptions,
) -> Failure {
    let failure = client(error);
    match known {
        Some([]) if shows_identity(server) => {
            failure.hint(format!("the server has no models, {OR_NONE_TO_SEE}"))
        }
        Some([]) => failure.hint("the server has no models"),
        Some(_) if failure.message().contains("management port") => {
            failure.hint("write the port of `--rest-port` in `--url`")
        }
        Some(known) if known.iter().any(|known| known == name) => {
            failure.hint("the server has the model: `--status` shows its versions and their states")
        }
        Some(known) => failure
            .hint_nearest(name, known.iter().map(String::as_str))
            .hint(format!("the server has {}", quoted_names(known))),
        None if failure.message().contains("requested version") => {
            failure.hint("check `--model-version`; without it the server takes its default version")
        }
        None => failure.hint("check the name of the model, and `--model-version` if it is given"),
    }
}

/// Returns the failure for a graph that was asked for over an API of TensorFlow Serving.
pub(super) fn of_graph(error: ClientError, api: Api) -> Failure {
    let other = match api.is_grpc() {
        true => Api::KserveGrpc,
        false => Api::KserveRest,
    };
    client(error).hint(format!(
        "it is a graph, and only the KServe API has graphs: `--api {other}`"
    ))
}

/// Returns the innermost error of the chain, which has the actual reason.
fn deepest<'a>(error: &'a (dyn Error + 'static)) -> &'a (dyn Error + 'static) {
    let mut deepest = error;
    while let Some(cause) = deepest.source() {
        deepest = cause;
    }
    deepest
}

#[cfg(test)]
mod tests {
    use std::{io, time::Duration};

    use ovms::client::{Address, Api, ClientError, ClientOptions, ServerError, ServerErrorCode};
    use reqwest::header::{HeaderMap, HeaderValue};

    use super::{
        FailureKind, client, no_list, not_loaded, not_yet, of_load, other_api, unknown_model,
    };

    #[test]
    fn a_model_that_is_being_loaded_is_worth_waiting_for() {
        insta::assert_snapshot!(
            not_yet(
                ClientError::Refused(ServerError {
                    code: ServerErrorCode::Grpc(tonic::Code::NotFound),
                    message: "Model with requested version is not loaded yet".to_owned(),
                    is_foreign: false,
                }),
                "version 1 is LOADING"
            )
            .text(),
            @"
        error: the server refused the request: NOT_FOUND: Model with requested version is not loaded yet
        hint: the server has the model, version 1 is LOADING: `--wait 60` waits until it is ready
        "
        );
    }

    #[test]
    fn a_model_that_failed_to_load_is_reported_with_its_error() {
        let refusal = ServerError {
            code: ServerErrorCode::Grpc(tonic::Code::Unavailable),
            message: "Mediapipe is not loaded yet".to_owned(),
            is_foreign: false,
        };
        let failure = not_loaded(ClientError::Refused(refusal), "`g`: version 1: no file");
        insta::assert_snapshot!(failure.text(), @r"
        error: the server refused the request: UNAVAILABLE: Mediapipe is not loaded yet
        hint: the server has failed to load `g`: version 1: no file
        ");
    }

    #[test]
    fn a_load_of_a_stateful_model_is_one_of_sequences() {
        let refused = |message: &str| {
            let failure = of_load(ClientError::Refused(ServerError {
                code: ServerErrorCode::Grpc(tonic::Code::InvalidArgument),
                message: message.to_owned(),
                is_foreign: false,
            }));
            failure.text()
        };
        insta::assert_snapshot!(refused("Sequence ID has not been provided in request inputs"), @r"
        error: the server refused the request: INVALID_ARGUMENT: Sequence ID has not been provided in request inputs
        hint: the model is stateful: `ovms bench MODEL --sequence N` measures sequences of N steps each
        ");
        insta::assert_snapshot!(refused("BYTES for a tensor of FP32"), @r"
        error: the server refused the request: INVALID_ARGUMENT: BYTES for a tensor of FP32
        hint: the server decodes no image for this input: without `:BYTES`, `ovms infer` decodes it, and `@FILE.npy` sends an array
        ");
    }

    #[test]
    fn responses_that_do_not_come_are_counted() {
        let failure = client(ClientError::Partial {
            address: Address::parse("localhost", Api::KserveGrpc).unwrap(),
            limit: Duration::from_secs(1),
            came: 1,
            expected: 2,
        });
        assert_eq!(failure.kind(), FailureKind::Failed);
        insta::assert_snapshot!(failure.text(), @r"
        error: 1 of 2 responses came from localhost:9000 within 1s
        hint: a request seems to have fewer responses: write `--responses 1`, or `--responses end` for all that come until the server ends the stream; `--timeout` sets the limit
        ");
    }

    #[test]
    fn a_server_that_is_not_there_is_reported_with_the_first_cause() {
        let error = ClientError::Unreachable {
            address: Address::parse("localhost", Api::KserveGrpc).unwrap(),
            source: io::Error::from(io::ErrorKind::ConnectionRefused).into(),
        };
        insta::assert_snapshot!(client(error).text(), @r"
        error: no server answers at localhost:9000
          caused by: connection refused
        hint: is `ovms serve` running? `--url` names another address
        ");
        let error = ClientError::Closed {
            address: Address::parse("localhost", Api::KserveGrpc).unwrap(),
            source: io::Error::from(io::ErrorKind::BrokenPipe).into(),
        };
        let failure = client(error);
        assert_eq!(failure.kind(), FailureKind::Unreachable);
        insta::assert_snapshot!(failure.text(), @r"
        error: the connection to localhost:9000 was closed before the answer came
          caused by: broken pipe
        hint: has the server stopped meanwhile? Its log may say more
        ");
        let failure = other_api("localhost:8000", Api::KserveGrpc, Api::KserveRest);
        insta::assert_snapshot!(failure.text(), @r"
        error: the server at localhost:8000 does not speak kserve-grpc
        hint: it speaks `--api kserve-rest`, or `--url` names another address
        ");
    }

    #[test]
    fn a_mistyped_model_gets_the_nearest_name_where_the_server_lists_names() {
        let error = || {
            ClientError::Refused(ServerError {
                code: ServerErrorCode::Grpc(tonic::Code::NotFound),
                message: "Model with requested name is not found".to_owned(),
                is_foreign: false,
            })
        };
        let mut server = ClientOptions {
            address: Address::parse("localhost", Api::KserveGrpc).unwrap(),
            api: Api::KserveGrpc,
            timeout: Duration::from_secs(1),
            headers: HeaderMap::new(),
            concurrency: 1,
            tls: None,
        };
        let text = |known: Option<&[String]>, server: &ClientOptions| {
            unknown_model(error(), "resnte", known, server).text()
        };
        let known = ["resnet", "bert"].map(str::to_owned);
        insta::assert_snapshot!(text(Some(&known), &server), @r"
        error: the server refused the request: NOT_FOUND: Model with requested name is not found
        hint: did you mean `resnet`?
        hint: the server has `resnet`, `bert`
        ");
        insta::assert_snapshot!(text(None, &server), @r"
        error: the server refused the request: NOT_FOUND: Model with requested name is not found
        hint: check the name of the model, and `--model-version` if it is given
        ");
        insta::assert_snapshot!(text(Some(&[]), &server), @r"
        error: the server refused the request: NOT_FOUND: Model with requested name is not found
        hint: the server has no models
        ");
        server
            .headers
            .insert("x-api-key", HeaderValue::from_static("a"));
        insta::assert_snapshot!(text(Some(&[]), &server), @r"
        error: the server refused the request: NOT_FOUND: Model with requested name is not found
        hint: the server has no models, or none that this identity may see: one with the right `admin` alone sees none, unless it has `metadata` or `infer` as well
        ");
    }

    #[test]
    fn a_server_without_a_list_of_models_is_reported() {
        let refused = |code| {
            ClientError::Refused(ServerError {
                code: ServerErrorCode::Grpc(code),
                message: "no".to_owned(),
                is_foreign: false,
            })
        };
        insta::assert_snapshot!(no_list(refused(tonic::Code::Unimplemented)).text(), @r"
        error: the server refused the request: UNIMPLEMENTED: no
        hint: not every server has a list of its models; name a model
        ");
        insta::assert_snapshot!(
            no_list(refused(tonic::Code::Unauthenticated)).text(),
            @"
        error: the server refused the request: UNAUTHENTICATED: no
        hint: give a credential that the server knows: OVMS_API_KEY or `--api-key`, `--bearer`, or `--cert` with `--key`
        "
        );
    }
}
