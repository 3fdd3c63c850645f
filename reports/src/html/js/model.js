// The data, with what is found in them quickly.

const data = JSON.parse(document.getElementById("data").textContent);

/** Functions as the table has them: own time from `top`, time below from the call stacks. */
const functions = data.functions.rows.map(([name, whole, image, address, own, samples], index) => ({
  index, name, whole: whole ?? name, image: data.images[image], address, own, samples, total: 0,
  code: null, calls: [], callers: [],
}));

const key = (name, image) => `${name}\u0000${image}`;
const byName = new Map();
for (const one of functions) {
  for (const name of [one.whole, one.name]) {
    if (!byName.has(key(name, one.image))) byName.set(key(name, one.image), one);
  }
}
const byAddress = new Map();
for (const one of functions) byAddress.set(`${key(one.whole, one.image)}\u0000${one.address}`, one);

/** The function of this name, in this image. */
function functionOf(name, image) {
  return byName.get(key(name, image));
}

for (const code of data.code.rows) {
  const one = byAddress.get(`${key(code.function, code.image)}\u0000${code.address}`)
    ?? functionOf(code.function, code.image);
  if (one) one.code = code;
}
for (const row of data.arguments.rows) functionOf(row.function, row.image)?.calls.push(row);
for (const row of data.callers.rows) functionOf(row.function, row.image)?.callers.push(row);

/** The tree of call stacks: nodes in preorder, each with its caller and the end of its callees. */
const tree = (() => {
  const { depth, frame } = data.tree;
  const size = depth.length;
  const parent = new Int32Array(size).fill(-1);
  const end = new Int32Array(size).fill(size);
  const way = [];
  for (let node = 0; node < size; node += 1) {
    while (way.length > depth[node]) end[way.pop()] = node;
    if (way.length > 0) parent[node] = way[way.length - 1];
    way.push(node);
  }
  let all = 0;
  for (let node = 0; node < size; node = end[node]) all += data.tree.cycles[node];
  return { ...data.tree, size, parent, end, all };
})();

/** What a node calls; of -1: the outermost. */
function below(node) {
  const found = [];
  const end = node < 0 ? tree.size : tree.end[node];
  for (let next = node + 1; next < end; next = tree.end[next]) found.push(next);
  return found;
}

const frameFunction = tree.frames.map(([name, image]) => functionOf(name, image));

// Recursion counts once: only the outermost frame of a function adds to its time.
{
  const open = new Map();
  const way = [];
  for (let node = 0; node < tree.size; node += 1) {
    while (way.length > tree.depth[node]) {
      const left = way.pop();
      open.set(left, open.get(left) - 1);
    }
    const frame = tree.frame[node];
    if (!open.get(frame)) {
      const one = frameFunction[frame];
      if (one) one.total += tree.cycles[node];
    }
    open.set(frame, (open.get(frame) ?? 0) + 1);
    way.push(frame);
  }
}
for (const one of functions) one.total = Math.max(one.total, one.own);

function link(one, text) {
  return el("a", { href: `#function/${one.index}` }, brief(text ?? one.name));
}

/** Why stacks are cut, in a sentence each. */
const CUTS = {
  "no-stack": "no call stack was kept",
  depth: "there are as many frames as were asked for",
  "no-rules": "the code of the last frame has no unwind rules that can be followed",
  "unknown-register": "the unwind rules need a register that is not known",
  unreadable: "the stack could not be read",
  "no-call": "no call stands before the return address",
};
