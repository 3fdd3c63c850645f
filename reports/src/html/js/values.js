// Values of parameters: as text, as bars, and as charts.

/** A value of an argument: what it is called or points to, where that is known; else small negative
    numbers are decimal, others hex. */
function number({ value, float, text, place }, bits) {
  if (text !== undefined || place !== undefined) return brief(text ?? place);
  if (float !== undefined) return String(float);
  if (!value) return "?";
  const unsigned = BigInt(value);
  const width = BigInt(bits ?? 64);
  const below = (1n << width) - unsigned;
  if (bits >= 32 && below > 0n && below <= 4096n) return `-${below}`;
  return value;
}

/** Whether shares are of calls, and not of the time of those that windows reached. */
function isOfCalls({ base }) {
  return base === "executions" || base === "entries";
}

/** The values of an argument in the form that listings have them. */
function ofArgument(argument) {
  const position = argument.arg === null ? argument.register : `argument ${argument.arg + 1}`;
  return {
    p: argument.name === undefined ? position : `${position}, ${brief(argument.name, 40)}`,
    register: argument.register,
    r: argument.reached, u: argument.unknown, d: argument.distinct, t: 1,
    e: isOfCalls(argument),
    v: argument.values.map((one) => [number(one, argument.bits), one.percent, one.low, one.high]),
  };
}

function isMostlyKnown(of) {
  return (of.r - of.u) * 10 >= of.r * 9;
}

function shareText(of, [, percent, low, high]) {
  return isMostlyKnown(of) ? share(percent) : `${low.toFixed(1)}..${high.toFixed(1)} %`;
}

/** The most frequent values beside each other. */
function valueBar(of) {
  const whole = el("span", { class: "bar", "aria-hidden": "true" });
  let left = 0;
  of.v.slice(0, 4).forEach(([, percent, low], place) => {
    const width = isMostlyKnown(of) ? percent : low;
    const part = el("i", { class: `v${place}` });
    part.style.left = `${left}%`;
    part.style.width = `${width}%`;
    left += width;
    whole.append(part);
  });
  return whole;
}

function valueWords(of, most) {
  if (of.r === of.u) return "unknown";
  if (of.v.length === 0) return "varies";
  const words = of.v.slice(0, most).map((one) => `${one[0]} (${shareText(of, one)})`);
  if (of.d > words.length) words.push("...");
  return words.join(", ");
}

/** All values that are kept, as a chart, with the 95 % interval of each. */
function valueChart(of) {
  const known = of.r - of.u;
  const rows = of.v.map(([value, percent, low, high], place) => {
    const line = bar(isMostlyKnown(of) ? percent : low, `wide r${place}`);
    const kind = place < 4 ? `v${place}` : "rest";
    line.firstChild.setAttribute("class", kind);
    const span = el("i", { class: "span" });
    span.style.left = `${low}%`;
    span.style.width = `${Math.max(0.5, Math.min(100, high) - low)}%`;
    line.append(span);
    return el("tr", {}, el("th", { scope: "row", class: "code" }, value), el("td", {}, line),
      el("td", { class: "number" }, shareText(of, of.v[place])),
      el("td", { class: "number faint" }, `${low.toFixed(1)} to ${high.toFixed(1)} %`));
  });
  const others = of.d - of.v.length;
  return el("div", { class: "chart" },
    of.v.length > 0 && table(`Values of ${of.p}`, ["value", "", ["share", "right"],
      ["95 % interval", "right"]], rows),
    el("p", { class: "small faint" },
      `${counted(known, "value")} known of ${count(of.r)}`,
      of.e ? ", of executions" : ", of the time before the instruction",
      others > 0 && `; ${counted(others, "rarer value")} not shown`,
      of.t > 1.05 && `; one of ${of.t} events of a new value enters the list`,
      of.q && "; it is not known whether this is an argument", "."));
}

/** A parameter with its bar and values. Opened, it is a chart. */
function valueBox(of, most) {
  const title = [el("span", { class: "code" }, `${of.p}${of.q ? "?" : ""}`), valueBar(of),
    of.e && el("span", { class: "faint" }, "of executions"),
    !isMostlyKnown(of) && of.r !== of.u && el("span", { class: "faint" },
      `${share(percent(of.r - of.u, of.r))} known:`),
    el("span", { class: "code words" }, valueWords(of, most))];
  return opening({ class: "values" }, title, () => valueChart(of));
}
