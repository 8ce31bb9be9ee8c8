// Text and HTML. What NPCs and players say is text, and chat messages are HTML. Pure.

const SIGNS = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;" };
const NAMED = { amp: "&", lt: "<", gt: ">", quot: '"', apos: "'", nbsp: " " };
const JOINER = "\u2060"; // of no width
const BLOCKS = /<\/?(?:p|div|li|ul|ol|h[1-6]|tr|table|section|article|blockquote|pre)\b[^>]*>/gi;

/** Text as HTML that shows it and does nothing: no tags, and none of the rolls and links
 * that Foundry makes of [[...]] and @Name[...], which a word joiner takes apart. */
export function html(text) {
  return String(text)
    .replace(/[&<>"']/g, (sign) => SIGNS[sign])
    .replaceAll("[", `${JOINER}[`)
    .replaceAll("\n", "<br>");
}

/** Text as the value of an attribute in quotes. */
export function quoted(text) {
  return String(text).replace(/[&<>"']/g, (sign) => SIGNS[sign]);
}

/** The words of HTML, a line for each paragraph. What comes out is text, not HTML. */
export function plain(markup) {
  return String(markup ?? "")
    .replace(/<!--[^]*?(?:-->|$)/g, "")
    .replace(/<(script|style|template)\b[^]*?(?:<\/\1\s*>|$)/gi, "")
    .replace(/<br\b[^>]*>/gi, "\n")
    .replace(BLOCKS, "\n")
    .replace(/<\/?[a-z][^>]*>/gi, "")
    .replace(/@\w+\[[^\]]*\]\{([^}]*)\}/g, "$1") // a link: its label
    .replace(/\[\[[^\]]*\]\]\{([^}]*)\}/g, "$1")
    .replace(/&(#x?[0-9a-f]+|[a-z]+);/gi, (whole, name) => sign(name) ?? whole)
    .replaceAll(JOINER, "")
    .split("\n")
    .map((line) => line.replace(/\s+/g, " ").trim())
    .filter(Boolean)
    .join("\n");
}

function sign(name) {
  if (!name.startsWith("#")) return NAMED[name.toLowerCase()];
  const code = /^#x/i.test(name) ? parseInt(name.slice(2), 16) : parseInt(name.slice(1), 10);
  return code > 0 && code <= 0x10ffff ? String.fromCodePoint(code) : undefined;
}
