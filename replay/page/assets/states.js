// The states of agents after any event, folded from the changes that each event made.

import { WrittenNumber, readJson } from "./data.js";

const REQUESTS = new Set(["TurnRequested", "RunStep", "CallModel", "ModelReplied"]);

/** Return the timelines of a session's agents, each made when it is first used. */
export class States {
  constructor(session) {
    this.session = session;
    this.timelines = new Map();
    this.strings = new Map();
    this.values = [];
  }

  /** Forget the timelines: the session has more events now. */
  grow() {
    this.timelines.clear();
  }

  /** Return the state of an agent after event `seq`: a map from path to value. */
  stateAt(agent, seq) {
    const state = new Map();
    for (const [path, entries] of this.timeline(agent)) {
      const entry = lastUpTo(entries, seq);
      if (entry && !entry.isDropped) state.set(path, this.revive(entry.value));
    }
    return state;
  }

  /** Return what an event changed in its recipient's state: path, value before, value after. */
  changesAt(seq) {
    const line = this.session.changeLines[seq];
    if (!line) return [];
    const timeline = this.timeline(this.session.recipient(seq));
    const [, values, dropped = []] = readJson(line);
    return [...Object.keys(values), ...dropped].map((path) => {
      const entries = timeline.get(path);
      const before = lastUpTo(entries, seq - 1);
      return {
        path,
        before: before && !before.isDropped ? this.revive(before.value) : undefined,
        after: path in values ? this.revive(values[path]) : undefined,
      };
    });
  }

  /** Return the request that an event asked for, granted or answered; null for another event. */
  requestOf(seq) {
    const grant = this.grantOf(seq);
    if (!grant) return null;
    const { session } = this;
    const agent = session.body(grant).agent;
    const state = this.stateAt(agent, grant);
    const prefix = state.get("prefix") ?? { system: "", tools: [] };
    const model = state.get("model") ?? {};
    const before = this.grantBefore(agent, grant);
    const messages = this.historyAt(agent, grant).map(([value, at]) => ({ value, at, isNew: at > before }));
    const isPlain = prefix.own && !model.inline_tools; // the model cannot read messages that change tools
    return {
      grant,
      agent,
      model,
      turn: state.get("turn"),
      attempt: state.get("attempt"),
      system: prefix.system,
      tools: isPlain ? [...Object.values(prefix.own), ...prefix.others] : prefix.tools,
      forced: state.get("is_forced") ? "report_back" : "",
      messages: isPlain ? messages.filter(({ value }) => value.role !== "system") : messages,
    };
  }

  /** Return the messages of an agent's conversation, each with the event that brought it. */
  historyAt(agent, seq) {
    const found = [];
    for (const [path, entries] of this.timeline(agent)) {
      const place = /^history\.(\d+)$/.exec(path);
      const entry = place && lastUpTo(entries, seq);
      if (entry && !entry.isDropped) found.push([Number(place[1]), this.revive(entry.value), entry.seq]);
    }
    return found.sort(([one], [other]) => one - other).map(([, value, at]) => [value, at]);
  }

  /** Return the event that brought the last message of an agent's conversation, which ends with the agent; 0 for none. */
  lastMessageOf(agent) {
    let last = 0;
    for (const [path, entries] of this.timeline(agent)) {
      if (!path.startsWith("history.")) continue;
      for (const entry of entries) if (!entry.isDropped) last = Math.max(last, entry.seq);
    }
    return last;
  }

  grantOf(seq) {
    const { session } = this;
    const kind = session.kinds[seq];
    if (!REQUESTS.has(kind)) return 0;
    if (kind === "CallModel" || kind === "RunStep") return seq;
    if (kind === "ModelReplied") return session.causes[seq];
    for (let later = seq + 1; later <= session.count; later += 1)
      if (session.kinds[later] === "CallModel" && session.body(later).request === seq) return later;
    return 0;
  }

  grantBefore(agent, grant) {
    const { session } = this;
    for (let seq = grant - 1; seq > 0; seq -= 1)
      if (isCallOf(session, seq, agent)) return seq;
    return 0;
  }

  /** Return all changes of an agent's state: a map from path to entries in the order of the log. */
  timeline(agent) {
    let timeline = this.timelines.get(agent);
    if (timeline) return timeline;
    timeline = new Map();
    this.timelines.set(agent, timeline);
    const { session } = this;
    const number = session.names.indexOf(agent);
    for (let seq = 1; seq <= session.count; seq += 1)
      if (session.recipients[seq] === number && session.changeLines[seq]) addChange(timeline, seq, session.changeLines[seq]);
    return timeline;
  }

  /** Put the texts that stand for other texts and values back; lines.py has the rules. */
  revive(value) {
    if (typeof value === "string") return value[0] === "~" ? this.meantBy(value) : value;
    if (Array.isArray(value)) return value.map((one) => this.revive(one));
    if (value === null || typeof value !== "object" || value instanceof WrittenNumber) return value;
    return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, this.revive(one)]));
  }

  meantBy(text) {
    if (text[1] === "~") return text.slice(1);
    if (text[1] === "p") {
      const number = Number(text.slice(2));
      this.values[number] ??= this.revive(readJson(this.session.shared[number]));
      return this.values[number];
    }
    const [seq, place] = text.slice(1).split(".").map(Number);
    return this.stringsOf(seq)[place];
  }

  stringsOf(seq) {
    let found = this.strings.get(seq);
    if (!found) {
      found = this.session.bodies[seq].match(/"(?:[^"\\]|\\.)*"/g).map((token) => JSON.parse(token));
      this.strings.set(seq, found);
    }
    return found;
  }
}

function addChange(timeline, seq, line) {
  const [, values, dropped = []] = readJson(line);
  for (const [path, value] of Object.entries(values)) entriesOf(timeline, path).push({ seq, value });
  for (const path of dropped) entriesOf(timeline, path).push({ seq, isDropped: true });
}

function entriesOf(timeline, path) {
  let entries = timeline.get(path);
  if (!entries) timeline.set(path, (entries = []));
  return entries;
}

/** Return the last entry whose seq is at most this one. */
function lastUpTo(entries, seq) {
  let low = 0;
  let high = entries.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (entries[middle].seq <= seq) low = middle + 1;
    else high = middle;
  }
  return entries[low - 1];
}

/** Return whether an event is a model call of an agent, or its step. */
function isCallOf(session, seq, agent) {
  const kind = session.kinds[seq];
  if (kind === "RunStep") return session.sender(seq) === agent;
  return kind === "CallModel" && session.body(seq).agent === agent;
}
