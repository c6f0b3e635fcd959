// Two sessions as one list: each row has the turn, call or delegation of the left session and its pair.

import { eventOfSpan } from "./beside.js";
import { VirtualList, make } from "./elements.js";
import { ROW_HEIGHT, SPAN_NAMES, SPAN_TONES, answerOf, storyOf } from "./list.js";
import { isBadSpan } from "./words.js";

export class PairsView {
  constructor(container, beside, app) {
    Object.assign(this, { container, beside, app, rows: beside.rows(), current: -1 });
    this.placeOf = { left: placesOf(this.rows, "left"), right: placesOf(this.rows, "right") };
    this.list = new VirtualList(container, ROW_HEIGHT, (index, row) => this.draw(index, row));
    this.list.setLength(this.rows.length);
    container.addEventListener("click", (event) => {
      const half = event.target.closest(".half");
      const row = half && this.rows[Number(half.parentElement.dataset.index)];
      if (row?.[half.dataset.side]) app.select(eventOfSpan(row[half.dataset.side]), { isJump: true, session: beside[half.dataset.side] });
    });
  }

  get side() {
    return this.beside.isLeft(this.app.session) ? "left" : "right";
  }

  /** Show the row of the chosen event. */
  follow() {
    const places = this.placeOf[this.side];
    let found = places.get(this.app.seq);
    for (let seq = this.app.seq; found === undefined && seq > 0; seq -= 1) found = places.get(seq);
    this.current = found ?? 0;
    this.list.show(this.current);
  }

  /** Choose the row before or after the current one, on the side of the chosen event if it has one there. */
  move(by) {
    const row = this.rows[Math.max(0, Math.min(this.rows.length - 1, this.current + by))];
    if (row) this.choose(row);
  }

  choose(row) {
    const side = row[this.side] ? this.side : row.left ? "left" : "right";
    this.app.select(eventOfSpan(row[side]), { session: this.beside[side] });
  }

  /** Choose the next row that is another on both sides. */
  seek(step) {
    for (let place = this.current + step; place >= 0 && place < this.rows.length; place += step)
      if (["differs", "only"].includes(this.rows[place].state)) return this.choose(this.rows[place]);
    return undefined;
  }

  draw(index, row) {
    const { left, right, state } = this.rows[index];
    row.className = `row pair ${state}${index === this.current ? " chosen" : ""}`;
    row.replaceChildren(this.half("left", left, state), this.half("right", right, state));
  }

  half(side, span, state) {
    const half = make("div", { class: `half${side === this.side ? " active" : ""}` });
    half.dataset.side = side;
    if (!span) return half;
    const session = this.beside[side];
    half.classList.add(SPAN_TONES[span.kind]);
    if (isBadSpan(session, span)) half.classList.add("bad");
    const isReused = session.bodies[span.last].includes('"reused":') && Boolean(session.body(span.last).reused);
    const reused = this.beside.differs(session, span.last) ? "changed" : "reused";
    const answer = answerOf(session, span);
    const story = state === "differs" && answer ? "" : storyOf(session, span); // the answers are what to compare
    half.append(
      make("span", { class: "seq" }, span.first),
      make("span", { class: "agent" }, span.agent),
      make("span", { class: "kind" }, SPAN_NAMES[span.kind] ?? span.kind),
      make("span", { class: "says" }, span.kind === "ask" ? "" : make("b", {}, `${span.name} `), story, answer),
      make("span", { class: "outcome" }, isReused ? reused : span.outcome || "open"),
    );
    return half;
  }
}

function placesOf(rows, side) {
  return new Map(rows.flatMap((row, place) => (row[side] ? [[row[side].first, place], [row[side].last, place]] : [])));
}
