/*
 * Loops whose vector registers follow from a counter and the PC: `vectors LOOP THREADS [signals]`.
 *
 * Each turn adds to every register a constant of its own, so a register is its constant times the
 * number of additions so far. It prints how many instructions the loop has and where each lies, and
 * then runs until its input ends. With `signals` a timer's handler, which uses the registers too,
 * interrupts it all the time.
 */
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

/* As in the test. */
#define FACTOR 0x9e3779b97f4a7c15ULL

static uint64_t constants[32][8] __attribute__((aligned(64)));
static uint32_t modes[4] = { 0x1f80, 0x3f80, 0x5f80, 0x7f80 };

/* Each loop is called with a place for its counter, and has a table of its instructions. */
#define LOOP(name)                                  \
	void loop_##name(uint64_t *cell, uint64_t (*of)[8], uint32_t *modes); \
	extern const uint64_t table_##name[];       \
	extern const uint64_t end_##name[];

LOOP(sse)
LOOP(avx)
LOOP(avx512)
LOOP(x87)
LOOP(calls)

__asm__(
	/* An instruction, and its address in the table. */
	".macro at name, insn:vararg\n"
	".pushsection .data.rel.ro.\\name,\"aw\"\n.quad 9f\n.popsection\n"
	"9: \\insn\n"
	".endm\n"
	".macro begin name\n"
	".pushsection .data.rel.ro.\\name,\"aw\"\n.balign 8\n.globl table_\\name\ntable_\\name:\n.popsection\n"
	".text\n.globl loop_\\name\n.type loop_\\name, @function\nloop_\\name:\n"
	"push %rbx\nxor %ebx, %ebx\nxor %eax, %eax\nmov %rdx, %r14\n"
	"mov %rdi, %r13\nmov %rsi, %r12\n"
	".endm\n"
	/* A reference from what is called keeps the end behind the table. */
	".macro finish name\n"
	".pushsection .data.rel.ro.\\name,\"aw\"\n.globl end_\\name\nend_\\name:\n.popsection\n"
	".endm\n"
	".macro tail name\n"
	"at \\name, mov %rbx, (%r13)\n"
	"at \\name, mov (%r13), %rax\n"
	"at \\name, inc %rbx\n"
	"at \\name, jmp 1b\n"
	"finish \\name\n"
	".endm\n"

	"begin sse\n"
	".irp i,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\npxor %xmm\\i, %xmm\\i\n.endr\n"
	"1:\n"
	".irp i,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n"
	"at sse, paddq 64*\\i(%r12), %xmm\\i\n.endr\n"
	"tail sse\n"

	"begin avx\n"
	"vzeroall\n"
	"1:\n"
	".irp i,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n"
	"at avx, vpaddq 64*\\i(%r12), %ymm\\i, %ymm\\i\n.endr\n"
	"tail avx\n"

	"begin avx512\n"
	".irp i,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31\n"
	"vpxorq %zmm\\i, %zmm\\i, %zmm\\i\n.endr\n"
	".irp i,1,2,3,4,5,6,7\nkxorq %k\\i, %k\\i, %k\\i\n.endr\n"
	"1:\n"
	".irp i,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31\n"
	"at avx512, vpaddq 64*\\i(%r12), %zmm\\i, %zmm\\i\n.endr\n"
	".irp i,1,2,3,4,5,6,7\nat avx512, kmovq %rbx, %k\\i\n.endr\n"
	"tail avx512\n"

	"begin x87\n"
	"fninit\nfld1\nfldz\npxor %xmm0, %xmm0\npxor %xmm1, %xmm1\n"
	"1:\n"
	"at x87, fadd %st(1), %st\n"
	"at x87, addsd %xmm1, %xmm0\n"
	"at x87, mov %rbx, %rcx\n"
	"at x87, and $3, %ecx\n"
	"at x87, ldmxcsr (%r14,%rcx,4)\n"
	"at x87, inc %rbx\n"
	"at x87, jmp 1b\n"
	"finish x87\n"

	"begin calls\n"
	".irp i,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\npxor %xmm\\i, %xmm\\i\n.endr\n"
	"1:\n"
	".irp i,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n"
	"at calls, paddq 64*\\i(%r12), %xmm\\i\n.endr\n"
	"at calls, mov %rbx, (%r13)\n"
	"at calls, mov (%r13), %rax\n"
	"at calls, inc %rbx\n"
	"at calls, mov $39, %eax\n"
	"at calls, syscall\n"
	"at calls, jmp 1b\n"
	"finish calls\n");

static void (*chosen)(uint64_t *, uint64_t (*)[8], uint32_t *);

static void *run(void *unused)
{
	uint64_t cell __attribute__((aligned(64))) = 0;

	chosen(&cell, constants, modes);
	return unused;
}

static volatile double scratch[64];

static void on_alarm(int number)
{
	int i;

	for (i = 0; i < 64; i++)
		scratch[i] = scratch[i] * 1.5 + number;
}

#define CHOOSE(of)                                                          \
	if (!strcmp(name, #of)) {                                           \
		chosen = loop_##of;                                         \
		table = table_##of;                                         \
		end = end_##of;                                             \
	}

int main(int argc, char **argv)
{
	const char *name = argc > 1 ? argv[1] : "sse";
	int threads = argc > 2 ? atoi(argv[2]) : 1;
	const uint64_t *table = 0, *end = 0;
	char byte;
	int i, lane;

	CHOOSE(sse)
	CHOOSE(avx)
	CHOOSE(avx512)
	CHOOSE(x87)
	CHOOSE(calls)
	if (!chosen)
		return 1;
	for (i = 0; i < 32; i++)
		for (lane = 0; lane < 8; lane++)
			constants[i][lane] = FACTOR * (8 * i + lane + 1);
	printf("%zu\n", (size_t)(end - table));
	for (; table < end; table++)
		printf("%lu\n", *table);
	fflush(stdout);
	if (argc > 3) {
		struct itimerval often = { { 0, 250 }, { 0, 250 } };

		signal(SIGALRM, on_alarm);
		setitimer(ITIMER_REAL, &often, 0);
	}
	for (i = 0; i < threads; i++) {
		pthread_t thread;

		pthread_create(&thread, 0, run, 0);
	}
	while (read(0, &byte, 1) != 0)
		;
	_exit(0);
}
