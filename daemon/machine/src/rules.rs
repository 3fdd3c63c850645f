//! Unwind rules of images, as many as there is room for.
//!
//! They are what is largest of an image. They are read when first wanted; when they take too much
//! memory, those are given up that were not used for the longest time, and are not read again for
//! a while: where programs have more rules than there is room for, to read them by turns would cost
//! more than all else. Meanwhile their code is as code without rules.

use crate::place::ImageId;
use crate::unwind::UnwindInfo;

/// Rules of all images.
#[derive(Debug)]
pub struct Rules {
    /// By image.
    known: Vec<Option<Box<ImageRules>>>,
    /// Bytes that they may take.
    room: usize,
    /// Counts seconds or so.
    now: u32,
    /// How often rules could not be kept, or not be had.
    pub not_kept: u64,
}

#[derive(Debug)]
struct ImageRules {
    /// `None`: they could not be kept, or not be had.
    info: Option<UnwindInfo>,
    /// When they were used last, or given up.
    at: u32,
}

/// How long rules that were given up are not read again, in seconds or so.
const REST: u32 = 30;

impl Rules {
    /// With room for so many bytes.
    pub(crate) fn new(room: usize) -> Self {
        Self {
            known: Vec::new(),
            room,
            now: 0,
            not_kept: 0,
        }
    }

    /// Bytes that they take.
    pub(crate) fn bytes(&self) -> usize {
        let known = self.known.iter().flatten();
        known
            .map(|known| known.info.as_ref().map_or(0, UnwindInfo::bytes))
            .sum()
    }

    /// The rules of an image; `read` reads them from its file, if they take no more than so many
    /// bytes there.
    pub(crate) fn of(
        &mut self,
        image: ImageId,
        read: impl FnOnce(u64) -> Option<UnwindInfo>,
    ) -> Option<&mut UnwindInfo> {
        let index = image.0 as usize;
        let now = self.now;
        let wanted = match self.known.get(index) {
            Some(Some(known)) => known.info.is_none() && now >= known.at.saturating_add(REST),
            _ => true,
        };
        if wanted {
            // As much again is for what is found out from them.
            let info = read(self.room as u64 / 2);
            let info = info.filter(|info| self.has_room(info.bytes()));
            self.not_kept += u64::from(info.is_none());
            if index >= self.known.len() {
                self.known.resize_with(index + 1, || None);
            }
            self.known[index] = Some(Box::new(ImageRules { info, at: now }));
        }
        let known = self.known.get_mut(index)?.as_mut()?;
        let info = known.info.as_mut()?;
        known.at = now;
        Some(info)
    }

    /// Whether an image may have rules that are not here.
    pub(crate) fn lack(&self, image: ImageId) -> bool {
        let known = self.known.get(image.0 as usize);
        known.is_some_and(|known| known.as_ref().is_some_and(|known| known.info.is_none()))
    }

    /// Keeps the rules of these images alone.
    pub(crate) fn retain(&mut self, is_kept: impl Fn(ImageId) -> bool) {
        for (index, known) in (0_u32..).zip(&mut self.known) {
            if !is_kept(ImageId(index)) {
                *known = None;
            }
        }
    }

    /// A second or so has passed.
    pub fn tick(&mut self) {
        self.now = self.now.saturating_add(1);
        self.has_room(0);
    }

    /// Makes room for so many bytes, of what was not used in this second. Says whether there is.
    fn has_room(&mut self, bytes: usize) -> bool {
        let mut taken = self.bytes();
        while taken + bytes > self.room {
            let others = self.known.iter_mut().flatten();
            let unused = others.filter(|known| known.info.is_some() && known.at < self.now);
            let Some(oldest) = unused.min_by_key(|known| known.at) else {
                return false;
            };
            let info = oldest.info.take();
            taken -= info.map_or(0, |info| info.bytes());
            oldest.at = self.now;
            self.not_kept += 1;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rules that take so many bytes.
    fn rules(bytes: usize) -> Option<UnwindInfo> {
        Some(UnwindInfo::new(Some((vec![0; bytes], 0)), 0))
    }

    /// What was not used for the longest time gives way, and stays away for a while; what is in use
    /// does not.
    #[test]
    fn bounded() {
        let mut all = Rules::new(1000);
        let (a, b, c) = (ImageId(0), ImageId(7), ImageId(3));
        assert!(all.of(a, |_| rules(400)).is_some());
        all.tick();
        assert!(all.of(b, |_| rules(400)).is_some());
        assert!(all.of(c, |_| rules(400)).is_some(), "in place of a");
        assert_eq!((all.bytes(), all.not_kept), (800, 1));
        assert!(all.of(a, |_| rules(400)).is_none(), "it was just given up");
        assert!(all.lack(a) && !all.lack(b) && !all.lack(ImageId(1)));
        for _ in 0..REST {
            all.tick();
            assert!(all.of(b, |_| None).is_some() && all.of(c, |_| None).is_some());
        }
        assert!(all.of(a, |_| rules(400)).is_none(), "the others are in use");
        assert_eq!((all.bytes(), all.not_kept), (800, 2));
        all.retain(|image| image == c);
        assert!(all.of(a, |_| rules(400)).is_some());
    }

    /// Half of the room is for what is in the file.
    #[test]
    fn too_large() {
        let mut all = Rules::new(1000);
        let read = |most| rules(600).filter(|info| info.bytes() as u64 <= most);
        assert!(all.of(ImageId(1), read).is_none());
        assert_eq!((all.bytes(), all.not_kept), (0, 1));
    }
}
