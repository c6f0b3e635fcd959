// Why an event happened, by the rules of replay/why.py: the way to it, its parts, the source of a value in it.

import { isAgent } from "./data.js";

const WITHOUT_CONTENT = new Set(["CallModel", "CheckSchema", "SchemaChecked"]);
const ANSWERS = new Set(["TurnRequested", "CallModel", "ModelReplied"]);

/** Return the path from a client's input to an event. */
export function wayTo(session, seq) {
  const way = [seq];
  for (let at = before(session, seq); at; at = before(session, at)) way.unshift(at);
  return way;
}

/** Return the events that an event was made of, in the order of the log. */
export function partsOf(session, seq) {
  return [...new Set(parts(session, seq))].sort((one, other) => one - other);
}

/** Return the events from this one back to the one where the value first was; empty if it is not in it. */
export function sourceOf(session, seq, value) {
  const holds = (one) => holdsText(session.body(one), value);
  if (!holds(seq)) return [];
  const way = [];
  for (let at = seq; at; at = contentOf(session, at).find(holds)) way.push(at);
  return way;
}

function before(session, seq) {
  const kind = session.kinds[seq];
  if (kind === "CallModel") return session.body(seq).request;
  const by = kind === "AskEnded" || kind === "DelegationEnded" ? session.body(seq).by : 0;
  return by || session.causes[seq];
}

function parts(session, seq) {
  const kind = session.kinds[seq];
  if (ANSWERS.has(kind)) return firstAttempt(session, seq).new ?? [];
  if (kind === "Begin") return [1, ...starts(session, seq)];
  return session.causes[seq] ? [before(session, seq), ...replyOf(session, seq)] : [];
}

function firstAttempt(session, seq) {
  for (let at = seq; at; ) {
    const body = session.body(at);
    const isRetry = (body.attempt ?? 1) > 1 && !body.new?.length;
    if (session.kinds[at] === "TurnRequested" && !isRetry) return body;
    at = session.kinds[at] === "CallModel" ? before(session, at) : session.causes[at];
  }
  return {}; // a log in which nothing asked for this reply
}

/** Return what an agent begins with: the delegation or the ask, and the context made for it. */
function starts(session, seq) {
  const found = [];
  const isStart = (at) => ["Delegate", "Ask"].includes(session.kinds[at]);
  for (let at = seq; session.causes[at] && !isStart(at); ) {
    at = session.causes[at];
    if (isStart(at) || session.kinds[at] === "ContextMade") found.push(at);
  }
  return found;
}

/** Return the reply whose call an event is, if another event released it. */
function replyOf(session, seq) {
  const turn = session.body(seq).turn ?? 0;
  const sender = session.sender(seq);
  if (!turn || !isAgent(sender)) return [];
  const found = [];
  for (let at = seq; at > 0; at -= 1)
    if (session.kinds[at] === "ModelReplied" && session.recipient(at) === sender && session.body(at).turn === turn) found.push(at);
  return found;
}

/** Return the events whose content an event may hold, oldest first. */
function contentOf(session, seq) {
  if (session.kinds[seq] === "ModelReplied") return conversation(session, seq);
  return partsOf(session, seq).flatMap((part) =>
    WITHOUT_CONTENT.has(session.kinds[part]) ? contentOf(session, part) : [part]);
}

function conversation(session, reply) {
  const agent = session.recipient(reply);
  const named = new Set();
  for (let at = 1; at <= session.causes[reply]; at += 1)
    if (session.kinds[at] === "TurnRequested" && session.sender(at) === agent)
      for (const one of session.body(at).new ?? []) named.add(one);
  return [...named].sort((one, other) => one - other);
}

/** Return whether a text stands in a string or number of a value, or in a name of foreign JSON. */
export function holdsText(value, text, depth = 0) {
  if (value === null || typeof value !== "object") return String(value).includes(text);
  if (Array.isArray(value)) return value.some((one) => holdsText(one, text, depth + 1));
  return Object.entries(value).some(
    ([name, one]) => (depth > 0 && name.includes(text)) || holdsText(one, text, depth + 1));
}
