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

/** A value to look for. isWhole: only as whole words; a number always stands for itself. pattern: of other texts that are it. */
export class Held {
  constructor(text, isWhole, pattern = "") {
    this.text = text;
    this.number = pattern ? "" : numberIn(text);
    this.isOther = pattern !== "";
    const edge = (sign, isWord) => (isWhole && isWord ? `(?${sign}[\\p{L}\\p{N}_])` : "");
    const isWord = (letter) => /[\p{L}\p{N}]/u.test(letter ?? "");
    const escaped = text.replace(/[\\^$.*+?()[\]{}|/]/gu, "\\$&");
    const [before, after] = [edge("<!", isWord([...text][0])), edge("!", isWord([...text].at(-1)))];
    this.pattern = pattern ? new RegExp(pattern, "giu") : new RegExp(before + escaped + after, "gu");
  }

  /** Whether many messages hold the value by chance: a number of two digits, a flag. */
  get isCommon() {
    const digits = this.number.replace(/^-+/u, "").replaceAll(".", "");
    return digits ? digits.length <= COMMON_DIGITS_MAX : ["true", "false", "null"].includes(this.text);
  }

  /** Return the places where a message holds the value: { words, isAlone, text }. text: the value as it is written there. */
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
      for (const { words, isAlone, text } of this.inText(opened)) found.push({ words: new Set([...near, ...(isAlone ? name : words)]), isAlone, text });
    else if (isForeign && this.is(opened)) found.push({ words: new Set([...near, ...name]), isAlone: true, text: String(opened) });
  }

  collectObject(value, near, isForeign, found) {
    const texts = Object.values(value).filter((one) => typeof one === "string" && [...one].length <= NEAR_CHARS);
    const beside = isForeign ? new Set([...near, ...wordsOf(texts.join(" "))]) : near;
    for (const [name, one] of Object.entries(value)) {
      const words = wordsOf(name);
      if (isForeign || !NO_CONTENT.has(name))
        this.collect(one, new Set([...beside, ...words]), words.map(nextTo), isForeign || OF_OTHERS.has(name), found);
      const [part] = isForeign && !this.number ? (name.match(this.pattern) ?? []) : [];
      if (part) found.push({ words: near, isAlone: false, text: part });
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
      found.push({ words: [...before, ...after, ...beside], isAlone: text.trim() === match[0], text: match[0] });
    }
    return found;
  }

  is(value) {
    const written = String(value);
    if (this.number) return numberIn(written) === this.number;
    return this.isOther ? written.match(this.pattern)?.[0] === written : written === this.text;
  }
}

const AMOUNT = /^\s*(?<money>[A-Z]{0,3}[$€£¥])?\s*(?<number>[-+]?\d[\d.,_'\u00a0\u202f]*)\s*(?<unit>%|°[CF]|[A-Z]{3}|[€£¥]|[kKMGT]i?B|[kcm]?m|[km]?g|[mµn]?s|px|lbs?|percent|euros?|dollars?|cents?|bytes?|seconds?|minutes?|hours?|days?|lines?|tokens?|files?|items?|pages?)?\s*$/u;
const CURRENCY = /^(?:[€£¥]|[A-Z]{3}|euros?|dollars?)$/u;
const AMOUNT_DIGITS_MIN = 3;
const WORD_CHARS_MIN = 4;
const MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const DATES = [
  /^\s*(?<y>\d{4})-(?<m>\d\d)-(?<d>\d\d)\s*$/u,
  /^\s*(?<d>\d\d?)\.(?<m>\d\d?)\.(?<y>\d{4})\s*$/u,
  /^\s*(?<m>\d\d?)\/(?<d>\d\d?)\/(?<y>\d{4})\s*$/u,
  /^\s*(?<name>[a-z]{3})[a-z]*\.? (?<d>\d\d?)(?:st|nd|rd|th)?(?:,? (?<y>\d{4}))?\s*$/iu,
  /^\s*(?<d>\d\d?)(?:st|nd|rd|th|\.)? (?<name>[a-z]{3})[a-z]*\.?(?:,? (?<y>\d{4}))?\s*$/iu,
];

/** Return the forms in which another text may hold a value, the likeliest first. As `other_spellings` of replay/spellings.py. */
export function otherSpellings(text) {
  const date = DATES.map((form) => form.exec(text)?.groups).find((one) => one);
  const found = date ? otherDates(text, date) : [];
  const plain = text.trim();
  if ([...plain].length >= WORD_CHARS_MIN) {
    const words = plain.split(/[\s_]+/u).map((word) => word.replace(/[\\^$.*+?()[\]{}|/]/gu, "\\$&")).join("[\\s_*`-]+");
    found.push(new Held(text, true, `(?<![\\p{L}\\p{N}])${words}(?:(?![\\p{L}\\p{N}])|(?=T\\d))`));
  }
  const amount = date || numberIn(text) ? null : AMOUNT.exec(text)?.groups;
  const number = amount ? numberIn(amount.number.replace(/[.,]+$/u, "")) : "";
  if (!number) return found;
  const isMoney = Boolean(amount.money) || CURRENCY.test(amount.unit ?? "");
  const digits = number.replace(/\D/gu, "").replace(/^0+|0+$/gu, "").length;
  if (isMoney || digits >= AMOUNT_DIGITS_MIN) found.push(new Held(number, true));
  if (["%", "percent"].includes(amount.unit) && digits > 1) found.push(new Held(numberIn(`${number}e-2`), true));
  else if (isMoney && number !== "0") found.push(new Held(numberIn(`${number}e2`), true)); // cents
  return found;
}

function otherDates(text, { name = "", y = "\\d{4}", m, d }) {
  const month = name ? MONTHS.indexOf(name.toLowerCase()) + 1 : Number(m);
  if (month < 1 || month > MONTHS.length) return [];
  const [day, named, ofYear] = [Number(d), `${MONTHS[month - 1]}[a-z]*\\.?`, `(?:,? ${y}|(?!,? ?\\d))`];
  const two = (number) => String(number).padStart(2, "0");
  const forms = [
    `${y}-?${two(month)}-?${two(day)}(?!\\d)`,
    `0?${month}/0?${day}/${y}|0?${day}[./]0?${month}[./]${y}`,
    `${named} 0?${day}(?:st|nd|rd|th)?${ofYear}|0?${day}(?:st|nd|rd|th|\\.)? ${named}${ofYear}`,
  ];
  return [new Held(text, true, `(?<![\\p{L}\\p{N}_])(?:${forms.join("|")})`)];
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
