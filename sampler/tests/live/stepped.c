/*
 * Executes a program instruction by instruction, and writes what its threads have in their
 * registers before each: what ptrace tells, for records of the same moment to be held against.
 *
 *   stepped LOG STEPS BURST PAUSE PROGRAM [ARGUMENT...]
 *
 * All threads and children of the program are traced. Each runs free for PAUSE microseconds, is
 * then stepped BURST times on a processor that is drawn anew, and so on, until STEPS steps are
 * written or the program ends. A record of the log is a struct step and the saved registers.
 */
#define _GNU_SOURCE
#include <elf.h>
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MOST_THREADS 64
#define MOST_STATE 4096

struct step {
	/* Around the step, in nanoseconds of CLOCK_MONOTONIC. */
	uint64_t before, after;
	uint64_t tid;
	/* Bytes of saved registers that follow. */
	uint64_t bytes;
	struct user_regs_struct registers;
};

struct thread {
	pid_t tid;
	/* Steps that are left of a burst; 0: it runs free. */
	long left;
	/* A step is under way. */
	int stepping;
	struct step step;
	unsigned char state[MOST_STATE];
};

static struct thread threads[MOST_THREADS];
static FILE *logged;
static long steps_left, burst;

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

static uint64_t now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000000000ull + time.tv_nsec;
}

static void on_alarm(int signal)
{
	(void)signal;
}

static struct thread *find(pid_t tid)
{
	int i;

	for (i = 0; i < MOST_THREADS; i++)
		if (threads[i].tid == tid)
			return &threads[i];
	for (i = 0; i < MOST_THREADS; i++) {
		if (threads[i].tid)
			continue;
		memset(&threads[i], 0, sizeof(threads[i]));
		threads[i].tid = tid;
		threads[i].left = burst;
		return &threads[i];
	}
	fprintf(stderr, "too many threads\n");
	exit(1);
}

/* Another processor, perhaps. This process goes with it: a step is a plain switch then. */
static void move(pid_t tid)
{
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET(rand() % sysconf(_SC_NPROCESSORS_ONLN), &one);
	sched_setaffinity(tid, sizeof(one), &one);
	sched_setaffinity(0, sizeof(one), &one);
}

/* The step that has ended. */
static void write_step(struct thread *thread)
{
	thread->step.after = now();
	thread->stepping = 0;
	if (fwrite(&thread->step, sizeof(thread->step), 1, logged) != 1 ||
	    fwrite(thread->state, thread->step.bytes, 1, logged) != 1)
		fail("the log");
	steps_left--;
}

/* Lets a stopped thread go on, by one instruction or freely. That it is gone shows itself later. */
static void go_on(struct thread *thread, int signal)
{
	struct iovec part = { thread->state, sizeof(thread->state) };

	if (thread->left <= 0) {
		ptrace(PTRACE_CONT, thread->tid, 0, signal);
		return;
	}
	if (--thread->left % 256 == 0)
		move(thread->tid);
	if (ptrace(PTRACE_GETREGS, thread->tid, 0, &thread->step.registers) ||
	    ptrace(PTRACE_GETREGSET, thread->tid, NT_X86_XSTATE, &part)) {
		ptrace(PTRACE_CONT, thread->tid, 0, signal);
		return;
	}
	thread->step.tid = thread->tid;
	thread->step.bytes = part.iov_len;
	/* With a signal its handler's first instruction is stopped at, and nothing is executed. */
	thread->stepping = !signal;
	thread->step.before = now();
	ptrace(PTRACE_SINGLESTEP, thread->tid, 0, signal);
}

static void stopped(pid_t tid, int status)
{
	struct thread *thread = find(tid);
	int signal = WSTOPSIG(status), event = status >> 16;

	if (thread->stepping)
		write_step(thread);
	if (event == PTRACE_EVENT_STOP && signal != SIGTRAP) {
		ptrace(PTRACE_LISTEN, tid, 0, 0);
		return;
	}
	if (event || signal == SIGTRAP)
		signal = 0;
	go_on(thread, signal);
}

/* Stops what runs free, for another burst. */
static void interrupt_all(void)
{
	int i;

	for (i = 0; i < MOST_THREADS; i++) {
		if (!threads[i].tid || threads[i].left > 0)
			continue;
		threads[i].left = burst;
		ptrace(PTRACE_INTERRUPT, threads[i].tid, 0, 0);
	}
}

static pid_t start(char **command)
{
	long options = PTRACE_O_EXITKILL | PTRACE_O_TRACECLONE | PTRACE_O_TRACEFORK |
		       PTRACE_O_TRACEVFORK | PTRACE_O_TRACEEXEC;
	pid_t child = fork();

	if (child < 0)
		fail("fork");
	if (!child) {
		raise(SIGSTOP);
		execvp(command[0], command);
		fail(command[0]);
	}
	if (waitpid(child, NULL, WUNTRACED) != child || ptrace(PTRACE_SEIZE, child, 0, options) ||
	    kill(child, SIGCONT))
		fail("a program cannot be traced");
	return child;
}

int main(int argc, char **argv)
{
	struct sigaction action = { .sa_handler = on_alarm };
	struct itimerval pause = { 0 };

	if (argc < 6)
		return 2;
	logged = fopen(argv[1], "w");
	if (!logged)
		fail(argv[1]);
	steps_left = atol(argv[2]);
	burst = atol(argv[3]);
	pause.it_interval.tv_usec = pause.it_value.tv_usec = atol(argv[4]);
	start(argv + 5);
	/* Interrupts the wait below. */
	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &pause, NULL);
	while (steps_left > 0) {
		int status;
		pid_t tid = waitpid(-1, &status, __WALL);

		if (tid < 0 && errno == EINTR) {
			interrupt_all();
			continue;
		}
		if (tid < 0)
			break;
		if (WIFSTOPPED(status))
			stopped(tid, status);
		else
			memset(find(tid), 0, sizeof(threads[0]));
	}
	/* What is traced ends with this process. */
	return fclose(logged) ? 1 : 0;
}
