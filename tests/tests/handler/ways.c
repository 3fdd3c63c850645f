/*
 * The handler's way through translated code, outside of the kernel, as host.c has its plans: each
 * case is a head with micro-operations and entries behind it. Memory is made up as there, but for the
 * code, which can be read.
 */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int8_t s8;
typedef int32_t s32;
typedef int64_t s64;

#include "shared.h"

#define MOST_READS 256
#define MOST_UOPS 65536
#define MOST_ENTRIES 32768

static struct {
	u64 salt;
	u64 registers[REGISTER_WORDS];
	u64 bias, fs_base, gs_base;
	struct range code;
	u32 bases, at, most, uops, entries, reserved;
} given;

static struct {
	u64 address;
	u64 at;
} entry[MOST_ENTRIES];

static struct uop uop[MOST_UOPS];

static struct {
	u32 end, failures, followed, reads;
	u64 read[MOST_READS];
} result;

static u64 mixed(u64 word)
{
	word = (word ^ word >> 31) * 0x9e3779b97f4a7c15;
	word = (word ^ word >> 29) * 0xbf58476d1ce4e5b9;
	return word ^ word >> 32;
}

static long read_user(void *to, u32 size, u64 address)
{
	u8 *bytes = to;
	u32 index;

	if (result.reads < MOST_READS)
		result.read[result.reads] = address;
	result.reads++;
	memset(to, 0, size);
	if (address >= given.code.start && address < given.code.end)
		return 0;
	for (index = 0; index < size; index++) {
		u64 at = address + index;
		u64 word = mixed(at >> 3 ^ given.salt);

		if ((mixed(at >> 12 ^ given.salt) & 7) == 0)
			return -14;
		if (word & 0x700)
			word = (at & ~0xfffULL) + (word & 0x3ff8);
		bytes[index] = (u8)(word >> 8 * (at & 7));
	}
	return 0;
}

static long read_kernel(void *to, u32 size, u64 address)
{
	(void)to;
	(void)size;
	(void)address;
	return -14;
}

struct work;

static int find_row(struct work *work, u64 address, struct row *row)
{
	(void)work;
	(void)address;
	(void)row;
	return 0;
}

static const struct uop *uop_at(u32 index)
{
	return index < given.uops ? &uop[index] : 0;
}

static u32 find_entry(struct work *work, u64 address, u64 *bias)
{
	u32 index;

	(void)work;
	for (index = 0; index < given.entries; index++)
		if (entry[index].address == address) {
			*bias = given.bias;
			return (u32)entry[index].at;
		}
	return 0;
}

#define SUBPROGRAM
#include "capture.h"
#include "second_look.h"
#include "uops.h"

static struct work work;

int main(void)
{
	while (fread(&given, sizeof(given), 1, stdin) == 1) {
		if (given.uops > MOST_UOPS || given.entries > MOST_ENTRIES ||
		    fread(uop, sizeof(*uop), given.uops, stdin) != given.uops ||
		    fread(entry, sizeof(*entry), given.entries, stdin) != given.entries)
			return 1;
		memset(&result, 0, sizeof(result));
		memset(&work.record, 0, sizeof(work.record));
		memcpy(work.registers, given.registers, sizeof(work.registers));
		work.record.ip = given.registers[REGISTER_IP];
		work.record.fs_base = given.fs_base;
		work.record.gs_base = given.gs_base;
		work.kernel = 0;
		work.pieces = 0;
		follow_way(&work, given.at, given.bias, given.most, given.bases);
		work.pieces_end = work.record.tail_words;
		look_at_pieces(&work);
		result.end = work.way.end;
		result.failures = work.way.failures;
		result.followed = work.way.followed;
		fwrite(&result, sizeof(result), 1, stdout);
		fflush(stdout);
	}
	return 0;
}
