// The forks of a session as a table: what each came to, and what it cost.

import { asked, queryOf } from "./acts.js";
import { make, openDialog } from "./elements.js";
import { amount, counted, dollars, oneLine } from "./words.js";

const AGAIN_MS = 2000; // between two looks, while the table is open
const HEADINGS = ["Session", "From", "Outcome", "Turns", "Called", "Reused", "Tokens", "Billed", "Cost", "Text"];

/** Show the session, or its origin if it is a fork, with all forks. */
export async function openVariants(app) {
  const name = originOf(app);
  const status = make("p", { class: "hint", role: "status" }, "Reading the forks.");
  const table = make("div", { class: "scrolled", tabIndex: 0, hidden: true });
  const parts = openDialog("Variants", status, table);
  let before = "";
  while (parts.isConnected) {
    try {
      const text = await asked("variants", queryOf({ session: name, beside: "" }), (one) => one);
      status.textContent = forksText(JSON.parse(text));
      if (text !== before) drawVariants(table, JSON.parse(text), name);
      before = text;
    } catch (error) {
      status.textContent = error.message;
    }
    await new Promise((done) => setTimeout(done, AGAIN_MS));
  }
}

function forksText({ forks, left_out: left }) {
  if (!forks.length) return "This session has no forks yet.";
  const running = forks.filter(({ status }) => status === "unfinished").length;
  return `${counted(forks.length, "fork")}${running ? `, ${running} not finished` : ""}${left ? `, and ${left} older ones` : ""}`;
}

/** Draw the rows again. The link that has the focus keeps it. */
function drawVariants(table, { origin, forks }, name) {
  const chosen = table.contains(document.activeElement) ? document.activeElement.textContent : "";
  const rows = [{ ...origin, isOrigin: true }, ...forks].map((one) => rowOf(one, name));
  table.replaceChildren(make("table", { class: "variants" }, make("tr", {}, HEADINGS.map((one) => make("th", { scope: "col" }, one))), rows));
  table.hidden = false;
  if (chosen) [...table.querySelectorAll("a")].find((one) => one.textContent === chosen)?.focus();
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
