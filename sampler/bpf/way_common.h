/*
 * The commonest operations, which are done without a call. Part of way.h.
 */
#ifndef VCPI_WAY_COMMON_H
#define VCPI_WAY_COMMON_H

#include "way_state.h"

/* What an operation writes: nothing; the register; the operand `rm`; the stack. */
#define WRITES_NOTHING 0
#define WRITES_REGISTER 1
#define WRITES_OPERAND 2
#define WRITES_STACK 3

/* Sums, differences and their like. The operand becomes the result. */
static INLINE u32 do_binary(struct way *way, const struct insn *insn, struct operand *rm, u32 size)
{
	u64 a, b, result;
	u32 carry;
	int known_a, known_b, known;

	if (insn->flags & OPERAND_IMMEDIATE) {
		b = low_bytes((s64)insn->value, size);
		known_b = 1;
	} else {
		b = get(way, insn->reg, size);
		known_b = is_known(way, insn->reg);
	}
	a = rm->value;
	known_a = rm->known;
	if (insn->flags & OPERAND_TO_REGISTER) {
		a = b;
		known_a = known_b;
		b = rm->value;
		known_b = rm->known;
	}
	known = known_a && known_b;
	/* What comes of a register and itself does not depend on it. */
	if (!(insn->flags & (OPERAND_MEMORY | OPERAND_IMMEDIATE)) && insn->reg == insn->rm &&
	    (insn->op == BINARY_XOR || insn->op == BINARY_SUB)) {
		a = b;
		known = 1;
		if (size >= 4)
			way->known |= 1U << (insn->rm & 15);
	}
	carry = 0;
	if (insn->op == BINARY_ADC || insn->op == BINARY_SBB) {
		carry = carry_of(way);
		if (carry > 1) {
			carry = 0;
			known = 0;
		}
	}
	switch (insn->op) {
	case BINARY_ADD:
	case BINARY_ADC:
		result = low_bytes(a + b + carry, size);
		set_flags(way, a, b, result, size, result < a || (carry && result == a));
		way->flags_sum = 1;
		break;
	case BINARY_SUB:
	case BINARY_CMP:
	case BINARY_SBB:
		result = low_bytes(a - b - carry, size);
		set_flags(way, a, b, result, size, a < b || (carry && a == b));
		break;
	case BINARY_OR:
		result = a | b;
		set_flags(way, result, 0, result, size, 0);
		break;
	case BINARY_XOR:
		result = a ^ b;
		set_flags(way, result, 0, result, size, 0);
		break;
	default:
		result = a & b;
		/* Zeros are zeros, whatever they meet. */
		if ((known_a && !a) || (known_b && !b))
			known = 1;
		set_flags(way, result, 0, result, size, 0);
		break;
	}
	if (!known)
		forget_flags(way);
	rm->value = result;
	rm->known = known;
	if (insn->op == BINARY_CMP || insn->op == BINARY_TEST)
		return WRITES_NOTHING;
	return insn->flags & OPERAND_TO_REGISTER ? WRITES_REGISTER : WRITES_OPERAND;
}

/* Moves, with or without extension. */
static INLINE u32 do_move(struct way *way, const struct insn *insn, struct operand *rm, u32 size)
{
	if (insn->flags & OPERAND_TO_REGISTER) {
		if (insn->flags & OPERAND_SIGNED)
			rm->value = extended(rm->value, bytes_of(insn->width));
		return WRITES_REGISTER;
	}
	rm->value = (s64)insn->value;
	rm->known = 1;
	if (!(insn->flags & OPERAND_IMMEDIATE)) {
		rm->value = get(way, insn->reg, size);
		rm->known = is_known(way, insn->reg);
	}
	return WRITES_OPERAND;
}

static INLINE u32 do_unary(struct way *way, const struct insn *insn, struct operand *rm, u32 size)
{
	u32 carry = carry_of(way);
	u64 result;

	switch (insn->op) {
	case UNARY_NOT:
		rm->value = ~rm->value;
		return WRITES_OPERAND;
	case UNARY_NEG:
		result = low_bytes(-rm->value, size);
		set_flags(way, 0, rm->value, result, size, rm->value != 0);
		break;
	case UNARY_INC:
		result = low_bytes(rm->value + 1, size);
		set_flags(way, rm->value, 1, result, size, carry);
		way->flags_sum = 1;
		break;
	default:
		result = low_bytes(rm->value - 1, size);
		set_flags(way, rm->value, 1, result, size, carry);
		break;
	}
	if (!rm->known)
		forget_flags(way);
	rm->value = result;
	return WRITES_OPERAND;
}

static INLINE void do_extend(struct way *way, const struct insn *insn)
{
	u32 size = bytes_of(insn->size);
	u64 value = get(way, RAX, size);
	int known = is_known(way, RAX);

	if (insn->op == 0x98)
		set(way, RAX, extended(value, size / 2), size, known);
	else
		set(way, RDX, (u64)((s64)extended(value, size) >> 63), size, known);
}

#endif
