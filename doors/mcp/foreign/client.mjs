// The official TypeScript SDK against a bridge: what it sees and gets, as one
// JSON object on stdout. Usage: client.mjs http URL KEY | stdio COMMAND ARG...
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { ToolListChangedNotificationSchema } from "@modelcontextprotocol/sdk/types.js";

const [kind, where, ...rest] = process.argv.slice(2);
const transport =
  kind === "http"
    ? new StreamableHTTPClientTransport(new URL(where), {
        requestInit: { headers: rest[0] ? { Authorization: `Bearer ${rest[0]}` } : {} },
      })
    : new StdioClientTransport({ command: where, args: rest, env: process.env, stderr: "inherit" });

const client = new Client({ name: "foreign", version: "1.0.0" });
const out = { progress: [] };
await client.connect(transport);
out.server = client.getServerVersion();
out.instructions = client.getInstructions();
client.setNotificationHandler(ToolListChangedNotificationSchema, () => (out.changed = true));

out.tools = (await client.listTools()).tools; // also compiles their output schemas
out.set = await client.callTool({ name: "heater.set", arguments: { celsius: "21.5" } });
out.refused = await client.callTool({ name: "heater.set", arguments: { celsius: 99 } });
out.unknown = await client.callTool({ name: "heater.sett" }).catch((error) => ({ code: error.code, message: error.message }));

const abort = new AbortController();
const onprogress = (progress) => {
  out.progress.push(progress);
  abort.abort("enough");
};
out.cancelled = await client
  .callTool({ name: "heater.warm-up" }, undefined, { signal: abort.signal, onprogress })
  .catch((error) => String(error));

out.resources = (await client.listResources()).resources;
out.templates = (await client.listResourceTemplates()).resourceTemplates;
out.agent = await client.readResource({ uri: "aibridge:///agents/heater-1" });
out.prompts = (await client.listPrompts()).prompts;
await client.setLoggingLevel("info");
await client.ping();
await client.close();
process.stdout.write(JSON.stringify(out) + "\n");
