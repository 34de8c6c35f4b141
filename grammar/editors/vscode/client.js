// Starts `policyc lsp` and shows what it says. All that it knows of policies is in the server.
"use strict";

const { workspace, window } = require("vscode");
const { LanguageClient, TransportKind } = require("vscode-languageclient/node");

let client;

exports.activate = async () => {
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
  } catch (error) {
    window.showErrorMessage(`policyc: ${command} lsp does not start (${error.message}). Install it with: pip install 'policyc[editor]'`);
  }
};

exports.deactivate = () => client?.stop();
