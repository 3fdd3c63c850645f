/*
 * Instructions of vector registers, as far as a way follows them. vector_table.h says what is made of
 * each: most join two operands word by word (lanes.h), others move (move.h), join masks (mask.h) or
 * floating point numbers (scalar.h). Of what is left only what it reads and that it writes is
 * followed. Part of way.h, as instruction.h.
 */
#ifndef VCPI_VECTOR_H
#define VCPI_VECTOR_H

#include "vector_table.h"
#include "lanes.h"

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
	return way->vectors[number & 31][word & 7];
}

static inline void set_vector_word(struct way *way, u32 number, u32 word, u64 value, int known)
{
	u32 words = known_words(way, number), bit = 1U << (word & 7);

	way->vectors[number & 31][word & 7] = value;
	set_known_words(way, number, known ? words | bit : words & ~bit);
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
	if (action <= LANE_LAST || action == MOVE_TEST || action == MOVE_TEXT || (action >= FLOAT_ADD && !lanes->scalar))
		return lanes->words;
	return 0;
}

/* How many bytes it has, where it has no more than a word. */
static inline u32 bytes_read(const struct insn *insn, struct lanes *lanes)
{
	u32 action = lanes->action;

	lanes->general = action == MOVE_GENERAL || action == MOVE_PART ||
			 action == WIDE_REPEAT_GENERAL || action == FLOAT_OF_GENERAL;
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
	if (action >= FLOAT_ADD)
		return action == FLOAT_WIDEN ? 4 : action == FLOAT_NARROW ? 8 : lanes->element;
	return 0;
}

/* The operand `rm`'s lowest bytes, into lanes.b: of memory, a general or a vector register. */
static inline void read_low(struct work *work, const struct insn *insn)
{
	struct way *way = &work->way;
	struct lanes *lanes = &way->lanes;
	u64 address;

	lanes->b[0] = 0;
	if (insn->flags & OPERAND_MEMORY) {
		if (address_of(way, insn, &address) && load_word(work, address, lanes->low)) {
			lanes->b[0] = way->loaded;
			lanes->b_known = 1;
		}
	} else if (lanes->general) {
		lanes->b[0] = low_bytes(way->words[insn->rm & 15], lanes->low);
		lanes->b_known = is_known(way, insn->rm & 15);
	} else {
		lanes->b[0] = low_bytes(vector_word(way, insn->rm, 0), lanes->low);
		lanes->b_known = known_words(way, insn->rm) & 1;
	}
}

/* Words that the mask of an instruction leaves out, if its elements are those of its memory. */
static inline void find_left_out(struct work *work, struct insn *insn)
{
	struct lanes *lanes = &work->way.lanes;
	u32 word;

	lanes->left_out = 0;
	if (!is_masked(insn) || !mask_is_known(&work->way, insn->mask) ||
	    (lanes->action > JOIN_LAST && lanes->action < FLOAT_ADD) || lanes->action == JOIN_SHIFT_BY)
		return;
	for (word = 0; word < 8; word++)
		if (!kept_bytes(work, insn, word, lanes->element))
			lanes->left_out |= 1U << word;
}

/* Words that lie across those of memory: each of them is loaded once, as it may have been stored. */
static __attribute__((always_inline)) inline void read_unaligned(struct work *work, u64 address)
{
	struct way *way = &work->way;
	struct lanes *lanes = &way->lanes;
	u32 shift = 8 * (address & 7), word, bit;

	lanes->made_known = 0;
	for (word = 0; word < 9; word++) {
		if (word > lanes->read)
			break;
		way->loaded = 0;
		bit = 1U << word;
		/* Neither of those that it is a part of is wanted. */
		if ((lanes->left_out >> word & 1 || word == lanes->read) &&
		    (!word || lanes->left_out << 1 >> word & 1))
			lanes->made_known |= bit;
		else if (load_word(work, (address & ~7ULL) + 8 * word, 8))
			lanes->made_known |= bit;
		if (word < 8)
			lanes->b[word] = way->loaded >> shift;
		if (word)
			lanes->b[word - 1] |= way->loaded << (64 - shift);
	}
	lanes->b_known = lanes->made_known & lanes->made_known >> 1;
}

/* Reads the operand `rm`, of lanes.read words or of lanes.low bytes, into lanes.b. */
SUBPROGRAM int read_vector(struct work *work, struct insn *insn)
{
	struct lanes *lanes;
	struct way *way;
	u64 address;
	u32 word;

	if (!work || !insn)
		return 0;
	way = &work->way;
	lanes = &way->lanes;
	lanes->b_known = 0;
	if (!lanes->read) {
		read_low(work, insn);
		return 0;
	}
	if (!(insn->flags & OPERAND_MEMORY)) {
		for (word = 0; word < 8; word++)
			lanes->b[word] = vector_word(way, insn->rm, word);
		lanes->b_known = known_words(way, insn->rm);
		return 0;
	}
	if (!address_of(way, insn, &address))
		return 0;
	if (is_evex(insn) && insn->mask & 0x40) {
		u32 size = lanes->element == 8 ? 8 : 4;

		if (load_word(work, address, size))
			lanes->b_known = 0xff;
		for (word = 0; word < 8; word++)
			lanes->b[word] = repeated(way->loaded, size);
		return 0;
	}
	find_left_out(work, insn);
	if (address & 7) {
		read_unaligned(work, address);
		return 0;
	}
	for (word = 0; word < 8; word++) {
		if (word >= lanes->read)
			break;
		way->loaded = 0;
		if (lanes->left_out >> word & 1 || load_word(work, address + 8 * word, 8))
			lanes->b_known |= 1U << word;
		lanes->b[word] = way->loaded;
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

/* One word's bits of the mask that comes of a comparison of lanes.a and lanes.b, into lanes.count. */
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
	read_beside(way, insn);
	find_known(way, insn);
	if ((action >= JOIN_COMPARE && action <= JOIN_TEST_NOT) || ((action == JOIN_EQUAL || action == JOIN_GREATER) &&
				       is_evex(insn))) {
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
		join_lane(work, lanes->action, at, imm);
	}
	lanes->writes = 1;
	return 0;
}

#include "move.h"
#include "mask.h"
#include "text.h"

/* Of which only is followed what it reads, and that it writes. */
SUBPROGRAM int follow_other_vector(struct work *work, struct insn *insn)
{
	struct way *way;
	u32 map, prefix, opcode;
	int stores = 0, general = 0;
	u64 address;

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
		if (opcode == 0xf7 && is_known(way, 7))
			blur(work, way->words[7], 16);
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
	if (insn->flags & OPERAND_MEMORY && address_of(way, insn, &address)) {
		if (stores)
			blur(work, address, insn->size);
		else
			touch_bytes(work, address, insn->size);
	}
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

SUBPROGRAM int follow_vector(struct work *work, struct insn *insn)
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
	/* Of others with the same opcode only what they read and write. */
	if ((action == WIDE_REPEAT && (insn->map & 15) == 1 && insn->size != 16) ||
	    (is_evex(insn) && (action == JOIN_CHOOSE || action == JOIN_BLEND ||
			       action == WIDE_LANES || (action >= FLOAT_ADD && !(of.element & SCALAR) &&
			       (action == FLOAT_WIDEN || action == FLOAT_NARROW ||
				action == FLOAT_OF_PARTS)))) ||
	    (action == JOIN_CHOOSE && insn->width != ((insn->map & 15) == 2)))
		action = 0;
	lanes->action = action;
	lanes->element = element_bytes(insn, of.element);
	if ((action == MOVE_PART || action == MOVE_PART_STORE) && !of.element &&
	    insn->flags & OPERAND_WIDE)
		lanes->element = 8;
	lanes->words = words_of(insn);
	lanes->to = insn->reg;
	lanes->writes = 0;
	lanes->scalar = of.element & SCALAR;
	if (action == FLOAT_FUSED)
		lanes->element = insn->flags & OPERAND_WIDE ? 8 : 4;
	lanes->read = words_read(insn, lanes);
	lanes->low = bytes_read(insn, lanes);
	if (action && (lanes->read || lanes->low))
		read_vector(work, insn);
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
	else if (action >= FLOAT_ADD)
		follow_float(work, insn);
	else if (!insn->width && !is_evex(insn))
		follow_mask(work, insn);
	if (lanes->writes)
		write_vector(work, insn);
	return 0;
}

#endif
