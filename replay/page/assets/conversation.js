// The conversation of an agent, as people read it: its prompt, its turns, calls with their results, sub-agents inline.

import { delegationsIn } from "./delegations.js";
import { jsonBlock, make, textBlock } from "./elements.js";
import { markdown } from "./markdown.js";
import { oneLine, textOf } from "./words.js";

const MESSAGES_SHOWN = 30; // messages at once
const SHORT_JSON = 200; // characters of arguments that are not folded
const LONG_RESULT = 400; // characters of a result that is folded

/** Return the elements of an agent's whole conversation. isOnlyNew: what the request of the chosen event added. */
export function conversationView(app, agent, { isOnlyNew = false, first = null } = {}) {
  const { session, states } = app;
  const whole = () => states.historyAt(agent, states.lastMessageOf(agent)).map(([value, at]) => ({ value, at }));
  const all = isOnlyNew ? addedMessages(states, agent, app.seq, session) : whole();
  if (!all.length) return [make("p", { class: "hint" }, isOnlyNew ? "This event is of no request, or its request added nothing." : `${agent} has no conversation: it is a program, or it has not begun.`)];
  const results = resultsOf(all);
  const from = first ?? Math.max(0, all.length - MESSAGES_SHOWN);
  const shown = all.slice(from, from + MESSAGES_SHOWN).map((message) => messageOf(app, agent, message, results)).filter(Boolean);
  const page = (place, text) => make("button", { class: "more", onclick: (event) => {
    event.target.parentElement.replaceChildren(...conversationView(app, agent, { isOnlyNew, first: place }).filter(Boolean));
  } }, text);
  return [
    from > 0 && page(Math.max(0, from - MESSAGES_SHOWN), `${from} earlier messages`),
    ...shown,
    from + MESSAGES_SHOWN < all.length && page(from + MESSAGES_SHOWN, `${all.length - from - MESSAGES_SHOWN} later messages`),
  ];
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
  const parts = blocksOf(value).map((one) => {
    if (one?.type === "tool_use") call += 1;
    return blockOf(app, agent, one, at, call, results);
  }).filter(Boolean);
  if (!parts.length) return null;
  const name = { assistant: agent, user: "prompt", system: "system" }[value.role] ?? value.role;
  return make("article", { class: `turn ${value.role}` },
    make("header", {}, make("b", {}, name), " ", make("a", { href: app.session.href(at) }, `event ${at}`)), ...parts);
}

function blockOf(app, agent, one, at, call, results) {
  if (typeof one === "string") return markdown(one);
  switch (one?.type) {
    case "text":
      return one.text ? markdown(one.text) : null;
    case "thinking":
    case "reasoning":
      return make("details", { class: "thinking" }, make("summary", {}, "thinking"), textBlock(one.thinking ?? textOf(one.text ?? "")));
    case "tool_use":
      return callOf(app, agent, one, at, call, results.get(one.id));
    case "tool_result":
      return null;
    case "image":
      return make("p", { class: "hint" }, `an image: ${one.source?.media_type ?? one.source?.type ?? "unknown"}`);
    default:
      return jsonBlock(one);
  }
}

function callOf(app, agent, use, at, call, result) {
  const text = JSON.stringify(use.input ?? {}, null, 2);
  const asked = text.length <= SHORT_JSON ? jsonBlock(use.input) : make("details", {}, make("summary", {}, oneLine(text).slice(0, 120)), jsonBlock(use.input));
  return make("div", { class: `call${result?.is_error ? " bad" : ""}` }, make("b", {}, use.name), asked,
    ...childrenOf(app, agent, at, call).map((child) => childFold(app, child)),
    result ? resultOf(app, result) : make("p", { class: "hint" }, "no result"));
}

function resultOf(app, result) {
  const text = textOf(result.content);
  const name = result.is_error ? "error" : "result";
  const link = make("a", { href: app.session.href(result.at) }, `event ${result.at}`);
  if (text.length <= LONG_RESULT) return make("div", { class: "result" }, make("header", {}, name, " ", link), textBlock(text));
  return make("details", { class: "result" }, make("summary", {}, `${name}: ${oneLine(text).slice(0, 120)}`), link, textBlock(text));
}

/** Return the agents that a call began. */
function childrenOf(app, agent, at, call) {
  const { session } = app;
  const grant = session.kinds[at] === "ModelReplied" ? session.causes[at] : 0;
  const request = grant ? session.body(grant).request : 0;
  if (!request) return [];
  const { turn } = session.body(request);
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
