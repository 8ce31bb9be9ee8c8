// The game master's side: takes what is said at the table to the service, and the answers
// back. Only the browser of one game master has a host, because it holds the token.
// Without Foundry: `table` is what it needs of it, see foundry.mjs.

import { addressed } from "./addressing.mjs";
import { rollOf, rolledWords } from "./dice.mjs";
import { Limits } from "./limits.mjs";
import { html } from "./text.mjs";

const LONGEST = 2000; // characters of what somebody says
const LONGEST_SHOWN = 20_000; // characters of one answer
const LARGEST = 250_000; // bytes of a document; the service takes messages of 256 KiB
const MOST_QUESTIONS = 3; // approvals that are asked for at once

/** A token that is valid, and of no use here. */
class WrongToken extends Error {
  code = 4001;
}

/** The NPCs of one session, for everybody at the table. */
export class Host {
  #table;
  #connection;
  #limits;
  #session = "";
  #npcs = [];
  #speakers = new Map(); // the name under which somebody speaks: the user's id
  #answers = new Map(); // user: the answer that is given to them
  #muted = new Set();
  #questions = new Map(); // id: how to withdraw it

  constructor(table, connection, limits = new Limits()) {
    this.#table = table;
    this.#connection = connection;
    this.#limits = limits;
  }

  /** The names of the NPCs that the service has. */
  get npcs() {
    return this.#npcs;
  }

  get muted() {
    return [...this.#muted];
  }

  /** Join the session with a client that has just connected. */
  async up(client, session) {
    if (client.welcome.role === "player") throw new WrongToken("it is the token of a player");
    this.#session = client.welcome.session ?? session;
    this.#npcs = (await client.join(this.#session)).map((npc) => npc.name);
    // The service knows who everybody is again, also if it was started anew.
    if (this.#speakers.size) await this.#introduce(client, this.#speakers);
    this.#watch(client).catch(() => {}); // ends with the connection
    this.#table.inform("connected", { npcs: this.#npcs.join(", ") });
  }

  /** Withdraw what is asked, since the connection is lost. */
  down() {
    for (const withdraw of this.#questions.values()) withdraw();
    this.#questions.clear();
  }

  /** Take a chat message; resolves when its answer has been given.
   *
   * {id, user: {id, name, gm}, speaker: {name, scene, token}, text, inCharacter, target,
   * whisper: [ids], rolls: [{formula, total}]}, with `token` as `near` wants it, or null. */
  async heard(message) {
    const links = this.#table.links();
    const around = () => (message.inCharacter && !message.whisper.length ? this.#table.near(message, links) : []);
    const to = addressed(message, links, around);
    if (to === null) return;
    const hearing = to.links.filter((link) => !this.#muted.has(link.npc));
    if (!hearing.length && !message.rolls.length) return;
    const client = this.#connection.client;
    if (client === null) return this.#excuse(message.user, "away");
    if (to.text.length > LONGEST) return this.#excuse(message.user, "tooLong");
    const refused = this.#limits.take(message.user.id);
    if (refused) return this.#excuse(message.user, refused);
    try {
      await this.#limits.during(async () => {
        const speaker = await this.#speaker(client, message);
        if (message.rolls.length) await this.#tellRoll(client, message, to.links, speaker);
        else await this.#converse(client, message, to.text, hearing, speaker);
      });
    } catch (error) {
      this.#complain(error);
    }
  }

  /** Interrupt the answer to a user; without one, everything. */
  hush(user) {
    if (user === undefined) {
      for (const answer of this.#answers.values()) interrupt(answer);
    } else {
      interrupt(this.#answers.get(user));
    }
  }

  // -- what a game master does

  /** Have an NPC say nothing, or speak again. */
  async mute(npc, muted = true) {
    await this.#request("mute", { npc, muted });
    if (muted) this.#muted.add(npc);
    else this.#muted.delete(npc);
  }

  /** Have an NPC say these words. */
  async speakAs(link, text, { scene, user }) {
    const answer = this.#client.speakAs(link.npc, text, { session: this.#session });
    await this.#show(answer, { links: [link], scene, whisper: [], user });
  }

  async elevate(npc, tier, seconds) {
    await this.#request("elevate", { npc, tier, seconds });
  }

  /** End what an NPC says, to whomever; resolves to false if it says nothing. */
  async interrupt(npc) {
    return Boolean((await this.#request("interrupt", { npc })).result);
  }

  /** Put a journal into the memory; resolves to how much of what is there. It takes the
   * place of what a journal of its name has brought before. */
  async learn(journal) {
    const fields = { name: `Foundry ${journal.name}`.slice(0, 200), data: journal };
    if (new TextEncoder().encode(JSON.stringify(fields)).length > LARGEST) {
      throw new Error("it is too much at once: choose fewer pages");
    }
    return (await this.#request("learn", fields)).result;
  }

  /** End the session; the next words begin it anew. */
  async end() {
    await this.#request("end", {});
    this.#speakers.clear();
    this.#muted.clear();
  }

  // -- inside

  get #client() {
    const client = this.#connection.client;
    if (client === null) throw new Error("the service is away");
    return client;
  }

  #request(type, fields) {
    return this.#client.request(type, { session: this.#session, ...fields });
  }

  async #introduce(client, speakers) {
    const players = [...speakers].slice(-100).map(([name, id]) => [name, `foundry:${id}`]);
    await client.join(this.#session, { players: Object.fromEntries(players) });
  }

  /** The name under which somebody speaks, which NPCs connect with a stable id. Two users
   * never share one: what one said would be remembered as the other's. */
  async #speaker(client, { user, speaker }) {
    let name = (speaker.name || user.name).slice(0, 100);
    if ((this.#speakers.get(name) ?? user.id) !== user.id) name = `${name} (${user.name})`;
    if (!this.#speakers.has(name)) {
      this.#speakers.set(name, user.id); // what is asked for next is carried out after it
      await this.#introduce(client, [[name, user.id]]);
    }
    return name;
  }

  async #converse(client, message, text, links, speaker) {
    const to = links.length === 1 ? { npc: links[0].npc } : { scene: links.map((link) => link.npc) };
    const options = { ...to, session: this.#session, speaker, voiced: false };
    interrupt(this.#answers.get(message.user.id)); // who speaks again has heard enough
    const greets = !text && links.length === 1;
    if (!text && !greets) return;
    const answer = greets ? client.greet(to.npc, { session: this.#session, speaker }) : client.say(text, options);
    const whisper = message.whisper.length ? [...new Set([...message.whisper, message.user.id])] : [];
    this.#answers.set(message.user.id, answer);
    try {
      await this.#show(answer, { links, scene: message.speaker.scene, whisper, user: message.user });
    } finally {
      if (this.#answers.get(message.user.id) === answer) this.#answers.delete(message.user.id);
    }
  }

  /** Show an answer as one chat message, which grows by sentences. */
  async #show(answer, { links, scene, whisper, user }) {
    let [shown, words, last] = [null, "", null];
    const show = async (text, link) => {
      words = text.slice(0, LONGEST_SHOWN);
      if (shown === null) shown = await this.#table.post({ link, scene, content: html(words), whisper });
      else if (!(await shown.update(html(words)))) interrupt(answer); // it was deleted
    };
    try {
      for await (const event of answer) {
        const link = links.find((one) => one.npc === event.npc) ?? links[0];
        if (event.event === "Sentence" || event.event === "Filler") {
          last = link;
          await show(`${words}${words && " "}${event.text}`, link);
        } else if (event.event === "ToolFinished") {
          await this.#rolled(event.outcome, { link, scene, whisper });
        } else if (event.event === "ApprovalNeeded") {
          this.#ask(event);
        } else if (event.event === "TurnDone" && event.end === "failed") {
          this.#excuse(user, "failed", { npc: link.name });
        } else if (event.event === "TurnDone" && event.end === "interrupted" && words) {
          await show(`${words} —`, link);
        }
      }
    } catch (error) {
      if (words) await show(`${words} …`, last).catch(() => {});
      // A connection that is lost is told once, for all answers.
      if (error.name !== "GlyphoxaClosed") throw error;
    }
  }

  async #rolled(outcome, where) {
    if (outcome.status !== "ok" || !["dice.roll", "dice.roll_table"].includes(outcome.tool)) return;
    const data = outcome.data ?? {};
    const roll = outcome.tool === "dice.roll" ? rollOf(data) : null;
    const words = data.table === undefined ? `${data.expression}: ${data.total}` : `${data.table}: ${data.result}`;
    await this.#table.roll({ ...where, roll, content: html(words) });
  }

  async #tellRoll(client, message, links, speaker) {
    const words = rolledWords(message.rolls);
    if (!words) return;
    for (const { npc } of links) {
      await client.request("overhear", { session: this.#session, npc, speaker, text: `(rolls dice: ${words})` });
    }
  }

  /** Ask the game master what an NPC asks. The first answer counts, wherever it is given. */
  #ask(event) {
    const { question, npc, tool } = event;
    if (this.#questions.has(question) || this.#questions.size >= MOST_QUESTIONS) return;
    const open = new AbortController();
    this.#questions.set(question, () => open.abort());
    const late = setTimeout(() => open.abort(), event.expires_ms ?? 30_000);
    const asked = this.#table.ask({ npc, tool, arguments: event.arguments }, open.signal);
    asked
      .then(async (yes) => {
        if (yes === null || open.signal.aborted) return;
        if (!(await this.#client.approve(question, yes, npc, this.#session))) this.#table.warn("tooLate");
      })
      .catch((error) => this.#complain(error))
      .finally(() => {
        clearTimeout(late);
        this.#questions.delete(question);
      });
  }

  async #watch(client) {
    for await (const event of client.watch({ session: this.#session })) {
      if (event.event === "ApprovalNeeded") this.#ask(event);
      else if (event.event === "ApprovalSettled") this.#questions.get(event.question)?.();
    }
  }

  #excuse(user, why, data = {}) {
    if (this.#limits.mayTell(user.id, why)) this.#table.tellUser(user.id, why, data);
  }

  #complain(error) {
    if (error.name !== "GlyphoxaClosed") this.#table.warn("refused", { why: error.message });
  }
}

/** Interrupt an answer, if there is one. The service only knows it once it is accepted. */
function interrupt(answer) {
  answer?.accepted().then(() => answer.leave(), () => {});
}
