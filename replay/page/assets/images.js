// Images in messages, drawn from their data. What is no PNG, JPEG, GIF or WebP by its first bytes stays a text.

import { make, textBlock } from "./elements.js";
import { bytesText, mediaText } from "./words.js";

const IMAGE_CHARS = 12_000_000; // of base64 that are drawn at once
const IMAGE_PIXELS = 40_000_000;
const HEAD_CHARS = 400_000; // of base64 in which the size of an image is looked for
const SVG_CHARS = 400_000;

/** Return a block with data as elements. where: named by the alternative text. */
export function mediaBlock(media, where) {
  if (media.name !== "image" || !media.data) return make("p", { class: "hint" }, mediaText(media));
  const head = headOf(media.data);
  const found = rasterIn(head);
  if (!found) return notDrawn(media, head);
  const [type, width, height] = found;
  const says = `${type.slice(6).toUpperCase()} image${width ? `, ${width} × ${height}` : ""}, ${bytesText(media.data)}`;
  const image = make("img", { alt: `${says}, of ${where}`, decoding: "async" });
  if (width) Object.assign(image, { width, height });
  const full = make("button", { class: "picture", title: "Full size, or fitted", onclick: () => full.classList.toggle("whole") }, image);
  const figure = make("figure", {}, full, make("figcaption", { class: "hint" }, says));
  image.addEventListener("error", () => figure.replaceChildren(make("p", { class: "hint bad" }, `${says}: its data is broken`)));
  const show = () => nearView(image, `data:${type};base64,${media.data}`);
  if (media.data.length <= IMAGE_CHARS && width * height <= IMAGE_PIXELS) show();
  else figure.prepend(make("button", { class: "more", onclick: (event) => {
    event.target.remove();
    show();
  } }, "show this large image"));
  return figure;
}

function notDrawn(media, head) {
  const isSvg = /^\s*(?:<\?xml[^>]*>\s*)?(?:<!--|<!DOCTYPE svg|<svg)/i.test(head.slice(0, 300));
  const hint = make("p", { class: isSvg ? "hint" : "hint bad" }, `${mediaText(media)}: ${isSvg ? "an SVG, shown as text" : "its data is broken, or of a type that is not drawn"}`);
  return isSvg ? make("div", {}, hint, textBlock(new TextDecoder().decode(Uint8Array.from(head.slice(0, SVG_CHARS), (letter) => letter.charCodeAt(0))))) : hint;
}

/** Return the first bytes of base64 as letters; nothing if it is none. */
function headOf(data) {
  const plain = data.slice(0, HEAD_CHARS).replace(/\s+/g, "");
  try {
    return atob(plain.slice(0, plain.length - (plain.length % 4)) || "=");
  } catch {
    return "";
  }
}

/** Return the type and the size of an image by its first bytes, 0 for a size that they do not tell; null for no image. */
function rasterIn(head) {
  const byte = (place) => head.charCodeAt(place) || 0;
  const big = (place) => byte(place) * 256 + byte(place + 1);
  const little = (place) => byte(place) + byte(place + 1) * 256;
  if (head.startsWith("\x89PNG\r\n")) return ["image/png", big(16) * 65536 + big(18), big(20) * 65536 + big(22)];
  if (/^GIF8[79]a/.test(head)) return ["image/gif", little(6), little(8)];
  if (/^RIFF.{4}WEBP/s.test(head)) return ["image/webp", ...webpSize(head, byte, little)];
  if (!head.startsWith("\xff\xd8\xff")) return null;
  for (let at = 2; at < head.length && byte(at) === 0xff; at += 2 + Math.max(2, big(at + 2)))
    if (byte(at + 1) >= 0xc0 && byte(at + 1) <= 0xcf && ![0xc4, 0xc8, 0xcc].includes(byte(at + 1))) return ["image/jpeg", big(at + 7), big(at + 5)];
  return ["image/jpeg", 0, 0];
}

function webpSize(head, byte, little) {
  const kind = head.slice(12, 16);
  if (kind === "VP8X") return [little(24) + byte(26) * 65536 + 1, little(27) + byte(29) * 65536 + 1];
  if (kind === "VP8 ") return [little(26) & 0x3fff, little(28) & 0x3fff];
  const bits = little(21) + little(23) * 65536;
  return kind === "VP8L" ? [(bits & 0x3fff) + 1, ((bits >> 14) & 0x3fff) + 1] : [0, 0];
}

const imagesDue = new WeakMap(); // image -> its address
const imagesNear = new IntersectionObserver((entries) => {
  for (const { target, isIntersecting } of entries) {
    if (!isIntersecting) continue;
    target.src = imagesDue.get(target);
    imagesNear.unobserve(target);
  }
}, { rootMargin: "600px" });

/** Draw an image once it is near the part of the page that can be seen. */
function nearView(image, address) {
  imagesDue.set(image, address);
  imagesNear.observe(image);
}
