/* SPDX-License-Identifier: Apache-2.0 */
/* Reads JSON strictly, in place, with a bounded stack. */
#include "aibridge.h"

#include <string.h>

ab_text ab_text_of(const char *s) { return (ab_text){s, s ? strlen(s) : 0}; }

static const char *space(const char *p, const char *end)
{
	while (p < end && (*p == ' ' || *p == '\t' || *p == '\n' || *p == '\r'))
		p++;
	return p;
}

static int hex(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* unit reads the four digits of \uXXXX; -1 if they are none. */
static int32_t unit(const char *p, const char *end)
{
	int32_t v = 0;
	if (end - p < 4)
		return -1;
	for (int i = 0; i < 4; i++) {
		int h = hex(p[i]);
		if (h < 0)
			return -1;
		v = v * 16 + h;
	}
	return v;
}

/* utf8 is the length of the character at p, 0 if it is none. */
size_t ab_utf8(const char *p, const char *end)
{
	const unsigned char *c = (const unsigned char *)p;
	size_t n = c[0] < 0x80 ? 1 : c[0] < 0xC2 ? 0 : c[0] < 0xE0 ? 2 : c[0] < 0xF0 ? 3 : c[0] < 0xF5 ? 4 : 0;
	if (n == 0 || (size_t)(end - p) < n)
		return 0;
	for (size_t i = 1; i < n; i++)
		if ((c[i] & 0xC0) != 0x80)
			return 0;
	if ((c[0] == 0xE0 && c[1] < 0xA0) || (c[0] == 0xED && c[1] > 0x9F) || (c[0] == 0xF0 && c[1] < 0x90) || (c[0] == 0xF4 && c[1] > 0x8F))
		return 0;
	return n;
}

static size_t encode(uint32_t c, char *into)
{
	if (c < 0x80) {
		into[0] = (char)c;
		return 1;
	}
	if (c < 0x800) {
		into[0] = (char)(0xC0 | c >> 6);
		into[1] = (char)(0x80 | (c & 0x3F));
		return 2;
	}
	if (c < 0x10000) {
		into[0] = (char)(0xE0 | c >> 12);
		into[1] = (char)(0x80 | (c >> 6 & 0x3F));
		into[2] = (char)(0x80 | (c & 0x3F));
		return 3;
	}
	into[0] = (char)(0xF0 | c >> 18);
	into[1] = (char)(0x80 | (c >> 12 & 0x3F));
	into[2] = (char)(0x80 | (c >> 6 & 0x3F));
	into[3] = (char)(0x80 | (c & 0x3F));
	return 4;
}

/* escape decodes what follows a backslash into at most four bytes. */
static const char *escape(const char *p, const char *end, char *into, size_t *n)
{
	static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
	if (p == end)
		return NULL;
	const char *simple = *p ? strchr(from, *p) : NULL;
	if (simple) {
		into[0] = to[simple - from];
		*n = 1;
		return p + 1;
	}
	if (*p != 'u')
		return NULL;
	int32_t c = unit(p + 1, end);
	p += 5;
	if (c < 0 || (c >= 0xDC00 && c <= 0xDFFF))
		return NULL;
	if (c >= 0xD800 && c <= 0xDBFF) {
		int32_t low = end - p >= 6 && p[0] == '\\' && p[1] == 'u' ? unit(p + 2, end) : -1;
		if (low < 0xDC00 || low > 0xDFFF)
			return NULL;
		c = 0x10000 + ((c - 0xD800) << 10) + (low - 0xDC00);
		p += 6;
	}
	*n = encode((uint32_t)c, into);
	return p;
}

/* character decodes one character inside a text; NULL if there is none. */
static const char *character(const char *p, const char *end, char *into, size_t *n)
{
	if (p == end || (unsigned char)*p < 0x20)
		return NULL;
	if (*p == '\\')
		return escape(p + 1, end, into, n);
	if ((*n = ab_utf8(p, end)) == 0)
		return NULL;
	memcpy(into, p, *n);
	return p + *n;
}

static const char *skip_string(const char *p, const char *end)
{
	char c[4];
	size_t n;
	if (p == end || *p != '"')
		return NULL;
	for (p++; p && p < end && *p != '"';)
		p = character(p, end, c, &n);
	return p && p < end ? p + 1 : NULL;
}

static const char *digits(const char *p, const char *end)
{
	const char *began = p;
	while (p < end && *p >= '0' && *p <= '9')
		p++;
	return p == began ? NULL : p;
}

static const char *skip_number(const char *p, const char *end)
{
	if (p < end && *p == '-')
		p++;
	if (p < end && *p == '0')
		p++;
	else if (!(p = digits(p, end)))
		return NULL;
	if (p < end && *p == '.' && !(p = digits(p + 1, end)))
		return NULL;
	if (p < end && (*p == 'e' || *p == 'E')) {
		p++;
		if (p < end && (*p == '+' || *p == '-'))
			p++;
		p = digits(p, end);
	}
	return p;
}

static const char *skip_word(const char *p, const char *end, const char *word)
{
	size_t n = strlen(word);
	return (size_t)(end - p) >= n && memcmp(p, word, n) == 0 ? p + n : NULL;
}

static const char *skip_scalar(const char *p, const char *end)
{
	switch (*p) {
	case '"':
		return skip_string(p, end);
	case 't':
		return skip_word(p, end, "true");
	case 'f':
		return skip_word(p, end, "false");
	case 'n':
		return skip_word(p, end, "null");
	default:
		return skip_number(p, end);
	}
}

static const char *skip_key(const char *p, const char *end)
{
	if (!(p = skip_string(p, end)))
		return NULL;
	p = space(p, end);
	return p < end && *p == ':' ? p + 1 : NULL;
}

/* skip_value is the end of the value that begins at p, NULL if there is none. Which
 * of the levels around are objects is in the bits of a number. */
static const char *skip_value(const char *p, const char *end)
{
	uint64_t objects = 0;
	unsigned depth = 0;
	for (;;) {
		if ((p = space(p, end)) == end)
			return NULL;
		if (*p == '{' || *p == '[') {
			if (depth == AB_DEPTH_MAX)
				return NULL;
			bool object = *p == '{';
			objects = objects << 1 | object; /* the innermost is the lowest bit */
			depth++;
			p = space(p + 1, end);
			if (p == end)
				return NULL;
			if (*p != (object ? '}' : ']')) {
				if (object && !(p = skip_key(p, end)))
					return NULL;
				continue;
			}
		} else if (!(p = skip_scalar(p, end))) {
			return NULL;
		}
		for (;;) { /* after a value, or at the end of an empty one */
			if (depth == 0)
				return p;
			bool object = objects & 1;
			if ((p = space(p, end)) == end)
				return NULL;
			if (*p == ',') {
				p = space(p + 1, end);
				if (object && !(p = skip_key(p, end)))
					return NULL;
				break;
			}
			if (*p != (object ? '}' : ']'))
				return NULL;
			p++;
			objects >>= 1;
			depth--;
		}
	}
}

bool ab_json_valid(ab_text t)
{
	const char *end = t.at + t.n, *p = t.at ? skip_value(t.at, end) : NULL;
	return p && space(p, end) == end;
}

bool ab_json_next(ab_text *rest, ab_text *key, ab_text *value)
{
	const char *p = rest->at, *end = p ? p + rest->n : NULL;
	*key = *value = (ab_text){NULL, 0};
	if (!p || (p = space(p, end)) == end || (*p != '{' && *p != '[' && *p != ','))
		return false;
	/* The last byte tells an object from a list; a comma stands before what is left. */
	const char *last = end;
	while (last > p && (last[-1] == ' ' || last[-1] == '\t' || last[-1] == '\n' || last[-1] == '\r'))
		last--;
	bool object = last[-1] == '}';
	p = space(p + 1, end);
	if (p == end || *p == '}' || *p == ']')
		return false;
	if (object) {
		key->at = p;
		if (!(p = skip_string(p, end)))
			return false;
		key->n = (size_t)(p - key->at);
		p = space(p, end);
		if (p == end || *p != ':')
			return false;
		p = space(p + 1, end);
	}
	const char *began = p;
	if (!(p = skip_value(p, end)))
		return false;
	*value = (ab_text){began, (size_t)(p - began)};
	*rest = (ab_text){p, (size_t)(end - p)};
	return true;
}

static bool is_null(ab_text t) { return t.n == 4 && t.at[0] == 'n'; }

ab_text ab_json_get(ab_text object, const char *name)
{
	ab_text key, value, found = {NULL, 0};
	if (!object.at || !object.n || object.at[0] != '{')
		return found;
	while (ab_json_next(&object, &key, &value)) {
		if (!ab_json_same(key, name))
			continue;
		if (found.at)
			return (ab_text){NULL, 0};
		found = value;
	}
	return found.at && is_null(found) ? (ab_text){NULL, 0} : found;
}

/* decimal is a number times ten to the power of scale. */
static bool decimal(ab_text t, int scale, bool cut, int64_t *v)
{
	const char *p = t.at, *end = p ? p + t.n : NULL;
	if (!p || !t.n || (*p != '-' && (*p < '0' || *p > '9')))
		return false;
	bool negative = *p == '-', fraction = false, negative_power = false;
	uint64_t m = 0;
	int32_t power = scale, e = 0;
	for (p += negative; p < end && *p != 'e' && *p != 'E'; p++) {
		if (*p == '.') {
			fraction = true;
		} else if (m <= (INT64_MAX - 9) / 10) {
			m = m * 10 + (uint64_t)(*p - '0');
			power -= fraction;
		} else if (*p != '0' && !(fraction && cut)) {
			return false;
		} else {
			power += !fraction;
		}
	}
	if (p < end) {
		p++;
		negative_power = *p == '-';
		for (p += *p == '-' || *p == '+'; p < end; p++)
			e = e < 100000 ? e * 10 + (*p - '0') : e;
		power += negative_power ? -e : e;
	}
	for (; power < 0 && m; power++) {
		if (m % 10 && !cut)
			return false;
		m /= 10;
	}
	for (; power > 0 && m; power--) {
		if (m > INT64_MAX / 10)
			return false;
		m *= 10;
	}
	*v = negative ? -(int64_t)m : (int64_t)m;
	return true;
}

bool ab_json_int(ab_text t, int64_t *v) { return decimal(t, 0, false, v); }
bool ab_json_milli(ab_text t, int64_t *v) { return decimal(t, 3, true, v); }

bool ab_json_bool(ab_text t, bool *v)
{
	if (!t.at || !t.n || (*t.at != 't' && *t.at != 'f'))
		return false;
	*v = *t.at == 't';
	return true;
}

bool ab_json_text(ab_text t, char *into, size_t size)
{
	if (!t.at || t.n < 2 || *t.at != '"' || !size)
		return false;
	const char *end = t.at + t.n - 1;
	size_t n, used = 0;
	for (const char *p = t.at + 1; p < end; used += n) {
		char c[4];
		if (!(p = character(p, end, c, &n)) || !c[0] || used + n >= size)
			return false;
		memcpy(into + used, c, n);
	}
	into[used] = 0;
	return true;
}

bool ab_json_same(ab_text t, const char *s)
{
	if (!t.at || t.n < 2 || *t.at != '"')
		return false;
	const char *end = t.at + t.n - 1;
	size_t n, left = strlen(s);
	for (const char *p = t.at + 1; p < end; s += n, left -= n) {
		char c[4];
		if (!(p = character(p, end, c, &n)) || n > left || memcmp(c, s, n) != 0)
			return false;
	}
	return left == 0;
}
