//! Memory that only the start has used.

/// Gives back what the start alone has used: pages of this program's code, and free memory of the runtime's allocator. Code
/// that is used again is mapped again from the system's cache of the file, which takes some microseconds for each 64 KiB.
pub fn release() {
    super::trim();
    #[cfg(target_os = "linux")]
    if let Ok(smaps) = std::fs::File::open("/proc/self/smaps")
        && let Some((start, length)) =
            code(std::io::BufReader::new(smaps), release as fn() as usize)
    {
        // SAFETY: the range is the mapping of this program's code, which stays as long as the process. None of its pages
        // was changed, so that what is used again is the same.
        unsafe { libc::madvise(start as *mut libc::c_void, length, libc::MADV_DONTNEED) };
    }
}

/// Returns the mapping that an address is in, unless it has pages that are not those of the file, such as a debugger makes.
#[cfg(target_os = "linux")]
fn code(smaps: impl std::io::BufRead, address: usize) -> Option<(usize, usize)> {
    let mut found = None;
    for line in smaps.lines() {
        let line = line.ok()?;
        let (first, rest) = line.split_once(' ')?;
        if let Some((start, end)) = first.split_once('-') {
            let number = |text| usize::from_str_radix(text, 16).ok();
            let (start, end) = (number(start)?, number(end)?);
            let is_here = (start..end).contains(&address) && rest.starts_with("r-xp");
            found = is_here.then_some((start, end - start));
        } else if first == "Anonymous:" && found.is_some() {
            return found.filter(|_| rest.trim() == "0 kB");
        }
    }
    None
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::{code, release};

    #[test]
    fn the_code_is_found_unless_it_was_changed() {
        let smaps = "1000-3000 r--p 00000000 fe:00 1   /a\nAnonymous:      0 kB\nVmFlags: rd\n\
                     3000-9000 r-xp 00002000 fe:00 1   /a\nRss:      8 kB\nAnonymous:      0 kB\nVmFlags: rd\n\
                     9000-a000 r-xp 00002000 fe:00 1   /b\nRss:      8 kB\nAnonymous:      4 kB\n";
        let code = |address| code(smaps.as_bytes(), address);
        assert_eq!(code(0x3000), Some((0x3000, 0x6000)));
        assert_eq!(code(0x8fff), Some((0x3000, 0x6000)));
        for (address, why) in [
            (0x1000, "data"),
            (0x9000, "a changed page"),
            (0xa000, "nothing"),
        ] {
            assert_eq!(code(address), None, "{why}");
        }
        let smaps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        assert!(super::code(smaps.as_bytes(), release as fn() as usize).is_some());
    }

    #[test]
    fn what_was_given_back_runs_again() {
        release();
        assert_eq!("42".parse::<u8>(), Ok(42));
    }
}
