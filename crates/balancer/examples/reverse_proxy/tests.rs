use std::collections::BTreeSet;
use std::io;
use std::net::Ipv4Addr;

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode, Version};
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::oneshot;

use super::*;
use crate::proxy::{ATTEMPT_COUNT, X_FORWARDED_FOR, remove_hop_by_hop};

/// A proxy over these backends, and its balancer.
async fn proxy(backends: &[SocketAddr]) -> (SocketAddr, Arc<LoadBalancer<Consistent>>) {
    let backends = backends.iter().map(|&addr| Backend::new(addr));
    let balancer = Arc::new(LoadBalancer::new(Static::new(backends)).unwrap());
    balancer.update().await.unwrap();
    let listener = TcpListener::bind(LOOPBACK).await.unwrap();
    let addr = listener.local_addr().unwrap();
    tokio::spawn(Proxy::new(Arc::clone(&balancer)).serve(listener, std::future::pending()));
    (addr, balancer)
}

/// A backend that answers with the method, who it is forwarded for, and the body.
async fn echo() -> SocketAddr {
    let listener = TcpListener::bind(LOOPBACK).await.unwrap();
    let addr = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let service = service_fn(async |request: Request<Incoming>| {
                let (head, body) = request.into_parts();
                let client = head.headers.get(X_FORWARDED_FOR).cloned();
                let body = body.collect().await?.to_bytes();
                let text = format!("{} {client:?} {body:?}", head.method);
                Ok::<_, hyper::Error>(Response::new(text))
            });
            let stream = TokioIo::new(stream);
            tokio::spawn(http1::Builder::new().serve_connection(stream, service));
        }
    });
    addr
}

/// A backend that answers every request with a status of its own.
async fn answering(status: StatusCode) -> SocketAddr {
    let listener = TcpListener::bind(LOOPBACK).await.unwrap();
    let addr = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let service = service_fn(move |_: Request<Incoming>| async move {
                let mut response = Response::new(format!("it is {status}"));
                *response.status_mut() = status;
                Ok::<_, std::convert::Infallible>(response)
            });
            let stream = TokioIo::new(stream);
            tokio::spawn(http1::Builder::new().serve_connection(stream, service));
        }
    });
    addr
}

/// A port that refuses for as long as the socket lives.
fn refusing() -> io::Result<(TcpSocket, SocketAddr)> {
    let socket = TcpSocket::new_v4()?;
    socket.bind(LOOPBACK)?;
    let addr = socket.local_addr()?;
    Ok((socket, addr))
}

/// A backend that reads a request and closes the connection.
async fn cutting() -> SocketAddr {
    let listener = TcpListener::bind(LOOPBACK).await.unwrap();
    let addr = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            read_head(&mut stream).await;
        }
    });
    addr
}

async fn read_head(stream: &mut TcpStream) {
    let mut head = Vec::new();
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        assert_ne!(stream.read_buf(&mut head).await.unwrap(), 0, "{head:?}");
    }
}

async fn ask(method: &Method, proxy: SocketAddr, path: usize) -> (StatusCode, Bytes) {
    let client = Client::builder(TokioExecutor::new()).build_http::<Full<Bytes>>();
    let request = Request::builder()
        .method(method)
        .uri(format!("http://{proxy}/{path}"))
        .body(Full::from("hello"))
        .unwrap();
    let response = client.request(request).await.unwrap();
    let status = response.status();
    (status, response.collect().await.unwrap().to_bytes())
}

#[tokio::test]
async fn a_backend_that_refuses_is_passed_over() {
    let (_socket, refusing) = refusing().unwrap();
    let (proxy, _) = proxy(&[refusing, echo().await]).await;
    for path in 0..PATHS {
        for method in [Method::GET, Method::POST] {
            let answer = ask(&method, proxy, path).await;
            let text = format!("{method} Some(\"127.0.0.1\") b\"hello\"");
            assert_eq!(answer, (StatusCode::OK, text.into()));
        }
    }
}

#[tokio::test]
async fn what_may_have_been_carried_out_is_sent_again_only_if_idempotent() {
    let (proxy, _) = proxy(&[cutting().await, echo().await]).await;
    let mut posted = BTreeSet::new();
    for path in 0..PATHS {
        let (status, _) = ask(&Method::PUT, proxy, path).await;
        assert_eq!(status, StatusCode::OK);
        posted.insert(ask(&Method::POST, proxy, path).await.0);
    }
    let expected = [StatusCode::OK, StatusCode::BAD_GATEWAY];
    assert_eq!(posted, BTreeSet::from(expected));
}

#[tokio::test]
async fn an_answer_that_says_failure_is_passed_on_only_for_want_of_a_better_one() {
    let (proxy, balancer) = proxy(&[answering(StatusCode::BAD_GATEWAY).await, echo().await]).await;
    let mut posted = BTreeSet::new();
    for path in 0..PATHS {
        let (status, _) = ask(&Method::GET, proxy, path).await;
        assert_eq!(status, StatusCode::OK);
        posted.insert(ask(&Method::POST, proxy, path).await);
    }
    let bad = (StatusCode::BAD_GATEWAY, "it is 502 Bad Gateway".into());
    let good = (StatusCode::OK, "POST Some(\"127.0.0.1\") b\"hello\"".into());
    assert_eq!(posted, BTreeSet::from([bad, good]));
    let failures = balancer.status().backends.into_iter().map(|it| it.failures);
    assert!(failures.max() >= Some(2), "told to the balancer");
}

#[tokio::test]
async fn other_errors_are_answers() {
    let (proxy, balancer) = proxy(&[answering(StatusCode::NOT_IMPLEMENTED).await]).await;
    let (status, body) = ask(&Method::GET, proxy, 0).await;
    assert_eq!(status, StatusCode::NOT_IMPLEMENTED);
    assert_eq!(body, "it is 501 Not Implemented");
    assert_eq!(balancer.status().backends[0].failures, 0);
}

#[tokio::test]
async fn without_a_backend_the_answer_is_503() {
    let (proxy, _) = proxy(&[]).await;
    let (status, _) = ask(&Method::GET, proxy, 0).await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
}

#[tokio::test]
async fn a_request_is_in_flight_until_its_last_byte() {
    let listener = TcpListener::bind(LOOPBACK).await.unwrap();
    let (go_on, told) = oneshot::channel::<()>();
    let backend = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        read_head(&mut stream).await;
        let begin = b"HTTP/1.0 200 OK\r\ncontent-length: 4\r\n\r\nab";
        stream.write_all(begin).await.unwrap();
        told.await.unwrap();
        stream.write_all(b"cd").await.unwrap();
    });
    let (proxy, balancer) = proxy(&[backend]).await;
    let in_flight = || balancer.status().backends[0].in_flight;

    let client = Client::builder(TokioExecutor::new()).build_http::<Full<Bytes>>();
    let uri = format!("http://{proxy}/").parse().unwrap();
    let response = client.get(uri).await.unwrap();
    assert_eq!((response.status(), in_flight()), (StatusCode::OK, 1));
    assert_eq!(response.headers()[ATTEMPT_COUNT], "1");
    assert_eq!(response.version(), Version::HTTP_11, "1.0 concerns one hop");
    go_on.send(()).unwrap();
    let body = response.collect().await.unwrap().to_bytes();
    assert_eq!(body, "abcd");
    // The proxy drops the body just after it has sent the last byte.
    while in_flight() > 0 {
        tokio::task::yield_now().await;
    }
}

#[test]
fn headers_of_one_connection_are_not_passed_on() {
    let mut headers = HeaderMap::new();
    headers.insert(header::CONNECTION, HeaderValue::from_static("close, X-Hop"));
    headers.insert("x-hop", HeaderValue::from_static("1"));
    headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert("x-end", HeaderValue::from_static("1"));
    remove_hop_by_hop(&mut headers);
    let names: Vec<_> = headers.keys().map(HeaderName::as_str).collect();
    assert_eq!(names, ["x-end"]);
}

const LOOPBACK: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// Enough that each of two backends owns some of them, but for one run in 2^30 or fewer.
const PATHS: usize = 40;
