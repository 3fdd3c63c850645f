/*
 * Accesses to memory that raised an exception which the program is told of by a signal: what stands
 * behind such an instruction did not run. The collector, which reckons what follows a sample, asks
 * whether one of them was the sampled thread's.
 */
#ifndef VCPI_RAISED_H
#define VCPI_RAISED_H

#include "maps.h"

/* When a process raised the last one, by its number. */
struct raised_map {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, u32);
	__type(value, u64);
} raised SEC(".maps");

/* The same of each page of it. */
struct raised_pages_map {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, struct raised_page);
	__type(value, u64);
} raised_pages SEC(".maps");

SEC("tp_btf/signal_generate")
int BPF_PROG(on_exception, int signal, struct kernel_siginfo *info, struct task_struct *task)
{
	u32 tgid = task->tgid;
	struct raised_page page = { .tgid = tgid };
	u64 now;

	if (signal != SIGNAL_SEGV && signal != SIGNAL_BUS)
		return 0;
	/* Of a signal that somebody sent it may be no address: then none is read. */
	if (BPF_CORE_READ_INTO(&page.address, info, _sifields._sigfault._addr))
		page.address = 0;
	page.address &= ~4095ULL;
	now = bpf_ktime_get_ns();
	bpf_map_update_elem(&raised_pages, &page, &now, BPF_ANY);
	bpf_map_update_elem(&raised, &tgid, &now, BPF_ANY);
	return 0;
}

#endif
