//! Readers under any user id: this program again, as that user, which passes bytes between the
//! test and the service's socket.

use std::fs;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::thread;

use anyhow::{Context as _, Result, bail, ensure};
use nix::sys::socket::{ControlMessage, ControlMessageOwned, MsgFlags, recvmsg, sendmsg};
use profiledb::{Filter, Profile};
use protocol::{Decoder, Hello, MAX_REPLY, Refusal, Reply, Request, Selection, encode};
use vcpi_tests::harness::text;
use vcpi_tests::programs::Programs;

use crate::service::Service;

/// The first argument of this program as a reader.
pub(crate) const AS_READER: &str = "__reader";

/// Somebody who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reader {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    /// A further group.
    pub(crate) group: Option<u32>,
}

impl Reader {
    /// A user who is in their own group alone.
    pub(crate) fn user(uid: u32) -> Reader {
        Reader {
            uid,
            gid: uid,
            group: None,
        }
    }

    /// A program that runs as this reader.
    pub(crate) fn command(self, program: &Path) -> Command {
        let mut command = Command::new("setpriv");
        command
            .arg(format!("--reuid={}", self.uid))
            .arg(format!("--regid={}", self.gid))
            .arg(match self.group {
                Some(group) => format!("--groups={group}"),
                None => "--clear-groups".to_owned(),
            })
            .arg("--inh-caps=-all")
            // setpriv itself still may do everything when it executes the next program, which the
            // kernel would take for leave to read that.
            .arg("env")
            .arg(program);
        command
    }

    fn helper(self, service: &Service, mode: &str) -> Command {
        let mut command = self.command(&service.helper());
        command.args([AS_READER, mode]).arg(service.socket());
        command
    }

    /// Sends bytes, ends, and returns all that comes back.
    pub(crate) fn exchange(self, service: &Service, bytes: &[u8]) -> io::Result<Vec<u8>> {
        let mut child = self
            .helper(service, "exchange")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut input = child.stdin.take().ok_or(io::ErrorKind::BrokenPipe)?;
        let bytes = bytes.to_vec();
        // It may not be read to its end.
        let sender = thread::spawn(move || drop(input.write_all(&bytes)));
        let output = child.wait_with_output()?;
        let _ = sender.join();
        Ok(output.stdout)
    }

    /// All replies to a request.
    pub(crate) fn ask(self, service: &Service, request: &Request) -> Result<Vec<Reply>> {
        replies(&self.exchange(service, &frames(request)?)?)
    }

    /// The view of a selection, as a profile and [laid open](laid_open).
    pub(crate) fn view(
        self,
        service: &Service,
        selection: Selection,
    ) -> Result<(Profile, Vec<u8>)> {
        let bytes = self.packed(service, selection)?;
        Ok((profile_of(&bytes)?, laid_open(&bytes)?))
    }

    /// The view of a selection as a profile: to lay it open takes many times as long.
    pub(crate) fn profile(self, service: &Service, selection: Selection) -> Result<Profile> {
        profile_of(&self.packed(service, selection)?)
    }

    fn packed(self, service: &Service, selection: Selection) -> Result<Vec<u8>> {
        view_of(self.ask(service, &Request::View(selection))?)
    }

    /// Connections that are held until the child's input ends: `count` of them, on each of which
    /// these bytes were sent. Returns when they are all there.
    pub(crate) fn hold(self, service: &Service, count: usize, bytes: &[u8]) -> Result<Child> {
        let mut child = self
            .helper(service, "hold")
            .arg(count.to_string())
            .arg(
                bytes
                    .iter()
                    .map(|byte| format!("{byte:02x}"))
                    .collect::<String>(),
            )
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut held = [0];
        let output = child.stdout.as_mut().context("no output")?;
        output.read_exact(&mut held)?;
        Ok(child)
    }

    /// A connection that this reader has made and we hold.
    pub(crate) fn connect_for_us(self, service: &Service) -> Result<UnixStream> {
        let (ours, theirs) = UnixStream::pair()?;
        let mut child = self
            .helper(service, "hand-over")
            .stdin(OwnedFd::from(theirs))
            .spawn()?;
        let mut byte = [0];
        let mut parts = [IoSliceMut::new(&mut byte)];
        let mut space = nix::cmsg_space!([i32; 1]);
        let flags = MsgFlags::empty();
        let message = recvmsg::<()>(ours.as_raw_fd(), &mut parts, Some(&mut space), flags)?;
        let fd = message.cmsgs()?.find_map(|message| match message {
            ControlMessageOwned::ScmRights(fds) => fds.first().copied(),
            _ => None,
        });
        child.wait()?;
        let fd = fd.context("no descriptor came")?;
        Ok(take(fd))
    }
}

#[expect(
    unsafe_code,
    reason = "a descriptor comes from another process as a number"
)]
fn take(fd: i32) -> UnixStream {
    // SAFETY: the kernel has just made this descriptor for us, and nobody else knows of it.
    unsafe { UnixStream::from_raw_fd(fd) }
}

/// A greeting and a request.
pub(crate) fn frames(request: &Request) -> Result<Vec<u8>> {
    let mut frames = encode(&Hello::default(), MAX_REPLY)?;
    frames.extend(encode(request, MAX_REPLY)?);
    Ok(frames)
}

/// What bytes of the service say.
pub(crate) fn replies(bytes: &[u8]) -> Result<Vec<Reply>> {
    let mut decoder = Decoder::new(MAX_REPLY);
    decoder.push(bytes);
    let mut replies = Vec::new();
    while let Some(reply) = decoder.take()? {
        replies.push(reply);
    }
    Ok(replies)
}

/// The view that replies carry, if they carry a whole one.
pub(crate) fn view_of(replies: Vec<Reply>) -> Result<Vec<u8>> {
    let mut view = Vec::new();
    let mut announced = None;
    let mut ended = false;
    for reply in replies {
        match reply {
            Reply::View { bytes, .. } => announced = Some(bytes),
            Reply::Chunk(chunk) => view.extend_from_slice(&chunk),
            Reply::End { .. } => ended = true,
            other => bail!("{other:?} in place of a view"),
        }
    }
    if !ended || announced != Some(view.len() as u64) {
        bail!("the view is not whole");
    }
    Ok(view)
}

/// What the only reply refuses with.
pub(crate) fn refusal_of(replies: &[Reply]) -> Option<Refusal> {
    match replies {
        [Reply::Refused { refusal, .. }] => Some(*refusal),
        _ => None,
    }
}

/// A view read as reports read it.
pub(crate) fn profile_of(bytes: &[u8]) -> Result<Profile> {
    let mut file = tempfile::NamedTempFile::new()?;
    file.write_all(bytes)?;
    Ok(Profile::load(
        &[file.path().to_owned()],
        &Filter::default(),
    )?)
}

/// All bytes of a view, and those of what is packed in it: each value as eight bytes.
pub(crate) fn laid_open(bytes: &[u8]) -> Result<Vec<u8>> {
    let mut file = tempfile::NamedTempFile::new()?;
    file.write_all(bytes)?;
    Ok([bytes, &unpacked(file.path())?].concat())
}

/// The bytes of a database with a row for each value of this one.
pub(crate) fn unpacked(path: &Path) -> Result<Vec<u8>> {
    let folder = tempfile::tempdir()?;
    let to = folder.path().join("unpacked.db");
    // Built for speed, which this program is not: there may be millions of values.
    let output = Command::new(Programs::find()?.vcpi)
        .args(["convert", "--unpack"])
        .arg(path)
        .arg("-o")
        .arg(&to)
        .output()?;
    ensure!(output.status.success(), text(&output));
    Ok(fs::read(to)?)
}

/// This program as a reader: `exchange SOCKET`, `hold SOCKET COUNT HEX`, `hand-over SOCKET`.
pub(crate) fn run(mut words: impl Iterator<Item = String>) -> ExitCode {
    let mut next = || words.next().unwrap_or_default();
    let (mode, socket) = (next(), next());
    let done = match mode.as_str() {
        "exchange" => pass_on(&socket),
        "hold" => hold(&socket, &next(), &next()),
        "hand-over" => hand_over(&socket),
        _ => Err(io::ErrorKind::InvalidInput.into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("reader: {error}");
            ExitCode::FAILURE
        }
    }
}

fn pass_on(socket: &str) -> io::Result<()> {
    let stream = UnixStream::connect(socket)?;
    let mut to_service = stream.try_clone()?;
    let sender = thread::spawn(move || {
        // The service may hang up before the end.
        let _ = io::copy(&mut io::stdin(), &mut to_service);
        let _ = to_service.shutdown(Shutdown::Write);
    });
    let mut replies = Vec::new();
    let ended = (&stream).read_to_end(&mut replies);
    io::stdout().write_all(&replies)?;
    // A reset tells of bytes that the service did not want.
    if ended.is_err_and(|error| error.kind() != io::ErrorKind::ConnectionReset) {
        return Err(io::ErrorKind::BrokenPipe.into());
    }
    drop(stream);
    drop(sender);
    Ok(())
}

fn hold(socket: &str, count: &str, hex: &str) -> io::Result<()> {
    let digits: Vec<char> = hex.chars().collect();
    let bytes: Vec<u8> = digits
        .chunks(2)
        .filter_map(|pair| u8::from_str_radix(&pair.iter().collect::<String>(), 16).ok())
        .collect();
    let mut held = Vec::new();
    for _ in 0..count.parse().unwrap_or(0) {
        let mut stream = UnixStream::connect(socket)?;
        // One that the service has hung up on is held all the same.
        let _ = stream.write_all(&bytes);
        held.push(stream);
    }
    io::stdout().write_all(&[1])?;
    io::stdout().flush()?;
    io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}

fn hand_over(socket: &str) -> io::Result<()> {
    let stream = UnixStream::connect(socket)?;
    let fds = [stream.as_raw_fd()];
    let rights = [ControlMessage::ScmRights(&fds)];
    let parts = [IoSlice::new(&[1])];
    sendmsg::<()>(
        io::stdin().as_raw_fd(),
        &parts,
        &rights,
        MsgFlags::empty(),
        None,
    )?;
    Ok(())
}
