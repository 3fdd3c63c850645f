//! What an interrupt costs, by events that are opened and do not count yet.

use std::os::fd::AsFd;
use std::thread;
use std::time::Duration;

use nix::sched::sched_getcpu;

use super::{CpuEvents, Sampler};
use crate::bpf::Bpf;
use crate::event::Event;
use crate::probe::{MANY_ROUNDS, compare, period};
use crate::{Config, Error, Handler, HandlerCounter, cpus, sys};

impl Sampler {
    /// What an interrupt costs, handler and all: by how much it slows a loop, on a thread of its
    /// own. Zero if that is not to be seen. Takes some tenths of a second, and two seconds at
    /// most where others want the CPU.
    ///
    /// Statistics of BPF programs see the handler alone, and the interrupt around it costs many
    /// times as much, above all in a virtual machine, whose timer belongs to the host.
    ///
    /// One CPU samples meanwhile, ten thousand times a second. What it finds comes with the first
    /// batch; it is older than the start.
    ///
    /// # Errors
    /// The first call that failed.
    pub fn interrupt_cost(&self) -> Result<Duration, Error> {
        let here = sched_getcpu().ok().and_then(|cpu| u32::try_from(cpu).ok());
        let on_this_cpu = self.cpus.iter().find(|(of, _)| Some(of.cpu) == here);
        let Some((of, _)) = on_this_cpu.or(self.cpus.first()) else {
            return Ok(Duration::ZERO);
        };
        let (cpu, clock, bpf, config) = (of.cpu, of.clock(), self.bpf.as_ref(), &self.config);
        let measure = || {
            // Where that is not allowed it may stay by itself.
            if let Err(error) = cpus::stay_on(cpu) {
                tracing::debug!(cpu, %error, "a thread cannot be kept on its CPU");
            }
            match (clock, bpf) {
                (Some(clock), _) => cost_of_event(clock, config),
                (None, Some(bpf)) => cost_of_timer(bpf, cpu, config),
                (None, None) => Ok(Duration::ZERO),
            }
        };
        thread::scope(|scope| scope.spawn(measure).join()).unwrap_or(Ok(Duration::ZERO))
    }
}

fn cost_of_event(clock: &Event, config: &Config) -> Result<Duration, Error> {
    let os = |what| move |source| Error::Os { what, source };
    let event = clock.fd.as_fd();
    let often = period(config.clock);
    let set = |interval| sys::set_period(event, interval).map_err(os("set an interval"));
    set(often)?;
    let cost = compare(
        MANY_ROUNDS,
        || sys::enable(event).map_err(os("enable an event")),
        || sys::disable(event).map_err(os("disable an event")),
        || {
            let totals = sys::totals(event).map_err(os("read an event"))?;
            Ok(totals.count / often)
        },
    );
    set(clock.interval)?;
    cost
}

fn cost_of_timer(bpf: &Bpf, cpu: u32, config: &Config) -> Result<Duration, Error> {
    let handler = Handler::new(bpf.maps());
    bpf.set_mean(period(config.clock))?;
    let cost = compare(
        MANY_ROUNDS,
        || bpf.start_timer_here().map(drop),
        || {
            bpf.stop_timers(&[cpu]);
            Ok(())
        },
        || Ok(handler.counters()?.get(HandlerCounter::Own)),
    );
    bpf.set_mean(config.period)?;
    cost
}

impl CpuEvents {
    /// What interrupts this CPU, if it is an event.
    fn clock(&self) -> Option<&Event> {
        match self.bpf {
            Some(_) => self.clocks().next(),
            None => self.events.first(),
        }
    }
}
