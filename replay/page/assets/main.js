// The page: the chosen event, agent and rows, and the keys and links that change them.

import { loadSession } from "./data.js";
import { DetailView } from "./detail.js";
import { byId, make, makeSwitch, pressSwitch } from "./elements.js";
import { LanesView } from "./lanes.js";
import { ListView } from "./list.js";
import { Notes } from "./notes.js";
import { search } from "./search.js";
import { States } from "./states.js";
import { TreeView } from "./tree.js";
import { partsOf, sourceOf, wayTo } from "./why.js";
import { amount, dollars, durationText, isFailure, summaryOf } from "./words.js";

const AXES = [["order", "Order", "By the order of the log"], ["time", "Time", "By the clock"], ["cause", "Cause", "By the number of causes before"]];
const MODES = [["story", "Story", "A row for each turn, call and delegation (v)"], ["events", "Events", "A row for each event (v)"]];
const STRIP_MAX = 30;
const KEYS = [
  ["↓ ↑ or j k", "next and previous row"], ["n p", "next and previous event of this agent"], ["g G", "first and last event"],
  ["f F", "next and previous failure"], ["d D", "next and previous delegation"], ["c", "the event that this one answers"],
  ["/", "search; kind:ToolReturned agent:host.1 narrow it"], ["Esc", "end the search"], ["v", "story or events"], ["o", "this agent only"],
  ["e r s w x", "message, request, state, why, JSON"], ["+ - 0", "zoom the lanes; ctrl and wheel, drag"], ["m", "write a note"], ["a t ?", "agents, theme, keys"],
];

class App {
  constructor(session) {
    Object.assign(this, { session, seq: 1, agent: "host", mode: "story", isOnlyAgent: false, found: null, foundSet: null });
    this.notes = new Notes(session);
    this.states = new States(session);
    this.tree = new TreeView(byId("tree"), session, this);
    this.list = new ListView(byId("list"), session, this);
    this.lanes = new LanesView(byId("lanes"), session, this);
    this.detail = new DetailView(byId("detail"), session, this.states, this);
    this.fillTop();
    this.fillFindings();
    this.listen();
    this.list.fill();
    this.showModes();
    this.followLink();
  }

  // --- what is chosen ------------------------------------------------------------

  /** Choose an event. isJump: the browser's back button returns from it. */
  select(seq, { isJump = false } = {}) {
    if (!this.session.has(seq)) return;
    this.seq = seq;
    const agent = this.session.agentOf(seq);
    if (agent) this.agent = agent;
    if (location.hash !== `#${seq}`) history[isJump ? "pushState" : "replaceState"](null, "", `#${seq}`);
    this.refresh();
  }

  chooseAgent(address) {
    this.agent = address;
    const first = this.session.names.includes(address) ? this.firstOf(address) : 0;
    if (this.isOnlyAgent) this.list.fill();
    if (first > 0) this.select(first, { isJump: true });
    else this.refresh();
  }

  firstOf(address) {
    const number = this.session.names.indexOf(address);
    return this.session.recipients.indexOf(number, 1);
  }

  followLink() {
    const seq = Number(location.hash.slice(1));
    if (!this.session.count) this.refresh();
    this.select(this.session.has(seq) ? seq : this.session.findings[0]?.seq ?? 1);
  }

  refresh() {
    this.list.follow();
    this.tree.refresh();
    this.lanes.follow();
    this.detail.refresh();
  }

  /** Choose the next event, from the chosen one on, for which a test holds. */
  seek(step, test) {
    for (let seq = this.seq + step; this.session.has(seq); seq += step)
      if (test(seq)) return this.select(seq);
    return undefined;
  }

  search(query) {
    this.found = search(this.session, query);
    this.foundSet = this.found && new Set(this.found);
    byId("found").textContent = this.found ? `${this.found.length.toLocaleString("en")} of ${this.session.count.toLocaleString("en")}` : "";
    this.list.fill();
    this.showModes();
    this.lanes.refresh();
  }

  setMode(mode) {
    this.mode = mode;
    this.list.fill();
    this.showModes();
  }

  setOnlyAgent(isOnly) {
    this.isOnlyAgent = isOnly;
    byId("only-agent").setAttribute("aria-pressed", String(isOnly));
    this.list.fill();
    this.showModes();
  }

  setNote(text) {
    this.notes.set(this.seq, text);
    this.list.follow();
  }

  titleOf(seq) {
    return `${seq} ${this.session.kinds[seq]} ${this.session.sender(seq)} → ${this.session.recipient(seq)}\n${summaryOf(this.session, seq)}`;
  }

  // --- the frame -----------------------------------------------------------------

  fillTop() {
    const { session } = this;
    const { summary } = session;
    document.title = `${summary.title || summary.session} · callboard`;
    byId("session").textContent = summary.title || summary.session;
    byId("session").title = `${summary.session}\n${summary.title}`;
    const host = session.agentAt.get("host");
    byId("outcome").textContent = summary.kind || "no outcome";
    byId("outcome").classList.add(host?.status ?? "running");
    const tokens = session.agents.reduce((sum, agent) => sum + agent.tokens, 0);
    const cost = session.agents.reduce((sum, agent) => sum + agent.microUsd, 0);
    const facts = [`${session.count.toLocaleString("en")} events`, `${session.agents.length} agents`, `${amount(tokens)} tokens`, dollars(cost),
      durationText(session.times[session.count] - session.times[0])];
    byId("figures").textContent = facts.filter(Boolean).join(" · ");
    makeSwitch(byId("axis"), AXES, "order", (axis) => {
      pressSwitch(byId("axis"), axis);
      this.lanes.setAxis(axis);
    });
    makeSwitch(byId("mode"), MODES, this.mode, (mode) => this.setMode(mode));
  }

  showModes() {
    pressSwitch(byId("mode"), this.found ? "events" : this.mode);
    const rows = this.list.seqs.length.toLocaleString("en");
    byId("list-hint").textContent = `${rows} rows${this.isOnlyAgent ? ` of ${this.agent}` : ""}`;
  }

  fillFindings() {
    const { findings } = this.session;
    const chips = findings.slice(0, STRIP_MAX).map((one) =>
      make("a", { href: `#${one.seq}`, role: "listitem", class: `finding${one.isMaybe ? " maybe" : ""}`,
        title: `${one.says}\nnext: callboard ${this.commandOf(one)}` },
        make("b", {}, one.isMaybe ? "maybe " : "", one.kind.replaceAll("_", " ")), ` ${one.says}`));
    const more = findings.length - chips.length;
    byId("findings").append(...chips, more > 0 ? make("span", { class: "hint" }, `and ${more} more: callboard diagnose ${this.session.summary.session}`) : "");
    byId("findings").hidden = !findings.length;
  }

  commandOf({ command, seq }) {
    const { session } = this.session.summary;
    return command.replaceAll("{at}", `${session}#${seq}`).replaceAll("{session}", session).replaceAll("{seq}", seq);
  }

  listen() {
    addEventListener("hashchange", () => this.followLink());
    addEventListener("popstate", () => this.followLink());
    addEventListener("keydown", (event) => this.pressed(event));
    let due = 0;
    byId("search").addEventListener("input", (event) => {
      clearTimeout(due);
      due = setTimeout(() => this.search(event.target.value), 60);
    });
    byId("search").addEventListener("keydown", (event) => {
      if (event.key === "Enter" && this.found?.length) this.select(this.found.find((seq) => seq > this.seq) ?? this.found[0]);
    });
    byId("only-agent").addEventListener("click", () => this.setOnlyAgent(!this.isOnlyAgent));
    byId("zoom-in").addEventListener("click", () => this.lanes.zoom(0.5));
    byId("zoom-out").addEventListener("click", () => this.lanes.zoom(2));
    byId("zoom-all").addEventListener("click", () => this.lanes.zoomAll());
    byId("agents-button").addEventListener("click", () => toggleAgents());
    byId("theme-button").addEventListener("click", () => this.toggleTheme());
    byId("help-button").addEventListener("click", () => showKeys());
    byId("notes-button").addEventListener("click", () => this.showNotes());
    drag(byId("split-left"), "--left", (event) => event.clientX);
    drag(byId("split-right"), "--right", (event) => innerWidth - event.clientX);
    drag(byId("split-lanes"), "--lanes", (event) => event.clientY - byId("lanes").getBoundingClientRect().top);
  }

  pressed(event) {
    if (event.key === "Escape") return this.leave();
    const isTyping = /^(INPUT|TEXTAREA)$/.test(event.target.tagName) || byId("dialog").open;
    if (isTyping || event.ctrlKey || event.metaKey || event.altKey) return undefined;
    const act = this.actions()[event.key];
    if (!act) return undefined;
    event.preventDefault();
    return act();
  }

  actions() {
    const { session, list, lanes, detail } = this;
    const isOfAgent = (seq) => session.agentOf(seq) === this.agent;
    const isDelegation = (seq) => session.kinds[seq] === "Delegate";
    const failure = (seq) => isFailure(session, seq);
    const down = () => list.move(1);
    const up = () => list.move(-1);
    const page = Math.max(1, Math.floor(byId("list").clientHeight / 24) - 1);
    return {
      ArrowDown: down, j: down, ArrowUp: up, k: up, PageDown: () => list.move(page), PageUp: () => list.move(-page),
      n: () => this.seek(1, isOfAgent), p: () => this.seek(-1, isOfAgent),
      g: () => this.select(1), G: () => this.select(session.count), Home: () => this.select(1), End: () => this.select(session.count),
      f: () => this.seek(1, failure), F: () => this.seek(-1, failure), d: () => this.seek(1, isDelegation), D: () => this.seek(-1, isDelegation),
      c: () => this.select(session.causes[this.seq], { isJump: true }),
      v: () => this.setMode(this.mode === "story" ? "events" : "story"), o: () => this.setOnlyAgent(!this.isOnlyAgent),
      e: () => detail.show("message"), r: () => detail.show("request"), s: () => detail.show("state"), w: () => detail.show("why"), x: () => detail.show("json"),
      "+": () => lanes.zoom(0.5), "-": () => lanes.zoom(2), 0: () => lanes.zoomAll(), m: () => detail.note.focus(),
      "/": () => byId("search").select(), a: toggleAgents, t: () => this.toggleTheme(), "?": showKeys,
    };
  }

  leave() {
    if (document.activeElement instanceof HTMLElement) document.activeElement.blur();
    if (!this.found) return;
    byId("search").value = "";
    this.search("");
  }

  toggleTheme() {
    const root = document.documentElement;
    const isDark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = isDark ? "light" : "dark";
    this.lanes.refresh();
  }

  showNotes() {
    const { notes, session } = this;
    const lines = [...notes.texts].sort(([one], [other]) => one - other).slice(0, 300).map(([seq, text]) =>
      make("a", { href: `#${seq}`, class: "line", onclick: () => byId("dialog").close() },
        make("span", { class: "seq" }, seq), make("span", { class: "kind" }, session.kinds[seq] ?? ""), make("span", { class: "says" }, text)));
    const file = make("input", { type: "file", accept: ".json", "aria-label": "Notes to load" });
    const said = make("span", { class: "hint" });
    file.addEventListener("change", async () => {
      if (await notes.load(file.files[0])) this.showNotes();
      else said.textContent = "This file holds no notes of this session.";
      this.refresh();
    });
    openDialog("Notes",
      make("p", { class: "hint" }, notes.isKept ? "This browser keeps them; the log never changes. Save a file to hand them on." : "This browser keeps nothing for files: save a file."),
      ...(lines.length ? lines : [make("p", {}, "No notes yet. Press m on an event to write one.")]),
      make("p", {}, make("button", { onclick: () => notes.save() }, "Save as a file"), " ", make("label", {}, "Load: ", file), " ", said));
  }
}

function toggleAgents() {
  document.body.classList.toggle(innerWidth < 1000 ? "with-agents" : "without-agents");
}

function showKeys() {
  openDialog("Keys", make("dl", {}, KEYS.flatMap(([keys, says]) => [make("dt", {}, keys), make("dd", {}, says)])));
}

function openDialog(title, ...children) {
  const dialog = byId("dialog");
  dialog.replaceChildren(make("h2", {}, title), ...children, make("form", { method: "dialog" }, make("button", {}, "Close")));
  if (!dialog.open) dialog.showModal();
}

/** Let a splitter set the size of a part of the page. */
function drag(splitter, name, sizeAt) {
  splitter.addEventListener("pointerdown", (event) => {
    event.preventDefault();
    splitter.setPointerCapture(event.pointerId);
    const move = (moved) => document.body.style.setProperty(name, `${Math.max(60, sizeAt(moved))}px`);
    splitter.addEventListener("pointermove", move);
    splitter.addEventListener("pointerup", () => splitter.removeEventListener("pointermove", move), { once: true });
  });
}

/** Start, and leave the page's parts where tests and a console find them. */
async function start() {
  try {
    const app = new App(await loadSession(byId("data")));
    globalThis.callboard = Object.assign(app, { wayTo, partsOf, sourceOf });
    document.body.dataset.ready = String(Math.round(performance.now()));
  } catch (error) {
    document.body.dataset.failed = "yes";
    byId("figures").textContent = `This page cannot be read: ${error.message}. It needs a browser of 2023 or later.`;
    throw error;
  }
}

start();
