/*
 * What the programs of this folder are asked, and what they answer. The build makes Rust of it, by
 * way of abi.c.
 */
#ifndef VCPI_CASES_H
#define VCPI_CASES_H

enum case_limits {
	/* Rows and addresses of a case, and reads that a result tells, at most. */
	MOST_ROWS = 16,
	MOST_ADDRESSES = 32,
	MOST_READS = 256,
};

/* Of host.c: lines to read, or a walk over frames. */
struct test_case {
	u64 salt;
	u64 registers[REGISTER_WORDS];
	/* Of lines, `frames` says whether others write meanwhile. */
	u32 addresses, kernel, walks, frames;
	struct range allowed;
	u64 address[MOST_ADDRESSES];
	struct row rows[MOST_ROWS];
};

struct one_read {
	u64 address;
	u32 size, kernel;
};

struct result {
	/* Failures to read, in the upper half pieces that have changed; or how a walk ended. */
	u32 outcome, step, tail_words, reads;
	u64 tail[TAIL_WORDS];
	struct one_read read[MOST_READS];
};

/* Of ways.c: the code that can be read, whose bytes follow. */
struct way_code {
	u64 address, bytes;
};

struct way_case {
	u64 salt;
	u64 registers[REGISTER_WORDS];
	u64 fs_base, gs_base;
	/* Of an instruction that is only decoded. */
	u8 bytes[16];
	u32 bases, most, decodes;
	/* Of page tables; 0: a way is followed. */
	u32 levels;
};

struct way_result {
	/* Of an instruction that is only decoded: length, kind, displacement, immediate operand. */
	u32 end, failures, followed, reads;
	/* Lines that were read to where a copy may tear them, and to elsewhere first. */
	u32 torn, apart;
	/* Something else was noted than what was there. */
	u32 wrong, reserved;
	u64 read[MOST_READS];
};

#endif
