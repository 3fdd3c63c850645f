//! Tables of what a format refers to by its place.

use std::collections::BTreeMap;

/// Things that are there once, in the order in which they came.
#[derive(Debug)]
pub(crate) struct Table<T> {
    all: Vec<T>,
    places: BTreeMap<T, usize>,
}

impl<T: Ord + Clone> Table<T> {
    /// A table that begins with something.
    pub(crate) fn beginning_with(first: T) -> Table<T> {
        let mut table = Table::default();
        table.place(first);
        table
    }

    /// The place of a thing, which is added where it is new.
    pub(crate) fn place(&mut self, thing: T) -> usize {
        if let Some(place) = self.places.get(&thing) {
            return *place;
        }
        let place = self.all.len();
        self.all.push(thing.clone());
        self.places.insert(thing, place);
        place
    }

    /// All of them, by their places.
    pub(crate) fn into_all(self) -> Vec<T> {
        self.all
    }
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Table {
            all: Vec::new(),
            places: BTreeMap::new(),
        }
    }
}

/// The strings of a format, of which the first one is empty.
#[derive(Debug)]
pub(crate) struct Strings(Table<String>);

impl Strings {
    /// The empty one alone.
    pub(crate) fn new() -> Strings {
        Strings(Table::beginning_with(String::new()))
    }

    /// The place of a string.
    pub(crate) fn place(&mut self, text: &str) -> usize {
        self.0.place(text.to_owned())
    }

    /// All of them, by their places.
    pub(crate) fn into_all(self) -> Vec<String> {
        self.0.into_all()
    }
}

/// A place or a count as formats have them.
pub(crate) fn int<T: TryInto<i64>>(number: T) -> i64 {
    number.try_into().unwrap_or(i64::MAX)
}
