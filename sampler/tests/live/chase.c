/*
 * Loads whose values follow from registers: a ring of nodes that are chased by their pointers, a
 * table indexed by what they hold, and a constant beside the code. The loop lies at the end of a
 * chain of three calls, all with frame pointers.
 *
 * Prints, then runs until its input ends: the addresses of the loop's begin and end, of the nodes,
 * of the table and of the constant.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#define NODES 1021
#define STEP 389

struct node {
	struct node *next;
	uint32_t index;
	uint32_t unused;
	uint64_t padding[6];
};

struct node nodes[NODES];
uint64_t table[NODES];
uint64_t constant = 0x5eed5eed12345678;

extern char loop_begin[], loop_end[];

__attribute__((noinline)) static void chase(void)
{
	__asm__ volatile(
		"loop_begin:\n\t"
		"mov (%%rdi), %%rdi\n\t"
		"mov 8(%%rdi), %%eax\n\t"
		"mov (%%rsi,%%rax,8), %%rdx\n\t"
		"mov constant(%%rip), %%rcx\n\t"
		"add %%rdx, %%rcx\n\t"
		"xor %%rcx, %%rdx\n\t"
		"jmp loop_begin\n"
		"loop_end:\n\t"
		:
		: "D"(nodes), "S"(table)
		: "rax", "rcx", "rdx", "memory");
}

__attribute__((noinline)) static void inner(void)
{
	chase();
	__asm__ volatile("");
}

__attribute__((noinline)) static void *outer(void *nothing)
{
	inner();
	__asm__ volatile("");
	return nothing;
}

int main(void)
{
	pthread_t thread;
	char byte;
	int i;

	for (i = 0; i < NODES; i++) {
		nodes[i].next = &nodes[(i + STEP) % NODES];
		nodes[i].index = i;
		table[i] = (uint64_t)i * 0x9e3779b97f4a7c15;
	}
	printf("%llu\n%llu\n%llu\n%llu\n%llu\n", (unsigned long long)loop_begin,
	       (unsigned long long)loop_end, (unsigned long long)nodes,
	       (unsigned long long)table, (unsigned long long)&constant);
	fflush(stdout);
	if (pthread_create(&thread, NULL, outer, NULL))
		return 1;
	while (read(0, &byte, 1) > 0)
		;
	return 0;
}
