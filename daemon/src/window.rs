//! From a sample to value events: what the interpreter sees of the process' memory, and what it
//! says.

use std::array;
use std::cell::OnceCell;
use std::sync::LazyLock;

use hotlist::Generator;
use interpreter::{
    Access, Call, Capture, CodeMemory, Memory, OTHER_ARGUMENTS, Parameter, Pieces, Sink, Verdict,
};

use crate::access::Evidence;
use crate::tables::{Moment, Owner, Pc, PcId, SiteId, Tables};
use crate::view::View;

/// What was read at the interrupt: code, and what it loads. It is looked at when it is first
/// wanted: most samples are no beginning of a window that counts.
#[derive(Debug)]
pub(crate) struct Brought<'a> {
    pc: u64,
    capture: &'a sampler::Capture,
    pieces: OnceCell<Pieces<'a>>,
}

/// Whether the kernel copies a few bytes of a process by one instruction, which takes aligned words
/// whole. Without, it copies those that are less than a word one by one. The kernel's own memory it
/// copies by parts of words.
static COPIES_WHOLE: LazyLock<bool> = LazyLock::new(|| {
    let flags = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    flags.split_whitespace().any(|flag| flag == "fsrm")
});

impl<'a> Brought<'a> {
    /// What came with a sample at this PC.
    pub(crate) fn new(pc: u64, capture: &'a sampler::Capture) -> Self {
        Self {
            pc,
            capture,
            pieces: OnceCell::new(),
        }
    }

    pub(crate) fn pieces(&self) -> &Pieces<'a> {
        self.pieces.get_or_init(|| {
            let mut pieces = Pieces::default();
            let mut changes = self.capture.changes().peekable();
            for (number, (address, bytes)) in self.capture.pieces().enumerate() {
                let change = changes.next_if(|change| change.piece == number);
                // What does not fit is not known.
                pieces.push_changing(address, bytes, change.map_or(0, |change| change.words));
            }
            if self.pc >> 63 != 0 || *COPIES_WHOLE {
                pieces.read_whole();
            }
            // The code was read behind all that.
            pieces.push(self.pc, self.capture.code());
            pieces
        })
    }
}

/// Memory as of the interrupt: what was read on the way, else the stack copy of the sample, and
/// pristine image pages.
#[derive(Debug)]
pub(crate) struct SampleMemory<'a, 'v> {
    pub(crate) view: &'a View<'v>,
    /// Address of the first byte of `stack`.
    pub(crate) stack_start: u64,
    pub(crate) stack: &'a [u8],
    /// Where the way was followed, what it loads was read in the order of its loads, and the stack
    /// behind all of it, for the callers alone.
    pub(crate) stack_is_for_callers: bool,
    pub(crate) brought: Option<&'a Brought<'a>>,
    /// Memory that others may write was read but once.
    pub(crate) seen_once: bool,
}

impl SampleMemory<'_, '_> {
    /// What was read in the interrupt besides the stack.
    fn brought(&mut self, address: u64, len: usize) -> Option<&[u8]> {
        let brought = self.brought?;
        if self.is_seen_once(brought, address, len) {
            self.seen_once = true;
            return brought.pieces().bytes_seen_once(address, len);
        }
        brought.pieces().bytes(address, len)
    }

    /// What was read in two pieces.
    fn across(&mut self, address: u64, bytes: &mut [u8]) -> bool {
        let Some(brought) = self.brought else {
            return false;
        };
        Pieces::are_apart(address, bytes.len())
            && !self.is_seen_once(brought, address, bytes.len())
            && brought.pieces().across(address, bytes)
    }

    /// Whether others may write some of these bytes, and nobody has looked a second time.
    fn is_seen_once(&self, brought: &Brought<'_>, address: u64, len: usize) -> bool {
        let last = address.saturating_add((len as u64).saturating_sub(1));
        !brought.capture.second_look
            && (self.view.may_be_exposed(address)
                || last / 4096 != address / 4096 && self.view.may_be_exposed(last))
    }

    /// The copy of the stack, which was made behind all pieces. What others may write of it was
    /// seen at several moments, unless it was looked at a second time.
    fn copied(&mut self, address: u64, len: usize) -> Option<&[u8]> {
        if self.stack_is_for_callers {
            return None;
        }
        let start = usize::try_from(address.checked_sub(self.stack_start)?).ok()?;
        let copied = self.stack.get(start..start.checked_add(len)?)?;
        if let Some(brought) = self.brought {
            if self.is_seen_once(brought, address, len) {
                self.seen_once = true;
                return None;
            }
            brought.pieces().close();
        }
        Some(copied)
    }
}

impl SampleMemory<'_, '_> {
    /// A word of the stack as of the interrupt, if it was copied.
    pub(crate) fn stack_word(&self, address: u64) -> Option<u64> {
        let start = usize::try_from(address.checked_sub(self.stack_start)?).ok()?;
        let word = self.stack.get(start..start.checked_add(8)?)?;
        Some(u64::from_le_bytes(word.try_into().ok()?))
    }
}

impl Memory for SampleMemory<'_, '_> {
    fn read(&mut self, address: u64, bytes: &mut [u8]) -> bool {
        if let Some(held) = self.brought(address, bytes.len()) {
            bytes.copy_from_slice(held);
            return true;
        }
        if self.across(address, bytes) {
            return true;
        }
        if let Some(held) = self.copied(address, bytes.len()) {
            bytes.copy_from_slice(held);
            return true;
        }
        self.view.read_image(address, bytes)
    }

    fn fence(&mut self) {
        if let Some(brought) = self.brought {
            brought.pieces().close();
        }
    }

    fn may_alias(&mut self, first: u64, last: u64, other: u64) -> bool {
        self.view.may_alias(first, last, other)
    }

    fn check(&mut self, address: u64, bytes: u64, access: Access) -> Verdict {
        let evidence = |page: u64| self.evidence(page);
        self.view.check(address, bytes, access, evidence)
    }

    fn code_memory(&mut self, address: u64) -> CodeMemory {
        self.view.code_memory(address)
    }
}

impl SampleMemory<'_, '_> {
    /// How it is known that a page was mapped at the interrupt.
    fn evidence(&self, page: u64) -> Option<Evidence> {
        let meets = |start: u64, len: usize| {
            let end = start.saturating_add(len as u64);
            len > 0 && start <= page | 0xfff && end > page
        };
        if meets(self.stack_start, self.stack.len()) {
            return Some(Evidence::Stack);
        }
        let pieces = self.brought?.pieces();
        let mut all = (0..).map_while(|number| pieces.piece(number));
        all.any(|(start, bytes)| meets(start, bytes.len()))
            .then_some(Evidence::Read)
    }
}

/// A value event; `None`: reached, but the value is not known.
pub(crate) type Event = (Parameter, Option<u64>);

/// Takes the value events of a window into the tables.
#[derive(Debug)]
pub(crate) struct Recorder<'a, 'v> {
    pub(crate) view: &'a View<'v>,
    pub(crate) tables: &'a mut Tables,
    pub(crate) coins: &'a mut Generator,
    pub(crate) owner: Owner,
    /// Number of this window, from 1.
    pub(crate) window: u64,
    /// Instructions reached in it.
    pub(crate) depth: u32,
    /// Wall-clock time of the sample, ns of the Unix epoch.
    pub(crate) time: u64,
    /// Whether hotlists are keyed by the call site.
    pub(crate) by_caller: bool,
    /// Call sites of the frames of this window, the innermost last; `None`: not known.
    pub(crate) callers: &'a mut Vec<Option<PcId>>,
    /// The instruction that the window is at, with its site.
    pub(crate) current: Option<(u64, SiteId)>,
    pub(crate) values: u64,
    pub(crate) destinations: u64,
    pub(crate) destinations_known: u64,
    pub(crate) loads: u64,
    pub(crate) loads_known: u64,
    /// The kinds of values that are wanted.
    pub(crate) capture: Capture,
    /// Where the last call ends up: a jump there is its stub's.
    pub(crate) called: Option<u64>,
    /// An indirect transfer at this PC, which is a jump unless a call is reported next.
    pub(crate) transfer: Option<(u64, Option<u64>)>,
}

impl Recorder<'_, '_> {
    fn site(&mut self, address: u64) -> Option<SiteId> {
        if let Some((known, site)) = self.current
            && known == address
        {
            return Some(site);
        }
        let pc = self.view.place(address)?;
        self.tables.site(self.owner, pc)
    }

    fn caller(&self) -> Option<PcId> {
        self.callers
            .last()
            .copied()
            .flatten()
            .filter(|_| self.by_caller)
    }

    /// Counts the last indirect transfer as a jump, if no call was reported for it; also to be
    /// called at the end of the window.
    pub(crate) fn settle_jump(&mut self) {
        let Some((pc, target)) = self.transfer.take() else {
            return;
        };
        let target = target.and_then(|target| self.view.place(target));
        if let Some(site) = self.site(pc)
            && let Some(site) = self.tables.pc_of(site)
        {
            self.tables.add_call(self.owner, site, target);
        }
    }

    /// Counts a call and, where they are wanted, its arguments.
    fn add_call(&mut self, at: Option<SiteId>, callee: Option<Pc>, call: &Call) -> Option<PcId> {
        let at = at?;
        let site = self.tables.pc_of(at)?;
        // What is handed to a denied image is as secret as what it makes of it.
        let wanted = self.capture.contains(Capture::ARGS)
            && callee.is_none_or(|pc| !self.view.is_denied(pc));
        let others = callee.map(|pc| self.view.other_arguments(pc));
        let callee = self.tables.add_call(self.owner, site, callee);
        if let Some(callee) = callee.filter(|_| wanted) {
            let values = call.arguments;
            // The casts are exact: there are six of them, and eight.
            let events: [_; 6] = array::from_fn(|i| (Parameter::Arg(i as u8), values[i]));
            self.add_arguments(at, callee, site, &events);
            if let Some(others) = others.filter(|others| !others.is_empty()) {
                let event = |i: usize| (Parameter::ArgIn(OTHER_ARGUMENTS[i]), call.others[i]);
                let mut events = [(Parameter::Taken, None); OTHER_ARGUMENTS.len()];
                let mut count = 0;
                for (held, number) in events.iter_mut().zip(others.numbers()) {
                    *held = event(number);
                    count += 1;
                }
                self.add_arguments(at, callee, site, &events[..count]);
            }
            if self.capture.contains(Capture::VECTOR) {
                let words = call.vector_arguments;
                let event = |i: usize| (Parameter::VectorArg(i as u8), words[i].get(8));
                let events: [_; 8] = array::from_fn(event);
                self.add_arguments(at, callee, site, &events);
            }
        }
        Some(site)
    }

    /// Counts value events at what a site calls.
    #[inline(never)]
    fn add_arguments(&mut self, at: SiteId, of: PcId, site: PcId, events: &[Event]) {
        let known = events.iter().filter(|(_, value)| value.is_some());
        self.values += known.count() as u64;
        let moment = self.moment(Some(site));
        let Some(mut place) = self.tables.place(at, Some(of)) else {
            return;
        };
        for &(parameter, value) in events {
            self.tables
                .add_value(&mut place, parameter, value, moment, self.coins);
        }
    }

    #[inline]
    fn moment(&self, caller: Option<PcId>) -> Moment {
        Moment {
            caller,
            window: self.window,
            depth: self.depth,
            time: self.time,
        }
    }
}

impl Sink for Recorder<'_, '_> {
    fn reached(&mut self, pc: u64, mark: u32) {
        if self.transfer.is_some() {
            self.settle_jump();
        }
        self.depth += 1;
        let place = self.view.place(pc);
        let (tables, owner) = (&mut self.tables, self.owner);
        let site = place.and_then(|place| tables.marked_site(owner, place, mark));
        self.current = site.map(|site| (pc, site));
    }

    fn value(&mut self, pc: u64, parameter: Parameter, value: Option<u64>) {
        self.values(pc, &[(parameter, value)]);
    }

    fn values(&mut self, pc: u64, events: &[Event]) {
        let site = self.site(pc);
        let moment = self.moment(self.caller());
        let mut place = site.and_then(|site| self.tables.place(site, None));
        for &(parameter, value) in events {
            let known = u64::from(value.is_some());
            match parameter {
                Parameter::Dest(_) => {
                    self.destinations += 1;
                    self.destinations_known += known;
                }
                Parameter::Target => self.transfer = Some((pc, value)),
                _ => {}
            }
            if let Some(place) = &mut place {
                self.values += known;
                self.tables
                    .add_value(place, parameter, value, moment, self.coins);
            }
        }
    }

    fn branch(&mut self, pc: u64, taken: Option<bool>) {
        if let Some(site) = self.site(pc) {
            self.tables.add_branch(site, taken);
        }
    }

    fn call(&mut self, call: &Call) {
        self.transfer = None;
        self.called = call.target;
        let site = self.site(call.site);
        let callee = call.target.and_then(|target| self.view.place(target));
        let site = self.add_call(site, callee, call);
        self.callers.push(site);
    }

    fn jump(&mut self, jump: &Call) {
        if self.called == jump.target {
            return;
        }
        let Some((to, from)) = jump
            .target
            .and_then(|target| Some((self.view.place(target)?, self.view.place(jump.site)?)))
        else {
            return;
        };
        // A jump to the entry of another function is a call that returns to the caller's caller.
        if self.view.is_entry(to) && !self.view.is_same_function(from, to) {
            self.transfer = None;
            let site = self.tables.site(self.owner, from);
            self.add_call(site, Some(to), jump);
        }
    }

    fn returned(&mut self, _pc: u64) {
        self.callers.pop();
    }

    fn load(&mut self, _pc: u64, _address: Option<u64>, _bytes: u32, known: bool) {
        self.loads += 1;
        self.loads_known += u64::from(known);
    }
}
