//! The signals that ask the program to stop.

use std::io;

use futures::{Stream, StreamExt, stream::select};
use tokio::signal::unix::{SignalKind, signal};

/// A request to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// SIGTERM: what the kubelet sends.
    Terminate,
    /// SIGINT: what Ctrl-C sends.
    Interrupt,
}

impl Signal {
    /// The signal as people write it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Terminate => "SIGTERM",
            Self::Interrupt => "SIGINT",
        }
    }

    /// What a process ends with that this signal ended.
    pub fn exit_code(self) -> u8 {
        match self {
            Self::Terminate => 128 + 15,
            Self::Interrupt => 128 + 2,
        }
    }
}

/// The requests to stop, from now on. They no longer end the process by themselves.
///
/// # Errors
/// The handlers cannot be installed.
pub fn signals() -> io::Result<impl Stream<Item = Signal> + Unpin + Send> {
    let stream = |kind, name: Signal| {
        signal(kind).map(|signal| {
            futures::stream::unfold(signal, async |mut s| s.recv().await.map(|()| ((), s)))
                .map(move |()| name)
                .boxed()
        })
    };
    Ok(select(
        stream(SignalKind::terminate(), Signal::Terminate)?,
        stream(SignalKind::interrupt(), Signal::Interrupt)?,
    ))
}
