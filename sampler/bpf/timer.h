/*
 * The clock `timer`: on each CPU a timer whose callback takes a sample and sets the timer anew, to a
 * random interval. With this clock no perf event runs the handler, so the callback is the only one
 * that writes to the CPU's buffer and uses its struct work.
 *
 * Intervals follow one another without a gap: the next one begins where the last one ended, not
 * where its callback was done.
 */
#ifndef VCPI_TIMER_H
#define VCPI_TIMER_H

#include "sample.h"
#include "origin.h"

/* Of bpf_timer_init and bpf_timer_start; from Linux 6.7. */
#define TIMER_MONOTONIC 1
#define TIMER_CPU_PIN 2

#define EBUSY 16
#define EINVAL 22

struct timer_slot {
	struct bpf_timer timer;
	/* The interval that runs, and its end, in nanoseconds. */
	u64 interval;
	u64 end;
	/* Of bpf_timer_start. */
	u64 flags;
	/* In a map, addresses are numbers to the verifier, and can be reckoned with. */
	struct stacks stacks;
};

/* Of each CPU, by its number. */
struct timers_map {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct timer_slot);
} timers SEC(".maps");

/* The mean of the intervals that are drawn now, in nanoseconds. */
struct mean_interval_map {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u64);
} mean_interval SEC(".maps");

/* Lets the next interval run: uniform on mean/2 to 3*mean/2. */
static inline long next_interval(struct timer_slot *slot)
{
	u64 now = bpf_ktime_get_ns();
	u64 random = (u64)bpf_get_prandom_u32() << 32 | bpf_get_prandom_u32();
	u32 zero = 0;
	u64 *mean = bpf_map_lookup_elem(&mean_interval, &zero);

	if (!mean || !*mean)
		return -EINVAL;
	slot->interval = *mean / 2 + random % *mean;
	slot->end += slot->interval;
	if (slot->end <= now) {
		/* The CPU was busy with interrupts, or taken away, for longer than that. */
		count(COUNT_TIMER_BEHIND);
		slot->end = now + slot->interval;
	}
	return bpf_timer_start(&slot->timer, slot->end - now, slot->flags);
}

/* A sample of which nothing is known but whose it is. */
static inline void take_sample_without_pc(struct work *work, struct task_struct *task, u64 period)
{
	struct record *record = &work->record;

	count(COUNT_SAMPLES);
	begin_record(record, period);
	record->ip = 0;
	record->context = CONTEXT_KERNEL;
	identify(record, task);
	record->outcome = refusal(work);
	end_record(work);
}

static inline void sample_interrupted(struct timer_slot *slot)
{
	struct task_struct *task = bpf_get_current_task_btf();
	u32 zero = 0;
	struct work *work = bpf_map_lookup_elem(&works, &zero);
	struct stacks *stacks = &slot->stacks;
	u32 origin;

	/* The CPU was idle. */
	if (!task->pid)
		return;
	if (!work) {
		count(COUNT_NO_SCRATCH);
		return;
	}
	stacks->bottom = (u64)task->stack;
	stacks->user = user_registers_at(work, task);
	stacks->end = end_of_stack(work, task);
	barrier();
	if (task->flags & TASK_IS_KERNEL_THREAD && stacks->here >= stacks->bottom &&
	    stacks->here < stacks->end) {
		/* The one that runs softirqs that others had no time for. */
		count(COUNT_TIMER_IN_THREAD);
		return;
	}
	if (!is_wanted(work, task))
		return;
	origin = find_origin(work, stacks);
	if (origin == ORIGIN_USER || origin == ORIGIN_KERNEL) {
		COPY_REGISTERS(work->registers, work->saved);
		take_sample(work, task, slot->interval);
		return;
	}
	count(origin == ORIGIN_LATE ? COUNT_TIMER_LATE : COUNT_TIMER_ORIGIN_UNKNOWN);
	take_sample_without_pc(work, task, slot->interval);
}

static int on_timer(void *map, u32 *cpu, struct timer_slot *slot)
{
	/* Its address is what matters. */
	u64 frame = 0;

	slot->stacks.here = (u64)&frame;
	if (bpf_get_smp_processor_id() == *cpu)
		sample_interrupted(slot);
	else
		count(COUNT_TIMER_MOVED);
	if (next_interval(slot))
		count(COUNT_TIMER_STOPPED);
	return 0;
}

/* Starts the timer of the CPU that this runs on. */
SEC("syscall")
int start_timer(void *unused)
{
	u32 cpu = bpf_get_smp_processor_id();
	struct timer_slot *slot = bpf_map_lookup_elem(&timers, &cpu);
	long error;

	if (!slot)
		return -EINVAL;
	error = bpf_timer_init(&slot->timer, &timers, TIMER_MONOTONIC);
	/* It may have been stopped. */
	if (error && error != -EBUSY)
		return error;
	error = bpf_timer_set_callback(&slot->timer, on_timer);
	if (error)
		return error;
	slot->stacks.text = settings.text;
	slot->stacks.entries = settings.entries;
	slot->end = bpf_ktime_get_ns();
	slot->flags = TIMER_CPU_PIN;
	if (!next_interval(slot))
		return TIMER_PINNED;
	/* Before Linux 6.7 it may be moved to another CPU when its own falls idle; what it finds
	 * there is counted as lost. */
	slot->flags = 0;
	error = next_interval(slot);
	return error ? error : TIMER_NOT_PINNED;
}

struct stop_argument {
	u32 cpu;
};

/* Stops the timer of a CPU, and waits for the end of its callback. */
SEC("syscall")
int stop_timer(struct stop_argument *argument)
{
	u32 cpu = argument->cpu;
	struct timer_slot *slot = bpf_map_lookup_elem(&timers, &cpu);

	if (slot)
		bpf_timer_cancel(&slot->timer);
	return 0;
}

#endif
