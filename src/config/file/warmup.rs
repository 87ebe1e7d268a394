//! `warmup`: requests that a version answers before it turns AVAILABLE.

use std::path::{Path, PathBuf};

use jsonc_parser::ast::Value;

use super::{Node, sections::resolve};
use crate::config::model::{Warmup, WarmupData};

/// Maximum number of runs of one request.
const MAX_RUNS: i64 = 1_000_000;

/// Reads one request, or a list of them.
pub(super) fn read(node: &Node<'_>, folder: &Path) -> Vec<Warmup> {
    match node.value() {
        Value::Array(_) => node.list("warm-up requests").map_or_else(Vec::new, |list| {
            list.iter().filter_map(|node| one(node, folder)).collect()
        }),
        _ => one(node, folder).into_iter().collect(),
    }
}

fn one(node: &Node<'_>, folder: &Path) -> Option<Warmup> {
    let fields = node.fields(&["count", "data", "dynamic_length"], &[])?;
    let number = |key, most| match fields.get(key) {
        Some(node) => node.whole(1, most),
        None => Some(1),
    };
    let count = number("count", MAX_RUNS);
    let dynamic_length = number("dynamic_length", i64::from(i32::MAX));
    let data = match fields.get("data") {
        Some(node) => data(node, folder),
        None => Some(WarmupData::Zeros),
    };
    Some(Warmup {
        count: u32::try_from(count?).ok()?,
        dynamic_length: usize::try_from(dynamic_length?).ok()?,
        data: data?,
    })
}

fn data(node: &Node<'_>, folder: &Path) -> Option<WarmupData> {
    let expected = "\"zeros\", \"random\", or an object of .npy files by input name";
    match node.value() {
        Value::StringLit(text) if text.value == "zeros" => Some(WarmupData::Zeros),
        Value::StringLit(text) if text.value == "random" => Some(WarmupData::Random),
        Value::Object(_) => {
            let pairs = node.pairs("files")?;
            let files: Vec<Option<(String, PathBuf)>> = pairs
                .into_iter()
                .map(|(name, node)| Some((name, resolve(folder, node.name()?).into())))
                .collect();
            files
                .into_iter()
                .collect::<Option<_>>()
                .map(WarmupData::Files)
        }
        _ => {
            node.expected(expected);
            None
        }
    }
}
