/* SPDX-License-Identifier: Apache-2.0 */
/* AI Bridge for devices in C99: no allocation, no threads, any transport.
 *
 * An agent is what the bridge calls. The program gives it memory, a clock and a
 * function that publishes, hands it what arrives, and calls ab_poll in its loop.
 * None of these functions may be called from another thread or an interrupt. */
#ifndef AIBRIDGE_H
#define AIBRIDGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define AB_VERSION "0.6.3" /* of the protocol */
#define AB_ID_MAX 64       /* bytes of an id */
#define AB_TOPIC_MAX 160   /* bytes of a topic, with its NUL */
#define AB_DEPTH_MAX 64    /* levels of JSON */
#define AB_PART_MIN 512    /* bytes of memory for one call */

/* A text is a piece of memory; at is NULL if it is not there. */
typedef struct {
	const char *at;
	size_t n;
} ab_text;

ab_text ab_text_of(const char *s); /* of a C string */

/* ---- Reading JSON. All functions take a value that ab_json_valid has passed. ---- */

/* ab_json_valid says whether a text is one JSON value as RFC 8259 has it, in
 * valid UTF-8, with paired surrogates and at most AB_DEPTH_MAX levels. */
bool ab_json_valid(ab_text t);
/* ab_json_get is the value of a field of an object. It is not there if the field
 * is missing or null, if it comes twice, or if object is none. */
ab_text ab_json_get(ab_text object, const char *name);
/* ab_json_next walks over an object or a list: begin with *rest the whole value.
 * key is not there in a list. It returns false at the end. */
bool ab_json_next(ab_text *rest, ab_text *key, ab_text *value);
/* ab_json_int is a whole number, however it is written (3e4, 30000.0). */
bool ab_json_int(ab_text t, int64_t *v);
/* ab_json_milli is any number in thousandths, cut off after the third decimal. */
bool ab_json_milli(ab_text t, int64_t *v);
bool ab_json_bool(ab_text t, bool *v);
/* ab_json_text copies a text without its escapes, with a NUL. It returns false if
 * the value is no text, has a NUL inside or does not fit. */
bool ab_json_text(ab_text t, char *into, size_t size);
bool ab_json_same(ab_text t, const char *s); /* the value is this text */

/* ---- Writing JSON. Commas are set by themselves. What does not fit makes the
 * whole too large, which the agent notices: nothing need be checked. ---- */

typedef struct {
	char *at;
	size_t n, max;
	bool comma, full;
} ab_out;

void ab_out_init(ab_out *o, char *memory, size_t size);
void ab_object(ab_out *o);
void ab_object_end(ab_out *o);
void ab_list(ab_out *o);
void ab_list_end(ab_out *o);
void ab_key(ab_out *o, const char *name);
void ab_int(ab_out *o, int64_t v);
void ab_milli(ab_out *o, int64_t thousandths); /* 21500 is 21.5 */
void ab_bool(ab_out *o, bool v);
void ab_null(ab_out *o);
void ab_string(ab_out *o, const char *s);
void ab_string_of(ab_out *o, ab_text t); /* bytes that are no UTF-8 become U+FFFD */
void ab_json(ab_out *o, ab_text json);   /* a value that is JSON already */

/* ---- Calls ---- */

typedef struct ab_agent ab_agent;
typedef struct ab_call ab_call;

typedef enum {
	AB_DONE,   /* what was written to call->out is the result, {} if nothing */
	AB_FAILED, /* ab_fail said why; without it the caller gets 5000 */
	AB_AGAIN,  /* run the handler again, after call->wait_ms */
	AB_WAIT,   /* nothing to do until ab_finish, a cancellation or the deadline */
	AB_REJECTED /* by ab_reject */
} ab_outcome;

/* A handler runs a capability, in steps if it takes long: it returns AB_AGAIN and
 * is run again, with step and state as it left them. When the caller cancels, or the
 * time is up, it is run a last time with stopped set, to switch off what is on. */
typedef ab_outcome (*ab_handler)(ab_call *call);

typedef struct {
	const char *id, *description;
	const char *params_schema; /* JSON; NULL for no params */
	const char *effect;        /* "read" or "act"; NULL is act */
	ab_handler run;
	bool idempotent, high_risk;
} ab_capability;

typedef struct {
	const char *id, *name, *description;
	const ab_capability *capabilities;
	size_t n;
} ab_skill;

struct ab_call {
	ab_agent *agent;
	ab_text params; /* a JSON object, until the call ends */
	ab_out *out;    /* for the result; begins anew in each step */
	uint32_t wait_ms;
	uint32_t step;  /* 0 at the first run; the handler's own */
	uintptr_t state; /* the handler's own, 0 at first */
	bool stopped;
	/* private */
	const ab_capability *capability;
	char *memory; /* trace and params while it runs, then the answer */
	ab_text trace;
	size_t answer;
	uint32_t wake, arrived, timeout_ms, seq, age;
	uint8_t phase;
	bool accepted, failed, unsent;
	char id[AB_ID_MAX + 1];
};

/* These read a param of a call. If it is missing, or not as wanted, they fail the call
 * with 1001 and its name and return false; the handler then returns AB_FAILED. */
bool ab_param_int(ab_call *c, const char *name, int64_t min, int64_t max, int64_t *v);
bool ab_param_bool(ab_call *c, const char *name, bool *v);
bool ab_param_text(ab_call *c, const char *name, char *into, size_t size);

/* ab_fail and its kin return AB_FAILED: return ab_fail(call, "3006", "the oven is off"); */
ab_outcome ab_fail(ab_call *c, const char *code, const char *message);
/* ab_fail_json takes message and details, an object, as JSON; either may be missing. */
ab_outcome ab_fail_json(ab_call *c, const char *code, ab_text message, ab_text details);
ab_outcome ab_fail_param(ab_call *c, const char *name, const char *reason);
/* ab_reject declines before anything has happened: another agent may be asked. */
ab_outcome ab_reject(ab_call *c, const char *reason);

void ab_progress(ab_call *c, int percent, const char *message);
void ab_delta(ab_call *c, ab_text object); /* a piece of a stream, a JSON object */

/* ab_resume and ab_finish end a call from outside its handler: ab_resume makes
 * call->out ready, ab_finish sends what the handler would have returned. */
void ab_resume(ab_call *c);
void ab_finish(ab_call *c, ab_outcome outcome);

/* ---- Commands of the bridge ---- */

typedef struct ab_command ab_command;
struct ab_command {
	const char *name; /* "resource.list" */
	/* write writes the params; it is run for each attempt, and writes the same. */
	void (*write)(ab_agent *a, ab_command *c, ab_out *out);
	/* answered gets the result, or the error object if it is not ok, or nothing if no
	 * answer came in time. Both are gone when it returns. */
	void (*answered)(ab_agent *a, ab_command *c, bool ok, ab_text value);
	void *user;
	uint32_t timeout_ms; /* 0 is 30000 */
	/* min_revision is a revision of the state that the bridge is to have seen before it
	 * answers, 0 for any. revision is the one that the answer names, 0 for none: that of a
	 * write is the min_revision of a read at another bridge of the cluster. */
	int64_t min_revision, revision;
	/* private */
	ab_command *next;
	uint32_t began, due, pause, message;
	bool sent, acknowledged, forever;
	char id[40];
};

/* ab_send runs a command. The struct stays where it is until it is answered. It is
 * repeated with the same id after a broken connection, and as its error says. */
void ab_send(ab_agent *a, ab_command *c);
void ab_withdraw(ab_agent *a, ab_command *c); /* answered is not called any more */

/* ---- The agent ---- */

typedef struct {
	const char *id;   /* of the agent; the MQTT client id is the same */
	const char *root; /* of all topics; NULL is "aibridge" */
	const ab_skill *skills;
	size_t n_skills;
	uint64_t seed; /* random, another at each start: ids of commands begin with it */

	ab_call *calls; /* at work and remembered: the last n calls */
	size_t n_calls;
	char *memory; /* n_calls equal parts of at least AB_PART_MIN bytes: what fits in one */
	size_t memory_size; /* bounds the params of a call, and its answer as an envelope */
	char *message; /* what is being written; the registration must fit */
	size_t message_size;

	/* publish sends with QoS 1. It returns a number of the transport's for the message,
	 * or 0 if it cannot now: there is no connection, or a queue is full. */
	uint32_t (*publish)(void *transport, const char *topic, const char *payload, size_t n);
	/* The transport sends again by itself, over the next connection, what has not been
	 * acknowledged (libmosquitto does), and says with ab_acknowledged what has. */
	bool retransmits;
	uint32_t (*now_ms)(void); /* counts up, and may wrap */
	void *transport;
} ab_config;

struct ab_agent {
	ab_config config;
	char request_topic[AB_TOPIC_MAX];  /* to subscribe to, */
	char commands_topic[AB_TOPIC_MAX]; /* both, at each connection */
	void *user;
	/* private */
	char response_topic[AB_TOPIC_MAX], bridge_topic[AB_TOPIC_MAX];
	size_t part;
	ab_out out;
	ab_command registration, heartbeat, *commands;
	uint32_t listening_since, next_beat, beat_ms, counter, age;
	bool connected, beating;
};

/* ab_init begins. It returns NULL, or what is wrong with the configuration. */
const char *ab_init(ab_agent *a, const ab_config *config);
/* ab_connected is called when both topics are subscribed: the agent registers itself
 * and sends what it could not. ab_disconnected when the connection is gone. */
void ab_connected(ab_agent *a);
void ab_disconnected(ab_agent *a);
void ab_acknowledged(ab_agent *a, uint32_t message); /* a number that publish returned */
/* ab_receive takes a message of one of the two topics. */
void ab_receive(ab_agent *a, const char *payload, size_t n);
/* ab_poll runs what is due. It returns the milliseconds until there is more to do. */
uint32_t ab_poll(ab_agent *a);

#ifdef __cplusplus
}
#endif
#endif
