//! Compiles the handler for the kernel's BPF machine.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

const SOURCE: &str = "bpf/handler.bpf.c";

fn main() -> ExitCode {
    println!("cargo::rerun-if-changed=bpf");
    println!("cargo::rerun-if-env-changed=CLANG");
    match compile() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn compile() -> Result<(), String> {
    let out = env::var_os("OUT_DIR").ok_or("no OUT_DIR")?;
    let headers = env::var_os("DEP_BPF_INCLUDE").ok_or("libbpf-sys names no headers")?;
    let clang = env::var_os("CLANG").unwrap_or_else(|| "clang".into());
    let mut command = Command::new(&clang);
    command
        .args(["-target", "bpf", "-mcpu=v3", "-O2", "-g"])
        .args(["-Wall", "-Wextra", "-Werror", "-Wno-unused-parameter"])
        .args(["-fno-stack-protector", "-D__TARGET_ARCH_x86"])
        .arg("-I")
        .arg(&headers);
    // Where Debian keeps asm/types.h; elsewhere it is beside the others.
    let of_machine = Path::new("/usr/include/x86_64-linux-gnu");
    if of_machine.is_dir() {
        command.arg("-idirafter").arg(of_machine);
    }
    let object = PathBuf::from(out).join("handler.bpf.o");
    command.args(["-c", SOURCE, "-o"]).arg(&object);
    let output = command.output().map_err(|error| {
        format!(
            "cannot run {}: {error}\nThe handler in the kernel is compiled with clang 14 or \
             newer: install the package clang (and libelf-dev, zlib1g-dev, linux-libc-dev)",
            clang.display()
        )
    })?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!(
        "{SOURCE} does not compile:\n{}\nIf a header is missing: linux/ and asm/ are in the package \
         linux-libc-dev; a clang older than 14 cannot compile it",
        String::from_utf8_lossy(&output.stderr)
    ))
}
