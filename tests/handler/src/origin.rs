//! What a timer interrupted, by the stacks as the entry code leaves them, and by stacks that are a
//! little or altogether different.

use std::io::{Read as _, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use crate::config;
use crate::host::compile;

/// Words of each stack.
const WORDS: usize = 2048;
/// Bytes of a result.
const RESULT: usize = 8 * 23;

const TASK_STACK: u64 = 0xffff_c900_0400_0000;
const INTERRUPT_STACK: u64 = 0xffff_c900_0000_0000;
const TEXT: [u64; 2] = [0xffff_ffff_8100_0000, 0xffff_ffff_8220_0000];
const ENTRIES: [u64; 2] = [0xffff_ffff_8100_0d40, 0xffff_ffff_8100_0f70];
/// Return addresses: into an entry of an interrupt, and into other code.
const IN_ENTRY: u64 = 0xffff_ffff_8100_0e06;
const IN_CODE: u64 = 0xffff_ffff_8136_238e;
/// Words of saved registers.
const SAVED: usize = 21;
const RIP: usize = 16;
const CS: usize = 17;
const FLAGS: usize = 18;
const RSP: usize = 19;
const SS: usize = 20;
/// Where the user registers begin in the task's stack: at its end.
const USER: usize = WORDS - SAVED;
/// Where the kernel's are in these tests, as an index that the processor's alignment allows.
const KERNEL: usize = 1501;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    Unknown,
    User,
    Kernel,
    Late,
}

/// What is where.
#[derive(Clone, Debug)]
struct Stacks {
    here: u64,
    user: u64,
    task: Vec<u64>,
    interrupt: Vec<u64>,
}

fn address(stack: u64, index: usize) -> u64 {
    stack + 8 * index as u64
}

impl Stacks {
    /// A task whose user registers are saved, and an interrupt stack that is not in use.
    fn new() -> Self {
        let mut task = vec![0; WORDS];
        for (index, word) in task[USER..].iter_mut().enumerate() {
            *word = 0x1000 + index as u64;
        }
        task[USER + CS] = 0x33;
        task[USER + SS] = 0x2b;
        Self {
            here: 0,
            user: address(TASK_STACK, USER),
            task,
            interrupt: vec![0; WORDS],
        }
    }

    /// In an interrupt of user mode.
    fn of_user() -> Self {
        let mut stacks = Self::new();
        stacks.task[USER - 1] = IN_ENTRY;
        stacks.task[USER - 4] = IN_CODE;
        stacks.here = address(TASK_STACK, USER - 36);
        stacks
    }

    /// In an interrupt of the kernel.
    fn of_kernel() -> Self {
        let mut stacks = Self::new();
        let saved = &mut stacks.task[KERNEL..KERNEL + SAVED];
        for (index, word) in saved.iter_mut().enumerate() {
            *word = 0x2000 + index as u64;
        }
        saved[RIP] = IN_CODE;
        saved[CS] = 0x10;
        saved[FLAGS] = 0x246;
        saved[RSP] = address(TASK_STACK, KERNEL + SAVED);
        saved[SS] = 0x18;
        stacks.task[KERNEL - 1] = IN_ENTRY;
        stacks.interrupt[WORDS - 1] = address(TASK_STACK, KERNEL - 3);
        stacks.interrupt[WORDS - 2] = IN_CODE;
        stacks.here = address(INTERRUPT_STACK, WORDS - 40);
        stacks
    }

    fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }
}

/// The running code.
struct Host {
    child: Child,
    input: ChildStdin,
    output: ChildStdout,
    _folder: tempfile::TempDir,
}

impl Host {
    fn start() -> Self {
        let (folder, program) = compile("origin.c").unwrap();
        let mut child = Command::new(program)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        Self {
            input: child.stdin.take().unwrap(),
            output: child.stdout.take().unwrap(),
            child,
            _folder: folder,
        }
    }

    /// The origin, and the registers that were found. No other memory than the stacks is read.
    fn ask(&mut self, stacks: &Stacks) -> (Origin, Vec<u64>) {
        let head = [stacks.here, TASK_STACK, INTERRUPT_STACK, stacks.user];
        let words = head.iter().chain(&TEXT).chain(&ENTRIES);
        let words = words.chain(&stacks.task).chain(&stacks.interrupt);
        let bytes: Vec<u8> = words.flat_map(|word| word.to_ne_bytes()).collect();
        self.input.write_all(&bytes).unwrap();
        let mut bytes = [0; RESULT];
        self.output.read_exact(&mut bytes).unwrap();
        let words = bytes.as_chunks().0.iter();
        let words: Vec<u64> = words.map(|word| u64::from_ne_bytes(*word)).collect();
        assert_eq!(words[1 + SAVED], 0, "reads elsewhere: {stacks:x?}");
        let origin = match words[0] {
            0 => Origin::Unknown,
            1 => Origin::User,
            2 => Origin::Kernel,
            3 => Origin::Late,
            other => panic!("origin {other}"),
        };
        (origin, words[1..=SAVED].to_vec())
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // It may have ended by itself; then there is nothing to do.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The two ways into an interrupt are told apart, and the registers are those that were saved, with
/// either alignment that the processor makes.
#[test]
fn interrupted_registers_are_found() {
    let mut host = Host::start();
    let user = Stacks::of_user();
    assert_eq!(host.ask(&user), (Origin::User, user.task[USER..].to_vec()));
    let kernel = Stacks::of_kernel();
    let saved = |stacks: &Stacks| stacks.task[KERNEL..KERNEL + SAVED].to_vec();
    assert_eq!(host.ask(&kernel), (Origin::Kernel, saved(&kernel)));
    let aligned = kernel.clone().with(|s| s.task[KERNEL + RSP] += 8);
    assert_eq!(host.ask(&aligned), (Origin::Kernel, saved(&aligned)));
    // As it is after an exception of user mode: without a stack segment.
    let without = kernel.with(|s| s.task[KERNEL + SS] = 0);
    assert_eq!(host.ask(&without), (Origin::Kernel, saved(&without)));
}

/// What is not exactly as an interrupt leaves it gives no registers.
#[test]
fn what_does_not_fit_is_not_believed() {
    let mut host = Host::start();
    let mut origin = |stacks: Stacks| host.ask(&stacks).0;
    let user = Stacks::of_user;
    // On the task's own stack: in a system call, far down, in a thread of the kernel.
    let call = user().with(|s| s.task[USER - 1] = IN_CODE);
    assert_eq!(origin(call), Origin::Unknown);
    let deep = user().with(|s| s.here = address(TASK_STACK, USER - 200));
    assert_eq!(origin(deep), Origin::Unknown);
    let kernel_selector = user().with(|s| s.task[USER + CS] = 0x10);
    assert_eq!(origin(kernel_selector), Origin::Unknown);
    let elsewhere = user().with(|s| s.user = 0xffff_ffff_8243_2ec0);
    assert_eq!(origin(elsewhere), Origin::Unknown);
    let kernel = Stacks::of_kernel;
    // Bottom halves were turned on again: the first return address is not that of an entry.
    let late = kernel().with(|s| s.task[KERNEL - 2] = IN_CODE);
    assert_eq!(origin(late), Origin::Late);
    let changes: [(usize, u64); 7] = [
        (KERNEL - 1, 0),
        (KERNEL + CS, 0x33),
        (KERNEL + SS, 0x2b),
        (KERNEL + FLAGS, 0x46),
        (KERNEL + RIP, 0x7fff_0000),
        (KERNEL + RSP, address(TASK_STACK, KERNEL + SAVED + 2)),
        (KERNEL + RSP, address(TASK_STACK, KERNEL + SAVED - 1)),
    ];
    for (index, word) in changes {
        let changed = kernel().with(|s| s.task[index] = word);
        assert_eq!(origin(changed), Origin::Unknown, "{index} {word:#x}");
    }
    // The stack from before is not this task's, or not aligned.
    for sp in [
        0,
        address(TASK_STACK, WORDS),
        TASK_STACK - 8,
        TASK_STACK + 12_001,
    ] {
        let other = kernel().with(|s| s.interrupt[WORDS - 1] = sp);
        assert_eq!(origin(other), Origin::Unknown, "{sp:#x}");
    }
}

fn word() -> impl Strategy<Value = u64> {
    prop_oneof![
        Just(IN_ENTRY),
        Just(IN_CODE),
        Just(0),
        (0..2 * WORDS).prop_map(|index| address(TASK_STACK, index)),
        (0..2_usize).prop_map(|unaligned| address(TASK_STACK, KERNEL + SAVED + unaligned)),
        any::<u64>(),
    ]
}

/// Whatever words are changed, registers that are believed are those of user mode at the top of the
/// stack, or the kernel's below a return into an entry, where the stack pointer says they are.
#[test]
fn changed_words() {
    let mut host = Host::start();
    let changes = prop::collection::vec((KERNEL - 8..KERNEL + SAVED + 8, word()), 0..4);
    let sp = prop::option::of(word());
    let mut seen = [0; 4];
    let mut runner = TestRunner::new(config());
    let cell = std::cell::RefCell::new((&mut host, &mut seen));
    runner
        .run(&(changes, sp), |(changes, sp)| {
            let mut stacks = Stacks::of_kernel();
            for (index, word) in changes {
                stacks.task[index] = word;
            }
            if let Some(sp) = sp {
                stacks.interrupt[WORDS - 1] = sp;
            }
            let (host, seen) = &mut *cell.borrow_mut();
            let (origin, saved) = host.ask(&stacks);
            seen[origin as usize] += 1;
            if origin == Origin::Kernel {
                // The processor saves them below the stack pointer, aligned down to 16 bytes.
                let end = (saved[RSP] & !15) - TASK_STACK;
                let begin = end as usize / 8 - SAVED;
                prop_assert_eq!(&stacks.task[begin..begin + SAVED], &saved[..]);
                prop_assert_eq!(stacks.task[begin - 1], IN_ENTRY);
                prop_assert_eq!(saved[CS] & 0xffff, 0x10);
            }
            prop_assert_ne!(origin, Origin::User);
            Ok(())
        })
        .unwrap();
    assert!(seen[Origin::Kernel as usize] > 100 && seen[Origin::Unknown as usize] > 100);
}
