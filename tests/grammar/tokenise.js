// Prints, for texts given as a JSON list on standard input, every token with its scopes: TextMate's own engine.
const fs = require("fs");
const path = require("path");
const oniguruma = require("vscode-oniguruma");
const textmate = require("vscode-textmate");

const wasm = path.join(path.dirname(require.resolve("vscode-oniguruma")), "onig.wasm");
const grammar = fs.readFileSync(process.argv[2], "utf8");

async function main() {
  await oniguruma.loadWASM(fs.readFileSync(wasm).buffer);
  const registry = new textmate.Registry({
    onigLib: Promise.resolve({
      createOnigScanner: (patterns) => new oniguruma.OnigScanner(patterns),
      createOnigString: (text) => new oniguruma.OnigString(text),
    }),
    loadGrammar: async () => textmate.parseRawGrammar(grammar, "policy.json"),
  });
  const policy = await registry.loadGrammar("source.policy");
  const texts = JSON.parse(fs.readFileSync(0, "utf8"));
  const all = texts.map((text) => {
    let state = textmate.INITIAL;
    return text.split("\n").map((line) => {
      const { tokens, ruleStack } = policy.tokenizeLine(line, state);
      state = ruleStack;
      return tokens.map((token) => [token.startIndex, token.endIndex, token.scopes.slice(1)]);
    });
  });
  process.stdout.write(JSON.stringify(all));
}

main();
