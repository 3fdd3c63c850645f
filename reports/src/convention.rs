//! Calling conventions: in which registers a function of some language finds its arguments.
//!
//! A profile holds what registers held at calls. Which of them is the first argument depends on
//! the language of the called function: most follow the platform's convention (System V), some
//! have one of their own.

use iced_x86::Register;
use instructions::register_name;
use parameters::Parameter;

/// A calling convention, as far as integer arguments go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Convention {
    /// The platform's, System V. Also that of languages that promise none and use it in fact, as
    /// Rust does.
    Platform,
    /// Go's `ABIInternal`, since Go 1.17.
    Go,
    /// Go's `ABI0`: all arguments are on the stack.
    GoStack,
    /// OCaml's native code.
    OCaml,
    /// Haskell's, of GHC: the closure, then its arguments.
    Haskell,
    /// Swift's: the platform's, and `self`.
    Swift,
    /// Windows', which a function can be declared to have.
    Windows,
    /// Not known: registers are shown by their names.
    Unknown,
}

use Register::{R8, R9, R10, R11, R12, R13, R14, RAX, RBX, RCX, RDI, RDX, RSI};

/// The registers that profiles name by their positions in the platform's convention.
pub(crate) const PLATFORM: [Register; 6] = [RDI, RSI, RDX, RCX, R8, R9];

impl Convention {
    /// Its name in reports.
    pub(crate) fn key(self) -> &'static str {
        match self {
            Self::Platform => "sysv",
            Self::Go => "go",
            Self::GoStack => "go-abi0",
            Self::OCaml => "ocaml",
            Self::Haskell => "ghc",
            Self::Swift => "swift",
            Self::Windows => "win64",
            Self::Unknown => "unknown",
        }
    }

    /// The registers of its integer arguments in their order; of one that is not known, those
    /// that may hold some.
    pub(crate) fn registers(self) -> &'static [Register] {
        match self {
            Self::Platform | Self::Unknown => &PLATFORM,
            Self::Go => &[RAX, RBX, RCX, RDI, RSI, R8, R9, R10, R11],
            Self::GoStack => &[],
            Self::OCaml => &[RAX, RBX, RDI, RSI, RDX, RCX, R8, R9, R12, R13],
            Self::Haskell => &[RBX, R14, RSI, RDI, R8, R9],
            Self::Swift => &[RDI, RSI, RDX, RCX, R8, R9, R13],
            Self::Windows => &[RCX, RDX, R8, R9],
        }
    }

    /// Whether an argument that a function leaves as it was may be one of the function that it
    /// calls. Where calls go into a run-time system that saves all registers, nothing follows.
    pub(crate) fn passes_on(self) -> bool {
        !matches!(self, Self::Go | Self::GoStack | Self::OCaml | Self::Haskell)
    }

    /// What a text report says of it, where it is not the platform's.
    pub(crate) fn legend(self) -> Option<String> {
        match self {
            Self::Platform => None,
            Self::GoStack => Some("go-abi0: arguments are on the stack, and not shown".to_owned()),
            Self::Unknown => Some(
                "unknown: the calling convention is not known; registers are shown by name"
                    .to_owned(),
            ),
            _ => {
                let names = self
                    .registers()
                    .iter()
                    .map(|register| register_name(*register));
                let names: Vec<String> = names.collect();
                Some(format!("{}: {}", self.key(), names.join(" ")))
            }
        }
    }
}

/// The general register that a parameter of a profile is the value of at a call.
pub(crate) fn register_of(parameter: &str) -> Option<Register> {
    match parameter.parse().ok()? {
        Parameter::Arg(number) => PLATFORM.get(usize::from(number)).copied(),
        Parameter::ArgIn(register) => {
            let others = [RAX, RBX, R10, R11, R12, R13, R14, Register::R15];
            others.contains(&register).then_some(register)
        }
        _ => None,
    }
}

/// What a function's name in the symbol table tells of it, in an image that has OCaml code.
pub(crate) fn in_ocaml(function: &str) -> Convention {
    if is_ocaml(function) {
        return Convention::OCaml;
    }
    // What the code goes through on its way into the run-time system keeps every register.
    let glue = [
        "caml_call_gc",
        "caml_c_call",
        "caml_alloc",
        "caml_raise_exn",
    ];
    match glue.iter().any(|name| function.starts_with(name)) {
        true => Convention::Unknown,
        false => Convention::Platform,
    }
}

/// Whether a function's name is one that the compiler of OCaml makes.
pub(crate) fn is_ocaml(function: &str) -> bool {
    let Some(rest) = function.strip_prefix("caml") else {
        return false;
    };
    let of_module = rest.starts_with(|c: char| c.is_ascii_uppercase())
        && (rest.contains("__") || rest.contains(['.', '$']));
    let made = ["_apply", "_curry", "_tuplify", "_send"];
    let is_made = made.iter().any(|name| {
        let number = rest.strip_prefix(name);
        number.is_some_and(|number| number.starts_with(|c: char| c.is_ascii_digit()))
    });
    of_module || is_made
}

/// Whether a function's name is one of Go's packages: C's have no dot, but for clones.
pub(crate) fn is_go(function: &str) -> bool {
    let clones = [".part.", ".isra.", ".constprop.", ".cold", ".lto_priv"];
    let stem = clones
        .iter()
        .filter_map(|clone| function.find(clone))
        .min()
        .map_or(function, |end| &function[..end]);
    stem.trim_start_matches('.').contains('.')
}

/// What a function's name tells of it, in an image of Go code that passes arguments in registers
/// or not. `None` for one without a name, or of other code.
pub(crate) fn in_go(function: Option<&str>, by_register: bool) -> Option<Convention> {
    // They take what they are given where it lies, in no order.
    const SPECIAL: [&str; 4] = [
        "runtime.duff",
        "runtime.gcWriteBarrier",
        "runtime.morestack",
        "runtime.wbZero",
    ];
    let ordinary = match by_register {
        true => Convention::Go,
        false => Convention::GoStack,
    };
    let Some(function) = function else {
        return Some(ordinary);
    };
    if function.ends_with(".abi0") {
        return Some(Convention::GoStack);
    }
    if SPECIAL.iter().any(|name| function.starts_with(name)) {
        return Some(Convention::Unknown);
    }
    is_go(function).then_some(ordinary)
}

/// Whether a function's name is one that the compiler of Haskell makes.
pub(crate) fn is_haskell(function: &str) -> bool {
    function.ends_with("_info") || function.ends_with("_entry") || function.starts_with("stg_")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Parameters of a profile are registers, whatever the order of a language is.
    #[test]
    fn parameters_are_registers() {
        assert_eq!(register_of("arg0"), Some(RDI));
        assert_eq!(register_of("arg5"), Some(R9));
        assert_eq!(register_of("arg6"), None);
        assert_eq!(register_of("arg.rax"), Some(RAX));
        assert_eq!(register_of("arg.r13"), Some(R13));
        assert_eq!(register_of("arg.rdi"), None);
        assert_eq!(register_of("varg0"), None);
        assert_eq!(register_of("rax"), None);
    }

    /// Names that compilers make are told from those of other code in the same image.
    #[test]
    fn names_of_compilers() {
        assert_eq!(in_ocaml("camlOc__ocaml_args_81"), Convention::OCaml);
        assert_eq!(in_ocaml("camlDune.f_12"), Convention::OCaml);
        assert_eq!(in_ocaml("caml_apply2"), Convention::OCaml);
        assert_eq!(in_ocaml("caml_curry3_1"), Convention::OCaml);
        assert_eq!(in_ocaml("caml_c_call"), Convention::Unknown);
        assert_eq!(in_ocaml("caml_ml_output"), Convention::Platform);
        assert_eq!(in_ocaml("main"), Convention::Platform);
        assert_eq!(in_go(Some("main.goArgs"), true), Some(Convention::Go));
        assert_eq!(in_go(Some("main.(*T).M"), true), Some(Convention::Go));
        assert_eq!(in_go(Some("main.goArgs"), false), Some(Convention::GoStack));
        let stack = Some(Convention::GoStack);
        assert_eq!(in_go(Some("runtime.asmcgocall.abi0"), true), stack);
        let special = Some(Convention::Unknown);
        assert_eq!(in_go(Some("runtime.gcWriteBarrier"), true), special);
        assert_eq!(in_go(Some("x_cgo_init"), true), None);
        assert_eq!(in_go(Some("work.constprop.0"), true), None);
        assert_eq!(in_go(None, true), Some(Convention::Go));
        assert!(is_haskell("base_GHCziList_zdwlenAcc_info"));
    }
}
