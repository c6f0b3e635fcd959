// The session that is in the page: its lines as replay/page/lines.py writes them, read when they are needed.

const KIND_START = '{"type":"'.length;
const PARSED_MAX = 4000; // bodies that are kept parsed
// A number that may lose digits or its spelling: a long or tiny one, with a zero at its end, with an exponent, or -0.
const UNUSUAL_NUMBER = /(?:^|[[:,])\s*-?(?:\d[\d.]{15}|0\.0{6}|\d+\.\d*0(?!\d)|\d+(?:\.\d+)?[eE]|(?<=-)0(?![\d.]))/;

/** A number that would be another one, or be spelled in another way, once it is read. It prints as it was written. */
export class WrittenNumber {
  constructor(text) {
    this.text = text;
  }

  toString() {
    return this.text;
  }

  valueOf() {
    return Number(this.text);
  }

  toJSON() {
    return JSON.rawJSON(this.text);
  }
}

/** Parse a JSON text, its numbers as they are written. A browser of before 2025 rounds them. */
export function readJson(text) {
  if (!JSON.rawJSON || !UNUSUAL_NUMBER.test(text)) return JSON.parse(text);
  return JSON.parse(text, (name, value, context) =>
    (typeof value === "number" && String(value) !== context.source ? new WrittenNumber(context.source) : value));
}

/** Return whether this browser would round a number of a JSON text. */
export function isRounded(text) {
  return !JSON.rawJSON && UNUSUAL_NUMBER.test(text);
}

/** Read the lines in a data block of the page; null for an empty block. beside: the session that it stands beside. */
export async function loadSession(block, beside = null) {
  if (!block.textContent.trim()) return null;
  const text = atob(block.textContent.trim());
  block.remove(); // megabytes of text that nothing needs again
  const bytes = new Uint8Array(text.length);
  for (let place = 0; place < text.length; place += 1) bytes[place] = text.charCodeAt(place);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Session((await new Response(stream).text()).trimEnd().split("\n"), beside);
}

/** A recorded session. Events are numbered from 1, so place 0 of each column is empty. */
export class Session {
  constructor(lines, beside = null) {
    this.beside = beside;
    this.prefix = beside ? "#beside-" : "#"; // of links to its events
    this.bodies = [""];
    this.words = [""]; // what each event means, behind a mark: `!` of a failure
    this.changeLines = []; // by the seq of the event
    this.shared = [];
    this.writes = new Map(); // the seq of an answer -> the files that its call wrote: [path, difference]
    this.summary = {};
    this.parsed = new Map();
    this.count = 0;
    this.folded = new Set(); // the delegations whose agents the story does not show
    this.lines = 0; // that the page has, without the last one
    this.kinds = [""];
    this.append(lines);
  }

  /** Take further lines in; the last one has the columns of the new events, and the rest anew. */
  append(lines) {
    for (const line of lines) this.take(line);
    this.lines += lines.length - 1;
    const known = this.count;
    this.count = this.bodies.length - 1;
    for (let seq = known + 1; seq <= this.count; seq += 1) this.kinds.push(kindOf(this.bodies[seq]));
    this.takeColumns(this.summary, known);
    this.agents = this.summary.agents.map(agentOf);
    this.questions = this.summary.questions.map(agentOf); // answered ones of programs to models: turns of those
    this.agentAt = new Map([...this.agents, ...this.questions].map((agent) => [agent.address, agent]));
    this.spans = this.summary.spans.map(spanOf);
    this.refused = new Map(); // the seq of a reply -> its calls that the agent refused by itself
    for (const span of this.spans) if (span.kind === "refused") this.refused.set(span.first, [...(this.refused.get(span.first) ?? []), span]);
    this.findings = this.summary.findings.map(findingOf);
  }

  take(line) {
    const first = line[0];
    if (first === "{") this.bodies.push(line);
    else if (first === ">" || first === "!") this.words.push(line);
    else if (first === "[") this.changeLines[Number(line.slice(1, line.indexOf(",")))] = line;
    else if (first === "<") this.takeFirst(Number(line.slice(1)));
    else if (first === "+") this.writes.set(...readJson(line.slice(1)));
    else if (first === "=") this.shared.push(line.slice(1));
    else if (first === "*") this.summary = readJson(line.slice(1));
  }

  /** Take the first events of the session beside this one. */
  takeFirst(count) {
    this.bodies.push(...this.beside.bodies.slice(1, count + 1));
    this.words.push(...this.beside.words.slice(1, count + 1));
  }

  takeColumns({ names, start, times, senders, recipients, causes }, known) {
    this.names = names;
    if (!known) Object.assign(this, { senders: [-1], recipients: [-1], times: [start], causes: [0] });
    if (!known) this.effects = new Map(); // seq -> the seqs that answer it
    for (let place = 0, seq = known + 1; seq <= this.count; place += 1, seq += 1) {
      this.senders.push(senders[place]);
      this.recipients.push(recipients[place]);
      this.times.push(this.times[seq - 1] + times[place]);
      const cause = causes[place] ? seq - causes[place] : 0;
      this.causes.push(cause);
      if (!cause) continue;
      const effects = this.effects.get(cause);
      if (effects) effects.push(seq);
      else this.effects.set(cause, [seq]);
    }
  }

  href(seq) {
    return `${this.prefix}${seq}`;
  }

  sender(seq) {
    return this.names[this.senders[seq]];
  }

  recipient(seq) {
    return this.names[this.recipients[seq]];
  }

  /** Return the parsed body of an event. */
  body(seq) {
    let body = this.parsed.get(seq);
    if (body === undefined) {
      if (this.parsed.size >= PARSED_MAX) this.parsed.clear();
      body = readJson(this.bodies[seq]);
      this.parsed.set(seq, body);
    }
    return body;
  }

  /** Return the agent that an event is about; '' for none. */
  agentOf(seq) {
    if (this.kinds[seq] === "CallModel") return this.body(seq).agent;
    const recipient = this.recipient(seq);
    if (isAgent(recipient)) return recipient;
    const sender = this.sender(seq);
    return isAgent(sender) ? sender : "";
  }

  /** Return the last event that an agent received or sent; 0 for none. */
  lastOf(address) {
    const number = this.names.indexOf(address);
    return number < 0 ? 0 : Math.max(this.recipients.lastIndexOf(number), this.senders.lastIndexOf(number));
  }

  has(seq) {
    return Number.isInteger(seq) && seq >= 1 && seq <= this.count;
  }
}

export function isAgent(address) {
  return address === "host" || address.startsWith("host.");
}

function kindOf(body) {
  return body.slice(KIND_START, body.indexOf('"', KIND_START));
}

function agentOf([address, depth, profile, prompt, kind, status, detail, turns, tools, retries, tokens, microUsd, startedAt, endedAt]) {
  return { address, depth, profile, prompt, kind, status, detail, turns, tools, retries, tokens, microUsd, startedAt, endedAt };
}

function spanOf([kind, first, last, agent, name, attempts, outcome, note = ""], place) {
  return { kind, first, last, agent, name, attempts, outcome, note, place };
}

function findingOf([kind, isMaybe, seq, agent, says, command]) {
  return { kind, isMaybe, seq, agent, says, command };
}
