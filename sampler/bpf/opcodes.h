/*
 * What each opcode is, and what belongs to it: the opcode maps of the Intel 64 manual, volume 2,
 * appendix A.
 */
#ifndef VCPI_OPCODES_H
#define VCPI_OPCODES_H

#include "instruction.h"

/* What the tables say of an opcode: its kind, and what belongs to it. */
struct opcode {
	u8 kind, parts;
};

#define HAS_OPERAND 1
#define HAS_BYTE 2
/* Four bytes, or two with the prefix 66. */
#define HAS_WORD 4
/* The operands are of one byte. */
#define OF_BYTES 8
#define TO_REGISTER 16
/* The operands are of eight bytes without REX.W as well. */
#define OF_WORDS 32
/* Two bytes. */
#define HAS_SHORT 64

#define BINARY_BLOCK(first)                                                     \
	[(first)] = { KIND_BINARY, HAS_OPERAND | OF_BYTES },                    \
	[(first) + 1] = { KIND_BINARY, HAS_OPERAND },                           \
	[(first) + 2] = { KIND_BINARY, HAS_OPERAND | OF_BYTES | TO_REGISTER },  \
	[(first) + 3] = { KIND_BINARY, HAS_OPERAND | TO_REGISTER },             \
	[(first) + 4] = { KIND_BINARY, HAS_BYTE | OF_BYTES },                   \
	[(first) + 5] = { KIND_BINARY, HAS_WORD }

static const struct opcode one_byte[256] = {
	BINARY_BLOCK(0x00), BINARY_BLOCK(0x08), BINARY_BLOCK(0x10), BINARY_BLOCK(0x18),
	BINARY_BLOCK(0x20), BINARY_BLOCK(0x28), BINARY_BLOCK(0x30), BINARY_BLOCK(0x38),
	[0x50 ... 0x57] = { KIND_PUSH, OF_WORDS },
	[0x58 ... 0x5f] = { KIND_POP, OF_WORDS },
	[0x63] = { KIND_MOVE, HAS_OPERAND | TO_REGISTER },
	[0x68] = { KIND_PUSH, HAS_WORD | OF_WORDS },
	[0x69] = { KIND_MULTIPLY, HAS_OPERAND | HAS_WORD | TO_REGISTER },
	[0x6a] = { KIND_PUSH, HAS_BYTE | OF_WORDS },
	[0x6b] = { KIND_MULTIPLY, HAS_OPERAND | HAS_BYTE | TO_REGISTER },
	[0x70 ... 0x7f] = { KIND_JUMP_IF, HAS_BYTE },
	[0x80] = { KIND_BINARY, HAS_OPERAND | HAS_BYTE | OF_BYTES },
	[0x81] = { KIND_BINARY, HAS_OPERAND | HAS_WORD },
	[0x83] = { KIND_BINARY, HAS_OPERAND | HAS_BYTE },
	[0x84] = { KIND_BINARY, HAS_OPERAND | OF_BYTES },
	[0x85] = { KIND_BINARY, HAS_OPERAND },
	[0x86] = { KIND_EXCHANGE, HAS_OPERAND | OF_BYTES },
	[0x87] = { KIND_EXCHANGE, HAS_OPERAND },
	[0x88] = { KIND_MOVE, HAS_OPERAND | OF_BYTES },
	[0x89] = { KIND_MOVE, HAS_OPERAND },
	[0x8a] = { KIND_MOVE, HAS_OPERAND | OF_BYTES | TO_REGISTER },
	[0x8b] = { KIND_MOVE, HAS_OPERAND | TO_REGISTER },
	[0x8c] = { KIND_OTHER, HAS_OPERAND },
	[0x8d] = { KIND_LEA, HAS_OPERAND | TO_REGISTER },
	[0x90 ... 0x97] = { KIND_EXCHANGE, 0 },
	[0x98 ... 0x99] = { KIND_EXTEND, 0 },
	[0x9b] = { KIND_NOTHING, 0 },
	[0xa4] = { KIND_STRING, OF_BYTES },
	[0xa5] = { KIND_STRING, 0 },
	[0xa6] = { KIND_STRING, OF_BYTES },
	[0xa7] = { KIND_STRING, 0 },
	[0xa8] = { KIND_BINARY, HAS_BYTE | OF_BYTES },
	[0xa9] = { KIND_BINARY, HAS_WORD },
	[0xaa] = { KIND_STRING, OF_BYTES },
	[0xab] = { KIND_STRING, 0 },
	[0xac] = { KIND_STRING, OF_BYTES },
	[0xad] = { KIND_STRING, 0 },
	[0xae] = { KIND_STRING, OF_BYTES },
	[0xaf] = { KIND_STRING, 0 },
	[0xb0 ... 0xb7] = { KIND_MOVE, HAS_BYTE | OF_BYTES },
	[0xb8 ... 0xbf] = { KIND_MOVE, HAS_WORD },
	[0xc0] = { KIND_SHIFT, HAS_OPERAND | HAS_BYTE | OF_BYTES },
	[0xc1] = { KIND_SHIFT, HAS_OPERAND | HAS_BYTE },
	[0xc2] = { KIND_RETURN, HAS_SHORT },
	[0xc3] = { KIND_RETURN, 0 },
	[0xc6] = { KIND_MOVE, HAS_OPERAND | HAS_BYTE | OF_BYTES },
	[0xc7] = { KIND_MOVE, HAS_OPERAND | HAS_WORD },
	[0xc9] = { KIND_LEAVE, OF_WORDS },
	[0xd0] = { KIND_SHIFT, HAS_OPERAND | OF_BYTES },
	[0xd1] = { KIND_SHIFT, HAS_OPERAND },
	[0xd2] = { KIND_SHIFT, HAS_OPERAND | OF_BYTES },
	[0xd3] = { KIND_SHIFT, HAS_OPERAND },
	[0xd8 ... 0xdf] = { KIND_FLOAT_STACK, HAS_OPERAND },
	[0xe3] = { KIND_JUMP_IF_ZERO, HAS_BYTE },
	[0xe8] = { KIND_CALL, HAS_WORD | OF_WORDS },
	[0xe9] = { KIND_JUMP, HAS_WORD | OF_WORDS },
	[0xeb] = { KIND_JUMP, HAS_BYTE },
	[0xf5] = { KIND_OTHER, 0 },
	[0xf6] = { KIND_GROUP, HAS_OPERAND | OF_BYTES },
	[0xf7] = { KIND_GROUP, HAS_OPERAND },
	[0xf8 ... 0xf9] = { KIND_CARRY, 0 },
	[0xfc] = { KIND_NOTHING, 0 },
	[0xfe] = { KIND_GROUP, HAS_OPERAND | OF_BYTES },
	[0xff] = { KIND_GROUP, HAS_OPERAND },
};

/* Behind 0f. */
static const struct opcode two_bytes[256] = {
	[0x01] = { KIND_GROUP, HAS_OPERAND },
	[0x0d] = { KIND_NOTHING, HAS_OPERAND },
	[0x10 ... 0x17] = { KIND_VECTOR, HAS_OPERAND },
	[0x18 ... 0x1f] = { KIND_NOTHING, HAS_OPERAND },
	[0x28 ... 0x2f] = { KIND_VECTOR, HAS_OPERAND },
	[0x31] = { KIND_OTHER, 0 },
	[0x40 ... 0x4f] = { KIND_MOVE_IF, HAS_OPERAND | TO_REGISTER },
	[0x50 ... 0x6f] = { KIND_VECTOR, HAS_OPERAND },
	[0x70 ... 0x73] = { KIND_VECTOR, HAS_OPERAND | HAS_BYTE },
	[0x74 ... 0x76] = { KIND_VECTOR, HAS_OPERAND },
	[0x77] = { KIND_VECTOR, 0 },
	[0x78 ... 0x7f] = { KIND_VECTOR, HAS_OPERAND },
	[0x80 ... 0x8f] = { KIND_JUMP_IF, HAS_WORD | OF_WORDS },
	[0x90 ... 0x9f] = { KIND_SET_IF, HAS_OPERAND | OF_BYTES },
	[0xa2] = { KIND_OTHER, 0 },
	[0xa3] = { KIND_BIT, HAS_OPERAND },
	[0xa4] = { KIND_OTHER, HAS_OPERAND | HAS_BYTE },
	[0xa5] = { KIND_OTHER, HAS_OPERAND },
	[0xab] = { KIND_BIT, HAS_OPERAND },
	[0xac] = { KIND_OTHER, HAS_OPERAND | HAS_BYTE },
	[0xad] = { KIND_OTHER, HAS_OPERAND },
	[0xae] = { KIND_GROUP, HAS_OPERAND },
	[0xaf] = { KIND_MULTIPLY, HAS_OPERAND | TO_REGISTER },
	[0xb0] = { KIND_COMPARE_EXCHANGE, HAS_OPERAND | OF_BYTES },
	[0xb1] = { KIND_COMPARE_EXCHANGE, HAS_OPERAND },
	[0xb3] = { KIND_BIT, HAS_OPERAND },
	[0xb6] = { KIND_MOVE, HAS_OPERAND | TO_REGISTER },
	[0xb7] = { KIND_MOVE, HAS_OPERAND | TO_REGISTER },
	[0xb8] = { KIND_SCAN, HAS_OPERAND | TO_REGISTER },
	[0xba] = { KIND_BIT, HAS_OPERAND | HAS_BYTE },
	[0xbb] = { KIND_BIT, HAS_OPERAND },
	[0xbc ... 0xbd] = { KIND_SCAN, HAS_OPERAND | TO_REGISTER },
	[0xbe ... 0xbf] = { KIND_MOVE, HAS_OPERAND | TO_REGISTER },
	[0xc0] = { KIND_ADD_EXCHANGE, HAS_OPERAND | OF_BYTES },
	[0xc1] = { KIND_ADD_EXCHANGE, HAS_OPERAND },
	[0xc2] = { KIND_VECTOR, HAS_OPERAND | HAS_BYTE },
	[0xc3] = { KIND_MOVE, HAS_OPERAND },
	[0xc4 ... 0xc6] = { KIND_VECTOR, HAS_OPERAND | HAS_BYTE },
	[0xc7] = { KIND_GROUP, HAS_OPERAND },
	[0xc8 ... 0xcf] = { KIND_SWAP, 0 },
	[0xd0 ... 0xfe] = { KIND_VECTOR, HAS_OPERAND },
};

#endif
