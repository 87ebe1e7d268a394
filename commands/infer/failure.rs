//! Errors of the library in terms of the command line: kind, causes, and the next step.

use std::error::Error;

use ovms::{
    client::{
        Address, AddressError, AnswerError, Api, CallPhase, ClientError, ForeignAnswer,
        ModelMetadata, RequestError,
        input::{InputError, ValueProblem},
    },
    tensor::DataType,
    tls::{ClientTlsError, TlsProblem},
};

use super::{handshake, next_step, refusal, socket};
use crate::{
    error::{Failure, FailureKind},
    ui::quoted_names,
};

/// Returns the failure of a call.
pub(crate) fn client(error: ClientError) -> Failure {
    of_request(error, None)
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
            Failure::new(kind, text).hint("`--timeout` sets the limit")
        }
        ClientError::Refused(refusal) => {
            let hints = refusal::next_steps(&refusal, model);
            hints.into_iter().fold(Failure::failed(text), Failure::hint)
        }
        ClientError::Protocol { source, .. } => {
            let kind = match source {
                AnswerError::Decode(_) | AnswerError::Page(_) | AnswerError::NoModel => {
                    FailureKind::Unreachable
                }
                _ => FailureKind::Failed,
            };
            let failure = Failure::new(kind, text).caused_by(&source);
            match kind {
                FailureKind::Unreachable => {
                    failure.hint("is that a model server? check host and port, which `--url` names")
                }
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

/// Returns the failure for an invalid address.
pub(crate) fn address(url: &str, error: &AddressError) -> Failure {
    let text = format!("cannot use the address `{url}`");
    let failure = Failure::usage(text).caused_by(error);
    if let Some(hint) = socket::without_scheme(url) {
        return failure.hint(hint);
    }
    match error {
        AddressError::OtherApi { .. } => failure
            .hint("leave `grpc://` or `grpcs://` out, or `--api`; REST over TLS is `https://`"),
        AddressError::Path(_) => failure.hint("leave it out: each API has paths of its own"),
        AddressError::Scheme(_)
        | AddressError::UnixPath
        | AddressError::Host(_)
        | AddressError::Port(_) => failure,
    }
}

/// Returns the failure for TLS that cannot be set up.
pub(crate) fn tls(error: &ClientTlsError) -> Failure {
    let failure = Failure::of(FailureKind::Failed, error);
    match error {
        ClientTlsError::File(error) => failure.may_hint(error.hint()),
        ClientTlsError::NoAuthorities => {
            failure.hint("`--cacert` names a file with the authority of the server")
        }
        ClientTlsError::Setup(_) => failure,
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
            let text = format!("what answers at {address} is no model server: it sends {found}");
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

/// Returns the failure for a model that failed to load; `failed` has its name and its errors.
pub(super) fn not_loaded(error: ClientError, failed: &str) -> Failure {
    let failure = client(error);
    let hint = refusal::failed_to_load(failure.message(), failed);
    failure.hint(hint)
}

/// Returns the failure for an unknown model; `known` are the models of the server.
pub(super) fn unknown_model(error: ClientError, name: &str, known: Option<&[String]>) -> Failure {
    let failure = client(error);
    match known {
        Some([]) => failure.hint("the server has no models"),
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
        "the server has it as a graph, and graphs have KServe's API only: `--api {other}`"
    ))
}

/// Returns the failure for a sequence of requests to a graph.
pub(super) fn sequence_of_graph(name: &str) -> Failure {
    Failure::usage(format!("`{name}` is a graph, and graphs have no sequences"))
        .hint("`--stream` sends requests to one instance of it")
}

/// Returns the failure for a requested output that the model does not have.
pub(super) fn unknown_output(name: &str, known: &[String]) -> Failure {
    Failure::usage(format!("the model has no output `{name}`"))
        .hint_nearest(name, known.iter().map(String::as_str))
        .hint(format!("the outputs are {}", quoted_names(known)))
}

/// Returns the failure for several outputs if only one is allowed.
pub(super) fn several_outputs(names: &[String]) -> Failure {
    let text = format!("found {} outputs, expected one", names.len());
    Failure::usage(text).hint(match names {
        [] => "choose it with `--output-name`".to_owned(),
        names => format!("choose with `--output-name`: {}", quoted_names(names)),
    })
}

/// Returns [`input`] for a model.
pub(super) fn of_input(model: &ModelMetadata) -> impl Fn(InputError) -> Failure {
    move |error| input(error, Some(&model.name))
}

/// Returns the failure for invalid inputs; `model` is the model's name once it is known.
pub(crate) fn input(error: InputError, model: Option<&str>) -> Failure {
    let kind = match &error {
        InputError::File { .. }
        | InputError::Sound { .. }
        | InputError::NoMatch(_)
        | InputError::FileSize(_)
        | InputError::StdinEmpty
        | InputError::StdinSize(_)
        | InputError::StdinBytes
        | InputError::Answer { .. }
        | InputError::Value {
            problem:
                ValueProblem::Image { .. } | ValueProblem::Pixels { .. } | ValueProblem::Upstream(_),
            ..
        } => FailureKind::Failed,
        _ => FailureKind::Usage,
    };
    let failure = Failure::new(kind, error.to_string());
    match error {
        InputError::File { source, .. } => failure.caused_by(&*source),
        InputError::Sound { problem, .. } => {
            let failure = failure.caused_by(&problem);
            failure.may_hint(next_step::of_sound(&problem))
        }
        InputError::NoMatch(_) => failure.hint(
            "check the folder and the end of the name; `**` matches folders of any depth, and names \
             with a dot in front are left out",
        ),
        InputError::TooManyFiles { .. } => {
            failure.hint("send them in several requests, with a narrower pattern for each")
        }
        InputError::Pattern { source, .. } => failure
            .caused_by(&source)
            .hint("`*`, `?`, `**`, and `[a-z]` match; `[*]` is the character itself"),
        InputError::FileSize(_) => failure.hint("a part of them will do"),
        InputError::Turns { .. } => {
            failure.hint("give each input as many values as the others, or one that goes with all")
        }
        InputError::SampleRate { expected, .. } => failure.hint(format!(
            "`ffmpeg -i in.wav -ar {expected} -ac 1 out.wav` resamples it; the model's rate is that of `--sample-rate`"
        )),
        InputError::StdinTwice => failure.hint("give one JSON object of inputs by name"),
        InputError::StdinEmpty => failure.hint("did the command before it fail?"),
        InputError::StdinSize(_) => failure.hint("no server takes a request of that size"),
        InputError::StdinBytes => {
            let failure =
                failure.hint("`-i NAME:DTYPE:SHAPE=@-.bin` takes it as the bytes of a tensor");
            failure.hint("`-i -:pcm16` takes it as samples of 16 bits, and `-i -:f32` as those of FP32")
        }
        InputError::Answer { problem, .. } => failure.caused_by(&problem),
        InputError::NoOutput { known, .. } if known.is_empty() => {
            failure.hint("only what `--output json` writes, and .npz files, have outputs by name")
        }
        InputError::NoOutput { name, known, .. } => {
            let failure = failure.hint_nearest(&name, known.iter().map(String::as_str));
            failure.hint(format!("it has {}", quoted_names(&known)))
        }
        InputError::Nameless { known } => {
            hint_names(failure, "write `-i NAME=VALUE`: the inputs are", &known)
        }
        InputError::Unknown { name, known } if is_of_a_body(&name) => {
            let failure = failure
                .hint("`-i` takes inputs by name, such as {\"x\": [1, 2]}, and no body of a request")
                .hint(
                    "a whole body is a line of `--stream --requests FILE`, or goes with `curl -d @FILE`; \
                     `--print-curl` has the address",
                );
            hint_names(failure, "the inputs are", &known)
        }
        InputError::Unknown { name, known } => {
            let failure = match mistaken_type(&name, &known) {
                Some(hint) => failure.hint(hint),
                None => failure.hint_nearest(&name, known.iter().map(String::as_str)),
            };
            hint_names(failure, "the inputs are", &known)
        }
        InputError::Twice(_) => {
            failure.hint("only images of one input make a batch; put arrays together in one file")
        }
        InputError::Missing { missing } => {
            let flags: Vec<_> = missing
                .iter()
                .map(|input| format!("-i {}=VALUE", input.name))
                .collect();
            failure
                .hint(format!("add `{}`", flags.join(" ")))
                .hint("or fill what is not given with `--zeros` or `--random`")
                .hint(match model {
                    Some(model) => format!("`ovms infer {model}` alone explains the inputs"),
                    None => "`ovms infer MODEL` alone explains the inputs".to_owned(),
                })
        }
        InputError::Value { name, problem } => {
            let failure = failure.caused_by(&problem);
            let failure = failure.may_hint(next_step::of_value(&name, &problem));
            failure.may_hint(refusal::without_image(&problem))
        }
    }
}

/// Returns whether a name is that of the inputs in the body of a request over REST.
fn is_of_a_body(name: &str) -> bool {
    matches!(name, "inputs" | "instances")
}

fn hint_names(failure: Failure, text: &str, names: &[String]) -> Failure {
    if names.is_empty() {
        failure
    } else {
        failure.hint(format!("{text} {}", quoted_names(names)))
    }
}

/// Describes the error in the datatype or shape after the name of a known input.
fn mistaken_type(name: &str, known: &[String]) -> Option<String> {
    let rest = |input: &String| name.strip_prefix(input.as_str())?.strip_prefix(':');
    let rest = known.iter().find_map(rest)?;
    let (dtype, shape) = match rest.split_once(':') {
        Some((dtype, shape)) => (dtype, Some(shape)),
        None => (rest, None),
    };
    let all = DataType::ALL.map(DataType::kserve);
    let is_known = all.iter().any(|known| known.eq_ignore_ascii_case(dtype));
    match shape {
        Some(shape) if is_known || dtype.is_empty() => Some(format!(
            "`{shape}` is no shape, which is lengths with commas between them, such as 1,10"
        )),
        _ => Some(format!("`{dtype}` is none of {}", all.join(", "))),
    }
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
    use std::io;

    use ovms::{
        client::{
            Address, Api, ClientError, ServerError, ServerErrorCode, TensorMetadata,
            input::{InputError, ValueProblem},
        },
        tensor::{DataType, Dim, PartialShape},
    };

    use super::{
        FailureKind, client, input, mistaken_type, no_list, not_loaded, not_yet, other_api,
        unknown_model,
    };

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

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
    fn a_mistyped_model_gets_the_nearest_name_where_the_server_tells_names() {
        let error = || {
            ClientError::Refused(ServerError {
                code: ServerErrorCode::Grpc(tonic::Code::NotFound),
                message: "Model with requested name is not found".to_owned(),
                is_foreign: false,
            })
        };
        let known = names(&["resnet", "bert"]);
        insta::assert_snapshot!(unknown_model(error(), "resnte", Some(&known)).text(), @r"
        error: the server refused the request: NOT_FOUND: Model with requested name is not found
        hint: did you mean `resnet`?
        hint: the server has `resnet`, `bert`
        ");
        insta::assert_snapshot!(unknown_model(error(), "resnte", None).text(), @r"
        error: the server refused the request: NOT_FOUND: Model with requested name is not found
        hint: check the name of the model, and `--model-version` if it is given
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

    #[test]
    fn inputs_that_do_not_fit_come_with_the_next_step() {
        let missing = TensorMetadata {
            name: "b".to_owned(),
            datatype: "FP32".to_owned(),
            shape: PartialShape(vec![Dim::Any, Dim::Fixed(10)]),
        };
        let error = InputError::Missing {
            missing: vec![missing],
        };
        insta::assert_snapshot!(input(error, Some("m")).text(), @r"
        error: found no value for input `b` (FP32 (-1,10))
        hint: add `-i b=VALUE`
        hint: or fill what is not given with `--zeros` or `--random`
        hint: `ovms infer m` alone explains the inputs
        ");
        let error = InputError::Unknown {
            name: "imgae".to_owned(),
            known: names(&["image", "size"]),
        };
        insta::assert_snapshot!(input(error, None).text(), @r"
        error: the model has no input `imgae`
        hint: did you mean `image`?
        hint: the inputs are `image`, `size`
        ");
        let error = InputError::Unknown {
            name: "inputs".to_owned(),
            known: names(&["input"]),
        };
        insta::assert_snapshot!(input(error, None).text(), @r#"
        error: the model has no input `inputs`
        hint: `-i` takes inputs by name, such as {"x": [1, 2]}, and no body of a request
        hint: a whole body is a line of `--stream --requests FILE`, or goes with `curl -d @FILE`; `--print-curl` has the address
        hint: the inputs are `input`
        "#);
        let error = InputError::Unknown {
            name: "image:FLOAT".to_owned(),
            known: names(&["image"]),
        };
        insta::assert_snapshot!(input(error, None).text(), @r"
        error: the model has no input `image:FLOAT`
        hint: `FLOAT` is none of BOOL, INT8, INT16, INT32, INT64, UINT8, UINT16, UINT32, UINT64, FP16, BF16, FP32, FP64, BYTES
        hint: the inputs are `image`
        ");
        for name in ["image::2x4", "image:fp32:2,"] {
            let text = mistaken_type(name, &names(&["size", "image"])).unwrap();
            assert!(text.contains("` is no shape"), "{name}: {text}");
        }
        assert_eq!(mistaken_type("imagine:FP32:x", &names(&["image"])), None);
        let error = InputError::Value {
            name: "image".to_owned(),
            problem: ValueProblem::Dtype {
                found: DataType::U8,
                expected: DataType::F32,
            },
        };
        insta::assert_snapshot!(input(error, None).text(), @r"
        error: cannot use the value given for input `image`
          caused by: found elements of UINT8, expected FP32
        hint: `-i image:FP32=…` converts the array
        ");
        let error = InputError::Value {
            name: "audio".to_owned(),
            problem: ValueProblem::Dtype {
                found: DataType::I16,
                expected: DataType::F32,
            },
        };
        insta::assert_snapshot!(input(error, None).text(), @r"
        error: cannot use the value given for input `audio`
          caused by: found elements of INT16, expected FP32
        hint: `-i audio:FP32=…` converts the array and keeps its values; 16-bit audio is scaled to -1…1 only as `@FILE.wav`, `@FILE.pcm`, or `-:pcm16`
        ");
        let error = InputError::Value {
            name: "ids".to_owned(),
            problem: ValueProblem::Range {
                value: "3000000000".to_owned(),
                found: DataType::I64,
                expected: DataType::I32,
            },
        };
        insta::assert_snapshot!(input(error, None).text(), @r"
        error: cannot use the value given for input `ids`
          caused by: 3000000000 of INT64 does not fit INT32
        hint: correct the value; INT32 takes whole numbers from -2147483648 to 2147483647
        ");
    }

    #[test]
    fn patterns_of_files_come_with_the_next_step() {
        let error = InputError::NoMatch("photos/*.png".to_owned());
        insta::assert_snapshot!(input(error, None).text(), @r"
        error: no file matches `photos/*.png`
        hint: check the folder and the end of the name; `**` matches folders of any depth, and names with a dot in front are left out
        ");
        let error = InputError::TooManyFiles {
            pattern: "photos/*.png".to_owned(),
            most: 4096,
        };
        insta::assert_snapshot!(input(error, None).text(), @r"
        error: more than 4096 files match `photos/*.png`
        hint: send them in several requests, with a narrower pattern for each
        ");
        insta::assert_snapshot!(input(InputError::Twice("x".to_owned()), None).text(), @r"
        error: found input `x` twice
        hint: only images of one input make a batch; put arrays together in one file
        ");
    }
}
