//! Memory that the runtime has from the C library's allocator, which this program's own code does not use.

/// Returns the bytes that are allocated there; 0 where the C library does not count them.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub(in crate::openvino) fn heap() -> usize {
    // SAFETY: it takes nothing, and gives numbers.
    let counts = unsafe { libc::mallinfo2() };
    counts.uordblks + counts.hblkhd
}

/// Returns 0: other C libraries do not count.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub(in crate::openvino) fn heap() -> usize {
    0
}
