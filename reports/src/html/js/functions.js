// The table of functions, sorted and searched.

/** The last part of a path. */
function fileName(path) {
  return path.split("/").pop() || path;
}

const chosen = { column: "own", descending: true, word: "" };

const COLUMNS = [
  { id: "own", title: "Time in itself", number: true, of: (one) => one.own },
  { id: "total", title: "With what it calls", number: true, kind: "wide-only",
    of: (one) => one.total },
  { id: "samples", title: "Samples", number: true, kind: "wide-only", of: (one) => one.samples },
  { id: "name", title: "Function", of: (one) => one.name },
  { id: "image", title: "Image", kind: "wide-only", of: (one) => one.image },
];

/** The functions by a column, the least first; each column is sorted once. */
const sorted = new Map();

function inOrder(column) {
  if (!sorted.has(column.id)) {
    const keys = functions.map(column.of);
    const order = (a, b) => (keys[a] < keys[b] ? -1 : keys[a] > keys[b] ? 1 : b - a);
    sorted.set(column.id, [...keys.keys()].sort(order).map((index) => functions[index]));
  }
  return sorted.get(column.id);
}

/** The functions that match, in the order asked for. */
function found() {
  const words = chosen.word.toLowerCase().split(/\s+/).filter(Boolean);
  const all = inOrder(COLUMNS.find(({ id }) => id === chosen.column));
  const matches = all.filter((one) => {
    if (words.length === 0) return true;
    one.text ??= `${one.whole}\n${one.image}`.toLowerCase();
    return words.every((word) => one.text.includes(word));
  });
  return chosen.descending ? matches.reverse() : matches;
}

function showFunctions(main) {
  const body = el("tbody");
  const summary = el("p", { class: "faint", role: "status" });
  const foot = el("div");
  const heads = COLUMNS.map((column) => el("th", {
    scope: "col", class: [column.number && "number", column.kind].filter(Boolean).join(" "),
  }, el("button", { type: "button", onclick: () => {
    const isSame = chosen.column === column.id;
    chosen.descending = isSame ? !chosen.descending : Boolean(column.number);
    chosen.column = column.id;
    draw();
  } }, column.title)));

  const row = (one) => el("tr", {},
    el("td", { class: "number" }, share(percent(one.own, data.cycles)), " ",
      el("span", { class: "wide-only" }, bar(percent(one.own, data.cycles)))),
    el("td", { class: "number wide-only" }, share(percent(one.total, data.cycles))),
    el("td", { class: "number wide-only" }, count(one.samples)),
    el("td", { class: "name" }, link(one)),
    el("td", { class: "name wide-only" }, brief(fileName(one.image), 60)));
  const draw = () => {
    const matches = found();
    COLUMNS.forEach((column, place) => {
      const sorted = chosen.descending ? "descending" : "ascending";
      if (column.id === chosen.column) heads[place].setAttribute("aria-sort", sorted);
      else heads[place].removeAttribute("aria-sort");
    });
    body.replaceChildren();
    foot.replaceChildren(inSteps(body, matches.length, 60, (place) => row(matches[place])));
    const own = matches.reduce((sum, one) => sum + one.own, 0);
    fill(summary, `${counted(matches.length, "function")}, `
      + `${share(percent(own, data.cycles))} of the time`);
  };

  const search = el("input", { type: "search", id: "word", value: chosen.word,
    oninput: (event) => {
      chosen.word = event.target.value;
      draw();
    } });
  add(main, [
    el("h1", { tabindex: "-1" }, "Functions"),
    el("div", { class: "controls" },
      el("div", {}, el("label", { for: "word" }, "Search names and images"), search), summary),
    scrolling("Functions", el("table", { class: "full", id: "all-functions" },
      el("caption", { class: "hidden" }, "Functions; the titles of columns sort"),
      el("thead", {}, el("tr", {}, heads)), body)),
    foot,
    data.functions.more > 0 && el("p", { class: "faint" },
      `${counted(data.functions.more, "function")} with fewer cycles left out of this page.`),
  ]);
  draw();
}
