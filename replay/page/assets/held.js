// Where a message holds a value: whole words, and equal numbers, by the rules of replay/json_values.py.

import { WrittenNumber, readJson } from "./data.js";

const NEAR_CHARS = 60;
const NUMBER_CHARS_MAX = 400;
const NUMBER = /(?<![\p{L}\p{N}_.])[-+]?(?:\d{1,3}(?:\.\d{3})+,\d+|\d{1,3}(?:[,_'\u00a0\u202f]\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?)(?:[eE][-+]?\d{1,3})?(?![\d_→]|\.\d|\p{L}+\d)/gu;
const PARTS_OF_NUMBER = /^([-+]?)(\d+)(?:\.(\d+))?(?:[eE]([-+]?\d+))?$/u;
const WORD = /\p{L}[\p{L}\p{N}_]+/gu;
const CAMEL = /(?<=[a-z])(?=[A-Z])/gu;
const COMMON_WORDS = new Set([
  "the", "and", "has", "have", "are", "was", "for", "with", "its", "that", "this",
  "is", "it", "in", "of", "on", "to", "at", "an", "as", "by", "be", "or", "we", "no",
]);
const COMMON_DIGITS_MAX = 2;
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

  /** Whether many messages hold the value by chance: a number of two digits, a flag. */
  get isCommon() {
    const digits = this.number.replace(/^-+/u, "").replaceAll(".", "");
    return digits ? digits.length <= COMMON_DIGITS_MAX : ["true", "false", "null"].includes(this.text);
  }

  /** Return the places where a message holds the value: { words, isAlone }. */
  places(body) {
    const found = [];
    this.collect(body, new Set(), [], false, found);
    return found;
  }

  /** name: the words of the value's own field, marked. */
  collect(value, near, name, isForeign, found) {
    const opened = openedJson(value);
    if (Array.isArray(opened)) for (const one of opened) this.collect(one, near, name, isForeign, found);
    else if (opened !== null && typeof opened === "object" && !(opened instanceof WrittenNumber)) this.collectObject(opened, near, isForeign, found);
    else if (typeof opened === "string")
      for (const { words, isAlone } of this.inText(opened)) found.push({ words: new Set([...near, ...(isAlone ? name : words)]), isAlone });
    else if (isForeign && this.is(opened)) found.push({ words: new Set([...near, ...name]), isAlone: true });
  }

  collectObject(value, near, isForeign, found) {
    const texts = Object.values(value).filter((one) => typeof one === "string" && [...one].length <= NEAR_CHARS);
    const beside = isForeign ? new Set([...near, ...wordsOf(texts.join(" "))]) : near;
    for (const [name, one] of Object.entries(value)) {
      const words = wordsOf(name);
      if (isForeign || !NO_CONTENT.has(name))
        this.collect(one, new Set([...beside, ...words]), words.map(nextTo), isForeign || OF_OTHERS.has(name), found);
      if (isForeign && !this.number && name.search(this.pattern) >= 0) found.push({ words: near, isAlone: false });
    }
  }

  inText(text) {
    const found = [];
    for (const match of text.matchAll(this.number ? NUMBER : this.pattern)) {
      if (this.number && numberIn(match[0]) !== this.number) continue;
      const [start, end] = [match.index, match.index + match[0].length];
      const before = wordsOf(text.slice(Math.max(start - NEAR_CHARS, 0), start));
      const after = wordsOf(text.slice(end, end + NEAR_CHARS));
      const beside = [...before.slice(-1), ...after.slice(0, 1)].map(nextTo);
      found.push({ words: [...before, ...after, ...beside], isAlone: text.trim() === match[0] });
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

/** Return the words of a text that say something, without their plural. */
export function wordsOf(text) {
  const words = [...text.replace(CAMEL, " ").replaceAll("_", " ").matchAll(WORD)].map((match) => match[0].toLowerCase());
  return words.filter((word) => !COMMON_WORDS.has(word)).map((word) => word.replace(/s$/u, ""));
}

function nextTo(word) {
  return `~${word}`;
}
