/* SPDX-License-Identifier: Apache-2.0 */
/* The agent: its configuration, and what becomes of the messages that arrive. */
#include "envelope.h"

#include <string.h>

static const ab_text nothing = {NULL, 0};

/* A request as it was read. */
typedef struct {
	char id[AB_ID_MAX + 1];
	ab_text trace, params; /* params of the command, an object */
	uint32_t timeout_ms;
} request;

static const char *check_config(const ab_config *c)
{
	if (!c->id || !*c->id || strlen(c->id) > AB_ID_MAX || strpbrk(c->id, "/+#$\"\\"))
		return "the id must have 1 to 64 bytes, without / + # $ \" and \\";
	if (c->root && strlen(c->root) > 48)
		return "the root must have at most 48 bytes";
	if (!c->publish || !c->now_ms || !c->calls || !c->n_calls || !c->memory || !c->message)
		return "publish, now_ms, calls, memory and message are needed";
	if (c->memory_size / c->n_calls < AB_PART_MIN || c->message_size < 2 * AB_PART_MIN)
		return "memory must have AB_PART_MIN bytes for each call, message twice as many";
	return NULL;
}

static void topic(const ab_agent *a, char *into, const char *family, const char *id, const char *kind)
{
	const char *parts[] = {a->config.root, "/", family, "/", id, *id ? "/" : "", kind};
	*into = 0;
	for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
		strcat(into, parts[i]); /* check_config bounds them */
}

const char *ab_init(ab_agent *a, const ab_config *config)
{
	const char *wrong = check_config(config);
	if (wrong)
		return wrong;
	memset(a, 0, sizeof *a);
	a->config = *config;
	if (!a->config.root)
		a->config.root = "aibridge";
	topic(a, a->request_topic, "agent", config->id, "request");
	topic(a, a->response_topic, "agent", config->id, "response");
	topic(a, a->commands_topic, "client", config->id, "response");
	topic(a, a->bridge_topic, "bridge", "", "request");
	a->part = config->memory_size / config->n_calls;
	for (size_t i = 0; i < config->n_calls; i++) {
		memset(&config->calls[i], 0, sizeof *config->calls);
		config->calls[i].memory = config->memory + i * a->part;
		config->calls[i].agent = a;
		config->calls[i].out = &a->out;
	}
	a->listening_since = ab_now(a);
	return ab_register_fits(a) ? NULL : "message is too small for the registration, or a schema is no JSON";
}

void ab_connected(ab_agent *a)
{
	a->connected = true;
	a->listening_since = ab_now(a); /* what was sent before may be lost */
	ab_commands_connected(a);
}

void ab_disconnected(ab_agent *a) { a->connected = false; }

uint32_t ab_poll(ab_agent *a) { return ab_commands_poll(a, ab_calls_poll(a, 60000)); }

static void refuse(ab_agent *a, const request *r, const char *code, const char *message, ab_text details)
{
	ab_out_init(&a->out, a->config.message, a->config.message_size);
	ab_envelope_failed(&a->out, a, r->id, r->trace, code, ab_text_of(message), details);
	ab_publish(a, a->response_topic, &a->out);
}

static void reply(ab_agent *a, const request *r, const char *result)
{
	ab_out_init(&a->out, a->config.message, a->config.message_size);
	ab_envelope_begin(&a->out, r->id, "response");
	ab_key(&a->out, "status");
	ab_string(&a->out, "success");
	ab_key(&a->out, "result");
	ab_json(&a->out, ab_text_of(result));
	ab_key(&a->out, "error");
	ab_null(&a->out);
	ab_envelope_end(&a->out, a, r->trace, 0);
	ab_publish(a, a->response_topic, &a->out);
}

static const ab_capability *find(const ab_agent *a, ab_text skill, ab_text capability)
{
	for (size_t i = 0; i < a->config.n_skills; i++) {
		const ab_skill *s = &a->config.skills[i];
		for (size_t j = 0; ab_json_same(skill, s->id) && j < s->n; j++)
			if (ab_json_same(capability, s->capabilities[j].id))
				return &s->capabilities[j];
	}
	return NULL;
}

static bool is_object(ab_text t) { return t.at && *t.at == '{'; }

/* begin gives a call a slot, with copies of what must last. */
static bool begin(ab_agent *a, const request *r, const ab_capability *capability, ab_text params)
{
	ab_call *c = ab_call_take(a);
	if (!c)
		return false;
	char *memory = c->memory;
	*c = (ab_call){.agent = a, .out = &a->out, .capability = capability, .memory = memory, .phase = AB_RUNNING};
	memcpy(c->id, r->id, sizeof c->id);
	if (r->trace.at) {
		memcpy(memory, r->trace.at, r->trace.n);
		c->trace = (ab_text){memory, r->trace.n};
	}
	memcpy(memory + c->trace.n, params.at, params.n);
	c->params = (ab_text){memory + c->trace.n, params.n};
	c->arrived = ab_now(a);
	c->timeout_ms = r->timeout_ms;
	c->age = ++a->age;
	ab_call_run(c);
	return true;
}

static void invoke(ab_agent *a, const request *r)
{
	ab_call *known = ab_call_find(a, r->id);
	if (known) { /* a repeat: it runs once */
		if (known->phase == AB_ANSWERED)
			ab_call_resend(known);
		return;
	}
	ab_text params = ab_json_get(r->params, "params");
	if (!params.at)
		params = ab_text_of("{}");
	const ab_capability *c = find(a, ab_json_get(r->params, "skill_id"), ab_json_get(r->params, "capability_id"));
	if (!c)
		refuse(a, r, "3001", "\"the agent has no such capability\"", nothing);
	else if (!is_object(params))
		refuse(a, r, "1001", "\"params must be an object\"", ab_text_of("{\"param_name\":\"params\",\"reason\":\"must be an object\"}"));
	else if (params.n + r->trace.n > a->part)
		refuse(a, r, "1004", "\"the params are too large for the device\"", nothing);
	else if (!begin(a, r, c, params))
		refuse(a, r, "4008", "\"the device is busy\"", ab_text_of("{\"retry_after_ms\":200}"));
}

static void recall(ab_agent *a, const request *r, const char *id)
{
	char details[48];
	ab_out o;
	ab_call *c = ab_call_find(a, id);
	if (!c) {
		ab_out_init(&o, details, sizeof details);
		ab_object(&o);
		ab_key(&o, "listening_ms");
		ab_int(&o, ab_now(a) - a->listening_since);
		ab_object_end(&o);
		refuse(a, r, "3001", "\"the agent does not know the call\"", (ab_text){o.at, o.n});
	} else if (c->phase == AB_ANSWERED) {
		ab_call_resend(c);
		reply(a, r, "{\"state\":\"done\"}");
	} else {
		reply(a, r, "{\"state\":\"running\"}");
	}
}

static void cancel(ab_agent *a, const request *r, const char *id)
{
	ab_call *c = ab_call_find(a, id);
	if (c)
		ab_call_stop(c, "4013", "cancelled");
	reply(a, r, "{}");
}

static void serve(ab_agent *a, const request *r, ab_text command)
{
	char task[AB_ID_MAX + 1];
	bool get = ab_json_same(command, "task.get");
	if (ab_json_same(command, "skill.invoke"))
		invoke(a, r);
	else if (!get && !ab_json_same(command, "task.cancel"))
		refuse(a, r, "1002", "\"the agent does not know this command\"", nothing);
	else if (!ab_json_text(ab_json_get(r->params, "task_id"), task, sizeof task))
		refuse(a, r, "1001", "\"task_id must be an id\"", ab_text_of("{\"param_name\":\"task_id\",\"reason\":\"must be an id\"}"));
	else if (get)
		recall(a, r, task);
	else
		cancel(a, r, task);
}

/* read_request reads what concerns the request; it returns what is wrong, NULL if
 * nothing is. */
static const char *read_request(ab_text envelope, request *r)
{
	ab_text version = ab_json_get(envelope, "version"), metadata = ab_json_get(envelope, "metadata");
	char text[16];
	int64_t timeout = 30000;
	if (version.at && (!ab_json_text(version, text, sizeof text) || strncmp(text, "0.6.", 4) != 0))
		return "1003";
	if (metadata.at && !is_object(metadata))
		return "1000";
	ab_text trace = ab_json_get(metadata, "trace_id"), left = ab_json_get(metadata, "timeout");
	if (trace.at && *trace.at != '"')
		return "1000";
	if (trace.n <= AB_PART_MIN / 2) /* a longer one is none that a bridge sends */
		r->trace = trace;
	if (left.at && (!ab_json_int(left, &timeout) || timeout < 1 || timeout > 600000))
		return "1000";
	r->timeout_ms = (uint32_t)timeout;
	r->params = ab_json_get(envelope, "params");
	if (!r->params.at)
		r->params = ab_text_of("{}");
	return is_object(r->params) ? NULL : "1000";
}

static bool usable(const char *id)
{
	for (const char *c = id; *c; c++)
		if ((unsigned char)*c < 0x20)
			return false;
	return *id != 0;
}

static ab_text trimmed(const char *p, size_t n)
{
	while (n && (*p == ' ' || *p == '\t' || *p == '\n' || *p == '\r'))
		p++, n--;
	return (ab_text){p, n};
}

void ab_receive(ab_agent *a, const char *payload, size_t n)
{
	request r = {.timeout_ms = 0};
	ab_text envelope = trimmed(payload, payload ? n : 0);
	if (!envelope.n || !is_object(envelope) || !ab_json_valid(envelope))
		return;
	if (!ab_json_text(ab_json_get(envelope, "id"), r.id, sizeof r.id) || !usable(r.id))
		return;
	ab_text type = ab_json_get(envelope, "type"), command = ab_json_get(envelope, "command");
	if (ab_json_same(type, "response")) {
		ab_commands_answer(a, r.id, envelope);
		return;
	}
	if (type.at && !ab_json_same(type, "request"))
		return;
	const char *wrong = read_request(envelope, &r);
	if (!wrong && (!command.at || *command.at != '"'))
		wrong = "1000";
	if (wrong)
		refuse(a, &r, wrong, "\"the envelope is not one of version " AB_VERSION "\"", nothing);
	else
		serve(a, &r, command);
}
