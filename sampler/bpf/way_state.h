/*
 * Registers, operands and flags on a way, as far as they are known. Part of way.h.
 */
#ifndef VCPI_WAY_STATE_H
#define VCPI_WAY_STATE_H

#include "instruction.h"
#include "way_memory.h"

static INLINE int is_known(const struct way *way, u32 number)
{
	return way->known >> (number & (WORDS - 1)) & 1;
}

/* What `size` bytes of a register hold. */
static INLINE u64 get(const struct way *way, u32 number, u32 size)
{
	u64 word = way->words[number & (WORDS - 1)];

	return low_bytes(number & SECOND_BYTE ? word >> 8 : word, size);
}

/* A register after `size` bytes were written to it. */
static INLINE void set(struct way *way, u32 number, u64 value, u32 size, int known)
{
	u32 at = number & (WORDS - 1);
	u64 old = way->words[at];
	u64 mask = size == 1 ? 0xff : 0xffff;

	if (size <= 2) {
		known = known && is_known(way, at);
		if (number & SECOND_BYTE) {
			mask <<= 8;
			value <<= 8;
		}
		value = (old & ~mask) | (value & mask);
	} else if (size == 4) {
		value = (u32)value;
	}
	way->words[at] = value;
	way->known = known ? way->known | 1U << at : way->known & ~(1U << at);
}

static inline void forget(struct way *way, u32 number)
{
	way->known &= ~(1U << (number & 15));
}

static INLINE int address_of(const struct way *way, const struct insn *insn, u64 *address)
{
	u64 index = way->words[insn->index & (WORDS - 1)];

	*address = way->words[insn->base & (WORDS - 1)] + (index << (insn->scale & 3)) +
		   (s64)insn->displacement + way->words[insn->segment & (WORDS - 1)];
	return is_known(way, insn->base) && is_known(way, insn->index) &&
	       is_known(way, insn->segment);
}

/* An operand that is read and perhaps written: where it lies, what it holds. */
struct operand {
	u64 address, value;
	/* Whether the address, and the value are known. */
	int placed, known;
};

/* The operand `rm`, which is read if `reads`. */
static inline void open(struct work *work, const struct insn *insn, struct operand *of, u32 size,
			int reads)
{
	struct way *way = &work->way;

	of->address = 0;
	of->value = 0;
	of->known = 0;
	if (!(insn->flags & OPERAND_MEMORY)) {
		of->value = get(way, insn->rm, size);
		of->known = is_known(way, insn->rm);
		of->placed = 1;
		return;
	}
	of->placed = address_of(way, insn, &of->address);
	if (of->placed && reads) {
		of->known = load_word(work, of->address, size);
		of->value = work->way.loaded;
	}
}

static inline const struct operand *with(struct operand *of, u64 value, int known)
{
	of->value = value;
	of->known = known;
	return of;
}

/* Writes the operand `rm`. */
static inline void put(struct work *work, const struct insn *insn, const struct operand *of,
		       u32 size)
{
	if (!(insn->flags & OPERAND_MEMORY))
		set(&work->way, insn->rm, of->value, size, of->known);
	else if (of->placed)
		store_word(work, of->address, size, of->value, of->known);
}

/* The flags: of a comparison of two operands, of a sum, or as a register has them. A result that is
 * tested is compared with 0. */
static INLINE void set_flags(struct way *way, u64 a, u64 b, u64 result, u32 size, u32 carry)
{
	way->flags_a = low_bytes(a, size);
	way->flags_b = low_bytes(b, size);
	way->flags_result = low_bytes(result, size);
	way->flags_size = size;
	way->flags_carry = carry;
	way->flags_sum = 0;
}

/* The carry: 0, 1, or 2 where it is not known. */
static INLINE u32 carry_of(const struct way *way)
{
	if (way->flags_size == FLAGS_OF_REGISTER)
		return way->flags_a & 1;
	return way->flags_carry;
}

/* Whether a condition (the low four bits of the processor's encoding) holds: 1, 0, or -1 where that
 * is not known. */
static INLINE int holds(const struct way *way, u32 condition)
{
	u32 size = way->flags_size;
	u32 carry = carry_of(way);
	u32 top = (8 * size - 1) & 63;
	u32 zero, sign, overflow, result;
	u64 a = way->flags_a, value = way->flags_result;

	condition &= 15;
	if (condition >> 1 == 1)
		return carry > 1 ? -1 : (int)(carry ^ (condition & 1));
	if (size == FLAGS_UNKNOWN)
		return -1;
	if (size == FLAGS_OF_REGISTER) {
		zero = a >> 6 & 1;
		sign = a >> 7 & 1;
		overflow = a >> 11 & 1;
	} else {
		u64 b = way->flags_b;

		zero = !value;
		sign = value >> top & 1;
		if (way->flags_sum)
			overflow = ((a ^ value) & (b ^ value)) >> top & 1;
		else
			overflow = ((a ^ b) & (a ^ value)) >> top & 1;
	}
	switch (condition >> 1) {
	case 0:
		result = overflow;
		break;
	case 2:
		result = zero;
		break;
	case 3:
		if (carry > 1 && !zero)
			return -1;
		result = carry | zero;
		break;
	case 4:
		result = sign;
		break;
	case 5:
		if (size == FLAGS_OF_REGISTER) {
			result = a >> 2 & 1;
			break;
		}
		value ^= value >> 4;
		value ^= value >> 2;
		value ^= value >> 1;
		result = ~value & 1;
		break;
	case 6:
		result = sign ^ overflow;
		break;
	default:
		result = zero | (sign ^ overflow);
		break;
	}
	return (int)((result & 1) ^ (condition & 1));
}

static INLINE void forget_flags(struct way *way)
{
	way->flags_size = FLAGS_UNKNOWN;
	way->flags_carry = 2;
}

#endif
