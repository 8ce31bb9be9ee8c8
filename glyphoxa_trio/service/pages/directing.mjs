// The game master's side of the table page: NPCs, words in their mouths, and the scene.

import { fill, h, tell } from "./dom.mjs";
import { client } from "./service.mjs";
import { Knowledge } from "./knowledge.mjs";

const TIERS = ["fast", "standard", "deep"];
const at = (id) => document.getElementById(id);

export class Directing {
  #seat;
  #npcs; // returns the NPCs of the table
  #speakAs;
  #knowledge;
  #look = { speaking: null, muted: [], puppet: null, context: null };
  #speaking = new Set();
  #marks = new Map(); // NPC: what shows that it speaks
  #raised = new Map(); // NPC: {tier, until}
  #shown = false;

  constructor({ seat, npcs, speakAs }) {
    this.#seat = seat;
    this.#npcs = npcs;
    this.#speakAs = speakAs;
    this.#knowledge = new Knowledge(seat);
    at("speak-as").addEventListener("submit", (event) => this.#say(event));
    at("scene").addEventListener("submit", (event) => this.#setScene(event));
  }

  /** Show this side, or hide it. */
  show(shown) {
    this.#shown = shown;
    at("directing").hidden = !shown;
    at("table").classList.toggle("directed", shown);
  }

  /** Return the tier that was chosen for the next words; later ones have none. */
  takeTier() {
    const chosen = this.#shown ? at("tier").value || undefined : undefined;
    at("tier").value = "";
    return chosen;
  }

  /** Take an event of the table. */
  seen(event) {
    if (event.event === "TurnDone") this.#speaking.delete(event.npc);
    else if (["TierSelected", "Scripted", "TextDelta"].includes(event.event)) this.#speaking.add(event.npc);
    const mark = this.#marks.get(event.npc);
    if (mark) mark.hidden = !this.#speaking.has(event.npc);
    if (event.event === "TurnKept") this.#knowledge.soon();
  }

  /** Ask for the state of the scene, and show it. */
  async refresh() {
    this.#speaking.clear();
    const names = this.#npcs().map((x) => x.name);
    fill(at("speak-as").npc, ...names.map((x) => h("option", {}, x)));
    this.#knowledge.npcs(names);
    const reply = await this.#ask("look");
    if (reply === null) return;
    this.#look = reply.result;
    const facts = at("scene").facts;
    if (document.activeElement !== facts) facts.value = (this.#look.context ?? []).join("\n");
    this.#draw();
  }

  /** Carry out a request; resolves to its answer, or to null if it was refused. */
  async #ask(type, fields = {}) {
    try {
      return await client().request(type, { session: this.#seat.session, ...fields });
    } catch (error) {
      tell(error.message, "bad");
      return null;
    }
  }

  #draw() {
    fill(at("npcs"), ...this.#npcs().map((npc) => this.#row(npc)));
  }

  #row({ name, tier }) {
    const muted = this.#look.muted.includes(name);
    const puppet = this.#look.puppet === name;
    const raised = this.#raised.get(name);
    const chip = (text, kind = "") => h("span", { className: `chip ${kind}` }, text);
    const mark = chip("answers", "good");
    mark.hidden = !this.#speaking.has(name);
    this.#marks.set(name, mark);
    const change = async (type, fields) => {
      if ((await this.#ask(type, fields)) !== null) await this.refresh();
    };
    const up = h("select", { "aria-label": `Tier to raise ${name} to`, "data-key": `tier-${name}` },
      ...TIERS.map((x) => h("option", { selected: x === (raised?.tier ?? "deep") }, x)));
    const time = h("select", { "aria-label": `How long to raise ${name}`, "data-key": `time-${name}` },
      ...[[30, "30 s"], [60, "1 min"], [300, "5 min"]].map(([value, text]) => h("option", { value, selected: value === 60 }, text)));
    return h("section", { className: "npc", "aria-label": name },
      h("div", {}, h("b", {}, name), " ", chip(tier),
        mark,
        muted ? chip("muted", "warn") : null,
        puppet ? chip("all is said to it", "warn") : null,
        raised && raised.until > Date.now() ? chip(`up to ${raised.tier} until ${new Date(raised.until).toLocaleTimeString([], { hour12: false })}`, "good") : null),
      h("div", { className: "row" },
        h("button", { "data-key": `stop-${name}`, "aria-label": `Interrupt ${name}`, onclick: () => this.#interrupt(name) }, "Interrupt"),
        h("button", { "data-key": `mute-${name}`, "aria-pressed": String(muted), "aria-label": `Mute ${name}`, onclick: () => change("mute", { npc: name, muted: !muted }) }, "Mute"),
        h("button", { "data-key": `puppet-${name}`, "aria-pressed": String(puppet), "aria-label": `Puppet ${name}`, onclick: () => change("puppet", puppet ? {} : { npc: name }) }, "Puppet"),
        up, time,
        h("button", { "data-key": `raise-${name}`, "aria-label": `Elevate ${name}`, onclick: () => this.#elevate(name, up.value, Number(time.value)) }, "Elevate")));
  }

  async #interrupt(npc) {
    const reply = await this.#ask("interrupt", { npc });
    if (reply?.result === false) tell(`${npc} says nothing now`);
  }

  async #elevate(npc, tier, seconds) {
    if ((await this.#ask("elevate", { npc, tier, seconds })) === null) return;
    this.#raised.set(npc, { tier, until: Date.now() + 1000 * seconds });
    setTimeout(() => this.#draw(), 1000 * seconds + 50);
    this.#draw();
    tell(`${npc} may go to ${tier} for ${seconds} s`);
  }

  async #say(event) {
    event.preventDefault();
    const { npc, text } = event.target;
    const words = text.value.trim();
    if (!words) return;
    text.value = "";
    try {
      await this.#speakAs(npc.value, words);
    } catch (error) {
      tell(error.message, "bad");
    }
  }

  async #setScene(event) {
    event.preventDefault();
    const context = at("scene").facts.value.split("\n").map((x) => x.trim()).filter(Boolean);
    if ((await this.#ask("scene", { context })) !== null) tell(context.length ? "every NPC knows the scene" : "the scene is forgotten");
  }
}
