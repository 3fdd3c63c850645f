//! A server of files on the loopback interface, as long as the test runs.

use std::collections::BTreeMap;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// What it says of a path; of others, that they are not there.
#[derive(Clone)]
pub(crate) enum Says {
    /// These bytes.
    File(Vec<u8>),
    /// That it failed.
    Error,
    /// Less than was announced.
    Cut(Vec<u8>),
}

/// The server, and what it was asked for.
pub(crate) struct Loopback {
    /// Where it is, without a slash at the end.
    pub(crate) url: String,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Loopback {
    /// Starts one.
    pub(crate) fn start(files: BTreeMap<String, Says>) -> io::Result<Loopback> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let url = format!("http://{}", listener.local_addr()?);
        let asked = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&asked);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                // Who hangs up has what it wanted.
                let _ = answer(stream, &files, &log);
            }
        });
        Ok(Loopback { url, asked })
    }

    /// The paths that it was asked for, in their order.
    pub(crate) fn asked(&self) -> Vec<String> {
        let asked = self.asked.lock();
        asked.unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn answer(
    mut stream: TcpStream,
    files: &BTreeMap<String, Says>,
    log: &Mutex<Vec<String>>,
) -> io::Result<()> {
    let mut lines = BufReader::new(stream.try_clone()?).lines();
    let first = lines.next().transpose()?.unwrap_or_default();
    for line in lines.by_ref() {
        if line?.is_empty() {
            break;
        }
    }
    let path = first.split(' ').nth(1).unwrap_or_default().to_owned();
    let mut asked = log.lock().unwrap_or_else(PoisonError::into_inner);
    asked.push(path.clone());
    drop(asked);
    let (status, announced, body) = match files.get(&path) {
        Some(Says::File(bytes)) => ("200 OK", bytes.len(), bytes.as_slice()),
        Some(Says::Cut(bytes)) => ("200 OK", bytes.len() + 1000, bytes.as_slice()),
        Some(Says::Error) => ("500 Internal Server Error", 0, [].as_slice()),
        None => ("404 Not Found", 0, [].as_slice()),
    };
    let head = format!("HTTP/1.1 {status}\r\nContent-Length: {announced}\r\nConnection: close\r\n");
    stream.write_all(format!("{head}\r\n").as_bytes())?;
    stream.write_all(body)
}
