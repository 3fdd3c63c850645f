// The flame graph: callers above what they call, as wide as the time in them.

/** Rows of this height, in rem. */
const ROW = 1.5;
/** What is narrower than this share of the graph is not drawn. */
const NARROWEST = 0.0015;
/** Boxes at most. */
const MOST_BOXES = 3000;

const flame = { root: -1, word: "" };

function colour(node) {
  const [name, image, kind] = tree.frames[tree.frame[node]];
  if (kind === "cut") return "hsl(210 8% 74%)";
  if (kind === "process") return "hsl(210 25% 82%)";
  let hash = 0;
  for (const one of kind === "kernel" ? name : image) hash = (hash * 31 + one.charCodeAt(0)) | 0;
  let shade = 0;
  for (const one of name) shade = (shade * 17 + one.charCodeAt(0)) | 0;
  const light = 68 + (Math.abs(shade) % 5) * 3;
  if (kind === "kernel") return `hsl(28 80% ${light}%)`;
  return `hsl(${(200 + (Math.abs(hash) % 9) * 30) % 360} 55% ${light}%)`;
}

function nodeText(node) {
  const [name, image, kind] = tree.frames[tree.frame[node]];
  const parts = [`${brief(name)}: ${share(percent(tree.cycles[node], tree.all))} of the time`,
    counted(tree.samples[node], "sample")];
  if (tree.own[node] > 0) parts.push(`itself ${share(percent(tree.own[node], tree.all))}`);
  if (kind === "inlined") parts.push("inlined");
  if (image) parts.push(brief(image));
  return parts.join(", ");
}

function showFlame(main) {
  const graph = el("div", { class: "flame", role: "tree", "aria-label": "Flame graph" });
  const told = el("p", { id: "told" });
  const found = el("span", { class: "faint", role: "status" });
  const boxes = new Map();
  let current = -1;

  const tell = (node) => {
    const one = frameFunction[tree.frame[node]];
    fill(told, nodeText(node), one && [". ", link(one, "Its instructions and values")]);
  };
  const go = (node) => {
    const box = boxes.get(node);
    if (!box) return false;
    boxes.get(current)?.setAttribute("tabindex", "-1");
    current = node;
    box.setAttribute("tabindex", "0");
    box.focus();
    return true;
  };
  const zoom = (node, focus) => {
    flame.root = node;
    draw();
    if (focus) go(boxes.has(node) ? node : boxes.keys().next().value);
  };

  const draw = () => {
    boxes.clear();
    const word = flame.word.toLowerCase();
    const pieces = [];
    const place = (node, left, width, row, kind) => {
      const [name] = tree.frames[tree.frame[node]];
      const isFound = word !== "" && name.toLowerCase().includes(word);
      const box = el("div", {
        role: "treeitem", tabindex: "-1", "aria-level": tree.depth[node] + 1,
        "aria-label": nodeText(node), "data-node": node,
        class: [kind, isFound && "found"].filter(Boolean).join(" ") || undefined,
      }, width > 0.02 ? brief(name, 60) : "");
      box.style.left = `${100 * left}%`;
      box.style.width = `${100 * width}%`;
      box.style.top = `${row * ROW}rem`;
      box.style.background = colour(node);
      boxes.set(node, box);
      pieces.push(box);
    };
    const above = [];
    for (let at = flame.root; at >= 0; at = tree.parent[at]) above.unshift(at);
    above.forEach((node, row) => place(node, 0, 1, row, node === flame.root ? "" : "above"));
    const whole = flame.root < 0 ? tree.all : tree.cycles[flame.root];
    const open = [[flame.root, 0, above.length]];
    let deepest = above.length;
    while (open.length > 0 && pieces.length < MOST_BOXES) {
      const [node, start, row] = open.shift();
      let left = start;
      for (const next of below(node)) {
        const width = tree.cycles[next] / whole;
        if (width >= NARROWEST) {
          place(next, left, width, row);
          deepest = Math.max(deepest, row + 1);
          open.push([next, left, row + 1]);
        }
        left += width;
      }
    }
    graph.style.height = `${deepest * ROW}rem`;
    graph.replaceChildren(...pieces);
    current = boxes.has(current) ? current : boxes.keys().next().value ?? -1;
    boxes.get(current)?.setAttribute("tabindex", "0");
    reset.disabled = flame.root < 0;
    fill(found, word === "" ? "" : `${share(percent(matched(word), tree.all))} of the time is in `
      + "what matches.");
  };

  const nodeOf = (event) => {
    const box = event.target.closest("[data-node]");
    return box ? Number(box.dataset.node) : -1;
  };
  graph.addEventListener("click", (event) => {
    const node = nodeOf(event);
    if (node >= 0) zoom(node, true);
  });
  graph.addEventListener("mouseover", (event) => nodeOf(event) >= 0 && tell(nodeOf(event)));
  graph.addEventListener("focusin", (event) => nodeOf(event) >= 0 && tell(nodeOf(event)));
  graph.addEventListener("keydown", (event) => {
    const node = nodeOf(event);
    if (node < 0) return;
    const siblings = below(tree.parent[node]).filter((one) => boxes.has(one));
    const at = siblings.indexOf(node);
    const moves = {
      ArrowUp: () => go(tree.parent[node]),
      ArrowDown: () => below(node).some((next) => boxes.has(next) && go(next)),
      ArrowLeft: () => go(siblings[at - 1]),
      ArrowRight: () => go(siblings[at + 1]),
      Home: () => go(siblings[0]),
      End: () => go(siblings[siblings.length - 1]),
      Enter: () => zoom(node, true),
      " ": () => zoom(node, true),
      Escape: () => zoom(-1, true),
    };
    if (moves[event.key]) {
      event.preventDefault();
      moves[event.key]();
    }
  });

  const reset = el("button", { type: "button", onclick: () => zoom(-1, true) }, "Show all");
  const search = el("input", { type: "search", id: "flame-word", value: flame.word,
    oninput: (event) => {
      flame.word = event.target.value;
      draw();
    } });
  add(main, [
    el("h1", { tabindex: "-1" }, "Flame graph"),
    el("p", {}, "Each box is a function. Its width is the share of time in it and in what it "
      + "calls; callers stand above. Click a box to see it alone. By keyboard: arrows go to "
      + "callers, callees and neighbours, Enter shows a box alone, Escape shows all."),
    aboutStacks(),
    el("div", { class: "controls" },
      el("div", {}, el("label", { for: "flame-word" }, "Mark functions"), search), reset, found),
    told, graph,
  ]);
  draw();
  if (boxes.size > 0) tell(boxes.keys().next().value);
}

/** The time in functions of which a word is a part, each sample once. */
function matched(word) {
  let sum = 0;
  for (let node = 0; node < tree.size;) {
    const hit = tree.frames[tree.frame[node]][0].toLowerCase().includes(word);
    if (hit) sum += tree.cycles[node];
    node = hit ? tree.end[node] : node + 1;
  }
  return sum;
}

/** How far the call stacks reach. */
function aboutStacks() {
  if (!tree.kept) {
    return el("p", { class: "warn" }, "No call stacks were kept (vcpid record --frames 127 keeps "
      + "them). So a function stands below its caller alone, where that is known, and times of "
      + "callers leave out what goes on deeper.");
  }
  const cut = Object.entries(tree.cut).sort((a, b) => b[1] - a[1]);
  if (cut.length === 0) return el("p", {}, "All samples have their whole call stack.");
  const all = tree.whole + cut.reduce((sum, [, samples]) => sum + samples, 0);
  return el("p", { class: "warn" }, `${share(percent(tree.whole, all))} of the samples have their `
    + "whole call stack. The others stand below [unknown callers]: ",
  cut.map(([why, samples]) => `${CUTS[why] ?? why} (${share(percent(samples, all))})`).join("; "),
  ".");
}
