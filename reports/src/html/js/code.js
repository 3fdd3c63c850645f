// One function: its calls with their arguments, its callers, its instructions with their values.

function showFunction(main, index) {
  const one = functions[index];
  if (!one) {
    add(main, [el("h1", { tabindex: "-1" }, "No such function"),
      el("p", {}, el("a", { href: "#functions" }, "All functions"))]);
    return;
  }
  add(main, [
    el("p", { class: "small" }, el("a", { href: "#functions" }, "All functions")),
    el("h1", { tabindex: "-1" }, brief(one.name)),
    el("p", { class: "faint" }, brief(one.image, 200),
      one.code?.build_id && `, build id ${one.code.build_id}`,
      one.code?.narrow && ", 32-bit code"),
    el("p", {}, `${share(percent(one.own, data.cycles))} of the time in itself, `
      + `${share(percent(one.total, data.cycles))} with what it calls, as far as call stacks tell; `
      + `${counted(one.samples, "sample")}.`),
    one.whole !== one.name && opening({}, "Its whole name",
      () => el("p", { class: "code" }, one.whole)),
    el("section", {}, argumentsOf(one)),
    el("section", {}, callersOf(one)),
    el("section", {}, instructionsOf(one)),
    one.code?.source.length > 0 && el("section", {}, sourceOf(one)),
  ]);
}

function argumentsOf(one) {
  if (one.calls.length === 0) return null;
  const body = el("tbody");
  const row = (place) => {
    const call = one.calls[place];
    const boxes = call.args.map((argument) => valueBox(ofArgument(argument), 2));
    return el("tr", {},
      el("td", { class: "number" }, count(call.calls)),
      el("td", { class: "name" }, call.call_site
        ? [brief(call.caller ?? "?"), " ", el("span", { class: "code" }, call.call_site)]
        : el("strong", {}, "all calls")),
      el("td", { class: "value" }, boxes.length > 0 ? boxes : "no argument known",
        call.live === null && el("p", { class: "small faint" },
          "It is not known which registers are arguments.")));
  };
  const more = inSteps(body, one.calls.length, 50, row);
  return [el("h2", {}, "Arguments by call site"),
    el("p", { class: "faint" }, "Calls that windows saw. Open an argument for all its values."),
    scrolling("Arguments by call site", el("table", { class: "full", id: "arguments" },
      el("caption", { class: "hidden" }, "Arguments by call site"),
      el("thead", {}, el("tr", {}, el("th", { scope: "col", class: "number" }, "calls"),
        el("th", { scope: "col" }, "from"), el("th", { scope: "col" }, "arguments"))), body)),
    more,
    data.arguments.more > 0 && el("p", { class: "faint" }, "This page does not have the rarest "
      + "call sites: vcpi args has all.")];
}

function callersOf(one) {
  if (one.callers.length === 0) return null;
  const rows = one.callers.slice(0, 50).map((row) => el("tr", {},
    el("td", { class: "number" }, share(row.percent)),
    el("td", {}, bar(row.percent)),
    el("td", { class: "name" }, row.caller
      ? [brief(row.caller), " ", el("span", { class: "code" }, row.call_site)]
      : "unknown callers")));
  return [el("h2", {}, "Where it is called from"),
    table("Callers, by the time in this function", [["time in it", "right"], "", "call site"],
      rows)];
}

/** Cycles of the lines of source, by file and line. */
function cyclesByLine(code) {
  const sums = new Map();
  for (const row of code.rows) {
    if (!Array.isArray(row) || row[4] === null) continue;
    const [file, line] = code.places[row[4]];
    const place = `${file}:${line}`;
    sums.set(place, (sums.get(place) ?? 0) + row[2]);
  }
  return sums;
}

function sourceLine(code, file, line) {
  const found = code.source.find((one) => one.file === file && line >= one.first
    && line < one.first + one.lines.length);
  return found?.lines[line - found.first].trim();
}

function instructionsOf(one) {
  const heading = el("h2", {}, "Instructions and their values");
  const { code } = one;
  if (!code) {
    return [heading, el("p", { class: "warn" }, "This page has no instructions of this function: "
      + "it has those of the hottest ones, as far as there was room (vcpi html --room). "
      + "vcpi list shows them.")];
  }
  const body = el("tbody");
  const hottest = Math.max(1, ...code.rows.map((row) => (Array.isArray(row) ? row[2] : 0)));
  // A row of the listing, behind the source line that it begins.
  const places = [];
  let last = null;
  for (const row of code.rows) {
    const isNew = Array.isArray(row) && row[4] !== null && row[4] !== last;
    places.push(isNew ? row[4] : null);
    if (Array.isArray(row)) last = row[4];
  }
  const make = (index) => {
    const row = code.rows[index];
    if (!Array.isArray(row)) {
      return el("tr", { class: "quiet" }, el("td", { colspan: "4" },
        `${counted(row, "instruction")} without samples`));
    }
    const [address, text, sum, samples, , values] = row;
    const line = el("tr", {},
      el("td", { class: "number" }, sum > 0 && [share(percent(sum, data.cycles)), " ",
        bar(percent(sum, hottest)), el("span", { class: "hidden" },
          counted(samples, "sample"))]),
      el("td", { class: "code wide-only" }, address),
      el("td", { class: "code" }, text),
      el("td", { class: "value" }, values.map((of) => valueBox(of, 3))));
    if (places[index] === null) return line;
    const [file, number, inlined] = code.places[places[index]];
    const source = sourceLine(code, file, number);
    return [el("tr", { class: "source" }, el("td", { colspan: "4", class: "code" },
      `${fileName(code.files[file])}:${number}`,
      inlined.length > 0 && ` (inlined: ${inlined.map((name) => brief(name, 60)).join(" > ")})`,
      source && ["  ", source])), line];
  };
  const more = inSteps(body, code.rows.length, 120, make);
  const first = code.rows.findIndex((row) => Array.isArray(row) && row[2] === hottest);
  return [heading,
    el("p", { class: "faint" }, "The bar at a value is its share. Open it for all values with "
      + "their intervals.", first > 0 && ` The hottest instruction is at ${code.rows[first][0]}.`),
    scrolling("Instructions", el("table", { class: "full", id: "code" },
      el("caption", { class: "hidden" }, "Instructions with time and values"),
      el("thead", {}, el("tr", {}, el("th", { scope: "col", class: "number" }, "time"),
        el("th", { scope: "col", class: "wide-only" }, "address"),
        el("th", { scope: "col" }, "instruction"), el("th", { scope: "col" }, "values"))),
      body)),
    more];
}

function sourceOf(one) {
  const { code } = one;
  const sums = cyclesByLine(code);
  const hottest = Math.max(1, ...sums.values());
  const make = () => code.source.map((excerpt) => {
    const rows = excerpt.lines.map((text, place) => {
      const line = excerpt.first + place;
      const sum = sums.get(`${excerpt.file}:${line}`) ?? 0;
      return el("tr", {}, el("td", { class: "number" }, sum > 0 && [
        share(percent(sum, data.cycles)), " ", bar(percent(sum, hottest))]),
      el("td", { class: "number faint" }, String(line)),
      el("td", { class: "code lines" }, text));
    });
    return [el("h3", {}, brief(code.files[excerpt.file], 200)),
      table(`Source of ${fileName(code.files[excerpt.file])}`, [["time", "right"],
        ["line", "right"], "source"], rows, "full")];
  });
  return [el("h2", {}, "Source"), opening({ id: "source" },
    "Lines with the time of their instructions", make)];
}
