//! Things that a model has found on images: where they are, what they are, and how sure it is.

use std::borrow::Cow;

use super::summary::descending;
use crate::{
    client::message::{ClientResponse, TensorMetadata},
    tensor::{
        DataType, Dim, Tensor,
        values::{Value, values},
    },
};

/// Last words of the names of outputs with boxes.
const BOXES: [&str; 6] = ["box", "boxes", "bbox", "bboxes", "coordinates", "coords"];

/// Last words of the names of outputs with scores.
const SCORES: [&str; 6] = [
    "score",
    "scores",
    "confidence",
    "confidences",
    "confidence_level",
    "confidence_levels",
];

/// Last words of the names of outputs with classes.
const CLASSES: [&str; 8] = [
    "label",
    "labels",
    "label_id",
    "label_ids",
    "class",
    "classes",
    "class_id",
    "class_ids",
];

/// Numbers of a row of OpenVINO's `DetectionOutput`: image, class, score, and box.
const COLUMNS: usize = 7;

/// Numbers of a box.
const CORNERS: usize = 4;

/// A thing that was found.
#[derive(Debug, Clone, PartialEq)]
pub struct Detection<'a> {
    /// The place among all that the answer has, from 0.
    pub index: usize,
    /// The number of its class, if there are classes.
    pub class: Option<u64>,
    /// The name of its class, if there is one.
    pub label: Option<Cow<'a, str>>,
    /// The score.
    pub score: Value<'a>,
    /// The four numbers of the box, in the order that the output has.
    pub bounds: [Value<'a>; CORNERS],
}

/// Things that were found, the surest first.
#[derive(Debug, Clone, PartialEq)]
pub struct Detections<'a> {
    /// The output with the boxes.
    pub output: &'a str,
    /// Things found on each image.
    pub images: Vec<Vec<Detection<'a>>>,
    /// Marks boxes that are known to be left, top, right, and bottom.
    pub has_corners: bool,
}

/// Returns whether the outputs of an answer may be boxes with their scores, as far as metadata shows.
pub fn may_be_detections<'a>(outputs: impl IntoIterator<Item = &'a TensorMetadata>) -> bool {
    let outputs: Vec<&TensorMetadata> = outputs.into_iter().collect();
    let has_boxes = |output: &TensorMetadata| match (output.dtype(), output.shape.0.last()) {
        // Metadata of graphs have no shapes.
        (None, _) => true,
        (Some(_), Some(Dim::Fixed(length))) => (CORNERS..=CORNERS + 1).contains(length),
        (Some(_), Some(_)) => true,
        (Some(_), None) => false,
    };
    let is_boxes = |it: &&&TensorMetadata| is_named(&it.name, &BOXES);
    let mut boxes = outputs.iter().filter(is_boxes);
    outputs.len() > 1 && boxes.next().is_some_and(|it| has_boxes(it)) && boxes.next().is_none()
}

/// Returns whether an output may be that of OpenVINO's `DetectionOutput`.
pub fn may_be_detection_output(output: &TensorMetadata) -> bool {
    let one = Dim::Fixed(1);
    matches!(&output.shape.0[..], [a, b, _, Dim::Fixed(COLUMNS)] if *a == one && *b == one)
}

/// Finds the detections of an answer, `count` of each image at most; `None` if its outputs leave a doubt what they are.
///
/// They are those of one output (1,1,N,7) of OpenVINO's `DetectionOutput`, or of several outputs: boxes (N,4), (1,N,4),
/// or (N,1,4) by name, with scores and perhaps classes of as many rows by name, with a score behind each box, or with one
/// other output that has the shares of several classes for each box. `names` returns the names of the classes of an output.
pub fn detections<'a>(
    answer: &'a ClientResponse,
    count: usize,
    names: impl Fn(&str) -> &'a [String],
) -> Option<Detections<'a>> {
    let mut found = match answer.outputs.as_slice() {
        [(name, only)] if answer.opaque.is_empty() => detection_output(name, only, names)?,
        outputs => of_several(outputs, names)?,
    };
    for image in &mut found.images {
        // A place that nothing was found for is filled with zeros.
        image.retain(|it| !is_zero(it.score) || !it.bounds.iter().all(|it| is_zero(*it)));
        image.sort_by(|a, b| descending(a.score, b.score).then(a.index.cmp(&b.index)));
        image.truncate(count);
    }
    Some(found)
}

/// Reads rows of image, class, score, left, top, right, and bottom, up to one of image -1.
fn detection_output<'a>(
    name: &'a str,
    tensor: &'a Tensor,
    names: impl Fn(&str) -> &'a [String],
) -> Option<Detections<'a>> {
    let [1, 1, rows, COLUMNS] = *tensor.shape() else {
        return None;
    };
    if !tensor.dtype().is_float() {
        return None;
    }
    let labels = names(name);
    let numbers: Vec<Value<'a>> = values(tensor).collect();
    let mut images: Vec<Vec<Detection<'a>>> = vec![Vec::new()];
    for (index, row) in numbers.chunks_exact(COLUMNS).enumerate() {
        let &[image, class, score, left, top, right, bottom] = row else {
            return None;
        };
        if image.as_f64() == Some(-1.0) {
            break;
        }
        let image = usize::try_from(whole(image)?).ok()?;
        let class = whole(class)?;
        // Other numbers of the same shape are no detections.
        let is_score = score.as_f64().is_some_and(|it| (0.0..=1.001).contains(&it));
        if image >= rows || !is_score {
            return None;
        }
        if images.len() <= image {
            images.resize_with(image + 1, Vec::new);
        }
        images[image].push(Detection {
            index,
            class: Some(class),
            label: label(labels, class),
            score,
            bounds: [left, top, right, bottom],
        });
    }
    Some(Detections {
        output: name,
        images,
        has_corners: true,
    })
}

fn of_several<'a>(
    outputs: &'a [(String, Tensor)],
    names: impl Fn(&str) -> &'a [String],
) -> Option<Detections<'a>> {
    let boxes = Sole::of(outputs, &BOXES).one()?;
    let (rows, width) = rows_of_boxes(&boxes.1)?;
    let classes = match Sole::of(outputs, &CLASSES) {
        Sole::None => None,
        Sole::One(classes) => Some((classes, classes_of(&classes.1, rows)?)),
        Sole::Several => return None,
    };
    let corners: Vec<Value<'a>> = values(&boxes.1).collect();
    let scores = match Sole::of(outputs, &SCORES) {
        Sole::One(scores) => match single_of(&scores.1, rows) {
            Some(numbers) if scores.1.dtype().is_float() => Scores::Single(numbers),
            _ => Scores::of_classes(scores, rows)?,
        },
        Sole::Several => return None,
        Sole::None if width > CORNERS => {
            Scores::Single(corners.chunks_exact(width).map(|it| it[CORNERS]).collect())
        }
        Sole::None => {
            let others = outputs.iter().filter(|(name, _)| *name != boxes.0);
            let scores = others.filter_map(|it| Scores::of_classes(it, rows));
            let mut scores = scores.filter(Scores::are_of_one_class_each);
            let only = scores.next()?;
            scores.next().is_none().then_some(only)?
        }
    };
    let mut image = Vec::with_capacity(rows);
    for (index, row) in corners.chunks_exact(width).enumerate() {
        let (class, named, score) = match (&classes, &scores) {
            (Some((output, classes)), Scores::Single(scores)) => {
                let (class, text) = classes.get(index)?.clone();
                let named = class.and_then(|class| label(names(&output.0), class));
                (class, text.or(named), *scores.get(index)?)
            }
            (None, Scores::Single(scores)) => (None, None, *scores.get(index)?),
            (None, Scores::OfClasses(scores)) => {
                let (class, score) = *scores.best.get(index)?;
                (Some(class), label(names(scores.output), class), score)
            }
            // Which class counts is not known.
            (Some(_), Scores::OfClasses(_)) => return None,
        };
        image.push(Detection {
            index,
            class,
            label: named,
            score,
            bounds: row[..CORNERS].try_into().ok()?,
        });
    }
    Some(Detections {
        output: &boxes.0,
        images: vec![image],
        has_corners: false,
    })
}

/// The one output of several that has a name of a kind.
enum Sole<'a> {
    None,
    One(&'a (String, Tensor)),
    Several,
}

impl<'a> Sole<'a> {
    fn of(outputs: &'a [(String, Tensor)], words: &[&str]) -> Self {
        let mut found = outputs.iter().filter(|(name, _)| is_named(name, words));
        match (found.next(), found.next()) {
            (None, _) => Self::None,
            (Some(only), None) => Self::One(only),
            (Some(_), Some(_)) => Self::Several,
        }
    }

    fn one(self) -> Option<&'a (String, Tensor)> {
        match self {
            Self::One(only) => Some(only),
            Self::None | Self::Several => None,
        }
    }
}

/// Number or name of a class.
type Class<'a> = (Option<u64>, Option<Cow<'a, str>>);

/// Scores of boxes.
enum Scores<'a> {
    /// One of each.
    Single(Vec<Value<'a>>),
    /// The best of several classes.
    OfClasses(BestScores<'a>),
}

/// Best scores of boxes that have a score for each class.
struct BestScores<'a> {
    output: &'a str,
    /// Class and score of each box.
    best: Vec<(u64, Value<'a>)>,
    /// Indicates that the scores of each box add up to one.
    are_shares: bool,
}

impl<'a> Scores<'a> {
    /// Takes the best of the scores of several classes for each box.
    fn of_classes((name, tensor): &'a (String, Tensor), rows: usize) -> Option<Self> {
        let (&width, outer) = tensor.shape().split_last()?;
        if width < 2 || !tensor.dtype().is_float() || !is_list(outer, rows) {
            return None;
        }
        let numbers: Vec<Value<'a>> = values(tensor).collect();
        let best = |row: &[Value<'a>]| {
            let better = |a: &usize, b: &usize| descending(row[*a], row[*b]).then(a.cmp(b));
            let class = (0..row.len()).min_by(better)?;
            Some((class as u64, row[class]))
        };
        let are_shares = |row: &[Value<'a>]| {
            let mut sum = 0.0;
            for number in row.iter().filter_map(Value::as_f64) {
                if !(0.0..=1.001).contains(&number) {
                    return false;
                }
                sum += number;
            }
            (0.98..=1.02).contains(&sum)
        };
        Some(Self::OfClasses(BestScores {
            output: name,
            best: numbers
                .chunks_exact(width)
                .map(best)
                .collect::<Option<_>>()?,
            are_shares: numbers.chunks_exact(width).all(are_shares),
        }))
    }

    /// Returns whether these are shares of one, as numbers of other meanings, such as features, are not.
    fn are_of_one_class_each(&self) -> bool {
        matches!(self, Self::OfClasses(scores) if scores.are_shares)
    }
}

/// Returns whether the last word of a name is one of these.
fn is_named(name: &str, words: &[&str]) -> bool {
    let name = name.rsplit('/').next().unwrap_or(name);
    let name = name.split(':').next().unwrap_or(name).to_ascii_lowercase();
    words.iter().any(|word| {
        let rest = name.strip_suffix(*word);
        rest.is_some_and(|rest| rest.is_empty() || rest.ends_with(['_', '-', '.']))
    })
}

/// Returns whether a shape is that of so many elements in a row, but for dimensions of 1.
fn is_list(shape: &[usize], length: usize) -> bool {
    let mut longer = shape.iter().filter(|it| **it != 1);
    match longer.next() {
        None => length == 1,
        Some(&only) => only == length && longer.next().is_none(),
    }
}

/// Returns the number of boxes and how many numbers each of them has.
fn rows_of_boxes(tensor: &Tensor) -> Option<(usize, usize)> {
    let (&width, outer) = tensor.shape().split_last()?;
    let is_number = !matches!(tensor.dtype(), DataType::String | DataType::Bool);
    let rows = outer.iter().product();
    let is_boxes = (CORNERS..=CORNERS + 1).contains(&width) && matches!(outer.len(), 1 | 2);
    (is_number && is_boxes && is_list(outer, rows)).then_some((rows, width))
}

/// Returns the elements of a tensor that has one for each box.
fn single_of(tensor: &Tensor, rows: usize) -> Option<Vec<Value<'_>>> {
    let is_list = !tensor.shape().is_empty() && is_list(tensor.shape(), rows);
    let elements: Vec<Value<'_>> = values(tensor).collect();
    (is_list && elements.len() == rows).then_some(elements)
}

/// Returns the class of each box, by its number or its name.
fn classes_of(tensor: &Tensor, rows: usize) -> Option<Vec<Class<'_>>> {
    let read = |value| match value {
        Value::Bytes(text) => Some((None, Some(String::from_utf8_lossy(text)))),
        value => Some((Some(whole(value)?), None)),
    };
    single_of(tensor, rows)?.into_iter().map(read).collect()
}

/// Returns the name of a class.
fn label(names: &[String], class: u64) -> Option<Cow<'_, str>> {
    let name = names.get(usize::try_from(class).ok()?)?;
    Some(Cow::Borrowed(name.as_str()))
}

/// Returns a number of a class or an image.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a whole number from 0 to 2^32"
)]
fn whole(value: Value<'_>) -> Option<u64> {
    let number = value.as_f64()?;
    let is_whole = number.fract() == 0.0 && (0.0..=f64::from(u32::MAX)).contains(&number);
    is_whole.then_some(number as u64)
}

fn is_zero(value: Value<'_>) -> bool {
    value.as_f64() == Some(0.0)
}

#[cfg(test)]
mod tests {
    use super::{Detections, detections, may_be_detection_output, may_be_detections};
    use crate::{
        client::message::{ClientResponse, TensorMetadata},
        tensor::{DataType, Tensor, TensorMap, values::Packer},
    };

    fn tensor(dtype: DataType, shape: &[usize], numbers: &[f64]) -> Tensor {
        let mut packer = Packer::new(dtype, numbers.len());
        for number in numbers {
            match dtype.is_float() {
                true => packer.push_f64(*number).unwrap(),
                false => packer
                    .push_i64(number.to_string().parse().unwrap())
                    .unwrap(),
            }
        }
        Tensor::new(dtype, shape.to_vec(), packer.finish()).unwrap()
    }

    fn floats(shape: &[usize], numbers: &[f64]) -> Tensor {
        tensor(DataType::F32, shape, numbers)
    }

    fn answer(outputs: &[(&str, Tensor)]) -> ClientResponse {
        let outputs = outputs.iter();
        ClientResponse {
            model_name: "m".to_owned(),
            model_version: "1".to_owned(),
            id: String::new(),
            outputs: TensorMap::from_iter(
                outputs.map(|(name, it)| ((*name).to_owned(), it.clone())),
            ),
            opaque: Vec::new(),
        }
    }

    fn line(found: &Detections<'_>) -> String {
        let one = |it: &super::Detection<'_>| {
            let numbers = it.bounds.map(|it| it.as_f64().unwrap().to_string());
            format!(
                "{} {} {} {} {}",
                it.index,
                it.class.map_or("-".to_owned(), |it| it.to_string()),
                it.label.as_deref().unwrap_or("-"),
                it.score.as_f64().unwrap(),
                numbers.join(",")
            )
        };
        let images = found.images.iter();
        let images = images.map(|image| image.iter().map(one).collect::<Vec<_>>().join("; "));
        images.collect::<Vec<_>>().join(" | ")
    }

    fn found(outputs: &[(&str, Tensor)], count: usize) -> Option<String> {
        let names = ["sky", "cat", "dog"].map(str::to_owned);
        let answer = answer(outputs);
        let found = detections(&answer, count, |_| &names[..])?;
        assert_eq!(found.output, outputs[0].0);
        Some(line(&found))
    }

    #[test]
    fn rows_of_the_operation_are_detections() {
        let rows = [
            [0.0, 1.0, 0.25, 0.0, 0.0, 0.5, 0.5],
            [0.0, 2.0, 0.75, 0.0, 0.5, 0.5, 1.0],
            [1.0, 9.0, 0.5, 0.5, 0.0, 1.0, 0.5],
            [-1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0],
            [7.5, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0],
        ];
        let output = |rows: &[[f64; 7]]| {
            let numbers: Vec<f64> = rows.iter().flatten().copied().collect();
            [("out", floats(&[1, 1, rows.len(), 7], &numbers))]
        };
        let all = found(&output(&rows), 5).unwrap();
        assert_eq!(
            all,
            "1 2 dog 0.75 0,0.5,0.5,1; 0 1 cat 0.25 0,0,0.5,0.5 | 2 9 - 0.5 0.5,0,1,0.5"
        );
        assert_eq!(
            found(&output(&rows[..2]), 1).unwrap(),
            "1 2 dog 0.75 0,0.5,0.5,1"
        );
        assert_eq!(found(&output(&rows[3..]), 1).unwrap(), "");
        // Other numbers of the same shape.
        for (place, other) in [
            (0, 0.5),
            (0, 3.0),
            (1, 0.5),
            (1, -1.0),
            (2, 1.5),
            (2, f64::NAN),
        ] {
            let mut row = rows[0];
            row[place] = other;
            assert_eq!(found(&output(&[row]), 1), None, "{place} {other}");
        }
        assert_eq!(found(&[("out", floats(&[1, 7], &rows[0]))], 1), None);
    }

    #[test]
    fn boxes_with_scores_are_detections() {
        let corners = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 0.0, 0.0, 0.0, 0.0];
        let scores = [0.25, 0.5, 0.0];
        let classes = [2.0, 1.0, 0.0];
        let best = "1 1 cat 0.5 5,6,7,8; 0 2 dog 0.25 1,2,3,4";
        for (of_boxes, of_scores, of_classes) in [
            (&[3, 4][..], &[3][..], &[3][..]),
            (&[1, 3, 4][..], &[1, 3][..], &[1, 3][..]),
            (&[3, 1, 4][..], &[3, 1, 1][..], &[3, 1][..]),
        ] {
            let boxes = ("detection_boxes:0", floats(of_boxes, &corners));
            let scores = ("a/detection_scores", floats(of_scores, &scores));
            for dtype in [DataType::I64, DataType::F32] {
                let classes = ("label_ids", tensor(dtype, of_classes, &classes));
                let count = ("num_detections", floats(&[1], &[2.0]));
                let all = [boxes.clone(), scores.clone(), classes, count];
                assert_eq!(found(&all, 3).as_deref(), Some(best));
            }
            assert_eq!(
                found(&[boxes, scores], 1).as_deref(),
                Some("1 - - 0.5 5,6,7,8")
            );
        }
        let boxes = ("boxes", tensor(DataType::I32, &[3, 1, 4], &corners));
        // A node that cuts out, and a model for each piece.
        let shares = [0.25, 0.25, 0.5, 0.75, 0.25, 0.0, 1.0, 0.0, 0.0];
        let of_classes = floats(&[3, 1, 3], &shares);
        let pieces = ("chars", floats(&[3, 2, 2], &[0.5; 12]));
        assert_eq!(
            found(
                &[boxes.clone(), ("y", of_classes.clone()), pieces.clone()],
                3
            )
            .as_deref(),
            Some("2 0 sky 1 0,0,0,0; 1 0 sky 0.75 5,6,7,8; 0 2 dog 0.5 1,2,3,4")
        );
        let features = floats(&[3, 3], &[0.5; 9]);
        assert_eq!(found(&[boxes.clone(), ("y", features.clone())], 1), None);
        assert_eq!(
            found(&[boxes.clone(), ("scores", features)], 1).as_deref(),
            Some("0 0 sky 0.5 1,2,3,4")
        );
        // The score stands behind the box.
        let rows = [1.0, 2.0, 3.0, 4.0, 0.5, 5.0, 6.0, 7.0, 8.0, 0.75];
        let rows = ("boxes", floats(&[2, 5], &rows));
        let mut names = Packer::new(DataType::String, 2);
        names.push_bytes(b"a").unwrap();
        names.push_bytes(b"b").unwrap();
        let names = Tensor::new(DataType::String, vec![2], names.finish()).unwrap();
        assert_eq!(
            found(&[rows, ("labels", names)], 1).as_deref(),
            Some("1 - b 0.75 5,6,7,8")
        );
        // Doubts.
        let other = ("raw_boxes", floats(&[3, 4], &corners));
        let classes = ("labels", floats(&[3], &[0.5; 3]));
        let scores = ("scores", floats(&[3], &scores));
        for doubtful in [
            vec![boxes.clone(), pieces],
            vec![boxes.clone(), ("scores", floats(&[2], &[0.5; 2]))],
            vec![boxes.clone(), scores.clone(), classes],
            vec![boxes.clone(), scores, other],
            vec![boxes.clone(), ("y", of_classes.clone()), ("z", of_classes)],
            vec![boxes],
        ] {
            assert_eq!(found(&doubtful, 1), None, "{doubtful:?}");
        }
    }

    #[test]
    fn metadata_show_whether_there_may_be_detections() {
        let output = |name: &str, dtype: &str, shape: &[i64]| {
            TensorMetadata::new(name.to_owned(), dtype.to_owned(), shape)
        };
        let scores = output("scores", "FP32", &[-1]);
        for (boxes, expected) in [
            (output("boxes", "FP32", &[-1, 4]), true),
            (output("boxes", "FP32", &[-1, -1]), true),
            (output("boxes", "INVALID", &[]), true),
            (output("boxes", "FP32", &[-1, 6]), false),
            (output("foxes", "FP32", &[-1, 4]), false),
        ] {
            assert_eq!(may_be_detections([&boxes, &scores]), expected, "{boxes:?}");
            assert!(!may_be_detections([&boxes]));
            assert!(!may_be_detections([&boxes, &boxes]));
        }
        assert!(may_be_detection_output(&output(
            "y",
            "FP32",
            &[1, 1, -1, 7]
        )));
        assert!(!may_be_detection_output(&output(
            "y",
            "FP32",
            &[1, 2, 3, 7]
        )));
    }
}
