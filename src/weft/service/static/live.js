// What the pages show, kept up to date by the service's events.

import { api } from "./api.js";
import { EventStream } from "./stream.js";
import { toSeconds } from "./format.js";

const MOST_BATCHES = 120;
const MOST_POINTS = 60;
const PAUSE = 1000;
const SILENCE = 12000; // a tick comes at least every five seconds

/**
 * The engine as it was last heard of. Events: "tick" with every tick, "change" when queries have come, gone or changed
 * state, "connection" when the connection or the engine's state has changed.
 */
class Live extends EventTarget {
  status = null;
  batches = [];
  queries = {};
  operators = {};
  streams = {};
  connection = { state: "connecting", error: null, until: 0 };
  #histories = new Map();
  #names = null; // of none, so that the first tick is a change
  #stream = null;

  /** Begin to listen, or begin again, as after signing in. */
  start() {
    this.stop();
    this.#stream = new EventStream("v1/events", {
      on: { tick: (tick) => this.#take(tick) },
      state: (state, { error = null, wait = 0 } = {}) => this.#connected({ state, error, until: Date.now() + wait }),
      before: (signal) => this.#begin(signal),
      patience: SILENCE,
    });
  }

  /** Listen no more. */
  stop() {
    this.#stream?.stop();
    this.#stream = null;
  }

  /** Forget everything, as after signing out. */
  clear() {
    this.stop();
    Object.assign(this, { status: null, batches: [], queries: {}, operators: {}, streams: {} });
    this.#histories.clear();
    this.#names = null; // of none, so that the first tick is a change
  }

  /** Connect at once instead of later. */
  retry() {
    this.#stream?.retry();
  }

  /** Rates and latencies of a query by batch; `known` is what the service has told with the query. */
  history(name, known) {
    if (!this.#histories.has(name) && known) {
      const points = known.map((point) => ({ ...point, at: toSeconds(point.at) }));
      this.#histories.set(name, points.slice(-MOST_POINTS));
    }
    return this.#histories.get(name) ?? [];
  }

  /** Listen for an event until the signal is aborted. */
  listen(type, listener, signal) {
    this.addEventListener(type, listener, { signal });
  }

  async #begin(signal) {
    const { history, ...status } = await api.status(signal);
    this.batches = (history ?? []).slice(-MOST_BATCHES);
    this.#histories.clear();
    this.#names = null; // of none, so that the first tick is a change
    this.status = status;
    this.#tell("tick");
  }

  #connected(connection) {
    this.connection = connection;
    this.#tell("connection");
  }

  #take(tick) {
    const before = this.status?.state;
    this.status = { ...this.status, ...(tick.status ?? { state: tick.state, error: tick.error }) };
    const { queries = this.queries, operators = {}, streams = this.streams } = tick; // an engine that is down has none
    Object.assign(this, { queries, operators, streams });
    if (tick.batch && tick.batch.batch !== this.batches.at(-1)?.batch) this.#add(tick.batch);
    this.#tell("tick");
    if (before !== this.status.state) this.#tell("connection");
    const names = Object.entries(this.queries).map(([name, { state }]) => `${name}:${state}`).sort().join(" ");
    if (names !== this.#names) {
      this.#names = names;
      this.#tell("change");
    }
  }

  #add(batch) {
    this.batches = [...this.batches, batch].slice(-MOST_BATCHES);
    for (const [name, points] of this.#histories) {
      const query = this.queries[name];
      if (!query) {
        this.#histories.delete(name);
        continue;
      }
      const { rows_per_second, latency_seconds } = query;
      points.push({ at: batch.at, rows_per_second, latency_seconds });
      if (points.length > MOST_POINTS) points.shift();
    }
  }

  #tell(type) {
    this.dispatchEvent(new Event(type));
  }
}

export const live = new Live();

/** Run `load` now and when queries have changed: never twice at once, and at most once a second. */
export function reloading(load, signal) {
  let running = false;
  let again = false;
  const run = async () => {
    again = true;
    if (running) return;
    running = true;
    while (again && !signal.aborted) {
      again = false;
      await load();
      await new Promise((resolve) => setTimeout(resolve, PAUSE));
    }
    running = false;
  };
  live.listen("change", run, signal);
  run();
  return run;
}

/** Whether a query has come to its end. */
export function hasEnded(state) {
  return state === "dropped" || state === "failed";
}

/** The present figures of a query: what the last tick said, or else what the service told with the query. */
export function current(query) {
  return hasEnded(query.state) ? query : { ...query, ...live.queries[query.name] }; // another may have its name by now
}
