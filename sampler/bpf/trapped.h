/*
 * Threads that have breakpoints, and the signals that are delivered to them between two: the handler
 * of one may change the registers, and then what the second breakpoint shows is no result of the
 * code between.
 */
#ifndef VCPI_TRAPPED_H
#define VCPI_TRAPPED_H

#include "maps.h"

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

/* Signals that came before the first breakpoint was hit are none between the two. */
static inline void enter_block(void)
{
	struct trapped *thread = find_trapped();

	if (thread) {
		thread->signals = 0;
		thread->entered = 1;
		thread->left = 0;
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
