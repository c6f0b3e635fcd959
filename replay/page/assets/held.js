// Where a message holds a value: whole words, and equal numbers, by the rules of replay/held_values.py.

import { WrittenNumber, readJson } from "./data.js";

const NEAR_CHARS = 60;
const NUMBER_CHARS_MAX = 400;
const NUMBER = /(?<![\p{L}\p{N}_.])[-+]?(?:\d{1,3}(?:\.\d{3})+,\d+|\d{1,3}(?:[,_'\u00a0\u202f]\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?)(?:[eE][-+]?\d{1,3})?(?![\d_]|\.\d|\p{L}+\d)/gu;
const PARTS_OF_NUMBER = /^([-+]?)(\d+)(?:\.(\d+))?(?:[eE]([-+]?\d+))?$/u;
const WORD = /\p{L}[\p{L}\p{N}_]{2,}/gu;
const COMMON_WORDS = new Set(["the", "and", "has", "have", "are", "was", "for", "with", "its", "that", "this"]);
const NO_CONTENT = new Set(["id", "tool_use_id", "request_id", "digest", "signature", "type", "sent", "telemetry"]);
const OF_OTHERS = new Set([
  "arguments", "context", "extra", "first", "form", "forms", "implicit", "input", "input_schema", "metadata",
  "output", "params", "presets", "prompt", "schema", "value", "values",
]);

/** A value to look for. isWhole: only as whole words; a number always stands for itself. */
export class Held {
  constructor(text, isWhole) {
    this.text = text;
    this.number = numberIn(text);
    const edge = (sign, isWord) => (isWhole && isWord ? `(?${sign}[\\p{L}\\p{N}_])` : "");
    const isWord = (letter) => /[\p{L}\p{N}]/u.test(letter ?? "");
    const escaped = text.replace(/[\\^$.*+?()[\]{}|/]/gu, "\\$&");
    const [before, after] = [edge("<!", isWord([...text][0])), edge("!", isWord([...text].at(-1)))];
    this.pattern = new RegExp(before + escaped + after, "gu");
  }

  /** Return the words near each place where a message holds the value. */
  places(body) {
    const found = [];
    this.collect(body, new Set(), false, found);
    return found;
  }

  collect(value, near, isForeign, found) {
    const opened = openedJson(value);
    if (Array.isArray(opened)) for (const one of opened) this.collect(one, near, isForeign, found);
    else if (opened !== null && typeof opened === "object" && !(opened instanceof WrittenNumber)) this.collectObject(opened, near, isForeign, found);
    else if (typeof opened === "string") for (const words of this.inText(opened)) found.push(new Set([...near, ...words]));
    else if (isForeign && this.is(opened)) found.push(near);
  }

  collectObject(value, near, isForeign, found) {
    const texts = Object.values(value).filter((one) => typeof one === "string" && [...one].length <= NEAR_CHARS);
    const beside = isForeign ? new Set([...near, ...wordsOf(texts.join(" "))]) : near;
    for (const [name, one] of Object.entries(value)) {
      if (isForeign || !NO_CONTENT.has(name))
        this.collect(one, new Set([...beside, ...wordsOf(name)]), isForeign || OF_OTHERS.has(name), found);
      if (isForeign && !this.number && name.search(this.pattern) >= 0) found.push(near);
    }
  }

  inText(text) {
    const found = [];
    for (const match of text.matchAll(this.number ? NUMBER : this.pattern)) {
      if (this.number && numberIn(match[0]) !== this.number) continue;
      const [start, end] = [match.index, match.index + match[0].length];
      found.push(wordsOf(`${text.slice(Math.max(start - NEAR_CHARS, 0), start)} ${text.slice(end, end + NEAR_CHARS)}`));
    }
    return found;
  }

  is(value) {
    const written = String(value);
    return this.number ? numberIn(written) === this.number : written === this.text;
  }
}

/** Return a number in one spelling: no groups, no zeros at either end; empty if the text is no number. */
export function numberIn(text) {
  const plain = text.trim();
  const whole = plain.length <= NUMBER_CHARS_MAX ? [...plain.matchAll(NUMBER)] : [];
  if (whole.length !== 1 || whole[0][0] !== plain) return "";
  const isPointGroup = /\.\d{3},/u.test(plain) || plain.split(".").length > 2;
  const ordered = isPointGroup ? plain.replaceAll(".", "").replace(",", ".") : plain;
  const [, sign, before, behind = "", exponent = "0"] = PARTS_OF_NUMBER.exec(ordered.replace(/[,_'\u00a0\u202f]/gu, ""));
  let digits = before + behind;
  let point = before.length + Number(exponent);
  digits = point > 0 ? digits.padEnd(point, "0") : "0".repeat(-point) + digits;
  point = Math.max(point, 0);
  const integer = digits.slice(0, point).replace(/^0+/u, "") || "0";
  const fraction = digits.slice(point).replace(/0+$/u, "");
  const number = fraction ? `${integer}.${fraction}` : integer;
  return sign === "-" && number !== "0" ? `-${number}` : number;
}

function openedJson(value) {
  if (typeof value !== "string" || !/^\s*[{[]/u.test(value)) return value;
  try {
    return readJson(value);
  } catch {
    return value;
  }
}

function wordsOf(text) {
  const words = [...text.replaceAll("_", " ").matchAll(WORD)].map((match) => match[0].toLowerCase());
  return new Set(words.filter((word) => !COMMON_WORDS.has(word)).map((word) => word.replace(/s$/u, "")));
}
