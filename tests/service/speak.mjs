// What a program of a game does with the client: run by test_clients.py with a URL.

import assert from "node:assert/strict";

import { connect, GlyphoxaClosed, GlyphoxaError } from "../../clients/javascript/glyphoxa.mjs";

const [url, token] = process.argv.slice(2);

await assert.rejects(connect(url, { token: "a-token-that-is-wrong" }), (error) => {
  assert(error instanceof GlyphoxaClosed);
  assert.equal(error.code, 4001);
  return true;
});

const client = await connect(url, { token });
assert.equal(client.welcome.role, "game_master");
assert.deepEqual(
  (await client.join("one")).map((npc) => npc.name),
  ["Bo", "Ann"],
);

// An answer, in order and to its end.
const kinds = [];
const said = [];
const answer = client.say("Hail", { npc: "Bo", session: "one", speaker: "Eve" });
for await (const event of answer) {
  assert.equal(event.n, kinds.length + 1);
  kinds.push(event.event);
  if (event.event === "Sentence") said.push(event.text);
}
assert.deepEqual(said, ["You said Hail.", "So it is."]);
assert.equal(kinds.at(-1), "TurnDone");
assert.equal(answer.done.end, "completed");

// Two at once.
const both = await Promise.all(
  ["a", "b"].map((session) => client.say(session, { npc: "Bo", session }).finish()),
);
assert.deepEqual(
  both.map((done) => done.text),
  ["You said a. So it is.", "You said b. So it is."],
);

// Leaving the loop interrupts.
for await (const event of client.say("hang", { npc: "Bo", session: "one" })) {
  if (event.event === "Sentence") break;
}
const after = client.say("And?", { npc: "Bo", session: "one" });
assert.equal((await after.finish()).end, "completed");

// A voice.
let audio = 0;
for await (const event of client.say("aloud", { npc: "Ann", session: "one" })) {
  if (event.event === "Speech") {
    assert.equal(event.pcm.byteLength, event.bytes);
    audio += event.bytes;
  }
}
assert(audio > 0);

// A microphone, which hears from the moment at which it is accepted.
const ears = client.listen(8000, { npc: "Bo", session: "one" });
await ears.accepted();
client.send(new Uint8Array(400).fill(7));
await assert.rejects(client.listen(8000, { npc: "Bo" }).accepted(), GlyphoxaError);
ears.leave();
await ears.finish();

// Errors.
for (const [work, code] of [
  [() => client.say("x", { npc: "Zed" }).finish(), "not_found"],
  [() => client.say("x", { npc: "Bo", tier: "slow" }).finish(), "bad_message"],
  [() => client.request("sing"), "bad_message"],
]) {
  await assert.rejects(work, (error) => {
    assert(error instanceof GlyphoxaError);
    assert.equal(error.code, code);
    return true;
  });
}
assert.equal(await client.approve("none", true, "Bo", "one"), false);

client.close();
await new Promise((resolve) => setTimeout(resolve, 200));
assert.throws(() => client.say("x", { npc: "Bo" }), GlyphoxaClosed);
console.log("all is well");
