/* SPDX-License-Identifier: Apache-2.0 */
/* Commands of the bridge: registration, heartbeats and the program's own. */
#include "envelope.h"

#include <string.h>

enum { RESEND_MS = 30000, PAUSE_MIN_MS = 100, PAUSE_MAX_MS = 30000 };

static void make_id(ab_agent *a, char *id)
{
	static const char hex[] = "0123456789abcdef";
	for (int shift = 60; shift >= 0; shift -= 4)
		*id++ = hex[a->config.seed >> shift & 15];
	*id++ = '-';
	a->counter++;
	for (int shift = 28; shift >= 0; shift -= 4)
		*id++ = hex[a->counter >> shift & 15];
	*id = 0;
}

void ab_withdraw(ab_agent *a, ab_command *c)
{
	for (ab_command **at = &a->commands; *at; at = &(*at)->next)
		if (*at == c) {
			*at = c->next;
			return;
		}
}

void ab_send(ab_agent *a, ab_command *c)
{
	ab_command **at = &a->commands;
	ab_withdraw(a, c);
	while (*at)
		at = &(*at)->next;
	*at = c;
	c->next = NULL;
	c->began = c->due = ab_now(a);
	c->pause = 0;
	c->sent = c->acknowledged = false;
	c->message = 0;
	c->revision = 0;
	make_id(a, c->id);
}

static void answered(ab_agent *a, ab_command *c, bool ok, ab_text value)
{
	ab_withdraw(a, c);
	if (c->answered)
		c->answered(a, c, ok, value);
}

/* pause is how long to wait before the next attempt: longer each time, and not the
 * same for all devices. */
static uint32_t back_off(ab_agent *a, ab_command *c)
{
	c->pause = c->pause ? c->pause * 2 : PAUSE_MIN_MS;
	if (c->pause > PAUSE_MAX_MS)
		c->pause = PAUSE_MAX_MS;
	return c->pause / 2 + (uint32_t)((a->config.seed ^ ab_now(a)) % c->pause);
}

/* repeats says whether, and when, a command that failed is sent again. */
static bool repeats(ab_agent *a, ab_command *c, ab_text error, uint32_t *after)
{
	static const char *const backoff[] = {"4001", "4006", "4010", "5001", "5002"};
	ab_text code = ab_json_get(error, "code");
	int64_t ms;
	*after = back_off(a, c);
	if (ab_json_same(code, "4008") || ab_json_same(code, "4009")) {
		if (ab_json_int(ab_json_get(ab_json_get(error, "details"), "retry_after_ms"), &ms) && ms > 0 && ms < 3600000)
			*after = (uint32_t)ms;
		return true;
	}
	for (size_t i = 0; i < sizeof backoff / sizeof *backoff; i++)
		if (ab_json_same(code, backoff[i]))
			return true;
	return c->forever;
}

void ab_commands_answer(ab_agent *a, const char *id, ab_text envelope)
{
	ab_command *c = a->commands;
	uint32_t after;
	while (c && strcmp(c->id, id) != 0)
		c = c->next;
	if (!c || !c->sent)
		return;
	if (!ab_json_int(ab_json_get(ab_json_get(envelope, "metadata"), "revision"), &c->revision))
		c->revision = 0;
	ab_text error = ab_json_get(envelope, "error");
	if (!error.at && !ab_json_same(ab_json_get(envelope, "status"), "failed"))
		answered(a, c, true, ab_json_get(envelope, "result"));
	else if (repeats(a, c, error, &after))
		c->due = ab_now(a) + after;
	else
		answered(a, c, false, error);
}

static uint32_t transmit(ab_agent *a, ab_command *c)
{
	ab_out *o = &a->out;
	ab_out_init(o, a->config.message, a->config.message_size);
	ab_envelope_begin(o, c->id, "request");
	ab_key(o, "command");
	ab_string(o, c->name);
	ab_key(o, "params");
	if (c->write)
		c->write(a, c, o);
	else
		ab_json(o, ab_text_of("{}"));
	ab_envelope_end(o, a, (ab_text){NULL, 0}, c->min_revision);
	return ab_publish(a, a->bridge_topic, o);
}

uint32_t ab_commands_poll(ab_agent *a, uint32_t wait)
{
	if (a->beating && a->connected && ab_due(ab_now(a), a->next_beat)) {
		a->next_beat = ab_now(a) + a->beat_ms;
		ab_send(a, &a->heartbeat);
	}
	for (ab_command *c = a->commands, *next; c; c = next) {
		uint32_t now = ab_now(a), timeout = c->timeout_ms ? c->timeout_ms : 30000;
		next = c->next;
		if (!c->forever && now - c->began >= timeout) {
			answered(a, c, false, (ab_text){NULL, 0});
			return 0; /* the list may be another now */
		}
		if (a->connected && ab_due(now, c->due)) {
			c->message = transmit(a, c);
			c->sent = c->sent || c->message;
			c->acknowledged = false;
			c->due = now + (c->message ? RESEND_MS : PAUSE_MIN_MS);
		}
		uint32_t left = a->connected ? c->due - now : timeout;
		if (!c->forever && timeout - (now - c->began) < left)
			left = timeout - (now - c->began);
		wait = left < wait ? left : wait;
	}
	if (a->beating && a->connected && a->next_beat - ab_now(a) < wait)
		wait = a->next_beat - ab_now(a);
	return wait;
}

void ab_acknowledged(ab_agent *a, uint32_t message)
{
	for (ab_command *c = a->commands; c; c = c->next)
		if (c->message == message)
			c->acknowledged = true;
}

void ab_commands_connected(ab_agent *a)
{
	for (ab_command *c = a->commands; c; c = c->next)
		if (c->sent && (c->acknowledged || !a->config.retransmits))
			c->due = ab_now(a); /* the answer may be lost */
	ab_register(a);
}

/* ---- Registration and heartbeats ---- */

static void text(ab_out *o, const char *key, const char *value)
{
	if (!value)
		return;
	ab_key(o, key);
	ab_string(o, value);
}

static void write_capability(ab_out *o, const ab_capability *c)
{
	ab_object(o);
	text(o, "capability_id", c->id);
	text(o, "description", c->description);
	text(o, "effect", c->effect);
	ab_key(o, "params_schema");
	ab_json(o, ab_text_of(c->params_schema ? c->params_schema : "{\"type\":\"object\",\"additionalProperties\":false}"));
	if (c->idempotent) {
		ab_key(o, "idempotent");
		ab_bool(o, true);
	}
	if (c->high_risk)
		text(o, "risk", "high");
	ab_object_end(o);
}

static void write_registration(ab_agent *a, ab_command *c, ab_out *o)
{
	(void)c;
	ab_object(o);
	text(o, "agent_id", a->config.id);
	text(o, "type", "end_agent");
	ab_key(o, "skills");
	ab_list(o);
	for (size_t i = 0; i < a->config.n_skills; i++) {
		const ab_skill *s = &a->config.skills[i];
		ab_object(o);
		text(o, "skill_id", s->id);
		text(o, "name", s->name ? s->name : s->id);
		text(o, "description", s->description);
		ab_key(o, "capabilities");
		ab_list(o);
		for (size_t j = 0; j < s->n; j++)
			write_capability(o, &s->capabilities[j]);
		ab_list_end(o);
		ab_object_end(o);
	}
	ab_list_end(o);
	ab_object_end(o);
}

static void registered(ab_agent *a, ab_command *c, bool ok, ab_text result)
{
	int64_t ms;
	(void)c;
	a->beating = ok && ab_json_milli(ab_json_get(result, "heartbeat_interval"), &ms) && ms > 0 && ms < 86400000;
	if (!a->beating)
		return;
	a->beat_ms = (uint32_t)ms;
	a->next_beat = ab_now(a) + a->beat_ms;
}

static void write_heartbeat(ab_agent *a, ab_command *c, ab_out *o)
{
	(void)c;
	ab_object(o);
	text(o, "agent_id", a->config.id);
	ab_object_end(o);
}

static void beaten(ab_agent *a, ab_command *c, bool ok, ab_text error)
{
	(void)c;
	if (!ok && ab_json_same(ab_json_get(error, "code"), "3001"))
		ab_register(a);
}

void ab_register(ab_agent *a)
{
	a->beating = false;
	ab_withdraw(a, &a->heartbeat);
	a->heartbeat = (ab_command){.name = "agent.heartbeat", .write = write_heartbeat, .answered = beaten};
	ab_withdraw(a, &a->registration);
	a->registration = (ab_command){.name = "agent.register", .write = write_registration, .answered = registered, .forever = true};
	ab_send(a, &a->registration);
}

bool ab_register_fits(ab_agent *a)
{
	a->registration = (ab_command){.name = "agent.register", .write = write_registration};
	make_id(a, a->registration.id);
	transmit(a, &a->registration); /* not connected: it is only written */
	return !a->out.full && ab_json_valid(ab_written(&a->out));
}
