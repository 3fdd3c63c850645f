//! The control law, on a machine that is made up.

use super::*;

const COST: Duration = Duration::from_micros(10);

/// Two CPUs, of which a share is busy; each sample costs the collector something, and time that
/// does not depend on samples is spent, too.
struct Machine {
    busy: f64,
    per_sample: f64,
    fixed: f64,
}

impl Machine {
    /// What is spent in a look at this mean interval in nanoseconds.
    fn spent(&self, mean: u64) -> Spent {
        let machine = STEP * 2;
        let interrupts = machine.as_nanos() as f64 * self.busy / mean as f64;
        let collector = interrupts * self.per_sample + self.fixed * machine.as_secs_f64();
        Spent {
            machine,
            collector: Duration::from_secs_f64(collector),
            interrupts: interrupts as u64,
        }
    }

    /// The changes that so many looks bring.
    fn run(&self, governor: &mut Governor, looks: usize) -> Vec<Change> {
        (0..looks)
            .filter_map(|_| governor.look(self.spent(governor.mean())))
            .collect()
    }
}

/// A share of the machine within the budget changes nothing, however long.
#[test]
fn within() {
    let machine = Machine {
        busy: 1.0,
        per_sample: 5e-6,
        fixed: 0.0,
    };
    // 15 us of each ms is 1.5 %.
    let mut governor = Governor::new(0.016, 1_000_000, COST);
    assert!(machine.run(&mut governor, 1000).is_empty());
    let share = governor.share().unwrap();
    assert!((0.0149..0.0151).contains(&share), "{share}");
}

/// Too dear a rate is lowered until it is within the budget, and then left there.
#[test]
fn lowers() {
    let machine = Machine {
        busy: 1.0,
        per_sample: 40e-6,
        fixed: 0.001,
    };
    let mut governor = Governor::new(0.01, 1_000_000, COST);
    let changes = machine.run(&mut governor, 200);
    assert!(!changes.is_empty() && changes.len() < 6, "{changes:?}");
    assert!(matches!(changes[0], Change::Lower(mean) if mean > 1_000_000));
    let share = governor.share().unwrap();
    assert!((0.007..=0.01).contains(&share), "{share}");
    assert!(machine.run(&mut governor, 1000).is_empty());
}

/// When the machine becomes idle the rate goes up again, to the configured one at most; a share
/// between the two limits does nothing.
#[test]
fn raises() {
    let mut machine = Machine {
        busy: 1.0,
        per_sample: 40e-6,
        fixed: 0.0,
    };
    let mut governor = Governor::new(0.01, 1_000_000, COST);
    machine.run(&mut governor, 200);
    let low = governor.mean();
    machine.busy = 0.9;
    assert!(machine.run(&mut governor, 100).is_empty());
    machine.busy = 0.02;
    let changes = machine.run(&mut governor, 200);
    assert!(
        changes
            .iter()
            .all(|change| matches!(change, Change::Raise(mean) if *mean < low))
    );
    assert_eq!(governor.mean(), 1_000_000);
    assert!(machine.run(&mut governor, 100).is_empty());
}

/// It begins with a rate that busy processors can be expected to afford, and with the configured one
/// where that is such a rate.
#[test]
fn begins() {
    // 50 us of each ms is 5 %.
    for (budget, mean) in [
        (1.0, 1_000_000),
        (0.05, 1_176_471),
        (0.025, 2_352_941),
        (0.001, 4_000_000),
    ] {
        let mut governor = Governor::new(budget, 1_000_000, COST);
        governor.begin(Duration::from_millis(1));
        assert_eq!(governor.mean(), mean, "{budget}");
    }
}

/// One dear look among cheap ones, as a flush is, changes nothing; three gross ones do.
#[test]
fn bursts() {
    let machine = Machine {
        busy: 0.4,
        per_sample: 5e-6,
        fixed: 0.0,
    };
    let mut governor = Governor::new(0.01, 1_000_000, COST);
    for look in 0..120 {
        let mut spent = machine.spent(governor.mean());
        if look % 12 == 5 {
            // Half of the budget of a minute at once.
            spent.collector += Duration::from_millis(400);
        }
        if look < 2 || governor.share().is_some_and(|share| share < 0.02) {
            assert_eq!(governor.look(spent), None, "{look}");
        }
    }
    let dear = Machine {
        busy: 1.0,
        per_sample: 1e-4,
        fixed: 0.0,
    };
    let mut governor = Governor::new(0.01, 1_000_000, COST);
    let changes = dear.run(&mut governor, FEW_LOOKS);
    assert!(
        matches!(changes.as_slice(), [Change::Lower(4_000_000)]),
        "{changes:?}"
    );
}

/// A cost that no rate can lower ends at the longest interval, and stays there.
#[test]
fn hopeless() {
    let machine = Machine {
        busy: 1.0,
        per_sample: 0.0,
        fixed: 0.5,
    };
    let mut governor = Governor::new(0.01, 1_000_000, COST);
    machine.run(&mut governor, 1000);
    assert_eq!(governor.mean(), 1_000_000_000);
    assert!(machine.run(&mut governor, 100).is_empty());
}

/// A machine that tells nothing, or a time of nothing, changes nothing.
#[test]
fn nothing() {
    let mut governor = Governor::new(0.01, 1_000_000, COST);
    assert_eq!(governor.share(), None);
    for _ in 0..100 {
        assert_eq!(governor.look(Spent::default()), None);
    }
}
