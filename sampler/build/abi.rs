//! Runs the compiler, and keeps what is made of its output.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode};

/// What a build script ends with; it runs again with another compiler.
pub(crate) fn told(built: Result<(), String>) -> ExitCode {
    println!("cargo::rerun-if-env-changed=CLANG");
    match built {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Compiles a file for the BPF machine; the object's bytes.
pub(crate) fn compile(
    source: &Path,
    object: &Path,
    arguments: &[OsString],
) -> Result<Vec<u8>, String> {
    let clang = env::var_os("CLANG").unwrap_or_else(|| "clang".into());
    let mut command = Command::new(&clang);
    command
        .args(["-target", "bpf", "-mcpu=v3", "-O2", "-g"])
        .args(["-Wall", "-Wextra", "-Werror", "-Wno-unused-parameter"])
        .args(arguments)
        .arg("-c")
        .arg(source)
        .arg("-o")
        .arg(object);
    let output = command.output().map_err(|error| {
        format!(
            "cannot run {}: {error}\nThe handler in the kernel is compiled with clang 14 or \
             newer: install the package clang (and libelf-dev, zlib1g-dev, linux-libc-dev)",
            clang.display()
        )
    })?;
    if !output.status.success() {
        return Err(format!(
            "{} does not compile:\n{}\nIf a header is missing: linux/ and asm/ are in the \
             package linux-libc-dev; a clang older than 14 cannot compile it",
            source.display(),
            String::from_utf8_lossy(&output.stderr)
        ));
    }
    fs::read(object).map_err(|error| format!("{}: {error}", object.display()))
}

/// Writes a file.
pub(crate) fn write(path: &Path, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}
