//! Code translated for the handler of the interrupt, which follows it from a sample on and reads what
//! the thread is going to load.
//!
//! The code is that of image files which nobody can have written. Of a function that a sample falls
//! into, all that leads on from there is translated; where a way ends because it comes to code that is
//! not, that is next. All processes of an image share the translation; what is told of each process is
//! which of its pages are of which image, as they are met. Translations are never taken back one by one:
//! when there is no more room, all go.

use interpreter::{Decoded, MAX_BYTES, Translator};
use rustc_hash::{FxHashMap, FxHashSet};
use sampler::{Handler, Pid, ProcessKey};

use crate::images::ImageId;
use crate::memory::{of_map, of_set};
use crate::tables::{Pc, Tables};
use crate::view::{Located, View};

/// Windows of so many instructions or more are read ahead by translated code.
pub(crate) const SHORTEST_FOLLOWED: u32 = 64;
/// Instructions that are translated at one go.
const AT_ONCE: usize = 2000;
/// Translated instructions that are remembered, about as many as the handler has entries for. Not all
/// of them take a micro-operation.
const MOST_INSTRUCTIONS: usize = 1 << 17;
/// Images in processes that are remembered. When there are more, all are forgotten: they are told anew.
const MAX_SPACES: usize = 1 << 14;
const PAGE: u64 = 4096;
/// Images beyond this number have no place in the handler's keys.
const MAX_IMAGES: u32 = 1 << 24;
/// The first number that means something.
const FIRST: u32 = 1;
/// Micro-operations that one instruction may take, about.
const MOST_OF_ONE: u32 = 8;

/// The pages of an image of which something is translated: addresses in the image.
#[derive(Debug, Default)]
struct Pages {
    order: Vec<u64>,
    all: FxHashSet<u64>,
}

/// What the handler was told of an image in a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Space {
    bias: u64,
    /// So many of its pages, the first ones.
    told: usize,
    /// What the process loads is to be read a second time.
    again: bool,
}

/// Translated code.
pub(crate) struct Translations {
    handler: Handler,
    translator: Translator,
    /// With which micro-operation an instruction begins.
    numbers: FxHashMap<Pc, u32>,
    /// The number of the next one.
    next: u32,
    /// Of each image the pages of which something is translated, in the order of translation.
    pages: FxHashMap<ImageId, Pages>,
    /// How many of an image's pages a process was told of.
    spaces: FxHashMap<(ProcessKey, ImageId), Space>,
    /// Times that something was translated.
    pub(crate) made: u64,
}

impl Translations {
    pub(crate) fn new(handler: Handler) -> Self {
        Self {
            handler,
            translator: Translator::default(),
            numbers: FxHashMap::default(),
            next: FIRST,
            pages: FxHashMap::default(),
            spaces: FxHashMap::default(),
            made: 0,
        }
    }

    /// Bytes that it holds.
    pub(crate) fn bytes(&self) -> usize {
        let of_pages = |pages: &Pages| of_set(&pages.all) + 8 * pages.order.capacity();
        let pages: usize = self.pages.values().map(of_pages).sum();
        of_map(&self.numbers) + of_map(&self.spaces) + of_map(&self.pages) + pages
    }

    /// Whether code there is translated, or will be once it is wanted.
    pub(crate) fn takes(view: &View<'_>, located: &Located) -> bool {
        let mapping = &located.mapping;
        !view.is_kernel()
            && mapping.executable
            && mapping.never_writable
            && !mapping.is_anon()
            && located.pc.image.0 < MAX_IMAGES
            && !view.is_denied(located.pc)
    }

    /// Has the code at a process address translated, if it is of that kind, and tells that it lies
    /// there. `again`: what the process loads is to be read a second time.
    pub(crate) fn want(
        &mut self,
        process: ProcessKey,
        address: u64,
        view: &View<'_>,
        again: bool,
        tables: &mut Tables,
    ) {
        let Some(located) = view.locate(address) else {
            return;
        };
        if !Self::takes(view, &located) {
            return;
        }
        if !self.numbers.contains_key(&located.pc) {
            self.translate(located.pc, view, tables);
        }
        self.tell(process, &located, again);
    }

    /// Tells once more what is known of an instruction that the handler did not find: it may have given
    /// way to others, or was told since.
    pub(crate) fn remind(&mut self, process: ProcessKey, address: u64, view: &View<'_>) {
        let Some(located) = view.locate(address) else {
            return;
        };
        let Pc { image, address: at } = located.pc;
        let (Some(number), Some(space)) = (
            self.numbers.get(&located.pc),
            self.spaces.get(&(process, image)),
        ) else {
            return;
        };
        let page = address & !(PAGE - 1);
        let Space { bias, again, .. } = *space;
        self.handler.put_space(process, page, image.0, bias, again);
        let mut images = view.images.borrow_mut();
        let row = images.unwind(image).and_then(|rules| rules.row(at));
        self.handler.put_entry(image.0, at, *number, row);
    }

    /// Tells where the translated pages of an image lie in a process, as far as it was not told.
    fn tell(&mut self, process: ProcessKey, located: &Located, again: bool) {
        let image = located.pc.image;
        let Some(pages) = self.pages.get(&image) else {
            return;
        };
        if self.spaces.len() >= MAX_SPACES {
            self.spaces.clear();
        }
        let space = self.spaces.entry((process, image)).or_insert(Space {
            bias: located.bias,
            told: 0,
            again: false,
        });
        if space.bias != located.bias || again && !space.again {
            (space.bias, space.told) = (located.bias, 0);
            space.again |= again;
        }
        let Space { bias, told, again } = *space;
        for page in pages.order.iter().skip(told) {
            let page = page.wrapping_add(bias);
            self.handler.put_space(process, page, image.0, bias, again);
        }
        space.told = pages.order.len();
    }

    fn translate(&mut self, at: Pc, view: &View<'_>, tables: &mut Tables) {
        let most = AT_ONCE as u32 * MOST_OF_ONE;
        let is_full = self.next.saturating_add(2 * most) >= Handler::UOPS;
        if is_full || self.numbers.len() >= MOST_INSTRUCTIONS {
            self.handler.clear_entries();
            self.numbers.clear();
            self.pages.clear();
            self.spaces.clear();
            self.next = FIRST;
            tables.count("translation", "started_over", 1);
        }
        let numbers = &self.numbers;
        let known = |address| numbers.get(&Pc { address, ..at }).copied();
        let mut code = Code {
            view,
            image: at.image,
            from: 0,
            bytes: [0; 512],
            len: 0,
        };
        let mut fetch = |address| code.decode(address);
        let made = self
            .translator
            .translate(at.address, self.next, AT_ONCE, &known, &mut fetch);
        let uops: Vec<_> = made.uops.iter().map(|uop| uop.to_bytes()).collect();
        self.handler.put_uops(self.next, &uops);
        self.next += uops.len() as u32;
        {
            let mut images = view.images.borrow_mut();
            let rules = images.unwind(at.image);
            let rules = rules.as_deref();
            for (address, number) in &made.starts {
                let row = rules.and_then(|rules| rules.row(*address));
                self.handler.put_entry(at.image.0, *address, *number, row);
                let place = Pc {
                    address: *address,
                    ..at
                };
                self.numbers.insert(place, *number);
                let page = address & !(PAGE - 1);
                let pages = self.pages.entry(at.image).or_default();
                if pages.all.insert(page) {
                    pages.order.push(page);
                }
            }
        }
        self.made += 1;
        tables.count("translation", "made", 1);
        tables.count("translation", "instructions", made.starts.len() as u64);
        tables.count("translation", "uops", uops.len() as u64);
    }

    /// A process has ended: its pages make room.
    pub(crate) fn exited(&mut self, pid: Pid) {
        let (handler, pages) = (&self.handler, &self.pages);
        self.spaces.retain(|(process, image), space| {
            let stays = process.tgid != pid.0;
            if let Some(pages) = pages.get(image).filter(|_| !stays) {
                for page in pages.order.iter().take(space.told) {
                    handler.remove_space(*process, page.wrapping_add(space.bias));
                }
            }
            stays
        });
    }
}

/// The code of an image, read in pieces.
struct Code<'a, 'v> {
    view: &'a View<'v>,
    image: ImageId,
    from: u64,
    bytes: [u8; 512],
    len: usize,
}

impl Code<'_, '_> {
    fn decode(&mut self, address: u64) -> Option<Decoded> {
        let offset = address.wrapping_sub(self.from);
        let is_here = offset.saturating_add(MAX_BYTES as u64) <= self.len as u64;
        if !is_here {
            self.from = address;
            let mut images = self.view.images.borrow_mut();
            self.len = images.read(self.image, address, &mut self.bytes);
        }
        let offset = usize::try_from(address.wrapping_sub(self.from)).ok()?;
        Decoded::new(self.bytes.get(offset..self.len)?, address).ok()
    }
}
