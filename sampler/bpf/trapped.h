/*
 * Threads that have breakpoints, and the signals that are delivered to them between two: the handler
 * of one may change the registers, and then what the second breakpoint shows is no result of the
 * code between.
 */
#ifndef VCPI_TRAPPED_H
#define VCPI_TRAPPED_H

#include "maps.h"
#include "registers.h"

/* By the number of the thread. */
struct trapped_map {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 64);
	__type(key, u32);
	__type(value, struct trapped);
} trapped SEC(".maps");

static inline struct trapped *find_trapped(void)
{
	u32 tid = (u32)bpf_get_current_pid_tgid();

	return bpf_map_lookup_elem(&trapped, &tid);
}

/* What a register holds that an operand names. */
static inline u64 part_of_address(const u64 *registers, u8 number)
{
	return number < 16 ? registers[number & 15] : 0;
}

/* Begins a block: signals that came before its first breakpoint was hit are none between the two,
 * and where its operands are follows from the registers there. */
static __attribute__((noinline)) int enter_block(struct interrupt *interrupt)
{
	struct trapped *thread = find_trapped();
	u64 registers[REGISTER_WORDS];
	u32 index;

	if (!thread)
		return 0;
	thread->signals = 0;
	if (thread->entered)
		return 0;
	thread->entered = 1;
	COPY_REGISTERS(registers, interrupt->registers);
	for (index = 0; index < BLOCK_OPERANDS; index++) {
		struct block_operand *operand = &thread->operands[index];

		operand->address += part_of_address(registers, operand->base) +
				    part_of_address(registers, operand->index) * operand->scale;
	}
	return 0;
}

/* Reads a block's operands where it ends: twice, since another thread's store may come between two
 * bytes of a copy (is_torn()). */
static inline void leave_block(struct trapped *thread)
{
	u32 index;

	thread->left = 1;
	for (index = 0; index < BLOCK_OPERANDS; index++) {
		struct block_operand *operand = &thread->operands[index];
		u32 bytes = operand->bytes;
		u64 again[2] = { 0 };

		if (!bytes || bytes > sizeof(operand->held))
			continue;
		/* What follows from the comparison the verifier does not see. */
		asm volatile("" : "+r"(bytes));
		bytes &= 2 * sizeof(operand->held) - 1;
		operand->is_read = !bpf_probe_read_user(&operand->held, bytes,
							(void *)operand->address) &&
				   !bpf_probe_read_user(again, bytes, (void *)operand->address) &&
				   again[0] == operand->held;
	}
}

SEC("tp_btf/signal_deliver")
int on_signal(void *context)
{
	struct trapped *thread = find_trapped();

	if (thread)
		thread->signals++;
	return 0;
}

#endif
