use super::*;

#[path = "../../tests/common/loopback.rs"]
mod loopback;

use std::collections::BTreeMap;
use std::net::TcpListener;

use self::loopback::{Loopback, Says};

/// A small program, and its build id.
fn own() -> (Vec<u8>, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let source = folder.path().join("p.c");
    fs::write(&source, "int main(void) { return 0; }").expect("a source");
    let program = folder.path().join("p");
    let built = std::process::Command::new("gcc")
        .args(["-g", "-Wl,--build-id"])
        .arg("-o")
        .args([&program, &source])
        .status();
    assert!(built.expect("gcc runs").success());
    let bytes = fs::read(program).expect("it is there");
    let binary = Binary::of_bytes(bytes.clone()).expect("an ELF file");
    (bytes, binary.build_id().expect("a build id").to_owned())
}

fn started(files: BTreeMap<String, Says>) -> Loopback {
    Loopback::start(files).expect("a port")
}

fn client(urls: &str, cache: &Path) -> Client {
    let variable = |name: &str| match name {
        "DEBUGINFOD_URLS" => Some(OsString::from(urls)),
        "DEBUGINFOD_CACHE_PATH" => Some(cache.as_os_str().to_owned()),
        _ => None,
    };
    Client::new(variable).expect("a server is named")
}

fn fetched(client: &Client, build_id: &str) -> Option<PathBuf> {
    let room = Room::new(1 << 30);
    let found = client.fetch(Artifact::DebugInfo, build_id, &room)?;
    Some(found.0)
}

/// A file is fetched once, from the first server that has it, and lies where elfutils' client
/// looks for it.
#[test]
fn fetched_once() {
    let (bytes, id) = own();
    let path = format!("/buildid/{id}/debuginfo");
    let without = started(BTreeMap::new());
    let with = started(BTreeMap::from([(path.clone(), Says::File(bytes.clone()))]));
    let cache = tempfile::tempdir().expect("a folder");
    let client = client(&format!("{} {}", without.url, with.url), cache.path());
    for _ in 0..2 {
        let found = fetched(&client, &id).expect("a server has it");
        assert_eq!(found, cache.path().join(&id).join("debuginfo"));
        assert!(fs::read(found).expect("it is there") == bytes);
    }
    assert_eq!(without.asked(), std::slice::from_ref(&path));
    assert_eq!(with.asked(), [path]);
}

/// What no server has is not asked for again at once; what an empty file of long ago says is.
#[test]
fn missing_is_remembered() {
    let (_, id) = own();
    let server = started(BTreeMap::new());
    let cache = tempfile::tempdir().expect("a folder");
    let client = client(&server.url, cache.path());
    assert_eq!(fetched(&client, &id), None);
    assert_eq!(fetched(&client, &id), None);
    assert_eq!(server.asked().len(), 1);
    fs::write(cache.path().join("cache_miss_s"), "0\n").expect("a setting");
    assert_eq!(fetched(&client, &id), None);
    assert_eq!(server.asked().len(), 2);
}

/// A file of another build, one that is cut short and one that is none are not used and leave
/// nothing; a server that fails is given up, and what it may have is not taken for missing.
#[test]
fn bad_servers() {
    let (bytes, id) = own();
    let path = format!("/buildid/{id}/debuginfo");
    let other = fs::read("/bin/sh").expect("a shell");
    let half = bytes.get(..bytes.len() / 2).expect("half").to_vec();
    for says in [
        Says::File(other),
        Says::File(b"<html>no</html>".to_vec()),
        Says::Cut(half),
        Says::Error,
    ] {
        let server = started(BTreeMap::from([(path.clone(), says.clone())]));
        let cache = tempfile::tempdir().expect("a folder");
        let client = client(&server.url, cache.path());
        for _ in 0..4 {
            assert_eq!(fetched(&client, &id), None);
        }
        let left = fs::read_dir(cache.path().join(&id)).map_or(0, Iterator::count);
        assert_eq!(left, 0);
        let is_error = matches!(says, Says::Cut(_) | Says::Error);
        assert_eq!(server.asked().len(), if is_error { 2 } else { 4 });
    }
}

/// A server that is not there, and build ids that are none, end nothing.
#[test]
fn nobody_there() {
    let (_, id) = own();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let gone = listener.local_addr().expect("an address");
    drop(listener);
    let cache = tempfile::tempdir().expect("a folder");
    let client = client(&format!("http://{gone}"), cache.path());
    assert_eq!(fetched(&client, &id), None);
    for bad in ["", "abc", "../../etc/passwd", "AB12", "ab 12"] {
        assert_eq!(fetched(&client, bad), None, "{bad}");
    }
    let unset = Client::new(|_| None);
    assert!(unset.is_none());
    let without_server = |name: &str| (name == "DEBUGINFOD_URLS").then(|| "ftp://x".into());
    assert!(Client::new(without_server).is_none());
}
