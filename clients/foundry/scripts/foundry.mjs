// What touches Foundry VTT, version 13 or 14: hooks, settings, documents, dialogs. The
// rest of the module knows nothing of it. Above 300 lines, because all of it is here.
//
// `install` is given the globals of Foundry, which only exist some time after this file is
// loaded. Every browser runs this. That of a game master who has put in a token is the
// host: it reads the chat, as Foundry shows it to that user, and answers there.

import { connect } from "./client.mjs";
import { near } from "./addressing.mjs";
import { Connection } from "./connection.mjs";
import * as forms from "./forms.mjs";
import { Host } from "./host.mjs";
import { documentOf } from "./journals.mjs";
import { html, plain } from "./text.mjs";

export const ID = "glyphoxa";
const SOCKET = `module.${ID}`;
const HUSH = /^\/hush\s*$/i;

/** Make the module at home in a Foundry. `sleep` is how the connection waits. */
export function install(env, { sleep } = {}) {
  const module = new Module(env, sleep);
  env.Hooks.once("init", () => module.init());
  env.Hooks.once("ready", () => module.ready());
  env.Hooks.on("chatMessage", (_log, text) => module.typed(text));
  env.Hooks.on("preCreateChatMessage", (message, _data, _options, user) => module.mark(message, user));
  env.Hooks.on("createChatMessage", (message) => module.heard(message));
  env.Hooks.on("userConnected", () => module.elect());
  env.Hooks.on("updateUser", () => module.elect());
  env.Hooks.on("getSceneControlButtons", (controls) => module.addTool(controls));
  env.Hooks.on("getActorContextOptions", (_app, items) =>
    items.push(module.entry("link", "fa-solid fa-comment", (id) => module.link(env.game.actors.get(id)))),
  );
  env.Hooks.on("getJournalEntryContextOptions", (_app, items) =>
    items.push(module.entry("teach", "fa-solid fa-book", (id) => module.teach(env.game.journal.get(id)))),
  );
  env.Hooks.on("getHeaderControlsActorSheetV2", (sheet, controls) =>
    controls.push({
      action: `${ID}-link`,
      icon: "fa-solid fa-comment",
      label: "GLYPHOXA.link.menu",
      visible: env.game.user.isGM,
      onClick: () => module.link(sheet.document),
    }),
  );
}

class Module {
  #env;
  #connection;
  #host;
  #hosting = "";
  #warned = -Infinity;

  constructor(env, sleep) {
    this.#env = env;
    const table = new Table(env);
    this.#connection = new Connection({
      sleep,
      open: ({ address, token }) => connect(address, { token: token || undefined }),
      told: {
        up: (client) => this.#host.up(client, this.#get("session").trim() || env.game.world.id),
        down: () => {
          this.#host.down();
          table.warn("lost");
        },
        refused: (error) => table.warn("hopeless", { why: error.message }),
      },
    });
    this.#host = new Host(table, this.#connection);
  }

  // -- setting up

  init() {
    const { game } = this.#env;
    // Every browser of the world can read these.
    const world = { scope: "world", config: true };
    const anew = () => this.elect(true);
    const texts = (key) => ({ name: `GLYPHOXA.settings.${key}.name`, hint: `GLYPHOXA.settings.${key}.hint` });
    const register = (key, how) => game.settings.register(ID, key, how);
    register("address", { ...world, ...texts("address"), type: String, default: "ws://127.0.0.1:8080/ws", onChange: anew });
    register("session", { ...world, ...texts("session"), type: String, default: "", onChange: anew });
    register("hearing", { ...world, ...texts("hearing"), type: Number, default: 0 });
    const choices = Object.fromEntries(["gm", "all", "off"].map((one) => [one, `GLYPHOXA.settings.rolls.${one}`]));
    register("rolls", { ...world, ...texts("rolls"), type: String, default: "gm", choices });
    // The token stays in this browser: Foundry sends settings of a world to everybody.
    register("token", { scope: "client", config: false, type: String, default: "", onChange: anew });
    const ask = () => this.askToken();
    game.settings.registerMenu(ID, "connection", {
      ...texts("connection"),
      label: "GLYPHOXA.settings.connection.label",
      icon: "fa-solid fa-key",
      restricted: true,
      // Foundry wants the class of a window; ours only asks, and shows no window itself.
      type: class extends this.#env.foundry.applications.api.ApplicationV2 {
        async render() {
          await ask();
          return this;
        }
      },
    });
  }

  ready() {
    this.#env.game.socket.on(SOCKET, (message, sender) => this.#relayed(message, sender));
    this.elect();
  }

  /** Be the host if this is the browser for it, and stop being it otherwise. */
  elect(anew = false) {
    const { game } = this.#env;
    if (!game.ready) return;
    const token = this.#get("token");
    const mine = game.user.isGM && token && this.#hostOf()?.id === game.user.id;
    const target = mine ? { address: this.#get("address").trim(), token } : null;
    const wanted = JSON.stringify(target);
    if (wanted === this.#hosting && !anew) return;
    this.#hosting = wanted;
    if (target) this.#connection.start(target);
    else this.#connection.stop();
  }

  /** The game master whose browser speaks with the service; undefined if none is here. */
  #hostOf() {
    return this.#env.game.users
      .filter((user) => user.active && user.isGM && user.getFlag(ID, "host"))
      .sort((a, b) => (a.id < b.id ? -1 : 1))[0];
  }

  async askToken() {
    const { game } = this.#env;
    if (!game.user.isGM) return;
    const given = await this.#form("connection", forms.connection(this.#t), ["token"]);
    if (given === null) return;
    const token = given.token.trim();
    await game.settings.set(ID, "token", token);
    await game.user.setFlag(ID, "host", Boolean(token));
    this.elect(true);
  }

  // -- the chat

  /** Deal with what this user types; false says that it is no message. */
  typed(text) {
    const { game } = this.#env;
    if (!HUSH.test(text)) return this.#missing(text);
    if (this.#isHost) this.#host.hush(game.user.isGM ? undefined : game.user.id);
    else game.socket.emit(SOCKET, { type: "hush" });
    return false;
  }

  /** Note whom its author has targeted on a message that is about to be made. */
  mark(message, user) {
    const { game } = this.#env;
    if (user !== game.user.id || message.flags?.[ID]) return;
    const targets = [...game.user.targets];
    const actor = targets.length === 1 ? targets[0].document.actorId : null;
    if (actor && this.#links().some((link) => link.actor === actor)) {
      message.updateSource({ flags: { [ID]: { target: actor } } });
    }
  }

  /** Take a message that somebody has made. */
  heard(message) {
    if (!this.#isHost) return;
    const { game, CONST, ChatMessage } = this.#env;
    const { author, speaker } = message;
    const flags = message.flags[ID] ?? {};
    const ours = author.id === game.user.id && flags.npc !== undefined;
    // What is not for the eyes of this game master is not for NPCs either.
    const private_ = message.whisper.length && author.id !== game.user.id && !message.whisper.includes(game.user.id);
    if (ours || private_ || message.blind) return;
    // Anybody can write any name on a message: it counts if the character is theirs.
    const actor = ChatMessage.getSpeakerActor(speaker);
    const own = author.isGM || actor?.testUserPermission(author, "OWNER");
    this.#host.heard({
      user: { id: author.id, name: author.name },
      speaker: { name: own ? speaker.alias : author.name, scene: speaker.scene, token: own ? speaker.token : null },
      text: message.isRoll ? plain(message.flavor) : plain(message.content),
      inCharacter: message.style === CONST.CHAT_MESSAGE_STYLES.IC,
      target: flags.target,
      whisper: [...message.whisper],
      rolls: message.rolls.map(({ formula, total }) => ({ formula, total })),
    });
  }

  /** Say that nobody listens, to a player who speaks to an NPC. */
  #missing(text) {
    const { ui, game } = this.#env;
    const now = Date.now();
    if (!text.startsWith("@") || this.#hostOf() || now - this.#warned < 60_000) return;
    if (!this.#links().some(({ name }) => text.slice(1).toLowerCase().startsWith(name.toLowerCase()))) return;
    this.#warned = now;
    ui.notifications.warn(game.i18n.localize("GLYPHOXA.told.nobody"));
  }

  #relayed(message, sender) {
    // The server says who sent it; what the message says of that would be anybody's word.
    if (this.#isHost && message?.type === "hush" && this.#env.game.users.get(sender)) {
      this.#host.hush(this.#env.game.users.get(sender).isGM ? undefined : sender);
    }
  }

  // -- what game masters do

  addTool(controls) {
    const { game } = this.#env;
    if (!controls.tokens) return;
    controls.tokens.tools[ID] = {
      name: ID,
      title: "GLYPHOXA.direct.title",
      icon: "fa-solid fa-masks-theater",
      order: Object.keys(controls.tokens.tools).length,
      button: true,
      visible: game.user.isGM,
      onChange: () => this.direct(),
    };
  }

  /** An entry of a context menu, in the words of version 13 and of 14. */
  entry(key, icon, run) {
    const { game } = this.#env;
    const open = (element) => this.#guarded(() => run(element.dataset.entryId ?? element.dataset.documentId));
    const label = `GLYPHOXA.${key}.menu`;
    if (game.release.generation >= 14) {
      return { label, icon, visible: () => game.user.isGM, onClick: (_event, element) => open(element) };
    }
    return { name: label, icon: `<i class="${icon}"></i>`, condition: () => game.user.isGM, callback: open };
  }

  /** Ask which NPC an actor is. */
  async link(actor) {
    if (!this.#env.game.user.isGM || !actor) return;
    const npcs = this.#host.npcs;
    const now = actor.getFlag(ID, "npc") ?? "";
    const given = await this.#form("link", forms.link(this.#t, { name: actor.name, npcs, now }), ["npc"]);
    if (given === null) return;
    if (given.npc.trim()) await actor.setFlag(ID, "npc", given.npc.trim().slice(0, 200));
    else await actor.unsetFlag(ID, "npc");
  }

  /** Show the game master's buttons until they are closed. */
  async direct() {
    const { game, canvas } = this.#env;
    if (!game.user.isGM) return;
    await this.#guarded(async () => {
      if (!this.#isHost) throw new Error(game.i18n.localize("GLYPHOXA.told.notHost"));
      let given = {};
      for (;;) {
        const links = this.#links();
        given = await this.#form(
          "direct",
          forms.direct(this.#t, { links, muted: this.#host.muted, given }),
          ["npc", "text", "tier"],
          ["say", "mute", "unmute", "elevate", "interrupt", "end"],
        );
        if (given === null) return;
        const link = links.find(({ npc }) => npc === given.npc);
        await this.#guarded(() => this.#carryOut(given, link, canvas.scene?.id));
      }
    });
  }

  async #carryOut({ button, text, tier }, link, scene) {
    const { game } = this.#env;
    if (button === "end") {
      const sure = await this.#confirm("endTitle", forms.paragraph(this.#t("direct.endSure")));
      if (sure) await this.#host.end();
      return;
    }
    if (!link) return;
    const user = { id: game.user.id, name: game.user.name };
    if (button === "say" && text.trim()) await this.#host.speakAs(link, text.trim(), { scene, user });
    else if (button === "mute") await this.#host.mute(link.npc);
    else if (button === "unmute") await this.#host.mute(link.npc, false);
    else if (button === "elevate") await this.#host.elevate(link.npc, tier, 300);
    else if (button === "interrupt") await this.#host.interrupt(link.npc);
  }

  /** Ask which pages of a journal NPCs may know, and have the service learn them. */
  async teach(entry) {
    if (!this.#env.game.user.isGM || !entry) return;
    if (!this.#isHost) throw new Error(this.#t("told.notHost"));
    const data = entry.toObject();
    const names = data.pages.map((_, number) => `page${number}`);
    const given = await this.#form("teach", forms.teach(this.#t, data), [...names, "known"]);
    if (given === null) return;
    const pages = data.pages.filter((_, number) => given[`page${number}`]);
    if (!pages.length) return;
    const learnt = await this.#host.learn(documentOf(data, pages, { known: given.known }));
    this.#env.ui.notifications.info(this.#t("teach.done", harmless(learnt)));
  }

  // -- inside

  get #isHost() {
    return this.#hosting !== "" && this.#hosting !== "null";
  }

  #t = (key, data) => {
    const { i18n } = this.#env.game;
    return data ? i18n.format(`GLYPHOXA.${key}`, data) : i18n.localize(`GLYPHOXA.${key}`);
  };

  #get(key) {
    return this.#env.game.settings.get(ID, key) ?? "";
  }

  #links() {
    return linksOf(this.#env.game);
  }

  async #guarded(work) {
    try {
      return await work();
    } catch (error) {
      this.#env.ui.notifications.error(this.#t("told.refused", harmless({ why: error.message })));
    }
  }

  /** Ask in a dialog; resolves to the fields and the `button`, or to null. */
  #form(key, content, fields, actions = ["save"]) {
    const { DialogV2 } = this.#env.foundry.applications.api;
    const read = (button) => {
      const { elements } = button.form;
      const value = (field) => (field?.type === "checkbox" ? field.checked : (field?.value ?? ""));
      return { button: button.dataset.action, ...Object.fromEntries(fields.map((name) => [name, value(elements[name])])) };
    };
    return DialogV2.wait({
      window: { title: this.#t(`${key}.title`) },
      content,
      rejectClose: false,
      buttons: actions.map((action, place) => ({
        action,
        label: this.#t(`${key}.${action}`),
        default: place === 0,
        callback: (_event, button) => read(button),
      })),
    });
  }

  #confirm(title, content) {
    const { DialogV2 } = this.#env.foundry.applications.api;
    return DialogV2.confirm({ window: { title: this.#t(`direct.${title}`) }, content, rejectClose: false });
  }
}

/** The actors that are linked, as addressing.mjs wants them. */
function linksOf(game) {
  return game.actors
    .filter((actor) => actor.getFlag(ID, "npc"))
    .map((actor) => ({ actor: actor.id, name: actor.name, npc: actor.getFlag(ID, "npc") }));
}

/** Data for a notification, which Foundry takes for HTML. */
function harmless(data = {}) {
  return Object.fromEntries(Object.entries(data).map(([key, value]) => [key, html(value)]));
}

/** What the host needs of Foundry. */
class Table {
  #env;

  constructor(env) {
    this.#env = env;
  }

  links() {
    return linksOf(this.#env.game);
  }

  near({ speaker }, links) {
    const { game } = this.#env;
    const scene = game.scenes.get(speaker.scene);
    const token = scene?.tokens.get(speaker.token);
    if (!token) return [];
    const seen = (one) => ({
      actor: one.actorId,
      x: one.x,
      y: one.y,
      width: one.width,
      height: one.height,
      hidden: one.hidden,
    });
    const { size, distance } = scene.grid;
    const within = game.settings.get(ID, "hearing");
    return near(seen(token), scene.tokens.map(seen), links, { size, distance, within });
  }

  /** Post a chat message of an actor; `update` resolves to false once it was deleted. */
  async post({ link, scene, content, whisper, rolls }) {
    const { ChatMessage, CONST, game } = this.#env;
    const message = await ChatMessage.create({
      author: game.user.id,
      content,
      whisper,
      speaker: this.#speaker(link, scene),
      style: rolls ? CONST.CHAT_MESSAGE_STYLES.OTHER : CONST.CHAT_MESSAGE_STYLES.IC,
      flags: { [ID]: { npc: link.npc } },
      ...(rolls && { rolls }),
    });
    return {
      update: async (more) => {
        try {
          if (game.messages.has(message.id)) await message.update({ content: more });
        } catch (error) {
          if (game.messages.has(message.id)) throw error;
        }
        return game.messages.has(message.id);
      },
    };
  }

  /** Show what an NPC rolled: as a roll of Foundry's if it is one, and else as words. */
  async roll({ link, scene, whisper, roll, content }) {
    const { game, Roll } = this.#env;
    const who = game.settings.get(ID, "rolls");
    if (who === "off") return;
    const masters = game.users.filter((user) => user.isGM).map((user) => user.id);
    const to = who === "all" ? whisper : masters;
    const rolls = roll === null ? undefined : [Roll.fromData(roll)];
    await this.post({ link, scene, content: rolls ? "" : content, whisper: to, rolls });
  }

  /** Tell one user something, in the chat that only they see. */
  tellUser(user, key, data) {
    const { ChatMessage, game } = this.#env;
    if (user === game.user.id) return this.warn(key, data);
    ChatMessage.create({
      author: game.user.id,
      content: forms.paragraph(this.#words(key, data)),
      whisper: [user],
      flags: { [ID]: { npc: "" } },
    }).catch(() => {});
  }

  inform(key, data) {
    this.#env.ui.notifications.info(this.#words(key, harmless(data)));
  }

  warn(key, data) {
    this.#env.ui.notifications.warn(this.#words(key, harmless(data)));
  }

  /** Ask whether an NPC may use a tool; null if that is closed, or withdrawn. */
  async ask(asked, signal) {
    const { DialogV2 } = this.#env.foundry.applications.api;
    const t = (key, data) => this.#env.game.i18n.format(`GLYPHOXA.${key}`, data);
    return await DialogV2.confirm({
      window: { title: t("approve.title", asked) },
      content: forms.approve(t("approve.may", asked), asked.arguments),
      rejectClose: false,
      render: (_event, dialog) => signal.addEventListener("abort", () => dialog.close()),
    });
  }

  #words(key, data = {}) {
    return this.#env.game.i18n.format(`GLYPHOXA.told.${key}`, data);
  }

  #speaker(link, scene) {
    const { ChatMessage, game } = this.#env;
    const actor = game.actors.get(link.actor);
    const where = game.scenes.get(scene) ?? game.scenes.active;
    const token = where?.tokens.find((one) => one.actorId === link.actor && !one.hidden);
    return token ? ChatMessage.getSpeaker({ token }) : ChatMessage.getSpeaker({ actor, alias: link.name });
  }
}
