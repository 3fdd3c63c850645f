//! What is counted, besides losses, ends of windows and the handler's own figures.

use crate::{Loss, Unit};

macro_rules! groups {
    ($($name:ident, $key:literal, $title:literal;)*) => {
        /// A group of counters: the column `kind` of the table `counter` of a database.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Group {
            $(#[doc = concat!("`", $key, "`: ", $title, ".")] $name,)*
        }

        impl Group {
            /// Every group, in the order of the table.
            pub const ALL: [Self; [$(Self::$name,)*].len()] = [$(Self::$name,)*];

            /// Its name in databases and in JSON.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => $key,)* }
            }
        }
    };
}

groups! {
    Run, "run", "what was collected";
    Coverage, "coverage", "how much of what windows reached is known";
    Interval, "interval", "the intervals between samples";
    Image, "image", "what is remembered of programs";
    Throttle, "throttle", "throttling by the kernel";
    Overhead, "overhead", "what collecting costs, and what the governor did about it";
    Peer, "peer", "what readers of the service asked";
    Storage, "storage", "what flushes and roll-ups wrote";
    Stacks, "stacks", "how call stacks ended";
    Vectors, "vectors", "vector registers of some samples";
    Pairs, "pairs", "pairs of breakpoints";
    Steps, "steps", "threads that were stepped";
    Entries, "entries", "breakpoints at entries of functions";
    Disagreements, "disagreements", "instructions of which the processor made something else";
    Stop, "stop", "why windows ended";
    Handler, "handler", "the handler of the interrupt";
    Lost, "lost", "everything that was lost";
}

macro_rules! counters {
    ($($name:ident, $group:ident, $key:literal, $unit:ident, $meaning:literal;)*) => {
        /// A counter of the table `counter` of a database.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Counter {
            $(#[doc = concat!("`", $key, "`: ", $meaning, ".")] $name,)*
        }

        impl Counter {
            /// Every counter, in the order of the table.
            pub const ALL: [Self; [$(Self::$name,)*].len()] = [$(Self::$name,)*];

            /// The group that it is in.
            pub const fn group(self) -> Group {
                match self { $(Self::$name => Group::$group,)* }
            }

            /// Its name within its group.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => $key,)* }
            }

            /// What it is counted in.
            pub const fn unit(self) -> Unit {
                match self { $(Self::$name => Unit::$unit,)* }
            }

            /// What it counts, for people.
            pub const fn meaning(self) -> &'static str {
                match self { $(Self::$name => $meaning,)* }
            }
        }
    };
}

counters! {
    Samples, Run, "samples", Samples, "interrupts that the profile stands for";
    KernelSamples, Run, "kernel_samples", Samples, "in kernel mode";
    UserSamples, Run, "user_samples", Samples, "in user mode";
    Windows, Run, "windows", Windows, "samples whose next instructions were interpreted";
    WindowsThinned, Run, "windows_thinned", Windows,
        "refused, so that windows behind stalls do not weigh too much; their cycles count";
    WindowsThinnedEarly, Run, "windows_thinned_early", Windows,
        "of these, more than should have been: the handler had yet to be told of a larger share";
    WindowsWithoutWay, Run, "windows_without_way", Windows,
        "not looked at, by lot: no memory was read ahead; their cycles count";
    WindowsCrowded, Run, "windows_crowded", Windows,
        "not looked at: too many waited, since vcpid gets too little processor time; their cycles \
         count";
    WindowsTwice, Run, "windows_twice", Windows,
        "had intervals longer than the mean, and count more than once";
    WindowsInPart, Run, "windows_in_part", Windows,
        "began behind stalls: their values count in full, branches and calls in part";
    Instructions, Run, "instructions", Instructions, "that windows reached";
    ValueEvents, Run, "value_events", Values, "that windows told";

    CoverageUserSamples, Coverage, "user_samples", Samples, "in user mode";
    UserSamplesWithCaller, Coverage, "user_samples_with_caller", Samples,
        "whose caller is known";
    CallersBeyondStackCopy, Coverage, "callers_beyond_stack_copy", Samples,
        "whose caller lies beyond the copy of the stack";
    DestinationsReached, Coverage, "destinations_reached", Values,
        "results of instructions that windows reached";
    DestinationsKnown, Coverage, "destinations_known", Values, "of these, known";
    UserDestinationsKnown, Coverage, "user_destinations_known", Values,
        "of these, known in user mode";
    UserSamplesWithWholeStack, Coverage, "user_samples_with_whole_stack", Samples,
        "whose call stack was followed to its end";
    LoadsReached, Coverage, "loads_reached", Values, "loads that windows reached";
    LoadsCaptured, Coverage, "loads_captured", Values, "of these, known";

    Intervals, Interval, "count", Samples, "intervals between samples";
    IntervalSum, Interval, "sum", Clock, "all intervals together";
    DistinctIntervals, Interval, "distinct", Times, "intervals of different lengths";
    Redraws, Interval, "redraws", Times, "draws of a new interval";
    RedrawsFailed, Interval, "redraws_failed", Times, "draws that the kernel refused";
    InheritedSamples, Interval, "inherited_samples", Samples,
        "of threads that kept the interval of the thread that began them";
    DrainsDisplaced, Interval, "drains_displaced", Times,
        "looks into a buffer that another look came before";
    ProcessorsChanged, Interval, "processors_changed", Times,
        "processors came or went while it was recorded";

    ProcessesNotKept, Image, "processes_not_kept", Processes,
        "forgotten for want of room, and met anew";
    MappingsNotKept, Image, "mappings_not_kept", Times, "mappings that found no room";
    ImagesNotKept, Image, "images_not_kept", Images, "that found no room";
    NamesNotKept, Image, "names_not_kept", Times, "names of functions that found no room";
    UnwindRulesNotKept, Image, "unwind_rules_not_kept", Times,
        "files whose unwind rules found no room";
    RegionsNotKept, Image, "regions_not_kept", Processes,
        "whose values have no names for what they point to, since that found no room";
    FilesChanged, Image, "files_changed", Images, "that were written to while they ran";

    Throttled, Throttle, "throttled", Times, "the kernel held sampling back";
    Unthrottled, Throttle, "unthrottled", Times, "the kernel let it go on";

    WallNs, Overhead, "wall_ns", Nanoseconds, "time that passed";
    MachineCpuNs, Overhead, "machine_cpu_ns", Nanoseconds,
        "time that passed, times the processors";
    CollectorCpuNs, Overhead, "collector_cpu_ns", Nanoseconds, "processor time of vcpid";
    CollectorSamples, Overhead, "collector_samples", Samples,
        "of the collector itself, left out";
    Interrupts, Overhead, "interrupts", Times, "interrupts of the clock";
    Wakes, Overhead, "wakes", Times,
        "interrupts that wake up who brings vector registers";
    InterruptsNs, Overhead, "interrupts_ns", Nanoseconds,
        "time in interrupts of both kinds, the handler apart, by what one was measured to take";
    OverheadHandlerNs, Overhead, "handler_ns", Nanoseconds,
        "time in the handler of the interrupt";
    BudgetNs, Overhead, "budget_ns", Nanoseconds, "what collecting was allowed to take";
    ReadersCpuNs, Overhead, "readers_cpu_ns", Nanoseconds,
        "processor time for what readers asked";
    Looks, Overhead, "looks", Times, "looks of the governor";
    PeriodSum, Overhead, "period_sum", Clock, "the mean interval at each look, added up";
    StartsLowered, Overhead, "starts_lowered", Times,
        "sampling began at a lower rate than configured";
    RateLowered, Overhead, "rate_lowered", Times, "to keep within the budget";
    RateRaised, Overhead, "rate_raised", Times, "as the budget allowed";
    RateLoweredForRoom, Overhead, "rate_lowered_for_room", Times,
        "since samples found no room";

    VectorsTooLate, Vectors, "too_late", Samples,
        "whose second record came after the sample had been looked at";
    VectorsMissing, Vectors, "missing", Samples, "whose second record never came";
    VectorsMalformed, Vectors, "malformed", Samples, "whose second record made no sense";
    VectorsOfAnother, Vectors, "of_another", Samples,
        "whose second record has other registers than the first";
    VectorWindows, Vectors, "windows", Windows, "that had vector registers";
    ValuesLeftOut, Vectors, "values_left_out", Values,
        "depend on vector registers, in samples that were not chosen to bring these";

    PairsAsked, Pairs, "asked", Times,
        "blocks of instructions around which breakpoints were to be set";
    PairsBusy, Pairs, "busy", Times, "blocks that found others waiting for the breakpoints";
    PairsWithoutBlock, Pairs, "without_block", Samples,
        "samples at an instruction that no block begins with: a branch, or code that is made at \
         run time";
    PairsSeen, Pairs, "seen", Times,
        "pairs: the same execution was stopped at both breakpoints";
    PairsSeenLater, Pairs, "seen_later", Times, "of these, not at the first attempt";
    PairsWithoutMemory, Pairs, "without_memory", Times,
        "of these, loaded from memory that was not read at the entry";
    PairsWithVectors, Pairs, "with_vectors", Times,
        "pairs of blocks with vector registers, x87 among them, that were brought at both ends";
    PairsWithoutVectors, Pairs, "without_vectors", Times,
        "the same, that were not brought at both ends";
    PairsGivenUp, Pairs, "given_up", Times,
        "blocks without a pair: what became of each attempt is counted beside this";
    PairsKeptBack, Pairs, "kept_back", Times,
        "pairs of processes whose values are not recorded";
    PairsOfGoneProcesses, Pairs, "process_gone", Times, "pairs of processes that are not known";
    PairsMappedAnew, Pairs, "mapped_anew", Times, "pairs of code that is no longer there";
    PairsCompared, Pairs, "compared", Times, "pairs whose instructions were worked out";
    PairsNotWorkedOut, Pairs, "not_worked_out", Times,
        "pairs around an instruction that is not interpreted; their results are values";
    ResultsCompared, Pairs, "results_compared", Values,
        "registers that the instructions of pairs wrote, known and compared";
    ResultsUnknown, Pairs, "results_unknown", Values,
        "registers that the instructions of pairs wrote, and that are not known";
    PairsAgreed, Pairs, "agreed", Times, "pairs of which the processor made the same";
    PairsRaced, Pairs, "raced", Times,
        "pairs that differ, and load what others may have written between: as windows may";
    PairsDisagreed, Pairs, "disagreed", Times,
        "the processor made something else of them: a defect of vcpid, report it";
    PairValues, Pairs, "values", Values, "results that only the processor could give";

    StepsAsked, Steps, "asked", Times, "threads that were to be stepped over a few instructions";
    StepsBusy, Steps, "busy", Times, "threads that found others waiting for their turn";
    StepsPutOff, Steps, "put_off", Times,
        "stops that were put off, since the thread had been stopped within 10 ms";
    StepsNotSeen, Steps, "not_seen", Times,
        "threads that were not stepped: why is counted beside this";
    StepsSeen, Steps, "seen", Times, "stops: a thread stood, and was let go";
    StepsStoodNs, Steps, "stood_ns", Nanoseconds, "how long these stood, together";
    StepsStoodLong, Steps, "stood_long", Times, "of these, stood for more than 2 ms";
    StepsInstructions, Steps, "instructions", Instructions, "that threads executed one by one";
    StepsKeptBack, Steps, "kept_back", Times, "stops in programs whose values are not recorded";
    StepsOfGoneProcesses, Steps, "process_gone", Times, "stops of processes that are not known";
    StepsMappedAnew, Steps, "mapped_anew", Times, "stops in code that is no longer there";
    StepsOfMadeCode, Steps, "made_code", Times, "stops in code that is made at run time";
    StepsCompared, Steps, "compared", Instructions, "that were worked out, too";
    StepsNotWorkedOut, Steps, "not_worked_out", Instructions,
        "that are not interpreted; their results are values";
    StepResultsCompared, Steps, "results_compared", Values,
        "registers that the instructions wrote, known and compared";
    StepResultsUnknown, Steps, "results_unknown", Values,
        "registers that the instructions wrote, and that are not known";
    StepsAgreed, Steps, "agreed", Instructions, "of which the processor made the same";
    StepsRaced, Steps, "raced", Instructions,
        "that differ, and load what others may have written between";
    StepsDisagreed, Steps, "disagreed", Instructions,
        "of which the processor made something else: a defect of vcpid, report it";
    StepValues, Steps, "values", Values, "results that the processor gave";

    EntriesWithoutRoom, Entries, "without_room", Samples,
        "samples whose threads were not watched: too many are";
    EntriesNotWatched, Entries, "not_watched", Times,
        "functions without unwind rules, or with a way back to their entry that is no call";
    Trials, Entries, "trials", Times,
        "bursts that were to find out how long they may last; they count for nothing";
    Bursts, Entries, "bursts", Times,
        "short times for which threads were stopped at all their calls of a function";
    BurstsFull, Entries, "bursts_full", Times,
        "of these, ended by so many calls: these count for the others of the time";
    BurstsDense, Entries, "bursts_dense", Times,
        "of functions that are entered again sooner than a breakpoint takes";
    BurstsEmpty, Entries, "bursts_empty", Times, "of these, without a call";
    EntriesOfGoneProcesses, Entries, "process_gone", Times, "bursts of processes that are not known";
    EntriesKeptBack, Entries, "kept_back", Times, "bursts of processes whose values are not recorded";
    EntriesMappedAnew, Entries, "mapped_anew", Times, "bursts of code that is no longer there";
    EnteredCalls, Entries, "calls", Calls, "calls that bursts saw";
    EnteredWithoutSite, Entries, "without_site", Calls,
        "calls of which it is not known from where they came";
    EnteredWithVectors, Entries, "with_vectors", Calls,
        "of the calls, those whose vector registers were brought";
    EnteredWithoutVectors, Entries, "without_vectors", Calls,
        "of the calls, those whose vector registers were to be brought, and were not";

    Connections, Peer, "connections", Times, "connections accepted";
    Views, Peer, "views", Times, "views sent whole";
    ViewBytes, Peer, "view_bytes", Bytes, "bytes of views sent";
    Controls, Peer, "controls", Times, "requests to the service itself that were answered";
    RefusedMalformed, Peer, "refused_malformed", Times, "what was sent was no request";
    RefusedVersion, Peer, "refused_version", Times, "the reader's version is unknown";
    RefusedForbidden, Peer, "refused_forbidden", Times, "the reader may not ask this";
    RefusedBusy, Peer, "refused_busy", Times, "too many connections or requests";
    RefusedTooLarge, Peer, "refused_too_large", Times, "the view would have been too large";
    RefusedTooSlow, Peer, "refused_too_slow", Times, "something took too long";
    RefusedFailed, Peer, "refused_failed", Times, "the service failed";
    HungUp, Peer, "hung_up", Times, "readers that went before they had their answer";
    AcceptsFailed, Peer, "accepts_failed", Times, "connections that could not be accepted";

    Lists, Storage, "lists", Lists, "lists of values that flushes had";
    Events, Storage, "events", Values, "how often these were reached";
    ListsLeftOut, Storage, "lists_left_out", Lists,
        "lists of values that were reached seldom: others stand for them, by lot (`hour_mib`)";
    EventsLeftOut, Storage, "events_left_out", Values,
        "what these were reached; what others stand for them is right on average";
    RolledLists, Storage, "rolled_lists", Lists, "lists of values that roll-ups had";
    RolledEvents, Storage, "rolled_events", Values, "how often these were reached";
    RolledListsLeftOut, Storage, "rolled_lists_left_out", Lists,
        "lists that others stand for, by lot";
    RolledEventsLeftOut, Storage, "rolled_events_left_out", Values,
        "what these were reached; what others stand for them is right on average";
}

/// Where something is counted: a group, and a name in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CounterKey {
    group: Group,
    name: &'static str,
}

impl CounterKey {
    /// Of something whose names an enumeration elsewhere owns: why windows end, why a pair of
    /// breakpoints was missed, what the handler counts.
    pub const fn of(group: Group, name: &'static str) -> Self {
        Self { group, name }
    }

    /// The group.
    pub const fn group(self) -> Group {
        self.group
    }

    /// The name in it.
    pub const fn name(self) -> &'static str {
        self.name
    }
}

impl From<Counter> for CounterKey {
    fn from(counter: Counter) -> Self {
        Self::of(counter.group(), counter.name())
    }
}

impl From<Loss> for CounterKey {
    fn from(loss: Loss) -> Self {
        Self::of(Group::Lost, loss.name())
    }
}

impl Counter {
    /// The counter of this name in a group of this name, if there is one.
    pub fn named(group: &str, name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|counter| counter.name() == name && counter.group().name() == group)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each counter is found by its names, each group by its own, and no counter has the name of a
    /// loss, of which `status` explains each by its name.
    #[test]
    fn names_are_unique() {
        for counter in Counter::ALL {
            let found = Counter::named(counter.group().name(), counter.name());
            assert_eq!(found, Some(counter));
            assert_eq!(Loss::named(counter.name()), None);
            assert!(!counter.meaning().is_empty() && !counter.meaning().ends_with('.'));
        }
        for group in Group::ALL {
            let same = Group::ALL.iter().filter(|of| of.name() == group.name());
            assert_eq!(same.count(), 1);
        }
    }
}
