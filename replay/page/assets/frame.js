// The parts around the views: top, findings, the comparison of two sessions, dialogs, splitters.

import { wholeText } from "./differences.js";
import { byId, inOrder, make, openDialog } from "./elements.js";
import { amount, commandOf, counted, dollars, durationText, oneLine, statusOf } from "./words.js";

const STRIP_MAX = 30;
const NOTES_LISTED = 300;
const TOTALS = ["outcome", "agents", "model calls", "tool calls", "tokens", "cost"];
const KEYS = [
  ["↓ ↑ or j k", "next and previous row"], ["n p", "next and previous event of this agent"], ["g G", "first and last event"],
  ["f F", "next and previous failure"], ["d D", "next and previous delegation"], ["c", "the event that this one answers"],
  ["/", "search; kind:ToolReturned agent:host.1 narrow it"], ["Esc", "end the search"], ["v", "story, events, or two sessions"], ["o", "this agent only"], ["← → z", "fold, unfold an agent; all agents"],
  ["e r s w x", "message, request, state, why, JSON"], ["+ - 0", "zoom the lanes; ctrl and wheel, drag"], ["m", "write a note"], ["h", "the summary"], ["a t ?", "agents, theme, keys"],
];
const ACT_KEYS = [["q", "the first call that waits for you"], ["i", "change this and go on, in a fork"], ["l", "send a message to an agent"], ["C", "cancel the ask or an agent"], ["V", "the variants of this session"]];
const BESIDE_KEYS = [["y", "the same event in the other session"], ["u U", "next and previous difference"], ["b", "both messages"]];

/** Fill the line at the top with the figures of a session. */
export function fillTop(session) {
  const { summary } = session;
  const title = inOrder(summary.title || summary.session);
  document.title = `${title} · callboard`;
  byId("session").textContent = title;
  byId("session").title = `${summary.session}\n${title}`;
  byId("outcome").textContent = statusOf(summary);
  byId("outcome").className = `badge ${session.agentAt.get("host")?.status ?? "running"}`;
  const tokens = session.agents.reduce((sum, agent) => sum + agent.tokens, 0);
  const cost = session.agents.reduce((sum, agent) => sum + agent.microUsd, 0);
  const facts = [counted(session.count, "event"), counted(session.agents.length, "agent"), `${amount(tokens)} tokens`, dollars(cost),
    durationText(session.times[session.count] - session.times[0])];
  byId("figures").textContent = facts.filter(Boolean).join(" · ");
}

/** Fill the strip of findings. */
export function fillFindings(session) {
  const { findings } = session;
  const name = session.summary.session;
  const chips = findings.slice(0, STRIP_MAX).map((one) =>
    make("a", { href: session.href(one.seq), class: `finding${one.isMaybe ? " maybe" : ""}`,
      title: `${one.says}\nnext: ${commandOf(session, one)}` },
      make("b", {}, one.isMaybe ? "maybe " : "", one.kind.replaceAll("_", " "), ":"), ` ${one.says}`));
  const more = findings.length - chips.length;
  byId("findings").replaceChildren(...chips, more > 0 ? make("span", { class: "hint" }, `and ${more} more: callboard diagnose ${name}`) : "");
  byId("findings").hidden = !findings.length;
}

// --- two sessions ------------------------------------------------------------------

/** Fill the strip that compares two sessions: the first difference, what is shared, what was saved. */
export function fillCompared(beside) {
  const [first] = beside.differences;
  byId("compared").hidden = false;
  byId("compared").replaceChildren(
    first ? pin(beside, first) : make("b", { class: "pin same" }, "Both sessions did the same"),
    make("span", { class: "shared" }, countText(beside)),
    make("button", { onclick: () => showTotals(beside) }, `Totals${beside.profiles.length ? ", changed agents" : ""}`),
    beside.shared ? make("span", { class: "shared" }, `${beside.shared.toLocaleString("en")} events shared`) : "",
    beside.saved ? make("span", { class: "saved", title: savedTitle(beside.saved) }, savedText(beside.saved)) : "",
  );
}

function countText({ count, differences }) {
  const listed = count > differences.length ? `, the first ${differences.length} listed` : "";
  return `${count.toLocaleString("en")} ${count === 1 ? "difference" : "differences"}${listed}`;
}

function pin(beside, [kind, agent, left, right, path, before, after]) {
  const href = right ? beside.right.href(right) : beside.left.href(left);
  const where = [left && `#${left}`, right && `#${right}`].filter(Boolean).join(" and ");
  const said = left && right ? [`${path}: `, make("del", {}, short(before)), " → ", make("ins", {}, short(after))] : `only in the ${left ? "left" : "right"} session`;
  return make("a", { class: "pin", href, title: `${where}\n${path}\n− ${wholeText(before)}\n+ ${wholeText(after)}` },
    make("b", {}, "First difference "), `${where} ${agent || "client"} ${kind} `, make("span", {}, said));
}

function savedText({ shared, reused, reused_tools: tools, made }) {
  const calls = shared[0] + reused[0];
  const cost = dollars(shared[2] + reused[2]);
  return `saved ${calls.toLocaleString("en")} model calls${tools ? `, ${tools.toLocaleString("en")} tool calls` : ""}, `
    + `${amount(shared[1] + reused[1])} tokens${cost && `, ${cost}`}; paid ${made[0].toLocaleString("en")} calls, ${amount(made[1])} tokens${dollars(made[2]) && `, ${dollars(made[2])}`}`;
}

function savedTitle({ shared, reused, reused_tools: reusedTools, made, tools }) {
  const line = (name, [calls, tokens, cost]) => `${name}: ${calls} model calls, ${tokens.toLocaleString("en")} tokens${cost ? `, ${dollars(cost)}` : ""}`;
  return [line("in the shared events", shared), `${line("taken from the recording", reused)}, ${reusedTools} tool calls`, `${line("made in the fork", made)}, ${tools} tool calls`].join("\n");
}

function showTotals(beside) {
  const { left, right } = beside;
  const figures = (totals) => totals.map((one, place) => (place === TOTALS.length - 1 ? dollars(one) || "-" : one.toLocaleString("en")));
  const [mine, theirs] = beside.totals.map(figures);
  const rows = TOTALS.map((name, place) => make("tr", {}, make("th", {}, name), make("td", {}, mine[place]), make("td", {}, theirs[place])));
  openDialog("Totals",
    make("table", {}, make("tr", {}, make("th"), make("th", {}, `left: ${left.summary.session}`), make("th", {}, `right: ${right.summary.session}`)), rows),
    beside.profiles.length ? [make("h3", {}, "agents"), make("pre", {}, beside.profiles.map((line) =>
      make("span", { class: line[0] === "+" ? "after" : line[0] === "-" ? "before" : "hint" }, `${line}\n`)))] : "");
}

function short(value) {
  const text = oneLine(wholeText(value));
  return text.length > 60 ? `${text.slice(0, 59)}…` : text;
}

// --- notes, keys and splitters ---------------------------------------------------------

export function showNotes(app) {
  const { notes, session } = app;
  const lines = [...notes.texts].sort(([one], [other]) => one - other).slice(0, NOTES_LISTED).map(([seq, text]) =>
    make("a", { href: session.href(seq), class: "line", onclick: () => byId("dialog").close() },
      `${seq} `, make("b", { class: "kind" }, session.kinds[seq] ?? ""), ` ${text}`));
  const file = make("input", { type: "file", accept: ".json", "aria-label": "Notes to load" });
  const said = make("span", { class: "hint" });
  file.addEventListener("change", async () => {
    if (await notes.load(file.files[0])) showNotes(app);
    else said.textContent = "This file holds no notes of this session.";
    app.refresh();
  });
  openDialog("Notes",
    make("p", { class: "hint" }, notes.isKept ? "This browser keeps them; the log never changes. Save a file to hand them on." : "This browser keeps nothing for files: save a file."),
    ...(lines.length ? lines : [make("p", {}, "No notes yet. Press m on an event to write one.")]),
    make("p", {}, make("button", { onclick: () => notes.save() }, "Save as a file"), " ", make("label", {}, "Load: ", file), " ", said));
}

export function toggleAgents() {
  document.body.classList.toggle(innerWidth < 1000 ? "with-agents" : "without-agents");
}

export function showKeys(beside, mayAct = false) {
  openDialog("Keys", make("dl", {}, [...KEYS, ...(beside ? BESIDE_KEYS : []), ...(mayAct ? ACT_KEYS : [])].flatMap(([keys, says]) => [make("dt", {}, keys), make("dd", {}, says)])));
}

/** Let a splitter set the size of a part of the page. */
export function drag(splitter, name, sizeAt) {
  splitter.addEventListener("pointerdown", (event) => {
    event.preventDefault();
    splitter.setPointerCapture(event.pointerId);
    const move = (moved) => document.body.style.setProperty(name, `${Math.max(60, sizeAt(moved))}px`);
    splitter.addEventListener("pointermove", move);
    splitter.addEventListener("pointerup", () => splitter.removeEventListener("pointermove", move), { once: true });
  });
}
