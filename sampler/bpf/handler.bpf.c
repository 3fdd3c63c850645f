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

/* The first fields of bpf_perf_event_data, whose layout is fixed. */
struct interrupt {
	u64 registers[21];
	u64 period;
	u64 address;
};

/* Where pt_regs keeps what. */
#define SAVED_R15 0
#define SAVED_R14 1
#define SAVED_R13 2
#define SAVED_R12 3
#define SAVED_RBP 4
#define SAVED_RBX 5
#define SAVED_R11 6
#define SAVED_R10 7
#define SAVED_R9 8
#define SAVED_R8 9
#define SAVED_RAX 10
#define SAVED_RCX 11
#define SAVED_RDX 12
#define SAVED_RSI 13
#define SAVED_RDI 14
#define SAVED_ORIG_RAX 15
#define SAVED_RIP 16
#define SAVED_CS 17
#define SAVED_FLAGS 18
#define SAVED_RSP 19
#define SAVED_SS 20

/* To the order of a record. */
#define COPY_REGISTERS(to, from)            \
	do {                                \
		(to)[0] = (from)[SAVED_RAX];  \
		(to)[1] = (from)[SAVED_RCX];  \
		(to)[2] = (from)[SAVED_RDX];  \
		(to)[3] = (from)[SAVED_RBX];  \
		(to)[4] = (from)[SAVED_RSP];  \
		(to)[5] = (from)[SAVED_RBP];  \
		(to)[6] = (from)[SAVED_RSI];  \
		(to)[7] = (from)[SAVED_RDI];  \
		(to)[8] = (from)[SAVED_R8];   \
		(to)[9] = (from)[SAVED_R9];   \
		(to)[10] = (from)[SAVED_R10]; \
		(to)[11] = (from)[SAVED_R11]; \
		(to)[12] = (from)[SAVED_R12]; \
		(to)[13] = (from)[SAVED_R13]; \
		(to)[14] = (from)[SAVED_R14]; \
		(to)[15] = (from)[SAVED_R15]; \
		(to)[16] = (from)[SAVED_RIP]; \
		(to)[17] = (from)[SAVED_FLAGS]; \
		(to)[18] = (from)[SAVED_CS] & 0xffff;  \
		(to)[19] = (from)[SAVED_SS] & 0xffff;  \
	} while (0)

/* Filled in before loading. */
const volatile struct settings settings SEC(".rodata.settings") = {};

struct counters_map {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct counters);
} counters SEC(".maps");

struct plans_map {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, struct place_key);
	__type(value, struct plan_value);
} plans SEC(".maps");

struct rows_map {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 65536);
	__type(key, struct place_key);
	__type(value, struct row_value);
} rows SEC(".maps");

struct denials_map {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, struct process_key);
	__type(value, u32);
} denials SEC(".maps");

struct targets_map {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 32768);
	__type(key, u32);
	__type(value, u32);
} targets SEC(".maps");

struct buffer {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
};

/* Of each CPU, by its number. */
struct buffers_map {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 1);
	__type(key, u32);
	__array(values, struct buffer);
} buffers SEC(".maps");

struct cycles_table {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	/* By size: clang 14 does not describe types that only an inner map has. */
	__uint(key_size, sizeof(struct cycles_key));
	__uint(value_size, sizeof(struct cycles_value));
};

/* Two of each CPU: while one is read, the handler fills the other. */
struct cycles_map {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 2);
	__type(key, u32);
	__array(values, struct cycles_table);
} cycles SEC(".maps");

/* Which of a CPU's two is filled: 0 or 1. */
struct sides_map {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u32);
} sides SEC(".maps");

static inline void count(u32 which)
{
	u32 zero = 0;
	struct counters *of = bpf_map_lookup_elem(&counters, &zero);

	if (of && which < COUNTERS)
		of->of[which]++;
}

static inline long read_user(void *to, u32 size, u64 address)
{
	return bpf_probe_read_user(to, size, (const void *)address);
}

static inline long read_kernel(void *to, u32 size, u64 address)
{
	return bpf_probe_read_kernel(to, size, (const void *)address);
}

struct work;
static int find_row(struct work *work, u64 address, struct row *row);

#define SUBPROGRAM __attribute__((noinline))
#include "capture.h"

struct works_map {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct work);
} works SEC(".maps");

static inline int same_place(const struct place_key *a, const struct place_key *b)
{
	return a->address == b->address && a->process.start_time == b->process.start_time &&
	       a->process.tgid == b->process.tgid &&
	       a->process.exec_count == b->process.exec_count;
}

/* The kernel's code is the same in all processes: its key has none. */
static inline void name_place(const struct work *work, u64 address, struct place_key *key)
{
	key->address = address;
	if (work->kernel) {
		key->process.tgid = 0;
		key->process.exec_count = 0;
		key->process.start_time = 0;
		return;
	}
	key->process.tgid = work->record.tgid;
	key->process.exec_count = work->record.exec_count;
	key->process.start_time = work->record.start_time;
}

static int find_row(struct work *work, u64 address, struct row *row)
{
	struct place_key key;
	struct row_value *value;

	name_place(work, address, &key);
	value = bpf_map_lookup_elem(&rows, &key);
	if (!value)
		return 0;
	*row = value->row;
	barrier();
	return same_place(&value->key, &key);
}

/* What was interrupted. Interrupts and softirqs have stacks of their own; handlers of interrupts run
 * with interrupts off. (The count that the kernel itself goes by cannot be reached on every kernel.
 * A softirq that turns interrupts off is taken for an interrupt, one in a thread for the kernel.) */
static inline u8 context_of(const struct work *work, struct task_struct *task)
{
	u64 bottom = (u64)task->stack;
	u64 top = (u64)bpf_task_pt_regs(task);
	u64 sp = work->registers[REGISTER_RSP];

	if ((work->registers[REGISTER_CS] & SELECTOR_PRIVILEGE) == SELECTOR_PRIVILEGE)
		return CONTEXT_USER;
	if (sp >= bottom && sp <= top + sizeof(work->saved))
		return CONTEXT_KERNEL;
	return work->registers[REGISTER_FLAGS] & INTERRUPTS_ON ? CONTEXT_SOFTIRQ : CONTEXT_HARDIRQ;
}

static inline u32 dumpable(struct mm_struct *mm)
{
	unsigned long flags = 0;
	struct mm_struct___word *word = (void *)mm;
	struct mm_struct___bitmap *bitmap = (void *)mm;

	if (!mm)
		return 0;
	if (bpf_core_field_exists(bitmap->flags.__mm_flags))
		bpf_probe_read_kernel(&flags, sizeof(flags),
				      __builtin_preserve_access_index(&bitmap->flags));
	else if (bpf_core_field_exists(word->flags))
		bpf_probe_read_kernel(&flags, sizeof(flags),
				      __builtin_preserve_access_index(&word->flags));
	/* What could not be read is 0, which is not dumpable. */
	return (flags & DUMPABLE_MASK) == DUMPABLE_BY_USER;
}

static inline u32 number_of(struct pid *pid)
{
	return pid ? BPF_CORE_READ(pid, numbers[0].nr) : 0;
}

/* As the kernel encodes device numbers for user space. */
static inline u32 device_of(struct tty_struct *tty)
{
	u32 major, minor;

	if (!tty)
		return 0;
	major = BPF_CORE_READ(tty, driver, major);
	minor = BPF_CORE_READ(tty, driver, minor_start) + BPF_CORE_READ(tty, index);
	return (minor & 0xff) | major << 8 | (minor & ~0xff) << 12;
}

/* The group itself or one above it is the one that is selected. */
static inline int is_in_cgroup(struct cgroup *cgroup)
{
	u32 level;

	for (level = 0; level < MAX_CGROUP_LEVELS && cgroup; level++) {
		if (BPF_CORE_READ(cgroup, kn, id) == settings.cgroup)
			return 1;
		cgroup = (struct cgroup *)BPF_CORE_READ(cgroup, self.parent);
	}
	return 0;
}

static inline int is_selected(struct work *work, struct task_struct *task)
{
	struct record *record = &work->record;
	u32 tgid = record->tgid;
	u32 index;

	if (settings.flags & SELECT_TARGETS) {
		u32 *state = bpf_map_lookup_elem(&targets, &tgid);

		if (!state || *state != TARGET_SAMPLED)
			return 0;
	}
	if (settings.flags & SELECT_CGROUP && !is_in_cgroup(task->cgroups->dfl_cgrp))
		return 0;
	if (settings.flags & SELECT_EUID && task->real_cred->euid.val != settings.euid)
		return 0;
	if (settings.flags & SELECT_COMM)
		for (index = 0; index < sizeof(record->comm); index++) {
			if (record->comm[index] != settings.comm[index])
				return 0;
			if (!record->comm[index])
				break;
		}
	return 1;
}

static inline void identify(struct record *record, struct task_struct *task)
{
	const struct cred *cred = task->real_cred;
	struct signal_struct *signal = task->signal;
	u64 pending = task->pending.signal.sig[0];

	record->start_time = task->group_leader->start_boottime;
	record->thread_start_time = task->start_boottime;
	record->exec_count = task->self_exec_id;
	record->cgroup = bpf_get_current_cgroup_id();
	record->ppid = task->real_parent->tgid;
	record->uid = cred->uid.val;
	record->euid = cred->euid.val;
	record->suid = cred->suid.val;
	record->gid = cred->gid.val;
	record->egid = cred->egid.val;
	record->policy = task->policy;
	record->priority = task->prio;
	record->pgid = 0;
	record->sid = 0;
	record->tty = 0;
	if (signal) {
		record->pgid = number_of(signal->pids[PID_OF_GROUP]);
		record->sid = number_of(signal->pids[PID_OF_SESSION]);
		record->tty = device_of(signal->tty);
		pending |= signal->shared_pending.signal.sig[0];
	}
	if (pending & ~task->blocked.sig[0])
		record->flags |= RECORD_SIGNALS_PENDING;
	if (cred->cap_permitted.val)
		record->flags |= RECORD_PRIVILEGED;
	if (task->flags & TASK_IS_KERNEL_THREAD)
		record->flags |= RECORD_KERNEL_THREAD;
	else if (dumpable(task->mm))
		record->flags |= RECORD_DUMPABLE;
}

/* Why memory or more of this process is not to be captured; PLAN_MISSING if nothing is wrong. */
static inline u8 refusal(struct record *record)
{
	struct process_key key = {
		.tgid = record->tgid,
		.exec_count = record->exec_count,
		.start_time = record->start_time,
	};
	u32 *denied;

	if (!(record->flags & (RECORD_DUMPABLE | RECORD_KERNEL_THREAD)) &&
	    !(settings.flags & CAPTURE_NOT_DUMPABLE)) {
		count(COUNT_NOT_DUMPABLE);
		return PLAN_NOT_DUMPABLE;
	}
	denied = bpf_map_lookup_elem(&denials, &key);
	if (!denied)
		return PLAN_MISSING;
	if (*denied == DENY_MEMORY) {
		count(COUNT_MEMORY_DENIED);
		return PLAN_MEMORY_DENIED;
	}
	count(COUNT_VALUES_DENIED);
	return PLAN_VALUES_DENIED;
}

/* Adds registers to the tail. */
static inline void add_registers(struct work *work, const u64 *registers)
{
	u32 used = work->record.tail_words & 31;
	u32 index;

	for (index = 0; index < REGISTER_WORDS; index++)
		work->tail[used + index] = registers[index];
	work->record.tail_words = used + REGISTER_WORDS;
}

/* The registers with which the thread left user mode: at the top of its kernel stack. */
static inline void add_user_registers(struct work *work, struct task_struct *task)
{
	struct record *record = &work->record;
	struct pt_regs *saved = (struct pt_regs *)bpf_task_pt_regs(task);
	u64 at = (u64)saved;
	u64 sp = work->registers[REGISTER_RSP];

	/* The interrupt fell where the kernel was still saving them, or had restored some: on its
	 * way in or out of the kernel, on the user's stack, on the small one of the entry code, or
	 * among the saved registers. */
	if (!saved || !(sp >> 63) || sp >> 39 == 0xfffffe0000000000ULL >> 39 ||
	    (sp > at && sp <= at + sizeof(work->saved)))
		goto none;
	if (bpf_probe_read_kernel(work->saved, sizeof(work->saved), saved))
		goto none;
	if ((work->saved[SAVED_CS] & SELECTOR_PRIVILEGE) != SELECTOR_PRIVILEGE)
		goto none;
	if ((work->saved[SAVED_CS] & 0xffff) == SELECTOR_USER_32) {
		record->flags |= RECORD_USER_IS_32;
		return;
	}
	if ((s64)work->saved[SAVED_ORIG_RAX] >= 0) {
		record->system_call = work->saved[SAVED_ORIG_RAX];
		record->flags |= RECORD_SYSTEM_CALL;
	}
	COPY_REGISTERS(work->words, work->saved);
	add_registers(work, work->words);
	record->flags |= RECORD_USER_REGISTERS;
	return;
none:
	count(COUNT_NO_USER_REGISTERS);
}

static inline long read_code(struct work *work, u32 used, u32 size)
{
	void *to = &work->tail[used & (TAIL_WORDS - 1)];

	size &= 127;
	if (size > CODE_BYTES_UNPLANNED)
		return -1;
	if (work->kernel)
		return bpf_probe_read_kernel(to, size, (const void *)work->record.ip);
	return bpf_probe_read_user(to, size, (const void *)work->record.ip);
}

/* The code at the PC; the next page may not be there. */
static inline void add_code(struct work *work, u32 wanted)
{
	struct record *record = &work->record;
	u32 used = record->tail_words;
	u32 to_page_end = 4096 - (record->ip & 4095);
	u32 size = wanted;

	if (!work->kernel && record->ip >> 56)
		return;
	if (read_code(work, used, size)) {
		if (to_page_end >= wanted || read_code(work, used, to_page_end)) {
			count(COUNT_NO_CODE);
			return;
		}
		size = to_page_end;
		count(COUNT_SHORT_CODE);
	}
	record->code_bytes = size;
	record->tail_words = used + (size + 7) / 8;
}

/* The stack from the stack pointer on. Where there is no plan yet, return address and operands are
 * to be found there all the same; with a plan, what it could not put into words. */
static inline void add_stack(struct work *work, u32 most)
{
	struct record *record = &work->record;
	u32 used = record->tail_words & (TAIL_WORDS - 1);
	u64 sp = work->registers[REGISTER_RSP];
	u32 size = settings.stack_bytes;

	if (size > most)
		size = most;
	if (!size || sp >> 56 || used + MAX_STACK_BYTES / 8 >= TAIL_WORDS)
		return;
	if (bpf_probe_read_user(&work->tail[used], size, (const void *)sp)) {
		/* The next page may not be there. */
		size = 4096 - (sp & 4095);
		if (size > most)
			return;
		if (bpf_probe_read_user(&work->tail[used], size, (const void *)sp))
			return;
	}
	record->stack_bytes = size & ~7;
	record->tail_words = used + size / 8;
}

/* Says what plans for the kernel's code may read now. */
static inline void allow_kernel_memory(struct work *work, struct task_struct *task)
{
	u64 base = settings.direct_map;
	u64 at = (u64)task;
	u32 index, known = 0;

	work->allowed[0].start = settings.image.start;
	work->allowed[0].end = settings.image.end;
	work->allowed[1].start = (u64)task->stack;
	work->allowed[1].end = (u64)bpf_task_pt_regs(task) + sizeof(work->saved);
	if (settings.direct_map_at &&
	    bpf_probe_read_kernel(&base, sizeof(base), (const void *)settings.direct_map_at))
		base = 0;
	for (index = 0; index < RAM_RANGES; index++) {
		struct range *range = &work->allowed[2 + index];

		range->start = base + settings.ram[index].start;
		range->end = base ? base + settings.ram[index].end : 0;
		known |= at >= range->start && at < range->end;
	}
	/* The task lies in RAM. Where it does not, the base is not what it was taken for. */
	if (known)
		return;
	for (index = 0; index < RAM_RANGES; index++)
		work->allowed[2 + index].end = 0;
}

/* The base of FS as the thread's last switch or system call left it. User code can change it
 * without the kernel's knowledge: it is believed where the word there points to itself. */
static inline u32 find_fs_base(struct work *work, struct task_struct *task)
{
	u64 base = task->thread.fsbase;
	u64 self = 0;

	if (!base || base >> 56 || read_user(&self, sizeof(self), base) || self != base)
		return 0;
	work->record.fs_base = base;
	work->record.flags |= RECORD_FS_BASE;
	return PLAN_NEEDS_FS_BASE;
}

static inline void walk(struct work *work)
{
	u32 index;
	int end = FRAMES_MOST;

	work->pc = work->record.ip;
	work->sp = work->registers[REGISTER_RSP];
	work->bp = work->registers[REGISTER_RBP];
	work->bp_known = 1;
	work->first = 1;
	for (index = 0; index < MAX_FRAMES; index++) {
		int step;

		if (index >= settings.frames)
			break;
		step = walk_step(work);
		if (step & 255) {
			end = step & 255;
			break;
		}
		count(step & 256 ? COUNT_FRAMES_BY_ROW : COUNT_FRAMES_BY_POINTER);
	}
	work->record.frames_end = end;
	if (end >= FRAMES_OUTERMOST && end <= FRAMES_MOST)
		count(COUNT_FRAMES_OUTERMOST + (end - FRAMES_OUTERMOST));
}

/* Frames, code and the plan's pieces; of the kernel no frames. */
static inline void capture_memory(struct work *work, struct task_struct *task)
{
	struct record *record = &work->record;
	struct place_key key;
	struct plan_value *value;
	u32 bases, index, begin;
	int outcome;

	name_place(work, record->ip, &key);
	value = bpf_map_lookup_elem(&plans, &key);
	work->row.kind = ROW_NONE;
	if (value)
		work->row = value->row;
	if (work->kernel)
		allow_kernel_memory(work, task);
	else if (settings.frames)
		walk(work);
	/* Without a plan, too: whoever makes one asks whether it may need the base. */
	bases = 0;
	if (!work->kernel && (!value || value->plan.needs & PLAN_NEEDS_FS_BASE))
		bases = find_fs_base(work, task);
	if (!value) {
		count(COUNT_PLAN_MISSING);
		add_code(work, CODE_BYTES_UNPLANNED);
		add_stack(work, MAX_STACK_BYTES);
		return;
	}
	add_code(work, CODE_BYTES_PLANNED);
	begin = record->tail_words;
	for (index = 0; index < 16; index++)
		work->words[index] = work->registers[index];
	for (index = SOURCE_BIAS; index < SOURCE_STEP; index++)
		work->words[index] = 0;
	work->words[SOURCE_BIAS] = value->bias;
	work->words[SOURCE_FS_BASE] = record->fs_base;
	record->plan_tag = value->tag;
	outcome = evaluate(work, &value->plan, bases);
	barrier();
	if (!same_place(&value->key, &key)) {
		/* What was evaluated may be a mixture. So may the first row have been. */
		count(COUNT_PLAN_REPLACED);
		record->plan = PLAN_MISSING;
		record->plan_tag = 0;
		record->tail_words = begin;
		add_stack(work, MAX_STACK_BYTES);
		return;
	}
	count(COUNT_PLAN_MISSING + outcome);
	add_stack(work, STACK_BYTES_PLANNED);
}

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
