/*
 * The interrupted registers as the kernel hands them over, and as a record holds them.
 */
#ifndef VCPI_REGISTERS_H
#define VCPI_REGISTERS_H

/* The first fields of bpf_perf_event_data, whose layout is fixed. */
struct interrupt {
	u64 registers[21];
	u64 period;
	u64 address;
};

/* Where pt_regs keeps what. */
#define SAVED_R15 0
#define SAVED_R14 1
#define SAVED_R13 2
#define SAVED_R12 3
#define SAVED_RBP 4
#define SAVED_RBX 5
#define SAVED_R11 6
#define SAVED_R10 7
#define SAVED_R9 8
#define SAVED_R8 9
#define SAVED_RAX 10
#define SAVED_RCX 11
#define SAVED_RDX 12
#define SAVED_RSI 13
#define SAVED_RDI 14
#define SAVED_ORIG_RAX 15
#define SAVED_RIP 16
#define SAVED_CS 17
#define SAVED_FLAGS 18
#define SAVED_RSP 19
#define SAVED_SS 20

/* Bytes of it. */
#define SAVED_BYTES 168

/* Selectors. */
#define SELECTOR_PRIVILEGE 3
#define SELECTOR_USER_32 0x23

/* Bits of RFLAGS. */
#define INTERRUPTS_ON 0x200
#define RESUMES 0x10000

/* To the order of a record. */
#define COPY_REGISTERS(to, from)            \
	do {                                \
		(to)[0] = (from)[SAVED_RAX];  \
		(to)[1] = (from)[SAVED_RCX];  \
		(to)[2] = (from)[SAVED_RDX];  \
		(to)[3] = (from)[SAVED_RBX];  \
		(to)[4] = (from)[SAVED_RSP];  \
		(to)[5] = (from)[SAVED_RBP];  \
		(to)[6] = (from)[SAVED_RSI];  \
		(to)[7] = (from)[SAVED_RDI];  \
		(to)[8] = (from)[SAVED_R8];   \
		(to)[9] = (from)[SAVED_R9];   \
		(to)[10] = (from)[SAVED_R10]; \
		(to)[11] = (from)[SAVED_R11]; \
		(to)[12] = (from)[SAVED_R12]; \
		(to)[13] = (from)[SAVED_R13]; \
		(to)[14] = (from)[SAVED_R14]; \
		(to)[15] = (from)[SAVED_R15]; \
		(to)[16] = (from)[SAVED_RIP]; \
		(to)[17] = (from)[SAVED_FLAGS]; \
		(to)[18] = (from)[SAVED_CS] & 0xffff;  \
		(to)[19] = (from)[SAVED_SS] & 0xffff;  \
	} while (0)

#endif
