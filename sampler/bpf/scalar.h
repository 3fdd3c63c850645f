/*
 * Instructions of floating point, as far as a way follows them: of the lowest element, and of all.
 * Part of way.h, as instruction.h.
 */
#ifndef VCPI_SCALAR_H
#define VCPI_SCALAR_H

#include "float.h"

/* Of a comparison all bits or none, as its constant says. */
SUBPROGRAM u64 float_compared(u32 how, u64 a, u64 b)
{
	u32 order = float_order(a, b), kind = how & 3, holds;

	if (kind == 0)
		holds = order == ORDER_EQUAL;
	else if (kind == 1)
		holds = order == ORDER_BELOW;
	else if (kind == 2)
		holds = order <= ORDER_BELOW;
	else
		holds = order == ORDER_NONE;
	return -(u64)(holds ^ (how >> 2 & 1));
}

/* What needs no rounding, into lanes.result: the lesser, the greater, a whole number, an integer.
 */
SUBPROGRAM int float_simple(struct work *work, u32 action)
{
	struct lanes *lanes;
	u32 order;

	if (!work)
		return 0;
	lanes = &work->way.lanes;
	lanes->result = lanes->y;
	if (action == FLOAT_LEAST || action == FLOAT_MOST) {
		order = float_order(lanes->x, lanes->y);
		if (order == (action == FLOAT_LEAST ? ORDER_BELOW : ORDER_ABOVE))
			lanes->result = lanes->x;
	} else if (action == FLOAT_ROUND) {
		lanes->result = float_whole(lanes->y, lanes->how);
	} else if (action == FLOAT_TO_GENERAL) {
		lanes->result = float_whole(lanes->y, 0);
	} else if (action == FLOAT_OF_GENERAL || action == FLOAT_OF_PARTS) {
		float_of_integer(lanes, (s64)lanes->y);
	}
	return 0;
}

/* Singles become doubles before they are joined, and singles again. */
SUBPROGRAM int float_widen(struct work *work)
{
	struct lanes *lanes;

	if (!work)
		return 0;
	lanes = &work->way.lanes;
	lanes->x = widened(lanes->x);
	lanes->y = widened(lanes->y);
	lanes->z = widened(lanes->z);
	return 0;
}

SUBPROGRAM int float_narrow(struct work *work)
{
	if (work)
		work->way.lanes.result = narrowed(work->way.lanes.result);
	return 0;
}

/* Joins lanes.x, y and z; the result is lanes.result, and known if lanes.result_known. */
SUBPROGRAM int float_join(struct work *work)
{
	struct lanes *lanes;
	u32 action, single;

	if (!work)
		return 0;
	lanes = &work->way.lanes;
	action = lanes->action;
	single = lanes->element == 4;
	lanes->rounds = 0;
	lanes->result_known = 0;
	if ((single && action != FLOAT_NARROW && action != FLOAT_OF_GENERAL &&
	     action != FLOAT_OF_PARTS) ||
	    action == FLOAT_WIDEN)
		float_widen(work);
	if (action == FLOAT_COMPARE) {
		lanes->result = float_compared(lanes->how, lanes->x, lanes->y);
		/* What is less than any normal number became unknown. */
		lanes->result_known = lanes->x != FLOAT_UNKNOWN && lanes->y != FLOAT_UNKNOWN &&
				      lanes->how < 8;
		return 0;
	}
	if (action != FLOAT_OF_GENERAL && action != FLOAT_OF_PARTS &&
	    (!is_plain(lanes->x) || !is_plain(lanes->y) || !is_plain(lanes->z)))
		return 0;
	if (action == FLOAT_ADD || action == FLOAT_SUB) {
		if (action == FLOAT_SUB)
			lanes->y ^= FLOAT_SIGN;
		float_sum(work);
	} else if (action == FLOAT_MULTIPLY) {
		float_product(work);
	} else if (action == FLOAT_DIVIDE) {
		float_quotient(work);
	} else if (action == FLOAT_ROOT) {
		float_root(work);
	} else if (action == FLOAT_FUSED) {
		/* The product, or its opposite, and another number, or its opposite. */
		if (lanes->how & 4)
			lanes->x ^= FLOAT_SIGN;
		if (lanes->how & 2)
			lanes->z ^= FLOAT_SIGN;
		if (is_zero(lanes->x) || is_zero(lanes->y)) {
			lanes->x = (lanes->x ^ lanes->y) & FLOAT_SIGN;
			lanes->y = lanes->z;
			float_sum(work);
		} else {
			float_align(work);
			float_fused(work);
		}
	} else {
		float_simple(work, action);
	}
	if (lanes->rounds)
		round_float(work);
	if (single && lanes->result != FLOAT_UNKNOWN && action != FLOAT_TO_GENERAL &&
	    action != FLOAT_TO_GENERAL_CUT)
		float_narrow(work);
	lanes->result_known = lanes->result != FLOAT_UNKNOWN;
	return 0;
}

static inline void compare_to_flags(struct way *way, const struct insn *insn)
{
	struct lanes *lanes = &way->lanes;
	u64 a = low_bytes(vector_word(way, insn->reg, 0), lanes->element), b = lanes->b[0];
	u32 order;

	if (lanes->element == 4) {
		a = widened(a);
		b = widened(b);
	}
	if (!(known_words(way, insn->reg) & lanes->b_known & 1) || a == FLOAT_UNKNOWN ||
	    b == FLOAT_UNKNOWN) {
		forget_flags(way);
		return;
	}
	order = float_order(a, b);
	set_register_flags(way, order == ORDER_EQUAL || order == ORDER_NONE, order == ORDER_NONE,
			   order == ORDER_BELOW || order == ORDER_NONE);
}

/* Whether the instruction says how it rounds. */
static inline int rounds_itself(const struct insn *insn)
{
	return is_evex(insn) && insn->mask & 0x40 && !(insn->flags & OPERAND_MEMORY);
}

/* The lowest element, of one operand, two or three. */
static inline void join_scalar(struct work *work, struct insn *insn)
{
	struct way *way = &work->way;
	struct lanes *lanes = &way->lanes;
	u32 action = lanes->action, size = lanes->element;
	u64 a = low_bytes(vector_word(way, insn->beside, 0), size);
	u64 c = low_bytes(vector_word(way, insn->reg, 0), size);

	lanes->made_known = lanes->b_known & 1;
	lanes->x = a;
	lanes->y = lanes->b[0];
	lanes->z = 0;
	if (action == FLOAT_FUSED) {
		lanes->made_known &= known_words(way, insn->beside) & known_words(way, insn->reg);
		lanes->how = insn->opcode;
		lanes->z = c;
		/* Which of the three are multiplied the opcode tells. */
		if ((insn->opcode & 0xf0) == 0x90) {
			lanes->x = c;
			lanes->z = a;
		} else if ((insn->opcode & 0xf0) == 0xa0) {
			lanes->y = c;
			lanes->z = lanes->b[0];
		}
	} else if (action == FLOAT_OF_GENERAL) {
		lanes->y = extended(lanes->y, lanes->low);
	} else if (action == FLOAT_ROOT || action == FLOAT_ROUND || action == FLOAT_WIDEN ||
		   action == FLOAT_NARROW) {
		lanes->x = 0;
	} else {
		lanes->made_known &= known_words(way, insn->beside);
	}
	if (rounds_itself(insn) || (action == FLOAT_ROUND && is_evex(insn) && lanes->how >> 4))
		lanes->made_known = 0;
	float_join(work);
	/* Of three, what is above stays. */
	write_scalar(way, insn, action == FLOAT_FUSED ? insn->reg : insn->beside, lanes->result,
		     lanes->made_known & lanes->result_known);
}

/* As an integer into a general register. */
static inline void to_general(struct work *work, struct insn *insn)
{
	struct way *way = &work->way;
	struct lanes *lanes = &way->lanes;
	u32 size = insn->flags & OPERAND_WIDE ? 8 : 4;

	lanes->x = 0;
	lanes->y = lanes->b[0];
	lanes->z = 0;
	float_join(work);
	if (rounds_itself(insn))
		lanes->result_known = 0;
	set(way, insn->reg & 15, float_integer(lanes->result, size), size,
	    lanes->b_known & lanes->result_known);
}

/* One element that becomes larger or smaller, or was an integer. */
static inline void convert_float(struct work *work, u32 index)
{
	struct lanes *lanes = &work->way.lanes;
	u32 from = within(lanes->action == FLOAT_NARROW ? index : index >> 1, 7);
	u32 to = within(index * lanes->element >> 3, 7);

	lanes->x = 0;
	lanes->y = lanes->b[from];
	lanes->z = 0;
	if (!(lanes->b_known >> from & 1))
		lanes->made_known &= ~(1U << to);
	if (lanes->action != FLOAT_NARROW)
		lanes->y = index & 1 ? lanes->y >> 32 : (u32)lanes->y;
	if (lanes->action == FLOAT_OF_PARTS)
		lanes->y = extended(lanes->y, 4);
	float_join(work);
	if (lanes->element == 4 && index & 1)
		lanes->made[to] |= lanes->result << 32;
	else
		lanes->made[to] |= lanes->result;
	if (!lanes->result_known)
		lanes->made_known &= ~(1U << to);
}

SUBPROGRAM int convert_floats(struct work *work)
{
	struct lanes *lanes;
	u32 index;

	if (!work)
		return 0;
	lanes = &work->way.lanes;
	lanes->writes = 1;
	lanes->made_known = 0xff;
	for (index = 0; index < 8; index++)
		lanes->made[index] = 0;
	lanes->count = lanes->words;
	if (lanes->action == FLOAT_OF_PARTS && lanes->element == 4)
		lanes->count *= 2;
	for (index = 0; index < 16; index++) {
		if (index >= lanes->count)
			break;
		convert_float(work, index);
	}
	if (lanes->action == FLOAT_NARROW)
		lanes->words = 2;
	return 0;
}

/* One word of elements. */
static inline void join_float_word(struct work *work, u32 word, u32 single)
{
	struct lanes *lanes = &work->way.lanes;

	lanes->x = lanes->a[word];
	lanes->y = lanes->b[word];
	lanes->z = 0;
	if (single) {
		lanes->x = (u32)lanes->x;
		lanes->y = (u32)lanes->y;
	}
	if (lanes->action == FLOAT_ROOT || lanes->action == FLOAT_ROUND)
		lanes->x = 0;
	float_join(work);
	lanes->made[word] = lanes->result;
	if (!lanes->result_known)
		lanes->made_known &= ~(1U << word);
	if (!single)
		return;
	lanes->made[word] = (u32)lanes->result;
	lanes->x = lanes->a[word] >> 32;
	lanes->y = lanes->b[word] >> 32;
	lanes->z = 0;
	if (lanes->action == FLOAT_ROOT || lanes->action == FLOAT_ROUND)
		lanes->x = 0;
	float_join(work);
	lanes->made[word] |= lanes->result << 32;
	if (!lanes->result_known)
		lanes->made_known &= ~(1U << word);
}

/* What there is of floating point but whole registers' elements that are joined. */
SUBPROGRAM int follow_scalar(struct work *work, struct insn *insn)
{
	struct lanes *lanes;

	if (!work || !insn)
		return 0;
	lanes = &work->way.lanes;
	lanes->how = insn->value & 0xff;
	if (lanes->action == FLOAT_FLAGS)
		compare_to_flags(&work->way, insn);
	else if (lanes->action == FLOAT_COMPARE && is_evex(insn))
		set_mask(&work->way, insn->reg, 0, 0);
	else if (lanes->action == FLOAT_TO_GENERAL || lanes->action == FLOAT_TO_GENERAL_CUT)
		to_general(work, insn);
	else if (lanes->scalar)
		join_scalar(work, insn);
	return 0;
}

SUBPROGRAM int follow_float(struct work *work, struct insn *insn)
{
	struct lanes *lanes;
	u32 word;

	if (!work || !insn)
		return 0;
	lanes = &work->way.lanes;
	lanes->how = insn->value & 0xff;
	lanes->writes = 1;
	read_beside(&work->way, insn);
	lanes->made_known = lanes->b_known;
	if (lanes->action != FLOAT_ROOT && lanes->action != FLOAT_ROUND)
		lanes->made_known &= lanes->a_known;
	if (rounds_itself(insn)) {
		/* That stands in place of the size. */
		lanes->words = 8;
		lanes->made_known &= lanes->action == FLOAT_ROUND ? 0xff : 0;
	}
	/* With a scale. */
	if (is_evex(insn) && lanes->action == FLOAT_ROUND && lanes->how >> 4)
		lanes->made_known = 0;
	for (word = 0; word < 8; word++) {
		if (word >= lanes->words)
			break;
		if (lanes->made_known >> word & 1)
			join_float_word(work, word, lanes->element == 4);
	}
	return 0;
}

#endif
