//! Outputs as `.npy` files of a folder.

use std::{
    collections::HashSet,
    fs, io,
    path::{Path, PathBuf},
};

use crate::{
    tensor::{DataType, TensorMap, npy},
    whole_file::replace,
};

/// A file that was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Saved {
    /// The name of the output.
    pub output: String,
    /// The file.
    pub path: PathBuf,
    /// The type of the output, if the file has another one: NumPy has no BF16.
    pub widened: Option<DataType>,
}

/// Writes each tensor to a file of its own; the folder is made if it is missing.
///
/// A file is named after its output. Characters that file systems or shells take for something
/// else become underscores; a file of an earlier answer is replaced.
///
/// # Errors
///
/// Fails if the folder or a file cannot be written.
pub fn save_tensors(tensors: &TensorMap, folder: &Path) -> io::Result<Vec<Saved>> {
    fs::create_dir_all(folder)?;
    let names = file_names(tensors.iter().map(|(name, _)| name.as_str()));
    let mut saved = Vec::with_capacity(names.len());
    for ((output, tensor), name) in tensors.iter().zip(names) {
        let path = folder.join(name);
        replace(&path, |file| npy::write(tensor, file))?;
        let widened = Some(tensor.dtype()).filter(|dtype| *dtype == DataType::Bf16);
        saved.push(Saved {
            output: output.to_owned(),
            path,
            widened,
        });
    }
    Ok(saved)
}

/// Makes a file name of each output's name, no two alike.
fn file_names<'a>(outputs: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    let mut taken = HashSet::new();
    for output in outputs {
        let plain: String = output.chars().map(safe).collect();
        let stem = match plain.trim_start_matches('.') {
            "" => "output",
            stem => stem,
        };
        let mut name = format!("{stem}.npy");
        let mut number = 2;
        // File systems may take upper and lower case for the same.
        while !taken.insert(name.to_ascii_lowercase()) {
            name = format!("{stem}_{number}.npy");
            number += 1;
        }
        names.push(name);
    }
    names
}

const fn safe(character: char) -> char {
    match character {
        'a'..='z' | 'A'..='Z' | '0'..='9' | '.' | '-' | '_' => character,
        _ => '_',
    }
}

#[cfg(test)]
mod tests {
    use super::{file_names, save_tensors};
    use crate::tensor::{DataType, Tensor, TensorMap, npy};

    #[test]
    fn file_names_are_safe_and_differ() {
        let outputs = ["y", "a/b:0", "../etc", "Y", "y_2", "", "日本"];
        assert_eq!(
            file_names(outputs.into_iter()),
            [
                "y.npy",
                "a_b_0.npy",
                "_etc.npy",
                "Y_2.npy",
                "y_2_2.npy",
                "output.npy",
                "__.npy"
            ]
        );
    }

    #[test]
    fn every_output_becomes_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let tensor = Tensor::new(DataType::Bf16, vec![1], vec![0, 64].into()).unwrap();
        let answer = TensorMap::from_iter([("y".to_owned(), tensor)]);
        let into = folder.path().join("new/folder");
        let saved = save_tensors(&answer, &into).unwrap();
        assert_eq!(saved[0].path, into.join("y.npy"));
        assert_eq!(saved[0].widened, Some(DataType::Bf16));
        let read = npy::read(&std::fs::read(&saved[0].path).unwrap().into()).unwrap();
        assert_eq!((read.dtype(), read.shape()), (DataType::F32, &[1][..]));
    }
}
