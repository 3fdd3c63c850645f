//! Whether a load or store of a window goes through, and what it may touch under another address.
//!
//! Two tell. The kernel's records say what was mapped at the sample, and with which rights, but
//! miss what was unmapped or moved since. A look at the mappings (`vmas::Vmas`) says
//! what is there now. An access goes through if both allow it. Where the look cannot be had (the
//! process is gone), the last one that was had must do. Where it cannot be believed (the process
//! unmaps and maps again at that place), a page that was read at the interrupt was mapped. What is
//! moved there has rights of its own, so that nobody knows of a store whether it goes through; nor
//! where a look finds other rights than the records tell of.
//!
//! Whatever the two say: where an access to a page raised an exception since the sample, the one
//! that the window comes to may have been that (`exceptions::Exceptions`), unless the page was read
//! at the interrupt and is but read.
//!
//! Where it "goes through" though nobody was ever asked, or what is stored is unknown, the window
//! ends if the program has a handler for what does not go through ([`interpreter::Handlers`]):
//! without one, such an access ends the process.
//!
//! Pages that are not present yet, and those that are copied when they are written, are mapped: the
//! thread notices nothing of it. Beyond the end of its file, a mapping counts as nothing mapped.
//!
//! | records | look | load of unknown bytes | store |
//! |---|---|---|---|
//! | right | right | goes through | goes through |
//! | right | other rights | window ends | window ends |
//! | right | nothing mapped | faults | faults |
//! | right | none, right before | goes through | goes through |
//! | right | none, other before | window ends | window ends |
//! | right | never any | goes through | what is stored is unknown |
//! | right, but unmapped now and then | any | window ends | window ends |
//! | no right | right, of another mapping | goes through | goes through |
//! | no right | none, right of another mapping before | goes through | goes through |
//! | no right | anything else | faults | faults |
//! | nothing | right | goes through | goes through |
//! | nothing | no right, or nothing | faults | faults |
//! | nothing | never any | window ends | window ends |
//!
//! Guard regions, and `userfaultfd` with SIGBUS, make pages fault that their mapping allows to
//! access. Where a process has some (`guards::Guards`), and a handler, no access
//! is known to go through but to pages that were read at the interrupt; by `userfaultfd`, no store
//! but to the top of the stack.
//!
//! Protection keys: which key a mapping has, and which keys a thread may use, is not known. What
//! was read at the interrupt could be read; a change of keys (`wrpkru`) ends the window. A program
//! that has keys, and a handler, has no other access that is known to go through. A mapping that
//! may only be executed may have such a key, so nothing is known of loads from it.

use addresses::{ProcessAddress, ProcessRange};
use interpreter::{Access, CodeMemory, Verdict};
use sampler::Vma;

use crate::address_space::AddressSpace;
use crate::guards::Guarded;
use crate::mapping::Mapping;
use crate::vmas::Region;

const PAGE: u64 = 4096;
/// Parts of one access, or of what is stored, that are told apart.
const MAX_PARTS: usize = 64;
/// Where the kernel's half begins.
const UPPER_HALF: u64 = 1 << 63;
/// The kernel's image and its modules: each page is there once.
const KERNEL_IMAGE: std::ops::Range<u64> = 0xffff_ffff_8000_0000..0xffff_ffff_ff00_0000;
/// Size of a kernel stack, which begins at a multiple of it.
const KERNEL_STACK: u64 = 16 << 10;

/// How it is known that a page was mapped at the sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MappedBy {
    /// The thread's stack pointer pointed there, and what it pointed to was read.
    Stack,
    /// It was read.
    Read,
}

impl MappedBy {
    /// Whether it shows that an access goes through, whatever is known of the mapping.
    fn shows(self, access: Access) -> bool {
        self == MappedBy::Stack || access == Access::Load
    }
}

/// A verdict on one part of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PartVerdict {
    /// Allowed between these addresses, the last included, by the kernel's present word.
    Allowed(u64, u64),
    /// Allowed between these addresses for this sample.
    Once(u64, u64),
    /// It goes through as far as is known, up to this address.
    Unverified(u64),
    Faults,
    MayFault,
}

/// What is known of an address.
#[derive(Clone, Copy)]
struct AddressFacts<'a> {
    address: ProcessAddress,
    /// By the records of the kernel.
    record: Option<&'a Mapping>,
    /// Where the records know of nothing, if they do not: up to the next mapping.
    gap: ProcessRange,
    /// How it is known that its page was mapped at the sample, if it is.
    evidence: &'a dyn Fn() -> Option<MappedBy>,
    /// It may have been unmapped without notice.
    unmapped: bool,
}

fn allows(vma: &Vma, access: Access) -> bool {
    match access {
        Access::Load => vma.readable || vma.writable,
        Access::Store => vma.writable,
    }
}

/// Whether the kernel has the mapping that its records told of, whatever its rights.
fn is_same(record: &Mapping, vma: &Vma) -> bool {
    if !record.is_file() {
        return vma.inode == 0 && !vma.shared;
    }
    let same_place = record.file_offset_at(vma.range().start) == vma.offset;
    vma.inode != 0 && vma.shared == record.shared && same_place
}

/// Who is asked what is mapped around an address.
trait Kernel {
    /// What is mapped now.
    fn now(&self, address: ProcessAddress) -> Option<Region>;
    /// What was mapped when it was asked last.
    fn before(&self, address: ProcessAddress) -> Option<Region>;
}

impl Kernel for AddressSpace<'_> {
    fn now(&self, address: ProcessAddress) -> Option<Region> {
        self.region(address)
    }

    fn before(&self, address: ProcessAddress) -> Option<Region> {
        self.last_region(address)
    }
}

/// What becomes of an access by what is known.
fn judge(known: AddressFacts<'_>, access: Access, kernel: &impl Kernel) -> PartVerdict {
    let page = known.address.0 & !(PAGE - 1);
    let of_page = PartVerdict::Once(page, page + (PAGE - 1));
    let unverified = PartVerdict::Unverified(page + (PAGE - 1));
    let Some(record) = known.record else {
        return match kernel.now(known.address) {
            Some(Region::Mapped(vma)) if allows(&vma, access) => {
                let both = vma.range().within(known.gap);
                PartVerdict::Allowed(both.start.0, both.end.0 - 1)
            }
            Some(_) => PartVerdict::Faults,
            None => match (known.evidence)() {
                Some(evidence) if evidence.shows(access) => of_page,
                // Nobody has mapped the first page but by a record.
                _ if page == 0 => PartVerdict::Faults,
                Some(_) => unverified,
                // Nothing vouches for it: the process may have ended by this very access.
                None => PartVerdict::MayFault,
            },
        };
    };
    let has_right = match access {
        Access::Store => record.writable,
        Access::Load => record.readable || record.writable,
    };
    if !has_right {
        let now = kernel.now(known.address);
        let is_now = now.is_some();
        return match now.or_else(|| kernel.before(known.address)) {
            // What the records tell of was unmapped, and something was moved there.
            Some(Region::Mapped(vma)) if allows(&vma, access) && !is_same(record, &vma) => {
                within_both(&vma, record, is_now)
            }
            _ if access == Access::Load && record.executable => unverified,
            _ => PartVerdict::Faults,
        };
    }
    // Something was mapped there. It may have been moved there, with other rights than those that
    // the records tell of.
    let moved = |evidence: MappedBy| match evidence.shows(access) {
        true => of_page,
        false => unverified,
    };
    if known.unmapped {
        return (known.evidence)().map_or(PartVerdict::MayFault, moved);
    }
    let now = kernel.now(known.address);
    let look = now.or_else(|| kernel.before(known.address));
    if let Some(Region::Mapped(vma)) = look
        && allows(&vma, access)
    {
        return within_both(&vma, record, now.is_some());
    }
    match ((known.evidence)(), look) {
        (Some(evidence), Some(Region::Mapped(_))) => moved(evidence),
        (Some(_), _) => of_page,
        (None, Some(Region::Free { .. })) if now.is_some() => PartVerdict::Faults,
        (None, Some(_)) => PartVerdict::MayFault,
        (None, None) => unverified,
    }
}

/// What goes through where a look and a record overlap.
fn within_both(vma: &Vma, record: &Mapping, is_now: bool) -> PartVerdict {
    let both = vma.range().within(record.range);
    let (first, last) = (both.start.0, both.end.0 - 1);
    match is_now {
        true => PartVerdict::Allowed(first, last),
        false => PartVerdict::Once(first, last),
    }
}

/// The pages that an access touches; `None` of too many to look at each.
fn pages(address: u64, bytes: u64) -> Option<impl Iterator<Item = u64>> {
    let (first, last) = (address & !(PAGE - 1), address + (bytes - 1));
    let are_few = (last - first) / PAGE < MAX_PARTS as u64;
    are_few.then(|| (first..=last).step_by(PAGE as usize))
}

/// A verdict on these bytes where it says nothing of others.
fn of_these(verdict: Verdict, address: u64, bytes: u64) -> Verdict {
    match verdict {
        Verdict::Allowed { .. } => Verdict::Allowed {
            first: address,
            last: address + (bytes - 1),
        },
        verdict => verdict,
    }
}

/// Whether what was seen of a page at the interrupt vouches for an access that may meet that.
fn vouches(evidence: Option<MappedBy>, access: Access, guarded: Guarded) -> bool {
    evidence.is_some_and(|of| guarded != Guarded::ByUser || of.shows(access))
}

/// All parts of an access together, and whether that holds for earlier samples, too; `part` judges
/// that which begins at an address.
fn together(address: u64, bytes: u64, mut part: impl FnMut(u64) -> PartVerdict) -> (Verdict, bool) {
    let last = address.saturating_add(bytes.saturating_sub(1));
    let mut at = address;
    let (mut first, mut verified, mut lasts) = (None, true, true);
    for _ in 0..MAX_PARTS {
        let end = match part(at) {
            PartVerdict::Allowed(start, end) => {
                first.get_or_insert(start);
                end
            }
            PartVerdict::Once(start, end) => {
                first.get_or_insert(start);
                lasts = false;
                end
            }
            PartVerdict::Unverified(end) => {
                verified = false;
                end
            }
            PartVerdict::Faults => return (Verdict::Faults, false),
            PartVerdict::MayFault => return (Verdict::MayFault, false),
        };
        if end >= last {
            return match first {
                Some(first) if verified => (Verdict::Allowed { first, last: end }, lasts),
                _ => (Verdict::Unverified, false),
            };
        }
        at = end + 1;
    }
    (Verdict::MayFault, false)
}

impl AddressSpace<'_> {
    /// Whether an access goes through; `evidence` tells of pages that were read at the interrupt.
    pub fn check(
        &self,
        address: u64,
        bytes: u64,
        access: Access,
        evidence: impl Fn(u64) -> Option<MappedBy>,
    ) -> Verdict {
        if self.is_kernel() {
            return check_in_kernel(address, bytes);
        }
        if address.saturating_add(bytes - 1) >= UPPER_HALF {
            return Verdict::Faults;
        }
        let Some(since) = self.raised_since() else {
            return self.allowed(address, bytes, access, &evidence);
        };
        let may_raise = |page: u64| {
            let is_seen = evidence(page).is_some_and(|of| of.shows(access));
            !is_seen && self.has_raised(ProcessAddress(page), since)
        };
        match pages(address, bytes).is_none_or(|mut pages| pages.any(may_raise)) {
            true => Verdict::MayFault,
            false => of_these(
                self.allowed(address, bytes, access, &evidence),
                address,
                bytes,
            ),
        }
    }

    /// What mappings, and what makes their pages fault, say of an access.
    fn allowed(
        &self,
        address: u64,
        bytes: u64,
        access: Access,
        evidence: &impl Fn(u64) -> Option<MappedBy>,
    ) -> Verdict {
        let guarded = self.guarded(address, address + (bytes - 1));
        if guarded != Guarded::No {
            let verdict = self.judged(address, bytes, access, evidence).0;
            let vouches = |page| vouches(evidence(page), access, guarded);
            let is_seen = pages(address, bytes).is_some_and(|mut pages| pages.all(vouches));
            return match verdict {
                Verdict::Allowed { .. } if !is_seen => Verdict::Unverified,
                verdict => of_these(verdict, address, bytes),
            };
        }
        if let Some((first, last)) = self.maps.grants().find(address, bytes, access, self.time) {
            return Verdict::Allowed { first, last };
        }
        let verdict = self.judged(address, bytes, access, evidence);
        if let (Verdict::Allowed { first, last }, true) = verdict {
            self.maps.grants().add(first, last, access, self.time);
        }
        verdict.0
    }

    /// What the mappings say of an access, and whether that holds for earlier samples, too.
    fn judged(
        &self,
        address: u64,
        bytes: u64,
        access: Access,
        evidence: &impl Fn(u64) -> Option<MappedBy>,
    ) -> (Verdict, bool) {
        together(address, bytes, |at| {
            let address = ProcessAddress(at);
            let record = self.maps.find(address);
            let known = AddressFacts {
                address,
                record,
                gap: record.map_or_else(|| self.maps.gap(address), |_| ProcessRange::default()),
                evidence: &|| evidence(at & !(PAGE - 1)),
                unmapped: self.maps.aliases().may_be_unmapped(address, self.time),
            };
            judge(known, access, self)
        })
    }

    /// Whether a store to one of the bytes from `first` to `last` may change that at `other`, which
    /// is none of them.
    pub(crate) fn may_alias(&self, first: u64, last: u64, other: u64) -> bool {
        if self.is_kernel() {
            return may_alias_in_kernel(first, last, other, self.stack_pointer);
        }
        if !self.maps.may_have_aliases() {
            return false;
        }
        // Of a process that is gone the last word counts.
        let region = |at: u64| {
            let at = ProcessAddress(at);
            self.region(at).or_else(|| self.last_region(at))
        };
        let Some(Region::Mapped(read)) = region(other) else {
            return true;
        };
        let mut at = first;
        for _ in 0..MAX_PARTS {
            let end = match region(at) {
                None => return true,
                Some(Region::Mapped(stored)) => {
                    if is_same_memory(&stored, (at, last), &read, other) {
                        return true;
                    }
                    stored.end
                }
                Some(Region::Free { end, .. }) => end,
            };
            if end > last {
                return false;
            }
            at = end;
        }
        true
    }

    /// Which stores of the thread can change the code at an address.
    pub(crate) fn code_memory(&self, address: ProcessAddress) -> CodeMemory {
        // The kernel's text is written under none of its addresses: it is patched through an
        // address space of its own, in the lower half.
        if self.is_kernel() {
            return CodeMemory::Fixed;
        }
        let Some(mapping) = self.maps.find(address) else {
            return CodeMemory::Shared;
        };
        let own = match mapping.writable {
            true => CodeMemory::Writable,
            false => CodeMemory::Fixed,
        };
        if !self.maps.may_have_aliases() {
            return own;
        }
        match self.region(address) {
            Some(Region::Mapped(vma)) if !self.maps.aliases().may_show(&vma) => {
                match vma.writable {
                    true => CodeMemory::Writable,
                    false => own,
                }
            }
            _ => CodeMemory::Shared,
        }
    }
}

/// Whether what is stored between two addresses may be the byte at `other`.
///
/// Of shared memory that is any byte at the same place in a page. Its file and offset do not tell:
/// both rings of `io_uring` are the same pages, BPF maps those of a ring twice in a row, what lies
/// in an overlay has another inode in the layer below, a disk may have several nodes. And `mremap`
/// has two mappings change places without a word.
fn is_same_memory(stored: &Vma, (first, last): (u64, u64), read: &Vma, other: u64) -> bool {
    let file = |vma: &Vma| (vma.major, vma.minor, vma.inode);
    // What goes to private memory shows nowhere else, and private memory without a file is nowhere
    // else.
    if !stored.shared || (read.inode == 0 && !read.shared) {
        return false;
    }
    if read.shared {
        return other.wrapping_sub(first) % PAGE <= last - first;
    }
    // A private mapping of a file shows what is stored to that.
    if file(stored) != file(read) {
        return false;
    }
    let offset = |vma: &Vma, address: u64| (address - vma.start).wrapping_add(vma.offset);
    let (low, high) = (first.max(stored.start), last.min(stored.end - 1));
    let byte = offset(read, other);
    (offset(stored, low)..=offset(stored, high)).contains(&byte)
}

/// Of the kernel's own memory it accesses none that it may not. What it accesses of the program's
/// may be missing, and it knows how to go on then.
fn check_in_kernel(address: u64, bytes: u64) -> Verdict {
    let last = address.saturating_add(bytes - 1);
    // Errors are told as pointers to the last page.
    let limit = u64::MAX - PAGE;
    if last < PAGE || (address >= UPPER_HALF && last > limit) {
        Verdict::Faults
    } else if address < UPPER_HALF {
        Verdict::MayFault
    } else {
        Verdict::Allowed {
            first: UPPER_HALF,
            last: limit,
        }
    }
}

/// All memory is mapped once from the beginning of the kernel's half on, and parts of it elsewhere,
/// too: stacks, what `vmalloc` gives, the image. Where these lie is drawn at each boot.
fn may_alias_in_kernel(first: u64, last: u64, other: u64, stack: u64) -> bool {
    let all = [first, last, other];
    let in_image = all.iter().all(|address| KERNEL_IMAGE.contains(address));
    let base = stack & !(KERNEL_STACK - 1);
    let in_stack = all
        .iter()
        .all(|address| address & !(KERNEL_STACK - 1) == base);
    !in_image && !in_stack
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mapping::tests::mapping;

    const RW: Vma = Vma {
        start: 0x1000,
        end: 0x3000,
        readable: true,
        writable: true,
        executable: false,
        shared: false,
        offset: 0,
        major: 0,
        minor: 0,
        inode: 0,
    };
    const NONE: Vma = Vma {
        readable: false,
        writable: false,
        ..RW
    };
    const FREE: Region = Region::Free {
        start: 0x1000,
        end: 0x3000,
    };

    /// What it says now, and what it said before.
    struct Says(Option<Region>, Option<Region>);

    impl Kernel for Says {
        fn now(&self, _: ProcessAddress) -> Option<Region> {
            self.0
        }

        fn before(&self, _: ProcessAddress) -> Option<Region> {
            self.1
        }
    }

    fn known(record: Option<&Mapping>) -> AddressFacts<'_> {
        AddressFacts {
            address: ProcessAddress(0x1ff8),
            record,
            gap: ProcessRange::of_words(0x800, 0x2800),
            evidence: &|| None,
            unmapped: false,
        }
    }

    /// The table above, row by row.
    #[test]
    fn verdicts() {
        use Access::{Load, Store};
        let right = mapping(0x1000, 0x2000, 0, true);
        let constant = mapping(0x1000, 0x2000, 0, false);
        let allowed = PartVerdict::Allowed(0x1000, 0x1fff);
        let unverified = PartVerdict::Unverified(0x1fff);
        let judge = |record, look: Option<Region>| {
            [Load, Store].map(|access| judge(known(record), access, &Says(look, None)))
        };
        let before = |look| super::judge(known(Some(&right)), Store, &Says(None, look));
        let vma = |vma| Some(Region::Mapped(vma));
        assert_eq!(judge(Some(&right), vma(RW)), [allowed; 2]);
        assert_eq!(judge(Some(&right), vma(NONE)), [PartVerdict::MayFault; 2]);
        assert_eq!(judge(Some(&right), Some(FREE)), [PartVerdict::Faults; 2]);
        assert_eq!(judge(Some(&right), None), [unverified; 2]);
        assert_eq!(judge(Some(&constant), vma(RW)), [allowed; 2]);
        let of_file = Vma {
            inode: 7,
            offset: constant.file_offset,
            ..RW
        };
        let results = judge(Some(&constant), vma(of_file));
        assert_eq!(results, [allowed, PartVerdict::Faults]);
        let results = judge(Some(&constant), Some(FREE));
        assert_eq!(results, [PartVerdict::Faults; 2]);
        assert_eq!(
            judge(None, vma(RW)),
            [PartVerdict::Allowed(0x1000, 0x27ff); 2]
        );
        assert_eq!(judge(None, vma(NONE)), [PartVerdict::Faults; 2]);
        assert_eq!(judge(None, Some(FREE)), [PartVerdict::Faults; 2]);
        assert_eq!(judge(None, None), [PartVerdict::MayFault; 2]);
        let another = Vma {
            offset: 0x5000,
            ..of_file
        };
        let before_alone = |vma: Vma| Says(None, Some(Region::Mapped(vma)));
        let of_constant = |look| super::judge(known(Some(&constant)), Store, &look);
        assert_eq!(
            of_constant(before_alone(another)),
            PartVerdict::Once(0x1000, 0x1fff)
        );
        assert_eq!(of_constant(before_alone(of_file)), PartVerdict::Faults);
        assert_eq!(before(vma(RW)), PartVerdict::Once(0x1000, 0x1fff));
        assert_eq!(before(vma(NONE)), PartVerdict::MayFault);
        assert_eq!(before(Some(FREE)), PartVerdict::MayFault);
    }

    /// A page that was read was mapped, whatever became of it; without that, nothing is known of
    /// one that may have been unmapped. The null page is not mapped without notice.
    #[test]
    fn evidence() {
        let right = mapping(0x1000, 0x2000, 0, true);
        let of_page = PartVerdict::Once(0x1000, 0x1fff);
        let mut read = known(Some(&right));
        read.evidence = &|| Some(MappedBy::Read);
        assert_eq!(judge(read, Access::Store, &Says(None, None)), of_page);
        assert_eq!(judge(read, Access::Store, &Says(Some(FREE), None)), of_page);
        read.unmapped = true;
        assert_eq!(judge(read, Access::Load, &Says(None, None)), of_page);
        read.evidence = &|| None;
        let mapped = Says(Some(Region::Mapped(RW)), None);
        assert_eq!(judge(read, Access::Load, &mapped), PartVerdict::MayFault);
        read.record = None;
        read.evidence = &|| Some(MappedBy::Stack);
        assert_eq!(judge(read, Access::Store, &Says(None, None)), of_page);
        read.evidence = &|| Some(MappedBy::Read);
        assert_eq!(judge(read, Access::Load, &Says(None, None)), of_page);
        assert_eq!(
            judge(read, Access::Store, &Says(None, None)),
            PartVerdict::Unverified(0x1fff)
        );
        let null = AddressFacts {
            address: ProcessAddress(8),
            ..known(None)
        };
        assert_eq!(
            judge(null, Access::Load, &Says(None, None)),
            PartVerdict::Faults
        );
    }

    /// What was moved to a place has rights of its own: that a page was read there, and that the
    /// records and a later look allow it, says nothing of a store.
    #[test]
    fn moved_with_other_rights() {
        let right = mapping(0x1000, 0x2000, 0, true);
        let mut read = known(Some(&right));
        read.evidence = &|| Some(MappedBy::Read);
        let looks = |vma| Says(Some(Region::Mapped(vma)), None);
        let constant = Vma {
            writable: false,
            ..RW
        };
        let unverified = PartVerdict::Unverified(0x1fff);
        let allowed = PartVerdict::Allowed(0x1000, 0x1fff);
        assert_eq!(judge(read, Access::Store, &looks(RW)), allowed);
        assert_eq!(judge(read, Access::Store, &looks(constant)), unverified);
        assert_eq!(judge(read, Access::Load, &looks(constant)), allowed);
        read.unmapped = true;
        assert_eq!(judge(read, Access::Store, &looks(RW)), unverified);
        read.evidence = &|| Some(MappedBy::Stack);
        let of_page = PartVerdict::Once(0x1000, 0x1fff);
        assert_eq!(judge(read, Access::Store, &looks(RW)), of_page);
    }

    /// An access that goes on in another mapping needs both; one part that is not known makes the
    /// whole so.
    #[test]
    fn across_mappings() {
        let parts = |behind: PartVerdict| {
            together(0x1ffc, 8, |at| match at {
                0x1ffc => PartVerdict::Allowed(0x1000, 0x1fff),
                _ => behind,
            })
        };
        let both = Verdict::Allowed {
            first: 0x1000,
            last: 0x2fff,
        };
        assert_eq!(parts(PartVerdict::Allowed(0x2000, 0x2fff)), (both, true));
        assert_eq!(parts(PartVerdict::Once(0x2000, 0x2fff)), (both, false));
        assert_eq!(
            parts(PartVerdict::Unverified(0x2fff)).0,
            Verdict::Unverified
        );
        assert_eq!(parts(PartVerdict::Faults).0, Verdict::Faults);
        assert_eq!(parts(PartVerdict::MayFault).0, Verdict::MayFault);
    }

    /// Shared mappings meet at the same places of pages, whatever they are of. A private one shows
    /// what is stored to its file through a shared one, but not the other way round. Private memory
    /// meets nothing.
    #[test]
    fn same_memory() {
        let space = |start: u64, offset: u64, shared: bool| Vma {
            start,
            end: start + 0x2000,
            offset,
            shared,
            inode: 7,
            ..RW
        };
        let (one, two) = (space(0x1000, 0, true), space(0x8000, 0x1000, true));
        let store = |stored: &Vma, at: u64, read: &Vma, other: u64| {
            is_same_memory(stored, (at, at + 7), read, other)
        };
        assert!(store(&one, 0x2010, &two, 0x8010));
        assert!(store(&two, 0x8010, &one, 0x2017));
        assert!(store(&one, 0x1010, &two, 0x8010) && store(&two, 0x9010, &one, 0x2010));
        assert!(!store(&one, 0x1010, &two, 0x8018) && !store(&two, 0x900f, &one, 0x200e));
        let private = space(0x8000, 0x1000, false);
        assert!(store(&one, 0x2010, &private, 0x8010));
        assert!(!store(&one, 0x1010, &private, 0x8010));
        assert!(!store(&private, 0x8010, &one, 0x2010));
        let other = Vma {
            inode: 8,
            ..private
        };
        assert!(!store(&one, 0x2010, &other, 0x8010));
        assert!(store(&one, 0x2010, &Vma { inode: 8, ..two }, 0x8010));
        assert!(!store(&one, 0x2010, &RW, 0x1010) && !store(&RW, 0x1010, &one, 0x2010));
        // A long store reaches all pages between.
        assert!(is_same_memory(&one, (0x1000, 0x2fff), &two, 0x8abc));
    }

    /// The kernel's stack and its image are themselves; its other addresses may be each other.
    #[test]
    fn kernel() {
        let stack = 0xffff_c900_0001_3e00;
        let heap = 0xffff_8881_0000_0e00;
        let image = 0xffff_ffff_8200_0e00;
        let may = |a, b| may_alias_in_kernel(a, a + 7, b, stack);
        assert!(!may(stack, stack - 0x1000) && !may(image, image + 0x1000));
        assert!(may(stack, heap) && may(heap, image) && may(heap, heap + 0x1000));
        assert_eq!(check_in_kernel(8, 8), Verdict::Faults);
        assert_eq!(check_in_kernel(0x7fff_0000, 8), Verdict::MayFault);
        assert!(matches!(check_in_kernel(heap, 8), Verdict::Allowed { .. }));
        assert_eq!(check_in_kernel(u64::MAX - 21, 8), Verdict::Faults);
    }
}
