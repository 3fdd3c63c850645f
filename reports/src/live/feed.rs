//! The thread that reads for the screen, so that keys never wait for a file.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::thread;
use std::time::{Duration, Instant};

use serde::Deserialize;

use crate::args::Common;
use crate::failure::Failure;
use crate::model::Model;
use crate::query::Ask;
use crate::reading::{self, Said};
use crate::renderers::text::laid_out;
use crate::report;
use crate::terminal::Look;

/// Reading takes no more than this part of the time.
const PART: u32 = 4;

/// What `top` adds up by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum By {
    Function,
    Image,
    Instruction,
    Process,
}

impl By {
    /// As the command line has it.
    pub(super) fn word(self) -> &'static str {
        match self {
            By::Function => "function",
            By::Image => "image",
            By::Instruction => "instruction",
            By::Process => "process",
        }
    }

    /// The next one for who goes through all.
    pub(super) fn next(self) -> By {
        match self {
            By::Function => By::Image,
            By::Image => By::Instruction,
            By::Instruction => By::Process,
            By::Process => By::Function,
        }
    }
}

/// What is to be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ScreenRequest {
    /// Where the cycles are.
    Rows {
        /// What to add up by.
        by: By,
        /// In this image alone.
        image: Option<String>,
    },
    /// The instructions of a function.
    Function {
        /// Its name.
        name: String,
        /// Its image.
        image: Option<String>,
        /// Columns to lay it out for.
        width: u16,
    },
}

/// A row of `top`, as the screen gets it.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(super) struct ScreenLine {
    pub(super) key: String,
    pub(super) cycles: u64,
    pub(super) percent: f64,
    pub(super) samples: u64,
    pub(super) image: Option<String>,
}

/// What was read, and for what question.
#[derive(Debug)]
pub(super) enum FeedUpdate {
    /// Rows, and what is to be said beside them.
    Rows(ScreenRequest, Vec<ScreenLine>, Vec<String>),
    /// A function's lines, and what is to be said beside them.
    Lines(ScreenRequest, Vec<String>, Vec<String>),
    /// Why there is nothing.
    Failed(ScreenRequest, Failure),
}

/// The thread's other end.
pub(super) struct Feed {
    questions: Sender<ScreenRequest>,
    answers: Receiver<FeedUpdate>,
}

impl Feed {
    /// Begins to read. With an interval the same is read again and again, until something else is
    /// asked for.
    pub(super) fn start(common: &Common, interval: Option<Duration>, first: ScreenRequest) -> Feed {
        let (questions, asked) = channel();
        let (told, answers) = channel();
        let common = common.clone();
        // It ends with the channel, at the latest with the process.
        thread::spawn(move || serve(&common, interval, first, &asked, &told));
        Feed { questions, answers }
    }

    /// Asks for something else.
    pub(super) fn ask(&self, asked: ScreenRequest) {
        // Where the thread has ended, that shows when an update is asked for.
        let _ = self.questions.send(asked);
    }

    /// The next answer, when it comes.
    pub(super) fn wait(&self) -> Result<FeedUpdate, Failure> {
        self.answers.recv().map_err(|_| ended())
    }

    /// The next answer, if it is there.
    pub(super) fn update(&self) -> Result<Option<FeedUpdate>, Failure> {
        match self.answers.try_recv() {
            Ok(update) => Ok(Some(update)),
            Err(TryRecvError::Empty) => Ok(None),
            Err(TryRecvError::Disconnected) => Err(ended()),
        }
    }
}

fn ended() -> Failure {
    Failure::Input("what reads the profile has ended".to_owned())
}

fn serve(
    common: &Common,
    interval: Option<Duration>,
    first: ScreenRequest,
    questions: &Receiver<ScreenRequest>,
    answers: &Sender<FeedUpdate>,
) {
    let mut asked = first;
    loop {
        let begun = Instant::now();
        let update = answer(common, asked.clone());
        if answers.send(update).is_err() {
            return;
        }
        let next = match interval {
            None => questions.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(interval) => {
                questions.recv_timeout(interval.max(begun.elapsed().saturating_mul(PART)))
            }
        };
        match next {
            // Of several questions only the last one still matters.
            Ok(next) => asked = questions.try_iter().last().unwrap_or(next),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

fn answer(common: &Common, asked: ScreenRequest) -> FeedUpdate {
    let mut said = Said::Held(Vec::new());
    let mut common = common.clone();
    let read = match &asked {
        ScreenRequest::Rows { by, image } => {
            common.image.extend(image.clone());
            let json = |model: &dyn Model| model.pretty().map_err(Failure::from);
            let words = ["top", "--by", by.word()];
            report(&words, &common, &json, &mut said).and_then(|text| {
                let rows: Vec<ScreenLine> = serde_json::from_str(&text)?;
                Ok(FeedUpdate::Rows(asked.clone(), rows, Vec::new()))
            })
        }
        ScreenRequest::Function { name, image, width } => {
            common.image.extend(image.clone());
            let names = common.names();
            let look = Look {
                width: Some(usize::from(*width)),
                ..Look::default()
            };
            let text = |model: &dyn Model| Ok(laid_out(&model.page(names), look));
            let words = ["list", "--source", "--", name.as_str()];
            report(&words, &common, &text, &mut said).map(|text| {
                let lines = text.lines().map(str::to_owned).collect();
                FeedUpdate::Lines(asked.clone(), lines, Vec::new())
            })
        }
    };
    match read {
        Ok(FeedUpdate::Rows(asked, rows, _)) => FeedUpdate::Rows(asked, rows, said.into_messages()),
        Ok(FeedUpdate::Lines(asked, lines, _)) => {
            FeedUpdate::Lines(asked, lines, said.into_messages())
        }
        Ok(failed @ FeedUpdate::Failed(..)) => failed,
        Err(failure) => FeedUpdate::Failed(asked, failure),
    }
}

/// The table of `top`, as it is printed.
pub(super) fn table(common: &Common) -> Result<String, Failure> {
    let names = common.names();
    let look = crate::terminal::look();
    let text = |model: &dyn Model| Ok(laid_out(&model.page(names), look));
    report(&["top"], common, &text, &mut Said::Held(Vec::new()))
}

/// What a report of these words answers.
fn report(
    words: &[&str],
    common: &Common,
    take: &dyn Fn(&dyn Model) -> Result<String, Failure>,
    said: &mut Said,
) -> Result<String, Failure> {
    match report::of_words(words)?.ask() {
        Ask::Code(query) => reading::of_code(query, common, take, said),
        Ask::Counters(_) | Ask::Two(_) => Err(Failure::Usage("no report on code".to_owned())),
    }
}
