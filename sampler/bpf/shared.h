/*
 * What the handler in the kernel and the crate share: settings, maps' keys and values, records,
 * counters. Plain C integers, every gap explicit; src/bpf/layout.rs mirrors it, and both sides pin
 * sizes and offsets.
 */
#ifndef VCPI_SHARED_H
#define VCPI_SHARED_H

/* Frames at most. */
#define MAX_FRAMES 64
/* Of the code at the PC: where no way is followed, and where the memory is not to be read. */
#define CODE_BYTES 64
#define CODE_BYTES_DENIED 16
/* Of the stack at most. */
#define MAX_STACK_BYTES 2048

/* Words of a record's tail at most: user registers, frames, code, pieces (each with its head and up
 * to 7 bytes of padding). */
#define TAIL_WORDS 1024

/* Registers in a record: rax rcx rdx rbx rsp rbp rsi rdi r8 to r15, rip, rflags, cs, ss. */
#define REGISTER_WORDS 20
#define REGISTER_RSP 4
#define REGISTER_RBP 5
#define REGISTER_IP 16
#define REGISTER_FLAGS 17
#define REGISTER_CS 18
#define REGISTER_SS 19

struct process_key {
	u32 tgid;
	u32 exec_count;
	u64 start_time;
};

/* A PC, or a return address, of a process. */
struct place_key {
	struct process_key process;
	u64 address;
};

/* A bit of an address that a row is of: it was interrupted there, and did not return there. */
#define ROW_OF_START (1ULL << 63)

/* Row.kind */
#define ROW_NONE 0
#define ROW_FRAME 1
#define ROW_OUTERMOST 2
#define ROW_BEHIND 3
/* Row.rbp */
#define RBP_SAME 0
#define RBP_SAVED 1
#define RBP_UNKNOWN 2

struct row {
	u8 kind;
	u8 cfa_register;
	u8 rbp;
	/* With ROW_BEHIND: from what memory holds at register and offset to the CFA, in words. */
	s8 cfa_words;
	s32 cfa_offset;
	s32 rbp_offset;
};

/* Of the map of rows. */
struct row_value {
	/* The key again: the kernel may give the place to another key while it is being read. */
	struct place_key key;
	struct row row;
	u32 reserved;
};

/* way.flags_size, else the bytes of the operands that were compared. */
#define FLAGS_UNKNOWN 0
#define FLAGS_OF_REGISTER 16

/* way.end, and record.way_end with OUTCOME_FOLLOWED: why a way ended. */
#define WAY_GOES_ON 0
#define WAY_UNKNOWN 1
#define WAY_NO_CODE 2
#define WAY_FULL 3
#define WAY_END 4

/* With it, in record.way_end: the collector has not told of the process yet. */
#define WAY_OF_UNKNOWN 0x80

/* Instructions of a way, and lines that it reads, at most. */
#define MAX_FOLLOWED 1024
/* Of them between two looks at what is left to do, since the kernel's verifier goes through all of them. */
#define AT_ONCE 2
#define MAX_LINES 96
/* A way that fails so often to read is a wrong one. */
#define MAX_FAILURES 4
/* Branches that depend on what is not known, and are followed all the same. */
#define MAX_GUESSES 16
/* Slots, powers of two. */
#define LINES 128
#define STORED 128
#define PAGES 16
/* Decoded instructions, of each line of code beside one another, and indirect branches that are
 * remembered: powers of two. */
#define INSNS 131072
#define INSNS_OF_LINE 64
#define INSN_BYTES 32
#define FORKS 4096

/* Where an indirect branch led to. */
struct fork {
	/* Behind the branch. */
	u64 pc;
	u64 target;
};

static inline u64 mixed_word(u64 word)
{
	word = (word ^ word >> 29) * 0xd6e8feb86659fd93ULL;
	return word ^ word >> 32;
}

/* Of the map of denials. */
#define DENY_MEMORY 1
#define DENY_VALUES 2

/* Of the map of targets, by tgid. */
#define TARGET_WAITS_FOR_EXEC 1
#define TARGET_SAMPLED 2

/* settings.flags */
#define SELECT_TARGETS 1
#define SELECT_CGROUP 2
#define SELECT_EUID 4
#define SELECT_COMM 8
#define CAPTURE_NOT_DUMPABLE 16
#define CAPTURE_PLACEMENT 32

/* Ranges of physical memory that are RAM. */
#define RAM_RANGES 4

struct range {
	u64 start;
	/* Behind the last byte. */
	u64 end;
};

struct settings {
	u64 flags;
	u64 cgroup;
	u64 buffer_bytes;
	u32 own_tgid;
	u32 euid;
	u32 wake_up_samples;
	u32 frames;
	char comm[16];
	u32 stack_bytes;
	/* Of 2^32 samples so many less one have their ways followed. */
	u32 share;
	/* Instructions of a way at most. */
	u32 most_followed;
	/* Of page tables. */
	u32 levels;
	/* The kernel's image. */
	struct range image;
	/* Where the kernel maps all RAM, or where it keeps that address; 0: not known. */
	u64 direct_map;
	u64 direct_map_at;
	struct range ram[RAM_RANGES];
	/* For the clock timer: the kernel's code, and in it the entries of interrupts. */
	struct range text;
	struct range entries;
};

/* Causes, each with its counter; names are in src/bpf/layout.rs. */
enum counter {
	COUNT_FRAMES_OUTERMOST,
	COUNT_FRAMES_NO_ROW,
	COUNT_FRAMES_UNKNOWN_REGISTER,
	COUNT_FRAMES_UNREADABLE,
	/* Most samples add to these, which therefore lie side by side. */
	COUNT_FRAMES_MOST,
	COUNT_FRAMES_BY_ROW,
	COUNT_SAMPLES,
	COUNT_WITHOUT_WAY,
	COUNT_NOT_TRIED,
	COUNT_FRAMES_BY_POINTER,
	COUNT_OWN,
	COUNT_FILTERED,
	COUNT_NO_SCRATCH,
	COUNT_BUFFER_FULL,
	COUNT_BUFFER_BUSY,
	COUNT_CYCLES_LOST,
	COUNT_NOT_DUMPABLE,
	COUNT_VALUES_DENIED,
	COUNT_MEMORY_DENIED,
	COUNT_NO_USER_REGISTERS,
	COUNT_NO_CODE,
	COUNT_SHORT_CODE,
	COUNT_TARGETS_FULL,
	COUNT_TIMER_LATE,
	COUNT_TIMER_ORIGIN_UNKNOWN,
	COUNT_TIMER_IN_THREAD,
	COUNT_TIMER_MOVED,
	COUNT_TIMER_BEHIND,
	COUNT_TIMER_STOPPED,
	COUNT_SECOND_LOOKS,
	COUNT_PIECES_CHANGED,
	COUNT_CODE_CHANGED,
	COUNT_STACK_CHANGED,
	COUNT_WAYS,
	COUNT_WAYS_UNKNOWN,
	COUNT_WAYS_NO_CODE,
	COUNT_WAYS_FULL,
	COUNT_WAYS_END,
	COUNT_FOLLOWED,
	COUNT_DECODED,
	COUNT_GUESSES,
	COUNT_LINES,
	/* Nanoseconds from the first look at the clock to the end of each sample. */
	COUNT_HANDLER_NS,
	COUNT_CROWDED,
	/* Of the vector registers of samples: nothing lacked; the waker was woken too lately, was
	 * woken, or could not be. */
	COUNT_VECTORS_COMPLETE,
	COUNT_VECTORS_TOO_OFTEN,
	COUNT_VECTORS_AWAITED,
	COUNT_VECTORS_NOT_WOKEN,
	/* The waker did not run before the next was asked for; it took another thread's place, or
	 * that of one in the kernel, that had run on, or that no interrupt had stopped. */
	COUNT_VECTORS_NO_SWITCH,
	COUNT_VECTORS_OTHER_THREAD,
	COUNT_VECTORS_IN_KERNEL,
	COUNT_VECTORS_RAN_ON,
	COUNT_VECTORS_NO_INTERRUPT,
	/* The thread did not come back here before the next was asked for; it was switched away once
	 * more, or goes on elsewhere; its registers could not be read; its values are denied; its way
	 * could not be followed; there was no room; or they were brought. */
	COUNT_VECTORS_NO_RETURN,
	COUNT_VECTORS_SWITCHED,
	COUNT_VECTORS_ELSEWHERE,
	COUNT_VECTORS_UNREADABLE,
	COUNT_VECTORS_DENIED,
	COUNT_VECTORS_NO_WAY,
	COUNT_VECTORS_NO_ROOM,
	COUNT_VECTORS_BROUGHT,
	COUNTERS,
};

struct counters {
	u64 of[COUNTERS];
};

/* record.context */
#define CONTEXT_USER 0
#define CONTEXT_KERNEL 1
#define CONTEXT_SOFTIRQ 2
#define CONTEXT_HARDIRQ 3

/* record.outcome */
/* No way was followed: code at the PC, and the stack. */
#define OUTCOME_NOT_TRIED 0
#define OUTCOME_FOLLOWED 1
/* One of the samples that go without a way. */
#define OUTCOME_WITHOUT_WAY 2
#define OUTCOME_MEMORY_DENIED 3
#define OUTCOME_VALUES_DENIED 4
#define OUTCOME_NOT_DUMPABLE 5
/* Half of the buffer was full: as one that goes without a way. */
#define OUTCOME_CROWDED 6

/* record.frames_end */
#define FRAMES_NONE 0
#define FRAMES_OUTERMOST 1
#define FRAMES_NO_ROW 2
#define FRAMES_UNKNOWN_REGISTER 3
#define FRAMES_UNREADABLE 4
#define FRAMES_MOST 5

/* record.flags */
#define RECORD_REGISTERS 1
#define RECORD_USER_REGISTERS 2
#define RECORD_USER_IS_32 4
#define RECORD_FS_BASE 8
#define RECORD_GS_BASE 16
#define RECORD_SYSTEM_CALL 32
#define RECORD_DUMPABLE 64
#define RECORD_PRIVILEGED 128
#define RECORD_KERNEL_THREAD 256
#define RECORD_SIGNALS_PENDING 512
/* What follows from where the task is among others is known: its groups, its scheduling. */
#define RECORD_PLACEMENT 1024
/* All pieces, the code and the stack were read a second time, after the last of them. */
#define RECORD_SECOND_LOOK 2048
/* The code, or the stack, was another one then. */
#define RECORD_CODE_CHANGES 4096
#define RECORD_STACK_CHANGES 8192
/* The sample is one of those that tell of vector registers: and lacks none, or a second record will
 * bring them. */
#define RECORD_VECTORS_COMPLETE 16384
#define RECORD_VECTORS_AWAITED 32768
/* It is the second record, its period being the time of the first. */
#define RECORD_SECOND (RECORD_VECTORS_COMPLETE | RECORD_VECTORS_AWAITED)

/* record.handlers */
#define HANDLERS_KNOWN 1
/* The program has a handler for SIGSEGV or SIGBUS, or is traced. */
#define HANDLERS_ACCESS 2
/* The same of SIGFPE. */
#define HANDLERS_FLOAT 4
/* It has protection keys. */
#define HANDLERS_KEYS 8

/* A piece that was another one at the second look: its number, and which of its words were. */
#define CHANGE_PIECE_SHIFT 32

/* A sample; `tail_words` words follow: the interrupted registers if RECORD_REGISTERS, the user
 * registers if RECORD_USER_REGISTERS, the frames, the pieces, the code, the stack, the changes, and the
 * vector registers if RECORD_SECOND. */
struct record {
	u64 time;
	u64 period;
	u64 ip;
	u64 start_time;
	u64 thread_start_time;
	u64 cgroup;
	u64 fs_base;
	u64 gs_base;
	char comm[16];
	u32 tgid, tid;
	u32 exec_count, ppid;
	u32 pgid, sid;
	u32 tty, uid;
	u32 euid, suid;
	u32 gid, egid;
	/* The lower half of where the way would have gone on. */
	u32 way_low;
	union {
		u32 system_call;
		/* With RECORD_SECOND: bytes of vector registers. */
		u32 vector_bytes;
	};
	u16 flags, tail_words;
	u8 context, policy, priority, outcome;
	u8 way_end, frames, frames_end, code_bytes;
	/* Samples that found no room since the last one that did. */
	u32 missed;
	u16 stack_bytes;
	u8 changes;
	u8 handlers;
	/* The upper half of where the way would have gone on. */
	u32 way_high;
};

/* Of the maps of cycles that found no room. */
struct cycles_key {
	struct process_key process;
	u64 ip;
	u32 euid;
	u32 context;
};

struct cycles_value {
	u64 samples;
	u64 weight;
};

#ifdef __cplusplus
#error "plain C"
#endif

_Static_assert(sizeof(struct place_key) == 24, "place_key");
_Static_assert(sizeof(struct row) == 12, "row");
_Static_assert(sizeof(struct row_value) == 40, "row_value");
_Static_assert(sizeof(struct record) == 160, "record");
_Static_assert(sizeof(struct settings) == 200, "settings");
_Static_assert(sizeof(struct fork) == 16, "fork");
_Static_assert(sizeof(struct cycles_key) == 32, "cycles_key");

#endif
