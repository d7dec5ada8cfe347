// The form for a tenant's token.

import { ServiceError, request, token } from "../api.js";
import { fill, h } from "../dom.js";
import { problem } from "../widgets.js";

/** Ask for a token until the service takes one; it is kept for this tab only. */
export function showSignIn(root, { message, done }) {
  const field = h("input", {
    id: "token",
    type: "password",
    required: true,
    autocomplete: "off",
    spellcheck: "false",
    "aria-describedby": "token-help",
  });
  const trouble = h("div", { "aria-live": "assertive" });
  const button = h("button", { class: "primary", type: "submit" }, "Sign in");
  const submit = async (event) => {
    event.preventDefault();
    button.disabled = true;
    token.set(field.value.trim());
    try {
      await request("v1/status");
      done();
    } catch (error) {
      token.clear();
      fill(trouble, problem(explained(error)));
      button.disabled = false;
      field.select();
    }
  };
  root.append(
    h(
      "form",
      { class: "sign-in card", on: { submit } },
      h("h1", {}, "Sign in"),
      h("p", { class: "muted", id: "token-help" }, "This service has tenants. The token is kept in this tab only."),
      h("label", { for: "token" }, "Token"),
      field,
      trouble,
      button,
    ),
  );
  if (message) fill(trouble, problem({ message, hint: "Sign in again with a token that is valid." }));
  field.focus();
}

function explained(error) {
  if (error.status !== 401) return error;
  const hint = "Check that it is complete; whoever runs the service has the tokens of its tenants.";
  return new ServiceError(401, { message: "no tenant has this token", hint });
}
