//! Which windows are accepted for values.
//!
//! Interrupts fall where time is spent, so windows that start behind a stall are
//! over-represented, and with them the value that causes the stall. All instructions of a basic
//! block are executed equally often; so a window that starts at PC s is accepted for values with
//! probability min(1, m / c(s)), where c(s) counts the cycle samples at s and m is their mean
//! over the instructions of its basic block. Cycles always count. Of windows of 64 instructions or
//! more, values always count too, and branches and calls count in part: as much as the probability.
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
//! The coins are thrown elsewhere ([`consumers::acceptance`]).

use addresses::ImageAddress;
use iced_x86::{Decoder, DecoderOptions, FlowControl, OpKind};
use rustc_hash::{FxHashMap, FxHashSet};

use machine::images::{ImageId, Images};
use machine::place::Pc;
use machine::system::memory::{of_map, of_vec};

/// Cycle samples per PC and per basic block.
#[derive(Debug, Default)]
pub(crate) struct Blocks {
    functions: FxHashMap<(ImageId, ImageAddress), Option<FunctionBlocks>>,
    /// Blocks of all functions, those of images that were forgotten among them.
    blocks: Vec<BlockSamples>,
    pcs: FxHashMap<Pc, Here>,
}

/// A PC of a known block.
#[derive(Debug)]
struct Here {
    samples: u32,
    /// Index of its block.
    block: u32,
}

#[derive(Debug, Default)]
struct FunctionBlocks {
    /// Where its blocks start, in order.
    starts: Vec<u64>,
    /// Index of the first of them.
    first: u32,
}

#[derive(Debug, PartialEq)]
struct BlockSamples {
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
    /// Counts a cycle sample at a PC of an opened image and returns the
    /// probability with which the window that starts there is to be accepted.
    pub(crate) fn sample(&mut self, images: &mut Images, pc: Pc) -> f64 {
        if let Some(here) = self.pcs.get_mut(&pc) {
            return here.count(&mut self.blocks);
        }
        let Some(block) = self.block(images, pc) else {
            return 1.0;
        };
        let here = Here { samples: 0, block };
        self.pcs.entry(pc).or_insert(here).count(&mut self.blocks)
    }

    /// The block around a PC that was not met before, if it is known.
    fn block(&mut self, images: &mut Images, pc: Pc) -> Option<u32> {
        let Pc { image, address } = pc;
        let (start, end) = images.unwind(image)?.function(address)?;
        if self.is_full() {
            *self = Self::default();
        }
        let blocks = &mut self.blocks;
        let function = self.functions.entry((image, start));
        let function =
            function.or_insert_with(|| FunctionBlocks::decode(images, image, start, end, blocks));
        function.as_ref()?.block(address.0)
    }

    fn is_full(&self) -> bool {
        self.pcs.len() >= MAX_PCS
            || self.functions.len() >= MAX_FUNCTIONS
            || self.blocks.len() >= MAX_BLOCKS
    }

    /// Bytes that it holds.
    pub(crate) fn bytes(&self) -> usize {
        let starts = self.blocks.len() * size_of::<u64>();
        of_map(&self.functions) + of_map(&self.pcs) + of_vec(&self.blocks) + starts
    }

    /// Forgets an image that was replaced.
    pub(crate) fn forget(&mut self, image: ImageId) {
        self.functions.retain(|(id, _), _| *id != image);
        self.pcs.retain(|pc, _| pc.image != image);
    }
}

impl Here {
    /// Counts a sample; the probability for its window.
    fn count(&mut self, blocks: &mut [BlockSamples]) -> f64 {
        self.samples = self.samples.saturating_add(1);
        let Some(block) = blocks.get_mut(self.block as usize) else {
            return 1.0;
        };
        block.samples = block.samples.saturating_add(1);
        let mean = f64::from(block.samples) / f64::from(block.instructions.max(1));
        ((mean + 1.0) / (f64::from(self.samples) + 1.0)).min(1.0)
    }
}

impl FunctionBlocks {
    /// Its blocks come behind those of `all`.
    fn decode(
        images: &mut Images,
        image: ImageId,
        start: ImageAddress,
        end: ImageAddress,
        all: &mut Vec<BlockSamples>,
    ) -> Option<Self> {
        let size = end
            .0
            .checked_sub(start.0)
            .filter(|&size| size > 0 && size <= MAX_FUNCTION)?;
        let mut bytes = vec![0; usize::try_from(size).ok()?];
        let read = images.read(image, start, &mut bytes);
        Some(Self::of_bytes(&bytes[..read], start.0, all))
    }

    fn of_bytes(bytes: &[u8], start: u64, all: &mut Vec<BlockSamples>) -> Self {
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
        // There are at most twice MAX_BLOCKS of them.
        let first = all.len() as u32;
        let mut starts = Vec::new();
        for address in addresses {
            match all.last_mut() {
                Some(block) if !starts.is_empty() && !leaders.contains(&address) => {
                    block.instructions += 1;
                }
                _ => {
                    starts.push(address);
                    all.push(BlockSamples {
                        instructions: 1,
                        samples: 0,
                    });
                }
            }
        }
        starts.shrink_to_fit();
        Self { starts, first }
    }

    /// Index of the block at an address.
    fn block(&self, address: u64) -> Option<u32> {
        let behind = self.starts.partition_point(|start| *start <= address);
        Some(self.first + u32::try_from(behind.checked_sub(1)?).ok()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Jump targets and what follows a jump begin blocks; a call does not.
    #[test]
    fn leaders() {
        // 100: nop; 101: je 106; 103: nop; 104: jmp 100; 106: call 0; 10b: nop; 10c: ret
        let bytes = [
            0x90, 0x74, 0x03, 0x90, 0xeb, 0xfa, 0xe8, 0, 0, 0, 0, 0x90, 0xc3,
        ];
        let mut blocks = vec![BlockSamples {
            instructions: 7,
            samples: 0,
        }];
        let function = FunctionBlocks::of_bytes(&bytes, 0x100, &mut blocks);
        assert_eq!(function.starts, [0x100, 0x103, 0x106]);
        let instructions: Vec<_> = blocks.iter().map(|block| block.instructions).collect();
        assert_eq!(instructions, [7, 2, 2, 3]);
        assert_eq!(function.block(0x104), Some(2));
        assert_eq!(function.block(0xff), None);
    }

    /// Bytes that are no instructions end in small blocks, not in a panic.
    #[test]
    fn nonsense() {
        let bytes: Vec<u8> = (0..=255).cycle().take(5000).collect();
        let mut blocks = Vec::new();
        let function = FunctionBlocks::of_bytes(&bytes, u64::MAX - 5000, &mut blocks);
        assert!(function.block(u64::MAX - 4000).is_some());
        assert!(
            FunctionBlocks::of_bytes(&[], 0, &mut blocks)
                .starts
                .is_empty()
        );
    }
}
