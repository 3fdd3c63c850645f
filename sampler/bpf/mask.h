/*
 * Instructions of mask registers, as far as a way follows them. Part of way.h, as instruction.h.
 */
#ifndef VCPI_MASK_H
#define VCPI_MASK_H

/* Two masks joined. */
static inline void join_masks(struct way *way, const struct insn *insn, u32 size)
{
	u64 a = way->masks[insn->beside & 7], b = way->masks[insn->rm & 7], result;
	int known = mask_is_known(way, insn->rm);
	int same = (insn->beside & 7) == (insn->rm & 7);

	/* The other one does not matter to a mask that is turned round. */
	if (insn->opcode != 0x44)
		known = known && mask_is_known(way, insn->beside);
	switch (insn->opcode) {
	case 0x41:
		result = a & b;
		break;
	case 0x42:
		result = ~a & b;
		known = known || same;
		break;
	case 0x44:
		result = ~b;
		break;
	case 0x45:
		result = a | b;
		break;
	case 0x46:
		result = ~(a ^ b);
		known = known || same;
		break;
	case 0x47:
		result = a ^ b;
		known = known || same;
		break;
	case 0x4a:
		result = low_bytes(a, size) + low_bytes(b, size);
		break;
	case 0x4b:
		/* Of two halves one: by the prefix and W, the size of a half. */
		size = insn->flags & OPERAND_WIDE ? 4 : (insn->map >> 4) == PREFIX_66 ? 1 : 2;
		result = low_bytes(b, size) | low_bytes(a, size) << 8 * size;
		size *= 2;
		break;
	default:
		result = 0;
		known = 0;
		break;
	}
	set_mask(way, insn->reg, low_bytes(result, size), known);
}

SUBPROGRAM int store_mask(struct work *work, struct insn *insn)
{
	struct way *way;
	u32 size;

	if (!work || !insn || !work->way.lanes.placed)
		return 0;
	way = &work->way;
	size = mask_bytes(insn, MASK_STORE);
	store_word(work, way->lanes.address, size, way->masks[insn->reg & 7],
		   mask_is_known(way, insn->reg));
	return 0;
}

SUBPROGRAM int follow_mask(struct work *work, struct insn *insn)
{
	struct way *way;
	u64 a, b, value = 0;
	u32 size, count, action;
	int known = 0;

	if (!work || !insn)
		return 0;
	way = &work->way;
	action = way->lanes.action;
	size = mask_bytes(insn, action);
	a = low_bytes(way->masks[insn->reg & 7], size);
	b = low_bytes(way->masks[insn->rm & 7], size);
	switch (action) {
	case MASK_JOIN:
		join_masks(way, insn, size);
		break;
	case MASK_LOAD:
		if (insn->flags & OPERAND_MEMORY)
			set_mask(way, insn->reg, way->lanes.b[0], way->lanes.b_known & 1);
		else
			set_mask(way, insn->reg, b, mask_is_known(way, insn->rm));
		break;
	case MASK_GENERAL:
		set_mask(way, insn->reg, get(way, insn->rm & 15, size),
			 is_known(way, insn->rm & 15));
		break;
	case MASK_GENERAL_STORE:
		set(way, insn->reg & 15, b, 8, mask_is_known(way, insn->rm));
		break;
	case MASK_TEST:
		known = mask_is_known(way, insn->reg) && mask_is_known(way, insn->rm);
		if (!known)
			forget_flags(way);
		else if (insn->opcode == 0x98)
			set_register_flags(way, !(a | b), 0,
					   (a | b) == low_bytes(~0ULL, size));
		else
			set_register_flags(way, !(a & b), 0, !(~a & b));
		break;
	default:
		count = insn->value & 0xff;
		value = insn->opcode & 2 ? b << (count & 63) : b >> (count & 63);
		if (count >= 8 * size)
			value = 0;
		set_mask(way, insn->reg, low_bytes(value, size), mask_is_known(way, insn->rm));
		break;
	}
	return 0;
}

#endif
