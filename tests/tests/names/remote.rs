//! Names and code that are not on this machine: those of a debuginfod server.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use libtest_mimic::Failed;
use serde_json::Value;

use crate::bench::Bench;
use crate::common::{ensure, text};
use crate::named::{printed, record, spinner};
use crate::{TestResult, done};

/// A server of files on the loopback interface, as long as the test runs.
struct Server {
    url: String,
    asked: Arc<AtomicUsize>,
}

impl Server {
    fn start(files: BTreeMap<String, PathBuf>) -> std::io::Result<Server> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let url = format!("http://{}", listener.local_addr()?);
        let asked = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&asked);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                counter.fetch_add(1, Ordering::Relaxed);
                let _ = answer(stream, &files);
            }
        });
        Ok(Server { url, asked })
    }
}

fn answer(mut stream: TcpStream, files: &BTreeMap<String, PathBuf>) -> std::io::Result<()> {
    let mut lines = BufReader::new(stream.try_clone()?).lines();
    let first = lines.next().transpose()?.unwrap_or_default();
    for line in lines.by_ref() {
        if line?.is_empty() {
            break;
        }
    }
    let path = first.split(' ').nth(1).unwrap_or_default();
    let (status, body) = match files.get(path) {
        Some(file) => ("200 OK", fs::read(file)?),
        None => ("404 Not Found", Vec::new()),
    };
    let length = body.len();
    let head =
        format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n");
    stream.write_all(head.as_bytes())?;
    stream.write_all(&body)
}

fn run(folder: &Path, program: &str, arguments: &[&str]) -> Result<(), Failed> {
    let output = Command::new(program)
        .args(arguments)
        .current_dir(folder)
        .output()?;
    ensure(output.status.success(), || text(&output))
}

/// What a listing of a function has: how many instructions, and how many of them have source
/// lines; with these options of `vcpi`, this cache, and this server.
fn listing(
    bench: &Bench,
    options: &[&str],
    cache: &Path,
    url: &str,
) -> Result<(usize, usize), Failed> {
    let output = Command::new(&bench.programs.vcpi)
        .args(["list", "served_one", "--format", "json", "-i"])
        .arg(bench.path("db"))
        .args(options)
        .env("DEBUGINFOD_URLS", url)
        .env("DEBUGINFOD_CACHE_PATH", cache)
        .output()?;
    let rows: Value = serde_json::from_slice(&output.stdout)?;
    let rows = rows.as_array().cloned().unwrap_or_default();
    let with = |key: &str| rows.iter().filter(|row| !row[key].is_null()).count();
    Ok((with("text"), with("source")))
}

pub(crate) fn fetched() -> TestResult {
    let bench = Bench::new()?;
    fs::write(bench.path("p.c"), spinner("served_one", 3))?;
    let folder = bench.folder.path();
    run(
        folder,
        "gcc",
        &["-O1", "-g", "-Wl,--build-id", "-o", "p", "p.c"],
    )?;
    run(folder, "objcopy", &["--only-keep-debug", "p", "debug"])?;
    run(folder, "strip", &["-s", "p"])?;
    fs::copy(bench.path("p"), bench.path("program"))?;
    record(&bench, "./p 9000")?;
    let shown = printed(&bench, &["top"])?;
    ensure(shown.contains("p!fn_"), || shown)?;
    let id: String = bench.query("SELECT identity FROM image WHERE path LIKE '%/p'")?;
    let id = id.rsplit(':').next().unwrap_or_default().to_owned();
    let at = |artifact: &str| format!("/buildid/{id}/{artifact}");
    let server = Server::start(BTreeMap::from([
        (at("debuginfo"), bench.path("debug")),
        (at("executable"), bench.path("program")),
    ]))?;
    let other = Server::start(BTreeMap::new())?;
    let (first, second, off) = (bench.path("one"), bench.path("two"), bench.path("off"));
    // Who does not want to ask does not.
    for (options, url) in [(&["--no-debuginfod"][..], &*server.url), (&[], "")] {
        let found = listing(&bench, options, &off, url);
        ensure(
            found.is_err() || found.is_ok_and(|found| found == (0, 0)),
            || format!("{options:?} {url}: named"),
        )?;
    }
    ensure(server.asked.load(Ordering::Relaxed) == 0, || "asked".into())?;
    // The debug file, from the second of two servers; then from the cache.
    let both = format!("{} {}", other.url, server.url);
    for url in [&*both, "http://127.0.0.1:1"] {
        let (code, lines) = listing(&bench, &[], &first, url)?;
        ensure(code >= 3 && lines >= 3, || format!("{url}: {code} {lines}"))?;
    }
    // The program too, when it is gone.
    fs::remove_file(bench.path("p"))?;
    let (code, lines) = listing(&bench, &[], &second, &server.url)?;
    ensure(code >= 3 && lines >= 3, || format!("gone: {code} {lines}"))?;
    done()
}
