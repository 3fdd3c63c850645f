//! Capture plans: which loads a window needs, worked out before it is sampled.
//!
//! From a PC and the code there, a [`Planner`] follows the ways that a window can take and writes
//! each load's address as an expression over the registers of the sample and what earlier loads
//! found. The handler of the interrupt evaluates that [`Plan`] ([`evaluate`] is what it must do)
//! and brings back a [`Snapshot`], from which the window reads.
//!
//! A plan is advice. What it leaves out, and what was changed since it was made, costs knowledge;
//! no value is ever taken from memory that the window itself does not address.

mod assemble;
mod cache;
mod display;
mod follow;
mod pieces;
mod snapshot;
mod symbol;
mod walk;
mod wire;

use iced_x86::InstructionInfoFactory;

pub use cache::{PlanCache, PlanKey};
pub use pieces::Pieces;
pub use snapshot::{Evaluated, MAX_PIECES, MAX_SNAPSHOT_BYTES, Snapshot, Sources, evaluate};
pub use wire::{
    MAX_STEP_BYTES, MAX_STEPS, Operation, PLAN_VERSION, Part, Plan, PlanError, Source, Step,
    is_nowhere,
};

use crate::stop::StopReason;
use crate::window::{Code, Fetched};
use symbol::{Notes, Origin, Sum};
use walk::{Spare, Walk};

/// What a handler can evaluate, and how far its windows go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Instructions of a window.
    pub instructions: u32,
    /// Steps of a plan, at most [`MAX_STEPS`].
    pub steps: u8,
    /// Bytes that all steps of a plan read, at most [`MAX_SNAPSHOT_BYTES`].
    pub bytes: u16,
    /// The handler knows the base of FS.
    pub fs_base: bool,
    /// The handler knows the base of GS.
    pub gs_base: bool,
}

/// Bytes of code and of loads that a plan has for each instruction of a window.
const BYTES_AN_INSTRUCTION: u32 = 8;
/// What it has in any case: many ways are short, and there may be several.
const LEAST_BYTES: u32 = 512;

impl Limits {
    /// 32 steps, 8 bytes for each of so many instructions but at least 512 and at most
    /// [`MAX_SNAPSHOT_BYTES`], and both bases.
    pub fn of_windows(instructions: u32) -> Self {
        let bytes = instructions.saturating_mul(BYTES_AN_INSTRUCTION);
        Self {
            instructions,
            steps: MAX_STEPS as u8,
            bytes: bytes.clamp(LEAST_BYTES, MAX_SNAPSHOT_BYTES as u32) as u16,
            fs_base: true,
            gs_base: true,
        }
    }
}

impl Default for Limits {
    /// Those of windows of 16 instructions.
    fn default() -> Self {
        Self::of_windows(16)
    }
}

/// What to do at a branch whose direction is open.
pub enum Arms<'a> {
    /// The plan covers both ways.
    Both,
    /// The plan covers one way, drawn by the caller, who is asked for a random number below the
    /// number of arms (for a conditional branch 0 is the next instruction, 1 the target). A window
    /// that goes another way has to [end](Planned::ends) there, so that no arm's values crowd out
    /// another's.
    Drawn(&'a mut dyn FnMut(usize) -> usize),
}

/// Tells, of the indirect branch at a process address, the process addresses that it was seen to
/// lead to, by calling what it is given with each of them.
pub type Destinations<'a> = &'a mut dyn FnMut(u64, &mut dyn FnMut(u64));

/// Tells how often the conditional branch at a process address was seen taken, and not taken.
pub type Directions<'a> = &'a mut dyn FnMut(u64) -> Option<(u64, u64)>;

/// Tells whether the code at a process address can have been written, so that only its bytes as of
/// the interrupt say what is executed.
pub type Changeable<'a> = &'a mut dyn FnMut(u64) -> bool;

/// What is asked of a plan.
pub struct Request<'a> {
    /// What to do at open branches.
    pub arms: Arms<'a>,
    /// Where the return address lies, to be loaded first.
    pub return_address: Option<ReturnAddress>,
    /// Where indirect branches and returns may lead; without, a plan ends at those that do not
    /// follow from the code.
    pub destinations: Option<Destinations<'a>>,
    /// Which way conditional branches go: what is needed on the likelier ways goes into the plan
    /// before what is needed on others. Without, both arms are as likely.
    pub directions: Option<Directions<'a>>,
    /// Which of the code the handler has to bring along, as loads of at most [`MAX_STEP_BYTES`] of
    /// whole instructions. Where such code is not at hand for the plan to follow, the bytes from
    /// there on are loaded, so that the next plan can follow it.
    pub changeable: Option<Changeable<'a>>,
    /// Code of other images is followed, too. The plan is then good for this process alone, in
    /// which the images lie as they do.
    pub other_images: bool,
    /// What the handler can do.
    pub limits: Limits,
}

impl Default for Request<'_> {
    /// Both arms of branches, and nothing else.
    fn default() -> Self {
        Self {
            arms: Arms::Both,
            return_address: None,
            destinations: None,
            directions: None,
            changeable: None,
            other_images: false,
            limits: Limits::default(),
        }
    }
}

/// Where a return address lies, at the first instruction of a window: from an unwind row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReturnAddress {
    /// Number of the general register that it is found by.
    pub register: u8,
    /// Bytes from there, modulo 2^64.
    pub offset: u64,
}

/// What a plan covers and what it leaves out. Loads met on several ways with the same address
/// count once, those left out as often as they were met.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Account {
    /// Loads whose addresses can be written as expressions.
    pub loads: u32,
    /// Of these, left out for the handler's limits.
    pub dropped: u32,
    /// Loads over registers that cannot be followed, or of sizes that steps do not have.
    pub unknown: u32,
    /// Loads of what the window itself has stored.
    pub stored: u32,
    /// Loads of repeated string instructions, whose number is not known.
    pub repeated: u32,
    /// Ways that were given up because there were too many.
    pub ways_cut: u32,
    /// Instructions whose bytes are to be loaded.
    pub code: u32,
    /// Of these, left out for the handler's limits.
    pub code_dropped: u32,
}

/// A plan and what goes with it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Planned {
    /// For the handler.
    pub plan: Plan,
    /// Image addresses that only arms not drawn lead to: windows [end](Ending) there. Sorted.
    pub ends: Vec<u64>,
    /// What the plan covers.
    pub account: Account,
}

impl Default for Planned {
    /// Nothing is loaded, and nothing ends.
    fn default() -> Self {
        Self {
            plan: Plan::new(&[]),
            ends: Vec::new(),
            account: Account::default(),
        }
    }
}

/// Makes plans. What it makes depends on nothing but what it is given; it only keeps its
/// allocations from one plan to the next.
pub struct Planner {
    notes: Notes,
    factory: InstructionInfoFactory,
    spare: Spare,
}

impl Default for Planner {
    fn default() -> Self {
        Self {
            notes: Notes::default(),
            factory: InstructionInfoFactory::new(),
            spare: Spare::default(),
        }
    }
}

impl Planner {
    /// The plan for windows that start at a process address.
    ///
    /// # Errors
    /// Why there is no code at `start`.
    pub fn plan(
        &mut self,
        start: u64,
        code: &mut dyn Code,
        request: Request<'_>,
    ) -> Result<Planned, StopReason> {
        let Fetched { bias, .. } = code.fetch(start)?;
        self.notes.clear();
        if let Some(ReturnAddress { register, offset }) = request.return_address {
            let address = Sum::of(Origin::Register(register & 15)).plus(offset);
            self.notes.load(address, 8, Part::WHOLE, 0);
        }
        let Self {
            notes,
            factory,
            spare,
        } = self;
        let mut walk = Walk::new(code, request, notes, factory, spare, bias);
        walk.run(start);
        let ends = walk.ends();
        let plan = walk.finish();
        let mut account = walk.account;
        account.loads += self.notes.dropped;
        account.dropped += self.notes.dropped;
        Ok(Planned {
            plan,
            ends,
            account,
        })
    }
}

/// Code in which a window ends where the arms that were not drawn begin.
pub struct Ending<'a> {
    code: &'a mut dyn Code,
    /// Image addresses.
    ends: &'a [u64],
    /// Of the image that they belong to.
    bias: u64,
}

impl<'a> Ending<'a> {
    /// The code, less what only arms not drawn lead to. `bias` is that of the image which the
    /// plan's windows start in.
    pub fn new(code: &'a mut dyn Code, planned: &'a Planned, bias: u64) -> Self {
        Self {
            code,
            ends: &planned.ends,
            bias,
        }
    }
}

impl Code for Ending<'_> {
    fn fetch(&mut self, pc: u64) -> Result<Fetched<'_>, StopReason> {
        if self.ends.binary_search(&pc.wrapping_sub(self.bias)).is_ok() {
            return Err(StopReason::OtherArm);
        }
        self.code.fetch(pc)
    }
}
