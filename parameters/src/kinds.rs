//! The kinds of values that a recording is asked for.

use std::fmt;
use std::str::FromStr;

/// Declares the kinds: the constant of each with its documentation, its name on the command line,
/// and whether it is captured unless something else is asked for.
macro_rules! kinds {
    ($($(#[doc = $doc:literal])+ $constant:ident, $name:literal, $is_default:literal;)+) => {
        /// The place of each kind in the set.
        #[derive(Clone, Copy)]
        #[expect(clippy::upper_case_acronyms, reason = "named as the constants are")]
        enum Bit { $($constant),+ }

        impl ValueKinds {
            $($(#[doc = $doc])+ pub const $constant: Self = Self(1 << Bit::$constant as u32);)+

            /// Name, kind, and whether it is captured by default, in the order in which people
            /// read of them.
            const TABLE: &[(&'static str, Self, bool)] =
                &[$(($name, Self::$constant, $is_default)),+];

            /// The names of all kinds, with commas between them, as `--capture` takes them.
            pub const NAMES: &str = concat_names!($($name),+);
        }
    };
}

/// The names with commas between them.
macro_rules! concat_names {
    ($first:literal $(, $name:literal)*) => { concat!($first $(, ", ", $name)*) };
}

/// The kinds of values that a window yields.
///
/// Branch directions and calls are always reported, by functions of their own;
/// [`BRANCH`](Self::BRANCH) adds the value event `taken`, [`ARGS`](Self::ARGS) the arguments of a
/// call.
///
/// What follows from the encoding alone is no event: a constant that is moved, a register that is
/// combined with itself, the immediate of a comparison, an address that only the place of the image
/// decides (`lea rax, [rip+8]`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ValueKinds(u32);

/// A word in a list of kinds that names none.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("unknown kind of value {0:?}: the kinds are {names}", names = ValueKinds::NAMES)]
pub struct UnknownKind(pub String);

kinds! {
    /// General registers written, and floating-point numbers in the lowest lane of vector ones.
    DEST, "dest", true;
    /// Operands read: registers and memory.
    OPERANDS, "operands", false;
    /// Operands read by instructions that do nothing but compare them.
    COMPARE, "compare", false;
    /// Effective addresses.
    EA, "ea", true;
    /// Base registers of memory operands.
    BASE, "base", false;
    /// Values loaded from memory operands.
    LOAD, "load", false;
    /// Values of memory that are overwritten.
    OLD, "old", false;
    /// Values stored to memory.
    MEM, "mem", false;
    /// Directions of conditional branches.
    BRANCH, "branch", true;
    /// Targets of indirect calls and jumps.
    TARGET, "target", true;
    /// Integer arguments of calls.
    ARGS, "args", true;
    /// `rax` at returns.
    RET, "ret", true;
    /// What vector registers hold: all of those written; `xmm0` at returns; and with
    /// [`ARGS`](Self::ARGS) the vector arguments of calls.
    VECTOR, "vector", false;
    /// How loads of an instruction follow each other in memory. The host makes events of loads.
    STRIDE, "stride", false;
    /// Loads of what was loaded before, which the host makes events of; and stores of what is there
    /// already.
    REDUNDANT, "redundant", false;
    /// Numbers and arguments of system calls.
    SYSCALL, "syscall", false;
    /// How each sample's thread was scheduled, which the host makes events of.
    SCHED, "sched", false;
    /// With [`ARGS`](Self::ARGS), the first bytes of what arguments of calls point to, of which the
    /// host makes events.
    STRING, "string", false;
}

impl ValueKinds {
    /// No kind.
    pub const NONE: Self = Self(0);

    /// Whether all kinds of `other` are captured.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Each kind that is captured, by itself.
    pub fn kinds(self) -> impl Iterator<Item = Self> {
        let kinds = Self::TABLE.iter().map(|(_, kind, _)| *kind);
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
        Self((1 << Self::TABLE.len()) - 1)
    }
}

impl Default for ValueKinds {
    /// What is captured unless something else is asked for.
    fn default() -> Self {
        let defaults = Self::TABLE.iter().filter(|(_, _, is_default)| *is_default);
        defaults.fold(Self::NONE, |all, (_, kind, _)| all.with(*kind))
    }
}

impl FromStr for ValueKinds {
    type Err = UnknownKind;

    /// A list of kinds separated by commas.
    fn from_str(list: &str) -> Result<Self, UnknownKind> {
        list.split(',')
            .map(str::trim)
            .try_fold(Self::NONE, |kinds, word| {
                Self::TABLE
                    .iter()
                    .find(|(name, ..)| *name == word)
                    .map(|(_, kind, _)| kinds.with(*kind))
                    .ok_or_else(|| UnknownKind(word.to_owned()))
            })
    }
}

impl fmt::Display for ValueKinds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for (name, ..) in Self::TABLE.iter().filter(|row| self.contains(row.1)) {
            write!(f, "{separator}{name}")?;
            separator = ",";
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::ValueKinds;

    /// A list of kinds survives printing and parsing, and a wrong word is named with the right
    /// ones.
    #[test]
    fn kinds_parse() {
        assert_eq!("dest,ea".parse(), Ok(ValueKinds::DEST.with(ValueKinds::EA)));
        assert_eq!(ValueKinds::all().to_string().parse(), Ok(ValueKinds::all()));
        assert_eq!(
            ValueKinds::all().to_string(),
            ValueKinds::NAMES.replace(", ", ",")
        );
        let refused = "dest,nonsense"
            .parse::<ValueKinds>()
            .unwrap_err()
            .to_string();
        assert!(
            refused.contains("nonsense") && refused.contains("operands"),
            "{refused}"
        );
        assert!("".parse::<ValueKinds>().is_err());
    }

    /// By default there are results, directions, targets, arguments, returns and addresses.
    #[test]
    fn defaults() {
        assert_eq!(
            ValueKinds::default().to_string(),
            "dest,ea,branch,target,args,ret"
        );
        assert!(!ValueKinds::default().meets(ValueKinds::LOAD));
    }
}
