//! What a value event is a value of.

use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;
use std::sync::LazyLock;

use iced_x86::Register;
use instructions::register_name;

use crate::kinds::ValueKinds;

/// What a value event is a value of. `Display` gives the name that databases and reports have, and
/// [`FromStr`] reads it.
///
/// Values of more than 64 bits are as many events as they have words of 64 bits, the lowest first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Parameter {
    /// A general register that the instruction wrote, in the width written.
    Dest(Register),
    /// The lowest lane of a vector register, written as a number of single precision: its 32 bits.
    Single(Register),
    /// The lowest lane of a vector register, written as a number of double precision: its bits.
    Double(Register),
    /// A word of a vector register that the instruction wrote.
    DestWord(Register, u8),
    /// The direction of a conditional branch: 1 if taken, else 0.
    Taken,
    /// The effective address of the memory operand (with its segment's base).
    Ea,
    /// The base register of the memory operand.
    Base,
    /// The value stored to memory, in the width stored.
    Mem,
    /// A word of a value stored to memory that has more than one.
    MemWord(u8),
    /// The value that the memory operand had when it was read.
    Load,
    /// A word of such a value that has more than one.
    LoadWord(u8),
    /// The value that the memory operand had before it was stored to.
    Old,
    /// A word of such a value that has more than one.
    OldWord(u8),
    /// The target of an indirect call or jump.
    Target,
    /// `rax` at a return.
    Ret,
    /// The lowest 64 bits of `xmm0` at a return.
    VectorRet,
    /// The value read for operand `i` of the instruction.
    Operand(u8),
    /// Integer argument `i` of a call by the platform's calling convention: what rdi rsi rdx rcx
    /// r8 r9 held, whatever the called function makes of it. For hosts that record calls: a window
    /// reports arguments with the call, not as value events.
    Arg(u8),
    /// What another general register held at a call, which some language's own calling convention
    /// passes an argument in; reported like [`Arg`](Self::Arg).
    ArgIn(Register),
    /// The lowest 64 bits of vector argument `i` of a call; reported like [`Arg`](Self::Arg).
    VectorArg(u8),
    /// What a general register that the instruction wrote held a few instructions later, as a
    /// breakpoint showed it, or right behind it, as a step did. For hosts that have the processor
    /// show it: a window reports none.
    Pair(Register),
    /// A word of another register that the instruction wrote, likewise.
    PairWord(Register, u8),
    /// What an instruction left in memory, up to eight bytes, likewise.
    PairMem,
    /// What a called function returned in `rax`, as a breakpoint behind the call showed it. For
    /// hosts that set breakpoints, too.
    Result,
    /// What it returned in the lowest 64 bits of `xmm0`, likewise.
    VectorResult,
    /// How far the instruction's first load is from that of its last execution in the window,
    /// wrapping. For hosts that hear of loads: a window reports none.
    Stride,
    /// Which line of memory that load is in, as [`Locality`](crate::Locality) says. For hosts
    /// likewise.
    Line,
    /// 1 if the instruction loads only bytes that instructions shortly before it loaded, with no
    /// store to them since; else 0. For hosts likewise.
    Reload,
    /// 1 if the instruction stores what was there already, else 0. For hosts likewise.
    Silent,
    /// Of a system call its number (0) and its arguments (1 to 6), as Linux takes them: what rax
    /// rdi rsi rdx r10 r8 r9 hold. A window reports them with the call.
    Syscall(u8),
    /// The first bytes of what integer argument `i` of a call points to, as the host packs them.
    /// For hosts that follow calls and loads: a window reports none.
    Text(u8),
    /// What was interrupted, and how it was scheduled. For hosts that know: a window reports none.
    Sched,
}

impl Parameter {
    /// The kinds of value events that it is of: it is captured if any of them is.
    #[inline]
    pub const fn kinds(self) -> ValueKinds {
        match self {
            Self::Dest(_) | Self::Single(_) | Self::Double(_) => ValueKinds::DEST,
            Self::DestWord(..) | Self::VectorArg(_) | Self::VectorRet => ValueKinds::VECTOR,
            Self::Taken => ValueKinds::BRANCH,
            Self::Ea => ValueKinds::EA,
            Self::Base => ValueKinds::BASE,
            Self::Mem | Self::MemWord(_) => ValueKinds::MEM,
            Self::Load | Self::LoadWord(_) => ValueKinds::LOAD,
            Self::Old | Self::OldWord(_) => ValueKinds::OLD,
            Self::Target => ValueKinds::TARGET,
            Self::Ret => ValueKinds::RET,
            Self::Operand(_) => ValueKinds::OPERANDS,
            Self::Arg(_) | Self::ArgIn(_) => ValueKinds::ARGS,
            Self::Pair(_)
            | Self::PairWord(..)
            | Self::PairMem
            | Self::Result
            | Self::VectorResult => ValueKinds::NONE,
            Self::Stride | Self::Line => ValueKinds::STRIDE,
            Self::Reload | Self::Silent => ValueKinds::REDUNDANT,
            Self::Syscall(_) => ValueKinds::SYSCALL,
            Self::Sched => ValueKinds::SCHED,
            Self::Text(_) => ValueKinds::STRING,
        }
    }

    /// What number its values are.
    pub fn number(self) -> Number {
        match self {
            Self::Single(_) => Number::F32,
            Self::Double(_) => Number::F64,
            Self::Taken => Number::Integer(1),
            Self::Text(_) => Number::Text,
            Self::Dest(register) | Self::Pair(register) => {
                // A general register has eight bytes at most.
                Number::Integer((register.size() as u32 * 8).clamp(1, 64))
            }
            _ => Number::Integer(64),
        }
    }

    /// Whether it is what an instruction computes into a register: not an address, a value in
    /// memory, a place of a calling convention, or an operand.
    pub const fn is_destination(self) -> bool {
        matches!(
            self,
            Self::Dest(_) | Self::Single(_) | Self::Double(_) | Self::DestWord(..)
        )
    }

    /// Whether it is an argument of a call, by whatever convention.
    pub const fn is_argument(self) -> bool {
        matches!(self, Self::Arg(_) | Self::ArgIn(_) | Self::VectorArg(_))
    }
}

/// What the bits of a parameter's values are.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Number {
    /// An integer or an address of so many bits, 1 to 64.
    Integer(u32),
    /// A number of double precision.
    F64,
    /// A number of single precision, in the low half.
    F32,
    /// The first bytes of a text, as the host packs them.
    Text,
}

/// A name that is no parameter's.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("no values are called {0:?}")]
pub struct UnknownParameter(pub String);

/// Registers by their names.
static REGISTERS: LazyLock<HashMap<String, Register>> = LazyLock::new(|| {
    let named = Register::values().map(|register| (register_name(register), register));
    named.collect()
});

impl FromStr for Parameter {
    type Err = UnknownParameter;

    /// Reads the name that [`Display`](fmt::Display) writes.
    fn from_str(name: &str) -> Result<Self, UnknownParameter> {
        let unit = UNITS.iter().find(|unit| unit.1 == name);
        unit.map(|unit| unit.0)
            .or_else(|| numbered(name))
            .or_else(|| of_register(name))
            .ok_or_else(|| UnknownParameter(name.to_owned()))
    }
}

/// The parameters that are one each.
const UNITS: [(Parameter, &str); 18] = [
    (Parameter::Taken, "taken"),
    (Parameter::Ea, "ea"),
    (Parameter::Base, "base"),
    (Parameter::Mem, "mem"),
    (Parameter::Load, "load"),
    (Parameter::Old, "old"),
    (Parameter::Target, "target"),
    (Parameter::Ret, "ret"),
    (Parameter::VectorRet, "vret"),
    (Parameter::Result, "result"),
    (Parameter::VectorResult, "vresult"),
    (Parameter::PairMem, "pair.mem"),
    (Parameter::Stride, "stride"),
    (Parameter::Line, "line"),
    (Parameter::Reload, "reload"),
    (Parameter::Silent, "silent"),
    (Parameter::Sched, "sched"),
    (Parameter::Syscall(0), "syscall"),
];

/// A parameter whose name ends with a number of operands, arguments or words.
fn numbered(name: &str) -> Option<Parameter> {
    let digits = name.bytes().rev().take_while(u8::is_ascii_digit).count();
    if digits > 0 {
        let (stem, number) = name.split_at(name.len() - digits);
        let number: u8 = number.parse().ok()?;
        return match stem {
            "op" => Some(Parameter::Operand(number)),
            "arg" => Some(Parameter::Arg(number)),
            "text" => Some(Parameter::Text(number)),
            "varg" => Some(Parameter::VectorArg(number)),
            "sys" => Some(Parameter::Syscall(number.checked_add(1)?)),
            _ => None,
        };
    }
    let (stem, word) = name.strip_suffix(']')?.split_once(".u64[")?;
    let word = word.parse().ok()?;
    match stem {
        "mem" => Some(Parameter::MemWord(word)),
        "load" => Some(Parameter::LoadWord(word)),
        "old" => Some(Parameter::OldWord(word)),
        _ => {
            let (register, parameter): (_, fn(Register, u8) -> Parameter) =
                match stem.strip_prefix("pair.") {
                    Some(register) => (register, Parameter::PairWord),
                    None => (stem, Parameter::DestWord),
                };
            let register = REGISTERS.get(register).copied();
            register.map(|register| parameter(register, word))
        }
    }
}

/// A parameter that is named by a register.
fn of_register(name: &str) -> Option<Parameter> {
    let (register, parameter): (_, fn(Register) -> Parameter) =
        if let Some(register) = name.strip_suffix(".f32[0]") {
            (register, Parameter::Single)
        } else if let Some(register) = name.strip_suffix(".f64[0]") {
            (register, Parameter::Double)
        } else if let Some(register) = name.strip_prefix("arg.") {
            (register, Parameter::ArgIn)
        } else if let Some(register) = name.strip_prefix("pair.") {
            (register, Parameter::Pair)
        } else {
            (name, Parameter::Dest)
        };
    REGISTERS.get(register).copied().map(parameter)
}

impl fmt::Display for Parameter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Dest(register) => f.write_str(&register_name(register)),
            Self::Single(register) => write!(f, "{}.f32[0]", register_name(register)),
            Self::Double(register) => write!(f, "{}.f64[0]", register_name(register)),
            Self::DestWord(register, i) => write!(f, "{}.u64[{i}]", register_name(register)),
            Self::MemWord(i) => write!(f, "mem.u64[{i}]"),
            Self::LoadWord(i) => write!(f, "load.u64[{i}]"),
            Self::OldWord(i) => write!(f, "old.u64[{i}]"),
            Self::Operand(i) => write!(f, "op{i}"),
            Self::Arg(i) => write!(f, "arg{i}"),
            Self::Text(i) => write!(f, "text{i}"),
            Self::ArgIn(register) => write!(f, "arg.{}", register_name(register)),
            Self::VectorArg(i) => write!(f, "varg{i}"),
            Self::Pair(register) => write!(f, "pair.{}", register_name(register)),
            Self::PairWord(register, i) => {
                write!(f, "pair.{}.u64[{i}]", register_name(register))
            }
            Self::Syscall(i) if i > 0 => write!(f, "sys{}", i - 1),
            unit => {
                let named = UNITS.iter().find(|named| named.0 == unit);
                f.write_str(named.map_or("", |named| named.1))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Number, Parameter, UNITS};
    use iced_x86::Register;

    /// Each parameter prints as databases and reports name it, and is read back from that.
    #[test]
    fn names() {
        let names = [
            (Parameter::Dest(Register::EAX), "eax"),
            (Parameter::Dest(Register::R8L), "r8b"),
            (Parameter::Single(Register::XMM0), "xmm0.f32[0]"),
            (Parameter::Double(Register::XMM15), "xmm15.f64[0]"),
            (Parameter::DestWord(Register::YMM3, 2), "ymm3.u64[2]"),
            (Parameter::MemWord(0), "mem.u64[0]"),
            (Parameter::LoadWord(1), "load.u64[1]"),
            (Parameter::OldWord(7), "old.u64[7]"),
            (Parameter::VectorArg(7), "varg7"),
            (Parameter::Operand(0), "op0"),
            (Parameter::Arg(5), "arg5"),
            (Parameter::Text(2), "text2"),
            (Parameter::ArgIn(Register::RAX), "arg.rax"),
            (Parameter::Pair(Register::R8L), "pair.r8b"),
            (Parameter::PairWord(Register::ST0, 1), "pair.st0.u64[1]"),
            (Parameter::Syscall(1), "sys0"),
            (Parameter::Syscall(6), "sys5"),
        ];
        for (parameter, name) in names.into_iter().chain(UNITS) {
            assert_eq!(parameter.to_string(), name);
            assert_eq!(name.parse(), Ok(parameter));
        }
        let registers = Register::values().filter(|register| register.is_gpr());
        for register in registers.filter(|register| *register != Register::None) {
            let parameter = Parameter::Dest(register);
            assert_eq!(parameter.to_string().parse(), Ok(parameter));
        }
    }

    /// What no parameter is called is an error that repeats it.
    #[test]
    fn other_names() {
        for name in [
            "",
            "r99",
            "arg",
            "arg256",
            "sys255",
            "rax.u64[",
            "op-1",
            "arg.",
            "entry.arg0",
        ] {
            let error = name.parse::<Parameter>().unwrap_err();
            assert_eq!(error.0, name);
        }
    }

    /// Integers are as wide as what was written; other places are machine words.
    #[test]
    fn widths() {
        for (name, number) in [
            ("al", Number::Integer(8)),
            ("r10b", Number::Integer(8)),
            ("bp", Number::Integer(16)),
            ("r9d", Number::Integer(32)),
            ("rsp", Number::Integer(64)),
            ("pair.eax", Number::Integer(32)),
            ("taken", Number::Integer(1)),
            ("arg.r10", Number::Integer(64)),
            ("ymm1.u64[3]", Number::Integer(64)),
            ("pair.xmm3.u64[1]", Number::Integer(64)),
            ("load", Number::Integer(64)),
            ("xmm0.f32[0]", Number::F32),
            ("xmm0.f64[0]", Number::F64),
        ] {
            let parameter: Parameter = name.parse().expect("a parameter");
            assert_eq!(parameter.number(), number, "{name}");
        }
    }

    /// Registers that were written are destinations, and nothing else is.
    #[test]
    fn destinations() {
        for name in ["eax", "bpl", "bp", "xmm0.f64[0]", "ymm1.u64[3]", "r15"] {
            let parameter: Parameter = name.parse().expect("a parameter");
            assert!(parameter.is_destination(), "{name}");
        }
        let others = [
            "mem.u64[1]",
            "load.u64[0]",
            "op0",
            "arg5",
            "text0",
            "varg7",
            "pair.eax",
            "sys5",
        ];
        let units = UNITS.iter().map(|unit| unit.1);
        for name in others.into_iter().chain(units) {
            let parameter: Parameter = name.parse().expect("a parameter");
            assert!(!parameter.is_destination(), "{name}");
        }
    }
}
