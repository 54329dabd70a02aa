/* SPDX-License-Identifier: Apache-2.0 */
/* A device whose work takes many steps, and that says when it begins and ends. */
#include "../mosquitto/ab_mosquitto.h"

#include <stdio.h>

enum { STEPS = 2000 };

static ab_outcome walk(ab_call *c)
{
	if (c->step == 0 || c->step == STEPS) {
		puts(c->step == 0 ? "begun" : "done");
		fflush(stdout);
	}
	if (c->step++ == STEPS)
		return AB_DONE;
	c->wait_ms = 1;
	return AB_AGAIN;
}

static const ab_capability capability = {.id = "walk", .description = "Take many steps.", .run = walk};
static const ab_skill skill = {.id = "walker", .capabilities = &capability, .n = 1};

int main(void)
{
	static ab_agent agent;
	static ab_call calls[2];
	static char memory[4 * 1024], message[2048];
	return ab_mosquitto_run(&agent, (ab_config){
		.id = "walker", .skills = &skill, .n_skills = 1, .calls = calls, .n_calls = 2,
		.memory = memory, .memory_size = sizeof memory, .message = message, .message_size = sizeof message,
	});
}
