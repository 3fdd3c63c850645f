//! How much windows reach, and how much of that is known.

use counters::{Counter, CounterKey};
use interpreter::Parameter;

use crate::events::{At, Consumer, Context, Ending, Event, Load, Options, Shared};

/// Counts what windows reach.
#[derive(Debug, Default)]
pub struct Coverage {
    windows: u64,
    windows_twice: u64,
    windows_in_part: u64,
    instructions: u64,
    destinations: u64,
    destinations_known: u64,
    user_destinations_known: u64,
    loads: u64,
    loads_known: u64,
}

impl Consumer for Coverage {
    fn new(_: &Options) -> Self {
        Self::default()
    }

    fn begins(&mut self, _: &mut Shared, window: &Context) {
        self.windows_twice += u64::from(window.times > 1);
        self.windows_in_part += u64::from(window.part < 1.0);
    }

    #[inline(always)]
    fn values(&mut self, _: &mut Shared, at: &At<'_>, events: &[Event]) {
        for (parameter, value) in events {
            if matches!(parameter, Parameter::Dest(_)) {
                let known = u64::from(value.is_some());
                self.destinations += 1;
                self.destinations_known += known;
                if !at.window.is_kernel {
                    self.user_destinations_known += known;
                }
            }
        }
    }

    #[inline(always)]
    fn load(&mut self, _: &mut Shared, _: &At<'_>, load: &Load) {
        self.loads += 1;
        self.loads_known += u64::from(load.value.is_some());
    }

    fn ends(&mut self, _: &mut Shared, _: &Context, ending: &Ending) {
        self.windows += 1;
        self.instructions += u64::from(ending.instructions);
    }

    fn count(&self, add: &mut dyn FnMut(CounterKey, u64)) {
        for (counter, n) in [
            (Counter::Windows, self.windows),
            (Counter::WindowsTwice, self.windows_twice),
            (Counter::WindowsInPart, self.windows_in_part),
            (Counter::Instructions, self.instructions),
            (Counter::DestinationsReached, self.destinations),
            (Counter::DestinationsKnown, self.destinations_known),
            (Counter::UserDestinationsKnown, self.user_destinations_known),
            (Counter::LoadsReached, self.loads),
            (Counter::LoadsCaptured, self.loads_known),
        ] {
            add(counter.into(), n);
        }
    }
}
