// Search over the events: words in their messages, and the prefixes kind:, agent:, and seq numbers.

import { readJson } from "./data.js";

const PREFIX = /(^|\s)(kind|agent):(\S+)/g;

/** Return the seqs that match a query, in order; null for an empty query. */
export function search(session, query) {
  const wanted = parse(query);
  if (!wanted) return null;
  const found = [];
  for (let seq = 1; seq <= session.count; seq += 1)
    if (wanted.takes(session, seq) && wanted.isIn(session.bodies[seq])) found.push(seq);
  return found;
}

function parse(query) {
  const kinds = [];
  const agents = [];
  const text = query.replace(PREFIX, (_, space, name, value) => {
    (name === "kind" ? kinds : agents).push(value.toLowerCase());
    return space;
  }).trim();
  if (!text && !kinds.length && !agents.length) return null;
  return {
    takes: (session, seq) =>
      (!kinds.length || kinds.some((kind) => session.kinds[seq].toLowerCase() === kind)) &&
      (!agents.length || agents.includes(session.agentOf(seq))),
    isIn: text ? holder(text) : () => true,
  };
}

/** Return a test for bodies that hold a text. Letters match in either case if the text has no capital. */
function holder(text) {
  const written = JSON.stringify(text).slice(1, -1);
  const pattern = new RegExp(written.replace(/[.*+?^${}()|[\]\\/]/g, "\\$&"), text === text.toLowerCase() ? "i" : "");
  // Foreign JSON may write a letter as an escape: such a body is written again before it is compared.
  return (body) => pattern.test(body) || (body.includes("\\u") && pattern.test(JSON.stringify(readJson(body))));
}
