//! The HTTP check against real sockets.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use balancer::{Backend, CheckError, HealthCheck, HttpCheck};
use http::Method;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::time::timeout;

/// A server that gives `answer` to every request, on every connection.
struct Server {
    backend: Backend,
    connections: Arc<AtomicUsize>,
    requests: mpsc::UnboundedReceiver<String>,
}

impl Server {
    async fn start(answer: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let backend = Backend::new(listener.local_addr().unwrap());
        let connections = Arc::new(AtomicUsize::new(0));
        let (sender, requests) = mpsc::unbounded_channel();
        tokio::spawn({
            let connections = Arc::clone(&connections);
            async move {
                while let Ok((stream, _)) = listener.accept().await {
                    connections.fetch_add(1, Ordering::Relaxed);
                    tokio::spawn(serve(stream, answer, sender.clone()));
                }
            }
        });
        Self {
            backend,
            connections,
            requests,
        }
    }

    fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }
}

async fn serve(mut stream: TcpStream, answer: &str, requests: mpsc::UnboundedSender<String>) {
    let mut request = String::new();
    let mut buffer = [0; 1024];
    while let Ok(read @ 1..) = stream.read(&mut buffer).await {
        request.push_str(std::str::from_utf8(&buffer[..read]).unwrap());
        if request.ends_with("\r\n\r\n") {
            requests.send(std::mem::take(&mut request)).unwrap();
            stream.write_all(answer.as_bytes()).await.unwrap();
        }
    }
}

fn check() -> HttpCheck {
    HttpCheck::new("/health?deep=1").unwrap()
}

async fn failure(check: &HttpCheck, backend: &Backend) -> String {
    check.check(backend).await.unwrap_err().to_string()
}

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nall right";

#[tokio::test]
async fn asks_what_it_was_told_to_ask() {
    let mut server = Server::start(OK).await;
    check().check(&server.backend).await.unwrap();
    let request = server.requests.recv().await.unwrap().to_lowercase();
    assert!(
        request.starts_with("get /health?deep=1 http/1.1\r\n"),
        "{request}"
    );
    assert!(
        request.contains(&format!("host: {}\r\n", server.backend.addr)),
        "{request}"
    );
    assert!(request.contains("connection: close\r\n"), "{request}");

    let check = check()
        .method(Method::OPTIONS)
        .host("shop.example")
        .unwrap();
    check.check(&server.backend).await.unwrap();
    let request = server.requests.recv().await.unwrap().to_lowercase();
    assert!(request.starts_with("options "), "{request}");
    assert!(request.contains("host: shop.example\r\n"), "{request}");
}

#[tokio::test]
async fn statuses_and_bodies() {
    let ok = Server::start(OK).await;
    check().contains("right").check(&ok.backend).await.unwrap();
    let error = failure(&check().contains("wrong"), &ok.backend).await;
    assert_eq!(error, "the body does not hold the expected text");
    let error = failure(&check().contains("right").max_body(4), &ok.backend).await;
    assert_eq!(error, "the body does not hold the expected text");

    let moved = Server::start("HTTP/1.1 301 Moved\r\ncontent-length: 0\r\n\r\n").await;
    assert_eq!(failure(&check(), &moved.backend).await, "status 301");
    let check_both = check().statuses([200..=200, 300..=399]);
    check_both.check(&moved.backend).await.unwrap();
    check_both.check(&ok.backend).await.unwrap();

    let empty = Server::start("HTTP/1.1 204 No Content\r\n\r\n").await;
    check().check(&empty.backend).await.unwrap();

    let early =
        Server::start("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
    check().check(&early.await.backend).await.unwrap();
}

#[tokio::test]
async fn head_has_no_body_to_wait_for() {
    let server = Server::start("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n").await;
    check()
        .method(Method::HEAD)
        .check(&server.backend)
        .await
        .unwrap();
}

#[tokio::test]
async fn connections_are_used_again_only_if_told_so() {
    let server = Server::start(OK).await;
    let fresh = check();
    for _ in 0..5 {
        fresh.check(&server.backend).await.unwrap();
    }
    assert_eq!(server.connections(), 5);
    let reusing = check().reuse_connections();
    for _ in 0..5 {
        reusing.check(&server.backend).await.unwrap();
    }
    assert_eq!(server.connections(), 6);
    reusing.forget(&server.backend);
    reusing.check(&server.backend).await.unwrap();
    assert_eq!(server.connections(), 7);
}

#[tokio::test]
async fn a_kept_connection_that_was_closed_is_no_failure() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let backend = Backend::new(listener.local_addr().unwrap());
    let server = tokio::spawn(async move {
        for _ in 0..3 {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut buffer = [0; 1024];
            assert!(stream.read(&mut buffer).await.unwrap() > 0);
            stream.write_all(OK.as_bytes()).await.unwrap();
        }
    });
    let check = check().reuse_connections();
    for _ in 0..3 {
        check.check(&backend).await.unwrap();
    }
    server.await.unwrap();
    check.check(&backend).await.unwrap_err();
}

#[tokio::test]
async fn the_port_can_be_another() {
    let health = Server::start(OK).await;
    let port = health.backend.addr.as_inet().unwrap().port();
    let traffic = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let backend = Backend::new(traffic.local_addr().unwrap());
    check().port(port).check(&backend).await.unwrap();
    assert_eq!(health.connections(), 1);
}

#[tokio::test]
async fn refused_reset_and_nonsense_fail() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let backend = Backend::new(listener.local_addr().unwrap());
    let server = tokio::spawn(async move {
        // With a request unread, closing resets the connection.
        drop(listener.accept().await.unwrap());
    });
    check().check(&backend).await.unwrap_err();
    server.await.unwrap();
    let error = failure(&check(), &backend).await.to_lowercase();
    assert!(error.contains("refused"), "{error}");
    let nonsense = Server::start("SSH-2.0-OpenSSH_9.2\r\n\r\n").await;
    check().check(&nonsense.backend).await.unwrap_err();
}

/// In paused time the clock goes on as soon as nothing else can happen.
#[tokio::test(start_paused = true)]
async fn silence_and_stalled_bodies_run_into_the_timeout() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let silent = Backend::new(silent.local_addr().unwrap());
    let stalled = Server::start("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nall").await;
    let headless = Server::start("HTTP/1.1 200 OK\r\n").await;
    let check = check().timeout(Duration::from_secs(3));
    for backend in [&silent, &stalled.backend, &headless.backend] {
        let ended = timeout(check.time_limit(), check.check(backend)).await;
        let ended = ended.map_err(|_| CheckError::TimedOut {
            after: check.time_limit(),
        });
        assert!(
            matches!(ended, Err(CheckError::TimedOut { .. })),
            "{ended:?}"
        );
    }
}

#[cfg(unix)]
#[tokio::test]
async fn over_a_unix_socket() {
    let directory = std::env::temp_dir().join(format!("balancer-http-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let path = directory.join("health.sock");
    let listener = tokio::net::UnixListener::bind(&path).unwrap();
    let server = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut buffer = [0; 1024];
        let read = stream.read(&mut buffer).await.unwrap();
        stream.write_all(OK.as_bytes()).await.unwrap();
        String::from_utf8(buffer[..read].to_vec()).unwrap()
    });
    check().check(&Backend::new(path)).await.unwrap();
    let request = server.await.unwrap();
    assert!(
        request.to_lowercase().contains("host: localhost\r\n"),
        "{request}"
    );
    std::fs::remove_dir_all(&directory).unwrap();
}

#[test]
fn what_cannot_be_asked_is_an_error() {
    assert!(HttpCheck::new("/with space").is_err());
    assert!(check().host("two\r\nlines").is_err());
}
