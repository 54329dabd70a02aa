/* SPDX-License-Identifier: Apache-2.0 */
/* Feeds an agent what no bridge sends: the files named as arguments, and mutations of
 * them, each in memory of its exact size, so that a sanitizer sees a byte too far.
 * With clang -fsanitize=fuzzer -DLIBFUZZER the mutations are libFuzzer's. Checked is
 * that whatever the agent publishes is valid JSON, and that its calls end. */
#include "../src/aibridge.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static ab_call calls[4];
static char memory[4 * AB_PART_MIN], message[4 * AB_PART_MIN];
static uint32_t clock_ms, published, ran;

static uint32_t now_ms(void) { return clock_ms; }

static void require(bool held, const char *what)
{
	if (held)
		return;
	fprintf(stderr, "does not hold: %s\n", what);
	abort();
}

static uint32_t publish(void *transport, const char *topic, const char *payload, size_t n)
{
	(void)transport, (void)topic;
	require(ab_json_valid((ab_text){payload, n}), "what is published is JSON");
	require(ab_json_get((ab_text){payload, n}, "id").at != NULL, "and has an id");
	published++;
	return published % 7; /* now and then it cannot */
}

/* work reads all params in every way, answers with them, and takes its time. */
static ab_outcome work(ab_call *c)
{
	char text[32];
	int64_t number;
	bool flag;
	ab_text rest = c->params, key, value;
	ran++;
	ab_list(c->out);
	while (ab_json_next(&rest, &key, &value)) {
		if (ab_json_int(value, &number) || ab_json_milli(value, &number))
			ab_milli(c->out, number);
		else if (ab_json_text(value, text, sizeof text))
			ab_string(c->out, text);
		else if (ab_json_bool(value, &flag))
			ab_bool(c->out, flag);
		ab_json(c->out, value);
	}
	ab_list_end(c->out);
	ab_progress(c, (int)c->step * 50, "at work");
	c->wait_ms = 10;
	if (!ab_param_text(c, "level", text, sizeof text) && c->step == 1)
		return AB_FAILED;
	ab_resume(c);
	return c->step++ < 2 ? AB_AGAIN : ran % 5 == 0 ? ab_reject(c, "not now") : AB_DONE;
}

static const ab_capability capability = {.id = "read", .run = work};
static const ab_skill skill = {"thermometer", NULL, NULL, &capability, 1};

static int one(const char *data, size_t n)
{
	static ab_agent a;
	static uint32_t inputs;
	if (inputs++ % 16 == 0) { /* anew: an id that is known is not run again */
		const char *wrong = ab_init(&a, &(ab_config){.id = "agent-1", .skills = &skill, .n_skills = 1, .seed = 7, .calls = calls, .n_calls = 4,
			.memory = memory, .memory_size = sizeof memory, .message = message, .message_size = sizeof message, .publish = publish, .now_ms = now_ms});
		require(!wrong, wrong ? wrong : "");
		ab_connected(&a);
	}
	char *exact = malloc(n ? n : 1); /* a sanitizer sees its end */
	require(exact != NULL, "memory");
	memcpy(exact, data, n);
	ab_receive(&a, exact, n);
	free(exact);
	clock_ms += 7;
	if (clock_ms % 1001 == 0)
		ab_disconnected(&a);
	if (clock_ms % 1001 == 14)
		ab_connected(&a);
	require(ab_poll(&a) <= 60000, "it says when to poll again");
	return 0;
}

#ifdef LIBFUZZER
int LLVMFuzzerTestOneInput(const unsigned char *data, size_t n) { return one((const char *)data, n); }
#else
static uint32_t random_state = 1;

static uint32_t chance(uint32_t n)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 17;
	random_state ^= random_state << 5;
	return random_state % n;
}

static size_t mutate(char *data, size_t n, size_t max)
{
	static const char *const words[] = {"{", "}", "[", "]", "\"", "\\", "\\ud800", "null", "1e999", "-0", "\xff", ",", ":", "\"id\":", "\"params\":{}", "\"timeout\":1"};
	const char *word = words[chance(sizeof words / sizeof *words)];
	size_t at = n ? chance((uint32_t)n) : 0, length = strlen(word);
	switch (chance(4)) {
	case 0: /* another byte */
		if (n)
			data[at] = (char)chance(256);
		return n;
	case 1: /* an end */
		return at;
	case 2: /* a piece less */
		length = chance((uint32_t)(n - at) + 1);
		memmove(data + at, data + at + length, n - at - length);
		return n - length;
	default: /* a word more */
		if (n + length > max)
			return n;
		memmove(data + at + length, data + at, n - at);
		memcpy(data + at, word, length);
		return n + length;
	}
}

int main(int n_args, char **args)
{
	static char data[4096], mutant[4096];
	uint32_t rounds = n_args > 1 ? (uint32_t)atoi(args[1]) : 0, inputs = 0;
	for (int i = 2; i < n_args; i++) {
		FILE *f = fopen(args[i], "rb");
		require(f != NULL, args[i]);
		size_t n = fread(data, 1, sizeof data, f);
		fclose(f);
		one(data, n);
		for (uint32_t round = 0; round < rounds; round++, inputs++) {
			size_t size = n;
			memcpy(mutant, data, n);
			for (uint32_t k = chance(6); k > 0; k--)
				size = mutate(mutant, size, sizeof mutant);
			one(mutant, size);
		}
	}
	require(n_args < 3 || (published > 0 && ran > 0), "some of it is served");
	printf("%u inputs, %u runs, %u messages\n", inputs, ran, published);
	return 0;
}
#endif
