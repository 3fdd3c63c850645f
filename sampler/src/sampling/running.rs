//! Sampling that goes on: its figures, its pace, and its end.

use std::mem;
use std::os::fd::AsFd;
use std::sync::atomic::Ordering;

use super::{Running, Setup};
use crate::attr::Role;
use crate::stats::Stats;
use crate::sys;
use crate::{AtEntries, Breakpoints, Config, Error, Handler, Target, Tid};

impl Running {
    /// What the machine made of the configuration.
    pub fn setup(&self) -> &Setup {
        &self.setup
    }

    /// The handler in the kernel; `None` with the engine `ring`.
    pub fn handler(&self) -> Option<Handler> {
        self.bpf.as_ref().map(|bpf| Handler::new(bpf.maps()))
    }

    /// What sets breakpoints for pairs; once. With the engine `bpf` it is to be
    /// [asked for](crate::BpfOptions::breakpoints), and the handler runs at their entries.
    pub fn breakpoints(&mut self) -> Breakpoints {
        let (handler, trapped) = match &mut self.bpf {
            Some(bpf) => (bpf.program().ok(), bpf.trapped.take()),
            None => (None, None),
        };
        Breakpoints::new(handler, trapped, self.config.stack_bytes)
    }

    /// What has vector registers brought at [entries](crate::entries) of functions, where that can
    /// be.
    pub fn at_entries(&self) -> Option<AtEntries> {
        let program = self.bpf.as_ref()?.at_entry()?;
        Some(AtEntries::new(program))
    }

    /// The threads that read the rings, so that their own time can be told apart.
    pub fn reader_tids(&self) -> Vec<Tid> {
        self.tids.clone()
    }

    /// For how long each CPU's events have been enabled, in nanoseconds and in the order of
    /// [`Setup::cpus`]; 0 where the kernel does not tell. With [`Target::System`] this grows for as
    /// long as they are there: a CPU that goes offline takes its events with it, and comes back
    /// without them.
    pub fn enabled_times(&self) -> Vec<u64> {
        self.events
            .iter()
            .filter(|(role, _)| *role != Role::Clock)
            .filter_map(|(_, events)| events.first())
            .map(|event| sys::totals(event.as_fd()).map_or(0, |totals| totals.enabled))
            .collect()
    }

    /// Bytes of all batches that were sent so far, the ones included that wait for room: what was
    /// not received of them is held in memory.
    pub fn sent_bytes(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// Draws intervals around another mean, in the clock's unit, from the next draw of each CPU on:
    /// its present interval still ends as it was drawn.
    ///
    /// # Errors
    /// [`Error::Period`] if the clock cannot have it, or the kernel's refusal; the mean then stays
    /// as it was.
    pub fn set_period(&self, mean: u64) -> Result<(), Error> {
        Config {
            period: mean,
            ..self.config.clone()
        }
        .validate_period()?;
        if let Some(bpf) = &self.bpf {
            bpf.set_mean(mean)?;
        }
        self.mean.store(mean, Ordering::Relaxed);
        Ok(())
    }

    /// Stops the events and tells the readers to drain what is left, to send a last batch each,
    /// and to end; the channel is disconnected when the last one has. Does not wait for that.
    pub fn request_stop(&self) {
        for event in self.events.iter().flat_map(|(_, events)| events.iter()) {
            // An event that has gone is stopped.
            if let Err(error) = sys::disable(event.as_fd()) {
                tracing::debug!(%error, "an event cannot be disabled");
            }
        }
        if let Some(bpf) = &self.bpf {
            bpf.stop_timers(&self.setup.cpus);
        }
        self.stop.make();
    }

    /// Stops as [`Running::request_stop`] does and waits for the readers' ends.
    ///
    /// Somebody else must receive meanwhile, or the receiver be gone: a reader that finds the
    /// channel full waits. A consumer that stops by itself calls `request_stop`, receives until
    /// the channel is disconnected, and then calls this for the figures.
    pub fn stop(mut self) -> Stats {
        self.request_stop();
        let mut stats = Stats::default();
        for reader in mem::take(&mut self.readers) {
            match reader.join() {
                Ok(of_one) => stats.add(&of_one),
                Err(_) => stats.readers_failed += 1,
            }
        }
        stats.counted = self.counted();
        stats
    }

    /// See [`Stats::counted`].
    fn counted(&self) -> Option<u64> {
        if self.bpf.is_some() || self.setup.user_only || self.config.target == Target::System {
            return None;
        }
        let events = self.events.iter().flat_map(|(_, events)| events.iter());
        let counts = events.map(|event| Some(sys::totals(event.as_fd()).ok()?.count));
        counts.sum()
    }
}

impl Drop for Running {
    /// Lets the readers end by themselves.
    fn drop(&mut self) {
        self.request_stop();
    }
}
