// The words of the server to its page, and acts: requests that change something. A page in a file has neither.

const ACT_HEADER = "X-Callboard-Act";
const TRIES = 4; // of one act whose answer was lost: its id lets the server carry it out once
const TRY_MS = 500;
const ACT_MS = 70_000; // a cancel waits for its outcome, and a message for the agent that reads it

/** What the server says: which session this is, and how to act. Its element goes, so that no copy of the page has the token. */
export const server = readServer();

function readServer() {
  const block = document.getElementById("boot");
  const text = block?.textContent.trim() ?? "";
  block?.remove();
  const words = text ? JSON.parse(new TextDecoder().decode(Uint8Array.from(atob(text), (one) => one.charCodeAt(0)))) : {};
  const token = words.token ?? "";
  delete words.token;
  return { ...words, mayAct: Boolean(token), isServed: Boolean(text), token: () => token };
}

/** Return the query that names a session to the server. */
export function queryOf(names = {}) {
  const { log = 0, session = "", beside = "" } = { ...server, ...names };
  const query = new URLSearchParams({ log, session });
  if (beside) query.set("beside", beside);
  return query;
}

/** Ask the server for something to show. read: parses its JSON. Raises an Error in its words. */
export async function asked(name, query = queryOf(), read = JSON.parse) {
  const answer = await fetch(`${name}?${query}`, { cache: "no-store", redirect: "error" });
  if (answer.ok) return answer.status === 204 ? null : read(await answer.text());
  throw new Error((await answer.text()) || `the server refused this (${answer.status})`);
}

/** Do something once at a time, and show how it goes: while it is under way, no button of the dialog can be pressed again. */
export async function once(said, words, work) {
  const buttons = [...said.parentElement.querySelectorAll(".choices button")];
  if (buttons.some((one) => one.disabled)) return;
  for (const one of buttons) one.disabled = true;
  said.textContent = words;
  try {
    said.textContent = (await work()) ?? "";
  } catch (error) {
    said.textContent = error.message;
  } finally {
    for (const one of buttons) one.disabled = false;
  }
}

/** Carry a command out, and return its value. seen: the last event that the person saw. Raises an Error in the words of the server. */
export async function act(does, seen) {
  const body = JSON.stringify({ id: crypto.randomUUID(), log: server.log ?? 0, does: { ...does, seen } });
  const answer = await posted(body);
  if (answer.status === 403) throw new Error("This page belongs to a server that has ended. Open the address of the one that runs now.");
  const { value, error } = await answer.json().catch(() => ({ error: `the server refused this (${answer.status})` }));
  if (error) throw new Error(error);
  return value;
}

async function posted(body) {
  for (let left = TRIES - 1; ; left -= 1) {
    try {
      return await fetch("act", { method: "POST", body, cache: "no-store", redirect: "error", signal: AbortSignal.timeout(ACT_MS),
        headers: { "Content-Type": "application/json", [ACT_HEADER]: server.token() } });
    } catch {
      if (left <= 0) throw new Error("The server does not answer. Nobody knows whether this was done: look at the session before you try again.");
      await new Promise((done) => setTimeout(done, TRY_MS));
    }
  }
}
