//! Files that are written whole: one that cannot be written leaves what was there before.
//!
//! The contents go to a file beside, which then takes the place of the other one. Where nothing can take its place,
//! as with a device, a mount point, or in a folder that is closed, they are copied into it when they are all there.

use std::{
    fs::{self, File, OpenOptions, Permissions},
    io::{self, BufWriter, ErrorKind, Seek, Write},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use tempfile::{NamedTempFile, PersistError};

/// Permissions of new files, before the user's umask.
const MODE: u32 = 0o666;

/// A file with all of its contents, before it is in its place.
#[derive(Debug)]
pub struct WholeFile {
    contents: Contents,
    place: PathBuf,
    replaces: bool,
}

#[derive(Debug)]
enum Contents {
    /// File beside the one that it becomes.
    Beside(NamedTempFile),
    /// File without a name, and the open one that takes the contents.
    Apart(File, File),
}

/// Writes a new file, or replaces one.
///
/// # Errors
///
/// Fails if it cannot be written.
pub fn replace(
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    WholeFile::stage(path, true, write)?.put()
}

/// Checks that a file can be made in its place, or replaced, and leaves everything as it is.
///
/// # Errors
///
/// Fails if it cannot be written.
pub fn check(path: &Path) -> io::Result<()> {
    match fs::metadata(path) {
        // A pipe that is opened and closed has ended for its reader.
        Ok(there) if !there.is_file() && !there.is_dir() => Ok(()),
        _ => WholeFile::stage(path, true, |_| Ok(())).map(drop),
    }
}

impl WholeFile {
    /// Writes the contents, which [`Self::put`] brings to their place. A file that is there already is replaced
    /// only if it may be.
    ///
    /// # Errors
    ///
    /// Fails if they cannot be written.
    pub fn stage(
        path: &Path,
        replaces: bool,
        write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> io::Result<Self> {
        Self::stage_in(beside, path, replaces, write)
    }

    fn stage_in(
        beside: impl FnOnce(&Path) -> io::Result<NamedTempFile>,
        path: &Path,
        replaces: bool,
        write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> io::Result<Self> {
        // Where a link leads is what is replaced.
        let place = match path.canonicalize() {
            Ok(place) if replaces => place,
            _ => path.to_owned(),
        };
        let old = fs::metadata(&place).ok().filter(|_| replaces);
        let contents = match &old {
            Some(old) if !old.is_file() => Contents::apart(&place)?,
            _ => match beside(&place) {
                Ok(file) => Contents::Beside(file),
                Err(error) if old.is_some() && is_of_place(&error) => {
                    Contents::apart(&place).map_err(|_| error)?
                }
                Err(error) => return Err(error),
            },
        };
        let file = match &contents {
            Contents::Beside(file) => file.as_file(),
            Contents::Apart(file, _) => file,
        };
        if let (Contents::Beside(file), Some(old)) = (&contents, old) {
            // Before there is anything in it that others may not read.
            file.as_file().set_permissions(old.permissions())?;
        }
        let mut buffer = BufWriter::new(file);
        write(&mut buffer)?;
        buffer.flush()?;
        drop(buffer);
        if let Contents::Beside(file) = &contents {
            file.as_file().sync_all()?;
        }
        Ok(Self {
            contents,
            place,
            replaces,
        })
    }

    /// Brings the contents to their place.
    ///
    /// # Errors
    ///
    /// Fails if that cannot be, or if there is a file that is not to be replaced.
    pub fn put(self) -> io::Result<()> {
        let replaces = self.replaces;
        self.put_by(|file, place| match replaces {
            true => file.persist(place),
            false => file.persist_noclobber(place),
        })
    }

    fn put_by(
        self,
        rename: impl FnOnce(NamedTempFile, &Path) -> Result<File, PersistError>,
    ) -> io::Result<()> {
        let (mut contents, mut target) = match self.contents {
            Contents::Apart(contents, target) => (contents, target),
            Contents::Beside(file) => match rename(file, &self.place) {
                Ok(_) => return Ok(()),
                Err(PersistError { error, file }) if self.replaces && is_of_place(&error) => {
                    let target = open(&self.place).map_err(|_| error)?;
                    (file.into_file(), target)
                }
                Err(refused) => return Err(refused.error),
            },
        };
        contents.rewind()?;
        let is_file = target.metadata()?.is_file();
        if is_file {
            target.set_len(0)?;
        }
        io::copy(&mut contents, &mut target)?;
        match is_file {
            true => target.sync_all(),
            false => Ok(()),
        }
    }
}

impl Contents {
    fn apart(place: &Path) -> io::Result<Self> {
        let target = open(place)?;
        Ok(Self::Apart(tempfile::tempfile()?, target))
    }
}

/// Opens what is there for writing, as it is.
fn open(place: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).open(place)
}

/// Makes a file in the folder of another one.
fn beside(place: &Path) -> io::Result<NamedTempFile> {
    let folder = place.parent().filter(|it| *it != Path::new(""));
    let folder = folder.unwrap_or(Path::new("."));
    // An error of its own, without the name of a file that nobody has heard of.
    folder.metadata()?;
    let file = tempfile::Builder::new()
        .permissions(Permissions::from_mode(MODE))
        .tempfile_in(folder);
    file.map_err(|error| io::Error::from(error.kind()))
}

/// Returns whether a file cannot be replaced because of where it is: it is a mount point, or its folder is closed.
fn is_of_place(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::ResourceBusy | ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem
    )
}

#[cfg(test)]
mod tests {
    use std::{
        fs::{self, Permissions},
        io::{self, Write},
        os::unix::fs::{PermissionsExt, symlink},
        path::Path,
    };

    use tempfile::PersistError;

    use super::{WholeFile, beside, check, replace};

    fn new(file: &mut dyn Write) -> io::Result<()> {
        file.write_all(b"new")
    }

    #[test]
    fn what_cannot_be_written_leaves_what_was_there() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.npy");
        replace(&path, |file| file.write_all(b"old")).unwrap();
        let failed = replace(&path, |file| {
            file.write_all(b"half")?;
            Err(io::Error::other("full"))
        });
        assert_eq!(failed.unwrap_err().to_string(), "full");
        assert_eq!(fs::read(&path).unwrap(), b"old");
        fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
        replace(&path, |file| {
            for beside in fs::read_dir(folder.path())? {
                let mode = beside?.metadata()?.permissions().mode();
                assert_eq!(mode & 0o777, 0o640, "nobody else reads what is written");
            }
            new(file)
        })
        .unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o640);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        // A device is written to as it is.
        replace(Path::new("/dev/null"), new).unwrap();
        let missing = folder.path().join("none/a.npy");
        let error = replace(&missing, new).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        assert!(replace(folder.path(), new).is_err());
    }

    #[test]
    fn a_place_is_checked_without_a_trace() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.npy");
        check(&path).unwrap();
        assert!(!path.exists());
        fs::write(&path, "old").unwrap();
        check(&path).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        check(Path::new("/dev/null")).unwrap();
        let refused = |path: &Path| check(path).unwrap_err().kind();
        assert_eq!(refused(folder.path()), io::ErrorKind::IsADirectory);
        assert_eq!(refused(&path.join("b")), io::ErrorKind::NotADirectory);
        let missing = folder.path().join("none/a.npy");
        assert_eq!(refused(&missing), io::ErrorKind::NotFound);
    }

    #[test]
    fn a_file_that_is_not_to_be_replaced_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.json");
        WholeFile::stage(&path, false, new).unwrap().put().unwrap();
        let staged = WholeFile::stage(&path, false, |file| file.write_all(b"newer"));
        let error = staged.unwrap().put().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read(&path).unwrap(), b"new");
    }

    #[test]
    fn where_a_link_leads_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let (path, link) = (folder.path().join("a"), folder.path().join("link"));
        fs::write(&path, "old").unwrap();
        symlink(&path, &link).unwrap();
        replace(&link, new).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    }

    #[test]
    fn a_mount_point_is_written_in_place() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config.json");
        fs::write(&path, "a longer text than the new one").unwrap();
        let busy = |file, _: &Path| {
            let error = io::ErrorKind::ResourceBusy.into();
            Err(PersistError { error, file })
        };
        let staged = WholeFile::stage(&path, true, new).unwrap();
        staged.put_by(busy).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        // One that may not be replaced is not written either.
        let staged = WholeFile::stage(&folder.path().join("other"), false, new);
        let error = staged.unwrap().put_by(busy).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ResourceBusy);
        // Another error is no reason to write it in place.
        let staged = WholeFile::stage(&path, true, |file| file.write_all(b"newer")).unwrap();
        let full = |file, _: &Path| {
            let error = io::ErrorKind::StorageFull.into();
            Err(PersistError { error, file })
        };
        assert!(staged.put_by(full).is_err());
        assert_eq!(fs::read(&path).unwrap(), b"new");
    }

    #[test]
    fn a_file_of_a_closed_folder_is_written_in_place() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config.json");
        fs::write(&path, "a longer text than the new one").unwrap();
        // The superuser may write to any folder, so that none is closed to it.
        let closed = |_: &Path| Err(io::ErrorKind::PermissionDenied.into());
        let staged = WholeFile::stage_in(closed, &path, true, |file| {
            file.write_all(b"half")?;
            Err(io::Error::other("full"))
        });
        assert_eq!(staged.unwrap_err().to_string(), "full");
        assert_eq!(fs::read(&path).unwrap(), b"a longer text than the new one");
        let staged = WholeFile::stage_in(closed, &path, true, new).unwrap();
        staged.put().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        // A new file has no place there.
        let missing = folder.path().join("other");
        let error = WholeFile::stage_in(closed, &missing, true, new).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
        assert!(beside(&path).is_ok());
    }
}
