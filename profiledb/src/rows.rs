//! The rows of a profile as the writer takes them and the reader gives them.

use crate::settings::EpochSettings;

/// What was mapped where code ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ImageKind {
    /// An ELF file; addresses are ELF virtual addresses.
    File,
    /// The kernel's shared object in user space; addresses as for a file.
    Vdso,
    /// The kernel and its modules; addresses are relative to `_text` of that boot.
    Kernel,
    /// Memory without a file (generated code); addresses are the process's.
    Anon,
}

/// The natural key of an image.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Image {
    /// What kind of image.
    pub kind: ImageKind,
    /// Path as mapped, or a name in brackets (`[kernel]`, `[vdso]`, `[anon]`).
    pub path: String,
    /// Build id in lower-case hex, where there is one.
    pub build_id: Option<String>,
    /// Build id, else content id, else `dev:inode`, else the path. See [`Image::of_content`] and
    /// [`Image::in_32_bit_mode`].
    pub identity: String,
}

/// What is in front of a content id in an identity.
const CONTENT: &str = "content:";
/// What is behind the identity of an image whose code ran in 32-bit mode.
const IN_32_BIT_MODE: &str = ":i386";

/// Shorter beginnings of build ids would meet images by chance.
const LEAST_DIGITS: usize = 4;

impl Image {
    /// The identity of a file without a build id that has this content id.
    pub fn of_content(id: &str) -> String {
        format!("{CONTENT}{id}")
    }

    /// The content id of its file, if that is what it is known by.
    pub fn content_id(&self) -> Option<&str> {
        let identity = self.identity.strip_suffix(IN_32_BIT_MODE);
        identity.unwrap_or(&self.identity).strip_prefix(CONTENT)
    }

    /// Whether its file, wherever it is, can be told to be what ran: by its build id or its
    /// content.
    pub fn has_known_file(&self) -> bool {
        self.kind == ImageKind::File && (self.build_id.is_some() || self.content_id().is_some())
    }

    /// This image as far as its code ran in 32-bit mode: PCs of the two modes are apart, since the
    /// same bytes are other instructions.
    #[must_use]
    pub fn in_32_bit_mode(mut self) -> Image {
        self.identity.push_str(IN_32_BIT_MODE);
        self
    }

    /// Whether its PCs ran in 32-bit mode.
    pub fn is_in_32_bit_mode(&self) -> bool {
        self.identity.ends_with(IN_32_BIT_MODE)
    }

    /// Whether `name` is its path, its file name, or the first four or more digits of its
    /// build id.
    pub fn is_named(&self, name: &str) -> bool {
        let file_name = self.path.rsplit('/').next();
        let by_build_id = || {
            let id = self.build_id.as_deref().unwrap_or_default().as_bytes();
            let digits = name.as_bytes();
            digits.len() >= LEAST_DIGITS
                && id
                    .get(..digits.len())
                    .is_some_and(|start| start.eq_ignore_ascii_case(digits))
        };
        !name.is_empty() && (self.path == name || file_name == Some(name) || by_build_id())
    }
}

/// The access tag of what was collected, as of the moment of the sample; `None` where it is
/// not known. The default is user code of which nothing is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Subject {
    /// Real user id.
    pub uid: Option<u32>,
    /// Real group id.
    pub gid: Option<u32>,
    /// Effective user id.
    pub euid: Option<u32>,
    /// Effective group id.
    pub egid: Option<u32>,
    /// Saved user id.
    pub suid: Option<u32>,
    /// The process's memory could be dumped by its user.
    pub dumpable: Option<bool>,
    /// The thread had a permitted capability.
    pub capable: Option<bool>,
    /// Collected in kernel mode.
    pub kernel: bool,
}

impl Subject {
    /// Whether an ordinary user may see it: what ran was in user mode, altogether theirs, and
    /// kept nothing from them. What is not known is not theirs.
    pub fn is_of(&self, user: u32) -> bool {
        let user = Some(user);
        !self.kernel
            && self.uid == user
            && self.euid == user
            && self.suid == user
            && self.dumpable == Some(true)
            && self.capable == Some(false)
    }
}

/// A process between two execs.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Process {
    /// Process id (tgid).
    pub pid: u32,
    /// Start time, nanoseconds since boot.
    pub started: u64,
    /// Execs seen before this program.
    pub execs: u32,
    /// Name of the program as the kernel has it.
    pub comm: String,
}

impl Process {
    /// The process id of what stands for all processes of a command that lived for seconds: no
    /// process has it.
    pub const FOLDED: u32 = u32::MAX;

    /// Whether it stands for many that lived for seconds.
    pub fn is_folded(&self) -> bool {
        self.pid == Self::FOLDED
    }
}

/// Settings and extent of an epoch.
#[derive(Clone, Debug, PartialEq)]
pub struct Epoch {
    /// Start, nanoseconds of the Unix epoch.
    pub started: i64,
    /// End; `None` while it runs, and when the collector died, until another writes to the
    /// database or [`Directory::recover`](crate::Directory::recover) looks at it.
    pub ended: Option<i64>,
    /// Host name.
    pub host: String,
    /// Kernel release.
    pub kernel: String,
    /// What was profiled, as typed.
    pub command: String,
    /// `ring` or `bpf`.
    pub engine: String,
    /// `cycles`, `cpu-clock` or `timer`.
    pub clock: String,
    /// Unit of periods and weights: `cycles` or `ns`.
    pub unit: String,
    /// Cycles in one unit.
    pub cycles_per_unit: f64,
    /// Mean interval asked for, in units.
    pub period: u64,
    /// Instructions per window.
    pub window: u32,
    /// The remaining settings.
    pub settings: EpochSettings,
}

impl Epoch {
    /// Whether its collector died: it was ended by another one, as of its last flush, and what was
    /// collected after that is lost.
    pub fn is_cut_short(&self) -> bool {
        self.settings.cut_short
    }

    /// Whether it ran when it was copied: it goes on in what this is a copy of.
    pub fn is_copied(&self) -> bool {
        self.settings.copied
    }

    /// Whether this is a view for somebody who sees neither settings nor what was typed, nor any
    /// counter but `samples`.
    pub fn is_withheld(&self) -> bool {
        self.settings.withheld
    }
}
