/*
 * What goes into a record's tail: registers, frames, the lines that a way reads, code, the stack.
 */
#ifndef VCPI_MEMORY_H
#define VCPI_MEMORY_H

#include "identity.h"
#include "maps.h"
#include "registers.h"

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
	u64 at = user_registers_at(work, task);
	u64 sp = work->registers[REGISTER_RSP];

	/* The interrupt fell where the kernel was still saving them, or had restored some: on its
	 * way in or out of the kernel, on the user's stack, on the small one of the entry code, or
	 * among the saved registers. */
	if (!at || !(sp >> 63) || sp >> 39 == 0xfffffe0000000000ULL >> 39 ||
	    (sp > at && sp <= at + sizeof(work->saved)))
		goto none;
	if (read_kernel(work->saved, sizeof(work->saved), at))
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
	COPY_REGISTERS(work->user, work->saved);
	add_registers(work, work->user);
	record->flags |= RECORD_USER_REGISTERS;
	return;
none:
	count(COUNT_NO_USER_REGISTERS);
}

static inline long read_code(struct work *work, u32 used, u32 size)
{
	void *to = &work->tail[used & (TAIL_WORDS - 1)];

	size &= 127;
	if (size > CODE_BYTES)
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

	if ((!work->kernel && record->ip >> 56) || used + wanted / 8 >= TAIL_WORDS)
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

/* The stack from the stack pointer on, where the caller is to be found by it. */
static inline void add_stack(struct work *work)
{
	struct record *record = &work->record;
	u32 used = record->tail_words & (TAIL_WORDS - 1);
	u64 sp = work->registers[REGISTER_RSP];
	u32 size = settings.stack_bytes;

	if (size > MAX_STACK_BYTES)
		size = MAX_STACK_BYTES;
	if (!size || work->kernel || sp >> 56 || used + size / 8 >= TAIL_WORDS)
		return;
	if (bpf_probe_read_user(&work->tail[used], size, (const void *)sp)) {
		/* The next page may not be there. */
		size = 4096 - (sp & 4095);
		if (size > MAX_STACK_BYTES)
			return;
		if (bpf_probe_read_user(&work->tail[used], size, (const void *)sp))
			return;
	}
	record->stack_bytes = size & ~7;
	record->tail_words = used + size / 8;
}

/* Reads the stack page by page, as far as it is there: how many bytes of it, whole words. */
static INLINE u32 read_stack(struct copy *copy, u64 sp, u32 wanted)
{
	u32 done = 0, index;

	for (index = 0; index < MAX_COPY_BYTES / 4096 + 1; index++) {
		u64 from = sp + done;
		u32 size = 4096 - (from & 4095);

		if (done >= wanted || from >> 56)
			break;
		if (size > wanted - done)
			size = wanted - done;
		if (bpf_probe_read_user(&copy->bytes[within(done, MAX_COPY_BYTES - 1)],
					within(size, 8191), (const void *)from))
			break;
		done += size;
	}
	return done & ~7U;
}

/* Puts a copy of the stack into the buffer, from the stack pointer to where the stack began or as
 * far as settings allow; says whether it is there. Where a quarter of the buffer waits to be read,
 * there is none: samples need the room. */
static __attribute__((noinline)) int copy_stack(struct work *work, struct task_struct *task)
{
	u32 cpu = bpf_get_smp_processor_id();
	void *buffer = bpf_map_lookup_elem(&buffers, &cpu);
	struct copy *copy = bpf_map_lookup_elem(&copies, &cpu);
	u64 sp = work->registers[REGISTER_RSP];
	u64 top = task->mm->start_stack;
	u32 wanted = settings.copy_bytes;
	u32 bytes;

	if (!buffer || !copy)
		return 0;
	if (bpf_ringbuf_query(buffer, BPF_RB_AVAIL_DATA) > settings.buffer_bytes / 4)
		goto none;
	if (wanted > MAX_COPY_BYTES)
		wanted = MAX_COPY_BYTES;
	/* The first thread's stack; those of others end where their pages do. */
	if (top > sp && top - sp < wanted)
		wanted = top - sp;
	/* As much as that comes with the sample. */
	if (wanted <= settings.stack_bytes && wanted <= MAX_STACK_BYTES)
		return 0;
	bytes = within(read_stack(copy, sp, wanted), 2 * MAX_COPY_BYTES - 1);
	if (!bytes || bytes > MAX_COPY_BYTES)
		return 0;
	copy->head.time = work->record.time;
	copy->head.period = STACK_COPY_PERIOD;
	copy->head.tid = work->record.tid;
	copy->head.bytes = bytes;
	if (bpf_ringbuf_output(buffer, copy, sizeof(copy->head) + bytes, BPF_RB_NO_WAKEUP))
		goto none;
	work->bytes_since_wake_up += sizeof(copy->head) + bytes + 8;
	work->record.copied = bytes;
	count(COUNT_STACKS_COPIED);
	add_to(COUNT_STACK_BYTES_COPIED, bytes);
	return 1;
none:
	count(COUNT_STACKS_WITHOUT_ROOM);
	return 0;
}

/* Says what ways through the kernel's code may read now. */
static inline void allow_kernel_memory(struct work *work, struct task_struct *task)
{
	u64 base = settings.direct_map;
	u64 at = (u64)task;
	u32 index, known = 0;

	work->allowed[0].start = settings.image.start;
	work->allowed[0].end = settings.image.end;
	work->allowed[1].start = (u64)task->stack;
	work->allowed[1].end = end_of_stack(work, task);
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
	work->direct_map = known ? base : 0;
	if (known)
		return;
	for (index = 0; index < RAM_RANGES; index++)
		work->allowed[2 + index].end = 0;
}

/* A base of user code as the kernel has it. With a selector, it is that of a table's entry. */
static inline int is_base(u64 base, u32 selector)
{
	return base && !(base >> 56) && !selector;
}

/* The bases of FS and GS as the kernel has them: as the thread's last switch or system call left
 * them. User code can change both without the kernel's knowledge. Whoever takes them for those of
 * the moment has to know that the process has no such code.
 *
 * A new program begins with both at zero: exec clears what is read here, then the registers. A thread
 * that is switched away between the two keeps the old ones here until it is switched the next time.
 * That is a dozen instructions without a point to sleep at, so only a fully preemptible kernel can do
 * it. In truth the base is zero then, which no program addresses by, until it asks for another one:
 * that one is here at once. */
static inline u32 find_bases(struct work *work, struct task_struct *task)
{
	struct record *record = &work->record;
	u32 bases = 0;

	if (is_base(task->thread.fsbase, task->thread.fsindex)) {
		record->fs_base = task->thread.fsbase;
		record->flags |= RECORD_FS_BASE;
		bases |= KNOWN_FS_BASE;
	}
	if (is_base(task->thread.gsbase, task->thread.gsindex)) {
		record->gs_base = task->thread.gsbase;
		record->flags |= RECORD_GS_BASE;
		bases |= KNOWN_GS_BASE;
	}
	return bases;
}

/* Whether others may write what was read while it was: other threads, other processors, or whoever
 * has pages of the process pinned or had before, as devices and process_vm_writev do. */
static inline int is_written_meanwhile(const struct work *work, struct task_struct *task)
{
	return work->kernel || work->way.again || task->mm->mm_users.counter > 1 ||
	       flags_of(task->mm) & HAS_PINNED_MASK;
}

/* Reads all that was read once more, and notes what has changed. */
SUBPROGRAM int look_again(struct work *work)
{
	u32 code, code_at, stack_at;

	if (!work)
		return 0;
	code = work->record.code_bytes;
	stack_at = work->record.tail_words - work->record.stack_bytes / 8;
	code_at = stack_at - (code + 7) / 8;
	if (work->pieces == work->pieces_end && !code && !work->record.stack_bytes)
		return 0;
	work->record.flags |= RECORD_SECOND_LOOK;
	count(COUNT_SECOND_LOOKS);
	if (look_at_pieces(work))
		add_to(COUNT_PIECES_CHANGED, work->record.changes);
	if (code && changed_words(work, code_at, code, work->record.ip)) {
		work->record.flags |= RECORD_CODE_CHANGES;
		count(COUNT_CODE_CHANGED);
	}
	if (work->record.stack_bytes && stack_changed(work, stack_at)) {
		work->record.flags |= RECORD_STACK_CHANGES;
		count(COUNT_STACK_CHANGED);
	}
	return 0;
}

/* Walks as far as frames are wanted; says whether the first one was found by a row and, where whole
 * stacks are wanted, none was missed for want of one: then the collector needs no copy of the stack. */
static inline int walk(struct work *work)
{
	u32 index, by_row = 0, by_pointer = 0;
	int first_by_row = 0;
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
		if (step & 256)
			by_row++;
		else
			by_pointer++;
		if (!index)
			first_by_row = by_row;
	}
	if (by_row)
		add_to(COUNT_FRAMES_BY_ROW, by_row);
	if (by_pointer)
		add_to(COUNT_FRAMES_BY_POINTER, by_pointer);
	work->record.frames_end = end;
	if (end >= FRAMES_OUTERMOST && end <= FRAMES_MOST)
		count(COUNT_FRAMES_OUTERMOST + within(end - FRAMES_OUTERMOST, 7));
	work->lacks_rows = settings.frames > 1 && (by_pointer || end == FRAMES_NO_ROW);
	return first_by_row && !work->lacks_rows;
}

/* The address of the uppermost table of a process's pages. As user_registers_at. */
static inline u64 tables_of(struct work *work, struct task_struct *task)
{
	volatile u64 *address = &work->address;

	*address = (u64)task->mm->pgd;
	return *address;
}

/* Follows the way of the thread, and brings the code that it runs and what it loads. */
static INLINE void follow(struct work *work, struct task_struct *task, int called_from)
{
	struct record *record = &work->record;
	struct way *way = &work->way;
	u32 bases = 0;

	if (!work->kernel) {
		if (!way->met) {
			work->tables = tables_of(work, task);
			work->levels = settings.levels;
		}
		bases = find_bases(work, task);
	}
	/* Where no row led to the caller, the stack goes with the sample, from which it can be told. */
	way->room = TAIL_WORDS - CHANGES_SPARE;
	if (!called_from && !work->kernel)
		way->room -= settings.stack_bytes / 8 & 511;
	way->room -= work->vector_bytes / 8 & 511;
	follow_way(work, settings.most_followed, bases);
	record->outcome = OUTCOME_FOLLOWED;
	record->way_end = way->end | (way->met || work->kernel ? 0 : WAY_OF_UNKNOWN);
	/* Where it would have gone on, in two halves. */
	record->way_low = (u32)way->pc;
	record->way_high = (u32)(way->pc >> 32);
	count(COUNT_WAYS);
	if (way->end >= WAY_UNKNOWN && way->end <= WAY_END)
		count(COUNT_WAYS + within(way->end, 7));
	add_to(COUNT_FOLLOWED, way->followed);
	add_to(COUNT_DECODED, way->decoded);
	add_to(COUNT_GUESSES, way->guesses);
	add_to(COUNT_LINES, way->read);
}

/* Whether memory may be read on the way: of a process that the collector does not know, where RAM
 * is must be known. */
static INLINE int may_follow(struct work *work, struct task_struct *task)
{
	if (!work->kernel && work->way.met)
		return 1;
	allow_kernel_memory(work, task);
	return work->kernel || work->direct_map;
}

/* Whether half of the buffer is free: what waits for a reader that gets no processor time is to be
 * short then, so that there is room for more samples. */
static INLINE int has_room(void)
{
	u32 cpu = bpf_get_smp_processor_id();
	void *buffer = bpf_map_lookup_elem(&buffers, &cpu);

	return buffer &&
	       bpf_ringbuf_query(buffer, BPF_RB_AVAIL_DATA) <= settings.buffer_bytes / 2;
}

/* Frames, of the kernel none; and of some samples, which a coin tells that depends on nothing, code
 * and what the thread loads. */
static __attribute__((noinline)) int capture(struct work *work, struct task_struct *task)
{
	struct record *record = &work->record;
	int called_from = 0;

	work->lacks_rows = 0;
	if (!work->kernel && settings.frames)
		called_from = walk(work);
	work->pieces = record->tail_words;
	find_process(work);
	if (bpf_get_prandom_u32() > settings.share) {
		record->outcome = OUTCOME_WITHOUT_WAY;
		count(COUNT_WITHOUT_WAY);
	} else if (!has_room()) {
		record->outcome = OUTCOME_CROWDED;
		count(COUNT_CROWDED);
	} else if (may_follow(work, task)) {
		follow(work, task, called_from);
	} else {
		count(COUNT_NOT_TRIED);
		if (!work->kernel)
			find_bases(work, task);
	}
	work->pieces_end = record->tail_words;
	if (record->outcome == OUTCOME_NOT_TRIED)
		add_code(work, CODE_BYTES);
	/* A window takes no values from a copy, which nobody looks at a second time. */
	if (work->lacks_rows && settings.copy_bytes && record->outcome != OUTCOME_NOT_TRIED &&
	    record->period != BREAKPOINT_PERIOD && copy_stack(work, task))
		called_from = 1;
	if (!called_from)
		add_stack(work);
	if (is_written_meanwhile(work, task))
		look_again(work);
	return 0;
}

#endif
