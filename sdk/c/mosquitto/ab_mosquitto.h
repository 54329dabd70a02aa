/* SPDX-License-Identifier: Apache-2.0 */
/* An agent over libmosquitto, for devices with an operating system. */
#ifndef AB_MOSQUITTO_H
#define AB_MOSQUITTO_H

#include "../src/aibridge.h"

/* ab_mosquitto_run connects an agent and serves it until SIGINT or SIGTERM. It sets
 * publish, now_ms, transport and seed of the configuration, and id if it is NULL.
 * The environment says where the bridge is and what to show it:
 *
 *   AIBRIDGE_URL         mqtt://HOST:PORT, or mqtts:// (default mqtt://127.0.0.1:1883)
 *   AIBRIDGE_AGENT_ID    the id, if the configuration has none
 *   AIBRIDGE_API_KEY     an API key, or
 *   AIBRIDGE_TOKEN_FILE  a file with a token; a newer one in it is shown at once
 *   AIBRIDGE_CA          a file with the bridge's authority, for mqtts://
 *
 * It returns an exit code: 0 if it was asked to end, 1 if the credential is refused
 * or the configuration is wrong, which it says on stderr. */
int ab_mosquitto_run(ab_agent *a, ab_config config);

#endif
