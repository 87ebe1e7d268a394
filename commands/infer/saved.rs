//! `ovms infer --save`: outputs as files, and what is refused before anything is sent.

use std::{
    fs,
    io::{self, Write},
    path::Path,
};

use ovms::{
    client::{
        ClientResponse, Opaque,
        output::{self, Saved},
    },
    tensor::{DataType, npy},
    whole_file,
};

use super::outputs::if_uneven;
use crate::{error::Failure, ui::counted};

/// Kinds of paths that are taken.
const TAKES: &str = "`--save` takes a file for NumPy (.npy), a table (.csv), or a folder";

/// Name of a file that is not written, for a look at its folder.
const OUTPUT: &str = "output.npy";

/// Returns whether a path is that of a file for one output, and not of a folder.
fn is_of_one(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending == "npy") && !path.is_dir()
}

/// Returns whether a path is that of a file for all outputs as CSV, and not of a folder.
pub(super) fn is_csv(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending == "csv") && !path.is_dir()
}

/// Refuses a place where nothing can be saved, before anything is sent.
pub(super) fn check_place(folder: &Path) -> Result<(), Failure> {
    if is_of_one(folder) || is_csv(folder) {
        return check_written(folder, folder);
    }
    if folder == Path::new("-") {
        let text = format!("cannot save to -: {TAKES}");
        let hint = "`--output npy` writes an output to stdout, `--output csv` all of them";
        return Err(Failure::usage(text).hint(hint));
    }
    let is_like_file = |ending: &str| {
        matches!(
            ending,
            "json" | "txt" | "bin" | "raw" | "npz" | "png" | "jpg" | "html"
        )
    };
    let ending = folder.extension().and_then(|ending| ending.to_str());
    if ending.is_some_and(is_like_file) && !folder.is_dir() {
        let text = format!("cannot save to {}: {TAKES}", folder.display());
        return Err(Failure::usage(text).hint("other forms go to stdout, as with `--output json`"));
    }
    match folder.is_file() {
        true => {
            let text = format!("cannot save to {}: it is a file", folder.display());
            Err(Failure::failed(text)
                .hint("`--save` takes a folder, or a file that ends in .npy or .csv"))
        }
        false => check_folder(folder),
    }
}

/// Refuses a folder that arrays cannot be written to, or that cannot be made.
pub(crate) fn check_folder(folder: &Path) -> Result<(), Failure> {
    match has_arrays(folder) {
        // Files that are there may be replaced where no new one can be made.
        true => Ok(()),
        false => check_written(&folder.join(OUTPUT), folder),
    }
}

/// Refuses a file that cannot be written, by the name of what was asked for. Folders that are missing will be made in
/// the first one that is there.
fn check_written(path: &Path, named: &Path) -> Result<(), Failure> {
    let folder = |path: &&Path| path.as_os_str().is_empty() || path.exists();
    let is_missing = path.parent().is_some_and(|it| !folder(&it));
    let there = path.ancestors().skip(1).find(folder);
    let checked = match there.filter(|_| is_missing) {
        Some(there) => whole_file::check(&there.join(OUTPUT)),
        None => whole_file::check(path),
    };
    checked.map_err(|error| Failure::cannot("save to", named, &error))
}

/// Returns whether a folder has arrays of NumPy.
fn has_arrays(folder: &Path) -> bool {
    let files = fs::read_dir(folder).into_iter().flatten().flatten();
    files
        .map(|file| file.path())
        .any(|path| path.extension().is_some_and(|ending| ending == "npy"))
}

/// Refuses several outputs for one file; of a model that does not list its outputs the answer has them.
pub(super) fn check_count(path: &Path, outputs: usize) -> Result<(), Failure> {
    match is_of_one(path) && outputs > 1 {
        true => Err(not_one(path, outputs)),
        false => Ok(()),
    }
}

/// Saves every output to a folder or a table, or the only one to a file; returns the notes about it.
///
/// `files` are those of the images of the request.
pub(super) fn save(
    answer: &ClientResponse,
    files: &[String],
    folder: &Path,
) -> Result<Vec<String>, Failure> {
    if is_of_one(folder) {
        return save_one(answer, folder);
    }
    if is_csv(folder) {
        let text = output::answer_csv(answer, files);
        save_file(folder, |file| file.write_all(&text))?;
        let found = counted(answer.outputs.len() + answer.opaque.len(), "output");
        let saved = format!("Saved {found} to {}", folder.display());
        return Ok(if_uneven(answer).into_iter().chain([saved]).collect());
    }
    let saved = output::save_tensors(&answer.outputs, folder)
        .map_err(|error| Failure::cannot("save to", folder, &error))?;
    let unsaved = |it: &Opaque| format!("`{}` has a custom datatype: it is not saved.", it.name);
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

fn not_one(path: &Path, count: usize) -> Failure {
    let found = counted(count, "output");
    let text = format!("cannot save {found} to the file {}", path.display());
    let hint = "`--output-name` asks for one; a folder, as in `--save results`, takes them all";
    Failure::usage(text).hint(hint)
}

/// Writes a file, in a folder that is made if it is missing.
fn save_file(
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<(), Failure> {
    let folder = path.parent().unwrap_or(Path::new(""));
    fs::create_dir_all(folder)
        .and_then(|()| whole_file::replace(path, write))
        .map_err(|error| Failure::cannot("save to", path, &error))
}

fn save_one(answer: &ClientResponse, path: &Path) -> Result<Vec<String>, Failure> {
    let mut outputs = answer.outputs.iter();
    let (Some((name, tensor)), None) = (outputs.next(), outputs.next()) else {
        return Err(not_one(path, answer.outputs.len()));
    };
    save_file(path, |file| npy::write(tensor, file))?;
    let saved = format!("Saved `{name}` to {}", path.display());
    let widened = if_widened(name, tensor.dtype());
    Ok(widened.into_iter().chain([saved]).collect())
}

/// Returns the note about an output that a file has in another type.
pub(super) fn if_widened(name: &str, dtype: DataType) -> Option<String> {
    (dtype == DataType::Bf16).then(|| format!("NumPy has no BF16: `{name}` is written as FP32."))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{check_count, check_place};

    #[test]
    fn what_cannot_be_saved_is_refused_before() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        std::fs::write(&file, "").unwrap();
        for (place, is_taken) in [
            (Path::new("a.npy"), true),
            (Path::new("results"), true),
            (folder.path(), true),
            (Path::new("-"), false),
            (Path::new("a.csv"), true),
            (Path::new("a.json"), false),
            (&file, false),
            (&folder.path().join("new/folder/a.npy"), true),
            (&folder.path().join("new/folder"), true),
            (&file.join("a.npy"), false),
            (&file.join("new/results"), false),
        ] {
            assert_eq!(check_place(place).is_ok(), is_taken, "{}", place.display());
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
        assert!(check_count(Path::new("a.npy"), 1).is_ok());
        assert!(check_count(Path::new("results"), 2).is_ok());
        insta::assert_snapshot!(check_count(Path::new("a.npy"), 2).unwrap_err().text(), @r"
        error: cannot save 2 outputs to the file a.npy
        hint: `--output-name` asks for one; a folder, as in `--save results`, takes them all
        ");
    }
}
