//! What a value event is a value of, and which of these a window captures.

use std::fmt;
use std::str::FromStr;

use iced_x86::Register;

/// What a value event is a value of. `Display` gives the name that reports use.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Parameter {
    /// A general register that the instruction wrote, in the width written. (What is written to
    /// vector registers is reported of floating-point numbers alone, see below.)
    Dest(Register),
    /// The lowest lane of a vector register, written as a number of single precision: its 32 bits.
    Single(Register),
    /// The lowest lane of a vector register, written as a number of double precision: its bits.
    Double(Register),
    /// The direction of a conditional branch: 1 if taken, else 0.
    Taken,
    /// The effective address of the memory operand (with its segment's base).
    Ea,
    /// The value stored to memory, in the width stored.
    Mem,
    /// The target of an indirect call or jump.
    Target,
    /// `rax` at a return.
    Ret,
    /// The value read for operand `i` of the instruction.
    Operand(u8),
    /// Integer argument `i` of a call. For hosts that record calls: a window reports arguments
    /// with the call, not as value events.
    Arg(u8),
}

/// Name of a register as disassemblers write it.
fn register_name(register: Register) -> String {
    let name = format!("{register:?}").to_ascii_lowercase();
    // The decoder calls the low bytes of r8 to r15 r8l to r15l.
    match name.strip_suffix('l') {
        Some(stem) if stem.starts_with('r') => format!("{stem}b"),
        _ => name,
    }
}

impl fmt::Display for Parameter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Dest(register) => f.write_str(&register_name(register)),
            Self::Single(register) => write!(f, "{}.f32[0]", register_name(register)),
            Self::Double(register) => write!(f, "{}.f64[0]", register_name(register)),
            Self::Taken => f.write_str("taken"),
            Self::Ea => f.write_str("ea"),
            Self::Mem => f.write_str("mem"),
            Self::Target => f.write_str("target"),
            Self::Ret => f.write_str("ret"),
            Self::Operand(i) => write!(f, "op{i}"),
            Self::Arg(i) => write!(f, "arg{i}"),
        }
    }
}

/// The kinds of value events that a window yields.
///
/// Branch directions and calls are always reported through [`Sink::branch`](crate::Sink::branch)
/// and [`Sink::call`](crate::Sink::call); [`BRANCH`](Self::BRANCH) adds the value event `taken`,
/// [`ARGS`](Self::ARGS) is for the host, which decides what to do with a call's arguments.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Capture(u16);

/// A word in a list of captures that names no kind.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "unknown kind of value {0:?}: the kinds are dest, operands, ea, mem, branch, target, args, ret"
)]
pub struct UnknownKind(pub String);

impl Capture {
    /// No kind.
    pub const NONE: Self = Self(0);
    /// Registers written.
    pub const DEST: Self = Self(1);
    /// Operands read.
    pub const OPERANDS: Self = Self(2);
    /// Effective addresses.
    pub const EA: Self = Self(4);
    /// Values stored to memory.
    pub const MEM: Self = Self(8);
    /// Directions of conditional branches.
    pub const BRANCH: Self = Self(16);
    /// Targets of indirect calls and jumps.
    pub const TARGET: Self = Self(32);
    /// Arguments of calls.
    pub const ARGS: Self = Self(64);
    /// `rax` at returns.
    pub const RET: Self = Self(128);

    const NAMES: [(&'static str, Self); 8] = [
        ("dest", Self::DEST),
        ("operands", Self::OPERANDS),
        ("ea", Self::EA),
        ("mem", Self::MEM),
        ("branch", Self::BRANCH),
        ("target", Self::TARGET),
        ("args", Self::ARGS),
        ("ret", Self::RET),
    ];

    /// Whether all kinds of `other` are captured.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// The kinds of both.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Every kind.
    pub const fn all() -> Self {
        Self(255)
    }
}

impl Default for Capture {
    /// dest, branch, target, args, ret, ea.
    fn default() -> Self {
        Self(Self::all().0 & !(Self::OPERANDS.0 | Self::MEM.0))
    }
}

impl FromStr for Capture {
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

impl fmt::Display for Capture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for (name, kind) in Self::NAMES {
            if self.contains(kind) {
                write!(f, "{separator}{name}")?;
                separator = ",";
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{Capture, Parameter};
    use iced_x86::Register;

    /// Parameters print as reports name them.
    #[test]
    fn parameters_have_the_names_of_reports() {
        let names = [
            (Parameter::Dest(Register::EAX), "eax"),
            (Parameter::Dest(Register::R8L), "r8b"),
            (Parameter::Single(Register::XMM0), "xmm0.f32[0]"),
            (Parameter::Double(Register::XMM15), "xmm15.f64[0]"),
            (Parameter::Taken, "taken"),
            (Parameter::Operand(0), "op0"),
            (Parameter::Arg(5), "arg5"),
        ];
        for (parameter, name) in names {
            assert_eq!(parameter.to_string(), name);
        }
        // No general register lacks a name of its own.
        let mut seen = std::collections::HashSet::new();
        for register in Register::values().filter(|r| r.is_gpr()) {
            assert!(seen.insert(super::register_name(register)), "{register:?}");
        }
    }

    /// A list of kinds survives printing and parsing, and a wrong word is named.
    #[test]
    fn captures_parse() {
        assert_eq!("dest,ea".parse(), Ok(Capture::DEST.with(Capture::EA)));
        assert_eq!(Capture::all().to_string().parse(), Ok(Capture::all()));
        assert_eq!(
            Capture::default().to_string(),
            "dest,ea,branch,target,args,ret"
        );
        assert!(
            "dest,nonsense"
                .parse::<Capture>()
                .unwrap_err()
                .to_string()
                .contains("nonsense")
        );
        assert!("".parse::<Capture>().is_err());
    }
}
