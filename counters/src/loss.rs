//! Everything that can be lost.

use crate::Unit;

macro_rules! causes {
    ($($(#[$doc:meta])* $name:ident, $remedy:expr;)*) => {
        /// Why something is lost.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Cause {
            $($(#[$doc])* $name,)*
        }

        impl Cause {
            /// Every cause, in the order of the table.
            pub const ALL: [Self; [$(Self::$name,)*].len()] = [$(Self::$name,)*];

            /// What to do about it, if anything helps.
            pub const fn remedy(self) -> Option<&'static str> {
                match self { $(Self::$name => $remedy,)* }
            }
        }
    };
}

causes! {
    /// The collector was not given time enough to take what came.
    Time, Some("sample less often, or give vcpid more processor time");
    /// The collector's tables were full.
    Tables, Some("flush more often, or give the tables more memory");
    /// A process ended too soon.
    Processes, Some("the engine bpf has it");
    /// A mapping is not known.
    Mappings, None;
    /// The database could not be written.
    Saving, Some("give the database a disk with room, that is fast enough");
    /// What was to be read is damaged or gone.
    Input, None;
    /// vcpid is wrong.
    Defect, Some("this is a defect of vcpid: report it");
}

macro_rules! losses {
    ($($name:ident, $key:literal, $unit:ident, $cause:ident, $meaning:literal;)*) => {
        /// What can be lost. Each loss has a counter, whose name, unit and meaning are here alone.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Loss {
            $(#[doc = concat!("`", $key, "`: ", $meaning, ".")] $name,)*
        }

        impl Loss {
            /// Every loss, in the order of the table.
            pub const ALL: [Self; [$(Self::$name,)*].len()] = [$(Self::$name,)*];

            /// The name of its counter.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => $key,)* }
            }

            /// What it is counted in.
            pub const fn unit(self) -> Unit {
                match self { $(Self::$name => Unit::$unit,)* }
            }

            /// Why it happens; what to do follows from this.
            pub const fn cause(self) -> Cause {
                match self { $(Self::$name => Cause::$cause,)* }
            }

            /// What happened, and what is left, for people.
            pub const fn meaning(self) -> &'static str {
                match self { $(Self::$name => $meaning,)* }
            }
        }
    };
}

losses! {
    MalformedRecords, "malformed_records", Records, Defect,
        "vcpid did not understand what the kernel told";
    ReadersFailed, "readers_failed", Readers, Defect,
        "they ended before the sampling did; what came after that is missing";
    RingRecords, "ring_records", Records, Time,
        "no room in the kernel's ring; news of programs may be among them";
    RingSamples, "ring_samples", Samples, Time,
        "no room in the kernel's ring; or, with the clock timer, an interrupt that came too late or \
         could not tell whom it found";
    UndeliveredRecords, "undelivered_records", Records, Time,
        "the collector had ended before it could take them";
    SamplesAtTheEnd, "samples_at_the_end", Samples, Time,
        "the end came before the collector had looked at them";
    SamplesWithoutRoom, "samples_without_room", Samples, Time,
        "neither the handler's buffer nor its tables of cycles had room";
    ValuesOfSamplesWithoutRoom, "values_of_samples_without_room", Samples, Time,
        "the handler's buffer was full: their cycles count, values and callers are missing";
    ValuesOfLateSamples, "values_of_late_samples", Samples, Time,
        "the collector had no time to look at them: their cycles and callers count";
    SamplesOfShortTasks, "samples_of_short_tasks", Samples, Processes,
        "time of tasks that ended before an interval was over, in samples";
    WindowsOfGoneProcesses, "windows_of_gone_processes", Windows, Processes,
        "the process had ended before its pages could be looked at; cycles count";
    UnmappedPcSamples, "unmapped_pc_samples", Samples, Mappings,
        "nothing is known to be mapped there; they are in the profile without a name";
    ProcessTableFull, "process_table_full", Samples, Tables,
        "there was no room for their process";
    TableFullSamples, "table_full_samples", Samples, Tables,
        "the collector's tables were full";
    TableFullSites, "table_full_sites", Values, Tables,
        "the collector's tables were full";
    TableFullValues, "table_full_values", Values, Tables,
        "the collector's tables were full";
    TableFullCalls, "table_full_calls", Calls, Tables,
        "the collector's tables were full";
    TableFullStacks, "table_full_stacks", Samples, Tables,
        "the collector's tables had no room for their call stacks; their cycles count";
    UnsavedSamples, "unsaved_samples", Samples, Saving,
        "they were collected and never written";
    RejectedProfiles, "rejected_profiles", Profiles, Defect,
        "they contradict themselves, and are not in the database";
    NamesOfImages, "names_of_images", Images, Input,
        "their files could not be read when their functions were to be named";
    RestOfADamagedRecording, "rest_of_a_damaged_recording", Recordings, Input,
        "what follows the damage, however much that was";
}

impl Loss {
    /// The loss whose counter has this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|loss| loss.name() == name)
    }
}

#[cfg(test)]
mod tests {
    use super::Loss;

    /// Each loss is found by the name of its counter, so no two have the same one.
    #[test]
    fn names_are_unique() {
        for loss in Loss::ALL {
            assert_eq!(Loss::named(loss.name()), Some(loss));
        }
        assert_eq!(Loss::named("samples"), None);
    }
}
