//! Hash of the measured sources: those of the server and of the bench, without their tests.

use std::{
    fmt, fs, io,
    path::{Path, PathBuf},
};

use ring::digest::{Context, SHA256};

/// Parts of the tree, each with a hash of its own.
const PARTS: [&str; 5] = ["src", "commands", "proto", "benches", "Cargo"];

/// Number of hex digits of each hash: enough against accidental collisions.
const DIGITS: usize = 12;

/// Text before the hashes.
const LABEL: &str = "sources: ";

/// Hashes of a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sources {
    /// Hash of each part, and one of all.
    hashes: Vec<String>,
}

impl Sources {
    /// Reads a tree.
    pub(crate) fn of(root: &Path) -> io::Result<Self> {
        let mut all = Context::new(&SHA256);
        let mut hashes = Vec::new();
        for part in PARTS {
            let mut context = Context::new(&SHA256);
            for (name, text) in contents(root, part)? {
                add(&mut context, name.as_bytes());
                add(&mut context, &text);
            }
            let digest = context.finish();
            all.update(digest.as_ref());
            hashes.push(hex(digest.as_ref()));
        }
        hashes.insert(0, hex(all.finish().as_ref()));
        Ok(Self { hashes })
    }

    /// Reads the hashes from a line of a text.
    pub(crate) fn read(text: &str) -> Option<Self> {
        let (_, rest) = text.split_once(LABEL)?;
        let line = rest.lines().next()?;
        let (all, rest) = line.split_once(" (")?;
        let (parts, _) = rest.split_once(')')?;
        let mut hashes = vec![all.to_owned()];
        for (part, name) in parts.split(", ").zip(PARTS) {
            hashes.push(part.strip_prefix(name)?.trim().to_owned());
        }
        (hashes.len() == PARTS.len() + 1).then_some(Self { hashes })
    }

    /// Returns the parts of the tree that differ.
    pub(crate) fn changed(&self, other: &Self) -> Vec<&'static str> {
        let both = self.hashes.iter().zip(&other.hashes).skip(1);
        let differ = both.zip(PARTS).filter(|((one, other), _)| one != other);
        differ.map(|(_, name)| name).collect()
    }
}

impl fmt::Display for Sources {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts: Vec<String> = PARTS
            .iter()
            .zip(&self.hashes[1..])
            .map(|(name, hash)| format!("{name} {hash}"))
            .collect();
        write!(
            formatter,
            "{LABEL}{} ({})",
            self.hashes[0],
            parts.join(", ")
        )
    }
}

/// Adds bytes prefixed with their length, so that boundaries count as well.
fn add(context: &mut Context, bytes: &[u8]) {
    context.update(&(bytes.len() as u64).to_le_bytes());
    context.update(bytes);
}

fn hex(bytes: &[u8]) -> String {
    let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    digits[..DIGITS].to_owned()
}

/// Returns the files of a part with their names in the tree, in order.
fn contents(root: &Path, part: &str) -> io::Result<Vec<(String, Vec<u8>)>> {
    let is_rust = |name: &str| name.ends_with(".rs");
    let mut names = Vec::new();
    match part {
        "Cargo" => {
            let manifest = fs::read_to_string(root.join("Cargo.toml"))?;
            let lock = fs::read(root.join("Cargo.lock"))?;
            let profile = release(&manifest).into_bytes();
            return Ok(vec![
                ("Cargo.lock".into(), lock),
                ("release".into(), profile),
            ]);
        }
        "commands" => {
            walk(root, &root.join(part), &mut names)?;
            names.retain(|name| is_rust(name) && name.starts_with("commands/serve"));
        }
        "proto" => walk(root, &root.join(part), &mut names)?,
        _ => {
            walk(root, &root.join(part), &mut names)?;
            // The guard measures for itself.
            names.retain(|name| is_rust(name) && !name.starts_with("benches/guard/"));
        }
    }
    names.retain(|name| !is_test(name));
    names.sort();
    names
        .into_iter()
        .map(|name| fs::read(root.join(&name)).map(|text| (name, text)))
        .collect()
}

fn is_test(name: &str) -> bool {
    name.ends_with("/tests.rs") || name.split('/').any(|folder| folder == "tests")
}

/// Returns the section of the release profile in a manifest.
fn release(manifest: &str) -> String {
    manifest
        .lines()
        .skip_while(|line| line.trim() != "[profile.release]")
        .skip(1)
        .take_while(|line| !line.starts_with('['))
        .filter(|line| !line.trim().is_empty())
        .map(|line| format!("{line}\n"))
        .collect()
}

fn walk(root: &Path, folder: &Path, names: &mut Vec<String>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path: PathBuf = entry?.path();
        if path.is_dir() {
            walk(root, &path, names)?;
        } else if let Ok(below) = path.strip_prefix(root) {
            names.push(below.to_string_lossy().replace('\\', "/"));
        }
    }
    Ok(())
}
