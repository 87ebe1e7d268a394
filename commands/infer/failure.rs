//! Errors of inputs, and of what is asked for, in terms of the command line: kind, causes, and the next step. Those of calls
//! are in `call_failure`.

use std::path::Path;

use ovms::{
    client::{
        Address, AddressError, Api, ModelMetadata,
        input::{FileKind, InputError, ValueProblem},
    },
    tensor::DataType,
    tls::ClientTlsError,
};

use super::{next_step, refusal, socket};
use crate::{
    error::{Failure, FailureKind},
    ui::quoted_names,
};

/// Reads an address. A number alone is meant as a port, not as the IP address that it can stand for.
pub(crate) fn read_address(url: &str, api: Api) -> Result<Address, AddressError> {
    match url.parse::<u16>() {
        Ok(_) => Err(AddressError::Host(url.to_owned())),
        Err(_) => Address::parse(url, api),
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
        AddressError::Host(_) => {
            let port = url.strip_prefix(':').unwrap_or(url).parse::<u16>().ok();
            failure.may_hint(
                port.map(|port| {
                    format!("`--url localhost:{port}` names that port of this machine")
                }),
            )
        }
        AddressError::Scheme(_) | AddressError::UnixPath | AddressError::Port(_) => failure,
    }
}

/// Returns the failure for TLS that cannot be set up.
pub(crate) fn tls(error: &ClientTlsError) -> Failure {
    let failure = Failure::of(FailureKind::Failed, error);
    match error {
        ClientTlsError::File(error) => failure.may_hint(error.hint()),
        ClientTlsError::NoAuthorities => {
            failure.hint("`--cacert` names a file with the CA of the server")
        }
        ClientTlsError::Setup(_) => failure,
    }
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
        | InputError::StdinImage(_)
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
        InputError::FileSize(_) => failure.hint("part of them is enough"),
        InputError::Turns { .. } => {
            failure.hint("give each input as many values as the others, or one that goes with all")
        }
        InputError::SampleRate { expected, .. } => failure.hint(format!(
            "`ffmpeg -i in.wav -ar {expected} -ac 1 out.wav` resamples it; the model's rate is that of `--sample-rate`"
        )),
        InputError::StdinTwice => failure.hint("give one JSON object of inputs by name"),
        InputError::StdinEmpty => failure.hint("did the previous command fail?"),
        InputError::StdinSize(_) => failure.hint("no server accepts a request of that size"),
        InputError::StdinBytes => {
            let failure =
                failure.hint("`-i NAME:DTYPE:SHAPE=@-.bin` takes it as the bytes of a tensor");
            failure.hint("`-i -:pcm16` takes it as samples of 16 bits, and `-i -:f32` as those of FP32")
        }
        InputError::StdinImage(_) => {
            failure.hint("`magick - png:-` before this command in the pipe converts it")
        }
        InputError::Answer { problem, .. } => failure.caused_by(&problem),
        InputError::NoOutput { name, known, .. }
            if known.is_empty() && FileKind::of(&Path::new("-").with_extension(&name)).is_some() =>
        {
            failure.hint(format!("`@-.{name}` takes standard input as a .{name} file"))
        }
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
            "`{shape}` is not a shape; expected lengths separated by commas, such as 1,10"
        )),
        _ => Some(format!("`{dtype}` is none of {}", all.join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use ovms::{
        client::{
            TensorMetadata,
            input::{InputError, ValueProblem},
        },
        tensor::{DataType, Dim, PartialShape},
    };

    use super::{input, mistaken_type};

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
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
            assert!(text.contains("` is not a shape"), "{name}: {text}");
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
