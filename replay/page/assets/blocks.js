// Blocks of content as elements: the arguments of a call, and what a tool or a person gave.

import { editBlock, editIn, isPatch, patchLines } from "./edits.js";
import { firstParts, make, textBlock } from "./elements.js";
import { mediaBlock } from "./images.js";
import { isJson, jsonBlock, writtenJson } from "./json.js";
import { mediaOf } from "./words.js";

const CONTENT_ELEMENTS = 40;

/** Return the arguments of a call: edits of files as differences, the rest as JSON. asJson: draws the JSON. */
export function argumentsBlock(input, asJson = jsonBlock) {
  const edit = editIn(input);
  if (!edit) return asJson(input);
  return make("div", {}, edit.rest && jsonBlock(edit.rest), editBlock(edit.path, edit.lines));
}

/** Return a text; a patch with its colours, JSON laid out. */
export function plainText(text) {
  if (isPatch(text)) return editBlock("", patchLines(text));
  return isJson(text) ? writtenJson(text) : textBlock(text);
}

/** Return content of a person or a tool as elements: texts, images, and other blocks as JSON. */
export function contentBlocks(content, where) {
  if (!Array.isArray(content)) return [plainText(typeof content === "string" ? content : JSON.stringify(content ?? ""))];
  return firstParts(content.map((one) => () => contentBlock(one, where)), CONTENT_ELEMENTS, "more parts");
}

export function contentBlock(one, where) {
  if (typeof one === "string" || typeof one?.text === "string") return plainText(one.text ?? one);
  if (one?.type === "tool_use") return make("div", { class: "call" }, make("b", {}, one.name), argumentsBlock(one.input));
  if (one?.type === "tool_result")
    return make("div", { class: `call${one.is_error ? " bad" : ""}` }, make("b", {}, one.is_error ? "error" : "result"), contentBlocks(one.content, where));
  const media = mediaOf(one);
  return media ? mediaBlock(media, where) : jsonBlock(one);
}
