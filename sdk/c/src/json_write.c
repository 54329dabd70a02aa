/* SPDX-License-Identifier: Apache-2.0 */
/* Writes JSON into memory that is given. */
#include "aibridge.h"

#include <string.h>

size_t ab_utf8(const char *p, const char *end);

void ab_out_init(ab_out *o, char *memory, size_t size) { *o = (ab_out){memory, 0, size, false, false}; }

static void put(ab_out *o, const char *s, size_t n)
{
	if (o->full || n > o->max - o->n) {
		o->full = true;
		return;
	}
	memcpy(o->at + o->n, s, n);
	o->n += n;
}

/* value begins a value, a key or what opens one. */
static void value(ab_out *o, bool comma_after)
{
	if (o->comma)
		put(o, ",", 1);
	o->comma = comma_after;
}

static void bracket(ab_out *o, char c, bool closes)
{
	if (!closes)
		value(o, false);
	put(o, &c, 1);
	o->comma = closes;
}

void ab_object(ab_out *o) { bracket(o, '{', false); }
void ab_object_end(ab_out *o) { bracket(o, '}', true); }
void ab_list(ab_out *o) { bracket(o, '[', false); }
void ab_list_end(ab_out *o) { bracket(o, ']', true); }

void ab_key(ab_out *o, const char *name)
{
	ab_string(o, name);
	put(o, ":", 1);
	o->comma = false;
}

void ab_json(ab_out *o, ab_text json)
{
	value(o, true);
	put(o, json.at, json.n);
}

void ab_bool(ab_out *o, bool v) { ab_json(o, ab_text_of(v ? "true" : "false")); }
void ab_null(ab_out *o) { ab_json(o, ab_text_of("null")); }

/* number writes v with so many decimals; zeros at their end are left out. */
static void number(ab_out *o, int64_t v, int decimals)
{
	char text[24], *p = text + sizeof text;
	uint64_t m = v < 0 ? 0 - (uint64_t)v : (uint64_t)v;
	for (; decimals && m % 10 == 0; decimals--)
		m /= 10;
	bool point = decimals > 0;
	do {
		*--p = (char)('0' + m % 10);
		m /= 10;
		if (point && --decimals == 0) {
			*--p = '.';
			point = false;
			if (!m)
				*--p = '0';
		}
	} while (m || point);
	if (v < 0)
		*--p = '-';
	ab_json(o, (ab_text){p, (size_t)(text + sizeof text - p)});
}

void ab_int(ab_out *o, int64_t v) { number(o, v, 0); }
void ab_milli(ab_out *o, int64_t thousandths) { number(o, thousandths, 3); }

void ab_string(ab_out *o, const char *s) { ab_string_of(o, ab_text_of(s)); }

void ab_string_of(ab_out *o, ab_text t)
{
	static const char hex[] = "0123456789abcdef";
	value(o, true);
	put(o, "\"", 1);
	for (const char *p = t.at, *end = t.at + t.n; p < end;) {
		unsigned char c = (unsigned char)*p;
		size_t n = ab_utf8(p, end);
		if (n == 0) {
			put(o, "\xEF\xBF\xBD", 3);
			n = 1;
		} else if (c < 0x20) {
			char code[6] = {'\\', 'u', '0', '0', hex[c >> 4], hex[c & 15]};
			put(o, code, 6);
		} else {
			if (c == '"' || c == '\\')
				put(o, "\\", 1);
			put(o, p, n);
		}
		p += n;
	}
	put(o, "\"", 1);
}
