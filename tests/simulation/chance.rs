//! The process's sources of chance, made certain: a run depends on its seed alone.
//!
//! Hash maps are seeded by the system's random numbers, and by addresses in memory. The first are
//! taken from a seed here, in this program alone; for the second it starts itself again without
//! address-space randomisation.

use std::{
    cell::Cell,
    ffi::{c_uint, c_void},
    os::unix::process::CommandExt,
    process::Command,
};

const AGAIN: &str = "SIMULATION_WITHOUT_RANDOM_ADDRESSES";

thread_local! {
    static STATE: Cell<u64> = const { Cell::new(0) };
}

/// What follows on this thread is certain.
pub fn seed(seed: u64) {
    STATE.set(seed);
    fastrand::seed(seed);
}

/// Starts the program again with addresses that are the same each time, unless that was done.
pub fn without_random_addresses() {
    if std::env::var_os(AGAIN).is_some() {
        return;
    }
    let Ok(program) = std::env::current_exe() else { return };
    // Returns only when there is no such tool; the runs are sound then, and may differ when repeated.
    let error = Command::new("setarch")
        .arg("--addr-no-randomize")
        .arg(program)
        .args(std::env::args_os().skip(1))
        .env(AGAIN, "1")
        .exec();
    eprintln!("setarch (util-linux) cannot be run, so a seed may not repeat: {error}");
}

/// Stands in the place of the C library's function for this program: splitmix64 from the thread's
/// seed.
///
/// # Safety
/// As `getrandom(2)`: `buffer` is valid for writes of `length` bytes.
#[unsafe(no_mangle)]
#[expect(unsafe_code, reason = "it takes the place of a C function")]
unsafe extern "C" fn getrandom(buffer: *mut c_void, length: usize, _flags: c_uint) -> isize {
    // SAFETY: the caller's promise.
    let bytes = unsafe { std::slice::from_raw_parts_mut(buffer.cast::<u8>(), length) };
    for chunk in bytes.chunks_mut(8) {
        let mut z = STATE.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
        STATE.set(z);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^= z >> 31;
        chunk.copy_from_slice(&z.to_le_bytes()[..chunk.len()]);
    }
    // No buffer is longer than memory.
    isize::try_from(length).unwrap_or(isize::MAX)
}
