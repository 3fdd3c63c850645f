//! How often one can afford to sample, where no rate is asked for.
//!
//! A sample costs an interrupt, the handler's work and the collector's. The last two grow with the
//! window, and what a window brings grows more. So windows stay long, and the rate gives way
//! (`docs/decisions/061-long-windows.md` has the figures).

use std::time::Duration;

use sampler::{Clock, Engine, probe};

/// What an interrupt costs at most where nothing is amiss. Of a shared machine others may have so
/// much for a tenth of a second that it seems to cost several times what it does; that was seen in
/// one of ten measurements.
const USUAL_COST: Duration = Duration::from_micros(20);

/// What an interrupt of this clock costs; zero if that is not to be seen.
fn interrupt_cost(clock: Clock) -> Duration {
    // Whoever opens the event says why it is refused.
    probe::interrupt_cost(clock).unwrap_or_default()
}

/// What an interrupt costs where that cannot be found out: as much as in a virtual machine, where
/// it is dearest. Rather too few samples than more than the budget.
pub(crate) const ASSUMED_COST: Duration = Duration::from_micros(30);

/// The rates that are sampled at where none is asked for. They lie so far apart that the cost,
/// which is never quite the same, mostly leads to the same one.
const RATES: [u32; 10] = [1000, 500, 300, 200, 150, 100, 80, 50, 20, 10];

/// The share of its time that a program may lose by them.
const BUDGET: f64 = 0.01;

/// What an interrupt takes of a program, by what it takes of the loop that it is found out with.
/// That one needs no caches and is interrupted all the time; a program finds its own gone from
/// there, and before it the kernel finds its own gone. `cargo xtask bench` shows it: where the loop
/// loses 12 us, a compressor at 250 to 1000 samples a second lost 26 to 29 us to interrupts alone.
const BY_PROGRAM: f64 = 2.4;

/// What a sample takes of handler and collector, on a machine where others had the caches, too.
/// Windows end by themselves, so beyond this length they cost no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Work {
    window: u32,
    each: Duration,
}

const LONGEST: u32 = 256;
/// Of the handler, and for each instruction of the window.
const FOLLOWING: Duration = Duration::from_micros(9);
const FOLLOWED: Duration = Duration::from_nanos(50);
/// Of the collector, and for each instruction of the window.
const COLLECTING: Duration = Duration::from_micros(8);
const INTERPRETED: Duration = Duration::from_nanos(120);
/// What a wake-up that brings vector registers takes of a thread, beyond its sample
/// (`docs/decisions/072-vector-registers.md`), where one sample in [`ONE_IN`] has one.
const WAKING: Duration = Duration::from_micros(61);
pub(crate) const ONE_IN: u32 = 4;

impl Work {
    /// Of windows of so many instructions at most.
    pub(crate) fn of(engine: Engine, window: u32) -> Self {
        let instructions = window.min(LONGEST);
        let handler = match engine {
            Engine::Ring => Duration::ZERO,
            Engine::Bpf => FOLLOWING + FOLLOWED * instructions,
        };
        Self {
            window,
            each: handler + COLLECTING + INTERPRETED * instructions,
        }
    }

    /// This, and vector registers of one sample in [`ONE_IN`], as where all code computes with
    /// them.
    pub(crate) fn with_vectors(self) -> Self {
        Self {
            each: self.each + WAKING / ONE_IN,
            ..self
        }
    }
}

/// How often one can afford to sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Affordable {
    /// Samples per second and CPU.
    pub(crate) rate: u32,
    /// What an interrupt costs; zero if that could not be seen.
    cost: Duration,
    work: Work,
}

/// With fewer samples shares are rough, and a rate is worth to be asked for: this one.
const FEW: u64 = 1000;
const OFTEN: u32 = 4000;

/// Who asks for more samples a second than that is told what they cost, if it is this share of a
/// program's time. For fewer, an interrupt would have to cost more than it was ever seen to.
pub(crate) const MANY: u32 = 5000;
const DEAR: f64 = 0.2;

impl Affordable {
    /// How often it is here, by this clock, of whose interrupts this may be known that they cost.
    pub(crate) fn here(clock: Clock, cost: Option<Duration>, work: Work) -> Self {
        let cost = cost.unwrap_or_else(|| interrupt_cost(clock));
        let is_usual = !cost.is_zero() && cost <= USUAL_COST;
        let again = (!is_usual).then(|| interrupt_cost(clock));
        let seen = [Some(cost), again].into_iter().flatten();
        let least = seen.filter(|cost| !cost.is_zero()).min();
        Self::with(least.unwrap_or_default(), work)
    }

    /// Where an interrupt costs this, or nothing that was seen.
    fn with(cost: Duration, work: Work) -> Self {
        let mut affordable = Self {
            rate: 0,
            cost,
            work,
        };
        let [.., least] = RATES;
        let rate = RATES
            .into_iter()
            .find(|rate| affordable.share(*rate) <= BUDGET);
        affordable.rate = rate.unwrap_or(least);
        affordable
    }

    /// What a sample takes of a program, at most.
    fn each(&self) -> Duration {
        let seen = match self.cost.is_zero() {
            true => ASSUMED_COST,
            false => self.cost,
        };
        seen.mul_f64(BY_PROGRAM) + self.work.each
    }

    /// The share of its time that so many samples a second take of a program, at most.
    fn share(&self, rate: u32) -> f64 {
        f64::from(rate) * self.each().as_secs_f64()
    }

    /// Why so often.
    pub(crate) fn why(&self) -> String {
        let Self { rate, cost, work } = self;
        let (each, percent) = (self.each(), 100.0 * self.share(*rate));
        let unseen = match cost.is_zero() {
            true => "; others run, so that this is assumed and not measured",
            false => "",
        };
        format!(
            "{rate} a second, which cost a program up to {percent:.1} % at up to {each:.0?} each, emptied caches \
             and the work on windows of {} included{unseen}; --rate for others",
            work.window
        )
    }

    /// What to say where so many samples a second are asked for, if they are dear.
    pub(crate) fn warning(&self, rate: u32) -> Option<String> {
        let takes = |rate| match self.share(rate) {
            share if share < 1.0 => format!("up to {:.0} %", 100.0 * share),
            _ => "most".to_owned(),
        };
        let is_dear = rate > MANY && self.share(rate) >= DEAR;
        is_dear.then(|| {
            format!(
                "{rate} samples a second take {} of a program's time here, at up to {:.0?} each, and \
                 --rate {OFTEN} takes {}",
                takes(rate),
                self.each(),
                takes(OFTEN)
            )
        })
    }

    /// What to say when so many samples are all that there are; of none, others say why.
    pub(crate) fn advice(&self, samples: u64) -> Option<String> {
        let percent = 100.0 * self.share(OFTEN);
        (1..FEW).contains(&samples).then(|| {
            format!(
                "so few samples tell shares roughly: for a short program, --rate {OFTEN} takes {} times as \
                 many, for up to {percent:.0} % of its time",
                OFTEN / self.rate
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What windows of this length take under the engine `bpf`.
    fn windows(instructions: u32) -> Work {
        Work::of(Engine::Bpf, instructions)
    }

    /// As many samples as cost one percent, of round numbers; no more than a thousand, and ten
    /// where even those are dearer.
    #[test]
    fn affordable_rates() {
        let rate =
            |window, micros| Affordable::with(Duration::from_micros(micros), windows(window)).rate;
        assert_eq!(rate(256, 1), 150);
        assert_eq!(rate(256, 4), 100);
        assert_eq!(rate(256, 12), 100);
        assert_eq!(rate(256, 18), 80);
        assert_eq!(rate(256, 28), 50);
        assert_eq!(rate(16, 1), 300);
        assert_eq!(rate(16, 12), 200);
        assert_eq!(rate(16, 28), 100);
        for window in [16, 256] {
            assert_eq!(rate(window, 0), rate(window, 30));
            assert_eq!(rate(window, 100_000), 10);
        }
        let nothing = Work {
            window: 1,
            each: Duration::ZERO,
        };
        let cheapest = Affordable::with(Duration::from_micros(1), nothing);
        assert_eq!(cheapest.rate, 1000);
    }

    /// No window is so long, and no interrupt so dear, that a program loses more than a percent,
    /// but where even the lowest rate takes it; and no more is left than lies between two rates.
    #[test]
    fn budget() {
        for window in [1, 16, 63, 64, 200, 256, 1024] {
            for micros in 1..1000 {
                for engine in [Engine::Bpf, Engine::Ring] {
                    let work = Work::of(engine, window);
                    let affordable = Affordable::with(Duration::from_micros(micros), work);
                    let share = affordable.share(affordable.rate);
                    let (most, least) = (affordable.rate == 1000, affordable.rate == 10);
                    assert!(share <= BUDGET || least, "{window} {micros}: {share}");
                    assert!(share >= 0.39 * BUDGET || most, "{window} {micros}: {share}");
                }
            }
        }
    }

    /// Longer windows take more, up to a length that few reach; those of the engine `ring` less.
    #[test]
    fn longer_windows() {
        let each = |window| windows(window).each;
        assert!(each(16) < each(64) && each(64) < each(256));
        assert_eq!(each(256), each(1024));
        assert!(Work::of(Engine::Ring, 256).each < each(256));
        assert!(windows(256).with_vectors().each > each(256));
    }

    /// Who asks for much is told what it costs, unless it is little.
    #[test]
    fn warnings() {
        let affordable = Affordable::with(Duration::from_micros(12), windows(256));
        let warning = affordable.warning(99_999).expect("a dear rate");
        let wanted = "99999 samples a second take most of a program's time here, at up to 89µs each, and \
                      --rate 4000 takes up to 36 %";
        assert_eq!(warning, wanted);
        let warning = affordable.warning(10_000).expect("a dear rate");
        assert!(warning.contains("take up to 89 % of"), "{warning}");
        assert_eq!(affordable.warning(5000), None);
        let cheap = Affordable::with(Duration::from_micros(1), windows(1));
        assert_eq!(cheap.warning(10_000), None);
    }

    /// What is said is what was reckoned with.
    #[test]
    fn words() {
        let affordable = Affordable::with(Duration::from_micros(12), windows(256));
        let why = affordable.why();
        let wanted = "100 a second, which cost a program up to 0.9 % at up to 89µs each, emptied \
                      caches and the work on windows of 256 included; --rate";
        assert!(why.starts_with(wanted), "{why}");
        let assumed = Affordable::with(Duration::ZERO, windows(16)).why();
        let wanted =
            "up to 92µs each, emptied caches and the work on windows of 16 included; others run";
        assert!(assumed.contains(wanted), "{assumed}");
        let advice = affordable.advice(999).expect("few samples");
        assert!(
            advice.contains("--rate 4000 takes 40 times as many, for up to 36 %"),
            "{advice}"
        );
        assert_eq!(affordable.advice(1000), None);
        assert_eq!(affordable.advice(0), None);
    }
}
