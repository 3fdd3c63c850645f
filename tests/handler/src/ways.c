/*
 * The handler's way outside of the kernel. First comes the code that can be
 * read: its address, its length, its bytes; then cases. Other memory is made up as in host.c.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "types.h"
#include "shared.h"
#include "cases.h"

static struct way_code code;

static u8 *text;

static struct way_case given;

static struct way_result result;

static u64 mixed(u64 word)
{
	word = (word ^ word >> 31) * 0x9e3779b97f4a7c15;
	word = (word ^ word >> 29) * 0xbf58476d1ce4e5b9;
	return word ^ word >> 32;
}

/* Memory; 0 if it can be read. */
static long make_up(void *to, u32 size, u64 address)
{
	u8 *bytes = to;
	u32 index;

	memset(to, 0, size);
	for (index = 0; index < size; index++) {
		u64 at = address + index;
		u64 word;

		if (at - code.address < code.bytes) {
			bytes[index] = text[at - code.address];
			continue;
		}
		word = mixed(at >> 3 ^ given.salt);
		if ((mixed(at >> 12 ^ given.salt) & 7) == 0)
			return -14;
		if (word & 0x700)
			word = (at & ~0xfffULL) + (word & 0x3ff8);
		bytes[index] = (u8)(word >> 8 * (at & 7));
	}
	return 0;
}

static int is_apart(const void *to);

static long read_user(void *to, u32 size, u64 address)
{
	u64 behind = ((u64)to - address) & 4095;

	result.torn += size == 64 && behind && behind < 64;
	result.apart += is_apart(to);
	if (result.reads < MOST_READS)
		result.read[result.reads] = address;
	result.reads++;
	return make_up(to, size, address);
}

/* An entry of a page table: what it holds follows from where it lies. */
static long read_kernel(void *to, u32 size, u64 address)
{
	u64 word = mixed(address ^ given.salt);

	(void)size;
	if (result.reads < MOST_READS)
		result.read[result.reads] = address;
	result.reads++;
	/* Mostly present, mostly in RAM, sometimes a page. */
	word = (word & 0x1fffffff) | (word & 0x700000000000 ? 0 : 0x4000000000);
	word &= word >> 20 & 3 ? ~0x80ULL : ~0ULL;
	word |= word & 0x6000 ? 1 : 0;
	memcpy(to, &word, sizeof(word));
	return 0;
}

static struct fork forks[FORKS];

static struct fork *fork_at(u32 index)
{
	return &forks[index];
}

#define HAS_KERNEL_MEMORY
#include "way_host.h"

/* Whether the tail has of each line what is there. */
static int is_right(void)
{
	u64 line[8];
	u32 at;

	for (at = 0; at < work.record.tail_words; at += 9) {
		u64 head = work.tail[at];
		u64 address = (s64)(head << (64 - HEAD_ADDRESS_BITS)) >> (64 - HEAD_ADDRESS_BITS);

		if (make_up(line, 64, address) || memcmp(line, &work.tail[at + 1], 64))
			return 0;
	}
	return 1;
}

static int is_apart(const void *to)
{
	return (const u64 *)to >= work.apart && (const u64 *)to < work.apart + 16;
}
#include "tables.h"

int main(void)
{
	u32 torn;

	if (fread(&code, sizeof(code), 1, stdin) != 1)
		return 1;
	text = malloc(code.bytes + 1);
	if (!text || fread(text, 1, code.bytes, stdin) != code.bytes)
		return 1;
	while (fread(&given, sizeof(given), 1, stdin) == 1) {
		memset(&result, 0, sizeof(result));
		if (given.decodes) {
			struct insn insn;

			memcpy(work.way.code, given.bytes, 16);
			result.end = decode_insn(&work, &insn);
			result.failures = insn.kind;
			result.followed = insn.flags & OPERAND_MEMORY ? insn.displacement : 0;
			result.reads = (u32)insn.value;
			fwrite(&result, sizeof(result), 1, stdout);
			fflush(stdout);
			continue;
		}
		if (given.levels) {
			work.levels = given.levels;
			work.direct_map = given.registers[0];
			work.tables = given.registers[1];
			memset(work.allowed, 0, sizeof(work.allowed));
			work.allowed[2].start = work.direct_map;
			work.allowed[2].end = work.direct_map + given.registers[2];
			result.end = (u32)is_ram(&work, given.registers[3]);
			fwrite(&result, sizeof(result), 1, stdout);
			fflush(stdout);
			continue;
		}
		memset(&work.record, 0, sizeof(work.record));
		memcpy(work.registers, given.registers, sizeof(work.registers));
		work.record.ip = given.registers[REGISTER_IP];
		work.record.fs_base = given.fs_base;
		work.record.gs_base = given.gs_base;
		work.kernel = 0;
		work.pieces = 0;
		work.way.room = TAIL_WORDS - CHANGES_SPARE;
		follow_way(&work, given.most, given.bases);
		work.pieces_end = work.record.tail_words;
		result.wrong = !is_right();
		/* A second look that is torn finds a change: no more is believed then. */
		torn = result.torn;
		look_at_pieces(&work);
		result.torn = torn;
		result.end = work.way.end;
		result.failures = work.way.failures;
		result.followed = work.way.followed;
		fwrite(&result, sizeof(result), 1, stdout);
		fflush(stdout);
	}
	return 0;
}
