//! Over real HTTP servers on loopback.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use balancer::selection::{FailureKind, RoundRobin};
use balancer::tower::{Balance, BalanceError, Retries, UntilBodyEnds};
use balancer::{Backend, LoadBalancer, Static};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1 as client;
use hyper::server::conn::http1 as server;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::client::legacy::{self, Client, connect::HttpConnector};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tower::{Service, ServiceExt};

use crate::support::{failures, in_flight, poll_once};

/// A server that answers with this status and its own address; it ends with the test.
async fn server(status: StatusCode) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let addr = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let answer = move |_: Request<Incoming>| async move {
                let mut response = Response::new(addr.to_string());
                *response.status_mut() = status;
                Ok::<_, Infallible>(response)
            };
            let connection = server::Builder::new();
            tokio::spawn(connection.serve_connection(TokioIo::new(stream), service_fn(answer)));
        }
    });
    addr
}

/// A port that refuses for as long as the socket lives.
fn refusing() -> (TcpSocket, SocketAddr) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
    let addr = socket.local_addr().unwrap();
    (socket, addr)
}

async fn pool(
    backends: impl IntoIterator<Item = Backend>,
) -> (Arc<Static>, Arc<LoadBalancer<RoundRobin>>) {
    let list = Arc::new(Static::new(backends));
    let balancer = LoadBalancer::new(Arc::clone(&list)).unwrap();
    balancer.update().await.unwrap();
    (list, Arc::new(balancer))
}

/// A client of one backend: hyper-util's, told whom to ask.
#[derive(Clone)]
struct OneBackend {
    client: Client<HttpConnector, Full<Bytes>>,
    addr: SocketAddr,
}

impl Service<Request<Full<Bytes>>> for OneBackend {
    type Response = Response<Incoming>;
    type Error = legacy::Error;
    type Future = legacy::ResponseFuture;

    fn poll_ready(
        &mut self,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Result<(), legacy::Error>> {
        std::task::Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<Full<Bytes>>) -> Self::Future {
        let uri = format!("http://{}{}", self.addr, request.uri().path());
        *request.uri_mut() = uri.parse().unwrap();
        self.client.request(request)
    }
}

/// One pool of connections for all backends.
#[derive(Clone)]
struct Clients(Client<HttpConnector, Full<Bytes>>);

impl Service<Backend> for Clients {
    type Response = OneBackend;
    type Error = Infallible;
    type Future = std::future::Ready<Result<OneBackend, Infallible>>;

    fn poll_ready(
        &mut self,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Result<(), Infallible>> {
        std::task::Poll::Ready(Ok(()))
    }

    fn call(&mut self, backend: Backend) -> Self::Future {
        let (client, addr) = (self.0.clone(), backend.addr.as_inet().unwrap());
        std::future::ready(Ok(OneBackend { client, addr }))
    }
}

fn clients() -> Clients {
    Clients(Client::builder(TokioExecutor::new()).build_http())
}

fn judge(result: Result<&Response<Incoming>, &legacy::Error>) -> Option<FailureKind> {
    match result {
        Ok(response) if response.status().is_server_error() => Some(FailureKind::Status),
        Ok(_) => None,
        Err(error) if error.is_connect() => Some(FailureKind::Connect),
        Err(_) => Some(FailureKind::Protocol),
    }
}

fn request(method: Method) -> Request<Full<Bytes>> {
    let request = Request::builder().method(method).uri("/");
    request.body(Full::default()).unwrap()
}

async fn text(
    response: Response<impl hyper::body::Body<Data = Bytes, Error = hyper::Error>>,
) -> String {
    let body = response.into_body().collect().await.unwrap();
    String::from_utf8(body.to_bytes().to_vec()).unwrap()
}

#[tokio::test]
async fn requests_are_shared_by_weight() {
    let (one, two) = (server(StatusCode::OK).await, server(StatusCode::OK).await);
    let backends = [Backend::new(one).with_weight(3), Backend::new(two)];
    let (_, pool) = pool(backends).await;
    let mut service = Balance::new(Arc::clone(&pool), clients())
        .classify(judge)
        .hold(UntilBodyEnds);
    let mut answers = BTreeMap::<String, usize>::new();
    for _ in 0..40 {
        let response = service
            .ready()
            .await
            .unwrap()
            .call(request(Method::GET))
            .await;
        *answers.entry(text(response.unwrap()).await).or_default() += 1;
    }
    let expected = BTreeMap::from([(one.to_string(), 30), (two.to_string(), 10)]);
    assert_eq!(answers, expected);
    assert_eq!(in_flight(&pool), [0, 0]);
}

#[tokio::test]
async fn a_refused_connection_fails_over_whatever_the_method() {
    let ((_socket, refusing), well) = (refusing(), server(StatusCode::OK).await);
    let (_, pool) = pool([Backend::new(refusing), Backend::new(well)]).await;
    let service = Balance::new(Arc::clone(&pool), clients())
        .classify(judge)
        .retry(Retries::new(1));
    for method in [Method::GET, Method::POST, Method::GET, Method::POST] {
        let response = service.clone().oneshot(request(method)).await.unwrap();
        assert_eq!(text(response).await, well.to_string());
    }
    // Without retries it is the caller's.
    let service = Balance::new(Arc::clone(&pool), clients()).classify(judge);
    let mut refused = 0;
    for _ in 0..4 {
        match service.clone().oneshot(request(Method::GET)).await {
            Ok(response) => assert_eq!(text(response).await, well.to_string()),
            Err(BalanceError::Service { addr, cause }) => {
                assert_eq!(addr.as_inet(), Some(refusing));
                let cause = cause.downcast_ref::<legacy::Error>().unwrap();
                assert!(cause.is_connect(), "{cause:?}");
                refused += 1;
            }
            Err(other) => panic!("{other:?}"),
        }
    }
    assert_eq!(refused, 2);
    assert_eq!(in_flight(&pool), [0, 0]);
}

#[tokio::test]
async fn an_answer_of_503_is_tried_elsewhere_only_for_idempotent_methods() {
    let bad = server(StatusCode::SERVICE_UNAVAILABLE).await;
    let well = server(StatusCode::OK).await;
    let (_, pool) = pool([Backend::new(bad), Backend::new(well)]).await;
    let idempotent = |request: &Request<Full<Bytes>>, failure| {
        failure == FailureKind::Connect || request.method().is_idempotent()
    };
    let service = Balance::new(Arc::clone(&pool), clients())
        .classify(judge)
        .retry(Retries::new(1).when(idempotent));
    let ask = async |method| {
        let response = service.clone().oneshot(request(method)).await.unwrap();
        response.status()
    };
    for _ in 0..4 {
        assert_eq!(ask(Method::GET).await, StatusCode::OK);
    }
    let posted = [ask(Method::POST).await, ask(Method::POST).await];
    let either = [StatusCode::OK, StatusCode::SERVICE_UNAVAILABLE];
    assert!(
        posted == either || posted == [either[1], either[0]],
        "{posted:?}"
    );
    assert!(failures(&pool).iter().sum::<u64>() >= 2);
}

/// The factory connects, and the service is the connection: one request at a time.
#[derive(Clone)]
struct Connect;

type Connection =
    tower::util::BoxCloneService<Request<Full<Bytes>>, Response<Incoming>, hyper::Error>;

impl Service<Backend> for Connect {
    type Response = Connection;
    type Error = std::io::Error;
    type Future = std::pin::Pin<Box<dyn Future<Output = std::io::Result<Connection>> + Send>>;

    fn poll_ready(
        &mut self,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<std::io::Result<()>> {
        std::task::Poll::Ready(Ok(()))
    }

    fn call(&mut self, backend: Backend) -> Self::Future {
        Box::pin(async move {
            let stream = TcpStream::connect(backend.addr.as_inet().unwrap()).await?;
            let connected = client::handshake(TokioIo::new(stream)).await;
            let (sender, driver) = connected.map_err(std::io::Error::other)?;
            tokio::spawn(driver);
            let sender = Arc::new(tokio::sync::Mutex::new(sender));
            let send = move |request| {
                let sender = Arc::clone(&sender);
                async move {
                    let mut sender = sender.lock().await;
                    sender.ready().await?;
                    sender.send_request(request).await
                }
            };
            Ok(Connection::new(tower::service_fn(send)))
        })
    }
}

#[tokio::test]
async fn a_factory_that_cannot_connect_fails_over_though_nothing_can_be_copied_later() {
    let ((_socket, refusing), well) = (refusing(), server(StatusCode::OK).await);
    let (list, pool) = pool([Backend::new(refusing), Backend::new(well)]).await;
    let service = Balance::new(Arc::clone(&pool), Connect).retry(Retries::new(1));
    for _ in 0..4 {
        let response = service
            .clone()
            .oneshot(request(Method::POST))
            .await
            .unwrap();
        assert_eq!(text(response).await, well.to_string());
    }
    list.remove(&well.into());
    pool.update().await.unwrap();
    let error = service.oneshot(request(Method::POST)).await.unwrap_err();
    let BalanceError::Make { addr, cause } = &error else {
        panic!("{error:?}");
    };
    assert_eq!(addr.as_inet(), Some(refusing));
    let cause = cause.downcast_ref::<std::io::Error>().unwrap();
    assert_eq!(cause.kind(), std::io::ErrorKind::ConnectionRefused);
}

#[tokio::test]
async fn the_connection_to_a_backend_that_leaves_is_closed() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let addr = listener.local_addr().unwrap();
    let (list, pool) = pool([Backend::new(addr)]).await;
    let serving = tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        let answer =
            |_: Request<Incoming>| async { Ok::<_, Infallible>(Response::new(String::new())) };
        let connection = server::Builder::new();
        connection
            .serve_connection(TokioIo::new(stream), service_fn(answer))
            .await
    });
    let mut service = Balance::new(Arc::clone(&pool), Connect);
    for _ in 0..2 {
        let response = service.call(request(Method::GET)).await.unwrap();
        assert_eq!(text(response).await, "");
    }
    assert!(!serving.is_finished(), "kept from request to request");
    list.remove(&addr.into());
    pool.update().await.unwrap();
    // It sees the end of the connection, while the balancer and its service live on.
    serving.await.unwrap().unwrap();
    drop(service);
}

/// As a server's service: a proxy of a few lines.
#[tokio::test]
async fn it_serves_as_a_service_of_hyper() {
    let well = server(StatusCode::OK).await;
    let (_, pool) = pool([Backend::new(well)]).await;
    let forward = Balance::new(Arc::clone(&pool), clients())
        .classify(judge)
        .hold(UntilBodyEnds);
    let forward = forward.map_request(|request: Request<Incoming>| {
        let (head, _) = request.into_parts();
        Request::from_parts(head, Full::default())
    });
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let proxy = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let service = TowerToHyperService::new(forward.clone());
            let connection = server::Builder::new();
            tokio::spawn(connection.serve_connection(TokioIo::new(stream), service));
        }
    });
    let mut client = OneBackend {
        client: clients().0,
        addr: proxy,
    };
    for _ in 0..3 {
        let response = client.call(request(Method::GET)).await.unwrap();
        assert_eq!(text(response).await, well.to_string());
    }
    while in_flight(&pool) != [0] {
        tokio::task::yield_now().await;
    }
}

/// A server that accepts and says nothing holds the request; giving it up releases it.
#[tokio::test]
async fn a_request_on_a_silent_server_is_in_flight_until_it_is_given_up() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let silent = listener.local_addr().unwrap();
    let (_, pool) = pool([Backend::new(silent)]).await;
    let mut service = Balance::new(Arc::clone(&pool), clients()).classify(judge);
    let mut request = Box::pin(service.call(request(Method::GET)));
    assert!(poll_once(&mut request).await.is_pending());
    let accepted = tokio::select! {
        accepted = listener.accept() => accepted.unwrap(),
        _ = &mut request => panic!("nobody answers"),
    };
    assert_eq!(in_flight(&pool), [1]);
    drop(request);
    assert_eq!((in_flight(&pool), failures(&pool)), (vec![0], vec![0]));
    drop(accepted);
}
