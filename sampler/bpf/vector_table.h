/*
 * What a way makes of each instruction of vector registers: an action, and the bytes of an element.
 * Part of way.h, as instruction.h. What stands in no row is only followed in what it reads, and in
 * that it writes.
 */
#ifndef VCPI_VECTOR_TABLE_H
#define VCPI_VECTOR_TABLE_H

/* insn->map: the map in the lower half, the prefix in the upper one. */
#define PREFIX_NONE 0
#define PREFIX_66 1
#define PREFIX_F3 2
#define PREFIX_F2 3

/* Word by word, of two operands; the first one only of what VEX names. */
#define JOIN_AND 1
#define JOIN_AND_NOT 2
#define JOIN_OR 3
#define JOIN_XOR 4
#define JOIN_ADD 5
#define JOIN_SUB 6
#define JOIN_LEAST 7
#define JOIN_MOST 8
#define JOIN_LEAST_SIGNED 9
#define JOIN_MOST_SIGNED 10
#define JOIN_ADD_UP 11
#define JOIN_SUB_DOWN 12
#define JOIN_EQUAL 13
#define JOIN_GREATER 14
#define JOIN_MULTIPLY 15
#define JOIN_MULTIPLY_LOW 16
#define JOIN_SECOND 17
#define JOIN_ABSOLUTE 18
#define JOIN_LOGIC 19
/* The same, with a constant or a register that counts. */
#define JOIN_SHIFT 20
#define JOIN_SHIFT_BY 21
/* Those whose result is a mask. */
#define JOIN_COMPARE 22
#define JOIN_COMPARE_SIGNED 23
#define JOIN_TEST 24
#define JOIN_TEST_NOT 25
/* By bits of a constant, and by top bits of a third register. */
#define JOIN_BLEND 26
#define JOIN_CHOOSE 27
#define JOIN_LAST 27
/* By lanes of sixteen bytes. */
#define LANE_LOW 32
#define LANE_HIGH 33
#define LANE_BYTES 34
#define LANE_ALIGN 35
#define LANE_ALIGN_BY 36
#define LANE_QUARTERS 37
#define LANE_EIGHTHS_LOW 38
#define LANE_EIGHTHS_HIGH 39
#define LANE_OF_BOTH 40
#define LANE_PACK 41
#define LANE_PACK_SIGNED 42
#define LANE_LAST 42
/* Moves of whole registers, of their lowest bytes, of their halves. */
#define MOVE_STORE 48
#define MOVE_LOW 49
#define MOVE_LOW_STORE 50
#define MOVE_GENERAL 51
#define MOVE_GENERAL_STORE 52
#define MOVE_WORD 53
#define MOVE_WORD_STORE 54
#define MOVE_HALF 55
#define MOVE_HALF_STORE 56
#define MOVE_TOPS 57
#define MOVE_PART 58
#define MOVE_PART_STORE 59
#define MOVE_PART_TO 60
#define MOVE_ZEROS 61
#define MOVE_TEST 62
#define MOVE_TEXT 63
#define MOVE_LAST 63
/* What makes a whole register of less, or less of one. */
#define WIDE_REPEAT 64
#define WIDE_REPEAT_GENERAL 65
#define WIDE_REPEAT_LANE 66
#define WIDE_REPEAT_HALF 67
#define WIDE_INSERT 68
#define WIDE_INSERT_HALF 69
#define WIDE_EXTRACT 70
#define WIDE_EXTRACT_HALF 71
#define WIDE_EXTEND 72
#define WIDE_EXTEND_SIGNED 73
#define WIDE_PERMUTE 74
#define WIDE_LANES 75
#define WIDE_LAST 75
/* Masks' own. */
#define MASK_JOIN 80
#define MASK_LOAD 81
#define MASK_STORE 82
#define MASK_GENERAL 83
#define MASK_GENERAL_STORE 84
#define MASK_TEST 85
#define MASK_SHIFT 86
#define MASK_LAST 86
/* Of floating point: element by element, or of the lowest one. */
#define FLOAT_ADD 96
#define FLOAT_MULTIPLY 97
#define FLOAT_SUB 98
#define FLOAT_LEAST 99
#define FLOAT_DIVIDE 100
#define FLOAT_MOST 101
#define FLOAT_ROOT 102
#define FLOAT_ROUND 103
#define FLOAT_COMPARE 104
#define FLOAT_FLAGS 105
#define FLOAT_OF_GENERAL 106
#define FLOAT_TO_GENERAL 107
#define FLOAT_TO_GENERAL_CUT 108
#define FLOAT_WIDEN 109
#define FLOAT_NARROW 110
#define FLOAT_FUSED 111
#define FLOAT_OF_PARTS 112

/* Of the element: 4, or 8 with W of EVEX; 1, or 2 with it; not of the form for scalars, which have
 * the bit 16. */
#define BY_WIDE 0
#define BY_WIDE_BYTES 3
#define SCALAR 16

struct vector_action {
	u8 action, element;
};

#define AT(map, prefix, opcode) [((map) - 1) << 10 | (prefix) << 8 | (opcode)]
/* Of singles and of doubles. */
#define AT_BOTH(opcode, action)                                                             \
	AT(1, PREFIX_NONE, opcode) = { action, 4 },                                         \
	AT(1, PREFIX_66, opcode) = { action, 8 }
/* Singles and doubles, of whole registers and of the lowest element. */
#define AT_ALL(opcode, action)                                                              \
	AT(1, PREFIX_NONE, opcode) = { action, 4 },                                         \
	AT(1, PREFIX_66, opcode) = { action, 8 },                                           \
	AT(1, PREFIX_F3, opcode) = { action, SCALAR | 4 },                                  \
	AT(1, PREFIX_F2, opcode) = { action, SCALAR | 8 }

static const struct vector_action vector_actions[4096] = {
	AT_BOTH(0x10, JOIN_SECOND),
	AT_BOTH(0x28, JOIN_SECOND),
	AT(1, PREFIX_66, 0x6f) = { JOIN_SECOND, BY_WIDE },
	AT(1, PREFIX_F3, 0x6f) = { JOIN_SECOND, BY_WIDE },
	AT(1, PREFIX_F2, 0x6f) = { JOIN_SECOND, BY_WIDE_BYTES },
	AT(1, PREFIX_F2, 0xf0) = { JOIN_SECOND, 1 },
	AT(2, PREFIX_66, 0x2a) = { JOIN_SECOND, 8 },
	AT_BOTH(0x54, JOIN_AND),
	AT_BOTH(0x55, JOIN_AND_NOT),
	AT_BOTH(0x56, JOIN_OR),
	AT_BOTH(0x57, JOIN_XOR),
	AT(1, PREFIX_66, 0xdb) = { JOIN_AND, BY_WIDE },
	AT(1, PREFIX_66, 0xdf) = { JOIN_AND_NOT, BY_WIDE },
	AT(1, PREFIX_66, 0xeb) = { JOIN_OR, BY_WIDE },
	AT(1, PREFIX_66, 0xef) = { JOIN_XOR, BY_WIDE },
	AT(1, PREFIX_66, 0xfc) = { JOIN_ADD, 1 },
	AT(1, PREFIX_66, 0xfd) = { JOIN_ADD, 2 },
	AT(1, PREFIX_66, 0xfe) = { JOIN_ADD, 4 },
	AT(1, PREFIX_66, 0xd4) = { JOIN_ADD, 8 },
	AT(1, PREFIX_66, 0xf8) = { JOIN_SUB, 1 },
	AT(1, PREFIX_66, 0xf9) = { JOIN_SUB, 2 },
	AT(1, PREFIX_66, 0xfa) = { JOIN_SUB, 4 },
	AT(1, PREFIX_66, 0xfb) = { JOIN_SUB, 8 },
	AT(1, PREFIX_66, 0xda) = { JOIN_LEAST, 1 },
	AT(2, PREFIX_66, 0x3a) = { JOIN_LEAST, 2 },
	AT(2, PREFIX_66, 0x3b) = { JOIN_LEAST, BY_WIDE },
	AT(1, PREFIX_66, 0xde) = { JOIN_MOST, 1 },
	AT(2, PREFIX_66, 0x3e) = { JOIN_MOST, 2 },
	AT(2, PREFIX_66, 0x3f) = { JOIN_MOST, BY_WIDE },
	AT(1, PREFIX_66, 0xea) = { JOIN_LEAST_SIGNED, 2 },
	AT(2, PREFIX_66, 0x38) = { JOIN_LEAST_SIGNED, 1 },
	AT(2, PREFIX_66, 0x39) = { JOIN_LEAST_SIGNED, BY_WIDE },
	AT(1, PREFIX_66, 0xee) = { JOIN_MOST_SIGNED, 2 },
	AT(2, PREFIX_66, 0x3c) = { JOIN_MOST_SIGNED, 1 },
	AT(2, PREFIX_66, 0x3d) = { JOIN_MOST_SIGNED, BY_WIDE },
	AT(1, PREFIX_66, 0xdc) = { JOIN_ADD_UP, 1 },
	AT(1, PREFIX_66, 0xdd) = { JOIN_ADD_UP, 2 },
	AT(1, PREFIX_66, 0xd8) = { JOIN_SUB_DOWN, 1 },
	AT(1, PREFIX_66, 0xd9) = { JOIN_SUB_DOWN, 2 },
	AT(1, PREFIX_66, 0x74) = { JOIN_EQUAL, 1 },
	AT(1, PREFIX_66, 0x75) = { JOIN_EQUAL, 2 },
	AT(1, PREFIX_66, 0x76) = { JOIN_EQUAL, 4 },
	AT(2, PREFIX_66, 0x29) = { JOIN_EQUAL, 8 },
	AT(1, PREFIX_66, 0x64) = { JOIN_GREATER, 1 },
	AT(1, PREFIX_66, 0x65) = { JOIN_GREATER, 2 },
	AT(1, PREFIX_66, 0x66) = { JOIN_GREATER, 4 },
	AT(2, PREFIX_66, 0x37) = { JOIN_GREATER, 8 },
	AT(1, PREFIX_66, 0xf4) = { JOIN_MULTIPLY, 8 },
	AT(1, PREFIX_66, 0xd5) = { JOIN_MULTIPLY_LOW, 2 },
	AT(2, PREFIX_66, 0x40) = { JOIN_MULTIPLY_LOW, BY_WIDE },
	AT(2, PREFIX_66, 0x1c) = { JOIN_ABSOLUTE, 1 },
	AT(2, PREFIX_66, 0x1d) = { JOIN_ABSOLUTE, 2 },
	AT(2, PREFIX_66, 0x1e) = { JOIN_ABSOLUTE, 4 },
	AT(3, PREFIX_66, 0x25) = { JOIN_LOGIC, BY_WIDE },
	AT(1, PREFIX_66, 0x71) = { JOIN_SHIFT, 2 },
	AT(1, PREFIX_66, 0x72) = { JOIN_SHIFT, BY_WIDE },
	AT(1, PREFIX_66, 0x73) = { JOIN_SHIFT, 8 },
	AT(1, PREFIX_66, 0xd1) = { JOIN_SHIFT_BY, 2 },
	AT(1, PREFIX_66, 0xd2) = { JOIN_SHIFT_BY, 4 },
	AT(1, PREFIX_66, 0xd3) = { JOIN_SHIFT_BY, 8 },
	AT(1, PREFIX_66, 0xe1) = { JOIN_SHIFT_BY, 2 },
	AT(1, PREFIX_66, 0xe2) = { JOIN_SHIFT_BY, BY_WIDE },
	AT(1, PREFIX_66, 0xf1) = { JOIN_SHIFT_BY, 2 },
	AT(1, PREFIX_66, 0xf2) = { JOIN_SHIFT_BY, 4 },
	AT(1, PREFIX_66, 0xf3) = { JOIN_SHIFT_BY, 8 },
	AT(3, PREFIX_66, 0x3e) = { JOIN_COMPARE, BY_WIDE_BYTES },
	AT(3, PREFIX_66, 0x1e) = { JOIN_COMPARE, BY_WIDE },
	AT(3, PREFIX_66, 0x3f) = { JOIN_COMPARE_SIGNED, BY_WIDE_BYTES },
	AT(3, PREFIX_66, 0x1f) = { JOIN_COMPARE_SIGNED, BY_WIDE },
	AT(2, PREFIX_66, 0x26) = { JOIN_TEST, BY_WIDE_BYTES },
	AT(2, PREFIX_66, 0x27) = { JOIN_TEST, BY_WIDE },
	AT(2, PREFIX_F3, 0x26) = { JOIN_TEST_NOT, BY_WIDE_BYTES },
	AT(2, PREFIX_F3, 0x27) = { JOIN_TEST_NOT, BY_WIDE },

	AT(3, PREFIX_66, 0x0e) = { JOIN_BLEND, 2 },
	AT(3, PREFIX_66, 0x02) = { JOIN_BLEND, 4 },
	AT(3, PREFIX_66, 0x0c) = { JOIN_BLEND, 4 },
	AT(3, PREFIX_66, 0x0d) = { JOIN_BLEND, 8 },
	AT(2, PREFIX_66, 0x10) = { JOIN_CHOOSE, 1 },
	AT(2, PREFIX_66, 0x14) = { JOIN_CHOOSE, 4 },
	AT(2, PREFIX_66, 0x15) = { JOIN_CHOOSE, 8 },
	AT(3, PREFIX_66, 0x4c) = { JOIN_CHOOSE, 1 },
	AT(3, PREFIX_66, 0x4a) = { JOIN_CHOOSE, 4 },
	AT(3, PREFIX_66, 0x4b) = { JOIN_CHOOSE, 8 },

	AT(1, PREFIX_66, 0x60) = { LANE_LOW, 1 },
	AT(1, PREFIX_66, 0x61) = { LANE_LOW, 2 },
	AT(1, PREFIX_66, 0x62) = { LANE_LOW, 4 },
	AT(1, PREFIX_66, 0x6c) = { LANE_LOW, 8 },
	AT_BOTH(0x14, LANE_LOW),
	AT(1, PREFIX_66, 0x68) = { LANE_HIGH, 1 },
	AT(1, PREFIX_66, 0x69) = { LANE_HIGH, 2 },
	AT(1, PREFIX_66, 0x6a) = { LANE_HIGH, 4 },
	AT(1, PREFIX_66, 0x6d) = { LANE_HIGH, 8 },
	AT_BOTH(0x15, LANE_HIGH),
	AT(2, PREFIX_66, 0x00) = { LANE_BYTES, 1 },
	AT(3, PREFIX_66, 0x0f) = { LANE_ALIGN, 1 },
	AT(1, PREFIX_66, 0x70) = { LANE_QUARTERS, 4 },
	AT(1, PREFIX_F2, 0x70) = { LANE_EIGHTHS_LOW, 2 },
	AT(1, PREFIX_F3, 0x70) = { LANE_EIGHTHS_HIGH, 2 },
	AT_BOTH(0xc6, LANE_OF_BOTH),
	AT(1, PREFIX_66, 0x67) = { LANE_PACK, 1 },
	AT(1, PREFIX_66, 0x63) = { LANE_PACK_SIGNED, 1 },
	AT(1, PREFIX_66, 0x6b) = { LANE_PACK_SIGNED, 2 },
	AT(2, PREFIX_66, 0x2b) = { LANE_PACK, 2 },

	AT_BOTH(0x11, MOVE_STORE),
	AT_BOTH(0x29, MOVE_STORE),
	AT_BOTH(0x2b, MOVE_STORE),
	AT(1, PREFIX_66, 0x7f) = { MOVE_STORE, BY_WIDE },
	AT(1, PREFIX_F3, 0x7f) = { MOVE_STORE, BY_WIDE },
	AT(1, PREFIX_F2, 0x7f) = { MOVE_STORE, BY_WIDE_BYTES },
	AT(1, PREFIX_66, 0xe7) = { MOVE_STORE, 8 },
	AT(1, PREFIX_F3, 0x10) = { MOVE_LOW, 4 },
	AT(1, PREFIX_F2, 0x10) = { MOVE_LOW, 8 },
	AT(1, PREFIX_F3, 0x11) = { MOVE_LOW_STORE, 4 },
	AT(1, PREFIX_F2, 0x11) = { MOVE_LOW_STORE, 8 },
	AT(1, PREFIX_66, 0x6e) = { MOVE_GENERAL, 0 },
	AT(1, PREFIX_66, 0x7e) = { MOVE_GENERAL_STORE, 0 },
	AT(1, PREFIX_F3, 0x7e) = { MOVE_WORD, 8 },
	AT(1, PREFIX_66, 0xd6) = { MOVE_WORD_STORE, 8 },
	AT_BOTH(0x12, MOVE_HALF),
	AT_BOTH(0x16, MOVE_HALF),
	AT_BOTH(0x13, MOVE_HALF_STORE),
	AT_BOTH(0x17, MOVE_HALF_STORE),
	AT(1, PREFIX_66, 0xd7) = { MOVE_TOPS, 1 },
	AT_BOTH(0x50, MOVE_TOPS),
	AT(1, PREFIX_66, 0xc4) = { MOVE_PART, 2 },
	AT(3, PREFIX_66, 0x20) = { MOVE_PART, 1 },
	AT(3, PREFIX_66, 0x22) = { MOVE_PART, 0 },
	AT(3, PREFIX_66, 0x14) = { MOVE_PART_STORE, 1 },
	AT(3, PREFIX_66, 0x15) = { MOVE_PART_STORE, 2 },
	AT(3, PREFIX_66, 0x16) = { MOVE_PART_STORE, 0 },
	AT(3, PREFIX_66, 0x17) = { MOVE_PART_STORE, 4 },
	AT(1, PREFIX_66, 0xc5) = { MOVE_PART_TO, 2 },
	AT(1, PREFIX_NONE, 0x77) = { MOVE_ZEROS, 8 },
	AT(2, PREFIX_66, 0x17) = { MOVE_TEST, 8 },
	AT(3, PREFIX_66, 0x63) = { MOVE_TEXT, 1 },

	AT(2, PREFIX_66, 0x78) = { WIDE_REPEAT, 1 },
	AT(2, PREFIX_66, 0x79) = { WIDE_REPEAT, 2 },
	AT(2, PREFIX_66, 0x58) = { WIDE_REPEAT, 4 },
	AT(2, PREFIX_66, 0x59) = { WIDE_REPEAT, 8 },
	AT(2, PREFIX_66, 0x18) = { WIDE_REPEAT, 4 },
	AT(2, PREFIX_66, 0x19) = { WIDE_REPEAT, 8 },
	AT(1, PREFIX_F2, 0x12) = { WIDE_REPEAT, 8 },
	AT(3, PREFIX_66, 0x00) = { WIDE_PERMUTE, 8 },
	AT(3, PREFIX_66, 0x01) = { WIDE_PERMUTE, 8 },
	AT(3, PREFIX_66, 0x06) = { WIDE_LANES, 8 },
	AT(3, PREFIX_66, 0x46) = { WIDE_LANES, 8 },
	AT(2, PREFIX_66, 0x7a) = { WIDE_REPEAT_GENERAL, 1 },
	AT(2, PREFIX_66, 0x7b) = { WIDE_REPEAT_GENERAL, 2 },
	AT(2, PREFIX_66, 0x7c) = { WIDE_REPEAT_GENERAL, BY_WIDE },
	AT(2, PREFIX_66, 0x5a) = { WIDE_REPEAT_LANE, BY_WIDE },
	AT(2, PREFIX_66, 0x1a) = { WIDE_REPEAT_LANE, BY_WIDE },
	AT(2, PREFIX_66, 0x5b) = { WIDE_REPEAT_HALF, BY_WIDE },
	AT(2, PREFIX_66, 0x1b) = { WIDE_REPEAT_HALF, BY_WIDE },
	AT(3, PREFIX_66, 0x38) = { WIDE_INSERT, BY_WIDE },
	AT(3, PREFIX_66, 0x18) = { WIDE_INSERT, BY_WIDE },
	AT(3, PREFIX_66, 0x3a) = { WIDE_INSERT_HALF, BY_WIDE },
	AT(3, PREFIX_66, 0x1a) = { WIDE_INSERT_HALF, BY_WIDE },
	AT(3, PREFIX_66, 0x39) = { WIDE_EXTRACT, BY_WIDE },
	AT(3, PREFIX_66, 0x19) = { WIDE_EXTRACT, BY_WIDE },
	AT(3, PREFIX_66, 0x3b) = { WIDE_EXTRACT_HALF, BY_WIDE },
	AT(3, PREFIX_66, 0x1b) = { WIDE_EXTRACT_HALF, BY_WIDE },
	AT(2, PREFIX_66, 0x30) = { WIDE_EXTEND, 2 },
	AT(2, PREFIX_66, 0x31) = { WIDE_EXTEND, 4 },
	AT(2, PREFIX_66, 0x32) = { WIDE_EXTEND, 8 },
	AT(2, PREFIX_66, 0x33) = { WIDE_EXTEND, 4 },
	AT(2, PREFIX_66, 0x34) = { WIDE_EXTEND, 8 },
	AT(2, PREFIX_66, 0x35) = { WIDE_EXTEND, 8 },
	AT(2, PREFIX_66, 0x20) = { WIDE_EXTEND_SIGNED, 2 },
	AT(2, PREFIX_66, 0x21) = { WIDE_EXTEND_SIGNED, 4 },
	AT(2, PREFIX_66, 0x22) = { WIDE_EXTEND_SIGNED, 8 },
	AT(2, PREFIX_66, 0x23) = { WIDE_EXTEND_SIGNED, 4 },
	AT(2, PREFIX_66, 0x24) = { WIDE_EXTEND_SIGNED, 8 },
	AT(2, PREFIX_66, 0x25) = { WIDE_EXTEND_SIGNED, 8 },

	[PREFIX_NONE << 8 | 0x41 ... PREFIX_NONE << 8 | 0x4b] = { MASK_JOIN, 0 },
	[PREFIX_66 << 8 | 0x41 ... PREFIX_66 << 8 | 0x4b] = { MASK_JOIN, 0 },
	AT_BOTH(0x90, MASK_LOAD),
	AT_BOTH(0x91, MASK_STORE),
	AT_BOTH(0x92, MASK_GENERAL),
	AT(1, PREFIX_F2, 0x92) = { MASK_GENERAL, 0 },
	AT_BOTH(0x93, MASK_GENERAL_STORE),
	AT(1, PREFIX_F2, 0x93) = { MASK_GENERAL_STORE, 0 },
	AT_BOTH(0x98, MASK_TEST),
	AT_BOTH(0x99, MASK_TEST),
	[2 << 10 | PREFIX_66 << 8 | 0x30 ... 2 << 10 | PREFIX_66 << 8 | 0x33] = { MASK_SHIFT, 0 },

	AT_ALL(0x58, FLOAT_ADD),
	AT_ALL(0x59, FLOAT_MULTIPLY),
	AT_ALL(0x5c, FLOAT_SUB),
	AT_ALL(0x5d, FLOAT_LEAST),
	AT_ALL(0x5e, FLOAT_DIVIDE),
	AT_ALL(0x5f, FLOAT_MOST),
	AT_ALL(0x51, FLOAT_ROOT),
	AT_ALL(0xc2, FLOAT_COMPARE),
	AT(3, PREFIX_66, 0x08) = { FLOAT_ROUND, 4 },
	AT(3, PREFIX_66, 0x09) = { FLOAT_ROUND, 8 },
	AT(3, PREFIX_66, 0x0a) = { FLOAT_ROUND, SCALAR | 4 },
	AT(3, PREFIX_66, 0x0b) = { FLOAT_ROUND, SCALAR | 8 },
	AT(1, PREFIX_NONE, 0x2e) = { FLOAT_FLAGS, SCALAR | 4 },
	AT(1, PREFIX_66, 0x2e) = { FLOAT_FLAGS, SCALAR | 8 },
	AT(1, PREFIX_NONE, 0x2f) = { FLOAT_FLAGS, SCALAR | 4 },
	AT(1, PREFIX_66, 0x2f) = { FLOAT_FLAGS, SCALAR | 8 },
	AT(1, PREFIX_F3, 0x2a) = { FLOAT_OF_GENERAL, SCALAR | 4 },
	AT(1, PREFIX_F2, 0x2a) = { FLOAT_OF_GENERAL, SCALAR | 8 },
	AT(1, PREFIX_F3, 0x2c) = { FLOAT_TO_GENERAL_CUT, SCALAR | 4 },
	AT(1, PREFIX_F2, 0x2c) = { FLOAT_TO_GENERAL_CUT, SCALAR | 8 },
	AT(1, PREFIX_F3, 0x2d) = { FLOAT_TO_GENERAL, SCALAR | 4 },
	AT(1, PREFIX_F2, 0x2d) = { FLOAT_TO_GENERAL, SCALAR | 8 },
	AT(1, PREFIX_NONE, 0x5a) = { FLOAT_WIDEN, 8 },
	AT(1, PREFIX_66, 0x5a) = { FLOAT_NARROW, 4 },
	AT(1, PREFIX_F3, 0xe6) = { FLOAT_OF_PARTS, 8 },
	AT(1, PREFIX_NONE, 0x5b) = { FLOAT_OF_PARTS, 4 },
	AT(1, PREFIX_F3, 0x5a) = { FLOAT_WIDEN, SCALAR | 8 },
	AT(1, PREFIX_F2, 0x5a) = { FLOAT_NARROW, SCALAR | 4 },
	AT(2, PREFIX_66, 0x99) = { FLOAT_FUSED, SCALAR | 8 },
	AT(2, PREFIX_66, 0x9b) = { FLOAT_FUSED, SCALAR | 8 },
	AT(2, PREFIX_66, 0x9d) = { FLOAT_FUSED, SCALAR | 8 },
	AT(2, PREFIX_66, 0x9f) = { FLOAT_FUSED, SCALAR | 8 },
	AT(2, PREFIX_66, 0xa9) = { FLOAT_FUSED, SCALAR | 8 },
	AT(2, PREFIX_66, 0xab) = { FLOAT_FUSED, SCALAR | 8 },
	AT(2, PREFIX_66, 0xad) = { FLOAT_FUSED, SCALAR | 8 },
	AT(2, PREFIX_66, 0xaf) = { FLOAT_FUSED, SCALAR | 8 },
	AT(2, PREFIX_66, 0xb9) = { FLOAT_FUSED, SCALAR | 8 },
	AT(2, PREFIX_66, 0xbb) = { FLOAT_FUSED, SCALAR | 8 },
	AT(2, PREFIX_66, 0xbd) = { FLOAT_FUSED, SCALAR | 8 },
	AT(2, PREFIX_66, 0xbf) = { FLOAT_FUSED, SCALAR | 8 },
};

#endif
