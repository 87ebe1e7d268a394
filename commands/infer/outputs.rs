//! Tensors of a response, in a line or a table.

use std::{fmt::Display, fs, path::Path, time::Duration};

use ovms::{
    client::{
        ClientResponse, Opaque,
        output::{self, OfSequence, Saved, Summary, hexadecimal, number},
    },
    tensor::{DataType, ShapeText, Tensor, named, npy},
};

use super::{run::Show, sequence::Whole};
use crate::{
    error::Failure,
    ui::{self, Look, NOTHING, Table, counted, visible},
};

/// Returns the model that has answered: `` Model `m`, version 1 ``.
pub(super) fn model(answer: &ClientResponse) -> String {
    let name = &answer.model_name;
    match answer.model_version.as_str() {
        "" => format!("Model `{name}`"),
        version => format!("Model `{name}`, version {version}"),
    }
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
    of_model: &[String],
) -> Result<(), Failure> {
    let (answer, sequence) = (&whole.answer, whole.of);
    // For people.
    let print_table = |table: Table| {
        ui::note(ui::filled(&whole.headline, Look::of_stderr()).trim_end());
        ui::print(table.draw(Look::of_stdout()) + &id_line(sequence))
    };
    let one = || {
        let name = only.unwrap_or_default();
        match named(&answer.outputs, name) {
            Some(tensor) => Ok((name, tensor)),
            None if answer.opaque.iter().any(|output| output.name == name) => {
                let text = format!("output `{name}` has a type of its own, and is no array");
                Err(Failure::failed(text)
                    .hint("`--output raw` writes its bytes, `--output json` has them as `b64`"))
            }
            None => {
                let text = format!("the server gave no output `{name}`");
                Err(Failure::failed(text))
            }
        }
    };
    match show {
        Show::Table => print_table(outputs_table(answer)),
        Show::Json => ui::print(json_line(output::answer_json(answer, sequence))),
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
        Show::Top { ranking, is_json } => {
            let (name, tensor) = one()?;
            let ranked = ranking.of(name, tensor, of_model)?;
            if *is_json {
                let (rows, labels) = (&ranked.rows, ranked.labels);
                let json = output::ranking_json(answer, sequence, name, rows, labels);
                return ui::print(json_line(json));
            }
            print_table(ranked.table())
        }
    }
}

/// Saves every output to a folder, or the only one to a file; returns the notes about it.
pub(super) fn save(answer: &ClientResponse, folder: &Path) -> Result<Vec<String>, Failure> {
    if folder.extension().is_some_and(|ending| ending == "npy") && !folder.is_dir() {
        return save_one(answer, folder);
    }
    if folder == Path::new("-") {
        let text = "cannot save to -: `--save` takes a file for NumPy (.npy), or a folder";
        return Err(Failure::usage(text).hint("`--output npy` writes an output to stdout"));
    }
    let is_like_file = |ending: &str| {
        matches!(
            ending,
            "json" | "csv" | "txt" | "bin" | "raw" | "npz" | "png" | "jpg" | "html"
        )
    };
    let ending = folder.extension().and_then(|ending| ending.to_str());
    if ending.is_some_and(is_like_file) && !folder.is_dir() {
        let text = format!(
            "cannot save to {}: `--save` takes a file for NumPy (.npy), or a folder",
            folder.display()
        );
        return Err(Failure::usage(text).hint("other forms go to stdout, as with `--output json`"));
    }
    let saved = output::save_tensors(&answer.outputs, folder).map_err(|error| {
        let failure = Failure::cannot("save to", folder, &error);
        if folder.is_file() {
            failure.hint("`--save` takes a folder, and this is a file")
        } else {
            failure
        }
    })?;
    let unsaved = |it: &Opaque| format!("`{}` has a type of its own: it is not saved.", it.name);
    let mut notes: Vec<String> = answer.opaque.iter().map(unsaved).collect();
    for Saved {
        output,
        path,
        widened,
    } in saved
    {
        notes.extend(widened.and_then(|dtype| if_widened(&output, dtype)));
        notes.push(format!("Saved `{output}` to {}", path.display()));
    }
    Ok(notes)
}

fn save_one(answer: &ClientResponse, path: &Path) -> Result<Vec<String>, Failure> {
    let mut outputs = answer.outputs.iter();
    let (Some((name, tensor)), None) = (outputs.next(), outputs.next()) else {
        let found = counted(answer.outputs.len(), "output");
        let text = format!("cannot save {found} to the file {}", path.display());
        let hint = "`--output-name` asks for one; a folder, as in `--save results`, takes them all";
        return Err(Failure::usage(text).hint(hint));
    };
    let folder = path.parent().unwrap_or(Path::new(""));
    fs::create_dir_all(folder)
        .and_then(|()| output::replace(path, |file| npy::write(tensor, file)))
        .map_err(|error| Failure::cannot("save to", path, &error))?;
    let saved = format!("Saved `{name}` to {}", path.display());
    let widened = if_widened(name, tensor.dtype());
    Ok(widened.into_iter().chain([saved]).collect())
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

/// Returns the note about an output that a file has in another type.
fn if_widened(name: &str, dtype: DataType) -> Option<String> {
    (dtype == DataType::Bf16).then(|| format!("NumPy has no BF16: `{name}` is written as FP32."))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use ovms::{
        client::{ClientResponse, Opaque},
        tensor::{DataType, Tensor, TensorMap, values::Packer},
    };

    use super::{headline, outputs_table};
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
}
