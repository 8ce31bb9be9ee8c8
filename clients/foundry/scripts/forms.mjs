// The contents of dialogs, as HTML. Whatever comes from elsewhere goes through `html`. Pure.
//
// `t(key, data)` returns the text of a key in the user's language.

import { html, quoted } from "./text.mjs";

const TIERS = ["fast", "standard", "deep"];

export function paragraph(text) {
  return `<p>${html(text)}</p>`;
}

/** The game master's token. It is never shown again. */
export function connection(t) {
  return `${paragraph(t("connection.hint"))}${field(t("connection.token"), `<input type="password" name="token" autocomplete="off">`)}`;
}

/** Which NPC an actor is: one of those that the service has, or a name. */
export function link(t, { name, npcs, now }) {
  const known = npcs.map((npc) => `<option value="${quoted(npc)}"></option>`).join("");
  const input = `<input type="text" name="npc" list="glyphoxa-npcs" value="${quoted(now)}">`;
  return `${paragraph(t("link.hint", { name }))}${field(t("link.npc"), input)}<datalist id="glyphoxa-npcs">${known}</datalist>`;
}

export function direct(t, { links, muted, given }) {
  const shown = ({ npc, name }) => `${name}${muted.includes(npc) ? ` (${t("direct.muted")})` : ""}`;
  const npcs = links.map((one) => option(one.npc, shown(one), one.npc === given.npc));
  const tiers = TIERS.map((one) => option(one, t(`direct.${one}`), one === (given.tier || "deep")));
  return [
    field(t("direct.npc"), `<select name="npc">${npcs.join("")}</select>`),
    field(t("direct.text"), `<textarea name="text" rows="2"></textarea>`),
    field(t("direct.tier"), `<select name="tier">${tiers.join("")}</select>`),
  ].join("");
}

/** The pages of a journal, and who may know them. */
export function teach(t, { name, pages }) {
  const boxes = pages.map((page, number) => field(page.name, `<input type="checkbox" name="page${number}" checked>`));
  const known = ["levels", "secret"].map((one) => option(one, t(`teach.${one}`), one === "levels"));
  return `${paragraph(t("teach.hint", { name }))}${boxes.join("")}${field(t("teach.known"), `<select name="known">${known.join("")}</select>`)}`;
}

export function approve(question, given) {
  return `${paragraph(question)}<pre>${html(given)}</pre>`;
}

function field(label, input) {
  return `<div class="form-group"><label>${html(label)}</label>${input}</div>`;
}

function option(value, text, chosen) {
  return `<option value="${quoted(value)}"${chosen ? " selected" : ""}>${html(text)}</option>`;
}
