//! Inputs of many requests: values that are sent one after the other, and files that lines of requests name.

use std::{io, path::PathBuf};

use super::{Given, Inputs};
use crate::client::{
    input::{
        Argument, ElementSource, InputError,
        content::{FileLimit, Stdin},
    },
    message::ModelMetadata,
};

/// Maximum number of bytes that are read of the files of many requests.
pub const MAX_OF_FILES: u64 = 1 << 30;

/// Inputs of one of several requests.
#[derive(Debug, Clone)]
pub struct InputTurn {
    /// The inputs.
    pub inputs: Inputs,
    /// The file that only this request has, if it has one.
    pub file: Option<PathBuf>,
}

impl Inputs {
    /// Adds the file that a line of requests names for an input, or the files that its pattern matches.
    ///
    /// # Errors
    ///
    /// Fails if one cannot be read, no file matches, they have more than [`MAX_OF_FILES`] bytes, or a sound has another
    /// sampling rate than the model takes.
    pub fn with_file(&self, argument: &Argument) -> Result<Self, InputError> {
        let mut inputs = self.clone();
        let (mut nothing, mut limit) = (io::empty(), FileLimit::new(MAX_OF_FILES));
        inputs.read(argument.clone(), &mut Stdin::new(&mut nothing), &mut limit)?;
        inputs.check_rates()?;
        inputs.hear_of_sounds();
        Ok(inputs)
    }

    /// Returns the same inputs as part of one of many requests, of which others may have images;
    /// [`hear_of_end`](Self::hear_of_end) is for the end of all.
    #[must_use]
    pub fn of_many(&self) -> Self {
        Self {
            is_one_of_many: true,
            ..self.clone()
        }
    }

    /// Returns the inputs of each request, if several values of an input are no batch but sent one after the other:
    /// the first request has the first value of each input, and so on. A single value goes with all of them.
    ///
    /// # Errors
    ///
    /// Fails if an input has no name, or two have different numbers of values.
    pub fn in_turn(&self, model: &ModelMetadata) -> Result<Vec<InputTurn>, InputError> {
        let mut all: Vec<(String, Vec<Given>)> = Vec::new();
        for (name, given) in self.apart(model)? {
            match all.iter_mut().find(|(known, _)| *known == name) {
                Some((_, values)) => values.push(given),
                None => all.push((name, vec![given])),
            }
        }
        let mut several = all.iter().filter(|(_, values)| values.len() > 1);
        let first = several.next();
        let count = first.map_or(1, |(_, values)| values.len());
        if let (Some((name, _)), Some((other, values))) =
            (first, several.find(|(_, values)| values.len() != count))
        {
            return Err(InputError::Turns {
                first: (name.clone(), count),
                other: (other.clone(), values.len()),
            });
        }
        let turn = |turn: usize| {
            let mut file = None;
            let given = all.iter().filter_map(|(name, values)| {
                let mut given = values.get(turn).or_else(|| values.first())?.clone();
                given.argument.name = Some(name.clone());
                if values.len() > 1
                    && let ElementSource::File { path, .. } =
                        std::mem::take(&mut given.argument.source)
                {
                    // It is read. A remark about one of many is about all of them.
                    file.get_or_insert(path);
                }
                Some(given)
            });
            InputTurn {
                inputs: Self {
                    given: given.collect(),
                    fill: self.fill,
                    image: self.image.clone(),
                    remarks: self.remarks.clone(),
                    is_one_of_many: true,
                    is_part: self.is_part,
                    sample_rate: self.sample_rate,
                },
                file,
            }
        };
        Ok((0..count).map(turn).collect())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::{Inputs, MAX_OF_FILES};
    use crate::{
        client::{
            input::{Argument, ElementSource, FileKind, ImageOptions},
            message::{ModelMetadata, TensorMetadata},
        },
        error::chain,
    };

    fn model() -> ModelMetadata {
        let input = |name: &str| TensorMetadata::new(name.to_owned(), "INT32".to_owned(), &[1, 2]);
        ModelMetadata {
            name: "m".to_owned(),
            versions: Vec::new(),
            platform: String::new(),
            properties: Default::default(),
            inputs: vec![input("a"), input("b")],
            outputs: Vec::new(),
        }
    }

    fn load(arguments: &[&str], most: u64) -> Result<Inputs, String> {
        let arguments = arguments.iter().map(|it| it.parse::<Argument>().unwrap());
        let options = ImageOptions::default();
        let loaded = Inputs::load_within(arguments.collect(), None, options, &mut &b""[..], most);
        loaded.map_err(|error| chain(&error))
    }

    /// The bytes of the first elements of `a` and `b` in each request, and the file that it has for itself.
    fn turns(arguments: &[&str]) -> Result<Vec<(u8, u8, String)>, String> {
        let turns = load(arguments, MAX_OF_FILES)?.in_turn(&model());
        let turns = turns.map_err(|error| chain(&error))?.into_iter();
        let turn = turns.map(|turn| {
            let tensors = turn.inputs.tensors(&model());
            let tensors = tensors.map_err(|error| chain(&error))?;
            let name = turn.file.as_deref().and_then(|it| it.file_name());
            let name = name.map_or(String::new(), |it| it.display().to_string());
            Ok((tensors[0].1.data()[0], tensors[1].1.data()[0], name))
        });
        turn.collect()
    }

    #[test]
    fn each_request_has_the_next_value_of_each_input() {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in [
            ("x.json", "[1, 0]"),
            ("y.json", "[2, 0]"),
            ("z.json", "[3, 0]"),
        ] {
            fs::write(folder.path().join(name), text).unwrap();
        }
        let files = format!("a=@{}/*.json", folder.path().display());
        let row = |a, b, file: &str| (a, b, file.to_owned());
        assert_eq!(
            turns(&[&files, "b=[9, 0]"]),
            Ok(vec![
                row(1, 9, "x.json"),
                row(2, 9, "y.json"),
                row(3, 9, "z.json")
            ])
        );
        assert_eq!(
            turns(&["a=[1, 0]", "b=[5, 0]", "b=[6, 0]", "a=[2, 0]"]),
            Ok(vec![row(1, 5, ""), row(2, 6, "")])
        );
        assert_eq!(turns(&["a=[1, 0]", "b=[5, 0]"]), Ok(vec![row(1, 5, "")]));
        assert_eq!(
            turns(&[&files, "b=[5, 0]", "b=[6, 0]"]).unwrap_err(),
            "found 3 values for input `a` and 2 values for input `b`"
        );
        assert_eq!(
            turns(&["[1, 0]"]).unwrap_err(),
            "found a value without a name, the model has 2 inputs"
        );
        assert_eq!(
            load(&[&files], 17).unwrap_err(),
            "the files have more than 0 MiB together"
        );
        assert!(load(&[&files], 18).is_ok());
    }

    #[test]
    fn a_line_has_the_file_that_it_names() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.json");
        fs::write(&path, "[7, 8]").unwrap();
        let argument = |name: &str, path| Argument {
            name: Some(name.to_owned()),
            source: ElementSource::File {
                path,
                kind: FileKind::Json,
                output: None,
            },
            ..Argument::default()
        };
        let inputs = load(&["b=[1, 2]"], MAX_OF_FILES).unwrap();
        let inputs = inputs.with_file(&argument("a", path)).unwrap();
        let tensors = inputs.tensors(&model()).unwrap();
        assert_eq!((tensors[0].0.as_str(), tensors[0].1.data()[0]), ("a", 7));
        let missing = inputs.with_file(&argument("c", folder.path().join("none.json")));
        assert!(chain(&missing.unwrap_err()).contains("none.json: No such file"));
    }
}
