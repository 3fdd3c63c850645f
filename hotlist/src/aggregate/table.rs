//! The table that adds up what all the buffers held.

use std::collections::{BTreeMap, HashMap};

use super::{AggregateFunction, Snapshot};
use crate::Error;

/// What the id of an aggregation stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Aggregation {
    /// The id, as buffers are told it.
    pub id: u32,
    /// The name that users gave it.
    pub name: String,
    /// How many expressions make its key.
    pub key_words: usize,
    /// The function that the table computes.
    pub function: AggregateFunction,
}

/// Aggregation id and the words of the key.
type Key = (u32, Box<[u64]>);
type Data = Box<[u64]>;

/// The data of all keys, from all writers.
#[derive(Clone, Debug)]
pub struct Table {
    dictionary: HashMap<u32, Aggregation>,
    entries: BTreeMap<Key, Data>,
    most_entries: usize,
    drops: u64,
    foreign: u64,
}

impl Table {
    /// An empty table for these aggregations, with room for so many keys in all.
    ///
    /// # Errors
    /// [`Error::SameAggregation`] where two have one id.
    pub fn new(
        aggregations: impl IntoIterator<Item = Aggregation>,
        most_entries: usize,
    ) -> Result<Self, Error> {
        let mut dictionary = HashMap::new();
        for aggregation in aggregations {
            let id = aggregation.id;
            if dictionary.insert(id, aggregation).is_some() {
                return Err(Error::SameAggregation(id));
            }
        }
        Ok(Self {
            dictionary,
            entries: BTreeMap::new(),
            most_entries,
            drops: 0,
            foreign: 0,
        })
    }

    /// Adds what a buffer held.
    pub fn add(&mut self, snapshot: &Snapshot) {
        self.drops = self.drops.saturating_add(snapshot.drops());
        for (id, words) in snapshot.data_sets() {
            let known = self.dictionary.get(&id);
            let parts = known.and_then(|known| {
                let (key, data) = words.split_at_checked(known.key_words)?;
                (data.len() == known.function.words()).then_some((key, data, known.function))
            });
            let Some((key, data, function)) = parts else {
                self.foreign = self.foreign.saturating_add(1);
                continue;
            };
            let key = (id, Box::from(key));
            if let Some(sum) = self.entries.get_mut(&key) {
                function.merge(sum, data);
            } else if self.entries.len() < self.most_entries {
                self.entries.insert(key, Box::from(data));
            } else {
                self.drops = self.drops.saturating_add(1);
            }
        }
    }

    /// Events that the buffers dropped, and data sets that this table had no room for.
    pub fn drops(&self) -> u64 {
        self.drops
    }

    /// Data sets of ids, or with keys, that the table was not told of.
    pub fn foreign(&self) -> u64 {
        self.foreign
    }

    /// What an id stands for.
    pub fn aggregation(&self, id: u32) -> Option<&Aggregation> {
        self.dictionary.get(&id)
    }

    /// Keys and data of an aggregation, in the order of the keys.
    pub fn entries(&self, id: u32) -> impl Iterator<Item = (&[u64], &[u64])> {
        let from = (id, Box::default());
        let own = self
            .entries
            .range(from..)
            .take_while(move |((its, _), _)| *its == id);
        own.map(|((_, key), data)| (&**key, &**data))
    }
}
