// The TypeScript SDK's client, as its documentation has it.

import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import {
  CreateMessageRequestSchema,
  ResourceUpdatedNotificationSchema,
} from "@modelcontextprotocol/sdk/types.js";

const WATCHED = "test://watched-resource";
const [transport, ...words] = process.argv.slice(2);

const client = new Client(
  { name: "typescript", version: "1" },
  { capabilities: { sampling: {} } },
);
client.setRequestHandler(CreateMessageRequestSchema, async () => ({
  role: "assistant",
  content: { type: "text", text: "somebody" },
  model: "none",
}));
const told = new Promise((hear) =>
  client.setNotificationHandler(ResourceUpdatedNotificationSchema, (notification) =>
    hear(notification.params.uri),
  ),
);

let version = null; // as it tells its transport, where that wants to know
const channel =
  transport === "stdio"
    ? new StdioClientTransport({ command: words[0], args: words.slice(1) })
    : new StreamableHTTPClientTransport(new URL(words[0]));
const setVersion = channel.setProtocolVersion?.bind(channel);
channel.setProtocolVersion = (agreed) => {
  version = agreed;
  setVersion?.(agreed);
};
await client.connect(channel);

const call = (name, args = {}, options = {}) =>
  client.callTool({ name, arguments: args }, undefined, options);
const { tools } = await client.listTools();
const image = await call("test_image_content");
const refused = await call("test_error_handling");
const progress = [];
await call(
  "test_tool_with_progress",
  {},
  { onprogress: (step) => progress.push(step.progress) },
);
const asked = await call("test_sampling", { prompt: "Who?" });
const read = await client.readResource({ uri: "test://template/7/data" });
const { resources } = await client.listResources();
const prompt = await client.getPrompt({
  name: "test_prompt_with_arguments",
  arguments: { arg1: "a", arg2: "b" },
});

await client.subscribeResource({ uri: WATCHED });
await call("change_watched_resource");
const uri = await told;
const reread = await client.readResource({ uri });

const controller = new AbortController();
const lingering = call("linger", { word: "mine" }, { signal: controller.signal });
await call("until_begun", { word: "mine" });
controller.abort();
await lingering.catch(() => undefined);
const cancelled = await call("until_cancelled", { word: "mine" });

console.log(
  JSON.stringify({
    version,
    tools: tools.length,
    image: image.content[0].mimeType,
    refused: [refused.isError, refused.content[0].text],
    progress,
    asked: asked.content[0].text.replace("LLM response: ", ""),
    read: JSON.parse(read.contents[0].text).id,
    resources: resources.length,
    prompt: prompt.messages[0].content.text,
    told: uri,
    reread: reread.contents[0].text,
    cancelled: cancelled.content[0].text,
  }),
);
await client.close();
