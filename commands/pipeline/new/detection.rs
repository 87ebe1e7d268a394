//! Pipelines that find, cut out, and classify: a detector, a Python node that crops, and a model for each crop.

use std::path::{Path, PathBuf};

use askama::Template;
use ovms::{
    python,
    servable::TensorInfo,
    tensor::{DataType, Dim},
};

use super::{
    handler_tests, models, typed, validate,
    wiring::{Comment, WiredModel, described, json, unique},
};
use crate::{
    error::Failure,
    local,
    stdout_guard::StdoutGuard,
    ui::{self, shell_word},
    written_files,
};

/// Text at the end of the help.
const AFTER_HELP: &str = "\
The detector takes one image, as FP32, FP16 or U8, and has an output of one of these forms, which \
crops.py reads: detections (1,1,N,7), as of SSD; yolo (1,4+classes,N), as of YOLOv8 and later; rows \
(N,5) or (1,N,6) of box, score, and class; map (1,1,H,W) of scores, as of text detectors. The \
`params` of the node set the form, the minimum score, and the size of crops; RESIZE in crops.py sets \
whether they keep their proportions or are stretched.

Examples:
  ovms pipeline new detection signs models/detector models/classifier
  ovms pipeline new detection text models/find models/read nodes/text

Exit codes: 0 done; 1 a file exists or cannot be written, or the models do not fit together; 64 \
usage; 72 no OpenVINO runtime to read the models with.";

/// The flags as typed.
#[derive(Debug, clap::Args)]
#[command(after_long_help = AFTER_HELP)]
pub(super) struct DetectionArgs {
    /// Name of the pipeline
    name: String,

    /// Folder of the detector, with a folder per version
    #[arg(value_name = "DETECTOR")]
    detector: PathBuf,

    /// Folder of the model that gets each crop
    #[arg(value_name = "MODEL")]
    classifier: PathBuf,

    /// Folder to write to [default: NAME]
    #[arg(value_name = "DIR")]
    folder: Option<PathBuf>,

    /// Overwrite existing files
    #[arg(long)]
    force: bool,

    #[command(flatten)]
    output: ui::OutputArgs,
}

/// Output of a detector, and what it means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Detections,
    Yolo,
    Rows,
    Map,
}

impl Form {
    /// Returns the form that an output has by its shape, if any.
    fn of(output: &TensorInfo) -> Option<Self> {
        // The longest list of YOLO has thousands of places, and the fewest columns are four and a class.
        const COLUMNS: std::ops::RangeInclusive<usize> = 5..=1000;
        match output.shape.0[..] {
            [.., Dim::Fixed(7)] => Some(Self::Detections),
            [_, Dim::Fixed(1), _, _] => Some(Self::Map),
            [_, Dim::Fixed(5 | 6)] | [_, _, Dim::Fixed(5 | 6)] => Some(Self::Rows),
            [_, Dim::Fixed(columns), places] if COLUMNS.contains(&columns) => match places {
                Dim::Fixed(places) if places <= columns => None,
                _ => Some(Self::Yolo),
            },
            _ => None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Detections => "detections",
            Self::Yolo => "yolo",
            Self::Rows => "rows",
            Self::Map => "map",
        }
    }

    /// Returns what is cut out around a box, as a share of its shorter side.
    fn margin(self) -> &'static str {
        match self {
            // Text on a map of scores is thinner than its letters.
            Self::Map => "0.5",
            Self::Detections | Self::Yolo | Self::Rows => "0",
        }
    }
}

/// Image that a model takes.
struct ImageInput<'a> {
    tensor: &'a TensorInfo,
    layout: &'static str,
    /// Height and width; `None` where any will do.
    size: [Option<usize>; 2],
}

impl ImageInput<'_> {
    fn is_sized(&self) -> bool {
        self.size.iter().all(Option::is_some)
    }

    /// Returns the length of an axis that images are made with.
    fn length(&self, axis: usize) -> usize {
        self.size[axis].unwrap_or(224)
    }
}

/// The configuration file.
#[derive(Template)]
#[template(path = "detection.json.jinja")]
struct DetectionText<'a> {
    name: &'a str,
    detector: &'a WiredModel,
    classifier: &'a WiredModel,
    image: ImageInput<'a>,
    crop: ImageInput<'a>,
    /// Output of the detector, and its form.
    found: &'a TensorInfo,
    form: Form,
    /// Name of the output of boxes.
    boxes: &'a str,
}

/// The handler that crops.
#[derive(Template)]
#[template(path = "crops.py.jinja")]
struct CropsText<'a> {
    name: &'a str,
}

/// Runs the subcommand.
pub(super) fn run(args: &DetectionArgs) -> Result<(), Failure> {
    super::named(&args.name, "pipeline")?;
    let folder = args.folder.clone();
    let folder = folder.unwrap_or_else(|| PathBuf::from(&args.name));
    let names = ["config.json", "crops.py", "test_crops.py", "pyovms.pyi"];
    let paths = names.map(|name| folder.join(name));
    for path in &paths {
        written_files::refuse_existing(path, args.force)?;
    }
    let mut stdout = StdoutGuard::take()?;
    local::open_runtime()?;
    let folders = [args.detector.clone(), args.classifier.clone()];
    let (models, steps) = models::look(&folders, Some(&paths[0]))?;
    if models.iter().any(|model| model.name == args.name) {
        let text = format!(
            "the pipeline cannot be called `{}`: a model has that name",
            args.name
        );
        return Err(Failure::usage(text).hint("choose another name"));
    }
    let [detector, classifier] = [steps[0], steps[1]].map(|step| &models[step]);
    let text = text(&args.name, detector, classifier)?;
    validate(&text, &paths[0], false)?;
    let texts = [
        text,
        format!("{}\n", CropsText { name: &args.name }),
        include_str!("crops_test.py").to_owned(),
        python::STUB.to_owned(),
    ];
    let files: Vec<(PathBuf, String)> = paths.iter().cloned().zip(texts).collect();
    written_files::write_into(&folder, &files, |_| args.force)?;
    let files: Vec<&Path> = paths.iter().map(PathBuf::as_path).collect();
    let (config, name) = (typed(&paths[0]), shell_word(&args.name));
    let [stubs, test] = handler_tests(&folder);
    let next = [
        format!("ovms pipeline check {config}"),
        format!("ovms pipeline run {config} -i @IMAGE.png"),
        stubs,
        test,
        format!("ovms serve --config-path {config} --port 9000"),
        format!("ovms infer {name} -i @IMAGE.png"),
    ];
    stdout.print(&written_files::reported(
        &files,
        &next,
        args.output.output(),
    ))
}

/// Writes the configuration file.
fn text(name: &str, detector: &WiredModel, classifier: &WiredModel) -> Result<String, Failure> {
    let (takes, pieces) = (image(detector)?, image(classifier)?);
    let outputs = detector.info.outputs.iter();
    let mut forms = outputs.filter_map(|output| Some((output, Form::of(output)?)));
    let Some((found, form)) = forms.next() else {
        return Err(no_form(detector));
    };
    let outputs = classifier.info.outputs.iter();
    let outputs = outputs.map(|output| output.name.clone()).collect();
    let text = DetectionText {
        name,
        detector,
        classifier,
        image: takes,
        crop: pieces,
        found,
        form,
        boxes: &unique("boxes", &outputs),
    };
    // askama strips the final newline.
    Ok(format!("{text}\n"))
}

/// Returns the one image that a model takes.
fn image(model: &WiredModel) -> Result<ImageInput<'_>, Failure> {
    let refuse = |found: String| {
        let text = format!(
            "the model `{}` does not take one image: {found}",
            model.name
        );
        let hint = "expected one input of FP32, FP16 or U8 with 4 dimensions, one of which is 1 or 3 channels";
        Err(Failure::failed(text).hint(hint))
    };
    let [tensor] = &model.info.inputs[..] else {
        let names: Vec<&str> = model
            .info
            .inputs
            .iter()
            .map(|it| it.name.as_str())
            .collect();
        return refuse(format!("its inputs are {}", names.join(", ")));
    };
    let layout = match tensor.shape.0[..] {
        [_, Dim::Fixed(1 | 3), _, _] => "NCHW",
        [_, _, _, Dim::Fixed(1 | 3)] => "NHWC",
        _ => return refuse(format!("`{}` is {}", tensor.name, described(tensor))),
    };
    if !matches!(tensor.dtype, DataType::F32 | DataType::F16 | DataType::U8) {
        return refuse(format!("`{}` is {}", tensor.name, described(tensor)));
    }
    let first = layout.find('H').unwrap_or(2);
    let length = |axis: usize| match tensor.shape.0[axis] {
        Dim::Fixed(length) => Some(length),
        Dim::Range(..) | Dim::Any => None,
    };
    Ok(ImageInput {
        tensor,
        layout,
        size: [length(first), length(first + 1)],
    })
}

fn no_form(detector: &WiredModel) -> Failure {
    let text = format!(
        "the model `{}` has no output that says where things are",
        detector.name
    );
    let outputs = detector.info.outputs.iter();
    let given = outputs.map(|output| format!("it gives {}: {}", output.name, described(output)));
    given.fold(Failure::failed(text), Failure::detail).hint(
        "expected detections (1,1,N,7), yolo (1,4+classes,N), rows (N,5), or a map (1,1,H,W); \
         `ovms pipeline new --python-node NAME` writes a node for others",
    )
}

#[cfg(test)]
mod tests {
    use ovms::{
        servable::TensorInfo,
        tensor::{DataType, Dim, Layout, PartialShape},
    };

    use super::Form;

    #[test]
    fn outputs_are_known_by_their_shapes() {
        let form = |shape: &[i64]| {
            let dims = shape.iter().map(|&length| match usize::try_from(length) {
                Ok(length) => Dim::Fixed(length),
                Err(_) => Dim::Any,
            });
            Form::of(&TensorInfo {
                name: "out".to_owned(),
                dtype: DataType::F32,
                is_open: false,
                shape: PartialShape(dims.collect()),
                layout: Layout::unspecified(shape.len()),
                port: 0,
            })
        };
        assert_eq!(form(&[1, 1, 200, 7]), Some(Form::Detections));
        assert_eq!(form(&[1, 1, -1, 7]), Some(Form::Detections));
        assert_eq!(form(&[1, 84, 8400]), Some(Form::Yolo));
        assert_eq!(form(&[-1, 84, -1]), Some(Form::Yolo));
        assert_eq!(form(&[1, 300, 6]), Some(Form::Rows));
        assert_eq!(form(&[-1, 5]), Some(Form::Rows));
        assert_eq!(form(&[1, 1, 160, 160]), Some(Form::Map));
        for none in [&[1, 10][..], &[1, 80, 71], &[-1], &[]] {
            assert_eq!(form(none), None, "{none:?}");
        }
    }
}
