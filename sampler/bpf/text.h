/*
 * pcmpistri, which compares or searches text that ends with a zero, as far as a way follows it: of
 * bytes. Part of way.h, as instruction.h.
 */
#ifndef VCPI_TEXT_H
#define VCPI_TEXT_H

/* A bit for each byte of sixteen that is zero, or has its top bit set. */
static inline u32 zero_bytes(u64 low, u64 high)
{
	u64 tops = tops_of(1);

	return gathered(lanes_equal(low, 0, tops), 1) |
	       gathered(lanes_equal(high, 0, tops), 1) << 8;
}

/* Sixteen bits from the first one that is set on. */
static inline u32 from_first(u32 bits)
{
	bits |= bits << 1;
	bits |= bits << 2;
	bits |= bits << 4;
	bits |= bits << 8;
	return bits & 0xffff;
}

/* Where the bytes of lanes.a are as their opposites in lanes.b. */
static inline u32 equal_bytes(const struct lanes *lanes)
{
	u64 tops = tops_of(1);

	return gathered(lanes_equal(lanes->a[0], lanes->b[0], tops), 1) |
	       gathered(lanes_equal(lanes->a[1], lanes->b[1], tops), 1) << 8;
}

/* Where one of the bytes of lanes.a, those that `ended` has none of, is in lanes.b; or one between
 * two of them. */
SUBPROGRAM int find_any(struct work *work, u32 ended, u32 ranges)
{
	struct lanes *lanes;
	u64 tops = tops_of(1), low, high, of_low, of_high;
	u32 index, result = 0;

	if (!work)
		return 0;
	lanes = &work->way.lanes;
	for (index = 0; index < 16; index++) {
		low = repeated(element_of(lanes->a[0], lanes->a[1], index, 1), 1);
		if (ended >> index & 1)
			break;
		if (!ranges) {
			of_low = lanes_equal(lanes->b[0], low, tops);
			of_high = lanes_equal(lanes->b[1], low, tops);
		} else {
			if (index & 1 || ended >> (index + 1) & 1)
				continue;
			high = repeated(element_of(lanes->a[0], lanes->a[1], index + 1, 1), 1);
			of_low = ~lanes_below(lanes->b[0], low, tops) &
				 ~lanes_below(high, lanes->b[0], tops) & tops;
			of_high = ~lanes_below(lanes->b[1], low, tops) &
				  ~lanes_below(high, lanes->b[1], tops) & tops;
		}
		result |= gathered(of_low, 1) | gathered(of_high, 1) << 8;
	}
	return result;
}

/* The number of the first bit that is set, or of the last one; 16 if none is. */
static inline u32 place_of(u32 bits, int last)
{
	u32 index, place = 16;

	for (index = 0; index < 16; index++)
		if (bits >> index & 1 && (last || place == 16))
			place = index;
	return place;
}

/* The results of a search: where the first or the last of the bits that were found is. */
SUBPROGRAM int leave_text(struct work *work, u32 bits)
{
	struct lanes *lanes;
	struct way *way;
	u32 other;

	if (!work)
		return 0;
	way = &work->way;
	lanes = &way->lanes;
	other = (u32)lanes->row[1];
	bits &= 0xffff;
	if (lanes->how & 0x10)
		bits ^= lanes->how & 0x20 ? ~other & 0xffff : 0xffff;
	set(way, RCX, place_of(bits, lanes->how & 0x40), 8, 1);
	set_register_flags(way, other != 0, 0, bits != 0);
	/* The sign and the overflow. */
	way->flags_a |= (u64)(lanes->row[0] != 0) << 7 | (u64)(bits & 1) << 11;
	return 0;
}

SUBPROGRAM int follow_text(struct work *work, struct insn *insn)
{
	struct lanes *lanes;
	struct way *way;
	u32 kind, ended, other;

	if (!work || !insn)
		return 0;
	way = &work->way;
	lanes = &way->lanes;
	lanes->how = insn->value & 0xff;
	kind = lanes->how >> 2 & 3;
	lanes->a[0] = vector_word(way, insn->reg, 0);
	lanes->a[1] = vector_word(way, insn->reg, 1);
	/* Signs matter to ranges only. */
	if ((known_words(way, insn->reg) & lanes->b_known & 3) != 3 || lanes->how & 1 ||
	    kind == 3 || (kind == 1 && lanes->how & 2)) {
		forget(way, RCX);
		forget_flags(way);
		return 0;
	}
	ended = from_first(zero_bytes(lanes->a[0], lanes->a[1]));
	other = from_first(zero_bytes(lanes->b[0], lanes->b[1]));
	lanes->row[0] = ended;
	lanes->row[1] = other;
	if (kind == 2)
		ended = (equal_bytes(lanes) & ~(ended | other)) | (ended & other);
	else
		ended = find_any(work, ended, kind & 1) & ~lanes->row[1];
	leave_text(work, ended);
	return 0;
}

#endif
