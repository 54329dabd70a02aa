/* SPDX-License-Identifier: Apache-2.0 */
/* Calls: from the first run of the handler to the answer, which is remembered. */
#include "envelope.h"

#include <string.h>

static const ab_text nothing = {NULL, 0};

static bool at_work(const ab_call *c) { return c->phase == AB_RUNNING || c->phase == AB_WAITING; }

ab_call *ab_call_find(ab_agent *a, const char *id)
{
	for (size_t i = 0; i < a->config.n_calls; i++) {
		ab_call *c = &a->config.calls[i];
		if (c->phase != AB_FREE && strcmp(c->id, id) == 0)
			return c;
	}
	return NULL;
}

ab_call *ab_call_take(ab_agent *a)
{
	ab_call *oldest = NULL;
	for (size_t i = 0; i < a->config.n_calls; i++) {
		ab_call *c = &a->config.calls[i];
		if (c->phase == AB_FREE)
			return c;
		if (!at_work(c) && !c->unsent && (!oldest || (int32_t)(c->age - oldest->age) < 0))
			oldest = c;
	}
	if (oldest) { /* what is forgotten came before now */
		oldest->phase = AB_FREE;
		a->listening_since = ab_now(a);
	}
	return oldest;
}

void ab_call_resend(ab_call *c)
{
	ab_out o = {c->memory, c->answer, c->answer, false, false};
	c->unsent = !ab_publish(c->agent, c->agent->response_topic, &o);
}

static void event(ab_call *c, ab_out *o, const char *name, void (*data)(ab_out *, const void *), const void *of)
{
	ab_envelope_begin(o, c->id, "event");
	ab_key(o, "event");
	ab_string(o, name);
	ab_key(o, "seq");
	ab_int(o, ++c->seq);
	ab_key(o, "data");
	data(o, of);
	ab_envelope_end(o, c->agent, c->trace, 0);
}

/* tell publishes an event; it is written behind what there is of the result. */
static void tell(ab_call *c, const char *name, void (*data)(ab_out *, const void *), const void *of)
{
	ab_out o;
	if (c->stopped || !at_work(c))
		return;
	ab_out_init(&o, c->out->at + c->out->n, c->out->max - c->out->n);
	event(c, &o, name, data, of);
	ab_publish(c->agent, c->agent->response_topic, &o);
}

static void json_data(ab_out *o, const void *json) { ab_json(o, *(const ab_text *)json); }

static void accept(ab_call *c)
{
	static const ab_text empty = {"{}", 2};
	if (!c->accepted)
		tell(c, "task.accepted", json_data, &empty);
	c->accepted = true;
}

typedef struct {
	int percent;
	const char *message;
} progress;

static void progress_data(ab_out *o, const void *of)
{
	const progress *p = of;
	ab_object(o);
	ab_key(o, "percent");
	ab_int(o, p->percent < 0 ? 0 : p->percent > 100 ? 100 : p->percent);
	if (p->message) {
		ab_key(o, "message");
		ab_string(o, p->message);
	}
	ab_object_end(o);
}

void ab_progress(ab_call *c, int percent, const char *message)
{
	progress p = {percent, message};
	accept(c);
	tell(c, "task.progress", progress_data, &p);
}

void ab_delta(ab_call *c, ab_text object)
{
	accept(c);
	tell(c, "task.delta", json_data, &object);
}

static void reason_data(ab_out *o, const void *reason)
{
	ab_object(o);
	ab_key(o, "reason");
	ab_string(o, reason);
	ab_object_end(o);
}

ab_outcome ab_reject(ab_call *c, const char *reason)
{
	ab_out_init(c->out, c->out->at, c->out->max);
	event(c, c->out, "task.rejected", reason_data, reason);
	return AB_REJECTED;
}

ab_outcome ab_fail_json(ab_call *c, const char *code, ab_text message, ab_text details)
{
	ab_out_init(c->out, c->out->at, c->out->max);
	ab_envelope_failed(c->out, c->agent, c->id, c->trace, code, message, details);
	c->failed = true;
	return AB_FAILED;
}

ab_outcome ab_fail(ab_call *c, const char *code, const char *message)
{
	ab_out *o = c->out;
	ab_out text; /* the message as JSON, at the end of the memory for the whole */
	ab_out_init(&text, o->at + o->max / 2, o->max - o->max / 2);
	ab_string(&text, message);
	ab_out_init(o, o->at, o->max);
	o->max /= 2;
	ab_envelope_failed(o, c->agent, c->id, c->trace, code, text.full ? nothing : ab_written(&text), nothing);
	o->max = c->agent->config.message_size;
	c->failed = true;
	return AB_FAILED;
}

ab_outcome ab_fail_param(ab_call *c, const char *name, const char *reason)
{
	char details[160];
	ab_out o;
	ab_out_init(&o, details, sizeof details);
	ab_object(&o);
	ab_key(&o, "param_name");
	ab_string(&o, name);
	ab_key(&o, "reason");
	ab_string(&o, reason);
	ab_object_end(&o);
	return ab_fail_json(c, "1001", ab_text_of("\"a param does not fit\""), o.full ? nothing : ab_written(&o));
}

void ab_resume(ab_call *c)
{
	ab_out *o = c->out;
	ab_out_init(o, c->agent->config.message, c->agent->config.message_size);
	c->failed = false;
	ab_envelope_begin(o, c->id, "response");
	ab_key(o, "status");
	ab_string(o, "success");
	ab_key(o, "result");
}

/* succeed completes the envelope that ab_resume began. */
static void succeed(ab_call *c)
{
	if (!c->out->comma && !c->out->full) /* still behind the key */
		ab_json(c->out, ab_text_of("{}"));
	ab_key(c->out, "error");
	ab_null(c->out);
	ab_envelope_end(c->out, c->agent, c->trace, 0);
}

static bool too_large(const ab_call *c) { return c->out->full || c->out->n > c->agent->part; }

/* answer keeps what was written as the answer, and sends it. */
static void answer(ab_call *c)
{
	if (too_large(c))
		ab_fail(c, "1004", "the answer is too large for the device");
	if (too_large(c)) { /* with its trace */
		c->trace = nothing;
		ab_fail(c, "1004", "too large");
	}
	c->answer = c->out->n;
	memcpy(c->memory, c->out->at, c->answer);
	c->params = c->trace = nothing;
	c->phase = AB_ANSWERED;
	ab_call_resend(c);
}

void ab_finish(ab_call *c, ab_outcome outcome)
{
	if (!at_work(c))
		return;
	switch (outcome) {
	case AB_AGAIN:
	case AB_WAIT:
		accept(c);
		c->phase = outcome == AB_AGAIN ? AB_RUNNING : AB_WAITING;
		c->wake = ab_now(c->agent) + c->wait_ms;
		return;
	case AB_DONE:
		succeed(c);
		break;
	case AB_FAILED:
		if (!c->failed)
			ab_fail(c, "5000", "internal error");
		break;
	case AB_REJECTED:
		break;
	}
	answer(c);
}

void ab_call_run(ab_call *c)
{
	c->wait_ms = 0;
	ab_resume(c);
	ab_finish(c, c->capability->run(c));
}

void ab_call_stop(ab_call *c, const char *code, const char *message)
{
	if (!at_work(c))
		return;
	c->stopped = true;
	ab_resume(c);
	(void)c->capability->run(c);
	ab_fail(c, code, message);
	answer(c);
}

static uint32_t sooner(uint32_t wait, uint32_t now, uint32_t at)
{
	uint32_t left = ab_due(now, at) ? 0 : at - now;
	return left < wait ? left : wait;
}

uint32_t ab_calls_poll(ab_agent *a, uint32_t wait)
{
	for (size_t i = 0; i < a->config.n_calls; i++) {
		ab_call *c = &a->config.calls[i];
		uint32_t now = ab_now(a);
		if (at_work(c) && now - c->arrived >= c->timeout_ms)
			ab_call_stop(c, "4007", "the time is up");
		else if (c->phase == AB_RUNNING && ab_due(now, c->wake))
			ab_call_run(c);
		if (c->phase == AB_ANSWERED && c->unsent && a->connected) {
			ab_call_resend(c);
			if (c->unsent && wait > 100)
				wait = 100;
		}
		if (at_work(c))
			wait = sooner(wait, now, c->arrived + c->timeout_ms);
		if (c->phase == AB_RUNNING)
			wait = sooner(wait, now, c->wake);
	}
	return wait;
}

bool ab_param_int(ab_call *c, const char *name, int64_t min, int64_t max, int64_t *v)
{
	char reason[80];
	ab_out o;
	if (ab_json_int(ab_json_get(c->params, name), v) && *v >= min && *v <= max)
		return true;
	ab_out_init(&o, reason, sizeof reason - 1);
	ab_json(&o, ab_text_of("must be a whole number from "));
	o.comma = false;
	ab_int(&o, min);
	o.comma = false;
	ab_json(&o, ab_text_of(" to "));
	o.comma = false;
	ab_int(&o, max);
	reason[o.n] = 0;
	ab_fail_param(c, name, reason);
	return false;
}

bool ab_param_bool(ab_call *c, const char *name, bool *v)
{
	if (ab_json_bool(ab_json_get(c->params, name), v))
		return true;
	ab_fail_param(c, name, "must be true or false");
	return false;
}

bool ab_param_text(ab_call *c, const char *name, char *into, size_t size)
{
	if (ab_json_text(ab_json_get(c->params, name), into, size))
		return true;
	ab_fail_param(c, name, "must be a text that is not too long");
	return false;
}
