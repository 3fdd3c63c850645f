/*
 * The second look at memory that others may write while it is read: plain C over a struct work, as
 * capture.h.
 *
 * All that was read is read once more, behind the last of it. A piece that is the same held its
 * value from its first reading to its second. So all pieces that are the same held their values
 * together, at the moment between the first look and the second. A piece that is another one is
 * marked, word by word: it had its value at the moment of its first reading, and no later.
 */
#ifndef VCPI_SECOND_LOOK_H
#define VCPI_SECOND_LOOK_H

#include "capture.h"

/* Which words of a piece differ where they cannot be read any more. */
#define ALL_WORDS 0xffff

/* Which words of `size` bytes (1 to 128) that the tail has from `at` on are others by now: a bit
 * each. */
SUBPROGRAM u32 changed_words(struct work *work, u32 at, u32 size, u64 address)
{
	u32 words = (size + 7) / 8;
	u32 index, mask = 0;
	long error;

	if (!work || !words || words > MAX_PIECE_BYTES / 8)
		return ALL_WORDS;
	at = within(at, TAIL_WORDS - 1);
	size = within(size, sizeof(work->again) - 1);
	/* The last word is not filled by every size. */
	index = within(words - 1, MAX_PIECE_BYTES / 8 - 1);
	work->again[index] = work->tail[at + index];
	if (work->kernel)
		error = read_kernel(work->again, size, address);
	else
		error = read_user(work->again, size, address);
	if (error)
		return ALL_WORDS;
	for (index = 0; index < MAX_PIECE_BYTES / 8; index++) {
		u64 difference = work->tail[at + index] ^ work->again[index];

		if (index >= words)
			break;
		mask |= (u32)((difference | -difference) >> 63) << index;
	}
	return mask;
}

/* Looks at the pieces again; how many have changed, which are noted behind the tail. */
SUBPROGRAM u32 look_at_pieces(struct work *work)
{
	u32 at, index;

	if (!work)
		return 0;
	at = work->pieces;
	for (index = 0; index < MAX_LINES; index++) {
		u64 head, address;
		u32 size, mask, used;

		if (at >= work->pieces_end)
			break;
		head = work->tail[within(at, TAIL_WORDS - 1)];
		size = (head >> HEAD_ADDRESS_BITS) + 1;
		address = (s64)(head << (64 - HEAD_ADDRESS_BITS)) >> (64 - HEAD_ADDRESS_BITS);
		mask = changed_words(work, at + 1, size, address);
		at += 1 + (size + 7) / 8;
		if (!mask)
			continue;
		/* There is always room: pieces and changes are few. */
		used = within(work->record.tail_words, TAIL_WORDS - 1);
		work->tail[used] = (u64)index << CHANGE_PIECE_SHIFT | mask;
		work->record.tail_words = used + 1;
		work->record.changes++;
	}
	return work->record.changes;
}

/* Whether the stack, which the tail has from `at` on, is another one by now. */
SUBPROGRAM u32 stack_changed(struct work *work, u32 at)
{
	u32 bytes, index;
	u64 address;

	if (!work)
		return 1;
	bytes = work->record.stack_bytes;
	address = work->registers[REGISTER_RSP];
	for (index = 0; index < MAX_STACK_BYTES / MAX_PIECE_BYTES; index++) {
		u32 done = index * MAX_PIECE_BYTES;
		u32 size = bytes - done;

		if (done >= bytes)
			break;
		if (size > MAX_PIECE_BYTES)
			size = MAX_PIECE_BYTES;
		if (changed_words(work, at + done / 8, size, address + done))
			return 1;
	}
	return 0;
}

#endif
