/*
 * Operations that are rarer: shifts, products, exchanges, strings, and what is not followed. Part of
 * way.h.
 */
#ifndef VCPI_WAY_RARE_H
#define VCPI_WAY_RARE_H

#include "way_bits.h"

/* Shifts and rotations, whose count is a constant or in cl. */
static inline void do_shift(struct work *work, const struct insn *insn)
{
	struct way *way = &work->way;
	u32 size = bytes_of(insn->size);
	u32 bits = 8 * size;
	struct operand rm;
	u64 result;
	u32 count, carry = 2;
	int known;

	open(work, insn, &rm, size, 1);
	known = rm.known;
	count = insn->value;
	if (!(insn->flags & OPERAND_IMMEDIATE)) {
		count = way->words[RCX];
		known = known && is_known(way, RCX);
	}
	count &= size == 8 ? 63 : 31;
	if (known && !count)
		return;
	switch (insn->op) {
	case 0:
	case 1:
		count &= bits - 1;
		if (insn->op == 1)
			count = (bits - count) & (bits - 1);
		result = count ? rm.value << count | rm.value >> ((bits - count) & 63) : rm.value;
		/* Only carry and overflow change. */
		way->flags_carry = 2;
		put(work, insn, with(&rm, result, known), size);
		return;
	case 4:
	case 6:
		result = rm.value << (count & 63);
		if (count <= bits)
			carry = rm.value >> ((bits - count) & 63) & 1;
		break;
	case 5:
		result = rm.value >> (count & 63);
		carry = rm.value >> ((count - 1) & 63) & 1;
		break;
	case 7:
		result = (u64)((s64)extended(rm.value, size) >> (count & 63));
		carry = extended(rm.value, size) >> ((count - 1) & 63) & 1;
		break;
	default:
		/* Through the carry. */
		forget_flags(way);
		put(work, insn, with(&rm, 0, 0), size);
		return;
	}
	set_flags(way, result, 0, result, size, carry);
	if (!known)
		forget_flags(way);
	put(work, insn, with(&rm, result, known), size);
}

static inline void do_multiply(struct work *work, const struct insn *insn)
{
	struct way *way = &work->way;
	u32 size = bytes_of(insn->size);
	struct operand rm;
	u64 b = (s64)insn->value;
	int known;

	open(work, insn, &rm, size, 1);
	known = rm.known;
	if (!(insn->flags & OPERAND_IMMEDIATE)) {
		b = way->words[insn->reg & 15];
		known = known && is_known(way, insn->reg);
	}
	set(way, insn->reg, rm.value * b, size, known);
	forget_flags(way);
}

static inline u64 magnitude(u64 word)
{
	return (s64)word < 0 ? -word : word;
}

/* Products and quotients of rax and rdx. */
static inline void do_wide(struct work *work, const struct insn *insn)
{
	struct way *way = &work->way;
	u32 size = bytes_of(insn->size);
	struct operand rm;
	u64 a, b, high = 0;
	u64 low;
	int known, is_signed = insn->op & 1;

	open(work, insn, &rm, size, 1);
	known = rm.known && is_known(way, RAX) && size >= 4;
	b = rm.value;
	forget_flags(way);
	if (insn->op >= 6)
		known = known && is_known(way, RDX) && b;
	if (!known) {
		forget(way, RAX);
		if (size > 1)
			forget(way, RDX);
		return;
	}
	a = low_bytes(way->words[RAX], size);
	if (insn->op < 6) {
		if (is_signed && size == 4) {
			a = extended(a, 4);
			b = extended(b, 4);
		}
		low = a * b;
		if (size == 4) {
			high = low >> 32;
		} else {
			high = upper_product(a, b);
			if (is_signed)
				high -= ((s64)a < 0 ? b : 0) + ((s64)b < 0 ? a : 0);
		}
		set(way, RAX, low, size, 1);
		set(way, RDX, high, size, 1);
		return;
	}
	high = low_bytes(way->words[RDX], size);
	if (size == 4) {
		a |= high << 32;
		b = is_signed ? extended(b, 4) : b;
	} else if (high != (is_signed ? (u64)((s64)a >> 63) : 0)) {
		/* Numbers of sixteen bytes are rare. */
		forget(way, RAX);
		forget(way, RDX);
		return;
	}
	if (is_signed) {
		u64 quotient = magnitude(a) / magnitude(b);
		u64 rest = magnitude(a) - quotient * magnitude(b);

		low = (s64)(a ^ b) < 0 ? -quotient : quotient;
		high = (s64)a < 0 ? -rest : rest;
	} else {
		low = a / b;
		high = a - low * b;
	}
	set(way, RAX, low, size, 1);
	set(way, RDX, high, size, 1);
}

static inline void do_exchange(struct work *work, const struct insn *insn)
{
	struct way *way = &work->way;
	u32 size = bytes_of(insn->size);
	struct operand rm;
	u64 value = get(way, insn->reg, size);
	int known = is_known(way, insn->reg);

	open(work, insn, &rm, size, 1);
	if (insn->kind == KIND_ADD_EXCHANGE) {
		value = low_bytes(value + rm.value, size);
		known = known && rm.known;
		set_flags(way, rm.value, value - rm.value, value, size, value < rm.value);
		way->flags_sum = 1;
		if (!known)
			forget_flags(way);
	}
	set(way, insn->reg, rm.value, size, rm.known);
	put(work, insn, with(&rm, value, known), size);
}

static inline void do_compare_exchange(struct work *work, const struct insn *insn)
{
	struct way *way = &work->way;
	u32 size = bytes_of(insn->size);
	struct operand rm;
	u64 a = get(way, RAX, size);

	open(work, insn, &rm, size, 1);
	if (!rm.known || !is_known(way, RAX)) {
		forget(way, RAX);
		forget_flags(way);
		put(work, insn, with(&rm, 0, 0), size);
		return;
	}
	set_flags(way, a, rm.value, a - rm.value, size, a < rm.value);
	if (a == rm.value)
		put(work, insn, with(&rm, get(way, insn->reg, size), is_known(way, insn->reg)), size);
	else
		set(way, RAX, rm.value, size, 1);
}

/* String instructions upwards. Of repeated ones the first lines are read; what is far away of what they
 * write is taken for what was there. */
static inline void do_string(struct work *work, const struct insn *insn)
{
	struct way *way = &work->way;
	u32 size = bytes_of(insn->size);
	u32 what = insn->op >> 1 & 7;
	u64 from = way->words[6], to = way->words[7], count = 1, value = 0, other;
	int reads_from = what == 2 || what == 3 || what == 6;
	int writes = what == 2 || what == 5;
	int known = 0, moves_from = reads_from, moves_to = what != 6;
	u32 index;

	if (insn->flags & (OPERAND_REPEATED | OPERAND_REPEATED_UNEQUAL)) {
		count = way->words[RCX];
		if (!is_known(way, RCX) || what == 3 || what == 7 || what == 6) {
			/* How far it goes is not followed. */
			if (reads_from && is_known(way, 6))
				touch(work, from);
			if (what != 6 && is_known(way, 7))
				touch(work, to);
			forget(way, RCX);
			if (moves_from)
				forget(way, 6);
			if (moves_to)
				forget(way, 7);
			if (what == 6)
				forget(way, RAX);
			if (!writes)
				forget_flags(way);
			return;
		}
		set(way, RCX, 0, 8, 1);
	}
	for (index = 0; index < 16; index++) {
		if (index >= count)
			break;
		known = 0;
		value = 0;
		if (reads_from && is_known(way, 6))
			known = load_word(work, from + size * index, size);
		value = known ? way->loaded : 0;
		if (what == 5) {
			value = get(way, RAX, size);
			known = is_known(way, RAX);
		}
		if (writes && is_known(way, 7))
			store_word(work, to + size * index, size, value, known);
	}
	if (what == 6)
		set(way, RAX, value, size, known);
	if (what == 3 || what == 7) {
		if (what == 7) {
			value = get(way, RAX, size);
			known = is_known(way, RAX);
		}
		other = 0;
		known = known && is_known(way, 7) && load_word(work, to, size);
		other = known ? way->loaded : 0;
		set_flags(way, value, other, value - other, size, value < other);
		if (!known)
			forget_flags(way);
	}
	if (moves_from)
		way->words[6] = from + size * count;
	if (moves_to)
		way->words[7] = to + size * count;
	/* What a long copy reads: some lines more. */
	if (what == 2 && is_known(way, 6) && count > 16)
		for (index = 1; index < 4; index++)
			if (64 * index < size * count)
				touch(work, from + 64 * index);
}

/* Memory that is loaded into what is not followed, and that is written with it: of up to 64 bytes. */
static inline void touch_bytes(struct work *work, u64 address, u32 size)
{
	touch(work, address);
	if ((address & 63) + size > 64)
		touch(work, address + size - 1);
}

static inline void blur(struct work *work, u64 address, u32 size)
{
	u32 index;

	for (index = 0; index < 8; index++) {
		if (8 * index >= size)
			break;
		store_word(work, address + 8 * index, size - 8 * index < 8 ? size - 8 * index : 8, 0,
			   0);
	}
}

static inline void do_other(struct work *work, const struct insn *insn)
{
	struct way *way = &work->way;
	u64 address;

	way->known &= ~(insn->forgotten & 0xffff);
	forget_flags(way);
	if (insn->flags & OPERAND_MEMORY) {
		if (!address_of(way, insn, &address))
			return;
		touch_bytes(work, address, 8);
		blur(work, address, 8);
		return;
	}
	forget(way, insn->rm);
	forget(way, insn->reg);
}

/* The coprocessor: only memory, and where its flags go. */
static inline void do_float_stack(struct work *work, const struct insn *insn)
{
	struct way *way = &work->way;
	u32 size = insn->width & 0x7f;
	u64 address;

	/* No interrupt shows the stack. */
	way->lacks = 1;
	if (insn->flags & OPERAND_MEMORY) {
		if (!address_of(way, insn, &address))
			return;
		if (insn->width & 0x80)
			blur(work, address, size);
		else
			touch_bytes(work, address, size);
		return;
	}
	if (insn->op == 0xdf && insn->width == 4)
		forget(way, RAX);
	if ((insn->op == 0xdb || insn->op == 0xdf) && (insn->width == 5 || insn->width == 6))
		forget_flags(way);
}

/* What is done apart from the others, since each of them is long. */
SUBPROGRAM int follow_rare(struct work *work, struct insn *insn)
{
	if (!work || !insn)
		return 0;
	switch (insn->kind) {
	case KIND_SHIFT:
		do_shift(work, insn);
		break;
	case KIND_MULTIPLY:
		do_multiply(work, insn);
		break;
	case KIND_WIDE:
		do_wide(work, insn);
		break;
	case KIND_BIT:
		do_bit(work, insn);
		break;
	case KIND_EXCHANGE:
	case KIND_ADD_EXCHANGE:
		do_exchange(work, insn);
		break;
	case KIND_COMPARE_EXCHANGE:
		do_compare_exchange(work, insn);
		break;
	case KIND_SCAN:
		do_scan(work, insn);
		break;
	case KIND_SWAP:
		do_swap(work, insn);
		break;
	case KIND_BMI:
		do_bmi(work, insn);
		break;
	case KIND_FLOAT_STACK:
		do_float_stack(work, insn);
		break;
	case KIND_STRING:
		do_string(work, insn);
		break;
	default:
		do_other(work, insn);
		break;
	}
	return 0;
}

#endif
