// The first page of a server: the sessions of its logs, with status, cost, duration and findings.

import { asked, queryOf, server } from "./acts.js";
import { Contents } from "./contents.js";
import { VirtualList, byId, make, makeSwitch, openDialog, pressSwitch } from "./elements.js";
import { amount, dollars, durationText } from "./words.js";

const SESSION_HEIGHT = 28;
const AGAIN_MS = 2000; // between two looks at the log,
const RESTS = 10; // and this many times as long as the last one took
const FIRST_ROWS = 100; // that are asked for before all others
const FINDINGS_MS = 120; // after the last scroll
const FINDINGS_AT_ONCE = 8; // so that other questions to the server need not wait for long
const CHOICES = [["", "All", "Every session (s)"], ["unfinished", "Unfinished", "An ask has no outcome"], ["failed", "Failed", "The last ask failed"], ["open", "Open", "No ask is under way"], ["closed", "Closed", "Nothing is left to do"]];
const ORDERS = [["started", "newest first"], ["last", "last event"], ["micro_usd", "cost"], ["tokens", "tokens"], ["took", "duration"], ["failures", "failed agents"]];
const HEADINGS = [["state", "Status"], ["title", "Prompt"], ["findings", "Findings"], ["events", "Events"], ["took", "Duration"], ["used", "Tokens"], ["cost", "Cost"], ["when", "Started"]];
const MARKS = { ok: "✓", failed: "✗", cancelled: "⊘" };

class Sessions {
  constructor() {
    Object.assign(this, { log: 0, rows: [], shown: [], current: 0, status: "", tag: "", order: "started", findings: new Map(), text: "" });
    this.contents = new Contents(() => this.choose());
    this.list = new VirtualList(byId("list"), SESSION_HEIGHT, (index, row) => this.draw(index, row), { hasLinks: true });
    byId("headings").append(make("div", { class: "row session heading" }, HEADINGS.map(([name, label]) => make("span", { class: name }, label))));
    this.fillChoices();
    this.listen();
  }

  fillChoices() {
    const logs = server.logs ?? [];
    byId("log").append(...logs.map((name, place) => make("option", { value: place, title: name }, name)));
    byId("log").hidden = logs.length < 2;
    byId("order").append(...ORDERS.map(([value, label]) => make("option", { value }, label)));
    makeSwitch(byId("status"), CHOICES, this.status, (status) => {
      this.status = status;
      pressSwitch(byId("status"), status);
      this.choose();
    });
  }

  listen() {
    byId("log").addEventListener("change", () => {
      Object.assign(this, { log: Number(byId("log").value), rows: [], text: "", tag: "", current: 0 });
      this.findings.clear();
      this.contents.end();
      this.look();
    });
    byId("tag").addEventListener("change", () => this.choose(Object.assign(this, { tag: byId("tag").value })));
    byId("order").addEventListener("change", () => this.choose(Object.assign(this, { order: byId("order").value })));
    byId("search").addEventListener("input", () => {
      this.contents.end();
      this.choose();
    });
    byId("contents-button").addEventListener("click", () => this.searchEvents());
    byId("search").addEventListener("keydown", (event) => {
      if (event.key === "ArrowDown" || event.key === "Enter") byId("list").focus();
    });
    byId("list").addEventListener("click", (event) => {
      const row = event.target.closest(".row");
      if (row && !event.target.closest("a")) this.pick(Number(row.dataset.index));
    });
    byId("list").addEventListener("scroll", () => this.later(), { passive: true });
    byId("theme-button").addEventListener("click", toggleTheme);
    byId("help-button").addEventListener("click", showSessionKeys);
    addEventListener("keydown", (event) => this.pressed(event));
  }

  // --- the log ---------------------------------------------------------------------

  /** Look at the log again and again. A hidden page rests. */
  async watch() {
    for (;;) {
      const begun = performance.now();
      if (!document.hidden) await this.look();
      await new Promise((done) => setTimeout(done, AGAIN_MS + RESTS * (performance.now() - begun)));
    }
  }

  /** limit: look at so many of the newest sessions; 0 for all. */
  async look(limit = 0) {
    const { log } = this;
    try {
      const query = new URLSearchParams(limit ? { log, limit } : { log });
      const answer = await fetch(`rows?${query}`, { cache: "no-store", redirect: "error" });
      const text = await answer.text();
      if (!answer.ok) throw new Error(text || `the server refused this (${answer.status})`);
      if (log === this.log) this.take(text);
    } catch (error) {
      byId("found").textContent = error.message === "Failed to fetch" ? "no connection" : error.message;
      this.text = "";
    }
  }

  /** Take the rows of the log. Nothing is drawn if they are the same. */
  take(text) {
    if (text === this.text) return;
    this.text = text;
    const { columns, rows } = JSON.parse(text);
    this.rows = rows.map((cells) => rowOf(columns, cells));
    const tags = [...new Set(this.rows.flatMap(({ tags: found }) => found))].sort();
    byId("tag").replaceChildren(make("option", { value: "" }, "any"), ...tags.map((tag) => make("option", { value: tag, selected: tag === this.tag }, tag)));
    this.choose();
  }

  /** Choose the rows to show. The chosen session stays. */
  choose() {
    const words = byId("search").value.toLowerCase().split(/\s+/).filter(Boolean);
    const chosen = this.shown[this.current]?.session;
    const { order, status, tag } = this;
    const { contents } = this;
    const holds = (row) => (contents.isOn ? contents.found.has(row.session) : words.every((word) => row.text.includes(word)));
    this.shown = this.rows.filter((row) => fits(row, status, tag) && holds(row));
    if (order !== "started") this.shown.sort((one, other) => other[order] - one[order]);
    this.current = Math.max(0, this.shown.findIndex(({ session }) => session === chosen));
    byId("contents-button").setAttribute("aria-pressed", String(contents.isOn));
    byId("found").textContent = contents.isOn ? contents.said : this.shown.length === this.rows.length ? `${this.rows.length.toLocaleString("en")} sessions` : `${this.shown.length.toLocaleString("en")} of ${this.rows.length.toLocaleString("en")}`;
    this.list.setLength(this.shown.length);
    this.later();
  }

  /** Search in the events of the sessions for the text of the search, or end that. */
  searchEvents() {
    const text = byId("search").value.trim();
    const { contents, log, status, tag } = this;
    if (contents.isOn || !text) {
      contents.end();
      this.choose();
      if (!text) byId("search").focus();
      return;
    }
    contents.search(log, this.rows.filter((row) => fits(row, status, tag)), text);
    contents.said = "searching";
    this.choose();
  }

  /** Ask for the findings of the rows that can be seen, once scrolling has ended. */
  later() {
    clearTimeout(this.due);
    this.due = setTimeout(() => this.find(), FINDINGS_MS);
  }

  async find() {
    const seen = this.list.rows.map(({ dataset }) => this.shown[Number(dataset.index)]).filter(Boolean);
    const missing = seen.filter((row) => this.findings.get(row.session)?.events !== row.events).slice(0, FINDINGS_AT_ONCE);
    if (!missing.length) return;
    const query = queryOf({ log: this.log });
    query.set("sessions", missing.map(({ session }) => session).join("\n"));
    const found = await asked("findings", query).catch(() => ({}));
    for (const row of missing) this.findings.set(row.session, { events: row.events, found: found[row.session] ?? [] });
    this.list.refresh();
    this.later(); // for the rest
  }

  // --- rows ------------------------------------------------------------------------

  draw(index, element) {
    const row = this.shown[index];
    const isChosen = index === this.current;
    element.className = `row session ${row.outcome || row.status}${isChosen ? " chosen" : ""}`;
    element.title = `${row.session}\n${row.title}`;
    const { found = [] } = this.findings.get(row.session) ?? {};
    const [facts = 0, maybe = 0, first = ""] = found;
    const findings = [facts && `${facts} found`, maybe && `${maybe} maybe`].filter(Boolean).join(", ");
    element.replaceChildren(
      make("span", { class: "state" }, make("b", { class: "mark" }, markOf(row)), ` ${stateOf(row)}`),
      make("span", { class: "title" }, this.hitOf(row), row.parent && make("span", { class: "badge" }, `fork of #${row.base}`), !this.contents.isOn && row.tags.map((tag) => make("span", { class: "badge tag" }, tag)), make("a", { href: hrefOf(this.log, row), ...(isChosen && { "aria-current": "true" }) }, row.title || row.session)),
      make("span", { class: `findings${facts ? " bad-word" : maybe ? "" : " none"}`, title: first }, findings || (row.failures ? `${row.failures} failed` : found.length ? "none" : "")),
      make("span", { class: "events" }, row.events.toLocaleString("en")),
      make("span", { class: "took" }, row.took ? durationText(row.took) : ""),
      make("span", { class: "used" }, amount(row.tokens)),
      make("span", { class: "cost" }, dollars(row.micro_usd)),
      make("span", { class: "when" }, new Date(row.started).toLocaleString()));
  }

  /** Return a link to the first event of a session that holds the text of the search. */
  hitOf(row) {
    const [count, seq, words, kind] = this.contents.found.get(row.session) ?? [];
    if (count === 0) return make("span", { class: "bad-word" }, `${words} `);
    return seq && make("a", { class: "hit", title: kind, href: `${hrefOf(this.log, row)}#${seq}` }, make("b", {}, `${count} ${count === 1 ? "event" : "events"}, #${seq} `), `${words} `);
  }

  pick(index) {
    this.current = Math.max(0, Math.min(this.shown.length - 1, index));
    this.list.show(this.current);
  }

  open() {
    const row = this.shown[this.current];
    if (row) location.href = hrefOf(this.log, row);
  }

  pressed(event) {
    if (event.key === "Escape" && !byId("dialog").open) return this.leave();
    const isTyping = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName) || byId("dialog").open;
    if (isTyping || event.ctrlKey || event.metaKey || event.altKey) return undefined;
    const isButton = event.target.tagName === "BUTTON" || event.target.tagName === "A";
    const page = Math.max(1, Math.floor(byId("list").clientHeight / SESSION_HEIGHT) - 1);
    const names = CHOICES.map(([name]) => name);
    const act = {
      ArrowDown: () => this.pick(this.current + 1), j: () => this.pick(this.current + 1), ArrowUp: () => this.pick(this.current - 1), k: () => this.pick(this.current - 1),
      PageDown: () => this.pick(this.current + page), PageUp: () => this.pick(this.current - page), Home: () => this.pick(0), End: () => this.pick(this.shown.length - 1),
      g: () => this.pick(0), G: () => this.pick(this.shown.length - 1), ...(!isButton && { Enter: () => this.open() }),
      s: () => byId("status").children[(names.indexOf(this.status) + 1) % names.length].click(),
      "/": () => byId("search").select(), e: () => this.searchEvents(), t: toggleTheme, "?": showSessionKeys,
    }[event.key];
    if (!act) return undefined;
    event.preventDefault();
    return act();
  }

  leave() {
    byId("search").value = "";
    this.contents.end();
    byId("list").focus();
    this.choose();
  }
}

function rowOf(columns, cells) {
  const row = Object.fromEntries(columns.map((name, place) => [name, cells[place]]));
  row.took = Math.max(0, row.last - row.started);
  row.text = [row.session, row.title, row.host, row.kind, row.status, ...row.tags].join(" ").toLowerCase();
  return row;
}

function fits(row, status, tag) {
  if (tag && !row.tags.includes(tag)) return false;
  if (status === "failed") return row.outcome === "failed";
  return !status || row.status === status || (status === "unfinished" && row.status === "waiting");
}

function markOf({ status, outcome }) {
  return status === "unfinished" || status === "waiting" ? "…" : MARKS[outcome] ?? "·";
}

function stateOf({ status, kind }) {
  if (status === "waiting") return "waits for its code";
  return status === "unfinished" ? status : kind || status;
}

function hrefOf(log, { session }) {
  return `session?${queryOf({ log, session, beside: "" })}`;
}

function toggleTheme() {
  const root = document.documentElement;
  const isDark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = isDark ? "light" : "dark";
}

function showSessionKeys() {
  const keys = [["↓ ↑ or j k", "next and previous session"], ["Enter", "open the session"], ["g G", "first and last session"], ["/", "search"], ["e", "search in the events"], ["Esc", "end the search"], ["s", "next status"], ["t", "light or dark"]];
  openDialog("Keys", make("dl", {}, keys.flatMap(([one, says]) => [make("dt", {}, one), make("dd", {}, says)])));
}

async function startSessions() {
  const page = new Sessions();
  globalThis.callboard = page;
  await page.look(FIRST_ROWS);
  document.body.dataset.ready = String(Math.round(performance.now()));
  byId("list").focus();
  page.watch();
}

startSessions();
