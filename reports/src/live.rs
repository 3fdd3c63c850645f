//! `top --live` and `browse`: a profile on the whole screen, with keys.
//!
//! A thread reads ([`feed`]), one screen holds what was read and what was chosen ([`screen`]), and
//! drawing is a function of that ([`draw`]). Nothing here knows more of a profile than the reports
//! say: rows are those of `top`, and a function is shown as `list` shows it.

mod draw;
mod feed;
mod screen;

use std::io::{self, ErrorKind, IsTerminal as _};
use std::os::fd::AsFd as _;
use std::panic;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use ratatui::{DefaultTerminal, Terminal};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use self::feed::{Feed, FeedUpdate};
use self::screen::{Action, Screen};
use crate::args::Common;
use crate::failure::Failure;
use crate::guard;
use crate::renderers::Format;
use crate::{stdout, terminal};

/// How long a key may wait while something else is looked after.
const PATIENCE: Duration = Duration::from_millis(100);

/// How often what changes is read again.
const INTERVAL: Duration = Duration::from_secs(1);

/// Rows where the screen cannot be redrawn, unless asked for otherwise.
const PLAIN_ROWS: usize = 20;

/// Shows where the cycles are as they come, until it is told to stop.
///
/// # Errors
/// If the input cannot be read, or the terminal not be written to.
pub(crate) fn top(common: &Common) -> Result<(), Failure> {
    if common.format != Format::Text {
        return Err(Failure::Usage(
            "--live is for people: text alone".to_owned(),
        ));
    }
    match is_interactive() {
        true => interact(common, Some(INTERVAL)),
        false => repeat(common),
    }
}

/// Shows a profile to walk through.
///
/// # Errors
/// If the input cannot be read, or the terminal not be written to.
pub(crate) fn browse(common: &Common) -> Result<(), Failure> {
    if !is_interactive() {
        return Err(Failure::Usage(
            "browse: this is no terminal that can be drawn on (TERM); `vcpi top` prints".to_owned(),
        ));
    }
    interact(common, None)
}

fn is_interactive() -> bool {
    terminal::is_capable() && io::stdin().is_terminal()
}

/// One table after the other, for terminals that only print, and for files.
fn repeat(common: &Common) -> Result<(), Failure> {
    let mut common = common.clone();
    common.lines = common.lines.or(Some(PLAIN_ROWS));
    crate::messages::hush(true);
    loop {
        let text = match feed::table(&common) {
            // What has just begun has nothing yet.
            Err(Failure::Nothing(why) | Failure::Ambiguous(why)) => format!("{why}\n"),
            other => other?,
        };
        stdout::write(format!("{text}\n").as_bytes())?;
        std::thread::sleep(INTERVAL);
    }
}

/// Takes the screen, and gives it back.
fn interact(common: &Common, interval: Option<Duration>) -> Result<(), Failure> {
    crate::messages::hush(true);
    let mut screen = Screen::new(common.names(), interval.is_some());
    let feed = Feed::start(common, interval, screen.asked());
    // What cannot be read is told before the screen changes.
    match feed.wait()? {
        FeedUpdate::Failed(_, failure) if !(interval.is_some() && is_nothing(&failure)) => {
            return Err(failure);
        }
        update => screen.take(update),
    }
    let taken = Taken::new()?;
    std::thread::spawn(end_with_terminal);
    let mut terminal = Terminal::new(CrosstermBackend::new(io::stdout()))?;
    let result = run(&mut terminal, &mut screen, &feed);
    drop(terminal);
    drop(taken);
    result
}

/// The whole screen, which is given back as it was at the end.
struct Taken;

impl Taken {
    fn new() -> io::Result<Taken> {
        let print = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            // A panic behind a fence costs a name, not the screen.
            if !guard::is_fenced() {
                give_back();
            }
            print(info);
        }));
        enable_raw_mode()?;
        let taken = Taken;
        execute!(io::stdout(), EnterAlternateScreen)?;
        Ok(taken)
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        give_back();
    }
}

/// Waits until the terminal is gone, and ends the program then. What reads keys would ask for more
/// of them for ever, whatever signal says that there are none.
fn end_with_terminal() {
    /// As a shell tells of a program that a hang-up ended.
    const HUNG_UP: i32 = 128 + SIGHUP;
    let stdin = io::stdin();
    loop {
        // Hang-ups and errors are told of without being asked for.
        let mut watched = [PollFd::new(stdin.as_fd(), PollFlags::empty())];
        match poll(&mut watched, PollTimeout::NONE) {
            Err(Errno::EINTR) => {}
            Err(_) => return,
            Ok(_) => {
                give_back();
                std::process::exit(HUNG_UP);
            }
        }
    }
}

/// There is nothing more to be done where that fails.
fn give_back() {
    let _ = execute!(io::stdout(), LeaveAlternateScreen, Show);
    let _ = disable_raw_mode();
}

fn is_nothing(failure: &Failure) -> bool {
    matches!(failure, Failure::Nothing(_))
}

fn run(terminal: &mut DefaultTerminal, screen: &mut Screen, feed: &Feed) -> Result<(), Failure> {
    let ended = Arc::new(AtomicBool::new(false));
    for signal in [SIGTERM, SIGHUP, SIGINT] {
        signal_hook::flag::register(signal, Arc::clone(&ended))?;
    }
    while !ended.load(Ordering::Relaxed) {
        terminal.draw(|frame| draw::draw(frame, screen))?;
        let event = match event::poll(PATIENCE) {
            Ok(true) => event::read().map(Some),
            Ok(false) => Ok(None),
            Err(error) => Err(error),
        };
        match event {
            Ok(Some(Event::Key(key))) if key.kind == KeyEventKind::Press => {
                match screen.press(key) {
                    Action::Leave => break,
                    Action::Ask(asked) => feed.ask(asked),
                    Action::Stay => {}
                }
            }
            // A function is laid out for the width.
            Ok(Some(Event::Resize(columns, _))) => {
                if let Some(asked) = screen.resize(columns) {
                    feed.ask(asked);
                }
            }
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
        while let Some(update) = feed.update()? {
            screen.take(update);
        }
    }
    Ok(())
}
