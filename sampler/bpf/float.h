/*
 * Floating point numbers, worked out with integers, since the kernel's verifier knows no others.
 * Of doubles and, by way of them, of singles: results are those of the processor, rounded to the
 * nearest. What is smaller than any normal number, infinite or no number is not known. Part of
 * way.h, as instruction.h.
 */
#ifndef VCPI_FLOAT_H
#define VCPI_FLOAT_H

/* No number, which stands for a result that is not known. */
#define FLOAT_UNKNOWN 0x7fffffffffffffffULL
#define FLOAT_SIGN (1ULL << 63)
#define FLOAT_ONE 0x3ff0000000000000ULL
#define FLOAT_BIAS 1023

/* What two numbers are to each other. */
#define ORDER_EQUAL 0
#define ORDER_BELOW 1
#define ORDER_ABOVE 2
#define ORDER_NONE 3

static inline u64 exponent_of(u64 number)
{
	return number >> 52 & 2047;
}

/* With the bit that is not written. */
static inline u64 mantissa_of(u64 number)
{
	return (number & ((1ULL << 52) - 1)) | 1ULL << 52;
}

static inline int is_zero(u64 number)
{
	return !(number << 1);
}

static inline int is_plain(u64 number)
{
	u64 exponent = exponent_of(number);

	return (exponent && exponent != 2047) || is_zero(number);
}

/* What is to be rounded, by round_float. */
static inline void leave_parts(struct lanes *lanes, u64 sign, u64 exponent, u64 mantissa)
{
	lanes->sign = sign;
	lanes->exponent = exponent;
	lanes->mantissa = mantissa;
	lanes->rounds = 1;
}

/* A number of its parts, rounded, into lanes.result. */
SUBPROGRAM int round_float(struct work *work)
{
	struct lanes *lanes;
	u64 exponent, mantissa;
	u32 index;

	if (!work)
		return 0;
	lanes = &work->way.lanes;
	exponent = lanes->exponent;
	mantissa = lanes->mantissa;
	lanes->result = lanes->sign;
	if (!mantissa)
		return 0;
	if (mantissa >> 63) {
		mantissa = mantissa >> 1 | (mantissa & 1);
		exponent++;
	}
	for (index = 0; index < 6; index++) {
		u32 step = 32 >> index;

		if (!(mantissa >> (63 - step))) {
			mantissa <<= step;
			exponent -= step;
		}
	}
	/* Of two that are as near, the even one. */
	mantissa = (mantissa + 0x1ff + (mantissa >> 10 & 1)) >> 10;
	exponent += mantissa >> 53;
	mantissa >>= mantissa >> 53;
	if ((s64)exponent <= 0 || (s64)exponent >= 2047) {
		lanes->result = FLOAT_UNKNOWN;
		return 0;
	}
	lanes->result |= exponent << 52 | (mantissa & ((1ULL << 52) - 1));
	return 0;
}

/* x + y */
SUBPROGRAM int float_sum(struct work *work)
{
	struct lanes *lanes;
	u64 a, b, distance, larger, smaller;

	if (!work)
		return 0;
	lanes = &work->way.lanes;
	a = lanes->x;
	b = lanes->y;
	if (a << 1 < b << 1) {
		a = lanes->y;
		b = lanes->x;
	}
	if (is_zero(b)) {
		lanes->result = is_zero(a) ? a & b : a;
		return 0;
	}
	distance = exponent_of(a) - exponent_of(b);
	larger = mantissa_of(a) << 9;
	smaller = mantissa_of(b) << 9;
	/* What is shifted out leaves a bit. */
	if (distance > 62)
		smaller = 1;
	else if (distance)
		smaller = smaller >> distance | (smaller << (64 - distance) != 0);
	if ((a ^ b) & FLOAT_SIGN)
		larger -= smaller;
	else
		larger += smaller;
	leave_parts(lanes, larger ? a & FLOAT_SIGN : 0, exponent_of(a) + 1, larger);
	return 0;
}

/* x * y */
SUBPROGRAM int float_product(struct work *work)
{
	struct lanes *lanes;
	u64 a, b, one, other;

	if (!work)
		return 0;
	lanes = &work->way.lanes;
	a = lanes->x;
	b = lanes->y;
	one = mantissa_of(a) << 11;
	other = mantissa_of(b) << 10;
	lanes->result = (a ^ b) & FLOAT_SIGN;
	if (!is_zero(a) && !is_zero(b))
		leave_parts(lanes, (a ^ b) & FLOAT_SIGN,
			    exponent_of(a) + exponent_of(b) - FLOAT_BIAS + 1,
			    upper_product(one, other) | (one * other != 0));
	return 0;
}

/* x / y */
SUBPROGRAM int float_quotient(struct work *work)
{
	struct lanes *lanes;
	u64 exponent, rest, by, quotient = 1;
	u32 index;

	if (!work)
		return 0;
	lanes = &work->way.lanes;
	lanes->result = (lanes->x ^ lanes->y) & FLOAT_SIGN;
	if (is_zero(lanes->y))
		lanes->result = FLOAT_UNKNOWN;
	if (is_zero(lanes->x) || is_zero(lanes->y))
		return 0;
	rest = mantissa_of(lanes->x);
	by = mantissa_of(lanes->y);
	exponent = exponent_of(lanes->x) - exponent_of(lanes->y) + FLOAT_BIAS;
	if (rest < by) {
		rest <<= 1;
		exponent--;
	}
	rest -= by;
	/* Eleven bits at a time. */
	for (index = 0; index < 5; index++) {
		u64 digit;

		rest <<= 11;
		digit = rest / by;
		rest -= digit * by;
		quotient = quotient << 11 | digit;
	}
	leave_parts(lanes, lanes->result, exponent, quotient << 7 | (rest != 0));
	return 0;
}

/* The root of y. */
SUBPROGRAM int float_root(struct work *work)
{
	struct lanes *lanes;
	u64 exponent, mantissa, rest = 0, root = 0;
	u32 index;

	if (!work)
		return 0;
	lanes = &work->way.lanes;
	lanes->result = lanes->y;
	if (is_zero(lanes->y))
		return 0;
	if (lanes->y & FLOAT_SIGN) {
		lanes->result = FLOAT_UNKNOWN;
		return 0;
	}
	exponent = exponent_of(lanes->y) - FLOAT_BIAS;
	mantissa = mantissa_of(lanes->y) << (exponent & 1);
	/* Two bits at a time make one of the root. */
	for (index = 0; index < 55; index++) {
		u64 trial = root << 2 | 1;
		u64 fits;

		rest = rest << 2 | (mantissa >> 52 & 3);
		mantissa <<= 2;
		/* Neither has its top bit set. */
		fits = ~(rest - trial) >> 63;
		rest -= trial & -fits;
		root = root << 1 | fits;
	}
	leave_parts(lanes, 0, (u64)((s64)exponent >> 1) + FLOAT_BIAS, root << 8 | (rest != 0));
	return 0;
}

/* A number of two words: to the right by so many bits; what is shifted out leaves a bit. */
static inline void shift_double(u64 *high, u64 *low, u64 distance)
{
	u64 lost = 0;

	if (distance >= 64) {
		lost = *low;
		*low = *high;
		*high = 0;
		distance -= 64;
	}
	if (distance >= 64) {
		lost |= *low;
		*low = 0;
		distance = 0;
	}
	if (distance) {
		lost |= *low << (64 - distance);
		*low = *low >> distance | *high << (64 - distance);
		*high >>= distance;
	}
	*low |= lost != 0;
}

/* The larger one of x * y and z, to which the other one is added: both as two words, in lanes.row,
 * with the exponent of bit 126; lanes.sign is the sign of the first, lanes.count not 0 if they
 * differ. */
SUBPROGRAM int float_align(struct work *work)
{
	struct lanes *lanes;
	u64 one, two, high, low = 0, exponent, other, sign;
	int first;

	if (!work)
		return 0;
	lanes = &work->way.lanes;
	one = mantissa_of(lanes->x) << 11;
	two = mantissa_of(lanes->y) << 10;
	sign = (lanes->x ^ lanes->y) & FLOAT_SIGN;
	lanes->count = (sign ^ lanes->z) & FLOAT_SIGN;
	exponent = exponent_of(lanes->x) + exponent_of(lanes->y) - FLOAT_BIAS + 1;
	other = exponent_of(lanes->z) + 1;
	first = (s64)(exponent - other) >= 0;
	high = mantissa_of(lanes->z) << 9;
	if (is_zero(lanes->z)) {
		high = 0;
		first = 1;
		other = exponent;
	}
	lanes->row[0] = upper_product(one, two);
	lanes->row[1] = one * two;
	lanes->row[2] = high;
	lanes->row[3] = low;
	lanes->sign = sign;
	lanes->exponent = exponent;
	if (!first) {
		lanes->row[2] = lanes->row[0];
		lanes->row[3] = lanes->row[1];
		lanes->row[0] = high;
		lanes->row[1] = 0;
		lanes->sign = lanes->z & FLOAT_SIGN;
		lanes->exponent = other;
		other = exponent;
	}
	high = lanes->row[2];
	low = lanes->row[3];
	shift_double(&high, &low, lanes->exponent - other);
	lanes->row[2] = high;
	lanes->row[3] = low;
	return 0;
}

/* What float_align left, joined. */
SUBPROGRAM int float_fused(struct work *work)
{
	struct lanes *lanes;
	u64 high, low, exponent;
	u32 index;

	if (!work)
		return 0;
	lanes = &work->way.lanes;
	exponent = lanes->exponent;
	if (!lanes->count) {
		low = lanes->row[1] + lanes->row[3];
		high = lanes->row[0] + lanes->row[2] + (low < lanes->row[1]);
	} else {
		low = lanes->row[1] - lanes->row[3];
		high = lanes->row[0] - lanes->row[2] - (lanes->row[1] < lanes->row[3]);
		if (high >> 63) {
			low = -low;
			high = ~high + !low;
			lanes->sign ^= FLOAT_SIGN;
		}
	}
	if (!high) {
		high = low >> 1;
		low <<= 63;
		exponent -= 63;
	}
	if (!high && !low)
		lanes->sign = 0;
	for (index = 0; index < 6; index++) {
		u32 step = 32 >> index;

		if (!(high >> (63 - step))) {
			high = high << step | low >> (64 - step);
			low <<= step;
			exponent -= step;
		}
	}
	leave_parts(lanes, lanes->sign, exponent, high | (low != 0));
	return 0;
}

static inline u32 float_order(u64 a, u64 b)
{
	s64 one, other;

	if (a << 1 > 2047ULL << 53 || b << 1 > 2047ULL << 53)
		return ORDER_NONE;
	one = a & FLOAT_SIGN ? -(s64)(a & ~FLOAT_SIGN) : (s64)a;
	other = b & FLOAT_SIGN ? -(s64)(b & ~FLOAT_SIGN) : (s64)b;
	return one == other ? ORDER_EQUAL : one < other ? ORDER_BELOW : ORDER_ABOVE;
}

/* To a whole number: to the nearest, down, up, or by cutting. */
static inline u64 float_whole(u64 number, u32 mode)
{
	u64 exponent = exponent_of(number), sign = number & FLOAT_SIGN;
	u64 part, mask, half;
	int up;

	if (exponent >= FLOAT_BIAS + 52 || is_zero(number))
		return number;
	if (mode & 4)
		mode = 0;
	mode &= 3;
	if (exponent < FLOAT_BIAS) {
		up = number << 1 > 0x3fe0000000000000ULL << 1;
		mask = 0;
		part = number;
	} else {
		mask = (1ULL << (FLOAT_BIAS + 52 - exponent)) - 1;
		half = (mask >> 1) + 1;
		part = number & mask;
		up = part > half || (part == half && number & (mask + 1));
	}
	if (!part)
		return number;
	if (mode == 1)
		up = sign != 0;
	else if (mode == 2)
		up = !sign;
	else if (mode == 3)
		up = 0;
	if (!mask)
		return sign | (up ? FLOAT_ONE : 0);
	return (number & ~mask) + (up ? mask + 1 : 0);
}

/* As an integer of four or eight bytes, cut; what is too large is the least one. */
static inline u64 float_integer(u64 number, u32 size)
{
	u64 exponent = exponent_of(number), whole;

	if (exponent < FLOAT_BIAS)
		return 0;
	if (exponent >= FLOAT_BIAS + 8 * size - 1)
		return 1ULL << (8 * size - 1);
	exponent -= FLOAT_BIAS;
	whole = mantissa_of(number);
	whole = exponent > 52 ? whole << (exponent - 52) : whole >> (52 - exponent);
	return low_bytes(number & FLOAT_SIGN ? -whole : whole, size);
}

static inline void float_of_integer(struct lanes *lanes, s64 number)
{
	u64 mantissa = magnitude((u64)number), exponent = FLOAT_BIAS + 62;

	/* Singles are rounded later on; a bit stands for what is left out. */
	if (lanes->element == 4 && mantissa >> 50) {
		mantissa = mantissa >> 14 | ((mantissa & 0x3fff) != 0);
		exponent += 14;
	}
	leave_parts(lanes, (u64)number & FLOAT_SIGN, exponent, mantissa);
}

static inline u64 widened(u64 single)
{
	u64 sign = (single & 0x80000000) << 32;
	u64 exponent = single >> 23 & 255, mantissa = single & 0x7fffff;

	if (exponent == 255)
		return sign | 2047ULL << 52 | mantissa << 29;
	if (!exponent)
		return mantissa ? FLOAT_UNKNOWN : sign;
	return sign | (exponent + FLOAT_BIAS - 127) << 52 | mantissa << 29;
}

/* As a single; FLOAT_UNKNOWN as above. */
static inline u64 narrowed(u64 number)
{
	u64 sign = number >> 32 & 0x80000000;
	u64 below = number & 0x1fffffff, bits;

	if (is_zero(number))
		return sign;
	if (exponent_of(number) <= FLOAT_BIAS - 127 || exponent_of(number) > FLOAT_BIAS + 127)
		return FLOAT_UNKNOWN;
	bits = ((number & ~FLOAT_SIGN) - ((u64)(FLOAT_BIAS - 127) << 52)) >> 29;
	if (below > 0x10000000 || (below == 0x10000000 && bits & 1))
		bits++;
	return bits >> 23 == 255 ? FLOAT_UNKNOWN : sign | bits;
}

#endif
