// The official client library of A2A against a bridge: node client.cjs URL.
const assert = require('node:assert/strict');
const { ClientFactory, ClientFactoryOptions } = require('@a2a-js/sdk/client');
const sdk = require('@a2a-js/sdk');
const url = process.argv[2];

const message = (id, data, more = {}) => sdk.SendMessageRequest.fromJSON({
  message: { messageId: id, role: 'ROLE_USER', parts: [{ data, mediaType: 'application/json' }] }, ...more,
});
const state = (task) => sdk.taskStateToJSON(task.status.state);

async function talk(transport) {
  const options = ClientFactoryOptions.createFrom(ClientFactoryOptions.default, { preferredTransports: [transport] });
  const client = await new ClientFactory(options).createFromUrl(url);
  const set = { skill_id: 'heater', capability_id: 'set', params: { celsius: 21 } };

  const answer = await client.sendMessage(message(transport + '-1', set));
  const task = answer.payload ? answer.payload.value : answer;
  assert.equal(state(task), 'TASK_STATE_COMPLETED');
  assert.deepEqual(task.artifacts[0].parts[0].content, { $case: 'data', value: { target: 21 } });

  const again = await client.getTask({ id: task.id, tenant: '', historyLength: 1 });
  assert.equal(again.contextId, task.contextId);
  assert.equal(again.history.length, 1);

  const list = await client.listTasks(sdk.ListTasksRequest.fromJSON({ contextId: task.contextId, includeArtifacts: true }));
  assert.equal(list.tasks.length, 1);
  assert.equal(list.nextPageToken, '');

  const kinds = [];
  for await (const event of client.sendMessageStream(message(transport + '-2', set))) {
    kinds.push((event.payload ?? event).$case ?? Object.keys(event)[0]);
  }
  assert.equal(kinds[0], 'task');

  const long = await client.sendMessage(message(transport + '-3', { skill_id: 'heater', capability_id: 'warm-up' }, { configuration: { returnImmediately: true } }));
  const running = long.payload ? long.payload.value : long;
  const canceled = await client.cancelTask({ id: running.id, tenant: '', metadata: undefined });
  assert.equal(state(canceled), 'TASK_STATE_CANCELED');
  await assert.rejects(client.cancelTask({ id: running.id, tenant: '', metadata: undefined }), (e) => /ended/.test(e.message) && /TaskNotCancelable/.test(e.constructor.name));
  await assert.rejects(client.getTask({ id: 'nothing', tenant: '' }), (e) => /TaskNotFound/.test(e.constructor.name));

  const card = await client.getAgentCard();
  assert.ok(card.skills.some((s) => s.id === 'heater.set'), 'the extended card has the skills');
  console.log(transport, 'ok', kinds.join(' '));
}

(async () => { for (const transport of ['JSONRPC', 'HTTP+JSON']) await talk(transport); })().catch((e) => { console.error(e); process.exit(1); });
