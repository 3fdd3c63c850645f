/*
 * What the handler in the kernel and the crate share: settings, maps' keys and values, records,
 * counters. Plain C integers, every gap explicit.
 *
 * This file is the one source. The build makes Rust of the types that abi.c lists: a structure
 * becomes one of the same fields, whose size and offsets the compiler compares; an enumeration
 * becomes one, or constants if its name ends in _bits or _limits.
 */
#ifndef VCPI_SHARED_H
#define VCPI_SHARED_H

enum shared_limits {
	/* Frames at most. */
	MAX_FRAMES = 127,
	/* Of the code at the PC: where no way is followed, and where the memory is not to be read. */
	CODE_BYTES = 64,
	CODE_BYTES_DENIED = 16,
	/* Of the stack at most. */
	MAX_STACK_BYTES = 2048,
	/* Of the stack of a sample whose callers lack rows, at most: whole pages. */
	MAX_COPY_BYTES = 32768,
	/* Instructions of a way, and lines that it reads, at most. */
	MAX_FOLLOWED = 1024,
	MAX_LINES = 96,
	/* Words of a record's tail at most: user registers, frames, code, pieces (each with its head
	 * and up to 7 bytes of padding). */
	TAIL_WORDS = 1024,
	/* Ranges of physical memory that are RAM. */
	RAM_RANGES = 4,
	/* Registers in a record: rax rcx rdx rbx rsp rbp rsi rdi r8 to r15, rip, rflags, cs, ss. */
	REGISTER_WORDS = 20,
	REGISTER_RSP = 4,
	REGISTER_RBP = 5,
	REGISTER_IP = 16,
	REGISTER_FLAGS = 17,
	REGISTER_CS = 18,
	REGISTER_SS = 19,
	/* A piece's head has its address in so many bits, and above them its length less one. */
	HEAD_ADDRESS_BITS = 57,
	/* A piece that was another one at the second look: its number from this bit on, and below it
	 * which of its words were. */
	CHANGE_PIECE_SHIFT = 32,
	/* A bit of an address that a row is of: it was interrupted there, and did not return there. */
	ROW_OF_START_BIT = 63,
	/* A bit of a frame that is turned over if the frame pointer led to it. */
	GUESSED_FRAME_BIT = 63,
	/* The periods of breakpoints, of copies of stacks, and of what is in vector registers at the
	 * entry of a function, which no clock has. */
	BREAKPOINT_PERIOD = 1,
	STACK_COPY_PERIOD = 2,
	ENTRY_PERIOD = 3,
	/* The period of a second record from an end of a block has this bit, the number of the attempt
	 * from bit 1 on, and bit 0 at the exit. */
	STOP_BIT = 63,
	/* Operands of a block that are read at its exit. */
	BLOCK_OPERANDS = 4,
	/* Vector registers in which arguments are passed. */
	VECTOR_ARGUMENTS = 8,
};

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

#define ROW_OF_START (1ULL << ROW_OF_START_BIT)

/* row.kind */
enum row_kind {
	ROW_NONE,
	ROW_FRAME,
	ROW_OUTERMOST,
	ROW_BEHIND,
};

/* row.rbp */
enum row_rbp {
	RBP_SAME,
	RBP_SAVED,
	RBP_UNKNOWN,
};

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
enum way_end {
	WAY_GOES_ON,
	WAY_UNKNOWN,
	WAY_NO_CODE,
	WAY_FULL,
	WAY_END,
};

/* With it, in record.way_end. */
enum way_end_bits {
	/* The collector has not told of the process yet. */
	WAY_OF_UNKNOWN = 0x80,
};

/* Instructions of a way between two looks at what is left to do, since the kernel's verifier goes
 * through all of them. */
#define AT_ONCE 2
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
enum denial {
	DENY_MEMORY = 1,
	DENY_VALUES,
};

/* Of the map of targets, by tgid. */
enum target {
	TARGET_WAITS_FOR_EXEC = 1,
	TARGET_SAMPLED,
};

/* What the program that starts a timer returns, unless it is a negative error. */
enum timer_start {
	TIMER_PINNED,
	TIMER_NOT_PINNED,
};

/* settings.flags */
enum settings_bits {
	SELECT_TARGETS = 1,
	SELECT_CGROUP = 2,
	SELECT_EUID = 4,
	SELECT_COMM = 8,
	CAPTURE_NOT_DUMPABLE = 16,
	CAPTURE_PLACEMENT = 32,
};

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
	/* Of the stack of a sample whose callers lack rows, at most; 0: no more than stack_bytes. */
	u32 copy_bytes;
	u32 reserved;
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

/* record.frames_end */
enum frames_end {
	FRAMES_NONE,
	FRAMES_OUTERMOST,
	FRAMES_NO_ROW,
	FRAMES_UNKNOWN_REGISTER,
	FRAMES_UNREADABLE,
	FRAMES_MOST,
};

/* Causes and figures, each with its counter: the name in C, the one that is shown, what it counts.
 * Most samples add to those from FRAMES_MOST to FRAMES_BY_POINTER, which therefore lie side by
 * side. */
#define COUNTER_TABLE(COUNTER) \
	COUNTER(FRAMES_OUTERMOST, "walks_outermost", \
		"Walks over frames that came to the outermost one.") \
	COUNTER(FRAMES_NO_ROW, "walks_no_row", \
		"Walks that ended for want of an unwind row and of a frame pointer.") \
	COUNTER(FRAMES_UNKNOWN_REGISTER, "walks_unknown_register", \
		"Walks that ended at a row of a register that is not known.") \
	COUNTER(FRAMES_UNREADABLE, "walks_unreadable", \
		"Walks that ended at a stack that could not be read.") \
	COUNTER(FRAMES_MOST, "walks_most", \
		"Walks that ended with as many frames as were asked for.") \
	COUNTER(FRAMES_BY_ROW, "frames_by_row", \
		"Frames that an unwind row led to.") \
	COUNTER(SAMPLES, "samples", \
		"Samples that the handler took.") \
	COUNTER(WITHOUT_WAY, "ways_left_out", \
		"Samples of the share that goes without a way.") \
	COUNTER(NOT_TRIED, "ways_not_tried", \
		"Samples without a way, since nobody told of their process and of RAM.") \
	COUNTER(FRAMES_BY_POINTER, "frames_by_pointer", \
		"Frames that the frame pointer led to.") \
	COUNTER(OWN, "own_samples", \
		"Interrupts of the collector itself.") \
	COUNTER(FILTERED, "filtered_samples", \
		"Interrupts of threads that are not to be sampled.") \
	COUNTER(NO_SCRATCH, "no_scratch", \
		"Interrupts that found no memory to work in.") \
	COUNTER(BUFFER_FULL, "buffer_full", \
		"Samples that found the buffer full.") \
	COUNTER(BUFFER_BUSY, "buffer_busy", \
		"Samples that found the buffer with room, but held by another writer.") \
	COUNTER(CYCLES_LOST, "cycles_lost", \
		"Samples without room in the buffer whose cycles found no room either.") \
	COUNTER(NOT_DUMPABLE, "not_dumpable", \
		"Samples of processes whose memory may not be dumped.") \
	COUNTER(VALUES_DENIED, "values_denied", \
		"Samples of processes whose values are not to be captured.") \
	COUNTER(MEMORY_DENIED, "memory_denied", \
		"Samples of processes whose memory is not to be read.") \
	COUNTER(NO_USER_REGISTERS, "no_user_registers", \
		"Samples without user registers, which lay where nobody knows.") \
	COUNTER(STACKS_COPIED, "stacks_copied", \
		"Samples whose stack was copied, for want of unwind rows.") \
	COUNTER(STACK_BYTES_COPIED, "stack_bytes_copied", \
		"Bytes of these copies.") \
	COUNTER(STACKS_WITHOUT_ROOM, "stacks_without_room", \
		"Samples whose stack was to be copied and found no room in the buffer.") \
	COUNTER(NO_CODE, "no_code", \
		"Samples whose code at the PC could not be read.") \
	COUNTER(SHORT_CODE, "short_code", \
		"Samples of whose code at the PC a part could be read.") \
	COUNTER(TARGETS_FULL, "targets_full", \
		"Children of sampled processes for which there was no room.") \
	COUNTER(TIMER_LATE, "timer_late", \
		"Samples of a timer that came too late to find a PC.") \
	COUNTER(TIMER_ORIGIN_UNKNOWN, "timer_origin_unknown", \
		"Samples of a timer that could not tell what it interrupted.") \
	COUNTER(TIMER_IN_THREAD, "timer_in_thread", \
		"Timers that ran out in a thread of the kernel: no sample.") \
	COUNTER(TIMER_MOVED, "timer_moved", \
		"Timers that ran out on another processor than theirs: no sample.") \
	COUNTER(TIMER_BEHIND, "timer_behind", \
		"Intervals of a timer that passed while another one ran: no samples.") \
	COUNTER(TIMER_STOPPED, "timer_stopped", \
		"Timers that could not be started again: no more samples.") \
	COUNTER(SECOND_LOOKS, "second_looks", \
		"Samples whose memory was read a second time.") \
	COUNTER(PIECES_CHANGED, "pieces_changed", \
		"Pieces of memory that were others at the second look.") \
	COUNTER(CODE_CHANGED, "code_changed", \
		"Samples whose code was another one at the second look.") \
	COUNTER(STACK_CHANGED, "stack_changed", \
		"Samples whose stack was another one at the second look.") \
	COUNTER(WAYS, "ways", \
		"Ways that were followed as far as was asked for.") \
	COUNTER(WAYS_UNKNOWN, "ways_unknown", \
		"Ways that ended where it is not known where they go.") \
	COUNTER(WAYS_NO_CODE, "ways_without_code", \
		"Ways that ended where no code could be read.") \
	COUNTER(WAYS_FULL, "ways_full", \
		"Ways that ended for want of room.") \
	COUNTER(WAYS_END, "ways_ended", \
		"Ways that ended at an instruction that is not followed.") \
	COUNTER(FOLLOWED, "followed", \
		"Instructions that ways followed.") \
	COUNTER(DECODED, "decoded", \
		"Instructions that ways decoded anew.") \
	COUNTER(GUESSES, "guesses", \
		"Branches that were followed although they depend on what is not known.") \
	COUNTER(LINES, "lines", \
		"Lines of memory that ways read.") \
	COUNTER(HANDLER_NS, "handler_ns", \
		"Nanoseconds from the first look at the clock to the end of each sample.") \
	COUNTER(CROWDED, "ways_without_room", \
		"Samples without a way, since half of the buffer was full.") \
	COUNTER(VECTORS_COMPLETE, "vectors_complete", \
		"Chosen samples whose ways lack no vector register.") \
	COUNTER(VECTORS_TOO_OFTEN, "vectors_too_often", \
		"Chosen samples that came too soon behind the last wake-up of the waker.") \
	COUNTER(VECTORS_AWAITED, "vectors_awaited", \
		"Samples for whose vector registers the waker was woken.") \
	COUNTER(VECTORS_NOT_WOKEN, "vectors_not_woken", \
		"Chosen samples for which the waker's ring had no room.") \
	COUNTER(VECTORS_NO_SWITCH, "vectors_no_switch", \
		"Awaited samples: the waker did not run before the next wake-up.") \
	COUNTER(VECTORS_OTHER_THREAD, "vectors_other_thread", \
		"Awaited samples: the waker took the place of another thread.") \
	COUNTER(VECTORS_IN_KERNEL, "vectors_in_kernel", \
		"Awaited samples: the thread slept, or was preempted in the kernel.") \
	COUNTER(VECTORS_RAN_ON, "vectors_ran_on", \
		"Awaited samples: the thread's registers were those of the sample no longer.") \
	COUNTER(VECTORS_NO_INTERRUPT, "vectors_no_interrupt", \
		"Awaited samples: no interrupt had stopped the thread.") \
	COUNTER(VECTORS_NO_RETURN, "vectors_no_return", \
		"Awaited samples: the thread did not come back here before the next wake-up.") \
	COUNTER(VECTORS_SWITCHED, "vectors_switched", \
		"Awaited samples: the thread was switched away once more.") \
	COUNTER(VECTORS_ELSEWHERE, "vectors_elsewhere", \
		"Awaited samples: the thread goes on elsewhere, in a signal's handler.") \
	COUNTER(VECTORS_UNREADABLE, "vectors_unreadable", \
		"Awaited samples: the saved vector registers could not be read.") \
	COUNTER(VECTORS_DENIED, "vectors_denied", \
		"Awaited samples whose memory or values are not to be captured any more.") \
	COUNTER(VECTORS_NO_WAY, "vectors_no_way", \
		"Awaited samples: half of the buffer was full, or the pages could not be checked.") \
	COUNTER(VECTORS_NO_ROOM, "vectors_no_room", \
		"Awaited samples whose second record found no room.") \
	COUNTER(VECTORS_BROUGHT, "vectors_brought", \
		"Second records: the vector registers of so many samples were brought.")

#define COUNTER_NUMBER(of, name, meaning) COUNT_##of,
enum handler_counter {
	COUNTER_TABLE(COUNTER_NUMBER)
};

/* How many there are. */
#define COUNTER_ONE(of, name, meaning) +1
enum counter_limits {
	COUNTERS = COUNTER_TABLE(COUNTER_ONE),
};

/* The handler counts ends of walks and of ways by their numbers. */
_Static_assert(COUNT_FRAMES_MOST - COUNT_FRAMES_OUTERMOST == FRAMES_MOST - FRAMES_OUTERMOST,
	       "ends of walks");
_Static_assert(COUNT_WAYS_END - COUNT_WAYS == WAY_END - WAY_GOES_ON, "ends of ways");

struct counters {
	u64 of[COUNTERS];
};

/* The head of a copy of a stack, which lies in the buffer before the sample that it is of: `bytes`
 * from the stack pointer on follow. */
struct stack_copy {
	/* Of the sample. */
	u64 time;
	/* STACK_COPY_PERIOD, where a sample has its period. */
	u64 period;
	u32 tid;
	u32 bytes;
};

/* record.context */
enum context {
	CONTEXT_USER,
	CONTEXT_KERNEL,
	CONTEXT_SOFTIRQ,
	CONTEXT_HARDIRQ,
};

/* record.outcome */
enum outcome {
	/* No way was followed: code at the PC, and the stack. */
	OUTCOME_NOT_TRIED,
	OUTCOME_FOLLOWED,
	/* One of the samples that go without a way. */
	OUTCOME_WITHOUT_WAY,
	OUTCOME_MEMORY_DENIED,
	OUTCOME_VALUES_DENIED,
	OUTCOME_NOT_DUMPABLE,
	/* Half of the buffer was full: as one that goes without a way. */
	OUTCOME_CROWDED,
};

/* record.flags */
enum record_bits {
	RECORD_REGISTERS = 1,
	RECORD_USER_REGISTERS = 2,
	RECORD_USER_IS_32 = 4,
	RECORD_FS_BASE = 8,
	RECORD_GS_BASE = 16,
	RECORD_SYSTEM_CALL = 32,
	RECORD_DUMPABLE = 64,
	RECORD_PRIVILEGED = 128,
	RECORD_KERNEL_THREAD = 256,
	RECORD_SIGNALS_PENDING = 512,
	/* What follows from where the task is among others is known: its groups, its scheduling. */
	RECORD_PLACEMENT = 1024,
	/* All pieces, the code and the stack were read a second time, after the last of them. */
	RECORD_SECOND_LOOK = 2048,
	/* The code, or the stack, was another one then. */
	RECORD_CODE_CHANGES = 4096,
	RECORD_STACK_CHANGES = 8192,
	/* The sample is one of those that tell of vector registers: and lacks none, or a second record
	 * will bring them. */
	RECORD_VECTORS_COMPLETE = 16384,
	RECORD_VECTORS_AWAITED = 32768,
	/* It is the second record, its period being the time of the first, or that of an entry of a
	 * function, or saying which end of which block it is of. Of an entry it has the lower words of
	 * vector arguments only. */
	RECORD_SECOND = RECORD_VECTORS_COMPLETE | RECORD_VECTORS_AWAITED,
};

/* record.handlers */
enum handlers_bits {
	HANDLERS_KNOWN = 1,
	/* The program has a handler for SIGSEGV or SIGBUS, or is traced. */
	HANDLERS_ACCESS = 2,
	/* The same of SIGFPE. */
	HANDLERS_FLOAT = 4,
	/* It has protection keys. */
	HANDLERS_KEYS = 8,
};

/* A sample; `tail_words` words follow: the interrupted registers if RECORD_REGISTERS, the user
 * registers if RECORD_USER_REGISTERS, the frames, the pieces, the code, the stack, the changes, the
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
	u32 way_low, system_call;
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
	/* Words of vector registers; 0 without RECORD_SECOND. */
	u32 vector_words;
	/* Bytes of the stack in the copy that lies before this; 0: there is none. */
	u32 copied;
};

/* What is read where a block ends: memory that it stores to. */
struct block_operand {
	/* Its displacement, and from the entry on its address. */
	u64 address;
	/* What is there at the exit. */
	u64 held;
	/* Numbers of registers, or more than there are; and by what the index is multiplied. */
	u8 base, index, scale;
	/* 1 to 8; 0: there is no such operand. */
	u8 bytes;
	/* It was read. */
	u32 is_read;
};

/* A thread that has breakpoints. */
struct trapped {
	/* Signals that were delivered to it since the entry. */
	u64 signals;
	/* What the reader knows this attempt at a pair by. */
	u32 attempt;
	/* Its vector registers are to be brought at both ends. */
	u32 wants_vectors;
	/* It has come by the entry, and by the exit behind that. */
	u32 entered, left;
	struct block_operand operands[BLOCK_OPERANDS];
};

/* A thread that brings vector registers, of each CPU. */
struct waker {
	/* The thread; 0: there is none. */
	u32 tid;
	/* Of 2^32 samples of user code so many less one are chosen; 0: none is. */
	u32 share;
	/* Nanoseconds from one wake to the next, at least. */
	u64 pause;
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

/* A page of a process. */
struct raised_page {
	u64 address;
	u32 tgid;
	u32 reserved;
};

#ifdef __cplusplus
#error "plain C"
#endif

#endif
