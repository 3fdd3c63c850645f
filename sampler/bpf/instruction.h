/*
 * An instruction of x86-64, decoded as far as a way needs it: how long it is, what it reads and writes,
 * and, if it is a common one, what it does. Plain C, for the handler in the kernel as for tests.
 */
#ifndef VCPI_INSTRUCTION_H
#define VCPI_INSTRUCTION_H

/* insn.kind: what is to be done. */
#define KIND_END 0
#define KIND_NOTHING 1
/* Of which only is followed what it reads and that it writes. */
#define KIND_OTHER 2
#define KIND_BINARY 3
#define KIND_MOVE 4
#define KIND_LEA 5
#define KIND_UNARY 6
#define KIND_SHIFT 7
#define KIND_MULTIPLY 8
#define KIND_WIDE 9
#define KIND_PUSH 10
#define KIND_POP 11
#define KIND_LEAVE 12
#define KIND_JUMP 13
#define KIND_JUMP_IF 14
#define KIND_JUMP_IF_ZERO 15
#define KIND_CALL 16
#define KIND_RETURN 17
#define KIND_JUMP_TO 18
#define KIND_CALL_TO 19
#define KIND_SET_IF 20
#define KIND_MOVE_IF 21
#define KIND_BIT 22
#define KIND_EXCHANGE 23
#define KIND_STRING 24
#define KIND_EXTEND 25
#define KIND_SCAN 26
#define KIND_SWAP 27
#define KIND_CONSTANT 28
#define KIND_BMI 29
#define KIND_FLOAT_STACK 30
#define KIND_VECTOR 31
#define KIND_ADD_EXCHANGE 32
#define KIND_COMPARE_EXCHANGE 33
#define KIND_CARRY 34
#define KIND_TRANSACTION 35
/* Only in the tables: groups, whose operation the second register's bits tell. */
#define KIND_GROUP 40

/* insn.flags */
/* The operand `rm` lies in memory. */
#define OPERAND_MEMORY 1
/* The register is written, `rm` is read; else the other way round. */
#define OPERAND_TO_REGISTER 2
#define OPERAND_IMMEDIATE 4
#define OPERAND_SIGNED 8
/* The prefixes f2 (not equal) and f3. */
#define OPERAND_REPEATED 16
#define OPERAND_REPEATED_UNEQUAL 32
/* The prefix REX.W, or its like. */
#define OPERAND_WIDE 64
/* EVEX: with zeros where the mask has none; or with one element for all, if it is memory's. */
#define OPERAND_EVEX 128

/* insn.op of KIND_BINARY; the first eight as the processor encodes them. */
#define BINARY_ADD 0
#define BINARY_OR 1
#define BINARY_ADC 2
#define BINARY_SBB 3
#define BINARY_AND 4
#define BINARY_SUB 5
#define BINARY_XOR 6
#define BINARY_CMP 7
#define BINARY_TEST 8

/* insn.op of KIND_UNARY */
#define UNARY_NOT 2
#define UNARY_NEG 3
#define UNARY_INC 8
#define UNARY_DEC 9

/* Numbers of words. A register whose byte is the second one of a general register's has this bit. */
#define WORD_PC 16
#define WORD_FS_BASE 17
#define WORD_GS_BASE 18
#define WORD_NONE 19
#define WORDS 32
#define SECOND_BYTE 0x40

/* A decoded instruction: half a line of the processor's cache, since each that is followed brings one. */
struct insn {
	/* The first eight of its bytes, as they lie in memory. */
	u64 first;
	u8 length, kind;
	union {
		/* Of what kind, more closely; of vectors the opcode. */
		u8 op, opcode;
	};
	u8 size;
	/* Words; vector registers by their number. */
	u8 reg, rm, base, index;
	/* How far the index is shifted, and the segment's word. */
	u8 scale, segment;
	u8 flags, width;
	s32 displacement;
	s32 value;
	union {
		/* Of vectors: the map (1 to 3) and prefix (0: none, 1: 66, 2: f3, 3: f2; in the upper
		 * half), and the register beside the others. */
		struct {
			u8 map, beside;
		};
		/* Of others: words that are not known any more, a bit each. */
		u16 forgotten;
	};
	union {
		/* Of vectors the mask (bit 7: zeros elsewhere; bit 6: one element for all). */
		u8 mask;
		/* Of branches what they did before: way.h. */
		u8 taken;
	};
	/* Of its bytes behind the eighth. */
	u8 check;
};

_Static_assert(sizeof(struct insn) == INSN_BYTES, "insn");

#endif
