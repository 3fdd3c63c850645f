/*
 * The search for what a timer interrupted, outside of the kernel: answers each case on its input by
 * a result on its output, both of fixed size. There is memory in two stacks and nowhere else.
 */
#include <stdio.h>
#include <string.h>

#include "types.h"
#include "shared.h"

#define STACK_WORDS 2048

struct test_case {
	/* Addresses: the callback's frame; both stacks; where the user registers are. */
	u64 here, task_stack, interrupt_stack, user;
	struct range text, entries;
	u64 task_words[STACK_WORDS];
	u64 interrupt_words[STACK_WORDS];
};

struct result {
	u64 origin;
	u64 saved[21];
	/* Reads of anything but the two stacks and what follows them. */
	u64 stray;
};

static struct test_case given;
static struct result result;

static long read_stack(void *to, u32 size, u64 address, u64 stack, const u64 *words)
{
	u64 bytes = 8 * STACK_WORDS;

	if (address < stack || address - stack >= bytes || size > bytes - (address - stack))
		return -14;
	memcpy(to, (const u8 *)words + (address - stack), size);
	return 0;
}

static long read_kernel(void *to, u32 size, u64 address)
{
	memset(to, 0, size);
	if (!read_stack(to, size, address, given.task_stack, given.task_words) ||
	    !read_stack(to, size, address, given.interrupt_stack, given.interrupt_words))
		return 0;
	if (address != given.interrupt_stack + 8 * STACK_WORDS)
		result.stray++;
	return -14;
}

static long read_user(void *to, u32 size, u64 address)
{
	(void)to, (void)size, (void)address;
	result.stray++;
	return -14;
}

struct work;

static int find_row(struct work *work, u64 address, struct row *row)
{
	(void)work, (void)address, (void)row;
	return 0;
}

#define SUBPROGRAM
#include "capture.h"
#include "origin.h"

static struct work work;

int main(void)
{
	/* The rest of the handler's C is not asked here. */
	(void)read_user;
	(void)walk_step;
	while (fread(&given, sizeof(given), 1, stdin) == 1) {
		struct stacks stacks = {
			.here = given.here,
			.bottom = given.task_stack,
			.user = given.user,
			.end = given.task_stack + 8 * STACK_WORDS,
			.text = given.text,
			.entries = given.entries,
		};

		memset(&result, 0, sizeof(result));
		memset(&work, 0, sizeof(work));
		result.origin = find_origin(&work, &stacks);
		memcpy(result.saved, work.saved, sizeof(result.saved));
		if (fwrite(&result, sizeof(result), 1, stdout) != 1 || fflush(stdout))
			return 1;
	}
	return 0;
}
