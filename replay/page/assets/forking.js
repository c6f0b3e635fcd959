// Fork here: change one thing of a recorded session, and go on from there in a new one.

import { act, asked, once, queryOf } from "./acts.js";
import { make, openDialog } from "./elements.js";
import { amount, dollars, textOf } from "./words.js";

const COST_MS = 250; // after the last key, before the cost is asked for
const NAMES_SHOWN = 5;
const EFFECTS = [["ask", "ask a person"], ["recorded", "end the ask"], ["live", "run the tool"]];

/** Return the ways in which the session can be changed at an event. */
export function changesAt(session, seq) {
  const body = session.body(seq);
  const agent = session.agentOf(seq) || "host";
  const found = [];
  if (body.type === "ToolReturned") found.push(answerChange(seq, "the result of this call", body.output));
  if (body.type === "ModelReplied" && (body.status ?? "ok") === "ok") found.push(answerChange(seq, "this reply", body.content));
  if (body.type === "Ask") found.push(answerChange(seq, "the prompt", body.prompt));
  if (body.type === "ApprovalGiven") found.push(answerChange(seq, "the person's answer: approved, or the reason for a refusal", body.verdict === "approved" ? "approved" : body.note || "denied"));
  const begin = beginOf(session, agent, seq);
  if (begin) found.push(instructionsChange(session, begin));
  found.push({ label: "only a limit", text: null, wish: () => ({ at: seq }), query: { at: seq } });
  return found;
}

/** Return a change of a recorded answer. Its text is what stands there, or JSON if it is more than a text. */
function answerChange(seq, label, value) {
  const only = Array.isArray(value) && value.length === 1 && value[0]?.type === "text" ? value[0].text : null;
  const isText = typeof value === "string" || only !== null;
  const text = isText ? only ?? value : JSON.stringify(value, null, 2);
  return { label, text, isText, query: { changes: seq }, wish: (typed) => ({ changes: { [seq]: isText ? typed : parsed(typed) } }) };
}

function parsed(typed) {
  try {
    return JSON.parse(typed);
  } catch (error) {
    throw new Error(`This is no JSON: ${error.message}`);
  }
}

/** Return a change of an agent's instructions. It is taken before the agent begins. */
function instructionsChange(session, begin) {
  const profile = session.body(begin).profile ?? {};
  const name = profile.name ?? "";
  const at = session.causes[begin] - 1;
  return { label: `the instructions of ${name}`, text: textOf(profile.instructions ?? ""), isText: true, query: { instructions: name, at },
    wish: (typed) => ({ at, instructions: { [name]: typed } }) };
}

function beginOf(session, agent, seq) {
  for (let at = seq; at > 0; at -= 1) if (session.kinds[at] === "Begin" && session.recipient(at) === agent) return at;
  return 0;
}

/** Open the form for a fork at an event. */
export function openFork(app, seq) {
  const { session } = app;
  const changes = changesAt(session, seq);
  const form = new ForkForm(app, seq, changes);
  openDialog(`Change and go on from event ${seq}`, form.parts());
  return form.refresh();
}

class ForkForm {
  constructor(app, seq, changes) {
    Object.assign(this, { app, seq, changes, change: changes[0], due: 0 });
    const { session } = app;
    const used = session.agents.reduce((sum, agent) => sum + agent.tokens, 0);
    const later = () => this.refresh();
    this.what = make("select", { onchange: () => this.choose() }, changes.map(({ label }, place) => make("option", { value: place }, label)));
    this.text = make("textarea", { rows: 8, class: "wide", spellcheck: false });
    this.tokens = make("input", { type: "number", min: 0, value: suggested(used), oninput: later });
    this.cost = make("input", { type: "number", min: 0, step: "any", oninput: later });
    this.name = make("input", { type: "text", placeholder: "max_iterations", autocomplete: "off" });
    this.value = make("input", { type: "number", min: 0, step: "any", "aria-label": "Value of the other limit" });
    this.effects = make("select", {}, EFFECTS.map(([value, label]) => make("option", { value }, label)));
    this.statement = make("div", { class: "statement", role: "status" });
    this.said = make("p", { class: "said", role: "status" });
    this.go = make("button", { class: "offer", onclick: () => this.send() }, "Fork and go on");
    this.fill();
  }

  parts() {
    this.textField = make("label", { class: "field" }, "New value", this.text);
    this.textField.hidden = this.change.text === null;
    return [make("label", { class: "field" }, "Change", this.what), this.textField,
      make("div", { class: "limits" }, make("label", { class: "field" }, "Limit of tokens", this.tokens), make("label", { class: "field" }, "Limit in US dollars", this.cost),
        make("label", { class: "field" }, "Another limit", this.name), make("label", { class: "field" }, "Its value", this.value)),
      make("label", { class: "field" }, "A tool with an effect and without a recorded result", this.effects),
      this.statement, make("div", { class: "choices" }, this.go), this.said];
  }

  choose() {
    this.change = this.changes[Number(this.what.value)];
    this.textField.hidden = this.change.text === null;
    this.fill();
    this.refresh();
  }

  fill() {
    this.text.value = this.change.text ?? "";
  }

  limits() {
    const stated = [["tokens", this.tokens.value], ["cost_usd", this.cost.value], [this.name.value.trim(), this.value.value]];
    return Object.fromEntries(stated.filter(([name, value]) => name && value !== "").map(([name, value]) => [name, Number(value)]));
  }

  /** Ask the server what the fork can cost, and say it. */
  refresh() {
    clearTimeout(this.due);
    return new Promise((done) => {
      this.due = setTimeout(async () => {
        const { tokens, cost_usd: usd } = this.limits();
        this.go.disabled = tokens === undefined && usd === undefined;
        const query = queryOf({ session: this.app.session.summary.session, beside: "" });
        for (const [name, value] of Object.entries({ ...this.change.query, tokens, cost_usd: usd })) if (value !== undefined) query.set(name, value);
        const { due } = this;
        const found = await asked("cost", query).then(statementOf, (error) => [make("p", { class: "bad-word" }, error.message)]);
        if (due === this.due) this.statement.replaceChildren(...found); // else a later question is under way
        done();
      }, COST_MS);
    });
  }

  send() {
    const { session } = this.app;
    return once(this.said, "Beginning the fork.", async () => {
      const wish = this.change.wish(this.text.value);
      const begun = await act({ command: "fork", session: session.summary.session, limits: this.limits(), effects: this.effects.value, ...wish }, session.count);
      location.href = `session?${queryOf({ session: begun.session, beside: session.summary.session })}`;
      return `It runs as ${begun.session}.`;
    });
  }
}

/** Return a limit that leaves room for the session once more. */
function suggested(tokens) {
  const wanted = Math.max(10_000, 2 * tokens);
  const step = 10 ** Math.max(0, Math.floor(Math.log10(wanted)) - 1);
  return Math.ceil(wanted / step) * step;
}

/** Return what is asked again, and the most that it can cost. */
export function statementOf(cost) {
  const { base, agents, calls, tools } = cost;
  const names = agents.slice(0, NAMES_SHOWN).join(", ") + (agents.length > NAMES_SHOWN ? ` and ${agents.length - NAMES_SHOWN} more` : "");
  const count = (number, word) => `${number.toLocaleString("en")} ${word}${number === 1 ? "" : "s"}`;
  const money = (microUsd) => dollars(microUsd) || "$0";
  const again = calls + tools === 0
    ? "Nothing that was recorded behind it is asked again, unless it goes another way."
    : `If it goes on as recorded, ${[[calls, "model call"], [tools, "tool call"]].filter(([number]) => number).map(([number, word]) => count(number, word)).join(" and ")} of ${names} ${calls + tools === 1 ? "is" : "are"} asked again; they took ${amount(cost.tokens)} tokens${cost.micro_usd ? ` and ${money(cost.micro_usd)}` : ""}. It may take another way.`;
  const tokensLeft = cost.tokens_max === null ? "" : `${amount(cost.tokens_max)} tokens`;
  const most = cost.micro_usd_max === null ? "unknown" : money(cost.micro_usd_max);
  return [
    make("p", {}, `The fork shares events 1 to ${base.toLocaleString("en")}, which cost nothing again. ${again}`),
    make("p", {}, "At most: ", make("b", {}, [tokensLeft, `cost ${most}`].filter(Boolean).join(", ")),
      cost.micro_usd_max === null ? " (no limit in dollars, and a price is not known)" : "", ". The limits hold for the whole session, with what was used before."),
    (cost.tokens_max === 0 || (cost.micro_usd_max === 0 && cost.used_micro_usd > 0)) && make("p", { class: "bad-word" }, "The limit is used up before the fork begins, so that nothing can be asked."),
  ].filter(Boolean);
}
