/*
 * One sample, whatever clock it is of: whom to sample, what goes into the record, and its way out.
 */
#ifndef VCPI_SAMPLE_H
#define VCPI_SAMPLE_H

#include "identity.h"
#include "maps.h"
#include "memory.h"
#include "registers.h"

/* A sample of a process that is not known is worth as much to wake up for as so many others:
 * something is to be learned from it, and programs that run for a second have values only if that
 * is soon. */
#define URGENT_WORTH 8

static inline int is_urgent(const struct work *work)
{
	u8 outcome = work->record.outcome;

	return outcome == OUTCOME_NOT_TRIED ||
	       (outcome == OUTCOME_FOLLOWED && work->record.way_end & WAY_OF_UNKNOWN);
}

/* Puts the record into this CPU's buffer; 0 if it found room. */
static inline int deliver(struct work *work)
{
	u32 cpu = bpf_get_smp_processor_id();
	void *buffer = bpf_map_lookup_elem(&buffers, &cpu);
	u32 words = work->record.tail_words & (TAIL_WORDS - 1);
	u64 wake_up = BPF_RB_NO_WAKEUP;
	u64 size;

	if (!buffer)
		return -1;
	if (work->record.flags & RECORD_REGISTERS)
		words += REGISTER_WORDS;
	work->record.tail_words = words;
	size = sizeof(struct record) + 8 * words;
	work->since_wake_up += is_urgent(work) ? URGENT_WORTH : 1;
	/* Each record has a head of 8 bytes. */
	work->bytes_since_wake_up += size + 8;
	if (work->since_wake_up >= settings.wake_up_samples ||
	    work->bytes_since_wake_up > settings.buffer_bytes / (settings.copy_bytes ? 8 : 2)) {
		work->since_wake_up = 0;
		work->bytes_since_wake_up = 0;
		wake_up = BPF_RB_FORCE_WAKEUP;
	}
	work->record.missed = work->missed;
	if (!bpf_ringbuf_output(buffer, &work->record, size, wake_up)) {
		work->missed = 0;
		return 0;
	}
	work->missed++;
	/* The reader was not woken by a record that found no room. */
	work->bytes_since_wake_up = settings.buffer_bytes;
	if (bpf_ringbuf_query(buffer, BPF_RB_AVAIL_DATA) + size + 8 > settings.buffer_bytes)
		count(COUNT_BUFFER_FULL);
	else
		count(COUNT_BUFFER_BUSY);
	return -1;
}

/* Keeps the cycles of a sample that found no room. */
static inline int keep_cycles(const struct record *record)
{
	u32 cpu = bpf_get_smp_processor_id();
	u32 *side = bpf_map_lookup_elem(&sides, &cpu);
	u32 which = 2 * cpu + (side ? *side & 1 : 0);
	void *table = bpf_map_lookup_elem(&cycles, &which);
	struct cycles_key key = {
		.ip = record->ip,
		.euid = record->euid,
		.context = record->context,
	};
	struct cycles_value first = {
		.samples = 1,
		.weight = record->period,
	};
	struct cycles_value *value;

	if (!table)
		return -1;
	name_process(record, &key.process);
	value = bpf_map_lookup_elem(table, &key);
	if (!value)
		return bpf_map_update_elem(table, &key, &first, BPF_NOEXIST);
	value->samples++;
	value->weight += record->period;
	return 0;
}

/* Whether the thread that runs is to be sampled. */
static inline int is_wanted(struct work *work, struct task_struct *task)
{
	struct record *record = &work->record;

	/* First of all: reading the clock waits for all loads before it. */
	record->time = bpf_ktime_get_ns();
	record->tgid = task->tgid;
	record->tid = task->pid;
	if (record->tgid == settings.own_tgid) {
		count(COUNT_OWN);
		return 0;
	}
	record->start_time = task->group_leader->start_boottime;
	record->exec_count = task->self_exec_id;
	bpf_get_current_comm(record->comm, sizeof(record->comm));
	if (!is_selected(work, task)) {
		count(COUNT_FILTERED);
		return 0;
	}
	return 1;
}

/* Begins the record of a sample; its tail is empty. */
static inline void begin_record(struct record *record, u64 period)
{
	record->period = period;
	record->flags = 0;
	record->tail_words = 0;
	record->fs_base = 0;
	record->gs_base = 0;
	record->way_low = 0;
	record->way_high = 0;
	record->way_end = 0;
	record->system_call = 0;
	record->frames = 0;
	record->frames_end = FRAMES_NONE;
	record->code_bytes = 0;
	record->stack_bytes = 0;
	record->changes = 0;
	record->copied = 0;
}

/* Ends a sample, and counts what it took. In an NMI the clock may go back a little. */
static inline void end_record(struct work *work)
{
	u64 now;

	if (deliver(work) && work->record.period != BREAKPOINT_PERIOD &&
	    keep_cycles(&work->record))
		count(COUNT_CYCLES_LOST);
	now = bpf_ktime_get_ns();
	if (now > work->record.time)
		add_to(COUNT_HANDLER_NS, now - work->record.time);
}

/* Begins the sample whose registers are in work->registers: whose it is, and what may be captured.
 * Says whether memory is to be. */
static __attribute__((noinline)) int begin_sample(struct work *work, struct task_struct *task,
						  u64 period)
{
	struct record *record = &work->record;
	int memory;

	begin_record(record, period);
	record->ip = work->registers[REGISTER_IP];
	record->context = context_of(work, task);
	work->kernel = record->context != CONTEXT_USER;
	identify(record, task);
	record->outcome = refusal(work);
	memory = record->outcome == OUTCOME_NOT_TRIED;
	if (!memory && record->outcome != OUTCOME_MEMORY_DENIED)
		return 0;
	if (work->kernel) {
		record->flags |= RECORD_REGISTERS;
		if (!(record->flags & RECORD_KERNEL_THREAD))
			add_user_registers(work, task);
		return memory;
	}
	if (work->registers[REGISTER_CS] == SELECTOR_USER_32) {
		record->flags |= RECORD_USER_IS_32;
		return 0;
	}
	record->flags |= RECORD_REGISTERS;
	if (!memory)
		add_code(work, CODE_BYTES_DENIED);
	return memory;
}

static int ask_for_vectors(struct work *work, struct task_struct *task);

/* Takes the sample whose registers are in work->registers. What it consists of stands side by side
 * here, and each apart: the kernel limits the stack of the deepest call. */
static INLINE void take_sample(struct work *work, struct task_struct *task, u64 period)
{
	count(COUNT_SAMPLES);
	if (begin_sample(work, task, period)) {
		capture(work, task);
		ask_for_vectors(work, task);
	}
	end_record(work);
}

#endif
