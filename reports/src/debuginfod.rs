//! Debug files and programs from debuginfod servers, by build id.
//!
//! Who wants this names servers in `DEBUGINFOD_URLS`. Files are kept where elfutils' own client
//! keeps them, in the same form, so debuggers and `vcpi` fetch nothing twice. What a server sends
//! counts only if it says to be of the build that was asked for. A server that fails is not waited
//! for again in the same run.
//!
//! The protocol is `GET URL/buildid/BUILDID/debuginfo` and `.../executable`; the variables are
//! those of debuginfod-find(1).

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, Permissions};
use std::io::{self, IsTerminal as _, Read, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use symbols::{Binary, Room};
use tempfile::NamedTempFile;
use ureq::tls::{RootCerts, TlsConfig};

use crate::render::clean;

/// Seconds in which a server has to send something.
const DEFAULT_TIMEOUT: u64 = 90;
/// Seconds for which it is believed that no server has a file; the cache may say otherwise.
const DEFAULT_MISS: u64 = 600;
/// A file larger than this is not fetched.
const MAX_SIZE: u64 = 4 << 30;
/// Servers beyond these are not asked.
const MAX_SERVERS: usize = 16;
/// A server that failed so often is not asked again.
const MAX_FAILURES: u32 = 2;
/// Bytes of a build id.
const BUILD_ID: std::ops::RangeInclusive<usize> = 2..=64;

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Artifact {
    /// The debug file.
    DebugInfo,
    /// The program or library itself.
    Executable,
}

impl Artifact {
    /// Its name in the protocol and in the cache.
    fn name(self) -> &'static str {
        match self {
            Self::DebugInfo => "debuginfo",
            Self::Executable => "executable",
        }
    }
}

static CLIENT: OnceLock<Option<Client>> = OnceLock::new();

/// Settles whether servers may be asked in this run; nothing is asked before that.
pub(crate) fn configure(allowed: bool) {
    let client = || match allowed {
        true => Client::new(|name| std::env::var_os(name)),
        false => None,
    };
    CLIENT.get_or_init(client);
}

/// Whether there are servers to ask.
pub(crate) fn is_asked() -> bool {
    CLIENT.get().is_some_and(Option::is_some)
}

/// The file of a build, from the cache or from the first server that has it.
pub(crate) fn fetch(artifact: Artifact, build_id: &str, room: &Room) -> Option<(PathBuf, Binary)> {
    CLIENT.get()?.as_ref()?.fetch(artifact, build_id, room)
}

/// A server, and how it does.
#[derive(Debug)]
struct Server {
    url: String,
    failures: AtomicU32,
}

#[derive(Debug)]
struct Client {
    servers: Vec<Server>,
    cache: PathBuf,
    agent: ureq::Agent,
    /// The largest file that is fetched, in bytes.
    most: u64,
    /// Downloads are announced when they begin.
    is_verbose: bool,
}

/// What a server answered.
enum ServerAnswer {
    Found(NamedTempFile),
    Missing,
}

impl Client {
    /// The client that these variables describe; `None`: no server is named.
    fn new(variable: impl Fn(&str) -> Option<OsString>) -> Option<Client> {
        let text = |name| variable(name)?.into_string().ok();
        let urls = text("DEBUGINFOD_URLS")?;
        let is_server = |url: &&str| url.starts_with("http://") || url.starts_with("https://");
        let server = |url: &str| Server {
            url: url.trim_end_matches('/').to_owned(),
            failures: AtomicU32::new(0),
        };
        let servers: Vec<Server> = urls
            .split_whitespace()
            .filter(is_server)
            .take(MAX_SERVERS)
            .map(server)
            .collect();
        if servers.is_empty() {
            return None;
        }
        let path = |name| variable(name).filter(|path| !path.is_empty());
        let cache = match path("DEBUGINFOD_CACHE_PATH") {
            Some(own) => PathBuf::from(own),
            None => cache_folder(path("XDG_CACHE_HOME"), path("HOME"))?,
        };
        let number = |name| text(name)?.trim().parse::<u64>().ok();
        let seconds = |name| number(name).filter(|seconds| *seconds > 0);
        let timeout = Duration::from_secs(seconds("DEBUGINFOD_TIMEOUT").unwrap_or(DEFAULT_TIMEOUT));
        let agent = ureq::Agent::config_builder()
            .tls_config(tls())
            .user_agent(concat!("vcpi/", env!("CARGO_PKG_VERSION")))
            .timeout_connect(Some(timeout))
            .timeout_recv_response(Some(timeout))
            .timeout_per_read(Some(timeout))
            .timeout_global(seconds("DEBUGINFOD_MAXTIME").map(Duration::from_secs))
            .build()
            .into();
        Some(Client {
            servers,
            cache,
            agent,
            most: seconds("DEBUGINFOD_MAXSIZE").map_or(MAX_SIZE, |most| most.min(MAX_SIZE)),
            is_verbose: io::stderr().is_terminal() || text("DEBUGINFOD_PROGRESS").is_some(),
        })
    }

    fn fetch(&self, artifact: Artifact, build_id: &str, room: &Room) -> Option<(PathBuf, Binary)> {
        let is_hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        if !build_id.bytes().all(is_hex)
            || !build_id.len().is_multiple_of(2)
            || !BUILD_ID.contains(&(build_id.len() / 2))
        {
            return None;
        }
        let path = self.cache.join(build_id).join(artifact.name());
        match self.cached(&path) {
            Cached::File => return verified(&path, build_id, room),
            Cached::Missing => return None,
            Cached::Nothing => {}
        }
        let mut is_certain = true;
        for server in &self.servers {
            if server.failures.load(Ordering::Relaxed) >= MAX_FAILURES {
                is_certain = false;
                continue;
            }
            match self.ask(server, artifact, build_id) {
                Ok(ServerAnswer::Found(file)) => {
                    let Some(binary) = verified(file.path(), build_id, room) else {
                        say(&format!(
                            "{}: what it sent for build id {build_id} is of another build; \
                             it is not used",
                            server.url
                        ));
                        is_certain = false;
                        continue;
                    };
                    if let Err(error) = file.persist(&path) {
                        say(&format!("{}: {}", path.display(), error.error));
                    }
                    return Some((path, binary.1));
                }
                Ok(ServerAnswer::Missing) => {}
                Err(error) => {
                    is_certain = false;
                    let failures = server.failures.fetch_add(1, Ordering::Relaxed) + 1;
                    let outcome = match failures >= MAX_FAILURES {
                        true => "; it is not asked again",
                        false => "",
                    };
                    say(&format!("debuginfod: {}: {error}{outcome}", server.url));
                }
            }
        }
        if is_certain {
            // Whoever cannot remember asks again.
            let _ = self.remember_missing(&path);
        }
        None
    }

    /// What the cache knows of a file.
    fn cached(&self, path: &Path) -> Cached {
        let Ok(metadata) = fs::metadata(path) else {
            return Cached::Nothing;
        };
        if metadata.len() > 0 {
            return Cached::File;
        }
        let miss = fs::read_to_string(self.cache.join("cache_miss_s"));
        let miss = miss.ok().and_then(|text| text.trim().parse().ok());
        let miss = Duration::from_secs(miss.unwrap_or(DEFAULT_MISS));
        let age = metadata.modified().map(|then| {
            let now = SystemTime::now();
            now.duration_since(then).unwrap_or_default()
        });
        match age {
            Ok(age) if age < miss => Cached::Missing,
            _ => Cached::Nothing,
        }
    }

    /// Asks one server. What it has lies beside its place in the cache then.
    fn ask(
        &self,
        server: &Server,
        artifact: Artifact,
        build_id: &str,
    ) -> Result<ServerAnswer, String> {
        let url = format!("{}/buildid/{build_id}/{}", server.url, artifact.name());
        if self.is_verbose {
            say(&format!("asking {url}"));
        }
        let mut response = match self.agent.get(&url).call() {
            Ok(response) => response,
            Err(ureq::Error::StatusCode(404)) => return Ok(ServerAnswer::Missing),
            Err(error) => return Err(error.to_string()),
        };
        let body = response.body_mut();
        if body
            .content_length()
            .is_some_and(|length| length > self.most)
        {
            return Ok(ServerAnswer::Missing);
        }
        let folder = self.cache.join(build_id);
        let failed = |error: io::Error| format!("{}: {error}", folder.display());
        make_folder(&folder).map_err(failed)?;
        let mut file = NamedTempFile::new_in(&folder).map_err(failed)?;
        let mut reader = body.with_config().limit(self.most + 1).reader();
        let length = copy(&mut reader, file.as_file_mut())?;
        if length == 0 || length > self.most {
            return Ok(ServerAnswer::Missing);
        }
        let readable = Permissions::from_mode(0o400);
        file.as_file().set_permissions(readable).map_err(failed)?;
        say(&format!(
            "fetched {} of build id {build_id} from {} ({:.1} MB)",
            artifact.name(),
            server.url,
            length as f64 / 1e6
        ));
        Ok(ServerAnswer::Found(file))
    }

    /// Leaves a mark that no server has a file.
    fn remember_missing(&self, path: &Path) -> io::Result<()> {
        if let Some(folder) = path.parent() {
            make_folder(folder)?;
        }
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        File::create_new(path).map(|_| ())
    }
}

enum Cached {
    File,
    /// No server had it a short while ago.
    Missing,
    Nothing,
}

/// A server is who it says to be if this machine trusts who vouches for it.
fn tls() -> TlsConfig {
    TlsConfig::builder()
        .root_certs(RootCerts::PlatformVerifier)
        .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .build()
}

/// The folder that elfutils' client would use.
fn cache_folder(cache: Option<OsString>, home: Option<OsString>) -> Option<PathBuf> {
    let home = home.map(PathBuf::from);
    if let Some(old) = home
        .as_ref()
        .map(|home| home.join(".debuginfod_client_cache"))
        && old.is_dir()
    {
        return Some(old);
    }
    let base = cache.map(PathBuf::from);
    let base = base.or_else(|| home.map(|home| home.join(".cache")))?;
    Some(base.join("debuginfod_client"))
}

fn make_folder(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

/// Copies to the end; the number of bytes.
fn copy(from: &mut impl Read, to: &mut File) -> Result<u64, String> {
    let mut piece = vec![0; 1 << 16];
    let mut length = 0;
    loop {
        let read = match from.read(&mut piece) {
            Ok(0) => return Ok(length),
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error.to_string()),
        };
        let piece = piece.get(..read).unwrap_or_default();
        to.write_all(piece).map_err(|error| error.to_string())?;
        length += read as u64;
    }
}

/// A fetched file, if it says to be of this build.
fn verified(path: &Path, build_id: &str, room: &Room) -> Option<(PathBuf, Binary)> {
    let binary = Binary::open(path, room).ok()?;
    (binary.build_id() == Some(build_id)).then(|| (path.to_owned(), binary))
}

fn say(message: &str) {
    let _ = writeln!(io::stderr().lock(), "vcpi: {}", clean(message));
}

#[cfg(test)]
mod tests;
