/*
 * Functions of the C library as the handler's way follows them: from a call, in this very process,
 * to the return. What the way then holds for the result is what the function gives. Prints a line
 * for each function: how often it was followed, with a right result, with one that is not known,
 * and with a wrong one.
 */
#define _GNU_SOURCE
#include <asm/prctl.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "types.h"
#include "shared.h"

/* Where the functions return to: no code is there. */
#define RETURNED 0x7000ULL

static long read_user(void *to, u32 size, u64 address)
{
	struct iovec here = { to, size }, there = { (void *)address, size };

	return process_vm_readv(getpid(), &here, 1, &there, 1, 0) == (ssize_t)size ? 0 : -14;
}

static struct fork *fork_at(u32 index)
{
	(void)index;
	return 0;
}

#include "way_host.h"

/* Calls with numbers of floating point: they lie at rdi and rsi, the function is in rdx. */
void call_with_numbers(void);

__asm__(".text\n"
	"call_with_numbers:\n"
	"movsd (%rdi), %xmm0\n"
	"movsd (%rsi), %xmm1\n"
	"jmp *%rdx\n");

static u64 state;

static u64 draw(void)
{
	state = state * 6364136223846793005ULL + 1442695040888963407ULL;
	return state >> 33;
}

static struct {
	u32 followed, right, unknown, wrong;
} sums;

/* Follows a call; whether the way has come to the return, and has guessed no branch. */
static int follow(void *function, u64 a, u64 b, u64 c)
{
	static u64 stack[512];
	u64 *top = &stack[480];

	memset(work.registers, 0, sizeof(work.registers));
	*top = RETURNED;
	work.registers[REGISTER_RSP] = (u64)top;
	work.registers[7] = a;
	work.registers[6] = b;
	work.registers[2] = c;
	work.registers[REGISTER_FLAGS] = 0x202;
	memset(&work.record, 0, sizeof(work.record));
	work.record.ip = (u64)function;
	syscall(SYS_arch_prctl, ARCH_GET_FS, &work.record.fs_base);
	work.way.room = TAIL_WORDS - CHANGES_SPARE;
	follow_way(&work, MAX_FOLLOWED, KNOWN_FS_BASE);
	sums.followed++;
	if (work.way.pc == RETURNED && !work.way.guesses)
		return 1;
	sums.unknown++;
	if (getenv("SAY"))
		printf("at %llx end %u guesses %u followed %u\n", (unsigned long long)work.way.pc,
		       work.way.end, work.way.guesses, work.way.followed);
	return 0;
}

static void judge(int known, int right)
{
	if (!known)
		sums.unknown++;
	else if (right)
		sums.right++;
	else
		sums.wrong++;
}

#define ROOM 1024
static u8 text[3][ROOM] __attribute__((aligned(64)));

static void draw_text(u64 length)
{
	u32 index;

	for (index = 0; index < ROOM; index++)
		text[0][index] = 'a' + draw() % 24;
	memcpy(text[1], text[0], ROOM);
	memset(text[2], 'z', ROOM);
	text[0][length] = 0;
	text[1][length] = 0;
}

/* Functions that search or compare. */
static void search(void *library, const char *name, const char *kind)
{
	u64 (*function)(u64, u64, u64) = dlsym(library, name);
	u32 round;

	memset(&sums, 0, sizeof(sums));
	for (round = 0; function && round < 300; round++) {
		u64 length = draw() % 200, from = draw() % 64, other = draw() % 64;
		u64 a = (u64)text[0] + from, b = (u64)text[1] + from, c = length, result;

		draw_text(from + length);
		if (kind[0] == 'c')
			b = draw() & 1 ? 'z' : text[0][from + draw() % (length + 1)];
		/* Texts that differ at one place, or nowhere, and lie anywhere. */
		if (kind[0] == 't') {
			b = (u64)text[2] + other;
			memcpy(text[2] + other, text[0] + from, length + 1);
			text[2][other + draw() % (length + 1)] ^= draw() & 1;
		}
		result = function(a, b, c);
		if (kind[1] == 'i')
			result = (u32)result;
		if (follow(function, a, b, c))
			judge(is_known(&work.way, RAX),
			      (kind[1] == 'i' ? (u32)work.way.words[RAX] :
						work.way.words[RAX]) == result);
	}
	printf("%s followed %u right %u unknown %u wrong %u\n", name, sums.followed, sums.right,
	       sums.unknown, sums.wrong);
}

/* Functions that write: what the way has stored is what they store. */
static void write_to(void *library, const char *name, int sets)
{
	u64 (*function)(u64, u64, u64) = dlsym(library, name);
	u32 round;

	memset(&sums, 0, sizeof(sums));
	for (round = 0; function && round < 300; round++) {
		u64 length = draw() % (round & 1 ? 64 : 300), from = draw() % 64;
		u64 to = draw() % 64, at;
		u64 b = sets ? draw() & 255 : (u64)text[0] + from;
		int known = 1, right = 1;

		draw_text(from + length);
		if (!follow(function, (u64)text[2] + to, b, length))
			continue;
		function((u64)text[2] + to, b, length);
		for (at = 0; at < ROOM; at += 8) {
			struct stored *held = stored_at(&work, (u64)text[2] + at);
			u32 byte;

			if (held->serial != work.way.serial ||
			    held->word != ((u64)text[2] + at) >> 3)
				continue;
			known = known && held->known == held->bytes;
			for (byte = 0; byte < 8; byte++)
				if (held->known >> byte & 1)
					right = right && (u8)(held->value >> 8 * byte) ==
							 text[2][at + byte];
		}
		/* What was not stored would be loaded from memory, as it was. */
		for (at = to; at < to + length; at++) {
			struct stored *held = stored_at(&work, (u64)text[2] + at);

			known = known && held->serial == work.way.serial &&
				held->known >> (at & 7) & 1;
		}
		judge(known || !right, right);
	}
	printf("%s followed %u right %u unknown %u wrong %u\n", name, sums.followed, sums.right,
	       sums.unknown, sums.wrong);
}

/* Functions of numbers. */
static void calculate(void *library, const char *name)
{
	double (*function)(double, double) = dlsym(library, name);
	u32 round;

	memset(&sums, 0, sizeof(sums));
	for (round = 0; function && round < 300; round++) {
		double numbers[2], result;
		u64 bits;

		numbers[0] = (double)(s64)(draw() - (1ULL << 30)) / (double)(1ULL << 27);
		numbers[1] = (double)draw() / (double)(1ULL << 30);
		result = function(numbers[0], numbers[1]);
		memcpy(&bits, &result, 8);
		if (result != result)
			continue;
		if (follow(call_with_numbers, (u64)&numbers[0], (u64)&numbers[1], (u64)function))
			judge(known_words(&work.way, 0) & 1,
			      work.way.vectors[0][0] - bits + 2 <= 4);
	}
	printf("%s followed %u right %u unknown %u wrong %u\n", name, sums.followed, sums.right,
	       sums.unknown, sums.wrong);
}

int main(void)
{
	static const char *const searches[][2] = {
		{ "strlen", "n" }, { "strchr", "c" }, { "strrchr", "c" }, { "strchrnul", "c" },
		{ "memchr", "c" }, { "memrchr", "c" }, { "strnlen", "n" }, { "strcmp", "ti" },
		{ "memcmp", "ti" }, { "strncmp", "ti" }, { "strcasecmp", "ti" },
	};
	static const char *const writes[] = {
		"memcpy", "memmove", "mempcpy", "strcpy", "stpcpy", "strncpy",
	};
	static const char *const numbers[] = {
		"sin", "cos", "exp", "log", "pow", "sqrt", "floor", "fmod", "atan2", "hypot",
	};
	void *library = dlopen("libc.so.6", RTLD_NOW), *mathematics = dlopen("libm.so.6", RTLD_NOW);
	u32 index;

	if (!library || !mathematics)
		return 1;
	for (index = 0; index < sizeof(searches) / sizeof(searches[0]); index++)
		search(library, searches[index][0], searches[index][1]);
	for (index = 0; index < sizeof(writes) / sizeof(writes[0]); index++)
		write_to(library, writes[index], 0);
	write_to(library, "memset", 1);
	for (index = 0; index < sizeof(numbers) / sizeof(numbers[0]); index++)
		calculate(mathematics, numbers[index]);
	return 0;
}
