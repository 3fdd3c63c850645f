/*
 * Instructions of vector registers, as far as a way follows them. vector_table.h says what is made
 * of each: most join their operands' elements (join.h), others move (move.h), join masks (mask.h),
 * search text (text.h) or calculate with floating point numbers (scalar.h). Of what is left only
 * what it reads and that it writes is followed. Part of way.h, as instruction.h.
 *
 * What an instruction reads is in lanes.b before it is joined, and the result is written behind
 * that, since calls of subprograms may be nested eight times at most.
 */
#ifndef VCPI_VECTOR_H
#define VCPI_VECTOR_H

#include "vector_table.h"
#include "lanes.h"
#include "vector_state.h"
#include "join.h"
#include "move.h"
#include "mask.h"
#include "text.h"

/* Of which only is followed what it reads, and that it writes. */
SUBPROGRAM int follow_other_vector(struct work *work, struct insn *insn)
{
	struct way *way;
	u32 map, prefix, opcode;
	int stores = 0, general = 0;

	if (!work || !insn)
		return 0;
	way = &work->way;
	map = insn->map & 15;
	prefix = insn->map >> 4;
	opcode = insn->opcode;
	/* Addresses that are vectors. */
	if (map == 2 && ((opcode & 0xfc) == 0x90 || (opcode & 0xfc) == 0xa0 ||
			 (opcode & 0xfe) == 0xc6)) {
		set_known_words(way, insn->reg, 0);
		set_known_words(way, insn->beside, 0);
		way->mask_known &= ~(1U << (insn->mask & 7));
		return 0;
	}
	if (map == 1) {
		stores = opcode == 0x11 || opcode == 0x13 || opcode == 0x17 || opcode == 0x29 ||
			 opcode == 0x2b || opcode == 0x7f || opcode == 0xe7 || opcode == 0x91 ||
			 opcode == 0xae ||
			 (opcode == 0xd6 && prefix <= PREFIX_66) ||
			 (opcode == 0x7e && prefix != PREFIX_F3);
		general = opcode == 0xd7 || opcode == 0x50 || opcode == 0x2c || opcode == 0x2d ||
			  opcode == 0x93 || opcode == 0xc5 ||
			  ((opcode == 0x78 || opcode == 0x79) && prefix >= PREFIX_F3 &&
			   is_evex(insn));
		if (opcode == 0x2e || opcode == 0x2f || (opcode & 0xfe) == 0x98)
			forget_flags(way);
		/* What is stored at rdi. */
		if (opcode == 0xf7 && is_known(way, 7)) {
			way->lanes.address = way->words[7];
			way->lanes.stores = 2;
		}
	} else if (map == 2) {
		stores = is_evex(insn) && prefix == PREFIX_F3 &&
			 ((opcode & 0xe8) == 0x20 || (opcode & 0xe8) == 0x00) && opcode >= 0x10;
		stores = stores || opcode == 0x2e || opcode == 0x2f || opcode == 0x8e ||
			 opcode == 0x63 || opcode == 0x8a || opcode == 0x8b;
		if (opcode == 0x17 || opcode == 0x0e || opcode == 0x0f)
			forget_flags(way);
	} else {
		stores = (opcode >= 0x14 && opcode <= 0x17) || opcode == 0x19 || opcode == 0x1b ||
			 opcode == 0x39 || opcode == 0x3b || opcode == 0x1d;
		if (opcode >= 0x60 && opcode <= 0x63) {
			forget_flags(way);
			forget(way, RCX);
			set_known_words(way, 0, 0);
		}
	}
	if (is_evex(insn) || (map == 1 && (opcode & 0xf0) == 0x40) || opcode == 0x90 ||
	    opcode == 0x92 || (opcode & 0xfc) == 0x30 || opcode == 0x68)
		way->mask_known &= ~(3U << (insn->reg & 6));
	if (way->lanes.placed && stores)
		way->lanes.stores = 2;
	else if (way->lanes.placed)
		touch_bytes(work, way->lanes.address, insn->size);
	/* Shifts write what only VEX names. */
	if (map == 1 && opcode >= 0x71 && opcode <= 0x73) {
		set_known_words(way, insn->beside, 0);
		set_known_words(way, insn->rm, 0);
	}
	if (general)
		forget(way, insn->reg);
	else if (!stores)
		set_known_words(way, insn->reg, 0);
	else if (!(insn->flags & OPERAND_MEMORY)) {
		set_known_words(way, insn->rm, 0);
		forget(way, insn->rm);
	}
	return 0;
}

#include "scalar.h"

/* Whether the instruction only has the opcode of the action, or has a form of it that is rare. */
static inline int is_another(const struct insn *insn, u32 action, u32 scalar)
{
	u32 map = insn->map & 15;

	/* Halves of sixteen bytes are doubled each for itself. */
	if (action == WIDE_REPEAT)
		return map == 1 && insn->size != 16;
	/* Without VEX the first register chooses, with it a fourth one. */
	if (action == JOIN_CHOOSE && insn->width != (map == 2))
		return 1;
	if (!is_evex(insn))
		return 0;
	return action == JOIN_CHOOSE || action == JOIN_BLEND || action == WIDE_LANES ||
	       (!scalar && (action == FLOAT_WIDEN || action == FLOAT_NARROW ||
			    action == FLOAT_OF_PARTS));
}

/* Reads the operand `rm`, of lanes.read words or of lanes.low bytes, into lanes.b. */
static inline void read_operand(struct work *work, struct insn *insn)
{
	struct lanes *lanes = &work->way.lanes;

	if (!(insn->flags & OPERAND_MEMORY)) {
		read_registers(work, insn);
		return;
	}
	if (!lanes->placed)
		return;
	if (is_evex(insn) && insn->mask & 0x40 && lanes->read)
		lanes->low = lanes->element == 8 ? 8 : 4;
	if (lanes->low) {
		read_element(work);
		return;
	}
	if (is_masked(insn))
		find_left_out(work, insn);
	else
		lanes->left_out = 0;
	if (lanes->address & 7)
		read_unaligned(work);
	else
		read_aligned(work);
}

static inline void follow_action(struct work *work, struct insn *insn)
{
	u32 action = work->way.lanes.action;

	if (!action)
		follow_other_vector(work, insn);
	else if (action <= JOIN_LAST)
		follow_join(work, insn);
	else if (action <= LANE_LAST)
		follow_lanes(work, insn);
	else if (action == MOVE_TEXT)
		follow_text(work, insn);
	else if (action <= MOVE_LAST)
		follow_move(work, insn);
	else if (action <= WIDE_LAST)
		follow_wide(work, insn);
	else if (action >= FLOAT_ADD && (work->way.lanes.scalar || (action == FLOAT_COMPARE &&
								    is_evex(insn))))
		follow_scalar(work, insn);
	else if (action == FLOAT_WIDEN || action == FLOAT_NARROW || action == FLOAT_OF_PARTS)
		convert_floats(work);
	else if (action >= FLOAT_ADD)
		follow_float(work, insn);
	else if (insn->width || is_evex(insn))
		return;
	else if (action == MASK_STORE)
		store_mask(work, insn);
	else
		follow_mask(work, insn);
}

/* What the table says of an instruction, into lanes. */
SUBPROGRAM int find_action(struct work *work, struct insn *insn)
{
	struct vector_action of;
	struct lanes *lanes;
	u32 action;

	if (!work || !insn)
		return 0;
	lanes = &work->way.lanes;
	of = vector_actions[within((((insn->map & 3) - 1) << 10) | (u32)(insn->map >> 4 & 3) << 8 |
				   insn->opcode, 4095)];
	action = of.action;
	if (action == JOIN_SHIFT && of.element == 8 && (insn->reg & 3) == 3)
		action = LANE_ALIGN_BY;
	if (is_another(insn, action, of.element & SCALAR))
		action = 0;
	lanes->action = action;
	lanes->element = element_bytes(insn, of.element);
	if (action == FLOAT_FUSED || ((action == MOVE_PART || action == MOVE_PART_STORE) &&
				      !of.element))
		lanes->element = insn->flags & OPERAND_WIDE ? 8 : 4;
	lanes->words = words_of(insn);
	lanes->to = insn->reg;
	lanes->writes = 0;
	lanes->stores = 0;
	lanes->first = 0;
	lanes->scalar = of.element & SCALAR;
	lanes->read = words_read(insn, lanes);
	lanes->low = bytes_read(insn, lanes);
	lanes->b_known = 0;
	lanes->placed = insn->flags & OPERAND_MEMORY &&
			address_of(&work->way, insn, &lanes->address);
	return action && (lanes->read || lanes->low);
}

/* Whether an instruction wants what no interrupt shows: a vector register that is not known, or how
 * numbers are rounded. Each one of x87 does. */
static inline u32 lacks_vectors(const struct way *way, const struct insn *insn)
{
	const struct lanes *lanes = &way->lanes;
	u32 all = (1U << (lanes->words & 15)) - 1;

	if (!lanes->action || lanes->action >= FLOAT_ADD)
		return 1;
	if (lanes->writes)
		return (lanes->made_known & all) != all;
	if (lanes->stores)
		return (known_words(way, insn->reg) & all) != all;
	return (lanes->read || lanes->low) && !lanes->general && !(lanes->b_known & 1);
}

SUBPROGRAM int follow_vector(struct work *work, struct insn *insn)
{
	u32 word;

	if (!work || !insn)
		return 0;
	if (find_action(work, insn))
		read_operand(work, insn);
	follow_action(work, insn);
	work->way.lacks |= lacks_vectors(&work->way, insn);
	if (work->way.lanes.writes)
		write_vector(work, insn);
	for (word = 0; word < 8; word++) {
		if (!work->way.lanes.stores || word >= work->way.lanes.words)
			break;
		store_vector_word(work, insn, word);
	}
	return 0;
}

#endif
