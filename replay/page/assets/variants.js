// The forks of a session as a table: what each came to, and what it cost.

import { asked, queryOf } from "./acts.js";
import { make, openDialog } from "./elements.js";
import { amount, dollars, oneLine } from "./words.js";

const HEADINGS = ["Session", "From", "Outcome", "Turns", "Called", "Reused", "Tokens", "Billed", "Cost", "Text"];

/** Show the session, or its origin if it is a fork, with all forks. */
export async function openVariants(app) {
  const name = originOf(app);
  const parts = openDialog("Variants", make("p", { role: "status" }, "Reading the forks."));
  try {
    const { origin, forks, left_out: left } = await asked("variants", queryOf({ session: name, beside: "" }));
    const rows = [{ ...origin, isOrigin: true }, ...forks].map((one) => rowOf(one, name));
    parts.replaceChildren(make("p", { class: "hint", hidden: forks.length > 0 }, "This session has no forks yet."),
      make("div", { class: "scrolled", tabIndex: 0 }, make("table", { class: "variants" }, make("tr", {}, HEADINGS.map((one) => make("th", { scope: "col" }, one))), rows)),
      make("p", { class: "hint", hidden: left === 0 }, `and ${left} older ones`));
  } catch (error) {
    parts.replaceChildren(make("p", {}, error.message));
  }
}

function originOf({ session }) {
  const seq = session.kinds.lastIndexOf("Forked");
  return seq > 0 ? session.body(seq).origin : session.summary.session;
}

function rowOf(one, origin) {
  const query = queryOf({ session: one.session, beside: one.isOrigin ? "" : origin });
  const cells = [
    make("a", { href: `session?${query}` }, one.session), one.isOrigin ? "origin" : `#${one.at}`,
    one.status === "unfinished" ? one.status : one.outcome, one.turns, one.called, one.reused, amount(one.tokens), amount(one.billed_tokens),
    dollars(one.billed_micro_usd) || "-", oneLine(one.text)];
  return make("tr", { class: one.isOrigin ? "origin" : "" }, cells.map((cell) => make("td", {}, typeof cell === "number" ? cell.toLocaleString("en") : cell)));
}
