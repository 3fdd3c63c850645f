//! The thread that sets breakpoints.

use std::io;
use std::sync::mpsc::{Receiver, SyncSender};
use std::thread;
use std::time::{Duration, Instant};

use sampler::{Block, Breakpoints, Miss};

use super::block::{calls_system, stored};
use super::{BounceResult, Request};

/// How long a thread may take to come by.
const ALLOWED: Duration = Duration::from_millis(10);
/// How often a block is tried.
const ATTEMPTS: usize = 3;
/// How long the debug registers are left to others that want them.
const YIELDED: Duration = Duration::from_secs(1);

/// Starts it. It ends when nobody asks any more.
pub(super) fn start(
    breakpoints: Breakpoints,
    most: u32,
    requests: Receiver<Request>,
    answers: SyncSender<BounceResult>,
) -> io::Result<()> {
    let pause = Duration::from_secs(1) / most.max(1);
    let run = move || run(&breakpoints, pause, &requests, &answers);
    thread::Builder::new()
        .name("bounce".to_owned())
        .spawn(run)
        .map(drop)
}

fn run(
    breakpoints: &Breakpoints,
    pause: Duration,
    requests: &Receiver<Request>,
    answers: &SyncSender<BounceResult>,
) {
    while let Ok(request) = requests.recv() {
        let next = Instant::now() + pause;
        let answer = attempt(breakpoints, request);
        let yields = answer.missed.contains(&Miss::NoRegister);
        // A collector that does not look has no use for more.
        if answers.send(answer).is_err() {
            return;
        }
        let next = if yields {
            Instant::now() + YIELDED
        } else {
            next
        };
        thread::sleep(next.saturating_duration_since(Instant::now()));
    }
}

/// Tries a block: where the thread does not come out, a longer one, and then no more.
fn attempt(breakpoints: &Breakpoints, request: Request) -> BounceResult {
    let mut missed = Vec::new();
    let mut exits = request.exits.iter();
    let mut exit = exits.next();
    let mut pair = None;
    while let Some(of) = exit
        && missed.len() < ATTEMPTS
    {
        let steps = request.steps.get(..of.steps).unwrap_or_default();
        let bytes = steps.iter().map(|step| usize::from(step.len)).sum();
        let block = Block {
            pid: request.pid,
            tid: request.tid,
            entry: steps.first().map(|step| step.address).unwrap_or_default(),
            exit: of.address,
            code: request.code.get(..bytes).unwrap_or_default().into(),
            calls_system: steps.iter().any(|step| calls_system(&step.instruction)),
            wants_vectors: request.uses_vectors,
            operands: stored(steps).into_iter().map(|(_, of)| of).collect(),
        };
        match breakpoints.pair(&block, ALLOWED) {
            Ok(found) => {
                pair = Some((found, of.steps));
                break;
            }
            Err(miss) => {
                missed.push(miss);
                match miss {
                    // What came between was chance.
                    Miss::NoEntry | Miss::Switched | Miss::Signalled => {}
                    Miss::NoExit | Miss::ExitFirst => exit = exits.next(),
                    _ => break,
                }
            }
        }
    }
    BounceResult {
        request,
        missed,
        pair,
        came: Instant::now(),
    }
}
