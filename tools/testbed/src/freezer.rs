//! A TCP connection in the middle of which the answers can be stopped.
//!
//! What the client sends goes through; what the server answers stays where it is until the thaw.
//! Put between an API server and etcd, it makes the API server's caches stand still while its
//! writes arrive.

use std::net::SocketAddr;

use anyhow::Result;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::watch,
};

/// A listener in front of another, and its state. All connections end when it is dropped.
#[derive(Debug)]
pub struct Freezer {
    port: u16,
    frozen: watch::Sender<bool>,
    accepting: tokio::task::JoinHandle<()>,
}

impl Freezer {
    /// Listens on a free port of loopback, in front of a port of loopback.
    ///
    /// # Errors
    /// When there is no port to be had.
    pub async fn start(server: u16) -> Result<Self> {
        let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await?;
        let port = listener.local_addr()?.port();
        let (frozen, state) = watch::channel(false);
        let accepting = tokio::spawn(accept(listener, server, state));
        Ok(Self { port, frozen, accepting })
    }

    /// The port that it listens on.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Passes no more answers, on any connection.
    pub fn freeze(&self) {
        self.frozen.send_replace(true);
    }

    /// Passes on what was held back, and goes on.
    pub fn thaw(&self) {
        self.frozen.send_replace(false);
    }
}

impl Drop for Freezer {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn accept(listener: TcpListener, server: u16, frozen: watch::Receiver<bool>) {
    while let Ok((client, _)) = listener.accept().await {
        let frozen = frozen.clone();
        tokio::spawn(async move {
            let server = TcpStream::connect(SocketAddr::from(([127, 0, 0, 1], server))).await;
            let Ok(server) = server else { return };
            let _ = (client.set_nodelay(true), server.set_nodelay(true));
            let (mut from_client, to_client) = client.into_split();
            let (from_server, mut to_server) = server.into_split();
            // Whichever side ends first ends both.
            tokio::select! {
                _ = tokio::io::copy(&mut from_client, &mut to_server) => {}
                () = answers(from_server, to_client, frozen) => {}
            }
        });
    }
}

async fn answers(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut frozen: watch::Receiver<bool>,
) {
    let mut bytes = vec![0; 16 * 1024];
    while let Ok(count @ 1..) = from.read(&mut bytes).await {
        // Its end is the end of the connection.
        if frozen.wait_for(|frozen| !frozen).await.is_err()
            || to.write_all(&bytes[..count]).await.is_err()
        {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn answers_wait_for_the_thaw_and_questions_do_not() {
        let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let freezer = Freezer::start(server.local_addr().unwrap().port()).await.unwrap();
        let mut client = TcpStream::connect(("127.0.0.1", freezer.port())).await.unwrap();
        let (mut there, _) = server.accept().await.unwrap();
        let mut bytes = [0; 4];

        freezer.freeze();
        client.write_all(b"ask?").await.unwrap();
        there.read_exact(&mut bytes).await.unwrap();
        there.write_all(b"yes.").await.unwrap();
        let early = tokio::time::timeout(Duration::from_millis(50), client.read_exact(&mut bytes));
        assert!(early.await.is_err(), "an answer while frozen");

        freezer.thaw();
        client.read_exact(&mut bytes).await.unwrap();
        assert_eq!(&bytes, b"yes.");
        drop(freezer);
        drop(there);
        assert_eq!(client.read(&mut bytes).await.unwrap(), 0);
    }
}
