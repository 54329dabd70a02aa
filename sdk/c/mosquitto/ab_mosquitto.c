/* SPDX-License-Identifier: Apache-2.0 */
/* The connection: made, lost and made again, with pauses that grow. */
#define _POSIX_C_SOURCE 200809L
#include "ab_mosquitto.h"

#include <mosquitto.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { KEEPALIVE_S = 30, PAUSE_MIN_MS = 100, PAUSE_MAX_MS = 15000, LOOK_MS = 250 };

typedef struct {
	ab_agent *agent;
	struct mosquitto *mqtt;
	const char *token_file;
	char host[256], token[8192];
	int port;
	bool tls, made, up, refused; /* made: there is one, or soon; up: the bridge serves it */
	uint32_t pause, next;        /* when it is lost: how long to wait, and until when */
} connection;

static volatile sig_atomic_t ending;

static void end(int signal)
{
	(void)signal;
	ending = 1;
}

static uint32_t now_ms(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint32_t)t.tv_sec * 1000u + (uint32_t)(t.tv_nsec / 1000000);
}

static void nap(uint32_t ms)
{
	struct timespec t = {ms / 1000, (long)(ms % 1000) * 1000000};
	nanosleep(&t, NULL); /* a signal ends it */
}

static uint32_t publish(void *transport, const char *topic, const char *payload, size_t n)
{
	connection *c = transport;
	int id = 0;
	bool sent = c->up && mosquitto_publish(c->mqtt, &id, topic, (int)n, payload, 1, false) == MOSQ_ERR_SUCCESS;
	return sent ? (uint32_t)id : 0;
}

static void on_publish(struct mosquitto *mqtt, void *of, int id)
{
	(void)mqtt;
	ab_acknowledged(((connection *)of)->agent, (uint32_t)id);
}

static void on_connect(struct mosquitto *mqtt, void *of, int code)
{
	connection *c = of;
	char *topics[] = {c->agent->request_topic, c->agent->commands_topic};
	c->refused = code == 4 || code == 5; /* bad user name or password, not authorized */
	if (code == 0)
		mosquitto_subscribe_multiple(mqtt, NULL, 2, topics, 1, 0, NULL);
}

static void on_subscribe(struct mosquitto *mqtt, void *of, int id, int n, const int *granted)
{
	connection *c = of;
	(void)id;
	for (int i = 0; i < n; i++)
		if (granted[i] > 2) {
			fprintf(stderr, "the bridge refuses the topics of the agent %s\n", c->agent->config.id);
			mosquitto_disconnect(mqtt);
			return;
		}
	c->up = true;
	c->pause = 0;
	ab_connected(c->agent);
}

static void on_disconnect(struct mosquitto *mqtt, void *of, int code)
{
	connection *c = of;
	(void)mqtt, (void)code;
	c->up = false;
	ab_disconnected(c->agent);
}

static void on_message(struct mosquitto *mqtt, void *of, const struct mosquitto_message *m)
{
	(void)mqtt;
	ab_receive(((connection *)of)->agent, m->payload, (size_t)m->payloadlen);
}

/* read_url takes mqtt://HOST:PORT apart. */
static bool read_url(connection *c)
{
	const char *url = getenv("AIBRIDGE_URL");
	if (!url || !*url)
		url = "mqtt://127.0.0.1:1883";
	c->tls = strncmp(url, "mqtts://", 8) == 0;
	if (!c->tls && strncmp(url, "mqtt://", 7) != 0)
		return false;
	const char *host = url + (c->tls ? 8 : 7), *colon = strrchr(host, ':');
	if (colon && strchr(colon, ']'))
		colon = NULL; /* it is one of an IPv6 address */
	size_t n = colon ? (size_t)(colon - host) : strcspn(host, "/");
	if (n > 2 && *host == '[')
		host++, n -= 2;
	if (n == 0 || n >= sizeof c->host)
		return false;
	memcpy(c->host, host, n);
	c->host[n] = 0;
	c->port = colon ? atoi(colon + 1) : c->tls ? 8883 : 1883;
	return c->port > 0 && c->port < 65536;
}

/* read_token says whether the file has another token than before. */
static bool read_token(connection *c)
{
	char text[sizeof c->token];
	FILE *f = c->token_file ? fopen(c->token_file, "r") : NULL;
	if (!f)
		return false;
	size_t n = fread(text, 1, sizeof text - 1, f);
	fclose(f);
	text[n] = 0;
	text[strcspn(text, "\r\n")] = 0;
	if (!*text || strcmp(text, c->token) == 0)
		return false;
	strcpy(c->token, text);
	return true;
}

static void show_credential(connection *c)
{
	const char *key = getenv("AIBRIDGE_API_KEY");
	if (c->token_file && *c->token)
		mosquitto_username_pw_set(c->mqtt, "jwt", c->token);
	else if (key && *key)
		mosquitto_username_pw_set(c->mqtt, "apikey", key);
}

static bool random_seed(uint64_t *seed)
{
	FILE *f = fopen("/dev/urandom", "rb");
	bool ok = f && fread(seed, sizeof *seed, 1, f) == 1;
	if (f)
		fclose(f);
	return ok;
}

/* lose waits for the next attempt, each time longer, and not all devices at once. */
static void lose(connection *c)
{
	if (c->up)
		on_disconnect(c->mqtt, c, 0);
	c->made = false;
	uint32_t span = c->pause ? c->pause : PAUSE_MIN_MS;
	c->pause = span * 2 < PAUSE_MAX_MS ? span * 2 : PAUSE_MAX_MS;
	c->next = now_ms() + span / 2 + (uint32_t)rand() % span;
}

static void attempt(connection *c)
{
	c->made = mosquitto_connect(c->mqtt, c->host, c->port, KEEPALIVE_S) == MOSQ_ERR_SUCCESS;
	if (!c->made)
		lose(c);
}

/* turn serves the connection, or waits for the next one, for at most some time: the
 * handlers go on meanwhile. */
static void turn(connection *c, uint32_t most)
{
	if (c->made) {
		if (mosquitto_loop(c->mqtt, (int)most, 1) != MOSQ_ERR_SUCCESS && !c->refused)
			lose(c);
		return;
	}
	int32_t left = (int32_t)(c->next - now_ms());
	if (left <= 0)
		attempt(c);
	else
		nap((uint32_t)left < most ? (uint32_t)left : most);
}

static void serve(connection *c)
{
	uint32_t looked = now_ms();
	attempt(c);
	while (!ending && !c->refused) {
		uint32_t wait = ab_poll(c->agent);
		turn(c, wait < LOOK_MS ? wait : LOOK_MS);
		if (now_ms() - looked < LOOK_MS)
			continue;
		looked = now_ms();
		if (read_token(c)) { /* the connection ends with the old one */
			show_credential(c);
			mosquitto_disconnect(c->mqtt);
		}
	}
	mosquitto_disconnect(c->mqtt);
}

static int fail(const char *why)
{
	fprintf(stderr, "%s\n", why);
	return 1;
}

static int set_up(connection *c)
{
	const char *ca = getenv("AIBRIDGE_CA");
	c->token_file = getenv("AIBRIDGE_TOKEN_FILE");
	if (c->token_file && !*c->token_file)
		c->token_file = NULL;
	read_token(c);
	show_credential(c);
	/* An answer and its acknowledgement are small: each goes at once. */
	mosquitto_int_option(c->mqtt, MOSQ_OPT_TCP_NODELAY, 1);
	mosquitto_connect_callback_set(c->mqtt, on_connect);
	mosquitto_subscribe_callback_set(c->mqtt, on_subscribe);
	mosquitto_disconnect_callback_set(c->mqtt, on_disconnect);
	mosquitto_publish_callback_set(c->mqtt, on_publish);
	mosquitto_message_callback_set(c->mqtt, on_message);
	if (c->tls && mosquitto_tls_set(c->mqtt, ca, ca ? NULL : "/etc/ssl/certs", NULL, NULL, NULL) != MOSQ_ERR_SUCCESS)
		return fail("TLS: AIBRIDGE_CA cannot be used");
	return 0;
}

int ab_mosquitto_run(ab_agent *a, ab_config config)
{
	static connection c; /* the memory of the token is large for a stack */
	c.agent = a;
	config.publish = publish;
	config.retransmits = true;
	config.now_ms = now_ms;
	config.transport = &c;
	if (!config.id)
		config.id = getenv("AIBRIDGE_AGENT_ID");
	if (!read_url(&c))
		return fail("AIBRIDGE_URL must be mqtt://HOST:PORT or mqtts://HOST:PORT");
	if (!random_seed(&config.seed))
		return fail("/dev/urandom cannot be read");
	srand((unsigned)config.seed);
	const char *wrong = ab_init(a, &config);
	if (wrong)
		return fail(wrong);
	struct sigaction action = {.sa_handler = end};
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	mosquitto_lib_init();
	c.mqtt = mosquitto_new(config.id, true, &c);
	if (!c.mqtt)
		return fail("no memory");
	int code = set_up(&c);
	if (code == 0)
		serve(&c);
	mosquitto_destroy(c.mqtt);
	mosquitto_lib_cleanup();
	if (c.refused)
		return fail("the bridge refuses the credential: set AIBRIDGE_API_KEY or AIBRIDGE_TOKEN_FILE");
	return code;
}
