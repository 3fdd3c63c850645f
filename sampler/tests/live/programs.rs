//! The programs that are sampled: this test binary in another role.

use std::hint::black_box;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitCode, Stdio};

use libtest_mimic::Failed;
use sampler::Pid;

use crate::recording::check;

/// The first argument that makes this binary play a role.
pub(crate) const ROLE: &str = "--role";

/// How many numbers the busy program holds on its stack.
const NUMBERS: usize = 64;

/// The numbers on the busy program's stack.
pub(crate) fn numbers() -> [u64; NUMBERS] {
    std::array::from_fn(|index| 0x5eed_0000_0000_0000 | (index as u64 * 0x0101))
}

/// Plays the role that the remaining arguments name.
pub(crate) fn play(mut arguments: impl Iterator<Item = String>) -> ExitCode {
    match arguments.next().as_deref() {
        Some("busy") => {
            let threads = arguments
                .next()
                .and_then(|text| text.parse().ok())
                .unwrap_or(1);
            busy(threads);
            ExitCode::SUCCESS
        }
        Some("unprivileged") => crate::unprivileged::role(arguments.next().as_deref()),
        other => {
            eprintln!("unknown role {other:?}");
            ExitCode::FAILURE
        }
    }
}

/// Says where its numbers lie, then computes in `threads` threads until its input ends.
fn busy(threads: usize) {
    let handles: Vec<_> = (0..threads).map(|_| std::thread::spawn(compute)).collect();
    let mut rest = Vec::new();
    // An input that cannot be read has ended too.
    let _ = std::io::stdin().read_to_end(&mut rest);
    std::process::exit(i32::from(handles.is_empty()));
}

/// Computes for ever beneath numbers that do not change.
fn compute() {
    let numbers = numbers();
    let mut out = std::io::stdout().lock();
    // Whoever reads this may have gone.
    let _ = writeln!(out, "{}", black_box(&numbers).as_ptr().addr());
    let _ = out.flush();
    drop(out);
    let mut sum = 0_u64;
    loop {
        for number in black_box(&numbers) {
            sum = black_box(sum.rotate_left(5) ^ number);
        }
    }
}

/// Compiles the program of this name that lies beside this file.
pub(crate) fn compile(folder: &Path, name: &str) -> Result<PathBuf, Failed> {
    let program = folder.join(name);
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/live/{name}.c"));
    let compiled = Command::new("gcc")
        .args(["-O1", "-pthread", "-o"])
        .args([&program, &source])
        .status()?;
    check(compiled.success(), || format!("{name}.c does not compile"))?;
    Ok(program)
}

/// A child that waits for [`Waiting::go`], then executes its command.
pub(crate) struct Waiting {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Waiting {
    /// A shell that waits for a line and then executes `command` with the same input and output.
    pub(crate) fn shell(command: &str) -> Result<Waiting, Failed> {
        let mut child = Command::new("/bin/sh")
            .args(["-c", &format!("read line; exec {command}")])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().ok_or("no output")?);
        Ok(Waiting {
            child,
            input,
            output,
        })
    }

    /// The busy program.
    pub(crate) fn busy(threads: usize) -> Result<Waiting, Failed> {
        let binary = std::env::current_exe()?;
        Waiting::shell(&format!("'{}' {ROLE} busy {threads}", binary.display()))
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid(self.child.id())
    }

    /// Lets it execute its command.
    pub(crate) fn go(&mut self) -> Result<(), Failed> {
        let input = self.input.as_mut().ok_or("no input")?;
        input.write_all(b"go\n")?;
        Ok(())
    }

    /// The next number it prints.
    pub(crate) fn number(&mut self) -> Result<u64, Failed> {
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        Ok(line.trim().parse()?)
    }

    /// Waits until it has ended by itself.
    pub(crate) fn wait(mut self) -> Result<(), Failed> {
        self.child.wait()?;
        Ok(())
    }

    /// Ends its input and waits for its end.
    pub(crate) fn end(mut self) -> Result<(), Failed> {
        self.close_input();
        self.child.wait()?;
        Ok(())
    }

    /// Ends its input.
    pub(crate) fn close_input(&mut self) {
        self.input = None;
    }

    /// Ends it.
    pub(crate) fn kill(mut self) -> Result<(), Failed> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }
}
