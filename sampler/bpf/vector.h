/*
 * Instructions of vector registers, as far as a way follows them: moves, and what finds bytes in them.
 * Part of way.h, as instruction.h.
 */
#ifndef VCPI_VECTOR_H
#define VCPI_VECTOR_H

/* insn->map: the map in the lower half, the prefix in the upper one. */
#define IN_MAP(map, prefix) ((map) | (prefix) << 4)
#define PREFIX_NONE 0
#define PREFIX_66 1
#define PREFIX_F3 2
#define PREFIX_F2 3

static inline int word_is_known(const struct way *way, u32 number, u32 word)
{
	u32 bit = ((number & 31) << 3) + (word & 7);

	return way->vector_known[bit >> 6 & 3] >> (bit & 63) & 1;
}

static inline u64 vector_word(const struct way *way, u32 number, u32 word)
{
	return way->vectors[number & 31][word & 7];
}

static inline void set_vector_word(struct way *way, u32 number, u32 word, u64 value, int known)
{
	u32 bit = ((number & 31) << 3) + (word & 7);
	u64 *of = &way->vector_known[bit >> 6 & 3];
	u64 mask = 1ULL << (bit & 63);

	way->vectors[number & 31][word & 7] = value;
	*of = known ? *of | mask : *of & ~mask;
}

/* The words of a register from `from` on are zero, as behind what VEX encodes. */
static inline void clear_above(struct way *way, const struct insn *insn, u32 number, u32 from)
{
	u32 word;

	if (insn->width)
		return;
	for (word = 2; word < 8; word++)
		if (word >= from)
			set_vector_word(way, number, word, 0, 1);
}

static inline void forget_vector(struct way *way, u32 number)
{
	u32 first = (number & 31) << 3;

	way->vector_known[first >> 6 & 3] &= ~(0xffULL << (first & 63));
}

/* None is known at first, and no mask. */
static inline void begin_vectors(struct way *way)
{
	u32 index;

	for (index = 0; index < 4; index++)
		way->vector_known[index] = 0;
	way->mask_known = 0;
}

static inline u32 words_of(const struct insn *insn)
{
	return insn->size == 64 ? 8 : insn->size == 32 ? 4 : 2;
}

/* Whole registers from and to memory or registers. With a mask the elements are not told apart. */
static inline void move_whole(struct work *work, const struct insn *insn, int stores)
{
	struct way *way = &work->way;
	u32 words = words_of(insn), word;
	int masked = insn->flags & OPERAND_EVEX && insn->mask & 7;
	u64 address = 0, value;
	int placed = 0, known;

	if (insn->flags & OPERAND_MEMORY) {
		placed = address_of(way, insn, &address);
		if (!placed && stores)
			return;
	}
	for (word = 0; word < 8; word++) {
		if (word >= words)
			break;
		if (stores) {
			value = vector_word(way, insn->reg, word);
			known = word_is_known(way, insn->reg, word) && !masked;
			if (insn->flags & OPERAND_MEMORY)
				store_word(work, address + 8 * word, 8, value, known);
			else
				set_vector_word(way, insn->rm, word, value, known);
			continue;
		}
		value = 0;
		if (insn->flags & OPERAND_MEMORY) {
			known = placed && load_word(work, address + 8 * word, 8);
			value = known ? way->loaded : 0;
		} else {
			value = vector_word(way, insn->rm, word);
			known = word_is_known(way, insn->rm, word);
		}
		set_vector_word(way, insn->reg, word, value, known && !masked);
	}
	if (!stores)
		clear_above(way, insn, insn->reg, words);
	else if (!(insn->flags & OPERAND_MEMORY))
		clear_above(way, insn, insn->rm, words);
}

/* The lowest bytes, from and to memory or registers of either kind. */
static inline void move_low(struct work *work, const struct insn *insn, u32 size, int stores,
			    int general)
{
	struct way *way = &work->way;
	u64 address, value = 0;
	int known;

	if (stores) {
		value = low_bytes(vector_word(way, insn->reg, 0), size);
		known = word_is_known(way, insn->reg, 0);
		if (insn->flags & OPERAND_MEMORY) {
			if (address_of(way, insn, &address))
				store_word(work, address, size, value, known);
		} else if (general) {
			set(way, insn->rm & 15, value, size, known);
		} else {
			set_vector_word(way, insn->rm, 0, value, known && size == 8);
		}
		return;
	}
	if (insn->flags & OPERAND_MEMORY) {
		known = address_of(way, insn, &address) && load_word(work, address, size);
		value = known ? way->loaded : 0;
	} else if (general) {
		value = get(way, insn->rm & 15, size);
		known = is_known(way, insn->rm & 15);
	} else {
		/* Into the lowest bytes of what there is. */
		known = word_is_known(way, insn->rm, 0);
		value = vector_word(way, insn->rm, 0);
		set_vector_word(way, insn->reg, 0, value, known && size == 8);
		return;
	}
	set_vector_word(way, insn->reg, 0, value, known);
	set_vector_word(way, insn->reg, 1, 0, 1);
	clear_above(way, insn, insn->reg, 2);
}

/* Of which only is followed what it reads, and that it writes. */
static inline void do_other_vector(struct work *work, const struct insn *insn)
{
	struct way *way = &work->way;
	u32 map = insn->map & 15, prefix = insn->map >> 4, opcode = insn->opcode;
	int stores = 0, general = 0;
	u64 address;

	/* Addresses that are vectors. */
	if (map == 2 && ((opcode & 0xfc) == 0x90 || (opcode & 0xfc) == 0xa0 ||
			 (opcode & 0xfe) == 0xc6)) {
		forget_vector(way, insn->reg);
		return;
	}
	if (map == 1) {
		stores = opcode == 0x11 || opcode == 0x13 || opcode == 0x17 || opcode == 0x29 ||
			 opcode == 0x2b || opcode == 0x7f || opcode == 0xd6 || opcode == 0xe7 ||
			 opcode == 0x91 || (opcode == 0x7e && prefix != PREFIX_F3);
		general = opcode == 0xd7 || opcode == 0x50 || opcode == 0x2c || opcode == 0x2d ||
			  opcode == 0x93 || opcode == 0xc5 ||
			  ((opcode == 0x78 || opcode == 0x79) && prefix >= PREFIX_F3);
		if (opcode == 0x2e || opcode == 0x2f || (opcode & 0xfe) == 0x98)
			forget_flags(way);
		if (opcode >= 0x41 && opcode <= 0x4b) {
			way->mask_known &= ~(1U << (insn->reg & 7));
			return;
		}
		if (opcode == 0x90 || opcode == 0x92 || (opcode == 0xc2 && insn->flags & OPERAND_EVEX) ||
		    ((opcode & 0xfc) == 0x74 && insn->flags & OPERAND_EVEX) ||
		    ((opcode & 0xfc) == 0x64 && insn->flags & OPERAND_EVEX))
			way->mask_known &= ~(1U << (insn->reg & 7));
	} else if (map == 2) {
		stores = insn->flags & OPERAND_EVEX && prefix == PREFIX_F3 &&
			 ((opcode & 0xe8) == 0x20 || (opcode & 0xe8) == 0x00) && opcode >= 0x10;
		if (opcode == 0x17 || opcode == 0x0e || opcode == 0x0f)
			forget_flags(way);
		if (insn->flags & OPERAND_EVEX)
			way->mask_known &= ~(1U << (insn->reg & 7));
	} else {
		stores = (opcode >= 0x14 && opcode <= 0x17) || opcode == 0x19 || opcode == 0x1b ||
			 opcode == 0x39 || opcode == 0x3b || opcode == 0x1d;
		if (opcode >= 0x60 && opcode <= 0x63) {
			forget_flags(way);
			forget(way, RCX);
		}
		if (insn->flags & OPERAND_EVEX || (opcode & 0xfc) == 0x30)
			way->mask_known &= ~(1U << (insn->reg & 7));
	}
	if (insn->flags & OPERAND_MEMORY && address_of(way, insn, &address)) {
		if (stores)
			blur(work, address, insn->size);
		else
			touch_bytes(work, address, insn->size);
	}
	if (general)
		forget(way, insn->reg);
	else if (!stores)
		forget_vector(way, insn->reg);
	else if (!(insn->flags & OPERAND_MEMORY)) {
		forget_vector(way, insn->rm);
		forget(way, insn->rm);
	}
}

SUBPROGRAM int follow_vector(struct work *work, struct insn *insn)
{
	struct way *way;
	u32 same, size, word;

	if (!work || !insn)
		return 0;
	way = &work->way;
	/* Of both that are joined, the same register. */
	same = !(insn->flags & OPERAND_MEMORY) && insn->rm == insn->beside;
	size = insn->flags & OPERAND_WIDE ? 8 : 4;
	switch (insn->map << 8 | insn->opcode) {
	case IN_MAP(1, PREFIX_NONE) << 8 | 0x10:
	case IN_MAP(1, PREFIX_66) << 8 | 0x10:
	case IN_MAP(1, PREFIX_NONE) << 8 | 0x28:
	case IN_MAP(1, PREFIX_66) << 8 | 0x28:
	case IN_MAP(1, PREFIX_66) << 8 | 0x6f:
	case IN_MAP(1, PREFIX_F3) << 8 | 0x6f:
	case IN_MAP(1, PREFIX_F2) << 8 | 0x6f:
	case IN_MAP(1, PREFIX_F2) << 8 | 0xf0:
		move_whole(work, insn, 0);
		break;
	case IN_MAP(1, PREFIX_NONE) << 8 | 0x11:
	case IN_MAP(1, PREFIX_66) << 8 | 0x11:
	case IN_MAP(1, PREFIX_NONE) << 8 | 0x29:
	case IN_MAP(1, PREFIX_66) << 8 | 0x29:
	case IN_MAP(1, PREFIX_66) << 8 | 0x7f:
	case IN_MAP(1, PREFIX_F3) << 8 | 0x7f:
	case IN_MAP(1, PREFIX_F2) << 8 | 0x7f:
	case IN_MAP(1, PREFIX_NONE) << 8 | 0x2b:
	case IN_MAP(1, PREFIX_66) << 8 | 0x2b:
	case IN_MAP(1, PREFIX_66) << 8 | 0xe7:
		move_whole(work, insn, 1);
		break;
	case IN_MAP(1, PREFIX_F3) << 8 | 0x10:
		move_low(work, insn, 4, 0, 0);
		break;
	case IN_MAP(1, PREFIX_F2) << 8 | 0x10:
		move_low(work, insn, 8, 0, 0);
		break;
	case IN_MAP(1, PREFIX_F3) << 8 | 0x11:
		move_low(work, insn, 4, 1, 0);
		break;
	case IN_MAP(1, PREFIX_F2) << 8 | 0x11:
	case IN_MAP(1, PREFIX_66) << 8 | 0xd6:
		move_low(work, insn, 8, 1, 0);
		break;
	case IN_MAP(1, PREFIX_66) << 8 | 0x6e:
		move_low(work, insn, size, 0, 1);
		break;
	case IN_MAP(1, PREFIX_66) << 8 | 0x7e:
		move_low(work, insn, size, 1, 1);
		break;
	case IN_MAP(1, PREFIX_F3) << 8 | 0x7e:
		if (!(insn->flags & OPERAND_MEMORY)) {
			set_vector_word(way, insn->reg, 0, vector_word(way, insn->rm, 0),
					word_is_known(way, insn->rm, 0));
			set_vector_word(way, insn->reg, 1, 0, 1);
			clear_above(way, insn, insn->reg, 2);
			break;
		}
		move_low(work, insn, 8, 0, 0);
		break;
	case IN_MAP(1, PREFIX_66) << 8 | 0xef:
	case IN_MAP(1, PREFIX_NONE) << 8 | 0x57:
	case IN_MAP(1, PREFIX_66) << 8 | 0x57:
		if (!same) {
			do_other_vector(work, insn);
			break;
		}
		for (word = 0; word < 8; word++)
			if (word < words_of(insn) || !insn->width)
				set_vector_word(way, insn->reg, word, 0, 1);
		break;
	case IN_MAP(1, PREFIX_NONE) << 8 | 0x77:
		/* Upper halves, or the coprocessor's registers. */
		break;
	default:
		do_other_vector(work, insn);
		break;
	}
	return 0;
}

#endif
