//! What came of a run.

/// What came of a run, summed over all CPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Samples delivered.
    pub samples: u64,
    /// Records delivered, samples included.
    pub records: u64,
    /// Batches delivered.
    pub batches: u64,
    /// Records the kernel lost because a ring was full.
    pub lost: u64,
    /// Samples the kernel lost before they reached a ring.
    pub lost_samples: u64,
    /// Samples that found no room in the buffers of the engine `bpf`; their cycles were delivered.
    pub without_room: u64,
    /// Records delivered to a consumer that had gone.
    pub undelivered: u64,
    /// How often the kernel stopped an event because its interrupts came too fast.
    pub throttled: u64,
    /// Records that could not be decoded.
    pub malformed: u64,
    /// Samples of inherited events, which redraws do not reach.
    pub inherited: u64,
    /// Intervals drawn, the first one of each event included.
    pub intervals: u64,
    /// Intervals that were drawn but refused by the kernel.
    pub redraws_failed: u64,
    /// Drains of a ring that ran on another CPU than its own, because the reader could not stay
    /// there.
    pub displaced: u64,
    /// Readers that ended by a defect of this program.
    pub readers_failed: u64,
    /// What the events of chosen tasks have counted in all, in the clock's unit: the time of which
    /// samples were to be taken. `None` where it is not that time: with the handler in the kernel,
    /// on whole CPUs, or where the kernel's part of it is left out.
    pub counted: Option<u64>,
}

impl Stats {
    /// Adds another CPU's figures.
    pub(crate) fn add(&mut self, other: &Stats) {
        let Stats {
            samples,
            records,
            batches,
            lost,
            lost_samples,
            without_room,
            undelivered,
            throttled,
            malformed,
            inherited,
            intervals,
            redraws_failed,
            displaced,
            readers_failed,
            counted: _,
        } = other;
        self.samples += samples;
        self.records += records;
        self.batches += batches;
        self.lost += lost;
        self.lost_samples += lost_samples;
        self.without_room += without_room;
        self.undelivered += undelivered;
        self.throttled += throttled;
        self.malformed += malformed;
        self.inherited += inherited;
        self.intervals += intervals;
        self.redraws_failed += redraws_failed;
        self.displaced += displaced;
        self.readers_failed += readers_failed;
    }
}
