// A form for any message of protobuf. What it edits is the JSON of the message: absent fields are absent.

import { h, useState } from "./preact.js";
import { visible } from "./text.js";

/** @typedef {{ name: string, jsonName: string, type: string, kind: string, key?: string, oneof?: string, optional?: boolean, comment?: string, redacted?: boolean }} FieldInfo */
/** @typedef {{ name: string, fields?: FieldInfo[], values?: { name: string, number?: number }[], comment?: string }} TypeInfo */
/** @typedef {Map<string, TypeInfo>} Types */

const WHOLE = ["int32", "uint32", "sint32", "fixed32", "sfixed32"];
const LONG = ["int64", "uint64", "sint64", "fixed64", "sfixed64"];
/** Examples of types that JSON has a form of its own for. */
const EXAMPLES = /** @type {Record<string, string>} */ ({
  "google.protobuf.Timestamp": '"2026-01-31T12:00:00Z"', "google.protobuf.Duration": '"1.5s"',
  "google.protobuf.FieldMask": '"name,item.sku"', "google.protobuf.Struct": '{"a": 1}', "google.protobuf.Empty": "{}",
  "google.protobuf.Any": '{"@type": "type.googleapis.com/…"}',
});

/** @param {any} of @param {string} name */
const member = (of, name) => (of && typeof of === "object" && Object.hasOwn(of, name) ? of[name] : undefined);

/**
 * An object with one member another; undefined takes it out. Any name is a name, `__proto__` too.
 * @param {any} of @param {string} name @param {unknown} value
 */
export function withMember(of, name, value) {
  const rest = Object.entries(of && typeof of === "object" ? of : {}).filter(([key]) => key !== name);
  return Object.fromEntries(value === undefined ? rest : [...rest, [name, value]]);
}

/** @param {{ types: Types, type: string, value: any, onChange: (value: any) => void, path?: string }} props */
export function MessageForm({ types, type, value, onChange, path = "" }) {
  const fields = types.get(type)?.fields ?? [];
  if (fields.length === 0) return h("p", { class: "muted" }, "It has no fields.");
  const drawn = new Set();
  return h("div", { class: "message" }, fields.map((field) => {
    if (!field.oneof || (field.optional && field.oneof.startsWith("_"))) return h(OneField, { key: field.jsonName, types, field, value, onChange, path });
    if (drawn.has(field.oneof)) return null;
    drawn.add(field.oneof);
    return h(Oneof, { key: field.oneof, name: field.oneof, fields: fields.filter((other) => other.oneof === field.oneof), types, value, onChange, path });
  }));
}

/** @param {{ name: string, fields: FieldInfo[], types: Types, value: any, onChange: (value: any) => void, path: string }} props */
function Oneof({ name, fields, types, value, onChange, path }) {
  const set = fields.find((field) => member(value, field.jsonName) !== undefined);
  const choose = (/** @type {string} */ chosen) => {
    let next = value;
    for (const field of fields) next = withMember(next, field.jsonName, undefined);
    const field = fields.find((one) => one.jsonName === chosen);
    onChange(field ? withMember(next, field.jsonName, initial(types, field)) : next);
  };
  return h("fieldset", null,
    h("legend", null, `${name} (one of)`),
    h("select", { "aria-label": `${path}${name}`, value: set?.jsonName ?? "", onChange: (/** @type {any} */ e) => choose(e.currentTarget.value) },
      h("option", { value: "" }, "none"), fields.map((field) => h("option", { value: field.jsonName }, field.jsonName))),
    set ? h(OneField, { types, field: set, value, onChange, path }) : null);
}

/** @param {{ types: Types, field: FieldInfo, value: any, onChange: (value: any) => void, path: string }} props */
function OneField({ types, field, value, onChange, path }) {
  const name = field.jsonName;
  const here = `${path}${name}`;
  const mine = member(value, name);
  const set = (/** @type {unknown} */ next) => onChange(withMember(value, name, next));
  const title = [field.comment, field.redacted ? "marked debug_redact" : ""].filter(Boolean).join("\n") || undefined;
  if (field.kind === "list") return h(List, { types, field, value: mine, onChange: set, path: here, title });
  if (field.kind === "map") return h(MapOf, { types, field, value: mine, onChange: set, path: here, title });
  if (isMessage(types, field.type)) {
    return h("fieldset", { title }, h("legend", null, name, h("span", { class: "muted" }, ` ${field.type}`)),
      mine === undefined
        ? h("button", { type: "button", onClick: () => set({}), "aria-label": `Set ${here}` }, "Set")
        : [h(MessageForm, { types, type: field.type, value: mine, onChange: set, path: `${here}.` }), h("button", { type: "button", onClick: () => set(undefined), "aria-label": `Remove ${here}` }, "Remove")]);
  }
  return h("label", { class: "field", title },
    h("span", null, name, h("span", { class: "muted" }, ` ${field.type}`)),
    h(Scalar, { types, type: field.type, value: mine, onChange: set, label: here, optional: field.optional }));
}

/** @param {{ types: Types, field: FieldInfo, value: any, onChange: (value: any) => void, path: string, title?: string }} props */
function List({ types, field, value, onChange, path, title }) {
  const items = Array.isArray(value) ? value : [];
  const put = (/** @type {any[]} */ next) => onChange(next.length ? next : undefined);
  return h("fieldset", { title }, h("legend", null, field.jsonName, h("span", { class: "muted" }, ` list of ${field.type}`)),
    items.map((item, at) => h("div", { class: "item", key: at },
      h(Value, { types, type: field.type, value: item, onChange: (next) => put(items.with(at, next ?? null)), path: `${path}[${at}]` }),
      h("button", { type: "button", "aria-label": `Remove ${path}[${at}]`, onClick: () => put(items.toSpliced(at, 1)) }, "×"))),
    h("button", { type: "button", "aria-label": `Add to ${path}`, onClick: () => put([...items, initial(types, { ...field, kind: "one" })]) }, "+ Add"));
}

/** @param {{ types: Types, field: FieldInfo, value: any, onChange: (value: any) => void, path: string, title?: string }} props */
function MapOf({ types, field, value, onChange, path, title }) {
  const [next, setNext] = useState("");
  const entries = Object.entries(value && typeof value === "object" ? value : {});
  const put = (/** @type {any} */ all) => onChange(Object.keys(all).length ? all : undefined);
  return h("fieldset", { title }, h("legend", null, field.jsonName, h("span", { class: "muted" }, ` map of ${field.key} to ${field.type}`)),
    entries.map(([key, item]) => h("div", { class: "item", key }, h("code", null, visible(key)),
      h(Value, { types, type: field.type, value: item, onChange: (to) => put(withMember(value, key, to ?? null)), path: `${path}[${visible(key)}]` }),
      h("button", { type: "button", "aria-label": `Remove ${path}[${visible(key)}]`, onClick: () => put(withMember(value, key, undefined)) }, "×"))),
    h("div", { class: "item" },
      h("input", { "aria-label": `New key of ${path}`, placeholder: "key", value: next, onInput: (/** @type {any} */ e) => setNext(e.currentTarget.value) }),
      h("button", { type: "button", "aria-label": `Add to ${path}`, onClick: () => { put(withMember(value, next, initial(types, { ...field, kind: "one" }))); setNext(""); } }, "+ Add")));
}

/** @param {{ types: Types, type: string, value: any, onChange: (value: any) => void, path: string }} props */
function Value({ types, type, value, onChange, path }) {
  return isMessage(types, type)
    ? h(MessageForm, { types, type, value, onChange, path: `${path}.` })
    : h(Scalar, { types, type, value, onChange, label: path });
}

/** @param {{ types: Types, type: string, value: any, onChange: (value: any) => void, label: string, optional?: boolean }} props */
function Scalar({ types, type, value, onChange, label, optional }) {
  const values = types.get(type)?.values;
  const absent = value === undefined;
  const typed = (/** @type {(text: string) => unknown} */ read) => (/** @type {any} */ event) => {
    const text = event.currentTarget.value;
    onChange(text === "" && !(type === "string" && optional) ? undefined : read(text));
  };
  if (values) {
    return h("select", { "aria-label": label, value: absent ? "" : String(value), onChange: typed((text) => text) },
      h("option", { value: "" }, "not set"), values.map(({ name, number }) => h("option", { value: name }, `${name} = ${number ?? 0}`)));
  }
  if (type === "bool") {
    return h("select", { "aria-label": label, value: absent ? "" : String(value), onChange: typed((text) => text === "true") },
      h("option", { value: "" }, "not set"), h("option", { value: "true" }, "true"), h("option", { value: "false" }, "false"));
  }
  // Numbers of 64 bits stay texts: this language has no such numbers.
  if (LONG.includes(type)) return h("input", { "aria-label": label, inputMode: "numeric", value: absent ? "" : String(value), onInput: typed((text) => text) });
  if (WHOLE.includes(type)) return h("input", { "aria-label": label, inputMode: "numeric", value: absent ? "" : String(value), onInput: typed(number) });
  if (type === "double" || type === "float") return h("input", { "aria-label": label, inputMode: "decimal", value: absent ? "" : String(value), onInput: typed(number) });
  if (type === "bytes") return h("input", { "aria-label": label, placeholder: "base64", value: absent ? "" : String(value), onInput: typed((text) => text) });
  if (type.startsWith("google.protobuf.")) return h(AsJson, { label, type, value, onChange });
  return h("input", { "aria-label": label, value: absent ? "" : String(value), onInput: typed((text) => text) });
}

/** What is no number goes as it was typed: the server says what is wrong with it. @param {string} text */
const number = (text) => (text.trim() !== "" && Number.isFinite(Number(text)) ? Number(text) : text);

/** @param {{ label: string, type: string, value: any, onChange: (value: any) => void }} props */
function AsJson({ label, type, value, onChange }) {
  const [text, setText] = useState(value === undefined ? "" : JSON.stringify(value));
  const [wrong, setWrong] = useState(false);
  return h("input", {
    "aria-label": label, "aria-invalid": wrong, placeholder: `JSON, ${EXAMPLES[type] ?? "any"}`, value: text,
    onInput: (/** @type {any} */ event) => {
      const next = event.currentTarget.value;
      setText(next);
      if (next.trim() === "") { setWrong(false); return onChange(undefined); }
      try {
        onChange(JSON.parse(next));
        setWrong(false);
      } catch { setWrong(true); }
    },
  });
}

/** @param {Types} types @param {string} type */
const isMessage = (types, type) => types.get(type)?.fields !== undefined || (types.has(type) && !types.get(type)?.values);

/** What a field holds first. @param {Types} types @param {FieldInfo} field */
function initial(types, field) {
  if (isMessage(types, field.type)) return {};
  const values = types.get(field.type)?.values;
  if (values) return values[0]?.name;
  if (field.type === "bool") return false;
  if (field.type === "string" || field.type === "bytes") return "";
  if (LONG.includes(field.type)) return "0";
  return field.type.startsWith("google.protobuf.") ? null : 0;
}
