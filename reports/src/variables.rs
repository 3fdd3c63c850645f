//! Parameters of functions with their names and types, as debug information has them.

mod held;
mod language;
mod meant;
mod numbers;
mod twins;
mod types;

use std::collections::{BTreeMap, BTreeSet};

use gimli::{AttributeValue, DebuggingInformationEntry, UnitOffset};

use crate::dwarf::{
    PassingClass, Places, Unit, attribute, covered, entry_address, is_absent, is_c, is_c_alone,
    is_of_gcc, kind, places, search, tells_parameters, units,
};
use crate::elf::Elf;
use crate::sections::Slice;

pub(crate) use held::{Variable, held, named};
pub(crate) use language::{Language, language};
pub(crate) use meant::{Head, Meant, Scope, head, meant};
pub(crate) use numbers::NumberType;
use twins::Twins;
use types::{type_text, words};

/// Longer names are none that a person gave.
const LONGEST: usize = 64;
/// Types that a type refers to one through another.
const MAX_CHAIN: usize = 32;
/// A type without a name.
const UNNAMED: &str = "?";
/// Registers for integer arguments, and for floating-point ones.
const INTEGERS: u8 = 6;
const VECTORS: u8 = 8;

/// What is declared of a function.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Declaration {
    /// The parameters in their order; they end before the first one of which it is not plain how
    /// it is passed.
    pub(crate) parameters: Vec<Parameter>,
    /// These are all that have names.
    pub(crate) is_whole: bool,
    /// These are all, of a function of C or C++ whose convention a compiler does not change: other
    /// files may call it, or GCC made it, which gives other names to what it changes.
    pub(crate) is_sure: bool,
    /// Callers may leave out what the function does not read: only GCC's leave out nothing.
    pub(crate) may_lack: bool,
    /// Where those would be passed of which debug information tells no place at the entry: if the
    /// function reads that, something else is passed.
    pub(crate) absent: Vec<Passed>,
}

impl Declaration {
    /// The parameter in the integer register of this number.
    pub(crate) fn integer(&self, number: u8) -> Option<&Parameter> {
        let passed = Passed::Integer(number);
        let mut parameters = self.parameters.iter();
        parameters.find(|one| one.passed == passed && !self.absent.contains(&passed))
    }

    /// Whether nothing is read of what would be passed if the function were as it is declared, but
    /// may not be.
    pub(crate) fn agrees(&self, is_read: impl Fn(Passed) -> bool) -> bool {
        !self.absent.iter().any(|passed| is_read(*passed))
    }

    /// What is passed for sure: of parameters that callers may leave out, those in vector registers
    /// that the function reads.
    pub(crate) fn passed(mut self, is_read: impl Fn(u8) -> bool) -> Declaration {
        for parameter in &mut self.parameters {
            if self.absent.contains(&parameter.passed) {
                parameter.passed = Passed::Unread;
            }
        }
        for parameter in self.parameters.iter_mut().filter(|_| self.may_lack) {
            if let Passed::Vector(number, _) = parameter.passed
                && !is_read(number)
            {
                parameter.passed = Passed::Unread;
            }
        }
        self
    }

    /// Whether another one tells the same of what is passed.
    fn is_alike(&self, other: &Declaration) -> bool {
        let told = |of: &Declaration| {
            let parameters = of.parameters.iter();
            let told = parameters.map(|one| (one.name.clone(), one.of.clone()));
            told.collect::<Vec<_>>()
        };
        self.is_whole == other.is_whole && told(self) == told(other)
    }

    /// The names of all parameters, if all are known and have one.
    pub(crate) fn names(&self) -> Option<Vec<String>> {
        let names = self.parameters.iter().map(|one| one.name.clone());
        names.collect::<Option<_>>().filter(|_| self.is_whole)
    }

    /// The parameter in the vector register of this number, and how wide it is.
    pub(crate) fn vector(&self, number: u8) -> Option<(&Parameter, u32)> {
        self.parameters.iter().find_map(|one| match one.passed {
            Passed::Vector(register, bits) if register == number => Some((one, bits)),
            _ => None,
        })
    }
}

/// A parameter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Parameter {
    /// Its name in the source; none where it has none.
    pub(crate) name: Option<String>,
    /// Its type as C writes it.
    pub(crate) of: String,
    /// Where it is passed.
    pub(crate) passed: Passed,
    /// What its values are called.
    pub(crate) words: Words,
    /// Which numbers it holds, if any.
    pub(crate) number: Option<NumberType>,
}

/// Where a parameter is passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Passed {
    /// In the integer register of this number.
    Integer(u8),
    /// In the vector register of this number, so many bits.
    Vector(u8, u32),
    /// On the stack.
    Stack,
    /// Nowhere for sure: the function does not read it, and callers may leave it out.
    Unread,
}

/// What values are called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Words {
    /// Nothing: they are numbers.
    None,
    /// `false` and `true`.
    Truth,
    /// Characters.
    Characters,
    /// Enumerators.
    Enumerators(BTreeMap<u64, String>),
}

impl Words {
    /// What a value is called beside its number, if anything.
    pub(crate) fn of(&self, value: u64) -> Option<String> {
        match self {
            Self::None => None,
            Self::Truth => match value {
                0 => Some("false".to_owned()),
                1 => Some("true".to_owned()),
                _ => None,
            },
            Self::Characters => character(value),
            Self::Enumerators(names) => names.get(&value).cloned(),
        }
    }
}

/// A byte as a character in quotes, where it has one to print.
pub(crate) fn character(value: u64) -> Option<String> {
    let byte = u8::try_from(value).ok()?;
    match byte {
        b'\n' | b'\t' | b'\r' | b' '..=b'~' => Some(format!("'{}'", byte.escape_ascii())),
        _ => None,
    }
}

impl Parameter {
    /// Whether it points to characters.
    pub(crate) fn is_string(&self) -> bool {
        self.of.ends_with("char *")
    }

    /// As it stands in a declaration.
    pub(crate) fn text(&self) -> String {
        match &self.name {
            // What a compiler adds, as the object of a lambda, has a type that nobody can write.
            Some(name) if self.of == UNNAMED => name.clone(),
            Some(name) if self.of.ends_with(['*', '&']) => format!("{}{name}", self.of),
            Some(name) => format!("{} {name}", self.of),
            None => self.of.clone(),
        }
    }
}

type Dwarf<'a> = gimli::Dwarf<Slice<'a>>;
type Entry<'a> = DebuggingInformationEntry<Slice<'a>>;

/// What is declared of the functions with these entries, of which symbol tables have these names.
/// Nothing is said of code that functions with different parameters share.
pub(crate) fn parameters(
    image: &Elf,
    entries: &BTreeSet<u64>,
    names: &BTreeMap<u64, Vec<String>>,
) -> BTreeMap<u64, Declaration> {
    let mut found: BTreeMap<u64, Option<Declaration>> = BTreeMap::new();
    let mut others: BTreeMap<u64, Vec<String>> = BTreeMap::new();
    let _ = search(image, entries, |dwarf, unit| {
        let (mut functions, mut bare) = (Vec::new(), Vec::new());
        let mut cursor = unit.entries();
        let (mut is_c_unit, mut is_gcc, mut has_types) = (false, false, false);
        let mut may_be_old = false;
        while let Some(entry) = cursor.next_dfs()? {
            if entry.depth() == 0 {
                is_c_unit = is_c(entry);
                may_be_old = is_c_alone(entry);
                is_gcc = is_of_gcc(dwarf, unit, entry);
            }
            has_types |= entry.attr_value(gimli::DW_AT_type).is_some();
            if entry.tag() != gimli::DW_TAG_subprogram {
                continue;
            }
            match entry_address(dwarf, unit, entry)? {
                Some(address) if entries.contains(&address) => {
                    functions.push((address, entry.offset()));
                }
                address if twins::is_bare(entry, address) => bare.push(entry.offset()),
                _ => {}
            }
        }
        let twins = Twins::new(*unit, bare);
        for (address, function) in functions {
            let entry = unit.entry(function)?;
            if !tells_parameters(unit, &entry, has_types) {
                continue;
            }
            let is_normal = matches!(
                attribute(unit, &entry, gimli::DW_AT_calling_convention),
                None | Some(AttributeValue::CallingConvention(gimli::DW_CC_normal))
            );
            let is_open = is_gcc || attribute(unit, &entry, gimli::DW_AT_external).is_some();
            // A result in memory takes the first register.
            let result = attribute(unit, &entry, gimli::DW_AT_type);
            let is_plain = result.is_none_or(|result| kind(unit, result).is_some());
            let is_prototyped = attribute(unit, &entry, gimli::DW_AT_prototyped).is_some();
            let is_old = may_be_old && !is_prototyped;
            let of = (address, is_gcc);
            let mut declaration = declared_as(dwarf, unit, function, of, is_old)?;
            declaration.may_lack = !is_gcc;
            if is_c_unit && places(dwarf, unit, function, address)? != Places::Platform {
                declaration.is_sure = false;
                for parameter in &mut declaration.parameters {
                    parameter.passed = Passed::Unread;
                }
            }
            declaration.is_sure &= is_c_unit && is_normal && is_open && is_plain;
            let names = names.get(&address).map_or(&[][..], Vec::as_slice);
            let other_names = twins.others(&entry, names);
            if is_c_unit && !other_names.is_empty() {
                others.insert(address, other_names);
            }
            let mut is_alone = !is_c_unit || twins.goes_by(&entry, names);
            for twin in twins.of(&entry, names) {
                let other = declared_as(dwarf, unit, twin, of, is_old)?;
                is_alone &= other.is_alike(&declaration);
            }
            let known = found.entry(address).or_insert(Some(declaration.clone()));
            match known {
                Some(known) if is_alone && known.is_alike(&declaration) => {
                    known.is_sure &= declaration.is_sure;
                    known.may_lack |= declaration.may_lack;
                }
                _ => *known = None,
            }
        }
        Ok(())
    });
    others.retain(|address, _| found.get(address).is_some_and(Option::is_some));
    if !others.is_empty() && twins::is_searched(image) {
        units(image, |dwarf, unit| {
            let _ = twins::elsewhere(dwarf, unit, &others, &mut found);
        });
    }
    let known = found.into_iter();
    known
        .filter_map(|(address, of)| Some((address, of?)))
        .collect()
}

/// What a function returns in a register.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Returned {
    /// Which register, and how many bits of it.
    pub(crate) kind: PassingClass,
    /// What its values are called.
    pub(crate) words: Words,
    /// Which numbers it is, if any.
    pub(crate) number: Option<NumberType>,
}

/// What is returned by the functions of C and C++ that have code at these addresses, as they are
/// declared. Nothing is said of code that functions with different results share.
pub(crate) fn results(image: &Elf, addresses: &BTreeSet<u64>) -> BTreeMap<u64, Returned> {
    let mut found: BTreeMap<u64, Option<Returned>> = BTreeMap::new();
    let _ = search(image, addresses, |dwarf, unit| {
        let mut cursor = unit.entries();
        while let Some(entry) = cursor.next_dfs()? {
            if entry.depth() == 0 && !is_c(entry) {
                return Ok(());
            }
            if entry.tag() != gimli::DW_TAG_subprogram {
                continue;
            }
            let here = covered(dwarf, unit, entry, addresses)?;
            if here.is_empty() {
                continue;
            }
            let of = attribute(unit, entry, gimli::DW_AT_type);
            let returned = of.and_then(|of| {
                Some(Returned {
                    kind: kind(unit, of)?,
                    words: words(unit, of).ok()?,
                    number: NumberType::of(unit, of),
                })
            });
            for address in here {
                let known = found.entry(address).or_insert_with(|| returned.clone());
                if *known != returned {
                    *known = None;
                }
            }
        }
        Ok(())
    });
    let known = found.into_iter();
    known
        .filter_map(|(address, of)| Some((address, of?)))
        .collect()
}

/// The declaration of a function with this entry, which GCC made or another compiler, and which may
/// be an old one of C: without a prototype.
fn declared_as<'a>(
    dwarf: &Dwarf<'a>,
    unit: &Unit<'_, 'a>,
    function: UnitOffset,
    (entered, is_gcc): (u64, bool),
    is_old: bool,
) -> gimli::Result<Declaration> {
    let root = unit.entry(function)?;
    let mut tree = unit.entries_tree(Some(function))?;
    let mut children = tree.root()?.children();
    let mut declaration = Declaration {
        parameters: Vec::new(),
        is_whole: true,
        is_sure: true,
        may_lack: false,
        absent: Vec::new(),
    };
    let (mut integers, mut vectors) = (0, 0);
    while let Some(child) = children.next()? {
        let entry = child.entry();
        match entry.tag() {
            gimli::DW_TAG_formal_parameter => {}
            gimli::DW_TAG_unspecified_parameters => {
                declaration.is_whole = false;
                continue;
            }
            // What comes behind the last named one is passed as callers like.
            _ => continue,
        }
        let of = attribute(unit, entry, gimli::DW_AT_type);
        let passed = of.and_then(|of| kind(unit, of)).map(|kind| {
            let take = |count: &mut u8, most| {
                let number = *count;
                *count = count.saturating_add(1);
                Some(number).filter(|number| *number < most)
            };
            match kind {
                PassingClass::Integer(_) => take(&mut integers, INTEGERS).map(Passed::Integer),
                PassingClass::Vector(bits) => {
                    // Callers that see no prototype pass a double.
                    let bits = if is_old && bits == 32 { 64 } else { bits };
                    take(&mut vectors, VECTORS).map(|number| Passed::Vector(number, bits))
                }
                PassingClass::Elsewhere => None,
            }
            .unwrap_or(Passed::Stack)
        });
        let (Some(of), Some(passed)) = (of, passed) else {
            declaration.is_whole = false;
            declaration.is_sure = false;
            break;
        };
        if is_absent(dwarf, unit, &root, entry, (entered, is_gcc))? {
            declaration.absent.push(passed);
        }
        declaration.parameters.push(Parameter {
            name: name_of(unit, entry),
            of: type_text(unit, Some(of), 0).unwrap_or_else(|| UNNAMED.to_owned()),
            passed,
            words: words(unit, of)?,
            number: NumberType::of(unit, of),
        });
    }
    Ok(declaration)
}

/// A name that a person gave to something.
fn name_of<'a>(unit: &Unit<'_, 'a>, entry: &Entry<'a>) -> Option<String> {
    let name = whole_name(unit, entry)?;
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    name.chars().all(is_word).then_some(name)
}

/// A name, which may be one of several words.
fn whole_name<'a>(unit: &Unit<'_, 'a>, entry: &Entry<'a>) -> Option<String> {
    let name = attribute(unit, entry, gimli::DW_AT_name)?;
    let name = unit.string(name)?;
    let name = name.to_string_lossy().into_owned();
    (!name.is_empty() && name.len() <= LONGEST).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::elf::tests::{entry_of, fixture, opened, parameters as compiled, passed};

    /// What is declared of a function that is compiled in several ways.
    fn declared_of(name: &str) -> Option<Declaration> {
        let elf = compiled();
        let entry = entry_of(&elf, name);
        parameters(&elf, &BTreeSet::from([entry]), &BTreeMap::new()).remove(&entry)
    }

    /// Where debug information has no parameters at all, nothing is declared.
    #[test]
    fn least_information() {
        let text = |name| {
            let declared: Declaration = declared_of(name)?;
            let parameters = declared.parameters.iter().map(Parameter::text);
            Some(parameters.collect::<Vec<String>>().join(", "))
        };
        assert_eq!(text("gcc_two").as_deref(), Some("long int a, long int b"));
        assert_eq!(text("gcc_none").as_deref(), Some(""));
        for name in ["least_two", "least_none", "leastcpp_two", "mlt_two"] {
            assert_eq!(text(name), None, "{name}");
        }
    }

    /// Long floating-point numbers have a register of their own, or none; without a prototype a
    /// float is passed as a double.
    #[test]
    fn floating_point() {
        let places = |name: &str| {
            let declared = declared_of(name).unwrap_or_else(|| panic!("no {name}"));
            let parameters = declared.parameters.into_iter();
            parameters.map(|one| one.passed).collect::<Vec<_>>()
        };
        let vector = Passed::Vector;
        for compiled in ["gcc", "plain", "clang"] {
            let of = |name| places(&format!("{compiled}_{name}"));
            assert_eq!(
                of("quad"),
                [vector(0, 128), vector(1, 64), Passed::Integer(0)]
            );
            assert_eq!(of("extended"), [Passed::Stack, vector(0, 64)]);
            assert_eq!(of("old"), [vector(0, 64), Passed::Integer(0)]);
        }
    }

    /// Nothing is sure of parameters that are in other places than the platform's.
    #[test]
    fn other_places() {
        let is_sure = |name| declared_of(name).is_some_and(|declared| declared.is_sure);
        assert!(is_sure("gcc_two") && is_sure("plain_two") && is_sure("clang_two"));
        assert!(!is_sure("gcc_windows") && !is_sure("plain_windows"));
    }

    /// What is declared of a function that is passed otherwise, or shares its code.
    fn declared_there(name: &str) -> Option<Declaration> {
        let elf = passed();
        let entry = entry_of(&elf, name);
        let here = BTreeSet::from([entry]);
        let functions = symbols::Functions::new(elf.binary(), None);
        let names = BTreeMap::from([(entry, functions.names_at(entry))]);
        parameters(&elf, &here, &names).remove(&entry)
    }

    /// With all callers in sight, LLVM passes what a pointer points to in its place: that shows in
    /// a parameter without a place.
    #[test]
    fn promoted() {
        let declared = declared_there("promoted").expect("is declared");
        assert_eq!(declared.absent, [Passed::Integer(0)]);
        assert!(!declared.agrees(|passed| passed == Passed::Integer(0)));
        assert!(declared.agrees(|passed| passed == Passed::Integer(1)));
        assert_eq!(declared.integer(0), None);
        let passed = declared.passed(|_| true).parameters;
        assert_eq!(passed[0].passed, Passed::Unread);
        assert_eq!(passed[1].passed, Passed::Integer(1));
        let kept = declared_there("passed_kept").expect("is declared");
        assert!(kept.is_sure && kept.absent.is_empty());
    }

    /// GCC's copies of functions have what they are no longer passed behind all other parameters.
    #[test]
    fn reordered() {
        let declared = declared_there("ordered.constprop").expect("is declared");
        assert!(!declared.is_sure);
        let mut passed = declared.parameters.iter().map(|one| one.passed);
        assert!(passed.all(|passed| passed == Passed::Unread));
    }

    /// Code that functions with different parameters share has none of their names; that of one
    /// function with several names has them.
    #[test]
    fn shared_code() {
        for name in ["twin_money", "twin_length", "linked_user", "linked_packet"] {
            assert_eq!(declared_there(name), None, "{name}");
        }
        for name in ["apart_user", "apart_packet"] {
            assert_eq!(declared_there(name), None, "{name}");
        }
        let text = |name| {
            let declared: Declaration = declared_there(name).expect("is declared");
            let parameters = declared.parameters.iter().map(Parameter::text);
            (parameters.collect::<Vec<String>>(), declared.is_sure)
        };
        let both = || ["long int a", "long int b"].map(str::to_owned).to_vec();
        for name in ["named_own", "named_other"] {
            assert_eq!(text(name), (both(), true), "{name}");
        }
    }

    /// LLVM leaves out what it sees unread: only what the function reads is passed for sure.
    #[test]
    fn unread() {
        let places = |name| {
            let declared: Declaration = declared_of(name).expect("is declared");
            let passed = declared.passed(|number| number == 1).parameters;
            passed.iter().map(|one| one.passed).collect::<Vec<_>>()
        };
        let (first, second) = (Passed::Integer(0), Passed::Integer(1));
        let (third, fourth) = (Passed::Vector(0, 64), Passed::Vector(1, 64));
        assert_eq!(places("gcc_unread"), [first, second, third, fourth]);
        let unread = Passed::Unread;
        assert_eq!(places("clang_unread"), [first, second, unread, fourth]);
    }

    /// Parameters go by the names and types that they have in the source, each with its register.
    #[test]
    fn declarations() {
        let elf = opened(&fixture());
        let found = parameters(
            &elf,
            &BTreeSet::from([0x1020, 0x1040, 0x1080, 0x1090, 0x9999]),
            &BTreeMap::new(),
        );
        let text = |entry: u64| {
            let declared: &Declaration = found.get(&entry).expect("is declared");
            let parameters = declared.parameters.iter().map(Parameter::text);
            let parameters: Vec<String> = parameters.collect();
            (parameters.join(", "), declared.is_sure)
        };
        assert_eq!(
            text(0x1040),
            (
                "int mode, const node *n, _Bool flag, double scale, colour c, byte b, \
                 short int unused"
                    .to_owned(),
                true
            )
        );
        assert_eq!(text(0x1090), ("int a, long int b".to_owned(), true));
        assert_eq!(text(0x1020), ("int a, long int b".to_owned(), true));
        // How a structure is passed depends on what is in it.
        assert_eq!(text(0x1080), (String::new(), false));
        assert_eq!(found.len(), 4);
        let all = &found[&0x1040].parameters;
        let passed: Vec<Passed> = all.iter().map(|parameter| parameter.passed).collect();
        let integer = Passed::Integer;
        let expected = [
            integer(0),
            integer(1),
            integer(2),
            Passed::Vector(0, 64),
            integer(3),
            integer(4),
            integer(5),
        ];
        assert_eq!(passed, expected);
    }

    /// What functions return is told where their results are; what returns nothing is not there.
    #[test]
    fn returned() {
        let elf = opened(&fixture());
        let returns = BTreeSet::from([0x1035, 0x1077, 0x10c1, 0x9999]);
        let found = results(&elf, &returns);
        let kinds: Vec<(u64, PassingClass)> = found.iter().map(|(at, of)| (*at, of.kind)).collect();
        assert_eq!(
            kinds,
            [
                (0x1035, PassingClass::Integer(64)),
                (0x1077, PassingClass::Integer(64))
            ]
        );
    }

    /// A parameter whose type has no name stands there by its own.
    #[test]
    fn unnamed_types() {
        let parameter = Parameter {
            name: Some("__closure".to_owned()),
            of: UNNAMED.to_owned(),
            passed: Passed::Integer(0),
            words: Words::None,
            number: None,
        };
        assert_eq!(parameter.text(), "__closure");
        let nameless = Parameter {
            name: None,
            ..parameter
        };
        assert_eq!(nameless.text(), "?");
    }

    /// Values of enumerations and truth values have names; other numbers have none.
    #[test]
    fn values_with_names() {
        let elf = opened(&fixture());
        let found = parameters(&elf, &BTreeSet::from([0x1040]), &BTreeMap::new());
        let words = |index: usize, value| found[&0x1040].parameters[index].words.of(value);
        assert_eq!(words(4, 1).as_deref(), Some("GREEN"));
        assert_eq!(words(4, 2), None);
        assert_eq!(words(2, 1).as_deref(), Some("true"));
        assert_eq!(words(0, 1), None);
        assert_eq!(words(5, 65), None);
    }
}
