// The first view: what was measured, where the time is, what hardly varies, what is not known.

function showSummary(main) {
  const epoch = data.epochs[0] ?? {};
  add(main, [
    el("h1", { tabindex: "-1" }, "What this profile shows"),
    el("p", {}, "A sample is taken at random moments. It shows which instruction ran, and vcpi "
      + "works out the values that the next instructions computed. A function that has many "
      + "samples takes much time. A value with a large share is nearly always the same."),
    data.is_part && el("p", { class: "warn" }, "This is a part of what was collected: an image "
      + "or a function was asked for."),
    tiles(epoch),
    el("div", { class: "columns" }, el("section", {}, hottest()), el("section", {}, images())),
    el("section", {}, findings()),
    el("section", {}, knowledge()),
  ]);
}

function tiles(epoch) {
  const hot = functions[0];
  const when = epoch.started ? [epoch.started, epoch.saved ?? epoch.ended] : [];
  const tile = (title, value, note) => el("div", {}, el("dt", {}, title),
    el("dd", { class: /^[\d,]+$/.test(value) ? undefined : "text" }, value),
    note && el("dd", { class: "note faint" }, note));
  return el("dl", { class: "tiles" },
    tile("Samples", count(data.samples), `${cycles(data.cycles)} cycles`),
    hot && tile("Hottest function", brief(hot.name, 40),
      `${share(percent(hot.own, data.cycles))} of the time`),
    tile("Functions", count(functions.length + data.functions.more),
      `in ${counted(data.images.length, "image")}`),
    when.length > 0 && tile("Collected", brief(epoch.command || epoch.host || "", 60),
      `${when[0]}${when[1] ? ` to ${when[1]}` : ""}`
      + (data.epochs.length > 1 ? `, and ${counted(data.epochs.length - 1, "epoch")} more` : "")));
}

function hottest() {
  const rows = functions.slice(0, 10).map((one) => el("tr", {},
    el("td", { class: "number" }, share(percent(one.own, data.cycles))),
    el("td", {}, bar(percent(one.own, functions[0].own))),
    el("td", { class: "name" }, link(one))));
  return [el("h2", {}, "Where the time is"),
    table("The hottest functions", [["time", "right"], "", "function"], rows),
    el("p", {}, el("a", { href: "#functions" }, "All functions"))];
}

function images() {
  const sums = new Map();
  for (const one of functions) sums.set(one.image, (sums.get(one.image) ?? 0) + one.own);
  const sorted = [...sums].sort((a, b) => b[1] - a[1]);
  const rows = sorted.slice(0, 10).map(([name, own]) => el("tr", {},
    el("td", { class: "number" }, share(percent(own, data.cycles))),
    el("td", {}, bar(percent(own, sorted[0][1]))),
    el("td", { class: "name" }, brief(name))));
  return [el("h2", {}, "In which programs and libraries"),
    table("The hottest images", [["time", "right"], "", "image"], rows),
    sorted.length > 10 && el("p", { class: "faint" },
      `${counted(sorted.length - 10, "more image")} in the table of functions.`)];
}

/** Arguments that are nearly always the same, the hottest callees first. */
function constantArguments() {
  const found = [];
  const overall = new Map();
  for (const row of data.arguments.rows) {
    const one = functionOf(row.function, row.image);
    const known = row.args.filter((argument) => argument.samples >= 20
      && argument.samples * 10 >= argument.reached * 9);
    // Shares of time and of calls stand apart. Those of calls come last, and count.
    const last = new Map(known.map((argument) => [argument.register, argument]));
    for (const argument of last.values()) {
      const [first] = argument.values;
      if (!first || first.low < 80) continue;
      const place = `${key(row.function, row.image)}\u0000${argument.register}\u0000${first.value}`;
      if (!row.call_site) overall.set(place, row);
      // What holds for all call sites is said once.
      else if (overall.has(place)) continue;
      const time = one ? one.total / data.cycles : 0;
      found.push({ row, argument, first, one, weight: (time + 1e-6) * row.calls });
    }
  }
  return found.sort((a, b) => b.weight - a.weight);
}

/** An argument by its name, where that is known, its position and its register. */
function argumentWords({ arg, name, register }) {
  if (name === undefined) return arg === null ? register : `${arg + 1} (${register})`;
  return `${brief(name, 40)} (${arg === null ? "" : `${arg + 1}, `}${register})`;
}

function findings() {
  const found = constantArguments();
  const rows = found.slice(0, 12).map(({ row, argument, first, one }) => el("tr", {},
    el("td", { class: "name" }, one ? link(one) : brief(row.function)),
    el("td", { class: "name" }, row.call_site
      ? [brief(row.caller ?? "?", 60), " ", el("span", { class: "code" }, row.call_site)]
      : "everywhere"),
    el("td", { class: "name" }, argumentWords(argument)),
    el("td", { class: "code" }, brief(number(first, argument.bits), 60)),
    el("td", { class: "number" }, share(first.percent)),
    el("td", { class: "number wide-only" }, count(row.calls))));
  return [el("h2", {}, "Arguments that hardly vary"),
    rows.length === 0
      ? el("p", {}, "No argument of a function has one value most of the time, as far as "
        + "samples tell.")
      : [el("p", {}, "Code that knows such a value can be simpler. A branch at the call site, or "
        + "a copy of the function for this value, may pay."),
      table("Arguments that hardly vary", ["function", "called from", "argument", "value",
        ["share", "right"], ["calls", "right", "wide-only"]], rows)],
    found.length > 12 && el("p", { class: "faint" }, `${count(found.length - 12)} more are in the `
      + "functions' own views.")];
}

/** What was known and what was lost. */
function knowledge() {
  const status = data.status ?? {};
  const coverage = status.coverage ?? {};
  const lost = Object.entries(status.lost ?? {}).filter(([, number]) => number > 0);
  const known = (name, text) => typeof coverage[name] === "number"
    && el("tr", {}, el("th", { scope: "row" }, text),
      el("td", {}, bar(100 * coverage[name])),
      el("td", { class: "number" }, share(100 * coverage[name])));
  const rows = [known("destinations_known", "results of instructions known"),
    known("loads_captured", "values in memory known"),
    known("user_samples_with_caller", "samples with a caller"),
    known("user_samples_with_whole_stack", "samples with a whole call stack")].filter(Boolean);
  const unlisted = data.code.more;
  return [el("h2", {}, "What is not known, and what was lost"),
    rows.length > 0 && table("Coverage", ["of the collection", "", ["share", "right"]], rows),
    status.lost === null || data.status === null
      ? el("p", { class: "warn" }, "What was lost is not known to whoever wrote this page.")
      : lost.length === 0
        ? el("p", {}, "Nothing was lost.")
        : el("p", { class: "warn" }, "Lost: ", lost.map(([name, number]) =>
          `${name.replaceAll("_", " ")} ${count(number)}`).join(", "), "."),
    el("p", {}, "Shares are of known values. Where less than 90 % is known, a share has two "
      + "bounds: what is not known may be this value or not. ",
      el("a", { href: "#reports" }, "All counters are among the reports.")),
    data.tree.left_out > 0 && el("p", {}, `${counted(data.tree.left_out, "rare call path")} `
      + "left out of the flame graph and the call tree."),
    unlisted > 0 && el("p", {}, `${counted(unlisted, "function")} without instructions in this `
      + "page, to keep it small (vcpi html --room)."),
    data.notes.map((note) => el("p", { class: "faint" }, note))];
}
