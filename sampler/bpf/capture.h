/*
 * What one sample is made in, what it may read, and the walk over frames: plain C over a struct
 * work, for the handler in the kernel as for tests without privilege. Whoever includes this
 * provides
 *
 *   long read_user(void *to, u32 size, u64 address)    0, or negative if not all could be read
 *   long read_kernel(void *to, u32 size, u64 address)  likewise; asked for allowed ranges only
 *   int find_row(struct work *work, u64 address, struct row *row)    whether there is one
 *
 * and defines SUBPROGRAM as what goes before a function that the kernel's verifier checks apart
 * from its callers. It knows nothing there of what they pass, so pointers are checked anew.
 */
#ifndef VCPI_CAPTURE_H
#define VCPI_CAPTURE_H

/* Bytes of one piece at most. */
#define MAX_PIECE_BYTES 128

/* Bytes of saved vector registers at most. */
#define MOST_STATE 2688

/* Room behind the tail's last word for the piece that would no longer fit, and for the stack and
 * the vector registers that are not copied where they might not. */
#define TAIL_SPARE (MOST_STATE / 8 + 8)

/* Words of the tail that are left for what comes behind the pieces. */
#define CHANGES_SPARE 160

/* Bases of segments that are known: bits. */
#define KNOWN_FS_BASE 1
#define KNOWN_GS_BASE 2

/* How far frames are believed to lie apart, in bytes: by a row, and by the frame pointer alone. */
#define FARTHEST_BY_ROW (1ULL << 30)
#define FARTHEST_BY_POINTER (1ULL << 18)

/* Calls are at most eight deep in the kernel's machine. */
#define INLINE inline __attribute__((always_inline))

/* What a way through the kernel's code may read: the image, the current stack, RAM. */
#define ALLOWED_RANGES (2 + RAM_RANGES)

/* A line of memory that a way has read: where its words are in the tail; 0: it was not to be had. */
struct line {
	u64 line;
	u32 serial, at;
};

/* Whether a page of an unknown process is RAM. */
struct page {
	u64 page;
	u32 serial, is_ram;
};

/* What a way has stored to a word of memory. */
struct stored {
	u64 word, value;
	u32 serial;
	/* Which of its bytes were stored, and which of these are known: a bit each. */
	u8 bytes, known;
	u16 reserved;
};

/* An instruction in the making. It lies in memory that the verifier knows nothing of, so that it need
 * not tell apart what it may be. */
struct decoding {
	u32 at;
	u8 rex, prefix, opcode, map, vex, mod, digit, evex_byte;
	u32 reserved;
};

/* The operands of a vector's instruction, and what comes of them; which of their words are known, a
 * bit each. */
struct lanes {
	u64 a[8], b[8], made[8];
	u32 a_known, b_known, made_known;
	/* Words that are joined, those that the second operand has, and the register that the result
	 * goes to. */
	u32 words, read, to, element;
	/* The first word of a register that is stored; whether it is (1), or what is not known (2). */
	u32 first, stores;
	/* Of the operand in memory, if that is known. */
	u64 address;
	u32 placed, unused;
	/* Bytes that the second operand has where they are less than a word, and whether a general
	 * register holds them; words that are not read, since a mask leaves them out: a bit each. */
	u32 low, general, left_out;
	/* One more than the register (0: none) of which one word is known only as far as a mask lets
	 * bytes through; the same of the result. */
	u32 kept_of, kept_next, kept_word;
	u64 kept;
	/* The result is to be written; it is of the lowest element only. */
	u32 writes, scalar;
	/* What is done, with how many bits, and whether the result hangs on both operands. */
	u32 action, how, more;
	u64 count;
	/* Words in a row, of which a part is taken. */
	u64 row[6];
	u32 row_known;
	/* Floating point numbers that are joined; the result, or what it is made of before it is
	 * rounded: its sign, the exponent of bit 62, and the bits. */
	u64 x, y, z, result, sign, exponent, mantissa;
	u32 rounds, result_known;
};

/* The way that a thread goes, as far as it is followed. */
struct way {
	/* The general registers, and what way.h names. */
	u64 words[32];
	/* Which of them are known: a bit each. */
	u32 known;
	/* Of the sample: what bears another number is of an earlier one. */
	u32 serial;
	u32 end, failures, read, followed, guesses, decoded;
	/* Instructions to be followed, and words of the tail to be used, at most. */
	u32 most, room;
	/* The last comparison, or the register of flags. */
	u32 flags_size, flags_carry, flags_sum;
	/* Masks of vectors that are known: a bit each. */
	u32 mask_known;
	u64 flags_a, flags_b, flags_result;
	/* What was loaded last. */
	u64 loaded;
	/* The next instruction, its bytes, and the line of code that was looked at last. */
	u64 pc, code[2], code_line;
	struct decoding decoding;
	u32 code_at;
	/* Whether the process is known, and that others may write what it reads, although only one thread
	 * uses the address space. */
	u32 met, again;
	/* An instruction wants a vector register that is not known; they are known from the start. */
	u32 lacks, given;
	u64 vectors[32][8];
	/* Which words of them are known. */
	u64 vector_known[4];
	u64 masks[8];
	struct page pages[PAGES];
	struct lanes lanes;
	struct line lines[LINES];
	struct stored stored[STORED];
};

/* What one CPU works on: one sample at a time. */
struct work {
	/* As pt_regs has them. */
	u64 saved[21];
	/* The user registers that come besides the interrupted ones. */
	u64 user[REGISTER_WORDS];
	/* Of the walk: the frame that is looked at. */
	u64 pc, sp, bp;
	u32 bp_known, first;
	/* The kernel's code was interrupted. */
	u32 kernel;
	/* Of the tail: where the pieces begin and end. */
	u32 pieces, pieces_end;
	/* What the second look reads: twice as much as there can be, a power of two. */
	u64 again[2 * MAX_PIECE_BYTES / 8];
	/* Two lines, one of which a line is read to that must not go to where it belongs at once. */
	u64 apart[16];
	/* Of a second record: the time of the first, and bytes of vector registers. */
	u64 time_of_first;
	u32 vector_bytes;
	/* Callers lack rows: the collector needs the stack to find them. */
	u32 lacks_rows;
	/* Samples and bytes since the reader was last woken. */
	u32 since_wake_up, bytes_since_wake_up;
	/* Samples that found no room since the last one that did. */
	u32 missed;
	/* Of the kernel's memory may be read: */
	struct range allowed[ALLOWED_RANGES];
	/* Where the kernel maps all RAM, 0 where that is not known; and of the process the uppermost table
	 * of its pages, and how many levels of them there are. */
	u64 direct_map, tables;
	u32 levels, reserved;
	/* On its way from a pointer to a number. */
	u64 address;
	/* The process that was last found to be sampled, and with its memory; and when: 0 if there is
	 * none, otherwise one more than the number of denials by then. */
	struct process_key seen;
	u64 seen_at;
	struct way way;
	/* What goes into the buffer. The interrupted registers are at the head of the record's tail,
	 * but not counted among its words before the end. */
	struct record record;
	u64 registers[REGISTER_WORDS];
	u64 tail[TAIL_WORDS + TAIL_SPARE];
};

_Static_assert(__builtin_offsetof(struct work, registers) ==
	       __builtin_offsetof(struct work, record) + sizeof(struct record), "registers");
_Static_assert(__builtin_offsetof(struct work, tail) ==
	       __builtin_offsetof(struct work, registers) + 8 * REGISTER_WORDS, "tail");

/* The value within the mask. The compiler is kept from knowing it to be so already: it may have
 * looked at another copy than it goes on with, and older verifiers (seen with Linux 6.1) do not see
 * that the two are the same. */
static inline u64 within(u64 value, u64 mask)
{
	__asm__ volatile("" : "+r"(value));
	return value & mask;
}

/* Where a pointer points, as a number. It goes through memory: verifiers do not do it otherwise. */
static inline u64 pointed_at(struct work *work, const void *pointer)
{
	volatile u64 *address = &work->address;

	*address = (u64)pointer;
	return *address;
}

/* No memory can be there: null pointers with what is added to them, and what is no address. */
static inline int is_nowhere(u64 address)
{
	s64 top = (s64)address >> 56;

	return address < 0x1000 || (top != 0 && top != -1);
}

/* Whether a way through the kernel's code may read there: elsewhere may be devices. */
static INLINE int is_allowed(const struct work *work, u64 address, u32 size)
{
	u32 index;

	for (index = 0; index < ALLOWED_RANGES; index++)
		if (address >= work->allowed[index].start && address < work->allowed[index].end &&
		    size <= work->allowed[index].end - address)
			return 1;
	return 0;
}

/* Reads where both ends can be a process's: frames lie where hostile code says. */
static inline long read_frame(void *to, u32 size, u64 address)
{
	if ((address | (address + size - 1)) >> 56)
		return -1;
	return read_user(to, size, address);
}

/* Notes a caller, and goes on to its frame. */
static inline int step_out(struct work *work, u64 cfa, u64 caller, u64 by_pointer)
{
	u32 used = work->record.tail_words & (TAIL_WORDS - 1);

	if (caller >> 56)
		return by_pointer ? FRAMES_NO_ROW : FRAMES_UNREADABLE;
	work->tail[used] = caller ^ by_pointer << GUESSED_FRAME_BIT;
	work->record.tail_words = used + 1;
	work->record.frames++;
	work->pc = caller;
	work->sp = cfa;
	work->first = 0;
	return FRAMES_NONE;
}

static inline int walk_by_pointer(struct work *work)
{
	/* The saved frame pointer, and the return address above it. */
	u64 frame[2];
	u64 bp = work->bp;

	if (!work->bp_known || bp < work->sp || bp - work->sp > FARTHEST_BY_POINTER || bp & 7 ||
	    bp >> 56)
		return FRAMES_NO_ROW;
	if (read_frame(frame, sizeof(frame), bp))
		return FRAMES_UNREADABLE;
	if (!frame[1])
		return FRAMES_NO_ROW;
	work->bp = frame[0];
	return step_out(work, bp + 16, frame[1], 1);
}

static inline int walk_by_row(struct work *work, const struct row *row)
{
	u64 frame[2];
	u64 cfa, bp = work->bp;
	u32 bp_known = work->bp_known;

	if (row->cfa_register == REGISTER_RSP)
		cfa = work->sp;
	else if (row->cfa_register == REGISTER_RBP && bp_known)
		cfa = bp;
	else if (work->first && row->cfa_register < 16)
		cfa = work->registers[row->cfa_register & 15];
	else
		return FRAMES_UNKNOWN_REGISTER;
	cfa += (s64)row->cfa_offset;
	if (row->kind == ROW_BEHIND) {
		if (read_frame(&cfa, 8, cfa))
			return FRAMES_UNREADABLE;
		cfa += 8 * (s64)row->cfa_words;
	}
	if (cfa <= work->sp || cfa - work->sp > FARTHEST_BY_ROW || cfa >> 56)
		return FRAMES_UNREADABLE;
	if (row->rbp == RBP_SAVED && row->rbp_offset == -16) {
		/* Where most functions keep it: one read for both. */
		if (read_frame(frame, sizeof(frame), cfa - 16))
			return FRAMES_UNREADABLE;
		bp = frame[0];
		bp_known = 1;
	} else {
		if (read_frame(&frame[1], 8, cfa - 8))
			return FRAMES_UNREADABLE;
		if (row->rbp == RBP_SAVED)
			bp_known = !read_frame(&bp, 8, cfa + (s64)row->rbp_offset);
		else if (row->rbp != RBP_SAME)
			bp_known = 0;
	}
	if (!frame[1])
		return FRAMES_OUTERMOST;
	work->bp = bp;
	work->bp_known = bp_known;
	return step_out(work, cfa, frame[1], 0);
}

/* From one frame to its caller's: FRAMES_NONE, or why there is none. Adds 256 to the result where a
 * row led. */
SUBPROGRAM int walk_step(struct work *work)
{
	struct row row = {};

	if (!work)
		return FRAMES_UNREADABLE;
	if (!find_row(work, work->first ? work->pc | ROW_OF_START : work->pc, &row))
		return walk_by_pointer(work);
	if (row.kind == ROW_OUTERMOST)
		return FRAMES_OUTERMOST | 256;
	return walk_by_row(work, &row) | 256;
}

#endif
