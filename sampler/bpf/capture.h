/*
 * The evaluation of plans and the walk over frames: plain C over a struct work, for the handler in
 * the kernel as for tests without privilege. Whoever includes this provides
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

/* Numbers of a plan's sources. */
#define SOURCE_BIAS 16
#define SOURCE_FS_BASE 17
#define SOURCE_GS_BASE 18
#define SOURCE_NONE 19
#define SOURCE_STEP 32
#define SOURCES 64

_Static_assert((MAX_STEPS & (MAX_STEPS - 1)) == 0, "a step's number is masked");

/* Room behind the tail's last word for the piece that would no longer fit, and for the stack that
 * is not copied where it might not. */
#define TAIL_SPARE (MAX_STACK_BYTES / 8 + 8)

/* Words of the tail that are left for what comes behind the pieces. */
#define CHANGES_SPARE 160

/* Of a piece's head, the bits that hold its address. */
#define HEAD_ADDRESS_BITS 57

/* How far frames are believed to lie apart, in bytes: by a row, and by the frame pointer alone. */
#define FARTHEST_BY_ROW (1ULL << 30)
#define FARTHEST_BY_POINTER (1ULL << 18)

/* Calls are at most eight deep in the kernel's machine. */
#define INLINE inline __attribute__((always_inline))

/* What a plan for the kernel's code may read: the image, the current stack, RAM. */
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
	u64 words[SOURCES];
	/* Of the walk: the frame that is looked at. */
	u64 pc, sp, bp;
	u32 bp_known, first;
	struct row row;
	/* The plan is for the kernel's code; it may read these ranges then. */
	u32 kernel;
	/* Of the tail: where the pieces begin and end. */
	u32 pieces, pieces_end;
	/* What the second look reads: twice as much as there can be, a power of two. */
	u64 again[2 * MAX_STEP_BYTES / 8];
	/* Samples and bytes since the reader was last woken. */
	u32 since_wake_up, bytes_since_wake_up;
	/* Samples that found no room since the last one that did. */
	u32 missed;
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

static inline u64 part_of(u64 word, u8 part)
{
	u8 bytes = part & 7;
	u32 unused = bytes ? 64 - 8 * bytes : 0;

	if (part & 0x80)
		return (u64)((s64)(word << unused) >> unused);
	return word << unused >> unused;
}

static inline int part_is_valid(u8 part)
{
	u8 bytes = part & 0x7f;

	return bytes == 1 || bytes == 2 || bytes == 4 || part == 0;
}

/* Whether step `index` may use a source: what no step before it left is none. */
static inline int source_is_valid(u8 source, u32 index)
{
	return source <= SOURCE_NONE || (source >= SOURCE_STEP && source < SOURCE_STEP + index);
}

static inline int step_is_valid(const struct step *step, u32 index)
{
	return source_is_valid(step->base, index) && source_is_valid(step->index, index) &&
	       part_is_valid(step->base_part) && part_is_valid(step->index_part) &&
	       part_is_valid(step->keep) && step->scale < 64 && step->size <= MAX_STEP_BYTES &&
	       step->operation <= 7 && (!step->size || !step->operation);
}

static inline u64 join(u8 operation, u64 a, u64 b)
{
	switch (operation) {
	case 0:
		return a + b;
	case 1:
		return a - b;
	case 2:
		return a & b;
	case 3:
		return a | b;
	case 4:
		return a ^ b;
	case 5:
		return a >> (b & 63);
	case 6:
		return (u64)((s64)a >> (b & 63));
	default:
		return a * b;
	}
}

/* No memory can be there: null pointers with what is added to them, and what is no address. */
static inline int is_nowhere(u64 address)
{
	s64 top = (s64)address >> 56;

	return address < 0x1000 || (top != 0 && top != -1);
}

/* Whether a plan for the kernel's code may read there: elsewhere may be devices. */
static INLINE int is_allowed(const struct work *work, u64 address, u32 size)
{
	u32 index;

	for (index = 0; index < ALLOWED_RANGES; index++)
		if (address >= work->allowed[index].start && address < work->allowed[index].end &&
		    size <= work->allowed[index].end - address)
			return 1;
	return 0;
}

/* How far a plan has come: the tail's words, and bytes that it has read. */
struct progress {
	u32 used, bytes;
};

/* Reads `size` bytes (1 to 128) into the tail, a head before them. The tail's next word does not
 * move if that fails. */
static inline int load(struct work *work, struct progress *progress, u64 address, u32 size,
		       u64 *result)
{
	u32 used = progress->used & (TAIL_WORDS - 1);
	u32 words = (size + 7) / 8;
	u64 *bytes = &work->tail[used + 1];
	u64 word;
	long error;

	/* The last word is not filled by every size. */
	work->tail[used + (words & 31)] = 0;
	if (work->kernel) {
		if (!is_allowed(work, address, size))
			return PLAN_FORBIDDEN;
		error = read_kernel(bytes, size, address);
	} else {
		/* Beyond this there is no user memory, whatever the reading function thinks. */
		if (address >> 56 || (address + (size - 1)) >> 56)
			return PLAN_FORBIDDEN;
		error = read_user(bytes, size, address);
	}
	if (error)
		return PLAN_UNREADABLE;
	if (progress->bytes + size > MAX_PLAN_BYTES || used + 1 + words > TAIL_WORDS)
		return PLAN_FULL;
	progress->bytes += size;
	work->tail[used] = (address & ((1ULL << HEAD_ADDRESS_BITS) - 1)) |
			   (u64)(size - 1) << HEAD_ADDRESS_BITS;
	progress->used = used + 1 + words;
	word = *bytes;
	if (size < 8)
		word &= (1ULL << (8 * size)) - 1;
	*result = word;
	return PLAN_COMPLETE;
}

/* Most steps read at a distance from a whole word, and leave a whole word. The eight bytes behind their
 * displacement are these, but for the base and the size: the first and the sixth. */
#define PLAIN ((u64)SOURCE_NONE << 16)
#define PLAIN_MASK (~(0xffULL | 0xffULL << 40))

_Static_assert(__builtin_offsetof(struct step, base) == 8 &&
	       __builtin_offsetof(struct step, index) == 10 &&
	       __builtin_offsetof(struct step, size) == 13, "the bytes of a plain step");

/* One step of a plan: PLAN_COMPLETE, or how it failed. */
static inline int evaluate_step(struct work *work, const struct plan *plan, u32 index,
				struct progress *progress)
{
	const struct step *step;
	u64 form, address, result, base, offset;
	u32 size;
	int outcome;
	u8 keep = 0;

	index = within(index, MAX_STEPS - 1);
	step = &plan->step[index];
	__builtin_memcpy(&form, &step->base, sizeof(form));
	base = work->words[step->base & (SOURCES - 1)];
	if ((form & PLAIN_MASK) == PLAIN && source_is_valid(step->base, index) &&
	    step->size <= MAX_STEP_BYTES) {
		address = base + step->displacement;
	} else {
		if (!step_is_valid(step, index))
			return PLAN_MALFORMED;
		base = part_of(base, step->base_part);
		offset = part_of(work->words[step->index & (SOURCES - 1)], step->index_part);
		offset = (offset << (step->scale & 63)) + step->displacement;
		address = join(step->operation, base, offset);
		keep = step->keep;
	}
	result = address;
	size = step->size;
	if (size > 0 && size <= MAX_STEP_BYTES) {
		result = 0;
		if (!is_nowhere(address)) {
			outcome = load(work, progress, address, size, &result);
			if (outcome != PLAN_COMPLETE)
				return outcome;
		}
	}
	if (keep)
		result = part_of(result, keep);
	work->words[(SOURCE_STEP + index) & (SOURCES - 1)] = result;
	return PLAN_COMPLETE;
}

/* The steps of a plan in turn: PLAN_COMPLETE, or how one failed. */
SUBPROGRAM int evaluate_steps(struct work *work, const struct plan *plan)
{
	struct progress progress = {};
	int outcome = PLAN_COMPLETE;
	u32 index;

	if (!work || !plan)
		return PLAN_MALFORMED;
	progress.used = work->record.tail_words;
	for (index = 0; index < MAX_STEPS; index++) {
		if (index >= plan->steps)
			break;
		outcome = evaluate_step(work, plan, index, &progress);
		if (outcome != PLAN_COMPLETE)
			break;
	}
	work->record.tail_words = progress.used;
	if (outcome != PLAN_COMPLETE)
		work->record.plan_step = index;
	return outcome;
}

/* Evaluates a plan from work->words, which holds the sources up to SOURCE_NONE; `bases` says which
 * segments' are known. The outcome is left in work->record. */
static inline int evaluate(struct work *work, const struct plan *plan, u32 bases)
{
	int outcome = PLAN_COMPLETE;

	work->record.plan_step = 0;
	if (plan->version != PLAN_VERSION || plan->steps > MAX_STEPS)
		outcome = PLAN_MALFORMED;
	else if (plan->needs & ~bases & ~PLAN_NEEDS_SECOND_LOOK)
		outcome = PLAN_NO_SEGMENT_BASE;
	else
		outcome = evaluate_steps(work, plan);
	work->record.plan = outcome;
	return outcome;
}

/* Notes a caller, and goes on to its frame. */
static inline int step_out(struct work *work, u64 cfa, u64 caller, u64 by_pointer)
{
	u32 used = work->record.tail_words & (TAIL_WORDS - 1);

	if (caller >> 56)
		return by_pointer ? FRAMES_NO_ROW : FRAMES_UNREADABLE;
	work->tail[used] = caller ^ by_pointer << 63;
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
	if (read_user(frame, sizeof(frame), bp))
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
		if (cfa >> 56 || read_user(&cfa, 8, cfa))
			return FRAMES_UNREADABLE;
		cfa += 8 * (s64)row->cfa_words;
	}
	if (cfa <= work->sp || cfa - work->sp > FARTHEST_BY_ROW || cfa >> 56)
		return FRAMES_UNREADABLE;
	if (row->rbp == RBP_SAVED && row->rbp_offset == -16) {
		/* Where most functions keep it: one read for both. */
		if (read_user(frame, sizeof(frame), cfa - 16))
			return FRAMES_UNREADABLE;
		bp = frame[0];
		bp_known = 1;
	} else {
		if (read_user(&frame[1], 8, cfa - 8))
			return FRAMES_UNREADABLE;
		if (row->rbp == RBP_SAVED)
			bp_known = !((cfa + (s64)row->rbp_offset) >> 56) &&
				   !read_user(&bp, 8, cfa + (s64)row->rbp_offset);
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
	if (work->first && work->row.kind != ROW_NONE)
		row = work->row;
	else if (!find_row(work, work->first ? work->pc | ROW_OF_START : work->pc, &row))
		return walk_by_pointer(work);
	if (row.kind == ROW_OUTERMOST)
		return FRAMES_OUTERMOST | 256;
	return walk_by_row(work, &row) | 256;
}

#endif
