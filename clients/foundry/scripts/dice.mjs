// What an NPC rolled, as Foundry's own rolls have it; and what players rolled, as words.
// Pure.

const TERM = /([+-]?)(?:(\d{0,3})d(\d{1,5}|%)(?:(adv|dis)|(kh|kl)(\d{1,3})?)?|(\d{1,6}))/y;
const MOST = 200; // dice

/** Return the data of a roll, for Roll.fromData, of the result of the tool `roll`; null if
 * that is nothing that Foundry can show: it never gets a number that was not rolled. */
export function rollOf(data) {
  const said = data ?? {};
  const numbers = (list) => Array.isArray(list) && list.every(Number.isSafeInteger);
  if (typeof said.expression !== "string" || !Number.isSafeInteger(said.total)) return null;
  if (!numbers(said.rolls)) return null;
  if (said.dropped !== undefined && !numbers(said.dropped)) return null;
  const parts = partsOf(said.expression.toLowerCase().replace(/\s+/g, ""));
  if (!parts?.some((part) => part.faces)) return null;
  const kept = said.rolls.map(Math.abs);
  const dropped = (said.dropped ?? []).map(Math.abs);
  const terms = [];
  let total = 0;
  for (const [place, part] of parts.entries()) {
    if (place || part.sign < 0) {
      terms.push({ class: "OperatorTerm", options: {}, evaluated: true, operator: part.sign < 0 ? "-" : "+" });
    }
    if (!part.faces) {
      terms.push({ class: "NumericTerm", options: {}, evaluated: true, number: part.number });
      total += part.sign * part.number;
      continue;
    }
    const mine = kept.splice(0, part.keep);
    const gone = dropped.splice(0, part.number - part.keep);
    if (mine.length + gone.length !== part.number) return null;
    if ([...mine, ...gone].some((side) => side < 1 || side > part.faces)) return null;
    terms.push({
      class: "Die",
      options: {},
      evaluated: true,
      number: part.number,
      faces: part.faces,
      modifiers: part.modifiers,
      results: [
        ...mine.map((result) => ({ result, active: true })),
        ...gone.map((result) => ({ result, active: false, discarded: true })),
      ],
    });
    total += part.sign * mine.reduce((sum, side) => sum + side, 0);
  }
  if (kept.length || dropped.length || total !== said.total) return null;
  const formula = parts.map((part, place) => (place || part.sign < 0 ? `${part.sign < 0 ? "-" : "+"} ` : "") + part.formula).join(" ");
  return { class: "Roll", options: {}, dice: [], formula, terms, total, evaluated: true };
}

function partsOf(text) {
  const parts = [];
  TERM.lastIndex = 0;
  while (TERM.lastIndex < text.length) {
    const found = TERM.exec(text);
    if (found === null || (parts.length && !found[1])) return null;
    const [, sign, count, faces, twice, keep, many, flat] = found;
    const part = { sign: sign === "-" ? -1 : 1 };
    if (flat !== undefined) {
      Object.assign(part, { number: Number(flat), formula: flat });
    } else {
      const sides = faces === "%" ? 100 : Number(faces);
      const how = twice ? (twice === "adv" ? "kh" : "kl") : keep ? keep + (many ?? "") : "";
      const number = Number(count || 1) * (twice ? 2 : 1);
      if (number < 1 || number > MOST || sides < 1 || (twice && number !== 2)) return null;
      const stay = twice ? 1 : keep ? Number(many || 1) : number;
      if (stay < 1 || stay > number) return null;
      Object.assign(part, { number, keep: stay, faces: sides, modifiers: how ? [how] : [], formula: `${number}d${sides}${how}` });
    }
    parts.push(part);
  }
  return parts.length ? parts : null;
}

/** Return what a player rolled, in words that an NPC overhears; "" if that is nothing. */
export function rolledWords(rolls) {
  return rolls
    .filter((one) => Number.isFinite(one.total))
    .slice(0, 10)
    .map((one) => `${String(one.formula).slice(0, 100)} = ${one.total}`)
    .join(", ");
}
