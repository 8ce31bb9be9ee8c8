// Who is spoken to: `@Bartok ...`, a targeted token, or those who stand near. Pure.

/** An actor that is linked to an NPC of the service: {actor, name, npc}, with the actor's
 * id and name.
 *
 * A token, as far as it matters here: {actor, x, y, width, height, hidden}, with the id of
 * its actor, its corner in pixels and its size in squares. */

/** Take `@Name` from the beginning of a text; null if it names nobody that is linked.
 * The longest name counts, whether it is the actor's or the NPC's. */
export function named(text, links) {
  const words = text.trimStart();
  if (!words.startsWith("@")) return null;
  const rest = words.slice(1);
  let found = null;
  for (const link of links) {
    for (const name of [link.name, link.npc]) {
      if (begins(rest, name) && name.length > (found?.length ?? 0)) {
        found = { link, length: name.length };
      }
    }
  }
  if (found === null) return null;
  return { link: found.link, text: rest.slice(found.length).replace(/^[\s,:]+/, "") };
}

/** Return the links whose tokens stand within a distance of a token, the nearest first. A
 * hidden token hears nothing: an answer would tell that it is there. */
export function near(token, tokens, links, { size, distance, within }) {
  if (!token || !(within > 0) || !(size > 0) || !(distance > 0)) return [];
  const found = new Map();
  for (const other of tokens) {
    const link = links.find((one) => one.actor === other.actor);
    if (!link || other.hidden || other.actor === token.actor) continue;
    const far = (apart(token, other, size) / size) * distance;
    if (far <= within && far < (found.get(link)?.far ?? Infinity)) found.set(link, { link, far });
  }
  return [...found.values()].sort((a, b) => a.far - b.far).map(({ link }) => link);
}

/** Return whom a message is for: {links, text}, or null. `near` is called only if neither
 * a name nor a target says it. */
export function addressed({ text, target }, links, near) {
  const byName = named(text, links);
  if (byName !== null) return { links: [byName.link], text: byName.text };
  const aimed = links.find((one) => one.actor === target);
  if (aimed) return { links: [aimed], text };
  const close = near();
  return close.length ? { links: close, text } : null;
}

function apart(a, b, size) {
  const middle = (one) => [
    one.x + ((one.width ?? 1) * size) / 2,
    one.y + ((one.height ?? 1) * size) / 2,
  ];
  const [[ax, ay], [bx, by]] = [middle(a), middle(b)];
  return Math.hypot(ax - bx, ay - by);
}

function begins(text, name) {
  if (!name) return false;
  const next = text.charAt(name.length);
  const same = text.slice(0, name.length).toLowerCase() === name.toLowerCase();
  return same && !/[\p{L}\p{N}]/u.test(next);
}
