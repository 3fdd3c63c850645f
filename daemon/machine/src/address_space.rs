//! What a window may look at of the sampled process, and what can vouch for it.

// Over 500 lines: what a window asks of a process is one type.

use std::cell::{Cell, RefCell};
use std::ptr;

use addresses::{Bias, ImageAddress, ProcessAddress};
use interpreter::{BaseWriters, Handlers, StopReason};

use crate::elf;
use crate::exceptions::Exceptions;
use crate::flow::{Exit, Leads};
use crate::generated_code::{Asker, GeneratedCode};
use crate::guards::{Guarded, Guards};
use crate::host::Host;
use crate::images::{ImageId, Images, Others};
use crate::loadmap::Process;
use crate::mapping::{Mapping, Spot};
use crate::maps::Maps;
use crate::place::Pc;
use crate::signals::Signals;
use crate::system::page_check::PageEvidence;
use crate::system::pages::Pages;
use crate::system::procfs::PageState;
use crate::vmas::{Region, Vmas};

/// What a window may look at: the sampled process as it is mapped.
#[derive(Debug)]
pub struct AddressSpace<'a> {
    /// What the process has mapped.
    pub maps: &'a Maps,
    /// All images, those of the process among them.
    pub images: RefCell<&'a mut Images>,
    pub(crate) pages: RefCell<&'a mut Pages>,
    /// What was seen of its mappings.
    pub(crate) vmas: RefCell<&'a mut Vmas>,
    signals: RefCell<&'a mut Signals>,
    generated_code: RefCell<&'a mut GeneratedCode>,
    guards: RefCell<&'a mut Guards>,
    exceptions: RefCell<&'a mut Exceptions>,
    /// Whether the program may go on behind an access that faults.
    pub handles_faults: Cell<bool>,
    /// Who is asked about pages.
    pub(crate) host: RefCell<&'a mut Host>,
    pub(crate) pid: sampler::Pid,
    /// Time of the sample.
    pub time: u64,
    /// When the process ends, if that is known yet.
    pub ends: Option<u64>,
    /// Only one thread uses its memory.
    is_alone: bool,
    /// Whether values of denied images may be captured.
    pub allow_secrets: bool,
    /// Whether its memory may be read.
    pub allow_memory: bool,
    /// What was seen of its pages when it arrived.
    pub evidence: Option<PageEvidence>,
    /// Stack pointer, if the interrupt could read there.
    pub stack: Option<u64>,
    /// Where the sample was taken.
    pub pc: ProcessAddress,
    /// The stack pointer of the sample.
    pub stack_pointer: u64,
    /// Whether the process is still the sampled program, once that was looked up.
    pub(crate) same_space: Cell<Option<bool>>,
    /// The mappings that code and data were located in last: they seldom leave it.
    code: Cell<Option<Spot>>,
    data: Cell<Option<Spot>>,
    /// The page that was found pristine last.
    pub(crate) pristine: Cell<Option<u64>>,
    /// Pages that were asked for last and that nobody else writes, each with [`ASKED`] set. Of
    /// others more may be known when they are asked for again.
    unexposed: [Cell<u64>; PAGES_ASKED],
}

/// Pages that are remembered for a sample.
const PAGES_ASKED: usize = 8;
/// Tells a page from none.
const ASKED: u64 = 1;

/// A process address as an address of an image.
#[derive(Clone, Copy, Debug)]
pub struct Located {
    /// The image, and the address in it.
    pub pc: Pc,
    /// How the image lies in the process.
    pub bias: Bias,
    pub(crate) mapping: Mapping,
}

impl Located {
    fn of(address: ProcessAddress, spot: Spot) -> Self {
        let Spot { mapping, bias } = spot;
        let pc = Pc {
            image: mapping.image,
            address: bias.in_image(address),
        };
        Self { pc, bias, mapping }
    }
}

impl<'a> AddressSpace<'a> {
    /// What a sample of that time may look at; nothing was seen of its pages yet, and what is
    /// denied stays so.
    pub fn of(
        process: &'a mut Process,
        host: &'a mut Host,
        images: &'a mut Images,
        time: u64,
    ) -> Self {
        let is_alone = process.is_alone(time);
        Self {
            maps: &process.maps,
            images: RefCell::new(images),
            pages: RefCell::new(&mut process.pages),
            vmas: RefCell::new(&mut process.vmas),
            signals: RefCell::new(&mut process.signals),
            generated_code: RefCell::new(&mut process.generated_code),
            guards: RefCell::new(&mut process.guards),
            exceptions: RefCell::new(&mut process.exceptions),
            handles_faults: Cell::new(false),
            host: RefCell::new(host),
            pid: process.pid,
            time,
            ends: process.ends,
            is_alone,
            allow_secrets: false,
            allow_memory: false,
            evidence: None,
            stack: None,
            pc: ProcessAddress::default(),
            stack_pointer: 0,
            same_space: Cell::new(None),
            code: Cell::new(process.maps.remembered()),
            data: Cell::new(None),
            pristine: Cell::new(None),
            unexposed: Default::default(),
        }
    }
}

impl AddressSpace<'_> {
    /// Whether the kernel itself was sampled.
    pub fn is_kernel(&self) -> bool {
        self.pid == Process::KERNEL
    }

    /// Image and address of code in this process; `None` where nothing is mapped.
    #[inline]
    pub fn place(&self, address: ProcessAddress) -> Option<Pc> {
        self.locate(address).map(|located| located.pc)
    }

    /// That with the mapping.
    pub fn locate(&self, address: ProcessAddress) -> Option<Located> {
        let spot = self.spot(&self.code, address)?;
        Some(Located::of(address, spot))
    }

    /// As [`Self::locate`], of data.
    fn locate_data(&self, address: ProcessAddress) -> Option<Located> {
        let spot = self.spot(&self.data, address)?;
        Some(Located::of(address, spot))
    }

    /// The mapping at an address, which mostly is the one that was found last.
    #[inline]
    fn spot(&self, last: &Cell<Option<Spot>>, address: ProcessAddress) -> Option<Spot> {
        match last.get() {
            Some(known) if known.has(address) => Some(known),
            _ => self.other_spot(last, address),
        }
    }

    #[inline(never)]
    fn other_spot(&self, last: &Cell<Option<Spot>>, address: ProcessAddress) -> Option<Spot> {
        let mapping = *self.maps.find(address)?;
        if mapping.is_anon()
            && let Some(part) = self.images.borrow().narrow(&mapping, address, self.time)
        {
            // Its name may be another one at the next sample: it is not remembered beyond this.
            let spot = Spot {
                mapping: part,
                bias: Bias::NONE,
            };
            last.set(Some(spot));
            return Some(spot);
        }
        let (bias, is_known) = self.bias(&mapping);
        let spot = Spot { mapping, bias };
        if ptr::eq(last, &self.code) {
            // Much is kept of code by the number of its image.
            self.images.borrow_mut().stays(mapping.image);
        }
        last.set(Some(spot));
        if is_known && mapping.executable {
            self.maps.remember(spot);
        }
        Some(spot)
    }

    /// How the mapping's image lies there, and whether no more will be known.
    fn bias(&self, mapping: &Mapping) -> (Bias, bool) {
        if mapping.is_anon() {
            return (Bias::NONE, true);
        }
        let through = Some((self.pid, mapping.range));
        let mut images = self.images.borrow_mut();
        let elf = images.elf(mapping.image, through);
        let bias = elf.and_then(|elf| mapping.bias(&elf.segments));
        // Of a file that cannot be read the segments are not known: take the usual case, in
        // which ELF addresses are file offsets, so that cycles are told apart at least.
        let image_start = ImageAddress(mapping.file_offset);
        let bias = bias.unwrap_or(Bias::between(mapping.range.start, image_start));
        (bias, !images.is_closed(mapping.image))
    }

    /// Whether the mapping's image will not turn out to lie there otherwise.
    pub(crate) fn has_lasting_bias(&self, mapping: &Mapping) -> bool {
        mapping.is_anon() || !self.images.borrow().is_closed(mapping.image)
    }

    /// Whether an address lies in the page that was found pristine last.
    pub(crate) fn is_in_pristine(&self, address: ProcessAddress) -> bool {
        self.pristine.get() == Some(address.0 & !(elf::PAGE as u64 - 1))
    }

    /// Whether the bytes at `address` are certainly those of the image file; else why not.
    pub(crate) fn is_pristine(
        &self,
        address: ProcessAddress,
        mapping: &Mapping,
    ) -> Result<(), StopReason> {
        if self.is_in_pristine(address) {
            return Ok(());
        }
        let page = address.0 & !(elf::PAGE as u64 - 1);
        if mapping.is_anon() {
            return Err(StopReason::AnonymousCode);
        }
        if !mapping.never_writable || self.images.borrow().is_written(mapping.image) {
            return Err(StopReason::PageWritten);
        }
        let seen = self.evidence.and_then(|evidence| evidence.of(address.0));
        match seen.unwrap_or_else(|| self.page_now(address.0)) {
            PageState::Clean => {
                self.is_mapped(page, mapping, seen.is_some())?;
                self.pristine.set(Some(page));
                Ok(())
            }
            PageState::Written => Err(StopReason::PageWritten),
            PageState::Unknown => Err(StopReason::ProcessGone),
        }
    }

    /// Whether a page is mapped as the kernel's records told: one that is not mapped any more looks
    /// as if nobody had written it. Where the page was `seen` when the sample came, it is so if the
    /// kernel does not say otherwise.
    fn is_mapped(&self, page: u64, mapping: &Mapping, seen: bool) -> Result<(), StopReason> {
        if !mapping.is_file() {
            return Ok(());
        }
        match self.region(ProcessAddress(page)) {
            Some(Region::Mapped(vma)) => {
                let same = mapping.file_offset_at(vma.range().start) == vma.offset;
                match same && !vma.shared && !vma.writable {
                    true => Ok(()),
                    false => Err(StopReason::NotMapped),
                }
            }
            Some(Region::Free { .. }) => Err(StopReason::NotMapped),
            None if seen => Ok(()),
            None => Err(StopReason::ProcessGone),
        }
    }

    /// Whether code can be executed at an address of a mapping that cannot by the kernel's records.
    /// Memory without a file may have been moved there, and of it they do not tell. Where the
    /// thread was, it executed code.
    pub(crate) fn is_executable(&self, pc: ProcessAddress, mapping: &Mapping) -> bool {
        if !mapping.is_anon() {
            return false;
        }
        if pc.0 / 4096 == self.pc.0 / 4096 {
            return true;
        }
        matches!(self.region(pc), Some(Region::Mapped(vma)) if vma.executable)
    }

    /// What the kernel has mapped around an address, if it can be told.
    pub(crate) fn region(&self, address: ProcessAddress) -> Option<Region> {
        let mut vmas = self.vmas.borrow_mut();
        vmas.at(address, self.time, self.stack, &mut self.host.borrow_mut())
    }

    /// What the kernel had mapped around an address when it was asked last.
    pub(crate) fn last_region(&self, address: ProcessAddress) -> Option<Region> {
        self.vmas.borrow().last(address)
    }

    /// Which exceptions the process has handlers for, as far as can be found out now.
    pub fn handlers(&self) -> Handlers {
        let mut signals = self.signals.borrow_mut();
        let mut host = self.host.borrow_mut();
        signals.at(self.pid, self.time, self.stack, &mut host)
    }

    /// Whether an access may wait for another thread, which answers as it likes.
    pub fn has_user_faults(&self) -> bool {
        if self.is_alone {
            return false;
        }
        let mut guards = self.guards.borrow_mut();
        let mut host = self.host.borrow_mut();
        guards.by_user((self.pid, self.time), self.stack, &mut host)
    }

    /// If an access raised an exception behind the sample, and the program goes on behind that:
    /// from when on exceptions of a page count.
    pub(crate) fn raised_since(&self) -> Option<u64> {
        if !self.handles_faults.get() {
            return None;
        }
        let mut host = self.host.borrow_mut();
        let mut exceptions = self.exceptions.borrow_mut();
        exceptions.since(self.pid, self.time, &mut host)
    }

    /// Whether an access to the page around an address raised one since then.
    pub(crate) fn has_raised(&self, address: ProcessAddress, since: u64) -> bool {
        let mut host = self.host.borrow_mut();
        let exceptions = self.exceptions.borrow();
        exceptions.at(self.pid, address, since, &mut host)
    }

    /// What an access between two addresses may meet, where the program may go on behind that.
    pub(crate) fn guarded(&self, first: u64, last: u64) -> Guarded {
        if !self.handles_faults.get() {
            return Guarded::No;
        }
        let mut guards = self.guards.borrow_mut();
        let mut host = self.host.borrow_mut();
        guards.at((first, last), (self.pid, self.time), self.stack, &mut host)
    }

    /// Whether somebody else may write at an address although only one thread uses this address
    /// space: by the kernel's records, to a file that is mapped there, or because something shared
    /// may have been moved there, which these do not tell.
    #[inline]
    pub(crate) fn may_be_exposed(&self, address: ProcessAddress) -> bool {
        let page = address.0 & !(elf::PAGE as u64 - 1) | ASKED;
        let asked = &self.unexposed[(page / elf::PAGE as u64) as usize % PAGES_ASKED];
        if asked.get() == page {
            return false;
        }
        let exposed = self.is_page_exposed(address);
        if !exposed {
            asked.set(page);
        }
        exposed
    }

    #[inline(never)]
    fn is_page_exposed(&self, address: ProcessAddress) -> bool {
        if self.maps.may_be_exposed(address) || self.maps.is_data_file(address) {
            return true;
        }
        let mapping = self.maps.find(address).filter(|mapping| mapping.is_file());
        if mapping.is_some_and(|mapping| self.images.borrow().is_written(mapping.image)) {
            return true;
        }
        if self.is_kernel() || !self.maps.has_shared() {
            return false;
        }
        let region = self.region(address).or_else(|| self.last_region(address));
        !matches!(region, Some(Region::Mapped(vma)) if !vma.shared)
    }

    /// State of a page that the evidence does not cover.
    fn page_now(&self, address: u64) -> PageState {
        let look = || {
            let mut pages = self.pages.borrow_mut();
            let same = self.same_space.get().unwrap_or_else(|| {
                let same = self.stack.is_some_and(|stack| pages.is_same_space(stack));
                self.same_space.set(Some(same));
                same
            });
            if same {
                pages.state(address, self.time, sampler::clock_now)
            } else {
                PageState::Unknown
            }
        };
        let page = address & !(elf::PAGE as u64 - 1);
        self.host.borrow_mut().page(self.pid, page, look)
    }

    /// Which bases of segments the code of this process can have changed without the kernel's
    /// knowledge, so far as that is known.
    pub fn base_writers(&self) -> BaseWriters {
        let changes = self.images.borrow().changes;
        if let Some((as_of, known)) = self.maps.bases.get()
            && as_of == changes
        {
            return known;
        }
        let Some(code) = self.maps.code_seen().filter(|code| !code.has_other) else {
            return BaseWriters::ANY;
        };
        let mut images = self.images.borrow_mut();
        let mut all = BaseWriters::default();
        for of_file in &code.of_files {
            let Some(writers) = images.base_writers(of_file, self.pid) else {
                return BaseWriters::ANY;
            };
            all = all.or(writers);
        }
        self.maps.bases.set(Some((changes, all)));
        all
    }

    /// Whether values at this PC may not be captured.
    pub fn is_denied(&self, pc: Pc) -> bool {
        !self.allow_secrets && self.images.borrow().is_denied(pc.image)
    }

    /// Whether there are unwind rules for this PC, as far as that is known.
    pub fn may_have_rules(&self, pc: Pc) -> bool {
        self.function(pc).is_some() || self.images.borrow().lacks_rules(pc.image)
    }

    /// Whether a function begins here, by the unwind rules.
    pub fn is_entry(&self, pc: Pc) -> bool {
        self.function(pc)
            .is_some_and(|(start, _)| start == pc.address)
    }

    /// Whether two places belong to one function, by the unwind rules.
    pub fn is_same_function(&self, a: Pc, b: Pc) -> bool {
        a.image == b.image && self.function(a) == self.function(b)
    }

    /// The registers beside the platform's that the function at a PC may have arguments in.
    pub fn other_arguments(&self, pc: Pc) -> Others {
        self.images.borrow_mut().other_arguments(pc.image)
    }

    /// The slots that the return address may lie in, by the code at a PC without unwind rules.
    pub fn exits(&self, pc: Pc) -> Vec<Exit> {
        if self.is_generated_code(pc.image) {
            let at = made(pc.address);
            let exits =
                self.of_generated_code(|generated_code, asker| generated_code.exits(at, asker));
            return exits.unwrap_or_default();
        }
        let mut images = self.images.borrow_mut();
        images.by_flow(pc.image, |flows, text| flows.exits(pc, text).to_vec())
    }

    /// Whether a call to `target`, as it is named in the code of its image, leads to a PC.
    pub fn leads(&self, target: Pc, pc: Pc) -> Leads {
        if self.is_generated_code(target.image) {
            // Code that a process makes may call that of a file.
            let to = made(target.address);
            let Some(found) = self.place(to) else {
                return Leads::Perhaps;
            };
            if !self.is_generated_code(found.image) {
                return self.leads(found, pc);
            }
            let pc = self.is_generated_code(pc.image).then(|| made(pc.address));
            let leads =
                self.of_generated_code(|generated_code, asker| generated_code.leads(to, pc, asker));
            return leads.unwrap_or(Leads::Perhaps);
        }
        let mut images = self.images.borrow_mut();
        images.by_flow(target.image, |flows, text| {
            if target.image == pc.image {
                flows.leads(target, pc.address, text).clone()
            } else {
                flows.leaves(target, text).clone()
            }
        })
    }

    /// Whether this is an image of code that the process makes.
    pub fn is_generated_code(&self, image: ImageId) -> bool {
        self.images.borrow().is_generated_code(image)
    }

    /// Takes note of an exit that the handler is told of; false if it is not to be.
    pub fn tell(&self, pc: Pc, exit: &Exit) -> bool {
        let at = made(pc.address);
        !self.is_generated_code(pc.image) || self.generated_code.borrow_mut().tell(at, exit)
    }

    /// Whether the handler goes by this exit, if it goes by any.
    pub(crate) fn was_told(&self, pc: Pc, exit: &Exit) -> bool {
        let at = made(pc.address);
        !self.is_generated_code(pc.image) || self.generated_code.borrow().was_told(at, exit)
    }

    /// Reads code that the process makes, as of the sample; how many bytes of it there are.
    pub(crate) fn read_made(&self, address: ProcessAddress, bytes: &mut [u8]) -> usize {
        let read = self
            .of_generated_code(|generated_code, asker| generated_code.read(address, bytes, asker));
        read.unwrap_or(0)
    }

    /// What code that the process makes says, if its memory may be read.
    fn of_generated_code<T>(
        &self,
        ask: impl FnOnce(&mut GeneratedCode, &mut Asker<'_>) -> T,
    ) -> Option<T> {
        let mut generated_code = self.generated_code.borrow_mut();
        let mut host = self.host.borrow_mut();
        let images = self.images.borrow();
        let mut asker = Asker {
            maps: self.maps,
            images: &images,
            host: &mut host,
            time: self.time,
            stack: self.stack,
        };
        self.allow_memory
            .then(|| ask(&mut generated_code, &mut asker))
    }

    /// Where the function at a PC begins and ends, by the unwind rules.
    pub fn function(&self, pc: Pc) -> Option<(ImageAddress, ImageAddress)> {
        let mut images = self.images.borrow_mut();
        images.unwind(pc.image)?.function(pc.address)
    }

    /// Reads bytes that the image file can vouch for. True if all of them were had.
    pub(crate) fn read_image(&self, address: u64, bytes: &mut [u8]) -> bool {
        let mut done = 0;
        while done < bytes.len() {
            let at = ProcessAddress(address).wrapping_add(done as u64);
            let Some(located) = self.locate_data(at) else {
                return false;
            };
            if !located.mapping.readable || self.is_pristine(at, &located.mapping).is_err() {
                return false;
            }
            let in_page = 4096 - (at.0 % 4096) as usize;
            let n = (bytes.len() - done).min(in_page);
            let part = &mut bytes[done..done + n];
            let Pc { image, address } = located.pc;
            if self.images.borrow_mut().read(image, address, part) != n {
                return false;
            }
            done += n;
        }
        true
    }
}

/// Where code that the process makes lies in it, as an address of its image.
fn made(address: ImageAddress) -> ProcessAddress {
    Bias::NONE.in_process(address)
}
