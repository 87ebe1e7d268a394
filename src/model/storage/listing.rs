//! Conversion of the names of objects to versions.

use std::{
    collections::BTreeMap,
    fmt,
    path::{Component, Path as LocalPath},
    sync::Arc,
};

use object_store::{ObjectMeta, path::Path};

use super::{StorageError, location::Location, options::StorageLimits};
use crate::model::{folders::FolderSurvey, labels, mapping, repository};

/// One object of a version: a file to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Object {
    /// Its name below the version folder, with `/` between folders.
    pub name: String,
    /// Size in bytes.
    pub size: u64,
    /// Entity tag; changes with the content.
    pub(super) tag: Option<String>,
    /// Its whole name.
    pub(super) path: Path,
}

/// A version in the cloud, as it was listed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteVersion {
    /// The number that the folder is named by.
    pub number: i64,
    /// Identity, which changes when any of these objects does.
    pub identity: FileIdentity,
    /// The objects that a load may read, by name.
    pub objects: Arc<[Object]>,
    /// The name of the version folder.
    pub(super) folder: String,
}

impl RemoteVersion {
    /// Returns the bytes of all objects.
    pub fn bytes(&self) -> u64 {
        self.objects
            .iter()
            .fold(0, |sum, object| sum.saturating_add(object.size))
    }
}

/// Identity of a version's files: equal as long as none of them changes.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct FileIdentity([u8; 32]);

impl FileIdentity {
    /// Makes an identity of the facts about each file.
    pub(super) fn of(facts: impl IntoIterator<Item = String>) -> Self {
        let mut digest = ring::digest::Context::new(&ring::digest::SHA256);
        for fact in facts {
            digest.update(fact.as_bytes());
            // No name has this in it, so no two lists run together to the same.
            digest.update(&[0]);
        }
        let mut bytes = [0; 32];
        bytes.copy_from_slice(digest.finish().as_ref());
        Self(bytes)
    }
}

impl fmt::Display for FileIdentity {
    /// Writes 32 hexadecimal digits, which are enough to tell versions apart.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0[..16]
            .iter()
            .try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for FileIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FileIdentity({self})")
    }
}

/// Returns whether a load may read a file of a version folder.
fn is_read(path: &LocalPath) -> bool {
    let beside = [mapping::path(LocalPath::new("")), labels::FILE.into()];
    repository::may_be_of_model(path) || beside.iter().any(|file| path.ends_with(file))
}

/// Sorts objects below a prefix into versions.
pub(super) fn sorted(prefix: &Path, objects: Vec<ObjectMeta>) -> FolderSurvey<RemoteVersion> {
    let mut folders: BTreeMap<String, Vec<Object>> = BTreeMap::new();
    let mut labels_beside = None;
    for meta in objects {
        let object = |name: &str| Object {
            name: name.to_owned(),
            size: meta.size,
            tag: meta
                .e_tag
                .as_deref()
                .map(plain)
                .or_else(|| Some(meta.last_modified.to_rfc3339())),
            path: meta.location.clone(),
        };
        let below = meta.location.as_ref().strip_prefix(prefix.as_ref());
        let below = below.map(|below| below.trim_start_matches('/'));
        let Some((folder, name)) = below.and_then(|below| below.split_once('/')) else {
            // All else that lies beside the version folders is none of ours.
            if below == Some(labels::FILE) {
                labels_beside = Some(object(labels::FILE));
            }
            continue;
        };
        let objects = folders.entry(folder.to_owned()).or_default();
        if is_read(LocalPath::new(name)) {
            objects.push(object(name));
        }
    }
    FolderSurvey::of(folders, |number, folder, mut objects| {
        // Copies lie by themselves: those of versions that have no labels of their own have these among their files.
        if !objects.iter().any(|object| object.name == labels::FILE) {
            objects.extend(labels_beside.clone());
        }
        objects.sort_by(|one, other| one.name.cmp(&other.name));
        let facts = objects.iter().map(|object| {
            let tag = object.tag.as_deref().unwrap_or_default();
            format!("{}\n{}\n{tag}", object.name, object.size)
        });
        RemoteVersion {
            number,
            identity: FileIdentity::of(facts),
            objects: objects.into(),
            folder,
        }
    })
}

/// Returns an entity tag without quotes, which some services put around it in one place only.
pub(super) fn plain(tag: &str) -> String {
    tag.trim_start_matches("W/").trim_matches('"').to_owned()
}

/// Returns the files of a version to write to disk; refuses paths outside the version's folder, and
/// too much data.
pub(super) fn files(
    location: &Location,
    version: &RemoteVersion,
    limits: &StorageLimits,
) -> Result<Arc<[Object]>, StorageError> {
    let (bytes, folder) = (version.bytes(), &version.folder);
    if bytes > limits.bytes {
        return Err(StorageError::other(format!(
            "{location}/{folder} has {bytes} bytes; at most {} are downloaded",
            limits.bytes
        )));
    }
    for object in version.objects.iter() {
        let parts = LocalPath::new(&object.name).components();
        let plain = parts
            .clone()
            .all(|part| matches!(part, Component::Normal(_)))
            && parts.count() == object.name.split('/').count();
        if !plain || object.name.contains('\\') {
            let name = format!("{folder}/{}", object.name);
            return Err(StorageError::object_name(&location.to_string(), &name));
        }
    }
    // Some tools keep an empty object for each folder.
    let is_folder = |object: &Object| {
        let inside = format!("{}/", object.name);
        object.size == 0
            && version
                .objects
                .iter()
                .any(|other| other.name.starts_with(&inside))
    };
    let files = version.objects.iter().filter(|object| !is_folder(object));
    Ok(files.cloned().collect())
}

#[cfg(test)]
mod tests {
    use object_store::{ObjectMeta, path::Path};

    use super::{FileIdentity, Location, RemoteVersion, files, plain, sorted};
    use crate::model::{folders::FolderSurvey, storage::StorageLimits};

    fn meta(name: &str, size: u64, tag: &str) -> ObjectMeta {
        ObjectMeta {
            location: Path::parse(name).unwrap(),
            last_modified: "2026-01-01T00:00:00Z".parse().unwrap(),
            size,
            e_tag: Some(tag.to_owned()),
            version: None,
        }
    }

    fn list(names: &[&str]) -> FolderSurvey<RemoteVersion> {
        let objects = names.iter().map(|name| meta(name, 3, "t")).collect();
        sorted(&Path::parse("models/a").unwrap(), objects)
    }

    #[test]
    fn objects_are_sorted_into_versions() {
        let listing = list(&[
            "models/a/10/m.xml",
            "models/a/10/m.bin",
            "models/a/9/saved_model.pb",
            "models/a/9/README.md",
            "models/a/9/labels.txt",
            "models/a/9/assets/words.txt",
            "models/a/9/mapping_config.json",
            "models/a/9/train.log",
            "models/a/9/variables/variables.index",
            "models/a/backup/m.xml",
            "models/a/11.tmp/m.xml",
            "models/a/9.bak/m.xml",
            "models/a/09/m.xml",
            "models/a/.git/HEAD",
            "models/a/labels.txt",
        ]);
        let versions: Vec<String> = listing
            .versions
            .iter()
            .map(|version| {
                let names: Vec<&str> = version.objects.iter().map(|o| o.name.as_str()).collect();
                format!("{} {} {names:?}", version.number, version.bytes())
            })
            .collect();
        assert_eq!(
            versions,
            [
                r#"9 15 ["assets/words.txt", "labels.txt", "mapping_config.json", "saved_model.pb", "variables/variables.index"]"#,
                r#"10 9 ["labels.txt", "m.bin", "m.xml"]"#
            ]
        );
        let ignored: Vec<&str> = listing.ignored.iter().map(|it| it.name.as_str()).collect();
        assert_eq!(ignored, ["09", "11.tmp", "9.bak", "backup"]);
    }

    #[test]
    fn a_bucket_can_be_the_base_path() {
        let listing = sorted(&Path::default(), vec![meta("1/m.onnx", 1, "t")]);
        assert_eq!(listing.versions[0].objects[0].name, "m.onnx");
    }

    #[test]
    fn the_identity_changes_with_every_fact_about_a_file() {
        let identity = |name: &str, size, tag: &str| {
            sorted(&Path::default(), vec![meta(name, size, tag)]).versions[0].identity
        };
        let first = identity("1/m", 3, "t");
        assert_eq!(first, identity("1/m", 3, "\"t\""));
        for other in [
            identity("1/n", 3, "t"),
            identity("1/m", 4, "t"),
            identity("1/m", 3, "u"),
        ] {
            assert_ne!(first, other);
        }
        assert_ne!(
            FileIdentity::of(["ab".into(), "c".into()]),
            FileIdentity::of(["a".into(), "bc".into()])
        );
    }

    #[test]
    fn names_that_lead_elsewhere_are_refused() {
        let location = Location::parse("s3://b").unwrap();
        let check = |name: &str| {
            let mut version = sorted(&Path::default(), vec![meta("1/m", 1, "t")])
                .versions
                .remove(0);
            let mut object = version.objects[0].clone();
            name.clone_into(&mut object.name);
            version.objects = [object].into();
            files(&location, &version, &StorageLimits::default()).map(|files| files.len())
        };
        assert_eq!(check("variables/m").unwrap(), 1);
        for name in ["../m", "a/../m", "/m", "a//m", "./m", "a\\m", "", "a/"] {
            let refused = check(name).unwrap_err().to_string();
            assert!(
                refused.ends_with("has to be a plain relative path"),
                "{name}"
            );
        }
    }

    #[test]
    fn objects_that_stand_for_folders_are_no_files() {
        let location = Location::parse("s3://b").unwrap();
        let objects = vec![
            meta("1/variables", 0, "t"),
            meta("1/variables/index", 1, "t"),
            meta("1/empty", 0, "t"),
        ];
        let version = sorted(&Path::default(), objects).versions.remove(0);
        let files = files(&location, &version, &StorageLimits::default()).unwrap();
        let names: Vec<&str> = files.iter().map(|object| object.name.as_str()).collect();
        assert_eq!(names, ["empty", "variables/index"]);
    }

    #[test]
    fn a_version_may_be_too_large() {
        let location = Location::parse("s3://b/m").unwrap();
        let objects = vec![meta("1/a", u64::MAX, "t"), meta("1/b", 1, "t")];
        let version = sorted(&Path::default(), objects).versions.remove(0);
        let refused = files(&location, &version, &StorageLimits::default()).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "s3://b/m/1 has 18446744073709551615 bytes; at most 1099511627776 are downloaded"
        );
    }

    #[test]
    fn tags_are_compared_without_quotes() {
        assert_eq!(plain("\"0x8D\""), "0x8D");
        assert_eq!(plain("W/\"a\""), "a");
    }
}
