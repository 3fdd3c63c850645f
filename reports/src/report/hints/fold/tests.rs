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
    assert_eq!(folded.divisions, BTreeMap::from([(0x1004, 7)]));
    assert!(folded.constant.is_empty() && code.results(0x1004) == Results::Rest);
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

/// The time behind what stays and may take long is not that of what is removed; behind another
/// removed instruction, or a quick one, it is.
#[test]
fn behind_others() {
    // add qword ptr [rsi],1; test edi,edi; je +2; mov ecx,edi; mov edx,esi; test edi,edi; ret
    let bytes = [
        0x48, 0x83, 0x06, 1, 0x85, 0xff, 0x74, 2, 0x89, 0xf9, 0x89, 0xf2, 0x85, 0xff, 0xc3,
    ];
    let code = code(&bytes);
    let folded = code.folded(&[EDI], 1).expect("it is told");
    let removed = folded.constant;
    assert_eq!(
        Vec::from_iter(removed.clone()),
        [0x1004, 0x1006, 0x1008, 0x100c]
    );
    assert_eq!(Vec::from_iter(code.behind_others(&removed)), [0x1004]);
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
    assert_eq!(folded.divisions, BTreeMap::from([(0x100a, 2)]));
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
    assert_eq!(folded.divisions, BTreeMap::from([(0x100b, 7)]));
}

/// What reads a load first waits for it, and so does what is behind the load. The branch on what is
/// compared is the test with which a special case begins. Whoever reads it a second time waits no
/// more, nor does a loop behind the load.
#[test]
fn what_waits_for_loads() {
    // cmp dword ptr [rdi],1; jne +0; cmp edi,1; jne +0; test [rdi],eax; ret
    let bytes = [
        0x83, 0x3f, 1, 0x75, 0, 0x83, 0xff, 1, 0x75, 0, 0x85, 0x07, 0xc3,
    ];
    let waits = |bytes: &[u8], known| code(bytes).waits(known).into_iter().collect::<Vec<u64>>();
    assert_eq!(waits(&bytes, KnownPlace::InMemory(0x1000)), [0x1003]);
    assert_eq!(
        waits(&bytes, KnownPlace::InMemory(0x1005)),
        Vec::<u64>::new()
    );
    assert_eq!(waits(&bytes, KnownPlace::InMemory(0x100a)), [0x100c]);
    // mov ecx,[rdi]; mov eax,1; test ecx,ecx; je +2; add eax,ecx; ret
    let bytes = [
        0x8b, 0x0f, 0xb8, 1, 0, 0, 0, 0x85, 0xc9, 0x74, 2, 0x01, 0xc8, 0xc3,
    ];
    let loaded = KnownPlace::After(0x1000, Register::ECX);
    assert_eq!(waits(&bytes, loaded), [0x1002, 0x1007, 0x1009]);
    // mov r8d,[rdx]; imul r8d,[rdi]; add eax,r8d; ret
    let bytes = [
        0x44, 0x8b, 0x02, 0x44, 0x0f, 0xaf, 0x07, 0x44, 0x01, 0xc0, 0xc3,
    ];
    assert_eq!(waits(&bytes, KnownPlace::InMemory(0x1003)), [0x1007]);
    // mov ebx,[rdi]; mov ecx,8; test ebx,ebx; dec ecx; jne -6; ret
    let bytes = [
        0x8b, 0x1f, 0xb9, 8, 0, 0, 0, 0x85, 0xdb, 0xff, 0xc9, 0x75, 0xfa, 0xc3,
    ];
    let loaded = KnownPlace::After(0x1000, Register::EBX);
    assert_eq!(waits(&bytes, loaded), [0x1002]);
}

/// What is computed from a quotient waits for the division, up to the branch on it: a special case
/// divides before it can test. What that branch leads to counts, and so does what comes of no
/// division.
#[test]
fn what_waits_for_divisions() {
    // idiv esi; cmp eax,6; setl al; movzx eax,al; add eax,1; test eax,eax; je +2; add ecx,eax; ret
    let bytes = [
        0xf7, 0xfe, 0x83, 0xf8, 6, 0x0f, 0x9c, 0xc0, 0x0f, 0xb6, 0xc0, 0x83, 0xc0, 1, 0x85, 0xc0,
        0x74, 2, 0x01, 0xc1, 0xc3,
    ];
    let waits = |bytes: &[u8], known| code(bytes).waits(known).into_iter().collect::<Vec<u64>>();
    let compared = KnownPlace::Low(0x1005, Register::AL);
    assert_eq!(waits(&bytes, compared), [0x1008, 0x100b, 0x100e, 0x1010]);
    let widened = KnownPlace::After(0x1008, Register::EAX);
    assert_eq!(waits(&bytes, widened), [0x100b, 0x100e, 0x1010]);
    // idiv esi; cmp edi,6; setl cl; movzx ecx,cl; add eax,ecx; ret
    let bytes = [
        0xf7, 0xfe, 0x83, 0xff, 6, 0x0f, 0x9c, 0xc1, 0x0f, 0xb6, 0xc9, 0x01, 0xc8, 0xc3,
    ];
    let compared = KnownPlace::Low(0x1005, Register::CL);
    assert_eq!(waits(&bytes, compared), Vec::<u64>::new());
}

/// What a register holds behind a branch says something of what only that branch leads to, and of
/// what always leads there.
#[test]
fn what_a_branch_leads_to() {
    // cmp edi,1; je +4; cmp edi,2; ret; test edi,edi; ret
    let bytes = [
        0x83, 0xff, 1, 0x74, 4, 0x83, 0xff, 2, 0xc3, 0x85, 0xff, 0xc3,
    ];
    let code = code(&bytes);
    let implied = |at| code.implied(at).into_iter().collect::<Vec<u64>>();
    assert_eq!(implied(0x1009), [0x1009, 0x100b]);
    assert_eq!(implied(0x1005), [0x1005, 0x1008]);
    assert_eq!(implied(0x1000).len(), 6);
    assert!(code.always_reaches(0x1003) && !code.always_reaches(0x1005));
    // test edi,edi; je +2; xor eax,eax; cmp edi,2; ret: both ways lead to the comparison.
    let bytes = [0x85, 0xff, 0x74, 2, 0x31, 0xc0, 0x83, 0xff, 2, 0xc3];
    let joined = super::tests::code(&bytes);
    assert_eq!(joined.implied(0x1006).len(), 5);
    assert_eq!(joined.implied(0x1004), BTreeSet::from([0x1004]));
}

/// The entry of a table of jumps is no number of the source, be it a distance or an address; what
/// chooses the entry is one.
#[test]
fn tables_of_jumps() {
    // mov eax,[rdi]; movsxd rdx,[rcx+rax*4]; add rdx,rcx; jmp rdx
    let bytes = [
        0x8b, 0x07, 0x48, 0x63, 0x14, 0x81, 0x48, 0x01, 0xca, 0xff, 0xe2,
    ];
    let code = code(&bytes);
    assert!(code.leads_a_jump(0x1002));
    assert!(!code.leads_a_jump(0x1000));
    // mov eax,[rdi]; jmp [rcx+rax*8]
    let direct = super::tests::code(&[0x8b, 0x07, 0xff, 0x24, 0xc1]);
    assert!(direct.leads_a_jump(0x1002) && !direct.leads_a_jump(0x1000));
}

/// One division gives a quotient and a rest: which of them are used is told by the ways behind it.
#[test]
fn results_of_divisions() {
    let results = |bytes: &[u8]| code(bytes).results(0x1000);
    // div esi; ret
    assert_eq!(results(&[0xf7, 0xf6, 0xc3]), Results::Quotient);
    // div esi; mov eax,edx; ret
    assert_eq!(results(&[0xf7, 0xf6, 0x89, 0xd0, 0xc3]), Results::Rest);
    // div esi; add ecx,edx; test eax,eax; jne -8; mov eax,ecx; ret
    let bytes = [
        0xf7, 0xf6, 0x01, 0xd1, 0x85, 0xc0, 0x75, 0xf8, 0x89, 0xc8, 0xc3,
    ];
    assert_eq!(results(&bytes), Results::Both);
    // div esi; add ecx,eax; mov eax,ecx; ret
    let bytes = [0xf7, 0xf6, 0x01, 0xc1, 0x89, 0xc8, 0xc3];
    assert_eq!(results(&bytes), Results::Quotient);
}

/// Numbers are multiplied, and compared with numbers. Addresses are compared with marks that stand
/// in their place: nothing, and errors below it.
#[test]
fn what_calculates() {
    // test rdi,rdi; cmp rdi,1; cmp rdi,-1; cmp rdi,9; imul rax,rdi; ret
    let code = code(&[
        0x48, 0x85, 0xff, 0x48, 0x83, 0xff, 1, 0x48, 0x83, 0xff, 0xff, 0x48, 0x83, 0xff, 9, 0x48,
        0x0f, 0xaf, 0xc7, 0xc3,
    ]);
    let calculates = |at: &[u64]| code.calculates(&at.iter().copied().collect());
    assert!(!calculates(&[0x1000, 0x1003, 0x1007]));
    assert!(calculates(&[0x1000, 0x100b]) && calculates(&[0x100f]));
}

/// What a thread has for itself is told by the segment.
#[test]
fn words_of_threads() {
    // mov rax,fs:[0x28]; mov rax,[rdi]; ret
    let code = code(&[
        0x64, 0x48, 0x8b, 0x04, 0x25, 0x28, 0, 0, 0, 0x48, 0x8b, 0x07, 0xc3,
    ]);
    assert!(code.reads_of_thread(0x1000) && !code.reads_of_thread(0x1009));
}
