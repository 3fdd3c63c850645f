/*
 * Who was running, whether it is to be sampled, and what may be captured of it.
 */
#ifndef VCPI_IDENTITY_H
#define VCPI_IDENTITY_H

#include "maps.h"
#include "registers.h"

/* Where a thread's user registers were saved. It goes through memory: to verifiers of older kernels
 * (seen with 6.1) the helper returns a pointer, and numbers are not to be had from one. */
static inline u64 user_registers_at(struct work *work, struct task_struct *task)
{
	volatile u64 *address = &work->address;

	*address = bpf_task_pt_regs(task);
	return *address;
}

/* Behind the last byte of a task's stack in the kernel. Of threads that never leave the kernel some
 * kernels say that their user registers are elsewhere. */
static inline u64 end_of_stack(struct work *work, struct task_struct *task)
{
	u64 bottom = (u64)task->stack;
	u64 user = user_registers_at(work, task);

	if (user > bottom && user - bottom < LARGEST_STACK)
		return user + SAVED_BYTES;
	return bottom + SMALLEST_STACK;
}

/* What was interrupted. Interrupts and softirqs have stacks of their own; handlers of interrupts run
 * with interrupts off. (The count that the kernel itself goes by cannot be reached on every kernel.
 * A softirq that turns interrupts off is taken for an interrupt, one in a thread for the kernel.) */
static inline u8 context_of(struct work *work, struct task_struct *task)
{
	u64 bottom = (u64)task->stack;
	u64 sp = work->registers[REGISTER_RSP];

	if ((work->registers[REGISTER_CS] & SELECTOR_PRIVILEGE) == SELECTOR_PRIVILEGE)
		return CONTEXT_USER;
	if (sp >= bottom && sp <= end_of_stack(work, task))
		return CONTEXT_KERNEL;
	return work->registers[REGISTER_FLAGS] & INTERRUPTS_ON ? CONTEXT_SOFTIRQ : CONTEXT_HARDIRQ;
}

/* The flags of an address space; 0 where they cannot be read. */
static inline unsigned long flags_of(struct mm_struct *mm)
{
	struct mm_struct___word *word = (void *)mm;
	struct mm_struct___bitmap *bitmap = (void *)mm;

	if (bpf_core_field_exists(bitmap->flags.__mm_flags))
		return bitmap->flags.__mm_flags[0];
	if (bpf_core_field_exists(word->flags))
		return word->flags;
	return 0;
}

/* What could not be read is not dumpable. */
static inline u32 dumpable(struct mm_struct *mm)
{
	return mm && (flags_of(mm) & DUMPABLE_MASK) == DUMPABLE_BY_USER;
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

/* Whether the process is the one that was last found to be sampled: it stays that for as long as it
 * runs the same program, and few interrupts in a row fall into another. */
static inline int is_seen(const struct work *work)
{
	struct process_key key;

	name_process(&work->record, &key);
	return work->seen_at && same_process(&work->seen, &key);
}

static inline int is_selected(struct work *work, struct task_struct *task)
{
	struct record *record = &work->record;
	u32 tgid = record->tgid;
	u32 index;

	if (settings.flags & SELECT_TARGETS && !is_seen(work)) {
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

/* What lies in a dozen places of the kernel's memory, which an interrupt that comes seldom finds in
 * no cache: only if it is wanted. */
static inline void add_placement(struct record *record, struct task_struct *task)
{
	struct signal_struct *signal = task->signal;
	u64 pending = task->pending.signal.sig[0];

	record->cgroup = bpf_get_current_cgroup_id();
	record->ppid = task->real_parent->tgid;
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
	record->flags |= RECORD_PLACEMENT;
}

/* Not 0 if it has any capability. (Were the credentials not to be read, they would be root's above.) */
static inline u64 permitted(const struct cred *cred)
{
	const struct cred___words *words = (const void *)cred;

	if (bpf_core_field_exists(words->cap_permitted.cap))
		return words->cap_permitted.cap[0] | words->cap_permitted.cap[1];
	return cred->cap_permitted.val;
}

/* Whether a signal has a handler of the program's. The number is a constant: how large the kernel's
 * entries are is only put right in the address of a whole path. */
#define HAS_HANDLER(signals, number)                                                               \
	((u64)(signals)->action[(number) - 1].sa.sa_handler > LAST_NO_HANDLER)

/* Which exceptions the program may handle and go on. What traces it may have it go on, too. */
static inline u8 handlers_of(struct task_struct *task)
{
	struct sighand_struct *signals = task->sighand;
	struct mm_struct *mm = task->mm;
	u8 found = HANDLERS_KNOWN;

	if (!signals)
		return 0;
	if (task->ptrace)
		found |= HANDLERS_ACCESS | HANDLERS_FLOAT;
	if (HAS_HANDLER(signals, SIGNAL_SEGV) || HAS_HANDLER(signals, SIGNAL_BUS))
		found |= HANDLERS_ACCESS;
	if (HAS_HANDLER(signals, SIGNAL_FPE))
		found |= HANDLERS_FLOAT;
	if (mm && bpf_core_field_exists(mm->context.pkey_allocation_map) &&
	    mm->context.pkey_allocation_map & ~FIRST_KEYS)
		found |= HANDLERS_KEYS;
	return found;
}

static inline void identify(struct record *record, struct task_struct *task)
{
	const struct cred *cred = task->real_cred;

	record->thread_start_time = task->start_boottime;
	record->uid = cred->uid.val;
	record->euid = cred->euid.val;
	record->suid = cred->suid.val;
	record->gid = cred->gid.val;
	record->egid = cred->egid.val;
	if (permitted(cred))
		record->flags |= RECORD_PRIVILEGED;
	record->handlers = 0;
	if (record->context == CONTEXT_USER)
		record->handlers = handlers_of(task);
	if (task->flags & TASK_IS_KERNEL_THREAD)
		record->flags |= RECORD_KERNEL_THREAD;
	else if (dumpable(task->mm))
		record->flags |= RECORD_DUMPABLE;
	if (settings.flags & CAPTURE_PLACEMENT)
		add_placement(record, task);
}

/* Why memory or more of this process is not to be captured; OUTCOME_NOT_TRIED if nothing is wrong.
 * */
static inline u8 refusal(struct work *work)
{
	struct record *record = &work->record;
	struct process_key key;
	u32 zero = 0;
	u64 *denials_made;
	u32 *denied;
	u64 now;

	if (!(record->flags & (RECORD_DUMPABLE | RECORD_KERNEL_THREAD)) &&
	    !(settings.flags & CAPTURE_NOT_DUMPABLE)) {
		count(COUNT_NOT_DUMPABLE);
		return OUTCOME_NOT_DUMPABLE;
	}
	denials_made = bpf_map_lookup_elem(&denial_count, &zero);
	now = denials_made ? *denials_made + 1 : 0;
	if (now == work->seen_at && is_seen(work))
		return OUTCOME_NOT_TRIED;
	name_process(record, &key);
	denied = bpf_map_lookup_elem(&denials, &key);
	if (!denied) {
		work->seen = key;
		work->seen_at = now;
		return OUTCOME_NOT_TRIED;
	}
	if (*denied == DENY_MEMORY) {
		count(COUNT_MEMORY_DENIED);
		return OUTCOME_MEMORY_DENIED;
	}
	count(COUNT_VALUES_DENIED);
	return OUTCOME_VALUES_DENIED;
}

#endif
