// The page: the chosen event, agent and rows, and the keys and links that change them.

import { server } from "./acts.js";
import { Beside } from "./beside.js";
import { curlOf, pythonOf, sendable } from "./copies.js";
import { loadSession } from "./data.js";
import { conversationView } from "./conversation.js";
import { delegationsIn } from "./delegations.js";
import { DetailView } from "./detail.js";
import { DifferencesView } from "./differences.js";
import { editIn } from "./edits.js";
import { byId, fresh, make, makeSwitch, pressSwitch } from "./elements.js";
import { follow } from "./follow.js";
import { openFork } from "./forking.js";
import { offerValue } from "./json.js";
import { drag, fillCompared, fillFindings, fillTop, showKeys, showNotes, toggleAgents } from "./frame.js";
import { LanesView } from "./lanes.js";
import { ListView, usedBy } from "./list.js";
import { Notes } from "./notes.js";
import { PairsView } from "./pairs.js";
import { Questions, openCancel, openTell } from "./questions.js";
import { search } from "./search.js";
import { States } from "./states.js";
import { SummaryView } from "./summary.js";
import { TreeView } from "./tree.js";
import { openVariants } from "./variants.js";
import { essential, partsOf, sourceOf, wayTo } from "./why.js";
import { forkOf, isFailure, summaryOf } from "./words.js";

const AXES = [["order", "Order", "By the order of the log"], ["time", "Time", "By the clock"], ["cause", "Cause", "By the number of causes before"]];
const TALK_MODE = ["talk", "Conversation", "What the chosen agent read and said (v)"];
const MODES = [["story", "Story", "A row for each turn, call and delegation (v)"], ["events", "Events", "A row for each event (v)"]];
const PAIRS_MODE = ["pairs", "Beside", "Both sessions, row by row (v)"];

class App {
  /** beside: the two sessions of this page; null if there is one. */
  constructor(session, beside = null) {
    Object.assign(this, { beside, seq: 1, agent: "host", mode: beside ? "pairs" : "story", isOnlyNew: false, isOnlyAgent: false, axis: null, found: null, foundSet: null });
    document.body.classList.toggle("without-agents", Boolean(beside) && innerWidth >= 1000); // two sessions need the room
    this.modes = beside ? [PAIRS_MODE, ...MODES, TALK_MODE] : [...MODES, TALK_MODE];
    this.use(beside?.right.summary.is_right ? beside.right : session);
    this.compare();
    this.fillFrame();
    this.listen();
    this.list.fill();
    this.showModes();
    this.followLink();
  }

  /** Fill the views of both sessions. */
  compare() {
    const { beside } = this;
    if (!beside) return;
    const [tops, current] = [["pairs", "differences"].map((id) => byId(id).scrollTop), this.pairs?.current ?? -1];
    this.pairs = new PairsView(fresh("pairs"), beside, this);
    this.pairs.current = current;
    this.differences = new DifferencesView(fresh("differences"), beside, this);
    ["pairs", "differences"].forEach((id, place) => {
      byId(id).scrollTop = tops[place];
    });
    this.pairs.list.refresh();
  }

  /** Compare both sessions again: the fork has more events, or another comparison. */
  compareAgain() {
    const { beside, session } = this;
    if (!beside || beside.right.summary.beside === this.compared) return;
    this.compared = beside.right.summary.beside;
    this.beside = new Beside(beside.left, beside.right);
    this.compare();
    fillCompared(this.beside);
    pressSwitch(byId("side"), this.beside.isLeft(session) ? "left" : "right");
  }

  /** Show a session in all views. */
  use(session) {
    this.session = session;
    this.notes = new Notes(session);
    this.states = new States(session);
    this.tree = new TreeView(fresh("tree"), session, this);
    this.list = new ListView(fresh("list"), session, this);
    this.lanes = new LanesView(fresh("lanes"), session, this);
    this.summary = new SummaryView(fresh("summary"), session, this);
    this.detail = new DetailView(fresh("detail"), session, this.states, this, this.detail?.tab);
    fillTop(session);
    fillFindings(session);
    pressSwitch(byId("axis"), this.lanes.axis);
    if (this.beside) pressSwitch(byId("side"), this.beside.isLeft(session) ? "left" : "right");
    this.showActs();
  }

  // --- what is chosen ------------------------------------------------------------

  /** Choose an event. isJump: the browser's back button returns from it. session: another one of this page. */
  select(seq, { isJump = false, session = this.session } = {}) {
    if (!session.has(seq)) return;
    this.leaveSummary();
    if (session !== this.session) this.turnTo(session);
    this.seq = seq;
    const agent = session.agentOf(seq);
    if (agent) this.agent = agent;
    const link = session.href(seq);
    if (location.hash !== link) history[isJump ? "pushState" : "replaceState"](null, "", link);
    this.refresh();
  }

  /** Show the summary in place of the events. */
  showSummary() {
    this.isSummary = true;
    document.body.classList.add("with-summary");
    byId("summary-button").setAttribute("aria-pressed", "true");
    this.summary.refresh();
  }

  leaveSummary() {
    if (!this.isSummary) return;
    this.isSummary = false;
    byId("summary").replaceChildren();
    document.body.classList.remove("with-summary");
    byId("summary-button").setAttribute("aria-pressed", "false");
  }

  turnTo(session) {
    this.use(session);
    if (this.found) this.search(byId("search").value);
    else this.list.fill();
    this.showModes();
  }

  /** Choose the same event in the other session, or the last one there if it has no pair. */
  turn() {
    if (!this.beside) return;
    const { beside, session } = this;
    const other = beside.other(session);
    let pair = 0;
    for (let seq = this.seq; seq > 0 && !pair; seq -= 1) pair = beside.pairOf(session, seq);
    this.select(pair || 1, { isJump: true, session: other });
  }

  chooseAgent(address) {
    this.leaveSummary();
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
    const [, mark, digits] = /^#(beside-)?(\d+)$/.exec(location.hash) ?? [];
    const session = this.beside && digits ? this.beside[mark ? "right" : "left"] : this.session;
    if (!session.count) this.refresh();
    if (session.has(Number(digits)) || this.beside) return this.select(session.has(Number(digits)) ? Number(digits) : this.firstShown(), { session });
    this.seq = this.firstShown();
    this.agent = (session.has(this.seq) && session.agentOf(this.seq)) || this.agent;
    this.refresh();
    return this.showSummary();
  }

  /** Return the event to begin with: the first difference, the first finding, or the first event. */
  firstShown() {
    const [first] = this.beside?.differences ?? [];
    const seq = first?.[this.beside.isLeft(this.session) ? 2 : 3];
    return seq || (this.session.findings[0]?.seq ?? 1);
  }

  refresh() {
    this.detail.toTop();
    if (this.isReading) this.drawReading();
    else if (this.isPaired) this.followPair();
    else this.list.follow();
    this.tree.refresh();
    this.lanes.follow();
    this.detail.refresh();
  }

  followPair() {
    this.pairs.follow();
    this.differences.follow();
  }

  /** Choose the next event, from the chosen one on, for which a test holds. */
  seek(step, test) {
    for (let seq = this.seq + step; this.session.has(seq); seq += step)
      if (test(seq)) return this.select(seq);
    return undefined;
  }

  search(query) {
    if (query) this.leaveSummary();
    this.found = search(this.session, query);
    this.foundSet = this.found && new Set(this.found);
    byId("found").textContent = this.found ? `${this.found.length.toLocaleString("en")} of ${this.session.count.toLocaleString("en")}` : "";
    this.list.fill();
    this.showModes();
    this.lanes.refresh();
  }

  setMode(mode) {
    this.leaveSummary();
    this.mode = mode;
    this.list.fill();
    this.showModes();
    this.refresh();
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

  showNotes() {
    showNotes(this);
  }

  titleOf(seq) {
    return `${seq} ${this.session.kinds[seq]} ${this.session.sender(seq)} → ${this.session.recipient(seq)}\n${summaryOf(this.session, seq)}`;
  }

  /** Return whether both sessions of the page have an event. */
  isShared(seq) {
    return Boolean(this.beside?.isShared(seq));
  }

  /** Show the conversation of an agent. */
  read(address) {
    this.agent = address;
    this.setMode("talk");
  }

  /** Draw the conversation of the chosen agent. */
  drawReading() {
    const { session } = this;
    const key = `${this.agent} ${session.lastOf(this.agent)} ${this.isOnlyNew && this.seq}`;
    const page = byId("reading");
    if (page.dataset.key === key && page.session === session) return;
    // Of a conversation that has grown, the place that is read stays, and what was unfolded.
    const isGrown = page.session === session && page.agent === this.agent && page.childElementCount > 0;
    const unfolded = isGrown ? [...page.querySelectorAll("details")].map((one) => one.open) : [];
    const top = isGrown ? page.scrollTop : 0;
    Object.assign(page, { session, agent: this.agent });
    page.dataset.key = key;
    page.replaceChildren(...this.talk());
    [...page.querySelectorAll("details")].forEach((one, place) => {
      if (unfolded[place]) one.open = true;
    });
    page.scrollTop = top;
  }

  leaveReading() {
    byId("reading").replaceChildren();
    byId("reading").dataset.key = "";
  }

  talk() {
    const agent = this.session.agentAt.get(this.agent);
    const only = make("button", { "aria-pressed": String(this.isOnlyNew), onclick: () => {
      this.isOnlyNew = !this.isOnlyNew;
      this.drawReading();
    } }, "What this request added");
    const head = make("div", { class: "reading-head" }, make("h2", {}, `${this.agent} ${agent?.profile ?? ""}`), only);
    return [head, make("div", {}, conversationView(this, this.agent, { isOnlyNew: this.isOnlyNew }).filter(Boolean))];
  }

  get isReading() {
    return this.mode === "talk" && !this.found;
  }

  get isPaired() {
    return this.mode === "pairs" && !this.found;
  }

  /** Show a session that has more events now. The chosen event stays, unless it was the last one. */
  grow(before) {
    const isLast = this.seq === before && this.session.count > before;
    if (this.beside && this.session !== this.beside.right) return this.compareAgain();
    this.compareAgain();
    this.states.grow();
    this.tree.grow();
    this.lanes.grow();
    fillTop(this.session);
    fillFindings(this.session);
    if (this.found) this.found = search(this.session, byId("search").value);
    this.foundSet = this.found && new Set(this.found);
    this.list.fill({ isStill: true });
    this.showModes();
    if (this.isSummary) this.summary.grow();
    else if (isLast || !before) this.select(this.session.count);
    this.showActs();
    return undefined;
  }

  /** Show the acts that the session allows now. */
  showActs() {
    const isOver = this.session.summary.status !== "unfinished";
    for (const id of ["tell-button", "cancel-button"]) byId(id).disabled = isOver;
  }

  // --- the frame -----------------------------------------------------------------

  fillFrame() {
    makeSwitch(byId("axis"), AXES, this.lanes.axis, (axis) => {
      this.axis = axis; // of the other session, too
      pressSwitch(byId("axis"), axis);
      this.lanes.setAxis(axis);
      this.list.follow();
    });
    makeSwitch(byId("mode"), this.modes, this.mode, (mode) => this.setMode(mode));
    if (!this.beside) return;
    const { left, right, shared } = this.beside;
    const sides = [["left", shared ? "Origin" : "Left", left.summary.session], ["right", shared ? "Fork" : "Right", right.summary.session]];
    makeSwitch(byId("side"), sides, this.beside.isLeft(this.session) ? "left" : "right", (side) => {
      if (this.beside[side] !== this.session) this.turn();
    });
    byId("side").hidden = false;
    fillCompared(this.beside);
  }

  showModes() {
    pressSwitch(byId("mode"), this.found ? "events" : this.mode);
    byId("list").hidden = this.isPaired || this.isReading;
    byId("pairs").hidden = !this.isPaired;
    byId("reading").hidden = !this.isReading;
    byId("differences").hidden = !this.isPaired || !this.beside.count;
    document.body.classList.toggle("pairs", this.isPaired && this.beside.count > 0);
    byId("fold-all").hidden = this.mode !== "story" || Boolean(this.found);
    byId("fold-all").textContent = this.session.folded.size ? "Unfold all" : "Fold all";
    document.body.classList.toggle("reads", this.isReading);
    if (this.isReading) {
      this.list.list.refresh(); // it is hidden now, and needs no rows
      this.drawReading();
    } else this.leaveReading();
    const rows = (this.isPaired ? this.pairs?.rows : this.list.seqs)?.length ?? 0;
    byId("list-hint").textContent = this.isReading ? "" : `${rows.toLocaleString("en")} rows${this.isOnlyAgent && !this.isPaired ? ` of ${this.agent}` : ""}`;
  }

  listen() {
    addEventListener("hashchange", () => this.followLink());
    addEventListener("popstate", () => this.followLink());
    addEventListener("keydown", (event) => this.pressed(event));
    addEventListener("click", offerValue);
    let due = 0;
    byId("search").addEventListener("input", (event) => {
      clearTimeout(due);
      due = setTimeout(() => this.search(event.target.value), 60);
    });
    byId("search").addEventListener("keydown", (event) => {
      if (event.key === "Enter" && this.found?.length) this.select(this.found.find((seq) => seq > this.seq) ?? this.found[0]);
    });
    byId("only-agent").addEventListener("click", () => this.setOnlyAgent(!this.isOnlyAgent));
    byId("fold-all").addEventListener("click", () => this.inStory(() => this.list.foldAll()));
    byId("zoom-in").addEventListener("click", () => this.lanes.zoom(0.5));
    byId("zoom-out").addEventListener("click", () => this.lanes.zoom(2));
    byId("zoom-all").addEventListener("click", () => this.lanes.zoomAll());
    byId("agents-button").addEventListener("click", () => toggleAgents());
    byId("summary-button").addEventListener("click", () => (this.isSummary ? this.select(this.seq) : this.showSummary()));
    byId("theme-button").addEventListener("click", () => this.toggleTheme());
    byId("help-button").addEventListener("click", () => showKeys(this.beside, server.mayAct));
    byId("notes-button").addEventListener("click", () => showNotes(this));
    drag(byId("split-left"), "--left", (event) => event.clientX);
    drag(byId("split-right"), "--right", (event) => innerWidth - event.clientX);
    drag(byId("split-lanes"), "--lanes", (event) => event.clientY - byId(document.body.classList.contains("pairs") ? "differences" : "lanes").getBoundingClientRect().top);
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
    const { session, lanes, detail } = this;
    const rows = this.isPaired ? this.pairs : this.list;
    const isOfAgent = (seq) => session.agentOf(seq) === this.agent;
    const isDelegation = (seq) => session.kinds[seq] === "Delegate";
    const failure = (seq) => isFailure(session, seq);
    const difference = (step) => (this.isPaired ? this.pairs.seek(step) : this.seek(step, (seq) => this.beside?.differs(session, seq)));
    const down = () => rows.move(1);
    const up = () => rows.move(-1);
    const page = Math.max(1, Math.floor(rows.container.clientHeight / 24) - 1);
    const names = this.modes.map(([name]) => name);
    return {
      ArrowDown: down, j: down, ArrowUp: up, k: up, PageDown: () => rows.move(page), PageUp: () => rows.move(-page),
      ArrowLeft: () => this.inStory(() => this.list.leaveRow()), ArrowRight: () => this.inStory(() => this.list.enterRow()), z: () => this.inStory(() => this.list.foldAll()),
      n: () => this.seek(1, isOfAgent), p: () => this.seek(-1, isOfAgent),
      g: () => this.select(1), G: () => this.select(session.count), Home: () => this.select(1), End: () => this.select(session.count),
      f: () => this.seek(1, failure), F: () => this.seek(-1, failure), d: () => this.seek(1, isDelegation), D: () => this.seek(-1, isDelegation),
      c: () => this.select(session.causes[this.seq], { isJump: true }),
      v: () => this.setMode(names[(names.indexOf(this.mode) + 1) % names.length]), o: () => this.setOnlyAgent(!this.isOnlyAgent),
      e: () => detail.show("message"), r: () => detail.show("request"), s: () => detail.show("state"), w: () => detail.show("why"), x: () => detail.show("json"),
      "+": () => lanes.zoom(0.5), "-": () => lanes.zoom(2), 0: () => lanes.zoomAll(), m: () => detail.note.focus(),
      "/": () => byId("search").select(), a: toggleAgents, t: () => this.toggleTheme(), "?": () => showKeys(this.beside, server.mayAct), h: () => this.showSummary(),
      ...(server.mayAct && { q: () => this.questions.first(), i: () => this.fork(this.seq), l: () => openTell(this), C: () => openCancel(this), V: () => openVariants(this) }),
      ...(this.beside && { y: () => this.turn(), u: () => difference(1), U: () => difference(-1), b: () => detail.show("beside") }),
    };
  }

  /** Let the person change something at an event, and go on from there in a fork. */
  fork(seq) {
    return openFork(this, seq);
  }

  /** Let the person act: the server of this page carries acts out. */
  allowActs() {
    this.questions = new Questions(this);
    byId("acts").hidden = false;
    byId("tell-button").addEventListener("click", () => openTell(this));
    byId("cancel-button").addEventListener("click", () => openCancel(this));
    byId("variants-button").addEventListener("click", () => openVariants(this));
    this.showActs();
    this.detail.refresh();
    this.questions.watch();
  }

  /** Do something if the story is shown. */
  inStory(act) {
    if (this.mode === "story" && !this.found) act();
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
}

/** Keep the page of a session that is being written up to date. */
function live(app) {
  const session = app.beside?.right ?? app.session;
  let before = session.count;
  follow(session, () => {
    app.grow(before);
    before = session.count;
  }, (word, more = "") => {
    byId("live").hidden = false;
    byId("live").textContent = word;
    byId("live").title = more;
    byId("live").className = `badge ${word === "live" ? "ok" : word === "closed" ? "" : "failed"}`;
  });
}

/** Start, and leave the page's parts where tests and a console find them. */
async function start() {
  try {
    const session = await loadSession(byId("data"));
    const other = await loadSession(byId("beside"), session);
    const app = new App(session, other && new Beside(session, other));
    globalThis.callboard = Object.assign(app, { wayTo, partsOf, essential, sourceOf, forkOf, usedBy, delegationsIn, editIn, sendable, curlOf, pythonOf });
    document.body.dataset.ready = String(Math.round(performance.now()));
    if (server.has_list) Object.assign(byId("all-sessions"), { hidden: false, href: "./" });
    if (server.mayAct) app.allowActs();
    if ((other ?? session).summary.is_followed) live(app);
  } catch (error) {
    document.body.dataset.failed = "yes";
    byId("figures").textContent = `This page cannot be read: ${error.message}. It needs a browser of 2023 or later.`;
    throw error;
  }
}

start();
