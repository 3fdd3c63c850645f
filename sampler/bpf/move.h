/*
 * Moves of vector registers, as far as a way follows them: whole ones, their parts, to and from
 * memory and general registers; and what makes a whole register of a part. Part of way.h, as
 * instruction.h.
 */
#ifndef VCPI_MOVE_H
#define VCPI_MOVE_H

/* A word to memory, across two of its words if need be. */
static __attribute__((always_inline)) inline void store_across(struct work *work, u64 address,
							       u64 value, int known)
{
	u32 above = address & 7;

	store_word(work, address, 8 - above, value, known);
	if (above)
		store_word(work, address + 8 - above, above, value >> (64 - 8 * above), known);
}

/* Those bytes of a word that a mask lets through. */
static __attribute__((always_inline)) inline void store_kept(struct work *work, u64 address,
							     u64 value, u64 keep, int known)
{
	u32 byte;

	for (byte = 0; byte < 8; byte++)
		if (keep >> 8 * byte & 1)
			store_word(work, address + byte, 1, value >> 8 * byte, known);
}

/* One word of a register, from lanes.first on, to memory: as far as the mask lets it; or something
 * that is not known. */
SUBPROGRAM int store_vector_word(struct work *work, struct insn *insn, u32 word)
{
	struct lanes *lanes;
	struct way *way;
	u64 keep, value;
	int known, tested;

	if (!work || !insn)
		return 0;
	way = &work->way;
	lanes = &way->lanes;
	value = vector_word(way, insn->reg, lanes->first + word);
	known = known_words(way, insn->reg) >> ((lanes->first + word) & 7) & 1;
	if (lanes->stores == 2)
		known = 0;
	tested = !is_masked(insn) || mask_is_known(way, insn->mask);
	keep = lanes->stores == 2 ? ~0ULL : kept_bytes(work, insn, word, lanes->element);
	if (!tested || keep == ~0ULL)
		store_across(work, lanes->address + 8 * word, value, known && tested);
	else if (keep)
		store_kept(work, lanes->address + 8 * word, value, keep, known);
	return 0;
}

/* Whole registers, or a part from a word on, to memory or registers: the result is left for both.
 */
static inline void store_whole(struct way *way, const struct insn *insn, u32 first, u32 words)
{
	struct lanes *lanes = &way->lanes;
	u32 word;

	lanes->first = first;
	lanes->words = words;
	if (insn->flags & OPERAND_MEMORY) {
		lanes->stores = 1;
		return;
	}
	for (word = 0; word < 8; word++)
		lanes->made[word] = vector_word(way, insn->reg, first + word);
	lanes->made_known = known_words(way, insn->reg) >> (first & 7);
	lanes->to = insn->rm;
	lanes->writes = 1;
}

/* Writes the lowest sixteen bytes of register lanes.to; with VEX those above become zero. */
static inline void write_low(struct way *way, const struct insn *insn, u64 low, u64 high, u32 known)
{
	u32 to = way->lanes.to & 31, word;

	way->vectors[to][0] = low;
	way->vectors[to][1] = high;
	known &= 3;
	if (insn->width) {
		known |= known_words(way, to) & ~3;
	} else {
		known |= 0xfc;
		for (word = 2; word < 8; word++)
			way->vectors[to][word] = 0;
	}
	if (is_masked(insn))
		known &= ~3;
	set_known_words(way, to, known);
}

/* A number into the lowest element of register lanes.to, beside what another one holds. */
static inline void write_scalar(struct way *way, const struct insn *insn, u32 number, u64 value,
				u32 known)
{
	u32 size = way->lanes.element & 15, beside;
	u64 mask = low_bytes(~0ULL, size);

	if (insn->width)
		number = way->lanes.to;
	beside = known_words(way, number);
	if (size == 4)
		known = known && beside & 1;
	value = (value & mask) | (vector_word(way, number, 0) & ~mask);
	write_low(way, insn, value, vector_word(way, number, 1),
		  (known != 0) | (beside & 2));
}

/* Of sixteen bytes one element, whose number is a constant. */
static inline void move_part(struct work *work, const struct insn *insn, u32 action, u32 size)
{
	struct way *way = &work->way;
	u32 bit = 8 * size * (insn->value & 0xff) & 127, word = bit >> 6;
	struct lanes *lanes = &way->lanes;
	u64 value, part, mask = low_bytes(~0ULL, size);
	u32 known;

	bit &= 63;
	if (action == MOVE_PART) {
		value = vector_word(way, insn->beside, word);
		part = (value & ~(mask << bit)) | (way->lanes.b[0] & mask) << bit;
		known = known_words(way, insn->beside);
		if (!way->lanes.b_known)
			known &= ~(1U << word);
		else if (size == 8)
			known |= 1U << word;
		value = vector_word(way, insn->beside, !word);
		write_low(way, insn, word ? value : part, word ? part : value, known);
		return;
	}
	known = known_words(way, action == MOVE_PART_TO ? insn->rm : insn->reg) >> word & 1;
	value = vector_word(way, action == MOVE_PART_TO ? insn->rm : insn->reg, word) >> bit & mask;
	if (action == MOVE_PART_TO)
		set(way, insn->reg & 15, value, 8, known);
	else if (!(insn->flags & OPERAND_MEMORY))
		set(way, insn->rm & 15, value, 8, known);
	else if (lanes->placed)
		store_word(work, lanes->address, size, value, known);
}

/* Upper and lower halves of sixteen bytes, and those that are doubled. */
static inline void move_half(struct way *way, const struct insn *insn)
{
	u32 upper = insn->opcode >> 2 & 1;
	u32 beside = known_words(way, insn->beside), other;
	u64 value;
	int known;

	if (insn->flags & OPERAND_MEMORY) {
		known = way->lanes.b_known & 1;
		value = way->lanes.b[0];
	} else {
		/* To the other half. */
		value = vector_word(way, insn->rm, !upper);
		known = known_words(way, insn->rm) >> !upper & 1;
	}
	if (upper) {
		other = beside & 1;
		write_low(way, insn, vector_word(way, insn->beside, 0), value,
			  other | (known != 0) << 1);
	} else {
		other = beside & 2;
		write_low(way, insn, value, vector_word(way, insn->beside, 1),
			  other | (known != 0));
	}
}

/* The top bits of elements, as a number. */
static inline void move_tops(struct way *way, const struct insn *insn, u32 element)
{
	u32 word, count = 8 / (element & 15), words = words_of(insn);
	u32 all = (1U << (words & 15)) - 1;
	u64 result = 0;

	for (word = 0; word < 4; word++) {
		u64 bits;

		if (word >= words)
			break;
		bits = gathered(vector_word(way, insn->rm, word) & tops_of(element), element);
		result |= bits << (count * word & 63);
	}
	set(way, insn->reg & 15, result, 8, (known_words(way, insn->rm) & all) == all);
}

/* Zeros above sixteen bytes, or everywhere. */
static inline void move_zeros(struct way *way, const struct insn *insn)
{
	u32 number, word;

	if (insn->width)
		return;
	for (number = 0; number < 16; number++) {
		for (word = 0; word < 8; word++)
			if (word >= 2 || insn->size == 32)
				way->vectors[number][word] = 0;
		set_known_words(way, number,
				known_words(way, number) | (insn->size == 32 ? 0xff : 0xfc));
	}
}

/* Whether two registers have common bits, and whether the second one has others. */
static inline void test_vectors(struct way *way, const struct insn *insn)
{
	const struct lanes *lanes = &way->lanes;
	u32 word, words = words_of(insn), known;
	u64 common = 0, others = 0;

	known = lanes->b_known & known_words(way, insn->reg);
	for (word = 0; word < 4; word++) {
		if (word >= words)
			break;
		common |= vector_word(way, insn->reg, word) & lanes->b[word];
		others |= ~vector_word(way, insn->reg, word) & lanes->b[word];
	}
	if (~known & ((1U << (words & 15)) - 1))
		forget_flags(way);
	else
		set_register_flags(way, !common, 0, !others);
}

SUBPROGRAM int follow_move(struct work *work, struct insn *insn)
{
	struct lanes *lanes;
	struct way *way;
	u32 size, to, action;
	u64 value;
	int known;

	if (!work || !insn)
		return 0;
	way = &work->way;
	lanes = &way->lanes;
	action = lanes->action;
	size = lanes->element;
	/* Of general registers' forms W tells the size, with VEX and without. */
	if (action == MOVE_GENERAL_STORE)
		size = insn->flags & OPERAND_WIDE ? 8 : 4;
	to = insn->reg;
	switch (action) {
	case MOVE_STORE:
		store_whole(way, insn, 0, lanes->words);
		break;
	case MOVE_LOW:
		if (insn->flags & OPERAND_MEMORY)
			write_low(way, insn, lanes->b[0], 0, 2 | lanes->b_known);
		else
			write_scalar(way, insn, insn->beside, lanes->b[0], lanes->b_known);
		break;
	case MOVE_LOW_STORE:
	case MOVE_GENERAL_STORE:
		value = low_bytes(vector_word(way, to, 0), size);
		known = known_words(way, to) & 1 && !is_masked(insn);
		if (insn->flags & OPERAND_MEMORY) {
			if (lanes->placed)
				store_word(work, lanes->address, size, value, known);
		} else if (action == MOVE_GENERAL_STORE) {
			set(way, insn->rm & 15, value, 8, known);
		} else {
			lanes->to = insn->rm;
			write_scalar(way, insn, insn->beside, value, known);
		}
		break;
	case MOVE_GENERAL:
	case MOVE_WORD:
		write_low(way, insn, lanes->b[0], 0, 2 | lanes->b_known);
		break;
	case MOVE_WORD_STORE:
		value = vector_word(way, to, 0);
		known = known_words(way, to) & 1;
		if (!(insn->flags & OPERAND_MEMORY)) {
			lanes->to = insn->rm;
			write_low(way, insn, value, 0, known ? 3 : 2);
		} else if (lanes->placed) {
			store_across(work, lanes->address, value, known);
		}
		break;
	case MOVE_HALF:
		move_half(way, insn);
		break;
	case MOVE_HALF_STORE:
		value = vector_word(way, to, insn->opcode >> 2 & 1);
		known = known_words(way, to) >> (insn->opcode >> 2 & 1) & 1;
		if (insn->flags & OPERAND_MEMORY && lanes->placed)
			store_across(work, lanes->address, value, known);
		break;
	case MOVE_TOPS:
		move_tops(way, insn, size);
		break;
	case MOVE_ZEROS:
		move_zeros(way, insn);
		break;
	case MOVE_TEST:
		test_vectors(way, insn);
		break;
	default:
		move_part(work, insn, action, size);
		break;
	}
	return 0;
}

/* One word of elements of twice as many bytes or more, from the lowest ones of another register. */
SUBPROGRAM int extend_word(struct work *work, u32 word, u32 part, u32 size, u32 is_signed)
{
	struct lanes *lanes;
	u32 count, bit, index;
	u64 of, made = 0;

	if (!work)
		return 0;
	lanes = &work->way.lanes;
	word &= 7;
	count = 8 / size;
	bit = 8 * part * count * word;
	of = lanes->b[within(bit >> 6, 7)] >> (bit & 63);
	for (index = 0; index < 4; index++) {
		u64 value = low_bytes(of >> (8 * part * index & 63), part);

		if (index >= count)
			break;
		if (is_signed)
			value = low_bytes(extended(value, part), size);
		made |= value << (8 * size * index & 63);
	}
	lanes->made[word] = made;
	if (lanes->b_known >> (bit >> 6 & 7) & 1)
		lanes->made_known |= 1U << word;
	return 0;
}

/* Words from one place of lanes.b on, again and again. */
static inline void repeat_words(struct lanes *lanes, u32 first, u32 count)
{
	u32 word;

	for (word = 0; word < 8; word++) {
		u32 from = first + (word & (count - 1));

		lanes->made[word] = lanes->b[within(from, 7)];
		if (lanes->b_known >> (from & 7) & 1)
			lanes->made_known |= 1U << word;
	}
}

/* What makes a whole register of less, or takes a part of one. */
SUBPROGRAM int follow_wide(struct work *work, struct insn *insn)
{
	struct lanes *lanes;
	struct way *way;
	u32 action, element, part, first, word;

	if (!work || !insn)
		return 0;
	way = &work->way;
	lanes = &way->lanes;
	action = lanes->action;
	element = lanes->element;
	lanes->made_known = 0;
	/* Of one operand: it may be masked as smaller elements. */
	lanes->element = element == 8 && is_evex(insn) && !(insn->flags & OPERAND_WIDE) &&
			 action <= WIDE_REPEAT_GENERAL ? 4 : element;
	part = action & 1 ? 4 : 2;
	first = (insn->value & 0xff) * part & (lanes->words - 1);
	switch (action) {
	case WIDE_REPEAT:
	case WIDE_REPEAT_GENERAL:
		lanes->b[0] = repeated(lanes->b[0], element);
		repeat_words(lanes, 0, 1);
		break;
	case WIDE_REPEAT_LANE:
	case WIDE_REPEAT_HALF:
		repeat_words(lanes, 0, part);
		break;
	case WIDE_INSERT:
	case WIDE_INSERT_HALF:
		read_beside(way, insn);
		for (word = 0; word < 8; word++) {
			u32 at = word - first;

			lanes->made[word] = at < part ? lanes->b[within(at, 3)] : lanes->a[word];
			lanes->made_known |= ((at < part ? lanes->b_known >> (at & 3) :
					       lanes->a_known >> word) & 1) << word;
		}
		break;
	case WIDE_PERMUTE:
		for (word = 0; word < 8; word++) {
			u32 from = (word & 4) + (insn->value >> 2 * (word & 3) & 3);

			lanes->made[word] = lanes->b[within(from, 7)];
			lanes->made_known |= (lanes->b_known >> (from & 7) & 1) << word;
		}
		break;
	case WIDE_LANES:
		read_beside(way, insn);
		for (word = 0; word < 4; word++) {
			u32 how = insn->value >> 2 * (word & 2), from = (how & 1) * 2 + (word & 1);
			u32 known = (how & 2 ? lanes->b_known : lanes->a_known) >> from & 1;

			lanes->made[word] = how & 8 ? 0 : how & 2 ? lanes->b[within(from, 3)] :
							  lanes->a[within(from, 3)];
			lanes->made_known |= (how & 8 ? 1 : known) << word;
		}
		break;
	case WIDE_EXTRACT:
	case WIDE_EXTRACT_HALF:
		store_whole(way, insn, first, part);
		return 0;
	default:
		part = extended_part(insn);
		for (word = 0; word < 8; word++)
			extend_word(work, word, part, element, action == WIDE_EXTEND_SIGNED);
		break;
	}
	lanes->writes = 1;
	return 0;
}

#endif
