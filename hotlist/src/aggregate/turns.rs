//! Two buffers in turn: one is written while the other is read.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{AggregateFunction, Buffer, Snapshot};

#[derive(Debug)]
struct Turns {
    buffers: [Mutex<Buffer>; 2],
    /// Counts the turns; its lowest bit says which buffer is written.
    turn: AtomicUsize,
}

impl Turns {
    fn lock(&self, turn: usize) -> MutexGuard<'_, Buffer> {
        let [even, odd] = &self.buffers;
        let buffer = if turn.is_multiple_of(2) { even } else { odd };
        // A buffer is whole between any two of its words: a panic elsewhere does not spoil it.
        buffer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The end that one thread writes to.
#[derive(Debug)]
pub struct Writer(Arc<Turns>);

/// The end from which what was written is taken.
#[derive(Debug)]
pub struct Reader(Arc<Turns>);

/// Two buffers of so many words each, as one that is written and read at once.
pub fn pair(words: usize) -> (Writer, Reader) {
    let buffers = [Buffer::new(words), Buffer::new(words)].map(Mutex::new);
    let turns = Arc::new(Turns {
        buffers,
        turn: AtomicUsize::new(0),
    });
    (Writer(Arc::clone(&turns)), Reader(turns))
}

impl Writer {
    /// As [`Buffer::update`]. Waits for no reader: only for the moment in which a turn ends while
    /// this update had begun in the turn before.
    pub fn update(
        &mut self,
        id: u32,
        function: &AggregateFunction,
        key: &[u64],
        value: i64,
    ) -> bool {
        loop {
            let turn = self.0.turn.load(Ordering::Acquire);
            let mut buffer = self.0.lock(turn);
            // A turn that ended before the lock was had: this buffer is, or was, being read.
            if self.0.turn.load(Ordering::Acquire) == turn {
                return buffer.update(id, function, key, value);
            }
        }
    }
}

impl Reader {
    /// Takes all that was written since the last time, and leaves an empty buffer for the turn
    /// after the next. Nothing is lost and nothing taken twice.
    pub fn take(&mut self, snapshot: &mut Snapshot) {
        let turn = self.0.turn.fetch_add(1, Ordering::AcqRel);
        // Waits for an update that is under way; none begins here any more.
        let mut buffer = self.0.lock(turn);
        buffer.copy_to(snapshot);
        buffer.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever the two threads do at once, every event is taken once.
    #[test]
    fn nothing_lost() {
        const EVENTS: u64 = 100_000;
        let (mut writer, mut reader) = pair(1 << 10);
        let writing = std::thread::spawn(move || {
            (0..EVENTS)
                .filter(|event| !writer.update(7, &AggregateFunction::Count, &[event % 10], 0))
                .count()
        });
        let (mut taken, mut drops) = (0, 0);
        let mut snapshot = Snapshot::default();
        let mut take = || {
            reader.take(&mut snapshot);
            drops += snapshot.drops();
            taken += snapshot.data_sets().map(|(_, words)| words[1]).sum::<u64>();
        };
        while !writing.is_finished() {
            take();
        }
        take();
        assert_eq!(writing.join().unwrap(), 0);
        assert_eq!((taken, drops), (EVENTS, 0));
    }
}
