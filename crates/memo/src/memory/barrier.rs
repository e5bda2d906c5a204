//! A full barrier on every thread of the process, at the collector's expense.
//!
//! Where `membarrier(2)` does not exist (off Linux, an old kernel, a seccomp filter) and under Miri,
//! pinning fences instead and the collector needs no barrier.

#[cfg(all(target_os = "linux", not(miri), not(shuttle)))]
mod real {
    #![allow(unsafe_code)]

    use std::sync::OnceLock;
    use std::sync::atomic::{Ordering::SeqCst, fence};

    const PRIVATE_EXPEDITED: libc::c_int = 1 << 3;
    const REGISTER_PRIVATE_EXPEDITED: libc::c_int = 1 << 4;

    /// Whether the kernel took the registration; decided once for the process.
    pub(crate) fn is_asymmetric() -> bool {
        static AVAILABLE: OnceLock<bool> = OnceLock::new();
        *AVAILABLE.get_or_init(|| membarrier(REGISTER_PRIVATE_EXPEDITED))
    }

    /// Makes every thread of the process pass a full barrier before this returns.
    pub(crate) fn everywhere() {
        fence(SeqCst);
        if is_asymmetric() {
            let passed = membarrier(PRIVATE_EXPEDITED);
            assert!(passed, "membarrier worked when the first thread pinned and fails now");
        }
    }

    fn membarrier(command: libc::c_int) -> bool {
        // SAFETY: the system call takes three integers and touches no memory of ours.
        unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
    }
}

#[cfg(not(all(target_os = "linux", not(miri), not(shuttle))))]
mod real {
    use std::sync::atomic::{Ordering::SeqCst, fence};

    /// Pinning fences instead.
    pub(crate) fn is_asymmetric() -> bool {
        false
    }

    pub(crate) fn everywhere() {
        fence(SeqCst);
    }
}

pub(crate) use real::*;
