//! One GET or POST over HTTP: what the commands need of a client, and no more.
//!
//! HTTP/1.0, so that the answer ends where the connection does and comes in one piece.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use serde_json::Value;

/// How long a broker may take to accept, and to send the next bytes.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The largest answer that is read.
const ANSWER_BYTES: u64 = 256 * 1024 * 1024;

/// Where a broker serves HTTP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Admin {
    url: String,
    host: String,
    port: u16,
}

/// An answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Answer {
    status: u16,
    body: String,
}

impl Answer {
    /// The body as JSON, and as it came.
    ///
    /// # Errors
    /// A sentence: the broker's own, if it refuses.
    pub(super) fn json(self, admin: &str) -> Result<(Value, String), String> {
        let json: Value = serde_json::from_str(&self.body)
            .map_err(|_| format!("what answers at {admin} is not Highwater"))?;
        match (self.status, json["error"].as_str()) {
            (200, _) => Ok((json, self.body)),
            (_, Some(sentence)) => Err(sentence.to_owned()),
            (status, None) => Err(format!("HTTP status {status}")),
        }
    }
}

impl Admin {
    /// From `http://host:port`; the scheme may be left out, and so may the port (9644).
    pub(super) fn parse(url: &str) -> Result<Admin, String> {
        let wrong = || format!("--admin {url}: allowed is http://host:port");
        let rest = url.strip_prefix("http://").unwrap_or(url).trim_end_matches('/');
        if rest.is_empty() || rest.contains('/') || rest.contains("://") {
            return Err(wrong());
        }
        let (host, port) = match rest.rsplit_once(':') {
            // A colon within brackets is a part of an IPv6 address.
            Some((host, port)) if !port.ends_with(']') => {
                (host, port.parse().map_err(|_| wrong())?)
            }
            _ => (rest, 9644),
        };
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        if host.is_empty() { Err(wrong()) } else { Ok(Admin { url: url.to_owned(), host, port }) }
    }

    /// Asks for a path.
    ///
    /// # Errors
    /// A sentence for whoever typed the command.
    pub(super) fn get(&self, path: &str) -> Result<Answer, String> {
        self.sent("GET", path, "")
    }

    /// Posts JSON to a path.
    ///
    /// # Errors
    /// A sentence for whoever typed the command.
    pub(super) fn post(&self, path: &str, json: &str) -> Result<Answer, String> {
        self.sent("POST", path, json)
    }

    fn sent(&self, method: &str, path: &str, body: &str) -> Result<Answer, String> {
        self.exchange(method, path, body).map_err(|error| {
            format!(
                "no broker answers at {}: {error}. Does it run, and is its \
                 highwater.http.listener reachable there?",
                self.url
            )
        })
    }

    fn exchange(&self, method: &str, path: &str, body: &str) -> io::Result<Answer> {
        let mut stream = self.connect()?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        stream.set_write_timeout(Some(TIMEOUT))?;
        let (host, length) = (&self.host, body.len());
        let request = format!(
            "{method} {path} HTTP/1.0\r\nHost: {host}\r\nAccept: application/json\r\n\
             Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
        );
        stream.write_all(request.as_bytes())?;
        let mut answer = Vec::new();
        stream.take(ANSWER_BYTES).read_to_end(&mut answer)?;
        parse(&answer).ok_or_else(|| io::Error::other("it does not speak HTTP"))
    }

    fn connect(&self) -> io::Result<TcpStream> {
        let mut last = io::Error::other("the name has no address");
        for address in (self.host.as_str(), self.port).to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, TIMEOUT) {
                Ok(stream) => return Ok(stream),
                Err(error) => last = error,
            }
        }
        Err(last)
    }
}

fn parse(answer: &[u8]) -> Option<Answer> {
    let text = String::from_utf8_lossy(answer);
    let (head, body) = text.split_once("\r\n\r\n")?;
    let mut words = head.split_ascii_whitespace();
    words.next().filter(|version| version.starts_with("HTTP/"))?;
    Some(Answer { status: words.next()?.parse().ok()?, body: body.to_owned() })
}

/// A name as a part of a path.
pub(super) fn encoded(name: &str) -> String {
    let unreserved = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    name.bytes()
        .map(|byte| match unreserved(byte) {
            true => char::from(byte).to_string(),
            false => format!("%{byte:02X}"),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(url: &str) -> Option<(String, u16)> {
        Admin::parse(url).ok().map(|admin| (admin.host, admin.port))
    }

    #[test]
    fn addresses_are_taken_with_and_without_scheme_and_port() {
        assert_eq!(parts("http://localhost:9644"), Some(("localhost".into(), 9644)));
        assert_eq!(parts("broker-1:80/"), Some(("broker-1".into(), 80)));
        assert_eq!(parts("broker-1"), Some(("broker-1".into(), 9644)));
        assert_eq!(parts("http://[::1]:7000"), Some(("::1".into(), 7000)));
        assert_eq!(parts("[::1]"), Some(("::1".into(), 9644)));
        for wrong in ["", "https://secure:1", "http://a:b", "http://a/path", "http://:1"] {
            assert_eq!(parts(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn an_answer_is_split_into_status_and_body() {
        let answer = parse(b"HTTP/1.0 404 Not Found\r\nx: y\r\n\r\n{\"a\":1}").expect("it is HTTP");
        assert_eq!((answer.status, answer.body.as_str()), (404, "{\"a\":1}"));
        assert_eq!(parse(b"\0\0\0\x10"), None);
        assert_eq!(parse(b"SSH-2.0\r\n\r\n"), None);
    }

    #[test]
    fn a_group_of_any_name_fits_into_a_path() {
        assert_eq!(encoded("my group/1%"), "my%20group%2F1%25");
        assert_eq!(encoded("ä.b_c-d~"), "%C3%A4.b_c-d~");
    }
}
