/*
 * Vectors' elements, eight bytes of them at a time: sums, comparisons and shifts of whole words, in
 * which no element takes part in its neighbour's; and what goes across the words of sixteen bytes.
 * Part of way.h, as instruction.h.
 */
#ifndef VCPI_LANES_H
#define VCPI_LANES_H

/* Of each element of a word the top bit. */
static inline u64 tops_of(u32 element)
{
	if (element == 1)
		return 0x8080808080808080ULL;
	if (element == 2)
		return 0x8000800080008000ULL;
	return element == 4 ? 0x8000000080000000ULL : 1ULL << 63;
}

/* Whole elements of ones where the top bit is set; the others are zero. */
static inline u64 filled(u64 tops, u32 element)
{
	return tops | (tops - (tops >> ((8 * element - 1) & 63)));
}

/* Of each element the top bit, side by side; nothing else may be set. */
static inline u64 gathered(u64 tops, u32 element)
{
	if (element == 1)
		return (tops >> 7) * 0x0102040810204080ULL >> 56;
	if (element == 2)
		return (tops >> 15) * 0x1000200040008000ULL >> 60;
	if (element == 4)
		return (tops >> 31 & 1) | (tops >> 62 & 2);
	return tops >> 63;
}

/* The other way round: whole elements of ones for bits. */
static inline u64 spread(u64 bits, u32 element)
{
	if (element == 1) {
		bits = (bits & 0xff) * 0x0101010101010101ULL & 0x8040201008040201ULL;
		bits = ((bits & 0x7f7f7f7f7f7f7f7fULL) + 0x7f7f7f7f7f7f7f7fULL) | bits;
		return filled(bits & 0x8080808080808080ULL, 1);
	}
	if (element == 2)
		return ((bits & 1) | (bits & 2) << 15 | (bits & 4) << 30 | (bits & 8) << 45) *
		       0xffff;
	if (element == 4)
		return ((bits & 1) | (bits & 2) << 31) * 0xffffffff;
	return -(bits & 1);
}

/* One element, in all places of a word. */
static inline u64 repeated(u64 value, u32 element)
{
	if (element == 1)
		return (value & 0xff) * 0x0101010101010101ULL;
	if (element == 2)
		return (value & 0xffff) * 0x0001000100010001ULL;
	return element == 4 ? (u64)(u32)value << 32 | (u32)value : value;
}

static inline u64 lanes_sum(u64 a, u64 b, u64 tops)
{
	return ((a & ~tops) + (b & ~tops)) ^ ((a ^ b) & tops);
}

static inline u64 lanes_difference(u64 a, u64 b, u64 tops)
{
	return ((a | tops) - (b & ~tops)) ^ ((a ^ ~b) & tops);
}

/* The top bits of elements of a that are below those of b. */
static inline u64 lanes_below(u64 a, u64 b, u64 tops)
{
	return ((~a & b) | (~(a ^ b) & lanes_difference(a, b, tops))) & tops;
}

static inline u64 lanes_equal(u64 a, u64 b, u64 tops)
{
	u64 other = a ^ b;

	return ~(((other & ~tops) + ~tops) | other) & tops;
}

/* Of the first operand's elements those that are chosen, of the second one's the others. */
static inline u64 chosen(u64 choice, u64 a, u64 b)
{
	return (a & choice) | (b & ~choice);
}

/* The products' lower halves. */
static inline u64 lanes_product(u64 a, u64 b, u32 element)
{
	if (element == 2)
		return (a * b & 0xffff) | ((a >> 16) * (b >> 16) & 0xffff) << 16 |
		       ((a >> 32) * (b >> 32) & 0xffff) << 32 | (a >> 48) * (b >> 48) << 48;
	if (element == 4)
		return (u64)((u32)a * (u32)b) | (a >> 32) * (b >> 32) << 32;
	return a * b;
}

/* Two words of elements joined, as JOIN_... says. */
SUBPROGRAM u64 join_words(u32 how, u64 a, u64 b, u32 element)
{
	u64 tops = tops_of(element);

	switch (how) {
	case JOIN_AND:
		return a & b;
	case JOIN_AND_NOT:
		return ~a & b;
	case JOIN_OR:
		return a | b;
	case JOIN_XOR:
		return a ^ b;
	case JOIN_ADD:
		return lanes_sum(a, b, tops);
	case JOIN_SUB:
		return lanes_difference(a, b, tops);
	case JOIN_LEAST:
		return chosen(filled(lanes_below(a, b, tops), element), a, b);
	case JOIN_MOST:
		return chosen(filled(lanes_below(a, b, tops), element), b, a);
	case JOIN_LEAST_SIGNED:
		return chosen(filled(lanes_below(a ^ tops, b ^ tops, tops), element), a, b);
	case JOIN_MOST_SIGNED:
		return chosen(filled(lanes_below(a ^ tops, b ^ tops, tops), element), b, a);
	case JOIN_ADD_UP:
		return lanes_sum(a, chosen(filled(lanes_below(b, ~a, tops), element), b, ~a), tops);
	case JOIN_SUB_DOWN:
		return lanes_difference(a, chosen(filled(lanes_below(a, b, tops), element), a, b),
					tops);
	case JOIN_EQUAL:
		return filled(lanes_equal(a, b, tops), element);
	case JOIN_GREATER:
		return filled(lanes_below(b ^ tops, a ^ tops, tops), element);
	case JOIN_MULTIPLY:
		return (u64)(u32)a * (u32)b;
	case JOIN_MULTIPLY_LOW:
		return lanes_product(a, b, element);
	case JOIN_ABSOLUTE:
		a = filled(b & tops, element);
		return lanes_difference(b ^ a, a, tops);
	default:
		return b;
	}
}

/* A word of elements shifted: to the right without (2) or with the sign (4), or to the left (6). */
SUBPROGRAM u64 shift_words(u32 how, u64 word, u64 count, u32 element)
{
	u64 tops = tops_of(element), bottoms = tops >> ((8 * element - 1) & 63);
	u64 sign = how == 4 ? filled(word & tops, element) : 0;
	u64 keep;

	if (count >= 8 * element)
		return sign;
	count &= 63;
	/* What stays of each element: its lowest bits, or its highest ones. */
	keep = (bottoms << ((8 * element - count - 1) & 63)) * 2 - bottoms;
	if (how == 6)
		return (word & keep) << count;
	return (word >> count & keep) | (sign & ~keep);
}

/* A comparison's top bits, by the three lower bits of its constant. */
SUBPROGRAM u64 compare_words(u32 how, u64 a, u64 b, u32 element)
{
	u64 tops = tops_of(element), result = 0;

	switch (how & 3) {
	case 0:
		result = lanes_equal(a, b, tops);
		break;
	case 1:
		result = lanes_below(a, b, tops);
		break;
	case 2:
		result = ~lanes_below(b, a, tops) & tops;
		break;
	default:
		break;
	}
	return how & 4 ? ~result & tops : result;
}

/* Of three bits each any function, as eight bits of a table. */
static inline u64 by_table(u32 table, u64 a, u64 b, u64 c)
{
	u64 result = 0;
	u32 index;

	for (index = 0; index < 8; index++) {
		u64 of = -(u64)(table >> index & 1);

		of &= index & 4 ? a : ~a;
		of &= index & 2 ? b : ~b;
		result |= of & (index & 1 ? c : ~c);
	}
	return result;
}

/* One of the elements of two words. */
static inline u64 element_of(u64 low, u64 high, u32 index, u32 element)
{
	u32 bit = 8 * element * index;
	u64 word = bit & 64 ? high : low;

	return low_bytes(word >> (bit & 63), element);
}

/* Half of both words' elements, one of a beside one of b. */
static inline u64 zipped(u64 a, u64 b, u32 element)
{
	if (element == 4)
		return (u64)(u32)a | b << 32;
	a = (a & 0xffff) | (a & 0xffff0000) << 16;
	b = (b & 0xffff) | (b & 0xffff0000) << 16;
	if (element == 2)
		return a | b << 16;
	a = (a & 0x000000ff000000ffULL) | (a & 0x0000ff000000ff00ULL) << 8;
	b = (b & 0x000000ff000000ffULL) | (b & 0x0000ff000000ff00ULL) << 8;
	return a | b << 8;
}

/* An element of `element` bytes of one of twice as many, to the nearest that it can hold. */
static inline u64 packed(u64 value, u32 element, int is_signed)
{
	s64 number = (s64)extended(value, 2 * element);
	s64 least = is_signed ? -(1LL << (8 * element - 1)) : 0;
	s64 most = (1LL << (8 * element - is_signed)) - 1;

	number = number < least ? least : number > most ? most : number;
	return low_bytes((u64)number, element);
}

/* From a byte on of the four words in a row, sixteen bytes. */
static inline void take_row(struct lanes *lanes, u32 at, u32 from)
{
	u32 shift = 8 * (from & 7), index, first = from >> 3;

	for (index = 0; index < 2; index++) {
		u32 word = first + index;
		u64 low = word < 4 ? lanes->row[within(word, 3)] : 0;
		u64 high = word < 3 ? lanes->row[within(word + 1, 3)] : 0;
		u32 known = lanes->row_known | ~15U;

		if (shift)
			low = low >> shift | high << (64 - shift);
		lanes->made[within(at + index, 7)] = low;
		known = word >= 4 || ((known >> (word & 7) & 1) &&
				     (!shift || known >> ((word + 1) & 7) & 1));
		lanes->made_known |= known << ((at + index) & 7);
	}
}

/* Bytes of sixteen, each as a byte of the other operand says. */
static inline u64 shuffled(u64 low, u64 high, u64 by)
{
	u64 result = 0;
	u32 index;

	for (index = 0; index < 8; index++) {
		u64 which = by >> 8 * index & 0xff;
		u64 byte = (which & 8 ? high : low) >> 8 * (which & 7) & 0xff;

		if (!(which & 0x80))
			result |= byte << 8 * index;
	}
	return result;
}

static inline void leave_lane(struct lanes *lanes, u32 at, u64 low, u64 high, u32 known)
{
	at = within(at, 6);
	lanes->made[at] = low;
	lanes->made[at + 1] = high;
	lanes->made_known = (lanes->made_known & ~(3U << at)) | known << at;
}

/* Of two elements each, one of them low, half of both operands' elements. */
SUBPROGRAM int zip_lane(struct work *work, u32 at, u32 upper)
{
	struct lanes *lanes;
	u64 a, b;
	u32 known;

	if (!work)
		return 0;
	lanes = &work->way.lanes;
	at = within(at, 6);
	upper = within(at + (upper & 1), 7);
	a = lanes->a[upper];
	b = lanes->b[upper];
	known = (lanes->a_known >> upper & 1) | (lanes->b_known >> upper & 1) << 1;
	if (lanes->element == 8)
		leave_lane(lanes, at, a, b, known);
	else
		leave_lane(lanes, at, zipped((u32)a, (u32)b, lanes->element),
			   zipped(a >> 32, b >> 32, lanes->element), known == 3 ? 3 : 0);
	return 0;
}

SUBPROGRAM int shuffle_lane(struct work *work, u32 at)
{
	struct lanes *lanes;
	u64 low;

	if (!work)
		return 0;
	lanes = &work->way.lanes;
	at &= 6;
	low = shuffled(lanes->a[at], lanes->a[at + 1], lanes->b[at]);
	leave_lane(lanes, at, low, shuffled(lanes->a[at], lanes->a[at + 1], lanes->b[at + 1]),
		   (lanes->a_known >> at & 3) == 3 ? lanes->b_known >> at & 3 : 0);
	return 0;
}

/* Sixteen bytes of both operands in a row. */
SUBPROGRAM int align_lane(struct work *work, u32 at, u32 from)
{
	struct lanes *lanes;

	if (!work)
		return 0;
	lanes = &work->way.lanes;
	at &= 6;
	lanes->row[0] = lanes->b[at];
	lanes->row[1] = lanes->b[at + 1];
	lanes->row[2] = lanes->a[at];
	lanes->row[3] = lanes->a[at + 1];
	lanes->row_known = (lanes->b_known >> at & 3) | (lanes->a_known >> at & 3) << 2;
	lanes->made_known &= ~(3U << at);
	take_row(lanes, at, from & 0xff);
	return 0;
}

/* Elements of four bytes, by two bits of a constant each; the lower two of the first operand if
 * there are two. */
SUBPROGRAM int order_lane(struct work *work, u32 at, u32 imm)
{
	struct lanes *lanes;
	u64 low, high;
	u32 known;

	if (!work)
		return 0;
	lanes = &work->way.lanes;
	at &= 6;
	known = (lanes->b_known >> at & 3) == 3 ? 3 : 0;
	low = lanes->b[at];
	high = lanes->b[at + 1];
	if (lanes->action == LANE_OF_BOTH) {
		low = lanes->a[at];
		high = lanes->a[at + 1];
		known = (known & 2) | ((lanes->a_known >> at & 3) == 3);
	}
	lanes->made[at] = element_of(low, high, imm & 3, 4) |
			  element_of(low, high, imm >> 2 & 3, 4) << 32;
	low = lanes->b[at];
	high = lanes->b[at + 1];
	lanes->made[at + 1] = element_of(low, high, imm >> 4 & 3, 4) |
			      element_of(low, high, imm >> 6 & 3, 4) << 32;
	lanes->made_known = (lanes->made_known & ~(3U << at)) | known << at;
	return 0;
}

/* Elements of eight bytes, one of each operand. */
SUBPROGRAM int choose_lane(struct work *work, u32 at, u32 imm)
{
	struct lanes *lanes;
	u32 one, other;

	if (!work)
		return 0;
	lanes = &work->way.lanes;
	at &= 6;
	one = within(at + (imm >> at & 1), 7);
	other = within(at + (imm >> (at + 1) & 1), 7);
	leave_lane(lanes, at, lanes->a[one], lanes->b[other],
		   (lanes->a_known >> one & 1) | (lanes->b_known >> other & 1) << 1);
	return 0;
}

/* Elements of two bytes of one half. */
SUBPROGRAM int order_half(struct work *work, u32 at, u32 imm)
{
	struct lanes *lanes;
	u64 from, half = 0;
	u32 index;

	if (!work)
		return 0;
	lanes = &work->way.lanes;
	at &= 6;
	lanes->made[at] = lanes->b[at];
	lanes->made[at + 1] = lanes->b[at + 1];
	lanes->made_known = lanes->b_known;
	if (lanes->action == LANE_EIGHTHS_HIGH)
		at++;
	at = within(at, 7);
	from = lanes->b[at];
	for (index = 0; index < 4; index++)
		half |= element_of(from, 0, imm >> 2 * index & 3, 2) << 16 * index;
	lanes->made[at] = half;
	return 0;
}

/* One element of a lane that is packed: those of the first operand go to the lower half. */
SUBPROGRAM int pack_element(struct work *work, u32 at, u32 index)
{
	struct lanes *lanes;
	u32 element, half, known, to;
	u64 part, high;

	if (!work)
		return 0;
	lanes = &work->way.lanes;
	element = lanes->element;
	at = within(at, 6);
	half = index * element >> 3 & 1;
	part = lanes->a[at];
	high = lanes->a[at + 1];
	known = lanes->a_known >> at & 3;
	if (half) {
		part = lanes->b[at];
		high = lanes->b[at + 1];
		known = lanes->b_known >> at & 3;
	}
	to = within(at + half, 7);
	index &= 8 / element - 1;
	part = packed(element_of(part, high, index, 2 * element), element,
		      lanes->action == LANE_PACK_SIGNED);
	if (!index)
		lanes->made[to] = 0;
	lanes->made[to] |= part << (8 * element * index & 63);
	if (known == 3)
		lanes->made_known |= 1U << to;
	return 0;
}

#endif
