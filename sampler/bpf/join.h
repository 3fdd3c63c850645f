/*
 * Instructions that join the operands' elements, as far as a way follows them: word by word, to a
 * mask, or across the words of sixteen bytes. Part of way.h, as instruction.h.
 */
#ifndef VCPI_JOIN_H
#define VCPI_JOIN_H

/* One word's bits of the mask that comes of a comparison of lanes.a and lanes.b, into lanes.count.
 */
SUBPROGRAM int compare_word(struct work *work, struct insn *insn, u32 word)
{
	struct lanes *lanes;
	u32 action, element;
	u64 a, b, tops;

	if (!work || !insn)
		return 0;
	lanes = &work->way.lanes;
	word &= 7;
	a = lanes->a[word];
	b = lanes->b[word];
	action = lanes->action;
	element = lanes->element;
	tops = tops_of(element);
	if (action == JOIN_COMPARE_SIGNED || action == JOIN_GREATER) {
		a ^= tops;
		b ^= tops;
	} else if (action == JOIN_TEST || action == JOIN_TEST_NOT) {
		a &= b;
		b = 0;
	}
	a = gathered(compare_words(lanes->how, a, b, element), element);
	lanes->count |= a << (8 / element * word & 63);
	if (!is_masked(insn))
		return 0;
	a = kept_bytes(work, insn, word, element);
	/* Of a word that was loaded with a mask, only what that let through counts here, too. */
	if (!a || (lanes->kept_of == insn->beside + 1U && lanes->kept_word == word &&
		   !(a & ~lanes->kept) && lanes->b_known >> word & 1))
		lanes->made_known |= 1U << word;
	return 0;
}

/* The mask that comes of a comparison of lanes.a and lanes.b. */
static inline void compare_to_mask(struct work *work, struct insn *insn)
{
	struct way *way = &work->way;
	struct lanes *lanes = &way->lanes;
	u32 word, action = lanes->action;
	int known;

	lanes->how = insn->value & 7;
	if (action == JOIN_EQUAL || action == JOIN_TEST_NOT)
		lanes->how = 0;
	else if (action == JOIN_TEST)
		lanes->how = 4;
	else if (action == JOIN_GREATER)
		lanes->how = 6;
	lanes->count = 0;
	for (word = 0; word < 8; word++) {
		if (word >= lanes->words)
			break;
		compare_word(work, insn, word);
	}
	known = !(~lanes->made_known & ((1U << (lanes->words & 15)) - 1));
	if (is_masked(insn)) {
		lanes->count &= way->masks[insn->mask & 7];
		known = known && mask_is_known(way, insn->mask);
	}
	set_mask(way, insn->reg, lanes->count, known);
}

/* The register whose top bits choose. */
static inline u32 chooser_of(const struct insn *insn)
{
	return insn->width ? 0 : insn->value >> 4 & 15;
}

/* Which words of the result are known: of most those that are in both operands. */
static inline void find_known(struct way *way, const struct insn *insn)
{
	struct lanes *lanes = &way->lanes;
	int same = !(insn->flags & OPERAND_MEMORY) && insn->rm == insn->beside;
	u32 action = lanes->action, table = insn->value & 0xff;

	lanes->made_known = lanes->a_known & lanes->b_known;
	if (action == JOIN_SECOND || action == JOIN_ABSOLUTE || action == JOIN_SHIFT)
		lanes->made_known = lanes->b_known;
	else if (action == JOIN_SHIFT_BY)
		lanes->made_known = lanes->b_known & 1 ? lanes->a_known : 0;
	else if (action == JOIN_LOGIC)
		lanes->made_known = table == 0 || table == 0xff ? 0xff :
				    lanes->made_known & known_words(way, insn->reg);
	else if (action == JOIN_CHOOSE)
		lanes->made_known &= known_words(way, chooser_of(insn));
	else if (same && (action == JOIN_XOR || action == JOIN_SUB || action == JOIN_AND_NOT ||
			  action == JOIN_EQUAL || action == JOIN_GREATER ||
			  action == JOIN_SUB_DOWN))
		lanes->made_known = 0xff;
}

/* Joins one word of both operands. */
SUBPROGRAM int join_word(struct work *work, struct insn *insn, u32 word)
{
	struct lanes *lanes;
	u64 a, b;
	u32 bit;

	if (!work || !insn)
		return 0;
	lanes = &work->way.lanes;
	word &= 7;
	bit = 1U << word;
	a = lanes->a[word];
	b = lanes->b[word];
	if (lanes->action == JOIN_SHIFT)
		lanes->made[word] = shift_words(lanes->how, b, lanes->count, lanes->element);
	else if (lanes->action == JOIN_SHIFT_BY)
		lanes->made[word] = shift_words(lanes->how, a, lanes->count, lanes->element);
	else if (lanes->action == JOIN_LOGIC)
		lanes->made[word] = by_table(insn->value, vector_word(&work->way, insn->reg, word),
					     a, b);
	else if (lanes->action == JOIN_BLEND)
		lanes->made[word] = chosen(spread((u32)(insn->value & 0xff) >>
						  (lanes->element == 2 ? 4 * (word & 1) :
						   8 / lanes->element * word), lanes->element),
					   b, a);
	else if (lanes->action == JOIN_CHOOSE)
		lanes->made[word] = chosen(filled(vector_word(&work->way, chooser_of(insn), word) &
						  tops_of(lanes->element), lanes->element), b, a);
	else
		lanes->made[word] = join_words(lanes->action, a, b, lanes->element);
	/* Zeros are zeros, whatever they meet. */
	if (lanes->action == JOIN_AND &&
	    ((lanes->a_known & bit && !a) || (lanes->b_known & bit && !b)))
		lanes->made_known |= bit;
	return 0;
}

/* What joins two operands word by word. */
SUBPROGRAM int follow_join(struct work *work, struct insn *insn)
{
	struct lanes *lanes;
	struct way *way;
	u32 word, action;

	if (!work || !insn)
		return 0;
	way = &work->way;
	lanes = &way->lanes;
	action = lanes->action;
	if (action == JOIN_SECOND) {
		/* Most are moves. */
		for (word = 0; word < 8; word++)
			lanes->made[word] = lanes->b[word];
		lanes->made_known = lanes->b_known;
		lanes->writes = 1;
		return 0;
	}
	read_beside(way, insn);
	find_known(way, insn);
	if ((action >= JOIN_COMPARE && action <= JOIN_TEST_NOT) ||
	    ((action == JOIN_EQUAL || action == JOIN_GREATER) && is_evex(insn))) {
		if (is_evex(insn))
			compare_to_mask(work, insn);
		return 0;
	}
	if (action == JOIN_SHIFT) {
		lanes->how = insn->reg & 7;
		lanes->count = insn->value & 0xff;
		lanes->to = insn->width ? insn->rm : insn->beside;
		/* Of rotations only that they write. */
		if (lanes->how & 1 || !lanes->how)
			lanes->made_known = 0;
	} else if (action == JOIN_SHIFT_BY) {
		lanes->count = lanes->b[0];
		lanes->how = insn->opcode >= 0xf0 ? 6 : insn->opcode >= 0xe0 ? 4 : 2;
	}
	for (word = 0; word < 8; word++) {
		if (word >= lanes->words)
			break;
		join_word(work, insn, word);
	}
	lanes->writes = 1;
	return 0;
}

static inline void pack_lane(struct work *work, u32 at)
{
	u32 index;

	for (index = 0; index < 16; index++) {
		if (index * work->way.lanes.element >= 16)
			break;
		pack_element(work, at, index);
	}
}

/* What goes across the words of sixteen bytes. */
SUBPROGRAM int follow_lanes(struct work *work, struct insn *insn)
{
	struct lanes *lanes;
	struct way *way;
	u32 at, imm, word;

	if (!work || !insn)
		return 0;
	way = &work->way;
	lanes = &way->lanes;
	lanes->made_known = 0;
	imm = insn->value & 0xff;
	read_beside(way, insn);
	if (lanes->action == LANE_ALIGN_BY) {
		/* By bytes: zeros come in from one side. */
		lanes->to = insn->width ? insn->rm : insn->beside;
		lanes->element = 8;
		if ((insn->reg & 7) == 7) {
			imm = imm < 16 ? 16 - imm : 0;
			for (word = 0; word < 8; word++) {
				lanes->a[word] = lanes->b[word];
				lanes->b[word] = 0;
			}
			lanes->a_known = lanes->b_known;
			lanes->b_known = 0xff;
		} else {
			for (word = 0; word < 8; word++)
				lanes->a[word] = 0;
			lanes->a_known = 0xff;
		}
	}
	for (at = 0; at < 8; at += 2) {
		if (at >= lanes->words)
			break;
		if (lanes->action == LANE_LOW || lanes->action == LANE_HIGH)
			zip_lane(work, at, lanes->action == LANE_HIGH);
		else if (lanes->action == LANE_BYTES)
			shuffle_lane(work, at);
		else if (lanes->action == LANE_ALIGN || lanes->action == LANE_ALIGN_BY)
			align_lane(work, at, imm);
		else if (lanes->action == LANE_OF_BOTH && lanes->element == 8)
			choose_lane(work, at, imm);
		else if (lanes->action == LANE_QUARTERS || lanes->action == LANE_OF_BOTH)
			order_lane(work, at, imm);
		else if (lanes->action == LANE_PACK || lanes->action == LANE_PACK_SIGNED)
			pack_lane(work, at);
		else
			order_half(work, at, imm);
	}
	lanes->writes = 1;
	return 0;
}

#endif
