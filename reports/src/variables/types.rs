//! Types as a reader of C knows them, and what their values are called.

use std::collections::BTreeMap;

use gimli::AttributeValue;

use super::{Entry, MAX_CHAIN, Words, name_of, whole_name};
use crate::dwarf::{Unit, unqualified};
use crate::sections::Slice;

/// Enumerators of one type.
const MAX_ENUMERATORS: usize = 1024;

/// A type as C writes it.
pub(super) fn type_text<'a>(
    unit: &Unit<'_, 'a>,
    of: Option<AttributeValue<Slice<'a>>>,
    depth: usize,
) -> Option<String> {
    let Some(of) = of else {
        return Some("void".to_owned());
    };
    if depth > MAX_CHAIN {
        return None;
    }
    let (unit, entry) = unit.follow(of)?;
    let inner = || {
        let inner = entry.attr_value(gimli::DW_AT_type);
        type_text(&unit, inner, depth + 1)
    };
    let behind = |mark: &str| {
        let inner = inner()?;
        let space = if inner.ends_with(['*', '&']) { "" } else { " " };
        Some(format!("{inner}{space}{mark}"))
    };
    match entry.tag() {
        gimli::DW_TAG_pointer_type => behind("*"),
        gimli::DW_TAG_reference_type => behind("&"),
        gimli::DW_TAG_rvalue_reference_type => behind("&&"),
        gimli::DW_TAG_const_type => {
            let inner = inner()?;
            // The pointer itself is meant.
            match inner.ends_with(['*', '&']) {
                true => Some(inner),
                false => Some(format!("const {inner}")),
            }
        }
        gimli::DW_TAG_volatile_type | gimli::DW_TAG_restrict_type | gimli::DW_TAG_atomic_type => {
            inner()
        }
        gimli::DW_TAG_subroutine_type => Some("function".to_owned()),
        gimli::DW_TAG_base_type
        | gimli::DW_TAG_typedef
        | gimli::DW_TAG_class_type
        | gimli::DW_TAG_structure_type
        | gimli::DW_TAG_union_type
        | gimli::DW_TAG_enumeration_type
        | gimli::DW_TAG_unspecified_type => whole_name(&unit, &entry),
        _ => None,
    }
}

/// What the values of a type are called.
pub(super) fn words<'a>(
    unit: &Unit<'_, 'a>,
    of: AttributeValue<Slice<'a>>,
) -> gimli::Result<Words> {
    let Some((unit, entry, _)) = unqualified(unit, of) else {
        return Ok(Words::None);
    };
    match (entry.tag(), entry.attr_value(gimli::DW_AT_encoding)) {
        (gimli::DW_TAG_enumeration_type, _) => enumerators(&unit, &entry),
        (gimli::DW_TAG_base_type, Some(AttributeValue::Encoding(gimli::DW_ATE_boolean))) => {
            Ok(Words::Truth)
        }
        (gimli::DW_TAG_base_type, Some(AttributeValue::Encoding(gimli::DW_ATE_signed_char)))
            if name_of(&unit, &entry).as_deref() == Some("char") =>
        {
            Ok(Words::Characters)
        }
        _ => Ok(Words::None),
    }
}

fn enumerators<'a>(unit: &Unit<'_, 'a>, of: &Entry<'a>) -> gimli::Result<Words> {
    let size = of.attr_value(gimli::DW_AT_byte_size);
    let bits = match size.and_then(|size| size.udata_value()) {
        Some(size @ 1..=8) => 8 * size,
        _ => return Ok(Words::None),
    };
    let mut tree = unit.entries_tree(Some(of.offset()))?;
    let mut children = tree.root()?.children();
    let mut names = BTreeMap::new();
    while let Some(child) = children.next()? {
        let entry = child.entry();
        if entry.tag() != gimli::DW_TAG_enumerator || names.len() >= MAX_ENUMERATORS {
            continue;
        }
        let value = entry.attr_value(gimli::DW_AT_const_value);
        let value = value.and_then(|value| match value.udata_value() {
            Some(value) => Some(value),
            None => value.sdata_value().map(i64::cast_unsigned),
        });
        if let (Some(value), Some(name)) = (value, name_of(unit, entry)) {
            // The first of several names of a value is the one that is shown.
            names
                .entry(value & (u64::MAX >> (64 - bits)))
                .or_insert(name);
        }
    }
    Ok(Words::Enumerators(names))
}
