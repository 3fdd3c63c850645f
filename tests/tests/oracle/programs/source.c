/* Something for a compiler to chew on. */
struct node { struct node *next; int key; long value; };

long lookup(struct node *const *table, int size, int key)
{
    for (struct node *n = table[(unsigned)key % size]; n; n = n->next)
        if (n->key == key)
            return n->value;
    return -1;
}

int mix(int a, long b, unsigned char c)
{
    switch (a & 7) {
    case 0: return (int)(b / 3);
    case 1: return c << (a & 15);
    case 3: return a % 10 ? (int)b : c;
    default: break;
    }
    int sum = 0;
    for (int i = 0; i < a; i++)
        sum += i * c - (int)(b >> (i & 31));
    return sum;
}

void sort(int *v, int n)
{
    for (int i = 1; i < n; i++)
        for (int j = i; j > 0 && v[j - 1] > v[j]; j--) {
            int t = v[j];
            v[j] = v[j - 1];
            v[j - 1] = t;
        }
}
