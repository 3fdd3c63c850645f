/*
 * Somebody with a key. Does what its arguments say, one after the other, then says "done" and works
 * with the key now and then until the end of its input:
 *   key=HEX        the key it works with from now on
 *   dumpable=0|1   whether its memory may be dumped
 *   uids=R,E,S     its user ids: real, effective, saved
 *   burn=MS        works with the key for as much processor time
 *   system=MS      calls the kernel for as much processor time
 *   library=HEX    has libcrypto-of-the-test work with the key that this stands for
 *   exec           becomes the program that follows, with the arguments behind it
 */
#define _GNU_SOURCE
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

extern unsigned long seal(unsigned long masked);

static volatile unsigned long key;

static __attribute__((noinline)) unsigned long work(volatile unsigned long *with, unsigned long x)
{
	return (*with ^ x) + 1;
}

static long used(void)
{
	struct timespec now;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void die(const char *what)
{
	perror(what);
	exit(1);
}

int main(int argc, char **argv)
{
	unsigned long x = 0, real, effective, saved;
	struct pollfd input = { .fd = 0, .events = POLLIN };
	int i, round;

	/* The service comes first. */
	if (nice(19) == -1)
		die("nice");
	for (i = 1; i < argc; i++) {
		const char *value = strchr(argv[i], '=');
		long end;

		value = value ? value + 1 : "";
		if (!strncmp(argv[i], "key=", 4)) {
			key = strtoul(value, NULL, 16);
		} else if (!strncmp(argv[i], "dumpable=", 9)) {
			if (prctl(PR_SET_DUMPABLE, strtoul(value, NULL, 10), 0, 0, 0))
				die("prctl");
		} else if (!strncmp(argv[i], "uids=", 5)) {
			if (sscanf(value, "%lu,%lu,%lu", &real, &effective, &saved) != 3)
				die("uids");
			if (setresuid(real, effective, saved))
				die("setresuid");
		} else if (!strncmp(argv[i], "burn=", 5)) {
			for (end = used() + atol(value); used() < end;)
				for (round = 0; round < 1000000; round++)
					x += work(&key, x);
		} else if (!strncmp(argv[i], "system=", 7)) {
			for (end = used() + atol(value); used() < end;)
				for (round = 0; round < 10000; round++)
					x += syscall(SYS_getppid);
		} else if (!strncmp(argv[i], "library=", 8)) {
			for (end = used() + 700; used() < end;)
				x += seal(strtoul(value, NULL, 16));
		} else if (!strcmp(argv[i], "exec")) {
			execv(argv[i + 1], argv + i + 1);
			die(argv[i + 1]);
		} else {
			die(argv[i]);
		}
	}
	puts("done");
	fflush(stdout);
	while (!poll(&input, 1, 20))
		for (round = 0; round < 1000000; round++)
			x += work(&key, x);
	return x == 42;
}
