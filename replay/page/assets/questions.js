// The calls that wait for a person, and what else a person can say: to an agent, and to the ask.

import { act, asked, once, queryOf, server } from "./acts.js";
import { argumentsBlock } from "./blocks.js";
import { isRounded, readJson } from "./data.js";
import { byId, closeDialog, make, openDialog, textBlock } from "./elements.js";
import { laidOut } from "./json.js";
import { oneLine } from "./words.js";

const ASK_MS = 1000;
const SLOW_MS = 5000; // for a server that does not answer
const ASKS_IN_STRIP = 3; // calls that stand in the strip
const BY_KEY = "callboard-by"; // under which the browser keeps the name of its person

/** The open questions of the session. app: the page. */
export class Questions {
  constructor(app) {
    Object.assign(this, { app, found: [], ended: new Set(), opened: "", parts: null });
    byId("waiting").addEventListener("click", (event) => {
      const one = this.found[Number(event.target.closest("button")?.dataset.place ?? -1)];
      if (one) this.open(one);
    });
  }

  /** Ask the server again and again. */
  async watch() {
    for (let wait = ASK_MS; ; ) {
      try {
        const query = queryOf();
        query.delete("beside");
        if (this.app.session.summary.status !== "closed") this.take(await asked("waiting", query, readJson));
        else this.take([]);
        wait = ASK_MS;
      } catch {
        wait = SLOW_MS;
      }
      await new Promise((done) => setTimeout(done, wait));
    }
  }

  /** Take the questions that are open now. Nothing is drawn if they are the same. */
  take(found) {
    const open = (found ?? []).filter(({ id }) => !this.ended.has(id));
    const key = open.map(({ id }) => id).join(" ");
    if (key === this.key) return;
    this.key = key;
    this.found = open;
    byId("waiting").hidden = !open.length;
    byId("waiting").replaceChildren(...this.lines());
    if (this.opened && !open.some(({ id }) => id === this.opened)) this.close(this.opened);
  }

  lines() {
    const { found } = this;
    if (!found.length) return [];
    const shown = found.slice(0, ASKS_IN_STRIP).map((one, place) => {
      const button = make("button", { class: "asks", title: "Look at the call and answer it (q)" },
        make("b", {}, `${one.address} `), `wants to call `, make("b", {}, one.tool), ` ${oneLine(JSON.stringify(one.arguments))}`);
      button.dataset.place = place;
      return button;
    });
    const more = found.length - shown.length;
    return [make("b", { class: "hint" }, found.length === 1 ? "Waits for you:" : `${found.length} calls wait for you:`), ...shown, more > 0 && make("span", { class: "hint" }, `and ${more} more`)].filter(Boolean);
  }

  /** Open the first question. */
  first() {
    if (this.found.length) this.open(this.found[0]);
  }

  open(one) {
    this.opened = one.id;
    const said = make("p", { class: "said", role: "status" });
    const form = fieldsOf(one.forms);
    const note = make("input", { type: "text", class: "wide", placeholder: "A reason; after a refusal the model reads it" });
    const by = byInput();
    const answer = (does) => this.answer(one, { note: note.value, by: by.value, ...does }, said);
    const change = !one.is_repeat && !one.is_fork && !form.count && argumentsEditor(one.arguments);
    const yes = () => {
      try {
        return answer({ is_approved: true, ...(form.count && { values: form.values() }), ...(change && change.changed()) });
      } catch (error) {
        said.textContent = error.message;
        return undefined;
      }
    };
    const approve = make("button", { class: "offer", onclick: () => yes() }, form.count ? "Send and let it run" : "Approve");
    const always = !one.is_repeat && !one.is_fork && !form.count && make("button", { onclick: () => answer({ is_approved: true, is_always: true }), title: "Also later calls of this tool by agents of this profile" }, "Approve always");
    const show = () => {
      approve.textContent = change.isChanged() ? "Approve as changed" : "Approve";
      always.hidden = change.isChanged(); // later calls have arguments of their own
    };
    if (change) change.text.addEventListener("input", show);
    const parts = openDialog(`${one.address} wants to call ${one.tool}`,
      make("p", {}, make("span", { class: "badge" }, `effect ${one.effect}`), ` event ${one.seq}${one.profile ? `, agent ${one.profile}` : ""}`,
        one.expires_at_ms ? `, expires ${new Date(one.expires_at_ms).toLocaleTimeString()}` : ""),
      one.is_repeat && make("p", { class: "bad-word" }, "It was interrupted before and may have taken effect: check before you allow it."),
      one.is_fork && make("p", { class: "hint" }, "The recording has no result of this call, so that its tool would run now."),
      argumentsBlock(one.arguments),
      form.parts,
      change && change.part,
      make("label", { class: "field" }, "Note", note),
      make("label", { class: "field" }, "Answered by", by),
      make("div", { class: "choices" },
        approve,
        one.same > 0 && make("button", { onclick: () => answer({ is_approved: true, reuses: true }) }, `Use the recorded result of event ${one.same}`),
        always,
        make("button", { class: "deny", onclick: () => answer({ is_approved: false }) }, "Deny")),
      said);
    this.parts = parts;
  }

  answer(one, does, said) {
    keepBy(does.by);
    const { session, seq } = one;
    const { parts } = this;
    return once(said, "Sending the answer.", async () => {
      const isFirst = await act({ command: "answer", session, seq, ...does }, Math.max(this.app.session.count, seq));
      this.ended.add(one.id);
      this.opened = "";
      this.take(this.found);
      if (!isFirst) return this.lateWords(one);
      if (parts) closeDialog(parts);
      return "";
    });
  }

  /** Say that another answer came first, and whose, if the page has it. */
  lateWords({ seq }) {
    const { session } = this.app;
    const answer = (session.effects.get(seq) ?? []).find((one) => session.kinds[one] === "ApprovalGiven");
    const { verdict = "", by = "" } = answer ? session.body(answer) : {};
    const who = verdict ? ` It was ${verdict}${by ? ` by ${by}` : ""}.` : "";
    return `This call has already been answered, has expired or is no longer wanted. Nothing was changed.${who}`;
  }

  /** Disable the dialog of a question: it has its answer. */
  close(id) {
    const one = { seq: Number(id.slice(id.lastIndexOf("#") + 1)) };
    this.opened = "";
    for (const button of this.parts.querySelectorAll(".choices button")) button.disabled = true;
    this.parts.querySelector(".said").textContent = this.lateWords(one);
  }
}

/** Return the part in which a person changes the arguments of a call, and functions that say whether and how. */
function argumentsEditor(given) {
  const before = laidOut(JSON.stringify(given));
  const text = make("textarea", { class: "wide", rows: Math.min(12, before.split("\n").length + 1), value: before, spellcheck: false, "aria-label": "Arguments as JSON" });
  const part = make("details", { class: "change" }, make("summary", {}, "Change the arguments"), text,
    make("p", { class: "hint" }, "The call runs with these in their place; the log keeps both, and your name."));
  const isChanged = () => text.value.trim() !== before.trim();
  return { part, text, isChanged, changed: () => (isChanged() ? { arguments: argumentsIn(text.value) } : {}) };
}

/** Return the arguments in a text. Raises an Error that says what to do. */
function argumentsIn(text) {
  let found = null;
  try {
    found = readJson(text);
  } catch (error) {
    throw new Error(`This is not JSON: ${error.message}. Nothing was sent.`);
  }
  if (typeof found !== "object" || found === null || Array.isArray(found)) throw new Error("Arguments are a JSON object, such as {\"to\": \"ann\"}. Nothing was sent.");
  if (isRounded(text)) throw new Error("This browser would round a number of the arguments. Use one of 2025 or later, or answer from Python. Nothing was sent.");
  return found;
}

/** Return an input for the name of the person who answers. */
function byInput() {
  let kept = "";
  try {
    kept = localStorage.getItem(BY_KEY) ?? "";
  } catch { /* a browser without storage */ }
  return make("input", { type: "text", value: kept || server.by || "", autocomplete: "name", maxLength: 200 });
}

function keepBy(name) {
  try {
    localStorage.setItem(BY_KEY, name);
  } catch { /* a browser without storage */ }
}

/** Return the inputs of the forms of a question, and a function that returns their values. */
export function fieldsOf(forms) {
  const inputs = [];
  const parts = Object.entries(forms ?? {}).map(([name, form]) => make("fieldset", {}, make("legend", {}, name), make("p", { class: "question" }, form.message ?? ""),
    form.url && make("p", {}, "Visit this address yourself, if you trust it: ", make("code", {}, form.url)),
    Object.entries(form.schema?.properties ?? {}).map(([field, schema]) => {
      const input = inputOf(schema ?? {});
      inputs.push([name, field, schema ?? {}, input]);
      const isNeeded = (form.schema.required ?? []).includes(field);
      return make("label", { class: "field" }, `${schema?.title ?? field}${isNeeded ? " (required)" : ""}`, input, schema?.description && make("span", { class: "hint" }, schema.description));
    })));
  const values = () => {
    const found = {};
    for (const [name, field, schema, input] of inputs) {
      const value = valueOf(schema, input);
      if (value !== undefined) (found[name] ??= {})[field] = value;
    }
    return found;
  };
  return { parts, values, count: Object.keys(forms ?? {}).length };
}

const isSecret = (schema) => schema.format === "password" || schema.writeOnly === true || schema["x-secret"] === true;

function inputOf(schema) {
  const choices = choicesOf(schema);
  if (choices.length) {
    const options = choices.map(([value, label]) => make("option", { value: JSON.stringify(value), selected: "default" in schema && JSON.stringify(schema.default) === JSON.stringify(value) }, label));
    return make("select", {}, make("option", { value: "" }, ""), options);
  }
  if (schema.type === "boolean") return make("select", {}, ["", "true", "false"].map((one) => make("option", { value: one, selected: String(schema.default) === one }, { "": "", true: "yes", false: "no" }[one])));
  const value = "default" in schema && !isSecret(schema) ? textOfValue(schema.default) : "";
  return make("input", { type: isSecret(schema) ? "password" : "text", class: "wide", value, autocomplete: "off" });
}

function textOfValue(value) {
  return typeof value === "string" ? value : JSON.stringify(value);
}

function choicesOf(schema) {
  for (const key of ["oneOf", "anyOf"]) {
    const options = (Array.isArray(schema[key]) ? schema[key] : []).filter((one) => one && typeof one === "object" && "const" in one);
    if (options.length) return options.map((one) => [one.const, String(one.title ?? one.const)]);
  }
  return (Array.isArray(schema.enum) ? schema.enum : []).map((value, place) => [value, String(schema.enumNames?.[place] ?? value)]);
}

/** Return the value of an input; undefined for an empty one. The server checks it against the form. */
function valueOf(schema, input) {
  const text = input.value;
  if (text === "") return undefined;
  if (input.tagName === "SELECT") return JSON.parse(text);
  if (!schema.type || schema.type === "string") return text;
  if (schema.type === "array" && !text.trim().startsWith("[")) return text.split(",").map((one) => valueOf(schema.items ?? {}, { value: one.trim() }));
  try {
    return JSON.parse(text);
  } catch {
    return text; // the server says what does not fit
  }
}

// --- messages and cancels ------------------------------------------------------------

/** Let the person send a message to a running agent. */
export function openTell(app) {
  const { session } = app;
  const running = session.agents.filter((agent) => agent.status === "running");
  const said = make("p", { class: "said", role: "status" });
  if (!running.length) return openDialog("Send a message", make("p", {}, "No agent of this session is at work."));
  const whom = make("select", {}, running.map((agent) => make("option", { value: agent.address, selected: agent.address === app.agent }, `${agent.address} ${agent.profile}`)));
  const text = make("textarea", { rows: 4, class: "wide", maxLength: 16000 });
  const send = () => once(said, "Sent. It is read in the agent's next request.", async () => {
    const turn = await act({ command: "tell", session: session.summary.session, address: whom.value, text: text.value }, session.count);
    text.value = "";
    return turn ? `${whom.value} reads it in turn ${turn}.` : `${whom.value} is busy; it reads this next.`;
  });
  return openDialog("Send a message", make("label", { class: "field" }, "To", whom), make("label", { class: "field" }, "Message", text),
    make("div", { class: "choices" }, make("button", { class: "offer", onclick: send }, "Send")), said);
}

/** Let the person cancel the running ask, or one agent with all below it. */
export function openCancel(app) {
  const { session } = app;
  const said = make("p", { class: "said", role: "status" });
  const running = session.agents.filter((agent) => agent.status === "running" && agent.address !== "host");
  const whom = make("select", {}, make("option", { value: "" }, "the ask, with all of its agents"),
    running.map((agent) => make("option", { value: agent.address }, `only ${agent.address} ${agent.profile}, with those below it`)));
  const reason = make("input", { type: "text", class: "wide", placeholder: "A reason; the log keeps it" });
  const send = () => once(said, "Cancelling; the outcome of the ask waits for work that is being stopped.", async () => {
    const address = whom.value;
    const kind = await act({ command: "cancel", session: session.summary.session, reason: reason.value, address }, session.count);
    if (address) return kind ? `${address} was cancelled; the ask goes on.` : `${address} does not run any more.`;
    return kind ? `The ask has ended: ${kind}.` : "No ask runs in this session.";
  });
  openDialog("Cancel", make("label", { class: "field" }, "What", whom), make("label", { class: "field" }, "Reason", reason),
    make("div", { class: "choices" }, make("button", { class: "deny", onclick: send }, "Cancel it")), said);
}
