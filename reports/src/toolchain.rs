//! Other programs that steps need: their names, and the packages that have them.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use crate::failure::Failure;

/// A program of others, and the package of Debian that has it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tool {
    name: &'static str,
    package: &'static str,
}

/// Compiles, with profiles.
pub(crate) const CLANG: Tool = Tool {
    name: "clang",
    package: "clang-22",
};
/// Turns counts of addresses into counts of lines.
pub(crate) const PROFGEN: Tool = Tool {
    name: "llvm-profgen",
    package: "llvm-22",
};
/// Turns counters as text into what compilers read.
pub(crate) const PROFDATA: Tool = Tool {
    name: "llvm-profdata",
    package: "llvm-22",
};
/// Links in an order that is told.
pub(crate) const LLD: Tool = Tool {
    name: "ld.lld",
    package: "lld-22",
};
/// Compiles, with counts of lines.
pub(crate) const GCC: Tool = Tool {
    name: "gcc",
    package: "gcc",
};
/// Reads counts for BOLT.
pub(crate) const PERF2BOLT: Tool = Tool {
    name: "perf2bolt",
    package: "bolt-22",
};
/// Lays out a program anew.
pub(crate) const BOLT: Tool = Tool {
    name: "llvm-bolt",
    package: "bolt-22",
};

/// Programs that builds are run by, with the packages of Debian that have them, where those are
/// called otherwise.
const BUILDERS: [(&str, &str); 7] = [
    ("make", "make"),
    ("gmake", "make"),
    ("cmake", "cmake"),
    ("ninja", "ninja-build"),
    ("meson", "meson"),
    ("cargo", "cargo"),
    ("scons", "scons"),
];

/// Whose a compiler is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Compiler {
    /// LLVM's, of C and C++.
    Clang,
    /// GNU's.
    Gcc,
    /// The system's, which may be either.
    System,
    /// Rust's.
    Rustc,
}

/// Whose compiler goes by a name, which may end in a version, and begin with what it compiles for;
/// `None`: it is no compiler.
pub(crate) fn compiler(program: &OsStr) -> Option<Compiler> {
    let name = Path::new(program).file_name()?.to_str()?;
    let is_version = |text: &str| {
        text.starts_with(|c: char| c.is_ascii_digit())
            && text.chars().all(|c| c.is_ascii_digit() || c == '.')
    };
    let name = match name.rsplit_once('-') {
        Some((name, version)) if is_version(version) => name,
        _ => name,
    };
    match name.rsplit('-').next()? {
        "clang" | "clang++" => Some(Compiler::Clang),
        "gcc" | "g++" => Some(Compiler::Gcc),
        "cc" | "c++" => Some(Compiler::System),
        "rustc" => Some(Compiler::Rustc),
        _ => None,
    }
}

/// Versions that the names of tools end in, the newest first.
const VERSIONS: std::ops::RangeInclusive<u32> = 15..=40;

/// What the names of some tools end in: the newest version that has all of them, or nothing.
///
/// # Errors
/// If no version has all of them.
pub(crate) fn version(tools: &[Tool]) -> Result<String, Failure> {
    let versions = VERSIONS.rev().map(|number| format!("-{number}"));
    let mut versions = versions.chain([String::new()]);
    let has = |tool: &Tool, version: &str| find(&format!("{}{version}", tool.name)).is_some();
    let all = versions.find(|version| tools.iter().all(|tool| has(tool, version)));
    all.ok_or_else(|| {
        let is_anywhere = |tool: &&Tool| {
            let mut endings = VERSIONS.map(|number| format!("-{number}"));
            has(tool, "") || endings.any(|ending| has(tool, &ending))
        };
        let missing: Vec<&Tool> = tools.iter().filter(|tool| !is_anywhere(tool)).collect();
        let named = |tool: &Tool| format!("{} (Debian: {})", tool.name, tool.package);
        let (of, what) = match missing.is_empty() {
            true => (tools.iter().collect(), "not in one version"),
            false => (missing, "missing programs"),
        };
        let of: Vec<String> = of.into_iter().map(named).collect();
        Failure::Program(format!("{what}: {}", of.join(", ")))
    })
}

impl Tool {
    /// Its name in a version.
    pub(crate) fn of(self, version: &str) -> String {
        format!("{}{version}", self.name)
    }
}

/// That a program is not there, with the package that has it, where that is known.
pub(super) fn missing(program: &OsStr) -> String {
    let name = program.display();
    if Path::new(program).components().count() > 1 {
        return format!("there is no program {name}");
    }
    let builder = BUILDERS.iter().find(|(builder, _)| program == *builder);
    let package = builder.map_or_else(String::new, |(_, package)| format!(" (Debian: {package})"));
    format!("no folder of PATH has a program {name}{package}")
}

/// Whether a command finds its program, as far as that is told beforehand.
pub(super) fn is_there(program: &OsStr) -> bool {
    Path::new(program).components().count() > 1 || find(&program.to_string_lossy()).is_some()
}

/// A program of the search path.
fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let mut folders = std::env::split_paths(&path);
    folders.find_map(|folder| Some(folder.join(name)).filter(|file| file.is_file()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compilers go by their names, for whatever and in whatever version.
    #[test]
    fn compilers() {
        for (name, expected) in [
            ("clang-22", Some(Compiler::Clang)),
            ("/usr/bin/clang++", Some(Compiler::Clang)),
            ("x86_64-linux-gnu-gcc-12", Some(Compiler::Gcc)),
            ("g++-4.9", Some(Compiler::Gcc)),
            ("c++", Some(Compiler::System)),
            ("rustc", Some(Compiler::Rustc)),
            ("make", None),
            ("clang-format-22", None),
            ("clang-tidy", None),
            ("tcc", None),
            ("", None),
        ] {
            assert_eq!(compiler(OsStr::new(name)), expected, "{name}");
        }
    }

    /// Tools that are missing are named with the package that has them.
    #[test]
    fn missing_tools() {
        let no_such = Tool {
            name: "no-such-tool-of-llvm",
            package: "llvm-22",
        };
        let failure = version(&[no_such]).expect_err("it is missing");
        let expected = "missing programs: no-such-tool-of-llvm (Debian: llvm-22)";
        assert_eq!(failure.to_string(), expected);
    }
}
