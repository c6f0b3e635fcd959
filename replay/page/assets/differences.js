// The differences of two sessions, one in a row: the value of the left session in red beside that of the right in green.

import { VirtualList, make } from "./elements.js";
import { oneLine, summaryOf } from "./words.js";

const DIFFERENCE_HEIGHT = 24;
const KEPT_CHARS = 12; // of what two long values have in common before they differ

export class DifferencesView {
  constructor(container, beside, app) {
    Object.assign(this, { beside, app });
    this.list = new VirtualList(container, DIFFERENCE_HEIGHT, (index, row) => this.draw(beside.differences[index], row));
    this.list.setLength(beside.differences.length);
    container.addEventListener("click", (event) => {
      const row = event.target.closest(".row");
      if (row) this.choose(beside.differences[Number(row.dataset.index)]);
    });
  }

  choose([, , left, right]) {
    const isRight = right && (!left || !this.beside.isLeft(this.app.session));
    this.app.select(isRight ? right : left, { isJump: true, session: isRight ? this.beside.right : this.beside.left });
  }

  follow() {
    this.list.refresh();
  }

  draw([kind, agent, left, right, path, before, after], row) {
    const { app, beside } = this;
    const isChosen = app.seq === (beside.isLeft(app.session) ? left : right);
    row.className = `row difference${isChosen ? " chosen" : ""}`;
    const texts = left && right ? [wholeText(before), wholeText(after)] : [left && summaryOf(beside.left, left), right && summaryOf(beside.right, right)];
    const [one, other] = left && right ? apart(...texts) : texts.map((text) => oneLine(text || ""));
    row.title = `${path}\n− ${left ? texts[0] : "no such event"}\n+ ${right ? texts[1] : "no such event"}`;
    row.replaceChildren(
      make("span", { class: "seq" }, left || "–"), make("span", { class: "seq" }, right || "–"),
      make("span", { class: "agent" }, agent || "client"), make("span", { class: "kind" }, kind),
      make("span", { class: "path" }, left && right ? path.replace(/^body\./, "") : `only ${left ? "left" : "right"}`),
      make("del", { class: left ? "" : "none" }, one), make("ins", { class: right ? "" : "none" }, other));
  }
}

export function wholeText(value) {
  return value === null || value === undefined ? "nothing" : typeof value === "string" ? value : JSON.stringify(value);
}

/** Return two texts in one line each, from shortly before the place where they differ. */
function apart(one, other) {
  let same = 0;
  while (same < one.length && one[same] === other[same]) same += 1;
  const from = same > 2 * KEPT_CHARS ? same - KEPT_CHARS : 0;
  return [one, other].map((text) => (from ? "…" : "") + oneLine(text.slice(from)));
}
