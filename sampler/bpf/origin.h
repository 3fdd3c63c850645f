/*
 * What a timer interrupted: plain C over a struct work, as capture.h is, with the same read_kernel.
 *
 * A timer's callback is not the interrupt itself. It runs in a softirq, as a rule on the way out of
 * the interrupt of the hardware, and nobody hands it the interrupted registers: it must find where
 * the entry code has put them. On x86-64 there are two ways in, told apart by the stack that the
 * callback runs on:
 *
 *  - From user mode, entry code, handler and softirq all stay on the task's own stack. At its top
 *    are the user registers, and directly below them the address to which the handler returns: it
 *    lies in an entry of an interrupt. As long as that frame is alive nothing has touched the
 *    registers: signals, tracers and the scheduler have their turn after the softirq.
 *  - From the kernel, the entry code saves the registers where the stack pointer stood, and the
 *    handler moves to the CPU's interrupt stack, whose topmost word holds the stack pointer from
 *    before. Above that lie only the handler's frame, its return address, and the saved registers.
 *
 * A softirq that had to wait (bottom halves were off when the interrupt came) is run by whoever
 * turned them on again, also on the interrupt stack, but the first return address above the old
 * stack pointer is not that of an entry then; or it is run by a thread of the kernel. The interrupted
 * registers are gone: the sample is late. What fits none of this is unknown. Neither has values.
 *
 * What this cannot see: a timer that runs out while another softirq is being worked off is run
 * behind it. Its time counts to what the interrupt before it had interrupted.
 */
#ifndef VCPI_ORIGIN_H
#define VCPI_ORIGIN_H

#include "registers.h"

#define ORIGIN_UNKNOWN 0
#define ORIGIN_USER 1
#define ORIGIN_KERNEL 2
#define ORIGIN_LATE 3

/* From the callback to the top of the task's stack, in bytes, if nothing but the interrupt is on it. */
#define DEEPEST_IN_INTERRUPT 1024
/* The interrupt stack. */
#define INTERRUPT_STACK_BYTES 16384
/* Words of a handler's frame, at most. */
#define MOST_HANDLER_WORDS 16

/* The selectors with which the kernel runs; of the stack's there may be none. */
#define SELECTOR_KERNEL 0x10
#define SELECTOR_KERNEL_STACK 0x18

/* Code and data of the kernel and its modules are above this. */
#define LOWEST_KERNEL_CODE 0xffffffff80000000ULL

/* Where things are, for one timer. */
struct stacks {
	/* An address in the callback's own frame. */
	u64 here;
	/* The task's stack: its first byte, its saved user registers, behind its last byte. */
	u64 bottom;
	u64 user;
	u64 end;
	/* Behind the last byte of the CPU's interrupt stack; 0: not found yet. */
	u64 interrupt_end;
	/* The kernel's code, and in it the entries of interrupts. */
	struct range text;
	struct range entries;
};

static inline int is_within(const struct range *range, u64 address)
{
	return address >= range->start && address < range->end;
}

static inline u32 origin_on_task_stack(struct work *work, const struct stacks *stacks)
{
	u64 caller = 0;

	if (stacks->here >= stacks->user || stacks->user - stacks->here > DEEPEST_IN_INTERRUPT)
		return ORIGIN_UNKNOWN;
	if (read_kernel(&caller, sizeof(caller), stacks->user - sizeof(caller)) ||
	    !is_within(&stacks->entries, caller))
		return ORIGIN_UNKNOWN;
	if (read_kernel(work->saved, SAVED_BYTES, stacks->user) ||
	    (work->saved[SAVED_CS] & SELECTOR_PRIVILEGE) != SELECTOR_PRIVILEGE)
		return ORIGIN_UNKNOWN;
	return ORIGIN_USER;
}

/* Whether work->saved was saved at `at` by an interrupt of the kernel. */
static inline int is_interrupted_kernel(const struct work *work, const struct stacks *stacks, u64 at)
{
	const u64 *saved = work->saved;
	u64 sp = saved[SAVED_RSP];

	/* The processor aligns the stack before it pushes. */
	return at % 16 == 8 && sp >= at + SAVED_BYTES && sp - at - SAVED_BYTES < 16 &&
	       sp <= stacks->end && (saved[SAVED_CS] & 0xffff) == SELECTOR_KERNEL &&
	       !(saved[SAVED_SS] & 0xffff & ~SELECTOR_KERNEL_STACK) &&
	       saved[SAVED_RIP] >= LOWEST_KERNEL_CODE && saved[SAVED_FLAGS] & INTERRUPTS_ON;
}

/* Goes up from the stack pointer that was left for the interrupt stack. */
static inline u32 origin_below(struct work *work, const struct stacks *stacks, u64 sp)
{
	u64 word;
	u32 index;

	for (index = 0; index < MOST_HANDLER_WORDS; index++) {
		u64 at = sp + 8 * index;

		if (at + 8 + SAVED_BYTES > stacks->end || read_kernel(&word, sizeof(word), at))
			return ORIGIN_UNKNOWN;
		if (!is_within(&stacks->text, word))
			continue;
		if (!is_within(&stacks->entries, word))
			return ORIGIN_LATE;
		if (read_kernel(work->saved, SAVED_BYTES, at + 8) ||
		    !is_interrupted_kernel(work, stacks, at + 8))
			return ORIGIN_UNKNOWN;
		return ORIGIN_KERNEL;
	}
	return ORIGIN_UNKNOWN;
}

/* The end of the interrupt stack, with which the callback's page or one of the next ends: behind it
 * is a page that is not there. 0 if there is none. */
static inline u64 find_interrupt_end(u64 here)
{
	u64 end = (here | 4095) + 1;
	u64 word;
	u32 page;

	for (page = 0; page < INTERRUPT_STACK_BYTES / 4096; page++) {
		if (read_kernel(&word, sizeof(word), end))
			return end;
		end += 4096;
	}
	return 0;
}

/* Says what was interrupted; the registers are in work->saved then. */
static inline u32 find_origin(struct work *work, struct stacks *stacks)
{
	u64 here = stacks->here;
	u64 sp = 0;

	if (here >= stacks->bottom && here < stacks->end)
		return origin_on_task_stack(work, stacks);
	if (here >= stacks->interrupt_end || stacks->interrupt_end - here > INTERRUPT_STACK_BYTES)
		stacks->interrupt_end = find_interrupt_end(here);
	if (!stacks->interrupt_end || read_kernel(&sp, sizeof(sp), stacks->interrupt_end - 8))
		return ORIGIN_UNKNOWN;
	if (sp < stacks->bottom || sp >= stacks->end || sp & 7)
		return ORIGIN_UNKNOWN;
	return origin_below(work, stacks, sp);
}

#endif
