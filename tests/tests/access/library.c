/*
 * A library whose name is on the deny list. It works with a key that nobody else ever holds.
 */
static volatile unsigned long key;

static __attribute__((noinline)) unsigned long mix(volatile unsigned long *with, unsigned long x)
{
	return (*with ^ x) + 1;
}

unsigned long seal(unsigned long masked)
{
	unsigned long x = 0;
	int round;

	key = masked ^ MASK;
	for (round = 0; round < 1000000; round++)
		x += mix(&key, x);
	key = 0;
	/* Nothing of it is left in a register. */
	return x & 1;
}
