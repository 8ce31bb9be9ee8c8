// Questions if a tool may be called, for operators and game masters.

import { h, tell } from "./dom.mjs";
import { client } from "./service.mjs";

export class Questions {
  #box = document.getElementById("questions");
  #open = new Map();
  #home;

  /** `home` is focused when the question that had the focus is settled, and the last. */
  constructor(home = null) {
    this.#home = home;
  }

  /** Take an event of a turn. */
  seen(event) {
    if (event.event === "ApprovalNeeded") this.#ask(event);
    else if (event.event === "ApprovalSettled") this.#close(event);
  }

  /** Forget what was asked: it may be settled since. */
  clear() {
    for (const card of this.#open.values()) card.remove();
    this.#open.clear();
  }

  #key(event) {
    return JSON.stringify([event.session, event.npc, event.question]);
  }

  #ask(event) {
    const answer = (yes) => this.#answer(event, yes);
    const card = h("div", { className: "card", role: "alertdialog", "aria-label": `${event.npc} asks` },
      h("p", {}, h("b", {}, event.npc), " wants to call ", h("b", { className: "mono" }, event.tool), " with"),
      h("pre", {}, event.arguments),
      h("div", { className: "row" },
        h("button", { className: "main", onclick: () => answer(true) }, "Approve this call"),
        h("button", { onclick: () => answer(false) }, "Deny"),
        h("span", { className: "quiet" }, `within ${Math.round(event.expires_ms / 1000)} s`)));
    this.#open.set(this.#key(event), card);
    this.#box.append(card);
  }

  #close(event) {
    const key = this.#key(event);
    const card = this.#open.get(key);
    const focused = card?.contains(document.activeElement);
    card?.remove();
    this.#open.delete(key);
    if (focused) this.#box.querySelector("button")?.focus();
    if (focused && document.activeElement === document.body) this.#home?.focus();
  }

  async #answer(event, yes) {
    try {
      const open = await client().approve(event.question, yes, event.npc, event.session);
      if (!open) tell("it was settled already");
    } catch (error) {
      tell(error.message, "bad");
    }
  }
}
