// The parts of the module that need neither Foundry nor a service. Run by
// test_foundry_module.py with the folder of the module.

import assert from "node:assert/strict";
import test from "node:test";
import { pathToFileURL } from "node:url";

const [folder] = process.argv.slice(2);
const of = (name) => import(pathToFileURL(`${folder}/scripts/${name}.mjs`));
const { addressed, named, near } = await of("addressing");
const { Connection } = await of("connection");
const { rollOf, rolledWords } = await of("dice");
const { documentOf } = await of("journals");
const { Limits } = await of("limits");
const { html, plain, quoted } = await of("text");
const forms = await of("forms");

const link = (actor, name, npc) => ({ actor, name, npc });
const BO = link("a1", "Bo the Innkeeper", "Bo");
const BOBO = link("a2", "Bo-Bo", "Bobo");
const LINKS = [BO, BOBO];

test("the longest name counts, and only a whole one", () => {
  assert.deepEqual(named("@Bo, hail", LINKS), { link: BO, text: "hail" });
  assert.deepEqual(named(" @bo the innkeeper: hail", LINKS), { link: BO, text: "hail" });
  assert.deepEqual(named("@Bo-Bo hail", LINKS), { link: BOBO, text: "hail" });
  assert.deepEqual(named("@BOBO", LINKS), { link: BOBO, text: "" });
  for (const nobody of ["Bo, hail", "@Bob hail", "@", "@Zed", "me@Bo"]) assert.equal(named(nobody, LINKS), null);
});

test("a name goes before a target, and a target before who is near", () => {
  const around = () => [BO];
  assert.deepEqual(addressed({ text: "@Bobo hi", target: "a1" }, LINKS, around).links, [BOBO]);
  assert.deepEqual(addressed({ text: "hi", target: "a2" }, LINKS, around).links, [BOBO]);
  assert.deepEqual(addressed({ text: "hi", target: "x" }, LINKS, around).links, [BO]);
  assert.equal(addressed({ text: "hi" }, LINKS, () => []), null);
});

test("who is near is measured from middle to middle", () => {
  const at = (actor, x, y, more) => ({ actor, x, y, width: 1, height: 1, hidden: false, ...more });
  const me = at("p", 0, 0);
  const scene = { size: 100, distance: 5, within: 10 };
  const names = (tokens, change) => near(me, tokens, LINKS, { ...scene, ...change }).map((one) => one.npc);
  assert.deepEqual(names([at("a1", 200, 0), at("a2", 100, 0)]), ["Bobo", "Bo"]);
  assert.deepEqual(names([at("a1", 201, 0)]), []);
  assert.deepEqual(names([at("a1", 300, 0), at("a1", 0, 100)]), ["Bo"]);
  assert.deepEqual(names([at("a1", 100, 0, { width: 3 })]), ["Bo"]);
  assert.deepEqual(names([at("a1", 100, 0, { hidden: true }), at("p", 0, 0), at("x", 0, 0)]), []);
  for (const off of [{ within: 0 }, { size: 0 }, { distance: 0 }]) assert.deepEqual(names([at("a1", 0, 0)], off), []);
  assert.deepEqual(near(null, [at("a1", 0, 0)], LINKS, scene), []);
});

test("text becomes HTML that does nothing, and HTML becomes text", () => {
  const evil = `<a href="x" onclick='y'>&amp;</a> [[/r 1d20]] @UUID[Actor.x]{z}\nand`;
  assert(!/[<>"'](?!br>)/.test(html(evil).replaceAll("<br>", "")));
  assert(!html(evil).includes("[[") && !/@\w+\[/.test(html(evil)));
  assert.equal(quoted(`"><b>`), "&quot;&gt;&lt;b&gt;");
  assert.equal(plain(html("Hi [there] <b>\nyou & I")), "Hi [there] <b>\nyou & I");
  assert.equal(plain("<p>One&nbsp;&#8212; <b>two</b></p><p>three<br>four</p>"), "One — two\nthree\nfour");
  assert.equal(plain("<p>See @UUID[Actor.x]{Bo}, [[/r 1d20]]{a roll}</p>"), "See Bo, a roll");
  assert.equal(plain("a<script>alert(1)</script>b<!-- no -->c<style>x</style"), "abc");
  assert.equal(plain("a<script>alert(1)"), "a");
  assert.equal(plain("1 < 2 &lt;b&gt; &unknown; &#0; &#x110000;"), "1 < 2 <b> &unknown; &#0; &#x110000;");
  assert.equal(plain(undefined), "");
});

test("dice that were rolled are shown as they were rolled", () => {
  const { terms, formula, total } = rollOf({ expression: "4d6KH3 - d4 + 1d20adv+2", rolls: [4, 2, 3, -1, 17], dropped: [1, 4], total: 27 });
  assert.equal(formula, "4d6kh3 - 1d4 + 2d20kh + 2");
  assert.equal(total, 27);
  const dice = terms.filter((one) => one.class === "Die");
  assert.deepEqual(dice.map((one) => one.results.map(({ result, active }) => (active ? result : -result))), [[4, 2, 3, -1], [1], [17, -4]]);
  assert.equal(rollOf({ expression: "d%", rolls: [100], total: 100 }).terms[0].faces, 100);
  assert.equal(rollOf({ expression: "-1d4", rolls: [-3], total: -3 }).formula, "- 1d4");
});

test("a result that is no roll is none of Foundry's", () => {
  const good = { expression: "2d6+3", rolls: [4, 2], total: 9 };
  assert(rollOf(good));
  for (const bad of [
    null, undefined, "9", {}, { ...good, total: 10 }, { ...good, rolls: [4, 7] }, { ...good, rolls: [4] },
    { ...good, rolls: [4, 2, 1] }, { ...good, rolls: "42" }, { ...good, expression: "2d6+3x" }, { ...good, expression: "9" },
    { ...good, expression: "2d6 3" }, { ...good, expression: "999d6" }, { ...good, total: NaN }, { ...good, dropped: [1] },
    { ...good, dropped: {} }, { ...good, expression: "2d6kh3+3" }, { ...good, expression: "0d6" }, { ...good, expression: 5 },
  ]) assert.equal(rollOf(bad), null, JSON.stringify(bad));
});

test("what a player rolled is said in words", () => {
  assert.equal(rolledWords([{ formula: "1d20 + 5", total: 17 }, { formula: "x", total: NaN }]), "1d20 + 5 = 17");
  assert.equal(rolledWords([]), "");
});

test("a user may say so much, and is told once", () => {
  let now = 0;
  const limits = new Limits({ now: () => now, most: 2, within: 1000 });
  assert.deepEqual([1, 2, 3].map(() => limits.take("u")), ["", "", "tooFast"]);
  assert.equal(limits.take("v"), "");
  assert.deepEqual([limits.mayTell("u", "x"), limits.mayTell("u", "x"), limits.mayTell("u", "y")], [true, false, true]);
  now = 1000;
  assert.equal(limits.take("u"), "");
  assert.equal(limits.mayTell("u", "x"), true);
});

test("so many answers are given at once", async () => {
  const limits = new Limits({ atOnce: 1 });
  let end;
  const running = limits.during(() => new Promise((resolve) => (end = resolve)));
  assert.equal(limits.take("u"), "busy");
  end();
  await running;
  await assert.rejects(limits.during(async () => { throw new Error("no"); }));
  assert.equal(limits.take("u"), "");
});

test("a connection waits longer each time, and is told to be down once", async () => {
  const waits = [];
  const seen = [];
  let opened = 0;
  let end;
  const connection = new Connection({
    random: () => 1,
    sleep: async (ms) => void waits.push(ms),
    async open() {
      opened += 1;
      if (opened !== 7) throw Object.assign(new Error("away"), { code: opened === 9 ? 4001 : 1006 });
      return { closed: null, gone: new Promise((resolve) => (end = resolve)), close() {} };
    },
    told: {
      async up() { seen.push("up"); setImmediate(() => end({ code: 1001 })); },
      down: () => seen.push("down"),
      refused: ({ code }) => seen.push(code),
    },
  });
  connection.start({});
  while (!seen.includes(4001)) await new Promise((resolve) => setImmediate(resolve));
  assert.deepEqual(seen, ["down", "up", "down", 4001]);
  assert.deepEqual(waits, [1000, 2000, 4000, 8000, 16000, 30000, 1000, 2000]);
  assert.equal(connection.client, null);
});

test("a connection that is stopped while it opens is closed", async () => {
  let [give, closed] = [null, 0];
  const connection = new Connection({
    open: () => new Promise((resolve) => (give = resolve)),
    told: { up: () => assert.fail("it is up"), down: () => assert.fail("it is down"), refused: () => assert.fail("refused") },
  });
  connection.start({});
  connection.stop();
  give({ closed: null, gone: new Promise(() => {}), close: () => (closed += 1) });
  await new Promise((resolve) => setTimeout(resolve, 20));
  assert(closed >= 1);
  assert.equal(connection.client, null);
});

test("a journal keeps what players may see, and nothing else that is about them", () => {
  const page = (name, ownership, more) => ({ _id: name, name, type: "text", text: { content: `<p>${name}</p>` }, ownership, src: "x", ...more });
  const entry = { _id: "j", name: "Lore", ownership: { default: 2, u1: 3 }, pages: [], flags: { other: 1 } };
  const pages = [page("open", { default: -1, u2: 0 }), page("gm", { default: 0 }), page("plain", undefined)];
  const made = documentOf(entry, pages, { known: "levels" });
  assert.deepEqual(made.ownership, { default: 2 });
  assert.deepEqual(made.pages.map((one) => one.ownership), [{ default: -1 }, { default: 0 }, { default: -1 }]);
  assert.deepEqual(Object.keys(made.pages[0]), ["_id", "name", "type", "text", "ownership"]);
  const secret = documentOf(entry, pages, { known: "secret" });
  for (const one of [secret, ...secret.pages]) assert.deepEqual(one.ownership, { default: 0 });
});

test("what a dialog shows of others is text", () => {
  const t = (key, data) => `${key} ${Object.values(data ?? {}).join()}`;
  const evil = `"><script>x</script>`;
  const shown = [
    forms.connection(t),
    forms.link(t, { name: evil, npcs: [evil], now: evil }),
    forms.direct(t, { links: [{ npc: evil, name: evil }], muted: [evil], given: {} }),
    forms.teach(t, { name: evil, pages: [{ name: evil }] }),
    forms.approve(evil, evil),
  ];
  for (const one of shown) assert(!/<script|"">/.test(one), one);
});
