// The list: each turn, tool call and delegation as one row ("Story"), or each event as one row ("Events").

import { VirtualList, make } from "./elements.js";
import { eventOfSpan } from "./beside.js";
import { amount, dollars, durationText, isBadWord, isFailure, summaryOf, toneOf } from "./words.js";

export const ROW_HEIGHT = 24;
const TOKENS = ["input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "charged_tokens"];
export const SPAN_NAMES = { delegation: "delegate" };
export const SPAN_TONES = { ask: "client", turn: "model", tool: "tool", approval: "approval", delegation: "task", report: "report", tell: "client", cancel: "client", change: "client", timer: "plain", context: "task" };

export class ListView {
  constructor(container, session, app) {
    Object.assign(this, { container, session, app, seqs: [], spans: [] });
    this.list = new VirtualList(container, ROW_HEIGHT, (index, row) => this.draw(index, row));
    container.addEventListener("click", (event) => {
      const row = event.target.closest(".row");
      if (row) app.select(this.seqAt(Number(row.dataset.index)), { isJump: true });
    });
  }

  /** Choose the rows anew: those of the search, of the chosen agent, of the mode. isStill: do not scroll. */
  fill({ isStill = false } = {}) {
    const { app, session } = this;
    const only = app.isOnlyAgent ? app.agent : "";
    if (app.mode !== "events" && !app.found) {
      this.spans = session.spans.filter((span) => !only || span.agent === only);
      this.rowOfEnd = new Map(this.spans.map((span, row) => [span.last, row]));
      this.seqs = this.spans.map((span) => span.first);
    } else {
      this.spans = [];
      const all = app.found ?? Array.from({ length: session.count }, (_, place) => place + 1);
      this.seqs = only ? all.filter((seq) => session.agentOf(seq) === only) : all;
    }
    this.current = this.rowOf(app.seq);
    this.list.setLength(this.seqs.length);
    if (!isStill) this.follow();
  }

  /** Return the event that a row leads to: of a turn or a call its answer, which names its question. */
  seqAt(index) {
    const row = Math.max(0, Math.min(index, this.seqs.length - 1));
    const span = this.spans[row];
    return span ? eventOfSpan(span) : this.seqs[row];
  }

  /** Return the place of the last row that begins at an event or before it. */
  indexOf(seq) {
    let low = 0;
    let high = this.seqs.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.seqs[middle] <= seq) low = middle + 1;
      else high = middle;
    }
    return low - 1;
  }

  /** Show the row of the chosen event. */
  follow() {
    this.current = this.rowOf(this.app.seq);
    this.list.show(Math.max(0, this.current));
  }

  /** Return the row of the span that an event begins or ends, or else of the last one before it. */
  rowOf(seq) {
    const at = this.indexOf(seq);
    if (!this.spans.length || this.spans[at]?.first === seq) return at;
    return this.rowOfEnd.get(seq) ?? at;
  }

  /** Choose the row before or after the current one. */
  move(by) {
    if (!this.seqs.length) return;
    this.app.select(this.seqAt(this.current + by));
  }

  draw(index, row) {
    const isCurrent = index === this.current;
    if (this.spans.length) this.drawSpan(this.spans[index], row, isCurrent);
    else this.drawEvent(this.seqs[index], row, isCurrent);
  }

  drawSpan(span, row, isCurrent) {
    const { session, app } = this;
    const isBad = isBadWord(span.outcome);
    row.className = `row story ${SPAN_TONES[span.kind]}${isCurrent ? " chosen" : ""}${isBad ? " bad" : ""}`;
    const tries = span.attempts > 1 ? ` ×${span.attempts}` : "";
    row.replaceChildren(
      cell("seq", span.first, app.notes.of(span.first) ? " ✎" : ""),
      cell("time", clock(session, span.first)),
      cell("agent", span.agent),
      cell("kind", SPAN_NAMES[span.kind] ?? span.kind),
      cell("says", otherModel(session, span), span.kind === "ask" ? "" : make("b", {}, `${span.name} `), storyOf(session, span), answerOf(session, span)),
      cell("used", usedBy(session, span)),
      cell("took", `${durationText(session.times[span.last] - session.times[span.first])}${tries}`),
      cell("outcome", span.outcome || "open"),
    );
  }

  drawEvent(seq, row, isCurrent) {
    const { session, app } = this;
    const kind = session.kinds[seq];
    const isBad = isFailure(session, seq);
    row.className = `row event ${toneOf(kind)}${isCurrent && seq === app.seq ? " chosen" : ""}${isBad ? " bad" : ""}`;
    row.replaceChildren(
      cell("seq", seq, app.notes.of(seq) ? " ✎" : ""),
      cell("time", clock(session, seq)),
      cell("route", `${session.sender(seq)} → ${session.recipient(seq)}`),
      cell("kind", kind),
      cell("says", summaryOf(session, seq)),
    );
  }
}

function cell(name, ...children) {
  return make("span", { class: name }, ...children);
}

function clock(session, seq) {
  return ((session.times[seq] - session.times[0]) / 1000).toFixed(3);
}

/** Return what a span is about: what a turn said, what a call was made with, what a delegation asked for. */
export function storyOf(session, span) {
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
  const tokens = TOKENS.reduce((sum, name) => sum + (usage[name] ?? 0), 0);
  if (!tokens) return "";
  return `${amount(tokens)}${usage.micro_usd ? ` ${dollars(usage.micro_usd)}` : ""}`;
}

/** Return a mark for a turn that another model answered than the one that was asked. */
function otherModel(session, span) {
  const name = span.kind === "turn" && session.bodies[span.last].includes('"model":') ? session.body(span.last).model : "";
  return name ? make("span", { class: "badge changed", title: "The reply names this model, and not the one that was asked" }, name) : "";
}
