//! `cargo xtask povray`: the four reports of the value sampler on POV-Ray, the ray tracer that they
//! were first shown with.
//!
//! The program is built of Debian's source. Its solver of polynomials is compiled without inlining,
//! so that the functions of the reports are functions.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use vcpi_tests::programs::{Programs, remove_database, target_dir};

use crate::demo::{around, command_line, first_lines, hottest_address, show, title};
use crate::process::{progress, run as run_command};
use crate::setup::{self, Need};
use crate::test::build;

/// What is recorded of.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// A tree of POV-Ray's source that is there, in place of Debian's.
    #[arg(long)]
    tree: Option<PathBuf>,
    /// Samples per second.
    #[arg(long, default_value_t = 2000)]
    rate: u32,
}

/// The scenes by their files' names: the one that is rendered, and the one that it includes.
const SCENES: [(&str, &str); 2] = [
    ("shapes.pov", include_str!("povray/shapes.pov")),
    ("scene.pov", include_str!("povray/scene.pov")),
];
/// Where its packages' sources are described.
const DESCRIBED: &str = "/etc/apt/sources.list.d";
const OLDER: &str = "/etc/apt/sources.list";
/// The functions that the reports are of are in these.
const SHOWN_CODE: [&str; 2] = [
    "source/backend/math/polysolv.cpp",
    "source/backend/shape/super.cpp",
];
/// What keeps functions as they are in the source.
const NOT_INLINED: &str = "-fno-inline -fno-ipa-cp";
const KINDS: &str = "dest,branch,target,args,ret,vector";

/// Builds what is not there, records, and prints the reports.
pub(crate) fn run(options: &Options) -> Result<()> {
    setup::run(Need::Yield)?;
    build()?;
    let programs = Programs::find()?;
    let folder = target_dir()?.join("povray");
    fs::create_dir_all(&folder).with_context(|| format!("creating {}", folder.display()))?;
    let tree = match &options.tree {
        Some(tree) => tree.clone(),
        None => source(&folder)?,
    };
    let program = program(&tree, &folder)?;
    for (name, text) in SCENES {
        let scene = folder.join(name);
        fs::write(&scene, text).with_context(|| format!("writing {}", scene.display()))?;
    }
    let database = folder.join("povray.db");
    remove_database(&database)?;
    record(&programs, &program, &folder, &database, options.rate)?;
    reports(&programs, &database)
}

fn record(
    programs: &Programs,
    program: &Path,
    folder: &Path,
    database: &Path,
    rate: u32,
) -> Result<()> {
    let mut command = Command::new(&programs.vcpid);
    command
        .args(["record", "-o"])
        .arg(database)
        .args(["--rate", &rate.to_string(), "--context", "caller"])
        .args(["--capture", KINDS, "--vectors", "1000", "--"])
        .arg(program)
        .args([
            "+Ishapes.pov",
            "+W1280",
            "+H960",
            "-D",
            "+Oshapes.png",
            "+WT1",
            "-GA",
        ])
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    command_line(&command);
    let status = command.status().context("running vcpid")?;
    if !status.success() {
        bail!("vcpid record failed ({status}); its message is above");
    }
    Ok(())
}

fn reports(programs: &Programs, database: &Path) -> Result<()> {
    title("Who calls");
    for function in ["polyeval", "numchanges", "regula_falsa"] {
        show(programs, database, &["cg", function], |text| {
            first_lines(text, 8)
        })?;
    }
    title("With which arguments");
    for function in ["pov::Superellipsoid::solve_hit1", "numchanges", "polyeval"] {
        show(programs, database, &["args", function], |text| {
            first_lines(text, 9)
        })?;
    }
    title("Which results do not vary");
    show(programs, database, &["blks", "numchanges"], |text| {
        first_lines(text, 20)
    })?;
    title("The solver's instructions");
    for function in ["polyeval", "buildsturm"] {
        let listing = programs.report(database, &["list", function])?;
        let address = hottest_address(&listing).unwrap_or_default();
        show(programs, database, &["list", function], |text| {
            around(text, &address, 30)
        })?;
    }
    Ok(())
}

/// Debian's source, unpacked, with what its build needs installed.
fn source(folder: &Path) -> Result<PathBuf> {
    if let Some(tree) = unpacked(folder)? {
        return Ok(tree);
    }
    let lists = folder.join("lists");
    let parts = folder.join("sources");
    for folder in [&lists.join("partial"), &parts] {
        fs::create_dir_all(folder).with_context(|| format!("creating {}", folder.display()))?;
    }
    describe(&parts)?;
    let settings = [
        "Dir::Etc::SourceList=/dev/null".to_owned(),
        format!("Dir::Etc::SourceParts={}", parts.display()),
        format!("Dir::State::Lists={}", lists.display()),
    ];
    let apt = |words: &[&str]| {
        let settings = settings.iter().flat_map(|setting| ["-o", setting.as_str()]);
        setup::apt(&settings.chain(words.iter().copied()).collect::<Vec<_>>())
    };
    run_command(apt(&["update", "-q"])?.current_dir(folder))?;
    let needed = ["build-dep", "-y", "-q", "--no-install-recommends", "povray"];
    run_command(apt(&needed)?.current_dir(folder))?;
    run_command(apt(&["source", "-q", "povray"])?.current_dir(folder))?;
    unpacked(folder)?.context("apt-get source left no tree of POV-Ray")
}

fn unpacked(folder: &Path) -> Result<Option<PathBuf>> {
    let entries = fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))?;
    let mut trees = entries.flatten().map(|entry| entry.path());
    Ok(trees.find(|path| path.join("unix/prebuild.sh").is_file()))
}

/// Describes the sources of the packages that this machine has.
fn describe(parts: &Path) -> Result<()> {
    let entries = fs::read_dir(DESCRIBED).with_context(|| format!("reading {DESCRIBED}"))?;
    let folder = entries.flatten().map(|entry| entry.path());
    for path in folder.chain([PathBuf::from(OLDER)]) {
        let is_described =
            matches!(path.extension(), Some(end) if end == "list" || end == "sources");
        let Some(name) = path.file_name().filter(|_| is_described && path.is_file()) else {
            continue;
        };
        let text =
            fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
        let to = parts.join(name);
        fs::write(&to, with_sources(&text)).with_context(|| format!("writing {}", to.display()))?;
    }
    Ok(())
}

/// A description of packages, with their sources.
fn with_sources(text: &str) -> String {
    let mut described = String::new();
    for line in text.lines() {
        match line.strip_prefix("deb ") {
            Some(place) => described.push_str(&format!("{line}\ndeb-src {place}\n")),
            None if line.starts_with("Types:") => described.push_str("Types: deb deb-src\n"),
            None => described.push_str(&format!("{line}\n")),
        }
    }
    described
}

/// The program whose solver keeps its functions. The one with all that a compiler does is kept
/// beside it, as `povray.plain`.
fn program(tree: &Path, folder: &Path) -> Result<PathBuf> {
    let shown = folder.join("povray.functions");
    if shown.is_file() {
        return Ok(shown);
    }
    progress("building POV-Ray");
    if !tree.join("Makefile").is_file() {
        run_command(Command::new("./prebuild.sh").current_dir(tree.join("unix")))?;
        run_command(
            Command::new("./configure")
                .args(["COMPILED_BY=cargo xtask povray", "--disable-optimiz"])
                .args(["--disable-strip", "--without-x", "--without-libsdl"])
                .args(["CXXFLAGS=-O2 -g", "CFLAGS=-O2 -g"])
                .current_dir(tree)
                .stdout(Stdio::null()),
        )?;
    }
    let jobs = std::thread::available_parallelism().map_or(1, usize::from);
    let make = |words: &[String]| {
        let mut make = Command::new("make");
        run_command(
            make.arg(format!("-j{jobs}"))
                .args(words)
                .current_dir(tree)
                .stdout(Stdio::null()),
        )
    };
    make(&[])?;
    let built = tree.join("unix/povray");
    let copy =
        |to: &Path| fs::copy(&built, to).with_context(|| format!("copying {}", built.display()));
    copy(&folder.join("povray.plain"))?;
    for name in SHOWN_CODE {
        run_command(Command::new("touch").arg(tree.join(name)))?;
    }
    make(&[format!("CXXFLAGS={} {NOT_INLINED}", flags(tree)?)])?;
    copy(&shown)?;
    Ok(shown)
}

/// The flags that the tree is built with.
fn flags(tree: &Path) -> Result<String> {
    let makefile = tree.join("Makefile");
    let text =
        fs::read_to_string(&makefile).with_context(|| format!("reading {}", makefile.display()))?;
    let flags = text
        .lines()
        .find_map(|line| line.strip_prefix("CXXFLAGS = "));
    Ok(flags.context("the Makefile names no CXXFLAGS")?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Both forms of describing packages come to describe sources as well.
    #[test]
    fn sources_are_described() {
        let older = "# ours\ndeb file:/mirror stable main\n";
        assert_eq!(
            with_sources(older),
            format!("{older}deb-src file:/mirror stable main\n")
        );
        let newer = "Types: deb\nURIs: file:/mirror\n";
        assert_eq!(
            with_sources(newer),
            "Types: deb deb-src\nURIs: file:/mirror\n"
        );
    }
}
