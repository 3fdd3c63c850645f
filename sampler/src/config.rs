//! What to sample, with which clock and how often.

use crate::abi;
use crate::{Error, Pid, Share};

/// The shortest interval of [`Clock::CpuClock`] in nanoseconds: the kernel keeps no shorter one.
/// The shortest mean of [`Clock::Timer`], too.
pub const CPU_CLOCK_FLOOR: u64 = 10_000;

/// The longest mean interval, in any clock's unit.
const LONGEST: u64 = 1 << 46;

/// The most the kernel copies of a stack, in bytes: a record's size is a 16-bit number.
const MOST_STACK: u32 = 65_528;

/// What ends an interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Clock {
    /// The hardware cycle counter; its unit is a cycle of the CPU while not halted.
    Cycles,
    /// The kernel's software clock; its unit is a nanosecond. It is blind to code that runs with
    /// interrupts off, and idle time is not sampled.
    CpuClock,
    /// A timer of the handler in the kernel, for the engine `bpf` alone; its unit is a nanosecond.
    /// Each interval is drawn anew, in the kernel, and not from [`Config::seed`]. It is not
    /// throttled. Of the kernel it sees what runs with interrupts and bottom halves on; the time of
    /// other code counts to the thread, but to no PC of it. Idle time is not sampled.
    Timer,
}

/// Whom to sample.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// Everything on every CPU that is online when the events are opened. A CPU that goes offline
    /// is not sampled any more, even when it comes back; the others go on.
    System,
    /// A forked child that waits before its `exec`: sampling begins with the `exec` and covers all
    /// its descendants.
    Command(Pid),
    /// All threads of these processes, and everything they create from now on.
    Processes(Vec<Pid>),
}

/// By which way samples come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Engine {
    /// Perf ring buffers, with registers and a copy of the stack.
    #[default]
    Ring,
    /// A BPF program on the overflow, with registers and the memory that the code ahead loads. It
    /// samples whole CPUs and lets through what [`Target`] and [`Filter`] name.
    Bpf,
}

/// What else must hold of a thread for the engine `bpf` to sample it; `None` is no condition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// It is in this control group (version 2), or in one below it.
    pub cgroup: Option<u64>,
    /// Its process's effective user id.
    pub euid: Option<u32>,
    /// Its name; at most 15 bytes count.
    pub comm: Option<Vec<u8>>,
}

/// How large the engine `bpf` is in the kernel, and what it captures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BpfOptions {
    /// Conditions besides the target.
    pub filter: Filter,
    /// Unwind rows that are kept, all processes together; those that are not used give way.
    pub rows: u32,
    /// The most frames of a sample: 0 to 127.
    pub frames: u32,
    /// Each CPU's buffer in bytes: a power of two, of whole pages.
    pub buffer_bytes: u32,
    /// Instructions that the handler follows from the interrupted one on: 1 to 1024.
    pub followed: u32,
    /// The share of samples whose ways it follows. Which ones is drawn for each, and depends on
    /// nothing.
    pub share: Share,
    /// PCs of each CPU whose cycles are counted while its buffer is full.
    pub overflow_entries: u32,
    /// Values of processes whose memory may not be dumped by their users are captured, too.
    pub not_dumpable: bool,
    /// Each sample says where its thread was among others: [`crate::Placement`].
    pub placement: bool,
    /// Of which samples vector registers are brought; `None`: of none.
    pub vectors: Option<VectorOptions>,
    /// There are to be breakpoints: signals of their threads are counted.
    pub breakpoints: bool,
}

/// Of which samples of user code vector registers are brought. Where breakpoints stop threads they
/// are brought besides, if whoever sets these wants them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VectorOptions {
    /// The share that is chosen, if any sample is. Which ones is drawn for each, and depends on
    /// nothing. Of those that lack none nothing is brought.
    pub share: Option<Share>,
    /// How often a CPU's waker is woken for samples at most, each second: 1 to 10,000. What is
    /// chosen beyond that is refused.
    pub most: u32,
}

impl Default for BpfOptions {
    /// Sizes for a few thousand samples a second: 65,536 rows, 16 frames, buffers of 1 MiB. Ways of
    /// 16 instructions are followed, of all samples.
    fn default() -> BpfOptions {
        BpfOptions {
            filter: Filter::default(),
            rows: 65_536,
            frames: 16,
            buffer_bytes: 1 << 20,
            followed: 16,
            share: Share::ALL,
            overflow_entries: 4096,
            not_dumpable: false,
            placement: false,
            vectors: None,
            breakpoints: false,
        }
    }
}

impl BpfOptions {
    /// The most frames of a sample.
    pub const MOST_FRAMES: u32 = abi::MAX_FRAMES;
    /// The most instructions of a way.
    pub const MOST_FOLLOWED: u32 = abi::MAX_FOLLOWED;

    fn validate(&self) -> Result<(), Error> {
        let within = |what, got, range: std::ops::RangeInclusive<u32>, wanted| {
            if range.contains(&got) {
                Ok(())
            } else {
                Err(Error::BpfOptions { what, got, wanted })
            }
        };
        let few_millions = 1..=1 << 22;
        within("rows", self.rows, few_millions.clone(), "1 to 2^22")?;
        within(
            "entries for cycles",
            self.overflow_entries,
            few_millions,
            "1 to 2^22",
        )?;
        within("frames", self.frames, 0..=Self::MOST_FRAMES, "0 to 127")?;
        let most = Self::MOST_FOLLOWED;
        within(
            "instructions of a way",
            self.followed,
            1..=most,
            "1 to 1024",
        )?;
        if let Some(vectors) = self.vectors {
            within("wake-ups a second", vectors.most, 1..=10_000, "1 to 10000")?;
        }
        let sizes = "a power of two from 4096 to 2^30";
        within(
            "bytes of a buffer",
            self.buffer_bytes,
            4096..=1 << 30,
            sizes,
        )?;
        let power = u32::from(self.buffer_bytes.is_power_of_two());
        within(
            "bytes of a buffer",
            self.buffer_bytes,
            0..=power * self.buffer_bytes,
            sizes,
        )
    }
}

/// How to sample.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Whom.
    pub target: Target,
    /// With which clock.
    pub clock: Clock,
    /// Mean interval between interrupts of one CPU, in the clock's unit.
    pub period: u64,
    /// Makes the drawn intervals repeatable; each CPU draws its own sequence from it.
    pub seed: u64,
    /// How much of the user stack to copy with each sample, in bytes: a multiple of 8, 0 for none.
    pub stack_bytes: u32,
    /// Pages of 4 KiB for each CPU's ring: a power of two. Where the memory that may be locked
    /// does not suffice, the largest smaller power of two is taken; see `Setup::ring_pages`.
    pub ring_pages: u32,
    /// Leave the kernel's code out. Taken by itself where the privilege for more is missing.
    pub user_only: bool,
    /// Samples of one CPU between two wake-ups of its reader; at least 1. With the engine `bpf` a
    /// sample of an unknown process counts as eight.
    pub wake_up_samples: u32,
    /// The most bytes of records in one batch, which has one at the least. What a reader finds
    /// beyond that it sends in further batches, so that a channel of so many batches bounds memory.
    pub batch_bytes: usize,
    /// By which way samples come.
    pub engine: Engine,
    /// The rest is for the engine `bpf`.
    pub bpf: BpfOptions,
}

impl Config {
    /// A configuration with the usual sizes: 2048 bytes of stack, rings of 512 KiB, kernel
    /// included, seed 0, and wake-ups for every sample, but not more than about 100 a second.
    ///
    /// `period` is the mean interval in the clock's unit.
    pub fn new(target: Target, clock: Clock, period: u64) -> Config {
        // A CPU runs at some 3 GHz; a bit more or less changes only how often the reader wakes up.
        let units_per_second: u64 = match clock {
            Clock::Cycles => 3_000_000_000,
            Clock::CpuClock | Clock::Timer => 1_000_000_000,
        };
        let rate = units_per_second / period.max(1);
        Config {
            target,
            clock,
            period,
            seed: 0,
            stack_bytes: 2048,
            ring_pages: 128,
            user_only: false,
            wake_up_samples: u32::try_from((rate / 100).max(1)).unwrap_or(u32::MAX),
            batch_bytes: 1 << 20,
            engine: Engine::Ring,
            bpf: BpfOptions::default(),
        }
    }

    /// Says what the kernel would refuse, or silently change, before it is asked.
    ///
    /// # Errors
    /// [`Error::Period`], [`Error::StackBytes`], [`Error::RingPages`], [`Error::NoTarget`],
    /// [`Error::TimerNeedsBpf`], [`Error::BpfOptions`].
    pub fn validate(&self) -> Result<(), Error> {
        self.validate_period()?;
        if !self.stack_bytes.is_multiple_of(8) || self.stack_bytes > MOST_STACK {
            return Err(Error::StackBytes {
                bytes: self.stack_bytes,
                most: MOST_STACK,
            });
        }
        if !self.ring_pages.is_power_of_two() || self.ring_pages > 1 << 18 {
            return Err(Error::RingPages(self.ring_pages));
        }
        if self.target == Target::Processes(Vec::new()) {
            return Err(Error::NoTarget);
        }
        match self.engine {
            Engine::Ring if self.clock == Clock::Timer => Err(Error::TimerNeedsBpf),
            Engine::Ring => Ok(()),
            Engine::Bpf => self.bpf.validate(),
        }
    }

    /// Whether the clock can have this mean interval.
    pub(crate) fn validate_period(&self) -> Result<(), Error> {
        let shortest = match self.clock {
            Clock::Cycles => 1,
            Clock::CpuClock | Clock::Timer => CPU_CLOCK_FLOOR,
        };
        if (shortest..=LONGEST).contains(&self.period) {
            return Ok(());
        }
        Err(Error::Period {
            period: self.period,
            shortest,
            longest: LONGEST,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each limit of a configuration has its own error, and the usual values pass.
    #[test]
    fn validates() {
        let good = Config::new(Target::System, Clock::CpuClock, 1_000_000);
        assert!(good.validate().is_ok());
        assert_eq!(good.wake_up_samples, 10);
        for period in [0, 9_999, u64::MAX] {
            let bad = Config {
                period,
                ..good.clone()
            };
            assert!(
                matches!(bad.validate(), Err(Error::Period { .. })),
                "{period}"
            );
        }
        for stack_bytes in [1, 2047, 65_536, u32::MAX] {
            let bad = Config {
                stack_bytes,
                ..good.clone()
            };
            assert!(
                matches!(bad.validate(), Err(Error::StackBytes { .. })),
                "{stack_bytes}"
            );
        }
        for ring_pages in [0, 3, 1 << 31] {
            let bad = Config {
                ring_pages,
                ..good.clone()
            };
            assert!(
                matches!(bad.validate(), Err(Error::RingPages(_))),
                "{ring_pages}"
            );
        }
        let bad = Config {
            target: Target::Processes(Vec::new()),
            ..good
        };
        assert!(matches!(bad.validate(), Err(Error::NoTarget)));
        let mut timer = Config::new(Target::System, Clock::Timer, 1_000_000);
        assert!(matches!(timer.validate(), Err(Error::TimerNeedsBpf)));
        timer.engine = Engine::Bpf;
        assert!(timer.validate().is_ok());
    }

    /// An absurd period gives a configuration that is refused, not an overflow.
    #[test]
    fn new_takes_any_period() {
        for period in [0, 1, u64::MAX] {
            for clock in [Clock::Cycles, Clock::CpuClock, Clock::Timer] {
                assert!(Config::new(Target::System, clock, period).wake_up_samples >= 1);
            }
        }
    }
}
