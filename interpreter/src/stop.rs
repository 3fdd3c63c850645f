//! Why a window ends.

macro_rules! stop_reasons {
    ($($(#[$doc:meta])* $name:ident, $key:literal, $sentence:literal;)*) => {
        /// Why a window ended. Data, not an error: each reason has a counter at the host.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum StopReason {
            $($(#[$doc])* #[doc = $sentence] $name,)*
        }

        impl StopReason {
            /// Every reason, in the order of the table.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// A stable snake_case key for counters.
            pub const fn key(self) -> &'static str {
                match self { $(Self::$name => $key,)* }
            }

            /// One sentence for people.
            pub const fn sentence(self) -> &'static str {
                match self { $(Self::$name => $sentence,)* }
            }
        }
    };
}

stop_reasons! {
    Complete, "complete", "The window reached its full length.";
    UnknownBranch, "unknown_branch", "The direction of a conditional branch was unknown.";
    UnknownTarget, "unknown_target", "The target of an indirect branch or a return was unknown.";
    SystemCall, "system_call", "A system call or software interrupt leaves the program.";
    Privileged, "privileged", "A privileged or I/O instruction was reached.";
    MachineState, "machine_state", "An instruction changes which memory can be accessed (wrpkru).";
    StateSave, "state_save", "An instruction saves or restores state of the system in bulk.";
    FarTransfer, "far_transfer", "A far branch, an interrupt return or a load of a segment register was reached.";
    Transaction, "transaction", "A transactional-memory instruction was reached.";
    FaultingInstruction, "faulting_instruction", "The instruction would raise an exception (division by zero, ud2, memory that may not be accessed so, and the like).";
    MayFault, "may_fault", "Whether the instruction raises an exception was unknown (memory of which it is not known how it may be accessed, division by an unknown number, popf of unknown flags; where the program has handlers, any unknown address).";
    FloatException, "float_exception", "A floating-point instruction would raise an exception if the program asked for it.";
    SingleStep, "single_step", "The thread is single-stepped: an exception follows each instruction.";
    AlignmentChecked, "alignment_checked", "The thread has alignment checked: whatever is not aligned raises an exception.";
    RepTooLong, "rep_too_long", "A repeated string instruction runs longer than the interpreter follows.";
    Unsupported, "unsupported", "The interpreter does not know the instruction.";
    NoSuchInstruction, "no_such_instruction", "The processor does not say that it has the instruction.";
    Undecodable, "undecodable", "The bytes at the PC are no valid instruction.";
    TruncatedCode, "truncated_code", "The instruction runs past the code that could be read.";
    NotMapped, "not_mapped", "No executable mapping is known at the PC.";
    ImageUnreadable, "image_unreadable", "The image's file could not be read or is not the one that was mapped.";
    PageWritten, "page_written", "The page of the code may have been written.";
    AnonymousCode, "anonymous_code", "The code lies in memory without a file (generated code), whose bytes were not available.";
    CodeNotCaptured, "code_not_captured", "The code was not among what was read at the interrupt.";
    DeniedImage, "denied_image", "The image is on the deny list: its values are not captured.";
    NotDumpable, "not_dumpable", "The process keeps its memory to itself (not dumpable): its values are not captured.";
    ProcessGone, "process_gone", "The process had ended, or executed another program, before its code could be read.";
    CompatMode, "compat_mode", "The thread runs 32-bit code.";
    KernelCode, "kernel_code", "The PC lies in the kernel, whose code was not available.";
}

impl std::fmt::Display for StopReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.sentence())
    }
}

#[cfg(test)]
mod tests {
    use super::StopReason;

    /// Every key is snake_case and used once.
    #[test]
    fn keys_are_unique() {
        let mut keys: Vec<_> = StopReason::ALL.iter().map(|r| r.key()).collect();
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), StopReason::ALL.len());
        assert!(
            keys.iter()
                .all(|k| k.chars().all(|c| c.is_ascii_lowercase() || c == '_'))
        );
        assert!(StopReason::ALL.iter().all(|r| r.sentence().ends_with('.')));
    }
}
