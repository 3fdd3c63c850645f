//! Some of the samples of a round, drawn by lot: those of whose threads more is to be seen.

use std::sync::mpsc::{SyncSender, TrySendError};

use rand::seq::SliceRandom as _;

/// What was drawn of this round.
#[derive(Debug)]
pub(crate) struct Lot<T> {
    /// How many are drawn at most.
    room: usize,
    drawn: Vec<T>,
    /// How many there were to draw from.
    offered: u32,
}

impl<T> Lot<T> {
    /// Draws so many of each round at most.
    pub(crate) fn new(room: usize) -> Self {
        Self {
            room,
            drawn: Vec::new(),
            offered: 0,
        }
    }

    /// Which place a further sample of this round takes among the drawn, if it is to have one:
    /// each sample has the same chance.
    pub(crate) fn place(&mut self) -> Option<usize> {
        self.offered = self.offered.saturating_add(1);
        let few = self.drawn.len();
        let place = match few < self.room {
            true => few,
            false => rand::random_range(0..self.offered) as usize,
        };
        (place < self.room).then_some(place)
    }

    /// Puts what is asked of it there.
    pub(crate) fn put(&mut self, place: usize, asked: T) {
        match self.drawn.get_mut(place) {
            Some(drawn) => *drawn = asked,
            None => self.drawn.push(asked),
        }
    }

    /// Hands on what was drawn, and begins a new round; how many were, and how many found no room.
    pub(crate) fn hand_on(&mut self, to: &SyncSender<T>) -> (u64, u64) {
        self.offered = 0;
        // Those that find no room are not always the same.
        self.drawn.shuffle(&mut rand::rng());
        let (mut asked, mut busy) = (0, 0);
        for drawn in self.drawn.drain(..) {
            match to.try_send(drawn) {
                Ok(()) => asked += 1,
                Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => busy += 1,
            }
        }
        (asked, busy)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::sync_channel;

    use super::*;

    /// As many are drawn as there is room for, each with the same chance; what finds nobody to be
    /// handed on to is counted.
    #[test]
    fn chances() {
        let mut lot = Lot::new(4);
        let (sender, receiver) = sync_channel(3);
        let mut times = [0_u32; 16];
        for _ in 0..4_000 {
            for number in 0..times.len() {
                if let Some(place) = lot.place() {
                    lot.put(place, number);
                }
            }
            assert_eq!(lot.hand_on(&sender), (3, 1));
            for number in receiver.try_iter() {
                times[number] += 1;
            }
        }
        let (least, most) = (times.iter().min(), times.iter().max());
        assert!(least > Some(&500) && most < Some(&900), "{times:?}");
    }
}
