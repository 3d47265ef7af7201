//! Free ports on loopback.

use std::{collections::BTreeSet, net::TcpListener};

use parking_lot::Mutex;

/// A TCP port on 127.0.0.1 that nobody listens on, and that this process has not been given before.
///
/// Ports come from below the range that systems take for outgoing connections: a port that a test
/// closes for a while (an API server that is stopped) is not taken by somebody's connection meanwhile.
/// Another process can still be faster: whoever starts a server on it tries again with another.
///
/// # Panics
/// When a thousand attempts found none.
#[expect(clippy::panic, reason = "a machine without a free port can run no test")]
pub fn free_port() -> u16 {
    static GIVEN: Mutex<BTreeSet<u16>> = Mutex::new(BTreeSet::new());
    for _ in 0..1000 {
        let port = fastrand::u16(20_000..30_000);
        if TcpListener::bind(("127.0.0.1", port)).is_ok() && GIVEN.lock().insert(port) {
            return port;
        }
    }
    panic!("no free port on 127.0.0.1 between 20000 and 30000")
}
