// Events, times and amounts in words. Everything here is text.

import { shellQuoted } from "./copies.js";

const SUMMARY_CHARS = 240;

/** Return the colour class of an event: the kind of thing that happens in it. */
export function toneOf(session, seq) {
  return session.summary.kinds[session.kinds[seq]]?.[0] ?? "plain";
}

/** Return whether an event says that something failed. The lanes ask for thousands of events a frame. */
export function isFailure(session, seq) {
  return session.words[seq][0] === "!" || session.refused.has(seq);
}

/** Return whether the outcome of a span is a bad one. */
export function isBadSpan(session, span) {
  return session.summary.bad.includes(span.outcome) || (span.kind === "turn" && span.outcome !== "" && span.outcome !== "ok"); // the code of a failure
}

/** Return a message in one line. */
export function summaryOf(session, seq) {
  return session.words[seq].slice(1);
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

/** Return a length of time; `?` for a negative one, which a clock that was set back gives. */
export function durationText(ms) {
  if (ms < 0) return "?";
  if (ms < 1000) return `${ms} ms`;
  if (ms < 59_950) return `${(ms / 1000).toFixed(ms < 9_995 ? 2 : 1)} s`;
  const seconds = Math.round(ms / 1000);
  return seconds < 3600 ? `${Math.floor(seconds / 60)} min ${seconds % 60} s` : `${Math.floor(seconds / 3600)} h ${Math.floor(seconds / 60) % 60} min`;
}

/** Return how a session ended. An ask without an outcome may run, or its process may have ended: the log cannot say which. */
export function statusOf(summary) {
  return summary.kind || (summary.status === "unfinished" ? "unfinished" : "no outcome");
}

/** Return a number with a noun, in the plural unless it is one. */
export function counted(count, noun) {
  return `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;
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
