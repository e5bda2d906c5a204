// Checks the manifests on standard input against the schema of Kubernetes' API, of the package
// kubernetes-models: types, what is required, and names that the schema does not know. The last are those
// that its checks never read, since Kubernetes itself ignores what it does not know.
import { readFileSync } from "node:fs";
import { parseAllDocuments } from "yaml";

const faults = [];

/** The same value, whose members remember that they were read. */
function watched(value, path, members) {
  if (value === null || typeof value !== "object") return value;
  const seen = new Set();
  const inner = new Map();
  members.push({ value, path, seen });
  return new Proxy(value, {
    get(target, name) {
      const member = target[name];
      if (typeof name !== "string" || !Object.hasOwn(target, name)) return member;
      seen.add(name);
      if (!inner.has(name)) inner.set(name, watched(member, `${path}.${name}`, members));
      return inner.get(name);
    },
  });
}

for (const document of parseAllDocuments(readFileSync(0, "utf8"))) {
  faults.push(...document.errors.map(String));
  const manifest = document.toJS();
  const { apiVersion, kind } = manifest;
  const group = apiVersion.includes("/") ? apiVersion : `core/${apiVersion}`;
  const words = [...group.split("/"), kind].map((word) => word[0].toUpperCase() + word.slice(1));
  // Not its models, which copy what they are given.
  const { validate } = await import(`kubernetes-models/_schemas/IoK8sApi${words.join("")}`);
  const members = [];
  if (!validate(watched(manifest, kind, members))) {
    faults.push(...validate.errors.map((error) => `${kind}${error.instancePath} ${error.message ?? JSON.stringify(error.params)}`));
  }
  for (const { value, path, seen } of members) {
    const unknown = Object.keys(value).filter((name) => !Array.isArray(value) && !seen.has(name));
    faults.push(...unknown.map((name) => `${path}.${name} is not known`));
  }
  console.log(`checked ${apiVersion}/${kind}`);
}
faults.forEach((fault) => console.log(fault));
process.exitCode = faults.length > 0 ? 1 : 0;
