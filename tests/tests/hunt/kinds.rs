//! The kinds of programs: which memory, which steps, which surroundings.

use rand::RngExt as _;
use rand::rngs::SmallRng;

use crate::codes::Family;
use crate::layout::Region;
use crate::steps::Step;

/// A kind of programs whose truth is what their own single steps show.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kind {
    pub(crate) name: &'static str,
    /// Regions and their weights.
    regions: &'static [(Region, u32)],
    /// Steps and their weights.
    steps: &'static [(Step, u32)],
    /// Threads, at most.
    pub(crate) threads: u32,
    /// Processes: 2 where it forks.
    pub(crate) processes: u32,
    /// A timer interrupts its threads with a handler that runs a block.
    pub(crate) timer: bool,
    /// Rounding and denormals are treated in different ways.
    pub(crate) float_modes: bool,
    /// It writes its code, in its place or through another view.
    pub(crate) writes_code: bool,
    /// It needs instructions for the bases of segments.
    pub(crate) segments: bool,
    /// Its blocks are compiled C.
    pub(crate) compiled: bool,
    /// Others write what its instructions read (`relations.rs`): it has no blocks.
    pub(crate) related: bool,
}

const PLAIN: Kind = Kind {
    name: "",
    regions: &[(Region::Heap, 3), (Region::Spare, 1), (Region::Stack, 1)],
    steps: &[],
    threads: 1,
    processes: 1,
    timer: false,
    float_modes: false,
    writes_code: false,
    segments: false,
    compiled: false,
    related: false,
};

use Family as F;
use Step as S;

/// All of them.
pub(crate) const KINDS: &[Kind] = &[
    Kind {
        name: "instructions",
        steps: &[
            (S::Any(F::Integer), 10),
            (S::Any(F::Sse), 3),
            (S::Any(F::Vex), 3),
            (S::Any(F::Evex), 3),
            (S::Load, 3),
            (S::Store, 2),
            (S::Push, 1),
            (S::Branch, 2),
            (S::Loop, 1),
        ],
        ..PLAIN
    },
    Kind {
        name: "views",
        regions: &[
            (Region::ViewA, 4),
            (Region::ViewB, 4),
            (Region::PrivateView, 1),
            (Region::Heap, 1),
        ],
        steps: &[
            (S::Load, 8),
            (S::Store, 6),
            (S::Change, 3),
            (S::Vector, 3),
            (S::Follow, 2),
            (S::String, 1),
            (S::Any(F::Integer), 4),
            (S::Branch, 1),
            (S::Gather, 1),
            (S::Slow, 1),
        ],
        ..PLAIN
    },
    Kind {
        name: "rings",
        regions: &[
            (Region::RingLow, 3),
            (Region::RingHigh, 3),
            (Region::Heap, 1),
        ],
        steps: &[
            (S::Load, 8),
            (S::Store, 6),
            (S::Change, 2),
            (S::Vector, 3),
            (S::String, 3),
            (S::Any(F::Integer), 3),
            (S::OddStore, 1),
        ],
        ..PLAIN
    },
    Kind {
        name: "faults",
        regions: &[
            (Region::ReadOnly, 4),
            (Region::Nothing, 3),
            (Region::Bad, 3),
            (Region::Heap, 2),
        ],
        steps: &[
            (S::Fault, 5),
            (S::Slow, 4),
            (S::Load, 3),
            (S::Any(F::Integer), 3),
            (S::Branch, 1),
        ],
        ..PLAIN
    },
    Kind {
        name: "retries",
        regions: &[(Region::Retry, 4), (Region::Heap, 2), (Region::ReadOnly, 1)],
        steps: &[
            (S::Slow, 3),
            (S::Load, 5),
            (S::Store, 3),
            (S::String, 1),
            (S::Vector, 2),
            (S::Any(F::Integer), 3),
        ],
        ..PLAIN
    },
    Kind {
        name: "traps",
        steps: &[
            (S::Trap, 4),
            (S::Slow, 4),
            (S::Load, 2),
            (S::Store, 2),
            (S::Any(F::Integer), 3),
            (S::Branch, 1),
        ],
        ..PLAIN
    },
    Kind {
        name: "code",
        steps: &[
            (S::Patch, 4),
            (S::Load, 3),
            (S::Store, 2),
            (S::Any(F::Integer), 4),
            (S::Branch, 1),
        ],
        writes_code: true,
        ..PLAIN
    },
    Kind {
        name: "mappings",
        regions: &[(Region::Heap, 2), (Region::Spare, 3)],
        steps: &[
            (S::Remap, 2),
            (S::Load, 5),
            (S::Store, 3),
            (S::Slow, 3),
            (S::Any(F::Integer), 3),
        ],
        ..PLAIN
    },
    Kind {
        name: "segments",
        steps: &[
            (S::ThreadLocal, 4),
            (S::GsLocal, 4),
            (S::MoveFs, 3),
            (S::MoveGs, 2),
            (S::Load, 2),
            (S::Store, 2),
            (S::Any(F::Integer), 2),
        ],
        threads: 2,
        segments: true,
        ..PLAIN
    },
    Kind {
        name: "floats",
        steps: &[
            (S::Any(F::Float), 10),
            (S::Any(F::Vex), 4),
            (S::Any(F::Evex), 3),
            (S::Vector, 4),
            (S::Load, 1),
        ],
        float_modes: true,
        ..PLAIN
    },
    Kind {
        name: "strings",
        regions: &[
            (Region::Heap, 4),
            (Region::Spare, 2),
            (Region::ViewA, 1),
            (Region::ReadOnly, 1),
        ],
        steps: &[
            (S::String, 5),
            (S::Load, 4),
            (S::Store, 2),
            (S::Any(F::Integer), 2),
        ],
        ..PLAIN
    },
    Kind {
        name: "x87",
        steps: &[
            (S::X87, 5),
            (S::Any(F::X87), 4),
            (S::Load, 4),
            (S::Store, 2),
            (S::Any(F::Integer), 2),
        ],
        ..PLAIN
    },
    Kind {
        name: "stores",
        steps: &[
            (S::OddStore, 6),
            (S::Store, 3),
            (S::Load, 4),
            (S::Gather, 2),
            (S::Change, 2),
            (S::Vector, 2),
            (S::Any(F::Integer), 2),
        ],
        ..PLAIN
    },
    Kind {
        name: "vectors",
        regions: &[
            (Region::Heap, 4),
            (Region::Nothing, 1),
            (Region::ReadOnly, 1),
        ],
        steps: &[
            (S::Any(F::Vex), 6),
            (S::Any(F::Evex), 8),
            (S::Vector, 4),
            (S::Gather, 2),
            (S::Load, 2),
        ],
        ..PLAIN
    },
    Kind {
        name: "signals",
        steps: &[
            (S::Load, 5),
            (S::Store, 4),
            (S::Vector, 1),
            (S::Push, 2),
            (S::Call, 2),
            (S::Any(F::Integer), 5),
            (S::Branch, 2),
            (S::Slow, 1),
        ],
        timer: true,
        ..PLAIN
    },
    Kind {
        name: "threads",
        steps: &[
            (S::Load, 5),
            (S::Store, 4),
            (S::Change, 3),
            (S::ThreadLocal, 3),
            (S::Call, 2),
            (S::Loop, 2),
            (S::Any(F::Integer), 5),
        ],
        threads: 2,
        ..PLAIN
    },
    Kind {
        name: "forks",
        regions: &[
            (Region::Heap, 3),
            (Region::Spare, 2),
            (Region::ViewA, 1),
            (Region::ReadOnly, 1),
        ],
        steps: &[
            (S::Load, 6),
            (S::Store, 5),
            (S::Vector, 2),
            (S::Call, 1),
            (S::Any(F::Integer), 4),
        ],
        processes: 2,
        ..PLAIN
    },
    Kind {
        name: "compiled",
        regions: &[(Region::Heap, 3), (Region::ViewA, 1), (Region::ViewB, 1)],
        compiled: true,
        ..PLAIN
    },
    Kind {
        name: "relations",
        related: true,
        ..PLAIN
    },
];

/// One of several, by weight.
fn weighted<T: Copy>(choices: &[(T, u32)], rng: &mut SmallRng) -> Option<T> {
    let sum = choices.iter().map(|(_, weight)| weight).sum::<u32>();
    let mut draw = rng.random_range(0..sum.max(1));
    choices
        .iter()
        .find_map(|(choice, weight)| match draw.checked_sub(*weight) {
            Some(rest) => {
                draw = rest;
                None
            }
            None => Some(*choice),
        })
}

impl Kind {
    pub(crate) fn step(&self, rng: &mut SmallRng) -> Step {
        weighted(self.steps, rng).unwrap_or(Step::Load)
    }

    pub(crate) fn regions(&self, rng: &mut SmallRng) -> [Region; 4] {
        std::array::from_fn(|_| weighted(self.regions, rng).unwrap_or(Region::Heap))
    }
}
