// Starts `policyc lsp` and shows what it says. All that it knows of policies is in the server.
"use strict";

const { workspace, window } = require("vscode");
const { LanguageClient, TransportKind } = require("vscode-languageclient/node");

let client;

const start = async () => {
  const command = workspace.getConfiguration("policyc").get("command", "policyc");
  const server = { command, args: ["lsp"], transport: TransportKind.stdio };
  const options = {
    documentSelector: [{ language: "policy" }],
    // a policy is checked again when one of the files that it may name is another
    synchronize: { fileEvents: workspace.createFileSystemWatcher("**/*.{csv,npy}") },
  };
  client = new LanguageClient("policyc", "policyc", server, options);
  try {
    await client.start();
  } catch {
    // the client has said why, in words of its own
    window.showErrorMessage(
      `\`${command} lsp\` does not start. Install it with \`pip install 'policyc[editor]'\`, or name it in the setting policyc.command.`,
    );
  }
};

// one that never came up cannot be stopped
const stop = () => (client?.isRunning() ? client.stop() : undefined);

exports.activate = async (context) => {
  const again = async (change) => {
    if (!change.affectsConfiguration("policyc.command")) return;
    await stop();
    await start();
  };
  context.subscriptions.push(workspace.onDidChangeConfiguration(again));
  await start();
};

exports.deactivate = stop;
