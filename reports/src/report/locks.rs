//! `locks`: where threads meet at locks.
//!
//! A thread that waits does not run, and no sample is of it. What samples see is around that: the
//! instructions that lock the bus, the system calls that a lock makes only when it is contended,
//! and the kernel's work for these.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use iced_x86::{Instruction, Mnemonic, OpKind};
use parameters::Parameter;
use profiledb::{ImageKind, Places};
use serde::{Serialize, Serializer};

use super::access::{AccessSite, heat_around};
use super::syscalls::{FUTEX, number};
use super::{JsonShare, JsonSite, json_shares, nothing, shares_text, shares_with};
use crate::args::OneFunction;
use crate::model::Model;
use crate::names::Names;
use crate::needs::{CYCLES_AND_VALUES, Needs};
use crate::page::Page;
use crate::query::{Answer, Query};
use crate::render::{Align, Table, count, cycles, percent, rounded, whole};
use crate::symbols::FunctionId;
use crate::symbols::data::Data;
use crate::turns::{Details, Turns};
use crate::view::{Heat, Values, View};

/// A worked example, for the help and the manual page.
const EXAMPLE: &str = "\
Example: where do threads meet at locks?
  vcpid record --capture ea,syscall -- ./program
  vcpi locks

  time%  cycles  seen  kind           in                                 addresses
   1.65   10.3M    66  lock           pthread_mutex_lock+0x48 (0x8c3b8)  (100.0% 0x56378d37f080)
   0.17   1.09M        kernel         futex_hash
   0.00       0     1  (100.0% wake)  __lll_lock_wake+0x11 (0x86191)

  All threads lock one mutex, and the kernel has work with those that wait.";

/// Where threads meet at locks: instructions with a lock prefix and the addresses that they lock,
/// futex calls by call site and address, and the kernel's time in these. A thread that waits takes
/// no time, and is not seen. Futex calls need values of the kind syscall (vcpid record --capture
/// ea,syscall).
#[derive(Debug, Clone, clap::Args)]
#[command(after_long_help = EXAMPLE)]
pub(crate) struct Locks {
    #[command(flatten)]
    of: OneFunction,
    /// Addresses shown for each row in text.
    #[arg(long, value_name = "N", default_value_t = 2)]
    values: usize,
}

/// Beginnings of the kernel's functions that work for locks.
const OF_KERNEL: [&str; 13] = [
    "__futex_",
    "do_futex",
    "futex_",
    "get_futex_",
    "mutex_spin_on_owner",
    "native_queued_spin_lock_slowpath",
    "osq_lock",
    "osq_unlock",
    "pv_queued_spin_lock_slowpath",
    "queued_spin_lock_slowpath",
    "rwsem_",
    "__x64_sys_futex",
    "__rt_mutex_",
];

/// What a row is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum LockKind {
    /// An instruction that locks.
    Instruction,
    /// A system call.
    Futex,
    /// A function of the kernel.
    Kernel,
}

impl LockKind {
    fn words(self) -> &'static str {
        match self {
            LockKind::Instruction => "lock",
            LockKind::Futex => "futex",
            LockKind::Kernel => "kernel",
        }
    }
}

/// The answer.
#[derive(Debug, Serialize)]
#[serde(transparent)]
struct Meetings {
    rows: Vec<LockSite>,
    #[serde(skip)]
    most: usize,
}

/// One instruction that locks, one call of futex, or one function of the kernel that locks.
#[derive(Debug, Serialize)]
struct LockSite {
    kind: LockKind,
    #[serde(flatten)]
    place: AccessSite,
    /// Who calls the function, most of the time; `null`: not known.
    caller: Option<JsonSite>,
    #[serde(skip)]
    caller_place: Option<AccessSite>,
    /// At the instruction and the one behind it, or in the kernel's function.
    #[serde(rename = "cycles", serialize_with = "super::whole_cycles")]
    heat: Heat,
    /// Of all cycles.
    percent: f64,
    cycle_samples: u64,
    /// Times that windows came by; `null`: not recorded where an instruction locks a place that it
    /// names itself.
    seen: Option<u64>,
    /// What futex calls do.
    operations: Shares,
    /// What is locked.
    addresses: Shares,
    /// What is locked, where the instruction names it.
    #[serde(skip_serializing_if = "Option::is_none")]
    named: Option<String>,
}

/// Values, if there are any.
#[derive(Debug, Default)]
struct Shares(Option<Values>);

impl Serialize for Shares {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let shares: Vec<JsonShare> = match &self.0 {
            Some(values) => json_shares(values, values.class()),
            None => Vec::new(),
        };
        shares.serialize(serializer)
    }
}

impl Query for Locks {
    fn needs(&self) -> Needs<'_> {
        Needs {
            function: self.of.name(),
            kinds: CYCLES_AND_VALUES,
            parameters: &["ea", "sys"],
            one_function: false,
            ..Needs::ROWS
        }
    }

    fn turns(&self) -> Turns<'_> {
        // Of few instructions addresses are asked for.
        Turns::Details(Details {
            first: Needs {
                kinds: CYCLES_AND_VALUES,
                nameless: true,
                ..Needs::PLACES
            },
            there: &["ea"],
            places: Box::new(places),
            elsewhere: &["sys"],
        })
    }

    fn answer<'p>(&self, view: &mut View<'p>) -> Answer<'p> {
        let mut rows = instructions(view);
        let parameters = view.look_at(&["sys"]);
        rows.extend(futexes(view));
        view.parameters = parameters;
        rows.extend(of_kernel(view));
        rows.retain(|row| row.cycle_samples.max(row.seen.unwrap_or(0)) >= view.min_samples);
        if rows.is_empty() {
            return Err(nothing("locks"));
        }
        rows.sort_by_key(|row| (Reverse(whole(row.heat.cycles)), Reverse(row.seen)));
        view.keep_first(&mut rows);
        Ok(Box::new(Meetings {
            rows,
            most: self.values,
        }))
    }
}

/// Whether an instruction locks what it changes.
fn locks(view: &View<'_>, pc: usize) -> bool {
    view.instruction(pc).is_some_and(|instruction| {
        let in_memory = instruction.op_kinds().any(|kind| kind == OpKind::Memory);
        let exchanges = instruction.mnemonic() == Mnemonic::Xchg && in_memory;
        instruction.has_lock_prefix() || exchanges
    })
}

/// The instructions that lock, and those that nobody can read before their bytes were.
fn places(view: &View<'_>) -> Places {
    let mut places = Places::default();
    for (index, pc) in view.profile.pcs.iter().enumerate() {
        if let Some(image) = view.profile.images.get(pc.image)
            && (view.instruction(index).is_none() || locks(view, index))
        {
            places.add(image, pc.address, pc.address.saturating_add(1));
        }
    }
    places
}

impl LockSite {
    fn new(
        view: &View<'_>,
        kind: LockKind,
        (pc, caller): (usize, Option<usize>),
        heat: Heat,
    ) -> LockSite {
        LockSite {
            kind,
            place: AccessSite::new(view, pc),
            caller: caller.map(|caller| JsonSite::new(view, caller)),
            caller_place: caller.map(|caller| AccessSite::new(view, caller)),
            heat,
            percent: rounded(percent(heat.cycles, view.total().cycles), 2),
            cycle_samples: heat.samples,
            seen: Some(0),
            operations: Shares::default(),
            addresses: Shares::default(),
            named: None,
        }
    }
}

/// The instructions that lock, each with the call site that takes most of its time.
fn instructions(view: &View<'_>) -> Vec<LockSite> {
    let mut addresses: BTreeMap<usize, Values> = BTreeMap::new();
    for values in view.values_of("ea") {
        if locks(view, values.pc) {
            match addresses.get(&values.pc) {
                Some(held) if held.reached >= values.reached => {}
                _ => {
                    addresses.insert(values.pc, values);
                }
            }
        }
    }
    let mut callers: BTreeMap<usize, BTreeMap<usize, Heat>> = BTreeMap::new();
    for row in &view.profile.cycles {
        if view.wants(row.pc) && (addresses.contains_key(&row.pc) || locks(view, row.pc)) {
            let of_pc = callers.entry(row.pc).or_default();
            if let Some(caller) = row.caller {
                of_pc.entry(caller).or_default().add(Heat {
                    samples: row.samples,
                    cycles: row.cycles,
                });
            }
        }
    }
    for pc in addresses.keys() {
        callers.entry(*pc).or_default();
    }
    let row = |(pc, callers): (usize, BTreeMap<usize, Heat>)| {
        let most = callers
            .iter()
            .max_by(|(_, a), (_, b)| a.cycles.total_cmp(&b.cycles));
        let caller = most.map(|(caller, _)| *caller);
        let mut row = LockSite::new(
            view,
            LockKind::Instruction,
            (pc, caller),
            heat_around(view, pc),
        );
        let addresses = addresses.remove(&pc);
        row.seen = addresses.as_ref().map(|values| values.reached);
        if row.seen.is_none() {
            row.named = named(view, pc);
            row.seen = Some(0).filter(|_| row.named.is_none());
        }
        row.addresses = Shares(addresses.map(|of| view.told(of)));
        row
    };
    callers.into_iter().map(row).collect()
}

/// The place of its own image that an instruction names: its address varies with where the image
/// is alone, and is not recorded.
fn named(view: &View<'_>, pc: usize) -> Option<String> {
    let instruction = view
        .instruction(pc)
        .filter(Instruction::is_ip_rel_memory_operand)?;
    let image = view.profile.pcs.get(pc)?.image;
    let address = instruction.ip_rel_memory_address();
    let name = Data::of(&view.symbols, image).at(&view.symbols, address);
    let name = name.unwrap_or_else(|| format!("0x{address:x}"));
    Some(format!("{}:{name}", view.symbols.short_name(image)))
}

/// The futex calls, by call site. Places that make other calls as well are left out: nobody knows
/// which address is whose.
fn futexes(view: &View<'_>) -> Vec<LockSite> {
    type AtCall = BTreeMap<(usize, Option<usize>), Values>;
    let [mut numbers, mut addresses, mut operations] =
        [AtCall::new(), AtCall::new(), AtCall::new()];
    for values in view.values_where(true, Some) {
        let is_wanted = view.wants(values.pc) || values.caller.is_some_and(|pc| view.wants(pc));
        let of = match values.parameter.parse() {
            Ok(Parameter::Syscall(0)) => &mut numbers,
            Ok(Parameter::Syscall(1)) => &mut addresses,
            Ok(Parameter::Syscall(2)) => &mut operations,
            _ => continue,
        };
        if is_wanted {
            of.insert((values.pc, values.caller), values);
        }
    }
    numbers.retain(|_, values| {
        let known = values.shares.as_slice();
        matches!(known, [only] if number(only.value) == FUTEX && values.unknown == 0)
    });
    let row = |(place, values): ((usize, Option<usize>), Values)| {
        let mut row = LockSite::new(view, LockKind::Futex, place, Heat::default());
        row.seen = Some(values.reached);
        row.operations = Shares(operations.remove(&place));
        row.addresses = Shares(addresses.remove(&place).map(|of| view.told(of)));
        row
    };
    numbers.into_iter().map(row).collect()
}

/// The kernel's functions that work for locks.
fn of_kernel(view: &View<'_>) -> Vec<LockSite> {
    let mut functions: BTreeMap<FunctionId, (usize, Heat)> = BTreeMap::new();
    for (pc, heat) in view.heat.iter().enumerate() {
        let image = view.profile.pcs.get(pc).map(|pc| pc.image);
        let image = image.and_then(|image| view.profile.images.get(image));
        let is_kernel = image.is_some_and(|image| image.kind == ImageKind::Kernel);
        if !is_kernel || heat.samples == 0 || !view.wants(pc) {
            continue;
        }
        let name = view.symbols.name_of(pc);
        if let Some(function) = view.symbols.function_of(pc)
            && OF_KERNEL.iter().any(|begin| name.starts_with(begin))
        {
            let (_, sum) = functions.entry(function).or_insert((pc, Heat::default()));
            sum.add(*heat);
        }
    }
    let rows = functions.into_values();
    rows.map(|(pc, heat)| LockSite::new(view, LockKind::Kernel, (pc, None), heat))
        .collect()
}

/// What a futex call does.
fn operation(value: u64) -> String {
    // Flags: private, and by the clock of real time.
    match value & 0x7f {
        0 | 9 => "wait".to_owned(),
        1 | 10 => "wake".to_owned(),
        3 | 4 | 12 => "requeue".to_owned(),
        6 | 13 => "lock_pi".to_owned(),
        7 => "unlock_pi".to_owned(),
        other => format!("op {other}"),
    }
}

/// What stands above the the rows.
const ABOUT: &str = "Where threads meet at locks.";

/// What else there is to know of it.
const MORE: &str = "\
    lock: instructions that lock, with what they lock; time%: at them and the instruction behind.\n\
    futex: calls that locks make when they are contended, by call site.\n\
    kernel: time in its functions for these. Threads that wait take no time, and are not seen.";

impl Model for Meetings {
    fn page(&self, names: Names) -> Page {
        let mut page = Page::default();
        page.about(ABOUT, MORE);
        page.gap();
        let mut table = Table::new(&[
            ("time%", Align::Right),
            ("cycles", Align::Right),
            ("seen", Align::Right),
            ("kind", Align::Left),
            ("in", Align::Left),
            ("from", Align::Left),
            ("addresses", Align::Left),
        ]);
        for row in &self.rows {
            let operations = row.operations.0.as_ref();
            let kind = match operations {
                Some(values) => shares_with(values, 2, operation),
                None => row.kind.words().to_owned(),
            };
            let addresses = row.addresses.0.as_ref();
            let caller = row.caller_place.as_ref();
            let is_of_function = row.kind == LockKind::Kernel;
            table.row(vec![
                format!("{:.2}", row.percent),
                cycles(row.heat.cycles),
                if is_of_function {
                    String::new()
                } else {
                    row.seen.map_or_else(String::new, count)
                },
                kind,
                if is_of_function {
                    row.place.function(names)
                } else {
                    row.place.text(names)
                },
                caller.map_or_else(String::new, |place| place.text(names)),
                match (addresses, &row.named) {
                    (Some(values), _) => shares_text(values, self.most),
                    (None, Some(named)) => format!("({named})"),
                    (None, None) => String::new(),
                },
            ]);
        }
        page.table(table);
        page
    }
}
