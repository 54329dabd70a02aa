// An agent by the official library of A2A: node agent.cjs. It prints its address. It
// greets; "slowly" it reports its progress until it is cancelled, and "who" has it ask
// back.
const express = require('express');
const sdk = require('@a2a-js/sdk');
const { DefaultRequestHandler, InMemoryTaskStore, AgentEvent } = require('@a2a-js/sdk/server');
const { jsonRpcHandler, restHandler, agentCardHandler, UserBuilder } = require('@a2a-js/sdk/server/express');

const cancelled = new Set();
const words = (message) => message.parts.map((p) => (p.content?.$case === 'text' ? p.content.value : '')).join(' ');
const text = (value) => ({ text: value, mediaType: 'text/plain' });

class Greeter {
  async execute(context, bus) {
    const { taskId, contextId, userMessage } = context;
    const said = (value) => sdk.Message.fromJSON({ messageId: crypto.randomUUID(), role: 'ROLE_AGENT', taskId, contextId, parts: [text(value)] });
    const status = (state, value) => bus.publish(AgentEvent.statusUpdate(sdk.TaskStatusUpdateEvent.fromJSON({
      taskId, contextId, status: { state, message: value ? sdk.Message.toJSON(said(value)) : undefined, timestamp: new Date().toISOString() } })));
    bus.publish(AgentEvent.task(context.task ?? sdk.Task.fromJSON({
      id: taskId, contextId, status: { state: 'TASK_STATE_SUBMITTED', timestamp: new Date().toISOString() }, history: [sdk.Message.toJSON(userMessage)] })));
    const asked = words(userMessage);
    if (asked === 'who' && !context.task) {
      status('TASK_STATE_INPUT_REQUIRED', 'Who are you?');
      return bus.finished();
    }
    status('TASK_STATE_WORKING', 'thinking');
    while (asked === 'slowly' && !cancelled.has(taskId)) await new Promise((r) => setTimeout(r, 20));
    if (cancelled.has(taskId)) {
      status('TASK_STATE_CANCELED');
      return bus.finished();
    }
    bus.publish(AgentEvent.artifactUpdate(sdk.TaskArtifactUpdateEvent.fromJSON({
      taskId, contextId, append: false, lastChunk: true, artifact: { artifactId: 'greeting', name: 'greeting', parts: [text('Hello, ' + asked)] } })));
    status('TASK_STATE_COMPLETED');
    bus.finished();
  }

  async cancelTask(taskId) { cancelled.add(taskId); }
}

const app = express();
const server = app.listen(0, '127.0.0.1', () => {
  const url = `http://127.0.0.1:${server.address().port}`;
  const card = (binding, path) => sdk.AgentCard.fromJSON({
    name: 'Greeter', description: 'Greets people', version: '1.0.0', defaultInputModes: ['text/plain'], defaultOutputModes: ['text/plain'],
    capabilities: { streaming: binding === 'JSONRPC', pushNotifications: false, extendedAgentCard: false, extensions: [] },
    supportedInterfaces: [{ url: url + path, protocolBinding: binding, protocolVersion: '1.0', tenant: '' }],
    skills: [{ id: 'greet', name: 'Greet', description: 'Says hello', tags: ['hello'], examples: ['Ada'], inputModes: [], outputModes: [], securityRequirements: [] }],
  });
  for (const [binding, path] of [['JSONRPC', '/rpc'], ['HTTP+JSON', '/rest']]) {
    const handler = new DefaultRequestHandler(card(binding, path), new InMemoryTaskStore(), new Greeter());
    app.use(path + '/card.json', agentCardHandler({ agentCardProvider: handler }));
    app.use(path, (binding === 'JSONRPC' ? jsonRpcHandler : restHandler)({ requestHandler: handler, userBuilder: UserBuilder.noAuthentication }));
  }
  console.log(url);
});
