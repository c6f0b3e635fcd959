// The conversation of an agent, as people read it: its prompt, its turns, calls with their results, sub-agents inline.

import { delegationsIn } from "./delegations.js";
import { argumentsBlock, contentBlock, contentBlocks } from "./blocks.js";
import { addCounted, firstParts, make, textBlock } from "./elements.js";
import { jsonBlock } from "./json.js";
import { markdown } from "./markdown.js";
import { isBadSpan, oneLine, summaryOf, textOf } from "./words.js";

const MESSAGES_SHOWN = 30; // messages at once, if they have no more elements than these
const MESSAGE_ELEMENTS = 150;
const BLOCK_ELEMENTS = 110; // of the parts of a message that are drawn at once
const SHORT_JSON = 200; // characters of arguments that are not folded
const LONG_RESULT = 400; // characters of a result that is folded
const ANSWERING = new Set(["ToolReturned", "ApprovalGiven", "Delegated", "DelegationEnded"]); // with turn and call of what they answer

/** Return the elements of an agent's whole conversation. isOnlyNew: what the request of the chosen event added. */
export function conversationView(app, agent, { isOnlyNew = false, first = null } = {}) {
  const { session, states } = app;
  const whole = () => states.historyAt(agent, states.lastMessageOf(agent)).map(([value, at]) => ({ value, at }));
  const all = isOnlyNew ? addedMessages(states, agent, app.seq, session) : whole();
  if (!all.length) return [make("p", { class: "hint" }, isOnlyNew ? "This event is of no request, or its request added nothing." : `${agent} has no conversation: it is a program, or it has not begun.`)];
  const results = resultsOf(all);
  const compactions = compactionsOf(session, agent);
  const turn = (place) => {
    const marks = compactions.filter((seq) => place > 0 && all[place].at > seq && all[place - 1].at <= seq).map((seq) => compactionLine(session, seq));
    const message = messageOf(app, agent, all[place], results);
    return marks.length ? make("div", {}, marks, message) : message;
  };
  const page = first ?? { before: all.length };
  const [from, until, shown] = "after" in page ? messagesAfter(page.after, all.length, turn) : messagesBefore(page.before, turn);
  const more = (place, count, text) => make("button", { class: "more", onclick: (event) => {
    event.target.parentElement.replaceChildren(...conversationView(app, agent, { isOnlyNew, first: place }).filter(Boolean));
  } }, `${count} ${text}`);
  return [
    from > 0 && more({ before: from }, from, "earlier messages"),
    ...shown,
    until < all.length && more({ after: until }, all.length - until, "later messages"),
  ];
}

/** Return the compactions of an agent that its conversation shows: the last summary, and all later ones. */
function compactionsOf(session, agent) {
  const all = [];
  session.kinds.forEach((kind, seq) => {
    if (kind === "Compacted" && session.recipient(seq) === agent) all.push(seq);
  });
  return all.slice(Math.max(0, all.findLastIndex((seq) => session.body(seq).by === "summary")));
}

/** Return the line that says that the conversation before it became shorter. */
function compactionLine(session, seq) {
  return make("p", { class: "hint compacted" }, `Compacted: ${oneLine(summaryOf(session, seq))} `, make("a", { href: session.href(seq) }, `event ${seq}`));
}

/** Return the messages from a place on that fit on a page: the first, the one behind the last, and their elements. */
function messagesAfter(from, count, turn) {
  const shown = [];
  let until = from;
  for (let elements = 0; until < count && until - from < MESSAGES_SHOWN && elements < MESSAGE_ELEMENTS; until += 1) elements += addCounted(shown, turn(until));
  return [from, until, shown];
}

/** Return the messages before a place that fit on a page. */
function messagesBefore(until, turn) {
  const shown = [];
  let from = until;
  for (let elements = 0; from > 0 && until - from < MESSAGES_SHOWN && elements < MESSAGE_ELEMENTS; from -= 1) elements += addCounted(shown, turn(from - 1));
  return [from, until, shown.reverse()];
}

function addedMessages(states, agent, seq, session) {
  const request = session.agentOf(seq) === agent ? states.requestOf(seq) : null;
  return request ? request.messages.filter(({ isNew }) => isNew) : [];
}

/** Return the results of calls by the ids of these. */
function resultsOf(messages) {
  const found = new Map();
  for (const { value, at } of messages)
    for (const one of blocksOf(value)) if (one?.type === "tool_result") found.set(one.tool_use_id, { ...one, at });
  return found;
}

function blocksOf(message) {
  return Array.isArray(message.content) ? message.content : [{ type: "text", text: textOf(message.content) }];
}

/** Return a message; null for one that only holds results, which stand at their calls. */
function messageOf(app, agent, { value, at }, results) {
  let call = -1;
  let answers = null;
  const answer = (use, place) => {
    const result = results.get(use.id);
    if (!result) return null;
    answers ??= answersOf(app.session, agent, at);
    const isRefused = () => result.is_error && app.session.refused.get(at)?.some((span) => span.agent === agent && span.name === use.name);
    return { ...result, at: answers.get(place)?.findLast((seq) => seq <= result.at) ?? (isRefused() ? at : result.at) };
  };
  const drawn = blocksOf(value).filter((one) => one?.type !== "tool_result").map((one) => {
    if (one?.type === "tool_use") call += 1;
    const place = call;
    return () => blockOf(app, agent, one, at, place, answer);
  });
  const parts = firstParts(drawn, BLOCK_ELEMENTS, "more parts of this message");
  if (!parts.length) return null;
  const name = { assistant: agent, user: "prompt", system: "system" }[value.role] ?? value.role;
  return make("article", { class: `turn ${value.role}` },
    make("header", {}, make("b", {}, name), " ", make("a", { href: app.session.href(at) }, `event ${at}`)), ...parts);
}

/** Return the seqs of the events that answered the calls of a reply, by call: of its message, all have the last one's. */
function answersOf(session, agent, at) {
  const found = new Map();
  const turn = turnOf(session, at);
  for (let seq = at + 1; turn && seq <= session.count; seq += 1) {
    if (session.kinds[seq] === "ModelReplied" && session.recipient(seq) === agent) break;
    if (!ANSWERING.has(session.kinds[seq]) || session.recipient(seq) !== agent) continue;
    const body = session.body(seq);
    if (body.turn === turn) found.set(body.call, [...(found.get(body.call) ?? []), seq]);
  }
  return found;
}

function blockOf(app, agent, one, at, call, answer) {
  if (typeof one === "string") return markdown(one);
  switch (one?.type) {
    case "text":
      return one.text ? markdown(one.text) : null;
    case "thinking":
    case "reasoning":
      return make("details", { class: "thinking" }, make("summary", {}, "thinking"), textBlock(one.thinking ?? textOf(one.text ?? "")));
    case "program_step": // which step it is, and of which run: nothing that the program said
      return null;
    case "tool_use":
      return callOf(app, agent, one, at, call, answer(one, call));
    default:
      return contentBlock(one, `event ${at}`);
  }
}

function callOf(app, agent, use, at, call, result) {
  return make("div", { class: `call${result?.is_error ? " bad" : ""}` }, make("b", {}, use.name), argumentsBlock(use.input ?? {}, foldedLongJson),
    ...childrenOf(app, agent, at, call).map((child) => childFold(app, child)),
    result ? resultOf(app, result) : openCall(app, agent, use, at, call));
}

function foldedLongJson(value) {
  const text = JSON.stringify(value, null, 2);
  return text.length <= SHORT_JSON ? jsonBlock(value) : make("details", {}, make("summary", {}, oneLine(text).slice(0, 120)), jsonBlock(value));
}

/** Return the judgement of a report, which no message answers; of another call that it has no result. */
function openCall(app, agent, use, at, call) {
  const { session } = app;
  const turn = turnOf(session, at);
  const isReport = (span) => span.kind === "report" && span.agent === agent && session.body(span.first).turn === turn && session.body(span.first).call === call;
  const report = use.name === "report_back" && session.spans.find(isReport);
  if (!report) return make("p", { class: "hint" }, "no result");
  const isJudged = report.last !== report.first;
  return make("p", { class: isBadSpan(session, report) ? "hint bad" : "hint" }, isJudged ? oneLine(summaryOf(session, report.last)) : "not judged yet", " ",
    make("a", { href: session.href(report.last) }, `event ${report.last}`));
}

/** Return the turn that an event answers; 0 for an event that is not a reply. */
function turnOf(session, at) {
  const grant = session.kinds[at] === "ModelReplied" ? session.causes[at] : 0;
  if (session.kinds[grant] === "RunStep") return session.body(grant).turn;
  const request = grant ? session.body(grant).request : 0;
  return request ? session.body(request).turn : 0;
}

function resultOf(app, result) {
  const text = textOf(result.content);
  const name = result.is_error ? "error" : "result";
  const link = make("a", { href: app.session.href(result.at) }, `event ${result.at}`);
  const parts = () => contentBlocks(result.content, `event ${result.at}`);
  if (text.length <= LONG_RESULT) return make("div", { class: "result" }, make("header", {}, name, " ", link), parts());
  const fold = make("details", { class: "result" }, make("summary", {}, `${name}: ${oneLine(text).slice(0, 120)}`), link);
  fold.addEventListener("toggle", () => {
    if (fold.open && fold.childElementCount === 2) fold.append(...parts());
  });
  return fold;
}

/** Return the agents that a call began. */
function childrenOf(app, agent, at, call) {
  const { session } = app;
  const turn = turnOf(session, at);
  if (!turn) return [];
  const isOwn = (one) => one.agent === agent && one.turn === turn && one.call === call;
  return [...delegationsIn(session)].filter(([address, one]) => isOwn(one) && app.firstOf(address) > 0).map(([address]) => address);
}

/** Return the conversation of a sub-agent, which is drawn once it is opened. */
function childFold(app, address) {
  const agent = app.session.agentAt.get(address);
  const body = make("div", {});
  const fold = make("details", { class: "child" }, make("summary", {}, `${address} ${agent?.profile ?? ""}: ${agent?.kind || "still at work"}`), body);
  fold.addEventListener("toggle", () => {
    if (fold.open && !body.childElementCount) body.append(...conversationView(app, address).filter(Boolean));
  });
  return fold;
}
