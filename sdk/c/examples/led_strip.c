/* SPDX-License-Identifier: Apache-2.0 */
/* An LED strip. strip_fill is the driver of yours. */
#include "../mosquitto/ab_mosquitto.h"

#include <stdio.h>

static void strip_fill(int64_t red, int64_t green, int64_t blue)
{
	printf("strip %d %d %d\n", (int)red, (int)green, (int)blue);
	fflush(stdout);
}

static ab_outcome set_color(ab_call *call)
{
	int64_t red, green, blue;
	if (!ab_param_int(call, "red", 0, 255, &red) || !ab_param_int(call, "green", 0, 255, &green) || !ab_param_int(call, "blue", 0, 255, &blue))
		return AB_FAILED;
	strip_fill(red, green, blue);
	return AB_DONE;
}

#define LEVEL "{\"type\":\"integer\",\"minimum\":0,\"maximum\":255}"

static const ab_capability capabilities[] = {{
	.id = "set_color", .description = "Set the colour of the whole strip.", .idempotent = true, .run = set_color,
	.params_schema = "{\"type\":\"object\",\"properties\":{\"red\":" LEVEL ",\"green\":" LEVEL ",\"blue\":" LEVEL "},"
			 "\"required\":[\"red\",\"green\",\"blue\"],\"additionalProperties\":false}",
}};
static const ab_skill skill = {.id = "led-strip", .capabilities = capabilities, .n = 1};

int main(void)
{
	static ab_agent agent;
	static ab_call calls[4];
	static char memory[4 * 1024], message[2048];
	return ab_mosquitto_run(&agent, (ab_config){
		.id = "led-strip", .skills = &skill, .n_skills = 1, .calls = calls, .n_calls = 4,
		.memory = memory, .memory_size = sizeof memory, .message = message, .message_size = sizeof message,
	});
}
