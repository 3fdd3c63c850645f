//! Whether images are read as they are, and nothing else is.

use std::path::PathBuf;

use object::{Object as _, ObjectSymbol as _};
use symbols::{Exports, Offered};

use super::*;

/// A minimal image: one executable segment with `code` at `address`.
pub(crate) fn image_of(code: &[u8], address: u64) -> Vec<u8> {
    let size = u64::try_from(code.len()).expect("fits");
    let mut image = Vec::new();
    image.extend(b"\x7fELF\x02\x01\x01");
    image.resize(16, 0);
    // Type, machine, version, entry, program headers, no sections, flags.
    image.extend([3_u16, 62].iter().flat_map(|half| half.to_le_bytes()));
    image.extend(1_u32.to_le_bytes());
    image.extend([address, 64, 0].iter().flat_map(|word| word.to_le_bytes()));
    image.extend(0_u32.to_le_bytes());
    image.extend(
        [64_u16, 56, 1, 64, 0, 0]
            .iter()
            .flat_map(|half| half.to_le_bytes()),
    );
    // PT_LOAD, readable and executable; the code follows the header.
    image.extend([1_u32, 5].iter().flat_map(|word| word.to_le_bytes()));
    image.extend(
        [120, address, address, size, size, 1]
            .iter()
            .flat_map(|word| word.to_le_bytes()),
    );
    image.extend(code);
    image
}

/// The checked-in image; see the README beside it.
pub(crate) fn fixture() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/declared.so")
}

/// The checked-in image of functions that are compiled in several ways.
pub(crate) fn parameters() -> Elf {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    opened(&fixtures.join("parameters/parameters.so"))
}

/// The checked-in image of functions that are passed other things than they declare, or share their
/// code with others.
pub(crate) fn passed() -> Elf {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    opened(&fixtures.join("passed/passed.so"))
}

/// Where the function of this name begins.
pub(crate) fn entry_of(elf: &Elf, name: &str) -> u64 {
    // Symbols of source files have no address.
    let mut addresses = symbols_of(elf, name)
        .into_iter()
        .map(|(address, _)| address);
    let entry = addresses.find(|address| *address > 0);
    entry.unwrap_or_else(|| panic!("no {name}"))
}

/// An image with room for all of it.
pub(crate) fn opened(path: &Path) -> Elf {
    Elf::open(path, &Room::new(u64::MAX)).expect("image parses")
}

/// The image of this program.
pub(crate) fn own() -> Elf {
    opened(&std::env::current_exe().expect("own path"))
}

/// Address and size of each symbol of an image whose name has this in it.
pub(crate) fn symbols_of(elf: &Elf, part: &str) -> Vec<(u64, u64)> {
    let apart = elf.binary().apart();
    let Some(file) = apart.parsed() else {
        return Vec::new();
    };
    file.symbols()
        .chain(file.dynamic_symbols())
        .filter(|symbol| symbol.name().is_ok_and(|name| name.contains(part)))
        .map(|symbol| (symbol.address(), symbol.size()))
        .collect()
}

/// The test's own image gives code bytes, unwind ranges and a build of its symbols.
#[test]
// It looks for its own symbol.
#[inline(never)]
fn own_image_is_readable() {
    let elf = own();
    let (address, size) = *symbols_of(&elf, "own_image").first().expect("self");
    assert!(size > 0);
    assert!(
        elf.bytes(address)
            .is_some_and(|bytes| bytes.len() as u64 >= size)
    );
    let (start, end) = elf.frame(address).expect("has unwind rows");
    assert!(start <= address && address < end);
}

/// The vdso of this system names the functions that programs call in it.
#[test]
fn vdso_has_symbols() {
    // Some sandboxes map none; then there is nothing to read.
    let Some(vdso) = own_vdso() else { return };
    assert!(!symbols_of(&vdso, "clock_gettime").is_empty());
}

/// Truncated and damaged images give errors or fewer facts, never a panic.
#[test]
fn damaged_images_are_harmless() {
    let vdso = vdso_bytes().unwrap_or_default();
    for length in (0..vdso.len()).step_by(37) {
        let _ = Elf::parse(vdso.get(..length).unwrap_or_default().to_vec());
    }
    let mut state = 1_u64;
    for _ in 0..400 {
        let mut damaged = vdso.clone();
        for _ in 0..8 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let at = usize::try_from(state >> 33).unwrap_or(0) % damaged.len().max(1);
            if let Some(byte) = damaged.get_mut(at) {
                *byte = u8::try_from(state & 0xff).unwrap_or(0);
            }
        }
        if let Ok(elf) = Elf::parse(damaged) {
            let functions = symbols::Functions::new(elf.binary(), None);
            for (address, _) in symbols_of(&elf, "") {
                let _ = (elf.bytes(address), elf.frame(address), elf.plt(address));
                let _ = functions.find(elf.binary(), address);
            }
        }
    }
}

/// Devices and directories are not read as images.
#[test]
fn only_regular_files() {
    assert!(matches!(
        Elf::open(Path::new("/dev/zero"), &Room::new(1)),
        Err(Error::NotAFile)
    ));
    assert!(matches!(
        Elf::open(Path::new("/"), &Room::new(1)),
        Err(Error::NotAFile)
    ));
    assert!(matches!(
        Elf::open(Path::new("/nowhere"), &Room::new(1)),
        Err(Error::Io(_))
    ));
}

/// C++ and Rust names are demangled, C names stay, hash suffixes go, versions stay.
#[test]
fn names_demangle() {
    assert_eq!(demangle("_Z3addii"), "add(int, int)");
    assert_eq!(
        demangle("_ZN4core3fmt5write17h0123456789abcdefE"),
        "core::fmt::write"
    );
    assert_eq!(demangle("main"), "main");
    for (name, expected) in [
        (
            "_ZL10str_format.__uniq.90555932009384695876068905",
            "str_format",
        ),
        ("_ZL1fi.__uniq.12", "f(int)"),
        ("f.__uniq.12", "f"),
        ("f.__uniq.12.cold", "f.cold"),
        ("_ZL1fv.__uniq.12.cold", "f() [clone .cold]"),
        ("f.__uniq.", "f.__uniq."),
        (
            "_ZTISt13runtime_error@GLIBCXX_3.4",
            "typeinfo for std::runtime_error@GLIBCXX_3.4",
        ),
        ("_Z3addii@@VERS_1", "add(int, int)@@VERS_1"),
        ("stdout@GLIBC_2.2.5", "stdout@GLIBC_2.2.5"),
    ] {
        assert_eq!(demangle(name), expected);
    }
}

/// Special names are those that binutils have, with all that they are said of.
#[test]
fn special_names() {
    for (name, expected) in [
        ("_ZThn16_N1C1gEl", "non-virtual thunk to C::g(long)"),
        ("_ZThn16_NK1C1gEl", "non-virtual thunk to C::g(long) const"),
        (
            "_ZThn16_N1C1gEl.localalias",
            "non-virtual thunk to C::g(long) [clone .localalias]",
        ),
        ("_ZTv0_n24_N1CD1Ev", "virtual thunk to C::~C()"),
        (
            "_ZTch0_h16_N1C5cloneEv",
            "covariant return thunk to C::clone()",
        ),
        (
            "_ZTcv0_n24_v0_n32_N1C1fEv@V_1",
            "covariant return thunk to C::f()@V_1",
        ),
        ("_ZGVZ1fiE1x", "guard variable for f(int)::x"),
        ("_ZTW1x", "TLS wrapper function for x"),
        ("_ZTV1C", "vtable for C"),
        ("_ZTT1C", "VTT for C"),
        ("_ZTC1D0_1B", "construction vtable for B-in-D"),
        ("_ZTI1C", "typeinfo for C"),
        ("_ZThn16N1C1gEl", "_ZThn16N1C1gEl"),
        ("_ZThn_N1C1gEl", "_ZThn_N1C1gEl"),
        ("_ZThn16_", "_ZThn16_"),
        ("_ZTc", "_ZTc"),
    ] {
        assert_eq!(demangle(name), expected, "{name}");
    }
}

/// Everywhere in a PLT stub the name is that of the function behind it; the stub that
/// resolves the others, and ordinary code, are none.
#[test]
fn stubs_are_named() {
    let elf = opened(&fixture());
    for address in [0x1010, 0x1016, 0x101f] {
        assert_eq!(elf.plt(address), Some((0x1010, 0x1020, "imported")));
    }
    assert_eq!(elf.plt(0x1000), None);
    assert_eq!(elf.plt(0x1020), None);
    assert_eq!(elf.plt(u64::MAX), None);
}

/// A stub that leads to no symbol is one by its section, as is what binds the others.
#[test]
fn stubs_without_names() {
    let mut elf = opened(&fixture());
    elf.slots = OnceCell::from(BTreeMap::new());
    for address in [0x1010, 0x1016, 0x101f] {
        assert_eq!(elf.plt(address), None);
        assert_eq!(elf.stub(address), Some((0x1010, 0x1020)));
        assert!(elf.has_stubs_at(address));
    }
    assert_eq!(elf.stub(0x1000), None);
    assert!(elf.has_stubs_at(0x1000));
    assert!(!elf.has_stubs_at(0x1020));
    // Without sections only names tell stubs.
    let jump = [0xff, 0x25, 0x10, 0, 0, 0, 0x66, 0x90];
    let elf = Elf::parse(image_of(&jump, 0x1000)).expect("parses");
    assert_eq!(elf.stub(0x1000), None);
}

/// Stubs of all shapes lead to their slot: with and without landing mark, of 8 bytes.
#[test]
fn stub_shapes() {
    let jump = [0xff, 0x25, 0x10, 0, 0, 0];
    let marked = [
        &[0xf3, 0x0f, 0x1e, 0xfa][..],
        &jump,
        &[0x66, 0x0f, 0x1f, 0x44, 0, 0],
    ];
    let elf = Elf::parse(image_of(&marked.concat(), 0x1000)).expect("parses");
    assert_eq!(elf.stub_slot(0x1000, 16), Some(0x101a));
    let short = [&jump[..], &[0x66, 0x90], &jump, &[0x66, 0x90]].concat();
    let elf = Elf::parse(image_of(&short, 0x1000)).expect("parses");
    assert_eq!(elf.stub_slot(0x1000, 8), Some(0x1016));
    assert_eq!(elf.stub_slot(0x1008, 8), Some(0x101e));
}

/// Two short stubs side by side each have their own name; a long one has its name to its end.
#[test]
fn short_stubs_stand_for_themselves() {
    let jump = [0xff, 0x25, 0x10, 0, 0, 0];
    let short = [&jump[..], &[0x66, 0x90], &jump, &[0x66, 0x90]].concat();
    let long = [&jump[..], &[0x68, 0, 0, 0, 0, 0xe9, 0, 0, 0, 0]].concat();
    let mut elf = Elf::parse(image_of(&[short, long].concat(), 0x1000)).expect("parses");
    let slots = [(0x1016, "first"), (0x101e, "second"), (0x1026, "third")];
    let slots = slots.map(|(slot, name)| (slot, name.to_owned()));
    elf.slots = OnceCell::from(BTreeMap::from(slots));
    for (address, stub) in [
        (0x1000, (0x1000, 0x1008, "first")),
        (0x1007, (0x1000, 0x1008, "first")),
        (0x1008, (0x1008, 0x1010, "second")),
        (0x100e, (0x1008, 0x1010, "second")),
        (0x1010, (0x1010, 0x1020, "third")),
        (0x101b, (0x1010, 0x1020, "third")),
    ] {
        assert_eq!(elf.plt(address), Some(stub), "{address:#x}");
    }
}

/// Only functions that other images can bind to are exported.
#[test]
fn exports() {
    let elf = opened(&fixture());
    let exports = Exports::of(elf.binary()).expect("small tables");
    let address_of = |wanted| exports.find(elf.binary(), wanted);
    assert_eq!(address_of("declared"), Some(Offered::At(0x1040)));
    assert_eq!(address_of("imported"), None);
    assert_eq!(address_of("local"), None);
}
