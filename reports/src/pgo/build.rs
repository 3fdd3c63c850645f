//! Builds: for being recorded, for a skeleton, and with a profile.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use super::cargo::{FlagPlace, UNSTABLE};
use super::make::{self, Around};
use super::routes::{Build, Language, QUIET, Route, joined};
use super::steps::BuildStep;
use super::{Basis, How, beside, export, here};
use crate::args::Common;
use crate::export::profgen::debug_binary;
use crate::failure::Failure;
use crate::messages::say;
use crate::shell::{is_plain, quoted};
use crate::toolchain::{Compiler, PROFDATA, PROFGEN, compiler, is_there, missing};

/// Options of a second build that takes more code for hot.
const HOT: &str = "-profile-summary-cutoff-hot=999000";

/// What a build is to be.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wanted<'a> {
    pub(super) by: Route,
    pub(super) skeleton: Option<&'a Path>,
    pub(super) hot: bool,
    pub(super) contexts: bool,
    pub(super) relocations: bool,
}

impl Wanted<'_> {
    /// Whether the options fit each other.
    fn check(self, language: Language, with_profile: bool) -> Result<(), Failure> {
        let why = match self.by {
            by if !by.takes(language) => "cargo builds by profgen and by proftext alone",
            Route::Proftext if with_profile && self.skeleton.is_none() => {
                "--by proftext needs --skeleton FOLDER, which a build with that option and without \
                 --image writes"
            }
            by if by != Route::Proftext && self.skeleton.is_some() => {
                "--skeleton is of --by proftext alone"
            }
            by if self.hot && !by.has_cutoff() => "--hot is of --by profgen and proftext alone",
            by if self.contexts && by != Route::Profgen => "--contexts is of --by profgen alone",
            _ if (self.hot || self.contexts) && !with_profile => {
                "--hot and --contexts are about a profile; name its program with --image"
            }
            _ => return Ok(()),
        };
        Err(Failure::Usage(format!("pgo build: {why}")))
    }

    /// Whether a command that is a compiler itself takes the flags of the route.
    fn check_compiler(self, program: &OsStr) -> Result<(), Failure> {
        let why = match (compiler(program), self.by) {
            (Some(Compiler::System), _) => {
                "may be clang or gcc, which take different flags: name one of them"
            }
            (Some(Compiler::Gcc), by) if by != Route::Gcov => {
                "builds by --by gcov alone: give that, or name clang"
            }
            (Some(Compiler::Clang), Route::Gcov) => {
                "builds by the other routes: leave out --by gcov, or name gcc"
            }
            _ => return Ok(()),
        };
        Err(Failure::Usage(format!(
            "pgo build: {} {why}",
            program.display()
        )))
    }
}

/// The steps of a build.
///
/// # Errors
/// If the options do not fit each other, or a program is missing.
pub(super) fn build(
    common: &Common,
    wanted: Wanted<'_>,
    from: Basis,
    how: How,
    command: &[OsString],
) -> Result<Vec<BuildStep>, Failure> {
    let image = match common.image.as_slice() {
        [] => None,
        [one] => Some(one),
        _ => {
            return Err(Failure::Usage(
                "pgo build: of one program; name its file with --image once".to_owned(),
            ));
        }
    };
    let language = language(command);
    wanted.check(language, image.is_some())?;
    if let Some(program) = command.get(launchers(command)) {
        wanted.check_compiler(program)?;
    }
    // Compilers may run in other folders.
    let skeleton = match wanted.skeleton {
        Some(folder) => Some(here()?.join(folder)),
        None => None,
    };
    let version = how.version(&wanted.by.tools(language, image.is_some()))?;
    // Else it is missed behind all other steps.
    if let Some(program) = command.first()
        && !how.dry_run
        && !is_there(program)
    {
        return Err(Failure::Program(missing(program)));
    }
    let place = match builder(command) {
        Some(Builder::Cargo) => FlagPlace::of(command),
        _ => FlagPlace::Environment,
    };
    if builder(command) == Some(Builder::Make) {
        make::lost(command)
            .iter()
            .for_each(|sentence| say(sentence));
    }
    let compile = |build| compile(command, &version, build, wanted, place);
    let Some(image) = image else {
        let build = skeleton.as_deref().map_or(Build::Recorded, Build::Skeleton);
        return Ok(vec![compile(build)?]);
    };
    let mut steps = Vec::new();
    let mut files = Vec::new();
    for (ending, options) in wanted.by.exports() {
        let file = beside(image, ending)?;
        let mut step = export(common, wanted.by.export(), image.as_ref(), &file, from);
        step.words.extend(options.iter().map(OsString::from));
        if wanted.contexts {
            step.words.push("--contexts".into());
        }
        if let Some(skeleton) = &skeleton {
            step.words.extend(["--skeleton".into(), skeleton.into()]);
        }
        if wanted.by == Route::Gcov
            && let Some(gcc) = how.gcc()?
        {
            step.words.extend(["--gcc".into(), gcc.into()]);
        }
        steps.push(step);
        files.push(file);
    }
    let read = match wanted.by {
        Route::Profgen => Some(("prof", symbolize as Reader)),
        Route::Proftext => Some(("profdata", merge as Reader)),
        Route::Propeller | Route::Gcov => None,
    };
    if let (Some((ending, reader)), [counts]) = (read, files.as_mut_slice()) {
        let profile = beside(image, ending)?;
        steps.push(reader(&version, image.as_ref(), counts, &profile));
        *counts = profile;
    }
    let files: Vec<&Path> = files.iter().map(PathBuf::as_path).collect();
    steps.push(compile(Build::Better(&files))?);
    if !how.dry_run {
        say("the build must compile anew: remove what an earlier build left, or change its folder");
    }
    Ok(steps)
}

/// A step that reads counts of a program, and writes a profile.
type Reader = fn(&str, &OsStr, &Path, &Path) -> BuildStep;

fn symbolize(version: &str, image: &OsStr, counts: &Path, profile: &Path) -> BuildStep {
    let mut step = BuildStep::new([PROFGEN.of(version)]);
    let debug = debug_binary(Path::new(image));
    let debug = debug
        .as_ref()
        .map(|path| ("--debug-binary", path.as_os_str()));
    let options = [
        ("--unsymbolized-profile", counts.as_os_str()),
        ("--binary", image),
    ];
    let more = [
        ("--use-offset", OsStr::new("0")),
        ("--format", OsStr::new("text")),
        ("--output", profile.as_os_str()),
    ];
    for (name, value) in options.into_iter().chain(debug).chain(more) {
        step.words.push(joined(name, value));
    }
    // It fails at nothing.
    step.writes = Some((
        profile.to_owned(),
        "the program has no debug information, or that of another build",
    ));
    step
}

fn merge(version: &str, _image: &OsStr, counts: &Path, profile: &Path) -> BuildStep {
    let mut step = BuildStep::new([PROFDATA.of(version)]);
    step.words.extend(["merge", "-o"].map(OsString::from));
    step.words.extend([profile.into(), counts.into()]);
    step
}

/// Programs that are given flags each in a way of its own; others heed `CC` and `CXX`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Builder {
    Cargo,
    Make,
    /// A compiler itself, which takes flags as they are.
    Compiler(Compiler),
}

/// Programs that run the compiler that is named behind them.
const LAUNCHERS: [&str; 3] = ["ccache", "distcc", "sccache"];

/// How many words in front of a command only run what follows.
fn launchers(command: &[OsString]) -> usize {
    let is_launcher = |word: &&OsString| {
        let name = Path::new(word).file_name();
        name.is_some_and(|name| LAUNCHERS.iter().any(|known| name == *known))
    };
    let runs = command.iter().take_while(is_launcher).count();
    // Alone it is a program like all others.
    if runs < command.len() { runs } else { 0 }
}

/// What runs the compilers, where that is no program like all others.
fn builder(command: &[OsString]) -> Option<Builder> {
    let program = command.get(launchers(command))?;
    match Path::new(program).file_name()?.to_str()? {
        "cargo" => Some(Builder::Cargo),
        "make" | "gmake" => Some(Builder::Make),
        _ => compiler(program).map(Builder::Compiler),
    }
}

/// Whose compilers a command runs.
fn language(command: &[OsString]) -> Language {
    match builder(command) {
        Some(Builder::Cargo | Builder::Compiler(Compiler::Rustc)) => Language::Rust,
        _ => Language::C,
    }
}

/// The command that builds, with what makes compilers keep or use profiles; `place` is where cargo
/// takes flags from.
///
/// # Errors
/// If the command cannot be given a file's name for its compilers.
fn compile(
    command: &[OsString],
    version: &str,
    build: Build<'_>,
    wanted: Wanted<'_>,
    place: FlagPlace,
) -> Result<BuildStep, Failure> {
    let mut step = BuildStep::new(command.iter().cloned());
    if let Build::Better(files) = build {
        step.reads = files.iter().map(|file| file.to_path_buf()).collect();
    }
    let language = language(command);
    let mut flags = wanted.by.flags(language, build);
    flags.extend(wanted.more(language).split_whitespace().map(OsString::from));
    if language == Language::Rust {
        check_rust(build)?;
        // The flags for samples are among those that stable compilers keep for their own build.
        let (variable, value) = UNSTABLE;
        step.variables.push((variable, OsString::from(value)));
    }
    match builder(command) {
        Some(Builder::Cargo) => place.add(flags, &mut step),
        // Behind these, flags of the command's own that say otherwise count.
        Some(Builder::Compiler(_)) => {
            let behind = launchers(command) + 1;
            step.words.splice(behind..behind, flags);
        }
        builder => choose_compilers(&mut step, version, wanted.by, &flags, builder)?,
    }
    Ok(step)
}

/// Refuses rustc a folder's name that it would cut.
fn check_rust(build: Build<'_>) -> Result<(), Failure> {
    match build {
        Build::Skeleton(folder) if folder.to_string_lossy().contains(char::is_whitespace) => {
            Err(Failure::Usage(format!(
                "pgo build: rustc cuts what it tells LLVM where there are spaces, and {} has one: \
                 name a --skeleton without",
                folder.display()
            )))
        }
        _ => Ok(()),
    }
}

/// Names compilers with flags to a step, beside the words that the project names its own with: on
/// the command line of make, since a makefile's own choice yields to that alone.
fn choose_compilers(
    step: &mut BuildStep,
    version: &str,
    by: Route,
    flags: &[OsString],
    builder: Option<Builder>,
) -> Result<(), Failure> {
    let is_make = builder == Some(Builder::Make);
    if let Some(word) = flags.iter().find(|word| !is_plain(word))
        && let Some(program) = step.words.first()
        && !is_make
    {
        return Err(Failure::Usage(format!(
            "pgo build: {} gets its compilers in CC and CXX, which programs cut into words in \
             different ways, and {} has a space or another special character: build in a folder, \
             and with an --image, without (make takes them)",
            program.display(),
            word.display()
        )));
    }
    // make puts in variables, and has a shell run what comes of that.
    let told = |word: &OsString| match is_plain(word) {
        true => word.clone(),
        false => quoted(word).replace('$', "$$").into(),
    };
    let flags: Vec<OsString> = flags.iter().map(told).collect();
    // GCC's names have no version: the one that is called so is asked for its own.
    let version = if by == Route::Gcov { "" } else { version };
    for (variable, name) in ["CC", "CXX"].into_iter().zip(by.compilers()) {
        let of_environment = || std::env::var(variable).ok();
        let own = match is_make {
            true => make::take(&mut step.words, variable)
                .or_else(|| of_environment().filter(|_| !make::sets(&step.words, variable))),
            false => of_environment(),
        };
        let own = Around::of(own.as_deref().unwrap_or_default());
        let compiler = own.with(&format!("{name}{version}"), &flags);
        match is_make {
            true => step.words.push(joined(variable, &compiler)),
            false => step.variables.push((variable, compiler)),
        }
    }
    Ok(())
}

impl Wanted<'_> {
    /// What compilers are told besides what the route needs.
    fn more(self, language: Language) -> String {
        let mut flags = String::new();
        if self.hot {
            flags.push_str(&match language {
                Language::C => format!(" {QUIET} -mllvm {HOT}"),
                Language::Rust => format!(" -Cllvm-args={HOT}"),
            });
        }
        if self.relocations {
            flags.push_str(&match (self.by, language) {
                (_, Language::Rust) => " -Clink-arg=-Wl,--emit-relocs".to_owned(),
                (Route::Gcov, _) => " -Wl,--emit-relocs".to_owned(),
                _ => format!(" {QUIET} -Wl,--emit-relocs"),
            });
        }
        flags
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shell::{ENCODED, flags_of};

    fn words(text: &str) -> Vec<OsString> {
        text.split(' ').map(OsString::from).collect()
    }

    const PLAIN: Wanted<'_> = Wanted {
        by: Route::Profgen,
        skeleton: None,
        hot: false,
        contexts: false,
        relocations: false,
    };

    /// Makefiles are told on the command line, cargo by its flags, others in the environment.
    #[test]
    fn builds() {
        let profile = Build::Better(&[Path::new("/p/lua.prof")]);
        let text = |command, build, wanted| {
            let step = compile(
                &words(command),
                "-22",
                build,
                wanted,
                FlagPlace::Environment,
            );
            step.expect("it can be told").to_string()
        };
        let flags = "-g1 -fdebug-info-for-profiling -funique-internal-linkage-names";
        let uses = format!("{flags} -fprofile-sample-use=/p/lua.prof");
        assert_eq!(
            text("make -j2 lua", profile, PLAIN),
            format!("make -j2 lua 'CC=clang-22 {uses}' 'CXX=clang++-22 {uses}'")
        );
        assert_eq!(
            text("cmake -B build", Build::Recorded, PLAIN),
            format!("CC='clang-22 {flags}' CXX='clang++-22 {flags}' cmake -B build")
        );
        let gcc = Wanted {
            by: Route::Gcov,
            ..PLAIN
        };
        assert_eq!(
            text("make", Build::Recorded, gcc),
            "make 'CC=gcc -g' 'CXX=g++ -g'"
        );
        assert_eq!(
            text("clang-22 -O2 e.c", profile, PLAIN),
            format!("clang-22 {uses} -O2 e.c")
        );
        assert_eq!(
            text("ccache clang-22 -O2 e.c", profile, PLAIN),
            format!("ccache clang-22 {uses} -O2 e.c")
        );
        let wanted = Wanted {
            hot: true,
            relocations: true,
            ..PLAIN
        };
        let rust = text("cargo build --release", profile, wanted);
        for part in [
            "RUSTC_BOOTSTRAP=1 ",
            "-Zprofile-sample-use=/p/lua.prof",
            "-Cllvm-args=-profile-summary-cutoff-hot=999000",
            "-Clink-arg=-Wl,--emit-relocs",
            " cargo build --release",
        ] {
            assert!(rust.contains(part), "{rust}");
        }
    }

    /// A name with a space reaches the compilers of make and cargo as one word. What others make of
    /// it is not known, so that they are refused it.
    #[test]
    fn names_with_spaces() {
        let files = [Path::new("/sp ace/l $ua.prof")];
        let environment = FlagPlace::Environment;
        let of = |command: &str, build| compile(&words(command), "-22", build, PLAIN, environment);
        let profile = Build::Better(&files);
        let step = of("make", profile).expect("it can be told");
        let of_cc = step.words.get(1).and_then(|word| word.to_str());
        assert_eq!(
            of_cc.and_then(|word| word.split_once(" -funique-internal-linkage-names ")),
            Some((
                "CC=clang-22 -g1 -fdebug-info-for-profiling",
                "'-fprofile-sample-use=/sp ace/l $$ua.prof'"
            ))
        );
        let step = of("cargo build", profile).expect("it can be told");
        let (_, value) = step
            .variables
            .iter()
            .find(|(name, _)| *name == ENCODED)
            .expect("flags");
        let flags = flags_of(ENCODED, value);
        let used = OsString::from("-Zprofile-sample-use=/sp ace/l $ua.prof");
        assert_eq!(flags.last(), Some(&used));
        for (command, build) in [
            ("cmake --build b", profile),
            ("sh -c b", Build::Skeleton(Path::new("/a b"))),
            ("cargo build", Build::Skeleton(Path::new("/a b"))),
        ] {
            let failure = of(command, build).expect_err("it is refused");
            assert_eq!(failure.code(), 2, "{failure}");
        }
        assert!(of("cmake --build b", Build::Recorded).is_ok());
    }
}
