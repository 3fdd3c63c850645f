//! `cargo xtask check-docs`: documents and comments are narrow, their links lead somewhere, and
//! the options that documents name exist.

mod book;
mod lines;
mod links;
mod options;

use std::fmt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use vcpi_tests::programs::root;

use crate::process::progress;

/// A file of the project as text.
#[derive(Debug)]
struct File {
    /// Where it lies, from the project's root on.
    path: PathBuf,
    /// What it says.
    text: String,
}

impl File {
    /// Whether it is a document.
    fn is_document(&self) -> bool {
        self.path.extension().is_some_and(|name| name == "md")
    }
}

/// What is wrong with a line.
#[derive(Debug, PartialEq, Eq)]
struct Finding {
    path: PathBuf,
    /// The line's number, from 1 on.
    line: usize,
    what: String,
}

impl Finding {
    fn new(file: &File, line: usize, what: impl Into<String>) -> Finding {
        Finding {
            path: file.path.clone(),
            line,
            what: what.into(),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path.display(), self.line, self.what)
    }
}

/// Checks widths and links, which takes no program of the project.
pub(crate) fn check_text() -> Result<()> {
    let mut paths = Vec::new();
    walk(Path::new(""), &mut paths)?;
    let mut findings = Vec::new();
    for file in texts(&paths)? {
        findings.extend(lines::check(&file));
        findings.extend(links::check(&file, &paths));
    }
    let files = texts(&paths)?;
    findings.extend(links::check_lists(&files));
    let configuration = std::fs::read_to_string(root().join("docs/book.toml"))?;
    findings.extend(book::check(&files, &configuration));
    conclude("widths and links of documents", &findings)
}

/// Checks the options that documents name against the help of the built programs.
pub(crate) fn check_options() -> Result<()> {
    let mut paths = Vec::new();
    walk(Path::new(""), &mut paths)?;
    let known = options::CommandOptions::of_programs()?;
    let mut findings = Vec::new();
    for file in texts(&paths)? {
        // The changelog names options that are gone.
        if file.is_document() && file.path != Path::new("CHANGELOG.md") {
            findings.extend(options::check(&file, &known));
        }
    }
    conclude("options in documents", &findings)
}

/// Prints the findings, and fails if there are any.
fn conclude(what: &str, findings: &[Finding]) -> Result<()> {
    for finding in findings {
        println!("{finding}");
    }
    if !findings.is_empty() {
        bail!("{what}: {} findings", findings.len());
    }
    progress(&format!("{what}: nothing to complain of"));
    Ok(())
}

/// All files below a folder of the project, but for what is built or hidden.
fn walk(folder: &Path, paths: &mut Vec<PathBuf>) -> Result<()> {
    let there = root().join(folder);
    let entries = std::fs::read_dir(&there).with_context(|| there.display().to_string())?;
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name();
        if name.to_string_lossy().starts_with('.') {
            continue;
        }
        let path = folder.join(&name);
        if !entry.file_type()?.is_dir() {
            paths.push(path);
        } else if name != "target" {
            walk(&path, paths)?;
        }
    }
    paths.sort();
    Ok(())
}

/// The documents and the Rust files among these.
fn texts(paths: &[PathBuf]) -> Result<Vec<File>> {
    let is_text = |path: &&PathBuf| {
        path.extension()
            .is_some_and(|name| name == "md" || name == "rs")
    };
    paths
        .iter()
        .filter(is_text)
        .map(|path| {
            let text = std::fs::read_to_string(root().join(path))
                .with_context(|| path.display().to_string())?;
            Ok(File {
                path: path.clone(),
                text,
            })
        })
        .collect()
}

/// The lines of a document outside code blocks, with their numbers from 1 on.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut is_code = false;
    text.lines().enumerate().filter_map(move |(i, line)| {
        let is_fence = line.trim_start().starts_with("```");
        if is_fence {
            is_code = !is_code;
        }
        (!is_code && !is_fence).then_some((i + 1, line))
    })
}

/// The texts between single backticks of a line.
fn spans(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

#[cfg(test)]
fn document(text: &str) -> File {
    File {
        path: PathBuf::from("docs/page.md"),
        text: text.to_owned(),
    }
}
