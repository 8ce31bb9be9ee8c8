// A stand-in for Foundry VTT, version 13, as far as the module uses it: a server with the
// documents of a world, and browsers that are logged in. Stricter than the original where
// it can be: unknown fields, missing translations, settings that are not registered and
// whatever a user may not do are errors. Documents that browsers share go through JSON.
// Every browser is sent all messages, whispers too: nothing may rely on less.

import assert from "node:assert/strict";
import { setImmediate as soon } from "node:timers/promises";

const STYLES = { OTHER: 0, OOC: 1, IC: 2, EMOTE: 3 };
const MESSAGE = { author: "", content: "", flavor: "", whisper: [], blind: false, speaker: {}, style: 0, rolls: [], flags: {} };
const TERMS = { Die: ["number", "faces", "modifiers", "results"], OperatorTerm: ["operator"], NumericTerm: ["number"] };
const copy = (data) => JSON.parse(JSON.stringify(data));

/** A collection as Foundry has it: of values, by their ids. */
class Collection extends Map {
  filter(holds) {
    return [...this.values()].filter(holds);
  }
  map(change) {
    return [...this.values()].map(change);
  }
  find(holds) {
    return [...this.values()].find(holds);
  }
}

class Document {
  constructor(browser, kind, data) {
    Object.assign(this, { browser, kind, _source: copy(data) });
    Object.defineProperty(this, "browser", { enumerable: false });
    this.refresh();
  }
  refresh() {
    for (const [key, value] of Object.entries(copy(this._source))) if (key !== "_id") this[key] = value;
    this.id = this._source._id;
  }
  toObject() {
    return copy(this._source);
  }
  getFlag(scope, key) {
    assert(scope === "glyphoxa" || scope === "core", `Flag scope "${scope}" is not valid`);
    return this._source.flags?.[scope]?.[key];
  }
  async setFlag(scope, key, value) {
    return await this.update({ flags: { [scope]: { [key]: value } } });
  }
  async unsetFlag(scope, key) {
    return await this.update({ flags: { [scope]: { [`-=${key}`]: null } } });
  }
  async update(changes) {
    await this.browser.world.update(this.browser, this.kind, this.id, copy(changes));
    return this;
  }
  testUserPermission(user, level) {
    assert.equal(level, "OWNER");
    return user.isGM || this._source.ownership?.[user.id] === 3;
  }
}

class User extends Document {
  targets = new Set();
  get isGM() {
    return this._source.role === 4;
  }
  get active() {
    return this.browser.world.active(this.id);
  }
}

class Scene extends Document {
  refresh() {
    super.refresh();
    this.tokens = new Collection(this._source.tokens.map((one) => [one._id, { ...copy(one), id: one._id, parent: this }]));
  }
}

class Roll {
  constructor(data) {
    this.data = copy(data);
    Object.assign(this, { formula: data.formula, total: data.total });
  }
  static fromData(data) {
    assert.equal(data.class, "Roll");
    let [total, sign] = [0, 1];
    for (const { class: name, options, evaluated, ...fields } of data.terms) {
      assert.deepEqual(Object.keys(fields).sort(), [...(TERMS[name] ?? assert.fail(name))].sort());
      assert(evaluated && options);
      if (name === "OperatorTerm") sign = fields.operator === "-" ? -1 : 1;
      else if (name === "NumericTerm") total += sign * fields.number;
      else {
        assert.equal(fields.results.length, fields.number);
        assert(fields.results.every(({ result }) => result >= 1 && result <= fields.faces));
        total += sign * fields.results.reduce((sum, one) => sum + (one.active ? one.result : 0), 0);
      }
    }
    assert.equal(total, data.total, "a roll must be what its dice say");
    return new Roll(data);
  }
  toJSON() {
    return this.data;
  }
}

class ApplicationV2 {}

/** The world: what the server has, and the browsers that are logged in. */
export class World {
  documents = { User: new Map(), Actor: new Map(), Scene: new Map(), JournalEntry: new Map(), ChatMessage: new Map() };
  settings = {};
  browsers = [];
  #ids = 0;

  constructor(words) {
    this.words = words;
  }

  add(kind, data) {
    this.documents[kind].set(data._id, { flags: {}, ...data });
  }

  active(user) {
    return this.browsers.some((browser) => browser.userId === user);
  }

  /** Log somebody in; `install` makes a module at home there. */
  async login(userId, install, generation = 13) {
    const browser = new Browser(this, userId, generation);
    this.browsers.push(browser);
    install(browser.env);
    browser.start();
    for (const other of this.browsers) if (other !== browser) other.callAll("userConnected", other.env.game.users.get(userId), true);
    await soon();
    return browser;
  }

  async logout(browser) {
    this.browsers.splice(this.browsers.indexOf(browser), 1);
    for (const other of this.browsers) other.callAll("userConnected", other.env.game.users.get(browser.userId), false);
    await soon();
  }

  async create(browser, data) {
    await soon();
    const user = this.documents.User.get(browser.userId);
    assert(data.author === user._id, "a message is its author's own");
    for (const id of data.whisper) assert(this.documents.User.has(id), `no user ${id}`);
    assert(Object.values(STYLES).includes(data.style));
    const made = { _id: `m${++this.#ids}`, ...copy(data) };
    this.documents.ChatMessage.set(made._id, made);
    for (const one of this.browsers) one.receive("create", "ChatMessage", made, user._id);
    return made._id;
  }

  async update(browser, kind, id, changes) {
    await soon();
    const found = this.documents[kind].get(id) ?? assert.fail(`${kind} ${id} does not exist`);
    const user = this.documents.User.get(browser.userId);
    const own = kind === "User" ? id === user._id : found.author === user._id || found.ownership?.[user._id] === 3;
    assert(user.role === 4 || own, `${user.name} may not update ${kind} ${id}`);
    merge(found, changes);
    for (const one of this.browsers) one.receive("update", kind, found, user._id, changes);
  }

  async delete(id) {
    this.documents.ChatMessage.delete(id);
    for (const one of this.browsers) one.env.game.messages.delete(id);
  }
}

class Browser {
  hooks = new Map();
  dialogs = [];
  notifications = [];
  received = []; // all that the server has sent
  storage = {};
  #registered = new Map();
  #ready = false;
  #listeners = new Map();

  constructor(world, userId, generation) {
    Object.assign(this, { world, userId });
    this.env = this.#globals(generation);
  }

  start() {
    this.callAll("init");
    const { game } = this.env;
    for (const [kind, Kind, place] of [
      ["User", User, "users"],
      ["Actor", Document, "actors"],
      ["Scene", Scene, "scenes"],
      ["JournalEntry", Document, "journal"],
    ]) {
      for (const data of this.world.documents[kind].values()) {
        this.received.push(data);
        game[place].set(data._id, new Kind(this, kind, data));
      }
    }
    game.scenes.active = game.scenes.get("s1");
    this.received.push(this.world.settings);
    this.#ready = true;
    game.ready = true;
    this.callAll("ready");
  }

  callAll(name, ...values) {
    for (const call of this.hooks.get(name) ?? []) call(...values);
  }
  /** Hooks that may refuse do so with false alone; a promise is never waited for. */
  call(name, ...values) {
    return (this.hooks.get(name) ?? []).every((call) => call(...values) !== false);
  }

  receive(what, kind, data, user, changes) {
    this.received.push(copy(data));
    const { game } = this.env;
    const place = { User: "users", Actor: "actors", ChatMessage: "messages" }[kind];
    if (what === "create") game[place].set(data._id, kind === "User" ? new User(this, kind, data) : new this.env.ChatMessage(data));
    const found = game[place].get(data._id);
    found._source = copy(data);
    found.refresh();
    this.callAll(`${what}${kind}`, found, ...(what === "create" ? [{}] : [changes, {}]), user);
  }

  /** Type something into the chat, as somebody with a character or without. */
  async chat(text, { whisper = [], speaker = this.speaker ?? {}, alias } = {}) {
    const said = { alias: this.env.game.user.name, ...speaker, ...(alias && { alias }) };
    if (!this.call("chatMessage", {}, text, { speaker: said, user: this.userId })) return null;
    assert(!text.startsWith("/"), `${text} is not a valid chat message command`);
    const { OOC, IC } = STYLES;
    const content = text.replaceAll("\n", "<br>");
    return await this.env.ChatMessage.create({ author: this.userId, content, speaker: said, whisper, style: said.token ? IC : OOC });
  }

  /** Answer the dialog that is open with a button and values of its fields. */
  answer(action, values = {}) {
    const { options, done } = this.dialogs.shift() ?? assert.fail("no dialog is open");
    if (options.buttons === undefined) return done(action);
    const chosen = options.buttons.find((one) => one.action === action) ?? assert.fail(action);
    const names = [...options.content.matchAll(/name="(\w+)"/g)].map(([, name]) => name);
    const elements = {};
    for (const name of names) {
      const box = new RegExp(`type="checkbox" name="${name}"`).test(options.content);
      elements[name] = box ? { type: "checkbox", checked: values[name] ?? true } : { type: "text", value: values[name] ?? "" };
    }
    for (const name of Object.keys(values)) assert(names.includes(name), `there is no field ${name}`);
    done(chosen.callback({}, { form: { elements }, dataset: { action } }, {}));
  }

  #globals(generation) {
    const browser = this;
    const { world } = this;

    class ChatMessage extends Document {
      constructor(data) {
        super(browser, "ChatMessage", data);
      }
      refresh() {
        super.refresh();
        this.author = browser.env.game.users.get(this._source.author);
        this.rolls = this._source.rolls.map((one) => Roll.fromData(JSON.parse(one)));
      }
      get isRoll() {
        return this.rolls.length > 0;
      }
      updateSource(changes) {
        assert(!world.documents.ChatMessage.has(this.id), "only before it is made");
        merge(this._source, copy(changes));
        this.refresh();
      }
      async update(changes) {
        for (const key of Object.keys(changes)) assert(key in MESSAGE, key);
        return await super.update(changes);
      }
      static async create(data) {
        for (const key of Object.keys(data)) assert(key in MESSAGE, `${key} is no field of a chat message`);
        const rolls = (data.rolls ?? []).map((one) => (typeof one === "string" ? one : JSON.stringify(one)));
        const draft = new ChatMessage({ ...MESSAGE, author: browser.userId, ...data, rolls });
        if (!browser.call("preCreateChatMessage", draft, data, {}, browser.userId)) return null;
        const { _id, ...source } = draft._source;
        const id = await world.create(browser, source);
        return browser.env.game.messages.get(id);
      }
      static getSpeaker({ token, actor, alias } = {}) {
        if (token) return { scene: token.parent.id, token: token.id, actor: token.actorId, alias: alias ?? token.name };
        return { scene: null, token: null, actor: actor.id, alias: alias ?? actor.name };
      }
      static getSpeakerActor(speaker) {
        return browser.env.game.actors.get(speaker.actor) ?? null;
      }
    }

    const game = {
      ready: false,
      world: { id: "saltmarsh" },
      release: { generation },
      users: new Collection(),
      actors: new Collection(),
      scenes: Object.assign(new Collection(), { active: null }),
      journal: new Collection(),
      messages: new Collection(),
      get user() {
        return browser.#ready ? game.users.get(browser.userId) : null;
      },
      socket: {
        on: (event, call) => browser.#listeners.set(event, call),
        emit(event, data) {
          assert.equal(event, "module.glyphoxa", "a module has one event of its own");
          const sent = copy(data);
          for (const one of world.browsers) if (one !== browser) soon().then(() => one.#listeners.get(event)?.(sent, browser.userId));
        },
      },
      i18n: {
        localize: (key) => text(world.words, key),
        format: (key, data) =>
          text(world.words, key).replace(/\{(\w+)\}/g, (_, name) => data[name] ?? assert.fail(`${key} needs ${name}`)),
      },
      settings: {
        register(namespace, key, how) {
          assert.equal(namespace, "glyphoxa");
          assert(["world", "client", "user"].includes(how.scope) && typeof how.type === "function");
          if (how.config) for (const words of [how.name, how.hint]) text(world.words, words);
          for (const words of Object.values(how.choices ?? {})) text(world.words, words);
          browser.#registered.set(key, how);
        },
        registerMenu(namespace, key, how) {
          assert.equal(namespace, "glyphoxa");
          assert(how.restricted && how.type.prototype instanceof ApplicationV2);
          for (const words of [how.name, how.hint, how.label]) text(world.words, words);
          browser.menu = how;
        },
        get(namespace, key) {
          const how = browser.#registered.get(key) ?? assert.fail(`${namespace}.${key} is not a registered game setting`);
          return (how.scope === "world" ? world.settings : browser.storage)[key] ?? how.default;
        },
        async set(namespace, key, value) {
          const how = browser.#registered.get(key) ?? assert.fail(`${namespace}.${key} is not a registered game setting`);
          assert.equal(typeof value, typeof how.default);
          await soon();
          if (how.scope === "world") {
            assert(game.user.isGM, "only a game master sets what is the world's");
            world.settings[key] = value;
            for (const one of world.browsers) {
              one.received.push({ [key]: value });
              one.#registered.get(key).onChange?.(value);
            }
          } else {
            browser.storage[key] = value;
            how.onChange?.(value);
          }
        },
      },
    };
    const open = (options) =>
      new Promise((resolve) => {
        text(world.words, "GLYPHOXA.direct.title");
        assert.equal(options.rejectClose, false);
        const shown = { options, done: resolve };
        const close = () => {
          browser.dialogs = browser.dialogs.filter((one) => one !== shown);
          resolve(null);
        };
        browser.dialogs.push(shown);
        shown.close = close;
        options.render?.({}, { close });
      });
    const note = (kind) => (message) => browser.notifications.push([kind, message]);
    const { hooks } = this;
    const on = (name, call) => hooks.set(name, [...(hooks.get(name) ?? []), call]);
    return {
      game,
      ChatMessage,
      Roll,
      CONST: { CHAT_MESSAGE_STYLES: STYLES },
      Hooks: { on, once: on },
      canvas: { scene: { id: "s1" } },
      ui: { notifications: { info: note("info"), warn: note("warn"), error: note("error") } },
      foundry: { applications: { api: { ApplicationV2, DialogV2: { wait: open, confirm: open } } } },
    };
  }
}

function text(words, key) {
  const found = key.split(".").reduce((place, part) => place?.[part], words);
  return typeof found === "string" ? found : assert.fail(`no translation of ${key}`);
}

function merge(into, changes) {
  for (const [key, value] of Object.entries(changes)) {
    if (key.startsWith("-=")) delete into[key.slice(2)];
    else if (value && typeof value === "object" && !Array.isArray(value)) merge((into[key] ??= {}), value);
    else into[key] = value;
  }
}
