use proptest::prelude::*;

use super::*;

fn record(bytes: &[u8]) -> Result<Decoded, Error> {
    super::record(bytes, &mut Paths::default())
}

/// Builds records as the kernel lays them out.
#[derive(Clone, Default)]
struct Bytes(Vec<u8>);

impl Bytes {
    fn u32(mut self, value: u32) -> Self {
        self.0.extend(value.to_ne_bytes());
        self
    }

    fn u64(mut self, value: u64) -> Self {
        self.0.extend(value.to_ne_bytes());
        self
    }

    fn raw(mut self, bytes: &[u8]) -> Self {
        self.0.extend(bytes);
        self
    }

    /// Text with at least one zero, padded to 8 bytes.
    fn text(mut self, text: &str) -> Self {
        self.0.extend(text.as_bytes());
        self.0.push(0);
        self.0.resize(self.0.len().next_multiple_of(8), 0);
        self
    }

    /// Thread 11 of process 10, time 5000, stream 77, CPU 3, shared id 70.
    fn trailer(self) -> Self {
        self.u32(10).u32(11).u64(5000).u64(77).u32(3).u32(0).u64(70)
    }

    fn record(self, kind: u32, misc: u32) -> Vec<u8> {
        let size = u16::try_from(self.0.len() + HEADER).unwrap();
        let mut bytes = kind.to_ne_bytes().to_vec();
        bytes.extend(u16::try_from(misc).unwrap().to_ne_bytes());
        bytes.extend(size.to_ne_bytes());
        bytes.extend(self.0);
        bytes
    }
}

/// Registers in the kernel's order, each with its own value.
fn registers(bytes: Bytes, abi: u64, base: u64) -> Bytes {
    (0..REGISTER_COUNT as u64).fold(bytes.u64(abi), |bytes, index| bytes.u64(base + index))
}

/// What `registers` is decoded to.
fn decoded_registers(base: u64) -> Registers {
    // The kernel's order: ax bx cx dx si di bp sp ip flags cs ss r8 ... r15.
    let gpr = [0, 2, 3, 1, 7, 6, 4, 5, 12, 13, 14, 15, 16, 17, 18, 19].map(|index| base + index);
    Registers {
        gpr,
        ip: base + 8,
        flags: base + 9,
        cs: base + 10,
        ss: base + 11,
    }
}

fn sample_start() -> Bytes {
    Bytes::default()
        .u64(70)
        .u64(0x401000)
        .u32(10)
        .u32(11)
        .u64(5000)
        .u64(77)
        .u32(3)
        .u32(0)
        .u64(900)
}

fn stack(bytes: Bytes, held: &[u8], copied: u64) -> Bytes {
    bytes.u64(held.len() as u64).raw(held).u64(copied)
}

fn full_sample(misc: u32, user_abi: u64, interrupted_abi: u64) -> Vec<u8> {
    let bytes = registers(sample_start(), user_abi, 100);
    let bytes = stack(bytes, &[1, 2, 3, 4, 5, 6, 7, 8], 6);
    registers(bytes, interrupted_abi, 200).record(b::PERF_RECORD_SAMPLE, misc)
}

fn sample_of(bytes: &[u8]) -> RawSample {
    match record(bytes).unwrap() {
        Decoded {
            record: Record::Sample(sample),
            stream: 77,
        } => *sample,
        other => panic!("{other:?}"),
    }
}

/// Every field of a sample comes from its place, registers in the order of instruction encodings,
/// and the stack ends with what was really copied.
#[test]
fn sample_fields() {
    let sample = sample_of(&full_sample(b::PERF_RECORD_MISC_USER, 2, 2));
    let expected = RawSample {
        time: 5000,
        cpu: 3,
        pid: Pid(10),
        tid: Tid(11),
        period: 900,
        ip: ProcessAddress(0x401000),
        mode: Mode::User,
        interrupted: Some(decoded_registers(200)),
        user: UserRegisters::Long(decoded_registers(100)),
        stack: Box::from([1, 2, 3, 4, 5, 6]),
        capture: None,
    };
    assert_eq!(sample, expected);
}

/// The registers of 32-bit code are not taken, those of the kernel beneath it are.
#[test]
fn compat_registers() {
    let sample = sample_of(&full_sample(b::PERF_RECORD_MISC_USER, 1, 1));
    assert_eq!(
        (sample.user, sample.interrupted),
        (UserRegisters::Compat, None)
    );
    let sample = sample_of(&full_sample(b::PERF_RECORD_MISC_KERNEL, 1, 1));
    assert_eq!(sample.user, UserRegisters::Compat);
    assert_eq!(sample.interrupted, Some(decoded_registers(200)));
}

/// A kernel thread has neither user registers nor a user stack.
#[test]
fn kernel_thread() {
    let bytes = registers(sample_start().u64(0).u64(0), 1, 200);
    let sample = sample_of(&bytes.record(b::PERF_RECORD_SAMPLE, b::PERF_RECORD_MISC_KERNEL));
    assert_eq!(sample.user, UserRegisters::None);
    assert!(sample.stack.is_empty());
    assert_eq!(sample.interrupted, Some(decoded_registers(200)));
}

/// Each mode the kernel names is told apart, and another one is unknown.
#[test]
fn modes() {
    let modes = [
        Mode::Unknown,
        Mode::Kernel,
        Mode::User,
        Mode::Hypervisor,
        Mode::GuestKernel,
        Mode::GuestUser,
        Mode::Unknown,
        Mode::Unknown,
    ];
    for (misc, mode) in (0..).zip(modes) {
        assert_eq!(sample_of(&full_sample(misc, 2, 2)).mode, mode);
        // Other flags do not matter.
        let misc = misc | b::PERF_RECORD_MISC_EXACT_IP;
        assert_eq!(sample_of(&full_sample(misc, 2, 2)).mode, mode);
    }
}

/// A stack copy that claims more than its room is malformed, not read beyond.
#[test]
fn stack_beyond_its_room() {
    for copied in [9, u64::MAX] {
        let bytes = stack(sample_start().u64(0), &[0; 8], copied).u64(0);
        let error = record(&bytes.record(b::PERF_RECORD_SAMPLE, 0)).unwrap_err();
        assert_eq!(error, Error::Stack { copied, room: 8 });
    }
}

fn mmap_start() -> Bytes {
    Bytes::default()
        .u32(20)
        .u32(21)
        .u64(0x7000)
        .u64(0x3000)
        .u64(0x1000)
}

fn mmap_of(bytes: &[u8]) -> Mmap {
    match record(bytes).unwrap().record {
        Record::Mmap(mmap) => *mmap,
        other => panic!("{other:?}"),
    }
}

/// A mapping is identified by device and inode, also where it is marked as if it had a build id.
#[test]
fn mmap_identities() {
    let prot = (libc::PROT_READ | libc::PROT_EXEC).cast_unsigned();
    let flags = libc::MAP_PRIVATE.cast_unsigned();
    let of_inode = |misc| {
        let bytes = mmap_start()
            .u32(8)
            .u32(1)
            .u64(1234)
            .u64(5)
            .u32(prot)
            .u32(flags)
            .text("/usr/bin/x");
        mmap_of(&bytes.trailer().record(b::PERF_RECORD_MMAP2, misc))
    };
    let mmap = of_inode(2);
    assert_eq!((mmap.time, mmap.pid, mmap.tid), (5000, Pid(20), Tid(21)));
    assert_eq!(
        (mmap.address, mmap.len, mmap.offset),
        (0x7000, 0x3000, 0x1000)
    );
    let inode = MmapIdentity::Inode {
        major: 8,
        minor: 1,
        inode: 1234,
        generation: 5,
    };
    assert_eq!(mmap.identity, inode);
    assert_eq!(&*mmap.path, std::path::Path::new("/usr/bin/x"));
    assert!(mmap.executable() && !mmap.writable() && !mmap.shared());

    // Another event's build id was asked for, which marks this record too.
    assert_eq!(of_inode(b::PERF_RECORD_MISC_MMAP_BUILD_ID), mmap);
}

/// The small records come out with their fields; their time is that of the trailer, or their own
/// where they have one. Without fields they are malformed.
#[test]
fn small_records() {
    let ids = Bytes::default().u32(20).u32(1).u32(21).u32(2).u64(4999);
    let (pid, ppid, tid, ptid) = (Pid(20), Pid(1), Tid(21), Tid(2));
    let comm = Bytes::default().u32(20).u32(21).text("worker");
    let throttle = Bytes::default().u64(4998).u64(70).u64(77);
    let lost = Bytes::default().u64(70).u64(42);
    let cases = [
        (
            b::PERF_RECORD_FORK,
            0,
            ids.clone(),
            Record::Fork {
                time: 4999,
                pid,
                ppid,
                tid,
                ptid,
            },
        ),
        (
            b::PERF_RECORD_EXIT,
            0,
            ids,
            Record::Exit {
                time: 4999,
                pid,
                ppid,
                tid,
                ptid,
            },
        ),
        (
            b::PERF_RECORD_COMM,
            b::PERF_RECORD_MISC_COMM_EXEC,
            comm.clone(),
            Record::Comm {
                time: 5000,
                pid,
                tid,
                name: "worker".into(),
                exec: true,
            },
        ),
        (
            b::PERF_RECORD_COMM,
            0,
            comm,
            Record::Comm {
                time: 5000,
                pid,
                tid,
                name: "worker".into(),
                exec: false,
            },
        ),
        (
            b::PERF_RECORD_THROTTLE,
            0,
            throttle.clone(),
            Record::Throttle { time: 4998 },
        ),
        (
            b::PERF_RECORD_UNTHROTTLE,
            0,
            throttle,
            Record::Unthrottle { time: 4998 },
        ),
        (
            b::PERF_RECORD_LOST,
            0,
            lost,
            Record::Lost {
                time: 5000,
                count: 42,
            },
        ),
        (
            b::PERF_RECORD_LOST_SAMPLES,
            0,
            Bytes::default().u64(42),
            Record::LostSamples {
                time: 5000,
                count: 42,
            },
        ),
    ];
    for (kind, misc, body, expected) in cases {
        let bytes = body.trailer().record(kind, misc);
        assert_eq!(
            record(&bytes),
            Ok(Decoded {
                record: expected.clone(),
                stream: 77
            })
        );
        assert_eq!(
            record(&Bytes::default().trailer().record(kind, misc)),
            Err(Error::Truncated)
        );
        assert!(expected.time() >= 4998);
    }
}

/// A kind that was not asked for, and a header that lies about the size, are errors.
#[test]
fn strange_headers() {
    let bytes = Bytes::default().trailer().record(4711, 0);
    assert_eq!(record(&bytes), Err(Error::Kind(4711)));
    assert_eq!(
        record(&bytes[..bytes.len() - 8]),
        Err(Error::Size {
            stated: bytes.len(),
            actual: bytes.len() - 8
        })
    );
    assert_eq!(record(&[]), Err(Error::Truncated));
}

fn pieces(first: &[u8], second: &[u8]) -> (Vec<Vec<u8>>, usize) {
    let mut records = Vec::new();
    let left = split(first, second, &mut Vec::new(), |record| {
        records.push(record.to_vec())
    });
    (records, left)
}

/// Wherever the ring's end cuts the contents, the same records come out.
#[test]
fn wrapping() {
    let records = vec![
        full_sample(b::PERF_RECORD_MISC_USER, 2, 2),
        Bytes::default()
            .u64(1)
            .trailer()
            .record(b::PERF_RECORD_LOST_SAMPLES, 0),
        full_sample(b::PERF_RECORD_MISC_KERNEL, 1, 2),
    ];
    let all = records.concat();
    for cut in 0..=all.len() {
        let (first, second) = all.split_at(cut);
        assert_eq!(pieces(first, second), (records.clone(), 0), "cut at {cut}");
    }
}

/// A header whose size makes no sense ends the cutting, and what is left is told.
#[test]
fn nonsense_sizes() {
    let good = Bytes::default().trailer().record(1, 0);
    for size in [0_u16, 7, 4000] {
        let mut bad = good.clone();
        bad[6..8].copy_from_slice(&size.to_ne_bytes());
        let all = [good.clone(), bad.clone()].concat();
        assert_eq!(pieces(&all, &[]), (vec![good.clone()], bad.len()));
    }
    assert_eq!(pieces(&[], &[]), (vec![], 0));
    assert_eq!(pieces(&[0; 3], &[]), (vec![], 3));
    assert_eq!(pieces(&[0; 3], &[0; 2]), (vec![], 5));
}

proptest! {
    /// No bytes make the decoder panic, whatever kind of record their header claims.
    #[test]
    fn hostile_bytes(
        kind in 0_u32..24,
        misc in any::<u16>(),
        body in proptest::collection::vec(any::<u8>(), 0..600),
    ) {
        let _ = record(&Bytes(body).record(kind, u32::from(misc)));
    }

    /// A sample with any bytes overwritten is decoded or refused.
    #[test]
    fn damaged_samples(
        at in 0_usize..400,
        damage in proptest::collection::vec(any::<u8>(), 1..16),
        len in 0_usize..500,
    ) {
        let mut bytes = full_sample(b::PERF_RECORD_MISC_USER, 2, 2);
        for (byte, value) in bytes.iter_mut().skip(at).zip(damage) {
            *byte = value;
        }
        bytes.truncate(len);
        let _ = record(&bytes);
    }

    /// Cutting never panics, keeps the order, and accounts for every byte, wherever the ring wraps.
    #[test]
    fn splitting_accounts_for_every_byte(
        bytes in proptest::collection::vec(0_u8..40, 0..300),
        cut in any::<prop::sample::Index>(),
    ) {
        let at = cut.index(bytes.len() + 1);
        let (first, second) = bytes.split_at(at);
        let (records, left) = pieces(first, second);
        let cut: Vec<u8> = records.concat();
        prop_assert_eq!(cut.len() + left, bytes.len());
        prop_assert_eq!(&cut[..], &bytes[..cut.len()]);
    }
}
