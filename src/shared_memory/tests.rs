//! Regions of real objects in `/dev/shm`, good and bad.

use std::{
    fs::{self, OpenOptions},
    os::unix::fs::{FileExt as _, symlink},
    path::PathBuf,
    sync::atomic::{AtomicU32, Ordering},
};

use super::{KeyPrefix, RegionPart, SharedMemory};
use crate::{budget::Budget, error::Result};

/// An object of a test's own, which is unlinked with it.
struct Object {
    key: String,
    path: PathBuf,
}

impl Object {
    fn new(contents: &[u8]) -> Self {
        let object = Self::missing();
        fs::write(&object.path, contents).unwrap();
        object
    }

    fn missing() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let key = format!("/ovms_unit_{}_{count}", std::process::id());
        let path = PathBuf::from(format!("/dev/shm{key}"));
        Self { key, path }
    }

    fn truncate(&self, length: u64) {
        let file = OpenOptions::new().write(true).open(&self.path).unwrap();
        file.set_len(length).unwrap();
    }
}

impl Drop for Object {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

fn memory() -> SharedMemory {
    SharedMemory::new("/ovms_unit_".parse().unwrap(), 4)
}

fn whole(memory: &SharedMemory, object: &Object, length: u64) -> RegionPart {
    memory.register("x", &object.key, 0, length).unwrap();
    memory.part("x", 0, length).unwrap()
}

/// Returns the HTTP status and the text of an error, without the name of the object.
fn refused<T>(result: Result<T>, object: &Object) -> String {
    let Err(error) = result else {
        panic!("it is refused")
    };
    format!("{} {error}", error.kind().http()).replace(&object.key, "/KEY")
}

#[test]
fn a_part_is_read_and_written_where_it_is() {
    let object = Object::new(b"0123456789");
    let memory = memory();
    memory.register("x", &object.key, 2, 6).unwrap();
    let part = memory.part("x", 1, 3).unwrap();
    let budget = Budget::new(1000);
    let read = part.read(&budget).unwrap();
    assert_eq!(&read[..], b"345");
    assert!(budget.charged() >= 3);
    // What is written later does not change what was read.
    part.write(b"ab").unwrap();
    assert_eq!(&read[..], b"345");
    assert_eq!(fs::read(&object.path).unwrap(), b"012ab56789");
    drop(read);
    assert_eq!(budget.charged(), 0);
    assert_eq!(memory.part("x", 6, 0).unwrap().read(&budget).unwrap(), "");
}

#[test]
fn a_region_lives_on_without_its_name_and_without_its_file() {
    let object = Object::new(b"0123");
    let memory = memory();
    let part = whole(&memory, &object, 4);
    fs::remove_file(&object.path).unwrap();
    memory.unregister("x");
    assert!(memory.part("x", 0, 4).is_err());
    part.write(b"abcd").unwrap();
    assert_eq!(part.read(&Budget::default()).unwrap(), "abcd");
}

#[test]
fn a_truncated_object_is_an_error_and_stays_as_short() {
    let object = Object::new(b"0123456789");
    let memory = memory();
    let part = whole(&memory, &object, 10);
    object.truncate(4);
    let budget = Budget::new(1000);
    insta::assert_snapshot!(refused(part.read(&budget), &object), @"400 Unable to use shared memory region: 'x' - '/KEY' was truncated after it was registered");
    assert_eq!(budget.charged(), 0);
    insta::assert_snapshot!(refused(part.write(b"abcde"), &object), @"400 Unable to use shared memory region: 'x' - '/KEY' was truncated after it was registered");
    assert_eq!(fs::read(&object.path).unwrap(), b"0123");
    object.truncate(10);
    assert_eq!(part.read(&budget).unwrap(), "0123\0\0\0\0\0\0");
}

#[test]
fn reads_need_room_in_the_budget() {
    let object = Object::missing();
    fs::write(&object.path, b"").unwrap();
    // A sparse object: no page of it is there.
    object.truncate(1 << 40);
    let memory = memory();
    let part = whole(&memory, &object, 1 << 40);
    let error = part.read(&Budget::new(1 << 20)).unwrap_err();
    assert_eq!(error.kind().http(), 413);
    let budget = Budget::new(1 << 41);
    let _others = budget.charge(1 << 41).unwrap();
    assert_eq!(part.read(&budget).unwrap_err().kind().http(), 503);
}

#[test]
fn objects_that_do_not_fit_are_refused() {
    let object = Object::new(b"0123456789");
    let memory = memory();
    let mut texts = Vec::new();
    for (offset, size) in [(0, 11), (10, 1), (0, 0), (u64::MAX, 1), (1, u64::MAX)] {
        let registered = memory.register("x", &object.key, offset, size);
        texts.push(refused(registered, &object));
    }
    insta::assert_snapshot!(texts.join("\n"), @"
    400 failed to register shared memory region 'x': invalid args - '/KEY' has 10 bytes; found offset 0 and byte_size 11
    400 failed to register shared memory region 'x': invalid args - '/KEY' has 10 bytes; found offset 10 and byte_size 1
    400 failed to register shared memory region 'x': invalid args - '/KEY' has 10 bytes; found offset 0 and byte_size 0
    400 failed to register shared memory region 'x': invalid args - '/KEY' has 10 bytes; found offset 18446744073709551615 and byte_size 1
    400 failed to register shared memory region 'x': invalid args - '/KEY' has 10 bytes; found offset 1 and byte_size 18446744073709551615
    ");
    let part = whole(&memory, &object, 10);
    assert_eq!(part.size(), 10);
    let mut texts = Vec::new();
    for (offset, size) in [(0, 11), (11, 0), (u64::MAX, 1), (1, u64::MAX)] {
        texts.push(refused(memory.part("x", offset, size), &object));
    }
    texts.push(refused(memory.part("y", 0, 1), &object));
    insta::assert_snapshot!(texts.join("\n"), @"
    400 Invalid offset + byte size for shared memory region: 'x' - it has 10 bytes; found offset 0 and byte size 11
    400 Invalid offset + byte size for shared memory region: 'x' - it has 10 bytes; found offset 11 and byte size 0
    400 Invalid offset + byte size for shared memory region: 'x' - it has 10 bytes; found offset 18446744073709551615 and byte size 1
    400 Invalid offset + byte size for shared memory region: 'x' - it has 10 bytes; found offset 1 and byte size 18446744073709551615
    404 Unable to find shared memory region: 'y' - register it first
    ");
}

#[test]
fn a_key_is_one_name_with_the_prefix() {
    let object = Object::new(b"0");
    let memory = memory();
    let long = format!("/ovms_unit_{}", "x".repeat(255));
    let mut texts = Vec::new();
    for key in [
        "",
        "/",
        "//ovms_unit_x",
        "/ovms_unit_/../etc",
        "/..",
        "/ovms_unit_\0",
        &long,
        "/other",
        "ovms_unit",
        "/ovms_unit_ missing",
    ] {
        let text = refused(memory.register("x", key, 0, 1), &object);
        texts.push(text.replace(&"x".repeat(255), "xxx…"));
    }
    insta::assert_snapshot!(texts.join("\n"), @r#"
    400 failed to register shared memory region 'x': invalid args - the key is one name of 1 to 255 bytes, with no slash but a leading one; found ""
    400 failed to register shared memory region 'x': invalid args - the key is one name of 1 to 255 bytes, with no slash but a leading one; found "/"
    400 failed to register shared memory region 'x': invalid args - the key is one name of 1 to 255 bytes, with no slash but a leading one; found "//ovms_unit_x"
    400 failed to register shared memory region 'x': invalid args - the key is one name of 1 to 255 bytes, with no slash but a leading one; found "/ovms_unit_/../etc"
    400 failed to register shared memory region 'x': invalid args - the key is one name of 1 to 255 bytes, with no slash but a leading one; found "/.."
    400 failed to register shared memory region 'x': invalid args - the key is one name of 1 to 255 bytes, with no slash but a leading one; found "/ovms_unit_\0"
    400 failed to register shared memory region 'x': invalid args - the key is one name of 1 to 255 bytes, with no slash but a leading one; found "/ovms_unit_xxx…"
    403 failed to register shared memory region 'x': keys have to begin with '/ovms_unit_', see --shared-memory; found "/other"
    403 failed to register shared memory region 'x': keys have to begin with '/ovms_unit_', see --shared-memory; found "ovms_unit"
    404 Unable to open shared memory region: '/ovms_unit_ missing' - there is no such object
    "#);
    // The slash may be missing, as with shm_open.
    memory.register("x", &object.key[1..], 0, 1).unwrap();
}

#[test]
fn only_files_are_objects() {
    let memory = memory();
    let target = Object::new(b"0123");
    let link = Object::missing();
    symlink(&target.path, &link.path).unwrap();
    let folder = Object::missing();
    fs::create_dir(&folder.path).unwrap();
    let pipe = Object::missing();
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    let fifo = rustix::fs::FileType::Fifo;
    rustix::fs::mknodat(rustix::fs::CWD, &pipe.path, fifo, mode, 0).unwrap();
    let texts: Vec<_> = [&link, &folder, &pipe]
        .into_iter()
        .map(|object| refused(memory.register("x", &object.key, 0, 1), object))
        .collect();
    fs::remove_dir(&folder.path).unwrap();
    insta::assert_snapshot!(texts.join("\n"), @"
    400 Unable to open shared memory region: '/KEY' - it is no shared memory object that can be opened
    400 Unable to open shared memory region: '/KEY' - it is no shared memory object that can be opened
    400 Unable to open shared memory region: '/KEY' - it is no shared memory object
    ");
}

#[test]
fn names_are_unique_and_regions_are_bounded() {
    let object = Object::new(b"0123456789");
    let memory = memory();
    for name in ["d", "b", "c", "a"] {
        memory.register(name, &object.key, 2, 5).unwrap();
    }
    let again = memory.register("a", &object.key, 0, 1);
    insta::assert_snapshot!(refused(again, &object), @"409 shared memory region 'a' already in manager - unregister it first, or take another name");
    let more = memory.register("e", &object.key, 0, 1);
    insta::assert_snapshot!(refused(more, &object), @"503 failed to register shared memory region 'e': there are 4 regions, as many as --max-shared-memory-regions allows; unregister one first");
    let names = |memory: &SharedMemory| {
        let regions = memory.status("").unwrap().into_iter();
        let names: Vec<_> = regions.map(|region| region.name().to_owned()).collect();
        names.join(" ")
    };
    assert_eq!(names(&memory), "a b c d");
    let status = memory.status("a").unwrap();
    assert_eq!(
        (status[0].key(), status[0].offset(), status[0].byte_size()),
        (object.key.as_str(), 2, 5)
    );
    memory.unregister("b");
    memory.unregister("stranger");
    assert_eq!(names(&memory), "a c d");
    insta::assert_snapshot!(refused(memory.status("b"), &object), @"404 Unable to find system shared memory region: 'b'");
    memory.unregister("");
    assert_eq!(names(&memory), "");
    for name in ["", &"n".repeat(256)] {
        assert!(memory.register(name, &object.key, 0, 1).is_err());
    }
}

#[test]
fn overlapping_regions_share_their_bytes() {
    let object = Object::new(b"0123456789");
    let memory = memory();
    memory.register("x", &object.key, 0, 8).unwrap();
    memory.register("y", &object.key, 4, 6).unwrap();
    memory.part("x", 4, 4).unwrap().write(b"abcd").unwrap();
    let part = memory.part("y", 0, 6).unwrap();
    assert_eq!(part.read(&Budget::default()).unwrap(), "abcd89");
}

#[test]
fn reads_and_truncations_at_once_end_in_bytes_or_an_error() {
    const LENGTH: u64 = 1 << 16;
    let object = Object::new(&[]);
    object.truncate(LENGTH);
    let memory = memory();
    let part = whole(&memory, &object, LENGTH);
    let file = OpenOptions::new().write(true).open(&object.path).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 0..2000_u64 {
                file.set_len(round % 2 * LENGTH).unwrap();
            }
            file.set_len(LENGTH).unwrap();
            file.write_all_at(b"end", 0).unwrap();
        });
        let budget = Budget::default();
        let contents = vec![1; 1 << 16];
        for _ in 0..1000 {
            if let Ok(read) = part.read(&budget) {
                assert_eq!(read.len() as u64, LENGTH);
            }
            // Both ends are possible.
            let _ = part.write(&contents);
        }
    });
    assert_eq!(part.read(&Budget::default()).unwrap().len() as u64, LENGTH);
}

#[test]
fn a_prefix_is_the_beginning_of_keys() {
    for (text, shown) in [("/", "/"), ("ovms_", "/ovms_"), ("/ovms_", "/ovms_")] {
        let prefix = text.parse::<KeyPrefix>();
        assert_eq!(prefix.map_or(String::new(), |it| it.to_string()), shown);
    }
    let errors = ["", "//", "/a/b", "a\0"].map(|text| {
        let error = text.parse::<KeyPrefix>().unwrap_err();
        error.to_string()
    });
    insta::assert_snapshot!(errors[2], @r#"shared_memory has invalid format: expected the beginning of the keys that clients may register, such as /ovms_, or / for any key; found "/a/b""#);
}
