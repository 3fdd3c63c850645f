//! What makefiles and commands say of compilers, which `vcpi pgo build` chooses anew: the words
//! around the compiler's name.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use crate::shell::quoted;
use crate::toolchain::compiler;

/// The names of a makefile, in the order in which make looks for them.
const NAMES: [&str; 3] = ["GNUmakefile", "makefile", "Makefile"];
/// Bytes of a makefile that are read.
const MOST_BYTES: u64 = 1 << 20;
/// Folders below the makefile's that are looked at: sources mostly have one of their own there.
const MOST_FOLDERS: usize = 64;
/// Sentences at most: the first ones are of the makefile itself.
const MOST_SENTENCES: usize = 4;

/// The words around a compiler's name in a value of `CC` or `CXX`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Around {
    /// In front of it: what runs it.
    pub(super) before: Vec<String>,
    /// Behind it: its flags.
    pub(super) after: Vec<String>,
}

impl Around {
    /// Those of a value.
    pub(super) fn of(value: &str) -> Around {
        let mut before = words(value);
        let named = before
            .iter()
            .position(|word| compiler(OsStr::new(word)).is_some());
        let mut rest = before.split_off(named.unwrap_or(0));
        // What begins with flags is put behind a compiler that is named elsewhere.
        let has_compiler = rest.first().is_some_and(|word| !word.starts_with('-'));
        let after = rest.split_off(usize::from(has_compiler));
        Around { before, after }
    }

    /// The value with another compiler and more flags.
    pub(super) fn with(&self, compiler: &str, flags: &[OsString]) -> OsString {
        let texts = |words: &[String]| words.iter().map(OsString::from).collect::<Vec<_>>();
        let compiler = vec![OsString::from(compiler)];
        let all = [
            texts(&self.before),
            compiler,
            texts(&self.after),
            flags.to_vec(),
        ];
        all.concat().join(OsStr::new(" "))
    }

    fn is_empty(&self) -> bool {
        self.before.is_empty() && self.after.is_empty()
    }
}

/// The words of a value; a reference to make's variables and functions is one.
fn words(value: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut depth = 0_usize;
    for c in value.chars() {
        match c {
            '(' | '{' => depth += 1,
            ')' | '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        match words.last_mut() {
            Some(last) if depth > 0 || !c.is_whitespace() => last.push(c),
            _ => words.push(String::new()),
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// Takes the value of a variable out of a command of make, if it is told one.
pub(super) fn take(command: &mut Vec<OsString>, variable: &str) -> Option<String> {
    let value = |word: &OsString| {
        let (name, value) = word.to_str()?.split_once('=')?;
        (name.trim_end_matches(':') == variable).then(|| value.to_owned())
    };
    let told = command.iter().filter_map(value).next_back()?;
    command.retain(|word| value(word).is_none());
    Some(told)
}

/// Whether the makefile of a command sets a variable, so that the environment's value does not
/// count.
pub(super) fn sets(command: &[OsString], variable: &str) -> bool {
    let (_, own) = own_makefile(command);
    let text = own.and_then(|file| text(&file)).unwrap_or_default();
    let mut lines = text.lines();
    lines.any(|line| {
        let is_default = line
            .split('=')
            .next()
            .is_some_and(|name| name.ends_with('?'));
        assignment(line).is_some_and(|(name, _)| name == variable) && !is_default
    })
}

/// What a makefile says, as far as it is read.
fn text(file: &Path) -> Option<String> {
    let mut text = String::new();
    let opened = fs::File::open(file).ok()?;
    opened.take(MOST_BYTES).read_to_string(&mut text).ok()?;
    Some(text)
}

/// Sentences on what makefiles have beside their compilers in `CC` or `CXX`: the command line's
/// take its place.
pub(super) fn lost(command: &[OsString]) -> Vec<String> {
    let mut sentences = Vec::new();
    for file in makefiles(command) {
        let text = text(&file).unwrap_or_default();
        for (number, line) in text.lines().enumerate() {
            sentences.extend(sentence(&file, number + 1, line, command));
        }
    }
    sentences.truncate(MOST_SENTENCES);
    sentences
}

/// What a line of a makefile loses.
fn sentence(file: &Path, number: usize, line: &str, command: &[OsString]) -> Option<String> {
    let (variable, value) = assignment(line)?;
    let is_told = take(&mut command.to_vec(), variable).is_some();
    let around = Around::of(value);
    if is_told || around.is_empty() {
        return None;
    }
    let lost = [around.before, around.after].concat().join(" ");
    let mut told = command.to_vec();
    told.push(format!("{variable}={value}").into());
    let told: Vec<String> = told.iter().map(|word| quoted(word)).collect();
    Some(format!(
        "{}:{number} has {variable} = {value}, in place of which make is given a compiler without \
         {lost}; to keep that, build by: vcpi pgo build ... -- {}",
        file.display(),
        told.join(" ")
    ))
}

/// The variable of a compiler that a line of a makefile sets, and its value. What `override` stands
/// before is not lost.
fn assignment(line: &str) -> Option<(&'static str, &str)> {
    if line.starts_with('\t') {
        return None;
    }
    let (name, value) = line.split_once('=')?;
    let name = name.trim_end_matches([':', '?', '+']).trim();
    let name = name.strip_prefix("export ").unwrap_or(name).trim();
    let variable = ["CC", "CXX"].into_iter().find(|known| *known == name)?;
    let value = value.split('#').next().unwrap_or_default().trim();
    Some((variable, value))
}

/// The folder that a command of make goes to, and the makefile that it takes there.
fn own_makefile(command: &[OsString]) -> (PathBuf, Option<PathBuf>) {
    let (folder, named) = told(command);
    let named = named.map(|file| folder.join(file));
    let own = named.or_else(|| first_of(&folder));
    (folder, own)
}

/// The makefile of a command, and those in folders beside it.
fn makefiles(command: &[OsString]) -> Vec<PathBuf> {
    let (folder, own) = own_makefile(command);
    let entries = fs::read_dir(Path::new(".").join(&folder));
    let entries = entries.into_iter().flatten().flatten();
    let mut below: Vec<PathBuf> = entries
        .map(|entry| folder.join(entry.file_name()))
        .filter(|path| path.is_dir())
        .collect();
    below.sort();
    let below = below.iter().take(MOST_FOLDERS);
    own.into_iter()
        .chain(below.filter_map(|folder| first_of(folder)))
        .collect()
}

/// The makefile that make takes in a folder.
fn first_of(folder: &Path) -> Option<PathBuf> {
    let mut files = NAMES.iter().map(|name| folder.join(name));
    files.find(|file| file.is_file())
}

/// The folder that a command of make goes to, and the makefile that it names.
fn told(command: &[OsString]) -> (PathBuf, Option<PathBuf>) {
    let (mut folder, mut file) = (PathBuf::new(), None);
    let mut words = command.iter().skip(1);
    while let Some(word) = words.next() {
        let word = word.to_string_lossy();
        let value = |short: &str, long: &[&str]| -> Option<Option<String>> {
            if word == short || long.contains(&word.as_ref()) {
                return Some(None);
            }
            let behind = |long: &&str| word.strip_prefix(*long)?.strip_prefix('=');
            let value = long.iter().find_map(behind);
            let value = value.or_else(|| word.strip_prefix(short))?;
            Some(Some(value.to_owned()))
        };
        let is_folder = value("-C", &["--directory"]);
        let is_file = value("-f", &["--file", "--makefile"]);
        let mut or_next = |value: Option<String>| {
            value.map_or_else(|| words.next().map(PathBuf::from), |at| Some(at.into()))
        };
        if let Some(value) = is_folder {
            folder.extend(or_next(value));
        } else if let Some(value) = is_file {
            file = or_next(value);
        }
    }
    (folder, file)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Words around a compiler are kept where they stood; make's own references are one word.
    #[test]
    fn around_compilers() {
        for (value, expected) in [
            ("gcc", "X -g"),
            ("gcc -std=gnu99", "X -std=gnu99 -g"),
            ("ccache /usr/bin/clang-18 -m32 -O", "ccache X -m32 -O -g"),
            ("$(CROSS)gcc -a", "X -a -g"),
            ("$(shell which gcc)", "X -g"),
            ("tcc -a", "X -a -g"),
            ("-a -b", "X -a -b -g"),
            ("", "X -g"),
        ] {
            let value = Around::of(value).with("X", &["-g".into()]);
            assert_eq!(value, OsString::from(expected));
        }
    }

    /// Assignments are told from what looks like one.
    #[test]
    fn assignments() {
        for (line, expected) in [
            ("CC= gcc -std=gnu99", Some(("CC", "gcc -std=gnu99"))),
            ("  CXX ?= g++ -a # why", Some(("CXX", "g++ -a"))),
            ("export CC := cc", Some(("CC", "cc"))),
            ("override CC = cc -a", None),
            ("\t$(MAKE) CC=\"gcc -std=c89\"", None),
            ("CCC = cc -a", None),
            ("CC", None),
        ] {
            assert_eq!(assignment(line), expected, "{line}");
        }
    }

    /// A command names a folder and a file in each of the ways that make takes.
    #[test]
    fn places() {
        let of = |text: &str| {
            let words: Vec<OsString> = text.split(' ').map(OsString::from).collect();
            told(&words)
        };
        for text in [
            "make -C a -f b",
            "make -Ca -fb",
            "make --directory=a --makefile=b",
            "make --file b -j2 --directory a",
        ] {
            assert_eq!(of(text), ("a".into(), Some("b".into())), "{text}");
        }
        assert_eq!(of("make -j2"), (PathBuf::new(), None));
    }
}
