/*
 * Chases pointers through a ring that stays in the cache, at the bottom of so many calls: two loads
 * for each turn, the second of which needs the first one's result, and as many callers as a stack
 * walk may want. No function keeps a frame pointer.
 */
#include <stdlib.h>

struct node {
	struct node *next;
	long value;
};

#define NODES 64
static struct node ring[NODES];

__attribute__((noinline)) static long chase(const struct node *node, long turns)
{
	long sum = 0;

	while (turns--) {
		node = node->next;
		sum += node->value;
		__asm__ volatile("" : "+r"(sum));
	}
	return sum;
}

__attribute__((noinline)) static long descend(int depth, long turns)
{
	volatile long kept = depth;
	long sum = depth ? descend(depth - 1, turns) : chase(ring, turns);

	return sum + kept;
}

int main(int count, char **arguments)
{
	int depth = count > 1 ? atoi(arguments[1]) : 0;

	for (int i = 0; i < NODES; i++)
		ring[i] = (struct node){&ring[(7 * i + 1) % NODES], i};
	for (volatile long sum = 0;;)
		sum = sum + descend(depth, 100000000);
}
