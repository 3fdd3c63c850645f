//! How the file is used.

use super::{FLAGS, NO_SELECTS};
use crate::export::next;
use crate::export::program::Program;
use crate::toolchain;

/// The commands that come next.
pub(super) fn commands(program: &Program, file: &str) -> Vec<String> {
    let version = next::version(&[toolchain::PROFDATA, toolchain::CLANG]);
    let profile = format!("{file}.profdata");
    let profdata = toolchain::PROFDATA.of(&version);
    let merge = next::command([&profdata, "merge", "-o", &profile, file]);
    let build = match program.is_rust() {
        true => {
            let used = format!("-Cprofile-use={profile}");
            let flags = [
                "-Cdebuginfo=1",
                &used,
                "-Cllvm-args=-pgo-instr-select=false",
            ];
            format!("{} (an absolute path)", next::cargo(flags))
        }
        false => {
            let clang = toolchain::CLANG.of(&version);
            let used = next::command([format!("-fprofile-use={profile}")]);
            format!("{clang} {FLAGS} {used} {NO_SELECTS}")
        }
    };
    vec![
        format!("next: {merge}"),
        format!("then build with: {build}"),
    ]
}
