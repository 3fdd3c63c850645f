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

static long read_user(void *to, u32 size, u64 address)
{
	u8 *bytes = to;
	u32 index;

	if (result.reads < MOST_READS)
		result.read[result.reads] = address;
	result.reads++;
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
#include "tables.h"

int main(void)
{
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
		look_at_pieces(&work);
		result.end = work.way.end;
		result.failures = work.way.failures;
		result.followed = work.way.followed;
		fwrite(&result, sizeof(result), 1, stdout);
		fflush(stdout);
	}
	return 0;
}
