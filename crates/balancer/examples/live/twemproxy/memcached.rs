//! A memcached as far as twemproxy needs one, and the answers that come through it.

use std::net::SocketAddr;

use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

use crate::Error;

/// Starts one in which the value of every key is its own address.
pub(crate) async fn serve(address: SocketAddr) -> Result<(), Error> {
    let listener = TcpListener::bind(address).await;
    let listener = listener.map_err(|error| format!("cannot listen on {address}: {error}"))?;
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            // Whoever waits for an answer that does not come says so.
            tokio::spawn(async move { drop(values(stream, &address.to_string()).await) });
        }
    });
    Ok(())
}

async fn values(mut stream: TcpStream, value: &str) -> Result<(), Error> {
    // Answers are small and many.
    stream.set_nodelay(true)?;
    let (read, mut write) = stream.split();
    let mut read = BufReader::new(read);
    let mut line = Vec::new();
    while read.read_until(b'\n', &mut line).await? > 0 {
        let key = line.trim_ascii().strip_prefix(b"get ").unwrap_or_default();
        let value = format!(" 0 {}\r\n{value}\r\nEND\r\n", value.len());
        write
            .write_all(&[b"VALUE ", key, value.as_bytes()].concat())
            .await?;
        line.clear();
    }
    Ok(())
}

/// The value in the answer to one `get`.
pub(crate) async fn value(read: &mut BufReader<impl AsyncRead + Unpin>) -> Result<String, Error> {
    let mut lines = [const { Vec::new() }; 3];
    for line in &mut lines {
        read.read_until(b'\n', line).await?;
        if !line.ends_with(b"\n") || line.starts_with(b"SERVER_ERROR") {
            let told = line.escape_ascii();
            return Err(format!("twemproxy answers \"{told}\"").into());
        }
    }
    Ok(String::from_utf8_lossy(lines[1].trim_ascii()).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn values_are_read_one_after_the_other_and_errors_are_told() {
        let answers = b"VALUE k 0 3\r\na:1\r\nEND\r\nVALUE l 0 3\r\nb:2\r\nEND\r\n\
                        SERVER_ERROR no\r\n";
        let mut read = BufReader::new(&answers[..]);
        assert_eq!(value(&mut read).await.unwrap(), "a:1");
        assert_eq!(value(&mut read).await.unwrap(), "b:2");
        let error = value(&mut read).await.unwrap_err().to_string();
        assert!(error.contains("SERVER_ERROR no"), "{error}");
        assert!(value(&mut read).await.is_err());
    }
}
