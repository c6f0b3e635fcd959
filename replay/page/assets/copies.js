// A request of a model as a command and as a program that make it again. Keys stand there as variables, never as
// values.

const OWN_PARAMS = new Set(["model", "max_tokens", "messages", "system", "tools", "stream", "api_version", "betas"]);
const MAX_TOKENS = 8192; // of a model that names no limit
const CLAUDE = "api.anthropic.com";
const CLAUDE_ADDRESS = ["https:", CLAUDE].join("//"); // no whole address stands in the page
const API_VERSION = "2026-10-21"; // of a request that names none
const PLACE = /^(https?:\/\/\S+?)\/*(?: \(([a-z-]+)\))?$/; // an origin's address, and the dialect that is spoken there
const FORMS = {
  messages: { path: () => "/v1/messages" },
  chat: { path: () => "/chat/completions" },
  responses: { path: () => "/responses" },
  "generate-content": { path: (name) => `/v1beta/models/${encodeURIComponent(name)}:streamGenerateContent?alt=sse`, key: "x-goog-api-key" },
  converse: { path: (name) => `/model/${encodeURIComponent(name)}/converse-stream` },
};
// Each key goes to its own service only: a log may name any address, and it is not ours.
const KEY_NAMES = [[CLAUDE, "ANTHROPIC_API_KEY"], ["api.openai.com", "OPENAI_API_KEY"], ["openrouter.ai", "OPENROUTER_API_KEY"],
  ["generativelanguage.googleapis.com", "GOOGLE_API_KEY"]];
const BEDROCK = /^bedrock-runtime[\w-]*\.[\w-]+\.amazonaws\.com$/;
const UNSAFE_CHARS = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu; // that a terminal obeys, that turn the direction of a line, or that nobody sees

/**
 * Return a request as it can be sent again: where to, its headers, its body, and the variable of the key. isAsSent: the
 * log has kept the body, byte for byte; else it is the recorded request in the form of the Messages API.
 */
export function sendable(session, request) {
  const { model } = request;
  const reply = (session.effects.get(request.grant) ?? []).find((seq) => session.kinds[seq] === "ModelReplied");
  const [, address, dialect = "messages"] = PLACE.exec(model.origin?.endpoint ?? "") ?? [];
  const isAsSent = Boolean(reply && session.body(reply).body?.length && FORMS[dialect]);
  const form = FORMS[isAsSent ? dialect : "messages"];
  const isOwn = address && (isAsSent || dialect === "messages") && URL.canParse(address);
  const path = form.path(model.origin?.model || model.name);
  return {
    isAsSent,
    address: isOwn ? new URL(address + path).href : "",
    path,
    get body() {
      return isAsSent ? keptBody(session, reply) : JSON.stringify(messagesBody(request));
    },
    keyHeader: form.key ?? "authorization",
    keyName: isOwn ? keyFor(new URL(address)) : "ANTHROPIC_API_KEY",
    headers: { "content-type": "application/json", ...(form === FORMS.messages && messagesHeaders(model.params ?? {})) },
  };
}

function keyFor({ protocol, hostname }) {
  const known = KEY_NAMES.find(([host]) => host === hostname)?.[1] ?? (BEDROCK.test(hostname) ? "AWS_BEARER_TOKEN_BEDROCK" : "");
  return (protocol === "https:" && known) || "API_KEY";
}

/** Return the body that a reply's request was sent with. Each is kept as a change of the one before it. */
function keptBody(session, reply) {
  let bytes = new Uint8Array();
  for (let seq = 1; seq <= reply; seq += 1) {
    if (session.kinds[seq] !== "ModelReplied" || session.recipients[seq] !== session.recipients[reply]) continue;
    const { sent, body } = session.body(seq);
    if (!sent || !body?.length) continue;
    const middle = new TextEncoder().encode(body.join(""));
    const [head, tail] = [bytes.slice(0, sent.head ?? 0), bytes.slice(bytes.length - (sent.tail ?? 0))];
    bytes = new Uint8Array(head.length + middle.length + tail.length);
    bytes.set(head);
    bytes.set(middle, head.length);
    bytes.set(tail, head.length + middle.length);
  }
  return new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes);
}

function messagesBody({ model, system, tools, messages, forced }) {
  return {
    model: model.origin?.model || model.name,
    max_tokens: model.max_tokens ?? MAX_TOKENS,
    ...Object.fromEntries(Object.entries(model.params ?? {}).filter(([name]) => !OWN_PARAMS.has(name))),
    ...(forced && { tool_choice: { type: "tool", name: forced } }),
    ...(tools.length && { tools }),
    ...(system && { system }),
    messages: messages.map(({ value }) => value),
  };
}

function messagesHeaders({ api_version: version, betas }) {
  return { "anthropic-version": String(version || API_VERSION), ...(betas?.length && { "anthropic-beta": [betas].flat().join(",") }) };
}

/** Return a command for a shell: the body goes through a pipe, since no argument may be long. */
export function curlOf({ address, path, body, headers, keyHeader, keyName }) {
  // `printf %b` reads a backslash as the beginning of an escape, and so no such character has to stand in the command.
  const isPlain = body.search(UNSAFE_CHARS) < 0;
  const text = isPlain ? body : body.replaceAll("\\", "\\\\").replace(UNSAFE_CHARS, (char) =>
    [...new TextEncoder().encode(char)].map((byte) => `\\0${byte.toString(8).padStart(3, "0")}`).join(""));
  const bearer = keyHeader === "authorization" ? "Bearer " : "";
  return [
    `printf ${isPlain ? "%s" : "%b"} ${shellQuoted(text)} |`,
    `curl ${address ? shellQuoted(address) : `"\${ANTHROPIC_BASE_URL:-${CLAUDE_ADDRESS}}${path}"`} \\`,
    ...Object.entries(headers).map(([name, value]) => `  -H ${shellQuoted(`${name}: ${oneSafeLine(value)}`)} \\`),
    `  -H "${keyHeader}: ${bearer}$${keyName}" --data-binary @-`,
    "",
  ].join("\n");
}

/** Return a program in Python that needs nothing but Python. */
export function pythonOf({ address, path, body, headers, keyHeader, keyName }) {
  const key = `os.environ.get("${keyName}", "")`;
  return [
    "import os", "import sys", "import urllib.request", "",
    `address = ${address ? pythonText(address) : `os.environ.get("ANTHROPIC_BASE_URL", "${CLAUDE_ADDRESS}") + "${path}"`}`,
    `body = ${pythonText(body)}`,
    "headers = {",
    ...Object.entries(headers).map(([name, value]) => `    "${name}": ${pythonText(oneSafeLine(value))},`),
    `    "${keyHeader}": ${keyHeader === "authorization" ? '"Bearer " + ' : ""}${key},`,
    "}",
    "request = urllib.request.Request(address, body.encode(), headers)",
    "with urllib.request.urlopen(request) as answer:",
    "    sys.stdout.buffer.write(answer.read())",
    "",
  ].join("\n");
}

/** Return a text in quotes of JSON, which Python reads too. */
function pythonText(text) {
  return JSON.stringify(text).replace(UNSAFE_CHARS, (char) => `\\U${char.codePointAt(0).toString(16).padStart(8, "0")}`);
}

function oneSafeLine(text) {
  return text.replace(UNSAFE_CHARS, " ");
}

export function shellQuoted(text) {
  return `'${text.replaceAll("'", "'\\''")}'`;
}
