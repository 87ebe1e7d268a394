//! Configuration file that a folder is served by.

use std::path::{Path, PathBuf};

use jsonc_parser::ast::Value;

use super::{read_regular, syntax::Source};

/// Name of the configuration file in its folder.
const CONFIG: &str = "config.json";

/// Keys that a configuration file has, and other files of that name, such as those of models, do not.
const LISTS: [&str; 3] = [
    "model_config_list",
    "mediapipe_config_list",
    "pipeline_config_list",
];

/// Returns the configuration file of a folder: its `config.json`, if that has a list of models, graphs, or
/// pipelines. Blocks.
pub fn config_of_folder(folder: &Path) -> Option<PathBuf> {
    let path = folder.join(CONFIG);
    let content = read_regular(&path).ok()?;
    has_list(&content).then_some(path)
}

/// Returns whether a file has a list. One that is no JSON may be meant to have it: its errors are to be seen.
fn has_list(content: &[u8]) -> bool {
    let text = String::from_utf8_lossy(content);
    let is_named = || {
        LISTS
            .iter()
            .any(|list| text.contains(&format!("\"{list}\"")))
    };
    let Ok(source) = Source::new(content) else {
        return is_named();
    };
    match source.parse() {
        Ok(Value::Object(root)) => {
            let mut keys = root
                .properties
                .iter()
                .map(|property| property.name.as_str());
            keys.any(|key| LISTS.contains(&key))
        }
        Ok(_) => false,
        Err(_) => is_named(),
    }
}

#[cfg(test)]
mod tests {
    use super::{config_of_folder, has_list};

    #[test]
    fn a_configuration_file_is_known_by_its_lists() {
        for text in [
            "{\"model_config_list\": []}",
            "{\"mediapipe_config_list\": []} # a comment",
            "{\"monitoring\": {}, \"pipeline_config_list\": []}",
            // Broken, and no less one.
            "{\"model_config_list\": [",
        ] {
            assert!(has_list(text.as_bytes()), "{text}");
        }
        for text in [
            "",
            "{}",
            "[]",
            "{\"architectures\": [\"ResNet\"], \"id2label\": {\"0\": \"cat\"}}",
            "{\"config\": {\"model_config_list\": []}}",
            "{\"architectures\": [",
            "\u{FFFD}",
        ] {
            assert!(!has_list(text.as_bytes()), "{text}");
        }
    }

    #[test]
    fn only_a_file_in_the_folder_counts() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(config_of_folder(folder.path()), None);
        let path = folder.path().join("config.json");
        std::fs::create_dir(&path).unwrap();
        assert_eq!(config_of_folder(folder.path()), None);
        std::fs::remove_dir(&path).unwrap();
        std::fs::write(&path, "{\"model_config_list\": []}").unwrap();
        assert_eq!(config_of_folder(folder.path()), Some(path));
    }
}
