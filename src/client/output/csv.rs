//! Answers as comma-separated values, for spreadsheets and data frames: a line for each row of the outputs.

use std::borrow::Cow;

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};

use super::{Detections, Ranked, elements};
use crate::{
    client::message::ClientResponse,
    tensor::{
        ShapeText, Tensor,
        strings::unframed,
        values::{Value, write_json_value},
    },
};

/// Error of an answer that has no lines under the header of those before it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CsvError {
    /// An output that the first answer did not have.
    #[error(
        "output `{0}` is not one of the first answer, whose outputs are the columns of all lines"
    )]
    NewOutput(String),
    /// An output whose rows are longer or shorter than in the first answer.
    #[error(
        "output `{output}` has rows of shape {found}, and those of the first answer have {expected}, whose columns are \
         those of all lines"
    )]
    OtherRows {
        /// The name of the output.
        output: String,
        /// The shape of its rows.
        found: String,
        /// The shape in the first answer.
        expected: String,
    },
}

/// Table of the outputs of one answer, or of several under one header.
///
/// The first dimension of an output is the rows, the others are columns: `y` where there is one, else `y[0]`, `y[1]`, and
/// so on, or `y[0][0]`. An output with one row has it in every line, as in the arithmetic of NumPy; beyond the rows of
/// others cells are empty. Bytes that are no text, and outputs whose types are the server's own, stand in base64.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CsvTable {
    /// Columns in front of those of the outputs.
    leading: &'static [&'static str],
    /// Outputs of the first answer, once it was there.
    columns: Option<Vec<CsvColumns>>,
}

/// Columns of one output.
#[derive(Debug, Clone, PartialEq, Eq)]
struct CsvColumns {
    output: String,
    /// Shape of each row.
    row: Vec<usize>,
}

/// Elements of an output, row by row.
struct Rows<'a> {
    values: Vec<Cell<'a>>,
    /// Number of rows.
    count: usize,
    /// Number of elements in each.
    width: usize,
}

/// Contents of a cell.
enum Cell<'a> {
    Value(Value<'a>),
    Encoded(&'a [u8]),
}

impl CsvTable {
    /// Makes a table with columns in front of those of the outputs.
    pub const fn with_leading(leading: &'static [&'static str]) -> Self {
        Self {
            leading,
            columns: None,
        }
    }

    /// Writes the lines of an answer, below the header if it is the first one; `lead` has the leading cells of them.
    ///
    /// Outputs of the first answer that this one lacks have empty cells. An answer without any outputs has no lines.
    ///
    /// # Errors
    ///
    /// Fails if the columns of the first answer have no room for an output.
    pub fn lines(&mut self, answer: &ClientResponse, lead: &[String]) -> Result<Vec<u8>, CsvError> {
        self.lines_by_row(answer, |_| Cow::Borrowed(lead))
    }

    fn lines_by_row<'l>(
        &mut self,
        answer: &ClientResponse,
        lead: impl Fn(usize) -> Cow<'l, [String]>,
    ) -> Result<Vec<u8>, CsvError> {
        let found = columns_of(answer);
        let mut out = Vec::new();
        if found.iter().all(|columns| columns.width() == 0) {
            return Ok(out);
        }
        let columns = match &self.columns {
            Some(columns) => {
                check(columns, &found)?;
                columns
            }
            None => {
                push_header(self.leading, &found, &mut out);
                &*self.columns.insert(found)
            }
        };
        let outputs: Vec<Option<Rows<'_>>> = columns
            .iter()
            .map(|columns| Rows::of(answer, &columns.output))
            .collect();
        let counts = outputs.iter().flatten().filter(|rows| rows.width > 0);
        let counts = counts.map(|rows| rows.count);
        for row in 0..counts.max().unwrap_or(0) {
            let mut line = Line::begin(&mut out);
            for cell in lead(row).iter() {
                line.next();
                push_text(cell, line.out);
            }
            for (columns, rows) in columns.iter().zip(&outputs) {
                let cells = rows.as_ref().and_then(|rows| rows.row(row));
                for place in 0..columns.width() {
                    line.next();
                    if let Some(cell) = cells.and_then(|cells| cells.get(place)) {
                        cell.push(line.out);
                    }
                }
            }
            line.end();
        }
        Ok(out)
    }
}

impl CsvColumns {
    fn width(&self) -> usize {
        self.row.iter().product()
    }
}

/// Writes an answer: its header, and its lines.
///
/// `files` are those of the images of the request: where an output has a row for each of them, they stand in front.
pub fn answer_csv(answer: &ClientResponse, files: &[String]) -> Vec<u8> {
    let counts = row_counts(answer);
    let has_files = !files.is_empty() && counts.iter().any(|(_, count)| *count == files.len());
    let mut table = CsvTable::with_leading(if has_files { &["file"] } else { &[] });
    let lead = |row: usize| match has_files {
        true => Cow::Owned(vec![files.get(row).cloned().unwrap_or_default()]),
        false => Cow::Borrowed(&[][..]),
    };
    let lines = table.lines_by_row(answer, lead);
    lines.expect("the columns are those of the answer itself")
}

/// Returns the number of rows of each output that has columns.
pub fn row_counts(answer: &ClientResponse) -> Vec<(String, usize)> {
    let columns = columns_of(answer).into_iter();
    let columns = columns.filter(|columns| columns.width() > 0);
    columns
        .map(|columns| {
            let tensor = crate::tensor::named(&answer.outputs, &columns.output);
            let count = tensor.map_or(1, row_count);
            (columns.output, count)
        })
        .collect()
}

/// Writes the best scores of an output: a line for each, the best of each row first.
///
/// `files` has the file of each row, or none.
pub fn ranking_csv(rows: &[Vec<Ranked<'_>>], labels: &[String], files: &[&str]) -> Vec<u8> {
    let mut out = b"row,file,rank,index,label,score\n".to_vec();
    for (row, ranks) in rows.iter().enumerate() {
        let file = files.get(row).copied().unwrap_or_default();
        if ranks.is_empty() {
            // A row of NaN is not lost.
            let mut line = Line::begin(&mut out);
            for text in [row.to_string().as_str(), file, "", "", "", "NaN"] {
                line.next();
                push_text(text, line.out);
            }
            line.end();
        }
        for (place, ranked) in ranks.iter().enumerate() {
            let label = labels.get(ranked.index).map_or("", String::as_str);
            let [row, rank, index] = [row, place + 1, ranked.index].map(|it| it.to_string());
            let mut line = Line::begin(&mut out);
            for text in [row.as_str(), file, &rank, &index, label] {
                line.next();
                push_text(text, line.out);
            }
            line.next();
            Cell::Value(ranked.score).push(line.out);
            line.end();
        }
    }
    out
}

/// Writes detections: a line for each, the surest of each image first.
///
/// `files` has the file of each image, or none.
pub fn detections_csv(found: &Detections<'_>, files: &[String]) -> Vec<u8> {
    let titles = "row,file,rank,index,class,label,score,box[0],box[1],box[2],box[3]\n";
    let mut out = titles.as_bytes().to_vec();
    for (image, detections) in found.images.iter().enumerate() {
        let file = files.get(image).map_or("", String::as_str);
        for (place, it) in detections.iter().enumerate() {
            let [row, rank, index] = [image, place + 1, it.index].map(|it| it.to_string());
            let class = it.class.map(|class| class.to_string()).unwrap_or_default();
            let label = it.label.as_deref().unwrap_or_default();
            let mut line = Line::begin(&mut out);
            for text in [row.as_str(), file, &rank, &index, &class, label] {
                line.next();
                push_text(text, line.out);
            }
            for number in std::iter::once(it.score).chain(it.bounds) {
                line.next();
                Cell::Value(number).push(line.out);
            }
            line.end();
        }
    }
    out
}

/// Line in the making.
struct Line<'o> {
    out: &'o mut Vec<u8>,
    is_begun: bool,
}

impl<'o> Line<'o> {
    fn begin(out: &'o mut Vec<u8>) -> Self {
        Self {
            out,
            is_begun: false,
        }
    }

    /// Begins the next cell.
    fn next(&mut self) {
        if self.is_begun {
            self.out.push(b',');
        }
        self.is_begun = true;
    }

    fn end(self) {
        self.out.push(b'\n');
    }
}

impl<'a> Rows<'a> {
    fn of(answer: &'a ClientResponse, output: &str) -> Option<Self> {
        if let Some(tensor) = crate::tensor::named(&answer.outputs, output) {
            let row = row_shape(tensor);
            return Some(Self {
                values: elements(tensor).map(Cell::Value).collect(),
                count: row_count(tensor),
                width: row.iter().product(),
            });
        }
        let opaque = answer.opaque.iter().find(|opaque| opaque.name == output)?;
        Some(Self {
            values: vec![Cell::Encoded(&opaque.data)],
            count: 1,
            width: 1,
        })
    }

    /// Returns the cells of a line; `None` beyond the last row.
    fn row(&self, row: usize) -> Option<&[Cell<'a>]> {
        let row = if self.count == 1 { 0 } else { row };
        let begin = row.checked_mul(self.width)?;
        self.values.get(begin..begin.checked_add(self.width)?)
    }
}

impl Cell<'_> {
    fn push(&self, out: &mut Vec<u8>) {
        match self {
            Self::Value(Value::Bytes(bytes)) => match std::str::from_utf8(bytes) {
                // Otherwise it would be as a value that is not there.
                Ok("") => out.extend_from_slice(b"\"\""),
                Ok(text) => push_text(text, out),
                Err(_) => out.extend_from_slice(BASE64.encode(bytes).as_bytes()),
            },
            Self::Value(value) => write_json_value(*value, out),
            Self::Encoded(bytes) => out.extend_from_slice(BASE64.encode(bytes).as_bytes()),
        }
    }
}

/// Returns the number of rows. BYTES whose elements are not behind their lengths are one.
fn row_count(tensor: &Tensor) -> usize {
    match unframed(tensor) {
        Some(_) => 1,
        None => tensor.shape().first().copied().unwrap_or(1),
    }
}

fn row_shape(tensor: &Tensor) -> &[usize] {
    match unframed(tensor) {
        Some(_) => &[],
        None => tensor.shape().get(1..).unwrap_or_default(),
    }
}

fn columns_of(answer: &ClientResponse) -> Vec<CsvColumns> {
    let outputs = answer.outputs.iter();
    let outputs = outputs.map(|(name, tensor)| (name, row_shape(tensor)));
    let opaque = answer.opaque.iter().map(|opaque| (&opaque.name, &[][..]));
    let all = outputs.chain(opaque).map(|(name, row)| CsvColumns {
        output: name.clone(),
        row: row.to_vec(),
    });
    all.collect()
}

/// Compares the outputs of an answer with the columns that there are.
fn check(columns: &[CsvColumns], found: &[CsvColumns]) -> Result<(), CsvError> {
    for found in found {
        let mut known = columns.iter();
        let Some(known) = known.find(|known| known.output == found.output) else {
            return Err(CsvError::NewOutput(found.output.clone()));
        };
        if known.row != found.row {
            return Err(CsvError::OtherRows {
                output: found.output.clone(),
                found: ShapeText(&found.row).to_string(),
                expected: ShapeText(&known.row).to_string(),
            });
        }
    }
    Ok(())
}

fn push_header(leading: &[&str], columns: &[CsvColumns], out: &mut Vec<u8>) {
    let mut line = Line::begin(out);
    for name in leading {
        line.next();
        push_text(name, line.out);
    }
    for CsvColumns { output, row } in columns {
        let width = row.iter().product();
        for place in 0..width {
            line.next();
            push_text(&column(output, row, width, place), line.out);
        }
    }
    line.end();
}

/// Returns the name of a column: that of the output, with the place in a row of several elements.
fn column(output: &str, row: &[usize], width: usize, place: usize) -> String {
    if width == 1 {
        return output.to_owned();
    }
    let (mut rest, mut places) = (place, Vec::with_capacity(row.len()));
    for length in row.iter().rev() {
        places.push(rest % length);
        rest /= length;
    }
    let places = places.iter().rev().map(|place| format!("[{place}]"));
    std::iter::once(output.to_owned()).chain(places).collect()
}

/// Writes a text as a cell, in quotes where it has characters of the form itself (RFC 4180).
fn push_text(text: &str, out: &mut Vec<u8>) {
    if text.contains([',', '"', '\n', '\r']) {
        out.push(b'"');
        out.extend_from_slice(text.replace('"', "\"\"").as_bytes());
        out.push(b'"');
    } else {
        out.extend_from_slice(text.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::{CsvTable, answer_csv, ranking_csv, row_counts};
    use crate::{
        client::{
            message::{ClientResponse, Opaque},
            output::top,
        },
        tensor::{DataType, Tensor, TensorMap, values::Packer},
    };

    fn floats(shape: &[usize], numbers: &[f32]) -> Tensor {
        let bytes: Vec<u8> = numbers.iter().flat_map(|it| it.to_le_bytes()).collect();
        Tensor::new(DataType::F32, shape.to_vec(), bytes.into()).unwrap()
    }

    fn texts(texts: &[&[u8]]) -> Tensor {
        let mut packer = Packer::new(DataType::String, texts.len());
        for text in texts {
            packer.push_bytes(text).unwrap();
        }
        Tensor::new(DataType::String, vec![texts.len()], packer.finish()).unwrap()
    }

    fn answer(outputs: Vec<(&str, Tensor)>) -> ClientResponse {
        let outputs = outputs.into_iter();
        ClientResponse {
            model_name: "m".to_owned(),
            model_version: "1".to_owned(),
            id: String::new(),
            outputs: TensorMap::from_iter(outputs.map(|(name, it)| (name.to_owned(), it))),
            opaque: Vec::new(),
        }
    }

    fn written(answer: &ClientResponse, files: &[&str]) -> String {
        let files: Vec<String> = files.iter().map(ToString::to_string).collect();
        String::from_utf8(answer_csv(answer, &files)).unwrap()
    }

    #[test]
    fn a_row_is_a_line() {
        let numbers = [0.5, f32::NAN, f32::INFINITY, 2.0];
        let answer = answer(vec![
            ("scores", floats(&[2, 2], &numbers)),
            ("text", texts(&[b"a \"b\", c", b"two\nlines"])),
            ("one,two", floats(&[2, 1, 1], &[1.0, -1e-7])),
        ]);
        insta::assert_snapshot!(written(&answer, &["a.png", "b,c.png"]), @r#"
        file,scores[0],scores[1],text,"one,two"
        a.png,0.5,NaN,"a ""b"", c",1.0
        "b,c.png",Infinity,2.0,"two
        lines",-1e-7
        "#);
        assert!(written(&answer, &["a.png"]).starts_with("scores[0],"));
    }

    #[test]
    fn a_single_row_goes_with_each_and_what_is_not_there_is_empty() {
        let mut answer = answer(vec![
            ("count", floats(&[], &[7.0])),
            ("boxes", floats(&[3, 1, 2], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0])),
            ("text", texts(&[b"", b"\xff"])),
            ("none", floats(&[0, 2], &[])),
            ("empty", floats(&[2, 0], &[])),
            (
                "bare",
                Tensor::new(DataType::String, vec![11], "hello there".into()).unwrap(),
            ),
        ]);
        answer.opaque = vec![Opaque {
            name: "own".to_owned(),
            datatype: "my type".to_owned(),
            shape: vec![1],
            data: b"x".to_vec().into(),
        }];
        insta::assert_snapshot!(written(&answer, &[]), @r#"
        count,boxes[0][0],boxes[0][1],text,none[0],none[1],bare,own
        7.0,1.0,2.0,"",,,hello there,eA==
        7.0,3.0,4.0,/w==,,,hello there,eA==
        7.0,5.0,6.0,,,,hello there,eA==
        "#);
        let counts = row_counts(&answer).into_iter().map(|(_, count)| count);
        assert_eq!(counts.collect::<Vec<_>>(), [1, 3, 2, 0, 1, 1]);
    }

    #[test]
    fn several_answers_have_one_header() {
        let mut table = CsvTable::with_leading(&["step"]);
        let mut lines = |outputs: Vec<(&str, Tensor)>, step: usize| {
            let lines = table.lines(&answer(outputs), &[step.to_string()]);
            lines.map_or_else(
                |error| error.to_string(),
                |lines| String::from_utf8(lines).unwrap(),
            )
        };
        assert_eq!(lines(Vec::new(), 0), "");
        let first = vec![
            ("y", floats(&[1, 2], &[1.0, 2.0])),
            ("z", floats(&[1], &[3.0])),
        ];
        assert_eq!(lines(first, 1), "step,y[0],y[1],z\n1,1.0,2.0,3.0\n");
        let more = vec![("z", floats(&[2], &[4.0, 5.0]))];
        assert_eq!(lines(more, 2), "2,,,4.0\n2,,,5.0\n");
        let other = vec![("y", floats(&[1, 3], &[0.0; 3]))];
        insta::assert_snapshot!(lines(other, 3), @"output `y` has rows of shape (3), and those of the first answer have (2), whose columns are those of all lines");
        let new = vec![("w", floats(&[1], &[0.0]))];
        insta::assert_snapshot!(lines(new, 4), @"output `w` is not one of the first answer, whose outputs are the columns of all lines");
    }

    #[test]
    fn a_score_is_a_line() {
        let scores = floats(&[2, 3], &[0.25, 0.5, 0.125, 1.0, 2.0, f32::NAN]);
        let rows = top(&scores, 2).unwrap();
        let labels = ["cat", "dog, small"].map(str::to_owned);
        let text = |files: &[&str]| String::from_utf8(ranking_csv(&rows, &labels, files)).unwrap();
        insta::assert_snapshot!(text(&["a.png", "b.png"]), @r#"
        row,file,rank,index,label,score
        0,a.png,1,1,"dog, small",0.5
        0,a.png,2,0,cat,0.25
        1,b.png,1,1,"dog, small",2.0
        1,b.png,2,0,cat,1.0
        "#);
        assert!(text(&[]).contains("\n1,,1,1,"));
        let scores = floats(&[2, 1], &[f32::NAN, 0.5]);
        let rows = top(&scores, 2).unwrap();
        let text = String::from_utf8(ranking_csv(&rows, &[], &["a.png", "b.png"])).unwrap();
        insta::assert_snapshot!(text, @r"
        row,file,rank,index,label,score
        0,a.png,,,,NaN
        1,b.png,1,0,,0.5
        ");
    }
}
