//! Makes Rust of what the handler's code, outside of the kernel, is asked and answers.

#[path = "../../sampler/build/abi.rs"]
mod abi;
#[path = "../../sampler/build/btf.rs"]
mod btf;
#[path = "../../sampler/build/rust.rs"]
mod rust;

use std::env;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

fn main() -> ExitCode {
    for path in ["src", "../../sampler/bpf/shared.h", "../../sampler/build"] {
        println!("cargo::rerun-if-changed={path}");
    }
    abi::told(build())
}

fn build() -> Result<(), String> {
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or("no OUT_DIR")?);
    let source = Path::new("src/abi.c");
    let arguments = ["-ffreestanding", "-I", "../../sampler/bpf"].map(Into::into);
    let object = abi::compile(source, &out.join("handler.o"), &arguments)?;
    abi::write(
        &out.join("handler.rs"),
        &rust::types(&btf::Btf::read(&object)?)?,
    )
}
