// The views, which of them is shown, and the theme.

function showReports(main) {
  add(main, [
    el("h1", { tabindex: "-1" }, "Reports"),
    el("p", {}, "What vcpi prints of the same profile, with the command that prints it."),
    data.reports.map((report) => opening({ class: "report" }, report.about
      ? `${report.command}: ${report.about}` : report.command, () => reportBody(report))),
  ]);
}

function reportBody(report) {
  const parts = report.page.map((block) => {
    if (block === "gap") return null;
    if (block.text !== undefined) return el("p", { class: "text" }, block.text.split("\n")
      .flatMap((line) => [line, el("br")]));
    if (block.about) {
      return [el("p", { class: "text" }, block.about.line),
        el("details", {}, el("summary", {}, "More"), ...block.about.more.split("\n")
          .map((line) => el("p", { class: "text" }, line)))];
    }
    if (block.item) {
      const line = el("p", { class: "small" }, block.item.text);
      line.style.marginLeft = `${1.5 * block.item.depth}rem`;
      return line;
    }
    const { columns, rows } = block.table;
    const made = rows.map((row) => el("tr", {}, row.cells
      ? row.cells.map((cell, place) => el("td", {
        class: columns[place]?.[1] === "right" ? "number" : "name" }, cell))
      : el("td", { colspan: String(columns.length), class: "faint" }, row)));
    return table(report.command, columns, made);
  });
  return [parts,
    report.nothing && el("p", {}, report.nothing),
    report.more > 0 && el("p", { class: "faint" }, `${counted(report.more, "row")} left out of `
      + `this page: ${report.command} has all.`),
    report.notes.map((note) => el("p", { class: "faint" }, note))];
}

const VIEWS = [
  ["summary", "Summary", showSummary],
  ["functions", "Functions", showFunctions],
  ["flame", "Flame graph", showFlame],
  ["calls", "Call tree", showCalls],
  ["reports", "Reports", showReports],
];

function show(isFirst) {
  const [id, index] = location.hash.slice(1).split("/");
  if (id === "content" && !isFirst) {
    document.getElementById("content").focus();
    return;
  }
  const main = document.getElementById("content");
  main.replaceChildren();
  const inView = id === "function" ? "functions" : id;
  const view = VIEWS.find(([name]) => name === inView) ?? VIEWS[0];
  for (const item of document.querySelectorAll("#views a")) {
    if (item.hash === `#${view[0]}`) item.setAttribute("aria-current", "page");
    else item.removeAttribute("aria-current");
  }
  if (id === "function") showFunction(main, Number(index));
  else view[2](main);
  const heading = main.querySelector("h1");
  document.title = `${heading.textContent} - vcpi profile`;
  if (!isFirst) {
    window.scrollTo(0, 0);
    heading.focus({ preventScroll: true });
  }
}

function isDark() {
  return document.documentElement.dataset.theme === "dark";
}

function setTheme(dark) {
  document.documentElement.dataset.theme = dark ? "dark" : "light";
  const button = document.getElementById("theme");
  button.setAttribute("aria-pressed", String(dark));
}

add(document.getElementById("views"), VIEWS.map(([id, title]) =>
  el("li", {}, el("a", { href: `#${id}` }, title))));
add(document.getElementById("from"), [data.from.replace(/^reading /, "")]);
const scheme = window.matchMedia("(prefers-color-scheme: dark)");
setTheme(scheme.matches);
scheme.addEventListener("change", () => setTheme(scheme.matches));
document.getElementById("theme").addEventListener("click", () => setTheme(!isDark()));
window.addEventListener("hashchange", () => show(false));
show(true);
