// The line to the server: the token, a stream of frames that survives interruptions, and questions about pods.
//
// The token comes in the address's fragment, which is never sent, and goes out in a header; it is kept for this tab
// alone. What follows it after a slash is what to show. A frame is a line of JSON, an empty line a sign of life. After
// an interruption the stream goes on from the last frame that was seen, or begins with a whole picture.

const STORED = "mooring-token";
const FIRST_PAUSE = 500;
const LONGEST_PAUSE = 10_000;
// The server sends a sign of life every ten seconds.
const SILENCE = 25_000;

export function takeToken() {
  const fragment = location.hash.slice(1);
  if (fragment && !fragment.startsWith("/")) {
    const [token, shown] = fragment.split(/\/(.*)/s);
    sessionStorage.setItem(STORED, token);
    history.replaceState(null, "", shown ? `/#/${shown}` : "/");
  }
  return sessionStorage.getItem(STORED) ?? "";
}

export class Refused extends Error {}

export class Connection {
  constructor(token, { onFrame, onState }) {
    this.token = token;
    this.onFrame = onFrame;
    this.onState = onState;
    this.epoch = "";
    this.number = 0;
    this.pause = FIRST_PAUSE;
    this.hurry = () => {};
  }

  async run() {
    for (;;) {
      try {
        await this.follow();
      } catch (error) {
        if (error instanceof Refused) {
          this.onState("refused", error.message);
          return;
        }
      }
      await this.rest();
    }
  }

  // Do not wait for the rest of the pause.
  retry() {
    this.hurry();
  }

  explain(kind, key) {
    const path = key.split("/").map(encodeURIComponent).join("/");
    return this.answer(`/api/${kind === "group" ? "groups" : "explanations"}/${path}`);
  }

  recovery() {
    return this.answer("/api/recovery");
  }

  async answer(url) {
    const response = await this.ask(url, {});
    return response.json();
  }

  async ask(url, options) {
    const headers = { Authorization: `Bearer ${this.token}` };
    const response = await fetch(url, { ...options, headers, cache: "no-store", credentials: "omit" });
    if (response.ok) return response;
    const { error } = await response.json().catch(() => ({ error: `The server answered ${response.status}.` }));
    throw response.status === 401 || response.status === 421 ? new Refused(error) : new Error(error);
  }

  async follow() {
    const aborter = new AbortController();
    let watchdog = 0;
    const alive = () => {
      clearTimeout(watchdog);
      watchdog = setTimeout(() => aborter.abort(), SILENCE);
    };
    alive();
    try {
      const query = new URLSearchParams({ epoch: this.epoch, number: String(this.number) });
      const response = await this.ask(`/api/frames?${query}`, { signal: aborter.signal });
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      let rest = "";
      for (;;) {
        const { done, value } = await reader.read();
        if (done) return;
        alive();
        const lines = (rest + value).split("\n");
        rest = lines.pop();
        for (const line of lines) this.take(line);
      }
    } finally {
      clearTimeout(watchdog);
    }
  }

  take(line) {
    this.pause = FIRST_PAUSE;
    this.onState("live");
    if (!line) return;
    const frame = JSON.parse(line);
    if (frame.whole) this.epoch = frame.epoch;
    this.number = frame.number;
    this.onFrame(frame);
  }

  async rest() {
    this.onState("reconnecting");
    await new Promise((done) => {
      this.hurry = done;
      setTimeout(done, this.pause);
    });
    this.pause = Math.min(this.pause * 1.8, LONGEST_PAUSE);
  }
}
