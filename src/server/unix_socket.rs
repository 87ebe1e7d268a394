//! Unix sockets: opened with their mode, in the place of what a dead server left, and removed at the end.

use std::{
    fs::{self, File, Metadata, Permissions},
    io::{self, ErrorKind},
    os::unix::{
        fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _},
        net::UnixListener,
    },
    path::{Path, PathBuf},
    thread::sleep,
    time::Duration,
};

use rustix::fs::{FlockOperation, flock};
use socket2::{Domain, SockAddr, Socket, Type};

use super::listen::BACKLOG;

/// The longest path of a socket in bytes: `sun_path` of unix(7) with the NUL at its end.
const MAX_PATH: usize = 107;

/// Errors of a folder that is not there.
const MISSING: [ErrorKind; 2] = [ErrorKind::NotFound, ErrorKind::NotADirectory];

/// Number of attempts to lock a folder that another server has locked, and the time between two of them.
const LOCK_TRIES: u32 = 100;
const LOCK_AGAIN: Duration = Duration::from_millis(10);

/// Error of opening a Unix socket.
#[derive(Debug, thiserror::Error)]
pub enum UnixSocketError {
    /// The path does not fit into a socket's address.
    #[error("the path has {0} bytes; expected {MAX_PATH} at most")]
    TooLong(usize),
    /// Another kind of file at the path.
    #[error("the path is taken by {0}, which is not a socket")]
    NotASocket(&'static str),
    /// A process listens on the socket.
    #[error("another process listens on it")]
    InUse,
    /// The folder of the socket is missing, or is none.
    #[error("there is no folder {}", .0.display())]
    NoFolder(PathBuf),
    /// The system refuses what has to be done.
    #[error("cannot {doing}")]
    System {
        /// The failed step.
        doing: &'static str,
        /// The system's reason.
        source: io::Error,
    },
}

/// An open Unix socket, whose file is removed when it is dropped.
#[derive(Debug)]
pub struct UnixSocket {
    // Dropped before the listener, so that no client finds a file that nobody listens on.
    pub(super) file: SocketFile,
    pub(super) listener: UnixListener,
}

/// The file of an open socket; removed when this is dropped, unless another one has taken its place.
#[derive(Debug)]
pub(super) struct SocketFile {
    path: PathBuf,
    /// Device and inode.
    id: (u64, u64),
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let found = fs::symlink_metadata(&self.path);
        if found.is_ok_and(|found| id(&found) == self.id)
            && let Err(error) = fs::remove_file(&self.path)
        {
            let path = self.path.display();
            tracing::warn!("cannot remove the socket {path}: {error}");
        }
    }
}

fn id(file: &Metadata) -> (u64, u64) {
    (file.dev(), file.ino())
}

impl UnixSocket {
    /// Checks whether a socket could be opened at a path, without doing it.
    ///
    /// # Errors
    ///
    /// Fails as [`Self::open`] does, as far as that shows from outside.
    pub(super) fn check(path: &Path) -> Result<Place, UnixSocketError> {
        folder(path)?;
        find(path)
    }

    /// Opens the socket at a path, for those whom the bits of `mode` allow to write to it.
    ///
    /// # Errors
    ///
    /// Fails if the path is too long, its folder is missing, a process listens there already, or the
    /// path has anything but a socket.
    pub(super) fn open(path: &Path, mode: u32) -> Result<Self, UnixSocketError> {
        let folder = folder(path)?;
        // Of two servers that find the file of a dead one, the later one must not remove the earlier one's.
        let _lock = lock(folder);
        if find(path)? == Place::Dead {
            tracing::info!(
                "replacing the socket {}, which nobody listens on",
                path.display()
            );
            match fs::remove_file(path) {
                Err(error) if error.kind() != ErrorKind::NotFound => {
                    return Err(failed("remove the socket of a dead server")(error));
                }
                _ => {}
            }
        }
        let address = SockAddr::unix(path).map_err(failed("use the path"))?;
        let socket = Socket::new(Domain::UNIX, Type::STREAM, None);
        let socket = socket.map_err(failed("create a socket"))?;
        socket.set_nonblocking(true).map_err(failed("set it up"))?;
        socket
            .bind(&address)
            .map_err(|source| match source.kind() {
                ErrorKind::AddrInUse => UnixSocketError::InUse,
                _ => failed("create the file")(source),
            })?;
        let found = fs::symlink_metadata(path).map_err(failed("find the file again"))?;
        let file = SocketFile {
            path: path.to_owned(),
            id: id(&found),
        };
        // Nobody can connect before `listen`, so that the mode holds from the start.
        fs::set_permissions(path, Permissions::from_mode(mode)).map_err(failed("set its mode"))?;
        socket.listen(BACKLOG).map_err(failed("listen on it"))?;
        let listener = socket.into();
        Ok(Self { file, listener })
    }
}

/// Returns the folder of a path that a socket can have.
fn folder(path: &Path) -> Result<&Path, UnixSocketError> {
    let length = path.as_os_str().len();
    if length > MAX_PATH {
        return Err(UnixSocketError::TooLong(length));
    }
    let folder = match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    match fs::metadata(folder).map(|it| it.is_dir()) {
        Ok(true) => {}
        Err(error) if !MISSING.contains(&error.kind()) => {
            return Err(failed("look at its folder")(error));
        }
        _ => return Err(UnixSocketError::NoFolder(folder.to_owned())),
    }
    Ok(folder)
}

/// Makes the error of a step.
fn failed(doing: &'static str) -> impl Fn(io::Error) -> UnixSocketError {
    move |source| UnixSocketError::System { doing, source }
}

/// Locks a folder against other servers that open sockets in it, as far as it can be had: the lock is only
/// for the moment of a start.
fn lock(folder: &Path) -> Option<File> {
    let file = File::open(folder).ok()?;
    for _ in 0..LOCK_TRIES {
        if flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok() {
            return Some(file);
        }
        sleep(LOCK_AGAIN);
    }
    None
}

/// State of a path that a socket can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// A path without a file.
    Free,
    /// The socket of a server that is no more.
    Dead,
}

/// Finds what is at a path.
fn find(path: &Path) -> Result<Place, UnixSocketError> {
    let found = match fs::symlink_metadata(path) {
        Ok(found) => found.file_type(),
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Place::Free),
        Err(error) => return Err(failed("look at the path")(error)),
    };
    if !found.is_socket() {
        return Err(UnixSocketError::NotASocket(match () {
            () if found.is_dir() => "a folder",
            () if found.is_symlink() => "a symbolic link",
            () if found.is_file() => "a file",
            () => "a device or pipe",
        }));
    }
    match connect(path).map_err(|error| (error.kind(), error)) {
        Err((ErrorKind::ConnectionRefused, _)) => Ok(Place::Dead),
        Err((ErrorKind::NotFound, _)) => Ok(Place::Free),
        // A queue that is full is one of a living server.
        Ok(()) | Err((ErrorKind::WouldBlock, _)) => Err(UnixSocketError::InUse),
        Err((_, error)) => Err(failed("find out whether anybody listens there")(error)),
    }
}

/// Connects without waiting, and closes again.
fn connect(path: &Path) -> io::Result<()> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.set_nonblocking(true)?;
    socket.connect(&SockAddr::unix(path)?)
}

#[cfg(test)]
mod tests {
    use std::{
        fs,
        os::unix::{
            fs::{PermissionsExt as _, symlink},
            net::{UnixDatagram, UnixListener, UnixStream},
        },
        path::Path,
    };

    use super::{UnixSocket, UnixSocketError};

    const MODE: u32 = 0o640;

    fn refused(path: &Path) -> String {
        crate::error::chain(&UnixSocket::open(path, MODE).unwrap_err())
    }

    #[test]
    fn a_socket_has_its_mode_and_its_file_goes_with_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        let socket = UnixSocket::open(&path, MODE).unwrap();
        assert_eq!(
            fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            MODE
        );
        UnixStream::connect(&path).unwrap();
        drop(socket);
        assert!(!path.exists());
    }

    #[test]
    fn the_file_of_a_dead_server_is_replaced_and_that_of_a_living_one_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        drop(UnixListener::bind(&path).unwrap());
        assert!(path.exists(), "it is left behind");
        let living = UnixSocket::open(&path, MODE).unwrap();
        let refused = UnixSocket::open(&path, MODE).unwrap_err();
        assert!(matches!(refused, UnixSocketError::InUse), "{refused}");
        UnixStream::connect(&path).unwrap();
        // A later one at the same path is not the former one's to remove.
        fs::remove_file(&path).unwrap();
        let later = UnixSocket::open(&path, MODE).unwrap();
        drop(living);
        assert!(path.exists());
        drop(later);
        assert!(!path.exists());
    }

    #[test]
    fn a_full_queue_is_one_of_a_living_server() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        let socket = socket2::Socket::new(socket2::Domain::UNIX, socket2::Type::STREAM, None);
        let socket = socket.unwrap();
        socket
            .bind(&socket2::SockAddr::unix(&path).unwrap())
            .unwrap();
        socket.listen(0).unwrap();
        let _one = UnixStream::connect(&path).unwrap();
        assert_eq!(refused(&path), "another process listens on it");
    }

    #[test]
    fn what_is_no_socket_of_a_server_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::write(path("file"), "x").unwrap();
        fs::create_dir(path("folder")).unwrap();
        symlink("file", path("link")).unwrap();
        let taken = |name: &str| format!("the path is taken by a {name}, which is not a socket");
        assert_eq!(refused(&path("file")), taken("file"));
        assert_eq!(refused(&path("folder")), taken("folder"));
        assert_eq!(refused(&path("link")), taken("symbolic link"));
        assert_eq!(fs::read(path("file")).unwrap(), b"x");
        let _other = UnixDatagram::bind(path("datagrams")).unwrap();
        let text = refused(&path("datagrams"));
        assert!(
            text.starts_with("cannot find out whether anybody listens"),
            "{text}"
        );
        assert!(path("datagrams").exists());
    }

    #[test]
    fn a_path_that_cannot_have_a_socket_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let long = folder.path().join("x".repeat(120));
        let length = long.as_os_str().len();
        let expected = format!("the path has {length} bytes; expected 107 at most");
        assert_eq!(refused(&long), expected);
        let missing = folder.path().join("none");
        let expected = format!("there is no folder {}", missing.display());
        assert_eq!(refused(&missing.join("s")), expected);
    }
}
