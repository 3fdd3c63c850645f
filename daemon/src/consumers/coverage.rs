//! How much windows reach, and how much of that is known.

use interpreter::Parameter;

use crate::events::{At, Consumer, Context, Ending, Event, Load, Options, Shared};

/// Counts what windows reach.
#[derive(Debug, Default)]
pub(crate) struct Coverage {
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
        self.loads_known += u64::from(load.is_known);
    }

    fn ends(&mut self, _: &mut Shared, _: &Context, ending: &Ending) {
        self.windows += 1;
        self.instructions += u64::from(ending.instructions);
    }

    fn count(&self, add: &mut dyn FnMut(&'static str, &'static str, u64)) {
        for (kind, name, n) in [
            ("run", "windows", self.windows),
            ("run", "windows_twice", self.windows_twice),
            ("run", "windows_in_part", self.windows_in_part),
            ("run", "instructions", self.instructions),
            ("coverage", "destinations_reached", self.destinations),
            ("coverage", "destinations_known", self.destinations_known),
            (
                "coverage",
                "user_destinations_known",
                self.user_destinations_known,
            ),
            ("coverage", "loads_reached", self.loads),
            ("coverage", "loads_captured", self.loads_known),
        ] {
            add(kind, name, n);
        }
    }
}
