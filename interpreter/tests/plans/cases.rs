//! Plans of short programs, written out.

use interpreter::{
    Arms, Code, Fetched, Limits, Planned, Planner, Request, ReturnAddress, StopReason,
};

use crate::program::{BIAS, LIMITS, Program, START};

fn plan_with(code: &[u8], arms: Arms<'_>, limits: Limits) -> Planned {
    Planner::default()
        .plan(
            START + BIAS,
            &mut Program::new(code),
            Request {
                arms,
                limits,
                ..Request::default()
            },
        )
        .expect("there is code at the start")
}

fn plan(code: &[u8]) -> String {
    plan_with(code, Arms::Both, LIMITS).plan.to_string()
}

/// A base that the code itself moves is followed: by the word that it was moved to.
#[test]
fn moved_bases() {
    // rdfsbase rax; wrfsbase rdi; mov rcx, fs:[8]; wrfsbase rax; mov rdx, fs:[16]
    let moved = [
        0xf3, 0x48, 0x0f, 0xae, 0xc0, 0xf3, 0x48, 0x0f, 0xae, 0xd7, 0x64, 0x48, 0x8b, 0x0c, 0x25,
        8, 0, 0, 0, 0xf3, 0x48, 0x0f, 0xae, 0xd0, 0x64, 0x48, 0x8b, 0x14, 0x25, 16, 0, 0, 0,
    ];
    assert_eq!(
        plan(&moved),
        "#0 8 bytes at rdi + 0x8\n#1 8 bytes at fs + 0x10"
    );
}

/// Registers are followed through copies, sums, shifts and loads.
#[test]
fn addresses_are_expressions() {
    // mov rax, [rdi+8]; mov ecx, [rax+rsi*4]; mov rdx, [rax+rcx*8+16]
    let chase = [
        0x48, 0x8b, 0x47, 8, 0x8b, 0x0c, 0xb0, 0x48, 0x8b, 0x54, 0xc8, 16,
    ];
    assert_eq!(
        plan(&chase),
        "#0 8 bytes at rdi + 0x8\n\
         #1 4 bytes at #0 + rsi * 4:u32\n\
         #2 8 bytes at #0 + #1 * 8 + 0x10"
    );
    // movsxd rdi, edi; shl rdi, 4; add rdi, rsi; sub rdi, 8; mov al, [rdi]
    let scaled = [
        0x48, 0x63, 0xff, 0x48, 0xc1, 0xe7, 4, 0x48, 0x01, 0xf7, 0x48, 0x83, 0xef, 8, 0x8a, 0x07,
    ];
    assert_eq!(plan(&scaled), "#0 1 bytes at rsi + rdi:s32 * 16 - 0x8");
    // lea eax, [rdi+1]; mov al, [rbx+rax]
    let narrow = [0x8d, 0x47, 1, 0x8a, 0x04, 0x03];
    assert_eq!(
        plan(&narrow),
        "#0 sum rdi + 0x1:u32\n#1 1 bytes at rbx + #0"
    );
    // imul rdi, rdi, 24; mov eax, [rdi+rdi]
    let product = [0x48, 0x6b, 0xff, 24, 0x8b, 0x04, 0x3f];
    assert_eq!(plan(&product), "#0 mul rdi, 0x18\n#1 4 bytes at #0 + #0");
    // and esi, 15; sub rdi, rsi; shr edi, 3; mov eax, [rdi]
    let mixed = [0x83, 0xe6, 15, 0x48, 0x29, 0xf7, 0xc1, 0xef, 3, 0x8b, 0x07];
    assert_eq!(
        plan(&mixed),
        "#0 and rsi:u32, 0xf\n#1 sub rdi, #0:u32\n#2 shr #1:u32, 0x3\n#3 4 bytes at #2:u32"
    );
    // mov eax, [rip+0x100]; mov rdx, fs:[0x28]
    let fixed = [
        0x8b, 0x05, 0, 1, 0, 0, 0x64, 0x48, 0x8b, 0x14, 0x25, 0x28, 0, 0, 0,
    ];
    assert_eq!(
        plan(&fixed),
        "#0 4 bytes at bias + 0x401106\n#1 8 bytes at fs + 0x28"
    );
}

/// Where a comparison's result is an index, both places are loaded, and what each of them leads to.
#[test]
fn bits_are_indices() {
    // xor eax, eax; test edi, edi; sete al; mov rcx, [rbx+rax*8]; mov rdx, [rcx]
    let table = [
        0x31, 0xc0, 0x85, 0xff, 0x0f, 0x94, 0xc0, 0x48, 0x8b, 0x0c, 0xc3, 0x48, 0x8b, 0x11,
    ];
    assert_eq!(
        plan(&table),
        "#0 8 bytes at rbx + 0x8\n#1 8 bytes at rbx\n#2 8 bytes at #0\n#3 8 bytes at #1"
    );
    // setg dl; movzx eax, dl; mov ecx, [rsi+rax*4]
    let extended = [0x0f, 0x9f, 0xc2, 0x0f, 0xb6, 0xc2, 0x8b, 0x0c, 0x86];
    assert_eq!(plan(&extended), "#0 8 bytes at rsi");
    // sete al; mov eax, [rdi]; mov ecx, [rbx+rax*8]: it is none any more.
    let gone = [0x0f, 0x94, 0xc0, 0x8b, 0x07, 0x8b, 0x0c, 0xc3];
    assert_eq!(
        plan(&gone),
        "#0 4 bytes at rdi:u32\n#1 4 bytes at rbx + #0 * 8"
    );
    // sete al; bswap rax; mov ecx, [rbx+rax*8]; sete ah; mov ecx, [rbx+rax*8]: nor are these.
    let others = [
        0x0f, 0x94, 0xc0, 0x48, 0x0f, 0xc8, 0x8b, 0x0c, 0xc3, 0x0f, 0x94, 0xc4, 0x8b, 0x0c, 0xc3,
    ];
    let planned = plan_with(&others, Arms::Both, LIMITS);
    assert_eq!(
        (planned.plan.steps().len(), planned.account.unknown),
        (0, 2)
    );
}

/// What lies side by side is one load; what the window stored itself is none.
#[test]
fn the_stack_is_one_load() {
    // push rbx; push rbp; mov [rsp+0x20], rdi; mov rax, [rsp+0x20]; mov rdx, [rax]
    // pop rbp; pop rbx; pop r12; pop r13; ret
    let code = [
        0x53, 0x55, 0x48, 0x89, 0x7c, 0x24, 0x20, 0x48, 0x8b, 0x44, 0x24, 0x20, 0x48, 0x8b, 0x10,
        0x5d, 0x5b, 0x41, 0x5c, 0x41, 0x5d, 0xc3,
    ];
    let planned = plan_with(&code, Arms::Both, LIMITS);
    assert_eq!(
        planned.plan.to_string(),
        "#0 8 bytes at rdi\n#1 16 bytes at rsp"
    );
    // The reload, the two pops, and the return to what was stored above.
    assert_eq!(planned.account.stored, 4);
    assert_eq!(planned.account.loads, 3);
}

/// What lies near by off the same base is one load, with the few bytes between that nobody asked for.
#[test]
fn near_loads_are_one() {
    // mov rax, [rdi]; mov rcx, [rdi + 0x20]; mov rdx, [rdi + 0x41]
    let code = [
        0x48, 0x8b, 0x07, 0x48, 0x8b, 0x4f, 0x20, 0x48, 0x8b, 0x57, 0x41,
    ];
    assert_eq!(plan(&code), "#0 40 bytes at rdi\n#1 8 bytes at rdi + 0x41");
}

/// Calls are followed, and returns from them; the last call of a window is followed to its stub.
#[test]
fn calls_are_followed() {
    // call +8; mov rax, [rbx]; nop * 5; (here) mov rcx, [rdx]; ret
    let code = [
        0xe8, 8, 0, 0, 0, 0x48, 0x8b, 0x03, 0x90, 0x90, 0x90, 0x90, 0x90, 0x48, 0x8b, 0x0a, 0xc3,
    ];
    let both = "#0 8 bytes at rdx\n#1 8 bytes at rbx";
    assert!(plan(&code).starts_with(both), "{}", plan(&code));
    // call +0; endbr64; jmp [rip+0x10]
    let stub = [
        0xe8, 0, 0, 0, 0, 0xf3, 0x0f, 0x1e, 0xfa, 0xff, 0x25, 0x10, 0, 0, 0,
    ];
    let one = Limits {
        instructions: 1,
        ..LIMITS
    };
    let planned = plan_with(&stub, Arms::Both, one);
    assert_eq!(planned.plan.to_string(), "#0 8 bytes at bias + 0x40101f");
}

/// jne +3; mov rax, [rbx]; mov rcx, [rdx]; and mov rax, [rbx]; jmp back for the other arm.
const ARMS: [u8; 8] = [0x75, 3, 0x48, 0x8b, 0x03, 0x48, 0x8b, 0x0a];

/// Both arms of a branch are planned; or one, and a window ends where only the other leads.
#[test]
fn arms() {
    assert!(plan(&ARMS).contains("rbx") && plan(&ARMS).contains("rdx"));
    let drawn = |arm: usize| plan_with(&ARMS, Arms::Drawn(&mut |_| arm), LIMITS);
    let taken = drawn(1);
    assert_eq!(taken.plan.to_string(), "#0 8 bytes at rdx");
    assert_eq!(taken.ends, [START + 2]);
    // The other way: what the taken arm leads to comes later on this one, too.
    let not_taken = drawn(0);
    assert_eq!(not_taken.plan.steps().len(), 2);
    assert_eq!(not_taken.ends, []);
}

/// What cannot be followed, or does not fit, is left out and counted.
#[test]
fn what_is_left_out_is_counted() {
    // bswap rdi; mov rax, [rdi]; mov rcx, [rax]; mov rdx, [rbx]; mov rsi, [rbx+0x100]
    let code = [
        0x48, 0x0f, 0xcf, 0x48, 0x8b, 0x07, 0x48, 0x8b, 0x08, 0x48, 0x8b, 0x13, 0x48, 0x8b, 0xb3,
        0, 1, 0, 0,
    ];
    let planned = plan_with(&code, Arms::Both, Limits { steps: 1, ..LIMITS });
    let account = planned.account;
    assert_eq!((account.unknown, account.loads, account.dropped), (2, 2, 1));
    let few = plan_with(
        &code,
        Arms::Both,
        Limits {
            bytes: 15,
            ..LIMITS
        },
    );
    assert_eq!((few.account.loads, few.account.dropped), (2, 1));
    // rep movsb
    let repeated = plan_with(&[0xf3, 0xa4], Arms::Both, LIMITS);
    assert_eq!(repeated.account.repeated, 1);
    assert!(repeated.plan.is_empty());
    // mov rax, gs:[0]: the handler does not know the base.
    let per_cpu = [0x65, 0x48, 0x8b, 0x04, 0x25, 0, 0, 0, 0];
    assert_eq!(plan_with(&per_cpu, Arms::Both, LIMITS).account.unknown, 1);
    // rcpps xmm0, [rbx]: what is not interpreted needs no memory.
    assert!(plan(&[0x0f, 0x53, 0x03]).is_empty());
}

/// The return address comes first, as the unwind row says.
#[test]
fn return_addresses() {
    let row = ReturnAddress {
        register: 5,
        offset: 8,
    };
    let mut program = Program::new(&ARMS);
    let planned = Planner::default()
        .plan(
            START + BIAS,
            &mut program,
            Request {
                return_address: Some(row),
                ..Request::default()
            },
        )
        .expect("there is code at the start");
    let first = planned.plan.steps().first().map(ToString::to_string);
    assert_eq!(first.as_deref(), Some("8 bytes at rbp + 0x8"));
}

/// Where an indirect branch leads is not in the code, but may have been seen.
#[test]
fn destinations() {
    // pop rbp; ret; (here) mov rax, [rbp+8]; (and here) mov rcx, [rsp]
    let code = [0x5d, 0xc3, 0x48, 0x8b, 0x45, 8, 0x48, 0x8b, 0x0c, 0x24];
    assert_eq!(plan(&code), "#0 16 bytes at rsp");
    let mut asked = Vec::new();
    let mut seen = |pc: u64, tell: &mut dyn FnMut(u64)| {
        asked.push(pc);
        tell(START + BIAS + 2);
        tell(START + BIAS + 6);
    };
    let request = Request {
        destinations: Some(&mut seen),
        ..Request::default()
    };
    let planned = Planner::default()
        .plan(START + BIAS, &mut Program::new(&code), request)
        .expect("there is code at the start");
    assert_eq!(
        planned.plan.to_string(),
        "#0 24 bytes at rsp\n#1 8 bytes at #0 + 0x8"
    );
    assert_eq!(asked, [START + BIAS + 1]);
}

/// Two programs as two images: the second has its own bias.
struct Two(Program, Program);

/// How much greater the second image's bias is.
const APART: u64 = 0x10_0000;

impl Code for Two {
    fn fetch(&mut self, pc: u64) -> Result<Fetched<'_>, StopReason> {
        if self.0.fetch(pc).is_ok() {
            return self.0.fetch(pc);
        }
        let mut fetched = self.1.fetch(pc.wrapping_sub(APART))?;
        fetched.bias += APART;
        Ok(fetched)
    }
}

/// Code of another image is followed if the plan is for one process: calls there and back, and
/// its constants.
#[test]
fn other_images() {
    // jmp [rip]; and there: mov eax, [rip+0x10]; call +0; mov ecx, [rbx]
    let there = [0x8b, 0x05, 0x10, 0, 0, 0, 0xe8, 0, 0, 0, 0, 0x8b, 0x0b];
    let mut code = Two(
        Program::new(&[0xff, 0x25, 0, 0, 0, 0]),
        Program::new(&there),
    );
    let mut plan = |other_images| {
        let mut seen = |_, tell: &mut dyn FnMut(u64)| tell(START + BIAS + APART);
        let request = Request {
            destinations: Some(&mut seen),
            other_images,
            ..Request::default()
        };
        Planner::default()
            .plan(START + BIAS, &mut code, request)
            .expect("there is code at the start")
            .plan
            .to_string()
    };
    assert_eq!(plan(false), "#0 8 bytes at bias + 0x401006");
    assert_eq!(
        plan(true),
        "#0 8 bytes at bias + 0x401006\n#1 4 bytes at bias + 0x501016\n#2 4 bytes at rbx"
    );
}

/// What does not fit is what is needed least likely: of a branch whose directions are known, the
/// likelier arm has what room there is.
#[test]
fn likelier_arms_come_first() {
    // test edi, edi; je +5; mov rax, [rsi+8]; ret; mov rax, [rdx+16]; ret
    let code = [
        0x85, 0xff, 0x74, 5, 0x48, 0x8b, 0x46, 8, 0xc3, 0x48, 0x8b, 0x42, 16, 0xc3,
    ];
    let plan = |taken, not_taken| {
        let mut seen = |pc| (pc == START + BIAS + 2).then_some((taken, not_taken));
        let request = Request {
            directions: Some(&mut seen),
            limits: Limits { steps: 1, ..LIMITS },
            ..Request::default()
        };
        Planner::default()
            .plan(START + BIAS, &mut Program::new(&code), request)
            .expect("there is code at the start")
            .plan
            .to_string()
    };
    assert_eq!(plan(99, 1), "#0 8 bytes at rdx + 0x10");
    assert_eq!(plan(1, 99), "#0 8 bytes at rsi + 0x8");
    assert_eq!(plan(u64::MAX, 0), "#0 8 bytes at rdx + 0x10");
}
