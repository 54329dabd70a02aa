// An MCP server on stdin and stdout whose tools are in a JSON file: a list of
// {name, description}. It says so when the file changes. A tool that is called
// "broken" fails.
import { readFileSync, watchFile } from "node:fs";
import { createInterface } from "node:readline";

const file = process.argv[2];
const send = (message) => process.stdout.write(JSON.stringify({ jsonrpc: "2.0", ...message }) + "\n");
const tools = () => JSON.parse(readFileSync(file, "utf8")).map((t) => ({ inputSchema: { type: "object" }, ...t }));

watchFile(file, { interval: 100 }, () => send({ method: "notifications/tools/list_changed" }));
createInterface({ input: process.stdin })
  .on("line", (line) => {
    const { id, method, params } = JSON.parse(line);
    if (id === undefined) return;
    switch (method) {
      case "initialize":
        return send({ id, result: { protocolVersion: params.protocolVersion, capabilities: { tools: { listChanged: true } }, serverInfo: { name: "notes", version: "1.2.0" } } });
      case "tools/list":
        return send({ id, result: { tools: tools() } });
      case "tools/call":
        return params.name === "broken" ? send({ id, error: { code: -32603, message: "the shelf is empty" } }) : send({ id, result: { content: [{ type: "text", text: "done" }] } });
      case "ping":
        return send({ id, result: {} });
    }
    send({ id, error: { code: -32601, message: "no such method" } });
  })
  .on("close", () => process.exit(0));
