//! From mnemonic to what executes it.

use iced_x86::{Instruction, Mnemonic};

use super::{
    arith, bit, control, convert, flag, logic, mov, muldiv, shift_rotate, stack, state, string,
};
use crate::decode::Handler;
use crate::operand::{Form, OperandKind, Operands};
use crate::stop::StopReason;
use crate::word::Width;

/// A handler that is compiled for the form of the instruction, if that is one of the commonest.
macro_rules! formed {
    ($operands:expr, $handler:path) => {
        formed!(
            $operands, $handler,
            B64 Register Register, B64 Register Immediate, B64 Register Memory,
            B64 Memory Register, B64 Memory Immediate,
            B32 Register Register, B32 Register Immediate, B32 Register Memory,
            B32 Memory Register, B32 Memory Immediate
        )
    };
    ($operands:expr, $handler:path, $($width:ident $first:ident $second:ident),*) => {
        match $operands.form() {
            $(Some(Form {
                width: Width::$width,
                first: OperandKind::$first,
                second: OperandKind::$second,
            }) => |m, d| {
                let form = Form {
                    width: Width::$width,
                    first: OperandKind::$first,
                    second: OperandKind::$second,
                };
                $handler(m, d, form)
            },)*
            _ => |m, d| $handler(m, d, d.operands.form().ok_or(StopReason::Unsupported)?),
        }
    };
}

/// The handler of an instruction's mnemonic. Operands other than general registers, memory,
/// immediates and near branches are not its business.
pub(crate) fn handler(instruction: &Instruction, operands: &Operands) -> Option<Handler> {
    use Mnemonic as M;
    // `movsd` and `cmpsd` are also vector instructions.
    if matches!(instruction.mnemonic(), M::Movsd | M::Cmpsd) && !instruction.is_string_instruction()
    {
        return None;
    }
    let handler: Handler = match instruction.mnemonic() {
        M::Mov | M::Movnti | M::Movdiri => formed!(operands, mov::mov),
        M::Movzx => formed!(operands, mov::movzx),
        M::Movsx | M::Movsxd => formed!(operands, mov::movsx),
        M::Lea => formed!(operands, mov::lea),
        M::Xchg => mov::xchg,
        M::Movbe => mov::movbe,
        M::Bswap => mov::bswap,
        M::Xlatb => mov::xlat,
        M::Cmova
        | M::Cmovae
        | M::Cmovb
        | M::Cmovbe
        | M::Cmove
        | M::Cmovg
        | M::Cmovge
        | M::Cmovl
        | M::Cmovle
        | M::Cmovne
        | M::Cmovno
        | M::Cmovnp
        | M::Cmovns
        | M::Cmovo
        | M::Cmovp
        | M::Cmovs => formed!(operands, mov::cmov),
        M::Seta
        | M::Setae
        | M::Setb
        | M::Setbe
        | M::Sete
        | M::Setg
        | M::Setge
        | M::Setl
        | M::Setle
        | M::Setne
        | M::Setno
        | M::Setnp
        | M::Setns
        | M::Seto
        | M::Setp
        | M::Sets => mov::setcc,
        M::Pause => mov::pause,
        M::Nop
        | M::Reservednop
        | M::Endbr64
        | M::Endbr32
        | M::Lfence
        | M::Mfence
        | M::Sfence
        | M::Prefetch
        | M::Prefetchnta
        | M::Prefetcht0
        | M::Prefetcht1
        | M::Prefetcht2
        | M::Prefetchw
        | M::Prefetchwt1
        | M::Prefetchit0
        | M::Prefetchit1
        | M::Cldemote
        | M::Serialize => mov::nop,
        M::Clflush | M::Clflushopt | M::Clwb => mov::flush_line,

        M::Cbw => convert::cbw,
        M::Cwde => convert::cwde,
        M::Cdqe => convert::cdqe,
        M::Cwd => convert::cwd,
        M::Cdq => convert::cdq,
        M::Cqo => convert::cqo,

        M::Add => formed!(operands, arith::add),
        M::Adc => arith::adc,
        M::Sub => formed!(operands, arith::sub),
        M::Sbb => arith::sbb,
        M::Cmp => formed!(operands, arith::cmp),
        M::Inc => arith::inc,
        M::Dec => arith::dec,
        M::Neg => arith::neg,
        M::Adcx => arith::adcx,
        M::Adox => arith::adox,
        M::Xadd => arith::xadd,
        M::Cmpxchg => arith::cmpxchg,
        M::Cmpxchg8b | M::Cmpxchg16b => arith::cmpxchg_pair,

        M::And => formed!(operands, logic::and),
        M::Or => formed!(operands, logic::or),
        M::Xor => formed!(operands, logic::xor),
        M::Test => formed!(operands, logic::test),
        M::Not => logic::not,
        M::Andn => logic::andn,

        M::Shl | M::Sal => formed!(operands, shift_rotate::shl),
        M::Shr => formed!(operands, shift_rotate::shr),
        M::Sar => formed!(operands, shift_rotate::sar),
        M::Rol => shift_rotate::rol,
        M::Ror => shift_rotate::ror,
        M::Rcl => shift_rotate::rcl,
        M::Rcr => shift_rotate::rcr,
        M::Shld => shift_rotate::shld,
        M::Shrd => shift_rotate::shrd,
        M::Shlx => shift_rotate::shlx,
        M::Shrx => shift_rotate::shrx,
        M::Sarx => shift_rotate::sarx,
        M::Rorx => shift_rotate::rorx,

        M::Mul => muldiv::mul,
        M::Imul => muldiv::imul,
        M::Mulx => muldiv::mulx,
        M::Div => muldiv::div,
        M::Idiv => muldiv::idiv,

        M::Bt => bit::bt,
        M::Bts => bit::bts,
        M::Btr => bit::btr,
        M::Btc => bit::btc,
        M::Bsf => bit::bsf,
        M::Bsr => bit::bsr,
        M::Tzcnt => bit::tzcnt,
        M::Lzcnt => bit::lzcnt,
        M::Popcnt => bit::popcnt,
        M::Bextr => bit::bextr,
        M::Blsi => bit::blsi,
        M::Blsr => bit::blsr,
        M::Blsmsk => bit::blsmsk,
        M::Bzhi => bit::bzhi,
        M::Pdep => bit::pdep,
        M::Pext => bit::pext,
        M::Crc32 => bit::crc32,

        M::Movsb | M::Movsw | M::Movsd | M::Movsq => string::movs,
        M::Stosb | M::Stosw | M::Stosd | M::Stosq => string::stos,
        M::Lodsb | M::Lodsw | M::Lodsd | M::Lodsq => string::lods,
        M::Scasb | M::Scasw | M::Scasd | M::Scasq => string::scas,
        M::Cmpsb | M::Cmpsw | M::Cmpsd | M::Cmpsq => string::cmps,

        M::Ja
        | M::Jae
        | M::Jb
        | M::Jbe
        | M::Je
        | M::Jg
        | M::Jge
        | M::Jl
        | M::Jle
        | M::Jne
        | M::Jno
        | M::Jnp
        | M::Jns
        | M::Jo
        | M::Jp
        | M::Js => control::jcc,
        M::Jecxz | M::Jrcxz => control::jcxz,
        M::Loop | M::Loope | M::Loopne => control::loops,
        M::Jmp => control::jmp,
        M::Call => control::call,
        M::Ret => control::ret,

        M::Push if instruction.stack_pointer_increment() == -8 => {
            |m, d| stack::push(m, d, Width::B64)
        }
        M::Push => |m, d| stack::push(m, d, stack::moved(d)?),
        M::Pop if instruction.stack_pointer_increment() == 8 => |m, d| stack::pop(m, d, Width::B64),
        M::Pop => |m, d| stack::pop(m, d, stack::moved(d)?),
        M::Pushf | M::Pushfq => stack::pushf,
        M::Popf | M::Popfq => stack::popf,
        M::Leave => stack::leave,
        M::Enter => stack::enter,

        M::Fxsave | M::Fxsave64 => state::fxsave,
        M::Xsave | M::Xsave64 | M::Xsavec | M::Xsavec64 | M::Xsaveopt | M::Xsaveopt64 => {
            state::xsave
        }
        M::Fxrstor | M::Fxrstor64 => state::fxrstor,
        M::Xrstor | M::Xrstor64 => state::restore,

        M::Clc => flag::clc,
        M::Stc => flag::stc,
        M::Cmc => flag::cmc,
        M::Cld => flag::cld,
        M::Std => flag::std,
        M::Lahf => flag::lahf,
        M::Sahf => flag::sahf,
        M::Xtest => flag::xtest,
        _ => return None,
    };
    Some(handler)
}
