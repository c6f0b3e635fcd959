// JSON as text: long parts folded, names, texts and numbers coloured. The colours are ranges of text nodes, so that
// a long value takes no more elements than a short one. It is laid out as it is written: a parsed object would lose
// names that occur twice, and the order of those that are numbers.

import { readJson } from "./data.js";
import { copyButton, make, textBlock } from "./elements.js";
import { oneLine } from "./words.js";

const WHOLE_LINES = 24; // of a value that is shown unfolded
const PART_LINES = 6; // of an entry of a longer value that is shown unfolded
const PARTS_MAX = 12; // folds in a value
const ENTRIES_MAX = 200; // of a value that are looked at; the rest is one text
const RANGES_MAX = 4000;
const JSON_TOKENS = /("(?:[^"\\]|\\.)*")(\s*:)?|-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?|\b(?:true|false|null)\b/g;
const JSON_BRACKETS = /"(?:[^"\\]|\\.)*"|[{}[\]]/g;
const JSON_SIGNS = /"(?:[^"\\]|\\.)*"|[{}[\],:]/g;
const JSON_PARTS = /"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/g;
const PARSED_CHARS = 4_000_000; // of a text that may be JSON

/** Return a value as a text to copy: a text as it is, another value as JSON. */
export function copied(value) {
  return typeof value === "string" ? value : JSON.stringify(value, null, 2);
}

/** Return what can be copied at a place of a JSON text: a leaf, or for a name the value that it names; null for nothing. */
export function valueAt(text, place) {
  for (const found of text.matchAll(JSON_TOKENS)) {
    const end = found.index + found[0].length;
    if (end < place) continue;
    if (found.index > place) return null;
    const written = found[2] ? valueFrom(text, end) : found[0];
    return written ? copied(readJson(written)) : null;
  }
  return null;
}

/** Return the value that begins at a place of a JSON text, as it is written; "" if the text ends before it does. */
function valueFrom(text, start) {
  const rest = text.slice(start);
  if (!/^\s*[{[]/.test(rest)) return rest.match(JSON_TOKENS)?.[0] ?? "";
  let depth = 0;
  for (const found of rest.matchAll(JSON_BRACKETS)) {
    if (found[0].length === 1) depth += /[{[]/.test(found[0]) ? 1 : -1;
    if (!depth) return rest.slice(0, found.index + 1);
  }
  return "";
}

/** Offer to copy the value that was clicked in a block of JSON. */
export function offerValue({ target, clientY }) {
  if (target.closest?.(".leaf")) return;
  document.querySelector(".leaf")?.remove();
  const block = target.closest?.("pre.json");
  const { anchorNode: node, anchorOffset: place, isCollapsed } = getSelection();
  const value = block && isCollapsed && node?.parentNode === block && node instanceof Text ? valueAt(node.data, place) : null;
  if (value === null) return;
  const button = copyButton(value, "Copy this value", `copy ${oneLine(value).slice(0, 40)}`);
  button.classList.add("leaf");
  button.style.top = `${clientY - block.getBoundingClientRect().top + 10}px`;
  block.append(button);
}

/** Return a value as a block; a text as it is. */
export function jsonBlock(value) {
  return typeof value === "string" ? textBlock(value) : writtenJson(JSON.stringify(value) ?? "");
}

/** Return a JSON text as a block. */
export function writtenJson(text) {
  return isLong(text, WHOLE_LINES) ? foldedJson(text) : jsonText(laidOut(text));
}

/** Return whether a text is a JSON object or array. */
export function isJson(text) {
  if (text.length > PARSED_CHARS || !/^\s*[{[]/.test(text)) return false;
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

function jsonText(text) {
  return textBlock(text, "json", coloured);
}

/** Return whether a JSON text has more lines than this when it is laid out. */
function isLong(text, lines) {
  let count = 1;
  for (const [sign] of text.matchAll(JSON_SIGNS)) {
    if (sign === "," || sign === "{" || sign === "[") count += 1;
    if (count > lines) return true;
  }
  return false;
}

/** Lay a JSON text out: one entry in a line. Values stay as they are written. */
export function laidOut(text) {
  let shown = "";
  let depth = 0;
  let before = "";
  const line = () => `\n${"  ".repeat(depth)}`;
  for (const [part] of text.matchAll(JSON_PARTS)) {
    const isEnd = part === "}" || part === "]";
    if (isEnd) depth -= 1;
    const isFirst = before === "{" || before === "[";
    if (isEnd ? !isFirst : isFirst || before === ",") shown += line();
    shown += part === ":" ? ": " : part;
    if (part === "{" || part === "[") depth += 1;
    before = part;
  }
  return shown;
}

/** Return the entries of a JSON object or array as they are written: names, which are "" in an array, and values. */
export function writtenEntries(text) {
  const entries = [];
  let [depth, start, name] = [0, 0, ""];
  const add = (end) => {
    const value = text.slice(start, end).trim();
    if (value) entries.push([name, value]);
    [start, name] = [end + 1, ""];
  };
  for (const { 0: sign, index } of text.matchAll(JSON_SIGNS)) {
    if (sign === "{" || sign === "[") {
      depth += 1;
      if (depth === 1) start = index + 1;
    } else if (sign === "}" || sign === "]") {
      depth -= 1;
      if (!depth) add(index);
    } else if (depth === 1 && sign === ":") [name, start] = [text.slice(start, index).trim(), index + 1];
    else if (depth === 1 && sign === ",") add(index);
  }
  return entries;
}

/** Return a long JSON text with its long parts folded. Each is made when it is opened. */
function foldedJson(written) {
  const root = make("div", { class: "json parts" });
  const isList = written.trimStart()[0] === "[";
  let plain = isList ? "[" : "{";
  const flush = () => {
    if (plain) root.append(jsonText(plain));
    plain = "";
  };
  let folds = 0;
  const entries = writtenEntries(written);
  for (const [place, [name, part]] of entries.slice(0, ENTRIES_MAX).entries()) {
    const label = isList ? "" : `${name}: `;
    if (folds < PARTS_MAX && isLong(part, PART_LINES)) {
      flush();
      folds += 1;
      root.append(jsonFold(isList ? `${place}: ` : label, part));
    } else plain += `${plain ? "\n" : ""}${indented(`${label}${laidOut(part)}`)},`;
  }
  if (entries.length > ENTRIES_MAX) plain += `\n  ... ${(entries.length - ENTRIES_MAX).toLocaleString("en")} more entries; copy has all`;
  plain += `${plain ? "\n" : ""}${isList ? "]" : "}"}`;
  flush();
  return root;
}

function indented(text) {
  return text.split("\n").map((line) => `  ${line}`).join("\n");
}

function jsonFold(label, part) {
  const count = writtenEntries(part).length.toLocaleString("en");
  const fold = make("details", { class: "part" }, make("summary", {}, `${label}${part[0] === "[" ? `[ ${count} ]` : `{ ${count} }`}`));
  fold.addEventListener("toggle", () => {
    if (fold.open && fold.childElementCount === 1) fold.append(writtenJson(part));
  });
  return fold;
}

const jsonRanges = []; // [name of the colour, range]

/** Colour the JSON in the first text node of a block. A browser without such ranges shows it in one colour. */
function coloured(block) {
  const node = block.firstChild;
  if (!globalThis.Highlight || !(node instanceof Text)) return;
  for (const found of node.data.matchAll(JSON_TOKENS)) {
    const name = found[1] ? (found[2] ? "json-name" : "json-text") : "json-number";
    const length = found[1]?.length ?? found[0].length;
    jsonRanges.push([name, new StaticRange({ startContainer: node, startOffset: found.index, endContainer: node, endOffset: found.index + length })]);
    if (jsonRanges.length > RANGES_MAX) dropRanges();
  }
  colourDue ??= requestAnimationFrame(drawColours);
}

let colourDue = null;

/** Give the browser the ranges of the blocks that are shown. */
function drawColours() {
  colourDue = null;
  dropRanges();
  for (const name of ["json-name", "json-text", "json-number"])
    CSS.highlights.set(name, new Highlight(...jsonRanges.filter(([one]) => one === name).map(([, range]) => range)));
}

/** Forget the ranges of blocks that are gone, and the oldest ones beyond a limit. */
function dropRanges() {
  const kept = jsonRanges.filter(([, range]) => range.startContainer.isConnected).slice(-RANGES_MAX);
  jsonRanges.splice(0, jsonRanges.length, ...kept);
}
