//! What a window has stored: a small memory laid over the memory of the interrupt.

// Over 500 lines: what a window has stored is one type, and every load asks all of it.

use instructions::MAX_BYTES;

use crate::host::{CodeMemory, Memory};
use crate::word::{Width, Word};

/// Aligned 8-byte pieces of memory that the overlay can hold.
const SLOTS: usize = 64;
/// Ranges of unknown bytes that the overlay can hold.
const HOLES: usize = 8;

#[derive(Clone, Copy)]
struct Slot {
    /// Address of the first byte, a multiple of 8.
    base: u64,
    value: Word,
    /// Which bytes of the slot were stored to.
    stored: u8,
}

/// Memory whose content is unknown: `last` is its last byte.
#[derive(Clone, Copy)]
struct Hole {
    first: u64,
    last: u64,
}

/// Stores of a window, byte by byte known or unknown. A fixed size: what no longer fits turns into
/// unknown memory, never into memory as it was before.
///
/// A byte is, in this order: in a slot that stored it; in a hole, then unknown; unknown if a store
/// went to an unknown address; unknown if a store went to another address where the same memory may
/// be mapped; else as in the memory of the interrupt.
///
/// Memory that is mapped twice: pages are mapped whole, so two addresses of one byte agree in their
/// lowest twelve bits. Then they also fall to the same bit of `marks`. So what no slot's bit
/// stands for is clear under all its addresses, and the host is asked only where bits meet and
/// pages differ. A store takes from the slots that are there already what it may have overwritten
/// through another address ([`Overlay::forget_aliases`]); a load of what no slot has at its own
/// address looks for slots and holes at others ([`Overlay::aliased_bytes`]).
#[derive(Clone)]
pub(crate) struct Overlay {
    slots: [Slot; SLOTS],
    len: usize,
    /// By the bit that a slot falls to in `marks`, where the newest of them is held; of a bit that
    /// is not set, anywhere.
    places: [u8; MARKS],
    /// The slot to give up next when all are taken.
    victim: usize,
    holes: [Hole; HOLES],
    hole_len: usize,
    /// A store went to an unknown address, or a hole found no place.
    all_unknown: bool,
    /// Marks of the slots that were stored to, each in the bit that it falls to; all of them where
    /// there are holes.
    marks: Marks,
    /// Marks of the slots alone (`taken`), and the marks to which more than one slot fell
    /// (`crowded`).
    taken: Marks,
    crowded: Marks,
    /// Whether any of `marks` is set.
    any: bool,
    /// Bits that the pages of slots fall to; all of them where there are holes.
    pages: u64,
    /// Pages that nothing was stored to, each with [`CLEAR`] set: code is mostly in the page of an
    /// instruction before, and what is stored is not.
    clear_pages: [u64; CLEAR_PAGES],
    /// The one of them that was asked for last.
    clear_page: u64,
}

/// Bytes that are looked at at once for whether code was stored to.
const PAGE: u64 = 4096;
/// The number of pages that are known to be clear at once.
const CLEAR_PAGES: usize = 8;
/// What tells a page from none, and from an instruction in two.
const CLEAR: u64 = 1;
const NO_PAGE: u64 = 2;

/// What a page is noted by that nothing was stored to. An instruction that may reach into the next
/// page has a tag that no page is noted by.
pub(crate) fn page_tag(pc: u64) -> u64 {
    if pc % PAGE > PAGE - MAX_BYTES as u64 {
        return NO_PAGE;
    }
    pc & !(PAGE - 1) | CLEAR
}

/// Where it is noted that the page of an address is clear.
fn clear_place(address: u64) -> usize {
    (address / PAGE) as usize % CLEAR_PAGES
}

/// One bit per byte: the `count` bytes from `first` on, within 8.
fn byte_set(first: u32, count: u32) -> u8 {
    let set = if count >= 8 {
        u8::MAX
    } else {
        (1 << count) - 1
    };
    set << first
}

/// Whether two slots lie in different pages at the same offset.
fn meet(a: u64, b: u64) -> bool {
    a != b && (a ^ b).is_multiple_of(PAGE)
}

/// The bit that the page of an address falls to.
fn page_bit(address: u64) -> u64 {
    1 << (address / PAGE % 64)
}

/// One bit for each of the slots of a page.
type Marks = [u64; MARK_WORDS];

const MARKS: usize = PAGE as usize / 8;
const MARK_WORDS: usize = MARKS / 64;

/// Number of the bit that the slot of a byte falls to.
#[inline(always)]
fn place(address: u64) -> usize {
    (address >> 3) as usize % MARKS
}

/// Whether the bit of the slot that a byte lies in is set.
#[inline(always)]
fn has(marks: &Marks, address: u64) -> bool {
    let place = place(address);
    marks[place / 64] >> (place % 64) & 1 != 0
}

#[inline(always)]
fn add(marks: &mut Marks, address: u64) {
    let place = place(address);
    marks[place / 64] |= 1 << (place % 64);
}

impl Overlay {
    pub(crate) fn new() -> Self {
        Self {
            slots: [Slot {
                base: 0,
                value: Word::UNKNOWN,
                stored: 0,
            }; SLOTS],
            len: 0,
            places: [0; MARKS],
            victim: 0,
            holes: [Hole { first: 0, last: 0 }; HOLES],
            hole_len: 0,
            all_unknown: false,
            marks: [0; MARK_WORDS],
            taken: [0; MARK_WORDS],
            crowded: [0; MARK_WORDS],
            any: false,
            pages: 0,
            clear_pages: [0; CLEAR_PAGES],
            clear_page: 0,
        }
    }

    /// Makes the overlay as new.
    pub(crate) fn clear(&mut self) {
        self.len = 0;
        self.victim = 0;
        self.hole_len = 0;
        self.all_unknown = false;
        if self.any {
            (self.marks, self.taken) = ([0; MARK_WORDS], [0; MARK_WORDS]);
            self.crowded = [0; MARK_WORDS];
            self.any = false;
            self.pages = 0;
        }
        self.clear_pages = [0; CLEAR_PAGES];
        self.clear_page = 0;
    }

    /// Whether a load of the `width` at `address` takes everything from the memory of the
    /// interrupt: no byte of it can have been stored to.
    #[inline]
    pub(crate) fn is_clear(&self, address: u64, width: Width) -> bool {
        // So many bytes lie in two slots at most, which may be those at both ends of memory.
        let last = address.wrapping_add(u64::from(width.bytes()) - 1);
        !has(&self.marks, address) && !has(&self.marks, last) && !self.all_unknown
    }

    /// What a load of the `width` at `address` yields if the window stored all its bytes, and they
    /// lie in one slot.
    #[inline]
    pub(crate) fn stored(&self, address: u64, width: Width) -> Option<Word> {
        let offset = (address & 7) as u32;
        if offset + width.bytes() > 8 {
            return None;
        }
        let slot = &self.slots[self.find(address & !7)?];
        let set = byte_set(offset, width.bytes());
        (slot.stored & set == set).then(|| slot.value.shifted_down(offset).truncate(width))
    }

    /// Which bytes of the `width` at `address` a load must not take from the memory of the
    /// interrupt, and what is known of these. `memory` knows what is mapped twice.
    pub(crate) fn load<M: Memory + ?Sized>(
        &self,
        address: u64,
        width: Width,
        memory: &mut M,
    ) -> (u8, Word) {
        let bytes = width.bytes();
        let last = address.wrapping_add(u64::from(bytes) - 1);
        let mut covered = self.unknown_bytes(address, bytes);
        let (mut bits, mut known) = (0u64, 0u8);
        let first = self.find(address & !7);
        let second = (address ^ last > 7).then(|| self.find(last & !7)).flatten();
        for index in [first, second].into_iter().flatten() {
            let slot = &self.slots[index];
            // Distance from the load's first byte to the slot's: both orders can overlap.
            let offset = slot.base.wrapping_sub(address) as i64;
            if !(-7..i64::from(bytes)).contains(&offset) {
                continue;
            }
            let (stored, knows, value) = (
                slot.stored,
                slot.value.known_bytes(),
                slot.value.known_bits(),
            );
            let (stored, knows, value) = if offset >= 0 {
                let by = offset as u32;
                (stored << by, knows << by, value << (8 * by))
            } else {
                let by = offset.unsigned_abs() as u32;
                (stored >> by, knows >> by, value >> (8 * by))
            };
            covered |= stored;
            known |= knows & stored;
            bits |= Word::partial(value, knows & stored).known_bits();
        }
        let wanted = byte_set(0, bytes);
        covered &= wanted;
        if covered != wanted {
            covered |= self.aliased_bytes(address, wanted & !covered, memory);
        }
        (covered, Word::partial(bits, known & wanted))
    }

    /// Which bytes of the set, counted from `address` on, may have been stored to through another
    /// address.
    fn aliased_bytes<M: Memory + ?Sized>(&self, address: u64, set: u8, memory: &mut M) -> u8 {
        let mut aliased = 0;
        for i in (0..8u32).filter(|i| set >> i & 1 != 0) {
            let byte = address.wrapping_add(u64::from(i));
            if self.is_aliased(byte, memory) {
                aliased |= 1 << i;
            }
        }
        aliased
    }

    /// Whether a byte may have been stored to through another address.
    fn is_aliased<M: Memory + ?Sized>(&self, byte: u64, memory: &mut M) -> bool {
        let slots = self.slots[..self.len].iter();
        let mut meeting =
            slots.filter(|slot| meet(slot.base, byte & !7) && slot.stored >> (byte & 7) & 1 != 0);
        meeting.any(|slot| memory.may_alias(slot.base, slot.base.saturating_add(7), byte))
            || self.holes[..self.hole_len]
                .iter()
                .any(|hole| memory.may_alias(hole.first, hole.last, byte))
    }

    /// Takes from the slots what a store to these bytes may have overwritten through another
    /// address.
    #[inline(never)]
    pub(crate) fn forget_aliases<M: Memory + ?Sized>(
        &mut self,
        first: u64,
        last: u64,
        memory: &mut M,
    ) {
        for slot in &mut self.slots[..self.len] {
            // Most slots lie at other offsets in their pages than all that is stored.
            let before = first.wrapping_sub(slot.base) % PAGE;
            let behind = slot.base.wrapping_sub(first) % PAGE;
            if before > 7 && behind > last - first {
                continue;
            }
            let mut hit = 0;
            for i in (0..8u32).filter(|i| slot.stored >> i & 1 != 0) {
                let byte = slot.base.wrapping_add(u64::from(i));
                // Distance to the first stored byte at the same offset in its page.
                let distance = byte.wrapping_sub(first) % PAGE;
                let is_other = !(first..=last).contains(&byte);
                if is_other && distance <= last - first && memory.may_alias(first, last, byte) {
                    hit |= 1 << i;
                }
            }
            slot.value = slot.value.with_bytes(hit, Word::UNKNOWN);
        }
    }

    /// Whether a slot of other memory may fall together with those that hold an operand.
    #[inline]
    pub(crate) fn is_crowded(&self, address: u64, width: Width) -> bool {
        let last = address.wrapping_add(u64::from(width.bytes()) - 1);
        has(&self.crowded, address) || has(&self.crowded, last)
    }

    /// The bytes from `address` on (at most 8) that lie in unknown memory, slots aside.
    fn unknown_bytes(&self, address: u64, count: u32) -> u8 {
        if self.all_unknown {
            return byte_set(0, count);
        }
        let mut set = 0;
        for hole in &self.holes[..self.hole_len] {
            for i in 0..count {
                let byte = address.wrapping_add(u64::from(i));
                if (hole.first..=hole.last).contains(&byte) {
                    set |= 1 << i;
                }
            }
        }
        set
    }

    /// Whether it is known already that nothing was stored to the page of a [tag](page_tag).
    #[inline(always)]
    pub(crate) fn is_clear_page(&self, tag: u64) -> bool {
        self.clear_page == tag
    }

    /// Whether the window may have stored to any of these bytes of an instruction. `memory` knows
    /// which stores change code.
    #[inline]
    pub(crate) fn touches<M: Memory + ?Sized>(
        &mut self,
        address: u64,
        bytes: usize,
        memory: &mut M,
    ) -> bool {
        let tag = page_tag(address);
        if self.clear_pages[clear_place(address)] == tag {
            self.clear_page = tag;
            return false;
        }
        self.touches_in_page(address, bytes as u64, memory)
    }

    /// Whether stores touched bytes of a page of which nothing is known yet.
    #[cold]
    #[inline(never)]
    fn touches_in_page<M: Memory + ?Sized>(
        &mut self,
        address: u64,
        bytes: u64,
        memory: &mut M,
    ) -> bool {
        let last = address.saturating_add(bytes.saturating_sub(1));
        let page = address & !(PAGE - 1);
        let end = page | (PAGE - 1);
        if !self.any && !self.all_unknown {
            // Nothing was stored. The first store looks at it anew.
            self.clear_pages[clear_place(page)] = page | CLEAR;
            return false;
        }
        // An instruction is in two pages at most.
        let of_page = memory.code_memory(address);
        let of_next = match last > end {
            true => memory.code_memory(last),
            false => of_page,
        };
        let kinds = [of_page, of_next];
        if self.all_unknown && kinds != [CodeMemory::Fixed; 2] {
            return true;
        }
        if kinds.contains(&CodeMemory::Shared) {
            let mut all = (0..bytes).map(|i| address.wrapping_add(i));
            return self.holds(address, last) || all.any(|byte| self.is_aliased(byte, memory));
        }
        let is_near = self.pages & (page_bit(page) | page_bit(last)) != 0;
        if is_near && self.holds(page, end.max(last)) {
            return self.holds(address, last);
        }
        self.clear_pages[clear_place(page)] = page | CLEAR;
        false
    }

    /// Whether some byte from `address` to `last` may have been stored to at a known address.
    fn holds(&self, address: u64, last: u64) -> bool {
        self.slots[..self.len].iter().any(|slot| {
            slot.stored != 0 && slot.base <= last && slot.base.saturating_add(7) >= address
        }) || self.holes[..self.hole_len]
            .iter()
            .any(|hole| hole.first <= last && hole.last >= address)
    }

    /// Stores the low `width` of a word.
    #[inline(always)]
    pub(crate) fn store(&mut self, address: u64, width: Width, value: Word) {
        let (base, offset) = (address & !7, (address & 7) as u32);
        // What is shifted out is in the next slot.
        let mask = width.mask() << (8 * offset);
        let set = byte_set(0, width.bytes()) << offset;
        self.store_chunk(base, value.shifted_up(offset), set, mask);
        if offset + width.bytes() > 8 {
            self.store_rest(base, width, value, 8 - offset);
        }
    }

    /// Stores what is left of an operand whose first bytes are in the slot at `base`.
    #[inline(never)]
    fn store_rest(&mut self, base: u64, width: Width, value: Word, first: u32) {
        let mask = width.mask() >> (8 * first);
        let set = byte_set(0, width.bytes() - first);
        self.store_chunk(base.wrapping_add(8), value.shifted_down(first), set, mask);
    }

    /// Stores the bytes of a word that are in the set `stored`, and all ones in `mask`.
    #[inline]
    fn store_chunk(&mut self, base: u64, value: Word, stored: u8, mask: u64) {
        match self.find(base) {
            Some(index) => {
                let slot = &mut self.slots[index];
                slot.value = slot.value.with_masked(stored, mask, value);
                slot.stored |= stored;
            }
            None => self.add_slot(Slot {
                base,
                value: Word::UNKNOWN.with_masked(stored, mask, value),
                stored,
            }),
        }
    }

    /// Where the slot of that base is held.
    #[inline]
    fn find(&self, base: u64) -> Option<usize> {
        if !has(&self.marks, base) {
            return None;
        }
        let held = &self.slots[..self.len];
        let index = usize::from(self.places[place(base)]);
        match held.get(index) {
            Some(slot) if slot.base == base => Some(index),
            // Another slot fell to the same bit since.
            _ => held.iter().position(|slot| slot.base == base),
        }
    }

    /// Adds a slot of a base that none has; the oldest place is given up when there is none.
    #[inline(never)]
    fn add_slot(&mut self, slot: Slot) {
        let base = slot.base;
        let index = if self.len < SLOTS {
            self.len += 1;
            self.len - 1
        } else {
            let index = self.victim;
            self.victim = (index + 1) % SLOTS;
            let old = self.slots[index].base;
            self.add_hole(Hole {
                first: old,
                last: old.saturating_add(7),
            });
            index
        };
        if has(&self.taken, base) {
            add(&mut self.crowded, base);
        }
        let clear = &mut self.clear_pages;
        if self.len <= 1 {
            (*clear, self.clear_page) = ([0; CLEAR_PAGES], 0);
        } else if clear[clear_place(base)] == base & !(PAGE - 1) | CLEAR {
            (clear[clear_place(base)], self.clear_page) = (0, 0);
        }
        add(&mut self.taken, base);
        add(&mut self.marks, base);
        self.any = true;
        self.pages |= page_bit(base);
        // There are 64.
        self.places[place(base)] = index as u8;
        self.slots[index] = slot;
    }

    /// Unknown bytes are stored to a range. A range that wraps makes all memory unknown.
    pub(crate) fn store_unknown(&mut self, address: u64, bytes: u64) {
        if bytes == 0 {
            return;
        }
        let Some(last) = address.checked_add(bytes - 1) else {
            self.store_anywhere();
            return;
        };
        for slot in &mut self.slots[..self.len] {
            for i in 0..8u32 {
                if (address..=last).contains(&slot.base.wrapping_add(u64::from(i))) {
                    slot.stored &= !(1 << i);
                }
            }
        }
        self.add_hole(Hole {
            first: address,
            last,
        });
    }

    fn add_hole(&mut self, hole: Hole) {
        self.marks = [u64::MAX; MARK_WORDS];
        self.pages = u64::MAX;
        self.any = true;
        self.clear_pages = [0; CLEAR_PAGES];
        self.clear_page = 0;
        for old in &mut self.holes[..self.hole_len] {
            let apart =
                hole.first > old.last.saturating_add(1) || old.first > hole.last.saturating_add(1);
            if !apart {
                old.first = old.first.min(hole.first);
                old.last = old.last.max(hole.last);
                return;
            }
        }
        if self.hole_len < HOLES {
            self.holes[self.hole_len] = hole;
            self.hole_len += 1;
        } else {
            self.all_unknown = true;
        }
    }

    /// Something is stored at an unknown address: nothing stored or read so far holds any more.
    pub(crate) fn store_anywhere(&mut self) {
        self.clear();
        self.all_unknown = true;
    }
}
