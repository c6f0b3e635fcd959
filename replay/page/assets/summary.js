// The summary of a session: what was asked and answered, what it took, and what a person should look at.

import { readJson } from "./data.js";
import { copyButton, make } from "./elements.js";
import { markdown } from "./markdown.js";
import { commandOf, dollars, durationText, statusOf, textOf } from "./words.js";

const ASKS_SHOWN = 5;
const ENTRIES_SHOWN = 15;
const DIAGNOSED_MAX = 100_000; // EVENTS_DIAGNOSED_MAX of replay/page/building.py
const NEWEST_ELEMENTS = 40; // of the texts of the newest question
const EARLIER_ELEMENTS = 8;

export class SummaryView {
  constructor(container, session, app) {
    Object.assign(this, { container, session, app });
  }

  /** Draw the summary of the events that there are now. */
  refresh() {
    const { session, app } = this;
    const asks = asksOf(session);
    this.container.replaceChildren(make("div", { class: "sheet" },
      asks.length > ASKS_SHOWN && make("p", { class: "hint" }, `the last ${ASKS_SHOWN} of ${asks.length} questions`),
      !asks.length && make("p", { class: "hint" }, "Nothing was asked in this session."),
      ...asks.slice(-ASKS_SHOWN).map((ask) => askBlock(session, ask, ask === asks.at(-1) ? NEWEST_ELEMENTS : EARLIER_ELEMENTS)),
      make("div", { class: "cards" }, this.figures(asks).map(([name, value]) => make("div", { class: "card" }, make("b", {}, value), make("span", {}, name)))),
      session.summary.cut > 0 && make("p", { class: "hint" }, `This session is large: ${session.summary.cut.toLocaleString("en")} long texts are cut in this page, and say so. All of them: callboard events ${session.summary.session} --full`),
      ...failedAgents(session, app),
      ...findingBlocks(session)));
  }

  /** Draw the summary again, unless a person is using it: a selected text and a focused button stay. */
  grow() {
    const { container } = this;
    const isUsed = (container.contains(document.activeElement) && document.activeElement !== container) || !getSelection().isCollapsed;
    if (!isUsed || this.session.summary.is_over) this.refresh();
  }

  /** Return the figures, counted again only if there are more events. */
  figures(asks) {
    if (this.counted !== this.session.count) Object.assign(this, { counted: this.session.count, found: figuresOf(this.session, asks) });
    return this.found;
  }
}

/** Return the questions of a session: each with the events of its question and of its end, 0 if it is open. */
function asksOf(session) {
  const asks = [];
  for (let seq = 1; seq <= session.count; seq += 1) {
    if (session.kinds[seq] === "Ask") asks.push({ asked: seq, ended: 0 });
    const open = session.kinds[seq] === "AskEnded" && asks.find((ask) => !ask.ended && isEndOf(session, ask.asked, seq));
    if (open) open.ended = seq;
  }
  return asks;
}

function isEndOf(session, asked, ended) {
  const [one, other] = [session.body(asked).request_id, session.body(ended).request_id];
  return one === undefined || other === undefined || one === other;
}

function figuresOf(session, asks) {
  const sum = (name) => session.agents.reduce((total, agent) => total + agent[name], 0);
  const models = new Map(); // the replies of each
  const begun = new Map(); // the first model of each agent
  let calls = 0;
  for (let seq = 1; seq <= session.count; seq += 1) {
    const kind = session.kinds[seq];
    if (kind === "CallModel") calls += 1;
    if (kind === "Begin") begun.set(session.recipient(seq), modelNameOf(session.body(seq).model));
    if (kind === "ModelReplied") {
      const name = modelOf(session, seq, begun);
      if (name) models.set(name, (models.get(name) ?? 0) + (session.body(seq).failure ? 0 : 1));
    }
  }
  const named = [...models].map(([name, count]) => `${name} (${count ? count.toLocaleString("en") : "no"} ${count > 1 ? "replies" : "reply"})`);
  const number = (name, count) => [count === 1 ? name : `${name}s`, count.toLocaleString("en")];
  return [
    ["status", statusOf(session.summary)],
    ["duration", session.count ? durationText(session.times[session.count] - session.times[1]) : ""],
    number("question", asks.length),
    number("agent", session.agents.length),
    number("model call", calls),
    number("tool call", sum("tools")),
    ["tokens", sum("tokens").toLocaleString("en")],
    ["cost", dollars(sum("microUsd"))],
    [named.length === 1 ? "model" : "models", named.slice(0, 4).join(", ") + (named.length > 4 ? `, ${named.length - 4} more` : "")],
  ].filter(([, value]) => value !== "" && value !== undefined);
}

/** Return the name of the model that an agent begins with; nothing for a program. */
function modelNameOf(model) {
  return model?.kind === "program" ? "" : model?.name;
}

/** Return the model that gave a reply: the one that it or its request names, or the one that its agent began with. */
function modelOf(session, seq, begun) {
  const own = session.body(seq).model;
  if (own) return own;
  const grant = session.causes[seq];
  const request = session.kinds[grant] === "CallModel" ? session.body(grant).request : 0;
  const wanted = session.kinds[request] === "TurnRequested" ? session.body(request).model : "";
  return wanted || begun.get(session.recipient(seq)) || "";
}

/** Return whether a text is the JSON of a value: the answer of a program that returned it. */
function isJsonOf(text, value) {
  if (value === null || value === undefined) return false;
  try {
    return JSON.stringify(readJson(text)) === JSON.stringify(value);
  } catch {
    return false;
  }
}

function askBlock(session, { asked, ended }, limit) {
  const link = (seq) => make("a", { href: session.href(seq), class: "where" }, `event ${seq}`);
  const parts = [make("h2", {}, "Question ", link(asked)), markdown(textOf(session.body(asked).prompt), limit)];
  if (!ended) return make("article", { class: "ask" }, ...parts, make("p", { class: "hint" }, "It has no answer yet."));
  const { kind, text, value, detail } = session.body(ended);
  const said = textOf(text);
  const answer = said || (value === null || value === undefined ? "" : JSON.stringify(value));
  return make("article", { class: "ask" }, ...parts,
    make("h2", {}, answer ? "Answer " : "No answer ", make("span", { class: `badge ${kind === "answered" || kind === "reported" ? "ok" : "failed"}` }, kind), " ", link(ended), " ",
      answer && copyButton(answer, "Copy the answer")),
    value !== null && value !== undefined && make("pre", {}, JSON.stringify(value, null, 2)),
    said && !isJsonOf(said, value) && markdown(said, limit),
    detail ? make("p", { class: "bad hint" }, detail) : "");
}

function failedAgents(session, app) {
  const failed = session.agents.filter((agent) => agent.status === "failed");
  if (!failed.length) return [];
  return [
    make("h2", {}, "Failed agents"),
    ...failed.slice(0, ENTRIES_SHOWN).map((agent) => make("div", { class: "failed-agent" },
      make("button", { class: "link", onclick: () => app.read(agent.address) }, agent.address), ` ${agent.profile}: `, make("b", {}, agent.kind), agent.detail && `, ${agent.detail}`)),
    failed.length > ENTRIES_SHOWN && make("p", { class: "hint" }, `and ${failed.length - ENTRIES_SHOWN} more`),
  ];
}

function findingBlocks(session) {
  if (!session.findings.length) {
    const said = session.count > DIAGNOSED_MAX ? `Not looked for in so long a session: callboard diagnose ${session.summary.session}` : "Nothing stands out.";
    return [make("h2", {}, "Findings"), make("p", { class: "hint" }, said)];
  }
  return [make("h2", {}, "Findings"), ...session.findings.slice(0, ENTRIES_SHOWN).map((one) => {
    const command = commandOf(session, one);
    const kind = `${one.isMaybe ? "maybe " : ""}${one.kind.replaceAll("_", " ")}`;
    return make("article", { class: `found${one.isMaybe ? " maybe" : ""}` },
      make("p", {}, make("b", {}, `${kind[0].toUpperCase()}${kind.slice(1)}: `), one.says),
      make("p", { class: "hint" }, "Evidence: ", make("a", { href: session.href(one.seq) }, `${one.seq} ${session.kinds[one.seq]}`), `${one.agent ? ` of ${one.agent}` : ""}. Next: `,
        make("code", {}, command), " ", copyButton(command, "Copy the command")));
  }), session.findings.length > ENTRIES_SHOWN && make("p", { class: "hint" }, `and ${session.findings.length - ENTRIES_SHOWN} more: callboard diagnose ${session.summary.session}`)];
}

