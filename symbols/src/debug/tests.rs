//! Whether the debug file of a stripped program is found, and another one is not taken for it.

use std::process::Command;

use super::*;
use crate::functions::Functions;

fn run(folder: &Path, program: &str, arguments: &[&str]) {
    let done = Command::new(program)
        .args(arguments)
        .current_dir(folder)
        .status()
        .expect("a tool that the linker comes with");
    assert!(done.success(), "{program} {arguments:?}");
}

/// A stripped program `p` in a folder, whose debug file lies at `to` from there; whether they have
/// a build id.
fn program(folder: &Path, to: &str, build_id: &str, compress: &str) {
    let source = "static __attribute__((noinline)) int hidden(int x) { return x * 3; }\n\
                  int main(int c, char **v) { return hidden(c); }\n";
    std::fs::write(folder.join("p.c"), source).expect("written");
    let id = format!("-Wl,--build-id={build_id}");
    run(folder, "cc", &["-O1", "-g", &id, "p.c", "-o", "p"]);
    let debug = folder.join(to);
    std::fs::create_dir_all(debug.parent().expect("a folder")).expect("made");
    let debug = debug.to_str().expect("text");
    let compress = format!("--compress-debug-sections={compress}");
    run(
        folder,
        "objcopy",
        &["--only-keep-debug", &compress, "p", debug],
    );
    run(folder, "strip", &["p"]);
    let link = format!("--add-gnu-debuglink={debug}");
    run(folder, "objcopy", &[&link, "p"]);
}

/// The debug file that is found, and whether it names the function of the program.
fn found(global: &Path, folder: &Path) -> Option<(PathBuf, bool)> {
    let room = Room::new(1 << 30);
    let path = folder.join("p");
    let image = Binary::open(&path, &room).expect("an image");
    let (at, debug) = find(global, &image, &path, &room)?;
    let functions = Functions::new(&image, Some(&debug));
    let code = image.code_sections();
    let named = code.iter().flat_map(|(start, end)| *start..*end).any(|at| {
        functions
            .find(&image, at)
            .is_some_and(|found| found.name == "hidden")
    });
    Some((at, named))
}

/// By the name that the program gives: beside it, in `.debug`, under the folder for all; with and
/// without build ids, with compressed sections.
#[test]
fn by_the_name_given() {
    for (to, build_id, compress) in [
        ("p.debug", "none", "none"),
        (".debug/p.debug", "sha1", "zlib"),
        (".debug/p.debug", "none", "zlib-gnu"),
        ("p.debug", "none", "zstd"),
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        program(folder.path(), to, build_id, compress);
        let expected = Some((folder.path().join(to), true));
        assert_eq!(
            found(Path::new("/nowhere"), folder.path()),
            expected,
            "{to} {compress}"
        );
    }
    let folder = tempfile::tempdir().expect("a folder");
    let inside = folder
        .path()
        .strip_prefix("/")
        .expect("whole")
        .join("p.debug");
    program(folder.path(), "all/x", "none", "none");
    program(
        folder.path(),
        Path::new("all").join(&inside).to_str().expect("text"),
        "none",
        "none",
    );
    let all = folder.path().join("all");
    assert_eq!(found(&all, folder.path()), Some((all.join(inside), true)));
}

/// A debug file is found by the build id under the folder for all.
#[test]
fn by_the_build_id() {
    let folder = tempfile::tempdir().expect("a folder");
    let to = "all/.build-id/ab/cdef0123.debug";
    program(folder.path(), to, "0xabcdef0123", "zlib");
    let all = folder.path().join("all");
    assert_eq!(
        found(&all, folder.path()),
        Some((folder.path().join(to), true))
    );
    // Another build's file under that name is none.
    program(folder.path(), to, "0xabcdef0124", "zlib");
    assert_eq!(found(&all, folder.path()), None);
    assert!(by_build_id(&all, "../../etc/passwd", &Room::new(1)).is_none());
    assert!(by_build_id(&all, "", &Room::new(1)).is_none());
}

/// A file of another build, one that was changed, a pipe and a folder are no debug files.
#[test]
fn others_are_refused() {
    for build_id in ["none", "sha1"] {
        let folder = tempfile::tempdir().expect("a folder");
        program(folder.path(), "p.debug", build_id, "none");
        let debug = folder.path().join("p.debug");
        let mut bytes = std::fs::read(&debug).expect("there");
        *bytes.last_mut().expect("bytes") ^= 1;
        std::fs::write(&debug, bytes).expect("written");
        assert_eq!(found(Path::new("/nowhere"), folder.path()), None);
        std::fs::remove_file(&debug).expect("removed");
        std::fs::create_dir(&debug).expect("a folder");
        assert_eq!(found(Path::new("/nowhere"), folder.path()), None);
    }
}

/// `.gnu_debugdata` names functions that `.dynsym` lacks; one that claims to need too much memory,
/// or is broken, names nothing.
#[test]
fn mini_debug_information() {
    let folder = tempfile::tempdir().expect("a folder");
    program(folder.path(), "p.debug", "sha1", "none");
    let debug = Binary::open(&folder.path().join("p.debug"), &Room::new(1 << 30));
    drop(debug.expect("an image"));
    run(
        folder.path(),
        "objcopy",
        &["-S", "--keep-symbol=hidden", "p.debug", "m"],
    );
    run(folder.path(), "xz", &["-k", "m"]);
    run(
        folder.path(),
        "objcopy",
        &["--add-section", ".gnu_debugdata=m.xz", "p", "q"],
    );
    let names = |name: &str| {
        let image = Binary::open(&folder.path().join(name), &Room::new(1 << 30)).expect("an image");
        let functions = Functions::new(&image, None);
        let code = image.code_sections();
        code.iter().flat_map(|(start, end)| *start..*end).any(|at| {
            functions
                .find(&image, at)
                .is_some_and(|found| found.name == "hidden")
        })
    };
    assert!(names("q") && !names("p"));
    let mut broken = std::fs::read(folder.path().join("m.xz")).expect("there");
    for at in (12..broken.len()).step_by(7) {
        broken[at] ^= 0x55;
    }
    std::fs::write(folder.path().join("m.xz"), broken).expect("written");
    run(
        folder.path(),
        "objcopy",
        &["--add-section", ".gnu_debugdata=m.xz", "p", "r"],
    );
    assert!(!names("r"));
}
