/*
 * Operations on bits: tests, counts, swaps, those with three operands. Part of way.h.
 */
#ifndef VCPI_WAY_BITS_H
#define VCPI_WAY_BITS_H

#include "way_state.h"

/* Bits that are looked at, and perhaps changed. */
static inline void do_bit(struct work *work, const struct insn *insn)
{
	struct way *way = &work->way;
	u32 size = bytes_of(insn->size);
	struct operand rm;
	u64 bit = insn->value, mask, result;
	int known = 1;

	if (!(insn->flags & OPERAND_IMMEDIATE)) {
		bit = get(way, insn->reg, size);
		known = is_known(way, insn->reg);
	}
	open(work, insn, &rm, size, 0);
	if (insn->flags & OPERAND_MEMORY) {
		/* A register numbers bits far away as well. */
		if (!(insn->flags & OPERAND_IMMEDIATE))
			rm.address += ((s64)extended(bit, size) >> 3) & -(s64)size;
		rm.placed = rm.placed && known;
		if (rm.placed)
			rm.known = load_word(work, rm.address, size);
		rm.value = way->loaded;
	}
	known = known && rm.known;
	bit &= 8 * size - 1;
	mask = 1ULL << (bit & 63);
	way->flags_carry = known ? (rm.value & mask) != 0 : 2;
	if (way->flags_size == FLAGS_OF_REGISTER)
		way->flags_size = FLAGS_UNKNOWN;
	switch (insn->op & 3) {
	case 0:
		return;
	case 1:
		result = rm.value | mask;
		break;
	case 2:
		result = rm.value & ~mask;
		break;
	default:
		result = rm.value ^ mask;
		break;
	}
	put(work, insn, with(&rm, result, known), size);
}

/* Counts of bits, and where the first and the last one is. */
static inline void do_scan(struct work *work, const struct insn *insn)
{
	struct way *way = &work->way;
	u32 size = bytes_of(insn->size);
	u32 bits = 8 * size;
	int repeated = insn->flags & OPERAND_REPEATED;
	struct operand rm;
	u64 word;
	u32 index, result = 0;

	open(work, insn, &rm, size, 1);
	word = rm.value;
	forget_flags(way);
	if (insn->op == 0xb8) {
		for (index = 0; index < 8; index++) {
			u64 byte = word >> 8 * index & 0xff;

			byte = byte - (byte >> 1 & 0x55);
			byte = (byte & 0x33) + (byte >> 2 & 0x33);
			result += (byte + (byte >> 4)) & 0xf;
		}
		if (rm.known)
			set_flags(way, word, 0, word, 8, 0);
		set(way, insn->reg, result, size, rm.known);
		return;
	}
	if (rm.known && !word) {
		set_flags(way, repeated ? 1 : 0, 0, repeated ? 1 : 0, 8, 1);
		if (repeated)
			set(way, insn->reg, bits, size, 1);
		return;
	}
	if (insn->op == 0xbc)
		word &= -word;
	/* Of the highest bit that is set the number. */
	for (index = 0; index < 6; index++) {
		u32 half = 32 >> index;

		if (word >> half) {
			word >>= half;
			result += half;
		}
	}
	if (insn->op == 0xbd && repeated)
		result = bits - 1 - result;
	if (rm.known)
		set_flags(way, repeated ? result : 1, 0, repeated ? result : 1, 8, 0);
	set(way, insn->reg, result, size, rm.known);
}

static inline u64 swapped(u64 word)
{
	word = (word & 0x00ff00ff00ff00ffULL) << 8 | (word >> 8 & 0x00ff00ff00ff00ffULL);
	word = (word & 0x0000ffff0000ffffULL) << 16 | (word >> 16 & 0x0000ffff0000ffffULL);
	return word << 32 | word >> 32;
}

static inline void do_swap(struct work *work, const struct insn *insn)
{
	u32 size = bytes_of(insn->size);
	u32 unused = 64 - 8 * size;
	struct operand rm;
	u64 value;

	if (insn->op && !(insn->flags & OPERAND_TO_REGISTER)) {
		open(work, insn, &rm, size, 0);
		value = swapped(get(&work->way, insn->reg, size)) >> (unused & 63);
		put(work, insn, with(&rm, value, is_known(&work->way, insn->reg)), size);
		return;
	}
	open(work, insn, &rm, size, 1);
	value = swapped(rm.value) >> (unused & 63);
	set(&work->way, insn->op ? insn->reg : insn->rm, value, size, rm.known);
}

/* The upper half of a product. */
static inline u64 upper_product(u64 a, u64 b)
{
	u64 low = (u32)a * (u64)(u32)b;
	u64 one = (a >> 32) * (u32)b, two = (u32)a * (b >> 32);
	u64 middle = (low >> 32) + (u32)one + (u32)two;

	return (a >> 32) * (b >> 32) + (one >> 32) + (two >> 32) + (middle >> 32);
}

/* The instructions of general registers that have three operands. */
static inline void do_bmi(struct work *work, const struct insn *insn)
{
	struct way *way = &work->way;
	u32 size = bytes_of(insn->size);
	u32 prefix = insn->map >> 4;
	u32 to = insn->reg;
	struct operand rm;
	u64 other = get(way, insn->beside, size), value, result = 0;
	int known;
	u32 count;

	open(work, insn, &rm, size, 1);
	value = rm.value;
	known = rm.known && is_known(way, insn->beside);
	count = other & (8 * size - 1);
	switch (insn->opcode) {
	case 0xf0:
		known = rm.known;
		count = insn->value & (8 * size - 1);
		result = count ? value >> count | value << ((8 * size - count) & 63) : value;
		break;
	case 0xf2:
		result = ~other & value;
		set_flags(way, result, 0, result, size, 0);
		break;
	case 0xf3:
		known = rm.known;
		to = insn->beside;
		if ((insn->reg & 7) == 1)
			result = value & (value - 1);
		else if ((insn->reg & 7) == 2)
			result = value ^ (value - 1);
		else
			result = value & -value;
		result = low_bytes(result, size);
		set_flags(way, result, 0, result, size,
			  (insn->reg & 7) == 3 ? value != 0 : value == 0);
		break;
	case 0xf5:
		if (prefix)
			known = 0;
		count = other & 0xff;
		result = count < 8 * size ? value & ((1ULL << (count & 63)) - 1) : value;
		set_flags(way, result, 0, result, size, count >= 8 * size);
		break;
	case 0xf6:
		known = rm.known && is_known(way, RDX);
		value = size == 8 ? value : (u32)value;
		other = get(way, RDX, size);
		set(way, insn->beside, value * other, size, known);
		result = size == 8 ? upper_product(value, other) : value * other >> 32;
		set(way, to, result, size, known);
		return;
	default:
		if (prefix == 1) {
			result = value << count;
		} else if (prefix == 2) {
			result = (u64)((s64)extended(value, size) >> count);
		} else if (prefix == 3) {
			result = value >> count;
		} else {
			u32 length = other >> 8 & 0xff;

			count = other & 0xff;
			result = count < 64 ? value >> (count & 63) : 0;
			if (length < 64)
				result &= (1ULL << (length & 63)) - 1;
			set_flags(way, result, 0, result, size, 0);
		}
		break;
	}
	if (!known && (insn->opcode != 0xf0 && !(insn->opcode == 0xf7 && prefix)))
		forget_flags(way);
	set(way, to, result, size, known);
}

#endif
