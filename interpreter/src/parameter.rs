//! What a value event is a value of, and which of these a window captures.

use std::fmt;
use std::str::FromStr;

use iced_x86::Register;
use instructions::register_name;

/// What a value event is a value of. `Display` gives the name that reports use.
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
    /// breakpoint showed it. For hosts that set breakpoints: a window reports none.
    Pair(Register),
    /// How far the instruction's first load is from that of its last execution in the window,
    /// wrapping. For hosts that hear of loads: a window reports none.
    Stride,
    /// Which line of memory that load is in, as [`Step`](crate::Step) says. For hosts likewise.
    Line,
    /// 1 if the instruction loads only bytes that instructions shortly before it loaded, with no
    /// store to them since; else 0. For hosts likewise.
    Reload,
    /// 1 if the instruction stores what was there already, else 0. For hosts likewise.
    Silent,
    /// Of a system call its number (0) and its arguments (1 to 6), as Linux takes them: what rax
    /// rdi rsi rdx r10 r8 r9 hold. A window reports them by
    /// [`Sink::system_call`](crate::Sink::system_call).
    Syscall(u8),
    /// The first bytes of what integer argument `i` of a call points to, as the host packs them.
    /// For hosts that follow calls and loads: a window reports none.
    Text(u8),
    /// What was interrupted, and how it was scheduled. For hosts that know: a window reports none.
    Sched,
}

/// Where a load is, as seen from the last one of the same instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// In the same line of memory.
    Line = 0,
    /// In another line of the same page.
    Page = 1,
    /// In another page.
    Elsewhere = 2,
}

impl Step {
    /// Bytes of a line of memory.
    pub const LINE: u64 = 64;
    /// Bytes of a page.
    pub const PAGE: u64 = 4096;

    /// The step from one address to another.
    pub const fn between(last: u64, next: u64) -> Self {
        if last / Self::LINE == next / Self::LINE {
            Self::Line
        } else if last / Self::PAGE == next / Self::PAGE {
            Self::Page
        } else {
            Self::Elsewhere
        }
    }
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
            Self::Pair(_) => ValueKinds::NONE,
            Self::Stride | Self::Line => ValueKinds::STRIDE,
            Self::Reload | Self::Silent => ValueKinds::REDUNDANT,
            Self::Syscall(_) => ValueKinds::SYSCALL,
            Self::Sched => ValueKinds::SCHED,
            Self::Text(_) => ValueKinds::STRING,
        }
    }
}

impl fmt::Display for Parameter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Dest(register) => f.write_str(&register_name(register)),
            Self::Single(register) => write!(f, "{}.f32[0]", register_name(register)),
            Self::Double(register) => write!(f, "{}.f64[0]", register_name(register)),
            Self::DestWord(register, i) => write!(f, "{}.u64[{i}]", register_name(register)),
            Self::Taken => f.write_str("taken"),
            Self::Ea => f.write_str("ea"),
            Self::Base => f.write_str("base"),
            Self::Mem => f.write_str("mem"),
            Self::MemWord(i) => write!(f, "mem.u64[{i}]"),
            Self::Load => f.write_str("load"),
            Self::LoadWord(i) => write!(f, "load.u64[{i}]"),
            Self::Old => f.write_str("old"),
            Self::OldWord(i) => write!(f, "old.u64[{i}]"),
            Self::Target => f.write_str("target"),
            Self::Ret => f.write_str("ret"),
            Self::VectorRet => f.write_str("vret"),
            Self::Operand(i) => write!(f, "op{i}"),
            Self::Arg(i) => write!(f, "arg{i}"),
            Self::ArgIn(register) => write!(f, "arg.{}", register_name(register)),
            Self::VectorArg(i) => write!(f, "varg{i}"),
            Self::Pair(register) => write!(f, "pair.{}", register_name(register)),
            Self::Stride => f.write_str("stride"),
            Self::Line => f.write_str("line"),
            Self::Reload => f.write_str("reload"),
            Self::Silent => f.write_str("silent"),
            Self::Sched => f.write_str("sched"),
            Self::Text(i) => write!(f, "text{i}"),
            Self::Syscall(0) => f.write_str("syscall"),
            Self::Syscall(i) => write!(f, "sys{}", i - 1),
        }
    }
}

/// The kinds of value events that a window yields.
///
/// Branch directions and calls are always reported through [`Sink::branch`](crate::Sink::branch)
/// and [`Sink::call`](crate::Sink::call); [`BRANCH`](Self::BRANCH) adds the value event `taken`,
/// [`ARGS`](Self::ARGS) the arguments of a call, which the host makes events of.
///
/// What follows from the encoding alone is no event: a constant that is moved, a register that is
/// combined with itself, the immediate of a comparison, an address that only the place of the image
/// decides (`lea rax, [rip+8]`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ValueKinds(u32);

/// A word in a list of captures that names no kind.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "unknown kind of value {0:?}: the kinds are dest, operands, compare, ea, base, load, old, mem, \
     branch, target, args, ret, vector, stride, redundant, syscall, sched, string"
)]
pub struct UnknownKind(pub String);

impl ValueKinds {
    /// No kind.
    pub const NONE: Self = Self(0);
    /// General registers written, and floating-point numbers in the lowest lane of vector ones.
    pub const DEST: Self = Self(1);
    /// Operands read: registers and memory.
    pub const OPERANDS: Self = Self(2);
    /// Effective addresses.
    pub const EA: Self = Self(4);
    /// Values stored to memory.
    pub const MEM: Self = Self(8);
    /// Directions of conditional branches.
    pub const BRANCH: Self = Self(16);
    /// Targets of indirect calls and jumps.
    pub const TARGET: Self = Self(32);
    /// Integer arguments of calls.
    pub const ARGS: Self = Self(64);
    /// `rax` at returns.
    pub const RET: Self = Self(128);
    /// Operands read by instructions that do nothing but compare them.
    pub const COMPARE: Self = Self(256);
    /// Base registers of memory operands.
    pub const BASE: Self = Self(512);
    /// Values loaded from memory operands.
    pub const LOAD: Self = Self(1024);
    /// Values of memory that are overwritten.
    pub const OLD: Self = Self(2048);
    /// What vector registers hold: all of those written; `xmm0` at returns; and with
    /// [`ARGS`](Self::ARGS) the vector arguments of calls.
    pub const VECTOR: Self = Self(4096);
    /// How loads of an instruction follow each other in memory. The host makes events of loads.
    pub const STRIDE: Self = Self(8192);
    /// Loads of what was loaded before, which the host makes events of; and stores of what is there
    /// already, by [`Sink::stored_over`](crate::Sink::stored_over).
    pub const REDUNDANT: Self = Self(16_384);
    /// Numbers and arguments of system calls.
    pub const SYSCALL: Self = Self(32_768);
    /// How each sample's thread was scheduled, which the host makes events of.
    pub const SCHED: Self = Self(65_536);
    /// With [`ARGS`](Self::ARGS), the first bytes of what arguments of calls point to, of which the
    /// host makes events.
    pub const STRING: Self = Self(131_072);

    const NAMES: [(&'static str, Self); 18] = [
        ("dest", Self::DEST),
        ("operands", Self::OPERANDS),
        ("compare", Self::COMPARE),
        ("ea", Self::EA),
        ("base", Self::BASE),
        ("load", Self::LOAD),
        ("old", Self::OLD),
        ("mem", Self::MEM),
        ("branch", Self::BRANCH),
        ("target", Self::TARGET),
        ("args", Self::ARGS),
        ("ret", Self::RET),
        ("vector", Self::VECTOR),
        ("stride", Self::STRIDE),
        ("redundant", Self::REDUNDANT),
        ("syscall", Self::SYSCALL),
        ("sched", Self::SCHED),
        ("string", Self::STRING),
    ];

    /// Whether all kinds of `other` are captured.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Each kind that is captured, by itself.
    pub fn kinds(self) -> impl Iterator<Item = Self> {
        let kinds = Self::NAMES.into_iter().map(|(_, kind)| kind);
        kinds.filter(move |kind| self.contains(*kind))
    }

    /// Whether any kind of `other` is captured.
    #[inline]
    pub const fn meets(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// The kinds of both.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Every kind.
    pub const fn all() -> Self {
        Self(0x3_ffff)
    }
}

impl Default for ValueKinds {
    /// dest, branch, target, args, ret, ea.
    fn default() -> Self {
        Self::DEST
            .with(Self::BRANCH)
            .with(Self::TARGET)
            .with(Self::ARGS)
            .with(Self::RET)
            .with(Self::EA)
    }
}

impl FromStr for ValueKinds {
    type Err = UnknownKind;

    /// A list of kinds separated by commas.
    fn from_str(list: &str) -> Result<Self, UnknownKind> {
        list.split(',')
            .map(str::trim)
            .try_fold(Self::NONE, |capture, word| {
                Self::NAMES
                    .iter()
                    .find(|(name, _)| *name == word)
                    .map(|&(_, kind)| capture.with(kind))
                    .ok_or_else(|| UnknownKind(word.to_owned()))
            })
    }
}

impl fmt::Display for ValueKinds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for (name, _) in Self::NAMES.iter().filter(|named| self.contains(named.1)) {
            write!(f, "{separator}{name}")?;
            separator = ",";
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{Parameter, Step, ValueKinds};
    use iced_x86::Register;

    /// Parameters print as reports name them.
    #[test]
    fn parameters_have_the_names_of_reports() {
        let names = [
            (Parameter::Dest(Register::EAX), "eax"),
            (Parameter::Dest(Register::R8L), "r8b"),
            (Parameter::Single(Register::XMM0), "xmm0.f32[0]"),
            (Parameter::Double(Register::XMM15), "xmm15.f64[0]"),
            (Parameter::DestWord(Register::YMM3, 2), "ymm3.u64[2]"),
            (Parameter::Taken, "taken"),
            (Parameter::LoadWord(1), "load.u64[1]"),
            (Parameter::VectorArg(7), "varg7"),
            (Parameter::Operand(0), "op0"),
            (Parameter::Arg(5), "arg5"),
            (Parameter::ArgIn(Register::RAX), "arg.rax"),
            (Parameter::Pair(Register::R8L), "pair.r8b"),
            (Parameter::Syscall(0), "syscall"),
            (Parameter::Syscall(1), "sys0"),
        ];
        for (parameter, name) in names {
            assert_eq!(parameter.to_string(), name);
        }
    }

    /// A step is told by lines and pages, whichever way it goes.
    #[test]
    fn steps() {
        for (last, next, step) in [
            (0x1000, 0x103f, Step::Line),
            (0x103f, 0x1040, Step::Page),
            (0x1040, 0x103f, Step::Page),
            (0x1fff, 0x2000, Step::Elsewhere),
            (0, u64::MAX, Step::Elsewhere),
        ] {
            assert_eq!(Step::between(last, next), step);
        }
    }

    /// A list of kinds survives printing and parsing, and a wrong word is named.
    #[test]
    fn captures_parse() {
        assert_eq!("dest,ea".parse(), Ok(ValueKinds::DEST.with(ValueKinds::EA)));
        assert_eq!(ValueKinds::all().to_string().parse(), Ok(ValueKinds::all()));
        assert_eq!(
            ValueKinds::default().to_string(),
            "dest,ea,branch,target,args,ret"
        );
        assert!(
            "dest,nonsense"
                .parse::<ValueKinds>()
                .unwrap_err()
                .to_string()
                .contains("nonsense")
        );
        assert!("".parse::<ValueKinds>().is_err());
    }
}
