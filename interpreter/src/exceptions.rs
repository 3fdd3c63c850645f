//! What the processor's exceptions mean for a window: a table.

/// What an exception means for a window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    /// The window ends before the instruction that raises it.
    Ends,
    /// No instruction that a window goes on at raises it.
    CannotHappen,
    /// The window goes on: the thread does so too, as if nothing had been.
    GoesOn,
    /// The exception ends the window where it must be raised. Where it can be raised, the window
    /// goes on.
    EndsIfCertain,
}

impl Fate {
    /// The fate in words.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Ends => "ends",
            Self::CannotHappen => "cannot happen",
            Self::GoesOn => "goes on",
            Self::EndsIfCertain => "ends if certain",
        }
    }
}

/// A row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Exception {
    /// The exception's vectors in the processor's table, as the manuals write them; `-` for none.
    pub vector: &'static str,
    /// The exception's mnemonic, or a name.
    pub name: &'static str,
    /// What becomes of the window.
    pub fate: Fate,
    /// Why.
    pub reason: &'static str,
    /// The tests that show it, by their functions.
    pub tests: &'static [&'static str],
}

macro_rules! exceptions {
    ($($vector:literal $name:literal $fate:ident $reason:literal [$($test:literal)*];)*) => {
        /// Every exception of the manuals, and what interrupts a thread otherwise.
        pub const EXCEPTIONS: &[Exception] = &[$(Exception {
            vector: $vector,
            name: $name,
            fate: Fate::$fate,
            reason: $reason,
            tests: &[$($test),*],
        },)*];
    };
}

exceptions! {
    "0" "#DE" Ends "The quotient of known numbers says if it fits; of an unknown divisor, or one that the dividend may be too large for, nothing does, and runtimes count on the exception."
        ["divide_errors" "quotients" "most_negative_by_minus_one"];
    "1" "#DB" Ends "A thread whose trap flag is set runs one instruction, and no repeated one; popf that sets the flag, or may, and int1 end the window. What a debugger does by its own breakpoints is like a signal."
        ["single_steps" "flags_that_interrupt"];
    "2" "NMI" GoesOn "The kernel handles it and returns to the same state: half of all samples come by it."
        ["interrupts_change_nothing"];
    "3" "#BP" Ends "int3 is the debugger's, or a trap that a program handles."
        ["traps_and_invalid_codes"];
    "4" "#OF" CannotHappen "into is no instruction of 64-bit mode, and 32-bit code is not interpreted."
        ["traps_and_invalid_codes"];
    "5" "#BR" CannotHappen "bound is no instruction of 64-bit mode; at those of bounds registers the window ends, since processors differ."
        ["traps_and_invalid_codes"];
    "6" "#UD" Ends "ud0, ud1, ud2 and what the decoder refuses end the window. So does an instruction that the processor does not say it has, or that programs have to ask for (tiles)."
        ["traps_and_invalid_codes" "instructions_that_are_not_there"];
    "7" "#NM" GoesOn "The kernel keeps the floating-point unit on, and makes room for tiles when they are first used."
        ["unfollowed_units_are_unknown"];
    "8" "#DF" CannotHappen "The machine stops."
        ["interrupts_change_nothing"];
    "9" "coprocessor overrun" CannotHappen "No processor with 64 bits raises it."
        ["interrupts_change_nothing"];
    "10" "#TS" CannotHappen "There are no hardware tasks in 64-bit mode; at iret and far transfers the window ends."
        ["segment_faults"];
    "11" "#NP" Ends "A selector that asks for a segment ends the window, whether there is one or not."
        ["segment_faults" "segment_bases"];
    "12" "#SS" Ends "Segments have no limits; a stack address that is not canonical ends the window as any other."
        ["addresses_that_raise" "non_canonical_addresses"];
    "13" "#GP" Ends "Addresses that are not canonical, operands that must be aligned and are not, privileged instructions and reserved bits end the window. Where the address is not known it goes on, unless the program has a handler for SIGSEGV or SIGBUS."
        ["addresses_that_raise" "operands_that_must_be_aligned" "unaligned_accesses_fault"
         "masked_accesses_that_are_not_aligned" "areas_of_state_that_raise_exceptions"
         "unknown_accesses_with_a_handler"];
    "14" "#PF" EndsIfCertain "The host says which accesses must fault; pages that are only not there yet, or copied when written, are the kernel's and do not. Where the program has a handler for SIGSEGV or SIGBUS, every access ends the window of which it is not known that it goes through."
        ["non_canonical_addresses" "unknown_accesses_with_a_handler"];
    "16" "#MF" EndsIfCertain "The control word says what is masked, and few samples have it. What raises an exception that is not masked ends the window, and so does an instruction that waits while one is pending. Where the control word is not known, x87 goes on with unknown results if the program has no handler for SIGFPE: such an exception would end it. Where it has one, each instruction of x87 ends the window unless the control word is known, and each one that waits unless it is known that no exception does."
        ["x87_exceptions" "unfollowed_units_are_unknown" "floats_with_a_handler"];
    "17" "#AC" Ends "A program that has alignment checked has no windows, and popf that asks for it ends one. A lock across two cache lines, which some kernels are told of, goes on afterwards."
        ["alignment_checks" "flags_that_interrupt"];
    "18" "#MC" GoesOn "The kernel handles it, or the thread ends."
        ["interrupts_change_nothing"];
    "19" "#XM" EndsIfCertain "MXCSR says what is masked, and few samples have it. Known operands that raise anything but an inexact result end the window, and so does any arithmetic with an MXCSR that is known to unmask. With unknown operands, or where a result is inexact, it goes on if the program has no handler for SIGFPE: such an exception would end it. Where it has one, all arithmetic ends the window unless MXCSR is known."
        ["float_exceptions" "unmasked_float_exceptions" "floats_with_a_handler"];
    "20" "#VE" GoesOn "The guest's kernel handles it."
        ["interrupts_change_nothing"];
    "21" "#CP" GoesOn "A return address that is not the shadow stack's ends the program. Instructions that change the shadow stack end the window."
        ["hidden_stores_end_windows"];
    "28" "#HV" GoesOn "The guest's kernel handles it."
        ["interrupts_change_nothing"];
    "29" "#VC" GoesOn "The guest's kernel handles it, and gives the results of cpuid and the like, which are unknown here."
        ["results_of_the_machine_are_unknown"];
    "30" "#SX" CannotHappen "It is the hypervisor's."
        ["interrupts_change_nothing"];
    "15, 22 to 27, 31" "reserved" CannotHappen "No processor raises them."
        ["interrupts_change_nothing"];
    "32 to 255" "interrupts" GoesOn "The kernel handles them and returns to the same state, later if others run; int n ends the window."
        ["interrupts_change_nothing" "traps_and_invalid_codes"];
    "-" "signal" GoesOn "A handler returns to the same state, or does not return. A value is what the thread computes when it runs on alone from the interrupt, with memory as it was then."
        ["interrupts_change_nothing"];
    "-" "system call" Ends "What the kernel does for a program is not followed."
        ["stops"];
}
