//! The control law, on a machine that is made up.

use super::*;

const COST: Duration = Duration::from_micros(10);

/// Two CPUs, of which a share is busy; each sample costs handler and collector something, and time
/// that does not depend on samples is spent, too.
struct Machine {
    busy: f64,
    handler: f64,
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
            wakes: 0,
            handler: Duration::from_secs_f64(interrupts * self.handler),
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
        handler: 0.0,
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
        handler: 0.0,
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

/// Windows of any length keep within the budget: what they cost in the handler and in the collector
/// is paid for with the rate, whatever part is whose.
#[test]
fn long_windows() {
    for (handler, per_sample) in [
        (1e-6, 4e-6),
        (10e-6, 40e-6),
        (40e-6, 10e-6),
        (100e-6, 400e-6),
        (1e-3, 1e-6),
    ] {
        let machine = Machine {
            busy: 1.0,
            handler,
            per_sample,
            fixed: 0.0005,
        };
        let mut governor = Governor::new(0.01, 250_000, COST);
        governor.begin(machine.spent(250_000));
        machine.run(&mut governor, 300);
        // All of them, and not only what the governor takes note of.
        let spent = machine.spent(governor.mean());
        let interrupts = spent.interrupts as f64 * COST.as_secs_f64();
        let all = interrupts + spent.handler.as_secs_f64() + spent.collector.as_secs_f64();
        let share = all / spent.machine.as_secs_f64();
        assert!(share <= 0.01, "{handler} {per_sample}: {share}");
        assert!(
            share >= 0.0069 || governor.mean() == 250_000,
            "{handler}: {share}"
        );
        assert!(machine.run(&mut governor, 100).is_empty());
        let each = governor.each().unwrap();
        let is = |seen: Duration, wanted: f64| (seen.as_secs_f64() / wanted - 1.0).abs() < 0.01;
        assert!(is(each.handler, handler), "{each:?}");
        assert!(each.collector.as_secs_f64() > per_sample && each.interrupt == COST);
    }
}

/// A program that comes to code whose windows get ten times as far is sampled less within a minute,
/// and as before within three when it has left that code.
#[test]
fn windows_that_grow() {
    let mut machine = Machine {
        busy: 1.0,
        handler: 2e-6,
        per_sample: 5e-6,
        fixed: 0.0,
    };
    let mut governor = Governor::new(0.01, 2_000_000, COST);
    assert!(machine.run(&mut governor, 100).is_empty());
    assert_eq!(governor.why(), "as configured");
    (machine.handler, machine.per_sample) = (20e-6, 50e-6);
    let changes = machine.run(&mut governor, LOOKS);
    assert!(matches!(changes[..], [Change::Lower(_), ..]), "{changes:?}");
    assert_eq!(governor.why(), "lowered to keep within the budget");
    machine.run(&mut governor, 100);
    assert!(governor.share().unwrap() <= 0.01);
    (machine.handler, machine.per_sample) = (2e-6, 5e-6);
    machine.run(&mut governor, 3 * LOOKS);
    assert_eq!(governor.mean(), 2_000_000);
}

/// The handler's time of the trial counts.
#[test]
fn begins_with_long_windows() {
    let machine = Machine {
        busy: 1.0,
        handler: 50e-6,
        per_sample: 1e-3,
        fixed: 0.5,
    };
    let mut governor = Governor::new(0.065, 1_000_000, COST);
    governor.begin(machine.spent(1_000_000));
    // 10, 70 and 50 us of each ms are 13 %.
    assert_eq!(governor.mean(), 2_352_941);
}

/// When the machine becomes idle the rate goes up again, to the configured one at most; a share
/// between the two limits does nothing.
#[test]
fn raises() {
    let mut machine = Machine {
        busy: 1.0,
        handler: 0.0,
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

/// After a trial it begins with the configured rate where that many interrupts can be afforded, and
/// else with one that keeps within the budget, whatever the start itself had cost.
#[test]
fn begins() {
    // 10 and 70 us of each ms are 8 %.
    for (busy, budget, mean) in [
        (1.0, 1.0, 1_000_000),
        (1.0, 0.08, 1_000_000),
        (1.0, 0.04, 2_352_941),
        (0.1, 0.01, 1_000_000),
        (1.0, 0.001, 94_117_647),
        (0.0, 0.001, 1_000_000),
    ] {
        let machine = Machine {
            busy,
            handler: 0.0,
            per_sample: 1e-3,
            fixed: 0.5,
        };
        let mut governor = Governor::new(budget, 1_000_000, COST);
        governor.begin(machine.spent(1_000_000));
        assert_eq!(governor.mean(), mean, "{busy} {budget}");
    }
    let mut governor = Governor::new(0.01, 1_000_000, COST);
    governor.begin(Spent::default());
    assert_eq!(governor.mean(), 1_000_000);
}

/// One dear look among cheap ones changes nothing; three gross ones do.
#[test]
fn bursts() {
    let machine = Machine {
        busy: 0.4,
        handler: 0.0,
        per_sample: 5e-6,
        fixed: 0.0,
    };
    let mut governor = Governor::new(0.01, 1_000_000, COST);
    for look in 0..120 {
        let mut spent = machine.spent(governor.mean());
        if look % 12 == 5 {
            // Four budgets of a look at once.
            spent.collector += Duration::from_millis(400);
        }
        assert_eq!(governor.look(spent), None, "{look}");
    }
    let dear = Machine {
        busy: 1.0,
        handler: 0.0,
        per_sample: 1e-4,
        fixed: 0.0,
    };
    let mut governor = Governor::new(0.01, 1_000_000, COST);
    let changes = dear.run(&mut governor, LEFT_OUT + FEW_LOOKS);
    assert!(
        matches!(changes.as_slice(), [Change::Lower(4_000_000)]),
        "{changes:?}"
    );
}

/// A machine whose flushes, one in twelve looks, cost a part that does not depend on samples, and
/// one for each sample since the last.
struct Flushing {
    machine: Machine,
    flush_fixed: f64,
    flush_per_sample: f64,
    look: usize,
    samples: u64,
}

impl Flushing {
    fn new(machine: Machine, flush_fixed: f64, flush_per_sample: f64) -> Self {
        Self {
            machine,
            flush_fixed,
            flush_per_sample,
            look: 0,
            samples: 0,
        }
    }

    /// A look, and a flush where one is due; says what changed.
    fn step(&mut self, governor: &mut Governor, extra: Duration) -> Option<Change> {
        let mut spent = self.machine.spent(governor.mean());
        spent.collector += extra;
        self.look += 1;
        self.samples += spent.interrupts;
        if self.look.is_multiple_of(LOOKS) {
            let samples = std::mem::take(&mut self.samples) as f64;
            let cost = self.flush_fixed + samples * self.flush_per_sample;
            governor.flushed(Duration::from_secs_f64(cost / 2.0), STEP * LOOKS as u32);
        }
        governor.look(spent)
    }

    /// The changes that so many looks bring, each with the look that brought it.
    fn run(&mut self, governor: &mut Governor, looks: usize) -> Vec<(usize, Change)> {
        (0..looks)
            .filter_map(|_| Some((self.look, self.step(governor, Duration::ZERO)?)))
            .collect()
    }
}

/// A share of a minute's flush that is most of the budget is not overlooked between flushes: the
/// rate is not raised for it, and not lowered with it, whatever the flush costs in its own look.
#[test]
fn flushes() {
    // 0.075 % between flushes, which cost 0.7 %: in their look 8.4 %.
    let machine = Machine {
        busy: 0.1,
        handler: 0.0,
        per_sample: 5e-6,
        fixed: 0.0,
    };
    let mut flushing = Flushing::new(machine, 0.84, 0.0);
    let mut governor = Governor::new(0.01, 1_000_000, COST);
    governor.resume(2_000_000);
    let changes = flushing.run(&mut governor, 1000);
    assert!(changes.is_empty(), "{changes:?}");
}

/// What the start has left to do is not seen, and programs that are met for the first time lower
/// the rate once; soon after that it is where it would have been.
#[test]
fn starts() {
    let quiet = || Machine {
        busy: 0.2,
        handler: 0.0,
        per_sample: 10e-6,
        fixed: 0.0005,
    };
    let mut flushing = Flushing::new(quiet(), 0.05, 1e-6);
    let mut governor = Governor::new(0.01, 1_000_000, COST);
    governor.resume(4_000_000);
    let mut changes = Vec::new();
    for look in 0..60 {
        let extra = match look {
            0 => Duration::from_secs(3),
            // Up to ten budgets, for as long as it takes to learn.
            1..8 => Duration::from_millis(1000) / look,
            _ => Duration::ZERO,
        };
        changes.extend(flushing.step(&mut governor, extra));
    }
    let lowered = |change: &&Change| matches!(change, Change::Lower(_));
    assert!(changes.iter().filter(lowered).count() <= 1, "{changes:?}");
    assert_eq!(governor.mean(), 1_000_000, "{changes:?}");
}

/// An excess at the start that goes on is lowered further after the first minute.
#[test]
fn goes_on() {
    let machine = Machine {
        busy: 1.0,
        handler: 0.0,
        per_sample: 5e-4,
        fixed: 0.0,
    };
    let mut governor = Governor::new(0.01, 1_000_000, COST);
    let changes = machine.run(&mut governor, LOOKS);
    assert_eq!(changes, [Change::Lower(4_000_000)]);
    let changes = machine.run(&mut governor, 2 * LOOKS);
    assert!(
        matches!(changes.as_slice(), [Change::Lower(16_000_000), ..]),
        "{changes:?}"
    );
}

/// From a fiftieth of the rate, where nearly nothing is spent, it is back within two minutes of the
/// first flush.
#[test]
fn recovers() {
    let machine = Machine {
        busy: 0.1,
        handler: 0.0,
        per_sample: 10e-6,
        fixed: 0.0003,
    };
    let mut flushing = Flushing::new(machine, 0.02, 1e-6);
    let mut governor = Governor::new(0.01, 1_000_000, COST);
    governor.resume(50_000_000);
    let changes = flushing.run(&mut governor, 3 * LOOKS);
    assert_eq!(governor.mean(), 1_000_000, "{changes:?}");
    assert!(flushing.run(&mut governor, 1000).is_empty());
}

/// A load that goes up and down every ten minutes is followed, each time in a few steps, and is
/// left alone in between; at the end of each the budget is kept.
#[test]
fn follows() {
    let machine = Machine {
        busy: 0.05,
        handler: 0.0,
        per_sample: 30e-6,
        fixed: 0.0003,
    };
    let mut flushing = Flushing::new(machine, 0.05, 4e-6);
    let mut governor = Governor::new(0.01, 1_000_000, COST);
    for round in 0..10 {
        flushing.machine.busy = if round % 2 == 0 { 0.05 } else { 1.0 };
        let following = flushing.run(&mut governor, 60);
        assert!(following.len() <= 6, "{round}: {following:?}");
        let after = flushing.run(&mut governor, 60);
        assert!(after.is_empty(), "{round}: {after:?}");
        let share = governor.share().unwrap();
        assert!(share <= 0.01, "{round}: {share}");
        assert!(governor.mean() == 1_000_000 || share >= 0.007, "{round}");
    }
}

/// Flushes that were asked for one after the other are not taken for ones that go on like that.
#[test]
fn flushes_on_request() {
    let mut flushes = flushes::Flushes::default();
    assert!(!flushes.are_known() && flushes.share() == 0.0);
    for _ in 0..2 {
        flushes.add(Duration::from_millis(60), Duration::from_secs(60));
        assert_eq!(flushes.share(), 0.001);
    }
    flushes.add(Duration::from_millis(60), Duration::from_millis(1));
    assert!(flushes.share() < 0.0021);
    flushes.add(Duration::from_millis(60), Duration::from_secs(60));
    assert_eq!(flushes.share(), 0.001);
    flushes.rate_changed(0.5);
    assert_eq!(flushes.share(), 0.0005);
}

/// A flush that is late counts before it ends, and one that is not does not: it would count twice.
#[test]
fn late_flush() {
    let mut flushes = flushes::Flushes::default();
    let is = |flushes: &flushes::Flushes, share: f64| (flushes.share() - share).abs() < 1e-9;
    flushes.since(Duration::from_secs(6), Duration::from_secs(600));
    assert!(is(&flushes, 0.01) && !flushes.are_known());
    flushes.add(Duration::from_millis(60), Duration::from_secs(60));
    assert!(is(&flushes, 0.001));
    flushes.since(Duration::from_millis(30), Duration::from_secs(5));
    assert!(is(&flushes, 0.001));
    flushes.since(Duration::from_millis(1140), Duration::from_secs(60));
    assert!(is(&flushes, 0.01));
}

/// A cost that no rate can lower ends at the longest interval, and stays there.
#[test]
fn hopeless() {
    let machine = Machine {
        busy: 1.0,
        handler: 0.0,
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

/// Samples that find no room lower the rate at once, and it is raised again in steps, a minute
/// after the last of them at the soonest; what they have to do with the budget does not matter.
#[test]
fn overruns() {
    let machine = Machine {
        busy: 1.0,
        handler: 0.0,
        per_sample: 1e-6,
        fixed: 0.0,
    };
    let mut flushing = Flushing::new(machine, 0.01, 1e-7);
    let mut governor = Governor::new(1.0, 1_000_000, COST);
    flushing.run(&mut governor, 2 * LOOKS);
    let is_lowered =
        |change, least: u64| matches!(change, Some(Change::Lower(mean)) if mean >= least);
    assert!(is_lowered(governor.overrun(0.1), 1_100_000) && governor.is_overrun());
    assert!(is_lowered(governor.overrun(0.8), 4_000_000));
    assert!(is_lowered(governor.overrun(1.0), 16_000_000));
    let changes = flushing.run(&mut governor, LOOKS - 1);
    assert!(changes.is_empty(), "{changes:?}");
    // Then as ever, but half as long at most.
    let changes = flushing.run(&mut governor, 10 * LOOKS);
    assert_eq!(governor.mean(), 1_000_000, "{changes:?}");
    assert!(changes.len() >= 4, "{changes:?}");
    // There is no lower rate than the lowest.
    while governor.overrun(1.0).is_some() {}
    assert!(governor.is_at_its_end());
}

/// A wake-up that brings vector registers costs what an interrupt does.
#[test]
fn wakes() {
    let share = |interrupts, wakes| {
        let mut governor = Governor::new(0.5, 1_000_000, COST);
        // The first ones are left out.
        for _ in 0..=LEFT_OUT {
            let change = governor.look(Spent {
                machine: STEP,
                interrupts,
                wakes,
                ..Spent::default()
            });
            assert_eq!(change, None);
        }
        governor.share().unwrap()
    };
    assert!((share(1000, 500) - share(1500, 0)).abs() < 1e-9);
    assert!(share(1000, 500) > share(1000, 0));
}
