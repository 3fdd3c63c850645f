// Elements, and numbers as text. Text from the profile only ever becomes text nodes.

const UNSAFE = /[\u0000-\u001f\u007f-\u009f\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]/g;

/** Text without what would control how it is shown. */
function clean(text) {
  return String(text).replace(UNSAFE, (one) => `\\u{${one.charCodeAt(0).toString(16)}}`);
}

/** The beginning and the end of what is too long for a line. */
function brief(text, most = 120) {
  const characters = Array.from(clean(text));
  if (characters.length <= most) return characters.join("");
  const half = Math.floor((most - 3) / 2);
  return `${characters.slice(0, half).join("")}...${characters.slice(-half).join("")}`;
}

/** An element. A property is an attribute, or by `on...` what is done at an event. */
function el(tag, properties, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  add(element, children);
  return element;
}

function add(element, children) {
  for (const child of children.flat(Infinity)) {
    if (child === undefined || child === null || child === false) continue;
    element.append(child instanceof Node ? child : document.createTextNode(clean(child)));
  }
  return element;
}

function fill(element, ...children) {
  element.replaceChildren();
  return add(element, children);
}

function count(number) {
  const digits = String(number);
  return digits.length <= 4 ? digits : digits.replace(/\B(?=(\d{3})+$)/g, ",");
}

function counted(number, noun) {
  return `${count(number)} ${noun}${number === 1 ? "" : "s"}`;
}

function cycles(number) {
  for (const [unit, name] of [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]]) {
    if (number >= unit) return `${(number / unit).toPrecision(3)}${name}`;
  }
  return String(Math.round(number));
}

function percent(part, whole) {
  return whole > 0 ? (100 * part) / whole : 0;
}

function share(number) {
  if (number > 0 && number < 0.05) return "<0.1 %";
  return `${number.toFixed(1)} %`;
}

/** A bar of so many percent. What it says stands beside it as text. */
function bar(percent, kind) {
  const inner = el("i");
  inner.style.width = `${Math.min(100, Math.max(0, percent))}%`;
  return el("span", { class: `bar ${kind ?? ""}`, "aria-hidden": "true" }, inner);
}

/** A table that may be wider than the page. */
function table(label, columns, rows, kind) {
  const head = columns.map((column) => {
    const [title, align, kind] = Array.isArray(column) ? column : [column, "left"];
    const kinds = [align === "right" && "number", kind].filter(Boolean).join(" ");
    // What has no title is a bar, whose column says nothing that is not in another.
    if (title === "") return el("td", { class: kinds });
    return el("th", { scope: "col", class: kinds }, title);
  });
  const body = el("tbody", {}, rows);
  const whole = el("table", { class: kind }, el("caption", { class: "hidden" }, label),
    el("thead", {}, el("tr", {}, head)), body);
  return scrolling(label, whole);
}

function scrolling(label, ...children) {
  return el("div", { class: "scroll", role: "group", tabindex: "0", "aria-label": label },
    children);
}

/** Rows that are made when they are about to be seen, `step` at a time. */
function inSteps(body, most, step, make) {
  let done = 0;
  const more = el("button", { type: "button", onclick: () => next() });
  const next = () => {
    const fragment = document.createDocumentFragment();
    const end = Math.min(most, done + step);
    for (; done < end; done += 1) fragment.append(...[make(done)].flat());
    body.append(fragment);
    more.hidden = done >= most;
    fill(more, `Show more (${count(most - done)} left)`);
  };
  if ("IntersectionObserver" in window) {
    const watch = new IntersectionObserver((seen) => {
      if (seen.some((one) => one.isIntersecting) && done < most) next();
    }, { rootMargin: "400px" });
    watch.observe(more);
  }
  next();
  return more;
}

/** Tells those who cannot see it what has changed. */
function say(text) {
  fill(document.getElementById("said"), text);
}

/** A block that is made when it is opened. */
function opening(properties, title, make) {
  let made = false;
  const box = el("details", properties, el("summary", {}, title));
  const open = () => {
    if (!made) add(box, [make()]);
    made = true;
  };
  box.addEventListener("toggle", () => box.open && open());
  if (box.open) open();
  return box;
}
