// Search in the events of all sessions: some at a time, in the order of the list, so that the first are there at once.

import { asked, queryOf } from "./acts.js";

const EVENTS_AT_ONCE = 20_000;
const SESSIONS_AT_ONCE = 8; // so that other questions to the server need not wait for long

/** The sessions whose events hold a text. changed: called whenever there are more of them. */
export class Contents {
  constructor(changed) {
    Object.assign(this, { changed, run: 0 });
    this.end();
  }

  get isOn() {
    return this.text !== "";
  }

  /** Forget the text. A search that is under way ends. */
  end() {
    this.run += 1;
    Object.assign(this, { text: "", found: new Map(), said: "" });
  }

  statement(searched, all) {
    const broken = [...this.found.values()].filter(([, seq]) => !seq).length;
    const number = (count) => count.toLocaleString("en");
    return [`${number(this.found.size - broken)} of ${number(searched)} sessions hold it`, broken && `${number(broken)} cannot be read`,
      searched < all && `${number(all - searched)} to search`].filter(Boolean).join(", ");
  }

  /** Search the sessions of some rows of a log. */
  async search(log, rows, text) {
    this.end();
    const { run } = this;
    this.text = text;
    for (let next = 0; next < rows.length; ) {
      const part = partOf(rows, next);
      const query = queryOf({ log });
      query.set("text", text);
      query.set("sessions", part.map(({ session }) => session).join("\n"));
      const hits = await asked("holding", query).catch((error) => error);
      if (run !== this.run) return;
      next = hits instanceof Error ? rows.length : next + part.length;
      if (hits instanceof Error) this.said = hits.message;
      else {
        for (const { session } of part) if (hits[session]?.length) this.found.set(session, hits[session]);
        this.said = this.statement(next, rows.length);
      }
      this.changed();
    }
  }
}

/** Return the rows that one question is about. */
function partOf(rows, first) {
  let last = first + 1;
  for (let events = rows[first].events; last < rows.length && last < first + SESSIONS_AT_ONCE; last += 1) {
    events += rows[last].events;
    if (events > EVENTS_AT_ONCE) break;
  }
  return rows.slice(first, last);
}
