//! Units, and the entries that they refer to: in themselves, in other units of the file, and in the
//! file that shares them. Programs that are optimised as one refer to each other's types, and `dwz`
//! puts what several units have in common into one of its own.

use std::cell::{Cell, OnceCell};
use std::ops::Deref;

use gimli::{AttributeValue, DebugInfoOffset, UnitHeader};

use super::Entry;
use crate::sections::Slice;

type Dwarf<'a> = gimli::Dwarf<Slice<'a>>;
type OwnUnit<'a> = gimli::Unit<Slice<'a>>;

/// Units that are kept because others refer to them. Of more it is not known what they have.
const MOST_KEPT: usize = 1024;

/// The units of a file and of the one that shares some.
pub(crate) struct Units<'d, 'a> {
    own: File<'d, 'a>,
    shared: Option<File<'d, 'a>>,
}

/// The units of one file.
struct File<'d, 'a> {
    dwarf: &'d Dwarf<'a>,
    /// In their order, found when one is first asked for.
    units: OnceCell<Vec<Referred<'a>>>,
    kept: Cell<usize>,
}

/// A unit, read when something refers to it.
struct Referred<'a> {
    header: UnitHeader<Slice<'a>>,
    unit: OnceCell<Option<OwnUnit<'a>>>,
}

/// A unit, and what its entries may refer to.
#[derive(Clone, Copy)]
pub(crate) struct Unit<'u, 'a> {
    unit: &'u OwnUnit<'a>,
    /// Of the file that the unit is in.
    dwarf: &'u Dwarf<'a>,
    /// `None`: other units are not known.
    units: Option<&'u Units<'u, 'a>>,
    is_shared: bool,
}

impl<'a> Deref for Unit<'_, 'a> {
    type Target = OwnUnit<'a>;

    fn deref(&self) -> &OwnUnit<'a> {
        self.unit
    }
}

impl<'d, 'a> Units<'d, 'a> {
    /// Those of a file.
    pub(crate) fn new(dwarf: &'d Dwarf<'a>) -> Units<'d, 'a> {
        let file = |dwarf| File {
            dwarf,
            units: OnceCell::new(),
            kept: Cell::new(0),
        };
        Units {
            own: file(dwarf),
            shared: dwarf.sup().map(file),
        }
    }
}

impl<'a> File<'_, 'a> {
    fn unit(&self, offset: DebugInfoOffset) -> Option<&OwnUnit<'a>> {
        let units = self.units.get_or_init(|| {
            let mut found = Vec::new();
            let mut headers = self.dwarf.units();
            while let Ok(Some(header)) = headers.next() {
                found.push(Referred {
                    header,
                    unit: OnceCell::new(),
                });
            }
            found
        });
        let start = |of: &Referred<'a>| of.header.debug_info_offset();
        let behind = units.partition_point(|of| start(of).is_some_and(|start| start.0 <= offset.0));
        let found = units.get(behind.checked_sub(1)?)?;
        let read = || {
            let kept = self.kept.get();
            self.kept.set(kept.saturating_add(1));
            let has_room = kept < MOST_KEPT;
            has_room.then(|| self.dwarf.unit(found.header).ok())?
        };
        found.unit.get_or_init(read).as_ref()
    }
}

impl<'u, 'a> Unit<'u, 'a> {
    /// A unit of the file that others are known of.
    pub(crate) fn of(units: &'u Units<'u, 'a>, unit: &'u OwnUnit<'a>) -> Unit<'u, 'a> {
        Unit {
            unit,
            dwarf: units.own.dwarf,
            units: Some(units),
            is_shared: false,
        }
    }

    /// A unit whose references to others lead nowhere.
    pub(crate) fn alone(dwarf: &'u Dwarf<'a>, unit: &'u OwnUnit<'a>) -> Unit<'u, 'a> {
        Unit {
            unit,
            dwarf,
            units: None,
            is_shared: false,
        }
    }

    /// Where an attribute of this unit refers to: whether in the shared file, and where there.
    pub(super) fn place(
        &self,
        reference: AttributeValue<Slice<'a>>,
    ) -> Option<(bool, DebugInfoOffset)> {
        match reference {
            AttributeValue::UnitRef(offset) => {
                let offset = offset.to_debug_info_offset(&self.unit.header)?;
                Some((self.is_shared, offset))
            }
            AttributeValue::DebugInfoRef(offset) => Some((self.is_shared, offset)),
            AttributeValue::DebugInfoRefSup(offset) => Some((true, offset)),
            _ => None,
        }
    }

    /// What an attribute of this unit refers to, with the unit that it is in.
    pub(crate) fn follow(
        &self,
        reference: AttributeValue<Slice<'a>>,
    ) -> Option<(Unit<'u, 'a>, Entry<'a>)> {
        if let AttributeValue::UnitRef(offset) = reference {
            return Some((*self, self.unit.entry(offset).ok()?));
        }
        let (is_shared, offset) = self.place(reference)?;
        let units = self.units?;
        let file = match is_shared {
            true => units.shared.as_ref()?,
            false => &units.own,
        };
        let unit = file.unit(offset)?;
        let entry = unit.entry(offset.to_unit_offset(&unit.header)?).ok()?;
        let unit = Unit {
            unit,
            dwarf: file.dwarf,
            units: self.units,
            is_shared,
        };
        Some((unit, entry))
    }

    /// A text of this unit.
    pub(crate) fn string(&self, value: AttributeValue<Slice<'a>>) -> Option<Slice<'a>> {
        self.dwarf.attr_string(self.unit, value).ok()
    }

    /// An attribute of this unit as `other` understands it.
    pub(super) fn tell(
        &self,
        value: AttributeValue<Slice<'a>>,
        other: &Unit<'u, 'a>,
    ) -> Option<AttributeValue<Slice<'a>>> {
        if std::ptr::eq(self.unit, other.unit) {
            return Some(value);
        }
        Some(match value {
            AttributeValue::UnitRef(_)
            | AttributeValue::DebugInfoRef(_)
            | AttributeValue::DebugInfoRefSup(_) => match self.place(value)? {
                (false, offset) => AttributeValue::DebugInfoRef(offset),
                (true, offset) => AttributeValue::DebugInfoRefSup(offset),
            },
            AttributeValue::DebugStrRef(_)
            | AttributeValue::DebugStrRefSup(_)
            | AttributeValue::DebugStrOffsetsIndex(_)
            | AttributeValue::DebugLineStrRef(_) => AttributeValue::String(self.string(value)?),
            value => value,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};
    use std::path::Path;

    use crate::dwarf::{ResultRegister, without_result};
    use crate::elf::Elf;
    use crate::elf::tests::{entry_of, opened};
    use crate::variables::{Parameter, parameters};

    fn shared(name: &str) -> Elf {
        let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/dwz");
        opened(&fixtures.join(name))
    }

    /// The parameters of a function as they are declared.
    fn text(elf: &Elf, name: &str) -> String {
        let entry = entry_of(elf, name);
        let found = parameters(elf, &BTreeSet::from([entry]), &BTreeMap::new());
        let declared = found.get(&entry).unwrap_or_else(|| panic!("no {name}"));
        let parameters = declared.parameters.iter().map(Parameter::text);
        parameters.collect::<Vec<String>>().join(", ")
    }

    /// Types that lie in other units, of the file itself or of the one that it shares with others,
    /// are those of the file that was compiled.
    #[test]
    fn other_units() {
        assert_eq!(
            text(&shared("one.debug"), "work_a"),
            "shared_state *s, int x"
        );
        let elf = shared("two.debug");
        assert_eq!(
            text(&elf, "weighed"),
            "const node *of, colour colour, length by, _Bool is"
        );
        assert_eq!(
            text(&elf, "looked_up"),
            "table *table, length at, double scale"
        );
        let entry = entry_of(&elf, "weighed");
        let found = parameters(&elf, &BTreeSet::from([entry]), &BTreeMap::new());
        let words = &found[&entry].parameters[1].words;
        assert_eq!(words.of(1).as_deref(), Some("GREEN"));
    }

    /// So it is with what functions return.
    #[test]
    fn results() {
        let elf = shared("two.debug");
        let returns = |name: &str| {
            let here = BTreeSet::from([entry_of(&elf, name)]);
            [ResultRegister::Integer, ResultRegister::Vector]
                .map(|place| without_result(&elf, &here, place).is_empty())
        };
        assert_eq!(returns("weighed"), [true, false]);
        assert_eq!(returns("origin"), [false, true]);
    }
}
