/* SPDX-License-Identifier: Apache-2.0 */
/* A device under test: the contract of docs/sdk-conformance.md. */
#include "../mosquitto/ab_mosquitto.h"

#include <stdio.h>
#include <string.h>

enum { CALLS = 48, PART = 192 * 1024 };

static ab_call calls[CALLS];
static char memory[CALLS * PART], message[PART];
static ab_command asked[CALLS];

static ab_outcome echo(ab_call *c)
{
	ab_text value = ab_json_get(c->params, "value");
	ab_object(c->out);
	ab_key(c->out, "value");
	ab_json(c->out, value.at ? value : ab_text_of("null"));
	ab_object_end(c->out);
	return AB_DONE;
}

static ab_outcome number(ab_call *c, const char *key, int64_t v)
{
	ab_object(c->out);
	ab_key(c->out, key);
	ab_int(c->out, v);
	ab_object_end(c->out);
	return AB_DONE;
}

static ab_outcome add(ab_call *c)
{
	int64_t a, b;
	if (!ab_param_int(c, "a", -1000, 1000, &a) || !ab_param_int(c, "b", -1000, 1000, &b))
		return AB_FAILED;
	return number(c, "sum", a + b);
}

static ab_outcome slow(ab_call *c)
{
	int64_t ms;
	if (!ab_param_int(c, "ms", 0, 86400000, &ms))
		return AB_FAILED;
	if (c->step++ > 0)
		return number(c, "slept_ms", ms);
	c->wait_ms = (uint32_t)ms;
	return AB_AGAIN;
}

static ab_outcome progress(ab_call *c)
{
	char said[48];
	int64_t steps, ms = 0;
	bool paused = ab_json_get(c->params, "ms").at != NULL;
	if (!ab_param_int(c, "steps", 1, 1000000, &steps) || (paused && !ab_param_int(c, "ms", 0, 86400000, &ms)))
		return AB_FAILED;
	if (c->step > 0) {
		snprintf(said, sizeof said, "step %u of %d", (unsigned)c->step, (int)steps);
		ab_progress(c, (int)(100 * c->step / steps), said);
	}
	if (c->step++ == steps)
		return number(c, "steps", steps);
	c->wait_ms = (uint32_t)ms;
	return AB_AGAIN;
}

static ab_outcome stream(ab_call *c)
{
	ab_text rest = ab_json_get(c->params, "pieces"), key, piece;
	char data[256];
	while (ab_json_next(&rest, &key, &piece)) {
		ab_out o;
		ab_out_init(&o, data, sizeof data);
		ab_object(&o);
		ab_key(&o, "text");
		ab_json(&o, piece);
		ab_object_end(&o);
		ab_delta(c, (ab_text){o.at, o.n});
	}
	return AB_DONE;
}

static ab_outcome count(ab_call *c)
{
	static int64_t n;
	return number(c, "count", ++n);
}

static ab_outcome fail(ab_call *c)
{
	char code[8];
	if (!ab_json_text(ab_json_get(c->params, "code"), code, sizeof code) || !*code)
		return AB_FAILED;
	return ab_fail_json(c, code, ab_json_get(c->params, "message"), ab_json_get(c->params, "details"));
}

static ab_outcome reject(ab_call *c)
{
	char reason[200];
	bool given = ab_json_text(ab_json_get(c->params, "reason"), reason, sizeof reason) && *reason;
	return ab_reject(c, given ? reason : "not now");
}

static ab_outcome fill(ab_call *c)
{
	static char letters[PART];
	int64_t n;
	if (!ab_param_int(c, "bytes", 0, INT32_MAX, &n))
		return AB_FAILED;
	size_t fits = n < PART ? (size_t)n : PART; /* which is too much already */
	memset(letters, 'x', fits);
	ab_object(c->out);
	ab_key(c->out, "text");
	ab_string_of(c->out, (ab_text){letters, fits});
	ab_object_end(c->out);
	return AB_DONE;
}

static void write_asked(ab_agent *a, ab_command *command, ab_out *out)
{
	ab_text params = ab_json_get(((ab_call *)command->user)->params, "params");
	(void)a;
	ab_json(out, params.at ? params : ab_text_of("{}"));
}

static void answered(ab_agent *a, ab_command *command, bool ok, ab_text value)
{
	ab_call *c = command->user;
	char code[8];
	(void)a;
	ab_resume(c);
	if (ok) {
		ab_json(c->out, value.at ? value : ab_text_of("{}"));
		ab_finish(c, AB_DONE);
	} else if (ab_json_text(ab_json_get(value, "code"), code, sizeof code)) {
		ab_finish(c, ab_fail_json(c, code, ab_json_get(value, "message"), ab_json_get(value, "details")));
	} else {
		ab_finish(c, ab_fail(c, "4012", "the bridge does not answer"));
	}
}

static void answered_with_revision(ab_agent *a, ab_command *command, bool ok, ab_text value)
{
	ab_call *c = command->user;
	if (!ok) {
		answered(a, command, ok, value);
		return;
	}
	ab_resume(c);
	ab_object(c->out);
	ab_key(c->out, "result");
	ab_json(c->out, value.at ? value : ab_text_of("{}"));
	ab_key(c->out, "revision");
	ab_int(c->out, command->revision);
	ab_object_end(c->out);
	ab_finish(c, AB_DONE);
}

/* send runs the command that a call names, as command says. */
static ab_outcome send(ab_call *c, ab_command command)
{
	static char names[CALLS][129];
	if (c->stopped) {
		ab_withdraw(c->agent, &asked[c - calls]);
		return AB_DONE;
	}
	if (!ab_param_text(c, "command", names[c - calls], sizeof names[0]))
		return AB_FAILED;
	command.name = names[c - calls];
	command.write = write_asked;
	command.user = c;
	asked[c - calls] = command;
	ab_send(c->agent, &asked[c - calls]);
	return AB_WAIT;
}

static ab_outcome ask(ab_call *c) { return send(c, (ab_command){.answered = answered}); }

static ab_outcome ask_seen(ab_call *c)
{
	int64_t min = 0;
	if (!c->stopped && !ab_param_int(c, "min_revision", 0, INT64_MAX, &min))
		return AB_FAILED;
	return send(c, (ab_command){.answered = answered_with_revision, .min_revision = min});
}

#define OBJECT(properties, required) "{\"type\":\"object\",\"properties\":{" properties "},\"required\":[" required "],\"additionalProperties\":false}"
#define TERM "{\"type\":\"integer\",\"minimum\":-1000,\"maximum\":1000}"
#define WHOLE "{\"type\":\"integer\",\"minimum\":0}"
#define TEXT "{\"type\":\"string\"}"

static const ab_capability capabilities[] = {
	{.id = "echo", .effect = "read", .params_schema = OBJECT("\"value\":{}", ""), .run = echo},
	{.id = "add", .effect = "read", .params_schema = OBJECT("\"a\":" TERM ",\"b\":" TERM, "\"a\",\"b\""), .run = add},
	{.id = "slow", .params_schema = OBJECT("\"ms\":" WHOLE, "\"ms\""), .run = slow},
	{.id = "progress", .params_schema = OBJECT("\"steps\":" WHOLE ",\"ms\":" WHOLE, "\"steps\""), .run = progress},
	{.id = "stream", .params_schema = OBJECT("\"pieces\":{\"type\":\"array\",\"items\":" TEXT "}", "\"pieces\""), .run = stream},
	{.id = "count", .run = count},
	{.id = "fail", .params_schema = OBJECT("\"code\":" TEXT ",\"message\":" TEXT ",\"details\":{\"type\":\"object\"}", ""), .run = fail},
	{.id = "reject", .params_schema = OBJECT("\"reason\":" TEXT, ""), .run = reject},
	{.id = "fill", .params_schema = OBJECT("\"bytes\":" WHOLE, "\"bytes\""), .run = fill},
	{.id = "ask", .params_schema = OBJECT("\"command\":" TEXT ",\"params\":{\"type\":\"object\"}", "\"command\""), .run = ask},
	{.id = "ask_seen", .params_schema = OBJECT("\"command\":" TEXT ",\"params\":{\"type\":\"object\"},\"min_revision\":" WHOLE, "\"command\",\"min_revision\""), .run = ask_seen},
};

static const ab_skill skill = {"conformance", "Conformance", NULL, capabilities, sizeof capabilities / sizeof *capabilities};

int main(void)
{
	static ab_agent agent;
	return ab_mosquitto_run(&agent, (ab_config){
		.skills = &skill, .n_skills = 1, .calls = calls, .n_calls = CALLS,
		.memory = memory, .memory_size = sizeof memory, .message = message, .message_size = sizeof message,
	});
}
