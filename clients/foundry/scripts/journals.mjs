// Journals on their way into the memory of NPCs. Pure.

/** Return pages of a journal as a document of Foundry's, which the service reads as
 * `glyphoxa memory import` does: a page that players may observe is known to every NPC,
 * another one is a secret, and so are the secret sections of a page.
 *
 * `known`: "levels" goes by the levels of ownership; with "secret" nobody knows it yet.
 * What single users may do is left out, and so is everything that is no text. */
export function documentOf({ _id, name, ownership }, pages, { known }) {
  const level = (given, otherwise) => ({ default: known === "levels" ? (given?.default ?? otherwise) : 0 });
  return {
    documentName: "JournalEntry",
    _id,
    name,
    ownership: level(ownership, 0),
    pages: pages.map((page) => ({
      _id: page._id,
      name: page.name,
      type: page.type ?? "text",
      text: { content: page.text?.content ?? "", markdown: page.text?.markdown ?? "" },
      ownership: level(page.ownership, -1),
    })),
  };
}
