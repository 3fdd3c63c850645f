/*
 * The memory that a way reads, in whole lines, and what it has stored. Part of way.h.
 */
#ifndef VCPI_WAY_MEMORY_H
#define VCPI_WAY_MEMORY_H

#include "capture.h"

/* The lines that were read in this sample: whole lines, so that neighbours need no second read. */
static inline u32 line_slot(u64 line)
{
	return (u32)(line >> 6 ^ line >> 12) & (LINES - 1);
}

/* Whether a copy of a line to there is one that may tear its words. The kernel copies a process's
 * memory by a string instruction. That moves words whole, except where processors take source and
 * destination for overlapping ones: they look at the offsets within a page alone, and if the
 * destination is behind the source by less than a line, the first byte goes on its own way (seen on
 * AMD's, below 32 bytes; Intel's optimisation manual warns of 64). Another thread's store may come
 * between. */
static inline int is_torn(u64 to, u64 line)
{
	u64 behind = (to - line) & 4095;

	return behind && behind < 64;
}

/* Reads a line to elsewhere, and brings it from there. */
static INLINE int read_apart(struct work *work, u64 *to, u64 line)
{
	u64 *apart = work->apart;
	u32 index;

	/* Not both halves are behind the line by less than it is long. */
	if (is_torn(pointed_at(work, apart), line))
		apart += 8;
	if (read_user(apart, 64, line))
		return 1;
	for (index = 0; index < 8; index++)
		to[index] = apart[index];
	return 0;
}

static INLINE int read_line(struct work *work, u32 used, u64 line)
{
	u64 *to = &work->tail[within(used + 1, TAIL_WORDS - 1)];

	if (work->kernel)
		return !is_allowed(work, line, 64) || read_kernel(to, 64, line);
	if (line >> 56 || !may_read(work, line))
		return 1;
	if (is_torn(pointed_at(work, to), line))
		return read_apart(work, to, line);
	return read_user(to, 64, line);
}

/* Reads the line at an address, unless it was. Its first word's index in the tail; 0: not to be
 * had. */
SUBPROGRAM u32 touch(struct work *work, u64 address)
{
	u64 line = address & ~63ULL;
	struct line *held;
	u32 used;

	if (!work)
		return 0;
	held = &work->way.lines[line_slot(line)];
	used = work->record.tail_words & (TAIL_WORDS - 1);
	if (held->line == line && held->serial == work->way.serial)
		return held->at;
	if (used + 9 > work->way.room || work->way.read >= MAX_LINES) {
		work->way.end = WAY_FULL;
		return 0;
	}
	held->line = line;
	held->serial = work->way.serial;
	held->at = 0;
	/* A page that is not there costs a fault; a way that meets several is a wrong one. */
	if (is_nowhere(address)) {
		work->way.failures++;
		return 0;
	}
	if (read_line(work, used, line)) {
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

/* Up to eight bytes of memory, into way->loaded; whether they are known. */
static INLINE int read_word(struct work *work, u64 address, u32 size)
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
	work->way.loaded = low_bytes(low, size);
	return 1;
}

static INLINE struct stored *stored_at(struct work *work, u64 address)
{
	return &work->way.stored[(address >> 3) & (STORED - 1)];
}

/* Bytes of one word: what the way has stored, or else memory. */
static INLINE int load_part(struct work *work, u64 address, u32 size)
{
	struct stored *held = stored_at(work, address);
	u32 offset = address & 7;
	u32 bytes = ((1U << size) - 1) << offset;
	u32 common;

	if (held->word != address >> 3 || held->serial != work->way.serial)
		return read_word(work, address, size);
	common = held->bytes & bytes;
	if (!common)
		return read_word(work, address, size);
	if (common != bytes || (held->known & bytes) != bytes)
		return 0;
	work->way.loaded = low_bytes(held->value >> 8 * offset, size);
	return 1;
}

/* Loads what the way has stored, or else memory, into way->loaded; whether it is known. */
SUBPROGRAM int load_word(struct work *work, u64 address, u32 size)
{
	struct stored *next;
	u64 low;
	u32 first;

	if (!work)
		return 0;
	size &= 15;
	work->way.loaded = 0;
	first = 8 - (address & 7);
	next = stored_at(work, address + 8);
	/* Over the edge of a word, of which something may have been stored. */
	if (size > first && ((next->word == (address >> 3) + 1 && next->serial == work->way.serial) ||
			     stored_at(work, address)->word == address >> 3)) {
		if (!load_part(work, address, first))
			return 0;
		low = work->way.loaded;
		if (!load_part(work, address + first, size - first))
			return 0;
		work->way.loaded = low | work->way.loaded << (8 * first & 63);
		return 1;
	}
	return load_part(work, address, size);
}

static INLINE void store_part(struct work *work, u64 address, u32 size, u64 value, int known)
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
}

SUBPROGRAM int store_word(struct work *work, u64 address, u32 size, u64 value, int known)
{
	u32 first;

	if (!work)
		return 0;
	size &= 15;
	first = 8 - (address & 7);
	if (size <= first) {
		store_part(work, address, size, value, known);
		return 0;
	}
	store_part(work, address, first, value, known);
	store_part(work, address + first, size - first, value >> (8 * first & 63), known);
	return 0;
}

#endif
