//! The example that is built into the program: a small classifier of drawn shapes.
//!
//! `ovms serve --demo` unpacks it to a folder of its own and serves it like any other model, so
//! that a first request needs no files and no network.

use std::{fs, io};

use tempfile::TempDir;

/// The name that the example is served under.
pub const NAME: &str = "classifier";

/// The example's labels, one a line, in the order of its scores.
pub const LABELS: &str = include_str!("../../fixtures/models/classifier/labels.txt");

/// Image of a star for the example to recognise: PNG.
pub const IMAGE: &[u8] = include_bytes!("../../fixtures/images/star.png");

const GRAPH: &[u8] = include_bytes!("../../fixtures/models/classifier/1/model.xml");
const WEIGHTS: &[u8] = include_bytes!("../../fixtures/models/classifier/1/model.bin");

/// Unpacks the example into a new temporary folder as a model repository: `1/model.xml`,
/// `1/model.bin`, and beside it `labels.txt` and `star.png`. The folder goes when the handle does.
///
/// # Errors
///
/// Fails if the folder or a file cannot be written.
pub fn unpack() -> io::Result<TempDir> {
    let folder = tempfile::Builder::new().prefix("ovms-demo-").tempdir()?;
    let base = folder.path();
    fs::create_dir(base.join("1"))?;
    fs::write(base.join("1/model.xml"), GRAPH)?;
    fs::write(base.join("1/model.bin"), WEIGHTS)?;
    fs::write(base.join("labels.txt"), LABELS)?;
    fs::write(base.join("star.png"), IMAGE)?;
    Ok(folder)
}
