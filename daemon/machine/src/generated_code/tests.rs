use addresses::{ProcessAddress, ProcessRange};

use super::*;
use crate::host::Answer as HostAnswer;
use crate::mapping::tests::mapping;

const PID: Pid = Pid(7);
/// `push rbp; mov rbp, rsp`, then a loop of two bytes, then `pop rbp; ret`.
const CODE: [u8; 8] = [0x55, 0x48, 0x89, 0xe5, 0xeb, 0xfe, 0x5d, 0xc3];
/// Behind its loop.
const BEHIND: u64 = 0x1006;

/// A process with code at 0x1000, of which looks are answered as they were noted.
struct Bench {
    maps: Maps,
    images: Images,
    host: Host,
    generated_code: GeneratedCode,
}

impl Bench {
    fn new() -> Self {
        let mut images = Images::new(Vec::new(), 0, 1 << 20);
        let id = images.generated(PID, 1, 0, "[anon]");
        let mut maps = Maps::new(&Room::new(16));
        maps.insert(mapping(0x1000, 0x3000, 0, false).generated(id));
        Self {
            maps,
            images,
            host: Host::Replayed(FxHashMap::default()),
            generated_code: GeneratedCode::new(PID, &GeneratedCodeRooms::new()),
        }
    }

    /// A look at this time, which finds this code; without, what it found last.
    fn looks(&mut self, time: u64, code: Option<&[u8]>) {
        let bytes = code.map(|code| {
            let mut page = vec![0; PAGE_BYTES];
            page[..code.len()].copy_from_slice(code);
            page
        });
        let seen = PageLook {
            before: time,
            behind: time + 1,
            bytes,
        };
        let answer = HostAnswer::Code(0x1000, Some(seen));
        self.host.replay(PID, answer);
    }

    fn ask<T>(
        &mut self,
        time: u64,
        ask: impl FnOnce(&mut GeneratedCode, &mut Asker<'_>) -> T,
    ) -> T {
        let mut asker = Asker {
            maps: &self.maps,
            images: &self.images,
            host: &mut self.host,
            time,
            stack: None,
        };
        ask(&mut self.generated_code, &mut asker)
    }

    /// The offsets of the slots that the return address may lie in.
    fn exits(&mut self, pc: u64, time: u64) -> Vec<(u8, i64)> {
        let exits = self.ask(time, |generated_code, asker| {
            generated_code.exits(ProcessAddress(pc), asker)
        });
        exits
            .iter()
            .map(|exit| (exit.register, exit.offset))
            .collect()
    }
}

/// Code is known at samples between two looks that found it the same, and at no others; one that
/// changed is not, nor is one of which nothing is answered.
#[test]
fn between_two_looks() {
    let mut bench = Bench::new();
    bench.looks(100, Some(&CODE));
    assert_eq!(bench.exits(BEHIND, 50), []);
    bench.looks(200, None);
    assert_eq!(bench.exits(BEHIND, 150), [(4, 8)]);
    // From what was found before.
    assert_eq!(bench.exits(BEHIND, 160), [(4, 8)]);
    assert_eq!(bench.exits(BEHIND, 101), []);
    let mut other = CODE;
    other[6] = 0x90;
    bench.looks(300, Some(&other));
    assert_eq!(bench.exits(BEHIND, 250), []);
    assert_eq!(bench.exits(BEHIND, 350), []);
}

/// Code that gave way to other code is not trusted for a while, which is longer each time. Where
/// code came to where nothing was, it is trusted from then on.
#[test]
fn changing_code() {
    let mut bench = Bench::new();
    bench.looks(100, Some(&[]));
    bench.looks(200, Some(&CODE));
    bench.looks(300, None);
    assert_eq!(bench.exits(BEHIND, 150), []);
    assert_eq!(bench.exits(BEHIND, 250), [(4, 8)]);
    let other = CODE.map(|byte| byte ^ 1);
    bench.looks(400, Some(&other));
    bench.looks(500, Some(&CODE));
    let later = 600 + 2 * DISTRUST;
    bench.looks(later, None);
    bench.looks(1 << 62, None);
    assert_eq!(bench.exits(BEHIND, 350), []);
    assert_eq!(bench.exits(BEHIND, 450), []);
    assert_eq!(bench.exits(BEHIND, later - 1), []);
    assert_eq!(bench.exits(BEHIND, 3 * later), [(4, 8)]);
}

/// A page in which an interrupt met other code between the looks is not trusted.
#[test]
fn other_code_at_an_interrupt() {
    let mut bench = Bench::new();
    bench.looks(100, Some(&CODE));
    bench.looks(300, None);
    bench.exits(BEHIND, 50);
    assert_eq!(bench.exits(BEHIND, 200), [(4, 8)]);
    let id = bench
        .maps
        .find(ProcessAddress(0x1000))
        .expect("mapped")
        .image;
    for (time, code) in [(210, 0x90), (220, 0x91)] {
        let page = ProcessAddress(0x1100);
        bench.images.observe(id, page, time, &[code]);
    }
    assert_eq!(bench.exits(BEHIND, 200), []);
}

/// A call within the code leads to what lies behind its target; other mappings tell nothing, and
/// what is mapped anew is forgotten.
#[test]
fn leads_and_mappings() {
    let mut bench = Bench::new();
    bench.looks(100, Some(&CODE));
    bench.looks(300, None);
    bench.exits(BEHIND, 50);
    let leads = |bench: &mut Bench, target| {
        bench.ask(200, |generated_code, asker| {
            let behind = Some(ProcessAddress(BEHIND));
            generated_code.leads(ProcessAddress(target), behind, asker)
        })
    };
    assert_eq!(leads(&mut bench, 0x1000), Leads::Nowhere);
    assert!(matches!(leads(&mut bench, BEHIND), Leads::There(_)));
    assert_eq!(leads(&mut bench, 0x9000), Leads::Perhaps);
    let mut bytes = [0; 4];
    let read = |generated_code: &mut GeneratedCode, asker: &mut Asker<'_>| {
        generated_code.read(ProcessAddress(0x1000), &mut bytes, asker)
    };
    assert_eq!(bench.ask(200, read), 4);
    assert_eq!(bytes, CODE[..4]);
    assert!(bench.generated_code.bytes() > PAGE_BYTES);
    bench
        .generated_code
        .forget(ProcessRange::of_words(0x2000, 0x3000));
    assert_eq!(bench.exits(BEHIND, 200), [(4, 8)]);
    bench
        .generated_code
        .forget(ProcessRange::of_words(0x1000, 0x2000));
    assert_eq!(bench.exits(BEHIND, 200), []);
}

/// What the handler was told counts if it was one exit all the time. There is room for so many
/// pages and answers; who drops them gives it back.
#[test]
fn told_rows_and_room() {
    let mut bench = Bench::new();
    let exit = |offset| Exit {
        register: 4,
        offset,
        rbp: flow::Symbol::Unknown,
    };
    let pc = ProcessAddress(1);
    assert!(bench.generated_code.tell(pc, &exit(8)) && bench.generated_code.tell(pc, &exit(8)));
    assert!(
        bench.generated_code.was_told(pc, &exit(8))
            && !bench.generated_code.was_told(pc, &exit(16))
    );
    assert!(
        !bench.generated_code.tell(pc, &exit(16)) && !bench.generated_code.was_told(pc, &exit(16))
    );
    let rooms = bench.generated_code.rooms.clone();
    for pc in 0..2 * MAX_ANSWERS as u64 {
        bench.generated_code.tell(ProcessAddress(pc), &exit(8));
    }
    bench.looks(100, Some(&CODE));
    bench.exits(BEHIND, 50);
    assert!(rooms.answers.taken() <= MAX_ANSWERS && rooms.pages.taken() == 1);
    drop(bench);
    assert_eq!((rooms.answers.taken(), rooms.pages.taken()), (0, 0));
}

/// Of this very process, pages are read, and read again as the same.
#[test]
fn own_memory() {
    let pid = Pid(std::process::id());
    let local = 0_u64;
    let page = own_memory as *const () as u64 & !(PAGE - 1);
    let rooms = GeneratedCodeRooms::new();
    let mut memory = OpenMemory::NotOpened(0);
    assert_eq!(memory.look(page, None, pid, None, &rooms), None);
    assert_eq!(memory.look(page, None, pid, Some(0x1000), &rooms), None);
    let stack = Some(&raw const local as u64);
    let seen = memory.look(page, None, pid, stack, &rooms).expect("a look");
    let bytes = seen.bytes.expect("bytes");
    let known = <&[u8; PAGE_BYTES]>::try_from(bytes.as_slice()).expect("a page");
    let again = memory.look(page, Some(known), pid, None, &rooms);
    assert!(again.is_some_and(|again| again.bytes.is_none() && again.before >= seen.behind));
    assert_eq!(memory.look(0, None, pid, None, &rooms), None);
    assert_eq!(rooms.files.taken(), 1);
}
