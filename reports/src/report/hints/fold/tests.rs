use super::*;
use crate::code::decode;

/// The code of these bytes at 0x1000.
fn code(bytes: &[u8]) -> Code {
    let mut lines = Vec::new();
    let mut at = 0;
    while let Some(instruction) = decode(&bytes[at..], 0x1000 + at as u64) {
        lines.push(FunctionInstruction {
            address: instruction.ip(),
            instruction: Some(instruction),
            pc: None,
        });
        at += instruction.len();
    }
    Code::new(&lines, &BTreeSet::new()).expect("it is short")
}

fn constant(bytes: &[u8], known: KnownPlace, value: u64) -> Vec<u64> {
    let folded = code(bytes).folded(&[known], value).expect("it is told");
    folded.constant.into_iter().collect()
}

const EDI: KnownPlace = KnownPlace::AtEntry(Register::RDI, 32);

/// A comparison with a known argument and the branch on it are removed, and so is what is
/// computed from it alone; what also needs another value stays.
#[test]
fn branches_fold() {
    // cmp edi,4; jne +6; lea eax,[rdi+rdi]; add eax,esi; ret; mov eax,edi; ret
    let bytes = [
        0x83, 0xff, 4, 0x75, 6, 0x8d, 0x04, 0x3f, 0x01, 0xf0, 0xc3, 0x89, 0xf8, 0xc3,
    ];
    assert_eq!(constant(&bytes, EDI, 4), [0x1000, 0x1003, 0x1005]);
    // With another value the other way is gone.
    assert_eq!(constant(&bytes, EDI, 5), [0x1000, 0x1003, 0x100b]);
}

/// A division by a known argument becomes one by a number. Its rest is told from its quotient.
#[test]
fn divisions() {
    // mov eax,edi; xor edx,edx; div esi; mov eax,edx; ret
    let bytes = [0x89, 0xf8, 0x31, 0xd2, 0xf7, 0xf6, 0x89, 0xd0, 0xc3];
    let code = code(&bytes);
    let folded = code.folded(&[KnownPlace::AtEntry(Register::RSI, 32)], 7);
    let folded = folded.expect("it is told");
    assert_eq!(folded.divisions, BTreeSet::from([0x1004]));
    assert!(folded.constant.is_empty() && code.takes_rest(0x1004));
    assert!(code.divides_by(Register::RSI) && !code.divides_by(Register::RDI));
    let by_zero = code.folded(&[KnownPlace::AtEntry(Register::RSI, 32)], 0);
    assert_eq!(by_zero, Some(Folded::default()));
}

/// What two ways know differently is not known where they meet, so that a loop's counter is
/// not; what the encoding fixes is no merit of the value.
#[test]
fn loops() {
    // mov eax,8; add eax,edi; dec eax; jne -4; mov ecx,edi; ret
    let bytes = [
        0xb8, 8, 0, 0, 0, 0x01, 0xf8, 0xff, 0xc8, 0x75, 0xfc, 0x89, 0xf9, 0xc3,
    ];
    assert_eq!(constant(&bytes, EDI, 4), [0x1005, 0x100b]);
}

/// What a load brought is known behind it; the load stays. A call leaves some registers alone.
#[test]
fn loads_and_calls() {
    // mov ebx,[rdi]; mov ecx,[rdi]; call +0; test ebx,ebx; je +0; test ecx,ecx; ret
    let bytes = [
        0x8b, 0x1f, 0x8b, 0x0f, 0xe8, 0, 0, 0, 0, 0x85, 0xdb, 0x74, 0, 0x85, 0xc9, 0xc3,
    ];
    assert_eq!(
        constant(&bytes, KnownPlace::After(0x1000, Register::EBX), 1),
        [0x1009, 0x100b]
    );
    assert!(constant(&bytes, KnownPlace::After(0x1002, Register::ECX), 1).is_empty());
    // cmp dword ptr [rdi],1; jne +0; ret
    let compared = [0x83, 0x3f, 1, 0x75, 0, 0xc3];
    assert_eq!(
        constant(&compared, KnownPlace::InMemory(0x1000), 1),
        [0x1003]
    );
}

/// A register that a loop only reads is known in all of the loop, and behind it: whoever wrote it
/// is supposed to have written the value. A counter is no such register.
#[test]
fn what_a_loop_reads() {
    // mov ebx,[rdi]; mov ecx,8; mov eax,ecx; cdq; idiv ebx; add esi,eax; dec ecx; jne -9; ret
    let bytes = [
        0x8b, 0x1f, 0xb9, 8, 0, 0, 0, 0x89, 0xc8, 0x99, 0xf7, 0xfb, 0x01, 0xc6, 0xff, 0xc9, 0x75,
        0xf5, 0xc3,
    ];
    let code = code(&bytes);
    let places = code.places(KnownPlace::Read(0x100a, Register::EBX));
    let places = places.expect("one instruction writes it");
    assert_eq!(places, [KnownPlace::Low(0x1000, Register::EBX)]);
    let folded = code.folded(&places, 2).expect("it is told");
    assert_eq!(folded.divisions, BTreeSet::from([0x100a]));
    assert!(folded.constant.is_empty());
    assert_eq!(code.places(KnownPlace::Read(0x1007, Register::ECX)), None);
    // Of esi, the caller and the loop itself.
    assert_eq!(code.places(KnownPlace::Read(0x100c, Register::ESI)), None);
    assert_eq!(
        code.places(KnownPlace::Read(0x1000, Register::RDI)),
        Some(vec![KnownPlace::AtEntry(Register::RDI, 64)])
    );
}

/// Of two that may have written a divisor one writes a number: the value is of the other one.
#[test]
fn one_of_two_definitions() {
    // mov ebx,1; test edi,edi; je +2; mov ebx,[rdi]; div ebx; ret
    let bytes = [
        0xbb, 1, 0, 0, 0, 0x85, 0xff, 0x74, 2, 0x8b, 0x1f, 0xf7, 0xf3, 0xc3,
    ];
    let code = code(&bytes);
    let places = code.places(KnownPlace::Read(0x100b, Register::EBX));
    let mut places = places.expect("two instructions write it");
    places.sort();
    assert_eq!(
        places,
        [0x1000, 0x1009].map(|at| KnownPlace::Low(at, Register::EBX))
    );
    let folded = code.folded(&places, 7).expect("it is told");
    assert_eq!(folded.divisions, BTreeSet::from([0x100b]));
}

/// The branch behind a comparison with memory is the test for what is in it; behind one of a
/// register it is not.
#[test]
fn tests_of_memory() {
    // cmp dword ptr [rdi],1; jne +0; cmp edi,1; jne +0; test [rdi],eax; ret
    let bytes = [
        0x83, 0x3f, 1, 0x75, 0, 0x83, 0xff, 1, 0x75, 0, 0x85, 0x07, 0xc3,
    ];
    let code = code(&bytes);
    assert_eq!(code.tests_memory(0x1000), Some(0x1003));
    assert_eq!(code.tests_memory(0x1005), None);
    assert_eq!(code.tests_memory(0x100a), None);
}
