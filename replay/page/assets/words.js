// Events, times and amounts in words. Everything here is text.

import { shellQuoted } from "./copies.js";

const SUMMARY_CHARS = 240;
const BAD = new Set(["error", "failed", "crashed", "cancelled", "lost", "interrupted", "denied", "invalid", "refused",
  "no_report", "empty", "budget", "max_iterations", "deadline", "late", "detached", "failure"]);

const KINDS_BY_TONE = {
  model: ["CallModel", "ModelReplied"],
  tool: ["CallTool", "ToolStarted", "ToolReturned", "CancelCall", "ToolsGiven", "ToolsChanged"],
  task: ["Delegate", "Delegated", "DelegationEnded", "Begin", "CancelTask"],
  report: ["ReportBack", "ReportJudged", "Finished", "Stopped"],
  approval: ["RequestApproval", "ApprovalGiven"],
  client: ["Ask", "AskEnded", "Tell", "TellEnded", "Told", "Cancel", "SessionOpened", "SessionClosed", "Resumed", "Forked"],
};
const TONES = new Map(Object.entries(KINDS_BY_TONE).flatMap(([tone, kinds]) => kinds.map((kind) => [kind, tone])));

/** Return the colour class of an event: the kind of thing that happens in it. */
export function toneOf(kind) {
  return TONES.get(kind) ?? "plain";
}

/** Return whether an event says that something failed. The lanes ask for thousands of events a frame. */
export function isFailure(session, seq) {
  session.failures ??= [false];
  for (let one = session.failures.length; one <= session.count; one += 1) session.failures.push(saysFailure(session, one));
  return session.failures[seq] || session.refused.has(seq);
}

function saysFailure(session, seq) {
  const kind = session.kinds[seq];
  if (kind === "DeciderFailed") return true;
  const line = session.bodies[seq];
  if (kind === "ToolReturned" || kind === "ModelReplied") return /"status":"(error|cancelled|interrupted|lost)"/.test(line);
  if (kind === "ReportJudged") return line.includes('"verdict":"invalid"');
  if (kind === "ApprovalGiven") return line.includes('"verdict":"denied"');
  if (["DelegationEnded", "AskEnded", "Finished"].includes(kind)) return !/"kind":"(reported|answered)"/.test(line);
  return false;
}

export function isBadWord(word) {
  return BAD.has(word);
}

/** Return a message in one line. */
export function summaryOf(session, seq) {
  const make = SUMMARIES[session.kinds[seq]];
  const text = make ? make(session.body(seq)) : "";
  return oneLine(text);
}

export function oneLine(text) {
  const short = text.slice(0, 4 * SUMMARY_CHARS).replace(/\s+/g, " ").trim();
  return short.length <= SUMMARY_CHARS ? short : `${short.slice(0, SUMMARY_CHARS - 1)}…`;
}

/** Return content of a message as text: a text, or blocks. */
export function textOf(content) {
  if (typeof content === "string") return content;
  if (!Array.isArray(content)) return content === null || content === undefined ? "" : JSON.stringify(content);
  return content.map(blockText).join("\n");
}

function blockText(block) {
  if (typeof block === "string") return block;
  const media = mediaOf(block);
  if (media) return `[${mediaText(media)}]`;
  if (typeof block?.text === "string") return block.text;
  if (block?.type === "tool_use") return `${block.name} ${JSON.stringify(block.input)}`;
  if (block?.type === "tool_result") return textOf(block.content);
  return JSON.stringify(block);
}

const MEDIA = new Set(["image", "document", "file", "audio", "media"]);

/** Return the data that a block holds: { name, type, data, url }; null for a block of another kind. */
export function mediaOf(block) {
  const source = block?.source ?? {};
  const link = block?.image_url?.url ?? block?.image_url;
  const text = (...values) => values.find((value) => typeof value === "string") ?? "";
  if (typeof link === "string") {
    const [start] = /^data:[\w/+.-]{0,80};base64,/.exec(link) ?? [""];
    return { name: "image", type: start.slice(5, -8), data: start && link.slice(start.length), url: start ? "" : link };
  }
  if (!MEDIA.has(block?.type) || source.type === "text") return null;
  const media = { name: block.type, type: text(source.media_type, block.mimeType, block.media_type, block.mediaType), data: text(source.data, block.data), url: text(source.url, source.file_id) };
  return media.data || media.url ? media : null;
}

/** Return data in words: its kind, type and size. */
export function mediaText({ name, type, data, url }) {
  return [name, type, data ? bytesText(data) : url.slice(0, 200)].filter(Boolean).join(", ");
}

/** Return the size of data in base64. */
export function bytesText(data) {
  const bytes = Math.floor((data.length * 3) / 4);
  return bytes < 10_000 ? `${bytes.toLocaleString("en")} bytes` : `${Math.round(bytes / 1000).toLocaleString("en")} KB`;
}

const replied = (body) => {
  if (body.failure) return `${body.failure.code}: ${body.failure.message}`;
  return `${body.status && body.status !== "ok" ? `${body.status}: ` : ""}${textOf(body.content ?? "")}`;
};
const ended = (body) => {
  const said = body.value ? JSON.stringify(body.value) : body.detail || body.text || "";
  return `${body.address ? `${body.address} ` : ""}${body.kind}${said ? `: ${said}` : ""}`;
};
const called = (body) => `${body.tool} ${JSON.stringify(body.arguments)}`;

/** The words of a task: its description, if it has one, and its prompt. */
const task = (body) => `${body.description ? `${body.description}: ` : ""}${textOf(body.prompt)}`;

const SUMMARIES = {
  SessionOpened: (body) => `host ${body.host}, ${body.profiles.length} agent profiles, model ${body.model?.name ?? ""}`,
  Forked: (body) => `of ${body.origin}#${body.at}${(body.changes ?? []).map((one) => `, ${one.agent} turn ${one.turn}${one.call >= 0 ? ` call ${one.call}` : ""}`).join("")}`,
  Resumed: () => "a process goes on with the session",
  Ask: (body) => textOf(body.prompt),
  AskEnded: ended,
  Tell: (body) => `to ${body.address}: ${body.text}`,
  TellEnded: (body) => `${body.status} ${body.detail ?? ""}`,
  Told: (body) => body.text,
  Cancel: (body) => body.reason ?? "",
  Begin: (body) => `${body.profile?.name ?? ""}: ${task(body)}`,
  Stop: (body) => body.reason,
  ReportJudged: (body) => `${body.verdict}${(body.problems ?? []).map((one) => `; ${one.path || "/"}: ${one.message}`).join("")}`,
  Delegated: (body) => `${body.address} works in the background`,
  DelegationEnded: ended,
  TurnRequested: (body) => `turn ${body.turn}${body.attempt > 1 ? `, attempt ${body.attempt}` : ""}${body.after_ms ? `, after ${durationText(body.after_ms)}` : ""}`,
  TurnSettled: (body) => (body.usage ? "settled" : "use not known"),
  Delegate: (body) => `to ${body.profiles.join(", ")}${body.mode === "background" ? " in the background" : ""}: ${task(body)}`,
  ReportBack: (body) => JSON.stringify(body.value),
  Finished: ended,
  CallModel: (body) => `for ${body.agent}, asked for by event ${body.request}`,
  ModelReplied: replied,
  CallTool: called,
  ToolStarted: (body) => `turn ${body.turn}, call ${body.call}`,
  ToolReturned: (body) => `${body.status && body.status !== "ok" ? `${body.status}: ` : ""}${textOf(body.output ?? "")}`,
  RequestApproval: called,
  ApprovalGiven: (body) => `${body.verdict}${body.by ? ` by ${body.by}` : ""}${body.note ? `: ${body.note}` : ""}`,
  RequestCapacity: (body) => `for ${body.agent}, of ${body.model}`,
  CapacityGiven: (body) => `for ${body.agent}`,
  CheckSchema: (body) => `check ${body.check}: ${body.task}`,
  SchemaChecked: (body) => `check ${body.check}: ${body.status}`,
  MakeContext: (body) => `for ${body.profile} of ${body.parent}`,
  ContextMade: (body) => `for ${body.profile}: ${body.detail || textOf(body.content)}`,
  SetTimer: (body) => `timer ${body.timer}${body.after_ms ? `, in ${durationText(body.after_ms)}` : ""}`,
  ExtendTimer: (body) => `timer ${body.timer}, ${durationText(body.by_ms)} later`,
  CancelTimer: (body) => `timer ${body.timer}`,
  TimerFired: (body) => `timer ${body.timer}`,
  DeciderFailed: (body) => `on event ${body.event}: ${body.error}`,
};

export function durationText(ms) {
  if (ms < 1000) return `${ms} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(ms < 10_000 ? 2 : 1)} s`;
  const minutes = Math.floor(ms / 60_000);
  return minutes < 60 ? `${minutes} min ${Math.round((ms % 60_000) / 1000)} s` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

export function amount(number) {
  if (number < 10_000) return number.toLocaleString("en");
  return number < 1_000_000 ? `${(number / 1000).toFixed(number < 100_000 ? 1 : 0)}k` : `${(number / 1_000_000).toFixed(1)}M`;
}

export function dollars(microUsd) {
  if (!microUsd) return "";
  return microUsd < 50 ? "<$0.0001" : `$${(microUsd / 1e6).toFixed(microUsd < 1e6 ? 4 : 2)}`;
}

/** Return the command that shows more of a finding. */
export function commandOf(session, finding) {
  const { session: name } = session.summary;
  return `callboard ${finding.command.replaceAll("{at}", `${name}#${finding.seq}`).replaceAll("{session}", name).replaceAll("{seq}", finding.seq)}`;
}

/** Return the command that forks a session at an event, quoted for a shell. */
export function forkOf(session, seq) {
  const place = `${session.summary.session}#${seq}`;
  return `callboard fork ${/^[\w.][\w.-]*#\d+$/.test(place) ? place : `-- ${shellQuoted(place)}`}`;
}
