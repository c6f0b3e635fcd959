// The list: each turn, tool call and delegation as one row ("Story"), or each event as one row ("Events").

import { VirtualList, make } from "./elements.js";
import { eventOfSpan } from "./beside.js";
import { delegationsAbove, storyRows } from "./delegations.js";
import { amount, dollars, durationText, isBadSpan, isFailure, oneLine, summaryOf, toneOf } from "./words.js";

export const ROW_HEIGHT = 24;
const LEVEL = 12; // pixels of each level of agents
const DEPTH_MAX = 10; // levels that are indented
const LOOKED_BACK = 2000; // spans
const TOKENS = ["input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "charged_tokens"];
export const SPAN_NAMES = { delegation: "delegate" };
export const SPAN_TONES = { ask: "client", turn: "model", tool: "tool", approval: "approval", refused: "tool", delegation: "task", report: "report", tell: "client", cancel: "client", change: "client", timer: "plain", context: "task" };

export class ListView {
  constructor(container, session, app) {
    Object.assign(this, { container, session, app, seqs: [], spans: [], rows: [], picked: null });
    this.list = new VirtualList(container, ROW_HEIGHT, (index, row) => this.draw(index, row));
    container.addEventListener("click", (event) => {
      const row = event.target.closest(".row");
      if (row) this.clicked(Number(row.dataset.index), Boolean(event.target.closest(".fold")));
    });
  }

  /** Choose the rows again, and draw them. isStill: do not scroll. */
  fill({ isStill = false } = {}) {
    this.choose();
    if (isStill) this.list.refresh();
    else this.follow();
  }

  /** Choose the rows: those of the search, of the chosen agent, of the mode. Nothing is drawn yet. */
  choose() {
    const { app, session } = this;
    const only = app.isOnlyAgent ? app.agent : "";
    if (app.mode !== "events" && !app.found) {
      this.rows = only ? session.spans.filter((span) => span.agent === only).map(flatRow) : storyRows(session, session.folded);
      this.spans = this.rows.map((row) => row.span);
      this.rowAt = new Int32Array(session.spans.length).fill(-1); // by the place of a span
      this.rows.forEach((row, at) => {
        this.rowAt[row.span.place] = at;
        for (const { place } of row.hidden) this.rowAt[place] = at;
      });
      this.seqs = this.spans.map((span) => span.first);
    } else {
      this.rows = [];
      this.spans = [];
      const all = app.found ?? Array.from({ length: session.count }, (_, place) => place + 1);
      this.seqs = only ? all.filter((seq) => session.agentOf(seq) === only) : all;
    }
    this.current = this.rowOf(app.seq);
    this.list.resize(this.seqs.length);
  }

  clicked(index, isFold) {
    if (isFold) return this.fold(index);
    this.picked = this.spans[index];
    return this.app.select(this.seqAt(index), { isJump: true });
  }

  /** Fold or unfold the agents of the delegation in a row. The chosen event is never among hidden ones. */
  fold(index, isFolded = !this.rows[index]?.isFolded) {
    const row = this.rows[index];
    if (!row?.isParent || row.isFolded === isFolded) return;
    const { folded } = this.session;
    const isHidden = isFolded && delegationsAbove(this.session, this.session.spans[this.spanAt(this.app.seq)]?.agent).includes(row.span.first);
    if (isFolded) folded.add(row.span.first);
    else folded.delete(row.span.first);
    if (isHidden) this.pick(row.span);
    this.fill({ isStill: true });
    this.app.showModes();
  }

  /** Fold every delegation, or unfold all if one is folded. */
  foldAll() {
    const { folded, spans } = this.session;
    if (folded.size) folded.clear();
    else for (const span of spans) if (span.kind === "delegation") folded.add(span.first);
    const [top] = folded.size ? delegationsAbove(this.session, this.spans[this.current]?.agent).slice(-1) : [];
    this.choose();
    if (top) this.pick(this.spans.find((span) => span.first === top)); // it draws the list
    else this.follow();
    this.app.showModes();
  }

  /** Fold the row's agents; in a row of a sub-agent, go to its delegation. */
  leaveRow() {
    const row = this.rows[this.current];
    if (row?.isParent && !row.isFolded) return this.fold(this.current, true);
    const [above] = row ? delegationsAbove(this.session, row.span.agent) : [];
    const parent = this.spans.find((span) => span.kind === "delegation" && span.first === above);
    return parent && this.pick(parent);
  }

  /** Unfold the row's agents. */
  enterRow() {
    this.fold(this.current, false);
  }

  pick(span) {
    this.picked = span;
    this.app.select(eventOfSpan(span));
  }

  /** Return the event that a row leads to: of a turn or a call its answer, which names its question. */
  seqAt(index) {
    const row = Math.max(0, Math.min(index, this.seqs.length - 1));
    const span = this.spans[row];
    return span ? eventOfSpan(span) : this.seqs[row];
  }

  /** Show the row of the chosen event. */
  follow() {
    this.reveal();
    this.current = this.rowOf(this.app.seq);
    this.list.show(Math.max(0, this.current));
  }

  /** Unfold the delegations that hide the chosen event. */
  reveal() {
    const { folded } = this.session;
    if (!this.rows.length || !folded.size) return;
    const span = this.session.spans[this.spanAt(this.app.seq)];
    const above = span ? delegationsAbove(this.session, span.agent).filter((seq) => folded.delete(seq)) : [];
    if (above.length) this.fill({ isStill: true });
  }

  /** Return the row of the span that an event begins or ends, or else of the last one before it. */
  rowOf(seq) {
    if (!this.spans.length) return lastPlace(this.seqs, seq);
    const rowOfPicked = this.picked && eventOfSpan(this.picked) === seq ? this.rowAt[this.picked.place] ?? -1 : -1;
    const row = rowOfPicked >= 0 ? rowOfPicked : this.rowAt[this.spanAt(seq)] ?? -1;
    return row >= 0 ? row : lastPlace(this.seqs, seq);
  }

  /** Return the place among the session's spans of the one that an event begins or ends, or else of the last one of its agent. */
  spanAt(seq) {
    const { session } = this;
    if (this.endsOf !== session.spans) {
      this.endsOf = session.spans;
      this.firsts = session.spans.map((span) => span.first);
      this.placeOf = new Map();
      session.spans.forEach((span, place) => [span.last, span.first].forEach((end) => span.kind !== "refused" && this.placeOf.set(end, place)));
    }
    if (this.placeOf.has(seq)) return this.placeOf.get(seq);
    const before = lastPlace(this.firsts, seq);
    const agent = session.has(seq) ? session.agentOf(seq) : "";
    for (let place = before; place >= Math.max(0, before - LOOKED_BACK); place -= 1) if (session.spans[place].agent === agent) return place;
    return before;
  }

  /** Choose the row before or after the current one. */
  move(by) {
    if (!this.seqs.length) return;
    const row = Math.max(0, Math.min(this.current + by, this.seqs.length - 1));
    this.picked = this.spans[row];
    this.app.select(this.seqAt(row));
  }

  draw(index, row) {
    const isCurrent = index === this.current;
    if (this.spans.length) this.drawSpan(this.rows[index], row, isCurrent);
    else this.drawEvent(this.seqs[index], row, isCurrent);
  }

  drawSpan({ span, depth, isParent, isFolded, hidden }, row, isCurrent) {
    const { session, app } = this;
    const isBad = isBadSpan(session, span);
    row.className = `row story ${SPAN_TONES[span.kind]}${isCurrent ? " chosen" : ""}${isBad ? " bad" : ""}`;
    const used = usedBy(session, span);
    const tries = span.attempts > 1 && make("span", { class: "badge" }, `${span.attempts} attempts`);
    const kind = cell("kind", isParent && make("span", { class: "fold", title: "Fold or unfold its agents (← →)" }, isFolded ? "▸ " : "▾ "), SPAN_NAMES[span.kind] ?? span.kind);
    const took = cell("took", durationText(session.times[span.last] - session.times[span.first]));
    if (app.lanes?.axis === "time") took.style.background = waterfall(session, span);
    kind.style.marginLeft = `${LEVEL * Math.min(depth, DEPTH_MAX)}px`;
    row.replaceChildren(
      cell("seq", span.first, app.notes.of(span.first) ? " ✎" : ""),
      cell("time", clock(session, span.first)),
      cell("agent", span.agent),
      kind,
      cell("says", hiddenMark(session, hidden), tries, otherModel(session, span), span.kind === "ask" ? "" : make("b", {}, `${span.name} `), storyOf(session, span), answerOf(session, span), noteOf(span)),
      ...(used ? [cell("used", used)] : []),
      took,
      cell("outcome", span.outcome || "open"),
    );
  }

  drawEvent(seq, row, isCurrent) {
    const { session, app } = this;
    const kind = session.kinds[seq];
    const isBad = isFailure(session, seq);
    row.className = `row event ${toneOf(session, seq)}${isCurrent && seq === app.seq ? " chosen" : ""}${isBad ? " bad" : ""}`;
    row.replaceChildren(
      cell("seq", seq, app.notes.of(seq) ? " ✎" : ""),
      cell("time", clock(session, seq)),
      cell("route", `${session.sender(seq)} → ${session.recipient(seq)}`),
      cell("kind", kind),
      cell("says", summaryOf(session, seq)),
    );
  }
}

function flatRow(span) {
  return { span, depth: 0, isParent: false, isFolded: false, hidden: [] };
}

/** Return a background with a bar under a row's duration: when it was, in the time of the session. */
function waterfall({ times, count }, { first, last }) {
  const share = (seq) => (100 * (times[seq] - times[0])) / Math.max(1, times[count] - times[0]);
  const left = Math.min(97, share(first));
  return `linear-gradient(90deg, transparent ${left}%, var(--tone) ${left}% ${Math.max(left + 3, share(last))}%, transparent 0) bottom / 100% 3px no-repeat`;
}

/** Return the place of the last of some rising numbers that is not above another one; -1 for none. */
function lastPlace(numbers, limit) {
  let low = 0;
  let high = numbers.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (numbers[middle] <= limit) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

/** Return a mark with the number of rows that a fold hides, and of the failures among them. */
function hiddenMark(session, hidden) {
  if (!hidden.length) return "";
  const failed = hidden.filter((span) => isBadSpan(session, span)).length;
  return make("span", { class: `badge${failed ? " failed" : ""}` }, `${hidden.length.toLocaleString("en")} rows${failed ? `, ${failed.toLocaleString("en")} failed` : ""}`);
}

/** Return what neither the event of a span nor its outcome tells: changed arguments, the turn in which words were read. */
function noteOf(span) {
  const note = span.kind === "refused" ? "" : span.note.split("; ").filter((part) => !part.startsWith("answered by ")).join("; ");
  return note ? make("span", { class: "note" }, ` ${oneLine(note)}`) : "";
}

function cell(name, ...children) {
  return make("span", { class: name }, ...children);
}

function clock(session, seq) {
  return ((session.times[seq] - session.times[0]) / 1000).toFixed(3);
}

/** Return what a span is about: what a turn said, what a call was made with, what a delegation asked for. */
export function storyOf(session, span) {
  if (span.kind === "refused") return span.note;
  const isTurn = span.kind === "turn" && span.last !== span.first;
  const text = summaryOf(session, isTurn ? span.last : span.first);
  const named = [span.name, `to ${span.name}:`].find((one) => span.name && text.startsWith(one));
  return named ? text.slice(named.length).trim() : text;
}

/** Return the answer to a call or a delegation, behind an arrow. */
export function answerOf(session, span) {
  if (!["tool", "delegation"].includes(span.kind) || span.last === span.first) return "";
  const answer = summaryOf(session, span.last);
  return answer ? make("span", { class: "answer" }, ` → ${answer}`) : "";
}

/** Return the tokens and the cost of a turn's last attempt; of a delegation those that its end tells. */
export function usedBy(session, span) {
  if (!["turn", "delegation"].includes(span.kind) || span.last === span.first) return "";
  const { usage } = session.body(span.last);
  if (!usage) return "";
  const tokens = tokensOf(usage);
  if (!tokens) return "";
  return `${amount(tokens)}${usage.micro_usd ? ` ${dollars(usage.micro_usd)}` : ""}`;
}

export function tokensOf(usage) {
  return TOKENS.reduce((sum, name) => sum + (usage[name] ?? 0), 0);
}

/** Return a mark for a turn that another model answered than the one that was asked. */
function otherModel(session, span) {
  const name = span.kind === "turn" && session.bodies[span.last].includes('"model":') ? session.body(span.last).model : "";
  return name ? make("span", { class: "badge changed", title: "The reply names this model, and not the one that was asked" }, name) : "";
}
