// Markdown by a small subset, as elements: headings, lists, tables, code, bold. Everything else stays text, links too.

import { editBlock, isPatch, patchLines } from "./edits.js";
import { make, textBlock } from "./elements.js";

const MARKS_INLINE = /(`[^`\n]{1,300}`|\*\*[^*\n]{1,300}\*\*)/;
const MARKED_ELEMENTS = 70; // of a text; the rest of it is plain

/** Return a text as elements. No part of it becomes markup or a link. limit: about the number of elements. */
export function markdown(text, limit = MARKED_ELEMENTS) {
  const root = make("div", { class: "prose" });
  root.left = limit; // elements that may still be made
  const lines = text.split("\n");
  let at = 0;
  while (at < lines.length && root.left > 0) at = markdownBlock(root, lines, at);
  if (at < lines.length) root.append(textBlock(lines.slice(at).join("\n")));
  return root;
}

/** Add the block that begins at a line. Return the line after it. */
function markdownBlock(root, lines, at) {
  if (!lines[at].trim()) return at + 1;
  root.left -= 1;
  if (lines[at].startsWith("```")) return markdownCode(root, lines, at);
  const heading = /^(#{1,6}) +(.+)$/.exec(lines[at]);
  if (heading) {
    root.append(make("p", { class: "heading" }, markdownInline(root, heading[2])));
    return at + 1;
  }
  if (MARKS_ITEM.test(lines[at])) return markdownList(root, lines, at);
  if (isTable(lines, at)) return markdownTable(root, lines, at);
  const isText = (line) => line.trim() && !/^(```|#{1,6} )/.test(line) && !MARKS_ITEM.test(line);
  let end = at + 1;
  while (end < lines.length && isText(lines[end]) && !isTable(lines, end)) end += 1;
  root.append(make("p", {}, markdownInline(root, lines.slice(at, end).join("\n"))));
  return end;
}

const MARKS_ITEM = /^ {0,3}(?:[-*+]|\d{1,3}[.)]) +/;

function markdownList(root, lines, at) {
  const items = make(/^ *\d/.test(lines[at]) ? "ol" : "ul", {});
  let end = at;
  for (; end < lines.length && root.left > 0 && MARKS_ITEM.test(lines[end]); end += 1) {
    root.left -= 1;
    items.append(make("li", {}, markdownInline(root, lines[end].replace(MARKS_ITEM, ""))));
  }
  root.append(items);
  return end;
}

const MARKS_RULE = /^ {0,3}\|?(?: *:?-+:? *\|)* *(?::?-+:? *)?$/; // the line below the heads of a table

function isTable(lines, at) {
  const rule = lines[at + 1] ?? "";
  return lines[at].includes("|") && rule.includes("|") && rule.includes("-") && MARKS_RULE.test(rule) && cellsOf(rule).length === cellsOf(lines[at]).length;
}

function cellsOf(line) {
  const inner = line.trim().replace(/^\|/, "").replace(/(?<!\\)\|$/, "");
  return inner.split(/(?<!\\)\|/).map((cell) => cell.trim().replaceAll("\\|", "|"));
}

/** Add a table, as text if it has more cells than elements may be made. Its rows have as many cells as its heads. */
function markdownTable(root, lines, at) {
  const heads = cellsOf(lines[at]);
  let end = at + 2;
  while (end < lines.length && lines[end].includes("|")) end += 1;
  const count = (end - at - 1) * (heads.length + 1);
  if (count > root.left) {
    root.append(textBlock(lines.slice(at, end).join("\n")));
    return end;
  }
  root.left -= count;
  const rows = lines.slice(at + 2, end).map(cellsOf);
  const row = (cells, kind) => make("tr", {}, ...heads.map((_, column) => make(kind, {}, markdownInline(root, cells[column] ?? ""))));
  root.append(make("table", {}, row(heads, "th"), ...rows.map((cells) => row(cells, "td"))));
  return end;
}

function markdownCode(root, lines, at) {
  let end = at + 1;
  while (end < lines.length && !lines[end].startsWith("```")) end += 1;
  const code = lines.slice(at + 1, end).join("\n");
  const block = isPatch(code) ? editBlock("", patchLines(code)) : textBlock(code);
  root.left -= block.querySelectorAll("*").length;
  root.append(block);
  return end + 1;
}

function markdownInline(root, text) {
  return text.split(MARKS_INLINE).map((part, place) => {
    if (place % 2 === 0 || root.left <= 0) return part;
    root.left -= 1;
    return part[0] === "`" ? make("code", {}, part.slice(1, -1)) : make("b", {}, part.slice(2, -2));
  });
}
