//! What only the start needed is not a part of a running server.
//!
//! Reading arguments, settings and `.proto` files runs some megabytes of code that a server never
//! runs again, and the kernel maps sixteen pages for each one that is touched. All of it is clean
//! and in the page cache, so that it can be given back at once, and what runs on is mapped again as
//! it runs: by minor faults, some hundred of them.

#![expect(unsafe_code, reason = "memory is given back to the kernel")]

/// Gives back what this process has mapped of files and nobody wrote to: its code and its
/// constants, and those of libraries. Where that cannot be told, by a system without `/proc`,
/// nothing happens.
#[cfg(target_os = "linux")]
pub(crate) fn give_back_code() {
    use rustix::mm::{Advice, madvise};

    let Ok(maps) = std::fs::read_to_string("/proc/self/smaps") else { return };
    for (start, end) in unwritten(&maps) {
        // SAFETY: the range is mapped from a file, is not writable, and no page of it is other than
        // the file's (a debugger's breakpoint would make one): what is read next is what was there.
        let _ = unsafe { madvise(start as *mut _, end - start, Advice::LinuxDontNeed) };
    }
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn give_back_code() {}

/// The ranges that are mapped from files, cannot be written, and have no private page.
#[cfg(target_os = "linux")]
fn unwritten(maps: &str) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    let mut candidate = None;
    for line in maps.lines() {
        let mut words = line.split_ascii_whitespace();
        let (Some(first), Some(second)) = (words.next(), words.next()) else { continue };
        if let Some((start, end)) = first.split_once('-') {
            let range =
                usize::from_str_radix(start, 16).ok().zip(usize::from_str_radix(end, 16).ok());
            // Offset, device, inode: 0 for what is of no file.
            let is_of_file = words.nth(2).is_some_and(|inode| inode != "0");
            let is_private = second.starts_with("r-") && second.ends_with('p');
            candidate = range.filter(|_| is_of_file && is_private);
        } else if first == "Anonymous:" && second == "0" {
            found.extend(candidate.take());
        }
    }
    found
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    /// Bytes of this process that are in memory.
    fn resident() -> usize {
        let status = std::fs::read_to_string("/proc/self/statm").expect("Linux has it");
        let pages = status.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok());
        let pages = pages.expect("it is a number");
        pages * rustix::param::page_size()
    }

    #[test]
    fn code_is_given_back_and_runs_on() {
        let before = resident();
        give_back_code();
        let after = resident();
        assert!(after + (1 << 20) < before, "{after} of {before} bytes are left");
        assert_eq!(format!("{:>5}", 6 * 7), "   42", "what is called is there again");
    }

    #[test]
    fn what_somebody_wrote_to_is_left_alone() {
        let maps = "\
            1000-2000 r--p 00000000 fe:00 7   /program\nRss: 4 kB\nAnonymous:             0 kB\nVmFlags: rd\n\
            2000-4000 r-xp 00001000 fe:00 7   /program\nAnonymous:             4 kB\n\
            4000-5000 r-xp 00003000 fe:00 7   /program\nAnonymous:             0 kB\n\
            5000-6000 rw-p 00004000 fe:00 7   /program\nAnonymous:             0 kB\n\
            6000-7000 r--s 00000000 fe:00 8   /shared\nAnonymous:             0 kB\n\
            7000-8000 r--p 00000000 00:00 0\nAnonymous:             0 kB\n\
            8000-9000 r-xp 00000000 00:00 0   [vdso]\nAnonymous:             0 kB\n";
        assert_eq!(unwritten(maps), [(0x1000, 0x2000), (0x4000, 0x5000)]);
    }
}
