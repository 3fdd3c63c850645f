//! What runs on the machine whose days are made: images with their instructions, and processes.
//!
//! Images are files of this machine, so that reports find names and code for their addresses.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use hotlist::Generator;
use iced_x86::{Decoder, DecoderOptions, FlowControl};
use profiledb::{Image, ImageKind, Subject};
use symbols::{Binary, Room};
use vcpi_tests::programs::target_dir;

/// Memory for reading files.
const ROOM: u64 = 2 << 30;
/// The most instructions that are taken of a function.
const LONGEST: usize = 300;

/// What an instruction does to the way of a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Flow {
    Next,
    Branch,
    Call,
}

/// An instruction.
#[derive(Debug, Clone, Copy)]
pub(super) struct Site {
    pub(super) address: u64,
    bytes: [u8; 15],
    length: u8,
    pub(super) flow: Flow,
    /// It loads or stores.
    pub(super) has_memory: bool,
    /// It has a result that is a value.
    pub(super) has_result: bool,
}

impl Site {
    pub(super) fn bytes(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.length)).unwrap_or(&[])
    }
}

/// A function: its instructions in their order.
pub(super) type Function = Vec<Site>;

/// A kind of load: the code that it runs, and the processes that run it.
#[derive(Debug)]
pub(super) struct Load {
    pub(super) name: &'static str,
    pub(super) image: Image,
    pub(super) functions: Vec<Function>,
    pub(super) subject: Subject,
    /// Of a hundred windows.
    pub(super) share: u64,
    /// How often a window goes round a loop, at most.
    pub(super) rounds: u64,
    /// Processes that live as long as the service.
    pub(super) residents: u32,
    /// Of a hundred processes that live for seconds.
    pub(super) short_lived: u32,
    /// Names of its functions, which no file can tell.
    pub(super) is_kernel: bool,
}

/// What a kind of load is made of.
struct Recipe {
    name: &'static str,
    files: &'static [&'static str],
    /// Of a hundred instructions.
    code: usize,
    share: u64,
    rounds: u64,
    residents: u32,
    short_lived: u32,
    uid: u32,
}

const RECIPES: [Recipe; 3] = [
    Recipe {
        name: "database",
        files: &[
            "/usr/lib/postgresql/15/bin/postgres",
            "/usr/lib/x86_64-linux-gnu/libsqlite3.so.0",
        ],
        code: 12,
        share: 38,
        rounds: 12,
        residents: 20,
        short_lived: 10,
        uid: 113,
    },
    Recipe {
        name: "compiler",
        files: &["/usr/lib/gcc/x86_64-linux-gnu/12/cc1plus"],
        code: 70,
        share: 37,
        rounds: 3,
        residents: 0,
        short_lived: 80,
        uid: 1000,
    },
    Recipe {
        name: "interpreter",
        files: &[
            "/usr/bin/node",
            "/usr/lib/x86_64-linux-gnu/libpython3.11.so.1.0",
        ],
        code: 15,
        share: 20,
        rounds: 6,
        residents: 8,
        short_lived: 10,
        uid: 1001,
    },
];

/// Of a hundred instructions, windows.
const KERNEL: (usize, u64) = (3, 5);

/// The loads, with so many instructions together.
///
/// # Errors
/// If there is no file to take addresses of.
pub(super) fn loads(instructions: usize, coins: &mut Generator) -> Result<Vec<Load>> {
    let mut loads = Vec::new();
    for recipe in &RECIPES {
        let path = file(recipe)?;
        let (image, functions) = code(&path, instructions * recipe.code / 100, coins)?;
        loads.push(Load {
            name: recipe.name,
            image,
            functions,
            subject: of_user(recipe.uid),
            share: recipe.share,
            rounds: recipe.rounds,
            residents: recipe.residents,
            short_lived: recipe.short_lived,
            is_kernel: false,
        });
    }
    loads.push(kernel(instructions * KERNEL.0 / 100, coins));
    Ok(loads)
}

fn of_user(uid: u32) -> Subject {
    Subject {
        uid: Some(uid),
        gid: Some(uid),
        euid: Some(uid),
        egid: Some(uid),
        suid: Some(uid),
        dumpable: Some(true),
        capable: Some(false),
        kernel: false,
    }
}

/// The file whose addresses a load has: a large one with names, if that can be had.
fn file(recipe: &Recipe) -> Result<PathBuf> {
    if recipe.name == "compiler"
        && let Some(library) = compiler_library()
    {
        return Ok(library);
    }
    let there = recipe.files.iter().map(PathBuf::from);
    if let Some(path) = there.into_iter().find(|path| path.is_file()) {
        return Ok(path);
    }
    let own = target_dir()?.join("release/vcpi");
    if !own.is_file() {
        bail!(
            "no file for the load of a {}: build the programs first",
            recipe.name
        );
    }
    Ok(own)
}

/// The library of the compiler that builds this project.
fn compiler_library() -> Option<PathBuf> {
    let mut rustc = std::process::Command::new("rustc");
    let output = rustc.args(["--print", "sysroot"]).output().ok()?;
    let folder = Path::new(std::str::from_utf8(&output.stdout).ok()?.trim()).join("lib");
    let entries = std::fs::read_dir(folder).ok()?.flatten();
    let mut paths = entries.map(|entry| entry.path());
    paths.find(|path| {
        let name = path.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| name.starts_with("libLLVM"))
    })
}

/// Functions from all over a file, in random order.
fn code(path: &Path, instructions: usize, coins: &mut Generator) -> Result<(Image, Vec<Function>)> {
    let what = || format!("reading {}", path.display());
    let binary = Binary::open(path, &Room::new(ROOM)).with_context(what)?;
    let content = || -> Result<String> {
        let file = std::fs::File::open(path).with_context(what)?;
        Ok(Image::of_content(&symbols::content_id(&file)?))
    };
    let build_id = binary.build_id().map(str::to_owned);
    let identity = build_id.clone().map_or_else(content, Ok)?;
    let image = Image {
        kind: ImageKind::File,
        path: path.to_string_lossy().into_owned(),
        build_id,
        identity,
    };
    let text = binary
        .segments()
        .iter()
        .filter(|segment| segment.executable);
    let text = text
        .max_by_key(|segment| segment.file_size)
        .with_context(what)?;
    let (mut begun, mut functions, mut taken) = (BTreeSet::new(), Vec::new(), 0);
    let mut misses = 0;
    while taken < instructions && misses < 1_000_000 {
        let at = text.address + coins.next_u64() % text.file_size.max(1);
        let frame = binary.frame(at).filter(|(start, _)| begun.insert(*start));
        let function = frame.map(|(start, end)| decode(&binary, start, end));
        match function.filter(|function| function.len() > 3) {
            Some(function) => {
                taken += function.len();
                functions.push(function);
            }
            None => misses += 1,
        }
    }
    if functions.is_empty() {
        bail!(
            "{} has no functions that its unwind table names",
            path.display()
        );
    }
    Ok((image, functions))
}

fn decode(binary: &Binary, start: u64, end: u64) -> Function {
    let bytes = binary.bytes(start).unwrap_or(&[]);
    let length = usize::try_from(end - start)
        .unwrap_or(usize::MAX)
        .min(bytes.len());
    let mut decoder = Decoder::with_ip(64, &bytes[..length], start, DecoderOptions::NONE);
    let mut function = Function::new();
    while decoder.can_decode() && function.len() < LONGEST {
        let from = decoder.position();
        let instruction = decoder.decode();
        if instruction.is_invalid() {
            break;
        }
        let mut site = Site {
            address: instruction.ip(),
            bytes: [0; 15],
            // At most 15.
            length: instruction.len() as u8,
            flow: match instruction.flow_control() {
                FlowControl::ConditionalBranch => Flow::Branch,
                FlowControl::Call | FlowControl::IndirectCall => Flow::Call,
                _ => Flow::Next,
            },
            has_memory: instruction.memory_base() != iced_x86::Register::None,
            has_result: instruction.op_count() > 0
                && instruction.op0_kind() == iced_x86::OpKind::Register,
        };
        let encoding = &bytes[from..from + instruction.len()];
        site.bytes[..encoding.len()].copy_from_slice(encoding);
        function.push(site);
    }
    function
}

/// The kernel's part: functions of one kind of instruction, with addresses of no file.
fn kernel(instructions: usize, coins: &mut Generator) -> Load {
    let of_one = 40;
    let functions = (0..(instructions / of_one).max(1) as u64).map(|number| {
        let begin = 0x1_0000 + number * 0x400 + coins.next_u64() % 16 * 16;
        let site = |index| Site {
            address: begin + 4 * index,
            // A load of the kind that most code has.
            bytes: [0x48, 0x8b, 0x47, 0x08, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
            length: 4,
            flow: Flow::Next,
            has_memory: true,
            has_result: true,
        };
        (0..of_one as u64).map(site).collect()
    });
    Load {
        name: "kernel",
        image: Image {
            kind: ImageKind::Kernel,
            path: "[kernel]".to_owned(),
            build_id: Some("5e".repeat(20)),
            identity: "5e".repeat(20),
        },
        functions: functions.collect(),
        subject: Subject {
            kernel: true,
            ..of_user(0)
        },
        share: KERNEL.1,
        rounds: 4,
        residents: 20,
        short_lived: 0,
        is_kernel: true,
    }
}
