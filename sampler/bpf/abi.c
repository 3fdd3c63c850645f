/*
 * The types of shared.h that the build makes Rust of, for the debug information of this file: what
 * the compiler says there of sizes, offsets and numbers is what holds for the handler. Nothing of
 * it is ever run.
 */
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef signed char s8;
typedef int s32;

#include "shared.h"

struct shared {
	struct process_key process_key;
	struct place_key place_key;
	struct row row;
	struct row_value row_value;
	struct range range;
	struct settings settings;
	struct record record;
	struct stack_copy stack_copy;
	struct block_operand block_operand;
	struct trapped trapped;
	struct waker waker;
	struct cycles_key cycles_key;
	struct cycles_value cycles_value;
	struct raised_page raised_page;
	struct counters counters;
	enum shared_limits shared_limits;
	enum row_kind row_kind;
	enum row_rbp row_rbp;
	enum way_end way_end;
	enum way_end_bits way_end_bits;
	enum denial denial;
	enum target target;
	enum timer_start timer_start;
	enum settings_bits settings_bits;
	enum counter_limits counter_limits;
	enum context context;
	enum outcome outcome;
	enum frames_end frames_end;
	enum record_bits record_bits;
	enum handlers_bits handlers_bits;
};

struct shared shared;

/* Enumerations of which each number has a name and a meaning. */
struct named {
	enum handler_counter counter;
};

struct named named;

/* Of each counter its name and what it counts, each with a zero behind it. */
#define COUNTER_TEXT(of, name, meaning) name "\0" meaning "\0"
const char counter_texts[] __attribute__((section(".abi.texts"))) = COUNTER_TABLE(COUNTER_TEXT);
