//! `mapping_config.json` beside a model: the names that clients use for its tensors.
//!
//! `{"inputs":{"tensor":"public"},"outputs":{…}}`, with no other keys. The tensors are looked up
//! when the model is loaded; names of none have no effect and are reported in the log.

use std::{
    collections::BTreeMap,
    fs,
    io::{self, Read},
    path::{Path, PathBuf},
};

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::{
    error::{Error, Result},
    openvino::TensorNames,
};

/// The file's name.
const FILE: &str = "mapping_config.json";

/// Maximum bytes read of it.
const MAX_SIZE: u64 = 1 << 20;

/// Text about a file of another form.
const FORM: &str = r#"expected {"inputs":{"name in the model":"public name"},"outputs":{…}}, each of the two if needed"#;

/// The file's form.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Form {
    #[serde(default)]
    inputs: BTreeMap<String, String>,
    #[serde(default)]
    outputs: BTreeMap<String, String>,
}

/// Returns the path of the file of a version folder.
pub fn path(version: &Path) -> PathBuf {
    version.join(FILE)
}

/// Reads the file of a version folder; no file gives no names.
///
/// # Errors
///
/// Fails if the file is there and cannot be read, or is not of the form.
pub fn read(version: &Path) -> Result<TensorNames> {
    let path = path(version);
    let text = match read_start(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(TensorNames::default()),
        Err(error) => return Err(Error::invalid(error.to_string())),
    };
    if text.len() as u64 > MAX_SIZE {
        let text = format!("the file has more than {MAX_SIZE} bytes");
        return Err(Error::invalid(text));
    }
    // A struct is read from a list as well, which is no form that anybody knows.
    let form = serde_json::from_slice::<Map<String, Value>>(&text)
        .and_then(|_| serde_json::from_slice(&text));
    let Form { inputs, outputs } = form.map_err(|error| Error::invalid(FORM).with_source(error))?;
    Ok(TensorNames {
        inputs,
        outputs,
        file: path,
    })
}

/// Reads as much of a file as it may have, and a byte more.
fn read_start(path: &Path) -> io::Result<Vec<u8>> {
    // A pipe would be waited for.
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::other("it is no file"));
    }
    let mut text = Vec::new();
    let file = fs::File::open(path)?;
    file.take(MAX_SIZE + 1).read_to_end(&mut text)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::{path, read};
    use crate::{error::chain, openvino::TensorNames};

    fn read_text(text: &str) -> Result<TensorNames, String> {
        let folder = tempfile::tempdir().unwrap();
        fs::write(path(folder.path()), text).unwrap();
        read(folder.path()).map_err(|error| chain(&error))
    }

    #[test]
    fn no_file_gives_no_names() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(read(folder.path()).unwrap(), TensorNames::default());
    }

    #[test]
    fn names_are_read() {
        let names = read_text(r#"{"inputs":{"x":"image"},"outputs":{"y":"scores"}}"#).unwrap();
        assert_eq!(names.inputs["x"], "image");
        assert_eq!(names.outputs["y"], "scores");
        let none = read_text("{}").unwrap();
        assert!(none.inputs.is_empty() && none.outputs.is_empty());
    }

    #[test]
    fn another_form_is_refused() {
        let errors = [
            r#"{"inputs":{},"other":1}"#,
            r#"{"inputs":["x"]}"#,
            r#"{"outputs":{"y":1}}"#,
            "[]",
            "",
        ]
        .map(|text| read_text(text).unwrap_err());
        insta::assert_snapshot!(errors.join("\n"), @r#"
        expected {"inputs":{"name in the model":"public name"},"outputs":{…}}, each of the two if needed: unknown field `other`, expected `inputs` or `outputs` at line 1 column 20
        expected {"inputs":{"name in the model":"public name"},"outputs":{…}}, each of the two if needed: invalid type: sequence, expected a map at line 1 column 10
        expected {"inputs":{"name in the model":"public name"},"outputs":{…}}, each of the two if needed: invalid type: integer `1`, expected a string at line 1 column 17
        expected {"inputs":{"name in the model":"public name"},"outputs":{…}}, each of the two if needed: invalid type: sequence, expected a map at line 1 column 0
        expected {"inputs":{"name in the model":"public name"},"outputs":{…}}, each of the two if needed: EOF while parsing a value at line 1 column 0
        "#);
        assert!(
            read_text(&" ".repeat(2 << 20))
                .unwrap_err()
                .starts_with("the file has more")
        );
    }
}
