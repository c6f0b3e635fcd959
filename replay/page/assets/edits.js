// Edits of files in the arguments of calls, as lines of a difference: pairs of old and new text, whole files, patches.

import { copyButton, make, textBlock } from "./elements.js";

const CELLS_MAX = 250_000; // pairs of lines that the differences of one call may compare
const EDIT_CHARS = 200_000; // of texts whose lines are compared or read as a patch
const EDITS_MAX = 500; // of one call
const OPEN_LINES = 40; // of a difference that is not folded
const RUNS_SHOWN = 24; // of equal, old and new lines that are coloured
const CONTEXT_LINES = 3; // that stay around a change

// Names of arguments, in small letters and without lines between.
const OLD_NAME = /^old(string|str|text|contents?|code|lines?)?$/;
const NEW_NAMES = { search: ["replace", "replacement", "replacewith"], find: ["replace", "replacement", "replacewith"], searchcontent: ["replacecontent"] };
const WHOLE_NAME = /^(contents?|filetext|newsource|codeedit)$/;
const ADDED_NAME = /^(inserttext|replacementtext)$/;
const PATH_NAME = /^(path|filepath|filename|file|targetfile|relativepath|absolutepath|notebookpath)$/;
const PATCH_NAME = /^(diff|patch|unifieddiff)$/;
const PATCH = /^(?:\*\*\* (?:Begin Patch|(?:Update|Add|Delete) File: )|@@ -\d|[<-]{5,9} SEARCH>?[ \t\r]*$)|^--- .*\n\+\+\+ /m;
const LOOSE_PATCH = /^(?:@@|[-+])/m; // in an argument of such a name

/** Return what the arguments of a call change: { path, lines, rest }; null if they edit nothing. rest: the other arguments. */
export function editIn(given) {
  const input = typeof given === "string" ? { input: given } : given;
  if (!input || typeof input !== "object" || Array.isArray(input)) return null;
  const found = { path: "", lines: [], cells: CELLS_MAX };
  const told = takeEdits(input, found);
  if (!found.lines.length) return null;
  const rest = Object.entries(input).filter(([name]) => !told.has(name));
  return { path: found.path, lines: found.lines, rest: rest.length ? Object.fromEntries(rest) : null };
}

/** Add the lines of the edits in an object, and in the objects in it. Return the names of the arguments that they tell. */
function takeEdits(input, found) {
  const texts = new Map(); // plain name -> [name, text]
  const told = new Set();
  for (const [name, value] of Object.entries(input)) {
    const text = Array.isArray(value) && value.every((one) => typeof one === "string") ? value.join("\n") : value;
    if (typeof text === "string") texts.set(name.replace(/[_-]/g, "").toLowerCase(), [name, text]);
  }
  const [pathName, path] = [...texts].find(([plain]) => PATH_NAME.test(plain))?.[1] ?? [];
  const add = (lines, ...names) => {
    if (path && path !== found.path && found.lines.length) found.lines.push(["@", path]);
    else if (found.lines.length) found.lines.push(["@", ""]);
    found.path ||= path ?? "";
    for (const line of lines) found.lines.push(line);
    for (const name of [...names, pathName]) told.add(name);
  };
  for (const [plain, [name, text]] of texts) {
    const [newName, after] = newOf(texts, plain) ?? [];
    if (newName || (path && OLD_NAME.test(plain))) add(differenceLines(text, after ?? "", found), name, newName);
    else if (isPatch(text) || (PATCH_NAME.test(plain) && LOOSE_PATCH.test(text) && text.length <= EDIT_CHARS)) add(patchLines(text, found), name);
    else if (path && !told.size && (WHOLE_NAME.test(plain) || OLD_NAME.test(plain.replace(/^new/, "old")))) add(signed("+", text), name);
    else if (ADDED_NAME.test(plain)) add(signed("+", text), name);
  }
  for (const [name, value] of Object.entries(input)) {
    const parts = Array.isArray(value) ? value.slice(0, EDITS_MAX + 1) : [value];
    if (parts.length > EDITS_MAX || !parts.every((one) => one && typeof one === "object" && !Array.isArray(one))) continue;
    const count = found.lines.length;
    found.path ||= path ?? "";
    for (const one of parts) takeEdits(one, found);
    if (found.lines.length > count) told.add(name).add(pathName);
  }
  return told;
}

/** Return the name and the text of the argument that replaces another one. */
function newOf(texts, plain) {
  if (OLD_NAME.test(plain)) return texts.get(plain.replace("old", "new"));
  return Object.hasOwn(NEW_NAMES, plain) ? texts.get(NEW_NAMES[plain].find((one) => texts.has(one))) : undefined;
}

export function isPatch(text) {
  return text.length <= EDIT_CHARS && PATCH.test(text);
}

/** Return the lines of a patch: a unified one, one of "*** Begin Patch", or SEARCH and REPLACE blocks. "@": no line of a file. */
export function patchLines(text, found = { cells: CELLS_MAX }) {
  const lines = [];
  const all = text.replace(/\n$/, "").split("\n");
  const isHeader = (place) => (/^--- /.test(all[place]) && /^\+\+\+ /.test(all[place + 1] ?? ""));
  const isLoose = !/^(?:@@|\*\*\* )/m.test(text); // nothing says where its lines begin
  let isHunk = isLoose;
  let sides = null; // of the SEARCH block that is read
  const flush = () => {
    if (sides) for (const line of differenceLines(...sides.map((side) => side.join("\n")), found)) lines.push(line);
    sides = null;
  };
  all.forEach((line, place) => {
    const plain = line.trimEnd();
    if (/^[<-]{5,9} SEARCH>?$/.test(plain)) {
      flush();
      sides = [[], []];
      sides.at = 0;
    } else if (sides) {
      if (/^[>+]{5,9} REPLACE$/.test(plain)) flush();
      else if (!sides.at && /^={5,9}$/.test(plain)) sides.at = 1;
      else if (!sides.at && !sides[0].length && /^(?::(?:start|end)_line:|-{5,9}$)/.test(plain)) lines.push(["@", line]);
      else sides[sides.at].push(line);
    } else if (/^(?:@@|\*\*\* )/.test(line) || isHeader(place) || isHeader(place - 1)) {
      if (/^(?:@@|\*\*\* (?:Add|Update|Delete) File: )/.test(line)) isHunk = true;
      else if (/^(?:--- |\*\*\* End Patch)/.test(line)) isHunk = isLoose;
      lines.push(["@", line]);
    } else if (isHunk && /^[-+ ]/.test(line)) lines.push([line[0], line.slice(1)]);
    else lines.push([isHunk && !line ? " " : "@", line]);
  });
  flush();
  return lines;
}

/** Return the lines of a text under a sign; a very long one as one line. */
function signed(sign, text) {
  if (text.length > EDIT_CHARS) return [[sign, text]];
  return text === "" ? [] : text.split("\n").map((line) => [sign, line]);
}

/** Return the lines of two texts: those of both, of the first and of the second. found.cells: what may still be compared. */
export function differenceLines(before, after, found = { cells: CELLS_MAX }) {
  const [one, other] = [signed("-", before), signed("+", after)];
  if (before.length + after.length > EDIT_CHARS) return [...one, ...other];
  let start = 0;
  while (start < one.length && start < other.length && one[start][1] === other[start][1]) start += 1;
  let [endOne, endOther] = [one.length, other.length];
  while (endOne > start && endOther > start && one[endOne - 1][1] === other[endOther - 1][1]) [endOne, endOther] = [endOne - 1, endOther - 1];
  const both = (lines) => lines.map(([, text]) => [" ", text]);
  return [...both(one.slice(0, start)), ...middleLines(one.slice(start, endOne), other.slice(start, endOther), found), ...both(one.slice(endOne))];
}

/** Return the lines of two parts by their longest common subsequence; one part after the other if they are too long. */
function middleLines(one, other, found) {
  found.cells -= one.length * other.length;
  if (!one.length || !other.length || found.cells < 0) return [...one, ...other];
  const numbers = new Map(); // line -> a number that is quick to compare
  const [rows, columns] = [one, other].map((lines) => lines.map(([, text]) => numbers.get(text) ?? numbers.set(text, numbers.size).size - 1));
  const width = columns.length + 1;
  const most = new Uint32Array((rows.length + 1) * width); // common lines from a pair of places on
  for (let a = rows.length - 1; a >= 0; a -= 1)
    for (let b = columns.length - 1; b >= 0; b -= 1)
      most[a * width + b] = rows[a] === columns[b] ? most[(a + 1) * width + b + 1] + 1 : Math.max(most[(a + 1) * width + b], most[a * width + b + 1]);
  const lines = [];
  let [a, b] = [0, 0];
  while (a < rows.length && b < columns.length) {
    if (rows[a] === columns[b]) {
      lines.push([" ", one[a][1]]);
      [a, b] = [a + 1, b + 1];
    } else if (most[(a + 1) * width + b] >= most[a * width + b + 1]) lines.push(one[a++]);
    else lines.push(other[b++]);
  }
  return [...lines, ...one.slice(a), ...other.slice(b)];
}

/** Return the lines of a difference as a block, folded if it is long. */
export function editBlock(path, lines) {
  const [gone, come] = ["-", "+"].map((sign) => lines.filter(([one]) => one === sign).length);
  const title = [make("b", {}, `${path} −${gone} +${come}`.trim()), " ", copyOf(lines, "-", "before"), copyOf(lines, "+", "after")];
  if (lines.length <= OPEN_LINES) return make("div", { class: "edit" }, make("p", {}, title), runsOf(lines));
  const fold = make("details", { class: "edit" }, make("summary", {}, title[0]));
  fold.addEventListener("toggle", () => {
    if (fold.open && fold.childElementCount === 1) fold.append(make("p", {}, title.slice(2)), ...runsOf(lines));
  });
  return fold;
}

function copyOf(lines, sign, name) {
  const side = lines.filter(([one]) => one === sign || one === " ").map(([, text]) => text).join("\n");
  return lines.some(([one]) => one === sign) && [` ${name} `, copyButton(side, `Copy the text ${name}`)];
}

const RUN_NAMES = { "-": "before", "+": "after", " ": "both", "@": "hint" };
const RUN_MARKS = { "-": "− ", "+": "+ ", " ": "  ", "@": "" };

/** Return neighbouring lines of a kind as a block each; those beyond a limit as one text. */
function runsOf(lines) {
  const runs = [];
  for (const [sign, text] of lines) {
    if (runs.at(-1)?.sign !== sign) runs.push({ sign, texts: [] });
    runs.at(-1).texts.push(RUN_MARKS[sign] + text.replace(/\r$/, "␍"));
  }
  const last = runs.at(-1);
  if (last.texts.length > 1 && (last.sign === " " || runs.length === 1) && !last.texts.at(-1).trim().replace("+", "")) last.texts.pop(); // behind the last end of a line
  const shown = runs.slice(0, RUNS_SHOWN).map((run) => textBlock(shortened(run, run === runs[0], run === last), RUN_NAMES[run.sign]));
  const rest = runs.slice(RUNS_SHOWN).flatMap(({ texts }) => texts);
  return [make("div", { class: "lines" }, shown, rest.length > 0 && textBlock(rest.join("\n")))];
}

/** Return the text of a run; of many equal lines those near the changes. */
function shortened({ sign, texts }, isFirst, isLast) {
  const [head, tail] = [isFirst ? 0 : CONTEXT_LINES, isLast ? 0 : CONTEXT_LINES];
  const hidden = texts.length - head - tail;
  if (sign !== " " || hidden < 4) return texts.join("\n");
  return [...texts.slice(0, head), `  ⋯ ${hidden.toLocaleString("en")} equal lines`, ...texts.slice(texts.length - tail)].join("\n");
}
