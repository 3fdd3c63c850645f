// The tree of calls, from the outermost callers down or from functions up.

/** Entries of a level that are shown at once. */
const LEVEL = 100;

function showCalls(main) {
  const list = el("ul", { class: "tree" });
  const direction = el("select", { id: "direction", onchange: () => draw() },
    el("option", { value: "down" }, "from callers down to what they call"),
    el("option", { value: "up" }, "from functions up to their callers"));
  const draw = () => fill(list, direction.value === "up" ? levelUp(functionsByFrame(), "")
    : levelDown(-1));
  add(main, [
    el("h1", { tabindex: "-1" }, "Call tree"),
    el("p", {}, "Shares are of all the time of this profile. Open an entry to see what is below "
      + "it."),
    aboutStacks(),
    el("div", { class: "controls" },
      el("div", {}, el("label", { for: "direction" }, "Direction"), direction)),
    list,
  ]);
  draw();
}

/** An entry of either tree. */
function entry(frame, sum, note, hasMore, isOpen, make) {
  const [name, , kind] = tree.frames[frame];
  const one = frameFunction[frame];
  const title = [el("span", { class: "share" }, share(percent(sum, tree.all))),
    bar(percent(sum, tree.all)), " ", el("span", { class: "name" }, brief(name)),
    kind === "inlined" && el("span", { class: "faint" }, " inlined"),
    note && el("span", { class: "faint" }, ` ${note}`)];
  const leads = one && el("p", { class: "small" }, link(one, "Its instructions and values"));
  if (!hasMore) return el("li", {}, el("div", { class: "leaf" }, title, leads));
  return el("li", {}, opening({ open: isOpen }, title, () => [leads, el("ul", {}, make())]));
}

/** Entries, the first of them at once. */
function level(entries, make) {
  const shown = entries.slice(0, LEVEL).map(make);
  if (entries.length > LEVEL) {
    const rest = el("li", {}, el("button", { type: "button", onclick: () => {
      rest.replaceWith(...level(entries.slice(LEVEL), make));
    } }, `Show ${count(entries.length - LEVEL)} more`));
    shown.push(rest);
  }
  return shown;
}

function levelDown(node) {
  return level(below(node), (next) => {
    const own = percent(tree.own[next], tree.all);
    const callees = below(next);
    // Where there is one way alone, and for the most part, it is opened at once.
    const isOpen = tree.depth[next] < 12 && percent(tree.cycles[next], tree.all) >= 50;
    return entry(tree.frame[next], tree.cycles[next],
      own > 0 && callees.length > 0 ? `(${share(own)} itself)` : "", callees.length > 0, isOpen,
      () => levelDown(next));
  });
}

/** The own time of each frame, with the nodes that it is of. */
function functionsByFrame() {
  const sums = new Map();
  for (let node = 0; node < tree.size; node += 1) {
    if (tree.own[node] > 0) addTo(sums, tree.frame[node], tree.own[node], [node, tree.own[node]]);
  }
  return sums;
}

function addTo(sums, frame, cycles, member) {
  const sum = sums.get(frame) ?? { cycles: 0, members: [] };
  sum.cycles += cycles;
  sum.members.push(member);
  sums.set(frame, sum);
}

function levelUp(sums) {
  const sorted = [...sums].sort((a, b) => b[1].cycles - a[1].cycles);
  return level(sorted, ([frame, sum]) => {
    const callers = new Map();
    for (const [node, cycles] of sum.members) {
      const caller = tree.parent[node];
      if (caller >= 0) addTo(callers, tree.frame[caller], cycles, [caller, cycles]);
    }
    return entry(frame, sum.cycles, "", callers.size > 0, false, () => levelUp(callers));
  });
}
