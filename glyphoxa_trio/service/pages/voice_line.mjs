// Speaking by microphone: push to talk, or open; what was understood, and what is wrong.

import { client } from "./service.mjs";
import { Loudspeaker, openMicrophone, whyNoMicrophone } from "./voice.mjs";

const PUSH = "F2";
const at = (id) => document.getElementById(id);

export class VoiceLine {
  loudspeaker = new Loudspeaker();
  #seat;
  #talk;
  #stream; // shows what comes of a microphone
  #turnTo;
  #microphone = null;
  #answer = null;
  #ended = null; // the stream of the answer, to its end
  #accepted = false;
  #pressed = false;
  #speaks = false; // an NPC answers the microphone
  #line = null; // the words that are being understood

  constructor({ seat, talk, stream, turnTo }) {
    this.#seat = seat;
    this.#talk = talk;
    this.#stream = stream;
    this.#turnTo = turnTo;
    at("mic").addEventListener("click", () => (this.on ? this.#turnOff("") : this.#turnOn()));
    at("open").addEventListener("change", () => this.#explain());
    const hold = at("hold");
    hold.addEventListener("pointerdown", (event) => {
      hold.setPointerCapture(event.pointerId);
      this.#press(true);
    });
    for (const name of ["pointerup", "pointercancel", "blur"]) hold.addEventListener(name, () => this.#press(false));
    const key = (event) => event.key === PUSH || (event.target === hold && (event.key === " " || event.key === "Enter"));
    for (const [name, down] of [["keydown", true], ["keyup", false]]) {
      addEventListener(name, (event) => {
        if (!this.on || !key(event)) return;
        event.preventDefault();
        if (!event.repeat) this.#press(down);
      });
    }
    addEventListener("blur", () => this.#press(false));
  }

  get on() {
    return this.#microphone !== null;
  }

  /** Say if this is the answer to the microphone. */
  is(answer) {
    return answer === this.#answer;
  }

  /** There is a connection: the microphone is heard again, if it was on. */
  connected() {
    if (this.on) this.#listen();
  }

  /** Take an event of the microphone's turns. */
  take(event) {
    if (event.event === "HearingFailed") {
      this.#tell(`It was not understood: ${event.detail}`);
    } else if (event.event === "Transcript") {
      this.#understood(event);
    } else if (event.turn) {
      this.#speaks = event.event !== "TurnDone";
    }
  }

  /** The service refuses the microphone. */
  failed(error) {
    this.#turnOff(error.message);
  }

  /** Interrupt an NPC that answers the microphone, which stays on. */
  async interrupt() {
    if (!this.#speaks) return;
    this.#speaks = false;
    this.#answer.leave();
    await this.#ended;
    if (this.on && client() !== null) this.#listen();
  }

  async #turnOn() {
    this.#tell("");
    try {
      this.#microphone = await openMicrophone((pcm, level) => this.#heard(pcm, level), () => this.#turnOff("The microphone was taken away."));
    } catch (error) {
      this.#tell(whyNoMicrophone(error));
      return;
    }
    this.#show();
    if (client() !== null) this.#listen();
  }

  #turnOff(why) {
    this.#microphone?.close();
    this.#microphone = null;
    this.#answer?.leave();
    this.#answer = null;
    this.#pressed = false;
    this.#show();
    this.#tell(why);
  }

  async #listen() {
    this.#accepted = false;
    this.#line = null;
    this.#turnTo();
    const answer = client().listen(this.#microphone.rate, { session: this.#seat.session, speaker: this.#seat.name });
    this.#answer = answer;
    this.#ended = this.#stream(answer);
    const accepted = await answer.accepted().then(() => true, () => false);
    if (accepted && this.is(answer)) {
      this.#accepted = true;
      this.#explain();
    }
  }

  #heard(pcm, level) {
    at("level").value = level;
    if (!this.#accepted || !(at("open").checked || this.#pressed)) return;
    if (client()?.closed === null) client().send(pcm);
  }

  #press(down) {
    this.#pressed = down && this.on;
    at("hold").classList.toggle("down", this.#pressed);
  }

  #understood({ text, speaker, final }) {
    if (this.#line === null) this.#line = this.#talk.said({ speaker, to: this.#seat.to, text, own: true });
    this.#talk.change(this.#line, { text, note: final && !text ? "not understood" : "" });
    if (final) this.#line = null;
  }

  #show() {
    at("mic").setAttribute("aria-pressed", this.on);
    for (const id of ["hold", "level", "open-label"]) at(id).hidden = !this.on;
  }

  #explain() {
    this.#tell(at("open").checked
      ? "The microphone is open: whatever is said near it is heard."
      : `The microphone is on: hold ${PUSH} or the button while you speak.`);
  }

  #tell(text) {
    at("mic-told").textContent = text;
  }
}
