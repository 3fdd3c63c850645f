//! What a thread was doing at a sample, as the value of the parameter `sched`.

/// What was interrupted, and how it was scheduled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment {
    /// What was interrupted.
    pub level: Level,
    /// Interrupts were off.
    pub interrupts_off: bool,
    /// `SCHED_OTHER` (0), `SCHED_FIFO` (1) and so on, of the interrupted thread.
    pub policy: u8,
    /// The kernel's effective priority: 0 to 99 real-time, 100 to 139 ordinary.
    pub priority: u8,
}

/// What was interrupted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Code of a process.
    User = 0,
    /// The kernel on behalf of a thread.
    Kernel = 1,
    /// A softirq.
    Softirq = 2,
    /// A hardware interrupt.
    Hardirq = 3,
}

/// The bit for interrupts that are off.
const OFF: u32 = 24;

impl Moment {
    /// The name of the parameter.
    pub const PARAMETER: &'static str = "sched";

    /// The value.
    pub fn value(self) -> u64 {
        let [level, off] = [self.level as u64, u64::from(self.interrupts_off)];
        off << OFF | level << 16 | u64::from(self.policy) << 8 | u64::from(self.priority)
    }

    /// What a value says, if it is one.
    pub fn of(value: u64) -> Option<Self> {
        let [priority, policy, level, off, rest @ ..] = value.to_le_bytes();
        let level = match level {
            0 => Level::User,
            1 => Level::Kernel,
            2 => Level::Softirq,
            3 => Level::Hardirq,
            _ => return None,
        };
        (off <= 1 && rest == [0; 4]).then_some(Self {
            level,
            interrupts_off: off == 1,
            policy,
            priority,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{Level, Moment};

    /// A moment survives being a value, and other values are none.
    #[test]
    fn values() {
        for level in [Level::User, Level::Kernel, Level::Softirq, Level::Hardirq] {
            let moment = Moment {
                level,
                interrupts_off: level == Level::Hardirq,
                policy: 6,
                priority: 139,
            };
            assert_eq!(Moment::of(moment.value()), Some(moment));
        }
        for value in [4 << 16, 2 << 24, 1 << 32, u64::MAX] {
            assert_eq!(Moment::of(value), None);
        }
    }
}
