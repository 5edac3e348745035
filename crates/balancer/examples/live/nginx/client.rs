//! One connection to nginx, and what its answers tell.

use std::path::Path;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

use crate::Error;

/// A connection that is kept. Requests may be sent ahead; they are answered in order.
#[derive(Debug)]
pub(crate) struct Client {
    stream: UnixStream,
    read: Vec<u8>,
}

/// What nginx did with a request: one entry a try, the name of the upstream where nobody could be
/// chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) tried: Vec<String>,
    /// 502 = refused, or nobody.
    pub(crate) statuses: Vec<u16>,
    /// The second on nginx's clock in which all of this happened, if it was one.
    pub(crate) second: Option<u64>,
}

impl Client {
    pub(crate) async fn connect(path: &Path) -> Result<Self, Error> {
        Ok(Self {
            stream: UnixStream::connect(path).await?,
            read: Vec::new(),
        })
    }

    pub(crate) async fn send(&mut self, requests: &[u8]) -> Result<(), Error> {
        Ok(self.stream.write_all(requests).await?)
    }

    /// The next answer. If this is dropped while it waits, nothing is lost.
    pub(crate) async fn answer(&mut self) -> Result<Answer, Error> {
        loop {
            if let Some((answer, length)) = parse(&self.read)? {
                self.read.drain(..length);
                return Ok(answer);
            }
            if self.stream.read_buf(&mut self.read).await? == 0 {
                return Err("nginx hung up".into());
            }
        }
    }
}

/// The first answer of `bytes` and its length, if it is there as a whole.
fn parse(bytes: &[u8]) -> Result<Option<(Answer, usize)>, Error> {
    let Some(end) = find(bytes, b"\r\n\r\n") else {
        return Ok(None);
    };
    let head = std::str::from_utf8(&bytes[..end])?;
    let body = &bytes[end + 4..];
    let length = match field(head, "Content-Length") {
        Some(length) => Some(length.parse::<usize>()?).filter(|&length| length <= body.len()),
        None => find(body, b"0\r\n\r\n").map(|at| at + 5),
    };
    let Some(length) = length else {
        return Ok(None);
    };
    Ok(Some((answer(head)?, end + 4 + length)))
}

fn answer(head: &str) -> Result<Answer, Error> {
    let told = |name| field(head, name).ok_or_else(|| format!("no {name} in {head:?}"));
    let list = |text: &str| text.split(", ").map(str::to_owned).collect::<Vec<_>>();
    let tried: Vec<_> = list(told("X-Tried")?).iter().map(|at| plain(at)).collect();
    let statuses: Result<Vec<u16>, _> = list(told("X-Statuses")?)
        .iter()
        .map(|status| status.parse())
        .collect();
    let served = field(head, "X-Served-By");
    if served.is_some() && served != tried.last().map(String::as_str) {
        return Err(format!("{served:?} answered, which is not the last tried: {head:?}").into());
    }
    let second = |text: &str| Ok::<u64, Error>(text.split('.').next().unwrap_or(text).parse()?);
    let (began, ended) = (second(told("X-Began")?)?, second(told("X-Ended")?)?);
    Ok(Answer {
        tried,
        statuses: statuses?,
        second: (began == ended).then_some(began),
    })
}

/// An address as we write it: nginx repeats `unix:` in the case of the `server` line.
fn plain(at: &str) -> String {
    match at.split_at_checked(5) {
        Some((prefix, path)) if prefix.eq_ignore_ascii_case("unix:") => format!("unix:{path}"),
        _ => at.to_owned(),
    }
}

fn field<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.lines().find_map(|line| {
        let (found, value) = line.split_once(": ")?;
        (found == name).then_some(value)
    })
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|window| window == what)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(body: &str) -> String {
        format!(
            "HTTP/1.1 200 OK\r\n{body}X-Tried: UNIX:/A, [fd00::1]:80\r\n\
             X-Statuses: 502, 200\r\nX-Began: 17.999\r\nX-Ended: 17.999\r\n\r\n"
        )
    }

    #[test]
    fn answers_are_read_one_after_the_other_and_only_as_a_whole() {
        let counted = format!("{}abc", head("Content-Length: 3\r\n"));
        let chunked = format!("{}0\r\n\r\n", head("Transfer-Encoding: chunked\r\n"));
        let both = format!("{counted}{chunked}");
        let (first, length) = parse(both.as_bytes()).unwrap().unwrap();
        assert_eq!(length, counted.len());
        assert_eq!(first.tried, ["unix:/A", "[fd00::1]:80"]);
        assert_eq!((first.statuses, first.second), (vec![502, 200], Some(17)));
        for text in [counted, chunked] {
            assert!(parse(text.as_bytes()).unwrap().is_some());
            for length in 0..text.len() {
                assert_eq!(parse(&text.as_bytes()[..length]).unwrap(), None);
            }
        }
    }

    #[test]
    fn an_answer_over_a_turn_of_a_second_has_none() {
        let text = head("Content-Length: 0\r\n").replace("Ended: 17.999", "Ended: 18.000");
        let (answer, _) = parse(text.as_bytes()).unwrap().unwrap();
        assert_eq!(answer.second, None);
    }

    #[test]
    fn what_does_not_fit_together_is_an_error() {
        let strange = head("Content-Length: 0\r\nX-Served-By: unix:/A\r\n");
        let error = parse(strange.as_bytes()).unwrap_err().to_string();
        assert!(error.contains("unix:/A"), "{error}");
        let without = head("Content-Length: 0\r\n").replace("X-Tried", "X-Tired");
        assert!(parse(without.as_bytes()).is_err());
    }
}
