/*
 * A loop whose registers belong together, and everything that changes a thread's registers from
 * outside of it: signals between any two instructions, whose handler runs the same loop with other
 * values, and a tracer that, for as long as each system call takes, lets the saved registers say that
 * the thread is in the middle of the loop, with values that do not belong together.
 *
 * Prints where the loop begins and ends, and the ids of both processes, each on a line.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/time.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

/* While the loop turns, rbx is rax + 1, and so on in the order of the encoding, but for rcx and rsp. */
void tagged(unsigned long tag, unsigned long turns);
extern char begin_of_loop, end_of_loop;

asm(".globl tagged, begin_of_loop, end_of_loop\n"
    "tagged:\n"
    "	push %rbx\n	push %rbp\n	push %r12\n	push %r13\n	push %r14\n	push %r15\n"
    "	mov %rdi, %rax\n	mov %rsi, %rcx\n"
    "	lea 2(%rax), %rdx\n	lea 3(%rax), %rbx\n	lea 5(%rax), %rbp\n"
    "	lea 6(%rax), %rsi\n	lea 7(%rax), %rdi\n	lea 8(%rax), %r8\n"
    "	lea 9(%rax), %r9\n	lea 10(%rax), %r10\n	lea 11(%rax), %r11\n"
    "	lea 12(%rax), %r12\n	lea 13(%rax), %r13\n	lea 14(%rax), %r14\n"
    "	lea 15(%rax), %r15\n"
    "begin_of_loop:\n"
    "	dec %rcx\n	nop\n	jnz begin_of_loop\n"
    "end_of_loop:\n"
    "	pop %r15\n	pop %r14\n	pop %r13\n	pop %r12\n	pop %rbp\n	pop %rbx\n"
    "	ret\n");

static void on_signal(int signal)
{
	(void)signal;
	tagged(0x5151000000000000UL, 20000);
}

static void traced(void)
{
	static char bytes[16384];
	struct itimerval often = { { 0, 700 }, { 0, 700 } };
	unsigned long tag = 0;
	int zeros = open("/dev/urandom", O_RDONLY);

	signal(SIGALRM, on_signal);
	ptrace(PTRACE_TRACEME, 0, 0, 0);
	raise(SIGSTOP);
	setitimer(ITIMER_REAL, &often, NULL);
	for (;;) {
		tagged(++tag << 20, 100000);
		if (read(zeros, bytes, sizeof(bytes)) < 0)
			_exit(1);
	}
}

int main(void)
{
	struct user_regs_struct true_ones, false_ones, before;
	int status, within = 0;
	pid_t child = fork();

	if (child == 0)
		traced();
	waitpid(child, &status, 0);
	ptrace(PTRACE_SETOPTIONS, child, 0, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL);
	printf("%lu\n%lu\n%d\n%d\n", (unsigned long)&begin_of_loop, (unsigned long)&end_of_loop,
	       getpid(), child);
	fflush(stdout);
	for (int pass = 0;;) {
		if (ptrace(PTRACE_SYSCALL, child, 0, pass) < 0 || waitpid(child, &status, 0) < 0 ||
		    !WIFSTOPPED(status))
			return 1;
		pass = 0;
		if (WSTOPSIG(status) != (SIGTRAP | 0x80)) {
			pass = WSTOPSIG(status);
			continue;
		}
		within = !within;
		ptrace(PTRACE_GETREGS, child, 0, &true_ones);
		if (within) {
			false_ones = true_ones;
			false_ones.rip = (unsigned long)&begin_of_loop;
			false_ones.rbx = false_ones.rbp = false_ones.r12 = 0xbad;
			ptrace(PTRACE_SETREGS, child, 0, &false_ones);
			before = true_ones;
		} else if (true_ones.rbx == 0xbad) {
			/* Not the return from a signal, which brings registers of its own. */
			before.rax = true_ones.rax;
			ptrace(PTRACE_SETREGS, child, 0, &before);
		}
	}
}
