/*
 * Micro-operations: the handler follows the interrupted thread's own way through code that the
 * collector has translated, to read what the thread is going to load. Plain C over a struct work,
 * as capture.h, with the same functions, and besides
 *
 *   const struct uop *uop_at(u32 index)                        or null
 *   u32 find_entry(struct work *work, u64 address, u64 *bias)  its index, or 0
 *
 * What is worked out here is advice: which memory to read. The collector interprets the same code
 * again, from what was read, and takes no value from here. So a translation may be wrong or out of
 * date, and what is rare need not be understood: what is not known is marked so, and the way ends
 * where it cannot be told how it goes on.
 *
 * crate interpreter (src/uops) writes micro-operations and explains them.
 */
#ifndef VCPI_UOPS_H
#define VCPI_UOPS_H

#include "capture.h"

/* The lines that were read in this sample: whole lines, so that neighbours need no second read. */
static inline u32 line_slot(u64 line)
{
	return (u32)(line >> 6 ^ line >> 12) & (LINES - 1);
}

/* Reads the line at an address, unless it was. Its first word's index in the tail; 0: not to be
 * had. */
static inline u32 touch(struct work *work, u64 address)
{
	u64 line = address & ~63ULL;
	struct line *held = &work->way.lines[line_slot(line)];
	u32 used = work->record.tail_words & (TAIL_WORDS - 1);

	if (held->line == line && held->serial == work->way.serial)
		return held->at;
	if (used + 9 > TAIL_WORDS - CHANGES_SPARE || work->way.read >= MAX_LINES) {
		work->way.end = WAY_FULL;
		return 0;
	}
	held->line = line;
	held->serial = work->way.serial;
	held->at = 0;
	if (address >> 56 || address < 0x1000) {
		work->way.failures++;
		return 0;
	}
	if (read_user(&work->tail[used + 1], 64, line)) {
		/* A page that is not there costs a fault; a way that meets several is a wrong one. */
		work->way.failures += 2;
		return 0;
	}
	work->tail[used] = (line & ((1ULL << HEAD_ADDRESS_BITS) - 1)) | 63ULL << HEAD_ADDRESS_BITS;
	work->record.tail_words = used + 9;
	work->way.read++;
	held->at = used + 1;
	return used + 1;
}

/* Operands are of one, two, four or eight bytes. */
static inline u32 bytes_of(u8 size)
{
	return size == 1 || size == 2 || size == 4 ? size : 8;
}

static inline u64 low_bytes(u64 word, u32 size)
{
	u32 unused = (64 - 8 * size) & 63;

	return word << unused >> unused;
}

static inline u64 extended(u64 word, u32 size)
{
	u32 unused = (64 - 8 * size) & 63;

	return (u64)((s64)(word << unused) >> unused);
}

/* Up to eight bytes of memory; whether they are known. */
static inline int read_word(struct work *work, u64 address, u32 size, u64 *word)
{
	u32 offset = address & 63;
	u32 shift = 8 * (offset & 7);
	u32 at = touch(work, address);
	u32 next;
	u64 low, high;

	if (!at)
		return 0;
	at = (u32)within(at + (offset >> 3), TAIL_WORDS - 1);
	low = work->tail[at] >> shift;
	if ((offset & 7) + size > 8) {
		next = at + 1;
		if (offset + size > 64) {
			next = touch(work, address + 8);
			if (!next)
				return 0;
		}
		high = work->tail[within(next, TAIL_WORDS - 1)];
		low |= high << ((64 - shift) & 63);
	}
	*word = low_bytes(low, size);
	return 1;
}

static inline struct stored *stored_at(struct work *work, u64 address)
{
	return &work->way.stored[(address >> 3) & (STORED - 1)];
}

/* Loads what the way has stored, or else memory. */
static inline int load_word(struct work *work, u64 address, u32 size, u64 *word)
{
	struct stored *held = stored_at(work, address);
	u32 offset = address & 7;
	u32 bytes = ((1U << size) - 1) << offset;
	u32 common;

	if (held->word != address >> 3 || held->serial != work->way.serial)
		return read_word(work, address, size, word);
	common = held->bytes & bytes;
	if (!common)
		return read_word(work, address, size, word);
	if (common != bytes || (held->known & bytes) != bytes)
		return 0;
	*word = low_bytes(held->value >> 8 * offset, size);
	return 1;
}

static inline void store_word(struct work *work, u64 address, u32 size, u64 value, int known)
{
	struct stored *held = stored_at(work, address);
	u32 offset = address & 7;
	u32 bytes = (((1U << size) - 1) << offset) & 255;
	u64 mask = low_bytes(~0ULL, size) << 8 * offset;

	if (held->word != address >> 3 || held->serial != work->way.serial) {
		held->word = address >> 3;
		held->serial = work->way.serial;
		held->bytes = 0;
		held->known = 0;
		held->value = 0;
	}
	held->bytes |= bytes;
	held->value = (held->value & ~mask) | (value << 8 * offset & mask);
	held->known = known ? held->known | bytes : held->known & ~bytes;
	/* Of what lies in the next word that one is not told: its old value is not the new one. */
	if (offset + size > 8) {
		held = stored_at(work, address + 8);
		held->word = (address >> 3) + 1;
		held->serial = work->way.serial;
		held->bytes = 255;
		held->known = 0;
	}
}

/* Whether a condition (the low four bits of the processor's encoding) holds: 1, 0, or -1 where that
 * is not known. */
static inline int holds(const struct way *way, u32 condition)
{
	u32 size = way->flags_size;
	u64 a = way->flags_a, b = way->flags_b;
	u64 difference = a - b;
	u32 unused;
	int result;

	if (size == FLAGS_UNKNOWN)
		return -1;
	if (size == FLAGS_OF_REGISTER) {
		int carry = a & 1, zero = a >> 6 & 1, sign = a >> 7 & 1, overflow = a >> 11 & 1;

		switch (condition >> 1 & 7) {
		case 0:
			result = overflow;
			break;
		case 1:
			result = carry;
			break;
		case 2:
			result = zero;
			break;
		case 3:
			result = carry | zero;
			break;
		case 4:
			result = sign;
			break;
		case 5:
			result = a >> 2 & 1;
			break;
		case 6:
			result = sign ^ overflow;
			break;
		default:
			result = zero | (sign ^ overflow);
			break;
		}
		return result ^ (condition & 1);
	}
	unused = (64 - 8 * size) & 63;
	switch (condition >> 1 & 7) {
	case 0:
		result = ((a ^ b) & (a ^ difference)) << unused >> 63;
		break;
	case 1:
		result = a < b;
		break;
	case 2:
		result = a == b;
		break;
	case 3:
		result = a <= b;
		break;
	case 4:
		result = difference << unused >> 63;
		break;
	case 5:
		return -1;
	case 6:
		result = (s64)(a << unused) < (s64)(b << unused);
		break;
	default:
		result = (s64)(a << unused) <= (s64)(b << unused);
		break;
	}
	return result ^ (condition & 1);
}

/* What a register holds after `size` bytes were written to it. */
static inline u64 merged(u64 old, u64 new, u32 size)
{
	if (size == 8)
		return new;
	if (size == 4)
		return (u32)new;
	if (size == 2)
		return (old & ~0xffffULL) | (new & 0xffff);
	return (old & ~0xffULL) | (new & 0xff);
}

static inline int is_known(const struct way *way, u32 number)
{
	return way->known >> (number & (SOURCES_OF_WAY - 1)) & 1;
}

static inline void set(struct way *way, u32 number, u64 value, int known)
{
	number &= SOURCES_OF_WAY - 1;
	way->words[number] = value;
	way->known = known ? way->known | 1ULL << number : way->known & ~(1ULL << number);
}

static inline int known_address(const struct way *way, const struct uop *uop, u64 *address)
{
	u64 index = way->words[uop->b & (SOURCES_OF_WAY - 1)];

	*address = way->words[uop->a & (SOURCES_OF_WAY - 1)] + (index << (uop->scale & 3)) +
		   (s64)uop->value;
	return is_known(way, uop->a) && is_known(way, uop->b);
}

/* Goes on at a process address; 0 if its code is translated. */
static inline int go_to(struct work *work, u64 address)
{
	struct way *way = &work->way;
	u64 bias = way->words[WAY_BIAS];
	u32 at = find_entry(work, address, &bias);

	if (!at) {
		way->pc = address;
		way->end = WAY_NO_ENTRY;
		return 1;
	}
	way->words[WAY_BIAS] = bias;
	way->at = at;
	touch(work, address);
	return 0;
}

/* Goes on at another instruction of the image, whose code is read as well. */
static inline void jump(struct work *work, const struct uop *uop)
{
	work->way.at = uop->target;
	touch(work, work->way.words[WAY_BIAS] + (s64)uop->value);
}

static inline u64 calculated(u32 code, u64 a, u64 b, u32 size)
{
	u32 count = b & (size == 8 ? 63 : 31);

	switch (code) {
	case UOP_ADD:
		return a + b;
	case UOP_SUB:
		return a - b;
	case UOP_AND:
		return a & b;
	case UOP_OR:
		return a | b;
	case UOP_XOR:
		return a ^ b;
	case UOP_MUL:
		return a * b;
	case UOP_SHL:
		return a << count;
	case UOP_SHR:
		return low_bytes(a, size) >> count;
	case UOP_SAR:
		return (u64)((s64)extended(a, size) >> count);
	case UOP_ROL:
		a = low_bytes(a, size);
		count &= 8 * size - 1;
		return count ? a << count | a >> (8 * size - count) : a;
	case UOP_SIGNED:
		return extended(a, size);
	case UOP_DIV:
		return b ? a / b : 0;
	case UOP_REM:
		return b ? a % b : 0;
	default:
		return b;
	}
}

static inline void set_flags(struct way *way, u64 a, u64 b, u32 size, int known)
{
	way->flags_a = low_bytes(a, size);
	way->flags_b = low_bytes(b, size);
	way->flags_size = known ? size : FLAGS_UNKNOWN;
}

/* Two operands and a result. */
static inline void calculate(struct way *way, const struct uop *uop)
{
	u32 size = bytes_of(uop->size);
	u32 to = uop->to & (SOURCES_OF_WAY - 1);
	u64 a = way->words[uop->a & (SOURCES_OF_WAY - 1)];
	u64 b = way->words[uop->b & (SOURCES_OF_WAY - 1)];
	int known = is_known(way, uop->a) && is_known(way, uop->b);
	u64 result;

	if (uop->flags & UOP_IMMEDIATE) {
		b = (s64)uop->value;
		known = is_known(way, uop->a);
	}
	if (uop->code == UOP_DIV || uop->code == UOP_REM) {
		a = low_bytes(a, size);
		b = low_bytes(b, size);
	}
	result = calculated(uop->code, a, b, size);
	switch (uop->flags & UOP_SETS) {
	case UOP_SETS_COMPARED:
		set_flags(way, a, b, size, known);
		break;
	case UOP_SETS_RESULT:
		set_flags(way, result, 0, size, known);
		break;
	case UOP_SETS_CARRY:
		set_flags(way, result, a, size, known);
		break;
	case UOP_SETS_BIT:
		set_flags(way, 0, a >> (b & (8 * size - 1)) & 1, 8, known);
		break;
	}
	if (uop->flags & UOP_NO_RESULT)
		return;
	if (size < 4 && !(uop->flags & UOP_WHOLE))
		known = known && is_known(way, to);
	if (uop->flags & UOP_WHOLE)
		set(way, to, result, known);
	else
		set(way, to, merged(way->words[to], result, size), known);
}

static inline void load_uop(struct work *work, const struct uop *uop)
{
	struct way *way = &work->way;
	u32 size = bytes_of(uop->size), width = bytes_of(uop->width);
	u32 to = uop->to & (SOURCES_OF_WAY - 1);
	u64 address, word = 0;
	int known = known_address(way, uop, &address);

	if (known)
		known = load_word(work, address, size, &word);
	if (uop->flags & UOP_SIGN)
		word = extended(word, size);
	if (width < 4 && !(uop->flags & UOP_WHOLE))
		known = known && is_known(way, to);
	if (uop->flags & UOP_WHOLE)
		set(way, to, word, known);
	else
		set(way, to, merged(way->words[to], word, width), known);
}

/* Memory that is loaded into registers which are not followed. */
static inline void touch_uop(struct work *work, const struct uop *uop)
{
	u64 address;

	if (!known_address(&work->way, uop, &address))
		return;
	touch(work, address);
	if ((address & 63) + uop->size > 64)
		touch(work, address + uop->size - 1);
}

/* Memory that is written with what is not followed: of up to 64 bytes. */
static inline void blur_uop(struct work *work, const struct uop *uop)
{
	u64 address;
	u32 index;

	if (!known_address(&work->way, uop, &address))
		return;
	for (index = 0; index < 8; index++) {
		if (8 * index >= uop->size)
			break;
		store_word(work, address + 8 * index, 8, 0, 0);
	}
}

/* One micro-operation; not 0 at the end of the way. */
SUBPROGRAM int follow_uop(struct work *work)
{
	const struct uop *uop;
	struct way *way;
	u64 address, word;
	int known;

	if (!work)
		return 1;
	way = &work->way;
	uop = uop_at(way->at);
	if (!uop) {
		way->end = WAY_NO_ENTRY;
		return 1;
	}
	way->at++;
	switch (uop->code) {
	case UOP_LOAD:
		load_uop(work, uop);
		break;
	case UOP_STORE:
		if (known_address(way, uop, &address))
			store_word(work, address, bytes_of(uop->size),
				   way->words[uop->to & (SOURCES_OF_WAY - 1)],
				   is_known(way, uop->to));
		break;
	case UOP_TOUCH:
		touch_uop(work, uop);
		break;
	case UOP_BLUR:
		blur_uop(work, uop);
		break;
	case UOP_ADDRESS:
		known = known_address(way, uop, &address);
		set(way, uop->to, merged(0, address, bytes_of(uop->size)), known);
		break;
	case UOP_CONSTANT:
		word = (u64)uop->target << 32 | (u32)uop->value;
		set(way, uop->to, word, 1);
		break;
	case UOP_MOVE_IF:
		known = holds(way, uop->scale);
		if (known > 0)
			set(way, uop->to,
			    merged(way->words[uop->to & (SOURCES_OF_WAY - 1)],
				   way->words[uop->a & (SOURCES_OF_WAY - 1)], bytes_of(uop->size)),
			    is_known(way, uop->a));
		else if (known < 0)
			set(way, uop->to, 0, 0);
		else if (uop->size == 4)
			set(way, uop->to, (u32)way->words[uop->to & (SOURCES_OF_WAY - 1)],
			    is_known(way, uop->to));
		break;
	case UOP_SET_IF:
		known = holds(way, uop->scale);
		set(way, uop->to, known > 0, known >= 0);
		break;
	case UOP_JUMP_IF:
		known = holds(way, uop->scale);
		if (known < 0) {
			way->end = WAY_UNKNOWN;
			return 1;
		}
		if (known)
			jump(work, uop);
		break;
	case UOP_JUMP:
		jump(work, uop);
		break;
	case UOP_JUMP_IF_ZERO:
		if (!is_known(way, uop->a)) {
			way->end = WAY_UNKNOWN;
			return 1;
		}
		if (!way->words[uop->a & (SOURCES_OF_WAY - 1)])
			jump(work, uop);
		break;
	case UOP_GO:
		/* To an address that was not translated when this was. */
		return go_to(work, way->words[WAY_BIAS] + (s64)uop->value);
	case UOP_GO_TO:
		if (!is_known(way, uop->a)) {
			way->end = WAY_UNKNOWN;
			return 1;
		}
		return go_to(work, way->words[uop->a & (SOURCES_OF_WAY - 1)]);
	case UOP_FORGET:
		way->known &= ~((u64)uop->target << 32 | (u32)uop->value);
		if (uop->flags & UOP_SETS)
			way->flags_size = FLAGS_UNKNOWN;
		break;
	case UOP_END:
		way->end = WAY_END;
		return 1;
	default:
		calculate(way, uop);
		break;
	}
	return way->end != WAY_GOES_ON || way->failures > MAX_FAILURES;
}

/* Follows the way from the interrupted registers on, as far as `most` micro-operations. */
static inline void follow_way(struct work *work, u32 at, u64 bias, u32 most, u32 bases)
{
	struct way *way = &work->way;
	u32 index;

	way->serial++;
	for (index = 0; index < 16; index++)
		way->words[index] = work->registers[index];
	way->words[WAY_BIAS] = bias;
	way->words[WAY_FS_BASE] = work->record.fs_base;
	way->words[WAY_GS_BASE] = work->record.gs_base;
	way->words[WAY_NONE] = 0;
	way->known = 0xffff | 1ULL << WAY_BIAS | 1ULL << WAY_NONE;
	if (bases & PLAN_NEEDS_FS_BASE)
		way->known |= 1ULL << WAY_FS_BASE;
	if (bases & PLAN_NEEDS_GS_BASE)
		way->known |= 1ULL << WAY_GS_BASE;
	way->flags_a = work->registers[REGISTER_FLAGS];
	way->flags_size = FLAGS_OF_REGISTER;
	way->end = WAY_GOES_ON;
	way->failures = 0;
	way->read = 0;
	way->at = at;
	way->pc = 0;
	touch(work, work->record.ip);
	for (index = 0; index < MAX_UOPS; index++) {
		if (index >= most)
			break;
		if (follow_uop(work))
			break;
	}
	way->followed = index;
}

#endif
