/*
 * The handler follows the interrupted thread's own way: it decodes the instructions that come next,
 * works out registers, flags and stores, and reads the code and the memory that the thread is going to
 * load. Plain C over a struct work, as capture.h, with the same functions, and besides
 *
 *   struct insn *insn_at(u32 index)         a place for a decoded instruction, or null
 *   struct fork *fork_at(u32 index)         what a branch did before, or null
 *   int may_read(struct work *work, u64 address)    whether memory is there, and not a device's
 *
 * What is worked out here is advice: which memory to read. The collector interprets the same code
 * again, from what was read, and takes no value from here. So a result may be wrong, and what is rare
 * need not be understood: what is not known is marked so. Where a branch depends on what is not known,
 * the way goes on where the branch went before.
 */
#ifndef VCPI_WAY_H
#define VCPI_WAY_H

#include "capture.h"
#include "instruction.h"

/* The lines that were read in this sample: whole lines, so that neighbours need no second read. */
static inline u32 line_slot(u64 line)
{
	return (u32)(line >> 6 ^ line >> 12) & (LINES - 1);
}

static INLINE int read_line(struct work *work, u32 used, u64 line)
{
	void *to = &work->tail[within(used + 1, TAIL_WORDS - 1)];

	if (work->kernel)
		return !is_allowed(work, line, 64) || read_kernel(to, 64, line);
	return line >> 56 || !may_read(work, line) || read_user(to, 64, line);
}

/* Reads the line at an address, unless it was. Its first word's index in the tail; 0: not to be
 * had. */
SUBPROGRAM u32 touch(struct work *work, u64 address)
{
	u64 line = address & ~63ULL;
	struct line *held;
	u32 used;

	if (!work)
		return 0;
	held = &work->way.lines[line_slot(line)];
	used = work->record.tail_words & (TAIL_WORDS - 1);
	if (held->line == line && held->serial == work->way.serial)
		return held->at;
	if (used + 9 > TAIL_WORDS - CHANGES_SPARE || work->way.read >= MAX_LINES) {
		work->way.end = WAY_FULL;
		return 0;
	}
	held->line = line;
	held->serial = work->way.serial;
	held->at = 0;
	/* A page that is not there costs a fault; a way that meets several is a wrong one. */
	if (is_nowhere(address)) {
		work->way.failures++;
		return 0;
	}
	if (read_line(work, used, line)) {
		work->way.failures += 2;
		return 0;
	}
	work->tail[used] = (line & ((1ULL << HEAD_ADDRESS_BITS) - 1)) | 63ULL << HEAD_ADDRESS_BITS;
	work->record.tail_words = used + 9;
	work->way.read++;
	held->at = used + 1;
	return used + 1;
}

/* Operands are of one, two, four or eight bytes. */
static inline u32 bytes_of(u8 size)
{
	return size == 1 || size == 2 || size == 4 ? size : 8;
}

static inline u64 low_bytes(u64 word, u32 size)
{
	u32 unused = (64 - 8 * size) & 63;

	return word << unused >> unused;
}

static inline u64 extended(u64 word, u32 size)
{
	u32 unused = (64 - 8 * size) & 63;

	return (u64)((s64)(word << unused) >> unused);
}

/* Up to eight bytes of memory, into way->loaded; whether they are known. */
static INLINE int read_word(struct work *work, u64 address, u32 size)
{
	u32 offset = address & 63;
	u32 shift = 8 * (offset & 7);
	u32 at = touch(work, address);
	u32 next;
	u64 low, high;

	if (!at)
		return 0;
	at = (u32)within(at + (offset >> 3), TAIL_WORDS - 1);
	low = work->tail[at] >> shift;
	if ((offset & 7) + size > 8) {
		next = at + 1;
		if (offset + size > 64) {
			next = touch(work, address + 8);
			if (!next)
				return 0;
		}
		high = work->tail[within(next, TAIL_WORDS - 1)];
		low |= high << ((64 - shift) & 63);
	}
	work->way.loaded = low_bytes(low, size);
	return 1;
}

static INLINE struct stored *stored_at(struct work *work, u64 address)
{
	return &work->way.stored[(address >> 3) & (STORED - 1)];
}

/* Bytes of one word: what the way has stored, or else memory. */
static INLINE int load_part(struct work *work, u64 address, u32 size)
{
	struct stored *held = stored_at(work, address);
	u32 offset = address & 7;
	u32 bytes = ((1U << size) - 1) << offset;
	u32 common;

	if (held->word != address >> 3 || held->serial != work->way.serial)
		return read_word(work, address, size);
	common = held->bytes & bytes;
	if (!common)
		return read_word(work, address, size);
	if (common != bytes || (held->known & bytes) != bytes)
		return 0;
	work->way.loaded = low_bytes(held->value >> 8 * offset, size);
	return 1;
}

/* Loads what the way has stored, or else memory, into way->loaded; whether it is known. */
SUBPROGRAM int load_word(struct work *work, u64 address, u32 size)
{
	struct stored *next;
	u64 low;
	u32 first;

	if (!work)
		return 0;
	size &= 15;
	work->way.loaded = 0;
	first = 8 - (address & 7);
	next = stored_at(work, address + 8);
	/* Over the edge of a word, of which something may have been stored. */
	if (size > first && ((next->word == (address >> 3) + 1 && next->serial == work->way.serial) ||
			     stored_at(work, address)->word == address >> 3)) {
		if (!load_part(work, address, first))
			return 0;
		low = work->way.loaded;
		if (!load_part(work, address + first, size - first))
			return 0;
		work->way.loaded = low | work->way.loaded << (8 * first & 63);
		return 1;
	}
	return load_part(work, address, size);
}

static INLINE void store_part(struct work *work, u64 address, u32 size, u64 value, int known)
{
	struct stored *held = stored_at(work, address);
	u32 offset = address & 7;
	u32 bytes = (((1U << size) - 1) << offset) & 255;
	u64 mask = low_bytes(~0ULL, size) << 8 * offset;

	if (held->word != address >> 3 || held->serial != work->way.serial) {
		held->word = address >> 3;
		held->serial = work->way.serial;
		held->bytes = 0;
		held->known = 0;
		held->value = 0;
	}
	held->bytes |= bytes;
	held->value = (held->value & ~mask) | (value << 8 * offset & mask);
	held->known = known ? held->known | bytes : held->known & ~bytes;
}

SUBPROGRAM int store_word(struct work *work, u64 address, u32 size, u64 value, int known)
{
	u32 first;

	if (!work)
		return 0;
	size &= 15;
	first = 8 - (address & 7);
	if (size <= first) {
		store_part(work, address, size, value, known);
		return 0;
	}
	store_part(work, address, first, value, known);
	store_part(work, address + first, size - first, value >> (8 * first & 63), known);
	return 0;
}

static INLINE int is_known(const struct way *way, u32 number)
{
	return way->known >> (number & (WORDS - 1)) & 1;
}

/* What `size` bytes of a register hold. */
static INLINE u64 get(const struct way *way, u32 number, u32 size)
{
	u64 word = way->words[number & (WORDS - 1)];

	return low_bytes(number & SECOND_BYTE ? word >> 8 : word, size);
}

/* A register after `size` bytes were written to it. */
static INLINE void set(struct way *way, u32 number, u64 value, u32 size, int known)
{
	u32 at = number & (WORDS - 1);
	u64 old = way->words[at];
	u64 mask = size == 1 ? 0xff : 0xffff;

	if (size <= 2) {
		known = known && is_known(way, at);
		if (number & SECOND_BYTE) {
			mask <<= 8;
			value <<= 8;
		}
		value = (old & ~mask) | (value & mask);
	} else if (size == 4) {
		value = (u32)value;
	}
	way->words[at] = value;
	way->known = known ? way->known | 1U << at : way->known & ~(1U << at);
}

static inline void forget(struct way *way, u32 number)
{
	way->known &= ~(1U << (number & 15));
}

static INLINE int address_of(const struct way *way, const struct insn *insn, u64 *address)
{
	u64 index = way->words[insn->index & (WORDS - 1)];

	*address = way->words[insn->base & (WORDS - 1)] + (index << (insn->scale & 3)) +
		   (s64)insn->displacement + way->words[insn->segment & (WORDS - 1)];
	return is_known(way, insn->base) && is_known(way, insn->index) &&
	       is_known(way, insn->segment);
}

/* An operand that is read and perhaps written: where it lies, what it holds. */
struct operand {
	u64 address, value;
	/* Whether the address, and the value are known. */
	int placed, known;
};

/* The operand `rm`, which is read if `reads`. */
static inline void open(struct work *work, const struct insn *insn, struct operand *of, u32 size,
			int reads)
{
	struct way *way = &work->way;

	of->address = 0;
	of->value = 0;
	of->known = 0;
	if (!(insn->flags & OPERAND_MEMORY)) {
		of->value = get(way, insn->rm, size);
		of->known = is_known(way, insn->rm);
		of->placed = 1;
		return;
	}
	of->placed = address_of(way, insn, &of->address);
	if (of->placed && reads) {
		of->known = load_word(work, of->address, size);
		of->value = work->way.loaded;
	}
}

static inline const struct operand *with(struct operand *of, u64 value, int known)
{
	of->value = value;
	of->known = known;
	return of;
}

/* Writes the operand `rm`. */
static inline void put(struct work *work, const struct insn *insn, const struct operand *of,
		       u32 size)
{
	if (!(insn->flags & OPERAND_MEMORY))
		set(&work->way, insn->rm, of->value, size, of->known);
	else if (of->placed)
		store_word(work, of->address, size, of->value, of->known);
}

/* The flags: of a comparison of two operands, of a sum, or as a register has them. A result that is
 * tested is compared with 0. */
static INLINE void set_flags(struct way *way, u64 a, u64 b, u64 result, u32 size, u32 carry)
{
	way->flags_a = low_bytes(a, size);
	way->flags_b = low_bytes(b, size);
	way->flags_result = low_bytes(result, size);
	way->flags_size = size;
	way->flags_carry = carry;
	way->flags_sum = 0;
}

/* The carry: 0, 1, or 2 where it is not known. */
static INLINE u32 carry_of(const struct way *way)
{
	if (way->flags_size == FLAGS_OF_REGISTER)
		return way->flags_a & 1;
	return way->flags_carry;
}

/* Whether a condition (the low four bits of the processor's encoding) holds: 1, 0, or -1 where that
 * is not known. */
static INLINE int holds(const struct way *way, u32 condition)
{
	u32 size = way->flags_size;
	u32 carry = carry_of(way);
	u32 top = (8 * size - 1) & 63;
	u32 zero, sign, overflow, result;
	u64 a = way->flags_a, value = way->flags_result;

	condition &= 15;
	if (condition >> 1 == 1)
		return carry > 1 ? -1 : (int)(carry ^ (condition & 1));
	if (size == FLAGS_UNKNOWN)
		return -1;
	if (size == FLAGS_OF_REGISTER) {
		zero = a >> 6 & 1;
		sign = a >> 7 & 1;
		overflow = a >> 11 & 1;
	} else {
		u64 b = way->flags_b;

		zero = !value;
		sign = value >> top & 1;
		if (way->flags_sum)
			overflow = ((a ^ value) & (b ^ value)) >> top & 1;
		else
			overflow = ((a ^ b) & (a ^ value)) >> top & 1;
	}
	switch (condition >> 1) {
	case 0:
		result = overflow;
		break;
	case 2:
		result = zero;
		break;
	case 3:
		if (carry > 1 && !zero)
			return -1;
		result = carry | zero;
		break;
	case 4:
		result = sign;
		break;
	case 5:
		if (size == FLAGS_OF_REGISTER) {
			result = a >> 2 & 1;
			break;
		}
		value ^= value >> 4;
		value ^= value >> 2;
		value ^= value >> 1;
		result = ~value & 1;
		break;
	case 6:
		result = sign ^ overflow;
		break;
	default:
		result = zero | (sign ^ overflow);
		break;
	}
	return (int)((result & 1) ^ (condition & 1));
}

static INLINE void forget_flags(struct way *way)
{
	way->flags_size = FLAGS_UNKNOWN;
	way->flags_carry = 2;
}

/* What an operation writes: nothing; the register; the operand `rm`; the stack. */
#define WRITES_NOTHING 0
#define WRITES_REGISTER 1
#define WRITES_OPERAND 2
#define WRITES_STACK 3

/* Sums, differences and their like. The operand becomes the result. */
static INLINE u32 do_binary(struct way *way, const struct insn *insn, struct operand *rm, u32 size)
{
	u64 a, b, result;
	u32 carry;
	int known_a, known_b, known;

	if (insn->flags & OPERAND_IMMEDIATE) {
		b = low_bytes((s64)insn->value, size);
		known_b = 1;
	} else {
		b = get(way, insn->reg, size);
		known_b = is_known(way, insn->reg);
	}
	a = rm->value;
	known_a = rm->known;
	if (insn->flags & OPERAND_TO_REGISTER) {
		a = b;
		known_a = known_b;
		b = rm->value;
		known_b = rm->known;
	}
	known = known_a && known_b;
	/* What comes of a register and itself does not depend on it. */
	if (!(insn->flags & (OPERAND_MEMORY | OPERAND_IMMEDIATE)) && insn->reg == insn->rm &&
	    (insn->op == BINARY_XOR || insn->op == BINARY_SUB)) {
		a = b;
		known = 1;
		if (size >= 4)
			way->known |= 1U << (insn->rm & 15);
	}
	carry = 0;
	if (insn->op == BINARY_ADC || insn->op == BINARY_SBB) {
		carry = carry_of(way);
		if (carry > 1) {
			carry = 0;
			known = 0;
		}
	}
	switch (insn->op) {
	case BINARY_ADD:
	case BINARY_ADC:
		result = low_bytes(a + b + carry, size);
		set_flags(way, a, b, result, size, result < a || (carry && result == a));
		way->flags_sum = 1;
		break;
	case BINARY_SUB:
	case BINARY_CMP:
	case BINARY_SBB:
		result = low_bytes(a - b - carry, size);
		set_flags(way, a, b, result, size, a < b || (carry && a == b));
		break;
	case BINARY_OR:
		result = a | b;
		set_flags(way, result, 0, result, size, 0);
		break;
	case BINARY_XOR:
		result = a ^ b;
		set_flags(way, result, 0, result, size, 0);
		break;
	default:
		result = a & b;
		/* Zeros are zeros, whatever they meet. */
		if ((known_a && !a) || (known_b && !b))
			known = 1;
		set_flags(way, result, 0, result, size, 0);
		break;
	}
	if (!known)
		forget_flags(way);
	rm->value = result;
	rm->known = known;
	if (insn->op == BINARY_CMP || insn->op == BINARY_TEST)
		return WRITES_NOTHING;
	return insn->flags & OPERAND_TO_REGISTER ? WRITES_REGISTER : WRITES_OPERAND;
}

/* Moves, with or without extension. */
static INLINE u32 do_move(struct way *way, const struct insn *insn, struct operand *rm, u32 size)
{
	if (insn->flags & OPERAND_TO_REGISTER) {
		if (insn->flags & OPERAND_SIGNED)
			rm->value = extended(rm->value, bytes_of(insn->width));
		return WRITES_REGISTER;
	}
	rm->value = (s64)insn->value;
	rm->known = 1;
	if (!(insn->flags & OPERAND_IMMEDIATE)) {
		rm->value = get(way, insn->reg, size);
		rm->known = is_known(way, insn->reg);
	}
	return WRITES_OPERAND;
}

static INLINE u32 do_unary(struct way *way, const struct insn *insn, struct operand *rm, u32 size)
{
	u32 carry = carry_of(way);
	u64 result;

	switch (insn->op) {
	case UNARY_NOT:
		rm->value = ~rm->value;
		return WRITES_OPERAND;
	case UNARY_NEG:
		result = low_bytes(-rm->value, size);
		set_flags(way, 0, rm->value, result, size, rm->value != 0);
		break;
	case UNARY_INC:
		result = low_bytes(rm->value + 1, size);
		set_flags(way, rm->value, 1, result, size, carry);
		way->flags_sum = 1;
		break;
	default:
		result = low_bytes(rm->value - 1, size);
		set_flags(way, rm->value, 1, result, size, carry);
		break;
	}
	if (!rm->known)
		forget_flags(way);
	rm->value = result;
	return WRITES_OPERAND;
}

/* Shifts and rotations, whose count is a constant or in cl. */
static inline void do_shift(struct work *work, const struct insn *insn)
{
	struct way *way = &work->way;
	u32 size = bytes_of(insn->size);
	u32 bits = 8 * size;
	struct operand rm;
	u64 result;
	u32 count, carry = 2;
	int known;

	open(work, insn, &rm, size, 1);
	known = rm.known;
	count = insn->value;
	if (!(insn->flags & OPERAND_IMMEDIATE)) {
		count = way->words[RCX];
		known = known && is_known(way, RCX);
	}
	count &= size == 8 ? 63 : 31;
	if (known && !count)
		return;
	switch (insn->op) {
	case 0:
	case 1:
		count &= bits - 1;
		if (insn->op == 1)
			count = (bits - count) & (bits - 1);
		result = count ? rm.value << count | rm.value >> ((bits - count) & 63) : rm.value;
		/* Only carry and overflow change. */
		way->flags_carry = 2;
		put(work, insn, with(&rm, result, known), size);
		return;
	case 4:
	case 6:
		result = rm.value << (count & 63);
		if (count <= bits)
			carry = rm.value >> ((bits - count) & 63) & 1;
		break;
	case 5:
		result = rm.value >> (count & 63);
		carry = rm.value >> ((count - 1) & 63) & 1;
		break;
	case 7:
		result = (u64)((s64)extended(rm.value, size) >> (count & 63));
		carry = extended(rm.value, size) >> ((count - 1) & 63) & 1;
		break;
	default:
		/* Through the carry. */
		forget_flags(way);
		put(work, insn, with(&rm, 0, 0), size);
		return;
	}
	set_flags(way, result, 0, result, size, carry);
	if (!known)
		forget_flags(way);
	put(work, insn, with(&rm, result, known), size);
}

static inline void do_multiply(struct work *work, const struct insn *insn)
{
	struct way *way = &work->way;
	u32 size = bytes_of(insn->size);
	struct operand rm;
	u64 b = (s64)insn->value;
	int known;

	open(work, insn, &rm, size, 1);
	known = rm.known;
	if (!(insn->flags & OPERAND_IMMEDIATE)) {
		b = way->words[insn->reg & 15];
		known = known && is_known(way, insn->reg);
	}
	set(way, insn->reg, rm.value * b, size, known);
	forget_flags(way);
}

/* The upper half of a product. */
static inline u64 upper_product(u64 a, u64 b)
{
	u64 low = (u32)a * (u64)(u32)b;
	u64 one = (a >> 32) * (u32)b, two = (u32)a * (b >> 32);
	u64 middle = (low >> 32) + (u32)one + (u32)two;

	return (a >> 32) * (b >> 32) + (one >> 32) + (two >> 32) + (middle >> 32);
}

static inline u64 magnitude(u64 word)
{
	return (s64)word < 0 ? -word : word;
}

/* Products and quotients of rax and rdx. */
static inline void do_wide(struct work *work, const struct insn *insn)
{
	struct way *way = &work->way;
	u32 size = bytes_of(insn->size);
	struct operand rm;
	u64 a, b, high = 0;
	u64 low;
	int known, is_signed = insn->op & 1;

	open(work, insn, &rm, size, 1);
	known = rm.known && is_known(way, RAX) && size >= 4;
	b = rm.value;
	forget_flags(way);
	if (insn->op >= 6)
		known = known && is_known(way, RDX) && b;
	if (!known) {
		forget(way, RAX);
		if (size > 1)
			forget(way, RDX);
		return;
	}
	a = low_bytes(way->words[RAX], size);
	if (insn->op < 6) {
		if (is_signed && size == 4) {
			a = extended(a, 4);
			b = extended(b, 4);
		}
		low = a * b;
		if (size == 4) {
			high = low >> 32;
		} else {
			high = upper_product(a, b);
			if (is_signed)
				high -= ((s64)a < 0 ? b : 0) + ((s64)b < 0 ? a : 0);
		}
		set(way, RAX, low, size, 1);
		set(way, RDX, high, size, 1);
		return;
	}
	high = low_bytes(way->words[RDX], size);
	if (size == 4) {
		a |= high << 32;
		b = is_signed ? extended(b, 4) : b;
	} else if (high != (is_signed ? (u64)((s64)a >> 63) : 0)) {
		/* Numbers of sixteen bytes are rare. */
		forget(way, RAX);
		forget(way, RDX);
		return;
	}
	if (is_signed) {
		u64 quotient = magnitude(a) / magnitude(b);
		u64 rest = magnitude(a) - quotient * magnitude(b);

		low = (s64)(a ^ b) < 0 ? -quotient : quotient;
		high = (s64)a < 0 ? -rest : rest;
	} else {
		low = a / b;
		high = a - low * b;
	}
	set(way, RAX, low, size, 1);
	set(way, RDX, high, size, 1);
}

/* Bits that are looked at, and perhaps changed. */
static inline void do_bit(struct work *work, const struct insn *insn)
{
	struct way *way = &work->way;
	u32 size = bytes_of(insn->size);
	struct operand rm;
	u64 bit = insn->value, mask, result;
	int known = 1;

	if (!(insn->flags & OPERAND_IMMEDIATE)) {
		bit = get(way, insn->reg, size);
		known = is_known(way, insn->reg);
	}
	open(work, insn, &rm, size, 0);
	if (insn->flags & OPERAND_MEMORY) {
		/* A register numbers bits far away as well. */
		if (!(insn->flags & OPERAND_IMMEDIATE))
			rm.address += ((s64)extended(bit, size) >> 3) & -(s64)size;
		rm.placed = rm.placed && known;
		if (rm.placed)
			rm.known = load_word(work, rm.address, size);
		rm.value = way->loaded;
	}
	known = known && rm.known;
	bit &= 8 * size - 1;
	mask = 1ULL << (bit & 63);
	way->flags_carry = known ? (rm.value & mask) != 0 : 2;
	if (way->flags_size == FLAGS_OF_REGISTER)
		way->flags_size = FLAGS_UNKNOWN;
	switch (insn->op & 3) {
	case 0:
		return;
	case 1:
		result = rm.value | mask;
		break;
	case 2:
		result = rm.value & ~mask;
		break;
	default:
		result = rm.value ^ mask;
		break;
	}
	put(work, insn, with(&rm, result, known), size);
}

static inline void do_exchange(struct work *work, const struct insn *insn)
{
	struct way *way = &work->way;
	u32 size = bytes_of(insn->size);
	struct operand rm;
	u64 value = get(way, insn->reg, size);
	int known = is_known(way, insn->reg);

	open(work, insn, &rm, size, 1);
	if (insn->kind == KIND_ADD_EXCHANGE) {
		value = low_bytes(value + rm.value, size);
		known = known && rm.known;
		set_flags(way, rm.value, value - rm.value, value, size, value < rm.value);
		way->flags_sum = 1;
		if (!known)
			forget_flags(way);
	}
	set(way, insn->reg, rm.value, size, rm.known);
	put(work, insn, with(&rm, value, known), size);
}

static inline void do_compare_exchange(struct work *work, const struct insn *insn)
{
	struct way *way = &work->way;
	u32 size = bytes_of(insn->size);
	struct operand rm;
	u64 a = get(way, RAX, size);

	open(work, insn, &rm, size, 1);
	if (!rm.known || !is_known(way, RAX)) {
		forget(way, RAX);
		forget_flags(way);
		put(work, insn, with(&rm, 0, 0), size);
		return;
	}
	set_flags(way, a, rm.value, a - rm.value, size, a < rm.value);
	if (a == rm.value)
		put(work, insn, with(&rm, get(way, insn->reg, size), is_known(way, insn->reg)), size);
	else
		set(way, RAX, rm.value, size, 1);
}

/* String instructions upwards. Of repeated ones the first lines are read; what is far away of what they
 * write is taken for what was there. */
static inline void do_string(struct work *work, const struct insn *insn)
{
	struct way *way = &work->way;
	u32 size = bytes_of(insn->size);
	u32 what = insn->op >> 1 & 7;
	u64 from = way->words[6], to = way->words[7], count = 1, value = 0, other;
	int reads_from = what == 2 || what == 3 || what == 6;
	int writes = what == 2 || what == 5;
	int known = 0, moves_from = reads_from, moves_to = what != 6;
	u32 index;

	if (insn->flags & (OPERAND_REPEATED | OPERAND_REPEATED_UNEQUAL)) {
		count = way->words[RCX];
		if (!is_known(way, RCX) || what == 3 || what == 7 || what == 6) {
			/* How far it goes is not followed. */
			if (reads_from && is_known(way, 6))
				touch(work, from);
			if (what != 6 && is_known(way, 7))
				touch(work, to);
			forget(way, RCX);
			if (moves_from)
				forget(way, 6);
			if (moves_to)
				forget(way, 7);
			if (what == 6)
				forget(way, RAX);
			if (!writes)
				forget_flags(way);
			return;
		}
		set(way, RCX, 0, 8, 1);
	}
	for (index = 0; index < 16; index++) {
		if (index >= count)
			break;
		known = 0;
		value = 0;
		if (reads_from && is_known(way, 6))
			known = load_word(work, from + size * index, size);
		value = known ? way->loaded : 0;
		if (what == 5) {
			value = get(way, RAX, size);
			known = is_known(way, RAX);
		}
		if (writes && is_known(way, 7))
			store_word(work, to + size * index, size, value, known);
	}
	if (what == 6)
		set(way, RAX, value, size, known);
	if (what == 3 || what == 7) {
		if (what == 7) {
			value = get(way, RAX, size);
			known = is_known(way, RAX);
		}
		other = 0;
		known = known && is_known(way, 7) && load_word(work, to, size);
		other = known ? way->loaded : 0;
		set_flags(way, value, other, value - other, size, value < other);
		if (!known)
			forget_flags(way);
	}
	if (moves_from)
		way->words[6] = from + size * count;
	if (moves_to)
		way->words[7] = to + size * count;
	/* What a long copy reads: some lines more. */
	if (what == 2 && is_known(way, 6) && count > 16)
		for (index = 1; index < 4; index++)
			if (64 * index < size * count)
				touch(work, from + 64 * index);
}

/* Counts of bits, and where the first and the last one is. */
static inline void do_scan(struct work *work, const struct insn *insn)
{
	struct way *way = &work->way;
	u32 size = bytes_of(insn->size);
	u32 bits = 8 * size;
	int repeated = insn->flags & OPERAND_REPEATED;
	struct operand rm;
	u64 word;
	u32 index, result = 0;

	open(work, insn, &rm, size, 1);
	word = rm.value;
	forget_flags(way);
	if (insn->op == 0xb8) {
		for (index = 0; index < 8; index++) {
			u64 byte = word >> 8 * index & 0xff;

			byte = byte - (byte >> 1 & 0x55);
			byte = (byte & 0x33) + (byte >> 2 & 0x33);
			result += (byte + (byte >> 4)) & 0xf;
		}
		if (rm.known)
			set_flags(way, word, 0, word, 8, 0);
		set(way, insn->reg, result, size, rm.known);
		return;
	}
	if (rm.known && !word) {
		set_flags(way, repeated ? 1 : 0, 0, repeated ? 1 : 0, 8, 1);
		if (repeated)
			set(way, insn->reg, bits, size, 1);
		return;
	}
	if (insn->op == 0xbc)
		word &= -word;
	/* Of the highest bit that is set the number. */
	for (index = 0; index < 6; index++) {
		u32 half = 32 >> index;

		if (word >> half) {
			word >>= half;
			result += half;
		}
	}
	if (insn->op == 0xbd && repeated)
		result = bits - 1 - result;
	if (rm.known)
		set_flags(way, repeated ? result : 1, 0, repeated ? result : 1, 8, 0);
	set(way, insn->reg, result, size, rm.known);
}

static inline u64 swapped(u64 word)
{
	word = (word & 0x00ff00ff00ff00ffULL) << 8 | (word >> 8 & 0x00ff00ff00ff00ffULL);
	word = (word & 0x0000ffff0000ffffULL) << 16 | (word >> 16 & 0x0000ffff0000ffffULL);
	return word << 32 | word >> 32;
}

static inline void do_swap(struct work *work, const struct insn *insn)
{
	u32 size = bytes_of(insn->size);
	u32 unused = 64 - 8 * size;
	struct operand rm;
	u64 value;

	if (insn->op && !(insn->flags & OPERAND_TO_REGISTER)) {
		open(work, insn, &rm, size, 0);
		value = swapped(get(&work->way, insn->reg, size)) >> (unused & 63);
		put(work, insn, with(&rm, value, is_known(&work->way, insn->reg)), size);
		return;
	}
	open(work, insn, &rm, size, 1);
	value = swapped(rm.value) >> (unused & 63);
	set(&work->way, insn->op ? insn->reg : insn->rm, value, size, rm.known);
}

static INLINE void do_extend(struct way *way, const struct insn *insn)
{
	u32 size = bytes_of(insn->size);
	u64 value = get(way, RAX, size);
	int known = is_known(way, RAX);

	if (insn->op == 0x98)
		set(way, RAX, extended(value, size / 2), size, known);
	else
		set(way, RDX, (u64)((s64)extended(value, size) >> 63), size, known);
}

/* The instructions of general registers that have three operands. */
static inline void do_bmi(struct work *work, const struct insn *insn)
{
	struct way *way = &work->way;
	u32 size = bytes_of(insn->size);
	u32 prefix = insn->map >> 4;
	u32 to = insn->reg;
	struct operand rm;
	u64 other = get(way, insn->beside, size), value, result = 0;
	int known;
	u32 count;

	open(work, insn, &rm, size, 1);
	value = rm.value;
	known = rm.known && is_known(way, insn->beside);
	count = other & (8 * size - 1);
	switch (insn->opcode) {
	case 0xf0:
		known = rm.known;
		count = insn->value & (8 * size - 1);
		result = count ? value >> count | value << ((8 * size - count) & 63) : value;
		break;
	case 0xf2:
		result = ~other & value;
		set_flags(way, result, 0, result, size, 0);
		break;
	case 0xf3:
		known = rm.known;
		to = insn->beside;
		if ((insn->reg & 7) == 1)
			result = value & (value - 1);
		else if ((insn->reg & 7) == 2)
			result = value ^ (value - 1);
		else
			result = value & -value;
		result = low_bytes(result, size);
		set_flags(way, result, 0, result, size,
			  (insn->reg & 7) == 3 ? value != 0 : value == 0);
		break;
	case 0xf5:
		if (prefix)
			known = 0;
		count = other & 0xff;
		result = count < 8 * size ? value & ((1ULL << (count & 63)) - 1) : value;
		set_flags(way, result, 0, result, size, count >= 8 * size);
		break;
	case 0xf6:
		known = rm.known && is_known(way, RDX);
		value = size == 8 ? value : (u32)value;
		other = get(way, RDX, size);
		set(way, insn->beside, value * other, size, known);
		result = size == 8 ? upper_product(value, other) : value * other >> 32;
		set(way, to, result, size, known);
		return;
	default:
		if (prefix == 1) {
			result = value << count;
		} else if (prefix == 2) {
			result = (u64)((s64)extended(value, size) >> count);
		} else if (prefix == 3) {
			result = value >> count;
		} else {
			u32 length = other >> 8 & 0xff;

			count = other & 0xff;
			result = count < 64 ? value >> (count & 63) : 0;
			if (length < 64)
				result &= (1ULL << (length & 63)) - 1;
			set_flags(way, result, 0, result, size, 0);
		}
		break;
	}
	if (!known && (insn->opcode != 0xf0 && !(insn->opcode == 0xf7 && prefix)))
		forget_flags(way);
	set(way, to, result, size, known);
}

/* Memory that is loaded into what is not followed, and that is written with it: of up to 64 bytes. */
static inline void touch_bytes(struct work *work, u64 address, u32 size)
{
	touch(work, address);
	if ((address & 63) + size > 64)
		touch(work, address + size - 1);
}

static inline void blur(struct work *work, u64 address, u32 size)
{
	u32 index;

	for (index = 0; index < 8; index++) {
		if (8 * index >= size)
			break;
		store_word(work, address + 8 * index, size - 8 * index < 8 ? size - 8 * index : 8, 0,
			   0);
	}
}

static inline void do_other(struct work *work, const struct insn *insn)
{
	struct way *way = &work->way;
	u64 address;

	way->known &= ~(insn->forgotten & 0xffff);
	forget_flags(way);
	if (insn->flags & OPERAND_MEMORY) {
		if (!address_of(way, insn, &address))
			return;
		touch_bytes(work, address, 8);
		blur(work, address, 8);
		return;
	}
	forget(way, insn->rm);
	forget(way, insn->reg);
}

/* The coprocessor: only memory, and where its flags go. */
static inline void do_float_stack(struct work *work, const struct insn *insn)
{
	struct way *way = &work->way;
	u32 size = insn->width & 0x7f;
	u64 address;

	if (insn->flags & OPERAND_MEMORY) {
		if (!address_of(way, insn, &address))
			return;
		if (insn->width & 0x80)
			blur(work, address, size);
		else
			touch_bytes(work, address, size);
		return;
	}
	if (insn->op == 0xdf && insn->width == 4)
		forget(way, RAX);
	if ((insn->op == 0xdb || insn->op == 0xdf) && (insn->width == 5 || insn->width == 6))
		forget_flags(way);
}

/* Whether a branch is taken; 1 if the way ends there. What it does is noted with the instruction where
 * that is known, and looked up where it is not. */
static INLINE int branch(struct work *work, struct insn *insn, int taken)
{
	struct way *way = &work->way;
	u32 before = insn->taken;

	if (taken < 0) {
		if (way->guesses++ >= MAX_GUESSES) {
			way->end = WAY_UNKNOWN;
			return 1;
		}
		/* Of a loop that was not met, the body. */
		taken = before ? before > 3 : insn->value < 0;
	} else if (!way->guesses) {
		/* Two bits, as processors have them: 2 to 5. */
		if (!before)
			insn->taken = taken ? 4 : 3;
		else if (taken && before < 5)
			insn->taken = before + 1;
		else if (!taken && before > 2)
			insn->taken = before - 1;
	}
	if (taken)
		way->pc += (s64)insn->value;
	return 0;
}

/* Goes on at an address that a register or memory holds. */
static INLINE int go_to(struct work *work, u64 target, int known)
{
	struct way *way = &work->way;
	struct fork *fork;

	/* One of a few is noted: it costs a line of the cache. */
	if (known && (way->guesses || (way->words[WORD_PC] ^ way->serial) & 7)) {
		way->pc = target;
		return 0;
	}
	fork = fork_at((u32)mixed_word(way->pc) & (FORKS - 1));
	if (!known) {
		if (!fork || fork->pc != way->pc || way->guesses++ >= MAX_GUESSES) {
			way->end = WAY_UNKNOWN;
			return 1;
		}
		way->pc = fork->target;
		return 0;
	}
	if (fork) {
		fork->pc = way->pc;
		fork->target = target;
	}
	way->pc = target;
	return 0;
}

/* Sixteen bytes of code from an address on, as far as they are to be had. */
static INLINE int fetch_code(struct work *work, u64 pc, u32 wanted)
{
	struct way *way = &work->way;
	u32 offset = pc & 63;
	u32 shift = 8 * (offset & 7);
	u32 at = way->code_line == (pc & ~63ULL) ? way->code_at : touch(work, pc);
	u32 have = 64 - offset, next = 0;
	u64 a, b = 0, c = 0;

	if (!at)
		return 1;
	way->code_line = pc & ~63ULL;
	way->code_at = at;
	if (wanted > have) {
		next = touch(work, pc + 15);
		if (!next)
			return 1;
	}
	at += offset >> 3;
	a = work->tail[within(at, TAIL_WORDS - 1)];
	if (offset < 56)
		b = work->tail[within(at + 1, TAIL_WORDS - 1)];
	else if (next)
		b = work->tail[within(next, TAIL_WORDS - 1)];
	if (offset < 48)
		c = work->tail[within(at + 2, TAIL_WORDS - 1)];
	else if (next)
		c = work->tail[within(offset < 56 ? next : next + 1, TAIL_WORDS - 1)];
	way->code[0] = shift ? a >> shift | b << (64 - shift) : a;
	way->code[1] = shift ? b >> shift | c << (64 - shift) : b;
	return 0;
}

/* Of bytes behind the eighth, as far as `length` goes. */
static INLINE u32 check_of(u64 second, u32 length)
{
	u64 own;

	if (length <= 8)
		return 0;
	own = low_bytes(second, length - 8) * 0x9e3779b97f4a7c15ULL;
	return own >> 56;
}

/* Where the decoded instruction at an address has its place: near those of its neighbours, since each
 * page and each line of such places that is looked at is one more that is in no cache. */
static INLINE u32 place_of_insn(u64 pc)
{
	u32 line = (u32)mixed_word(pc >> 12) + (u32)(pc >> 6 & 63);

	return (line * INSNS_OF_LINE + (u32)(pc & (INSNS_OF_LINE - 1))) & (INSNS - 1);
}

static inline int goes_beyond_line(const struct insn *insn, u64 pc)
{
	return insn->length + (pc & 63) > 64;
}

/* Has the next instruction decoded in its place, if it is not; 0, if its code is not to be had. */
SUBPROGRAM int decode_next(struct work *work)
{
	struct way *way;
	struct insn *insn;

	if (!work)
		return 0;
	way = &work->way;
	insn = insn_at(place_of_insn(way->pc));
	if (!insn || fetch_code(work, way->pc, goes_beyond_line(insn, way->pc) ? 16 : 1))
		return 0;
	if (insn->first == way->code[0] && insn->check == (u8)check_of(way->code[1], insn->length))
		return 1;
	/* Others may look at it meanwhile. */
	insn->first = ~way->code[0];
	decode_insn(work, insn);
	if (goes_beyond_line(insn, way->pc)) {
		if (fetch_code(work, way->pc, 16))
			return 0;
		decode_insn(work, insn);
	}
	way->decoded++;
	insn->check = check_of(way->code[1], insn->length);
	insn->first = way->code[0];
	return 1;
}

/* Whether the next instruction is the one that stands in its place: of those whose bytes lie in the line
 * that was looked at last, which are most. */
static INLINE int is_at_hand(struct work *work, const struct insn *insn)
{
	struct way *way = &work->way;
	u32 offset = way->pc & 63;
	u32 shift = 8 * (offset & 7);
	u32 at = way->code_at + (offset >> 3);
	u64 first, next;

	if (way->code_line != (way->pc & ~63ULL) || offset > 48)
		return 0;
	first = work->tail[within(at, TAIL_WORDS - 1)];
	next = work->tail[within(at + 1, TAIL_WORDS - 1)];
	if (shift)
		first = first >> shift | next << (64 - shift);
	if (insn->first != first)
		return 0;
	if (insn->length <= 8)
		return 1;
	first = work->tail[within(at + 2, TAIL_WORDS - 1)];
	if (shift)
		next = next >> shift | first << (64 - shift);
	return insn->check == (u8)check_of(next, insn->length);
}

#include "vector.h"

/* What is done apart from the others, since each of them is long. */
SUBPROGRAM int follow_rare(struct work *work, struct insn *insn)
{
	if (!work || !insn)
		return 0;
	switch (insn->kind) {
	case KIND_SHIFT:
		do_shift(work, insn);
		break;
	case KIND_MULTIPLY:
		do_multiply(work, insn);
		break;
	case KIND_WIDE:
		do_wide(work, insn);
		break;
	case KIND_BIT:
		do_bit(work, insn);
		break;
	case KIND_EXCHANGE:
	case KIND_ADD_EXCHANGE:
		do_exchange(work, insn);
		break;
	case KIND_COMPARE_EXCHANGE:
		do_compare_exchange(work, insn);
		break;
	case KIND_SCAN:
		do_scan(work, insn);
		break;
	case KIND_SWAP:
		do_swap(work, insn);
		break;
	case KIND_BMI:
		do_bmi(work, insn);
		break;
	case KIND_FLOAT_STACK:
		do_float_stack(work, insn);
		break;
	case KIND_STRING:
		do_string(work, insn);
		break;
	default:
		do_other(work, insn);
		break;
	}
	return 0;
}

/* Kinds whose operand is looked at before all else: that lies in `rm`, or at the top of the stack. */
#define BIT_OF(kind) (1ULL << (kind))
#define OPENS                                                                                      \
	(BIT_OF(KIND_BINARY) | BIT_OF(KIND_MOVE) | BIT_OF(KIND_LEA) | BIT_OF(KIND_UNARY) |         \
	 BIT_OF(KIND_PUSH) | BIT_OF(KIND_CALL_TO) | BIT_OF(KIND_JUMP_TO) | BIT_OF(KIND_SET_IF) |   \
	 BIT_OF(KIND_MOVE_IF))
#define POPS (BIT_OF(KIND_POP) | BIT_OF(KIND_RETURN) | BIT_OF(KIND_LEAVE))
#define HAS_CONDITION (BIT_OF(KIND_JUMP_IF) | BIT_OF(KIND_SET_IF) | BIT_OF(KIND_MOVE_IF))

/* Loads a word, mostly one whose line was read: without a call. Each return costs, since kernels keep
 * the processor from guessing where it leads. */
static INLINE int load_at_hand(struct work *work, u64 address, u32 size)
{
	const struct stored *held = stored_at(work, address);
	const struct line *line = &work->way.lines[line_slot(address & ~63ULL)];
	u32 offset = address & 63;

	if ((held->word == address >> 3 && held->serial == work->way.serial) ||
	    line->line != (address & ~63ULL) || line->serial != work->way.serial || !line->at ||
	    (offset & 7) + size > 8)
		return load_word(work, address, size);
	work->way.loaded = low_bytes(
		work->tail[within(line->at + (offset >> 3), TAIL_WORDS - 1)] >> 8 * (offset & 7),
		size);
	return 1;
}

/* The operand that an instruction begins with. */
static INLINE void open_first(struct work *work, const struct insn *insn, struct operand *rm)
{
	struct way *way = &work->way;
	u32 width = bytes_of(insn->width);
	u64 kind = BIT_OF(insn->kind & 63);
	int loads = 0;

	if (kind & POPS) {
		u32 from = insn->kind == KIND_LEAVE ? REGISTER_RBP : REGISTER_RSP;

		rm->address = way->words[from];
		rm->placed = is_known(way, from);
		width = 8;
		loads = 1;
	} else if (!(kind & OPENS)) {
		return;
	} else if (insn->flags & OPERAND_MEMORY) {
		rm->placed = address_of(way, insn, &rm->address);
		loads = insn->kind == KIND_MOVE ? insn->flags & OPERAND_TO_REGISTER :
						  insn->kind != KIND_LEA && insn->kind != KIND_SET_IF;
	} else {
		rm->value = get(way, insn->rm, width);
		rm->known = is_known(way, insn->rm);
		rm->placed = 1;
	}
	if (loads && rm->placed) {
		rm->known = load_at_hand(work, rm->address, width);
		rm->value = way->loaded;
	}
}

/* One instruction; not 0 at the end of the way. */
static INLINE int follow_insn(struct work *work)
{
	struct operand rm = {};
	struct way *way = &work->way;
	struct insn *insn = insn_at(place_of_insn(way->pc));
	u32 writes = WRITES_NOTHING;
	u32 size;
	int condition = 0;

	if (!insn)
		return 1;
	if (!is_at_hand(work, insn) && !decode_next(work)) {
		way->end = WAY_NO_CODE;
		return 1;
	}
	if (!insn->length) {
		way->end = WAY_END;
		return 1;
	}
	way->followed++;
	way->pc += insn->length;
	way->words[WORD_PC] = way->pc;
	size = bytes_of(insn->size);
	open_first(work, insn, &rm);
	if (HAS_CONDITION >> (insn->kind & 63) & 1)
		condition = holds(way, insn->op);
	switch (insn->kind) {
	case KIND_END:
		way->end = WAY_END;
		return 1;
	case KIND_NOTHING:
		break;
	case KIND_BINARY:
		writes = do_binary(way, insn, &rm, size);
		break;
	case KIND_MOVE:
		writes = do_move(way, insn, &rm, size);
		break;
	case KIND_CONSTANT:
		rm.value = (u64)(u32)insn->displacement << 32 | (u32)insn->value;
		rm.known = 1;
		size = 8;
		writes = WRITES_OPERAND;
		break;
	case KIND_LEA:
		rm.value = rm.address;
		rm.known = rm.placed;
		writes = WRITES_REGISTER;
		break;
	case KIND_UNARY:
		writes = do_unary(way, insn, &rm, size);
		break;
	case KIND_PUSH:
		if (insn->flags & OPERAND_IMMEDIATE) {
			rm.value = (s64)insn->value;
			rm.known = 1;
		}
		writes = WRITES_STACK;
		break;
	case KIND_POP:
		way->words[REGISTER_RSP] += 8;
		writes = WRITES_OPERAND;
		break;
	case KIND_LEAVE:
		way->words[REGISTER_RSP] = rm.address + 8;
		if (rm.placed)
			way->known |= 1U << REGISTER_RSP;
		else
			forget(way, REGISTER_RSP);
		way->words[REGISTER_RBP] = rm.value;
		if (rm.known)
			way->known |= 1U << REGISTER_RBP;
		else
			forget(way, REGISTER_RBP);
		break;
	case KIND_JUMP:
		way->pc += (s64)insn->value;
		break;
	case KIND_JUMP_IF:
		if (branch(work, insn, condition))
			return 1;
		break;
	case KIND_JUMP_IF_ZERO:
		if (branch(work, insn, is_known(way, RCX) ? !way->words[RCX] : -1))
			return 1;
		break;
	case KIND_CALL:
		rm.value = way->pc;
		rm.known = 1;
		way->pc += (s64)insn->value;
		writes = WRITES_STACK;
		break;
	case KIND_RETURN:
	case KIND_CALL_TO:
	case KIND_JUMP_TO:
		if (insn->kind == KIND_RETURN)
			way->words[REGISTER_RSP] += 8 + insn->value;
		if (go_to(work, rm.value, rm.known))
			return 1;
		if (insn->kind != KIND_CALL_TO)
			break;
		rm.value = way->words[WORD_PC];
		rm.known = 1;
		writes = WRITES_STACK;
		break;
	case KIND_SET_IF:
		rm.value = condition > 0;
		rm.known = condition >= 0;
		writes = WRITES_OPERAND;
		break;
	case KIND_MOVE_IF:
		writes = WRITES_REGISTER;
		if (condition < 0) {
			rm.known = 0;
		} else if (!condition) {
			rm.value = get(way, insn->reg, size);
			rm.known = is_known(way, insn->reg);
		}
		break;
	case KIND_EXTEND:
		do_extend(way, insn);
		break;
	case KIND_CARRY:
		way->flags_carry = insn->op & 1;
		if (way->flags_size == FLAGS_OF_REGISTER)
			way->flags_size = FLAGS_UNKNOWN;
		break;
	case KIND_VECTOR:
		follow_vector(work, insn);
		break;
	default:
		follow_rare(work, insn);
		break;
	}
	if (writes == WRITES_STACK) {
		way->words[REGISTER_RSP] -= 8;
		rm.address = way->words[REGISTER_RSP];
		rm.placed = is_known(way, REGISTER_RSP);
		size = 8;
	}
	if (writes == WRITES_REGISTER || (writes == WRITES_OPERAND &&
					  (insn->kind == KIND_POP || !(insn->flags & OPERAND_MEMORY))))
		set(way, writes == WRITES_REGISTER ? insn->reg : insn->rm, rm.value, size, rm.known);
	else if (writes && rm.placed)
		store_word(work, rm.address, size, rm.value, rm.known);
	return way->end != WAY_GOES_ON || way->failures > MAX_FAILURES;
}

/* Some instructions; not 0 at the end of the way. */
SUBPROGRAM int follow_insns(struct work *work)
{
	u32 index;

	if (!work)
		return 1;
	for (index = 0; index < AT_ONCE; index++) {
		if (work->way.followed >= work->way.most || follow_insn(work))
			return 1;
	}
	return 0;
}

/* Follows the way from the interrupted registers on, as far as `most` instructions. */
static INLINE void follow_way(struct work *work, u32 most, u32 bases)
{
	struct way *way = &work->way;
	u32 index;

	way->serial++;
	for (index = 0; index < 16; index++)
		way->words[index] = work->registers[index];
	way->words[WORD_FS_BASE] = work->record.fs_base;
	way->words[WORD_GS_BASE] = work->record.gs_base;
	way->words[WORD_NONE] = 0;
	way->known = 0xffff | 1U << WORD_PC | 1U << WORD_NONE;
	if (bases & PLAN_NEEDS_FS_BASE)
		way->known |= 1U << WORD_FS_BASE;
	if (bases & PLAN_NEEDS_GS_BASE)
		way->known |= 1U << WORD_GS_BASE;
	begin_vectors(way);
	way->flags_a = work->registers[REGISTER_FLAGS];
	way->flags_size = FLAGS_OF_REGISTER;
	way->end = WAY_GOES_ON;
	way->failures = 0;
	way->read = 0;
	way->guesses = 0;
	way->decoded = 0;
	way->code_line = 1;
	way->pc = work->record.ip;
	way->followed = 0;
	way->most = most;
	for (index = 0; index < MAX_FOLLOWED / AT_ONCE; index++)
		if (follow_insns(work))
			break;
}

#endif
