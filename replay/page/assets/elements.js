// Elements and their text. Texts of a session become text nodes and nothing else.

const DIRECTIONS = /[\u202a-\u202e\u2066-\u2069]/g; // they show characters in another order than that of the text

/** Return a text whose characters are shown in their order. */
export function inOrder(text) {
  return text.replace(DIRECTIONS, "\ufffd");
}

/** Make an element. children: elements, texts and numbers; null and false are left out. */
export function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "class") element.className = value;
    else if (name.includes("-")) element.setAttribute(name, value);
    else element[name] = name === "title" ? inOrder(value) : value;
  }
  const shown = children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false && child !== "");
  element.append(...shown.map((child) => (typeof child === "string" ? inOrder(child) : child)));
  return element;
}

export function byId(id) {
  return document.getElementById(id);
}

/** Return an empty copy of an element in its place: nothing listens to the copy. */
export function fresh(id) {
  const old = byId(id);
  const copy = old.cloneNode(false);
  old.replaceWith(copy);
  return copy;
}

/** Draw parts until there are so many elements, and the others once they are asked for. words: of the button, behind their number. */
export function firstParts(drawn, limit, words) {
  const parts = [];
  let next = 0;
  for (let elements = 0; next < drawn.length && elements < limit; next += 1) elements += addCounted(parts, drawn[next]());
  if (next === drawn.length) return parts;
  const more = make("button", { class: "more", onclick: () => more.replaceWith(...firstParts(drawn.slice(next), limit, words)) }, `${(drawn.length - next).toLocaleString("en")} ${words}`);
  return [...parts, more];
}

/** Add a part to others. Return the number of its elements. */
export function addCounted(parts, part) {
  if (!part) return 0;
  parts.push(part);
  return 1 + part.querySelectorAll("*").length;
}

const ELEMENTS_MAX = 540; // of the page, as long as nobody asks for more

/** Return the number of elements that a part may still have. */
export function roomLeft(least) {
  return Math.max(least, ELEMENTS_MAX - document.querySelectorAll("*").length);
}

const FOLDED_CHARS = 3000;

/** Return a text in a block, cut after some thousand characters until it is opened. dress: called with the block and its text. */
export function textBlock(given, kind = "", dress = () => {}) {
  const text = inOrder(given);
  const block = make("pre", { class: kind });
  if (text.length <= FOLDED_CHARS * 1.2) {
    block.append(text);
    dress(block);
    return block;
  }
  const more = make("button", { class: "more" }, `show ${(text.length - FOLDED_CHARS).toLocaleString("en")} more characters`);
  more.addEventListener("click", () => {
    block.replaceChildren(text);
    dress(block);
  });
  block.append(text.slice(0, FOLDED_CHARS), more);
  dress(block);
  return block;
}

/**
 * A list that holds elements only for the rows that can be seen. draw: fills the element of a row, and marks the chosen one.
 * Screen readers are told of the chosen row while the list has the focus, unless hasLinks: its rows have links, which take the focus themselves.
 */
export class VirtualList {
  constructor(container, rowHeight, draw, { hasLinks = false } = {}) {
    Object.assign(this, { container, rowHeight, draw, hasLinks, length: 0, rows: [] });
    this.space = make("div", { class: "rows" });
    container.append(this.space);
    container.addEventListener("scroll", () => container.scrollTop !== this.drawnTop && this.refresh(), { passive: true });
    new ResizeObserver(() => this.refresh()).observe(container);
  }

  setLength(length) {
    this.resize(length);
    this.refresh();
  }

  /** Take another length. Nothing is drawn yet: `refresh` and `show` draw. */
  resize(length) {
    this.length = length;
    this.space.style.height = `${length * this.rowHeight}px`;
  }

  /** Draw the rows that can be seen. */
  refresh() {
    this.drawnTop = this.container.scrollTop;
    const first = Math.max(0, Math.floor(this.drawnTop / this.rowHeight) - 1);
    const seen = Math.ceil(this.container.clientHeight / this.rowHeight) + 2;
    const count = Math.max(0, Math.min(seen, this.length - first));
    while (this.rows.length < count) this.space.append(this.rows[this.rows.push(this.newRow()) - 1]);
    while (this.rows.length > count) this.rows.pop().remove();
    this.rows.forEach((row, offset) => {
      row.style.transform = `translateY(${(first + offset) * this.rowHeight}px)`;
      row.dataset.index = first + offset;
      this.draw(first + offset, row);
    });
    if (!this.hasLinks) this.tell();
  }

  newRow() {
    return make("div", this.hasLinks ? { class: "row" } : { class: "row", role: "option", id: `${this.container.id}-${this.rows.length}` });
  }

  /** Tell screen readers which row is chosen. Only what changes is set: each change of an attribute costs a style. */
  tell() {
    const { container, rows } = this;
    let chosen = "";
    for (const row of rows) {
      const isChosen = row.classList.contains("chosen");
      if (isChosen) chosen = row.id;
      if (row.ariaSelected !== String(isChosen)) row.ariaSelected = String(isChosen);
    }
    setIfOther(container, "role", this.length ? "listbox" : "");
    setIfOther(container, "aria-activedescendant", chosen);
  }

  /** Scroll as little as needed to show a row. */
  show(index) {
    const { container, rowHeight } = this;
    const top = index * rowHeight;
    if (top < container.scrollTop) container.scrollTop = Math.max(0, top - 2 * rowHeight);
    else if (top + rowHeight > container.scrollTop + container.clientHeight)
      container.scrollTop = top + 3 * rowHeight - container.clientHeight;
    this.refresh();
  }
}

function setIfOther(element, name, value) {
  if ((element.getAttribute(name) ?? "") === value) return;
  if (value) element.setAttribute(name, value);
  else element.removeAttribute(name);
}

/** Make a row of buttons of which one is pressed. */
export function makeSwitch(place, choices, chosen, choose) {
  const buttons = choices.map(([name, label, title]) => {
    const button = make("button", { title, onclick: () => choose(name) }, label);
    button.dataset.name = name;
    return button;
  });
  place.replaceChildren(...buttons);
  pressSwitch(place, chosen);
}

export function pressSwitch(place, chosen) {
  for (const button of place.children) button.setAttribute("aria-pressed", String(button.dataset.name === chosen));
}

/**
 * Show a dialog, and return the element of its parts. It stays open, with other parts, if it is.
 * What comes later belongs into that element: by then it may show nothing any more.
 */
export function openDialog(title, ...children) {
  const dialog = byId("dialog");
  const parts = make("div", {}, children);
  dialog.replaceChildren(make("h2", { id: "dialog-title" }, title), parts, make("form", { method: "dialog" }, make("button", {}, "Close")));
  // What was typed there goes with it, and keys are for the page again.
  dialog.onclose = () => dialog.open || dialog.replaceChildren();
  if (!dialog.open) dialog.showModal();
  return parts;
}

/** Close the dialog if it still shows these parts. */
export function closeDialog(parts) {
  if (parts.isConnected) byId("dialog").close();
}

/** Return a button that copies a text, or what a function returns. Where the browser forbids that, it shows the text instead. */
export function copyButton(text, title, label = "copy") {
  const button = make("button", { class: "copy", title, "aria-label": title }, label);
  button.addEventListener("click", async () => {
    const value = typeof text === "function" ? text() : text;
    try {
      await navigator.clipboard.writeText(value);
      button.textContent = "copied";
    } catch {
      button.replaceWith(make("textarea", { class: button.className.replace("copy", "copied"), value, readOnly: true, "aria-label": title }));
    }
  });
  return button;
}
