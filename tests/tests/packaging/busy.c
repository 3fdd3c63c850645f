/* Keeps a processor busy in one function, with sums that are known. */
static volatile unsigned long table[64] = {5, 3};

__attribute__((noinline)) unsigned long busy_function(unsigned long rounds)
{
	unsigned long sum = 0;

	for (unsigned long i = 0; i < rounds; i++)
		sum += table[i & 63] * 7 + 4;
	return sum;
}

int main(void)
{
	volatile unsigned long sum = 0;

	for (;;)
		sum += busy_function(100000);
}
