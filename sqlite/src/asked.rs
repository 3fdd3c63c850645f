//! What a question asks for, as far as it says which chunks have it.
//!
//! SQLite tells constraints when it plans. [`plan`] notes those that chunks can be chosen by, in
//! the string that SQLite keeps for it; [`Asked::new`] reads that string again, with the values.
//! SQLite checks each row itself, so that what is noted may let through too much.

use rusqlite::types::Value;
use rusqlite::vtab::{Filters, IndexConstraintOp, IndexInfo};
use rusqlite::{Error, Result};

use crate::cell::{Column, Source};

/// What a question costs that names nothing.
const FULL: f64 = 1e9;
/// And how many rows it may have.
const ROWS: i64 = 1_000_000;

/// Notes which constraints chunks can be chosen by, and what the question will about cost.
pub(crate) fn plan(columns: &[Column], info: &mut IndexInfo) -> Result<bool> {
    let mut noted = Vec::new();
    let mut is_possible = true;
    for (index, constraint) in info.constraints().enumerate() {
        let place = usize::try_from(constraint.column()).ok();
        let Some((place, column)) = place.and_then(|place| Some((place, columns.get(place)?)))
        else {
            continue;
        };
        let Some(operator) = operator(&constraint.operator()) else {
            continue;
        };
        if column.source == Source::Schema {
            // Without it another database would be asked.
            is_possible &= constraint.is_usable() && operator == "=";
        }
        let is_chosen_by = matches!(
            column.source,
            Source::Chunk(_) | Source::Address | Source::Schema
        );
        if is_chosen_by && constraint.is_usable() && info.collation(index)? == "BINARY" {
            noted.push((index, place, operator));
        }
    }
    let mut words = Vec::new();
    let mut share = 1.0;
    for (argument, (index, place, operator)) in (1..).zip(&noted) {
        let is_schema = columns
            .get(*place)
            .is_some_and(|column| column.source == Source::Schema);
        let mut usage = info.constraint_usage(*index);
        usage.set_argv_index(argument);
        usage.set_omit(is_schema);
        if !is_schema {
            share *= if *operator == "=" { 0.01 } else { 0.3 };
        }
        words.push(format!("{place} {operator}"));
    }
    info.set_idx_str(&words.join(","));
    info.set_estimated_cost(FULL * share);
    info.set_estimated_rows(((ROWS as f64 * share) as i64).max(1));
    Ok(is_possible)
}

/// As SQL has it.
fn operator(operator: &IndexConstraintOp) -> Option<&'static str> {
    match operator {
        IndexConstraintOp::SQLITE_INDEX_CONSTRAINT_EQ => Some("="),
        IndexConstraintOp::SQLITE_INDEX_CONSTRAINT_GT => Some(">"),
        IndexConstraintOp::SQLITE_INDEX_CONSTRAINT_GE => Some(">="),
        IndexConstraintOp::SQLITE_INDEX_CONSTRAINT_LT => Some("<"),
        IndexConstraintOp::SQLITE_INDEX_CONSTRAINT_LE => Some("<="),
        _ => None,
    }
}

/// What a question asks for.
#[derive(Debug)]
pub(crate) struct Asked {
    /// The name of the database, as attached.
    pub(crate) schema: String,
    /// Conditions on what is the same for a chunk: column, operator and value.
    pub(crate) conditions: Vec<(&'static str, &'static str, Value)>,
    /// The first and the last address.
    pub(crate) addresses: (i64, i64),
}

impl Asked {
    /// Reads what [`plan`] noted.
    pub(crate) fn new(
        columns: &[Column],
        noted: Option<&str>,
        values: &Filters<'_>,
    ) -> Result<Self> {
        let mut asked = Self {
            schema: "main".to_owned(),
            conditions: Vec::new(),
            addresses: (i64::MIN, i64::MAX),
        };
        let noted = noted.unwrap_or_default().split(',');
        for (index, word) in noted.filter(|word| !word.is_empty()).enumerate() {
            let (place, operator) = word.split_once(' ').unwrap_or_default();
            let column = place
                .parse()
                .ok()
                .and_then(|place: usize| columns.get(place));
            let (Some(column), true) = (column, index < values.len()) else {
                return Err(Error::ModuleError("a plan that was not made here".into()));
            };
            let value: Value = values.get(index)?;
            match (column.source, value) {
                (Source::Schema, Value::Text(schema)) => asked.schema = schema,
                (Source::Schema, _) => {
                    let text = "the argument is the name of an attached database";
                    return Err(Error::ModuleError(text.to_owned()));
                }
                (Source::Address, Value::Integer(address)) => asked.bound(operator, address),
                (Source::Chunk(column), value) => {
                    if let Some(operator) = known(operator) {
                        asked.conditions.push((column, operator, value));
                    }
                }
                _ => {}
            }
        }
        Ok(asked)
    }

    fn bound(&mut self, operator: &str, address: i64) {
        let (first, last) = &mut self.addresses;
        if matches!(operator, "=" | ">" | ">=") {
            *first = address.max(*first);
        }
        if matches!(operator, "=" | "<" | "<=") {
            *last = address.min(*last);
        }
    }

    /// The first and the last bucket that have such addresses, which have so many lowest bits;
    /// `None`: these are no range. Addresses count as unsigned numbers there.
    pub(crate) fn buckets(&self, bits: u32) -> Option<(i64, i64)> {
        let (first, last) = self.addresses;
        let is_range = (first < 0) == (last < 0);
        let bucket = |address: i64| (address.cast_unsigned() >> bits).cast_signed();
        is_range.then(|| (bucket(first), bucket(last)))
    }
}

/// An operator that may stand in SQL.
fn known(word: &str) -> Option<&'static str> {
    ["=", ">", ">=", "<", "<="]
        .into_iter()
        .find(|known| *known == word)
}
