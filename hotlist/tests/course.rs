//! What several lists say about rising and falling values, by simulation.

use hotlist::{Config, Course, Estimates, Generator, Hotlist, Trend};

const RUNS: u32 = 500;

/// How often value 0 is told to rise and to fall in `lists` lists of so many events, where its
/// share at a time from 0 to 1 is `share`.
fn told(
    config: &Config,
    (lists, events): (u64, u64),
    share: impl Fn(f64, &mut Generator) -> f64,
) -> (f64, f64) {
    let mut random = Generator::new(3);
    let mut coins = Generator::new(4);
    let (mut rising, mut falling) = (0, 0);
    for _ in 0..RUNS {
        let mut course = Course::new();
        for number in 0..lists {
            let mut list = Hotlist::new(config);
            let (start, end) = (number * 1_000_000, (number + 1) * 1_000_000);
            let share = share(number as f64 / lists.max(2) as f64, &mut random);
            for event in 0..events {
                let value = match random.uniform() < share {
                    true => 0,
                    false => 1 + random.next_u64() % 40,
                };
                list.update(value, start + event * 1_000_000 / events, &mut coins);
            }
            course.add(&Estimates::from(&list), events as f64, (start, end));
        }
        match course.trends(&[0])[0] {
            Trend::Rising(_) => rising += 1,
            Trend::Falling(_) => falling += 1,
            Trend::Unknown => {}
        }
    }
    let part = |count| f64::from(count) / f64::from(RUNS);
    (part(rising), part(falling))
}

fn configs() -> [Config; 2] {
    [Config::default(), Config::default().precise()]
}

/// A steady share is hardly ever told to change, also where chance keeps some of the values alone.
#[test]
fn steady_values() {
    for config in configs() {
        for share in [0.05, 0.5] {
            for lists in [1, 2, 20] {
                let (rising, falling) = told(&config, (lists, 300), |_, _| share);
                assert!(
                    rising + falling <= 0.004,
                    "{lists} lists, {share}: {rising} {falling}"
                );
            }
        }
    }
}

/// A share that varies from list to list, and to nowhere, is seldom told to change.
#[test]
fn phases() {
    let phase = |_: f64, random: &mut Generator| match random.uniform() < 0.5 {
        true => 0.2,
        false => 0.6,
    };
    let (rising, falling) = told(&Config::default(), (20, 300), phase);
    assert!(rising + falling <= 0.01, "{rising} {falling}");
}

/// A share that grows is told to rise, and one that shrinks to fall. Lists that pass over many
/// events need to be more for it.
#[test]
fn rising_and_falling() {
    let [short, precise] = configs();
    for (config, lists, events) in [(&short, 40, 600), (&precise, 2, 3000), (&precise, 20, 600)] {
        let (rising, falling) = told(config, (lists, events), |time, _| 0.2 + 0.4 * time);
        let is_it = rising > 0.9 && falling == 0.0;
        assert!(is_it, "{lists}: {rising} {falling}");
        let (rising, falling) = told(config, (lists, events), |time, _| 0.6 - 0.4 * time);
        let is_it = falling > 0.9 && rising == 0.0;
        assert!(is_it, "{lists}: {rising} {falling}");
    }
}

/// In one list, a value that begins late is told to rise; a few events tell nothing.
#[test]
fn one_list() {
    let late = |events: u64, since: u64| {
        let mut list = Hotlist::new(&Config::default());
        let mut coins = Generator::new(1);
        for event in 0..events {
            list.update(u64::from(event < since), event, &mut coins);
        }
        let mut course = Course::new();
        course.add(&Estimates::from(&list), events as f64, (0, events));
        course.trends(&[0])[0]
    };
    assert!(matches!(late(1000, 500), Trend::Rising(sure) if sure >= 0.999));
    assert_eq!(late(10, 5), Trend::Unknown);
    assert_eq!(late(1000, 0), Trend::Unknown);
}

/// A list without events, and a value that no list has, tell nothing.
#[test]
fn nothing() {
    let mut course = Course::<u64>::new();
    course.add(&Estimates::default(), 0.0, (0, 10));
    assert_eq!(course.trends(&[0]), [Trend::Unknown]);
}
