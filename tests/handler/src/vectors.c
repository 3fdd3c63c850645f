/*
 * Instructions of vector registers as the handler's way follows them, beside the processor itself:
 * one at random, from registers and memory at random, of which the way knows a part. What it then
 * holds for known is what the processor has. Prints, a line each: "wrong" and what was found; for
 * each row of the table how often the processor ran it with all known, and how often the way then
 * knew all; sums.
 */
#include <cpuid.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "types.h"
#include "shared.h"

/* Memory that the instructions use, and its bytes before. */
#define BUFFER 4096
#define MIDDLE 2048
static u8 *buffer, before[BUFFER];
/* The instruction, for the way and for the processor. */
static u8 *code;
static u8 bytes[32];

#define CODE_AT 0x400000ULL

static long read_user(void *to, u32 size, u64 address)
{
	u64 in_buffer = address - (u64)buffer;

	memset(to, 0, size);
	if (in_buffer < BUFFER)
		memcpy(to, before + in_buffer, size);
	else if (address - CODE_AT < sizeof(bytes))
		memcpy(to, bytes, sizeof(bytes));
	else
		return -14;
	return 0;
}

static struct fork *fork_at(u32 index)
{
	static struct fork fork;

	(void)index;
	return &fork;
}

#include "way_host.h"

/* What the processor has: general registers and flags, and the rest as xsave lays it out. */
static u64 registers[17] __attribute__((used));
static u64 host_stack __attribute__((used));
static u8 *area __attribute__((used));
static void *entry __attribute__((used));
static u32 features, offsets[8], area_bytes;

#define HAS_AVX (1U << 2)
#define HAS_MASKS (7U << 5)

void run_native(void);

__asm__(".text\n"
	".globl run_native\n"
	"run_native:\n"
	"push %rbx; push %rbp; push %r12; push %r13; push %r14; push %r15\n"
	"mov %rsp, host_stack(%rip)\n"
	"mov area(%rip), %rdi; mov $0xe7, %eax; xor %edx, %edx; xrstor64 (%rdi)\n"
	"push 128+registers(%rip); popfq\n"
	"mov registers(%rip), %rax; mov 8+registers(%rip), %rcx; mov 16+registers(%rip), %rdx\n"
	"mov 24+registers(%rip), %rbx; mov 40+registers(%rip), %rbp\n"
	"mov 48+registers(%rip), %rsi; mov 56+registers(%rip), %rdi\n"
	"mov 64+registers(%rip), %r8; mov 72+registers(%rip), %r9\n"
	"mov 80+registers(%rip), %r10; mov 88+registers(%rip), %r11\n"
	"mov 96+registers(%rip), %r12; mov 104+registers(%rip), %r13\n"
	"mov 112+registers(%rip), %r14; mov 120+registers(%rip), %r15\n"
	"jmp *entry(%rip)\n"
	".globl native_end\n"
	"native_end:\n"
	"mov %rax, registers(%rip); mov %rcx, 8+registers(%rip); mov %rdx, 16+registers(%rip)\n"
	"mov %rbx, 24+registers(%rip); mov %rbp, 40+registers(%rip)\n"
	"mov %rsi, 48+registers(%rip); mov %rdi, 56+registers(%rip)\n"
	"mov %r8, 64+registers(%rip); mov %r9, 72+registers(%rip)\n"
	"mov %r10, 80+registers(%rip); mov %r11, 88+registers(%rip)\n"
	"mov %r12, 96+registers(%rip); mov %r13, 104+registers(%rip)\n"
	"mov %r14, 112+registers(%rip); mov %r15, 120+registers(%rip)\n"
	"mov host_stack(%rip), %rsp\n"
	"pushfq; pop 128+registers(%rip)\n"
	"mov area(%rip), %rdi; mov $0xe7, %eax; xor %edx, %edx; xsave64 (%rdi)\n"
	"cld; fninit\n"
	"pop %r15; pop %r14; pop %r13; pop %r12; pop %rbp; pop %rbx\n"
	"ret\n");

void native_end(void);

static sigjmp_buf fault;

static void on_fault(int signal)
{
	siglongjmp(fault, signal);
}

/* Whether the processor took the instruction. */
static int has_run(void)
{
	if (sigsetjmp(fault, 1))
		return 0;
	run_native();
	return 1;
}

static u64 state;

static u64 draw(void)
{
	state = state * 6364136223846793005ULL + 1442695040888963407ULL;
	return (state ^ state >> 29) * 0xbf58476d1ce4e5b9ULL >> 7 ^ state >> 33 ^ state << 40;
}

/* Where word `word` of vector register `number` lies in the area; null where there is none. */
static u64 *native_word(u32 number, u32 word)
{
	u32 at;

	if (number >= 16)
		at = offsets[7] + 64 * (number - 16) + 8 * word;
	else if (word < 2)
		at = 160 + 16 * number + 8 * word;
	else if (word < 4)
		at = offsets[2] + 16 * number + 8 * (word - 2);
	else
		at = offsets[6] + 32 * number + 8 * (word - 4);
	if ((number >= 16 || word >= 4) && !(features & HAS_MASKS))
		return 0;
	if (word >= 2 && !(features & HAS_AVX))
		return 0;
	return (u64 *)(area + at);
}

static u64 *native_mask(u32 number)
{
	return features & HAS_MASKS ? (u64 *)(area + offsets[5]) + number : 0;
}

static u64 draw_word(void)
{
	u64 word = draw();
	double number;
	float singles[2];

	switch (draw() % 10) {
	case 0:
		return 0;
	case 1:
		return ~0ULL;
	case 2:
		/* A byte here and there. */
		return word & draw() & 0xff00ff0000ff00ffULL;
	case 3:
		return word % 20 | (word >> 32 & 0x80) << 32;
	case 4:
	case 5:
		number = (double)(s64)(word >> 40) / (double)(1 + (draw() & 0xffff));
		number = draw() & 1 ? number : -number;
		number = draw() & 3 ? number : (double)(s32)(word & 63) / 2;
		memcpy(&word, &number, 8);
		return word;
	case 6:
		singles[0] = (float)(s32)word / (float)(1 + (draw() & 0xffff));
		singles[1] = (float)(s32)(word >> 40) / 4;
		memcpy(&word, singles, 8);
		return word;
	case 7:
		/* Any number of about the same size. */
		return (word & 0x801fffffffffffffULL) | 0x3fe0000000000000ULL;
	default:
		return word;
	}
}

/* Draws an instruction; its action in the table. */
static u32 draw_code(void)
{
	u32 at = 0, row, map, prefix, opcode, form = draw() % 3, b = draw() & 1;
	u32 modrm = draw(), extend = draw();

	for (;;) {
		row = draw() % 3072;
		if (vector_actions[row].action || draw() % 40 == 0)
			break;
	}
	map = (row >> 10) + 1;
	prefix = row >> 8 & 3;
	opcode = row & 255;
	memset(bytes, 0, sizeof(bytes));
	if (form == 0) {
		if (prefix)
			bytes[at++] = prefix == 1 ? 0x66 : prefix == 2 ? 0xf3 : 0xf2;
		if (extend & 1)
			bytes[at++] = 0x40 | (extend >> 4 & 15);
		bytes[at++] = 0x0f;
		if (map > 1)
			bytes[at++] = map == 2 ? 0x38 : 0x3a;
	} else if (form == 1) {
		bytes[at++] = 0xc4;
		bytes[at++] = (extend & 0xe0) | map;
		bytes[at] = (extend >> 8 & 0xfc) | prefix;
		/* Most name no further register where there is none. */
		if (extend >> 20 & 1)
			bytes[at] |= 0x78;
		at++;
	} else {
		bytes[at++] = 0x62;
		bytes[at++] = (extend & 0xf0) | map;
		bytes[at] = (extend >> 8 & 0xf8) | 4 | prefix;
		if (extend >> 20 & 1)
			bytes[at] |= 0x78;
		at++;
		bytes[at] = extend >> 12 & 0xef;
		if (bytes[at] >> 5 == 3 || bytes[at] >> 5 == 7)
			bytes[at] &= ~0x20;
		if (extend >> 21 & 1)
			bytes[at] &= ~0x87;
		if (b && extend >> 22 & 1)
			bytes[at] |= 0x10;
		if (extend >> 20 & 1)
			bytes[at] |= 8;
		at++;
	}
	bytes[at++] = opcode;
	if (modrm & 0x100) {
		modrm |= 0xc0;
	} else {
		/* At rsi or r14. */
		modrm = (modrm & 0x38) | 6 | (modrm & 0x200 ? 0x40 : 0);
	}
	bytes[at++] = modrm;
	bytes[at++] = modrm & 0x1000 ? (u8)extend & 0xf0 : extend;
	bytes[at++] = extend >> 3;
	return row;
}

static u64 wrongs;

static void report(const char *what, u32 number, u64 is, u64 should)
{
	u32 index;

	if (wrongs++ > 60)
		return;
	printf("wrong %s %u: %016llx is %016llx, code", what, number, (unsigned long long)is,
	       (unsigned long long)should);
	for (index = 0; index < 12; index++)
		printf(" %02x", bytes[index]);
	printf("\n");
}

static struct {
	u64 ran, known;
} rows[4096];

/* Registers, masks and memory, the same for both; how many of them the way knows. */
static void draw_state(int all)
{
	struct way *way = &work.way;
	u32 number, word;

	way->serial++;
	way->known = 0xffff & ~(1U << REGISTER_RSP);
	way->known |= 1U << WORD_NONE | 1U << WORD_PC;
	for (number = 0; number < 4; number++)
		way->vector_known[number] = all ? ~0ULL : draw() | draw();
	way->mask_known = all ? 0xff : draw() & 0xff;
	for (number = 0; number < 32; number++)
		for (word = 0; word < 8; word++) {
			u64 *native = native_word(number, word), value = draw_word();

			/* Like another one, but for a byte at times. */
			if (draw() & 1)
				value = way->vectors[draw() & 31][word];
			if (draw() % 4 == 0)
				value ^= (draw() & 255) << (draw() & 56);
			way->vectors[number][word] = value;
			if (native)
				*native = value;
			if (!(known_words(way, number) >> word & 1))
				way->vectors[number][word] = draw();
		}
	for (number = 0; number < 8; number++) {
		u64 value = draw() & 1 ? draw() : draw() & 2 ? ~0ULL : draw() & 0xff;

		if (native_mask(number))
			*native_mask(number) = value;
		way->masks[number] = mask_is_known(way, number) ? value : draw();
	}
	for (number = 0; number < 16; number++)
		registers[number] = draw_word();
	registers[6] = (u64)buffer + MIDDLE + (draw() & 1 ? 0 : draw() & 63);
	registers[14] = (u64)buffer + MIDDLE;
	registers[7] = (u64)buffer + MIDDLE + 512;
	registers[16] = 0x202 | (draw() & 0x8d5);
	for (number = 0; number < 16; number++)
		way->words[number] = registers[number];
	way->flags_size = FLAGS_OF_REGISTER;
	way->flags_a = registers[16];
	for (number = 0; number < BUFFER / 8; number++) {
		u64 value = draw_word();

		if (draw() & 1)
			value = way->vectors[draw() & 31][number & 7];
		memcpy(before + 8 * number, &value, 8);
	}
	memcpy(buffer, before, BUFFER);
	way->end = WAY_GOES_ON;
	way->failures = 0;
	way->read = 0;
	way->guesses = 0;
	way->code_line = 1;
	way->pc = CODE_AT;
	work.record.tail_words = 0;
}

/* Whether elements of floating point are as good as equal. */
static int is_near(u64 a, u64 b, u32 element)
{
	if (element == 4)
		return (u32)(a - b + 2) <= 4 && (u32)((a >> 32) - (b >> 32) + 2) <= 4;
	return a - b + 2 <= 4;
}

static u64 nears;

static void near_by(u64 is, u64 should)
{
	u32 index;

	if (nears++ > 20)
		return;
	printf("near %016llx is %016llx, code", (unsigned long long)is,
	       (unsigned long long)should);
	for (index = 0; index < 8; index++)
		printf(" %02x", bytes[index]);
	printf("\n");
}

static void compare(u32 action, u32 element)
{
	struct way *way = &work.way;
	struct way flags = {};
	u32 number, word, condition;

	for (number = 0; number < 32; number++)
		for (word = 0; word < 8; word++) {
			u64 *native = native_word(number, word);
			u64 is = way->vectors[number][word];

			if (!native || !(known_words(way, number) >> word & 1) || is == *native)
				continue;
			if (action >= FLOAT_ADD && is_near(is, *native, element))
				near_by(is, *native);
			else
				report("vector", number * 8 + word, is, *native);
		}
	for (number = 0; number < 8; number++)
		if (native_mask(number) && mask_is_known(way, number) &&
		    way->masks[number] != *native_mask(number))
			report("mask", number, way->masks[number], *native_mask(number));
	for (number = 0; number < 16; number++)
		if (is_known(way, number) && way->words[number] != registers[number])
			report("register", number, way->words[number], registers[number]);
	flags.flags_size = FLAGS_OF_REGISTER;
	flags.flags_a = registers[16];
	for (condition = 0; condition < 16; condition++)
		if (holds(way, condition) >= 0 &&
		    holds(way, condition) != holds(&flags, condition))
			report("condition", condition, holds(way, condition),
			       holds(&flags, condition));
	for (number = 0; number < BUFFER; number += 8) {
		u64 value;

		if (!memcmp(buffer + number, before + number, 8) &&
		    stored_at(&work, (u64)buffer + number)->serial != way->serial)
			continue;
		memcpy(&value, buffer + number, 8);
		way->read = 0;
		work.record.tail_words = 0;
		if (load_word(&work, (u64)buffer + number, 8) && way->loaded != value)
			report("memory", number, way->loaded, value);
	}
}

/* Whether anything that was known is not so any more. */
static int has_lost(void)
{
	struct way *way = &work.way;
	u32 index;

	for (index = 0; index < STORED; index++)
		if (way->stored[index].serial == way->serial &&
		    way->stored[index].known != way->stored[index].bytes)
			return 1;
	return way->vector_known[0] != ~0ULL || way->vector_known[1] != ~0ULL ||
	       way->vector_known[2] != ~0ULL || way->vector_known[3] != ~0ULL ||
	       way->mask_known != 0xff || holds(way, 4) < 0 || holds(way, 2) < 0 ||
	       (way->known & 0xffef) != 0xffef;
}

static void find_layout(void)
{
	u32 a, b, c, d, index;

	__cpuid_count(0xd, 0, a, b, c, d);
	area_bytes = (b + 63) & ~63U;
	__asm__ volatile("xgetbv" : "=a"(features), "=d"(d) : "c"(0));
	for (index = 2; index < 8; index++) {
		__cpuid_count(0xd, index, a, b, c, d);
		offsets[index] = b;
	}
}

int main(int count_of, char **arguments)
{
	u64 round, rounds, ran = 0;
	u8 *clean;
	void (*end)(void) = native_end;
	u32 row;

	if (count_of < 3)
		return 1;
	state = strtoull(arguments[1], 0, 0);
	rounds = strtoull(arguments[2], 0, 0);
	find_layout();
	buffer = mmap(0, BUFFER, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	code = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
		    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	area = aligned_alloc(64, area_bytes);
	clean = aligned_alloc(64, area_bytes);
	if (buffer == MAP_FAILED || code == MAP_FAILED || !clean || !area)
		return 1;
	memset(clean, 0, area_bytes);
	signal(SIGILL, on_fault);
	signal(SIGSEGV, on_fault);
	signal(SIGBUS, on_fault);
	signal(SIGFPE, on_fault);
	/* What the processor starts with, and all parts of it in use. */
	__asm__ volatile("xsave64 (%0)" : : "r"(clean), "a"(0xe7), "d"(0) : "memory");
	*(u64 *)(clean + 512) = features & 0xe7;
	for (round = 0; round < rounds; round++) {
		struct insn insn;
		u32 length, action, element;
		int all = round & 1;

		row = draw_code();
		memcpy(work.way.code, bytes, 16);
		length = decode_insn(&work, &insn);
		if (!length || insn.kind != KIND_VECTOR)
			continue;
		action = vector_actions[row].action;
		element = element_bytes(&insn, vector_actions[row].element);
		/* Addresses that are vectors; the stack pointer. */
		if (row >> 10 == 1 && ((row & 0xfc) == 0x90 || (row & 0xfc) == 0xa0 ||
				       (row & 0xfe) == 0xc6))
			continue;
		if ((insn.reg & 15) == 4 || (insn.rm & 15) == 4)
			continue;
		memcpy(area, clean, area_bytes);
		draw_state(all);
		memcpy(code, bytes, length);
		code[length] = 0xff;
		code[length + 1] = 0x25;
		memset(code + length + 2, 0, 4);
		memcpy(code + length + 6, &end, 8);
		entry = code;
		if (!has_run())
			continue;
		ran++;
		work.way.room = TAIL_WORDS - CHANGES_SPARE;
		if (follow_insn(&work) && work.way.end != WAY_GOES_ON) {
			printf("wrong end %u\n", work.way.end);
			continue;
		}
		compare(action, element);
		if (all) {
			rows[row].ran++;
			rows[row].known += !has_lost();
		}
	}
	for (row = 0; row < 4096; row++)
		if (rows[row].ran)
			printf("row %u.%u.%02x action %u ran %llu known %llu\n", (row >> 10) + 1,
			       row >> 8 & 3, row & 255, vector_actions[row].action,
			       (unsigned long long)rows[row].ran,
			       (unsigned long long)rows[row].known);
	free(area);
	free(clean);
	printf("ran %llu wrong %llu near %llu\n", (unsigned long long)ran,
	       (unsigned long long)wrongs, (unsigned long long)nears);
	return 0;
}
