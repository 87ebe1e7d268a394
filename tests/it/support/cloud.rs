//! Private cloud storage for a test, and servers with behaviour that emulators lack.

use std::{
    io::{BufRead, BufReader, Write},
    net::{TcpListener, TcpStream},
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
    time::Duration,
};

use ovms::model::storage::{RemoteVersion, Storage, StorageError, StorageLimits, StorageOptions};
use tempfile::TempDir;

use super::thread;

/// A folder for downloads and an environment.
pub(crate) struct Lab {
    /// Deleted with the lab.
    _cache: TempDir,
    pub(crate) options: StorageOptions,
}

impl Lab {
    /// Creates a lab whose environment has only these variables.
    pub(crate) fn new(variables: &[(&str, &str)]) -> Self {
        let cache = tempfile::tempdir().unwrap();
        let options = StorageOptions {
            cache: cache.path().join("models"),
            environment: variables.iter().copied().collect(),
            limits: StorageLimits {
                silence: Duration::from_secs(2),
                listing: Duration::from_secs(5),
                identity: Duration::from_secs(1),
                ..StorageLimits::default()
            },
        };
        Self {
            _cache: cache,
            options,
        }
    }

    /// Creates a lab for an S3 server of this machine, with keys that moto accepts.
    pub(crate) fn s3(port: u16) -> Self {
        Self::new(&[
            ("S3_ENDPOINT", &format!("http://127.0.0.1:{port}")),
            ("AWS_ACCESS_KEY_ID", "id"),
            ("AWS_SECRET_ACCESS_KEY", "secret"),
        ])
    }

    pub(crate) async fn open(&self, base_path: &str) -> Storage {
        Storage::open(base_path, &self.options).await.unwrap()
    }

    /// Lists the versions of a base path.
    pub(crate) async fn list(&self, base_path: &str) -> Result<Vec<RemoteVersion>, StorageError> {
        let storage = Storage::open(base_path, &self.options).await?;
        Ok(storage.survey().await?.versions)
    }

    /// Returns the names of the folders below those of the sources.
    pub(crate) fn copies(&self) -> Vec<String> {
        let names = |path: &Path| -> Vec<_> {
            std::fs::read_dir(path)
                .map(|entries| entries.flatten().collect())
                .unwrap_or_default()
        };
        names(&self.options.cache)
            .iter()
            .flat_map(|source| names(&source.path()))
            .map(|copy| copy.file_name().into_string().unwrap())
            .collect()
    }
}

/// Formats an error with its causes and its hint, as for users.
pub(crate) fn reported(error: &StorageError) -> String {
    let mut text = ovms::error::chain(error);
    if let Some(hint) = error.hint() {
        text.extend(["\nhint: ", &hint]);
    }
    text
}

/// A server that answers each request by a function of its head.
pub(crate) struct Script {
    pub(crate) port: u16,
    heads: Arc<Mutex<Vec<String>>>,
    ends: Arc<AtomicBool>,
    listener: Option<JoinHandle<()>>,
}

impl Script {
    /// Starts to listen; the response is sent verbatim before the connection is closed.
    pub(crate) fn new(answer: impl Fn(&str) -> Vec<u8> + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let heads = Arc::new(Mutex::new(Vec::new()));
        let ends = Arc::new(AtomicBool::new(false));
        let listener = thread({
            let (heads, ends) = (Arc::clone(&heads), Arc::clone(&ends));
            move || {
                for client in listener.incoming().map_while(Result::ok) {
                    if ends.load(Ordering::Relaxed) {
                        break;
                    }
                    let head = head(&client);
                    heads.lock().unwrap().push(head.clone());
                    // A client that has left is its own affair.
                    let _ = (&client).write_all(&answer(&head));
                }
            }
        });
        Self {
            port,
            heads,
            ends,
            listener: Some(listener),
        }
    }

    /// Returns the first lines of the requests so far.
    pub(crate) fn requests(&self) -> Vec<String> {
        let heads = self.heads.lock().unwrap();
        let lines = heads.iter().filter_map(|head| head.lines().next());
        lines.map(str::to_owned).collect()
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        // Wakes the listener.
        let _ = TcpStream::connect(("127.0.0.1", self.port));
        if let Some(listener) = self.listener.take() {
            let _ = listener.join();
        }
    }
}

/// Reads the head of a request.
fn head(client: &TcpStream) -> String {
    let lines = BufReader::new(client).lines().map_while(Result::ok);
    lines
        .take_while(|line| !line.is_empty())
        .map(|line| line + "\n")
        .collect()
}

/// Creates an HTTP response.
pub(crate) fn answer(status: &str, headers: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\nConnection: close\r\n{headers}Content-Length: {length}\r\n\r\n{body}"
    )
    .into_bytes()
}

/// Creates the response to an S3 listing: names, sizes and entity tags.
pub(crate) fn listing(objects: &[(&str, usize, &str)]) -> Vec<u8> {
    let contents: String = objects
        .iter()
        .map(|(name, size, tag)| {
            format!(
                "<Contents><Key>{name}</Key><Size>{size}</Size><ETag>{tag}</ETag>\
                 <LastModified>2026-01-01T00:00:00.000Z</LastModified></Contents>"
            )
        })
        .collect();
    let body = format!("<ListBucketResult>{contents}</ListBucketResult>");
    answer("200 OK", "Content-Type: application/xml\r\n", &body)
}

/// Creates the response to an S3 download that ends prematurely.
pub(crate) fn object(body: &str, size: usize, tag: &str) -> Vec<u8> {
    format!(
        "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {size}\r\nETag: {tag}\r\n\
         Last-Modified: Thu, 01 Jan 2026 00:00:00 GMT\r\n\r\n{body}"
    )
    .into_bytes()
}
