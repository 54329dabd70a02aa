/* SPDX-License-Identifier: Apache-2.0 */
/* Envelopes as they are written. */
#include "envelope.h"

static void member(ab_out *o, const char *key, const char *text)
{
	ab_key(o, key);
	ab_string(o, text);
}

void ab_envelope_begin(ab_out *o, const char *id, const char *type)
{
	ab_object(o);
	member(o, "version", AB_VERSION);
	member(o, "id", id);
	ab_key(o, "timestamp");
	ab_int(o, 0); /* a device without a clock */
	member(o, "type", type);
}

void ab_envelope_end(ab_out *o, const ab_agent *a, ab_text trace, int64_t min_revision)
{
	ab_key(o, "metadata");
	ab_object(o);
	member(o, "sender_id", a->config.id);
	if (trace.at) {
		ab_key(o, "trace_id");
		ab_json(o, trace);
	}
	if (min_revision > 0) {
		ab_key(o, "min_revision");
		ab_int(o, min_revision);
	}
	ab_object_end(o);
	ab_object_end(o);
}

void ab_envelope_failed(ab_out *o, const ab_agent *a, const char *id, ab_text trace, const char *code, ab_text message, ab_text details)
{
	ab_envelope_begin(o, id, "response");
	member(o, "status", "failed");
	ab_key(o, "result");
	ab_json(o, ab_text_of("{}"));
	ab_key(o, "error");
	ab_object(o);
	member(o, "code", code);
	ab_key(o, "message");
	ab_json(o, message.at ? message : ab_text_of("\"\""));
	ab_key(o, "details");
	ab_json(o, details.at ? details : ab_text_of("{}"));
	ab_object_end(o);
	ab_envelope_end(o, a, trace, 0);
}

uint32_t ab_publish(ab_agent *a, const char *topic, const ab_out *o)
{
	return a->connected && !o->full ? a->config.publish(a->config.transport, topic, o->at, o->n) : 0;
}
