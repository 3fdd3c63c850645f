//! A walk over the code that a window may run through, with registers as expressions.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

use iced_x86::{FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpKind};

use super::assemble::{Assembly, fill};
use super::symbol::{Notes, Origin, Sum};
use super::wire::Plan;
use super::{Account, Arms, Limits, Request};
use crate::decode::Support;
use crate::window::Code;

/// Instructions that one walk looks at, all ways together: for each of a window, and at most.
const VISITS: u32 = 8;
const MAX_VISITS: u32 = 512;
/// After so many it is seen whether there is room for more.
const LOOK: u32 = 16;
/// Fewer bytes are not worth looking for something that fits into them.
const LEAST: usize = 8;
/// Units of a rank for each halving of the probability.
const HALF: f64 = 16.0;
/// Conditional moves and uses of bits at which a way is split; of the moves behind, what is moved is
/// followed.
const MAX_CHOICES: u8 = 3;
/// Ways whose memory is kept from one walk to the next.
const MAX_SPARE: usize = 256;
/// Destinations of an indirect branch that are followed.
const MAX_DESTINATIONS: usize = 4;

/// Bytes that are loaded where the code is not at hand.
const FRONTIER: u64 = 32;
/// The least size of pages.
const PAGE: u64 = 4096;

/// An expression, or nothing is known.
pub(super) type Symbol = Option<Sum>;

/// Something stored on a way.
#[derive(Clone, Copy)]
pub(super) struct Stored {
    pub(super) address: Sum,
    pub(super) size: u8,
    /// Its low bytes are what was stored.
    pub(super) value: Symbol,
}

/// One way through the code.
#[derive(Clone)]
pub(super) struct Way {
    /// Process address of the next instruction.
    pc: u64,
    pub(super) registers: [Symbol; 16],
    /// The bases of FS and GS.
    pub(super) bases: [Symbol; 2],
    pub(super) stores: Vec<Stored>,
    /// Instructions to go.
    left: u32,
    /// How unlikely it is: the logarithm of its probability, in sixteenths of a bit. Of a branch
    /// of which nothing is known each arm is as likely.
    pub(super) rank: u16,
    /// Behind the window's last call: only the load of a stub's target still matters.
    stub: bool,
    /// Conditional moves, and uses of bits, at which it was split.
    choices: u8,
    /// Registers that hold 0 or 1, it is not known which, a bit each; in `registers` they are not
    /// known.
    pub(super) bits: u16,
}

/// Ways that are no longer gone, whose memory serves others: a walk splits its ways all the time. Between
/// two walks they are at most [`MAX_SPARE`].
#[derive(Default)]
#[expect(clippy::vec_box, reason = "they go on in the boxes that they are in")]
pub(super) struct Spare(Vec<Box<Way>>);

impl Spare {
    fn way(&mut self, from: &Way) -> Box<Way> {
        let Some(mut way) = self.0.pop() else {
            return Box::new(from.clone());
        };
        let mut stores = std::mem::take(&mut way.stores);
        stores.clone_from(&from.stores);
        *way = Way { stores, ..*from };
        way
    }
}

/// A way that waits for its turn.
struct Waiting {
    /// The likeliest comes first, and of those as likely the one that waits longest.
    turn: Reverse<(u16, u32)>,
    /// In a box, since the heap moves it about.
    way: Box<Way>,
}

impl Waiting {
    fn new(way: Box<Way>, turn: u32) -> Self {
        Self {
            turn: Reverse((way.rank, turn)),
            way,
        }
    }
}

impl Ord for Waiting {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.turn.cmp(&other.turn)
    }
}

impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Waiting {
    fn eq(&self, other: &Self) -> bool {
        self.turn == other.turn
    }
}

impl Eq for Waiting {}

/// Where a way goes on: process addresses, all different.
struct Next {
    all: [u64; MAX_DESTINATIONS],
    count: usize,
    /// How likely each is.
    shares: [f64; MAX_DESTINATIONS],
}

impl Default for Next {
    fn default() -> Self {
        Self {
            all: [0; MAX_DESTINATIONS],
            count: 0,
            shares: [0.5; MAX_DESTINATIONS],
        }
    }
}

impl Next {
    fn at(pc: u64) -> Self {
        let mut next = Self::default();
        next.add(pc);
        next
    }

    /// Adds one; false if there is no room.
    fn add(&mut self, pc: u64) -> bool {
        if self.all().contains(&pc) {
            return true;
        }
        let Some(place) = self.all.get_mut(self.count) else {
            return false;
        };
        *place = pc;
        self.count += 1;
        true
    }

    fn all(&self) -> &[u64] {
        &self.all[..self.count]
    }
}

/// One walk.
pub(super) struct Walk<'a, 'r> {
    code: &'a mut dyn Code,
    request: Request<'r>,
    pub(super) limits: Limits,
    pub(super) notes: &'a mut Notes,
    pub(super) factory: &'a mut InstructionInfoFactory,
    spare: &'a mut Spare,
    pub(super) account: Account,
    /// Of the image that the start lies in.
    bias: u64,
    /// The bias of the current instruction's image, less that.
    apart: u64,
    /// Process addresses of the instructions looked at.
    seen: Vec<u64>,
    /// Branches that an arm was drawn for, and where it leads.
    drawn: Vec<(u64, u64)>,
    /// Process addresses that the arms not drawn start at.
    refused: Vec<u64>,
    waiting: BinaryHeap<Waiting>,
    /// Ways that have waited so far.
    turns: u32,
    /// Steps and bytes that the notes need before they can fill the plan.
    enough: (usize, usize),
    /// The plan that the notes fill.
    full: Option<Assembly>,
    /// The register that the last instruction may have left as it was, and what that is.
    pub(super) choice: Option<(usize, Symbol)>,
}

impl<'a, 'r> Walk<'a, 'r> {
    pub(super) fn new(
        code: &'a mut dyn Code,
        request: Request<'r>,
        notes: &'a mut Notes,
        factory: &'a mut InstructionInfoFactory,
        spare: &'a mut Spare,
        bias: u64,
    ) -> Self {
        let limits = request.limits;
        Self {
            code,
            limits,
            request,
            notes,
            factory,
            spare,
            account: Account::default(),
            bias,
            apart: 0,
            seen: Vec::with_capacity(MAX_VISITS as usize),
            drawn: Vec::new(),
            refused: Vec::new(),
            waiting: BinaryHeap::new(),
            turns: 0,
            enough: (usize::from(limits.steps), usize::from(limits.bytes)),
            full: None,
            choice: None,
        }
    }

    /// Walks from `start` on, along the likeliest ways first, as long as there is room: what does not
    /// fit into a plan is then what is needed least.
    pub(super) fn run(&mut self, start: u64) {
        let registers: [Symbol; 16] =
            std::array::from_fn(|i| Some(Sum::of(Origin::Register(i as u8))));
        let base = |can: bool, of: Origin| can.then_some(Sum::of(of));
        let Limits {
            fs_base, gs_base, ..
        } = self.limits;
        self.wait(Box::new(Way {
            pc: start,
            registers,
            bases: [base(fs_base, Origin::FsBase), base(gs_base, Origin::GsBase)],
            stores: Vec::new(),
            left: self.limits.instructions,
            rank: 0,
            stub: false,
            choices: 0,
            bits: 0,
        }));
        let visits = self.limits.instructions.saturating_mul(VISITS);
        let mut next = None;
        for visit in 1..=visits.clamp(192, MAX_VISITS) {
            let Some(way) = next.take().or_else(|| Some(self.waiting.pop()?.way)) else {
                return;
            };
            next = self.advance(way).map(|way| self.go_on(way));
            if visit % LOOK == 0 && self.is_full() {
                break;
            }
        }
        let waiting = self.waiting.iter().map(|waiting| &waiting.way).chain(&next);
        let cut = waiting.filter(|way| way.left > 0);
        self.account.ways_cut += cut.count() as u32;
        let ended = self.waiting.drain().map(|waiting| waiting.way);
        self.spare.0.extend(ended.chain(next));
        self.spare.0.truncate(MAX_SPARE);
    }

    /// Whether there is no room in the plan for what comes behind the notes so far.
    fn is_full(&mut self) -> bool {
        let (steps, bytes) = self.notes.needs();
        if steps < self.enough.0 && bytes < self.enough.1 {
            return false;
        }
        let mut account = self.account;
        let assembly = fill(self.notes, self.limits, &mut account);
        let (free_steps, free_bytes) = assembly.room();
        self.enough = (steps + free_steps, bytes + free_bytes);
        let is_full = free_steps == 0 || free_bytes < LEAST;
        if is_full {
            (self.full, self.account) = (Some(assembly), account);
        }
        is_full
    }

    /// What is noted, as a plan.
    pub(super) fn finish(&mut self) -> Plan {
        let assembly = match self.full.take() {
            Some(assembly) => assembly,
            None => fill(self.notes, self.limits, &mut self.account),
        };
        assembly.finish(self.notes)
    }

    /// The way whose turn it is: this one, or the one that it waits for now.
    fn go_on(&mut self, way: Box<Way>) -> Box<Way> {
        let rank = way.rank;
        let is_first = |first: &PeekMut<'_, Waiting>| first.turn.0.0 <= rank;
        self.turns += 1;
        let turn = self.turns;
        match self.waiting.peek_mut().filter(is_first) {
            Some(mut first) => std::mem::replace(&mut *first, Waiting::new(way, turn)).way,
            None => way,
        }
    }

    fn wait(&mut self, way: Box<Way>) {
        self.turns += 1;
        self.waiting.push(Waiting::new(way, self.turns));
    }

    /// Image addresses where a window has to end because only the other arm leads there.
    pub(super) fn ends(&self) -> Vec<u64> {
        let refused = self.refused.iter().filter(|pc| !self.seen.contains(pc));
        let mut ends: Vec<_> = refused.map(|pc| pc.wrapping_sub(self.bias)).collect();
        ends.sort_unstable();
        ends.dedup();
        ends
    }

    /// One instruction of a way, which is returned if it goes on; others that go on from there wait
    /// for their turn.
    fn advance(&mut self, mut way: Box<Way>) -> Option<Box<Way>> {
        if way.left == 0 {
            self.spare.0.push(way);
            return None;
        }
        way.left -= 1;
        let pc = way.pc;
        let to = self.instruction(&mut way);
        let [first, others @ ..] = to.all() else {
            self.spare.0.push(way);
            return None;
        };
        if let Some((register, kept)) = self.choice.take() {
            self.choose(&mut way, register, kept, *first);
        }
        if others.is_empty() {
            way.pc = *first;
        } else if let Arms::Drawn(_) = self.request.arms {
            way.pc = self.draw(pc, to.all());
        } else {
            let before = way.rank;
            for (other, share) in others.iter().zip(&to.shares[1..]) {
                let mut other_way = self.spare.way(&way);
                other_way.pc = *other;
                other_way.rank = before.saturating_add(rank_of(*share));
                self.wait(other_way);
            }
            way.pc = *first;
            way.rank = before.saturating_add(rank_of(to.shares[0]));
        }
        Some(way)
    }

    /// Goes on behind a conditional move with each of both values, or with the one that is known.
    fn choose(&mut self, way: &mut Way, register: usize, kept: Symbol, next: u64) {
        let moved = way.registers[register];
        way.rank = way.rank.saturating_add(HALF as u16);
        if kept.is_none() {
            return;
        }
        if moved.is_none() {
            way.registers[register] = kept;
        } else if way.choices < MAX_CHOICES {
            way.choices += 1;
            let mut other = self.spare.way(way);
            other.pc = next;
            other.registers[register] = kept;
            self.wait(other);
        }
    }

    /// Before an instruction that makes an address of a bit: the way goes on with 1, and another one, at
    /// the same instruction, with 0. Tables of two entries are looked into that way.
    fn settle_bits(&mut self, way: &mut Way, i: &Instruction) {
        if way.bits == 0 || (0..i.op_count()).all(|n| i.op_kind(n) != OpKind::Memory) {
            return;
        }
        for register in [i.memory_base(), i.memory_index()] {
            let number = register.full_register().number() & 15;
            let is_bit = register.is_gpr() && way.bits >> number & 1 != 0;
            if !is_bit || way.choices >= MAX_CHOICES {
                continue;
            }
            way.choices += 1;
            way.bits &= !(1 << number);
            way.rank = way.rank.saturating_add(HALF as u16);
            let mut other = self.spare.way(way);
            other.left += 1;
            other.registers[number] = Some(Sum::constant(0));
            self.wait(other);
            way.registers[number] = Some(Sum::constant(1));
        }
    }

    /// Which arm of a branch is followed: drawn once for each.
    fn draw(&mut self, pc: u64, arms: &[u64]) -> u64 {
        if let Some((_, drawn)) = self.drawn.iter().find(|(at, _)| *at == pc)
            && arms.contains(drawn)
        {
            return *drawn;
        }
        let drawn = match &mut self.request.arms {
            Arms::Drawn(draw) => draw(arms.len()),
            Arms::Both => 0,
        };
        let drawn = arms[drawn % arms.len()];
        self.drawn.push((pc, drawn));
        self.refused
            .extend(arms.iter().filter(|arm| **arm != drawn));
        drawn
    }

    /// Notes what an instruction loads, and does to the way's registers what it does.
    fn instruction(&mut self, way: &mut Way) -> Next {
        let (i, interpreted) = match self.code.fetch(way.pc) {
            Ok(fetched) if fetched.bias == self.bias || self.request.other_images => {
                self.apart = fetched.bias.wrapping_sub(self.bias);
                let decoded = fetched.instruction;
                let i = *decoded.instruction();
                let support = decoded.support();
                self.note_code(way, i.len());
                let interpreted = match support {
                    Support::Stops(_) => return Next::default(),
                    Support::Interpreted => true,
                    Support::Skipped => false,
                };
                (i, interpreted)
            }
            Ok(_) => return Next::default(),
            Err(_) => {
                self.note_frontier(way.pc);
                return Next::default();
            }
        };
        if way.stub {
            self.stub(way, &i);
            return self.flow(way, &i, None);
        }
        self.seen.push(way.pc);
        self.settle_bits(way, &i);
        let target = if interpreted {
            self.interpreted(way, &i)
        } else {
            self.others(way, &i, false);
            None
        };
        self.flow(way, &i, target)
    }

    /// Has the code at the way's PC brought along, if it can have been written.
    fn note_code(&mut self, way: &Way, bytes: usize) {
        if self.is_changeable(way.pc) {
            let at = way.pc.wrapping_sub(self.bias);
            self.notes.code(at, bytes as u8, way.rank);
        }
    }

    /// Has code that is not at hand brought along, as far as its page goes: the next may be missing.
    fn note_frontier(&mut self, pc: u64) {
        if self.is_changeable(pc) {
            let bytes = FRONTIER.min(PAGE - pc % PAGE);
            self.notes.frontier(pc.wrapping_sub(self.bias), bytes as u8);
        }
    }

    fn is_changeable(&mut self, pc: u64) -> bool {
        let changeable = &mut self.request.changeable;
        changeable.as_mut().is_some_and(|changeable| changeable(pc))
    }

    /// Where the way goes on; `target` is that of an indirect branch.
    fn flow(&mut self, way: &mut Way, i: &Instruction, target: Symbol) -> Next {
        let next = way.pc.wrapping_add(i.len() as u64);
        let near = (i.op_count() > 0 && i.op0_kind() == OpKind::NearBranch64)
            .then(|| self.in_process(i.near_branch64()));
        let to = match i.flow_control() {
            FlowControl::Next => Next::at(next),
            FlowControl::ConditionalBranch => {
                let Some(taken) = near else {
                    return Next::default();
                };
                let mut to = Next::at(next);
                to.add(taken);
                let directions = self.request.directions.as_mut();
                let seen = directions.and_then(|directions| directions(way.pc));
                if let Some((taken, not_taken)) = seen {
                    let all = taken as f64 + not_taken as f64 + 2.0;
                    to.shares[0] = (not_taken as f64 + 1.0) / all;
                    to.shares[1] = (taken as f64 + 1.0) / all;
                }
                to
            }
            FlowControl::UnconditionalBranch | FlowControl::Call => {
                near.map_or_else(Next::default, Next::at)
            }
            FlowControl::IndirectBranch | FlowControl::IndirectCall | FlowControl::Return => {
                self.destinations(way.pc, target)
            }
            _ => Next::default(),
        };
        if matches!(
            i.flow_control(),
            FlowControl::Call | FlowControl::IndirectCall
        ) && way.left == 0
            && !way.stub
        {
            // `endbr64` and a jump.
            way.stub = true;
            way.left = 2;
        }
        to
    }

    /// Where an indirect branch may lead: the one place that follows from the code, or those that
    /// the caller has seen.
    fn destinations(&mut self, pc: u64, target: Symbol) -> Next {
        if let Some(known) = target.and_then(|sum| self.code_address(sum)) {
            return Next::at(known);
        }
        let mut next = Next::default();
        if let Some(seen) = &mut self.request.destinations {
            let mut complete = true;
            seen(pc, &mut |destination| complete &= next.add(destination));
            self.account.ways_cut += u32::from(!complete);
        }
        next
    }

    /// An address in the image of the current instruction, as process address now.
    fn in_process(&self, address: u64) -> u64 {
        address.wrapping_add(self.apart).wrapping_add(self.bias)
    }

    /// An address in the image of the current instruction, as expression.
    pub(super) fn in_image(&self, address: u64) -> Sum {
        Sum::of(Origin::Bias).plus(address.wrapping_add(self.apart))
    }

    /// The process address that an expression is, if it is one whatever the registers hold.
    fn code_address(&self, sum: Sum) -> Option<u64> {
        if sum.distance(Sum::of(Origin::Bias)).is_some() {
            return Some(sum.displacement.wrapping_add(self.bias));
        }
        sum.as_constant()
    }

    /// A stub of the procedure linkage table has its target in memory.
    fn stub(&mut self, way: &mut Way, i: &Instruction) {
        if i.mnemonic() == Mnemonic::Jmp && i.op0_kind() == OpKind::Memory {
            self.operand(way, i, 0);
        } else if i.mnemonic() != Mnemonic::Endbr64 {
            way.left = 0;
        }
    }
}

/// What a way of that probability is behind one that is certain.
fn rank_of(share: f64) -> u16 {
    (-share.log2() * HALF).round() as u16
}
