// The frame around the pages: which one is shown, the header, the banner, signing in and out.

import { onUnauthorized, token } from "./api.js";
import { fill, h, setText } from "./dom.js";
import { compact, duration, rate } from "./format.js";
import { live } from "./live.js";
import { showMetrics } from "./pages/metrics.js";
import { showNew } from "./pages/new.js";
import { showPlan } from "./pages/plan.js";
import { showQueries } from "./pages/queries.js";
import { showQuery } from "./pages/query.js";
import { showSignIn } from "./pages/sign_in.js";
import { announce, emptyState, setBadge } from "./widgets.js";

const main = document.getElementById("main");
const banner = document.getElementById("banner");
const part = (name) => document.getElementById(`fact-${name}`);

const ROUTES = [
  [/^\/?$/, "queries", "Queries", showQueries],
  [/^\/queries\/([^/]+)$/, "queries", null, showQuery],
  [/^\/plan$/, "plan", "Shared plan", showPlan],
  [/^\/metrics$/, "metrics", "Metrics", showMetrics],
  [/^\/new$/, "new", "New query", showNew],
];

const ENGINE = {
  failing: (error) => [
    "bad",
    `The engine fails: ${error || "its log says why"}. It is tried again; committed results stay readable.`,
  ],
  stuck: (error) => [
    "bad",
    `The engine is stuck: ${error || "its log says why"}. No batch is committed; committed results stay readable.`,
  ],
  failed: (error) => ["bad", `The engine has failed: ${error || "its log says why"}. Committed results stay readable.`],
  starting: () => ["info", "The engine is starting. Queries can be created once it runs."],
  stopping: () => ["info", "The engine is stopping. This page goes on when the service is back."],
};

let shown = new AbortController();
let signedOut = false;

/** Show the page that the address names. Pages end what they have begun when their signal is aborted. */
function route({ focus = true } = {}) {
  if (signedOut) return;
  const path = location.hash.slice(1).split("?")[0];
  for (const [pattern, page, title, show] of ROUTES) {
    const match = pattern.exec(path);
    if (!match) continue;
    const names = match.slice(1).map(decoded);
    open(page, title ?? names[0], (root, signal) => show(root, signal, ...names), focus);
    return;
  }
  open("", "Not found", (root) => {
    root.append(emptyState("There is no such page", h("p", {}, h("a", { href: "#/" }, "Go to the list of queries"))));
  });
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function open(page, title, show, focus = true) {
  shown.abort();
  shown = new AbortController();
  document.title = `${title} · weft`;
  for (const link of document.querySelectorAll("nav [data-page]")) {
    if (link.dataset.page === page) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  fill(main);
  main.dataset.page = page;
  scrollTo(0, 0);
  show(main, shown.signal);
  if (focus && !main.contains(document.activeElement)) main.focus({ preventScroll: true });
}

/** The token is missing or wrong: nothing can be shown until there is a good one. */
function signIn(error) {
  if (signedOut) return;
  signedOut = true;
  const rejected = token.get() !== "";
  live.clear();
  token.clear();
  showFacts();
  showBanner();
  open("", "Sign in", (root) => showSignIn(root, { message: rejected ? error.message : "", done: signedIn }));
}

function signedIn() {
  signedOut = false;
  announce("Signed in.");
  live.start();
  route();
}

function signOut() {
  token.clear();
  signIn({ message: "" });
}

function showFacts() {
  const status = live.status;
  const lost = live.connection.state === "lost";
  setBadge(part("state"), signedOut ? "signed out" : lost ? "offline" : (status?.state ?? "connecting"));
  const limit = status?.limits?.live_queries;
  setText(part("live"), status ? `${compact(status.live)}${limit ? ` of ${compact(limit)}` : ""}` : "–");
  setText(part("rate"), rate(status?.rows_per_second));
  setText(part("latency"), duration(status?.latency_seconds));
  const tenant = status?.tenant ?? "";
  setText(part("tenant"), status?.admin && tenant ? `${tenant} (admin)` : tenant);
  part("tenant-box").hidden = !tenant;
  document.getElementById("sign-out").hidden = token.get() === "";
  document.getElementById("facts").hidden = signedOut;
}

let countdown = 0;

/** A banner is there only while something is wrong, and says what happens next. */
function showBanner() {
  clearTimeout(countdown);
  const { state, error, until } = live.connection;
  const engine = live.status?.state;
  if (signedOut) hideBanner();
  else if (state === "lost") {
    const seconds = Math.max(0, Math.ceil((until - Date.now()) / 1000));
    const why = error?.status ? `The service is not ready: ${error.message}.` : "The service cannot be reached.";
    tellBanner("bad", `${why} What you see may be old.`, ` Next attempt in ${seconds} s.`);
    countdown = setTimeout(showBanner, 1000);
  } else if (state === "denied") tellBanner("bad", `The service does not tell how it is: ${error.message}.`);
  else if (ENGINE[engine]) tellBanner(...ENGINE[engine](live.status.error));
  else if (state === "open") hideBanner();
}

function hideBanner() {
  banner.hidden = true;
  fill(banner);
}

/** The countdown is in a part of its own that is not read out every second. */
function tellBanner(kind, text, waiting = "") {
  banner.className = `banner ${kind}`;
  banner.hidden = false;
  if (banner.firstChild?.textContent !== text) {
    const retry = h("button", { type: "button", on: { click: () => live.retry() } }, "Retry now");
    fill(banner, h("span", {}, text), waiting && h("span", { class: "waiting", "aria-live": "off" }), waiting && retry);
  }
  const place = banner.querySelector(".waiting");
  if (place) setText(place, waiting);
}

onUnauthorized(signIn);
live.addEventListener("tick", showFacts);
live.addEventListener("connection", () => {
  showFacts();
  showBanner();
});
document.getElementById("sign-out").addEventListener("click", signOut);
window.addEventListener("hashchange", () => route());
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
live.start();
route({ focus: false });
