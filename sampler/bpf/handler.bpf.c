/*
 * The handler of a sampling interrupt.
 *
 * A perf event of each CPU runs `on_overflow` when its interval ends. It decides whether the thread
 * is to be sampled, copies the interrupted registers (and, if the kernel was interrupted, those with
 * which the thread left user mode), says who the thread is, walks over the frames of its stack,
 * copies the code at the PC, and evaluates the plan for that PC, if there is one: the loads that the
 * code ahead will make, as far as their addresses follow from the registers. All of it goes into one
 * record of the CPU's own ring buffer. Where that is full, the sample is added to a table of cycles,
 * so that only its values are lost.
 *
 * Three programs beside it follow the processes that are sampled: a child of one is one, too; a
 * process that waits for its program becomes one with exec; what has ended is forgotten.
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
#include "identity.h"
#include "memory.h"

/* Puts the record into this CPU's buffer; 0 if it found room. */
static inline int deliver(struct work *work)
{
	u32 cpu = bpf_get_smp_processor_id();
	void *buffer = bpf_map_lookup_elem(&buffers, &cpu);
	u32 words = work->record.tail_words & (TAIL_WORDS - 1);
	u64 size = sizeof(struct record) + 8 * words;
	u64 wake_up = BPF_RB_NO_WAKEUP;
	u64 held;

	if (!buffer)
		return -1;
	held = bpf_ringbuf_query(buffer, BPF_RB_AVAIL_DATA);
	if (++work->since_wake_up >= settings.wake_up_samples ||
	    held > settings.buffer_bytes / 2) {
		work->since_wake_up = 0;
		wake_up = BPF_RB_FORCE_WAKEUP;
	}
	work->record.missed = work->missed;
	if (!bpf_ringbuf_output(buffer, &work->record, size, wake_up)) {
		work->missed = 0;
		return 0;
	}
	work->missed++;
	/* Each record has a head of 8 bytes. */
	if (held + size + 8 > settings.buffer_bytes)
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
		.process = {
			.tgid = record->tgid,
			.exec_count = record->exec_count,
			.start_time = record->start_time,
		},
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
	value = bpf_map_lookup_elem(table, &key);
	if (!value)
		return bpf_map_update_elem(table, &key, &first, BPF_NOEXIST);
	value->samples++;
	value->weight += record->period;
	return 0;
}

SEC("perf_event")
int on_overflow(struct interrupt *interrupt)
{
	u32 zero = 0;
	u64 id = bpf_get_current_pid_tgid();
	struct task_struct *task = bpf_get_current_task_btf();
	struct work *work = bpf_map_lookup_elem(&works, &zero);
	struct record *record;
	int memory;

	if (!work) {
		count(COUNT_NO_SCRATCH);
		return 0;
	}
	if (id >> 32 == settings.own_tgid) {
		count(COUNT_OWN);
		return 0;
	}
	record = &work->record;
	record->tgid = id >> 32;
	record->tid = id;
	bpf_get_current_comm(record->comm, sizeof(record->comm));
	if (!is_selected(work, task)) {
		count(COUNT_FILTERED);
		return 0;
	}
	count(COUNT_SAMPLES);
	record->time = bpf_ktime_get_ns();
	record->period = interrupt->period;
	record->flags = 0;
	record->tail_words = 0;
	record->fs_base = 0;
	record->gs_base = 0;
	record->plan_tag = 0;
	record->plan_step = 0;
	record->system_call = 0;
	record->frames = 0;
	record->frames_end = FRAMES_NONE;
	record->code_bytes = 0;
	record->stack_bytes = 0;
	record->ip = interrupt->registers[SAVED_RIP];
	COPY_REGISTERS(work->registers, interrupt->registers);
	record->context = context_of(work, task);
	work->kernel = record->context != CONTEXT_USER;
	identify(record, task);
	record->plan = refusal(record);
	memory = record->plan == PLAN_MISSING;
	if (memory || record->plan == PLAN_MEMORY_DENIED) {
		if (work->kernel) {
			add_registers(work, work->registers);
			record->flags |= RECORD_REGISTERS;
			if (!(record->flags & RECORD_KERNEL_THREAD))
				add_user_registers(work, task);
			if (memory)
				capture_memory(work, task);
		} else if (work->registers[REGISTER_CS] == SELECTOR_USER_32) {
			record->flags |= RECORD_USER_IS_32;
			memory = 0;
		} else {
			add_registers(work, work->registers);
			record->flags |= RECORD_REGISTERS;
			if (memory)
				capture_memory(work, task);
			else
				add_code(work, CODE_BYTES_PLANNED);
		}
	}
	if (deliver(work) && keep_cycles(record))
		count(COUNT_CYCLES_LOST);
	return 0;
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
