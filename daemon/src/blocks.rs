//! Which windows are accepted for values.
//!
//! Interrupts fall where time is spent, so windows that start behind a stall are
//! over-represented, and with them the value that causes the stall. All instructions of a basic
//! block are executed equally often; so a window that starts at PC s is accepted for values with
//! probability min(1, m / c(s)), where c(s) counts the cycle samples at s and m is their mean
//! over the instructions of its basic block. Cycles always count.
//!
//! Both counts start at one sample an instruction: with the first few samples of a block, m / c
//! says nothing yet, and would turn away nearly all of them.
//!
//! Blocks come from decoding a function, as the unwind rules delimit it, from start to end:
//! targets of its direct jumps and instructions behind a transfer of control begin one. A call
//! comes back to the same block. Targets of indirect jumps are not known; most of them stand
//! behind a jump and so begin a block anyway. Code without unwind rules has no known blocks, and
//! its windows are all accepted.
//!
//! Where a capture plan would be evaluated for a window, the interrupt's handler throws the first
//! coin: with a share somewhat above the probability ([`crate::plans`]), since it cannot be told
//! anew at each sample. The second coin is thrown here, and the two are one of that probability.

use iced_x86::{Decoder, DecoderOptions, FlowControl, OpKind};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::images::{ImageId, Images};
use crate::memory::of_map;

/// Cycle samples per PC and per basic block.
#[derive(Debug, Default)]
pub(crate) struct Blocks {
    functions: FxHashMap<(ImageId, u64), Option<Function>>,
    /// Blocks of all functions.
    blocks: usize,
    pcs: FxHashMap<(ImageId, u64), u32>,
}

#[derive(Debug, Default)]
struct Function {
    /// Sorted by address.
    blocks: Vec<Block>,
}

#[derive(Debug)]
struct Block {
    start: u64,
    instructions: u32,
    samples: u32,
}

/// Functions larger than this are taken for broken unwind rules.
const MAX_FUNCTION: u64 = 1 << 20;
/// PCs, functions and blocks kept: some 30 MB. When one of them is full, all counts begin anew.
const MAX_PCS: usize = 1 << 18;
const MAX_FUNCTIONS: usize = 1 << 16;
const MAX_BLOCKS: usize = 1 << 20;

impl Blocks {
    /// Counts a cycle sample at an ELF virtual address of an opened image and returns the
    /// probability with which the window that starts there is to be accepted.
    pub(crate) fn sample(&mut self, images: &mut Images, image: ImageId, address: u64) -> f64 {
        let Some((start, end)) = images
            .unwind(image)
            .and_then(|rules| rules.function(address))
        else {
            return 1.0;
        };
        if self.is_full() {
            *self = Self::default();
        }
        let all = &mut self.blocks;
        let function = self.functions.entry((image, start)).or_insert_with(|| {
            let function = Function::decode(images, image, start, end);
            *all += function
                .as_ref()
                .map_or(0, |function| function.blocks.len());
            function
        });
        let Some(block) = function
            .as_mut()
            .and_then(|function| function.block(address))
        else {
            return 1.0;
        };
        let here = self.pcs.entry((image, address)).or_insert(0);
        *here = here.saturating_add(1);
        block.samples = block.samples.saturating_add(1);
        let mean = f64::from(block.samples) / f64::from(block.instructions.max(1));
        ((mean + 1.0) / (f64::from(*here) + 1.0)).min(1.0)
    }

    fn is_full(&self) -> bool {
        self.pcs.len() >= MAX_PCS
            || self.functions.len() >= MAX_FUNCTIONS
            || self.blocks >= MAX_BLOCKS
    }

    /// Bytes that it holds.
    pub(crate) fn bytes(&self) -> usize {
        of_map(&self.functions) + of_map(&self.pcs) + self.blocks * size_of::<Block>()
    }

    /// Forgets an image that was replaced.
    pub(crate) fn forget(&mut self, image: ImageId) {
        self.functions.retain(|(id, _), _| *id != image);
        let left = self.functions.values().flatten();
        self.blocks = left.map(|function| function.blocks.len()).sum();
        self.pcs.retain(|(id, _), _| *id != image);
    }
}

impl Function {
    fn decode(images: &mut Images, image: ImageId, start: u64, end: u64) -> Option<Self> {
        let size = end
            .checked_sub(start)
            .filter(|&size| size > 0 && size <= MAX_FUNCTION)?;
        let mut bytes = vec![0; usize::try_from(size).ok()?];
        let read = images.read(image, start, &mut bytes);
        Some(Self::of_bytes(&bytes[..read], start))
    }

    fn of_bytes(bytes: &[u8], start: u64) -> Self {
        let mut leaders = FxHashSet::from_iter([start]);
        let mut addresses = Vec::new();
        let end = start.saturating_add(bytes.len() as u64);
        for instruction in &mut Decoder::with_ip(64, bytes, start, DecoderOptions::NONE) {
            addresses.push(instruction.ip());
            let near = matches!(
                instruction.op0_kind(),
                OpKind::NearBranch64 | OpKind::NearBranch32 | OpKind::NearBranch16
            );
            match instruction.flow_control() {
                FlowControl::Next | FlowControl::Call | FlowControl::IndirectCall => continue,
                FlowControl::UnconditionalBranch | FlowControl::ConditionalBranch if near => {
                    let target = instruction.near_branch_target();
                    if (start..end).contains(&target) {
                        leaders.insert(target);
                    }
                }
                _ => {}
            }
            leaders.insert(instruction.next_ip());
        }
        let mut blocks: Vec<Block> = Vec::new();
        for address in addresses {
            match blocks.last_mut() {
                Some(block) if !leaders.contains(&address) => block.instructions += 1,
                _ => blocks.push(Block {
                    start: address,
                    instructions: 1,
                    samples: 0,
                }),
            }
        }
        blocks.shrink_to_fit();
        Self { blocks }
    }

    fn block(&mut self, address: u64) -> Option<&mut Block> {
        let behind = self.blocks.partition_point(|block| block.start <= address);
        self.blocks.get_mut(behind.checked_sub(1)?)
    }
}

/// That a window is not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Thinned {
    /// As it should be.
    Rightly,
    /// By the handler, which had yet to be told that more are wanted: fewer windows than there
    /// should be start there for the while.
    Early,
}

/// Whether a window is not accepted, so that it is with this probability in all. The handler has let
/// this share of windows pass, and refused this one or not.
pub(crate) fn thinned(
    probability: f64,
    share: f64,
    by_handler: bool,
    draw: impl FnOnce() -> f64,
) -> Option<Thinned> {
    if by_handler {
        return Some(match probability > share {
            true => Thinned::Early,
            false => Thinned::Rightly,
        });
    }
    (probability < share && draw() * share >= probability).then_some(Thinned::Rightly)
}

#[cfg(test)]
mod tests {
    use rand::rngs::StdRng;
    use rand::{RngExt, SeedableRng};

    use super::*;

    /// Refusals of the handler and of the collector together are those that the probability asks
    /// for; where the handler's share is the smaller one, what it refuses is said.
    #[test]
    fn two_coins_are_one() {
        let mut draws = StdRng::seed_from_u64(5);
        for (probability, share, expected) in [
            (1.0, 1.0, 1.0),
            (0.3, 1.0, 0.3),
            (0.3, 0.39, 0.3),
            (0.3, 0.3, 0.3),
            (0.3, 0.2, 0.2),
        ] {
            let (mut accepted, mut early) = (0, 0);
            for _ in 0..100_000 {
                let by_handler = draws.random::<f64>() >= share;
                match thinned(probability, share, by_handler, || draws.random()) {
                    None => accepted += 1,
                    Some(Thinned::Early) => early += 1,
                    Some(Thinned::Rightly) => {}
                }
            }
            // Five standard deviations of as many coins.
            let off = f64::from(accepted) - 1e5 * expected;
            assert!(off.abs() <= 800.0, "{accepted} at {probability} of {share}");
            assert_eq!(early > 0, probability > share, "{probability} of {share}");
        }
    }

    /// Jump targets and what follows a jump begin blocks; a call does not.
    #[test]
    fn leaders() {
        // 100: nop; 101: je 106; 103: nop; 104: jmp 100; 106: call 0; 10b: nop; 10c: ret
        let bytes = [
            0x90, 0x74, 0x03, 0x90, 0xeb, 0xfa, 0xe8, 0, 0, 0, 0, 0x90, 0xc3,
        ];
        let function = Function::of_bytes(&bytes, 0x100);
        let shape: Vec<_> = function
            .blocks
            .iter()
            .map(|b| (b.start, b.instructions))
            .collect();
        assert_eq!(shape, [(0x100, 2), (0x103, 2), (0x106, 3)]);
    }

    /// Bytes that are no instructions end in small blocks, not in a panic.
    #[test]
    fn nonsense() {
        let bytes: Vec<u8> = (0..=255).cycle().take(5000).collect();
        let mut function = Function::of_bytes(&bytes, u64::MAX - 5000);
        assert!(function.block(u64::MAX - 4000).is_some());
        assert!(Function::of_bytes(&[], 0).blocks.is_empty());
    }
}
