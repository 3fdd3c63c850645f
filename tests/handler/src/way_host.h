/*
 * What a way needs besides memory, outside of the kernel. Whoever includes this has read_user and
 * fork_at; and read_kernel, if HAS_KERNEL_MEMORY is defined.
 */
#ifndef HAS_KERNEL_MEMORY
static long read_kernel(void *to, u32 size, u64 address)
{
	(void)to;
	(void)size;
	(void)address;
	return -14;
}
#endif

struct work;

static int find_row(struct work *work, u64 address, struct row *row)
{
	(void)work;
	(void)address;
	(void)row;
	return 0;
}

static int may_read(struct work *work, u64 address)
{
	(void)work;
	(void)address;
	return 1;
}

struct insn;
static struct insn *insn_at(u32 index);

#define SUBPROGRAM
#include "capture.h"
#include "second_look.h"
#include "way.h"

static struct insn insns[INSNS];

static struct insn *insn_at(u32 index)
{
	return &insns[index];
}

static struct work work;
