//! The handler's C code outside of the kernel: its evaluation of plans against the interpreter's,
//! and that neither hostile plans nor hostile stacks make it read what it may not.
//!
//! The code is compiled with a frame of its own (`host.c`), under the address and the
//! undefined-behaviour sanitizer, and asked through pipes.

mod host;
mod origin;
mod vectors;
mod ways;

use std::cell::Cell;

use interpreter::{Evaluated, MAX_STEPS, Plan, Snapshot, Sources};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use host::{Case, Host, Outcome, Row, is_written, read_made_up};

/// Cases of each property.
const CASES: u32 = 20_000;

fn config() -> Config {
    Config {
        cases: CASES,
        // A counterexample is printed whole; the folder of the test stays clean.
        failure_persistence: None,
        ..Config::default()
    }
}

/// Addresses of all kinds: near some data, null, around the end of user memory, not canonical, the
/// kernel's, at the very end.
fn address() -> impl Strategy<Value = u64> {
    prop_oneof![
        6 => 0x5555_0000_0000_u64..0x5555_0001_0000,
        1 => 0_u64..0x2000,
        1 => 0x7fff_ffff_f000_u64..0x8000_0000_1000,
        1 => 0x00ff_ffff_ffff_f000_u64..0x0100_0000_0000_1000,
        1 => 0xffff_8880_0000_0000_u64..0xffff_8880_0001_0000,
        1 => (u64::MAX - 0x1000)..=u64::MAX,
        1 => any::<u64>(),
    ]
}

/// Bytes of a step that crate interpreter would write.
fn valid_step(index: u8) -> impl Strategy<Value = [u8; 16]> {
    let source = move || (0..20 + index).prop_map(|i| if i < 20 { i } else { i + 12 });
    let part = || prop::sample::select(vec![0_u8, 0, 0, 1, 2, 4, 0x81, 0x82, 0x84]);
    let displacement = prop_oneof![2 => 0_u64..0x100, 1 => Just(0), 1 => address()];
    let size = prop_oneof![1 => Just(0_u8), 2 => 1_u8..=64, 2 => Just(8)];
    let head = (displacement, source(), part(), source(), part());
    (head, 0_u8..64, size, part(), 0_u8..8).prop_map(
        |((displacement, base, base_part, index, index_part), scale, size, keep, operation)| {
            let operation = if size > 0 { 0 } else { operation };
            // Mostly the scales of addresses.
            let scale = if scale < 48 { scale & 3 } else { scale };
            let mut bytes = [0; 16];
            bytes[..8].copy_from_slice(&displacement.to_le_bytes());
            bytes[8..].copy_from_slice(&[
                base, base_part, index, index_part, scale, size, keep, operation,
            ]);
            bytes
        },
    )
}

/// A plan as crate interpreter writes it.
fn valid_plan() -> impl Strategy<Value = [u8; Plan::BYTES]> {
    let steps: Vec<_> = (0..MAX_STEPS as u8).map(valid_step).collect();
    (0..=MAX_STEPS, steps).prop_map(|(count, steps)| {
        let used = &steps[..count];
        let mut bytes = [0; Plan::BYTES];
        let total: u16 = used.iter().map(|step| u16::from(step[13])).sum();
        let uses = |source: u8| {
            used.iter()
                .any(|step| step[8] == source || step[10] == source)
        };
        let needs = u8::from(uses(17)) | u8::from(uses(18)) << 1;
        bytes[..2].copy_from_slice(&1_u16.to_le_bytes());
        bytes[2] = count as u8;
        bytes[3] = needs;
        bytes[4..6].copy_from_slice(&total.to_le_bytes());
        for (place, step) in bytes[8..].chunks_exact_mut(16).zip(used) {
            place.copy_from_slice(step);
        }
        // Unused steps have no base and no index.
        for place in bytes[8..].chunks_exact_mut(16).skip(count) {
            place[8] = 19;
            place[10] = 19;
        }
        bytes
    })
}

/// Registers, bias and bases: addresses more often than not.
fn sources() -> impl Strategy<Value = Sources> {
    let base = || prop::option::of(address());
    (prop::array::uniform16(address()), address(), base(), base()).prop_map(
        |(gpr, bias, fs_base, gs_base)| Sources {
            gpr,
            bias,
            fs_base,
            gs_base,
        },
    )
}

/// No read but of user memory: that is what a process's plan and stack can never get around.
fn only_user_memory(reads: &[host::Read]) -> Result<(), TestCaseError> {
    for read in reads {
        let last = read.address.checked_add(u64::from(read.size) - 1);
        prop_assert!(
            !read.kernel && read.address >> 56 == 0 && last.is_some_and(|last| last >> 56 == 0),
            "{read:x?}"
        );
    }
    Ok(())
}

/// Every plan that crate interpreter can write is evaluated as crate interpreter does it: the same
/// pieces, the same end at the same step.
#[test]
fn plans_are_evaluated_as_the_interpreter_does() {
    let host = Host::start().unwrap();
    let ends = [const { Cell::new(0_u32) }; 4];
    TestRunner::new(config())
        .run(
            &(valid_plan(), sources(), any::<u64>()),
            |(bytes, sources, salt)| {
                let plan =
                    Plan::from_bytes(&bytes).map_err(|e| TestCaseError::fail(e.to_string()))?;
                let mut snapshot = Snapshot::default();
                let mut read = |address: u64, into: &mut [u8]| {
                    let end = address.saturating_add(into.len() as u64 - 1);
                    address >> 56 == 0 && end >> 56 == 0 && read_made_up(salt, address, into)
                };
                let evaluated = interpreter::evaluate(&plan, &sources, &mut read, &mut snapshot);
                let got = host
                    .ask(&Case::plan(salt, false, &sources, &bytes))
                    .unwrap();
                only_user_memory(&got.reads)?;
                let (expected, index) = match evaluated {
                    Evaluated::Done => (vec![Outcome::COMPLETE], 0),
                    Evaluated::NoSegmentBase => (vec![Outcome::NO_SEGMENT_BASE], 0),
                    Evaluated::Unreadable(step) => {
                        (vec![Outcome::UNREADABLE, Outcome::FORBIDDEN], step)
                    }
                    Evaluated::Full(step) => (vec![Outcome::FULL], step),
                };
                prop_assert!(expected.contains(&got.outcome), "{evaluated:?}: {got:?}");
                prop_assert_eq!(got.step as usize, index);
                let pieces: Vec<(u64, Vec<u8>)> = snapshot
                    .pieces()
                    .map(|(at, piece)| (at, piece.to_vec()))
                    .collect();
                prop_assert_eq!(got.pieces(), pieces);
                match evaluated {
                    Evaluated::Done => ends[0].update(|n| n + 1),
                    Evaluated::NoSegmentBase => ends[1].update(|n| n + 1),
                    Evaluated::Unreadable(_) => ends[2].update(|n| n + 1),
                    Evaluated::Full(_) => ends[3].update(|n| n + 1),
                }
                Ok(())
            },
        )
        .unwrap();
    // The cases are no test of what they never come to; full snapshots are rare.
    assert!(
        ends[..3].iter().all(|count| count.get() > CASES / 100),
        "{ends:?}"
    );
}

/// The second look reads the same again, and tells exactly the words that were written meanwhile.
#[test]
fn what_is_written_meanwhile_is_told() {
    let host = Host::start().unwrap();
    let changed = [const { Cell::new(0_usize) }; 2];
    TestRunner::new(config())
        .run(
            &(valid_plan(), sources(), any::<u64>()),
            |(bytes, sources, salt)| {
                let once = host
                    .ask(&Case::plan(salt, false, &sources, &bytes))
                    .unwrap();
                let got = host.ask(&Case::plan_again(salt, &sources, &bytes)).unwrap();
                only_user_memory(&got.reads)?;
                prop_assert_eq!((got.outcome, got.step), (once.outcome, once.step));
                prop_assert_eq!(&got.tail, &once.tail);
                let pieces = got.pieces();
                let again = got.reads[once.reads.len()..].iter();
                prop_assert!(
                    again
                        .map(|read| read.address)
                        .eq(pieces.iter().map(|at| at.0))
                );
                let words = |address: u64, bytes: &[u8]| {
                    let written =
                        (0..bytes.len()).filter(|at| is_written(salt, address + *at as u64));
                    written.fold(0, |words, at| words | 1_u16 << (at / 8))
                };
                let told = pieces.iter().map(|(address, bytes)| words(*address, bytes));
                let told = told.enumerate().filter(|(_, words)| *words != 0);
                prop_assert_eq!(&got.changes, &told.collect::<Vec<_>>());
                changed[0].update(|n| n + got.changes.len());
                changed[1].update(|n| n + pieces.len());
                Ok(())
            },
        )
        .unwrap();
    let [changed, all] = changed.map(Cell::into_inner);
    assert!(changed > all / 10 && changed < all, "{changed} of {all}");
}

/// Whatever the bytes of a plan are, it ends, reads user memory only, leaves no more than a record
/// has room for, and what the interpreter would not take ends as malformed or before.
#[test]
fn hostile_plans_read_user_memory_only() {
    let host = Host::start().unwrap();
    // Some bytes of a good plan are anything.
    let damage = prop::collection::vec((0..Plan::BYTES, any::<u8>()), 1..40);
    TestRunner::new(config())
        .run(
            &(valid_plan(), damage, sources(), any::<u64>()),
            |(mut bytes, damage, sources, salt)| {
                for (place, byte) in damage {
                    bytes[place] = byte;
                }
                let got = host
                    .ask(&Case::plan(salt, false, &sources, &bytes))
                    .unwrap();
                only_user_memory(&got.reads)?;
                prop_assert!(got.reads.len() <= MAX_STEPS && got.tail.len() <= 1024);
                let total: usize = got.pieces().iter().map(|(_, piece)| piece.len()).sum();
                prop_assert!(total <= 1024 && got.step < 32);
                Ok(())
            },
        )
        .unwrap();
}

/// A plan for the kernel's code reads in the ranges that it is allowed, and nothing of a process.
#[test]
fn kernel_plans_stay_where_they_are_allowed() {
    let host = Host::start().unwrap();
    let read = Cell::new(0);
    // Mostly within the range, or at its ends.
    let near = 0xffff_8880_0000_0000_u64..0xffff_8880_0001_0000;
    let kernel_sources = (sources(), prop::array::uniform12(near)).prop_map(|(mut of, near)| {
        of.gpr[..12].copy_from_slice(&near);
        (of.fs_base, of.gs_base) = (Some(0), Some(0));
        of
    });
    TestRunner::new(config())
        .run(
            &(valid_plan(), kernel_sources, any::<u64>()),
            |(bytes, sources, salt)| {
                let got = host.ask(&Case::plan(salt, true, &sources, &bytes)).unwrap();
                for one in &got.reads {
                    let end = one.address.checked_add(u64::from(one.size));
                    prop_assert!(
                        one.kernel
                            && one.address >= host::KERNEL.start
                            && end.is_some_and(|end| end <= host::KERNEL.end),
                        "{one:x?}"
                    );
                }
                read.update(|n| n + got.reads.len() as u32);
                Ok(())
            },
        )
        .unwrap();
    assert!(read.get() > CASES / 10, "only {read:?} reads");
}

/// A plan whose step uses its own result, or a later one's, never sees what an earlier sample left.
#[test]
fn no_step_sees_what_comes_later() {
    let host = Host::start().unwrap();
    let sources = Sources {
        gpr: [0x5555_0000_0000; 16],
        bias: 0,
        fs_base: None,
        gs_base: None,
    };
    for source in 32..=255_u8 {
        let mut bytes = [0; Plan::BYTES];
        bytes[..3].copy_from_slice(&[1, 0, 1]);
        bytes[8 + 8] = source;
        bytes[8 + 10] = 19;
        let got = host.ask(&Case::plan(0, false, &sources, &bytes)).unwrap();
        assert_eq!((got.outcome, got.step), (Outcome::MALFORMED, 0), "{source}");
    }
}

/// Whatever stack and rows are, a walk ends, goes outward only, reads user memory only, and gives no
/// more frames than it was asked for.
#[test]
fn hostile_stacks_read_user_memory_only() {
    let host = Host::start().unwrap();
    let row = (0_u8..4, any::<u8>(), 0_u8..4, any::<i32>(), any::<i32>()).prop_map(
        |(kind, register, rbp, cfa_offset, rbp_offset)| Row {
            kind,
            register: if register < 128 {
                4 + (register & 1)
            } else {
                register
            },
            rbp,
            // Mostly of the size that frames have.
            cfa_offset: if register & 2 == 0 {
                cfa_offset & 0xff8
            } else {
                cfa_offset
            },
            rbp_offset: if register & 4 == 0 { -16 } else { rbp_offset },
        },
    );
    let rows = prop::collection::vec(row, 16);
    let registers = (prop::array::uniform20(address()), 0_u64..64).prop_map(|(mut all, near)| {
        // Mostly a stack of user code, and a frame pointer into it.
        if near > 8 {
            (all[4], all[5]) = (0x5555_0000_0000, 0x5555_0000_0000 + 8 * near);
        }
        all
    });
    let frames_seen = Cell::new(0);
    TestRunner::new(config())
        .run(
            &(registers, rows, 0_u32..65, any::<u64>()),
            |(registers, rows, frames, salt)| {
                let case = Case::walk(salt, &registers, &rows, frames);
                let got = host.ask(&case).unwrap();
                only_user_memory(&got.reads)?;
                prop_assert!(got.step <= frames && got.tail.len() == got.step as usize);
                let mut last = registers[4];
                // The return address of each frame was read above that of the one before.
                for read in got.reads.iter().filter(|read| read.size == 16) {
                    prop_assert!(read.address.wrapping_add(16) > last);
                    last = read.address.wrapping_add(8);
                }
                frames_seen.update(|n| n + got.step);
                Ok(())
            },
        )
        .unwrap();
    assert!(frames_seen.get() > CASES / 10, "only {frames_seen:?}");
}
