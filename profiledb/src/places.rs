//! Places in code: what a reader asks for who asks for one function.

use std::collections::BTreeMap;

use crate::rows::{Image, ImageKind};

/// Ranges of addresses in images, each image known by kind, identity and path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Places {
    /// In the order of their starts; none touches another.
    of_image: BTreeMap<(ImageKind, String, String), Vec<(u64, u64)>>,
}

impl Places {
    /// Adds the addresses of an image from `start` on and below `end`.
    pub fn add(&mut self, image: &Image, start: u64, end: u64) {
        self.add_to(key(image), start, end);
    }

    fn add_to(&mut self, key: (ImageKind, String, String), start: u64, end: u64) {
        if start >= end {
            return;
        }
        let ranges = self.of_image.entry(key).or_default();
        let first = ranges.partition_point(|(_, behind)| *behind < start);
        let last = ranges.partition_point(|(from, _)| *from <= end);
        let (mut from, mut behind) = (start, end);
        for (other, other_end) in ranges.get(first..last).unwrap_or_default() {
            (from, behind) = (from.min(*other), behind.max(*other_end));
        }
        ranges.splice(first..last.max(first), [(from, behind)]);
    }

    /// Adds all addresses of an image but the very last.
    pub fn add_all(&mut self, image: &Image) {
        self.add(image, 0, u64::MAX);
    }

    /// Adds all places of others.
    pub fn add_places(&mut self, others: &Places) {
        for (key, ranges) in &others.of_image {
            for (start, end) in ranges {
                self.add_to(key.clone(), *start, *end);
            }
        }
    }

    /// Whether there is no place among them.
    pub fn is_empty(&self) -> bool {
        self.of_image.is_empty()
    }

    /// The ranges of an image, in the order of their starts.
    pub fn of(&self, image: &Image) -> &[(u64, u64)] {
        self.of_image.get(&key(image)).map_or(&[], Vec::as_slice)
    }

    /// Path of the image, start and end of each range.
    pub fn iter(&self) -> impl Iterator<Item = (&str, u64, u64)> {
        let images = self.of_image.iter();
        images.flat_map(|((_, _, path), ranges)| {
            ranges
                .iter()
                .map(|(start, end)| (path.as_str(), *start, *end))
        })
    }

    /// Whether an address of an image is among them.
    pub fn has(&self, image: &Image, address: u64) -> bool {
        is_in(self.of(image), address)
    }
}

fn key(image: &Image) -> (ImageKind, String, String) {
    (image.kind, image.identity.clone(), image.path.clone())
}

/// Whether an address is in one of the ranges, which are in the order of their starts.
pub(crate) fn is_in(ranges: &[(u64, u64)], address: u64) -> bool {
    let behind = ranges.partition_point(|(start, _)| *start <= address);
    let nearest = behind.checked_sub(1).and_then(|index| ranges.get(index));
    nearest.is_some_and(|(_, end)| address < *end)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(identity: &str) -> Image {
        Image {
            kind: ImageKind::File,
            path: "/bin/it".to_owned(),
            build_id: None,
            identity: identity.to_owned(),
        }
    }

    /// Ranges that touch become one, in whatever order they come; images are apart.
    #[test]
    fn ranges_join() {
        let (one, other) = (image("one"), image("other"));
        let mut places = Places::default();
        assert!(places.is_empty());
        for (start, end) in [(30, 40), (10, 20), (50, 60), (20, 25), (5, 5), (38, 55)] {
            places.add(&one, start, end);
        }
        assert_eq!(places.of(&one), [(10, 25), (30, 60)]);
        places.add(&one, 0, 100);
        assert_eq!(places.of(&one), [(0, 100)]);
        assert!(places.of(&other).is_empty() && !places.has(&other, 7));
        assert!(places.has(&one, 0) && places.has(&one, 99) && !places.has(&one, 100));
    }
}
