//! Reads the configuration file when its content is another one.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use crate::{
    config::{self, Defaults, FileConfig, FileError},
    task,
};

/// How often a file that cannot be read is tried: it may be just being written.
const TRIES: u32 = 3;
/// The time between two tries.
const PAUSE: Duration = Duration::from_millis(10);

/// The configuration that was read last, and the file that it comes from.
pub(super) struct Reader {
    /// `None` for a configuration that is not read again.
    file: Option<ConfigFile>,
    config: Arc<FileConfig>,
}

struct ConfigFile {
    path: PathBuf,
    defaults: Arc<Defaults>,
    /// The content that the configuration is of.
    content: Option<Arc<[u8]>>,
}

impl Reader {
    pub(super) fn new(config: FileConfig, file: Option<(PathBuf, Defaults)>) -> Self {
        Self {
            file: file.map(|(path, defaults)| ConfigFile {
                path,
                defaults: Arc::new(defaults),
                content: None,
            }),
            config: Arc::new(config),
        }
    }

    /// Reads the file, if there is one; returns whether it is another one than before.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be read, or not as a configuration; what was read before is still
    /// there, see [`Reader::last`].
    pub(super) async fn look(&mut self) -> Result<bool, FileError> {
        let Some(file) = &mut self.file else {
            return Ok(false);
        };
        let mut tries = 0;
        loop {
            tries += 1;
            let (path, defaults) = (file.path.clone(), Arc::clone(&file.defaults));
            let before = file.content.clone();
            let read = move || read(&path, &defaults, before.as_deref());
            match task::blocking("read configuration", read).await {
                Ok(None) => return Ok(false),
                Ok(Some((content, config))) => {
                    file.content = Some(content);
                    self.config = Arc::new(config);
                    return Ok(true);
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
    let content = config::read_regular(path)?;
    if before == Some(content.as_slice()) {
        return Ok(None);
    }
    let config = config::parse(&content, path, defaults)?;
    Ok(Some((content.into(), config)))
}
