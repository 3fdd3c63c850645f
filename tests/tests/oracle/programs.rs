//! The programs that are watched.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result};
use vcpi_tests::variable;

use crate::tracee::Start;

/// A program to watch.
pub(crate) struct Program {
    pub(crate) name: String,
    pub(crate) command: Vec<String>,
    pub(crate) start: Start,
}

fn program(name: &str, command: &[&str], start: Start) -> Program {
    Program {
        name: name.to_owned(),
        command: command.iter().map(|word| (*word).to_owned()).collect(),
        start,
    }
}

/// The command that the environment names.
fn named() -> Result<Option<Program>> {
    let Some(command) = variable::<String>("VCPI_ORACLE_COMMAND")? else {
        return Ok(None);
    };
    let words: Vec<_> = command.split_whitespace().collect();
    let start = match (variable("VCPI_ORACLE_FILE")?, variable("VCPI_ORACLE_SKIP")?) {
        (Some(file), Some(calls)) => Start::Opened(file, calls),
        (Some(file), None) => Start::EndOf(file),
        (None, calls) => Start::Calls(calls.unwrap_or(0)),
    };
    Ok(Some(program("command", &words, start)))
}

/// The programs; their input lies in `folder`.
pub(crate) fn programs(folder: &Path) -> Result<Vec<Program>> {
    if let Some(named) = named()? {
        return Ok(vec![named]);
    }
    let path = |name: &str| -> Result<String> {
        let path = folder.join(name);
        let path = path.to_str().context("the folder's name is no text")?;
        Ok(path.to_owned())
    };
    let write = |name: &str, text: &str| -> Result<String> {
        let path = path(name)?;
        std::fs::write(&path, text)?;
        Ok(path)
    };
    let lines: String = (0..20_000)
        .map(|i| format!("{} line {}\n", i * i % 977, i % 13))
        .collect();
    let data = write("data", &lines)?;
    let script = write("script.py", include_str!("programs/script.py"))?;
    let perl_script = write("script.pl", include_str!("programs/script.pl"))?;
    let node_script = write("script.js", include_str!("programs/script.js"))?;
    let source = write("source.c", include_str!("programs/source.c"))?;
    let fill = write("fill.sql", include_str!("programs/fill.sql"))?;
    let query = write("query.sql", include_str!("programs/query.sql"))?;
    // Scripts try to open it where the watch is to begin.
    let mark = path("mark")?;
    let at_mark = || Start::Opened(mark.clone(), 0);
    let compiler = compiler()?;
    let compile = [&compiler, "-quiet", "-O2", "-o", "/dev/null", &source];
    let python = ["/usr/bin/python3", "-S", &script];
    let [fill, read] = [format!(".read {fill}"), format!(".read {query}")];
    let speed = |what: &[&'static str]| [&["openssl", "speed", "-seconds", "100"], what].concat();
    Ok(vec![
        program("dynamic_linker", &["/bin/true"], Start::Calls(0)),
        program(
            "xz",
            &["xz", "-9e", "-T1", "-k", "-c", &data],
            Start::Opened(data.clone(), 20),
        ),
        program("sort", &["sort", "-n", &data], Start::EndOf(data.clone())),
        program(
            "python3_compiling",
            &python,
            Start::Opened(script.clone(), 0),
        ),
        program("python3_running", &python, Start::EndOf(script.clone())),
        program("gcc", &compile, Start::Opened(source.clone(), 6)),
        program(
            "sqlite3",
            &["sqlite3", ":memory:", &fill, &read],
            Start::Opened(query, 0),
        ),
        program("perl", &["perl", &perl_script, &mark], at_mark()),
        program(
            "node",
            &["node", "--single-threaded", &node_script, &mark],
            at_mark(),
        ),
        program(
            "openssl_speed_sha256",
            &speed(&["-bytes", "1024", "sha256"]),
            Start::Timed,
        ),
        program(
            "openssl_speed_aes",
            &speed(&["-bytes", "1024", "-evp", "aes-128-gcm"]),
            Start::Timed,
        ),
        program("openssl_speed_rsa", &speed(&["rsa2048"]), Start::Timed),
    ])
}

/// The compiler proper, which the driver only starts.
fn compiler() -> Result<String> {
    let printed = Command::new("gcc")
        .arg("-print-prog-name=cc1")
        .output()
        .context("gcc")?;
    Ok(String::from_utf8(printed.stdout)?.trim().to_owned())
}
