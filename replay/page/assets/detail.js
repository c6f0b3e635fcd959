// The chosen event: its message, its agent's request and state, why it happened, and a note on it.

import { server } from "./acts.js";
import { differencesOf } from "./beside.js";
import { curlOf, pythonOf, sendable } from "./copies.js";
import { isAgent } from "./data.js";
import { argumentsBlock, contentBlock, contentBlocks, plainText } from "./blocks.js";
import { editBlock, patchLines } from "./edits.js";
import { addCounted, copyButton, firstParts, make, makeSwitch, pressSwitch, roomLeft, textBlock } from "./elements.js";
import { copied, writtenEntries, jsonBlock, writtenJson } from "./json.js";
import { changeOf, essential, partsOf, sourceOf, wayTo } from "./why.js";
import { dollars, durationText, forkOf, oneLine, summaryOf, textOf, toneOf } from "./words.js";

const TABS = [
  ["message", "Message", "What the message says (e)"],
  ["request", "Request", "What the model was asked (r)"],
  ["state", "State", "What the event changed in its recipient (s)"],
  ["why", "Why", "Why it happened, and where a value came from (w)"],
  ["json", "JSON", "The message as it stands in the log (x)"],
];
const BESIDE_TAB = ["beside", "Beside", "The same event of the other session (b)"];
const LISTED = 40;
const LEAST_ELEMENTS = 30; // of a view's longest part, before a button
const STATE_ELEMENTS = 8; // of a state beside its changes
const WAY_SHOWN = 12; // events of a long way, beside those that matter
const LINE_ELEMENTS = 2; // of an event in one line
const WHY_ELEMENTS = 12; // of a reason beside its lines
const REQUEST_ELEMENTS = 10; // of a request beside its messages
const TEXTS = new Set(["prompt", "content", "output", "text", "detail", "trace", "context", "note", "instructions"]);
// Fields that no reader looks for first: they stand below the content.
const BOOKKEEPING = new Set(["turn", "call", "by", "room", "metadata", "closing", "settled", "unsettled", "delegations", "messages", "need", "digest", "new",
  "request_id", "id", "labels", "limits", "depth", "roster", "permissions", "callees", "makers", "rules", "state_read", "sent", "usage"]);
const LEFT_OUT = new Set(["files", "contents"]); // their differences stand in their place
const FOREIGN = new Set(["value", "arguments", "schema", "profile", "profiles"]);

export class DetailView {
  constructor(container, session, states, app, tab = "message") {
    Object.assign(this, { session, states, app, tab, value: "" });
    this.head = make("div", { class: "head" });
    this.tabs = make("div", { class: "switch tabs", role: "group" });
    this.body = make("div", { class: "body", tabIndex: 0 });
    this.note = make("textarea", { placeholder: "A note on this event. The log stays as it is.", "aria-label": "Note", rows: 2 });
    this.note.addEventListener("change", () => app.setNote(this.note.value));
    makeSwitch(this.tabs, app.beside ? [...TABS, BESIDE_TAB] : TABS, this.tab, (tab) => this.show(tab));
    container.append(this.head, this.tabs, this.body, this.note);
    this.body.addEventListener("scroll", () => {
      this.isScrolled = true;
    }, { passive: true });
    this.body.addEventListener("mouseup", () => this.offerSource());
  }

  show(tab) {
    this.app.leaveSummary();
    this.tab = tab;
    this.refresh();
  }

  /** Show the chosen event. */
  refresh() {
    const { app, session, tab } = this;
    const seq = app.seq;
    this.toTop();
    pressSwitch(this.tabs, tab);
    if (!session.has(seq)) {
      this.body.replaceChildren(make("p", { class: "hint" }, "This session has no events yet."));
      return;
    }
    this.head.replaceChildren(...this.headOf(seq));
    this.note.value = app.notes.of(seq);
    if (this.shownSeq !== seq) this.value = "";
    this.shownSeq = seq;
    const views = {
      message: () => this.messageOf(seq),
      request: () => this.requestView(seq),
      state: () => this.stateView(seq),
      why: () => this.whyView(seq),
      json: () => [heading("message", session.bodies[seq]), writtenJson(session.bodies[seq])],
      beside: () => this.besideView(seq),
    };
    this.body.replaceChildren();
    this.room = roomLeft(LEAST_ELEMENTS); // for the longest part of a view
    this.body.replaceChildren(...views[tab]());
  }

  /** Scroll to the top, which is quick before anything else of the page changes. */
  toTop() {
    if (this.isScrolled) this.body.scrollTop = 0;
    this.isScrolled = false;
  }

  headOf(seq) {
    const { app, session } = this;
    const at = session.times[seq];
    const effects = session.effects.get(seq) ?? [];
    return [
      make("h2", { class: toneOf(session, seq) }, make("span", { class: "dot" }), `${seq} ${session.kinds[seq]}`),
      make("div", { class: "facts" },
        make("span", {}, this.actor(session.sender(seq)), " → ", this.actor(session.recipient(seq))),
        make("span", { title: new Date(at).toISOString() }, `+${durationText(at - session.times[0])}, ${new Date(at).toLocaleTimeString()}`)),
      make("div", { class: "facts" },
        this.reused(seq),
        session.causes[seq] ? make("span", {}, "answers ", this.link(session.causes[seq])) : make("span", {}, "an input"),
        effects.length > 0 && make("span", {}, "led to ", effects.slice(0, 6).map((one) => [this.link(one), " "]),
          effects.length > 6 ? `and ${effects.length - 6} more` : "")),
      make("div", { class: "facts" }, make("span", {}, "link ", copyButton(`${session.summary.session}#${seq}`, "Copy the link to this event")),
        make("span", {}, "fork ", copyButton(forkOf(session, seq), "Copy the command that forks here")),
        server.mayAct && make("button", { class: "copy", title: "Change the result, the reply, the prompt, the instructions or a limit, and go on in a fork (i)", onclick: () => app.fork(seq) }, "change this and go on")),
    ];
  }

  /** Return a mark for an answer that a fork took from the recording. */
  reused(seq) {
    const { session } = this;
    const { reused } = session.body(seq);
    if (!reused) return false;
    if (changeOf(session, seq).length) return make("span", { class: "badge changed", title: "The fork was given this in its place" }, "changed for the fork");
    const { origin } = session.body(session.kinds.lastIndexOf("Forked", seq));
    return make("span", { class: "badge", title: "It was not asked again, and cost nothing" }, `reused from event ${reused} of ${origin}`);
  }

  actor(address) {
    if (!isAgent(address)) return make("b", {}, address);
    return make("button", { class: "link", onclick: () => this.app.chooseAgent(address) }, address);
  }

  link(seq) {
    const kind = this.session.kinds[seq];
    return make("a", { href: this.session.href(seq), title: summaryOf(this.session, seq) }, `${seq} ${kind}`);
  }

  /** Return a line for an event: a link, and its summary. */
  lineOf(seq, mark = "") {
    return make("a", { href: this.session.href(seq), class: `line ${toneOf(this.session, seq)}` },
      String(mark || seq).padStart(5, "\u2007"), " ", make("b", { class: "kind" }, this.session.kinds[seq]), ` ${this.session.agentOf(seq)} ${summaryOf(this.session, seq)}`);
  }

  // --- the message ---------------------------------------------------------------

  messageOf(seq) {
    const body = this.session.body(seq);
    const shown = [];
    const facts = [];
    for (const [name, value] of Object.entries(body)) {
      if (name === "type" || value === null || LEFT_OUT.has(name)) continue;
      if (name === "usage") facts.push([name, usageText(value)]);
      else if (TEXTS.has(name) || (typeof value === "string" && value.length > 80)) shown.push(...this.content(name, value, seq));
      else if (FOREIGN.has(name)) shown.push(heading(name, value), name === "arguments" ? this.argumentsOf(seq) : this.written(seq, name));
      else facts.push([name, typeof value === "object" ? JSON.stringify(value) : String(value)]);
    }
    const [main, more] = [facts.filter(([name]) => !BOOKKEEPING.has(name)), facts.filter(([name]) => BOOKKEEPING.has(name))];
    const refused = this.session.refused.get(seq) ?? [];
    return [factTable(main), ...shown, ...refused.slice(0, LISTED).flatMap((one) => [make("h3", { class: "bad hint" }, `refused: ${one.name}`), textBlock(one.note)]), ...this.writesOf(seq), ...this.questionOf(seq),
      more.length > 0 && make("details", {}, make("summary", {}, "more"), factTable(more))].filter(Boolean);
  }

  /** Return the files that the call of an answer wrote, as differences. */
  writesOf(seq) {
    const writes = this.session.writes.get(seq) ?? [];
    return writes.map(([path, difference]) => editBlock(path, patchLines(difference)));
  }

  /** Return the call or the task that an event answers. */
  questionOf(seq) {
    const { session } = this;
    let asked = session.causes[seq];
    if (session.kinds[asked] === "ToolStarted") asked = session.causes[asked];
    if (session.kinds[seq] === "ToolReturned" && session.kinds[asked] === "CallTool")
      return [heading("the call", session.body(asked).arguments), this.lineOf(asked), this.argumentsOf(asked)];
    const task = session.kinds[seq] === "DelegationEnded" ? this.taskOf(seq) : 0;
    return task ? [make("h3", {}, "the task"), this.lineOf(task)] : [];
  }

  /** Return a field of a message as it stands in the log. */
  written(seq, name) {
    return writtenJson(writtenEntries(this.session.bodies[seq]).find(([one]) => one === `"${name}"`)[1]);
  }

  argumentsOf(seq) {
    return argumentsBlock(this.session.body(seq).arguments, () => this.written(seq, "arguments"));
  }

  /** Return the delegation that an event ended; 0 if it is not known. */
  taskOf(seq) {
    const { session } = this;
    const { turn, call } = session.body(seq);
    const isTask = (at) => session.kinds[at] === "Delegate" && session.sender(at) === session.recipient(seq)
      && session.body(at).turn === turn && session.body(at).call === call;
    for (let at = seq - 1; at > 0; at -= 1) if (isTask(at)) return at;
    return 0;
  }

  /** Return content of a model, a tool or a person: texts as texts, calls as calls. */
  content(name, value, seq) {
    if (!Array.isArray(value)) return value === "" ? [] : [heading(name, value), plainText(textOf(value))];
    return [heading(name, value), ...firstParts(value.map((one) => () => contentBlock(one, `event ${seq}`)), this.room, "more parts")];
  }

  // --- the request ---------------------------------------------------------------

  requestView(seq) {
    const request = this.states.requestOf(seq);
    if (!request) return this.requestBefore(seq);
    const { messages } = request;
    const names = request.tools.map((tool) => tool.name ?? tool.type ?? "?").join(", ") || "none";
    const facts = [request.agent, request.model.name, `turn ${request.turn}, attempt ${request.attempt}`, request.forced && `must use ${request.forced}`, `tools: ${names}`];
    return [
      make("p", {}, oneLine(facts.filter(Boolean).join(" · "))),
      this.sendAgain(request),
      make("details", {}, make("summary", {}, "system"), textBlock(textOf(request.system))),
      make("details", {}, make("summary", {}, `${request.tools.length} tools, as JSON`), jsonBlock(request.tools)),
      make("h3", {}, `${messages.length} messages`),
      ...this.messagesBefore(messages, messages.length),
    ];
  }

  /** Return buttons that copy a request: as a command, as a program, and as JSON. */
  sendAgain(request) {
    const sent = sendable(this.session, request);
    const why = sent.isAsSent ? "byte for byte as it was sent" : "as recorded, in the form of the Messages API: the log has not kept the body (keep_requests)";
    return make("div", { class: "facts" }, make("span", {}, "copy ",
      copyButton(() => curlOf(sent), `Copy the request as a curl command, ${why}`, "curl"), " ",
      copyButton(() => pythonOf(sent), `Copy the request as a Python program, ${why}`, "Python"), " ",
      copyButton(() => sent.body, `Copy the body, ${why}`, "body")),
    make("span", { title: why }, sent.isAsSent ? "as sent" : "as recorded"));
  }

  /** Return the last messages before a place: as many as there is room for. */
  messagesBefore(messages, end) {
    const shown = [];
    let first = end;
    for (let elements = 0; first > 0 && end - first < LISTED && elements < this.room - REQUEST_ELEMENTS; first -= 1) elements += addCounted(shown, this.messageBlock(messages[first - 1], first));
    const earlier = first > 0 && make("button", { class: "more", onclick: () => this.body.replaceChildren(...this.messagesBefore(messages, first),
      make("button", { class: "more", onclick: () => this.refresh() }, "back to the newest")) }, `${first.toLocaleString("en")} earlier messages`);
    return [earlier, ...shown.reverse()].filter(Boolean);
  }

  messageBlock({ value, at, isNew }, number) {
    return make("article", { class: `message ${value.role}${isNew ? " new" : ""}` },
      make("header", {}, `${number} ${value.role}${isNew ? ", new" : ""} `, make("a", { href: this.session.href(at) }, `event ${at}`)),
      contentBlocks(value.content, `event ${at}`));
  }

  /** Return the last request of an event's agent, for an event that is no part of a turn. */
  requestBefore(seq) {
    const agent = this.session.agentOf(seq);
    const grant = agent && this.states.grantBefore(agent, seq);
    if (!grant) return [make("p", { class: "hint" }, "This event asks no model, and its agent has not asked one before.")];
    return [make("p", { class: "hint" }, "This event asks no model. The last request of its agent was ", this.link(grant), "."), ...this.requestView(grant)];
  }

  // --- the state -----------------------------------------------------------------

  stateView(seq) {
    const { session } = this;
    const recipient = session.recipient(seq);
    const changes = isAgent(recipient) ? this.states.changesAt(seq) : [];
    const agent = isAgent(recipient) ? recipient : session.agentOf(seq);
    const reason = session.summary.diverged[agent];
    return [
      reason && make("p", { class: "hint bad" }, reason),
      make("h3", {}, changes.length ? `changed in ${recipient}` : `${recipient}: ${isAgent(recipient) ? "nothing changed" : "its state is not in this page"}`),
      ...firstParts(changes.map((change) => () => changeRow(change)), this.room - STATE_ELEMENTS, "more changes"),
      ...(agent ? this.wholeState(agent, seq, changes.length === 0) : []),
    ].filter(Boolean);
  }

  wholeState(agent, seq, isOpen) {
    const list = make("div", {});
    const open = make("details", {}, make("summary", {}, `the whole state of ${agent} after event ${seq}`), list);
    open.addEventListener("toggle", () => {
      if (!open.open || list.childElementCount) return;
      const state = [...this.states.stateAt(agent, seq)].filter(([path]) => !path.startsWith("history."));
      const size = this.states.historyAt(agent, seq).length;
      list.append(factTable([["conversation", `${size} messages: see Request`]]));
      list.append(...firstParts(state.map(([path, value]) => () => changeRow({ path, after: value })), roomLeft(LEAST_ELEMENTS), "more fields"));
    });
    open.open = isOpen;
    return [open];
  }

  // --- why -----------------------------------------------------------------------

  whyView(seq) {
    const { session } = this;
    const way = wayTo(session, seq);
    const parts = partsOf(session, seq);
    const room = (this.room - WHY_ELEMENTS) / 2;
    const field = make("input", { type: "search", value: this.value, placeholder: "a value in this event: where did it come from?", "aria-label": "Value" });
    const found = make("div", {});
    const trace = () => {
      this.value = field.value;
      found.replaceChildren(...this.sourceLines(seq, field.value));
    };
    field.addEventListener("change", trace);
    if (this.value) trace();
    return [
      make("h3", {}, "where a value came from"), field, found,
      make("h3", {}, `the way to it: ${way.length} events`),
      ...folded(session, way, room, (one) => this.lineOf(one)),
      make("h3", {}, `made of ${parts.length} ${parts.length === 1 ? "event" : "events"}`),
      ...folded(session, parts, room, (one) => this.lineOf(one)),
    ];
  }

  sourceLines(seq, value) {
    if (!value) return [];
    const { way, also, madeOf, written } = sourceOf(this.session, seq, value);
    if (!way.length) return [make("p", { class: "hint" }, `Event ${seq} does not hold “${oneLine(value)}”.`)];
    const listed = (title, seqs) => (seqs.length ? [make("h3", {}, title), ...folded(this.session, seqs, this.room / 3, (one) => this.lineOf(one))] : []);
    return [
      ...folded(this.session, way, this.room / 3, (one) => this.lineOf(one, way.length > 1 && one === way.at(-1) ? `★ ${one}` : "")),
      ...(written ? [make("p", { class: "hint" }, `★ writes it as “${oneLine(written)}”.`)] : []),
      ...(also.length ? [make("p", { class: "hint" }, `★ is one of ${also.length + 1} places that hold it.`)] : []),
      ...listed("also in, and no log says which of them was read", also),
      ...listed(`event ${way.at(-1)} was made of`, madeOf),
    ];
  }

  // --- the other session ---------------------------------------------------------

  besideView(seq) {
    const { session } = this;
    const { beside } = this.app;
    const other = beside.other(session);
    const pair = beside.pairOf(session, seq);
    const name = beside.isLeft(session) ? "right" : "left";
    if (!pair) return [make("p", { class: "hint" }, `The ${name} session has no such event, or only follows from others here.`)];
    if (beside.isShared(seq)) return [make("p", { class: "hint" }, "Both sessions share this event: it was recorded once.")];
    const link = make("a", { href: other.href(pair) }, `${pair} ${other.kinds[pair]}`);
    const found = differencesOf(...(beside.isLeft(session) ? [session.body(seq), other.body(pair)] : [other.body(pair), session.body(seq)]));
    return [
      make("p", {}, `The same event of the ${name} session: `, link),
      make("h3", {}, found.length ? "left − and right +" : "both say the same"),
      ...firstParts(found.map(([path, before, after]) => () => changeRow({ path, before: before ?? null, after: after ?? null })), this.room - STATE_ELEMENTS, "more values"),
    ];
  }

  /** Offer to trace a text that was selected in a message. */
  offerSource() {
    const text = String(getSelection()).trim();
    this.offer?.remove();
    if (this.tab !== "message" || text.length < 2 || text.length > 200 || text.includes("\n")) return;
    this.offer = make("button", { class: "offer", onclick: () => {
      this.value = text;
      this.show("why");
    } }, `Where did “${oneLine(text).slice(0, 30)}” come from?`);
    this.body.prepend(this.offer);
  }
}

/** Return lines for the essential events of a long path, and a button for those between. */
function folded(session, seqs, room, lineOf) {
  const lines = Math.max(4, Math.floor(room / LINE_ELEMENTS / 2)); // a button for each
  const told = essential(session, seqs, Math.min(WAY_SHOWN, lines));
  const shown = new Set(told.length <= lines ? told : [...told.slice(0, lines / 2), ...told.slice(-lines / 2)]);
  const parts = [];
  let left = [];
  for (const seq of [...seqs, 0]) {
    if (seq && !shown.has(seq)) {
      left.push(seq);
      continue;
    }
    if (left.length) parts.push(left.length === 1 ? lineOf(left[0]) : between(left, room, lineOf));
    if (seq) parts.push(lineOf(seq));
    left = [];
  }
  return parts;
}

function between(seqs, room, lineOf) {
  const more = make("button", { class: "more between" }, `${seqs.length.toLocaleString("en")} events between`);
  more.addEventListener("click", () => more.replaceWith(...firstParts(seqs.map((one) => () => lineOf(one)), room, "more events")));
  return more;
}

/** Return the name of a value, with a button that copies the value. */
function heading(name, value) {
  return make("h3", {}, `${name} `, copyButton(() => copied(value), `Copy ${name}`));
}

function changeRow({ path, before, after }) {
  return make("div", { class: "change" },
    make("b", {}, path),
    before !== undefined && textBlock(`− ${shortJson(before)}`, "before json"),
    textBlock(after === undefined ? "dropped" : `${before === undefined ? "" : "+ "}${shortJson(after)}`, "after json"));
}

function shortJson(value) {
  const text = JSON.stringify(value);
  return text.length < 100 ? text : JSON.stringify(value, null, 1);
}

function factTable(facts) {
  return make("dl", {}, facts.flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, oneLine(value))]));
}

function usageText(usage) {
  const words = Object.entries(usage).filter(([name]) => name !== "micro_usd").map(([name, value]) => `${value.toLocaleString("en")} ${name.replaceAll("_", " ")}`);
  return [...words, dollars(usage.micro_usd)].filter(Boolean).join(", ");
}
