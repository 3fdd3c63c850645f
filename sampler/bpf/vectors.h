/*
 * Vector registers of ordinary samples.
 *
 * An interrupt shows the general registers; the others are still in the processor, where no program
 * of this kind can read them. They are in memory once another thread has used the processor's, and
 * are loaded again before the thread goes on. So a second record is made of some samples:
 *
 *  1. The handler notes what it sampled, and wakes the CPU's waker: a real-time thread that does
 *     nothing but sleep again. It preempts the thread before that has run another instruction.
 *  2. `on_switch` sees the waker take the thread's place, and marks the thread: if it still stands
 *     where it was sampled, on its way out of an interrupt.
 *  3. `on_activated` runs when the registers have just been loaded again, interrupts being off. The
 *     kernel's copy of them is then what the processor has. If the thread has not run since, the
 *     second record brings them, and is made as the first one was: its way is followed anew, now
 *     with the vectors, and memory is read anew, which is what the thread's next loads will see.
 *
 * Breakpoints (breakpoints.rs) bring vector registers in the same way.
 *
 * What is refused is counted by its reason, and the first record is all that there is. A mark is of
 * one CPU: of a thread that goes on elsewhere no second record comes, and one that comes back has
 * been switched since.
 *
 * Both programs below run with interrupts off. The handler may interrupt them all the same, where
 * the clock's interrupts cannot be masked; so they have a struct work of their own, and the handler
 * asks for nothing unless it has interrupted user code.
 */
#ifndef VCPI_VECTORS_H
#define VCPI_VECTORS_H

#include "sample.h"

/* Of each CPU, by its number. */
struct wakers_map {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct waker);
} wakers SEC(".maps");

/* By what the handler wakes a waker; of each CPU, by its number. */
struct wakes_map {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 1);
	__type(key, u32);
	__array(values, struct buffer);
} wakes SEC(".maps");

/* awaited.state */
#define AWAITED_NOTHING 0
/* The waker was woken. */
#define AWAITED_SWITCH 1
/* It has taken the thread's place. */
#define AWAITED_RETURN 2

/* The thread whose vector registers are awaited, and the registers of its sample. */
struct awaited {
	u64 task, time, next;
	u32 tid, state;
	/* How often the thread was switched away by the mark. */
	u64 switches;
	/* On their way from a pointer to a number. */
	u64 address;
	u64 saved[21];
	u64 now[REGISTER_WORDS];
	u64 registers[REGISTER_WORDS];
};

/* Of each CPU, by its number. */
struct awaiting_map {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct awaited);
} awaiting SEC(".maps");

/* What second records are made in. */
struct second_works_map {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct work);
} second_works SEC(".maps");

/* The part of a saved state that has all vectors of 16 and 32 bytes, and of one with more. */
#define SMALL_STATE 832

/* Words of it. */
#define STATE_SSE 20
#define STATE_BITS 64
#define STATE_FORM 65
#define STATE_AVX 72

/* Bits of the components, and what says that components lie one behind the other. */
#define HAS_SSE 2
#define HAS_AVX 4
#define HAS_MASKS 32
#define HAS_UPPER 64
#define HAS_MORE 128
#define IS_COMPACT (1ULL << 63)

struct vector_state {
	u64 words[512];
};

struct vector_states_map {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct vector_state);
} vector_states SEC(".maps");

/* Wakes the waker: the vector registers of the thread are to be brought, of what has the registers
 * work->registers. The second record will have this time as its period. 0 if it was woken. */
static __attribute__((noinline)) int wake(struct work *work, struct task_struct *task, u64 time)
{
	u32 cpu = bpf_get_smp_processor_id();
	struct awaited *awaited = bpf_map_lookup_elem(&awaiting, &cpu);
	void *ring = bpf_map_lookup_elem(&wakes, &cpu);
	u64 nothing = 0;
	u32 index;

	if (!awaited || !ring)
		return -1;
	if (awaited->state == AWAITED_SWITCH)
		count(COUNT_VECTORS_NO_SWITCH);
	else if (awaited->state == AWAITED_RETURN)
		count(COUNT_VECTORS_NO_RETURN);
	awaited->state = AWAITED_NOTHING;
	awaited->time = time;
	awaited->task = (u64)task;
	awaited->tid = work->record.tid;
	for (index = 0; index < REGISTER_WORDS; index++)
		awaited->registers[index] = work->registers[index];
	awaited->registers[REGISTER_FLAGS] &= ~(u64)RESUMES;
	if (bpf_ringbuf_output(ring, &nothing, sizeof(nothing), BPF_RB_FORCE_WAKEUP)) {
		count(COUNT_VECTORS_NOT_WOKEN);
		return -1;
	}
	awaited->state = AWAITED_SWITCH;
	count(COUNT_VECTORS_AWAITED);
	return 0;
}

/* The period of the second record from an end of a block. */
static inline u64 name_stop(const struct trapped *thread, u64 is_exit)
{
	return 1ULL << STOP_BIT | (u64)thread->attempt << 1 | is_exit;
}

/* The CPU's waker, if it has one. */
static inline struct waker *find_waker(void)
{
	u32 cpu = bpf_get_smp_processor_id();
	struct waker *waker = bpf_map_lookup_elem(&wakers, &cpu);

	return waker && waker->tid ? waker : 0;
}

/* Whether it is this sample's turn to bring vectors, and it lacks any. */
static inline int is_chosen(struct work *work, struct waker *waker)
{
	struct record *record = &work->record;
	u32 cpu = bpf_get_smp_processor_id();
	struct awaited *awaited;

	if (!waker->share || bpf_get_prandom_u32() > waker->share)
		return 0;
	if (!work->way.lacks) {
		record->flags |= RECORD_VECTORS_COMPLETE;
		count(COUNT_VECTORS_COMPLETE);
		return 0;
	}
	awaited = bpf_map_lookup_elem(&awaiting, &cpu);
	if (!awaited)
		return 0;
	if (record->time < awaited->next) {
		count(COUNT_VECTORS_TOO_OFTEN);
		return 0;
	}
	awaited->next = record->time + waker->pause;
	return 1;
}

/* Has the vector registers of the sample that is being made brought behind it, if the coin says so:
 * those of which nothing lacks need no second record. Of a breakpoint they are brought if whoever
 * set it wants them. */
static __attribute__((noinline)) int ask_for_vectors(struct work *work, struct task_struct *task)
{
	struct record *record = &work->record;
	struct waker *waker = find_waker();
	struct trapped *thread;

	if (!waker || record->outcome != OUTCOME_FOLLOWED || work->kernel)
		return 0;
	if (record->period == BREAKPOINT_PERIOD) {
		thread = find_trapped();
		if (thread && thread->wants_vectors)
			wake(work, task, name_stop(thread, 0));
		return 0;
	}
	if (is_chosen(work, waker) && !wake(work, task, record->time))
		record->flags |= RECORD_VECTORS_AWAITED;
	return 0;
}

/* Asks for the vector registers of a thread that a breakpoint has stopped. What is in the general
 * registers the event says. */
static inline void ask_at_breakpoint(struct interrupt *interrupt, u64 period)
{
	struct task_struct *task = bpf_get_current_task_btf();
	u32 zero = 0;
	struct work *work = bpf_map_lookup_elem(&works, &zero);

	if (!work || !find_waker() || !is_wanted(work, task))
		return;
	COPY_REGISTERS(work->registers, interrupt->registers);
	wake(work, task, period);
}

/* A breakpoint where a block ends. */
SEC("perf_event")
int on_exit_of_block(struct interrupt *interrupt)
{
	struct trapped *thread = find_trapped();

	if (!thread || !thread->entered || thread->left)
		return 1;
	leave_block(thread);
	if (thread->wants_vectors)
		ask_at_breakpoint(interrupt, name_stop(thread, 1));
	return 1;
}

/* A breakpoint at the entry of a function, or where a call returns to. */
SEC("perf_event")
int on_entry_of_function(struct interrupt *interrupt)
{
	ask_at_breakpoint(interrupt, ENTRY_PERIOD);
	return 1;
}

/* Whether the thread's user registers are those of its sample. They are in awaited->saved then. */
static inline int stands_at_sample(struct awaited *awaited, struct task_struct *task)
{
	volatile u64 *address = &awaited->address;
	u64 differ = 0;
	u32 index;

	*address = bpf_task_pt_regs(task);
	if (!*address || read_kernel(awaited->saved, sizeof(awaited->saved), *address))
		return 0;
	COPY_REGISTERS(awaited->now, awaited->saved);
	/* The kernel turns it on behind a breakpoint, and the next instruction off. */
	awaited->now[REGISTER_FLAGS] &= ~(u64)RESUMES;
	for (index = 0; index < REGISTER_WORDS; index++)
		differ |= awaited->now[index] ^ awaited->registers[index];
	return !differ;
}

/* Whether the thread came into the kernel by an interrupt: the word below its registers says where
 * the interrupt's handler returns to. */
static inline int came_by_interrupt(struct awaited *awaited)
{
	struct range entries;
	u64 caller = 0;

	entries.start = settings.entries.start;
	entries.end = settings.entries.end;
	return !read_kernel(&caller, sizeof(caller), awaited->address - sizeof(caller)) &&
	       is_within(&entries, caller);
}

/* The waker takes a place: that of the thread that was sampled, at the end of the interrupt? */
SEC("tp_btf/sched_switch")
int BPF_PROG(on_switch, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	u32 cpu = bpf_get_smp_processor_id();
	struct waker *waker = bpf_map_lookup_elem(&wakers, &cpu);
	struct awaited *awaited;

	if (!waker || next->pid != (int)waker->tid)
		return 0;
	awaited = bpf_map_lookup_elem(&awaiting, &cpu);
	if (!awaited || awaited->state != AWAITED_SWITCH)
		return 0;
	awaited->state = AWAITED_NOTHING;
	if ((u64)prev != awaited->task || prev->pid != (int)awaited->tid) {
		count(COUNT_VECTORS_OTHER_THREAD);
		return 0;
	}
	if (preempt || prev->__state) {
		count(COUNT_VECTORS_IN_KERNEL);
		return 0;
	}
	if (!stands_at_sample(awaited, prev)) {
		count(COUNT_VECTORS_RAN_ON);
		return 0;
	}
	if (!came_by_interrupt(awaited)) {
		count(COUNT_VECTORS_NO_INTERRUPT);
		return 0;
	}
	awaited->switches = prev->nvcsw + prev->nivcsw;
	awaited->state = AWAITED_RETURN;
	return 0;
}

/* The thread's own state of the processor's registers. */
static inline u64 state_of(struct task_struct *task)
{
	struct thread_struct___fpu *thread = (void *)&task->thread;

	if (bpf_core_field_exists(thread->fpu))
		return (u64)&thread->fpu;
	return (u64)task + bpf_core_type_size(struct task_struct);
}

/* Reads the registers that were saved; how many bytes, or 0. */
static inline u32 read_vectors(struct vector_state *state, struct fpu *fpu)
{
	struct fpu___inline *old = (void *)fpu;
	u64 from;
	u32 size;

	if (bpf_core_field_exists(fpu->fpstate)) {
		struct fpstate *fpstate = fpu->fpstate;

		if (!fpstate)
			return 0;
		size = BPF_CORE_READ(fpstate, size);
		from = (u64)fpstate + bpf_core_field_offset(fpstate->regs);
	} else if (bpf_core_field_exists(old->state)) {
		size = bpf_core_type_size(union fpregs_state);
		from = (u64)fpu + bpf_core_field_offset(old->state);
	} else {
		return 0;
	}
	if (size < SMALL_STATE || read_kernel(state->words, SMALL_STATE, from))
		return 0;
	if (!(state->words[STATE_BITS] & (HAS_MASKS | HAS_UPPER | HAS_MORE)))
		return SMALL_STATE;
	if (size > MOST_STATE)
		size = MOST_STATE;
	if (size <= SMALL_STATE || read_kernel(state->words, size, from))
		return 0;
	return size & ~7U;
}

/* Tells the way what is in the vector registers: of those that a wider processor adds only that
 * they are zero, if they are. */
SUBPROGRAM int give_vectors(struct work *work, struct vector_state *state)
{
	struct way *way;
	u64 bits, upper, zero = 0;
	u32 index;

	if (!work || !state)
		return 0;
	way = &work->way;
	bits = state->words[STATE_BITS];
	upper = bits & HAS_UPPER ? 0 : 0xf0;
	/* In every form this component is the first one. */
	if (state->words[STATE_FORM] & IS_COMPACT && !(state->words[STATE_FORM] & HAS_AVX))
		bits &= ~(u64)HAS_AVX;
	for (index = 0; index < 16; index++) {
		u64 *to = way->vectors[index];

		to[0] = bits & HAS_SSE ? state->words[STATE_SSE + 2 * index] : zero;
		to[1] = bits & HAS_SSE ? state->words[STATE_SSE + 2 * index + 1] : zero;
		to[2] = bits & HAS_AVX ? state->words[STATE_AVX + 2 * index] : zero;
		to[3] = bits & HAS_AVX ? state->words[STATE_AVX + 2 * index + 1] : zero;
		to[4] = to[5] = to[6] = to[7] = 0;
	}
	for (index = 16; index < 32; index++) {
		u32 word;

		for (word = 0; word < 8; word++)
			way->vectors[index][word] = 0;
	}
	for (index = 0; index < 8; index++)
		way->masks[index] = 0;
	upper = (upper | 0xf) * 0x0101010101010101ULL;
	way->vector_known[0] = upper;
	way->vector_known[1] = upper;
	way->vector_known[2] = bits & HAS_MORE ? 0 : ~0ULL;
	way->vector_known[3] = bits & HAS_MORE ? 0 : ~0ULL;
	way->mask_known = bits & HAS_MASKS ? 0 : 0xff;
	way->lanes.kept_of = 0;
	return 0;
}

/* Frames, code, and what the thread loads, with the vectors known; 0, or -1 if there is no way. */
static __attribute__((noinline)) int capture_second(struct work *work, struct task_struct *task)
{
	int called_from = 0;

	if (settings.frames)
		called_from = walk(work);
	work->pieces = work->record.tail_words;
	find_process(work);
	if (!has_room() || !may_follow(work, task))
		return -1;
	work->way.given = 1;
	follow(work, task, called_from);
	work->way.given = 0;
	work->pieces_end = work->record.tail_words;
	if (!called_from)
		add_stack(work);
	if (is_written_meanwhile(work, task))
		look_again(work);
	return 0;
}

/* Hands over a second record, and counts it. */
static inline void deliver_second(struct work *work)
{
	work->record.flags |= RECORD_SECOND;
	if (deliver(work)) {
		work->missed = 0;
		count(COUNT_VECTORS_NO_ROOM);
	} else {
		count(COUNT_VECTORS_BROUGHT);
	}
}

/* The record with what lies in the vector arguments of a function: the lower word of each. */
static __attribute__((noinline)) int take_arguments(struct work *work, struct vector_state *state)
{
	u64 has_any = state->words[STATE_BITS] & HAS_SSE;
	u32 index;

	for (index = 0; index < VECTOR_ARGUMENTS; index++)
		work->tail[index] = has_any ? state->words[STATE_SSE + 2 * index] : 0;
	work->record.tail_words = VECTOR_ARGUMENTS;
	work->record.vector_words = VECTOR_ARGUMENTS;
	deliver_second(work);
	return 0;
}

/* The record with the vector registers of the sample at awaited->time. Behind all else are the
 * registers, as the processor saved them. */
static __attribute__((noinline)) int take_second(struct work *work, struct task_struct *task,
						 struct vector_state *state)
{
	struct record *record = &work->record;
	u64 now;
	u32 used, bytes = work->vector_bytes & 4095;

	if (!begin_sample(work, task, work->time_of_first)) {
		count(COUNT_VECTORS_DENIED);
		return 0;
	}
	if (work->time_of_first == ENTRY_PERIOD)
		return take_arguments(work, state);
	if (capture_second(work, task)) {
		count(COUNT_VECTORS_NO_WAY);
		return 0;
	}
	used = record->tail_words & (TAIL_WORDS - 1);
	if (bytes > MOST_STATE || used + bytes / 8 >= TAIL_WORDS ||
	    bpf_probe_read_kernel(&work->tail[used], bytes, state)) {
		count(COUNT_VECTORS_NO_ROOM);
		return 0;
	}
	record->tail_words = used + bytes / 8;
	record->vector_words = bytes / 8;
	deliver_second(work);
	now = bpf_ktime_get_ns();
	if (now > record->time)
		add_to(COUNT_HANDLER_NS, now - record->time);
	return 0;
}

/* The registers of the thread that runs were loaded from memory, and it is about to go on. */
SEC("tp_btf/x86_fpu_regs_activated")
int BPF_PROG(on_activated, struct fpu *fpu)
{
	u32 zero = 0, cpu = bpf_get_smp_processor_id();
	struct awaited *awaited = bpf_map_lookup_elem(&awaiting, &cpu);
	struct task_struct *task;
	struct vector_state *state;
	struct work *work;

	if (!awaited || awaited->state != AWAITED_RETURN)
		return 0;
	task = bpf_get_current_task_btf();
	if ((u64)task != awaited->task || task->pid != (int)awaited->tid)
		return 0;
	awaited->state = AWAITED_NOTHING;
	if (task->nvcsw + task->nivcsw != awaited->switches) {
		count(COUNT_VECTORS_SWITCHED);
		return 0;
	}
	/* A signal's handler, say. */
	if (!stands_at_sample(awaited, task)) {
		count(COUNT_VECTORS_ELSEWHERE);
		return 0;
	}
	work = bpf_map_lookup_elem(&second_works, &zero);
	state = bpf_map_lookup_elem(&vector_states, &zero);
	if (!work || !state) {
		count(COUNT_NO_SCRATCH);
		return 0;
	}
	if ((u64)fpu != state_of(task)) {
		count(COUNT_VECTORS_UNREADABLE);
		return 0;
	}
	work->vector_bytes = read_vectors(state, fpu);
	if (!work->vector_bytes) {
		count(COUNT_VECTORS_UNREADABLE);
		return 0;
	}
	if (!is_wanted(work, task))
		return 0;
	COPY_REGISTERS(work->registers, awaited->saved);
	work->time_of_first = awaited->time;
	give_vectors(work, state);
	take_second(work, task, state);
	return 0;
}

#endif
