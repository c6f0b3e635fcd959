// Two sessions beside each other: which events are pairs, where they differ, and what a fork saved.

import { WrittenNumber } from "./data.js";

const SPANNED_BY_END = new Set(["turn", "tool", "approval", "report"]);

/** The comparison of two sessions, as replay/page/building.py makes it. */
export class Beside {
  constructor(left, right) {
    const { shared, pairs, differing, differences, count, profiles, totals, saved } = right.summary.beside;
    Object.assign(this, { left, right, shared, differences, count, profiles, totals, saved });
    this.rightOf = new Map();
    this.leftOf = new Map();
    let [one, other] = [0, 0];
    for (const [byLeft, byRight] of pairs) {
      [one, other] = [one + byLeft, other + byRight];
      this.rightOf.set(one, other);
      this.leftOf.set(other, one);
    }
    this.differing = { left: new Set(differing.map(([seq]) => seq)), right: new Set(differing.map(([, seq]) => seq)) };
  }

  isLeft(session) {
    return session === this.left;
  }

  other(session) {
    return this.isLeft(session) ? this.right : this.left;
  }

  isShared(seq) {
    return seq <= this.shared;
  }

  /** Return the event of the other session that is the pair of this one; 0 for none. */
  pairOf(session, seq) {
    if (this.isShared(seq)) return seq;
    return (this.isLeft(session) ? this.rightOf : this.leftOf).get(seq) ?? 0;
  }

  /** Return whether an event differs from its pair, or has none where one is looked for. */
  differs(session, seq) {
    return this.differing[this.isLeft(session) ? "left" : "right"].has(seq);
  }

  /** Return the pairs of spans, and the spans without one, in the order of the left session. */
  rows() {
    const spanAt = new Map(this.right.spans.flatMap((span) => [[span.first, span], [span.last, span]]));
    const rowOf = new Map();
    const rows = this.left.spans.map((span) => {
      const pair = this.pairedSpan(span, spanAt);
      const row = { left: span, right: pair && !rowOf.has(pair) ? pair : null };
      if (row.right) rowOf.set(pair, row);
      return row;
    });
    return this.withRight(rows, rowOf).map((row) => ({ ...row, state: this.stateOf(row) }));
  }

  pairedSpan(span, spanAt) {
    for (const seq of [span.last, span.first]) {
      const pair = this.pairOf(this.left, seq);
      const found = pair ? spanAt.get(pair) : undefined;
      if (found && found.kind === span.kind) return found;
    }
    return null;
  }

  /** Put the spans of the right session that have no pair behind the rows before them. */
  withRight(rows, rowOf) {
    const behind = new Map([[null, []]]);
    let last = null;
    for (const span of this.right.spans) {
      const row = rowOf.get(span);
      if (row) last = row;
      else (behind.get(last) ?? behind.set(last, []).get(last)).push({ left: null, right: span });
    }
    return [...behind.get(null), ...rows.flatMap((row) => [row, ...(behind.get(row) ?? [])])];
  }

  stateOf({ left, right }) {
    if (!left || !right) return "only";
    if (this.isShared(left.last) && this.isShared(right.last)) return "shared";
    const isOther = [left.first, left.last].some((seq) => this.differs(this.left, seq))
      || [right.first, right.last].some((seq) => this.differs(this.right, seq));
    return isOther ? "differs" : "same";
  }
}

/** Return the event that a span leads to: of a turn or a call its answer. */
export function eventOfSpan(span) {
  return SPANNED_BY_END.has(span.kind) ? span.last : span.first;
}

const IGNORED = new Set(["usage", "settled", "need", "closing", "room", "unsettled", "messages", "request", "new", "by", "check", "timer",
  "until", "event", "permission", "reused", "id", "tool_use_id", "request_id", "digest", "started_at", "ended_at"]);

/** Return the values that differ in two messages, by path: [path, value here, value there]. */
export function differencesOf(one, other, path = "") {
  if (JSON.stringify(one) === JSON.stringify(other)) return [];
  const isNested = (value) => value !== null && typeof value === "object" && !(value instanceof WrittenNumber);
  if (!isNested(one) || !isNested(other) || Array.isArray(one) !== Array.isArray(other)) return [[path, one, other]];
  const names = [...new Set([...Object.keys(one), ...Object.keys(other)])].filter((name) => !IGNORED.has(name));
  return names.flatMap((name) => differencesOf(one[name], other[name], path ? `${path}.${name}` : name));
}
