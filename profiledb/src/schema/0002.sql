-- The profile database: the whole schema, and where it is explained.
--
-- Ids are local to the file. Times are nanoseconds of the Unix epoch. A 64-bit
-- machine word (value, address) is stored as the signed integer with the same
-- bits, which SQLite prints as such: printf('0x%x', value) shows it as one knows it.
--
-- What a flush writes covers the time since the flush before; nothing is ever
-- updated but the end of an epoch. Adding up rows of several flushes is right
-- for every counter, and for the estimates of each value in hotlists (see `tuple`).
-- What later versions added is in the files behind this one.

-- One uninterrupted collection with one set of settings.
CREATE TABLE epoch (
    id              INTEGER PRIMARY KEY,
    started         INTEGER NOT NULL,
    ended           INTEGER,             -- NULL: not closed (running, or just died)
    host            TEXT NOT NULL,
    kernel          TEXT NOT NULL,       -- release
    command         TEXT NOT NULL,       -- what was profiled, as typed
    engine          TEXT NOT NULL,       -- 'ring' | 'bpf'
    clock           TEXT NOT NULL,       -- 'cycles' | 'cpu-clock' | 'timer'
    unit            TEXT NOT NULL,       -- of periods and weights: 'cycles' | 'ns'
    cycles_per_unit REAL NOT NULL,       -- 1.0 for cycles; nominal GHz for ns
    period          INTEGER NOT NULL,    -- mean interval asked for, in units
    window          INTEGER NOT NULL,    -- instructions per window
    settings        TEXT NOT NULL        -- JSON: the rest (seed, capture, context, ...);
                                         -- "cut_short":true where the collector died, and
                                         -- another ended the epoch as of its last flush
) STRICT;

-- One transaction of the collector; the grain of --since/--until.
CREATE TABLE flush (
    id       INTEGER PRIMARY KEY,
    epoch    INTEGER NOT NULL REFERENCES epoch(id),
    started  INTEGER NOT NULL,
    ended    INTEGER NOT NULL
) STRICT;

-- What code was mapped from. Addresses of its PCs are ELF virtual addresses
-- (kind 'file' and 'vdso'), kernel addresses relative to _text of that boot
-- (kind 'kernel'), or process addresses (kind 'anon': generated code and the like).
CREATE TABLE image (
    id       INTEGER PRIMARY KEY,
    kind     TEXT NOT NULL CHECK (kind IN ('file', 'vdso', 'kernel', 'anon')),
    path     TEXT NOT NULL,
    build_id TEXT,                       -- lower-case hex; NULL where there is none
    identity TEXT NOT NULL,              -- build id, else 'content:' and a content id, else
                                         -- 'dev:inode', else path; ':i386' behind it: code that
                                         -- ran in 32-bit mode, whose PCs are apart
    UNIQUE (kind, identity, path)
) STRICT;

-- The access tag of what was collected, as of the moment of the sample. NULL: not
-- known as of that moment. `suid`, `dumpable` and `capable` are known only where they
-- were read in the interrupt; the others may have been read up to a second off.
-- Somebody who is not privileged may see what was collected in user mode while `uid`,
-- `euid` and `suid` were theirs, `dumpable` was 1 and `capable` 0; nobody but the
-- privileged may see the rest.
CREATE TABLE subject (
    id       INTEGER PRIMARY KEY,
    uid      INTEGER, gid  INTEGER,      -- real
    euid     INTEGER, egid INTEGER,      -- effective
    suid     INTEGER,                    -- saved user id
    dumpable INTEGER,                    -- 1: its user might dump its memory
    capable  INTEGER,                    -- 1: it had a permitted capability
    kernel   INTEGER NOT NULL            -- 1: collected in kernel mode
) STRICT;

-- A process between two execs.
CREATE TABLE process (
    id      INTEGER PRIMARY KEY,
    epoch   INTEGER NOT NULL REFERENCES epoch(id),
    pid     INTEGER NOT NULL,
    started INTEGER NOT NULL,            -- ns since boot: tells pids that came back apart
    execs   INTEGER NOT NULL,            -- execs seen before this program
    comm    TEXT NOT NULL,
    UNIQUE (epoch, pid, started, execs)
) STRICT;

-- An instruction. `bytes` are its encoding, where it was read.
CREATE TABLE pc (
    id      INTEGER PRIMARY KEY,
    image   INTEGER NOT NULL REFERENCES image(id),
    address INTEGER NOT NULL,
    bytes   BLOB,
    UNIQUE (image, address)
) STRICT;

-- Function names that no file may tell afterwards: the kernel's of that boot, the vdso's, those of
-- code that was made at run time, and those of images whose file was not at its path when they were
-- written (deleted ones, those of containers), or had been made only lately.
CREATE TABLE symbol (
    image   INTEGER NOT NULL REFERENCES image(id),
    address INTEGER NOT NULL,
    size    INTEGER NOT NULL,            -- 0: not known
    name    TEXT NOT NULL,
    PRIMARY KEY (image, address)
) STRICT, WITHOUT ROWID;

-- Interrupts per PC and caller. `weight` is the sum of the sampled intervals,
-- in the epoch's unit; caller is the call site of the interrupted function.
CREATE TABLE cycles (
    flush   INTEGER NOT NULL REFERENCES flush(id),
    process INTEGER NOT NULL REFERENCES process(id),
    subject INTEGER NOT NULL REFERENCES subject(id),
    pc      INTEGER NOT NULL REFERENCES pc(id),
    caller  INTEGER REFERENCES pc(id),   -- NULL: not known
    samples INTEGER NOT NULL,
    weight  INTEGER NOT NULL
) STRICT;

-- One value profile: the hotlist of one parameter at one PC.
-- parameter: a register as written ('eax', 'xmm0.f64[0]'; of a whole vector
-- register each 64 bits, 'ymm0.u64[3]'), 'taken', 'ea', 'base' (the base
-- register of an address), 'mem' (stored), 'load', 'old' (overwritten; of wide
-- values each 64 bits, 'mem.u64[1]'), 'target', 'ret', 'vret' (xmm0), 'op0'..
-- for operands, and 'arg0'..'arg5' (rdi rsi rdx rcx r8 r9 at a call), 'arg.rax' and
-- the like (of other conventions), 'varg0'..'varg7' (xmm0 to xmm7), whose pc is the
-- callee's entry and whose caller is the call site.
CREATE TABLE hotlist (
    id        INTEGER PRIMARY KEY,
    flush     INTEGER NOT NULL REFERENCES flush(id),
    process   INTEGER NOT NULL REFERENCES process(id),
    subject   INTEGER NOT NULL REFERENCES subject(id),
    pc        INTEGER NOT NULL REFERENCES pc(id),
    caller    INTEGER REFERENCES pc(id), -- NULL: not keyed by caller, or not known
    parameter TEXT NOT NULL,
    reached   INTEGER NOT NULL,          -- times a window came by
    unknown   INTEGER NOT NULL,          -- of those, without a known value
    windows   INTEGER NOT NULL,          -- distinct windows among the known
    capacity  INTEGER NOT NULL,          -- N
    by_weight INTEGER NOT NULL,          -- 0: the methods switch; 1: counting, eviction by weight
    p         REAL NOT NULL,             -- probability of entering the list; threshold = 1/p
    concise   INTEGER NOT NULL,          -- 1: the list is in concise mode
    sat_count INTEGER NOT NULL
) STRICT;

-- The tuples of a hotlist, highest estimate first. The estimate of the value's
-- occurrences is counted / p + certain (derivation: the hotlist crate).
CREATE TABLE tuple (
    hotlist INTEGER NOT NULL REFERENCES hotlist(id),
    rank    INTEGER NOT NULL,
    value   INTEGER NOT NULL,
    counted INTEGER NOT NULL,            -- events counted with probability p
    certain INTEGER NOT NULL,            -- events counted surely
    first   INTEGER NOT NULL,            -- estimated time of its first event
    PRIMARY KEY (hotlist, rank)
) STRICT, WITHOUT ROWID;

-- Directions of conditional branches in windows.
CREATE TABLE branch (
    flush     INTEGER NOT NULL REFERENCES flush(id),
    process   INTEGER NOT NULL REFERENCES process(id),
    subject   INTEGER NOT NULL REFERENCES subject(id),
    pc        INTEGER NOT NULL REFERENCES pc(id),
    taken     INTEGER NOT NULL,
    not_taken INTEGER NOT NULL,
    unknown   INTEGER NOT NULL           -- the direction could not be told
) STRICT;

-- Calls and indirect jumps that windows ran into.
CREATE TABLE call (
    flush   INTEGER NOT NULL REFERENCES flush(id),
    process INTEGER NOT NULL REFERENCES process(id),
    subject INTEGER NOT NULL REFERENCES subject(id),
    site    INTEGER NOT NULL REFERENCES pc(id),
    callee  INTEGER REFERENCES pc(id),   -- entry or target; NULL: it could not be told
    calls   INTEGER NOT NULL
) STRICT;

-- Everything that is counted but not per PC. kind: 'run' (samples, windows,
-- value_events, ...), 'lost', 'stop' (why windows ended), 'coverage', 'interval',
-- 'throttle', 'overhead', 'image' (files that changed under the collector, ...),
-- 'handler' (what the engine bpf counts in the kernel), 'plan' (plans made for it).
CREATE TABLE counter (
    flush INTEGER NOT NULL REFERENCES flush(id),
    kind  TEXT NOT NULL,
    name  TEXT NOT NULL,
    value INTEGER NOT NULL,
    PRIMARY KEY (flush, kind, name)
) STRICT, WITHOUT ROWID;
