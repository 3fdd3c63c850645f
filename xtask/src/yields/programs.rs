//! The programs that are recorded, and what they do for a few seconds: loads that the project
//! writes itself (`tests/fixtures/yield`).

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result};
use vcpi_tests::programs::root;

use crate::demo::{REAL_DATA, gather};

/// How much work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Size {
    /// Four to six seconds.
    Seconds,
    /// Fewer rounds, for a simulator that is fifty times slower.
    Small,
}

/// A program with its load.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Load {
    /// Its name in tables and in `--programs`.
    pub(crate) name: &'static str,
    /// The program that must be on the search path.
    pub(crate) needs: &'static str,
    /// How much of it takes some seconds.
    amount: u32,
    /// Of a load in rounds that are all alike, how many make the small one.
    small: Option<u32>,
    words: fn(&Folders, u32) -> Result<Vec<String>>,
}

/// Where loads lie, and where they may write.
#[derive(Debug)]
struct Folders {
    fixtures: PathBuf,
    own: PathBuf,
}

/// All of them.
pub(crate) const LOADS: [Load; 10] = [
    load("python3", "python3", 400, Some(40), |at, n| {
        Ok(vec![
            "python3".into(),
            at.fixture("bench.py"),
            n.to_string(),
        ])
    }),
    load("sqlite3", "sqlite3", 14, Some(1), sqlite),
    load("cc1", "gcc", 450, None, |at, n| {
        let words = ["gcc", "-O2", "-S", "-o", "/dev/null"].map(str::to_owned);
        Ok([&words[..], &[c_file(at, n)?]].concat())
    }),
    load("xz", "xz", 24, Some(1), |at, n| {
        let data = at.own.join("data");
        gather(REAL_DATA, &data, 700_000)?;
        let words = ["xz", "-6", "-T1", "-k", "-c"].map(str::to_owned);
        Ok([&words[..], &vec![text(&data); n as usize]].concat())
    }),
    load("node", "node", 330, None, |at, n| {
        Ok(vec!["node".into(), at.fixture("bench.js"), n.to_string()])
    }),
    load("git", "git", 4, None, git),
    load("perl", "perl", 200, Some(12), |at, n| {
        Ok(vec!["perl".into(), at.fixture("bench.pl"), n.to_string()])
    }),
    load("lua", "lua5.4", 280, Some(5), |at, n| {
        Ok(vec![
            "lua5.4".into(),
            at.fixture("bench.lua"),
            n.to_string(),
        ])
    }),
    load("tcc", "tcc", 250, Some(4), |at, n| {
        // Processes of some hundredths of a second each.
        let file = c_file(at, 1400)?;
        let output = text(&at.own.join("tcc.o"));
        Ok(shell(&format!(
            "i=0; while [ $i -lt {n} ]; do tcc -c -o {output} {file}; i=$((i + 1)); done"
        )))
    }),
    load("povray", "povray", 720, None, |at, n| {
        let words = ["povray", "-D", "-GA", "-F", "+WT1", "+A0.3"].map(str::to_owned);
        let size = [format!("+W{n}"), format!("+H{}", n * 3 / 4)];
        Ok([
            &words[..],
            &size,
            &[format!("+I{}", at.fixture("scene.pov"))],
        ]
        .concat())
    }),
];

const fn load(
    name: &'static str,
    needs: &'static str,
    amount: u32,
    small: Option<u32>,
    words: fn(&Folders, u32) -> Result<Vec<String>>,
) -> Load {
    Load {
        name,
        needs,
        amount,
        small,
        words,
    }
}

impl Load {
    /// Writes what it reads to the folder, and says the command.
    ///
    /// # Errors
    /// If something cannot be written.
    pub(crate) fn prepare(&self, folder: &Path, size: Size) -> Result<Vec<String>> {
        let folders = Folders {
            fixtures: root().join("tests/fixtures/yield"),
            own: folder.to_owned(),
        };
        let amount = match size {
            Size::Seconds => self.amount,
            Size::Small => self.small.context("it has no rounds")?,
        };
        (self.words)(&folders, amount).with_context(|| format!("the load of {}", self.name))
    }

    /// Whether the small load does what the other one does, only less often.
    pub(crate) fn has_rounds(&self) -> bool {
        self.small.is_some()
    }

    /// Why it cannot be run here; `None` if it can.
    pub(crate) fn lacks(&self) -> Option<String> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let is_there = std::env::split_paths(&path).any(|dir| dir.join(self.needs).is_file());
        if !is_there {
            return Some(format!("needs {}, which is not installed", self.needs));
        }
        let whole = || {
            let mut command = Command::new("git");
            command.args(["rev-parse", "HEAD"]).current_dir(root());
            let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
            status.is_ok_and(|status| status.success())
        };
        (self.name == "git" && !whole())
            .then(|| "needs the project's repository, which is not here".to_owned())
    }
}

impl Folders {
    fn fixture(&self, name: &str) -> String {
        text(&self.fixtures.join(name))
    }
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

fn shell(line: &str) -> Vec<String> {
    ["sh", "-c", line].map(str::to_owned).to_vec()
}

/// The script so many times in one process.
fn sqlite(at: &Folders, times: u32) -> Result<Vec<String>> {
    let file = at.own.join(format!("tables-{times}.sql"));
    let read = format!(".read '{}'\n", at.fixture("tables.sql"));
    std::fs::write(&file, read.repeat(times as usize))?;
    let read = format!(".read '{}'", text(&file));
    Ok(["sqlite3", "-batch", ":memory:", &read]
        .map(str::to_owned)
        .to_vec())
}

/// Reads and packs the project's own history. Nothing is written to the repository.
fn git(_: &Folders, times: u32) -> Result<Vec<String>> {
    let git = format!("git -C {}", text(root()));
    let log = format!("{git} log -p --stat --no-ext-diff");
    let pack = "pack-objects --all --stdout --threads=1 --no-reuse-delta --no-reuse-object -q";
    Ok(shell(&format!(
        "i=0; while [ $i -lt {times} ]; do {log} >/dev/null; \
         {git} {pack} </dev/null >/dev/null; i=$((i + 1)); done"
    )))
}

/// C functions that differ from each other, for compilers.
fn c_file(at: &Folders, functions: u32) -> Result<String> {
    let file = at.own.join(format!("generated-{functions}.c"));
    std::fs::write(&file, c_text(functions))?;
    Ok(text(&file))
}

fn c_text(functions: u32) -> String {
    let mut code = String::from(
        "struct node { struct node *next; unsigned key; double weight; char name[16]; };\n\
         static unsigned table[256];\n",
    );
    for i in 0..functions {
        let (a, b, c) = (i * 7919 % 251 + 1, i * 104_729 % 31 + 2, i % 5);
        let called = i.saturating_sub(1 + i % 7);
        let call = match i {
            0 => "x".to_owned(),
            _ => format!("f{called}(n, x >> 1)"),
        };
        // Writing to a string does not fail.
        let _ = write!(
            code,
            "unsigned f{i}(struct node *n, unsigned x) {{\n  unsigned s = {a};\n\
             \x20 for (; n && x > {b}; n = n->next, x -= {b}) {{\n\
             \x20   switch ((n->key + x) % {m}) {{\n\
             \x20   case 0: s += table[(x ^ {a}) & 255]; break;\n\
             \x20   case 1: s ^= n->key * {a}u; n->weight += s / {b}.5; break;\n\
             \x20   case 2: if (s & {c}) s = (s << {c}) | (s >> (32 - {c} - 1)); break;\n\
             \x20   default: s -= (unsigned)n->name[s % 16]; table[s & 255] = x;\n    }}\n\
             \x20   if (s % {b} == {c}) s += {call};\n  }}\n  return s;\n}}\n",
            m = 4 + c,
        );
    }
    code
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every load can be written, the small one where it has rounds; names are distinct.
    #[test]
    fn loads() {
        let folder = std::env::temp_dir().join(format!("vcpi-yield-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        for load in LOADS.iter().filter(|load| load.name != "xz") {
            assert!(!load.prepare(&folder, Size::Seconds).unwrap().is_empty());
            let small = load.prepare(&folder, Size::Small);
            assert_eq!(small.is_ok(), load.has_rounds());
        }
        std::fs::remove_dir_all(&folder).unwrap();
        let names: std::collections::BTreeSet<_> = LOADS.iter().map(|load| load.name).collect();
        assert_eq!(names.len(), LOADS.len());
    }
}
