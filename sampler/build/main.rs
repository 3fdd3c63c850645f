//! Compiles the handler for the kernel's BPF machine, and makes Rust of what it shares with the
//! crate.

mod abi;
mod btf;
mod named;
mod rust;

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use btf::{Btf, section};

const SOURCE: &str = "bpf/handler.bpf.c";

fn main() -> ExitCode {
    println!("cargo::rerun-if-changed=bpf");
    abi::told(build())
}

fn build() -> Result<(), String> {
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or("no OUT_DIR")?);
    let headers = env::var_os("DEP_BPF_INCLUDE").ok_or("libbpf-sys names no headers")?;
    let mut arguments: Vec<OsString> = ["-fno-stack-protector", "-D__TARGET_ARCH_x86", "-I"]
        .map(OsString::from)
        .into();
    arguments.push(headers);
    // Where Debian keeps asm/types.h; elsewhere it is beside the others.
    let of_machine = Path::new("/usr/include/x86_64-linux-gnu");
    if of_machine.is_dir() {
        arguments.extend(["-idirafter".into(), of_machine.into()]);
    }
    abi::compile(Path::new(SOURCE), &out.join("handler.bpf.o"), &arguments)?;
    let object = abi::compile(Path::new("bpf/abi.c"), &out.join("abi.o"), &[])?;
    let btf = Btf::read(&object)?;
    let texts = section(&object, ".abi.texts").ok_or("abi.c has no texts")?;
    abi::write(&out.join("abi.rs"), &rust::types(&btf)?)?;
    abi::write(
        &out.join("counter.rs"),
        &named::enumeration(&btf, "counter", texts)?,
    )
}
