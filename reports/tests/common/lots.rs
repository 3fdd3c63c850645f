//! A database of the fixture's image with times and values by lot.

use hotlist::Generator;

use crate::common::{Fixture, Rows, write_epoch};

/// Instructions that have values by lot.
const ADDRESSES: [u64; 8] = [
    0x1000, 0x1005, 0x1020, 0x1024, 0x1028, 0x1031, 0x1033, 0x1040,
];

/// Writes a database of times and values by lot in place of the fixture's.
pub(crate) fn write_by_lot(fixture: &Fixture, seed: u64) {
    std::fs::remove_file(fixture.database()).expect("is there");
    let mut coins = Generator::new(seed);
    write_epoch(&fixture.database(), |flush| {
        Rows::new(flush, &fixture.image()).write_by_lot(&mut coins);
    });
}

impl Rows<'_> {
    fn write_by_lot(mut self, coins: &mut Generator) {
        self.write_symbols("hot");
        for address in ADDRESSES {
            let caller = Some(0x100a).filter(|_| coins.next_u64().is_multiple_of(2));
            self.cycles(address, caller, 1 + coins.next_u64() % 300);
            for parameter in ["rax", "edi", "ea", "taken", "ret", "arg0", "arg1"] {
                let values: Vec<(u64, u64)> = (0..1 + coins.next_u64() % 60)
                    .map(|_| (coins.next_u64() % 40, 1 + coins.next_u64() % 9))
                    .collect();
                let unknown = coins.next_u64() % 50;
                self.values_from(address, caller, parameter, unknown, &values);
            }
        }
        for address in [0x1014, 0x102f] {
            let pc = self.pc(address);
            let counts = [0_u64; 3].map(|_| coins.next_u64() % 90);
            self.flush
                .branch(self.process, self.user, pc, counts)
                .expect("branch");
        }
        for callee in [Some(0x1020), Some(0x1040), Some(0x1050), None] {
            let site = self.pc(0x100f);
            let callee = callee.map(|callee| self.pc(callee));
            let calls = 1 + coins.next_u64() % 90;
            self.flush
                .call(self.process, self.user, site, callee, calls)
                .expect("call");
        }
        self.flush.commit().expect("commits");
    }
}
