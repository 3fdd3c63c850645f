/*
 * Decodes instructions. What is decoded wrongly leads a way astray, which is then of no use, and does no
 * harm: see way.h.
 */
#ifndef VCPI_DECODE_H
#define VCPI_DECODE_H

#include "opcodes.h"

static inline u32 byte_at(const u8 *code, u32 at)
{
	return code[within(at, 15)];
}

static INLINE s32 word_at(const u8 *code, u32 at)
{
	return (s32)(byte_at(code, at) | byte_at(code, at + 1) << 8 | byte_at(code, at + 2) << 16 |
		     byte_at(code, at + 3) << 24);
}

/* Registers of one byte without REX: the numbers 4 to 7 are second bytes. */
static inline u8 byte_register(u8 number, u8 rex)
{
	if (!rex && number >= 4 && number < 8)
		return (number - 4) | SECOND_BYTE;
	return number;
}

/* How many bytes a displacement of one byte counts in, with EVEX. */
static inline u32 evex_unit(const struct insn *insn, const struct decoding *d)
{
	u32 element = insn->flags & OPERAND_WIDE ? 8 : 4;
	u8 prefix = insn->map >> 4;
	u32 map = insn->map & 15;

	if (insn->mask & 0x40)
		return element;
	if (map == 1) {
		/* Scalars; halves of 16 bytes. */
		if ((d->opcode == 0x10 || d->opcode == 0x11 || d->opcode == 0x2a ||
		     d->opcode == 0x2c || d->opcode == 0x2d ||
		     (d->opcode >= 0x51 && d->opcode <= 0x5f && d->opcode != 0x5b) ||
		     d->opcode == 0xc2) && prefix >= 2)
			return d->opcode == 0x2a ? element : prefix == 2 ? 4 : 8;
		if (d->opcode == 0xc4)
			return 2;
		if (d->opcode == 0x2e || d->opcode == 0x2f || d->opcode == 0x6e ||
		    d->opcode == 0xd6 || (d->opcode == 0x7e && prefix == 1))
			return element;
		if (d->opcode == 0x7e || d->opcode == 0x12 || d->opcode == 0x13 ||
		    d->opcode == 0x16 || d->opcode == 0x17)
			return 8;
		/* Shifts by what memory holds. */
		if ((d->opcode >= 0xd1 && d->opcode <= 0xd3) || d->opcode == 0xe1 ||
		    d->opcode == 0xe2 || (d->opcode >= 0xf1 && d->opcode <= 0xf3))
			return 16;
		return insn->size;
	}
	if (map == 2) {
		if ((d->opcode >= 0x90 && d->opcode < 0xc0 && (d->opcode & 9) == 9) ||
		    d->opcode == 0x43 || d->opcode == 0x2d || d->opcode == 0x4d ||
		    d->opcode == 0x4f || d->opcode == 0xcb || d->opcode == 0xcd)
			return element;
		if (d->opcode >= 0x88 && d->opcode <= 0x8b)
			return element;
		if (d->opcode == 0x62 || d->opcode == 0x63)
			return element >> 2;
		if (d->opcode == 0x78 || d->opcode == 0x7a)
			return 1;
		if (d->opcode == 0x79 || d->opcode == 0x7b)
			return 2;
		if (d->opcode == 0x18 || d->opcode == 0x58)
			return 4;
		if (d->opcode == 0x19 || d->opcode == 0x59)
			return 8;
		if (d->opcode == 0x1a || d->opcode == 0x5a)
			return 16;
		if (d->opcode == 0x1b || d->opcode == 0x5b)
			return 32;
		/* Those that extend: of a half, a quarter, an eighth; and those that cut. */
		if ((d->opcode & 0xc8) == 0 && d->opcode >= (prefix == 1 ? 0x20 : 0x10)) {
			u32 kind = d->opcode & 7;
			u32 shift = kind == 1 || kind == 4 ? 2 : kind == 2 ? 3 : 1;

			if (kind <= 5 && (prefix == 1 || prefix == 2))
				return insn->size >> shift;
		}
		return insn->size;
	}
	/* Parts of vectors. */
	if (d->opcode == 0x1d)
		return insn->size >> 1;
	if (d->opcode == 0x14 || d->opcode == 0x20)
		return 1;
	if (d->opcode == 0x15)
		return 2;
	if (d->opcode == 0x16 || d->opcode == 0x22)
		return element;
	if (d->opcode == 0x17 || d->opcode == 0x21)
		return 4;
	if (d->opcode == 0x18 || d->opcode == 0x19 || d->opcode == 0x38 || d->opcode == 0x39)
		return 16;
	if (d->opcode == 0x1a || d->opcode == 0x1b || d->opcode == 0x3a || d->opcode == 0x3b)
		return 32;
	if (d->opcode == 0x0a || d->opcode == 0x0b || d->opcode == 0x27 || d->opcode == 0x51 ||
	    d->opcode == 0x55 || d->opcode == 0x57 || d->opcode == 0x67)
		return element;
	return insn->size;
}

/* ModRM, SIB and displacement. */
static inline void decode_operand(struct insn *insn, struct decoding *d, const u8 *code)
{
	u32 byte = byte_at(code, d->at);
	u32 rm = byte & 7;

	d->at++;
	d->mod = byte >> 6;
	d->digit = byte >> 3 & 7;
	insn->reg = d->digit | (d->rex & 4) << 1;
	insn->base = WORD_NONE;
	insn->index = WORD_NONE;
	if (d->mod == 3) {
		insn->rm = rm | (d->rex & 1) << 3;
		return;
	}
	insn->flags |= OPERAND_MEMORY;
	if (rm == 4) {
		u32 sib = byte_at(code, d->at);
		u32 index = (sib >> 3 & 7) | (d->rex & 2) << 2;

		d->at++;
		insn->scale = sib >> 6;
		if (index != 4)
			insn->index = index;
		rm = sib & 7;
		if (rm == 5 && d->mod == 0) {
			insn->displacement = word_at(code, d->at);
			d->at += 4;
			return;
		}
	} else if (rm == 5 && d->mod == 0) {
		insn->base = WORD_PC;
		insn->displacement = word_at(code, d->at);
		d->at += 4;
		return;
	}
	insn->base = rm | (d->rex & 1) << 3;
	if (d->mod == 1) {
		insn->displacement = (s8)byte_at(code, d->at);
		if (insn->flags & OPERAND_EVEX)
			insn->displacement *= (s32)evex_unit(insn, d);
		d->at++;
	} else if (d->mod == 2) {
		insn->displacement = word_at(code, d->at);
		d->at += 4;
	}
}

/* VEX and EVEX, whose first byte is at d->at. */
static inline void decode_vex(struct insn *insn, struct decoding *d, const u8 *code)
{
	u32 first = byte_at(code, d->at);
	u32 a = byte_at(code, d->at + 1), b = byte_at(code, d->at + 2);
	u32 c = byte_at(code, d->at + 3);
	u32 prefix;

	d->vex = 1;
	if (first == 0xc5) {
		d->rex = 0x40 | (~a >> 5 & 4);
		d->map = 1;
		b = a & 0x7f;
		d->at += 2;
	} else {
		d->rex = 0x40 | (~a >> 5 & 7) | (b >> 4 & 8);
		d->map = first == 0x62 ? a & 7 : a & 31;
		d->at += first == 0x62 ? 4 : 3;
	}
	if (b & 0x80)
		insn->flags |= OPERAND_WIDE;
	/* 66, f3, f2 in this order. */
	prefix = b & 3;
	insn->beside = ~b >> 3 & 15;
	insn->size = b & 4 ? 32 : 16;
	if (first == 0x62) {
		insn->flags |= OPERAND_EVEX;
		insn->size = 16 << (c >> 5 & 3);
		insn->beside |= (~c & 8) << 1;
		insn->mask = (c & 7) | (c & 0x80) | (c & 0x10) << 2;
		d->evex_byte = a;
	}
	insn->map = d->map | prefix << 4;
	d->opcode = byte_at(code, d->at);
	d->at++;
	insn->opcode = d->opcode;
}

/* Bytes of the memory that the coprocessor's instructions read or write; written with bit 7. */
static inline u32 float_stack_bytes(u32 opcode, u32 digit)
{
	switch (opcode) {
	case 0xd8:
	case 0xda:
		return 4;
	case 0xd9:
		return digit == 0 ? 4 : digit == 2 || digit == 3 ? 0x84 : digit == 7 ? 0x82 :
		       digit == 6 ? 0x9c : digit == 5 ? 2 : 28;
	case 0xdb:
		return digit == 0 ? 4 : digit <= 3 ? 0x84 : digit == 7 ? 0x8a : 10;
	case 0xdc:
		return 8;
	case 0xdd:
		return digit == 0 ? 8 : digit <= 3 ? 0x88 : digit == 7 ? 0x82 : 64;
	case 0xde:
		return 2;
	default:
		return digit == 0 ? 2 : digit <= 3 ? 0x82 : digit == 5 ? 8 : digit == 4 ? 10 :
		       digit == 6 ? 0x8a : 0x88;
	}
}

#define RAX 0
#define RCX 1
#define RDX 2
#define RBX 3

/* What is behind 0f 01 and no memory: the low six bits of the byte tell. */
static inline void decode_system(struct insn *insn, u32 which)
{
	insn->rm = RAX;
	insn->reg = RAX;
	switch (which) {
	case 0x0a: /* clac, stac, serialize */
	case 0x0b:
	case 0x28:
		insn->kind = KIND_NOTHING;
		break;
	case 0x16: /* xtest: an interrupt ends transactions, so none is under way */
		insn->kind = KIND_TRANSACTION;
		break;
	case 0x10: /* xgetbv, rdpkru, rdtscp, rdpru */
	case 0x2e:
	case 0x39:
	case 0x3d:
		insn->kind = KIND_OTHER;
		insn->forgotten = 1 << RAX | 1 << RDX | (which == 0x39 ? 1 << RCX : 0);
		break;
	default:
		insn->kind = KIND_END;
		break;
	}
}

static inline void decode_group(struct insn *insn, struct decoding *d, struct opcode *of)
{
	u32 digit = d->digit;

	insn->kind = KIND_OTHER;
	if (d->map == 1 && d->opcode == 0x01) {
		decode_system(insn, d->mod == 3 ? d->digit << 3 | (insn->rm & 7) : 0);
		return;
	}
	if (d->map == 1) {
		/* Fences and their like; what saves and restores state. */
		if (d->mod == 3) {
			/* Bases that are written. */
			if (d->opcode == 0xae)
				insn->kind = digit >= 5 ? KIND_NOTHING :
					     digit >= 2 ? KIND_END : KIND_OTHER;
		} else if (d->opcode == 0xc7) {
			if (digit != 1)
				insn->kind = KIND_END;
			insn->forgotten = 1 << RAX | 1 << RDX;
		} else if (digit != 2 && digit != 3 && digit != 7) {
			insn->kind = KIND_END;
		}
		return;
	}
	if (d->opcode >= 0xfe) {
		of->parts |= digit >= 2 ? OF_WORDS : 0;
		if (digit < 2) {
			insn->kind = KIND_UNARY;
			insn->op = UNARY_INC + digit;
		} else if (d->opcode == 0xfe || digit == 3 || digit == 5 || digit == 7) {
			insn->kind = KIND_END;
		} else {
			insn->kind = digit == 2 ? KIND_CALL_TO : digit == 4 ? KIND_JUMP_TO : KIND_PUSH;
		}
	} else if (digit < 2) {
		insn->kind = KIND_BINARY;
		insn->op = BINARY_TEST;
		of->parts |= of->parts & OF_BYTES ? HAS_BYTE : HAS_WORD;
	} else if (digit < 4) {
		insn->kind = KIND_UNARY;
		insn->op = digit;
	} else {
		insn->kind = KIND_WIDE;
		insn->op = digit;
	}
}

/* What the opcode alone tells of the kinds that are not groups. */
static inline void decode_kind(struct insn *insn, struct decoding *d)
{
	u32 opcode = d->opcode;

	switch (insn->kind) {
	case KIND_BINARY:
		if (opcode < 0x40)
			insn->op = opcode >> 3;
		else if (opcode < 0x84)
			insn->op = d->digit;
		else
			insn->op = BINARY_TEST;
		break;
	case KIND_JUMP_IF:
	case KIND_SET_IF:
	case KIND_MOVE_IF:
	case KIND_STRING:
	case KIND_EXTEND:
	case KIND_SCAN:
	case KIND_CARRY:
		insn->op = opcode;
		break;
	case KIND_SHIFT:
		insn->op = d->digit;
		break;
	case KIND_BIT:
		/* bt, bts, btr, btc: 4 to 7. */
		insn->op = opcode == 0xba ? d->digit : 4 + (opcode >> 3 & 3);
		break;
	case KIND_OTHER:
		if (d->map == 1 && opcode == 0x31)
			insn->forgotten = 1 << RAX | 1 << RDX;
		else if (d->map == 1 && opcode == 0xa2)
			insn->forgotten = 1 << RAX | 1 << RCX | 1 << RDX | 1 << RBX;
		break;
	default:
		break;
	}
}

/* The forms whose operand is in the opcode itself. */
static inline void decode_short(struct insn *insn, const struct decoding *d)
{
	u8 number = (d->opcode & 7) | (d->rex & 1) << 3;

	insn->base = WORD_NONE;
	insn->index = WORD_NONE;
	insn->rm = number;
	insn->reg = 0;
	if (d->map == 0 && (insn->kind == KIND_BINARY || insn->kind == KIND_EXTEND ||
			    insn->kind == KIND_STRING))
		insn->rm = 0;
	if (insn->kind == KIND_EXCHANGE && !number)
		insn->kind = KIND_NOTHING;
}

/* The instructions of general registers that are encoded as those of vectors are. */
static inline int is_bmi(const struct insn *insn, const struct decoding *d)
{
	if (!d->vex || insn->flags & OPERAND_EVEX)
		return 0;
	return (d->map == 2 && d->opcode >= 0xf2 && d->opcode <= 0xf7) ||
	       (d->map == 3 && d->opcode == 0xf0);
}

/* Decodes the instruction whose bytes, up to sixteen, are `code`; those that there are not are 0.
 * Its length is 0 where that is none that is known. */
SUBPROGRAM int decode_insn(struct work *work, struct insn *insn)
{
	struct decoding *d;
	struct opcode of = {};
	const u8 *code;
	u32 index, immediate = 0;

	if (!work || !insn)
		return 0;
	code = (const u8 *)work->way.code;
	d = &work->way.decoding;
	*d = (struct decoding){};
	/* All is 0: KIND_END. */
	__builtin_memset(insn, 0, sizeof(*insn));
	insn->segment = WORD_NONE;
	for (index = 0; index < 6; index++) {
		u32 byte = byte_at(code, d->at);

		if (byte == 0x66)
			d->prefix |= 1;
		else if (byte == 0xf3)
			d->prefix = (d->prefix & 1) | 2;
		else if (byte == 0xf2)
			d->prefix = (d->prefix & 1) | 4;
		else if (byte == 0x64)
			insn->segment = WORD_FS_BASE;
		else if (byte == 0x65)
			insn->segment = WORD_GS_BASE;
		else if (byte != 0xf0 && byte != 0x2e && byte != 0x36 && byte != 0x3e &&
			 byte != 0x26)
			break;
		d->at++;
	}
	if ((byte_at(code, d->at) & 0xf0) == 0x40)
		d->rex = byte_at(code, d->at++);
	d->opcode = byte_at(code, d->at);
	if (d->opcode == 0xc4 || d->opcode == 0xc5 || d->opcode == 0x62) {
		decode_vex(insn, d, code);
	} else {
		d->at++;
		if (d->opcode == 0x0f) {
			d->map = 1;
			d->opcode = byte_at(code, d->at++);
			if (d->opcode == 0x38 || d->opcode == 0x3a) {
				d->map = d->opcode == 0x38 ? 2 : 3;
				d->opcode = byte_at(code, d->at++);
			}
		}
		if (d->rex & 8)
			insn->flags |= OPERAND_WIDE;
		if (d->prefix & 2)
			insn->flags |= OPERAND_REPEATED;
		if (d->prefix & 4)
			insn->flags |= OPERAND_REPEATED_UNEQUAL;
	}
	if (d->map == 0)
		of = one_byte[d->opcode];
	else if (d->map == 1)
		of = two_bytes[d->opcode];
	else if (d->map == 2 || d->map == 3)
		of = (struct opcode){ KIND_VECTOR, d->map == 3 ? HAS_OPERAND | HAS_BYTE : HAS_OPERAND };
	insn->kind = of.kind;
	if (d->vex) {
		insn->kind = is_bmi(insn, d) ? KIND_BMI : KIND_VECTOR;
		/* Masks' own instructions lie where others are without VEX. */
		if (d->map == 1 && ((d->opcode & 0xf0) == 0x40 || (d->opcode & 0xf0) == 0x90))
			of.parts = HAS_OPERAND;
		else if (!of.kind || !d->map || d->map > 3)
			insn->kind = KIND_END;
	} else if (d->map == 2 && d->opcode >= 0xf0) {
		/* movbe; what is left (crc32, adcx) is not followed. */
		insn->kind = !(d->prefix & 4) && d->opcode <= 0xf1 ? KIND_SWAP : KIND_OTHER;
	}
	if (of.parts & HAS_OPERAND)
		decode_operand(insn, d, code);
	else
		decode_short(insn, d);
	if (insn->kind == KIND_GROUP)
		decode_group(insn, d, &of);
	else if (insn->kind != KIND_VECTOR && insn->kind != KIND_BMI)
		decode_kind(insn, d);
	if (of.parts & TO_REGISTER)
		insn->flags |= OPERAND_TO_REGISTER;
	if (insn->kind == KIND_VECTOR || insn->kind == KIND_BMI) {
		if (!d->vex) {
			insn->size = 16;
			insn->opcode = d->opcode;
			insn->beside = insn->reg;
			insn->map = d->map | (d->prefix & 4 ? 3 : d->prefix & 2 ? 2 : d->prefix) << 4;
			/* Without VEX, whole registers stay as they are above. */
			insn->width = 1;
		} else if (insn->flags & OPERAND_EVEX) {
			insn->reg |= ~d->evex_byte & 0x10;
			if (d->mod == 3)
				insn->rm |= ~d->evex_byte >> 2 & 0x10;
		}
		if (insn->kind == KIND_BMI)
			insn->size = insn->flags & OPERAND_WIDE ? 8 : 4;
	} else {
		insn->size = 4;
		if (of.parts & OF_BYTES)
			insn->size = 1;
		else if (d->rex & 8 || of.parts & OF_WORDS)
			insn->size = 8;
		else if (d->prefix & 1)
			insn->size = 2;
		insn->width = insn->size;
	}
	if (insn->kind == KIND_MOVE) {
		if (d->map == 0 && d->opcode == 0x63) {
			insn->width = 4;
			insn->flags |= OPERAND_SIGNED;
		} else if (d->map == 1 && d->opcode != 0xc3) {
			insn->width = d->opcode & 1 ? 2 : 1;
			if (d->opcode >= 0xbe)
				insn->flags |= OPERAND_SIGNED;
		}
	}
	if (insn->kind == KIND_SWAP && d->map == 2) {
		insn->op = 1;
		if (d->opcode == 0xf0)
			insn->flags |= OPERAND_TO_REGISTER;
	}
	if (insn->kind == KIND_FLOAT_STACK) {
		insn->op = d->opcode;
		insn->width = insn->flags & OPERAND_MEMORY ? float_stack_bytes(d->opcode, d->digit) :
							     d->digit;
	}
	if (insn->width == 1 && !(insn->flags & OPERAND_MEMORY) && insn->kind != KIND_VECTOR)
		insn->rm = byte_register(insn->rm, d->rex);
	if (insn->size == 1)
		insn->reg = byte_register(insn->reg, d->rex);
	if (of.parts & HAS_BYTE) {
		insn->value = (s8)byte_at(code, d->at);
		immediate = 1;
	} else if (of.parts & HAS_SHORT) {
		insn->value = (s32)(byte_at(code, d->at) | byte_at(code, d->at + 1) << 8);
		immediate = 2;
	} else if (of.parts & HAS_WORD) {
		immediate = 4;
		insn->value = word_at(code, d->at);
		if (d->map == 0 && (d->opcode & 0xf8) == 0xb8 && d->rex & 8) {
			insn->kind = KIND_CONSTANT;
			insn->displacement = word_at(code, d->at + 4);
			immediate = 8;
		} else if (d->prefix & 1 && !(d->rex & 8) && !(of.parts & OF_WORDS)) {
			immediate = 2;
			insn->value = (s16)insn->value;
		}
	} else if (insn->kind == KIND_SHIFT && d->opcode <= 0xd1) {
		insn->value = 1;
		insn->flags |= OPERAND_IMMEDIATE;
	}
	if (immediate)
		insn->flags |= OPERAND_IMMEDIATE;
	d->at += immediate;
	/* The stack and the program counter in parts; what AMD had for a while. */
	if ((d->prefix & 1 && !(d->rex & 8) && !d->vex &&
	     (of.parts & OF_WORDS || insn->kind == KIND_RETURN || insn->kind == KIND_JUMP ||
	      insn->kind == KIND_JUMP_IF)) ||
	    (d->map == 1 && d->opcode == 0x78 && !d->vex && d->prefix))
		insn->kind = KIND_END;
	insn->length = d->at > 15 ? 0 : d->at;
	return insn->length;
}

#endif
