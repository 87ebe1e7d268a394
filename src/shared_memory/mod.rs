//! System shared memory: regions that clients of this machine create and register, and that requests name in
//! place of tensors.
//!
//! A region is part of a POSIX shared memory object (shm_overview(7)), of which Linux makes a file in `/dev/shm`.
//! It is never mapped: its owner may truncate it at any moment, and a mapping without pages behind it kills the
//! process that touches it (SIGBUS). Contents are copied with `pread` and `pwrite`, which return errors.

#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzz;
mod key;
mod region;

use std::{
    collections::{BTreeMap, btree_map::Entry},
    sync::Arc,
};

use parking_lot::RwLock;

pub use key::{KeyPrefix, KeyPrefixError};
pub use region::{Region, RegionInput, RegionPart, RegionTensors};

use crate::error::{Error, ErrorKind, Result};

/// Maximum length of the name of a region, in bytes.
const MAX_NAME: usize = 255;

/// The registered regions by their names.
#[derive(Debug)]
pub struct SharedMemory {
    prefix: KeyPrefix,
    max_regions: usize,
    regions: RwLock<BTreeMap<String, Arc<Region>>>,
}

impl SharedMemory {
    /// Makes a registry without regions, for keys with this prefix and so many regions at most.
    pub fn new(prefix: KeyPrefix, max_regions: usize) -> Self {
        Self {
            prefix,
            max_regions,
            regions: RwLock::default(),
        }
    }

    /// Opens the object with this key and registers `byte_size` bytes of it, from `offset` on.
    ///
    /// # Errors
    ///
    /// Fails if the name is registered already, the key is not one with the prefix, there is no such object, or
    /// it is smaller; or if there are as many regions as allowed.
    pub fn register(&self, name: &str, key: &str, offset: u64, byte_size: u64) -> Result<()> {
        if name.is_empty() || name.len() > MAX_NAME {
            return Err(Error::invalid(format!(
                "failed to register shared memory region: invalid args - the name needs 1 to {MAX_NAME} \
                 bytes; found {}",
                name.len()
            )));
        }
        // Before the object is opened, and again when it is.
        self.check_room(&self.regions.read(), name)?;
        let region = Region::open(&self.prefix, name, key, offset, byte_size)?;
        let mut regions = self.regions.write();
        self.check_room(&regions, name)?;
        if let Entry::Vacant(vacant) = regions.entry(name.to_owned()) {
            vacant.insert(Arc::new(region));
        }
        Ok(())
    }

    /// Checks that one more region of this name may be registered.
    fn check_room(&self, regions: &BTreeMap<String, Arc<Region>>, name: &str) -> Result<()> {
        if regions.contains_key(name) {
            return Err(Error::new(
                ErrorKind::AlreadyExists,
                format!(
                    "shared memory region '{name}' already in manager - unregister it first, or take \
                     another name"
                ),
            ));
        }
        if regions.len() >= self.max_regions {
            return Err(Error::new(
                ErrorKind::Exhausted,
                format!(
                    "failed to register shared memory region '{name}': there are {} regions, as many as \
                     --max-shared-memory-regions allows; unregister one first",
                    regions.len()
                ),
            ));
        }
        Ok(())
    }

    /// Forgets a region, or all of them if the name is empty; an unknown name is ignored. Requests that use it
    /// go on.
    pub fn unregister(&self, name: &str) {
        let mut regions = self.regions.write();
        match name {
            "" => regions.clear(),
            name => drop(regions.remove(name)),
        }
    }

    /// Returns a region, or all of them by name if the name is empty.
    ///
    /// # Errors
    ///
    /// Fails if there is no region of this name.
    pub fn status(&self, name: &str) -> Result<Vec<Arc<Region>>> {
        let regions = self.regions.read();
        if name.is_empty() {
            return Ok(regions.values().cloned().collect());
        }
        match regions.get(name) {
            Some(region) => Ok(vec![Arc::clone(region)]),
            None => Err(unknown(&format!(
                "Unable to find system shared memory region: '{name}'"
            ))),
        }
    }

    /// Returns `byte_size` bytes of a region, from `offset` within it on. They stay usable when the region is
    /// unregistered.
    ///
    /// # Errors
    ///
    /// Fails if there is no region of this name, or it is smaller.
    pub fn part(&self, name: &str, offset: u64, byte_size: u64) -> Result<RegionPart> {
        let region = self.regions.read().get(name).cloned();
        let region = region.ok_or_else(|| {
            unknown(&format!(
                "Unable to find shared memory region: '{name}' - register it first"
            ))
        })?;
        RegionPart::new(region, offset, byte_size)
    }
}

fn unknown(text: &str) -> Error {
    Error::new(ErrorKind::NotFound, text)
}

#[cfg(test)]
mod tests;
