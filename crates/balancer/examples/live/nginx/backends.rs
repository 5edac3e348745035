//! The servers behind nginx: sockets of ours that answer, refuse, fail or hold as they are told.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use balancer::Address;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::{Notify, oneshot};
use tokio::task::JoinHandle;

use crate::Error;

/// Every address that listens, and every request that is held.
#[derive(Debug, Default)]
pub(crate) struct Backends {
    listening: Mutex<HashMap<Address, JoinHandle<()>>>,
    held: Mutex<HashMap<String, Held>>,
    arrived: Notify,
}

/// A request that waits for its answer.
#[derive(Debug)]
struct Held {
    at: String,
    answer: oneshot::Sender<()>,
}

impl Backends {
    /// Lets an address accept connections.
    pub(crate) async fn open(self: &Arc<Self>, address: &Address) -> Result<(), Error> {
        if lock(&self.listening).contains_key(address) {
            return Ok(());
        }
        let failed = |error: io::Error| format!("cannot listen on {address}: {error}");
        let (backends, at) = (Arc::clone(self), address.to_string());
        let task = match address {
            Address::Inet(inet) => {
                let listener = TcpListener::bind(inet).await.map_err(failed)?;
                tokio::spawn(async move {
                    while let Ok((stream, _)) = listener.accept().await {
                        tokio::spawn(Arc::clone(&backends).answer(stream, at.clone()));
                    }
                })
            }
            Address::Unix(path) => {
                let listener = UnixListener::bind(path).map_err(failed)?;
                tokio::spawn(async move {
                    while let Ok((stream, _)) = listener.accept().await {
                        tokio::spawn(Arc::clone(&backends).answer(stream, at.clone()));
                    }
                })
            }
            _ => return Err(format!("{address}: no such kind of address").into()),
        };
        lock(&self.listening).insert(address.clone(), task);
        Ok(())
    }

    /// Lets an address refuse connections. When this returns, it does.
    pub(crate) async fn close(&self, address: &Address) -> Result<(), Error> {
        let Some(task) = lock(&self.listening).remove(address) else {
            return Ok(());
        };
        task.abort();
        // The socket is closed with the task; that it was cancelled is no news.
        drop(task.await);
        if let Address::Unix(path) = address {
            std::fs::remove_file(path)?;
        }
        Ok(())
    }

    /// Waits until the request of this name is held, and returns where.
    pub(crate) async fn arrival(&self, request: &str) -> String {
        loop {
            let arrived = self.arrived.notified();
            if let Some(held) = lock(&self.held).get(request) {
                return held.at.clone();
            }
            arrived.await;
        }
    }

    /// Lets the request of this name be answered, if it is held.
    pub(crate) fn release(&self, request: &str) {
        if let Some(held) = lock(&self.held).remove(request) {
            // If nginx has hung up, whoever waits for the answer will say so.
            let _ = held.answer.send(());
        }
    }

    /// One connection, one request. Without a length the answer ends with the connection, so what
    /// nginx makes of it ends only after it has counted the request out.
    async fn answer<S: AsyncRead + AsyncWrite + Unpin>(self: Arc<Self>, mut stream: S, at: String) {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            match stream.read_buf(&mut head).await {
                Ok(0) | Err(_) => return,
                Ok(_) => {}
            }
        }
        if let Some(request) = field(&head, "x-hold") {
            let (answer, released) = oneshot::channel();
            let held = Held {
                at: at.clone(),
                answer,
            };
            lock(&self.held).insert(request, held);
            self.arrived.notify_waiters();
            if released.await.is_err() {
                return;
            }
        }
        let fails = field(&head, "x-fail").is_some_and(|list| list.split(' ').any(|a| a == at));
        let status = if fails { "500 Oh" } else { "200 OK" };
        let answer = format!("HTTP/1.1 {status}\r\nX-Served-By: {at}\r\n\r\n");
        // A client that does not wait for it will not miss it.
        drop(stream.write_all(answer.as_bytes()).await);
    }
}

/// The value of a header field, by its name in lower case.
fn field(head: &[u8], name: &str) -> Option<String> {
    head.split(|&byte| byte == b'\n').find_map(|line| {
        let (found, value) = line.split_at_checked(name.len())?;
        let value = value.strip_prefix(b":")?;
        found
            .eq_ignore_ascii_case(name.as_bytes())
            .then(|| String::from_utf8_lossy(value).trim().to_owned())
    })
}

/// What is behind a lock here is whole whatever became of its last holder.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_is_found_by_its_whole_name() {
        let head = b"GET / HTTP/1.0\r\nX-Key: x-fail\xff\r\nX-Failed: a\r\nX-Fail: b c\r\n\r\n";
        assert_eq!(field(head, "x-fail").as_deref(), Some("b c"));
        assert_eq!(field(head, "x-hold"), None);
    }

    #[tokio::test]
    async fn an_address_refuses_as_soon_as_it_is_closed() {
        let backends = Arc::new(Backends::default());
        let free = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = Address::from(free.local_addr().unwrap());
        drop(free);
        let connect = || tokio::net::TcpStream::connect(address.as_inet().unwrap());
        backends.open(&address).await.unwrap();
        assert!(connect().await.is_ok());
        backends.close(&address).await.unwrap();
        assert!(connect().await.is_err());
        backends.open(&address).await.unwrap();
        assert!(connect().await.is_ok());
    }
}
