// Refuses names of internal-names.txt that the source reads from a peer, or passes to one (protobuf,
// connect, React, the browser): the build would shorten them, and the peer would not know them.
import { relative, resolve } from "node:path";
import { API } from "typescript/unstable/sync";
import { SyntaxKind } from "typescript/unstable/ast";

/** Uses of `names` that are properties of what is not declared in this repository's packages. */
export function namesOfPeers(names, projects) {
  const api = new API({ cwd: resolve(".") });
  const found = new Set();
  try {
    const snapshot = api.updateSnapshot({ openProjects: projects.map((project) => resolve(project)) });
    for (const project of projects) {
      const { program, checker } = snapshot.getProject(resolve(project));
      const source = `${resolve(project, "..")}/src/`;
      for (const file of program.getSourceFileNames().filter((name) => name.startsWith(source))) {
        const visit = (node) => {
          const name = nameOf(node);
          if (name && names.has(name.text)) {
            const paths = symbolsOf(checker, node, name).flatMap(({ declarations }) => declarations ?? []).map(({ path }) => path);
            const peer = paths.find((path) => !/\/packages\/[^/]+\/(src|dist)\//.test(path));
            // Whose it is cannot be told: the type is `any`, or not said.
            if (peer || !paths.length) found.add(`${relative(".", file)}: ${name.text} of ${peer ? relative(".", peer) : "an unknown type"}`);
          }
          node.forEachChild(visit);
        };
        visit(program.getSourceFile(file));
      }
    }
  } finally {
    api.close();
  }
  return [...found];
}

/** The name by which a node reads or gives a property. */
function nameOf(node) {
  if (node.kind === SyntaxKind.PropertyAccessExpression) return node.name;
  if (node.kind === SyntaxKind.BindingElement && node.parent.kind === SyntaxKind.ObjectBindingPattern) {
    return node.dotDotDotToken ? undefined : (node.propertyName ?? node.name);
  }
  const isGiven = [SyntaxKind.PropertyAssignment, SyntaxKind.ShorthandPropertyAssignment, SyntaxKind.MethodDeclaration].includes(node.kind);
  return isGiven && node.parent.kind === SyntaxKind.ObjectLiteralExpression ? node.name : undefined;
}

function symbolsOf(checker, node, name) {
  if (node.kind === SyntaxKind.PropertyAccessExpression) return [checker.getSymbolAtLocation(name)].filter(Boolean);
  const type = node.kind === SyntaxKind.BindingElement ? checker.getTypeAtLocation(node.parent) : checker.getContextualType(node.parent);
  const types = type?.getTypes?.() ?? (type ? [type] : []);
  return types.map((one) => checker.getPropertyOfType(one, name.text)).filter(Boolean);
}
