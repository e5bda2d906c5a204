// A message as the HTTP request of a `google.api.http` binding: what is in the path, the query and the body.

/** @typedef {{ verb: string, template: string, body: string }} Binding */
/** @typedef {import("./form.js").Types} Types */

/**
 * @param {Binding} binding @param {any} message its JSON @param {Types} types @param {string} type
 * @returns {{ path: string, body: string | undefined }} the path with its query, without the `/` before it
 * @throws {Error} where a part of the path is not set
 */
export function restRequest(binding, message, types, type) {
  const fields = new Map(leaves(message ?? {}, types, type));
  const path = binding.template.replace(/^\//, "").replace(/\{([^}=]+)(?:=([^}]*))?\}/g, (_, name, pattern = "*") => {
    const value = fields.get(name);
    if (value === undefined || value === "") throw new Error(`set ${name}: it is a part of the path ${binding.template}`);
    fields.delete(name);
    const text = encodeURIComponent(String(value));
    return pattern === "*" ? text : text.replaceAll("%2F", "/");
  });
  const used = binding.template.match(/\{[^}=]+/g)?.map((one) => one.slice(1)) ?? [];
  if (binding.body === "*") return { path, body: JSON.stringify(without(message ?? {}, used, types, type)) };
  const query = new URLSearchParams();
  for (const [name, value] of fields) {
    if (binding.body && (name === binding.body || name.startsWith(`${binding.body}.`))) continue;
    for (const one of Array.isArray(value) ? value : [value]) query.append(name, typeof one === "object" ? JSON.stringify(one) : String(one));
  }
  const ofBody = types.get(type)?.fields?.find((field) => field.name === binding.body);
  const body = ofBody ? JSON.stringify(message?.[ofBody.jsonName] ?? {}) : undefined;
  return { path: query.size ? `${path}?${query}` : path, body };
}

/**
 * The fields of a message that are not messages, by the path of their names in the `.proto`.
 * @param {any} message @param {Types} types @param {string} type @param {string} [before]
 * @returns {[string, any][]}
 */
function leaves(message, types, type, before = "") {
  return (types.get(type)?.fields ?? []).flatMap((field) => {
    const value = Object.hasOwn(message, field.jsonName) ? message[field.jsonName] : undefined;
    if (value === undefined || value === null) return [];
    const isMessage = field.kind === "one" && typeof value === "object" && types.get(field.type)?.fields;
    return isMessage ? leaves(value, types, field.type, `${before}${field.name}.`) : [[`${before}${field.name}`, value]];
  });
}

/** A message without these fields. @param {any} message @param {string[]} names @param {Types} types @param {string} type @returns {any} */
function without(message, names, types, type) {
  const fields = types.get(type)?.fields ?? [];
  return Object.fromEntries(Object.entries(message).flatMap(([key, value]) => {
    const field = fields.find((one) => one.jsonName === key);
    if (!field || !names.some((name) => name === field.name || name.startsWith(`${field.name}.`))) return [[key, value]];
    if (names.includes(field.name)) return [];
    const inner = names.filter((name) => name.startsWith(`${field.name}.`)).map((name) => name.slice(field.name.length + 1));
    const rest = without(value, inner, types, field.type);
    return Object.keys(rest).length ? [[key, rest]] : [];
  }));
}
