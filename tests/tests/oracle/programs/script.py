"""Runs the interpreter's loops, hashing, sorting, big integers and floats."""
import re

words = {}
for i in range(4000):
    word = "%x" % (i * 7919 % 10007)
    words[word] = words.get(word, 0) + i
ranked = sorted(words.items(), key=lambda item: (-item[1], item[0]))
found = len(re.findall("[a-f][0-9]", " ".join(words)))
print(ranked[:5], found, 3**500 % 10**40, sum(x**0.5 for _, x in ranked))
