/*
 * The kernel's types, as far as the handler looks into them. Offsets are those of the running
 * kernel: libbpf relocates every access to a field (CO-RE), so only names and kinds matter here,
 * and nothing depends on the kernel of the machine that builds.
 *
 * A suffix after ___ is not part of the name: such types are the same one in different versions.
 */
#ifndef VCPI_KERNEL_TYPES_H
#define VCPI_KERNEL_TYPES_H

#include <linux/bpf.h>
#include <stdbool.h>

typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __u64 u64;
typedef __s8 s8;
typedef __s16 s16;
typedef __s32 s32;
typedef __s64 s64;

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct upid {
	int nr;
};

struct pid {
	struct upid numbers[1];
};

struct tty_driver {
	int major;
	int minor_start;
};

struct tty_struct {
	int index;
	struct tty_driver *driver;
};

typedef struct {
	unsigned long sig[1];
} sigset_t;

struct sigpending {
	sigset_t signal;
};

union __sifields {
	struct {
		void *_addr;
	} _sigfault;
};

struct kernel_siginfo {
	union __sifields _sifields;
};

typedef struct {
	int counter;
} atomic_t;

struct sigaction {
	void *sa_handler;
};

struct k_sigaction {
	struct sigaction sa;
};

struct sighand_struct {
	struct k_sigaction action[64];
};

struct signal_struct {
	atomic_t live;
	struct pid *pids[4];
	struct tty_struct *tty;
	struct sigpending shared_pending;
};

typedef struct {
	u32 val;
} kuid_t;

typedef struct {
	u32 val;
} kgid_t;

typedef struct {
	u64 val;
} kernel_cap_t;

/* Up to Linux 6.2. */
typedef struct {
	u32 cap[2];
} kernel_cap_words_t;

struct cred___words {
	kernel_cap_words_t cap_permitted;
};

/* From Linux 6.3, as to cap_permitted. */
struct cred {
	kuid_t uid;
	kgid_t gid;
	kuid_t suid;
	kuid_t euid;
	kgid_t egid;
	kernel_cap_t cap_permitted;
};

/* Up to Linux 6.17. */
struct mm_struct___word {
	unsigned long flags;
};

/* From Linux 6.18. */
typedef struct {
	unsigned long __mm_flags[1];
} mm_flags_t;

struct mm_struct___bitmap {
	mm_flags_t flags;
};

typedef struct {
	u16 pkey_allocation_map;
} mm_context_t;

typedef struct {
	unsigned long pgd;
} pgd_t;

struct mm_struct {
	atomic_t mm_users;
	pgd_t *pgd;
	/* Where the first thread's stack began. */
	unsigned long start_stack;
	mm_context_t context;
};

struct kernfs_node {
	u64 id;
};

/* The first field of its group. */
struct cgroup_subsys_state {
	struct cgroup_subsys_state *parent;
};

struct cgroup {
	struct cgroup_subsys_state self;
	struct kernfs_node *kn;
};

struct css_set {
	struct cgroup *dfl_cgrp;
};

struct thread_struct {
	unsigned short fsindex;
	unsigned short gsindex;
	unsigned long fsbase;
	unsigned long gsbase;
};

/* Where it begins is what matters. */
union fpregs_state {
	char xsave[1];
};

struct fpstate {
	unsigned int size;
	union fpregs_state regs;
};

/* From Linux 5.16. */
struct fpu {
	struct fpstate *fpstate;
};

/* Before. */
struct fpu___inline {
	union fpregs_state state;
};

/* Up to Linux 6.15. */
struct thread_struct___fpu {
	struct fpu fpu;
};

struct task_struct {
	unsigned int __state;
	unsigned long nvcsw;
	unsigned long nivcsw;
	unsigned int flags;
	unsigned int ptrace;
	int prio;
	unsigned int policy;
	int pid;
	int tgid;
	void *stack;
	struct mm_struct *mm;
	struct task_struct *real_parent;
	struct task_struct *group_leader;
	u64 start_boottime;
	const struct cred *real_cred;
	char comm[16];
	struct signal_struct *signal;
	struct sighand_struct *sighand;
	sigset_t blocked;
	struct sigpending pending;
	u64 self_exec_id;
	struct css_set *cgroups;
	struct thread_struct thread;
};

#pragma clang attribute pop

/* How deep control groups are followed. */
#define MAX_CGROUP_LEVELS 32

/* Indices into signal_struct.pids. */
#define PID_OF_GROUP 2
#define PID_OF_SESSION 3

/* Bytes of a task's stack in the kernel: without, and more than with, what debugging adds. */
#define SMALLEST_STACK (1 << 14)
#define LARGEST_STACK (1 << 17)

/* Bits of task_struct.flags. */
#define TASK_IS_KERNEL_THREAD 0x00200000

/* Signals that exceptions are told by. */
#define SIGNAL_BUS 7
#define SIGNAL_FPE 8
#define SIGNAL_SEGV 11

/* sa_handler, if it is no handler: 0 (the default) or 1 (to be ignored). */
#define LAST_NO_HANDLER 1

/* The key that every program has for all its memory. */
#define FIRST_KEYS 1

/* The low bits of mm_struct.flags: who may dump its memory. */
#define DUMPABLE_MASK 3
#define DUMPABLE_BY_USER 1
/* Pages of it are pinned for others, or were; the second bit up to Linux 5.18. Elsewhere it says
 * something else, which costs a few processes a second look. */
#define HAS_PINNED_MASK (1UL << 27 | 1UL << 28)

#endif
