// The agents as a tree, with their ends and their use.

import { VirtualList, make } from "./elements.js";
import { amount } from "./words.js";

const MARKS = { ok: "✓", failed: "✗", cancelled: "⊘", running: "…" };

export class TreeView {
  constructor(container, session, app) {
    Object.assign(this, { session, app });
    this.list = new VirtualList(container, 24, (index, row) => this.draw(session.agents[index], row));
    this.grow();
    container.addEventListener("click", (event) => {
      const row = event.target.closest(".row");
      if (row) app.chooseAgent(session.agents[Number(row.dataset.index)].address);
    });
    container.addEventListener("keydown", (event) => this.pressed(event));
  }

  /** Choose another agent by a key while the agents have the focus. */
  pressed(event) {
    const { agents } = this.session;
    const place = agents.findIndex((agent) => agent.address === this.app.agent);
    const next = { ArrowDown: place + 1, ArrowUp: place - 1, Home: 0, End: agents.length - 1 }[event.key];
    if (next === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    event.stopPropagation();
    if (agents[next]) this.app.chooseAgent(agents[next].address);
  }

  /** Show the agents that there are now. */
  grow() {
    this.shown = null;
    this.most = this.session.agents.reduce((most, agent) => Math.max(most, agent.tokens), 1);
    this.list.setLength(this.session.agents.length);
  }

  draw(agent, row) {
    row.className = `row agent ${agent.status}${agent.address === this.app.agent ? " chosen" : ""}`;
    row.title = `${agent.address} ${agent.profile}: ${agent.kind || "still at work"}${agent.detail ? `, ${agent.detail}` : ""}\n`
      + `${agent.turns} turns, ${agent.tools} tool calls, ${agent.tokens.toLocaleString("en")} tokens\n${agent.prompt}`;
    row.style.setProperty("--use", `${(45 * agent.tokens) / this.most}%`);
    const name = make("b", { class: "name" }, `${agent.address} ${agent.profile}`);
    name.style.paddingLeft = `${12 * agent.depth}px`;
    row.replaceChildren(
      make("span", { class: "mark" }, MARKS[agent.status] ?? "…"),
      name,
      ...(agent.kind && agent.status !== "ok" ? [make("span", { class: "kind" }, agent.kind)] : []),
      make("span", { class: "number" }, amount(agent.tokens)),
    );
  }

  refresh() {
    if (this.shown === this.app.agent) return;
    this.shown = this.app.agent;
    const index = this.session.agents.findIndex((agent) => agent.address === this.app.agent);
    if (index >= 0) this.list.show(index);
    else this.list.refresh();
  }
}
