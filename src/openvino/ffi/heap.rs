//! Memory that the runtime has from the C library's allocator, which this program's own code does not use.

/// Returns the bytes that are allocated there; 0 where the C library does not count them, as glibc before 2.33.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub(in crate::openvino) fn heap() -> usize {
    use std::sync::OnceLock;

    use libloading::os::unix::Library;

    type Counts = unsafe extern "C" fn() -> libc::mallinfo2;

    // Looked for when it runs: a program that names it does not start with an older library.
    static COUNTS: OnceLock<Option<Counts>> = OnceLock::new();
    let counts = COUNTS.get_or_init(|| {
        // SAFETY: it is a function of the C library of this signature, and of this program, which stays.
        let found = unsafe { Library::this().get::<Counts>(b"mallinfo2\0") };
        found.ok().map(|counts| *counts)
    });
    counts.map_or(0, |counts| {
        // SAFETY: it takes nothing, and gives numbers.
        let counts = unsafe { counts() };
        counts.uordblks + counts.hblkhd
    })
}

/// Returns 0: other C libraries do not count.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub(in crate::openvino) fn heap() -> usize {
    0
}
