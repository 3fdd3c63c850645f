/*
 * The handler's reading of lines, its second look at them, and its walk over frames, outside of the
 * kernel: answers each case on its input by a result on its output, both of fixed size. Memory is
 * made up: which pages can be read and what their bytes are follows from addresses and a salt, for
 * addresses of the kernel as well, so that only the code under test keeps away from those. Every
 * read is reported.
 */
#include <stdio.h>
#include <string.h>

#include "types.h"
#include "shared.h"
#include "cases.h"

static struct test_case given;
static struct result result;
/* Reads so far are of the second look. */
static u32 again;

static u64 mixed(u64 word)
{
	word = (word ^ word >> 31) * 0x9e3779b97f4a7c15;
	word = (word ^ word >> 29) * 0xbf58476d1ce4e5b9;
	return word ^ word >> 32;
}

static long read_memory(u8 *to, u32 size, u64 address, u32 kernel)
{
	u32 index;

	if (result.reads < MOST_READS)
		result.read[result.reads] = (struct one_read){ address, size, kernel };
	result.reads++;
	memset(to, 0, size);
	for (index = 0; index < size; index++) {
		u64 at = address + index;

		if ((mixed(at >> 12 ^ given.salt) & 7) == 0)
			return -14;
	}
	for (index = 0; index < size; index++) {
		u64 word = mixed((address + index) >> 3 ^ given.salt);

		/* Many words are addresses near by, so that chains go on. */
		if (word & 0x700)
			word = (address & ~0xfffULL) + (word & 0x3ff8);
		to[index] = (u8)(word >> 8 * ((address + index) & 7));
		if (again && (mixed((address + index) ^ ~given.salt) & 31) == 0)
			to[index] ^= 1;
	}
	return 0;
}

static long read_user(void *to, u32 size, u64 address)
{
	return read_memory(to, size, address, 0);
}

static long read_kernel(void *to, u32 size, u64 address)
{
	return read_memory(to, size, address, 1);
}

struct work;

static int find_row(struct work *work, u64 address, struct row *row)
{
	/* Every address has one of them, some of which are none. */
	(void)work;
	*row = given.rows[mixed(address ^ given.salt) % MOST_ROWS];
	return row->kind != ROW_NONE;
}

static int may_read(struct work *work, u64 address)
{
	(void)work;
	(void)address;
	return 1;
}

#define SUBPROGRAM
#include "capture.h"
#include "second_look.h"
#include "way_memory.h"

static struct work work;

static void walk(void)
{
	u32 index;
	int step = 0;

	work.pc = given.registers[REGISTER_IP];
	work.sp = given.registers[REGISTER_RSP];
	work.bp = given.registers[REGISTER_RBP];
	work.bp_known = 1;
	work.first = 1;
	for (index = 0; index < given.frames && !(step & 255); index++)
		step = walk_step(&work);
	result.outcome = step & 255;
	result.step = work.record.frames;
}

static void read_lines(void)
{
	u32 index;

	work.way.serial++;
	work.way.room = TAIL_WORDS - CHANGES_SPARE;
	work.way.failures = 0;
	work.way.read = 0;
	work.pieces = 0;
	for (index = 0; index < given.addresses; index++)
		touch(&work, given.address[index]);
	work.pieces_end = work.record.tail_words;
	result.outcome = work.way.failures;
	result.step = work.way.read;
	again = given.frames;
	if (again)
		result.outcome |= look_at_pieces(&work) << 16;
	again = 0;
}

int main(void)
{
	while (fread(&given, sizeof(given), 1, stdin) == 1) {
		/* What an earlier case left is there, as in the kernel. */
		memset(&result, 0, sizeof(result));
		memset(&work.record, 0, sizeof(work.record));
		memcpy(work.registers, given.registers, sizeof(work.registers));
		work.kernel = given.kernel;
		work.allowed[0] = given.allowed;
		if (given.walks)
			walk();
		else
			read_lines();
		result.tail_words = work.record.tail_words;
		memcpy(result.tail, work.tail, sizeof(result.tail));
		fwrite(&result, sizeof(result), 1, stdout);
		fflush(stdout);
	}
	return 0;
}
