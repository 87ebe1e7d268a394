//! The highest scores of an output, with the labels of the classes: `--top`.

use std::{fs, path::PathBuf};

use ovms::{
    client::{
        ClientResponse, ModelMetadata, ModelProperties, TensorMetadata,
        output::{self, Detections, Ranked, TopError, is_nan, number},
    },
    tensor::{
        DataType, Dim, Tensor,
        values::{Value, values},
    },
};

use super::run::the_output;
use crate::{
    error::Failure,
    ui::{self, Table, counted, visible},
};

/// Flags of the ranking.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct RankingArgs {
    /// Show the K highest scores of the last axis of the output
    ///
    /// For a detector, the K boxes with the highest scores. NaN is not ranked.
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u32).range(1..))]
    top: Option<u32>,

    /// File with a label per line, for each score [default: those of the model]
    #[arg(long, value_name = "FILE", requires = "top")]
    labels: Option<PathBuf>,
}

/// Finds the one output to rank: that of scores, where all others have the label of each row alone, as of classifiers of
/// scikit-learn.
pub(crate) fn the_scores(asked: &[String], model: &ModelMetadata) -> Result<String, Failure> {
    let is_scores = |it: &&TensorMetadata| {
        let is_float = it.dtype().is_some_and(DataType::is_float);
        is_float && matches!(it.shape.0[..], [.., _, ref classes] if *classes != Dim::Fixed(1))
    };
    let is_label = |it: &TensorMetadata| {
        let is_number = it.dtype().is_some_and(|dtype| !dtype.is_float());
        is_number && matches!(it.shape.0[..], [_] | [_, Dim::Fixed(1)])
    };
    let scores = model.outputs.iter().find(is_scores);
    match scores.filter(|_| asked.is_empty()) {
        Some(scores) if (model.outputs.iter()).all(|it| it.name == scores.name || is_label(it)) => {
            Ok(scores.name.clone())
        }
        _ => the_output(asked, model),
    }
}

/// Labels of a file.
#[derive(Debug)]
struct Labels {
    path: PathBuf,
    names: Vec<String>,
}

/// Ranking that is asked for.
#[derive(Debug)]
pub(crate) struct Ranking {
    count: usize,
    /// Labels of the flag.
    labels: Option<Labels>,
}

/// Highest scores of each row of an output, and the labels if there are any.
#[derive(Debug)]
pub(crate) struct RankedOutput<'a> {
    /// Name of the output.
    pub(crate) name: &'a str,
    pub(crate) rows: Vec<Vec<Ranked<'a>>>,
    /// Number of scores that are NaN, which are not ranked.
    nans: usize,
    /// Indicates that each row has a single number.
    is_single: bool,
    /// Indicates that the rows are those of one answer, as raw boxes of a detector are.
    is_grid: bool,
    pub(crate) labels: &'a [String],
    /// File of each row, or none.
    pub(crate) files: Vec<&'a str>,
}

impl RankingArgs {
    /// Returns whether a ranking is asked for.
    pub(super) const fn is_given(&self) -> bool {
        self.top.is_some()
    }

    /// Reads the file of the labels; `None` if no ranking is asked for.
    pub(crate) fn read(self) -> Result<Option<Ranking>, Failure> {
        let Some(count) = self.top else {
            return Ok(None);
        };
        Ok(Some(Ranking {
            count: count as usize,
            labels: self.labels.map(Labels::read).transpose()?,
        }))
    }
}

impl Labels {
    fn read(path: PathBuf) -> Result<Self, Failure> {
        let text = fs::read_to_string(&path).map_err(|error| {
            let failure = Failure::cannot("read the labels of", &path, &error);
            match path.to_string_lossy().contains(',') {
                true => failure.hint("`--labels` takes a file with one label per line"),
                false => failure,
            }
        })?;
        let names = text.trim_end().lines().map(|line| line.trim().to_owned());
        let names = names.collect();
        Ok(Self { path, names })
    }

    /// Refuses labels that are more or fewer than the scores of an output.
    fn check(&self, output: &str, scores: usize) -> Result<(), Failure> {
        if self.names.len() == scores {
            return Ok(());
        }
        let (path, found) = (self.path.display(), counted(self.names.len(), "label"));
        let text = format!(
            "{path} has {found}, output `{output}` has {}",
            counted(scores, "score")
        );
        Err(Failure::usage(text)
            .hint("give a file with one label per line, in the order of the scores"))
    }
}

fn no_ranking(name: &str, error: &TopError) -> Failure {
    Failure::usage(format!("cannot rank output `{name}`")).caused_by(error)
}

impl Ranking {
    /// Ranks an output; `of_model` are the names of the model's scores.
    pub(crate) fn of<'a>(
        &'a self,
        name: &'a str,
        tensor: &'a Tensor,
        of_model: &'a [String],
    ) -> Result<RankedOutput<'a>, Failure> {
        let rows = output::top(tensor, self.count).map_err(|error| no_ranking(name, &error))?;
        Ok(RankedOutput {
            name,
            rows,
            nans: values(tensor).filter(|score| is_nan(*score)).count(),
            is_single: tensor.shape().last() == Some(&1),
            is_grid: matches!(tensor.shape(), [1, rows, each] if *rows > 4 && *each > 4),
            labels: self.labels_of(name, tensor, of_model)?,
            files: Vec::new(),
        })
    }

    /// Finds things that were found on images, if the outputs leave no doubt that they are that; `of_model` has the names
    /// of the model's classes.
    pub(crate) fn detections<'a>(
        &'a self,
        answer: &'a ClientResponse,
        of_model: &'a ModelProperties,
    ) -> Option<Detections<'a>> {
        output::detections(answer, self.count, |name| match &self.labels {
            Some(labels) => &labels.names,
            None => of_model.labels_of(name),
        })
    }

    /// Returns whether the labels are those of the model.
    pub(super) const fn has_own_labels(&self) -> bool {
        self.labels.is_none()
    }

    /// Refuses an output that has no ranking, and labels that are not those of its scores, as far as the
    /// metadata of the model says.
    pub(super) fn check(&self, output: &TensorMetadata) -> Result<(), Failure> {
        // Labels are of classes there, and not of numbers.
        if output::may_be_detection_output(output) {
            return Ok(());
        }
        if output.dtype() == Some(DataType::String) {
            let error = TopError::Unordered(DataType::String);
            return Err(no_ranking(&output.name, &error));
        }
        match (output.shape.0.last(), &self.labels) {
            (Some(&Dim::Fixed(scores)), Some(labels)) => labels.check(&output.name, scores),
            _ => Ok(()),
        }
    }

    /// Returns the labels of an output: those of the flag, which must be as many as the scores, or those of the
    /// model, which may be of another output.
    fn labels_of<'a>(
        &'a self,
        name: &str,
        tensor: &Tensor,
        of_model: &'a [String],
    ) -> Result<&'a [String], Failure> {
        let scores = tensor.shape().last().copied().unwrap_or(1);
        match &self.labels {
            Some(labels) => labels.check(name, scores).map(|()| labels.names.as_slice()),
            None if of_model.len() == scores => Ok(of_model),
            None => Ok(&[]),
        }
    }
}

impl RankedOutput<'_> {
    /// Returns a note on scores that are NaN, if there are any.
    pub(crate) fn note(&self) -> Option<String> {
        let name = self.name;
        let mut rows = self.rows.iter().enumerate();
        let empty = rows.find(|(_, row)| row.is_empty());
        let others = rows.filter(|(_, row)| row.is_empty()).count();
        Some(match (self.nans, empty, self.rows.len()) {
            (0, ..) if self.is_single => format!(
                "note: output `{name}` has one number in each row, so there is nothing to rank: without `--top` it is \
                 shown as it is"
            ),
            (0, ..) if self.is_grid && !self.files.is_empty() => format!(
                "note: output `{name}` of one image has {}, each with its own ranking; raw boxes, as of YOLO, must \
                 be decoded first",
                counted(self.rows.len(), "row")
            ),
            (0, ..) => return None,
            (_, Some(_), 1) => {
                format!("note: all scores of output `{name}` are NaN and not ranked")
            }
            (_, Some((row, _)), _) => {
                let file = self.files.get(row);
                let file = file.map_or_else(String::new, |file| format!(" ({})", visible(file)));
                let more = match others {
                    0 => String::new(),
                    others => format!(", and in {} more,", counted(others, "row")),
                };
                format!(
                    "note: all scores of output `{name}` in row {row}{file}{more} are NaN and not ranked"
                )
            }
            (1, None, _) => format!("note: 1 score of output `{name}` is NaN and not ranked"),
            (nans, None, _) => {
                format!("note: {nans} scores of output `{name}` are NaN and not ranked")
            }
        })
    }

    /// Returns the table, with columns for the row and its file if there are several, and one for any labels.
    pub(crate) fn table(&self) -> Table {
        let several = self.rows.len() > 1;
        let mut table = Table::new();
        if several {
            table = table.right(["row"]);
            if !self.files.is_empty() {
                table = table.left(["file"]);
            }
        }
        table = table.right(["rank", "index"]);
        if !self.labels.is_empty() {
            table = table.left(["label"]);
        }
        table = table.right(["score"]);
        let of_row = |row: usize| {
            let mut cells = Vec::new();
            if several {
                cells.push(row.to_string());
                let file = self.files.get(row);
                cells.extend(file.map(|file| visible(file).into_owned()));
            }
            cells
        };
        for (row, ranking) in self.rows.iter().enumerate() {
            if ranking.is_empty() {
                let mut cells = of_row(row);
                let others = if self.labels.is_empty() { 2 } else { 3 };
                cells.extend(vec![ui::NOTHING.to_owned(); others]);
                cells.push("NaN".to_owned());
                table.row(cells);
            }
            for (place, ranked) in ranking.iter().enumerate() {
                let mut cells = of_row(row);
                cells.extend([(place + 1).to_string(), ranked.index.to_string()]);
                if !self.labels.is_empty() {
                    let label = self.labels.get(ranked.index);
                    cells.push(label.map_or(ui::NOTHING, String::as_str).to_owned());
                }
                cells.push(score(ranked.score));
                table.row(cells);
            }
        }
        table
    }
}

/// Returns the table of things that were found, with columns for the image and its file if there are several, and for
/// what they are if that is known.
pub(crate) fn detections_table(found: &Detections<'_>, files: &[String]) -> Table {
    let several = found.images.len() > 1;
    let files = if several { files } else { &[] };
    let mut all = found.images.iter().flatten();
    let has_classes = all.any(|it| it.class.is_some() || it.label.is_some());
    let mut table = Table::new();
    if several {
        table = table.right(["row"]);
        if !files.is_empty() {
            table = table.left(["file"]);
        }
    }
    table = table.right(["rank"]);
    if has_classes {
        table = table.left(["label"]);
    }
    let bounds = match found.has_corners {
        true => "box (x_min, y_min, x_max, y_max)",
        false => "box",
    };
    table = table.right(["score"]).left([bounds]);
    for (image, detections) in found.images.iter().enumerate() {
        for (place, it) in detections.iter().enumerate() {
            let mut cells = Vec::new();
            if several {
                cells.push(image.to_string());
                if !files.is_empty() {
                    let file = files.get(image);
                    cells.push(file.map_or_else(String::new, |file| visible(file).into_owned()));
                }
            }
            cells.push((place + 1).to_string());
            if has_classes {
                let label = it.label.as_ref().map(|label| visible(label).into_owned());
                let class = it.class.map(|class| class.to_string());
                cells.push(label.or(class).unwrap_or_else(|| ui::NOTHING.to_owned()));
            }
            cells.extend([score(it.score), it.bounds.map(score).join(", ")]);
            table.row(cells);
        }
    }
    table
}

fn score(score: Value<'_>) -> String {
    match score {
        Value::Int(score) => score.to_string(),
        Value::Uint(score) => score.to_string(),
        score => score.as_f64().map(number).unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use ovms::{
        client::{ModelMetadata, TensorMetadata},
        tensor::{DataType, Dim, PartialShape, Tensor, values::Packer},
    };

    use super::{Labels, Ranking, the_scores};
    use crate::ui::Look;

    fn drawn(shape: &[usize], numbers: &[f64], labels: &[&str]) -> String {
        drawn_with(shape, numbers, labels, &[])
    }

    fn drawn_with(shape: &[usize], numbers: &[f64], labels: &[&str], files: &[&str]) -> String {
        noted(shape, numbers, labels, files).0
    }

    /// Draws a ranking; with the note on scores that have no rank.
    fn noted(
        shape: &[usize],
        numbers: &[f64],
        labels: &[&str],
        files: &[&str],
    ) -> (String, String) {
        let mut packer = Packer::new(DataType::F32, numbers.len());
        for number in numbers {
            packer.push_f64(*number).unwrap();
        }
        let scores = Tensor::new(DataType::F32, shape.to_vec(), packer.finish()).unwrap();
        let ranking = Ranking {
            count: 2,
            labels: None,
        };
        let labels: Vec<String> = labels.iter().map(ToString::to_string).collect();
        let mut ranked = ranking.of("y", &scores, &labels).unwrap();
        ranked.files = files.to_vec();
        let note = ranked.note().unwrap_or_default();
        (ranked.table().draw(Look::Plain), note)
    }

    #[test]
    fn labels_beside_scores_are_not_what_is_ranked() {
        let of = |outputs: &[(&str, &str, &[Option<usize>])], asked: &[String]| {
            let tensor =
                |(name, datatype, shape): &(&str, &str, &[Option<usize>])| TensorMetadata {
                    name: (*name).to_owned(),
                    datatype: (*datatype).to_owned(),
                    shape: PartialShape(
                        shape
                            .iter()
                            .map(|it| it.map_or(Dim::Any, Dim::Fixed))
                            .collect(),
                    ),
                };
            let model = ModelMetadata {
                outputs: outputs.iter().map(tensor).collect(),
                ..ModelMetadata::default()
            };
            the_scores(asked, &model).ok()
        };
        let scores = ("probabilities", "FP32", &[None, Some(3)][..]);
        let label = ("label", "INT64", &[None][..]);
        let text = ("class", "BYTES", &[None, Some(1)][..]);
        for outputs in [&[label, scores][..], &[scores, text, label], &[scores]] {
            assert_eq!(of(outputs, &[]).as_deref(), Some("probabilities"));
        }
        let asked = ["label".to_owned()];
        assert_eq!(of(&[label, scores], &asked).as_deref(), Some("label"));
        // Which of these are scores is not known.
        let others = ("weights", "FP32", &[None, Some(3)][..]);
        let total = ("total", "FP32", &[None][..]);
        let map = ("classes", "INT64", &[None, Some(3)][..]);
        for other in [others, total, map] {
            assert_eq!(of(&[scores, other], &[]), None);
        }
        assert_eq!(of(&[label], &[]).as_deref(), Some("label"));
    }

    #[test]
    fn scores_that_are_nan_have_no_rank() {
        let nan = f64::NAN;
        let (table, note) = noted(&[1, 3], &[nan, 0.7, 0.1], &[], &[]);
        insta::assert_snapshot!(table, @r"
        rank  index  score
           1      1    0.7
           2      2    0.1
        ");
        assert_eq!(note, "note: 1 score of output `y` is NaN and not ranked");
        let (table, note) = noted(&[1, 2], &[nan, nan], &[], &[]);
        insta::assert_snapshot!(table, @r"
        rank  index  score
           -      -    NaN
        ");
        assert_eq!(
            note,
            "note: all scores of output `y` are NaN and not ranked"
        );
        let scores = [0.1, 0.7, nan, nan, nan, nan];
        let (table, note) = noted(
            &[3, 2],
            &scores,
            &["cat", "dog"],
            &["a.png", "b.png", "c.png"],
        );
        insta::assert_snapshot!(table, @r"
        row  file   rank  index  label  score
          0  a.png     1      1  dog      0.7
          0  a.png     2      0  cat      0.1
          1  b.png     -      -  -        NaN
          2  c.png     -      -  -        NaN
        ");
        assert_eq!(
            note,
            "note: all scores of output `y` in row 1 (b.png), and in 1 row more, are NaN and not ranked"
        );
    }

    #[test]
    fn a_ranking_has_the_columns_that_say_something() {
        insta::assert_snapshot!(drawn(&[1, 3], &[0.1, 0.7, 0.2], &[]), @r"
        rank  index  score
           1      1    0.7
           2      2    0.2
        ");
        let scores = [0.1, 0.7, 0.15, 0.05, 1e-7, 3.0, -2.5, 0.0];
        insta::assert_snapshot!(drawn(&[2, 4], &scores, &["cat", "dog", "cow", "emu"]), @r"
        row  rank  index  label  score
          0     1      1  dog      0.7
          0     2      2  cow     0.15
          1     1      1  dog        3
          1     2      0  cat     1e-7
        ");
        // Those of another output.
        insta::assert_snapshot!(drawn(&[1, 3], &[0.1, 0.7, 0.2], &["cat"]), @r"
        rank  index  score
           1      1    0.7
           2      2    0.2
        ");
    }

    #[test]
    fn rows_of_images_have_their_files() {
        let scores = [0.1, 0.7, 1e-7, 3.0];
        insta::assert_snapshot!(drawn_with(&[2, 2], &scores, &[], &["a.png", "b\n.png"]), @r"
        row  file        rank  index  score
          0  a.png          1      1    0.7
          0  a.png          2      0    0.1
          1  b\u{a}.png     1      1      3
          1  b\u{a}.png     2      0   1e-7
        ");
    }

    #[test]
    fn a_ranking_that_there_cannot_be_is_refused_before() {
        let output = |datatype: &str| TensorMetadata {
            name: "y".to_owned(),
            datatype: datatype.to_owned(),
            shape: PartialShape(vec![Dim::Fixed(1), Dim::Fixed(3)]),
        };
        let labels = Labels {
            path: "labels.txt".into(),
            names: vec!["cat".to_owned()],
        };
        let mut ranking = Ranking {
            count: 2,
            labels: None,
        };
        assert!(ranking.check(&output("FP32")).is_ok());
        assert!(ranking.check(&output("")).is_ok());
        insta::assert_snapshot!(ranking.check(&output("BYTES")).unwrap_err().text(), @r"
        error: cannot rank output `y`
          caused by: BYTES has no order to rank by
        ");
        ranking.labels = Some(labels);
        insta::assert_snapshot!(ranking.check(&output("FP32")).unwrap_err().text(), @r"
        error: labels.txt has 1 label, output `y` has 3 scores
        hint: give a file with one label per line, in the order of the scores
        ");
    }
}
