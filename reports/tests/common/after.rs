//! A second database of the fixture's image, in which something changed.

use crate::common::{Fixture, Rows, write_epoch};

/// Writes `after.db` beside the database: `hot` took more of the time, and had another argument.
pub(crate) fn write_after(fixture: &Fixture) {
    write_epoch(&fixture.dir().join("after.db"), |flush| {
        let mut rows = Rows::new(flush, &fixture.image());
        rows.write_symbols("hot");
        for (address, samples) in [(0x1005, 28), (0x1020, 900), (0x1040, 24), (0x1050, 60)] {
            rows.cycles(address, None, samples);
        }
        rows.values(0x1000, "edi", 0, &[(5, 90), (4, 10)]);
        rows.values(0x1024, "rax", 0, &[(2 << 48, 200)]);
        rows.values(0x1031, "eax", 0, &[(7, 90), (6, 10)]);
        rows.flush.commit().expect("commits");
    });
}
