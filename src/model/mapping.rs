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

use crate::openvino::TensorNames;

/// The file's name.
const FILE: &str = "mapping_config.json";

/// Maximum bytes read of it.
const LIMIT: u64 = 1 << 20;

/// Error of a mapping file that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum MappingError {
    /// It is there and cannot be read.
    #[error(transparent)]
    Read(#[from] io::Error),
    /// It is far larger than names can be.
    #[error("the file has more than {LIMIT} bytes")]
    Large,
    /// It is not what is expected.
    #[error(
        r#"expected {{"inputs":{{"name in the model":"public name"}},"outputs":{{…}}}}, each of the two if needed"#
    )]
    Form(#[from] serde_json::Error),
}

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
#[must_use]
pub fn path(version: &Path) -> PathBuf {
    version.join(FILE)
}

/// Reads the file of a version folder; no file gives no names.
///
/// # Errors
///
/// Fails if the file is there and cannot be read, or is not of the form.
pub fn read(version: &Path) -> Result<TensorNames, MappingError> {
    let path = path(version);
    // A pipe would be waited for.
    match fs::metadata(&path) {
        Ok(metadata) if metadata.is_file() => {}
        Ok(_) => return Err(io::Error::other("it is no file").into()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(TensorNames::default()),
        Err(error) => return Err(error.into()),
    }
    let mut text = Vec::new();
    fs::File::open(&path)?
        .take(LIMIT + 1)
        .read_to_end(&mut text)?;
    if text.len() as u64 > LIMIT {
        return Err(MappingError::Large);
    }
    // A struct is read from a list as well, which is no form that anybody knows.
    serde_json::from_slice::<Map<String, Value>>(&text)?;
    let Form { inputs, outputs } = serde_json::from_slice(&text)?;
    Ok(TensorNames {
        inputs,
        outputs,
        file: path,
    })
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
        let names = read_text(r#"{"inputs":{"x":"picture"},"outputs":{"y":"scores"}}"#).unwrap();
        assert_eq!(names.inputs["x"], "picture");
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
