//! Tensors of a response, in a line or a table.

use std::{
    fmt::Display,
    io::{self, IsTerminal},
    time::Duration,
};

use ovms::{
    client::{
        ClientResponse, ModelProperties, Opaque,
        output::{self, CsvError, OfSequence, Summary, hexadecimal, number},
    },
    tensor::{ShapeText, Tensor, TensorMap, named, npy},
};

use super::{
    args::TextFormat, failure::several_outputs, ranking::detections_table, run::Show,
    saved::if_widened, sequence::Whole,
};
use crate::{
    error::Failure,
    ui::{self, Look, NOTHING, Table, counted, visible, visible_lines},
};

/// Maximum number of rows of a batch that stand below a table with their files.
const MAX_ROWS: usize = 32;

/// Returns the model that has answered: `` Model `m`, version 1 ``.
pub(super) fn model(answer: &ClientResponse) -> String {
    let name = &answer.model_name;
    match answer.model_version.as_str() {
        "" => format!("Model `{name}`"),
        version => format!("Model `{name}`, version {version}"),
    }
}

/// Returns the failure of an answer that fits no table with those before it.
pub(super) fn no_lines(error: &CsvError) -> Failure {
    let hint = "`--output json` has each answer by itself; `--output-name` asks for one output";
    Failure::failed("cannot write the answer as `--output csv`")
        .caused_by(error)
        .hint(hint)
}

/// Ends a line of JSON.
pub(super) fn json_line(json: impl Into<Vec<u8>>) -> Vec<u8> {
    let mut line = json.into();
    line.push(b'\n');
    line
}

/// Returns all outputs in one line, behind the number of the response.
pub(super) fn line(number: impl Display, answer: &ClientResponse) -> String {
    let mut line = number.to_string();
    for (name, tensor) in answer.outputs.iter() {
        let summary = Summary::new(name, tensor);
        line.extend(["  ", &summary.name, ": ", &summary.preview]);
    }
    for Opaque {
        name,
        datatype,
        data,
        ..
    } in &answer.opaque
    {
        line.extend(["  ", name, ": ", datatype, " of ", &hexadecimal(data)]);
    }
    format!("{}\n", visible(&line))
}

/// Returns a table with a row for each output.
pub(crate) fn table(outputs: &[(String, Tensor)]) -> Table {
    let mut table = Table::new()
        .left(["output", "datatype", "shape"])
        .right(["min", "mean", "max"])
        .left(["values"]);
    for (name, tensor) in outputs {
        let summary = Summary::new(name, tensor);
        let [dtype, shape, min, mean, max] = described(&summary);
        table.row([summary.name, dtype, shape, min, mean, max, summary.preview]);
    }
    table
}

/// Returns datatype, shape, minimum, mean, and maximum of a tensor.
pub(crate) fn described(summary: &Summary) -> [String; 5] {
    let [min, mean, max] = match &summary.spread {
        Some(spread) => [spread.min, spread.mean, spread.max].map(number),
        None => [NOTHING; 3].map(str::to_owned),
    };
    [
        summary.dtype.to_string(),
        summary.shape.clone(),
        min,
        mean,
        max,
    ]
}

/// Prints a response; `only` is the single output to show, if any, and `of_model` are the names of the
/// model's scores.
pub(super) fn show(
    whole: &Whole,
    show: &Show,
    only: Option<&str>,
    of_model: &ModelProperties,
) -> Result<(), Failure> {
    let (answer, sequence, files) = (&whole.answer, whole.of, whole.files.as_slice());
    // For people.
    let print_table = |table: Table, files: &[String]| {
        ui::note(ui::filled(&whole.headline, Look::of_stderr()).trim_end());
        ui::print(table.draw(Look::of_stdout()) + &rows_of(files) + &id_line(sequence))
    };
    let one = || {
        let name = only.unwrap_or_default();
        match named(&answer.outputs, name) {
            Some(tensor) => Ok((name, tensor)),
            None if answer.opaque.iter().any(|output| output.name == name) => {
                let text = format!("output `{name}` has a custom datatype, and is not an array");
                Err(Failure::failed(text)
                    .hint("`--output raw` writes its bytes, `--output json` has them as `b64`"))
            }
            None => {
                let text = format!("the server returned no output `{name}`");
                Err(Failure::failed(text))
            }
        }
    };
    match show {
        Show::Table => print_table(outputs_table(answer), of_a_batch(&answer.outputs, files)),
        Show::Json => ui::print(json_line(output::answer_json(answer, sequence, files))),
        Show::Csv => {
            note_id(sequence);
            if let Some(note) = if_uneven(answer) {
                ui::note(&note);
            }
            ui::print(as_shown(output::answer_csv(answer, files)))
        }
        Show::Npy => {
            let (name, tensor) = one()?;
            if let Some(note) = if_widened(name, tensor.dtype()) {
                ui::note(&note);
            }
            note_id(sequence);
            let mut file = Vec::with_capacity(tensor.data().len() + 128);
            npy::write(tensor, &mut file)?;
            ui::print(file)
        }
        Show::Raw => {
            let opaque = answer.opaque.iter();
            let mut named = opaque.filter(|output| Some(output.name.as_str()) == only);
            let data = match named.next() {
                Some(opaque) => &opaque.data,
                None => one()?.1.data(),
            };
            note_id(sequence);
            ui::print(data)
        }
        Show::Top { ranking, format } => {
            let is_all = only.is_none() || answer.outputs.len() == 1;
            let found = is_all.then(|| ranking.detections(answer, of_model));
            if let Some(found) = found.flatten() {
                return match format {
                    TextFormat::Table => print_table(detections_table(&found, files), &[]),
                    TextFormat::Json => {
                        let json = output::detections_json(answer, sequence, &found, files);
                        ui::print(json_line(json))
                    }
                    TextFormat::Csv => {
                        note_id(sequence);
                        ui::print(as_shown(output::detections_csv(&found, files)))
                    }
                };
            }
            if only.is_none() {
                let names = answer.outputs.iter().map(|(name, _)| name.clone());
                return Err(several_outputs(&names.collect::<Vec<_>>()));
            }
            let (name, tensor) = one()?;
            let mut ranked = ranking.of(name, tensor, of_model.labels_of(name))?;
            ranked.files = files_of_rows(tensor, ranked.rows.len(), files);
            if let Some(note) = ranked.note() {
                ui::note(&note);
            }
            let (rows, labels, files) = (&ranked.rows, ranked.labels, &ranked.files);
            match format {
                TextFormat::Table => print_table(ranked.table(), &[]),
                TextFormat::Json => {
                    let json = output::ranking_json(answer, sequence, name, rows, labels, files);
                    ui::print(json_line(json))
                }
                TextFormat::Csv => {
                    note_id(sequence);
                    ui::print(as_shown(output::ranking_csv(rows, labels, files)))
                }
            }
        }
    }
}

/// Returns lines of CSV as stdout takes them: at a terminal, with what would steer it escaped.
pub(super) fn as_shown(lines: Vec<u8>) -> Vec<u8> {
    if !io::stdout().is_terminal() {
        return lines;
    }
    let text = String::from_utf8_lossy(&lines);
    visible_lines(&text).into_owned().into_bytes()
}

/// Returns the note about outputs that have other numbers of rows, where cells of a table in CSV are empty.
pub(super) fn if_uneven(answer: &ClientResponse) -> Option<String> {
    let counts = output::row_counts(answer);
    let rows = counts.iter().map(|(_, count)| *count).max()?;
    let (name, fewer) = counts
        .iter()
        .find(|(_, count)| *count != rows && *count != 1)?;
    let found = counted(*fewer, "row");
    Some(format!(
        "note: output `{name}` has {found} and another one {rows}: its remaining cells are empty"
    ))
}

/// Returns the headline: the model and the latency.
pub(super) fn headline(answer: &ClientResponse, latency: Duration) -> String {
    let comma = match answer.model_version.as_str() {
        "" => "",
        _ => ",",
    };
    let milliseconds = latency.as_secs_f64() * 1000.0;
    let model = model(answer);
    format!("{model}{comma} answered in {milliseconds:.2} ms.")
}

/// Returns the files of the images of a request, or none where no output has a row for each of them.
fn of_a_batch<'a>(outputs: &TensorMap, files: &'a [String]) -> &'a [String] {
    let mut tensors = outputs.iter().map(|(_, tensor)| tensor.shape());
    match tensors.any(|shape| shape.first() == Some(&files.len())) {
        true => files,
        false => &[],
    }
}

/// Returns the table below that of outputs with the file of each row of a batch; nothing for a single one, or where no
/// output has rows of it.
pub(crate) fn rows_of_batch(outputs: &TensorMap, files: &[String]) -> String {
    rows_of(of_a_batch(outputs, files))
}

/// Returns the file of each row of an output, or none where its rows are not those of the batch.
pub(crate) fn files_of_rows<'a>(tensor: &Tensor, rows: usize, files: &'a [String]) -> Vec<&'a str> {
    let is_batch = rows == files.len() || tensor.shape().first() == Some(&files.len());
    if files.is_empty() || !is_batch || !rows.is_multiple_of(files.len()) {
        return Vec::new();
    }
    let each = rows / files.len();
    let names = files.iter();
    names
        .flat_map(|file| std::iter::repeat_n(file.as_str(), each))
        .collect()
}

/// Returns the table below that of outputs with the file of each row; nothing for a single one.
fn rows_of(files: &[String]) -> String {
    if files.len() < 2 {
        return String::new();
    }
    let mut table = Table::new().right(["row"]).left(["file"]);
    for (row, file) in files.iter().enumerate().take(MAX_ROWS) {
        table.row([row.to_string(), visible(file).into_owned()]);
    }
    let mut text = format!("\n{}", table.draw(Look::of_stdout()));
    if files.len() > MAX_ROWS {
        let more = files.len() - MAX_ROWS;
        text.push_str("… ");
        text.push_str(&more.to_string());
        text.push_str(" more: `--output json` has all\n");
    }
    text
}

/// Returns the line below a table with the id of a sequence.
fn id_line(sequence: Option<OfSequence>) -> String {
    sequence.map_or_else(String::new, |it| format!("\nsequence_id: {}\n", it.id))
}

/// Reports the id on stderr if stdout has no place for it.
fn note_id(sequence: Option<OfSequence>) {
    if let Some(it) = sequence {
        ui::note(&format!("sequence_id: {}", it.id));
    }
}

fn outputs_table(answer: &ClientResponse) -> Table {
    let mut table = table(&answer.outputs);
    for opaque in &answer.opaque {
        let nothing = || ui::NOTHING.to_owned();
        table.row([
            opaque.name.clone(),
            ui::visible(&opaque.datatype).into_owned(),
            ShapeText(&opaque.shape).to_string(),
            nothing(),
            nothing(),
            nothing(),
            hexadecimal(&opaque.data),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use ovms::{
        client::{ClientResponse, Opaque},
        tensor::{DataType, Tensor, TensorMap, values::Packer},
    };

    use super::{files_of_rows, headline, outputs_table, rows_of};
    use crate::ui::Look;

    fn floats(shape: &[usize], numbers: &[f64]) -> Tensor {
        let mut packer = Packer::new(DataType::F32, numbers.len());
        for number in numbers {
            packer.push_f64(*number).unwrap();
        }
        Tensor::new(DataType::F32, shape.to_vec(), packer.finish()).unwrap()
    }

    fn example() -> ClientResponse {
        let mut strings = Packer::new(DataType::String, 1);
        strings.push_bytes(b"two\nlines").unwrap();
        let strings = Tensor::new(DataType::String, vec![1], strings.finish()).unwrap();
        let scores = floats(&[2, 4], &[0.1, 0.7, 0.15, 0.05, 1e-7, 3.0, -2.5, 0.0]);
        ClientResponse {
            model_name: "m".to_owned(),
            model_version: "1".to_owned(),
            id: String::new(),
            outputs: TensorMap::from_iter([
                ("scores".to_owned(), scores),
                ("text".to_owned(), strings),
            ]),
            opaque: vec![Opaque {
                name: "own".to_owned(),
                datatype: "7w".to_owned(),
                shape: vec![1],
                data: vec![0xff, 1].into(),
            }],
        }
    }

    #[test]
    fn an_answer_is_a_row_for_each_output() {
        insta::assert_snapshot!(
            headline(&example(), Duration::from_micros(1234)),
            @"Model `m`, version 1, answered in 1.23 ms."
        );
        insta::assert_snapshot!(outputs_table(&example()).draw(Look::Plain), @r#"
        output  datatype  shape   min    mean  max  values
        scores  FP32      (2,4)  -2.5  0.1875    3  0.1, 0.7, 0.15, 0.05, 1e-7, 3, …
        text    BYTES     (1)       -       -    -  "two\nlines"
        own     7w        (1)       -       -    -  2 bytes: ff 01
        "#);
    }

    #[test]
    fn rows_of_a_batch_have_the_names_of_their_files() {
        let files = ["a.png", "b\n.png"].map(str::to_owned);
        let scores = floats(&[2, 2], &[0.7, 0.3, 0.1, 0.9]);
        assert_eq!(files_of_rows(&scores, 2, &files), ["a.png", "b\n.png"]);
        insta::assert_snapshot!(rows_of(&files), @r"

        row  file
          0  a.png
          1  b\u{a}.png
        ");
        assert_eq!(rows_of(&files[..1]), "");
        // A demultiplexed output has several rows of each.
        assert_eq!(
            files_of_rows(&floats(&[2, 2, 1], &[0.0; 4]), 4, &files)[2],
            files[1]
        );
        // Rows that are none of the batch have no files.
        let other = floats(&[3, 1], &[0.0; 3]);
        assert!(files_of_rows(&other, 3, &files).is_empty());
        let many = vec!["a.png".to_owned(); 40];
        assert!(rows_of(&many).ends_with("… 8 more: `--output json` has all\n"));
    }
}
