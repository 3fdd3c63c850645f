//! The handler's C code outside of the kernel: that it follows code as the interpreter does, and
//! that neither hostile code nor hostile stacks make it read what it may not.
//!
//! The code is compiled with a frame of its own (`host.c`), under the address and the
//! undefined-behaviour sanitizer, and asked through pipes.

mod abi;
mod host;
mod origin;
mod vectors;
mod ways;

use std::cell::Cell;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use abi::{OneRead, Row};
use host::{Case, Host, MOST_ADDRESSES, is_written, read_made_up};

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

/// No read but of user memory: that is what a process's code and stack can never get around.
fn only_user_memory(reads: &[OneRead]) -> Result<(), TestCaseError> {
    for read in reads {
        let last = read.address.checked_add(u64::from(read.size) - 1);
        prop_assert!(
            read.kernel == 0 && read.address >> 56 == 0 && last.is_some_and(|last| last >> 56 == 0),
            "{read:x?}"
        );
    }
    Ok(())
}

/// Whether an address can be one of memory.
fn is_somewhere(address: u64) -> bool {
    address >= 0x1000 && matches!(address.cast_signed() >> 56, 0 | -1)
}

/// Lines of a process are read whole, once, in order, and of user memory alone. The second look
/// reads the same again, and tells exactly the words that were written meanwhile.
#[test]
fn what_is_written_meanwhile_is_told() {
    let host = Host::start().unwrap();
    let changed = [const { Cell::new(0_usize) }; 2];
    let addresses = prop::collection::vec(address(), 0..=MOST_ADDRESSES);
    TestRunner::new(config())
        .run(&(addresses, any::<u64>()), |(addresses, salt)| {
            let once = host
                .ask(&Case::lines(salt, false, &addresses, false))
                .unwrap();
            let got = host
                .ask(&Case::lines(salt, false, &addresses, true))
                .unwrap();
            only_user_memory(&got.reads)?;
            prop_assert_eq!((got.failures, got.count), (once.failures, once.count));
            prop_assert_eq!(&got.tail, &once.tail);
            let mut expected: Vec<(u64, Vec<u8>)> = Vec::new();
            for address in &addresses {
                let mut line = vec![0; 64];
                let start = address & !63;
                let is_there = is_somewhere(*address)
                    && start >> 56 == 0
                    && read_made_up(salt, start, &mut line);
                if is_there && expected.iter().all(|held| held.0 != start) {
                    expected.push((start, line));
                }
            }
            let pieces = got.pieces();
            // Two lines may want the same place: then one of them is read again.
            let mut seen = Vec::new();
            for piece in &pieces {
                if !seen.contains(piece) {
                    seen.push(piece.clone());
                }
            }
            prop_assert_eq!(&seen, &expected);
            let again = got.reads[once.reads.len()..].iter();
            prop_assert!(
                again
                    .map(|read| read.address)
                    .eq(pieces.iter().map(|at| at.0))
            );
            let words = |address: u64, bytes: &[u8]| {
                let written = (0..bytes.len()).filter(|at| is_written(salt, address + *at as u64));
                written.fold(0, |words, at| words | 1_u16 << (at / 8))
            };
            let told = pieces.iter().map(|(address, bytes)| words(*address, bytes));
            let told = told.enumerate().filter(|(_, words)| *words != 0);
            prop_assert_eq!(&got.changes, &told.collect::<Vec<_>>());
            changed[0].update(|n| n + got.changes.len());
            changed[1].update(|n| n + pieces.len());
            Ok(())
        })
        .unwrap();
    let [changed, all] = changed.map(Cell::into_inner);
    assert!(changed > all / 10 && changed < all, "{changed} of {all}");
}

/// On a way through the kernel's code lines are read in the ranges that are allowed, and nothing of
/// a process.
#[test]
fn the_kernels_lines_lie_where_they_are_allowed() {
    let host = Host::start().unwrap();
    let read = Cell::new(0);
    // Mostly within the range, or at its ends.
    let near = 0xffff_8880_0000_0000_u64..0xffff_8880_0001_0000;
    let near = prop_oneof![3 => near, 1 => address()];
    let addresses = prop::collection::vec(near, 0..=MOST_ADDRESSES);
    TestRunner::new(config())
        .run(&(addresses, any::<u64>()), |(addresses, salt)| {
            let case = Case::lines(salt, true, &addresses, false);
            let got = host.ask(&case).unwrap();
            for one in &got.reads {
                let end = one.address.checked_add(u64::from(one.size));
                prop_assert!(
                    one.kernel != 0
                        && one.address >= host::KERNEL.start
                        && end.is_some_and(|end| end <= host::KERNEL.end),
                    "{one:x?}"
                );
            }
            read.update(|n| n + got.reads.len() as u32);
            Ok(())
        })
        .unwrap();
    assert!(read.get() > CASES / 10, "only {read:?} reads");
}

/// Whatever stack and rows are, a walk ends, goes outward only, reads user memory only, and gives
/// no more frames than it was asked for.
#[test]
fn hostile_stacks_read_user_memory_only() {
    let host = Host::start().unwrap();
    let row = (0_u8..4, any::<u8>(), 0_u8..4, any::<i32>(), any::<i32>()).prop_map(
        |(kind, register, rbp, cfa_offset, rbp_offset)| Row {
            kind,
            cfa_register: if register < 128 {
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
            ..Row::default()
        },
    );
    let rows = prop::collection::vec(row, 16);
    let registers = (prop::array::uniform20(address()), 0_u64..64).prop_map(|(mut all, near)| {
        // Mostly a stack of user code, and a frame pointer into it. Some at either end of what can
        // be a process's.
        (all[4], all[5]) = match near {
            0..4 => (0x00ff_ffff_ffff_f000, 0x00ff_ffff_ffff_ffe8 + 8 * near),
            4..6 => (near - 4, 8),
            6..9 => (all[4], all[5]),
            _ => (0x5555_0000_0000, 0x5555_0000_0000 + 8 * near),
        };
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
                prop_assert!(got.count <= frames && got.tail.len() == got.count as usize);
                let mut last = registers[4];
                // The return address of each frame was read above that of the one before.
                for read in got.reads.iter().filter(|read| read.size == 16) {
                    prop_assert!(read.address.wrapping_add(16) > last);
                    last = read.address.wrapping_add(8);
                }
                frames_seen.update(|n| n + got.count);
                Ok(())
            },
        )
        .unwrap();
    assert!(frames_seen.get() > CASES / 10, "only {frames_seen:?}");
}
