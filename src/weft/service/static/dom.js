// Elements made by hand: data only ever become text or attributes, never markup.

const SVG = "http://www.w3.org/2000/svg";

/** An HTML element. `on` holds listeners, `data` data attributes; null, undefined and false attributes are left out. */
export function h(tag, attributes = {}, ...children) {
  return build(document.createElement(tag), attributes, children);
}

/** An SVG element, with the same attributes as `h`. */
export function svg(tag, attributes = {}, ...children) {
  return build(document.createElementNS(SVG, tag), attributes, children);
}

function build(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "on") for (const [type, listener] of Object.entries(value)) element.addEventListener(type, listener);
    else if (name === "data") Object.assign(element.dataset, value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  append(element, children);
  return element;
}

function append(element, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child);
  }
}

/** Replace everything inside an element. */
export function fill(element, ...children) {
  element.replaceChildren();
  append(element, children);
  return element;
}

/** Set an element's text if it differs: screen readers and selections are left alone otherwise. */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** A listener that runs once, `delay` milliseconds after the last call; `cancel` forgets a call. */
export function debounce(listener, delay) {
  let timer = 0;
  const later = (...args) => {
    clearTimeout(timer);
    timer = setTimeout(() => listener(...args), delay);
  };
  later.cancel = () => clearTimeout(timer);
  return later;
}
