/*
 * Registers of vectors and masks, as a way has them: what of them is known, what an instruction
 * reads of them and of memory, and what a mask lets through. Part of way.h, as instruction.h.
 */
#ifndef VCPI_VECTOR_STATE_H
#define VCPI_VECTOR_STATE_H

/* Which words of a register are known: a bit each. */
static inline u32 known_words(const struct way *way, u32 number)
{
	return way->vector_known[number >> 3 & 3] >> (8 * (number & 7)) & 0xff;
}

static inline void set_known_words(struct way *way, u32 number, u32 known)
{
	u64 *of = &way->vector_known[number >> 3 & 3];
	u32 shift = 8 * (number & 7);

	*of = (*of & ~(0xffULL << shift)) | (u64)(known & 0xff) << shift;
	if (way->lanes.kept_of == number + 1)
		way->lanes.kept_of = 0;
}

static inline u64 vector_word(const struct way *way, u32 number, u32 word)
{
	return way->vectors[within(number, 31)][within(word, 7)];
}

/* None is known at first, and no mask. */
static inline void begin_vectors(struct way *way)
{
	u32 index;

	for (index = 0; index < 4; index++)
		way->vector_known[index] = 0;
	way->mask_known = 0;
	way->lanes.kept_of = 0;
}

static inline u32 words_of(const struct insn *insn)
{
	return insn->size == 64 ? 8 : insn->size == 32 ? 4 : 2;
}

static inline int is_evex(const struct insn *insn)
{
	return insn->flags & OPERAND_EVEX;
}

static inline int is_masked(const struct insn *insn)
{
	return is_evex(insn) && insn->mask & 7;
}

static inline int mask_is_known(const struct way *way, u32 number)
{
	return way->mask_known >> (number & 7) & 1;
}

static inline void set_mask(struct way *way, u32 number, u64 value, int known)
{
	u32 bit = 1U << (number & 7);

	way->masks[number & 7] = value;
	way->mask_known = known ? way->mask_known | bit : way->mask_known & ~bit;
}

static inline void set_register_flags(struct way *way, int zero, int parity, int carry)
{
	way->flags_size = FLAGS_OF_REGISTER;
	way->flags_a = (u64)(zero != 0) << 6 | (u64)(parity != 0) << 2 | (carry != 0);
}

/* Bytes of an element, as the table has them. */
static inline u32 element_bytes(const struct insn *insn, u32 element)
{
	int wide = is_evex(insn) && insn->flags & OPERAND_WIDE;

	if (element == BY_WIDE)
		return wide ? 8 : 4;
	if (element == BY_WIDE_BYTES)
		return wide ? 2 : 1;
	return element & 15;
}

/* Of one word of a register the bytes that the instruction's mask lets through. */
SUBPROGRAM u64 kept_bytes(struct work *work, struct insn *insn, u32 word, u32 element)
{
	u64 bits;

	if (!work || !insn || !is_masked(insn))
		return ~0ULL;
	bits = work->way.masks[insn->mask & 7];
	return spread(bits >> (8 / element * word & 63), element);
}

/* Bytes of elements that are widened. */
static inline u32 extended_part(const struct insn *insn)
{
	u32 kind = insn->opcode & 7;

	return kind < 3 ? 1 : kind < 5 ? 2 : 4;
}

/* How many words of the second operand are read; 0: it is one or less, or there is none. */
static inline u32 words_read(const struct insn *insn, const struct lanes *lanes)
{
	u32 action = lanes->action;

	if (action == JOIN_SHIFT_BY)
		return 2;
	if (action == WIDE_EXTEND || action == WIDE_EXTEND_SIGNED)
		return lanes->words * extended_part(insn) / lanes->element;
	if (action >= WIDE_REPEAT_LANE && action <= WIDE_INSERT_HALF)
		return action & 1 ? 4 : 2;
	if (!lanes->scalar && (action == FLOAT_WIDEN ||
			       (action == FLOAT_OF_PARTS && lanes->element == 8)))
		return lanes->words / 2;
	if (action == WIDE_PERMUTE || action == WIDE_LANES)
		return lanes->words;
	if (action <= LANE_LAST || action == MOVE_TEST || action == MOVE_TEXT ||
	    (action >= FLOAT_ADD && !lanes->scalar))
		return lanes->words;
	return 0;
}

/* Bytes of a mask: by the prefix and W; of those that move from and to general registers
 * otherwise. */
static inline u32 mask_bytes(const struct insn *insn, u32 action)
{
	u32 prefix = insn->map >> 4;
	int wide = insn->flags & OPERAND_WIDE;

	if (action == MASK_SHIFT)
		return insn->opcode & 1 ? (wide ? 8 : 4) : wide ? 2 : 1;
	if (action == MASK_GENERAL || action == MASK_GENERAL_STORE)
		return prefix == PREFIX_F2 ? (wide ? 8 : 4) : prefix == PREFIX_66 ? 1 : 2;
	if (wide)
		return prefix == PREFIX_66 ? 4 : 8;
	return prefix == PREFIX_66 ? 1 : 2;
}

/* How many bytes it has, where it has no more than a word. */
static inline u32 bytes_read(const struct insn *insn, struct lanes *lanes)
{
	u32 action = lanes->action;

	lanes->general = action == MOVE_GENERAL || action == MOVE_PART ||
			 action == WIDE_REPEAT_GENERAL || action == FLOAT_OF_GENERAL;
	if (lanes->read)
		return 0;
	if (action == MOVE_GENERAL || action == FLOAT_OF_GENERAL)
		return insn->flags & OPERAND_WIDE ? 8 : 4;
	if (action == MOVE_PART || action == MOVE_LOW)
		return lanes->element;
	if (action == MOVE_WORD || action == MOVE_HALF)
		return 8;
	if (action == WIDE_REPEAT || action == WIDE_REPEAT_GENERAL)
		return lanes->element;
	if (action == WIDE_EXTEND || action == WIDE_EXTEND_SIGNED)
		return lanes->words * extended_part(insn) * (8 / lanes->element);
	if (action == MASK_LOAD)
		return mask_bytes(insn, action);
	if (action >= FLOAT_ADD)
		return action == FLOAT_WIDEN ? 4 : action == FLOAT_NARROW ? 8 : lanes->element;
	return 0;
}

/* Words that the mask of an instruction leaves out, if its elements are those of its memory. */
SUBPROGRAM int find_left_out(struct work *work, struct insn *insn)
{
	struct lanes *lanes;
	u32 word;

	if (!work || !insn)
		return 0;
	lanes = &work->way.lanes;
	lanes->left_out = 0;
	if (!is_masked(insn) || !mask_is_known(&work->way, insn->mask) ||
	    (lanes->action > JOIN_LAST && lanes->action < FLOAT_ADD) ||
	    lanes->action == JOIN_SHIFT_BY)
		return 0;
	for (word = 0; word < 8; word++)
		if (!kept_bytes(work, insn, word, lanes->element))
			lanes->left_out |= 1U << word;
	return 0;
}

/* Words that lie across those of memory: each of them is loaded once, as it may have been stored.
 */
SUBPROGRAM int read_unaligned(struct work *work)
{
	struct lanes *lanes;
	u32 word;

	if (!work)
		return 0;
	lanes = &work->way.lanes;
	lanes->made_known = 0;
	for (word = 0; word < 9; word++) {
		if (word > lanes->read)
			break;
		work->way.loaded = 0;
		/* Neither of those that it is a part of is wanted. */
		if ((lanes->left_out >> word & 1 || word == lanes->read) &&
		    (!word || lanes->left_out << 1 >> word & 1))
			lanes->made_known |= 1U << word;
		else if (load_word(work, (lanes->address & ~7ULL) + 8 * word, 8))
			lanes->made_known |= 1U << word;
		if (word < 8)
			lanes->b[word] = work->way.loaded >> 8 * (lanes->address & 7);
		if (word)
			lanes->b[word - 1] |= work->way.loaded << (64 - 8 * (lanes->address & 7));
	}
	lanes->b_known = lanes->made_known & lanes->made_known >> 1;
	return 0;
}

/* Words of memory into lanes.b. */
SUBPROGRAM int read_aligned(struct work *work)
{
	struct lanes *lanes;
	u32 word;

	if (!work)
		return 0;
	lanes = &work->way.lanes;
	for (word = 0; word < 8; word++) {
		if (word >= lanes->read)
			break;
		work->way.loaded = 0;
		if (lanes->left_out >> word & 1 || load_word(work, lanes->address + 8 * word, 8))
			lanes->b_known |= 1U << word;
		lanes->b[word] = work->way.loaded;
	}
	return 0;
}

/* Less than a word of memory, or one element for all of them. */
SUBPROGRAM int read_element(struct work *work)
{
	struct lanes *lanes;
	u32 word;

	if (!work)
		return 0;
	lanes = &work->way.lanes;
	work->way.loaded = 0;
	if (load_word(work, lanes->address, lanes->low))
		lanes->b_known = 1;
	lanes->b[0] = work->way.loaded;
	if (!lanes->read)
		return 0;
	lanes->b_known *= 0xff;
	lanes->b[0] = repeated(lanes->b[0], lanes->low);
	for (word = 1; word < 8; word++)
		lanes->b[word] = lanes->b[0];
	return 0;
}

/* Registers, or their lowest bytes, into lanes.b. */
SUBPROGRAM int read_registers(struct work *work, struct insn *insn)
{
	struct lanes *lanes;
	struct way *way;
	u32 word;

	if (!work || !insn)
		return 0;
	way = &work->way;
	lanes = &way->lanes;
	if (lanes->read) {
		for (word = 0; word < 8; word++)
			lanes->b[word] = vector_word(way, insn->rm, word);
		lanes->b_known = known_words(way, insn->rm);
	} else if (lanes->general) {
		lanes->b[0] = low_bytes(way->words[insn->rm & 15], lanes->low);
		lanes->b_known = is_known(way, insn->rm & 15);
	} else {
		lanes->b[0] = low_bytes(vector_word(way, insn->rm, 0), lanes->low);
		lanes->b_known = known_words(way, insn->rm) & 1;
	}
	return 0;
}

/* The operand that only VEX names. */
static inline void read_beside(struct way *way, const struct insn *insn)
{
	struct lanes *lanes = &way->lanes;
	u32 word;

	for (word = 0; word < 8; word++)
		lanes->a[word] = vector_word(way, insn->beside, word);
	lanes->a_known = known_words(way, insn->beside);
}

/* What a mask makes of one word of lanes.made, before it is written. */
SUBPROGRAM int mask_word(struct work *work, struct insn *insn, u32 word)
{
	struct lanes *lanes;
	struct way *way;
	u64 keep, old;
	u32 bit, known;

	if (!work || !insn)
		return 0;
	way = &work->way;
	lanes = &way->lanes;
	word &= 7;
	bit = 1U << word;
	keep = kept_bytes(work, insn, word, lanes->element);
	old = insn->mask & 0x80 ? 0 : way->vectors[lanes->to & 31][word];
	known = insn->mask & 0x80 ? bit : known_words(way, lanes->to) & bit;
	lanes->made[word] = chosen(keep, lanes->made[word], old);
	if (!mask_is_known(way, insn->mask))
		known = 0;
	else if (keep == ~0ULL)
		known = lanes->made_known & bit;
	else if (keep) {
		if (lanes->made_known & bit && !known) {
			lanes->kept_next = lanes->to + 1;
			lanes->kept_word = word;
			lanes->kept = keep;
		}
		known &= lanes->made_known;
	}
	lanes->made_known = (lanes->made_known & ~bit) | known;
	return 0;
}

/* Writes lanes.made to register lanes.to: as far as the mask lets it, with zeros above. */
SUBPROGRAM int write_vector(struct work *work, struct insn *insn)
{
	struct lanes *lanes;
	struct way *way;
	u32 word, to, all;

	if (!work || !insn)
		return 0;
	way = &work->way;
	lanes = &way->lanes;
	to = lanes->to & 31;
	lanes->kept_next = 0;
	if (is_masked(insn)) {
		for (word = 0; word < 8; word++)
			mask_word(work, insn, word);
	}
	for (word = 0; word < 8; word++) {
		if (word >= lanes->words)
			break;
		way->vectors[to][word] = lanes->made[word];
	}
	all = (1U << (lanes->words & 15)) - 1;
	if (insn->width) {
		/* Without VEX, what is above stays. */
		set_known_words(way, to, (known_words(way, to) & ~all) | (lanes->made_known & all));
		return 0;
	}
	set_known_words(way, to, lanes->made_known | ~all);
	if (lanes->kept_next)
		lanes->kept_of = lanes->kept_next;
	for (word = 0; word < 8; word++)
		if (word >= lanes->words)
			way->vectors[to][word] = 0;
	return 0;
}

#endif
