/*
 * The handler of a sampling interrupt.
 *
 * A perf event of each CPU runs `on_overflow` when its interval ends. It decides whether the thread
 * is to be sampled, copies the interrupted registers (and, if the kernel was interrupted, those with
 * which the thread left user mode), says who the thread is, walks over the frames of its stack, and
 * follows the way of the thread (way.h): the code that comes next, and the loads that it will make,
 * as far as their addresses are known. All of it goes into one record of the CPU's own ring buffer.
 * Where that is full, the sample is added to a table of cycles, so that only its values are lost.
 *
 * A breakpoint at the entry of a block (breakpoints.rs) runs it, too: its record is made like that
 * of a sample, and is none. Where the block ends `on_exit_of_block` runs.
 *
 * Three programs beside it follow the processes that are sampled: a child of one is one, too; a
 * process that waits for its program becomes one with exec; what has ended is forgotten. One more
 * notes which accesses raise exceptions (raised.h).
 *
 * Rules: memory is read without faults or not at all; no read's result is used before its error was
 * looked at; for a process only user memory is read; every way that something can be missing has
 * its counter.
 */
#include "kernel_types.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "shared.h"
#include "registers.h"
#include "maps.h"
#include "raised.h"
#include "sample.h"
#include "timer.h"
#include "trapped.h"
#include "vectors.h"

SEC("perf_event")
int on_overflow(struct interrupt *interrupt)
{
	u32 zero = 0;
	struct task_struct *task = bpf_get_current_task_btf();
	struct work *work = bpf_map_lookup_elem(&works, &zero);

	/* Of a breakpoint the event is to see the hit, too: it counts how many are left. */
	int goes_on = interrupt->period == BREAKPOINT_PERIOD;

	if (goes_on)
		enter_block(interrupt);
	if (!work) {
		count(COUNT_NO_SCRATCH);
		return goes_on;
	}
	if (!is_wanted(work, task))
		return goes_on;
	COPY_REGISTERS(work->registers, interrupt->registers);
	take_sample(work, task, interrupt->period);
	return goes_on;
}

/* The child of a process that is sampled is sampled, too. */
SEC("tp_btf/sched_process_fork")
int BPF_PROG(on_fork, struct task_struct *parent, struct task_struct *child)
{
	u32 from = parent->tgid;
	u32 to = child->tgid;
	u32 *state;
	u32 sampled = TARGET_SAMPLED;

	if (from == to)
		return 0;
	state = bpf_map_lookup_elem(&targets, &from);
	if (state && *state == TARGET_SAMPLED &&
	    bpf_map_update_elem(&targets, &to, &sampled, BPF_ANY))
		count(COUNT_TARGETS_FULL);
	return 0;
}

/* A process that waited for its program has it. */
SEC("tp_btf/sched_process_exec")
int BPF_PROG(on_exec, struct task_struct *task)
{
	u32 tgid = task->tgid;
	u32 *state = bpf_map_lookup_elem(&targets, &tgid);

	if (state)
		*state = TARGET_SAMPLED;
	return 0;
}

/* The last thread of a process has ended: its number will be another's. */
SEC("tp_btf/sched_process_exit")
int BPF_PROG(on_exit, struct task_struct *task)
{
	u32 tgid = task->tgid;

	if (!task->signal->live.counter)
		bpf_map_delete_elem(&targets, &tgid);
	return 0;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
