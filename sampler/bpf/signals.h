/*
 * Signals that are delivered to threads between two breakpoints: the handler of one may change the
 * registers, and then what the second breakpoint shows is no result of the code between.
 */
#ifndef VCPI_SIGNALS_H
#define VCPI_SIGNALS_H

#include "maps.h"

/* Of threads that have breakpoints: how many signals were delivered since. */
struct signals_map {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 64);
	__type(key, u32);
	__type(value, u64);
} signals SEC(".maps");

/* Those that came before the first breakpoint was hit are none between the two. */
static inline void forget_signals(void)
{
	u32 tid = (u32)bpf_get_current_pid_tgid();
	u64 *delivered = bpf_map_lookup_elem(&signals, &tid);

	if (delivered)
		*delivered = 0;
}

SEC("tp_btf/signal_deliver")
int on_signal(void *context)
{
	u32 tid = (u32)bpf_get_current_pid_tgid();
	u64 *delivered = bpf_map_lookup_elem(&signals, &tid);

	if (delivered)
		*delivered += 1;
	return 0;
}

#endif
