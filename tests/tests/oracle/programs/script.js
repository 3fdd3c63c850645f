// Objects, strings, maps, sorting, regular expressions and numbers, compiled by the time the file
// that is named on the command line is opened.
const fs = require('fs');

function mix(words, rounds) {
  const counts = new Map();
  let sum = 0.5;
  for (let i = 0; i < rounds; i++) {
    const word = words[(i * 7919) % words.length];
    counts.set(word, (counts.get(word) || 0) + (word.charCodeAt(0) ^ i));
    sum += Math.sqrt(i) / (1 + (i & 7));
  }
  const ranked = [...counts].sort((a, b) => b[1] - a[1]);
  const text = ranked.map(([word, count]) => `${word}:${count}`).join(',');
  return JSON.stringify({ sum, hits: text.replace(/[0-9]+/g, '#').length, first: ranked[0] });
}

const words = Array.from({ length: 97 }, (_, i) => 'w' + ((i * 7919) % 10007).toString(16));
for (let i = 0; i < 60; i++) mix(words, 3000);
try {
  fs.openSync(process.argv[2]);
} catch {
  // It need not be there.
}
for (let i = 0; i < 40; i++) mix(words, 3000);
