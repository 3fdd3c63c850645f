//! What S says about rising and falling values, by simulation.

use hotlist::{Config, Eviction, Generator, Hotlist, Method, Trend};

const LENGTH: u64 = 3_000;
const RUNS: u32 = 2_000;

/// How often value 0 is told to rise and to fall with a confidence of 95 %, in streams where its
/// share is `early` up to `change` and `late` from there; the other values are rare ones.
fn told(config: &Config, early: f64, late: f64, change: u64) -> (f64, f64) {
    let mut random = Generator::new(3);
    let mut coins = Generator::new(4);
    let (mut rising, mut falling, mut listed) = (0.0, 0.0, 0.0);
    for _ in 0..RUNS {
        let mut list = Hotlist::new(config);
        for time in 0..LENGTH {
            let share = if time < change { early } else { late };
            let value = if random.uniform() < share {
                0
            } else {
                1 + random.next_u64() % 5_000
            };
            list.update(value, 1_000 * time, &mut coins);
        }
        let Some(tuple) = list.tuples().find(|tuple| tuple.value == 0) else {
            continue;
        };
        listed += 1.0;
        match tuple.trend(0, 1_000 * LENGTH) {
            Trend::Rising(confidence) if confidence >= 0.95 => rising += 1.0,
            Trend::Falling(confidence) if confidence >= 0.95 => falling += 1.0,
            _ => {}
        }
    }
    (rising / listed, falling / listed)
}

fn configs() -> impl Iterator<Item = Config> {
    [Method::Counting, Method::Concise, Method::Switching]
        .into_iter()
        .map(|m| Config::default().method(m))
}

/// A value that comes at one rate is told to rise or fall about as often as 95 % confidence says.
#[test]
fn steady_values() {
    for config in configs() {
        for share in [0.05, 0.3] {
            let (rising, falling) = told(&config, share, share, 0);
            assert!(
                rising < 0.07 && falling < 0.07,
                "{config:?} {share}: {rising} {falling}"
            );
        }
    }
}

/// A frequent value that begins late is told to rise, and seldom to fall.
#[test]
fn rising_values() {
    for config in configs() {
        let (rising, falling) = told(&config, 0.0, 0.3, LENGTH * 2 / 3);
        // Concise samples have counted too few to be sure often.
        let often = if config.methods() == Method::Concise {
            0.1
        } else {
            0.5
        };
        assert!(
            rising > often && falling < 0.01,
            "{config:?}: {rising} {falling}"
        );
    }
}

/// A value that ends early is told to fall more often than a steady one, and never to rise.
#[test]
fn falling_values() {
    for config in configs() {
        let (rising, falling) = told(&config, 0.3, 0.0, LENGTH / 30);
        assert!(
            falling > 0.2 && rising < 0.01,
            "{config:?}: {rising} {falling}"
        );
    }
}

/// Eviction by weight tells no fall, and a rise only of a value that does rise.
#[test]
fn by_weight() {
    for config in configs().map(|config| config.eviction(Eviction::ByWeight)) {
        let (rising, falling) = told(&config, 0.2, 0.2, 0);
        assert!(
            rising < 0.06 && falling == 0.0,
            "{config:?}: {rising} {falling}"
        );
        let often = if config.methods() == Method::Concise {
            0.1
        } else {
            0.3
        };
        let (rising, falling) = told(&config, 0.0, 0.3, LENGTH * 2 / 3);
        assert!(
            rising > often && falling == 0.0,
            "{config:?}: {rising} {falling}"
        );
    }
}

/// A chance that is less than one half by less than a number can tell is no trend.
#[test]
fn hardly_a_trend() {
    let middle = (1_u64 << 60) + 65;
    let config = Config::default().method(Method::Counting);
    let mut list = Hotlist::<u64>::new(&config);
    for _ in 0..2 {
        list.update(2, middle, &mut Generator::new(0));
    }
    let trends: Vec<Trend> = list.tuples().map(|tuple| tuple.trend(5, 1 << 61)).collect();
    assert_eq!(trends, [Trend::Unknown]);
}
