// Why an event happened, by the rules of replay/why.py: the way to it, its parts, the source of a value in it.

import { WrittenNumber, isAgent } from "./data.js";
import { delegationsIn } from "./delegations.js";
import { Held, otherSpellings, wordsOf } from "./held.js";

const WITHOUT_CONTENT = new Set(["CallModel", "CheckSchema", "SchemaChecked"]);
const ASKED_CHARS_MAX = 200; // of a text in a call's arguments or a task
const WEIGHT = 720720; // of a word that one holder has
const OF_MODEL = -1; // in place of a call: the reply of the model itself
const WISHES = new Set(["TurnRequested", "RunStep"]);
const ANSWERS = new Set([...WISHES, "CallModel", "ModelReplied"]);

/** Return the path from a client's input to an event. */
export function wayTo(session, seq) {
  const way = [seq];
  for (let at = before(session, seq); at; at = before(session, at)) way.unshift(at);
  return way;
}

/** Return the events that an event was made of, in the order of the log. A check that passed is none of them. */
export function partsOf(session, seq) {
  const isPassed = (at) => WITHOUT_CONTENT.has(session.kinds[at]) && (session.body(at).status ?? "ok") === "ok";
  const found = [...new Set(parts(session, seq))].flatMap((at) => (isPassed(at) ? partsOf(session, at) : [at]));
  return [...new Set(found)].sort((one, other) => one - other);
}

/**
 * Return the source of a value: `way`, the events from this one back to the one where it first was, empty if it is
 * not in it; `also`, the others that could be its source; `madeOf`, the inputs of the reply that first wrote it;
 * `written`, the value as its source writes it, if in another way.
 */
export function sourceOf(session, seq, value) {
  const own = heldIn(session, seq, value);
  if (!own) return { way: [], also: [], madeOf: [], written: "" };
  let held = own;
  const way = [seq];
  const others = [];
  const wanted = new Set();
  for (;;) {
    for (const { words } of held.places(session.body(way.at(-1)))) for (const word of words) wanted.add(word);
    const [form, next, ...more] = holders(session, way.at(-1), held, wanted, value);
    if (!next) break;
    held = form;
    way.push(next);
    others.push(...more);
  }
  const isMade = session.kinds[way.at(-1)] === "ModelReplied";
  const inputs = isMade ? partsOf(session, way.at(-1)) : [];
  return {
    way,
    also: [...new Set(others)].filter((one) => !way.includes(one)),
    madeOf: inputs.filter((one) => session.kinds[one] !== "ModelReplied"),
    written: held === own ? "" : held.places(session.body(way.at(-1)))[0].text,
  };
}

/** Return how the source of a value writes it, and its holders: in other spellings if a model wrote it in its own way. */
function holders(session, seq, held, wanted, value) {
  const found = ranked(session, seq, held, wanted);
  if (found.length || session.kinds[seq] !== "ModelReplied") return [held, ...found];
  for (const other of otherSpellings(value)) {
    const isNear = (one) => other.places(session.body(one)).some(({ words }) => [...words].some((word) => wanted.has(word)));
    const more = ranked(session, seq, other, wanted).filter((one) => !other.isCommon || isNear(one));
    if (more.length) return [other, ...more];
  }
  return [held];
}

/** Return the value to look for: as whole words, unless the event has it in another form only. */
function heldIn(session, seq, value) {
  const forms = [new Held(value, true), new Held(value, false), ...otherSpellings(value)];
  return forms.find((held) => held.places(session.body(seq)).length);
}

/** Return the events from which an event may have a value, the likeliest first. wanted: the words near the value so far. */
function ranked(session, seq, held, wanted) {
  const holders = new Map();
  for (const one of contentOf(session, seq)) {
    const places = held.places(session.body(one));
    if (places.length) holders.set(one, places);
  }
  if (holders.size < 2) return [...holders.keys()];
  const having = new Map();
  const near = new Map();
  for (const [one, places] of holders) {
    const asked = askedWords(session, one);
    const found = places.map(({ words, isAlone }) => [new Set([...words, ...asked].filter((word) => wanted.has(word))), isAlone ? 1 : 0]);
    near.set(one, found);
    for (const word of new Set(found.flatMap(([words]) => [...words]))) having.set(word, (having.get(word) ?? 0) + 1);
  }
  const newest = new Set(partsOf(session, seq));
  const weight = (words) => [...words].reduce((sum, word) => sum + Math.floor(WEIGHT / having.get(word)), 0);
  const ranks = new Map();
  for (const [one, places] of near) {
    const [fit, isAlone] = places.map(([words, alone]) => [weight(words), alone]).sort(descending)[0];
    const isNew = newest.has(one) ? 1 : 0;
    ranks.set(one, held.isCommon ? [fit, isAlone, isNew, one] : [isNew, fit, isAlone, one]);
  }
  return [...holders.keys()].sort((one, other) => descending(ranks.get(one), ranks.get(other)));
}

function descending(one, other) {
  const at = one.findIndex((value, place) => value !== other[place]);
  return at < 0 ? 0 : other[at] - one[at];
}

/** Return the words of the call or the task that an event answers. */
function askedWords(session, seq) {
  const body = session.body(seq);
  if (session.kinds[seq] === "DelegationEnded") {
    const task = delegationsIn(session).get(body.address);
    return task ? wordsInside(session.body(task.seq).prompt) : [];
  }
  if (session.kinds[seq] !== "ToolReturned") return [];
  let asked = session.causes[seq];
  if (session.kinds[asked] === "ToolStarted") asked = session.causes[asked];
  if (session.kinds[asked] !== "CallTool") return [];
  const { tool, arguments: given } = session.body(asked);
  return [...wordsOf(tool), ...wordsInside(given)];
}

/** Return the words of the names and of the beginnings of the texts in a JSON value. */
function wordsInside(value) {
  if (typeof value === "string") return wordsOf([...value].slice(0, ASKED_CHARS_MAX).join(""));
  if (value === null || typeof value !== "object" || value instanceof WrittenNumber) return [];
  if (Array.isArray(value)) return value.flatMap(wordsInside);
  return Object.entries(value).flatMap(([name, one]) => [...wordsOf([...name].slice(0, ASKED_CHARS_MAX).join("")), ...wordsInside(one)]);
}

function before(session, seq) {
  const kind = session.kinds[seq];
  const [, link] = session.summary.kinds[kind] ?? [];
  return (link && session.body(seq)[link]) || session.causes[seq];
}

function parts(session, seq) {
  return [...changeOf(session, seq), ...recordedParts(session, seq)];
}

/** Return the `Forked` whose change an answer is. */
export function changeOf(session, seq) {
  const kind = session.kinds[seq];
  const { turn, call = OF_MODEL, reused } = kind === "ToolReturned" || kind === "ModelReplied" ? session.body(seq) : {};
  if (!reused) return [];
  const agent = session.recipient(seq);
  const isIt = (change) => change.agent === agent && change.turn === turn && change.call === call && change.replaces === reused;
  const found = [];
  for (let at = 1; at < seq; at += 1)
    if (session.kinds[at] === "Forked" && session.body(at).changes?.some(isIt)) found.push(at);
  return found;
}

function recordedParts(session, seq) {
  const kind = session.kinds[seq];
  if (ANSWERS.has(kind)) return firstAttempt(session, seq).new ?? [];
  if (kind === "Begin") return [1, ...starts(session, seq)];
  return session.causes[seq] ? [before(session, seq), ...replyOf(session, seq)] : [];
}

function firstAttempt(session, seq) {
  for (let at = seq; at; ) {
    const body = session.body(at);
    const isRetry = (body.attempt ?? 1) > 1 && !body.new?.length;
    const wish = wishOf(session, at);
    if (wish && !isRetry) return wish;
    at = session.kinds[at] === "CallModel" ? before(session, at) : session.causes[at];
  }
  return {}; // a log in which nothing asked for this reply
}

/** Return the request for a turn that an event is; null for any other one. As `wish_in` of protocol/wishes.py. */
function wishOf(session, seq) {
  const kind = session.kinds[seq];
  if (WISHES.has(kind)) return session.body(seq);
  const first = kind === "CallModel" && session.body(seq).opening;
  return first ? { ...first, new: [session.body(seq).request] } : null;
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

/** Return the reply that an event comes from, if another event released it: an approval, or the end of a task. */
function replyOf(session, seq) {
  const { turn = 0, kind } = session.body(seq);
  const sender = session.sender(seq);
  const isAnswer = session.kinds[seq] === "Finished" && kind === "answered";
  if (!isAgent(sender) || !(turn || isAnswer)) return [];
  const found = [];
  for (let at = seq; at > 0; at -= 1) {
    if (session.kinds[at] !== "ModelReplied" || session.recipient(at) !== sender) continue;
    if (isAnswer) return [at];
    if (session.body(at).turn === turn) found.push(at);
  }
  return found;
}

/** Return the events whose content an event may hold, oldest first. */
function contentOf(session, seq) {
  const changes = changeOf(session, seq);
  if (changes.length) return changes;
  if (session.kinds[seq] === "ModelReplied") return conversation(session, seq);
  return partsOf(session, seq).flatMap((part) =>
    WITHOUT_CONTENT.has(session.kinds[part]) ? contentOf(session, part) : [part]);
}

function conversation(session, reply) {
  const agent = session.recipient(reply);
  const named = new Set();
  for (let at = 1; at <= session.causes[reply]; at += 1)
    if (session.sender(at) === agent)
      for (const one of wishOf(session, at)?.new ?? []) named.add(one);
  return [...named].sort((one, other) => one - other);
}

/** Return whether an event stays in every list: failures, retries, other models, inputs from outside. As `matters` of replay/steps.py. */
function matters(session, seq) {
  const kind = session.kinds[seq];
  if (session.words[seq][0] === "!" || session.summary.weights[kind] === "outside") return true;
  const { attempt = 1, model = "", arguments: given = null } = ["TurnRequested", "ModelReplied", "ApprovalGiven"].includes(kind) ? session.body(seq) : {};
  return (kind === "TurnRequested" && attempt > 1) || Boolean(model) || given !== null;
}

/** Return the events to show of a list that is longer than `most`: bookkeeping is left out first. As `essential` of replay/steps.py. */
export function essential(session, seqs, most) {
  if (seqs.length <= most) return seqs;
  const isEnd = (place) => place === 0 || place === seqs.length - 1;
  const kept = seqs.filter((seq, place) => isEnd(place) || matters(session, seq) || session.summary.weights[session.kinds[seq]] !== "bookkeeping");
  if (kept.length <= most) return kept;
  const plain = kept.filter((seq) => !matters(session, seq));
  const room = Math.max(0, most - (kept.length - plain.length));
  const half = Math.floor(room / 2);
  const ends = new Set([...plain.slice(0, room - half), ...plain.slice(plain.length - half), seqs[0], seqs.at(-1)]);
  return kept.filter((seq) => ends.has(seq) || matters(session, seq));
}
