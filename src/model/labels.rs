//! Names of a model's scores: of a file beside it, or those that the model itself carries.

use std::{fs, io::Read, path::Path, sync::Arc};

use super::ir::RtInfo;
use crate::tensor::PartialShape;

/// Name of the file, with a label per line.
const FILE: &str = "labels.txt";

/// Maximum size of the labels in bytes; further ones are no labels.
const MAX: u64 = 1 << 20;

/// Reads the labels, one per line: of the version's folder, of the model's, or of the model itself.
pub(super) fn read(version: &Path, info: Option<&RtInfo>) -> Option<Arc<str>> {
    let folder = match version.is_dir() {
        true => version,
        false => version.parent()?,
    };
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    let is_version = name.bytes().all(|byte| byte.is_ascii_digit());
    let above = folder.parent().filter(|_| is_version);
    let mut folders = [Some(folder), above].into_iter().flatten();
    let file = folders.find_map(|folder| of_file(&folder.join(FILE)));
    file.or_else(|| of_model(info?)).map(Into::into)
}

/// Returns how many labels there are, if they are of no output: the last dimension of each has another length.
pub(super) fn misfit(
    labels: &str,
    outputs: &mut dyn Iterator<Item = &PartialShape>,
) -> Option<usize> {
    let count = labels.lines().count();
    let scores = outputs.map(|shape| shape.fixed()?.last().copied());
    let scores: Option<Vec<usize>> = scores.collect();
    (!scores?.contains(&count)).then_some(count)
}

fn of_file(path: &Path) -> Option<String> {
    if !path.is_file() {
        return None;
    }
    let mut text = String::new();
    let read = fs::File::open(path).and_then(|file| file.take(MAX + 1).read_to_string(&mut text));
    let problem = match read {
        Ok(length) if length as u64 > MAX => format!("it has more than {MAX} bytes"),
        Ok(_) => return Some(text.trim_end().to_owned()).filter(|text| !text.is_empty()),
        Err(error) => error.to_string(),
    };
    tracing::warn!("ignoring {}: {problem}", path.display());
    None
}

/// Returns the labels of the model's notes, which have blanks between them and `_` for blanks in them.
fn of_model(info: &RtInfo) -> Option<String> {
    let RtInfo::Tree(tree) = info else {
        return None;
    };
    let Some(RtInfo::Text(labels)) = tree.get("labels") else {
        return None;
    };
    let labels = labels
        .split_whitespace()
        .map(|label| label.replace('_', " "));
    let labels = labels.collect::<Vec<_>>().join("\n");
    Some(labels).filter(|labels| !labels.is_empty())
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, fs};

    use super::{RtInfo, misfit, read};
    use crate::tensor::{Dim, PartialShape};

    #[test]
    fn labels_are_as_many_as_the_scores_of_an_output() {
        let misfit = |scores: &[Dim]| {
            let shapes: Vec<_> = (scores.iter())
                .map(|scores| PartialShape(vec![Dim::Fixed(1), *scores]))
                .collect();
            misfit("a\nb", &mut shapes.iter())
        };
        assert_eq!(misfit(&[Dim::Fixed(5)]), Some(2));
        assert_eq!(misfit(&[Dim::Fixed(5), Dim::Fixed(2)]), None);
        assert_eq!(misfit(&[Dim::Any]), None);
    }

    #[test]
    fn the_nearest_labels_count() {
        let root = tempfile::tempdir().unwrap();
        let version = root.path().join("1");
        fs::create_dir(&version).unwrap();
        assert_eq!(read(&version, None), None);
        let labels = RtInfo::Text("fire_engine cat".to_owned());
        let info = RtInfo::Tree(BTreeMap::from([("labels".to_owned(), labels)]));
        assert_eq!(
            read(&version, Some(&info)).as_deref(),
            Some("fire engine\ncat")
        );
        fs::write(root.path().join("labels.txt"), "a\nb\n").unwrap();
        assert_eq!(read(&version, Some(&info)).as_deref(), Some("a\nb"));
        fs::write(version.join("labels.txt"), "c\n").unwrap();
        assert_eq!(read(&version, None).as_deref(), Some("c"));
        let file = version.join("m.onnx");
        fs::write(&file, "").unwrap();
        assert_eq!(read(&file, None).as_deref(), Some("c"));
        // Not those of another model beside.
        let other = root.path().join("other");
        fs::create_dir(&other).unwrap();
        assert_eq!(read(&other, None), None);
    }
}
