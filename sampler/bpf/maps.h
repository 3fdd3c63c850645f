/*
 * What the handler shares with the crate while it runs, and how it looks into it.
 */
#ifndef VCPI_MAPS_H
#define VCPI_MAPS_H

/* Filled in before loading. */
const volatile struct settings settings SEC(".rodata.settings") = {};

struct counters_map {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct counters);
} counters SEC(".maps");

/* Decoded instructions. What stands there is advice, as what stands in the next one: it may be written
 * on one CPU while another reads. */
struct insns_map {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, INSNS);
	__uint(key_size, sizeof(u32));
	__uint(value_size, INSN_BYTES);
} insns SEC(".maps");

/* What branches did before. */
struct forks_map {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, FORKS);
	__type(key, u32);
	__type(value, struct fork);
} forks SEC(".maps");

struct rows_map {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 65536);
	__type(key, struct place_key);
	__type(value, struct row_value);
} rows SEC(".maps");

/* Processes that the collector knows: they have no devices in their memory. */
struct met_map {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, struct process_key);
	__type(value, u32);
} met SEC(".maps");

struct denials_map {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, struct process_key);
	__type(value, u32);
} denials SEC(".maps");

/* How many denials were made so far: what was found before one may be otherwise after it. */
struct denial_count_map {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u64);
} denial_count SEC(".maps");

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

static inline void add_to(u32 which, u64 number)
{
	u32 zero = 0;
	struct counters *of = bpf_map_lookup_elem(&counters, &zero);

	if (of && which < COUNTERS)
		of->of[which] += number;
}

static inline void count(u32 which)
{
	add_to(which, 1);
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

struct insn;

static inline struct insn *insn_at(u32 index)
{
	return bpf_map_lookup_elem(&insns, &index);
}

static inline int may_read(struct work *work, u64 address);

static inline struct fork *fork_at(u32 index)
{
	return bpf_map_lookup_elem(&forks, &index);
}

#define SUBPROGRAM __attribute__((noinline))
#include "capture.h"
#include "second_look.h"
#include "way.h"
#include "tables.h"

struct works_map {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct work);
} works SEC(".maps");

/* A copy of a stack in the making, and room for a page more, which the verifier asks for. */
struct copy {
	struct stack_copy head;
	u8 bytes[MAX_COPY_BYTES + 8192];
};

/* One of each CPU: more than a map of CPUs' own values may hold. Only with settings.copy_bytes. */
struct copies_map {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct copy);
} copies SEC(".maps");

/* Whether memory of the process may be read. */
static INLINE int may_read(struct work *work, u64 address)
{
	return work->way.met || may_read_page(work, address);
}

static inline void name_process(const struct record *record, struct process_key *key)
{
	key->tgid = record->tgid;
	key->exec_count = record->exec_count;
	key->start_time = record->start_time;
}

static inline int same_process(const struct process_key *a, const struct process_key *b)
{
	return a->start_time == b->start_time && a->tgid == b->tgid &&
	       a->exec_count == b->exec_count;
}

static inline int same_place(const struct place_key *a, const struct place_key *b)
{
	return a->address == b->address && same_process(&a->process, &b->process);
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
	name_process(&work->record, &key->process);
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

/* What the collector knows of the process. */
static inline void find_process(struct work *work)
{
	struct process_key key;
	u32 *known;

	name_process(&work->record, &key);
	known = work->kernel ? 0 : bpf_map_lookup_elem(&met, &key);
	work->way.met = known != 0;
	work->way.again = known ? *known : 0;
}

#endif
