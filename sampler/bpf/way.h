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

#include "decode.h"
#include "way_common.h"
#include "way_rare.h"
#include "vector.h"

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
	case KIND_TRANSACTION:
		set_flags(way, 0, 0, 0, 8, 0);
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
	if (bases & KNOWN_FS_BASE)
		way->known |= 1U << WORD_FS_BASE;
	if (bases & KNOWN_GS_BASE)
		way->known |= 1U << WORD_GS_BASE;
	way->lacks = 0;
	if (!way->given)
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
