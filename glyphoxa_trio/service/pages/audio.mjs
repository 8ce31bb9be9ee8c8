// What runs in the browser's audio thread: a loudspeaker that counts what it has played,
// and a microphone that cuts what it hears into frames.

/** Plays pieces of PCM16 one after the other. It is told
 * {play: id, pcm, rate}, {flush: id}, and {held: bool}, where an id is that of a source;
 * it tells {id, played_ms, left}, at most every 40 ms. */
class Loudspeaker extends AudioWorkletProcessor {
  #pieces = [];
  #at = 0; // samples of the first piece that were played
  #held = false;
  #played = new Map(); // milliseconds by id
  #changed = new Set();
  #quiet = 0; // frames since the last report

  constructor() {
    super();
    this.port.onmessage = ({ data }) => this.#take(data);
  }

  #take(told) {
    if (told.held !== undefined) {
      this.#held = told.held;
    } else if (told.flush !== undefined) {
      if (this.#pieces[0]?.id === told.flush) this.#at = 0;
      this.#pieces = this.#pieces.filter((x) => x.id !== told.flush);
      this.#played.delete(told.flush);
      this.#changed.delete(told.flush);
    } else {
      this.#pieces.push({ id: told.play, samples: new Int16Array(told.pcm), rate: told.rate });
    }
  }

  process(_, outputs) {
    const out = outputs[0][0];
    for (let frame = 0; frame < out.length; frame++) out[frame] = this.#held ? 0 : this.#sample();
    this.#quiet += out.length;
    if (this.#changed.size && this.#quiet >= sampleRate * 0.04) this.#report();
    return true;
  }

  /** The next sample at the rate of the loudspeaker. */
  #sample() {
    let piece = this.#pieces[0];
    while (piece !== undefined && this.#at >= piece.samples.length) {
      this.#at -= piece.samples.length;
      this.#pieces.shift();
      piece = this.#pieces[0];
    }
    if (piece === undefined) {
      this.#at = 0;
      return 0;
    }
    const index = Math.floor(this.#at);
    const here = piece.samples[index];
    const next = piece.samples[index + 1] ?? here;
    const value = here + (next - here) * (this.#at - index);
    const step = piece.rate / sampleRate;
    this.#at += step;
    this.#played.set(piece.id, (this.#played.get(piece.id) ?? 0) + 1000 / sampleRate);
    this.#changed.add(piece.id);
    return value / 32768;
  }

  #report() {
    this.#quiet = 0;
    for (const id of this.#changed) {
      const left = this.#pieces.some((x) => x.id === id);
      this.port.postMessage({ id, played_ms: this.#played.get(id), left });
    }
    this.#changed.clear();
  }
}

/** Tells {pcm, level} for every 30 ms: PCM16 at the rate of the context, and the
 * loudest sample, from 0 to 1. */
class Microphone extends AudioWorkletProcessor {
  #frame = new Int16Array(Math.round(sampleRate * 0.03));
  #filled = 0;
  #level = 0;

  process(inputs) {
    const heard = inputs[0][0];
    for (const value of heard ?? []) {
      const loud = Math.max(-1, Math.min(1, value));
      this.#level = Math.max(this.#level, Math.abs(loud));
      this.#frame[this.#filled++] = Math.round(loud * 32767);
      if (this.#filled === this.#frame.length) this.#send();
    }
    return true;
  }

  #send() {
    const pcm = this.#frame.slice().buffer;
    this.port.postMessage({ pcm, level: this.#level }, [pcm]);
    this.#filled = 0;
    this.#level = 0;
  }
}

registerProcessor("glyphoxa-loudspeaker", Loudspeaker);
registerProcessor("glyphoxa-microphone", Microphone);
