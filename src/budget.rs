//! One bound for the bytes that the server holds for its clients, on all connections together.
//!
//! A [`Charge`] is what something has of a [`Budget`]. [`Charge::keep`] puts it inside a buffer, so that it
//! ends with the last [`Bytes`] that shares the buffer, wherever that is by then: in a queue, in a
//! tensor, or with the connection as an answer that its client does not take.

use std::{
    fmt,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use bytes::Bytes;

use crate::error::{Error, ErrorKind, Result};

/// Bytes that a buffer costs beside its contents: its owner, its charge, and what the allocator adds.
pub const OVERHEAD: usize = 128;

/// The share of the memory that is the budget unless a flag says otherwise, as a divisor.
const SHARE: u64 = 4;

/// The budget of a machine that does not say how much memory it has.
const UNKNOWN: usize = 1 << 30;

/// The bound, and what is charged at the moment. Clones are the same budget.
#[derive(Debug, Clone)]
pub struct Budget(Arc<Account>);

struct Account {
    charged: AtomicUsize,
    max: usize,
    /// Owner of the budget and the one that it is part of, if it is part of one.
    part: Option<(Arc<dyn BudgetOwner>, Budget)>,
}

impl Account {
    /// Charges bytes, and those that it is part of; else returns the account without room. What does not fit is never
    /// counted, so that it takes nobody's room while it is refused.
    fn add(&self, more: usize) -> Result<(), &Self> {
        let fitting = |before: usize| before.checked_add(more).filter(|sum| *sum <= self.max);
        let added = (self.charged).fetch_update(Ordering::Relaxed, Ordering::Relaxed, fitting);
        match &self.part {
            _ if added.is_err() => Err(self),
            None => Ok(()),
            Some((_, whole)) => whole.0.add(more).inspect_err(|_| {
                self.charged.fetch_sub(more, Ordering::Relaxed);
            }),
        }
    }

    /// Makes the error of one who comes while too much is charged.
    fn exhausted(&self) -> Error {
        match &self.part {
            None => exhausted(self.max),
            Some((owner, _)) => owner.exhausted(self.max),
        }
    }

    /// Makes the error of one charge that fits into no budget that is empty, of which there is no use in trying again.
    fn never(&self, total: usize) -> Option<Error> {
        match &self.part {
            None => (total > self.max).then(|| too_large(self.max)),
            Some((owner, _)) if total > self.max => Some(owner.too_large(self.max)),
            Some((_, whole)) => whole.0.never(total),
        }
    }

    /// Charges bytes that cannot be refused.
    fn take(&self, more: usize) {
        self.charged.fetch_add(more, Ordering::Relaxed);
        if let Some((_, whole)) = &self.part {
            whole.0.take(more);
        }
    }

    fn give_back(&self, bytes: usize) {
        self.charged.fetch_sub(bytes, Ordering::Relaxed);
        if let Some((_, whole)) = &self.part {
            whole.0.give_back(bytes);
        }
    }
}

impl fmt::Debug for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Account")
            .field("charged", &self.charged)
            .field("max", &self.max)
            .finish_non_exhaustive()
    }
}

/// Owner of a budget that is part of another one.
pub trait BudgetOwner: Send + Sync {
    /// Makes the error of one who comes while too much is charged, `max` bytes being the bound.
    fn exhausted(&self, max: usize) -> Error;

    /// Makes the error of one whose request alone is more than `max` bytes.
    fn too_large(&self, max: usize) -> Error;
}

impl Budget {
    /// Makes a budget of so many bytes.
    pub fn new(max: usize) -> Self {
        Self(Arc::new(Account {
            charged: AtomicUsize::new(0),
            max,
            part: None,
        }))
    }

    /// Makes a budget of so many bytes that is part of this one: what it is charged, both are.
    #[must_use]
    pub fn part(&self, max: usize, owner: Arc<dyn BudgetOwner>) -> Self {
        Self(Arc::new(Account {
            charged: AtomicUsize::new(0),
            max,
            part: Some((owner, self.clone())),
        }))
    }

    /// Returns the bound, in bytes.
    pub fn max(&self) -> usize {
        self.0.max
    }

    /// Returns the bytes that are charged at the moment.
    pub fn charged(&self) -> usize {
        self.0.charged.load(Ordering::Relaxed)
    }

    /// Charges bytes.
    ///
    /// # Errors
    ///
    /// Fails with [`ErrorKind::Exhausted`] if they are more than is left, and with [`ErrorKind::TooLarge`] if they are
    /// more than there is in all.
    pub fn charge(&self, bytes: usize) -> Result<Charge> {
        let mut charge = self.empty();
        charge.add(bytes)?;
        Ok(charge)
    }

    /// Looks whether so many bytes, which a sender has declared, would fit if nothing else were charged.
    ///
    /// # Errors
    ///
    /// Fails with [`ErrorKind::TooLarge`] if they would not.
    pub fn fits(&self, bytes: usize) -> Result<()> {
        self.0.never(bytes).map_or(Ok(()), Err)
    }

    /// Charges bytes that are there already and cannot be refused, even if they are more than is left:
    /// others are refused until they are gone.
    pub fn take(&self, bytes: usize) -> Charge {
        self.0.take(bytes);
        Charge {
            budget: self.clone(),
            bytes,
        }
    }

    /// Returns a charge of nothing.
    pub fn empty(&self) -> Charge {
        Charge {
            budget: self.clone(),
            bytes: 0,
        }
    }

    /// Charges a buffer, for as long as any part of it is there.
    ///
    /// # Errors
    ///
    /// Fails if it is more than is left.
    pub fn keep(&self, bytes: Bytes) -> Result<Bytes> {
        if bytes.is_empty() {
            return Ok(bytes);
        }
        let charge = self.charge(bytes.len() + OVERHEAD)?;
        Ok(charge.keep(bytes))
    }
}

/// Makes the error of one who comes while too much is charged.
fn exhausted(max: usize) -> Error {
    let text = format!(
        "Server is overloaded - requests and answers in flight: the most bytes allowed are {max}, see \
         --max-bytes-in-flight; try again later"
    );
    Error::new(ErrorKind::Exhausted, text)
}

/// Makes the error of one charge that is larger than the budget.
fn too_large(max: usize) -> Error {
    let text = format!(
        "Request is too large - it needs more than {max} bytes, which is the most for all requests and answers in flight; \
         send less at once, or raise --max-bytes-in-flight"
    );
    Error::new(ErrorKind::TooLarge, text)
}

impl Default for Budget {
    /// A budget without a bound, for what no client can reach.
    fn default() -> Self {
        Self::new(usize::MAX)
    }
}

impl PartialEq for Budget {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0.max == other.0.max
    }
}

impl Eq for Budget {}

/// Bytes of a budget, which it has back when this is dropped.
#[derive(Debug, PartialEq, Eq)]
pub struct Charge {
    budget: Budget,
    bytes: usize,
}

impl Charge {
    /// Returns its number of bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Charges more.
    ///
    /// # Errors
    ///
    /// Fails if that is more than is left, with [`ErrorKind::TooLarge`] if it is more than there is in all; what was
    /// charged before stays.
    pub fn add(&mut self, more: usize) -> Result<()> {
        let account = &self.budget.0;
        account.add(more).map_err(|full| {
            let never = account.never(self.bytes.saturating_add(more));
            // One error, since owners count what they refuse.
            never.unwrap_or_else(|| full.exhausted())
        })?;
        self.bytes += more;
        Ok(())
    }

    /// Charges the missing bytes up to a total.
    ///
    /// # Errors
    ///
    /// Fails if that is more than is left.
    pub fn grow(&mut self, to: usize) -> Result<()> {
        match to.checked_sub(self.bytes) {
            None | Some(0) => Ok(()),
            Some(more) => self.add(more),
        }
    }

    /// Charges the missing bytes up to a total; they exist already and cannot be refused.
    pub fn take(&mut self, to: usize) {
        if let Some(more) = to.checked_sub(self.bytes) {
            self.bytes = to;
            self.budget.0.take(more);
        }
    }

    /// Returns the bytes above a total to the budget.
    pub fn shrink(&mut self, to: usize) {
        if let Some(less) = self.bytes.checked_sub(to) {
            self.bytes = to;
            self.budget.0.give_back(less);
        }
    }

    /// Puts the charge into a buffer: it ends with the last part of the buffer.
    #[must_use]
    pub fn keep(self, bytes: Bytes) -> Bytes {
        Bytes::from_owner(Kept {
            bytes,
            _charge: self,
        })
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.shrink(0);
    }
}

/// A buffer with its charge.
struct Kept {
    bytes: Bytes,
    _charge: Charge,
}

impl AsRef<[u8]> for Kept {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Returns the default budget of a server, in bytes: a quarter of the memory that this process may
/// have, of the machine or of its control group, whichever is less.
pub fn usual() -> usize {
    let machine = memory_total(&read("/proc/meminfo"));
    let groups = read("/proc/self/cgroup");
    let group = group_folders(&groups)
        .iter()
        .filter_map(|folder| group_limit(Path::new(folder)))
        .min();
    let memory = [machine, group].into_iter().flatten().min();
    memory.map_or(UNKNOWN, |bytes| {
        usize::try_from(bytes / SHARE).unwrap_or(usize::MAX)
    })
}

fn read(path: impl AsRef<Path>) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

/// Reads `MemTotal` (proc_meminfo(5), in KiB) as bytes.
fn memory_total(meminfo: &str) -> Option<u64> {
    let line = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes << 10)
}

/// Returns the folders that may limit the memory of a process with these control groups (cgroups(7)):
/// its own of either version of the interface, and those above, of which each limits what is below.
fn group_folders(groups: &str) -> Vec<String> {
    let mut folders = Vec::new();
    for line in groups.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else {
            continue;
        };
        let root = if controllers.is_empty() {
            "/sys/fs/cgroup"
        } else if controllers.split(',').any(|name| name == "memory") {
            "/sys/fs/cgroup/memory"
        } else {
            continue;
        };
        let own = path.trim_end_matches('/');
        let ends = own.char_indices().filter(|&(_, letter)| letter == '/');
        let above = ends.map(|(end, _)| &own[..end]);
        // In a container the folder of the group may be the root itself.
        folders.extend(above.chain([own]).map(|path| format!("{root}{path}")));
        folders.push(root.to_owned());
    }
    folders
}

/// Reads the limit of a control group's folder: `memory.max`, or that of the first version.
fn group_limit(folder: &Path) -> Option<u64> {
    let limit = |name| read(folder.join(name)).trim().parse::<u64>().ok();
    // `max` is no number, and the first version has a number that no machine reaches.
    limit("memory.max").or_else(|| limit("memory.limit_in_bytes"))
}

#[cfg(test)]
mod tests {
    use std::{fs, sync::atomic::AtomicBool};

    use super::*;

    /// Owner of a part.
    struct Anyone;

    impl BudgetOwner for Anyone {
        fn exhausted(&self, max: usize) -> Error {
            exhausted(max)
        }

        fn too_large(&self, _: usize) -> Error {
            Error::new(ErrorKind::TooLarge, "of the part")
        }
    }

    #[test]
    fn a_charge_lives_as_long_as_any_part_of_its_buffer() {
        let budget = Budget::new(1000);
        let bytes = budget.keep(vec![1; 800].into()).unwrap();
        assert_eq!(budget.charged(), 800 + OVERHEAD);
        let error = budget.keep(vec![1; 1].into()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Exhausted);
        insta::assert_snapshot!(error, @"Server is overloaded - requests and answers in flight: the most bytes allowed are 1000, see --max-bytes-in-flight; try again later");
        let part = bytes.slice(10..20);
        drop(bytes);
        assert_eq!(budget.charged(), 800 + OVERHEAD);
        drop(part);
        assert_eq!(budget.charged(), 0);
    }

    #[test]
    fn what_is_larger_than_the_whole_is_not_to_be_tried_again() {
        let budget = Budget::new(1000);
        let _other = budget.charge(300).unwrap();
        let part = budget.part(5000, Arc::new(Anyone));
        let refused = |error: Error| (error.kind(), error.to_string());
        let (kind, text) = refused(budget.charge(1001).unwrap_err());
        assert_eq!(kind, ErrorKind::TooLarge);
        insta::assert_snapshot!(text, @"Request is too large - it needs more than 1000 bytes, which is the most for all requests and answers in flight; send less at once, or raise --max-bytes-in-flight");
        assert!(budget.fits(1000).is_ok() && part.fits(1000).is_ok());
        assert_eq!(refused(part.fits(1001).unwrap_err()), (kind, text.clone()));
        // One that comes in pieces is as large as all of them.
        let mut pieces = part.charge(600).unwrap();
        assert_eq!(refused(pieces.add(401).unwrap_err()), (kind, text));
        assert_eq!(pieces.add(400).unwrap_err().kind(), ErrorKind::Exhausted);
        // The owner of a part says by itself what is more than that has.
        assert_eq!(part.charge(5001).unwrap_err().message(), "of the part");
    }

    #[test]
    fn a_charge_that_is_refused_takes_nothing() {
        let budget = Budget::new(100);
        let mut charge = budget.charge(60).unwrap();
        assert!(charge.grow(101).is_err());
        assert!(budget.charge(usize::MAX).is_err());
        assert_eq!((charge.bytes(), budget.charged()), (60, 60));
        charge.grow(100).unwrap();
        charge.shrink(30);
        charge.grow(10).unwrap();
        assert_eq!((charge.bytes(), budget.charged()), (30, 30));
        drop(charge);
        assert_eq!(budget.charged(), 0);
    }

    #[test]
    fn a_charge_that_is_refused_takes_nobodys_room_meanwhile() {
        let budget = Budget::new(100);
        let part = budget.part(60, Arc::new(Anyone));
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..20_000 {
                    assert!(budget.charge(101).is_err());
                    assert!(part.charge(61).is_err());
                }
                done.store(true, Ordering::Relaxed);
            });
            let mut refused = 0;
            while !done.load(Ordering::Relaxed) {
                refused += usize::from(budget.charge(100).is_err());
                refused += usize::from(part.charge(60).is_err());
            }
            assert_eq!(refused, 0);
        });
    }

    #[test]
    fn nothing_costs_nothing() {
        let budget = Budget::new(0);
        assert!(budget.keep(Bytes::new()).unwrap().is_empty());
        assert_eq!(budget.charged(), 0);
    }

    #[test]
    fn the_least_limit_on_the_way_counts() {
        assert_eq!(
            memory_total("MemFree: 1 kB\nMemTotal:       2048 kB\n"),
            Some(2 << 20)
        );
        assert_eq!(memory_total("nothing"), None);
        assert_eq!(
            group_folders("0::/a/b\n"),
            [
                "/sys/fs/cgroup",
                "/sys/fs/cgroup/a",
                "/sys/fs/cgroup/a/b",
                "/sys/fs/cgroup"
            ]
        );
        assert_eq!(
            group_folders("5:cpu,memory:/\n4:pids:/x\n"),
            ["/sys/fs/cgroup/memory", "/sys/fs/cgroup/memory"]
        );
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(group_limit(folder.path()), None);
        fs::write(folder.path().join("memory.max"), "max\n").unwrap();
        assert_eq!(group_limit(folder.path()), None);
        fs::write(folder.path().join("memory.max"), "2147483648\n").unwrap();
        assert_eq!(group_limit(folder.path()), Some(2 << 30));
        assert!(usual() > 0 && usual() < usize::MAX);
    }
}
