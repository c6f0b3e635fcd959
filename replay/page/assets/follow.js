// A session that is being written: the page asks its server for the events that are new.

import { queryOf } from "./acts.js";

const WAIT_MS = 400;
const LONGEST_MS = 5000;

/** Ask for new events again and again, and hand them on. say: shows a word on the state of the connection, and more about it. */
export async function follow(session, grown, say) {
  for (let wait = WAIT_MS; ; ) {
    await new Promise((done) => setTimeout(done, wait));
    try {
      const query = queryOf();
      for (const [name, value] of Object.entries({ lines: session.lines, events: session.count, compared: session.summary.beside?.upto ?? 0 })) query.set(name, value);
      const answer = await fetch(`more?${query}`, { cache: "no-store", redirect: "error" });
      if (answer.status === 409) return say("chain broken", await answer.text());
      if (!answer.ok) return say(answer.status === 410 ? "ended" : `lost (${answer.status})`);
      const text = answer.status === 204 ? "" : await answer.text();
      if (text) {
        const { beside } = session.summary;
        session.append(text.split("\n"));
        session.summary.beside ??= beside; // the server sends a comparison only if it is another one
        grown();
      }
      say("live");
      wait = WAIT_MS;
      if (session.summary.is_over) return say("closed");
    } catch {
      say("no connection");
      wait = Math.min(LONGEST_MS, wait * 2);
    }
  }
}
