//! The routes from a profile to a build: what compilers are told, and what comes before.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use crate::export::gcov::BETTER;
use crate::export::profgen::{FLAGS, RUST_FLAGS};
use crate::toolchain::{CLANG, GCC, LLD, PROFDATA, PROFGEN, Tool};

/// By which profile compilers build.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub(crate) enum Route {
    /// Counts of places, by llvm-profgen: clang and rustc.
    #[default]
    Profgen,
    /// Counters as of an instrumented run, with sizes of copies: clang and rustc. Needs --skeleton.
    Proftext,
    /// Layout by blocks, by clang and lld.
    Propeller,
    /// Counts of lines, by gcc 11 to 14.
    Gcov,
}

/// Which compilers are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Language {
    C,
    Rust,
}

/// What a build is for.
#[derive(Debug, Clone, Copy)]
pub(super) enum Build<'p> {
    /// To be recorded.
    Recorded,
    /// To tell what instrumentation would count, in files of this folder.
    Skeleton(&'p Path),
    /// To be faster, by the files of the profile.
    Better(&'p [&'p Path]),
}

/// Has clang say nothing of flags that are for compiling alone, or for linking: it gets both.
pub(super) const QUIET: &str = "-Wno-unused-command-line-argument";
/// Leaves out counters that optimised code does not tell.
const NO_SELECTIONS: &str = "-pgo-instr-select=false";
/// Prints the code behind the pass that instruments.
const PRINTED: &str = "-print-after=pgo-instr-gen,ctx-instr-gen";
/// Where that is printed to.
const FOLDER: &str = "-ir-dump-directory=";

impl Route {
    /// The other programs that a step needs, but for the one that runs compilers.
    pub(super) fn tools(self, language: Language, with_profile: bool) -> Vec<Tool> {
        let compilers: &[Tool] = match (self, language) {
            (Route::Gcov, _) => &[GCC],
            (_, Language::Rust) => &[],
            (Route::Propeller, Language::C) => &[CLANG, LLD],
            (_, Language::C) => &[CLANG],
        };
        let readers: &[Tool] = match self {
            _ if !with_profile => &[],
            Route::Profgen => &[PROFGEN],
            Route::Proftext => &[PROFDATA],
            Route::Propeller | Route::Gcov => &[],
        };
        [compilers, readers].concat()
    }

    /// Whether a compiler builds by this route.
    pub(super) fn takes(self, language: Language) -> bool {
        language == Language::C || matches!(self, Route::Profgen | Route::Proftext)
    }

    /// Whether its reader tells hot code from other by a cutoff.
    pub(super) fn has_cutoff(self) -> bool {
        matches!(self, Route::Profgen | Route::Proftext)
    }

    /// The names of the compilers of C and C++.
    pub(super) fn compilers(self) -> [&'static str; 2] {
        match self {
            Route::Gcov => ["gcc", "g++"],
            _ => ["clang", "clang++"],
        }
    }

    /// What compilers are told, word by word.
    pub(super) fn flags(self, language: Language, build: Build<'_>) -> Vec<OsString> {
        let is_rust = language == Language::Rust;
        let [general, of_llvm] = match language {
            Language::C => [FLAGS, "-mllvm "],
            Language::Rust => [RUST_FLAGS, "-Cllvm-args="],
        };
        let mut flags = match self {
            Route::Profgen => general.to_owned(),
            Route::Proftext => {
                // Names are matched within one build of the same source: they stay as they are.
                let general = general.replace(" -funique-internal-linkage-names", "");
                let quiet = match language {
                    Language::C => format!(" {QUIET}"),
                    Language::Rust => String::new(),
                };
                format!("{general}{quiet} {of_llvm}{NO_SELECTIONS}")
            }
            Route::Propeller => {
                format!("-g1 -funique-internal-linkage-names -fuse-ld=lld {QUIET}")
            }
            Route::Gcov => "-g".to_owned(),
        };
        let uses: &[&str] = match (self, build) {
            (Route::Propeller, Build::Recorded) => {
                flags.push_str(" -fbasic-block-address-map");
                &[]
            }
            (_, Build::Recorded) => &[],
            (_, Build::Skeleton(_)) => {
                let generate = if is_rust { "-C" } else { "-f" };
                flags.push_str(&format!(" {generate}profile-generate {of_llvm}{PRINTED}"));
                flags.push_str(&format!(" {of_llvm}{FOLDER}"));
                // The name of its folder is the end of the last flag.
                &[""]
            }
            (Route::Profgen, _) if is_rust => &[" -Zprofile-sample-use="],
            (Route::Profgen, _) => &[" -fprofile-sample-use="],
            (Route::Proftext, _) if is_rust => &[" -Cprofile-use="],
            (Route::Proftext, _) => &[" -fprofile-use="],
            (Route::Propeller, _) => &[
                " -fbasic-block-sections=list=",
                "-Wl,--no-warn-symbol-ordering -Wl,--symbol-ordering-file=",
            ],
            (Route::Gcov, _) => {
                flags.push_str(&format!(" {BETTER}"));
                &[" -fauto-profile="]
            }
        };
        let files: &[&Path] = match &build {
            Build::Recorded => &[],
            Build::Skeleton(folder) => &[folder],
            Build::Better(files) => files,
        };
        let mut words = Vec::new();
        for (option, file) in uses.iter().zip(files) {
            flags.push_str(option);
            words.extend(flags.split(' ').map(OsString::from));
            if let Some(last) = words.last_mut() {
                last.push(file);
            }
            flags.clear();
        }
        words.extend(flags.split_whitespace().map(OsString::from));
        words
    }

    /// What the files of its profile are called, by what their names end in: what exports write,
    /// and with which options.
    pub(super) fn exports(self) -> &'static [(&'static str, &'static [&'static str])] {
        match self {
            Route::Profgen => &[("profgen", &[])],
            Route::Proftext => &[("proftext", &[])],
            Route::Propeller => &[("blocks", &[]), ("order", &["--order"])],
            Route::Gcov => &[("afdo", &[])],
        }
    }

    /// The name of the export.
    pub(super) fn export(self) -> &'static str {
        match self {
            Route::Profgen => "profgen",
            Route::Proftext => "proftext",
            Route::Propeller => "propeller",
            Route::Gcov => "gcov",
        }
    }
}

/// The major version of a compiler that says it so: `12`, `12.2.0`.
pub(super) fn major(said: &[u8]) -> Option<&str> {
    let said = std::str::from_utf8(said).ok()?.trim();
    let major = said.split('.').next()?;
    let is_number = !major.is_empty() && major.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then_some(major)
}

/// `name=value`.
pub(super) fn joined(name: &str, value: &OsStr) -> OsString {
    let mut word = OsString::from(name);
    word.push("=");
    word.push(value);
    word
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each route has its flags in each of the builds that it takes.
    #[test]
    fn flags_of_builds() {
        let (one, two) = (Path::new("/p/a"), Path::new("/p/b"));
        let better = [one, two];
        let general = "-g1 -fdebug-info-for-profiling";
        let blocks = "-g1 -funique-internal-linkage-names -fuse-ld=lld \
                      -Wno-unused-command-line-argument";
        for (route, language, build, expected) in [
            (
                Route::Proftext,
                Language::C,
                Build::Recorded,
                format!("{general} {QUIET} -mllvm -pgo-instr-select=false"),
            ),
            (
                Route::Proftext,
                Language::C,
                Build::Skeleton(one),
                format!(
                    "{general} {QUIET} -mllvm -pgo-instr-select=false -fprofile-generate -mllvm \
                     -print-after=pgo-instr-gen,ctx-instr-gen -mllvm -ir-dump-directory=/p/a"
                ),
            ),
            (
                Route::Proftext,
                Language::Rust,
                Build::Better(&better[..1]),
                "-Cdebuginfo=1 -Cstrip=none -Zdebug-info-for-profiling \
                 -Cllvm-args=-pgo-instr-select=false -Cprofile-use=/p/a"
                    .to_owned(),
            ),
            (
                Route::Propeller,
                Language::C,
                Build::Recorded,
                format!("{blocks} -fbasic-block-address-map"),
            ),
            (
                Route::Propeller,
                Language::C,
                Build::Better(&better),
                format!(
                    "{blocks} -fbasic-block-sections=list=/p/a -Wl,--no-warn-symbol-ordering \
                     -Wl,--symbol-ordering-file=/p/b"
                ),
            ),
            (
                Route::Gcov,
                Language::C,
                Build::Better(&better[..1]),
                format!("-g {BETTER} -fauto-profile=/p/a"),
            ),
        ] {
            let flags = route.flags(language, build).join(OsStr::new(" "));
            assert_eq!(flags, OsString::from(expected), "{route:?}");
        }
    }

    /// Versions are read in both forms; what is none is none.
    #[test]
    fn versions() {
        assert_eq!(major(b"12\n"), Some("12"));
        assert_eq!(major(b"14.2.0\n"), Some("14"));
        for said in [&b""[..], b"\n", b"x.1", b"\xff"] {
            assert_eq!(major(said), None);
        }
    }
}
