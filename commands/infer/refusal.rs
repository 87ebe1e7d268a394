//! Next step for what a server refuses, where another request or other flags of the server fix it.

use ovms::{
    client::{ModelMetadata, ServerError, TensorMetadata, input::ValueProblem},
    tensor::{DataType, Dim},
};

use crate::ui::{self, counted};

/// Part of the error for a request of no sequence to a stateful model.
const NO_SEQUENCE: &str = "Sequence ID has not been provided";

/// Part of the error for a batch of another size.
const BATCH: &str = "Invalid input batch size";

/// Next step where the first dimension may be that of a demultiplexer.
const OF_PARTS: &str = "if it is a pipeline with a `demultiply_count`, that says how many parts there are, and no batch size does";

/// Errors of servers, and the next step for each.
const REFUSALS: [(&str, &str); 6] = [
    (
        NO_SEQUENCE,
        "the model is stateful: `--sequence` sends steps, `--start` begins by hand",
    ),
    (
        "Invalid input batch size - Node: ",
        "send batches of that size, or set `\"batch_size\": \"-1\"`, which takes any, at the model of that node in the \
         server's configuration file",
    ),
    (
        BATCH,
        "send as many at once, in several requests, or serve the model with `--batch-size -1`, which takes any",
    ),
    (
        "images are resized where no dimension is -1",
        "without `:BYTES`, `ovms infer` decodes and resizes the image itself",
    ),
    (
        "Invalid number of channels in binary input - Expected: 3; Actual: 1",
        "the image is gray: without `:BYTES`, `ovms infer` decodes it and gives it three channels",
    ),
    (
        "BYTES for a tensor of",
        "the server decodes no image for this input: without `:BYTES`, `ovms infer` decodes it, and \
         `@FILE.npy` sends an array",
    ),
];

/// Part of the error for encoded images of several sizes in a batch.
const SIZES: &str = "are required to have the same resolution";

/// Beginning of the error for an encoded image of a model whose layout has the channels elsewhere.
const NO_NHWC: &str =
    "Received binary image input but resource not configured to accept NHWC layout";

/// Next step for a server that asks for credentials.
pub(crate) const OF_CREDENTIALS: &str = "give a credential that the server knows: OVMS_API_KEY or `--api-key`, \
     `--bearer`, or `--cert` with `--key`";

/// Returns the next steps for a refusal, if there are any; `model` has the metadata if that is known.
pub(super) fn next_steps(refusal: &ServerError, model: Option<&ModelMetadata>) -> Vec<String> {
    let message = &refusal.message;
    if message.contains(SIZES) {
        let takes_any = model.is_some_and(|model| takes_any_size(message, model));
        return vec![of_sizes(takes_any).to_owned()];
    }
    if let Some(hint) = of_no_rows(message) {
        return vec![hint];
    }
    let known = REFUSALS.iter().find(|(text, _)| message.contains(text));
    if let Some((text, hint)) = known {
        let may_be_split = *text == BATCH && model.is_some_and(|it| may_be_split(message, it));
        let more = may_be_split.then(|| OF_PARTS.to_owned());
        return [(*hint).to_owned()].into_iter().chain(more).collect();
    }
    if message.contains(NO_NHWC) || has_channels_elsewhere(message) {
        return vec![
            "the model is NCHW: serve it with `--layout NHWC:NCHW` to decode images".to_owned(),
            "without `:BYTES`, `ovms infer` decodes the image itself".to_owned(),
        ];
    }
    if let Some(hints) = transposed(message) {
        return hints;
    }
    if let Some(hint) = declared(message).or_else(|| misfit(message)) {
        return vec![hint];
    }
    match refusal.is_unauthenticated() {
        true => vec![OF_CREDENTIALS.to_owned()],
        false => Vec::new(),
    }
}

/// Returns the next step for a load that a server refuses.
pub(super) fn of_load(refusal: &ServerError) -> Option<&'static str> {
    let lacks_sequence = refusal.message.contains(NO_SEQUENCE);
    lacks_sequence.then_some(
        "the model is stateful: `ovms bench MODEL --sequence N` measures sequences of N steps each",
    )
}

/// Returns the next step for an input whose batch has no rows: `Invalid input batch size - Expected: 1; Actual: 0; input name: b`.
fn of_no_rows(message: &str) -> Option<String> {
    let (_, sizes) = message.split_once(BATCH)?;
    let (_, sizes) = sizes.split_once("Expected: ")?;
    let (expected, actual) = sizes.split_once("; Actual: ")?;
    let (actual, name) = actual.split_once("; input name: ").unwrap_or((actual, ""));
    let input = match name {
        "" => "the input".to_owned(),
        name => format!("`{name}`"),
    };
    (actual == "0")
        .then(|| format!("{input} has no rows: its first dimension is 0, and has to be {expected}"))
}

/// Returns the input that a server names at the end of an error.
fn input_named<'a>(message: &str, model: &'a ModelMetadata) -> Option<&'a TensorMetadata> {
    let (_, name) = message.rsplit_once("; input name: ")?;
    model.inputs.iter().find(|input| input.name == name)
}

/// Returns whether the input that a server names has a dimension more than rows and images have, as one that a
/// demultiplexer splits has.
fn may_be_split(message: &str, model: &ModelMetadata) -> bool {
    let input = input_named(message, model);
    input.is_some_and(|input| matches!(input.shape.0.len(), 3 | 5..))
}

/// Returns whether the input that a server names takes images of any height or width, to which it resizes none.
fn takes_any_size(message: &str, model: &ModelMetadata) -> bool {
    let input = input_named(message, model);
    let sides = input.and_then(|input| match input.shape.0.as_slice() {
        [.., height, width, _channels] => Some([*height, *width]),
        _ => None,
    });
    sides.is_some_and(|sides| !sides.iter().all(|side| matches!(side, Dim::Fixed(_))))
}

/// Returns the next step for images of several sizes in a batch.
const fn of_sizes(takes_any: bool) -> &'static str {
    if takes_any {
        "the model takes images of any size, so the server does not resize them: send each in its own request, or \
         resize them, as `magick IN.png -resize '640x480!' OUT.png` does"
    } else {
        "a server resizes images where the batch has a bound: serve the model with `--batch-size 1:8` in place of -1; or \
         without `:BYTES`, `ovms infer` decodes and resizes them"
    }
}

/// Returns what is known of a model that failed to load, beyond what a server says to the request; `failed` has its name
/// and its errors.
pub(super) fn failed_to_load(message: &str, failed: &str) -> String {
    let (name, errors) = failed.split_once(": ").unwrap_or((failed, ""));
    let without_version = errors.split_once(": ").map_or(errors, |(_, error)| error);
    // Most servers leave it to their lists.
    match !errors.is_empty() && message.contains(without_version) {
        true => format!("the server has failed to load {name}: its log has more"),
        false => format!("the server has failed to load {failed}"),
    }
}

/// Texts of servers before the place of an image in its batch, from 0 on.
const IMAGE_MARKS: [&str; 3] = [
    "Image parsing failed - image ",
    " in image ",
    "the same resolution - image ",
];

/// Returns how the other images of a batch are sent, of which one cannot be decoded.
pub(super) fn without_image(problem: &ValueProblem) -> Option<String> {
    let ValueProblem::Image {
        file,
        place: Some(place),
        ..
    } = problem
    else {
        return None;
    };
    let (_, count) = **place;
    let others = counted(count - 1, "other image");
    Some(format!(
        "without {file} the {others} can be sent: move it elsewhere; `for file in FILES; do ovms infer MODEL -i \
         \"@$file\" -q > /dev/null || echo \"$file\"; done` finds all that fail"
    ))
}

/// Returns the file of the image that a server names by its input and its place in the batch there, and of the first
/// one where the two differ; `images` has the files of each input.
pub(crate) fn image_named(message: &str, images: &[(String, Vec<String>)]) -> Option<String> {
    let (text, input) = message.rsplit_once("; input name: ")?;
    let mut marks = IMAGE_MARKS.iter();
    let (_, rest) = marks.find_map(|mark| text.split_once(mark))?;
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    let place: usize = digits.parse().ok()?;
    let (_, files) = images.iter().find(|(name, _)| name == input)?;
    let named = format!("image {place} (counted from 0) is {}", files.get(place)?);
    match files.first() {
        Some(first) if rest.contains(" than the first") => {
            Some(format!("{named}, the first one {first}"))
        }
        _ => Some(named),
    }
}

/// Returns whether the server takes the width of a model in NCHW for the channels of an image to decode.
fn has_channels_elsewhere(message: &str) -> bool {
    let expected = message
        .split_once("Invalid number of channels in binary input - Expected: ")
        .and_then(|(_, rest)| rest.split(';').next()?.parse::<u64>().ok());
    expected.is_some_and(|channels| channels > 4)
}

/// Returns the next steps where the channels of an image stand first and the model has them last, or the other way
/// round: `Invalid input shape - Expected: (1,3,224,224); Actual: (1,224,224,3)`.
fn transposed(message: &str) -> Option<Vec<String>> {
    let (_, rest) = message.split_once("Invalid input shape - Expected: ")?;
    let (expected, rest) = rest.split_once("; Actual: ")?;
    let actual = rest.split(';').next()?;
    let is_of_channels = |length: &str| matches!(length, "1" | "3" | "4");
    // Brackets are those of a range.
    let lengths = |shape: &str| -> Option<[String; 4]> {
        let shape = shape.trim().strip_prefix('(')?.strip_suffix(')')?;
        let lengths: Vec<String> = shape.split(',').map(str::to_owned).collect();
        lengths.try_into().ok()
    };
    let (expected, actual) = (lengths(expected)?, lengths(actual)?);
    let is_planar =
        |[_, first, _, last]: &[String; 4]| match (is_of_channels(first), is_of_channels(last)) {
            (true, false) => Some(true),
            (false, true) => Some(false),
            _ => None,
        };
    let hints: &[&str] = match (is_planar(&expected)?, is_planar(&actual)?) {
        (true, false) => &[
            "the model is NCHW and the value NHWC: serve it with `--layout NHWC:NCHW`, which transposes",
            "or send it as NCHW: `array.transpose(0, 3, 1, 2)` of NumPy",
        ],
        // That may be the layout of the server already.
        (false, true) => {
            &["the model takes NHWC and the value is NCHW: `array.transpose(0, 2, 3, 1)` of NumPy"]
        }
        _ => return None,
    };
    Some(hints.iter().map(|hint| (*hint).to_owned()).collect())
}

/// Returns how an input is given that was written with another datatype or shape than its model has:
/// `Invalid input precision - Expected: I64; Actual: FP32; input name: x`.
fn misfit(message: &str) -> Option<String> {
    let (what, rest) = message.split_once(" - Expected: ")?;
    let (expected, rest) = rest.split_once("; Actual: ")?;
    let (_, name) = rest.split_once("; input name: ")?;
    if what == "Invalid input precision" {
        let mut all = DataType::ALL.into_iter();
        let dtype = all.find(|dtype| dtype.precision() == expected)?.kserve();
        let input = ui::shell_word(&format!("{name}:{dtype}"));
        return Some(format!(
            "`{name}` is {dtype}: leave the datatype out, or write `-i {input}=…`"
        ));
    }
    if !matches!(
        what,
        "Invalid input shape" | "Invalid number of shape dimensions"
    ) {
        return None;
    }
    let shape = expected.strip_prefix('(')?.strip_suffix(')')?;
    let lengths = shape
        .split(',')
        .map(|length| match length.parse::<usize>() {
            Ok(_) => length,
            // What may vary is up to the value.
            Err(_) => "N",
        });
    let shape = lengths.collect::<Vec<_>>().join(",");
    let input = ui::shell_word(&format!("{name}::{shape}"));
    Some(match expected {
        "()" => format!("`{name}` is a single number: `-i {name}=1`"),
        _ => format!(
            "`{name}` takes the shape {expected}: give an array of it, or write `-i {input}=…`"
        ),
    })
}

/// Returns how an input is given as a handler of `ovms graph new` declares it, which refuses others:
/// `a: expected FP32 (1, 4), got FP32 (4,)`. The server does not know what handlers declare.
pub(crate) fn declared(message: &str) -> Option<String> {
    let (before, after) = message.split_once(": expected ")?;
    let (expected, got) = after.split_once("), got ")?;
    let (dtype, shape) = expected.split_once(" (")?;
    let name = before.split(char::is_whitespace).next_back()?;
    let lengths = shape.split(',').map(str::trim);
    let lengths = lengths.filter(|length| !length.is_empty());
    let lengths: Option<Vec<&str>> = lengths
        .map(|length| match length {
            // What may vary is up to the value.
            "-1" => Some("N"),
            _ => length.parse::<u64>().is_ok().then_some(length),
        })
        .collect();
    DataType::from_kserve(dtype)?;
    let lengths = lengths?;
    if lengths.is_empty() {
        return None;
    }
    let shape = lengths.join(",");
    let (was, sizes) = got.split_once(" (").unwrap_or((got, ""));
    let sizes = sizes.split([')', ',']).map(str::trim);
    let count = sizes.filter(|size| !size.is_empty()).count();
    // Somebody who has written both already needs to know which of them is another one.
    Some(match was == dtype && count > 1 && count != lengths.len() {
        true => format!(
            "the handler takes {}, and got {count}: `-i {name}:{dtype}:{shape}=…`",
            counted(lengths.len(), "dimension")
        ),
        false => format!("write datatype and shape: `-i {name}:{dtype}:{shape}=…`"),
    })
}

#[cfg(test)]
mod tests {
    use ovms::{
        client::{ModelMetadata, ServerError, ServerErrorCode, TensorMetadata},
        tensor::{Dim, PartialShape},
    };

    use super::{declared, failed_to_load, image_named, next_steps};

    #[test]
    fn a_reason_that_a_server_gives_is_printed_once() {
        let failed = "`m`: version 1: no file";
        for (message, expected) in [
            ("is not found - version 1: no file", "`m`: its log has more"),
            ("is not loaded yet - no file", "`m`: its log has more"),
            ("is not found", failed),
        ] {
            let expected = format!("the server has failed to load {expected}");
            assert_eq!(failed_to_load(message, failed), expected);
        }
    }

    #[test]
    fn an_image_that_a_server_names_has_its_file() {
        let files = |names: [&str; 2]| names.map(str::to_owned).to_vec();
        let images = [
            ("left".to_owned(), files(["a.png", "b.png"])),
            ("right".to_owned(), files(["c.png", "d.png"])),
        ];
        for (message, expected) in [
            (
                "Image parsing failed - image 1: found neither JPEG nor PNG; input name: right",
                Some("image 1 (counted from 0) is d.png"),
            ),
            (
                "Invalid number of channels in binary input - Expected: 3; Actual: 1 in image 0; input name: left",
                Some("image 0 (counted from 0) is a.png"),
            ),
            (
                "Binary input images for this endpoint are required to have the same resolution - image 1 has another \
                 than the first; input name: left",
                Some("image 1 (counted from 0) is b.png, the first one a.png"),
            ),
            // Of another batch, or no image.
            (
                "Image parsing failed - image 2: why; input name: left",
                None,
            ),
            ("Image parsing failed - image 0: why; input name: up", None),
            ("Image parsing failed - image 0: why", None),
            (
                "Image parsing failed - the images need more; input name: left",
                None,
            ),
        ] {
            assert_eq!(
                image_named(message, &images).as_deref(),
                expected,
                "{message}"
            );
        }
    }

    #[test]
    fn what_a_handler_declares_is_said_as_a_flag() {
        for (message, hint) in [
            (
                "node gate: ValueError: a: expected FP32 (1, 4), got FP32 (4,)",
                Some("a:FP32:1,4"),
            ),
            (
                "image: expected UINT8 (-1, -1, 3), got UINT8 (1,)",
                Some("image:UINT8:N,N,3"),
            ),
            ("x: expected INT64 (4,), got FP32 (4,)", Some("x:INT64:4")),
            ("x: expected FP32 , got BYTES (1,)", None),
            ("x: expected FP32, got BYTES (1,)", None),
            ("x: expected FP32 (), got BYTES (1,)", None),
            ("image: expected height x width x 3, got (1,)", None),
            ("x: expected a cat (1), got a dog", None),
        ] {
            let hint = hint.map(|flag| format!("write datatype and shape: `-i {flag}=…`"));
            assert_eq!(declared(message), hint, "{message}");
        }
        // Written already, and of another rank.
        assert_eq!(
            declared("image: expected UINT8 (-1, -1, 3), got UINT8 (1, 2, 2, 3)").as_deref(),
            Some("the handler takes 3 dimensions, and got 4: `-i image:UINT8:N,N,3=…`")
        );
    }

    fn refused(message: &str) -> String {
        let refusal = ServerError {
            code: ServerErrorCode::Grpc(tonic::Code::InvalidArgument),
            message: message.to_owned(),
            is_foreign: false,
        };
        next_steps(&refusal, None).join("\n")
    }

    #[test]
    fn refusals_that_another_request_or_server_fixes_say_how() {
        insta::assert_snapshot!(
            refused("Invalid input batch size - Expected: 1; Actual: 2; input name: image"),
            @"send as many at once, in several requests, or serve the model with `--batch-size -1`, which takes any"
        );
        insta::assert_snapshot!(
            refused("Invalid input batch size - Node: two input: b Invalid batch size - Expected: 1; Actual: 2"),
            @r#"send batches of that size, or set `"batch_size": "-1"`, which takes any, at the model of that node in the server's configuration file"#
        );
        insta::assert_snapshot!(
            refused("Invalid number of channels in binary input - Expected: 224; Actual: 3"),
            @"
        the model is NCHW: serve it with `--layout NHWC:NCHW` to decode images
        without `:BYTES`, `ovms infer` decodes the image itself
        "
        );
        insta::assert_snapshot!(
            refused("Invalid input batch size - Expected: 1; Actual: 0; input name: b"),
            @"`b` has no rows: its first dimension is 0, and has to be 1"
        );
        insta::assert_snapshot!(
            refused("Invalid input batch size - Node: two input: b Invalid batch size - Expected: 1; Actual: 0"),
            @"the input has no rows: its first dimension is 0, and has to be 1"
        );
        let grey = "Invalid number of channels in binary input - Expected: 1; Actual: 3";
        assert_eq!(refused(grey), "");
        insta::assert_snapshot!(
            refused(
                "Received binary image input but resource not configured to accept NHWC layout - Expected: \
                 N...HWC; Actual: NCHW; input name: in"
            ),
            @"
        the model is NCHW: serve it with `--layout NHWC:NCHW` to decode images
        without `:BYTES`, `ovms infer` decodes the image itself
        "
        );
        insta::assert_snapshot!(
            refused(
                "Functionality not implemented - BYTES for a tensor of FP32 with shape (3,8,8): strings are \
                 taken by tensors of strings"
            ),
            @"the server decodes no image for this input: without `:BYTES`, `ovms infer` decodes it, and `@FILE.npy` sends an array"
        );
    }

    #[test]
    fn datatypes_and_shapes_that_do_not_fit_are_said_as_flags() {
        insta::assert_snapshot!(
            refused("Invalid input precision - Expected: I64; Actual: FP32; input name: x"),
            @"`x` is INT64: leave the datatype out, or write `-i x:INT64=…`"
        );
        insta::assert_snapshot!(
            refused("Invalid input precision - Expected: STRING; Actual: FP32; input name: a b"),
            @"`a b` is BYTES: leave the datatype out, or write `-i 'a b:BYTES'=…`"
        );
        insta::assert_snapshot!(
            refused("Invalid number of shape dimensions - Expected: (-1,10); Actual: (10); input name: x"),
            @"`x` takes the shape (-1,10): give an array of it, or write `-i x::N,10=…`"
        );
        insta::assert_snapshot!(
            refused("Invalid input shape - Expected: (1,[2~3]); Actual: (1,5); input name: x"),
            @"`x` takes the shape (1,[2~3]): give an array of it, or write `-i x::1,N=…`"
        );
        insta::assert_snapshot!(
            refused("Invalid number of shape dimensions - Expected: (); Actual: (1); input name: x"),
            @"`x` is a single number: `-i x=1`"
        );
        assert_eq!(
            refused("Invalid input shape - Negative: (-1,10); input name: b"),
            ""
        );
    }

    #[test]
    fn hints_are_those_of_the_input_that_is_named() {
        let message = "Binary input images for this endpoint are required to have the same resolution - image 1 has another than \
                       the first; input name: x";
        let batch = "Invalid input batch size - Expected: 4; Actual: 3; input name: x";
        let dim = |length: &i64| usize::try_from(*length).map_or(Dim::Any, Dim::Fixed);
        let hint = |message: &str, dims: &[i64]| {
            let refusal = ServerError {
                code: ServerErrorCode::Grpc(tonic::Code::InvalidArgument),
                message: message.to_owned(),
                is_foreign: false,
            };
            let model = ModelMetadata {
                name: "m".to_owned(),
                versions: Vec::new(),
                platform: String::new(),
                properties: Default::default(),
                inputs: vec![TensorMetadata {
                    name: "x".to_owned(),
                    datatype: "FP32".to_owned(),
                    shape: PartialShape(dims.iter().map(dim).collect()),
                }],
                outputs: Vec::new(),
            };
            next_steps(&refusal, Some(&model)).join("\n")
        };
        let of_bound = refused(message);
        assert!(of_bound.contains("`--batch-size 1:8`"), "{of_bound}");
        assert_eq!(hint(message, &[-1, 8, 8, 3]), of_bound);
        assert_eq!(hint(batch, &[4, 10]), refused(batch));
        let parts = hint(batch, &[4, 1, 10]);
        assert!(parts.ends_with("and no batch size does"), "{parts}");
        for dims in [[-1, -1, -1, 3], [-1, 8, -1, 3]] {
            let open = hint(message, &dims);
            assert!(
                open.starts_with("the model takes images of any size"),
                "{open}"
            );
        }
        assert_eq!(
            refused(
                "Invalid input shape - Expected: (-1,1,8,8,3) - images are resized where no dimension is -1: with"
            ),
            "without `:BYTES`, `ovms infer` decodes and resizes the image itself"
        );
    }

    #[test]
    fn channels_on_the_other_side_are_moved_by_the_layout_of_the_server() {
        let shapes = |expected: &str, actual: &str| {
            refused(&format!(
                "Invalid input shape - Expected: {expected}; Actual: {actual}; input name: image"
            ))
        };
        insta::assert_snapshot!(shapes("(1,3,224,224)", "(1,224,224,3)"), @"
        the model is NCHW and the value NHWC: serve it with `--layout NHWC:NCHW`, which transposes
        or send it as NCHW: `array.transpose(0, 3, 1, 2)` of NumPy
        ");
        insta::assert_snapshot!(
            shapes("(-1,[8~16],8,1)", "(2,1,8,8)"),
            @"the model takes NHWC and the value is NCHW: `array.transpose(0, 2, 3, 1)` of NumPy"
        );
        for (expected, actual) in [
            ("(1,3,224,224)", "(1,3,112,112)"),
            ("(1,3,8,3)", "(1,8,3,3)"),
            ("(1,10)", "(1,224,224,3)"),
        ] {
            let hint = shapes(expected, actual);
            assert!(!hint.contains("NHWC"), "{expected} {actual}: {hint}");
        }
    }
}
