//! The arguments that count at a callee, from the best that is known of it.

use std::collections::{BTreeMap, BTreeSet};

use iced_x86::Register;

use crate::convention::{Convention, PLATFORM, register_of};
use crate::liveness::{Argument, Walker, all};
use crate::symbols::Symbols;
use crate::variables::{Declaration, Parameter, Passed};
use crate::view::View;

/// What is known of the functions that are called.
pub(crate) struct Callees {
    /// The PC that stands for another one: the function behind a PLT stub, or the
    /// first of several stubs that lead to a function without a PC of its own.
    canonical: BTreeMap<usize, usize>,
    /// Live arguments by the index of the entry, which is canonical.
    live: BTreeMap<usize, Option<Vec<Argument>>>,
    /// Calling conventions, likewise.
    conventions: BTreeMap<usize, Convention>,
    /// Vector registers that are arguments, as bit i for the i-th, likewise: of functions with the
    /// platform's convention that can be read, and whose vector registers were captured.
    vectors: BTreeMap<usize, u8>,
    /// What is declared beyond doubt, likewise.
    declared: BTreeMap<usize, Declaration>,
}

/// The integer arguments that count at a callee.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Live {
    /// The arguments; all that there may be where it is not known which of them are.
    pub(crate) arguments: Vec<Argument>,
    /// They are known.
    pub(crate) known: bool,
    /// How they are passed.
    pub(crate) convention: Convention,
}

impl Live {
    /// The argument that a parameter of the profile is, if it is one.
    pub(crate) fn of_parameter(&self, parameter: &str) -> Option<&Argument> {
        let register = register_of(parameter)?;
        let mut arguments = self.arguments.iter();
        arguments.find(|argument| argument.register == register)
    }

    /// What an argument is called: by its position, or where that is not known, by its register.
    pub(crate) fn name(&self, argument: &Argument) -> String {
        match self.convention {
            Convention::Unknown => parameters::Parameter::ArgIn(argument.register),
            _ => parameters::Parameter::Arg(argument.index),
        }
        .to_string()
    }
}

/// An address of an image.
type Place = (usize, u64);

impl Callees {
    /// Looks at the functions with entries at these PCs, and closely at those asked for.
    pub(crate) fn new(view: &View<'_>, callees: &BTreeSet<usize>) -> Callees {
        let pcs = &view.profile.pcs;
        let at = |callee: usize| pcs.get(callee).map(|pc| (pc.image, pc.address));
        let entries: Vec<Place> = callees.iter().filter_map(|callee| at(*callee)).collect();
        let behind = view.symbols.behind_stubs(&entries);
        let wanted: BTreeSet<Place> = behind.values().copied().collect();
        let mut index_of: BTreeMap<Place, usize> = pcs
            .iter()
            .enumerate()
            .map(|(index, pc)| ((pc.image, pc.address), index))
            .filter(|(place, _)| wanted.contains(place))
            .collect();
        let mut canonical = BTreeMap::new();
        for callee in callees {
            if let Some(target) = at(*callee).and_then(|stub| behind.get(&stub)) {
                canonical.insert(*callee, *index_of.entry(*target).or_insert(*callee));
            }
        }
        let targets: BTreeMap<usize, Place> = callees
            .iter()
            .filter_map(|callee| {
                let entry = at(*callee)?;
                let of = canonical.get(callee).copied().unwrap_or(*callee);
                view.wants(of).then_some(())?;
                Some((of, behind.get(&entry).copied().unwrap_or(entry)))
            })
            .collect();
        let others = with_others(view, &canonical, &targets);
        let mut walker = Walker::new(&view.symbols);
        let (live, conventions) = live(view, &targets, &others, &mut walker);
        let mut callees = Callees {
            canonical,
            live,
            conventions,
            vectors: BTreeMap::new(),
            declared: BTreeMap::new(),
        };
        callees.vectors = vectors(view, &targets, &callees, &mut walker);
        callees.declared = declarations(view, &targets, &callees);
        callees
    }

    /// What is declared of a callee beyond doubt.
    pub(crate) fn declared(&self, callee: usize) -> Option<&Declaration> {
        self.declared.get(&self.canonical(callee))
    }

    /// What is declared of the argument that is passed there.
    pub(crate) fn passed(&self, callee: usize, passed: Passed) -> Option<Parameter> {
        let mut parameters = self.declared(callee)?.parameters.iter();
        parameters.find(|one| one.passed == passed).cloned()
    }

    /// The PC that stands for this one.
    pub(crate) fn canonical(&self, callee: usize) -> usize {
        self.canonical.get(&callee).copied().unwrap_or(callee)
    }

    /// Whether a callee takes an argument in the vector register of this number; `None`: it is not
    /// known.
    pub(crate) fn takes_vector(&self, callee: usize, number: u8) -> Option<bool> {
        let live = self.vectors.get(&self.canonical(callee))?;
        Some(live.checked_shr(number.into()).unwrap_or(0) & 1 != 0)
    }

    /// The live integer arguments of a callee.
    pub(crate) fn live(&self, callee: usize) -> Live {
        let callee = self.canonical(callee);
        let live = self.live.get(&callee).cloned().flatten();
        let convention = self.conventions.get(&callee).copied();
        let convention = convention.unwrap_or(Convention::Unknown);
        Live {
            known: live.is_some(),
            arguments: live.unwrap_or_else(|| all(convention)),
            convention,
        }
    }
}

/// The vector registers that are arguments of those functions at whose calls the collector noted
/// vector registers.
fn vectors(
    view: &View<'_>,
    targets: &BTreeMap<usize, Place>,
    callees: &Callees,
    walker: &mut Walker<'_, Symbols>,
) -> BTreeMap<usize, u8> {
    let is_vector = |parameter: &str| {
        let at_entry = parameter.strip_prefix(profiledb::AT_ENTRY);
        let parameter = at_entry.unwrap_or(parameter).parse();
        matches!(parameter, Ok(parameters::Parameter::VectorArg(_)))
    };
    let rows = view.profile.hotlists.iter();
    let rows = rows.filter(|row| is_vector(&row.parameter));
    let captured: BTreeSet<usize> = rows.map(|row| callees.canonical(row.pc)).collect();
    let live = captured.into_iter().filter_map(|callee| {
        let place = *targets.get(&callee)?;
        let elf = view.symbols.elf(place.0)?;
        let is_read = callees.live(callee).convention == Convention::Platform
            // Behind a stub that leads nowhere known there is no code to look at.
            && elf.plt(place.1).is_none();
        let live = is_read.then(|| walker.live_vectors(place))?;
        Some((callee, live?))
    });
    live.collect()
}

/// What is declared beyond doubt: functions with the platform's convention whose code reads no
/// other integer arguments than those declared.
fn declarations(
    view: &View<'_>,
    targets: &BTreeMap<usize, Place>,
    callees: &Callees,
) -> BTreeMap<usize, Declaration> {
    let mut by_image: BTreeMap<usize, BTreeSet<u64>> = BTreeMap::new();
    for (image, address) in targets.values() {
        by_image.entry(*image).or_default().insert(*address);
    }
    let mut declared: BTreeMap<Place, Declaration> = BTreeMap::new();
    for (image, entries) in by_image {
        let of = view.symbols.parameters(image, &entries).into_iter();
        declared.extend(of.map(|(address, of)| ((image, address), of)));
    }
    let of_target = |(callee, place): (&usize, &Place)| {
        let declaration = declared.get(place).filter(|declared| declared.is_sure)?;
        let live = callees.live(*callee);
        let is_declared = |index: u8| {
            let mut all = declaration.parameters.iter();
            all.any(|parameter| parameter.passed == Passed::Integer(index))
        };
        let is_read_there = |passed| match passed {
            Passed::Integer(index) => live.arguments.iter().any(|live| live.index == index),
            Passed::Vector(number, _) => callees.takes_vector(*callee, number) == Some(true),
            Passed::Stack | Passed::Unread => false,
        };
        let function = view.symbols.function_of(*callee);
        let function = function.and_then(|id| view.symbols.function(id));
        // What has no name may be a clone.
        let agrees = function.is_some_and(|function| function.named)
            && live.known
            && live.convention == Convention::Platform
            && live.arguments.iter().all(|live| is_declared(live.index))
            && declaration.agrees(is_read_there)
            && !is_clone(&view.symbols.name_of(*callee));
        let is_read = |number| callees.takes_vector(*callee, number) != Some(false);
        agrees.then(|| (*callee, declaration.clone().passed(is_read)))
    };
    targets.iter().filter_map(of_target).collect()
}

/// What is to be said where it is not known which arguments of `functions` functions are live.
pub(crate) fn not_known(functions: usize) -> Option<String> {
    let functions = match functions {
        0 => return None,
        1 => "one function".to_owned(),
        many => format!("{many} functions"),
    };
    Some(format!(
        "the code of {functions} cannot be read: all six argument registers (or those of its language) are shown of what is \
         marked ?, though not all of them need be arguments"
    ))
}

/// Whether a parameter is what a register held that is no argument by the platform's convention.
fn is_other(parameter: &str) -> bool {
    matches!(parameter.parse(), Ok(parameters::Parameter::ArgIn(_)))
}

/// The places of functions at whose calls the collector noted registers that are no arguments by
/// the platform's convention.
fn with_others(
    view: &View<'_>,
    canonical: &BTreeMap<usize, usize>,
    targets: &BTreeMap<usize, Place>,
) -> BTreeSet<Place> {
    let rows = view.profile.hotlists.iter();
    let others = rows.filter(|row| is_other(&row.parameter));
    let callees = others.map(|row| canonical.get(&row.pc).copied().unwrap_or(row.pc));
    callees
        .filter_map(|callee| targets.get(&callee).copied())
        .collect()
}

/// Live arguments and calling conventions by callee.
type Known = (
    BTreeMap<usize, Option<Vec<Argument>>>,
    BTreeMap<usize, Convention>,
);

/// The live integer arguments of functions: as the C standard or debug information
/// declares them, else as their code reads them; `None` for one that cannot be read. Where they
/// are passed follows from the functions' languages.
fn live(
    view: &View<'_>,
    targets: &BTreeMap<usize, Place>,
    others: &BTreeSet<Place>,
    walker: &mut Walker<'_, Symbols>,
) -> Known {
    let mut by_image: BTreeMap<usize, BTreeSet<u64>> = BTreeMap::new();
    let mut clones = BTreeSet::new();
    for (callee, (image, address)) in targets {
        by_image.entry(*image).or_default().insert(*address);
        if is_clone(&view.symbols.name_of(*callee)) {
            clones.insert((*image, *address));
        }
    }
    let mut declared: BTreeMap<Place, Vec<Argument>> = BTreeMap::new();
    let mut left_out: BTreeSet<Place> = BTreeSet::new();
    let mut conventions: BTreeMap<Place, Convention> = BTreeMap::new();
    for (image, entries) in by_image {
        let said = view.symbols.declared(image, &entries);
        let others: BTreeSet<u64> = others
            .iter()
            .filter(|place| place.0 == image)
            .map(|place| place.1)
            .collect();
        let of = view
            .symbols
            .conventions(image, &entries, &said.conventions, &others);
        conventions.extend(of.into_iter().map(|(address, of)| ((image, address), of)));
        // A compiler may move the parameters of what it makes from another function.
        let windows = said.windows.into_iter().map(|address| (image, address));
        for place in windows.filter(|place| !clones.contains(place)) {
            if !reads_others(walker, place) {
                conventions.insert(place, Convention::Windows);
            }
        }
        let unread = said.left_out.into_iter();
        left_out.extend(unread.map(|address| (image, address)));
        let arguments = said.arguments.into_iter();
        declared.extend(arguments.map(|(address, of)| ((image, address), of)));
    }
    let convention_at = |place: Place| {
        let convention = conventions.get(&place).copied();
        convention.unwrap_or(Convention::Unknown)
    };
    let mut live_at = |(image, address): Place| {
        let place = (image, address);
        let declared = declared.get(&place).filter(|_| !clones.contains(&place));
        if let Some(declared) = declared {
            if left_out.contains(&place) {
                let live = walker.live_arguments(place, convention_at(place))?;
                return Some(read_of(declared, live));
            }
            return Some(declared.clone());
        }
        // Behind a stub that leads nowhere known there is no code to look at.
        let stub = view.symbols.elf(image).and_then(|elf| elf.plt(address));
        match stub {
            Some((_, _, name)) => standard(name),
            None => walker.live_arguments(place, convention_at(place)),
        }
    };
    let targets = || targets.iter().map(|(callee, place)| (*callee, *place));
    (
        targets()
            .map(|(callee, place)| (callee, live_at(place)))
            .collect(),
        targets()
            .map(|(callee, place)| (callee, convention_at(place)))
            .collect(),
    )
}

/// Whether code reads argument registers of the platform's convention that Windows' keeps for
/// callers.
fn reads_others(walker: &mut Walker<'_, Symbols>, place: Place) -> bool {
    let windows = Convention::Windows.registers();
    let others = PLATFORM.into_iter().filter(|of| !windows.contains(of));
    let others: Vec<Register> = others.collect();
    walker.reads_any(place, &others).unwrap_or(true)
}

/// Those of declared arguments that code reads, in their declared widths. Where it reads others,
/// the declaration is none of this code.
fn read_of(declared: &[Argument], live: Vec<Argument>) -> Vec<Argument> {
    let in_register = |live: &Argument| {
        let mut declared = declared.iter();
        declared.find(|one| one.register == live.register).copied()
    };
    let read: Option<Vec<Argument>> = live.iter().map(in_register).collect();
    read.unwrap_or(live)
}

/// Widths of the integer arguments of the C standard's (and POSIX') functions on memory
/// and strings. Programs call them through stubs, and C libraries choose their
/// implementations at run time, so that no code can be looked at.
const STANDARD: [(&[&str], &[u32]); 5] = [
    (
        &[
            "memcpy", "memmove", "memcmp", "strncpy", "strncmp", "strncat", "stpncpy",
        ],
        &[64, 64, 64],
    ),
    (&["memset", "memchr", "memrchr"], &[64, 32, 64]),
    (
        &[
            "strcpy", "strcat", "strcmp", "stpcpy", "strstr", "strspn", "strcspn",
        ],
        &[64, 64],
    ),
    (&["strchr", "strrchr"], &[64, 32]),
    (&["strlen"], &[64]),
];

/// The arguments of a function that the standard fixes.
fn standard(name: &str) -> Option<Vec<Argument>> {
    let (_, widths) = STANDARD.iter().find(|(names, _)| names.contains(&name))?;
    let arguments = widths.iter().zip(0..);
    Some(
        arguments
            .zip(PLATFORM)
            .map(|((bits, index), register)| Argument {
                index,
                bits: *bits,
                register,
            })
            .collect(),
    )
}

/// Whether a compiler made this function from another one, and may have changed
/// its parameters.
fn is_clone(name: &str) -> bool {
    [
        ".isra.",
        ".constprop.",
        ".part.",
        ".specialized.",
        ".argprom",
    ]
    .iter()
    .any(|mark| name.contains(mark))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Functions that a compiler derived are not taken at their declaration.
    #[test]
    fn clones_are_told_by_name() {
        assert!(is_clone("hot.constprop.0"));
        assert!(is_clone("f.isra.0.cold"));
        assert!(!is_clone("f.cold"));
    }

    /// Of declared arguments those that code reads have their declared widths.
    #[test]
    fn read_arguments() {
        let argument = |index: u8, bits| Argument {
            index,
            bits,
            register: PLATFORM[usize::from(index)],
        };
        let declared = [argument(0, 64), argument(1, 32), argument(2, 8)];
        let read = read_of(&declared, vec![argument(1, 64)]);
        assert_eq!(read, [argument(1, 32)]);
        let others = vec![argument(1, 64), argument(3, 64)];
        assert_eq!(read_of(&declared, others.clone()), others);
    }

    /// Functions that the standard fixes have their arguments in their widths.
    #[test]
    fn standard_functions() {
        let widths = |name| {
            let arguments = standard(name)?;
            Some(
                arguments
                    .iter()
                    .map(|argument| (argument.index, argument.bits))
                    .collect(),
            )
        };
        assert_eq!(widths("memset"), Some(vec![(0, 64), (1, 32), (2, 64)]));
        assert_eq!(widths("my_memset"), None);
    }
}
