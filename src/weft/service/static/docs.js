// The service's requests, from its own OpenAPI document: a page that needs nothing from elsewhere.

import { fill, h } from "./dom.js";
import { problem, section, table } from "./widgets.js";

const METHODS = ["get", "post", "put", "patch", "delete"];

/** A schema in words; those with names are links to where they are spelled out. */
export function typeText(schema) {
  if (!schema) return "anything";
  if (schema.$ref) return nameOf(schema.$ref);
  const choices = schema.anyOf ?? schema.oneOf;
  if (choices) return choices.map(typeText).join(" or ");
  if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(" or ");
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (schema.type === "array") return `list of ${typeText(schema.items)}`;
  if (schema.type === "object" && typeof schema.additionalProperties === "object") {
    return `object of ${typeText(schema.additionalProperties)}`;
  }
  return schema.type ?? "anything";
}

/** Requests in the order of the document: {method, path, operation}. */
export function operationsOf({ paths }) {
  return Object.entries(paths).flatMap(([path, item]) =>
    METHODS.filter((method) => item[method]).map((method) => ({ method, path, operation: item[method] })),
  );
}

function nameOf(reference) {
  return reference.split("/").at(-1);
}

function typed(schema) {
  const references = JSON.stringify(schema ?? {}).matchAll(/"#\/components\/schemas\/([^"]+)"/g);
  const names = [...references].map(([, name]) => name);
  const links = [...new Set(names)].map((name) => h("a", { href: `#${name}` }, name));
  const text = typeText(schema);
  return links.length === 1 && text === names[0] ? links[0] : h("span", {}, text, links.map((link) => [" ", link]));
}

function bodyOf({ requestBody }) {
  return requestBody?.content?.["application/json"]?.schema;
}

function requestSection({ method, path, operation }) {
  const rows = (operation.parameters ?? []).map(({ name, in: place, required, schema }) => [
    h("code", {}, name),
    `${place}${required ? ", required" : ""}`,
    typed(schema),
  ]);
  if (bodyOf(operation)) rows.push([h("code", {}, "body"), "JSON", typed(bodyOf(operation))]);
  const given = table(`What ${method} ${path} takes`, ["Parameter", "In", "Type"]);
  given.body.append(...rows.map((row) => given.row(row)));
  const answers = Object.entries(operation.responses ?? {}).map(([status, { content }]) =>
    h("li", {}, h("b", {}, status), " ", typed(content?.["application/json"]?.schema)),
  );
  return h(
    "details",
    { class: "request" },
    h("summary", {}, h("b", {}, method.toUpperCase()), " ", h("code", {}, path), " ", operation.description ?? ""),
    rows.length > 0 && given.element,
    h("h3", {}, "Answers"),
    h("ul", { class: "names" }, answers),
  );
}

function shapeSection([name, schema]) {
  const required = new Set(schema.required ?? []);
  const fields = Object.entries(schema.properties ?? {});
  const given = table(`Fields of ${name}`, ["Field", "Type", ""]);
  given.body.append(
    ...fields.map(([field, type]) =>
      given.row([h("code", {}, field), typed(type), required.has(field) ? "" : "may be left out"]),
    ),
  );
  const content = fields.length ? given.element : h("p", {}, typeText(schema));
  const words = schema.description && h("p", { class: "muted" }, schema.description);
  return h("div", { id: name }, h("h3", {}, name), words, content);
}

async function show(root) {
  const response = await fetch("openapi.json", { cache: "no-store", credentials: "omit" });
  const documentation = await response.json();
  const { title, version } = documentation.info;
  const groups = Map.groupBy(operationsOf(documentation), ({ operation }) => operation.tags?.[0] ?? "other");
  fill(
    root,
    h("div", { class: "title" }, h("h1", {}, "Requests"), h("p", { class: "muted" }, `${title} ${version}`)),
    [...groups].map(([tag, requests]) => section(tag, requests.map(requestSection))),
    section("Shapes", Object.entries(documentation.components?.schemas ?? {}).map(shapeSection)),
  );
}

const main = document.getElementById("main");
show(main).catch((error) => fill(main, problem(error)));
