// The lanes: a row for each agent, its turns, tool calls and ends along an axis. Drawn on one canvas.

import { isAgent } from "./data.js";
import { make } from "./elements.js";
import { tokensOf } from "./list.js";
import { amount, dollars, durationText, isFailure, toneOf } from "./words.js";

const LANE = 18;
const LABELS = 128;
const RULER = 16; // pixels above the first lane
const CURVE = 34; // pixels below the last lane, of the tokens and the cost so far; at most a quarter of the height
const WAITED_MS = 1000; // for answers, in the whole session, to be worth an axis
const WAITED_SHARE = 0.2; // of its time
const STACK = 12; // pixels of the bars of a lane
const STEPS = [1, 2, 5];
const TICK = 3;
const BARS = { turn: "model", tool: "tool", approval: "approval" }; // kind of a span -> its colour

export class LanesView {
  constructor(container, session, app) {
    Object.assign(this, { container, session, app, from: 0, to: 1, drag: null });
    this.canvas = make("canvas");
    this.space = make("div", { class: "lane-space" });
    container.append(this.space, this.canvas);
    this.read();
    this.setAxis(app.axis ?? (hasWaits(session) ? "time" : "order"));
    this.listen();
  }

  /** Read the lanes of a session that has more events now. */
  grow() {
    const isAll = this.from === this.low && this.to === this.high;
    const { from, to } = this;
    this.read();
    this.setAxis(this.axis);
    if (!isAll) this.shiftTo(from, to - from);
  }

  read() {
    const { session } = this;
    this.space.style.height = `${RULER + session.agents.length * LANE + CURVE}px`;
    this.container.style.setProperty("--needed", this.space.style.height);
    this.laneOf = new Map(session.agents.map((agent, lane) => [agent.address, lane]));
    for (const { address } of session.questions) this.laneOf.set(address, this.laneOf.get(address.replace(/\.\d+$/, "")));
    this.eventsOf = eventsByLane(session, this.laneOf);
    this.spansOf = spansByLane(session, this.laneOf);
    this.used = null;
  }

  /** Choose the axis: the order of the log, the time, or the number of causes before an event. */
  setAxis(axis) {
    const { session } = this;
    this.axis = axis;
    if (axis === "time") this.places = session.times;
    else if (axis === "cause") this.places = causalDepths(session);
    else this.places = null;
    this.zoomAll();
  }

  place(seq) {
    return this.places ? this.places[seq] : seq;
  }

  zoomAll() {
    const { session } = this;
    let low = Infinity;
    let high = -Infinity;
    if (this.places) for (const place of this.places) [low, high] = [Math.min(low, place), Math.max(high, place)];
    else [low, high] = [1, session.count];
    [this.low, this.high] = [low, Math.max(high, low + 1)];
    [this.from, this.to] = [this.low, this.high];
    this.refresh();
  }

  /** Zoom around a place of the axis. */
  zoom(factor, around = this.place(this.app.seq)) {
    const least = (this.high - this.low) / 20_000;
    const width = Math.max(least, Math.min(this.high - this.low, (this.to - this.from) * factor));
    const share = Math.max(0, Math.min(1, (around - this.from) / (this.to - this.from)));
    this.shiftTo(around - share * width, width);
  }

  shiftTo(from, width) {
    this.from = Math.max(this.low, Math.min(this.high - width, from));
    this.to = this.from + width;
    this.refresh();
  }

  /** Move the window so that the chosen event can be seen. */
  follow() {
    const place = this.place(this.app.seq);
    const width = this.to - this.from;
    if (place < this.from || place > this.to) this.shiftTo(place - width / 2, width);
    this.isFollowing = true; // before the next frame, when the page is laid out anyway
    this.refresh();
  }

  showLane(top) {
    const { container } = this;
    this.isFollowing = false;
    if (top < container.scrollTop || top + LANE + RULER > container.scrollTop + container.clientHeight - this.curve)
      container.scrollTop = Math.max(0, top - container.clientHeight / 2);
  }

  listen() {
    const { canvas, container } = this;
    new ResizeObserver(() => this.refresh()).observe(container);
    container.addEventListener("scroll", () => this.refresh(), { passive: true });
    container.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && !event.metaKey && !event.altKey) return;
      event.preventDefault();
      this.zoom(event.deltaY > 0 ? 1.25 : 0.8, this.axisAt(event.offsetX));
    }, { passive: false });
    canvas.addEventListener("pointerdown", (event) => {
      this.drag = { x: event.offsetX, from: this.from, isMoved: false };
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointermove", (event) => this.moved(event));
    canvas.addEventListener("pointerup", (event) => {
      if (this.drag && !this.drag.isMoved) this.clicked(event);
      this.drag = null;
    });
  }

  moved(event) {
    if (!this.drag) {
      const seq = this.nearest(event);
      this.canvas.title = seq ? this.app.titleOf(seq) : "";
      return;
    }
    const by = event.offsetX - this.drag.x;
    if (Math.abs(by) > 3) this.drag.isMoved = true;
    if (this.drag.isMoved) this.shiftTo(this.drag.from - by / this.scale(), this.to - this.from);
  }

  clicked(event) {
    const seq = this.nearest(event);
    const agent = this.session.agents[this.laneAt(event)];
    if (event.offsetX < LABELS && agent) this.app.chooseAgent(agent.address);
    else if (seq) this.app.select(seq, { isJump: true });
  }

  /** Return the height of the curve. */
  get curve() {
    return Math.min(CURVE, Math.floor(this.container.clientHeight / 4));
  }

  laneAt(event) {
    return event.offsetY < RULER || event.offsetY > this.container.clientHeight - this.curve ? -1 : Math.floor((event.offsetY - RULER + this.container.scrollTop) / LANE);
  }

  /** Return the event of the pointer's lane that is nearest to it; 0 for none. */
  nearest(event) {
    const lane = this.eventsOf[this.laneAt(event)] ?? [];
    const at = this.axisAt(event.offsetX);
    let found = 0;
    let least = 12 / this.scale();
    for (const seq of lane) {
      const away = Math.abs(this.place(seq) - at);
      if (away < least) [found, least] = [seq, away];
    }
    return found;
  }

  scale() {
    return (this.width - LABELS - 8) / (this.to - this.from);
  }

  axisAt(x) {
    return this.from + (x - LABELS) / this.scale();
  }

  x(place) {
    return LABELS + (place - this.from) * this.scale();
  }

  /** Draw again before the next frame. */
  refresh() {
    if (this.isDue) return;
    this.isDue = true;
    requestAnimationFrame(() => {
      this.isDue = false;
      this.draw();
    });
  }

  draw() {
    const { canvas, container, session } = this;
    const [width, height, ratio] = [container.clientWidth, container.clientHeight, devicePixelRatio];
    this.width = width;
    if (width <= LABELS + 8) return; // not shown: its scale is no number that ends a loop soon
    if (this.isFollowing) this.showLane((this.laneOf.get(this.app.agent) ?? 0) * LANE);
    if (canvas.width !== width * ratio || canvas.height !== height * ratio) [canvas.width, canvas.height] = [width * ratio, height * ratio];
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
    const pen = canvas.getContext("2d");
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, width, height);
    this.colors = colorsOf(container);
    const top = container.scrollTop;
    pen.drawImage(this.layer(width, height, ratio, top), 0, 0, width, height);
    const chosen = this.laneOf.get(this.app.agent);
    if (chosen !== undefined) this.drawLane(pen, chosen, RULER + chosen * LANE - top, width, this.colors.chosen);
    this.drawRuler(pen, width);
    this.drawCurve(pen, width, height - this.curve, this.curve);
    const x = this.x(this.place(this.app.seq));
    if (x >= LABELS) {
      pen.fillStyle = this.colors.accent;
      pen.fillRect(Math.round(x) - 1, 0, 2, height);
    }
  }

  /** Return all lanes that can be seen, drawn anew only if they look different: a step changes one of them. */
  layer(width, height, ratio, top) {
    const { session, app, from, to, axis } = this;
    const key = [from, to, axis, width, height, ratio, top, session.count, this.colors.ground].join(" ");
    if (this.layerKey === key && this.layerFound === app.foundSet) return this.drawn;
    Object.assign(this, { layerKey: key, layerFound: app.foundSet, drawn: make("canvas", { width: width * ratio, height: height * ratio }) });
    const pen = this.drawn.getContext("2d");
    pen.scale(ratio, ratio);
    const first = Math.floor(top / LANE);
    const last = Math.min(session.agents.length, first + Math.ceil(height / LANE) + 1);
    for (let lane = first; lane < last; lane += 1) this.drawLane(pen, lane, RULER + lane * LANE - top, width, lane % 2 ? this.colors.stripe : this.colors.ground);
    return this.drawn;
  }

  /** Draw the marks of the axis: seqs, times since the start, or numbers of causes. */
  drawRuler(pen, width) {
    const { colors } = this;
    pen.fillStyle = colors.ground;
    pen.fillRect(0, 0, width, RULER);
    pen.font = "10px system-ui, sans-serif";
    pen.textBaseline = "middle";
    const start = this.axis === "time" ? this.low : 0;
    const step = roundStep(90 / this.scale(), this.axis === "time" ? 0.001 : 1);
    for (let place = Math.ceil((this.from - start) / step) * step + start; place <= this.to; place += step) {
      const x = Math.round(this.x(place));
      pen.fillStyle = colors.line;
      pen.fillRect(x, 0, 1, RULER);
      pen.fillStyle = colors.dim;
      pen.fillText(this.axis === "time" ? durationText(Math.round(place - start)) : Math.round(place).toLocaleString("en"), x + 4, RULER / 2);
    }
    pen.fillStyle = colors.line;
    pen.fillRect(0, RULER - 1, width, 1);
  }

  /** Draw the tokens and the cost up to each reply, each as a share of its sum. */
  drawCurve(pen, width, top, height) {
    const { colors } = this;
    this.used ??= usedUpTo(this.session);
    const last = this.used.at(-1);
    if (!last) return;
    pen.fillStyle = colors.ground;
    pen.fillRect(0, top, width, height);
    pen.fillStyle = colors.line;
    pen.fillRect(0, top, width, 1);
    const curves = [["tokens", colors.model, `${amount(last.tokens)} tokens`], ["microUsd", colors.report, dollars(last.microUsd)]].filter(([name]) => last[name]);
    pen.textBaseline = "middle";
    pen.font = "10px system-ui, sans-serif";
    curves.forEach(([name, color, sum], place) => {
      pen.fillStyle = pen.strokeStyle = color;
      pen.fillText(sum, 6, top + (height * (place + 0.5)) / curves.length, LABELS - 12);
      this.strokeCurve(pen, width, name, top + height - 2, (height - 5) / last[name]);
    });
  }

  strokeCurve(pen, width, name, bottom, scale) {
    pen.save();
    pen.beginPath();
    pen.rect(LABELS, 0, width - LABELS, bottom + 2);
    pen.clip();
    pen.beginPath();
    pen.moveTo(LABELS, bottom);
    let [x, y] = [LABELS, bottom];
    const pixels = this.scale();
    for (const one of this.used) {
      const next = LABELS + (this.place(one.seq) - this.from) * pixels;
      if (next >= x + 1) { // replies on the same pixel are one step
        x = next;
        pen.lineTo(x, y);
        pen.lineTo(x, bottom - scale * one[name]);
      }
      y = bottom - scale * one[name];
      if (x > width) break;
    }
    pen.lineTo(width, y);
    pen.lineWidth = 1.5;
    pen.stroke();
    if (name === "tokens") { // an area: the line of the cost often lies on that of the tokens
      pen.lineTo(width, bottom);
      pen.lineTo(LABELS, bottom);
      pen.globalAlpha = 0.2;
      pen.fill();
    }
    pen.restore();
  }

  drawLane(pen, lane, y, width, ground) {
    const { colors, session } = this;
    const agent = session.agents[lane];
    const events = this.eventsOf[lane];
    pen.fillStyle = ground;
    pen.fillRect(0, y, width, LANE);
    pen.save();
    pen.beginPath();
    pen.rect(LABELS, y, width - LABELS, LANE);
    pen.clip();
    if (events.length) this.bar(pen, events[0], events.at(-1), y, agent.status === "failed" ? colors.failed : colors.life, 5, 8);
    pen.globalAlpha = 0.5; // the ticks of events stand out from the bars
    for (const { span, level, group } of this.spansOf[lane]) {
      const pitch = Math.min(6, STACK / group.levels);
      const top = (LANE - pitch * group.levels) / 2 + level * pitch;
      this.bar(pen, span.first, span.last, y, this.app.isShared(span.last) ? colors.plain : colors[BARS[span.kind]], top, pitch >= 3 && group.levels > 1 ? pitch - 1 : pitch);
    }
    pen.globalAlpha = 1;
    this.ticks(pen, events, y);
    pen.restore();
    pen.fillStyle = agent.status === "failed" ? colors.bad : colors.text;
    pen.font = "11px system-ui, sans-serif";
    pen.textBaseline = "middle";
    pen.fillText(`${agent.address} ${agent.profile}`.slice(0, 60), 6 + Math.min(4, agent.depth) * 8, y + LANE / 2, LABELS - 12);
  }

  bar(pen, first, last, y, color, top, high) {
    const left = this.x(this.place(first));
    const right = this.x(this.place(last));
    if (right < LABELS || left > this.width) return;
    pen.fillStyle = color;
    pen.fillRect(left, y + top, Math.max(1, right - left), high);
  }

  ticks(pen, events, y) {
    const { colors, session } = this;
    let drawn = -TICK; // ticks on the same pixels are drawn once, failures always
    for (const seq of events) {
      const x = this.x(this.place(seq));
      if (x < LABELS - TICK || x > this.width) continue;
      const isBad = isFailure(session, seq);
      const isFound = this.app.foundSet?.has(seq);
      if (!isBad && !isFound && x - drawn < 1.5) continue;
      drawn = x;
      pen.fillStyle = isFound ? colors.accent : isBad ? colors.bad : this.app.isShared(seq) ? colors.plain : colors[toneOf(session, seq)];
      pen.fillRect(x - 1, y + (isBad || isFound ? 2 : 4), isBad || isFound ? 3 : 1.6, LANE - (isBad || isFound ? 4 : 8));
    }
  }
}

/** Return the least round number from a least step on: 1, 2 or 5 times a power of ten. */
function roundStep(wanted, least) {
  const power = 10 ** Math.floor(Math.log10(Math.max(wanted, least)));
  return Math.max(1, STEPS.map((one) => one * power).find((one) => one >= wanted) ?? 10 * power);
}

function eventsByLane(session, laneOf) {
  const lanes = session.agents.map(() => []);
  const laneOfName = session.names.map((name) => (isAgent(name) ? lanes[laneOf.get(name)] : undefined));
  for (let seq = 1; seq <= session.count; seq += 1) {
    const [sender, recipient] = [laneOfName[session.senders[seq]], laneOfName[session.recipients[seq]]];
    sender?.push(seq);
    if (recipient !== sender) recipient?.push(seq);
  }
  return lanes;
}

/** Return the spans of each lane, each with its level among those that it overlaps. */
function spansByLane(session, laneOf) {
  const lanes = session.agents.map(() => ({ spans: [], ends: [], group: null }));
  for (const span of session.spans) {
    const lane = BARS[span.kind] && lanes[laneOf.get(span.agent)];
    if (!lane) continue;
    if (lane.ends.every((end) => end < span.first)) Object.assign(lane, { ends: [], group: { levels: 0 } });
    const free = lane.ends.findIndex((end) => end < span.first);
    const level = free < 0 ? lane.ends.length : free;
    lane.ends[level] = span.last;
    lane.group.levels = lane.ends.length;
    lane.spans.push({ span, level, group: lane.group });
  }
  return lanes.map(({ spans }) => spans);
}

/** Return the tokens and the cost of a session up to each reply that tells them. */
function usedUpTo(session) {
  const found = [];
  let [tokens, microUsd] = [0, 0];
  for (let seq = 1; seq <= session.count; seq += 1) {
    const usage = session.kinds[seq] === "ModelReplied" && session.body(seq).usage;
    if (!usage) continue;
    tokens += tokensOf(usage);
    microUsd += Number(usage.micro_usd ?? 0);
    found.push({ seq, tokens, microUsd });
  }
  return found;
}

/** Return whether a session waited for its models, tools and people: for a second, and a good part of its time. */
function hasWaits({ spans, times, count }) {
  let [waited, until] = [0, 0];
  for (const { kind, first, last } of spans) {
    if (!BARS[kind]) continue;
    waited += Math.max(0, times[last] - Math.max(until, times[first]));
    until = Math.max(until, times[last]);
  }
  return waited >= WAITED_MS && waited >= WAITED_SHARE * (times[count] - times[0]);
}

/** Return the number of events on the way from the client to each event. */
function causalDepths(session) {
  const depths = [0];
  for (let seq = 1; seq <= session.count; seq += 1) depths.push(session.causes[seq] ? depths[session.causes[seq]] + 1 : 0);
  return depths;
}

const COLORS = ["line", "dim", "ground", "stripe", "chosen", "text", "life", "failed", "bad", "accent", "model", "tool", "task", "report", "approval", "client", "plain"];

function colorsOf(element) {
  const style = getComputedStyle(element);
  return Object.fromEntries(COLORS.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
}
