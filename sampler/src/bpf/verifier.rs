//! What the kernel's verifier says of a program that it refuses: libbpf only prints it.

use std::cell::RefCell;

/// What surrounds the verifier's log, in what libbpf prints of it.
const BEGIN: &str = "-- BEGIN PROG LOAD LOG --";
const END: &str = "-- END PROG LOAD LOG --";

thread_local! {
    /// Of the last program that was refused on this thread.
    static REFUSAL: RefCell<Option<VerifierRefusal>> = const { RefCell::new(None) };
}

/// Why the verifier takes a program for unsafe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct VerifierRefusal {
    /// The program's name.
    pub(super) program: String,
    /// The verifier's last words.
    pub(super) why: String,
}

impl VerifierRefusal {
    /// From what libbpf prints, if that is a verifier's log.
    fn parse(text: &str) -> Option<Self> {
        let (before, rest) = text.split_once(BEGIN)?;
        let (log, _) = rest.split_once(END)?;
        let program = before.split('\'').nth(1)?;
        let words = log.lines().rev().map(str::trim);
        let why = words
            .filter(|line| !line.is_empty() && !line.starts_with("processed "))
            .find(|line| !line.starts_with("-- "))?;
        Some(Self {
            program: program.to_owned(),
            why: why.to_owned(),
        })
    }
}

/// Takes note of what libbpf prints on this thread.
pub(super) fn hear(text: &str) {
    if let Some(refusal) = VerifierRefusal::parse(text) {
        REFUSAL.set(Some(refusal));
    }
}

/// What was heard on this thread since the last call.
pub(super) fn take() -> Option<VerifierRefusal> {
    REFUSAL.take()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of a log as Linux 6.1 writes it, program and reason are found; other text is none.
    #[test]
    fn log() {
        let text = "libbpf: prog 'on_overflow': -- BEGIN PROG LOAD LOG --\n\
                    1864: (71) r5 = *(u8 *)(r1 +16)\n\
                    R1 unbounded memory access, make sure to bounds check any such access\n\
                    processed 369 insns (limit 1000000) max_states_per_insn 2\n\
                    -- END PROG LOAD LOG --\n";
        let why = "R1 unbounded memory access, make sure to bounds check any such access";
        let refusal = VerifierRefusal {
            program: "on_overflow".to_owned(),
            why: why.to_owned(),
        };
        hear("libbpf: failed to load object");
        assert_eq!(take(), None);
        hear(text);
        hear("libbpf: failed to load object");
        assert_eq!(take(), Some(refusal));
        assert_eq!(take(), None);
    }

    /// A log without words, as of a system call that fails before it is written to, tells nothing.
    #[test]
    fn empty() {
        hear("libbpf: prog 'a': -- BEGIN PROG LOAD LOG --\n-- END PROG LOAD LOG --\n");
        assert_eq!(take(), None);
    }
}
