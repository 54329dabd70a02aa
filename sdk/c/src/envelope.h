/* SPDX-License-Identifier: Apache-2.0 */
/* What the sources of the agent share; no part of the interface. */
#ifndef AIBRIDGE_ENVELOPE_H
#define AIBRIDGE_ENVELOPE_H

#include "aibridge.h"

enum { AB_FREE, AB_RUNNING, AB_WAITING, AB_ANSWERED };

static inline ab_text ab_written(const ab_out *o) { return (ab_text){o->at, o->n}; }
static inline bool ab_due(uint32_t now, uint32_t at) { return (int32_t)(now - at) >= 0; }
static inline uint32_t ab_now(const ab_agent *a) { return a->config.now_ms(); }

/* ab_envelope_begin writes all up to the field that differs, ab_envelope_end the rest;
 * trace and min_revision are left out if they are not there or 0. */
void ab_envelope_begin(ab_out *o, const char *id, const char *type);
void ab_envelope_end(ab_out *o, const ab_agent *a, ab_text trace, int64_t min_revision);
void ab_envelope_failed(ab_out *o, const ab_agent *a, const char *id, ab_text trace, const char *code, ab_text message, ab_text details);
uint32_t ab_publish(ab_agent *a, const char *topic, const ab_out *o);

/* calls.c */
ab_call *ab_call_find(ab_agent *a, const char *id);
ab_call *ab_call_take(ab_agent *a); /* a free slot, NULL if all are at work */
void ab_call_run(ab_call *c);
void ab_call_stop(ab_call *c, const char *code, const char *message);
void ab_call_resend(ab_call *c);
uint32_t ab_calls_poll(ab_agent *a, uint32_t wait);

/* commands.c */
bool ab_register_fits(ab_agent *a);
void ab_register(ab_agent *a);
void ab_commands_connected(ab_agent *a);
void ab_commands_answer(ab_agent *a, const char *id, ab_text envelope);
uint32_t ab_commands_poll(ab_agent *a, uint32_t wait);

#endif
