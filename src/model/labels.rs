//! Names of a model's scores: of a file beside it, or those that the model itself carries.

use std::{
    collections::BTreeSet,
    fs,
    io::Read,
    path::{Path, PathBuf},
    sync::Arc,
};

use super::ir::RtInfo;
use crate::tensor::{Dim, PartialShape};

/// Name of the file, with a label per line.
pub(super) const FILE: &str = "labels.txt";

/// Maximum size of the labels in bytes; further ones are no labels.
const MAX_SIZE: u64 = 1 << 20;

/// Labels, and where they are from.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Labels {
    /// One per line.
    pub(super) text: Arc<str>,
    /// The file, or words for the model itself.
    from: String,
}

/// Returns the paths at which a version may have its file, the first of which counts: in its folder, and beside that.
pub(super) fn paths(version: &Path) -> impl Iterator<Item = PathBuf> {
    let folder = match version.is_dir() {
        true => Some(version),
        false => version.parent(),
    };
    let above = folder.and_then(|folder| {
        let name = folder.file_name().unwrap_or_default().as_encoded_bytes();
        let is_version = name.iter().all(u8::is_ascii_digit);
        folder.parent().filter(|_| is_version)
    });
    let folders = [folder, above].into_iter().flatten();
    folders.map(|folder| folder.join(FILE))
}

/// Reads the labels: of the version's folder, of the model's, or of the model itself.
pub(super) fn read(version: &Path, info: Option<&RtInfo>) -> Option<Labels> {
    let file = paths(version).find_map(|path| {
        let text = of_file(&path)?;
        Some((text, path.display().to_string()))
    });
    let own = || Some((of_model(info?)?, "the labels in the model".to_owned()));
    let (text, from) = file.or_else(own)?;
    let text = text.into();
    Some(Labels { text, from })
}

impl Labels {
    /// Returns what is wrong if they are of no output: the last dimension of each has another length.
    pub(super) fn misfit<'a>(
        &self,
        outputs: impl Iterator<Item = &'a PartialShape>,
    ) -> Option<String> {
        let count = self.text.lines().count();
        let mut scores = BTreeSet::new();
        for last in outputs.filter_map(|shape| shape.0.last()) {
            let Dim::Fixed(length) = last else {
                return None;
            };
            scores.insert(*length);
        }
        if scores.is_empty() || scores.contains(&count) {
            return None;
        }
        let scores: Vec<String> = scores.iter().map(ToString::to_string).collect();
        Some(format!(
            "labels do not fit: {}: found {count} lines, expected {}, the last dimension of an output",
            self.from,
            scores.join(" or ")
        ))
    }
}

fn of_file(path: &Path) -> Option<String> {
    if !path.is_file() {
        return None;
    }
    let mut text = String::new();
    let read =
        fs::File::open(path).and_then(|file| file.take(MAX_SIZE + 1).read_to_string(&mut text));
    let problem = match read {
        Ok(length) if length as u64 > MAX_SIZE => format!("it has more than {MAX_SIZE} bytes"),
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

    use super::{Labels, RtInfo, read};
    use crate::tensor::{Dim, PartialShape};

    #[test]
    fn labels_are_as_many_as_the_scores_of_an_output() {
        let labels = Labels {
            text: "a\nb".into(),
            from: "labels.txt".to_owned(),
        };
        let misfit = |scores: &[Dim]| {
            let shapes: Vec<_> = (scores.iter())
                .map(|scores| PartialShape(vec![Dim::Any, *scores]))
                .collect();
            labels.misfit(shapes.iter())
        };
        insta::assert_snapshot!(
            misfit(&[Dim::Fixed(5)]).unwrap(),
            @"labels do not fit: labels.txt: found 2 lines, expected 5, the last dimension of an output"
        );
        let of_two = misfit(&[Dim::Fixed(9), Dim::Fixed(5)]).unwrap();
        assert!(of_two.contains("expected 5 or 9,"), "{of_two}");
        assert_eq!(misfit(&[Dim::Fixed(5), Dim::Fixed(2)]), None);
        assert_eq!(misfit(&[Dim::Any]), None);
        assert_eq!(misfit(&[]), None);
    }

    #[test]
    fn the_nearest_labels_count() {
        let text = |version, info| read(version, info).map(|labels| labels.text.to_string());
        let root = tempfile::tempdir().unwrap();
        let version = root.path().join("1");
        fs::create_dir(&version).unwrap();
        assert_eq!(read(&version, None), None);
        let labels = RtInfo::Text("fire_engine cat".to_owned());
        let info = RtInfo::Tree(BTreeMap::from([("labels".to_owned(), labels)]));
        let own = read(&version, Some(&info)).unwrap();
        assert_eq!(&*own.text, "fire engine\ncat");
        assert_eq!(own.from, "the labels in the model");
        fs::write(root.path().join("labels.txt"), "a\nb\n").unwrap();
        let above = read(&version, Some(&info)).unwrap();
        assert_eq!(&*above.text, "a\nb");
        assert_eq!(
            above.from,
            root.path().join("labels.txt").display().to_string()
        );
        fs::write(version.join("labels.txt"), "c\n").unwrap();
        assert_eq!(text(&version, None).as_deref(), Some("c"));
        let file = version.join("m.onnx");
        fs::write(&file, "").unwrap();
        assert_eq!(text(&file, None).as_deref(), Some("c"));
        // Not those of another model beside.
        let other = root.path().join("other");
        fs::create_dir(&other).unwrap();
        assert_eq!(read(&other, None), None);
    }
}
