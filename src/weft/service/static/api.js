// Requests to the service. Addresses are relative to the page, so that a proxy may put it under any path.

const TOKEN = "weft.token";

/** What the service answers when it cannot do something; `status` is 0 when it could not be reached. */
export class ServiceError extends Error {
  constructor(status, { code = "unreachable", message = "", detail = "", hint = "" } = {}) {
    super(message || `the service answered with status ${status}`);
    this.status = status;
    this.code = code;
    this.detail = detail;
    this.hint = hint;
  }
}

let whenUnauthorized = () => {};

/** Who is told when a request needs a token, or a better one. */
export function onUnauthorized(listener) {
  whenUnauthorized = listener;
}

/** The token of this tab; it is forgotten when the tab is closed. */
export const token = {
  get: () => sessionStorage.getItem(TOKEN) ?? "",
  set: (value) => sessionStorage.setItem(TOKEN, value),
  clear: () => sessionStorage.removeItem(TOKEN),
};

/** A response that is not an error; raises ServiceError otherwise. */
export async function request(path, { method = "GET", body, headers = {}, signal } = {}) {
  const sent = { Accept: "application/json", ...headers };
  if (token.get()) sent.Authorization = `Bearer ${token.get()}`;
  if (body !== undefined) sent["Content-Type"] = "application/json";
  let response;
  try {
    response = await fetch(path, {
      method,
      headers: sent,
      body: body === undefined ? undefined : JSON.stringify(body),
      signal,
      cache: "no-store",
      credentials: "omit",
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ServiceError(0, { message: "the service cannot be reached", hint: "Check that it is running." });
  }
  if (response.ok) return response;
  const error = new ServiceError(response.status, await errorOf(response));
  if (response.status === 401) whenUnauthorized(error);
  throw error;
}

async function errorOf(response) {
  try {
    return await response.json();
  } catch {
    return { code: "unknown", message: `the service answered ${response.status} ${response.statusText}` };
  }
}

const get = async (path, signal) => (await request(path, { signal })).json();
const post = async (path, body, signal) => (await request(path, { method: "POST", body, signal })).json();

/** The path of a query, or of something of it. */
export function queryPath(name, part = "") {
  return `v1/queries/${encodeURIComponent(name)}${part}`;
}

export const api = {
  status: (signal) => get("v1/status", signal),
  plan: (signal) => get("v1/plan", signal),
  streams: async (signal) => (await get("v1/streams", signal)).streams,
  queries: async (state, signal) => (await get(`v1/queries?state=${state}&latest=true`, signal)).queries,
  query: (name, signal) => get(queryPath(name), signal),
  explain: (name, signal) => get(queryPath(name, "/explain"), signal),
  validate: (sql, signal) => post("v1/validate", { sql }, signal),
  whatIf: (sql, signal) => post("v1/what-if", { sql }, signal),
  create: (query) => post("v1/queries", query),
  drop: async (name) => (await request(queryPath(name), { method: "DELETE" })).json(),
};
