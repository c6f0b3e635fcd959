// The delegation that began each agent. Every delegation takes an ordinal for each of its agents, in the order of
// the log; one that ended without an address took none, since its own agent had ended before.

const knownDelegations = new WeakMap(); // session -> those up to its last event

/** Return the delegations of a session by the addresses of the agents that they began: { seq, agent, turn, call, children }. */
export function delegationsIn(session) {
  const known = knownDelegations.get(session);
  if (known?.count === session.count) return known.found;
  const all = [];
  const refused = new Set();
  for (let seq = 1; seq <= session.count; seq += 1) {
    const kind = session.kinds[seq];
    if (kind === "Delegate") {
      const { turn, call, profiles } = session.body(seq);
      all.push({ seq, agent: session.sender(seq), turn, call, copies: profiles.length, children: [] });
    } else if (kind === "DelegationEnded") {
      const { turn, call, address } = session.body(seq);
      if (!address) refused.add(`${session.recipient(seq)} ${turn} ${call}`);
    }
  }
  const found = new Map();
  const ordinals = new Map();
  for (const one of all) {
    if (refused.has(`${one.agent} ${one.turn} ${one.call}`)) continue;
    for (let copy = 0; copy < one.copies; copy += 1) {
      const ordinal = (ordinals.get(one.agent) ?? 0) + 1;
      ordinals.set(one.agent, ordinal);
      one.children.push(`${one.agent}.${ordinal}`);
      found.set(`${one.agent}.${ordinal}`, one);
    }
  }
  knownDelegations.set(session, { count: session.count, found });
  return found;
}

/** Return the rows of a story as a tree: { span, depth, hidden }, each agent's under the delegation that began it. folded: the seqs of folded delegations. */
export function storyRows(session, folded) {
  const below = spansByDelegation(session);
  const rows = [];
  const add = (parent, depth) => {
    for (const span of below.get(parent) ?? []) {
      const isParent = span.kind === "delegation" && below.has(span.first);
      const isFolded = isParent && folded.has(span.first);
      rows.push({ span, depth, isParent, isFolded, hidden: isFolded ? spansBelow(below, span.first, []) : NO_SPANS });
      if (isParent && !isFolded) add(span.first, depth + 1);
    }
  };
  add(0, 0);
  return rows;
}

const NO_SPANS = Object.freeze([]);
const knownSpans = new WeakMap(); // the spans of a session -> those below each delegation

/** Return the spans of agents by the seq of the delegation that began them, 0 for those at the top. */
function spansByDelegation(session) {
  let below = knownSpans.get(session.spans);
  if (below) return below;
  below = new Map();
  knownSpans.set(session.spans, below);
  const begun = delegationsIn(session);
  const known = new Set();
  for (const span of session.spans) if (span.kind === "delegation") known.add(span.first);
  for (const span of session.spans) {
    const seq = begun.get(span.agent)?.seq ?? 0;
    const parent = known.has(seq) ? seq : 0;
    if (!below.has(parent)) below.set(parent, []);
    below.get(parent).push(span);
  }
  return below;
}

/** Add the spans below a delegation, and below those among them, to others. */
function spansBelow(below, seq, found) {
  for (const span of below.get(seq) ?? []) {
    found.push(span);
    if (span.kind === "delegation") spansBelow(below, span.first, found);
  }
  return found;
}

/** Return the seqs of the delegations above an agent, nearest first. */
export function delegationsAbove(session, agent) {
  const found = [];
  const begun = delegationsIn(session);
  for (let one = begun.get(agent); one; one = begun.get(one.agent)) found.push(one.seq);
  return found;
}
