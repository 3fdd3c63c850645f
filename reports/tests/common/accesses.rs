//! A database of accesses to memory and of system calls, beside the fixture's.

use super::common::{Fixture, Rows, write_epoch};

/// Its name.
pub(crate) const DATABASE: &str = "accesses.db";

/// Writes it.
pub(crate) fn write_accesses(fixture: &Fixture) {
    let path = fixture.dir().join(DATABASE);
    write_epoch(&path, |flush| write(Rows::new(flush, &fixture.image())));
}

fn write(mut rows: Rows<'_>) {
    rows.write_symbols("hot");
    for (address, samples) in [(0x1005, 30), (0x1020, 200), (0x1024, 100), (0x1040, 60)] {
        rows.cycles(address, None, samples);
    }
    let behind = 64_i64.wrapping_neg().cast_unsigned();
    rows.values(0x1005, "stride", 0, &[(0, 80)]);
    rows.values(0x1005, "line", 0, &[(0, 80)]);
    rows.values(0x1005, "reload", 0, &[(1, 78), (0, 2)]);
    rows.values(0x1020, "stride", 0, &[(64, 190), (behind, 10)]);
    rows.values(0x1020, "line", 0, &[(1, 196), (2, 4)]);
    rows.values(0x1020, "reload", 0, &[(0, 200)]);
    // Of this half is not known.
    rows.values(0x1040, "stride", 50, &[(8, 30), (16, 20)]);
    rows.values(0x1040, "line", 50, &[(0, 50)]);
    rows.values(0x1031, "silent", 10, &[(1, 60), (0, 40)]);
    // A return: not shown unless asked for.
    rows.values(0x1016, "stride", 0, &[(16, 40)]);
    rows.values(0x1016, "reload", 0, &[(1, 40)]);
    for (caller, numbers) in [(Some(0x100a), &[(0, 50)][..]), (None, &[(0, 6), (999, 4)])] {
        rows.values_from(0x1044, caller, "syscall", 0, numbers);
        rows.values_from(0x1044, caller, "sys0", 0, &[(3, 10)]);
        rows.values_from(0x1044, caller, "sys1", 0, &[(0x7f00_0000_1000, 10)]);
        rows.values_from(0x1044, caller, "sys2", 2, &[(4096, 8)]);
        rows.values_from(0x1044, caller, "sys3", 0, &[(77, 10)]);
    }
    let caller = Some(0x100f);
    rows.values_from(0x1044, caller, "syscall", 0, &[(202, 20)]);
    rows.values_from(0x1044, caller, "sys0", 0, &[(0x5555_0000_4000, 20)]);
    rows.values_from(0x1044, caller, "sys1", 0, &[(128, 15), (129, 5)]);
    // Ordinary, nice, real-time, and in an interrupt of which the interrupts are off.
    rows.values(0x1020, "sched", 0, &[(120, 150), (1 << 8 | 49, 50)]);
    rows.values(0x1040, "sched", 0, &[(127, 60)]);
    rows.values(0x1024, "sched", 0, &[(1 << 24 | 3 << 16 | 120, 100)]);
    rows.flush.commit().expect("commits");
}
