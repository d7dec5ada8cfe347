// Server-sent events read with fetch, because EventSource cannot send the Authorization header.

import { request } from "./api.js";

const FIRST_WAIT = 1000;
const LONGEST_WAIT = 15000;
const HIDDEN_FOR = 10000;

/** Cuts a text that comes in pieces into events {event, data, id}; comments are left out. An id alone has no data (null). */
export function eventParser(emit) {
  let begun = []; // pieces of a line without its end: a long one is joined once, not with every piece
  let event = { event: "message", data: [], id: null };
  const line = (text) => {
    if (text === "") {
      const data = event.data.length ? event.data.join("\n") : null;
      if (data !== null || event.id !== null) emit({ ...event, data });
      event = { event: "message", data: [], id: null };
      return;
    }
    const colon = text.indexOf(":");
    if (colon === 0) return;
    const field = colon < 0 ? text : text.slice(0, colon);
    const value = colon < 0 ? "" : text.slice(colon + 1).replace(/^ /, "");
    if (field === "data") event.data.push(value);
    else if (field === "event" || field === "id") event[field] = value;
  };
  return (piece) => {
    const [first, ...others] = piece.split("\n");
    begun.push(first);
    for (const next of others) {
      line(begun.join("").replace(/\r$/, ""));
      begun = [next];
    }
  };
}

/**
 * Keeps a connection for events, and opens it again when it is lost, later every time.
 *
 * `on` are functions by name of event, given its data. `before` is awaited before each attempt. `state` is told
 * "connecting", "open", "lost" (with the error and the milliseconds until the next attempt) and "denied" (with the
 * error). A connection that is silent for longer than `patience` is lost. A page that nobody looks at lets go of its
 * connections, since browsers allow only six to one host.
 */
export class EventStream {
  constructor(path, { on, state = () => {}, before = async () => {}, patience = 40000, last = null }) {
    this.path = path;
    this.on = on;
    this.state = state;
    this.before = before;
    this.patience = patience;
    this.last = last;
    this.failures = 0;
    this.stopped = false;
    this.visibility = () => this.#seen();
    document.addEventListener("visibilitychange", this.visibility);
    this.#connect();
  }

  /** Close it for good. */
  stop() {
    this.stopped = true;
    document.removeEventListener("visibilitychange", this.visibility);
    this.#letGo();
  }

  /** Try again at once. */
  retry() {
    if (this.stopped) return;
    this.#letGo();
    this.#connect();
  }

  #letGo() {
    clearTimeout(this.timer);
    clearTimeout(this.watch);
    clearTimeout(this.hiding);
    this.controller?.abort();
    this.controller = null;
  }

  #seen() {
    clearTimeout(this.hiding);
    if (document.hidden) this.hiding = setTimeout(() => this.#letGo(), HIDDEN_FOR);
    else if (!this.controller) this.retry();
  }

  async #connect() {
    const controller = new AbortController();
    this.controller = controller;
    this.state("connecting");
    try {
      this.#expect(controller);
      await this.before(controller.signal);
      const headers = { Accept: "text/event-stream", ...(this.last ? { "Last-Event-ID": this.last } : {}) };
      const response = await request(this.path, { headers, signal: controller.signal });
      this.failures = 0;
      this.state("open");
      await this.#read(response, controller);
      this.#lost(controller, null);
    } catch (error) {
      this.#lost(controller, error);
    }
  }

  async #read(response, controller) {
    const parse = eventParser(({ event, data, id }) => {
      if (controller !== this.controller) return;
      if (id !== null) this.last = id;
      if (data !== null) this.on[event]?.(JSON.parse(data));
    });
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    for (;;) {
      this.#expect(controller);
      const { done, value } = await reader.read();
      if (done) return;
      parse(value);
    }
  }

  #expect(controller) {
    clearTimeout(this.watch);
    this.watch = setTimeout(() => this.#lost(controller, null), this.patience);
  }

  #lost(controller, error) {
    if (controller !== this.controller || this.stopped) return;
    this.#letGo();
    if (error?.status === 401 || error?.status === 403 || error?.status === 404) {
      this.state("denied", { error });
      return;
    }
    const wait = Math.min(LONGEST_WAIT, FIRST_WAIT * 2 ** this.failures++);
    this.timer = setTimeout(() => this.#connect(), wait);
    this.state("lost", { error, wait });
  }
}
