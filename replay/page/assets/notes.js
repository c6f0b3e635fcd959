// Notes on events. The browser keeps them, or a side file that is saved and loaded by hand; a log never changes.

export class Notes {
  constructor(session) {
    this.session = session.summary.session;
    this.key = `callboard notes ${session.summary.session} ${session.summary.head}`;
    this.texts = new Map();
    this.isKept = true;
    try {
      this.take(JSON.parse(localStorage.getItem(this.key) ?? "{}"));
    } catch {
      this.isKept = false; // a browser may forbid storage for files
    }
  }

  of(seq) {
    return this.texts.get(seq) ?? "";
  }

  set(seq, text) {
    if (text.trim()) this.texts.set(seq, text);
    else this.texts.delete(seq);
    try {
      localStorage.setItem(this.key, JSON.stringify(this.plain()));
    } catch {
      this.isKept = false;
    }
  }

  plain() {
    return Object.fromEntries([...this.texts].sort(([one], [other]) => one - other));
  }

  /** Offer the notes as a file. */
  save() {
    const text = JSON.stringify({ session: this.session, notes: this.plain() }, null, 2);
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type: "application/json" }));
    link.download = `${this.session.replace(/[^\w.-]/g, "_")}.notes.json`;
    link.click();
    URL.revokeObjectURL(link.href);
  }

  /** Add the notes of a file. Returns false for another session's, or for a file that holds no notes. */
  async load(file) {
    try {
      const { session, notes } = JSON.parse(await file.text());
      if (session !== this.session) return false;
      this.take(notes);
      for (const [seq, text] of this.texts) this.set(seq, text);
      return true;
    } catch {
      return false;
    }
  }

  take(notes) {
    for (const [seq, text] of Object.entries(notes))
      if (Number(seq) > 0 && typeof text === "string") this.texts.set(Number(seq), text);
  }
}
