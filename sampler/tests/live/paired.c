/* A block whose end follows from its beginning: `paired THREADS STORM`.
 *
 * Prints the addresses of its first instruction and of what lies behind it, then the number of each
 * thread. With a storm, signals come every 200 us. Their handler changes the registers of whoever
 * is within the block, jumps out of others, and runs the block itself. Runs until it is killed.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

extern char entry[], past[];
static __thread sigjmp_buf back;
static __thread uint64_t jumps;
static __thread volatile int is_running;

__attribute__((noipa)) static void turn(uint64_t count, uint64_t turns)
{
	__asm__ volatile("1:\n"
			 "movq %%rbx, %%xmm7\n"
			 ".globl entry\nentry:\n"
			 "incq %%rbx\n"
			 "movq %%rbx, %%rcx\n"
			 "imulq $0x5eed, %%rcx, %%rcx\n"
			 "leaq 7(%%rcx,%%rbx), %%rdx\n"
			 "paddq %%xmm7, %%xmm7\n"
			 ".globl past\npast:\n"
			 "xorl %%ecx, %%ecx\n"
			 "decq %1\n"
			 "jnz 1b\n"
			 : "+b"(count), "+r"(turns)
			 :
			 : "rcx", "rdx", "cc", "xmm7");
}

static void on_signal(int number, siginfo_t *info, void *context)
{
	greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
	uint64_t at = registers[REG_RIP];

	if (at > (uint64_t)entry && at < (uint64_t)past)
		registers[REG_RBX] ^= 0x100000;
	turn(jumps << 40, 1);
	if (is_running && ++jumps % 3 == 0)
		siglongjmp(back, 1);
}

static void *run(void *storm)
{
	uint64_t count = 1;

	printf("%ld\n", syscall(SYS_gettid));
	fflush(stdout);
	if (storm) {
		struct sigevent event = {
			.sigev_notify = SIGEV_THREAD_ID,
			.sigev_signo = SIGUSR1,
			._sigev_un._tid = syscall(SYS_gettid),
		};
		struct itimerspec times = { { 0, 200000 }, { 0, 200000 } };
		timer_t timer;

		if (timer_create(CLOCK_MONOTONIC, &event, &timer) ||
		    timer_settime(timer, 0, &times, 0))
			exit(1);
	}
	sigsetjmp(back, 1);
	is_running = 1;
	for (;;)
		turn(count += 1000, 1000);
	return 0;
}

int main(int argc, char **argv)
{
	int threads = argc > 1 ? atoi(argv[1]) : 1;
	void *storm = argc > 2 && atoi(argv[2]) ? &storm : 0;
	struct sigaction action = { .sa_sigaction = on_signal, .sa_flags = SA_SIGINFO };
	pthread_t thread;
	int i;

	sigaction(SIGUSR1, &action, 0);
	printf("%p %p\n", (void *)entry, (void *)past);
	for (i = 1; i < threads; i++)
		if (pthread_create(&thread, 0, run, storm))
			return 1;
	run(storm);
	return 0;
}
