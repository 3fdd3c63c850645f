//! Decoding: from bytes to an instruction with what executes it.

use iced_x86::{Decoder, DecoderError, DecoderOptions, Instruction, Mnemonic, OpKind};

use crate::decode::{Decoded, Handler, traits};
use crate::effects::Effects;
use crate::exec::{dispatch, skip, system, vector, x87};
use crate::operand::{AddressPart, Operands};
use crate::prepared_kind::PreparedKind;
use crate::processor::Processor;
use crate::stop::StopReason;
use crate::treatment::{self, Support};

impl Decoded {
    /// Decodes the instruction that starts `bytes`, as if it lay at `image_address`.
    ///
    /// # Errors
    /// [`StopReason::Undecodable`] if the bytes are no instruction, [`StopReason::TruncatedCode`]
    /// if it needs more of them.
    pub fn new(bytes: &[u8], image_address: u64) -> Result<Self, StopReason> {
        let mut decoder = Decoder::with_ip(64, bytes, image_address, DecoderOptions::NONE);
        let instruction = decoder.decode();
        match decoder.last_error() {
            DecoderError::None => {
                let mut decoded = Self::from_instruction(instruction);
                let stops = matches!(decoded.support, Support::Stops(_));
                if !stops && treatment::depends_on_processor(&instruction, bytes) {
                    (decoded.handler, decoded.support) = stop(StopReason::Unsupported);
                    decoded.prepared = PreparedKind::General;
                }
                Ok(decoded)
            }
            DecoderError::NoMoreBytes => Err(StopReason::TruncatedCode),
            _ => Err(StopReason::Undecodable),
        }
    }

    /// The same on a processor that may not have it.
    #[must_use]
    pub fn on(mut self, processor: &Processor) -> Self {
        let stops = matches!(self.support, Support::Stops(_));
        if !stops && processor.lacks(&self.instruction).is_some() {
            (self.handler, self.support) = stop(StopReason::NoSuchInstruction);
        }
        self
    }

    /// No instruction at all.
    pub(crate) fn filler() -> Self {
        Self::from_instruction(Instruction::default())
    }

    fn from_instruction(instruction: Instruction) -> Self {
        let has_memory = instruction.op_kinds().any(|kind| kind == OpKind::Memory);
        let operands = Operands::new(&instruction);
        let (handler, support) = selected(&instruction, &operands);
        let parts = [operands.address.base, operands.address.index];
        let from_register = parts
            .iter()
            .any(|part| matches!(part, AddressPart::Register(_)));
        let prepared = match support {
            Support::Interpreted => PreparedKind::of(&instruction, &operands),
            _ => PreparedKind::General,
        };
        Self {
            prepared,
            instruction,
            operands,
            handler,
            support,
            effects: match support {
                Support::Skipped => Effects::of(&instruction),
                _ => Effects::NONE,
            },
            constant: instructions::constant(&instruction).is_some(),
            // The addresses of a vector of indices are worked out one by one.
            accesses_memory: has_memory
                && !instruction.is_vsib()
                && !instructions::only_computes_address(&instruction),
            variable_address: has_memory && from_register && !instruction.is_vsib(),
            base: base(&instruction, &operands),
            condition: instruction.condition_code(),
            same_register: instructions::is_same_register(&instruction, 0, 1),
            compared: instructions::compared_bytes(&instruction),
            traits: traits(&instruction),
            len: instruction.len() as u8,
        }
    }
}

/// The base register of the memory operand. A `pop` that addresses by rsp has moved it before.
fn base(instruction: &Instruction, operands: &Operands) -> Option<u8> {
    match operands.address.base {
        AddressPart::Register(4) if instruction.mnemonic() == Mnemonic::Pop => None,
        AddressPart::Register(number) => Some(number),
        _ => None,
    }
}

/// What executes an instruction, and how far it is understood.
fn selected(instruction: &Instruction, operands: &Operands) -> (Handler, Support) {
    let handler = match treatment::named(instruction) {
        Some(support) => return not_interpreted(support),
        None => handler(instruction, operands),
    };
    match handler {
        Some(handler) => (handler, Support::Interpreted),
        None => not_interpreted(treatment::of_the_rest(instruction)),
    }
}

/// What interprets an instruction, if it has a meaning here.
fn handler(instruction: &Instruction, operands: &Operands) -> Option<Handler> {
    dispatch::handler(instruction, operands)
        .filter(|_| has_integer_operands(instruction))
        .or_else(|| system::handler(instruction))
        .or_else(|| vector::dispatch::handler(instruction))
        .or_else(|| x87::handler(instruction))
}

fn not_interpreted(support: Support) -> (Handler, Support) {
    match support {
        Support::Stops(reason) => stop(reason),
        Support::Skipped | Support::Interpreted => (skip::skip, Support::Skipped),
    }
}

fn stop(reason: StopReason) -> (Handler, Support) {
    let handler: Handler = |m, decoded| match decoded.support {
        Support::Stops(reason) => {
            if decoded.instruction.mnemonic() == Mnemonic::Syscall {
                system::tell_call(m, reason);
            }
            Err(reason)
        }
        _ => Err(StopReason::Unsupported),
    };
    (handler, Support::Stops(reason))
}

/// Whether every operand is a general register, memory, an immediate or a near branch.
fn has_integer_operands(instruction: &Instruction) -> bool {
    (0..instruction.op_count()).all(|i| match instruction.op_kind(i) {
        OpKind::Register => instruction.op_register(i).is_gpr(),
        _ => true,
    })
}
