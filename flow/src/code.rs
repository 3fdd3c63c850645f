//! The blocks of a function, from the bytes of its code.

use std::collections::BTreeSet;

use iced_x86::{Code, Decoder, DecoderOptions, FlowControl, Instruction, OpKind};

/// How control leaves a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// To the instruction behind it: another block begins there.
    Falls,
    /// To one address.
    Jump(u64),
    /// To one address, or to the instruction behind it.
    Branch(u64),
    /// To an address that the code does not name.
    Indirect,
    /// Out of the function by a return, or nowhere: by an instruction that always traps.
    Ends,
}

/// Instructions that run one after the other. Calls come back, and so end no block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BasicBlock {
    /// Address of the first instruction.
    pub start: u64,
    /// Address of the last instruction.
    pub last: u64,
    /// Address behind the last instruction.
    pub end: u64,
    /// How many instructions there are.
    pub instructions: u32,
    /// How control leaves it.
    pub exit: Exit,
}

/// A call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// Address of the instruction.
    pub at: u64,
    /// Index of its block.
    pub block: usize,
    /// Where it leads; `None` if the code does not name that.
    pub to: Option<u64>,
}

/// The code of a function, cut into blocks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FunctionCode {
    /// The blocks, by address. The first one is the entry.
    pub blocks: Vec<BasicBlock>,
    /// The calls, by address.
    pub calls: Vec<Call>,
}

/// What is known of an instruction.
struct CutInstruction {
    at: u64,
    end: u64,
    /// Where it leads, if it ends a block.
    exit: Option<Exit>,
    call: Option<Option<u64>>,
}

impl FunctionCode {
    /// Blocks that a function has at most; what lies behind them is left out.
    pub const MOST_BLOCKS: usize = 1 << 18;
    /// Bytes of code that a function has at most; what lies behind them is left out.
    pub const MOST_BYTES: usize = 16 << 20;

    /// Cuts the code of 64-bit mode at `start` into blocks. Besides where its own jumps lead, a
    /// block begins at each of `entered`: where indirect jumps were seen to lead.
    #[must_use]
    pub fn decode(code: &[u8], start: u64, entered: &BTreeSet<u64>) -> FunctionCode {
        let code = code.get(..FunctionCode::MOST_BYTES).unwrap_or(code);
        let steps = steps(code, start);
        let end = steps.last().map_or(start, |step| step.end);
        let mut leaders: BTreeSet<u64> = entered.range(start..end).copied().collect();
        for step in &steps {
            if let Some(exit) = step.exit {
                leaders.insert(step.end);
                if let Exit::Jump(to) | Exit::Branch(to) = exit {
                    leaders.insert(to);
                }
            }
        }
        let mut function = FunctionCode::default();
        let mut open: Option<BasicBlock> = None;
        for step in &steps {
            if leaders.contains(&step.at)
                && let Some(block) = open.take()
            {
                function.blocks.push(block);
            }
            if open.is_none() && function.blocks.len() >= FunctionCode::MOST_BLOCKS {
                break;
            }
            let block = open.get_or_insert(BasicBlock {
                start: step.at,
                last: step.at,
                end: step.end,
                instructions: 0,
                exit: Exit::Falls,
            });
            block.last = step.at;
            block.end = step.end;
            block.instructions = block.instructions.saturating_add(1);
            if let Some(to) = step.call {
                function.calls.push(Call {
                    at: step.at,
                    block: function.blocks.len(),
                    to,
                });
            }
            if let Some(exit) = step.exit {
                block.exit = exit;
                function.blocks.extend(open.take());
            }
        }
        // What would run on behind the function leaves it.
        function.blocks.extend(open.map(|block| BasicBlock {
            exit: Exit::Ends,
            ..block
        }));
        function
    }

    /// The index of the block that begins at an address.
    #[must_use]
    pub fn at(&self, start: u64) -> Option<usize> {
        self.blocks
            .binary_search_by_key(&start, |block| block.start)
            .ok()
    }

    /// The index of the block around an address.
    #[must_use]
    pub fn around(&self, address: u64) -> Option<usize> {
        let behind = self.blocks.partition_point(|block| block.start <= address);
        let index = behind.checked_sub(1)?;
        let block = self.blocks.get(index)?;
        (address < block.end).then_some(index)
    }

    /// Whether an address lies between the first and the last instruction.
    #[must_use]
    pub fn holds(&self, address: u64) -> bool {
        let first = self.blocks.first().map(|block| block.start);
        let end = self.blocks.last().map(|block| block.end);
        first
            .zip(end)
            .is_some_and(|(first, end)| (first..end).contains(&address))
    }
}

fn steps(code: &[u8], start: u64) -> Vec<CutInstruction> {
    let mut steps = Vec::new();
    let mut decoder = Decoder::with_ip(64, code, start, DecoderOptions::NONE);
    let mut instruction = Instruction::default();
    while decoder.can_decode() {
        let at = decoder.ip();
        decoder.decode_out(&mut instruction);
        let invalid = instruction.is_invalid();
        // Where code stands beside data, it goes on somewhere behind.
        if invalid {
            let next = usize::try_from(at - start).unwrap_or(usize::MAX);
            if decoder.set_position(next.saturating_add(1)).is_err() {
                break;
            }
            decoder.set_ip(at.wrapping_add(1));
        }
        let end = decoder.ip();
        if end <= at {
            // The address space ends here.
            break;
        }
        let (exit, call) = match invalid {
            true => (Some(Exit::Ends), None),
            false => leads(&instruction),
        };
        steps.push(CutInstruction {
            at,
            end,
            exit,
            call,
        });
    }
    steps
}

/// How an instruction ends a block, and whom it calls.
fn leads(instruction: &Instruction) -> (Option<Exit>, Option<Option<u64>>) {
    let near = matches!(
        instruction.op0_kind(),
        OpKind::NearBranch16 | OpKind::NearBranch32 | OpKind::NearBranch64
    );
    let target = near.then(|| instruction.near_branch_target());
    match instruction.flow_control() {
        FlowControl::UnconditionalBranch => (Some(target.map_or(Exit::Ends, Exit::Jump)), None),
        FlowControl::ConditionalBranch => (Some(target.map_or(Exit::Ends, Exit::Branch)), None),
        FlowControl::IndirectBranch => (Some(Exit::Indirect), None),
        FlowControl::Return => (Some(Exit::Ends), None),
        FlowControl::Exception => (Some(Exit::Ends), None),
        FlowControl::Interrupt if instruction.code() == Code::Int3 => (Some(Exit::Ends), None),
        // System calls are calls too, to the decoder.
        FlowControl::Call if near => (None, Some(target)),
        FlowControl::IndirectCall => (None, Some(None)),
        _ if instruction.code() == Code::Hlt => (Some(Exit::Ends), None),
        _ => (None, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(code: &[u8]) -> FunctionCode {
        FunctionCode::decode(code, 0x1000, &BTreeSet::new())
    }

    fn starts(function: &FunctionCode) -> Vec<u64> {
        function.blocks.iter().map(|block| block.start).collect()
    }

    /// Blocks begin where jumps lead and behind jumps; calls end none.
    #[test]
    fn loop_with_a_call() {
        // 1000 xor eax,eax; 1002 call 1020; 1007 dec ecx; 1009 jne 1002; 100b ret
        let code = [
            0x31, 0xc0, 0xe8, 0x19, 0, 0, 0, 0xff, 0xc9, 0x75, 0xf7, 0xc3,
        ];
        let function = decoded(&code);
        assert_eq!(starts(&function), [0x1000, 0x1002, 0x100b]);
        let exits: Vec<Exit> = function.blocks.iter().map(|block| block.exit).collect();
        assert_eq!(exits, [Exit::Falls, Exit::Branch(0x1002), Exit::Ends]);
        assert_eq!(function.blocks[1].last, 0x1009);
        assert_eq!(function.blocks[1].instructions, 3);
        let call = Call {
            at: 0x1002,
            block: 1,
            to: Some(0x1020),
        };
        assert_eq!(function.calls, [call]);
        assert_eq!(function.around(0x1008), Some(1));
        assert_eq!(function.around(0x100c), None);
    }

    /// An indirect jump's target begins a block if it was seen.
    #[test]
    fn entered() {
        // jmp rax; nop; nop; ret
        let code = [0xff, 0xe0, 0x90, 0x90, 0xc3];
        assert_eq!(starts(&decoded(&code)), [0x1000, 0x1002]);
        let seen = FunctionCode::decode(&code, 0x1000, &BTreeSet::from([0x1003, 0x9000]));
        assert_eq!(starts(&seen), [0x1000, 0x1002, 0x1003]);
        assert_eq!(seen.blocks[0].exit, Exit::Indirect);
        assert_eq!(seen.blocks[1].exit, Exit::Falls);
    }

    /// What is no code, or traps, ends a block. System calls end none.
    #[test]
    fn traps() {
        // 06 is no instruction; ud2; syscall; ret
        let function = decoded(&[0x06, 0x0f, 0x0b, 0x0f, 0x05, 0xc3]);
        assert_eq!(starts(&function), [0x1000, 0x1001, 0x1003]);
        assert!(function.blocks.iter().all(|block| block.exit == Exit::Ends));
        assert!(function.calls.is_empty());
    }

    /// Code that ends in the middle of an instruction, and no code at all, are taken as they are.
    #[test]
    fn cut_off() {
        assert!(decoded(&[]).blocks.is_empty());
        let function = decoded(&[0x90, 0xe8, 0]);
        assert_eq!(
            function.blocks.last().map(|block| block.exit),
            Some(Exit::Ends)
        );
        let top = FunctionCode::decode(&[0x90; 8], u64::MAX - 3, &BTreeSet::new());
        assert!(top.blocks.len() <= 1);
    }
}
