// An evening in Foundry: a game master and two players in browsers of their own, with the
// module, against a real service. Run by test_foundry_module.py with the folder of the
// module, the address of the service and the tokens.

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import net from "node:net";
import test, { after, before } from "node:test";
import { pathToFileURL } from "node:url";
import { World } from "./fake_foundry.mjs";

const [folder, url, token, playersToken] = process.argv.slice(2);
const { install: installed } = await import(pathToFileURL(`${folder}/scripts/foundry.mjs`));
const { wait } = await import(pathToFileURL(`${folder}/scripts/connection.mjs`));
const words = JSON.parse(await readFile(`${folder}/lang/en.json`, "utf8"));
const EVIL = "<img src=x onerror=alert(1)> [[/r 1d20]] @UUID[Actor.a]{b} & done.";
const ARGUMENTS = "the-vault-is-open";

const world = new World(words);
let [master, eve, dan] = [null, null, null];
let way = null; // between the browsers and the service, so that it can break

let waits = 0;
const sleep = (ms, signal) => wait(++waits && ms / 20, signal);
const install = (env) => installed(env, { sleep });

async function until(holds, what = String(holds)) {
  for (let waited = 0; !holds(); waited += 10) {
    if (waited > 10_000) assert.fail(`never: ${what}\n${JSON.stringify(state(), null, 1)}`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}
const messages = (browser = master) => [...browser.env.game.messages.values()];
const last = (browser) => messages(browser).at(-1);
const said = (text, browser) => until(() => last(browser)?.content === text, `${text} is said`);
const state = () => ({
  messages: messages().map((one) => [one.author.name, one.speaker.alias, one.content]),
  notes: master.notifications,
  dialogs: master.dialogs.length,
});

/** A proxy that can be closed, with all that goes through it. */
async function proxy() {
  const sockets = new Set();
  const { hostname, port } = new URL(url);
  const server = net.createServer((near) => {
    const far = net.connect(Number(port), hostname);
    for (const [one, other] of [[near, far], [far, near]]) {
      sockets.add(one);
      one.on("error", () => {}).on("close", () => (sockets.delete(one), other.destroy())).pipe(other);
    }
  });
  const listen = (port) => new Promise((resolve) => server.listen(port, "127.0.0.1", resolve));
  await listen(0);
  const { port: mine } = server.address();
  const cut = () => {
    server.close();
    for (const socket of sockets) socket.destroy();
  };
  return { url: `ws://127.0.0.1:${mine}/ws`, cut, restore: () => listen(mine) };
}

before(async () => {
  way = await proxy();
  const square = { size: 100, distance: 5 };
  const token = (_id, name, actorId, x, hidden = false) => ({ _id, name, actorId, x, y: 0, width: 1, height: 1, hidden });
  world.add("User", { _id: "gm", name: "Greta", role: 4 });
  world.add("User", { _id: "u1", name: "Eve", role: 1 });
  world.add("User", { _id: "u2", name: "Dan", role: 1 });
  const actor = (_id, name, ownership = {}) => world.add("Actor", { _id, name, ownership });
  actor("a1", "Bo the Innkeeper");
  actor("a2", "Ann");
  actor("p1", "Aria", { u1: 3 });
  actor("p2", "Dorn", { u2: 3 });
  world.add("Scene", {
    _id: "s1",
    grid: square,
    tokens: [token("t1", "The Innkeeper", "a1", 200), token("t2", "Ann", "a2", 400, true), token("t3", "Aria", "p1", 0)],
  });
  const page = (_id, name, content, level) => ({ _id, name, type: "text", text: { content }, ownership: { default: level } });
  world.add("JournalEntry", {
    _id: "j1",
    name: "The Harbour",
    ownership: { default: 2 },
    pages: [
      page("g1", "The Pier", "<p>The pier is made of whale bone.</p>", -1),
      page("g2", "Left out", "<p>Nobody chose this page.</p>", -1),
      page("g3", "The Smuggler", "<p>The smuggler sleeps in the lighthouse.</p>", 0),
    ],
  });
  world.settings.address = way.url;
  master = await world.login("gm", install);
  eve = await world.login("u1", install);
  dan = await world.login("u2", install, 14);
  eve.speaker = { alias: "Aria", actor: "p1", token: "t3", scene: "s1" };
});
after(async () => {
  await master.env.game.settings.set("glyphoxa", "token", "");
  way.cut();
});

test("without a host a player is told so, once", async () => {
  await master.env.game.actors.get("a2").setFlag("glyphoxa", "npc", "Ann");
  await eve.chat("@Ann hello?");
  await eve.chat("@Ann hello?");
  assert.deepEqual(eve.notifications, [["warn", words.GLYPHOXA.told.nobody]]);
  assert.equal(messages().length, 2);
});

test("a player's token is no use, and a wrong one is not tried again", async () => {
  for (const wrong of [playersToken, "a-token-that-is-wrong"]) {
    const opening = new master.menu.type().render();
    await until(() => master.dialogs.length);
    assert.match(master.dialogs[0].options.content, /type="password"/);
    master.answer("save", { token: wrong });
    await opening;
    await until(() => master.notifications.length);
    const [[kind, note]] = master.notifications.splice(0);
    assert.equal(kind, "warn");
    assert(!note.includes(wrong));
  }
});

test("the host connects once it has a token, which stays in its browser", async () => {
  const opening = new master.menu.type().render();
  await until(() => master.dialogs.length);
  master.answer("save", { token });
  await opening;
  await until(() => master.notifications.length);
  assert.deepEqual(master.notifications.splice(0), [["info", "Glyphoxa: connected with Bo, Ann"]]);
  for (const player of [eve, dan]) {
    assert.equal(player.env.game.user.isGM, false);
    await new player.menu.type().render();
    assert.equal(player.dialogs.length, 0);
  }
});

test("an actor is linked by a dialog", async () => {
  const entries = [];
  master.callAll("getActorContextOptions", {}, entries);
  const [{ name, condition, callback }] = entries;
  assert(condition({}) && words.GLYPHOXA.link.menu && name === "GLYPHOXA.link.menu");
  callback({ dataset: { entryId: "a1" } });
  await until(() => master.dialogs.length);
  assert.match(master.dialogs[0].options.content, /<option value="Bo">/);
  master.answer("save", { npc: "Bo" });
  await until(() => eve.env.game.actors.get("a1").getFlag("glyphoxa", "npc") === "Bo");
  const players = [];
  dan.callAll("getActorContextOptions", {}, players);
  assert.equal(players[0].visible({}), false);
  assert.equal(typeof players[0].onClick, "function"); // the names of version 14
  const header = [];
  eve.callAll("getHeaderControlsActorSheetV2", { document: eve.env.game.actors.get("a1") }, header);
  assert.equal(header[0].visible, false);
});

test("a named NPC answers as its token, in one message that grows", async () => {
  const grown = [];
  eve.env.Hooks.on("updateChatMessage", (message) => grown.push(message.content));
  await eve.chat("@bo the innkeeper, an ale!");
  await said("You said an ale!. So it is.", eve);
  assert.deepEqual(last(eve).speaker, { scene: "s1", token: "t1", actor: "a1", alias: "The Innkeeper" });
  assert.equal(last(eve).author.id, "gm");
  assert.deepEqual(grown, ["You said an ale!. So it is."]); // it began with one sentence
});

test("a targeted token is spoken to, and what is for nobody is not", async () => {
  const before = messages().length;
  await dan.chat("Hail?");
  const { user } = dan.env.game;
  const target = (actorId) => ({ document: { actorId } });
  user.targets.add(target("a2"));
  const mine = await dan.chat("Hail!");
  assert.deepEqual(mine.flags, { glyphoxa: { target: "a2" } });
  await said("You said Hail!. So it is.");
  assert.equal(last().speaker.alias, "Ann");
  user.targets.add(target("p1"));
  await dan.chat("And you two?");
  user.targets.clear();
  await dan.chat("@Zed hail");
  await dan.chat("bo@home");
  assert.equal(messages().length, before + 6);
});

test("who stands near hears what is said in character, unless it is hidden", async () => {
  await master.env.game.settings.set("glyphoxa", "hearing", 10);
  await eve.chat("Good evening");
  await said("You said Good evening. So it is.");
  assert.equal(last().flags.glyphoxa.npc, "Bo");
  await master.env.game.settings.set("glyphoxa", "hearing", 5);
  const before = messages().length;
  await eve.chat("Anybody?");
  await master.env.game.settings.set("glyphoxa", "hearing", 0);
  assert.equal(messages().length, before + 1);
});

test("what an NPC says, and what a player is called, is text", async () => {
  await dan.chat("@Ann <b>evil</b>");
  await until(() => last().content.endsWith("done."));
  assert(!/<(?!br>)|\[\[|@\w+\[/.test(last().content), last().content);
  assert.equal(last().content.replaceAll("\u2060", "").replaceAll("&lt;", "<").replaceAll("&gt;", ">").replaceAll("&amp;", "&"), EVIL);
});

test("a whisper is answered by a whisper, and one of others by nobody", async () => {
  await eve.chat("@Bo psst", { whisper: ["gm"] });
  await said("You said psst. So it is.");
  assert.deepEqual([...last().whisper].sort(), ["gm", "u1"]);
  const before = messages().length;
  await eve.chat("@Bo to dan alone", { whisper: ["u2"] });
  await new Promise((resolve) => setTimeout(resolve, 100));
  assert.equal(messages().length, before + 1);
});

test("nobody speaks under the name of another's character", async () => {
  await dan.chat("@Ann who am I?", { speaker: { actor: "p1", token: "t3", scene: "s1" }, alias: "Aria" });
  await said("Dan."); // the service says who spoke
});

test("dice of an NPC are a roll of Foundry's, for game masters", async () => {
  await master.chat("@Bo roll for me");
  await until(() => last().content.startsWith("It came to"));
  const rolled = messages().at(-2);
  assert.equal(rolled.isRoll, true, rolled.content);
  assert.equal(rolled.rolls[0].formula, "2d6 + 3");
  assert.deepEqual(rolled.whisper, ["gm"]);
  assert.equal(last().content, `It came to ${rolled.rolls[0].total}.`);
});

test("an NPC hears what a player rolls at it, by Foundry's own dice", async () => {
  const data = { class: "Roll", options: {}, dice: [], formula: "1d20", total: 17, evaluated: true };
  data.terms = [{ class: "Die", options: {}, evaluated: true, number: 1, faces: 20, modifiers: [], results: [{ result: 17, active: true }] }];
  eve.env.game.user.targets.add({ document: { actorId: "a1" } });
  const { ChatMessage, Roll } = eve.env;
  await ChatMessage.create({ author: "u1", speaker: eve.speaker, rolls: [Roll.fromData(data)], content: "17" });
  eve.env.game.user.targets.clear();
  await new Promise((resolve) => setTimeout(resolve, 100));
  await master.chat("@Bo overheard?");
  await said("Yes.");
});

test("an answer is interrupted by its player, by /hush, and by its deletion", async () => {
  await eve.chat("@Bo hang");
  await said("You said hang.");
  await dan.chat("/hush"); // it is not his
  await dan.chat("@Ann still there?");
  await said("You said still there?. So it is.");
  assert.equal(messages().at(-3).content, "You said hang.");
  await eve.chat("@Ann and you?");
  await said("You said and you?. So it is.");
  await until(() => messages().at(-5).content === "You said hang. —");
  for (const [who, hushes] of [[eve, eve], [eve, master]]) {
    await who.chat("@Bo hang");
    await said("You said hang.");
    await hushes.chat("/hush");
    await said("You said hang. —");
  }
  await dan.chat("@Bo slow");
  await until(() => last().content.startsWith("One."));
  await world.delete(last().id);
  await master.chat("@Bo free again?");
  await until(() => messages().some((one) => one.content === "You said free again?. So it is."));
});

test("a game master directs, and players have no buttons", async () => {
  const press = async (button, values) => {
    const before = master.dialogs[0];
    master.answer(button, values);
    await until(() => master.dialogs.length && master.dialogs[0] !== before);
  };
  const controls = { tokens: { tools: {} } };
  master.callAll("getSceneControlButtons", controls);
  assert.equal(controls.tokens.tools.glyphoxa.visible, true);
  controls.tokens.tools.glyphoxa.onChange();
  await until(() => master.dialogs.length);
  await press("say", { npc: "Bo", text: "Last <orders>!" });
  await said("Last &lt;orders&gt;!");
  assert.equal(last().speaker.token, "t1");
  await press("mute", { npc: "Bo" });
  assert.match(master.dialogs[0].options.content, /Bo the Innkeeper \(muted\)/);
  const before = messages().length;
  await dan.chat("@Bo hello?");
  assert.equal(messages().length, before + 1);
  await press("unmute", { npc: "Bo" });
  await eve.chat("@Bo hello again"); // Bo answers one after the other
  await said("You said hello again. So it is.");
  assert(!messages().some((one) => one.content.includes("You said hello?.")));
  await press("elevate", { npc: "Bo", tier: "deep" });
  await press("interrupt", { npc: "Bo" });
  master.answer("end", { npc: "Bo" });
  await until(() => master.dialogs.length && master.dialogs[0].options.buttons === undefined);
  master.dialogs.shift().done(true);
  await until(() => master.dialogs.length);
  master.dialogs.shift().close();
  assert.deepEqual(master.notifications, []);

  const theirs = { tokens: { tools: {} } };
  dan.callAll("getSceneControlButtons", theirs);
  assert.equal(theirs.tokens.tools.glyphoxa.visible, false);
  theirs.tokens.tools.glyphoxa.onChange();
  await new Promise((resolve) => setTimeout(resolve, 20));
  assert.equal(dan.dialogs.length, 0);
});

test("a tool is approved in a dialog of the game master's alone", async () => {
  for (const yes of [true, false]) {
    await master.chat("@Ann think carefully");
    await until(() => master.dialogs.length);
    assert.match(master.dialogs[0].options.content, new RegExp(ARGUMENTS));
    master.answer(yes);
    await said(yes ? "I know now." : "I may not.");
    await master.chat("and nothing"); // so that the next answer is a new one
  }
});

test("pages of a journal go into the memory, with who may know them", async () => {
  const entries = [];
  master.callAll("getJournalEntryContextOptions", {}, entries);
  entries[0].callback({ dataset: { entryId: "j1" } });
  await until(() => master.dialogs.length);
  master.answer("save", { page1: false, known: "levels" });
  await until(() => master.notifications.length);
  assert.deepEqual(master.notifications.splice(0), [["info", "2 facts of 3 entries are in the memory, 0 were skipped."]]);
  const theirs = [];
  eve.callAll("getJournalEntryContextOptions", {}, theirs);
  theirs[0].callback({ dataset: { entryId: "j1" } });
  await new Promise((resolve) => setTimeout(resolve, 20));
  assert.equal(eve.dialogs.length, 0);
});

test("who says too much is told so once, and NPCs rest", async () => {
  world.add("User", { _id: "u3", name: "Fay", role: 1 });
  for (const browser of world.browsers) browser.receive("create", "User", world.documents.User.get("u3"), "gm");
  const fay = await world.login("u3", install);
  const before = messages().length;
  await fay.chat("@Bo hang");
  await said("You said hang."); // he is known now
  for (let n = 0; n < 16; n += 1) await fay.chat("@Bo hang");
  const tooFast = () => messages().filter((one) => one.content === `<p>${words.GLYPHOXA.told.tooFast}</p>`);
  await until(() => tooFast().length);
  assert.deepEqual(tooFast().map((one) => [...one.whisper]), [["u3"]]);
  await eve.chat(`@Bo ${"long ".repeat(500)}`);
  await until(() => messages().some((one) => one.content === `<p>${words.GLYPHOXA.told.tooLong}</p>`));
  const hanging = () => messages().filter((one) => one.content === "You said hang.").length;
  await until(() => hanging() === 1);
  await master.chat("/hush");
  await until(() => hanging() === 0);
  const answers = messages().slice(before).filter((one) => one.flags.glyphoxa?.npc);
  assert(answers.length <= 10, `${answers.length} answers`);
});

test("a connection that breaks is told once, and nothing is said twice", async () => {
  master.notifications.length = 0;
  await master.chat("@Bo hang");
  await said("You said hang.");
  const before = messages().length;
  way.cut();
  await until(() => master.notifications.length);
  await until(() => last().content === "You said hang. …");
  await master.chat("@Ann are you there?");
  await until(() => master.notifications.length === 2);
  const tried = waits;
  await until(() => waits >= tried + 2); // it has tried again, and again
  assert.deepEqual(master.notifications.splice(0), [
    ["warn", words.GLYPHOXA.told.lost],
    ["warn", words.GLYPHOXA.told.away],
  ]);
  await way.restore();
  await until(() => master.notifications.length);
  assert.equal(master.notifications.splice(0)[0][0], "info");
  assert.equal(messages().length, before + 1); // the question is not asked again by itself
  await master.chat("@Ann and now?");
  await said("You said and now?. So it is.");
});

test("another game master takes over only with a token of their own", async () => {
  world.add("User", { _id: "gm2", name: "Gus", role: 4 });
  for (const browser of world.browsers) browser.receive("create", "User", world.documents.User.get("gm2"), "gm");
  const second = await world.login("gm2", install);
  await eve.chat("@Ann one answer?");
  await said("You said one answer?. So it is.");
  await new Promise((resolve) => setTimeout(resolve, 100));
  assert.equal(messages().filter((one) => one.content.includes("one answer?.")).length, 1);
  assert.deepEqual(second.notifications, []);
  await world.logout(second);
});

test("nothing secret has reached a player's browser", () => {
  for (const player of [eve, dan]) {
    const all = JSON.stringify([player.received, player.storage]);
    assert(all.includes("an ale!"));
    for (const secret of [token, ARGUMENTS]) assert(!all.includes(secret), secret);
  }
});
