//! Reads the configuration file when its content is another one.

use std::{
    fs::File,
    io::{self, Read},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use crate::{
    config::{self, ConfigSource, Defaults, FileConfig, FileError, ModelEntry},
    task,
};

/// How often a file that cannot be read is tried: it may be just being written.
const TRIES: u32 = 3;

/// The time between two tries.
const PAUSE: Duration = Duration::from_millis(10);

/// The most bytes of a configuration file.
const LARGEST: u64 = 1 << 26;

/// Where the configuration comes from, and what was read last.
pub(super) struct Reader {
    source: Kind,
    config: Arc<FileConfig>,
}

enum Kind {
    /// There is nothing to read.
    Flags,
    File {
        path: PathBuf,
        defaults: Arc<Defaults>,
        /// The content that `config` is of.
        content: Option<Arc<[u8]>>,
    },
}

/// Result of a look at the file.
pub(super) struct Looked {
    pub(super) config: Arc<FileConfig>,
    /// Whether it is another one than before.
    pub(super) new: bool,
}

impl Reader {
    /// Has a configuration that is not read again.
    pub(super) fn given(config: FileConfig) -> Self {
        Self {
            source: Kind::Flags,
            config: Arc::new(config),
        }
    }

    pub(super) fn new(source: ConfigSource) -> Self {
        match source {
            ConfigSource::Model(model) => Self {
                source: Kind::Flags,
                config: Arc::new(FileConfig {
                    models: vec![ModelEntry::Model(model)],
                    ..FileConfig::default()
                }),
            },
            ConfigSource::Graph { graph, .. } => Self::given(FileConfig {
                graphs: vec![*graph],
                ..FileConfig::default()
            }),
            ConfigSource::File { path, defaults } => Self {
                source: Kind::File {
                    path,
                    defaults: Arc::new(defaults),
                    content: None,
                },
                config: Arc::default(),
            },
        }
    }

    /// Returns the configuration; reads the file first if there is one.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be read, or not as a configuration; what was read before is still
    /// there, see [`Reader::last`].
    pub(super) async fn look(&mut self) -> Result<Looked, FileError> {
        let Kind::File {
            path,
            defaults,
            content,
        } = &mut self.source
        else {
            return Ok(Looked {
                config: Arc::clone(&self.config),
                new: false,
            });
        };
        let mut tries = 0;
        loop {
            tries += 1;
            let (from, defaults, before) = (path.clone(), Arc::clone(defaults), content.clone());
            let read = move || read(&from, &defaults, before.as_deref());
            match task::blocking("read configuration", read).await {
                Ok(None) => {
                    return Ok(Looked {
                        config: Arc::clone(&self.config),
                        new: false,
                    });
                }
                Ok(Some((bytes, config))) => {
                    *content = Some(bytes);
                    self.config = Arc::new(config);
                    return Ok(Looked {
                        config: Arc::clone(&self.config),
                        new: true,
                    });
                }
                Err(error) if tries == TRIES => return Err(error),
                Err(_) => tokio::time::sleep(PAUSE).await,
            }
        }
    }

    /// Returns what was read last.
    pub(super) fn last(&self) -> Arc<FileConfig> {
        Arc::clone(&self.config)
    }
}

/// A file's content, and what it says.
type Content = (Arc<[u8]>, FileConfig);

/// Reads a file; `None` if its content is as before.
fn read(
    path: &Path,
    defaults: &Defaults,
    before: Option<&[u8]>,
) -> Result<Option<Content>, FileError> {
    let error = |source| FileError::Read {
        path: path.to_owned(),
        source,
    };
    // A pipe would be waited for.
    if !path.metadata().map_err(error)?.is_file() {
        return Err(error(io::Error::other("it is no file")));
    }
    let file = File::open(path).map_err(error)?;
    let mut content = Vec::new();
    file.take(LARGEST + 1)
        .read_to_end(&mut content)
        .map_err(error)?;
    if content.len() as u64 > LARGEST {
        return Err(error(io::Error::other(format!(
            "it has more than {LARGEST} bytes"
        ))));
    }
    if before == Some(content.as_slice()) {
        return Ok(None);
    }
    let config = config::parse(&content, path, defaults)?;
    Ok(Some((content.into(), config)))
}
