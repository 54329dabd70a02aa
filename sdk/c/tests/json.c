/* SPDX-License-Identifier: Apache-2.0 */
/* Tables of what is JSON and what is not, of numbers, texts and the writer. */
#include "../src/aibridge.h"

#include <stdio.h>
#include <string.h>

static int failures;

static void check(bool held, const char *what, const char *input)
{
	if (!held) {
		failures++;
		printf("%s: %s\n", what, input);
	}
}

static void validity(void)
{
	static const char *const valid[] = {"{}", " [ ] ", "null", "-0", "0.5e+7", "[1,[2,{\"a\":[]}]]", "\"\\ud83d\\ude00\"", "\"\xE4\xB8\x96\"", "{\"a\":1,\"b\":{}}", "1E3"};
	static const char *const wrong[] = {"", " ", "{", "}", "[1,]", "{\"a\":1,}", "{\"a\"}", "{a:1}", "01", "1.", ".5", "+1", "NaN", "-", "1e", "tru", "nullx", "\"\\ud800\"", "\"\\udc00\"", "\"\\x\"", "\"\n\"", "\"\xff\"", "\"\xC0\x80\"", "\"\xED\xA0\x80\"", "\"", "[1 2]", "[1}", "{\"a\":[}", "\xEF\xBB\xBF{}", "//\n1"};
	char deep[2 * (AB_DEPTH_MAX + 1) + 1] = "";
	for (size_t i = 0; i < sizeof valid / sizeof *valid; i++)
		check(ab_json_valid(ab_text_of(valid[i])), "is JSON", valid[i]);
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
		check(!ab_json_valid(ab_text_of(wrong[i])), "is no JSON", wrong[i]);
	memset(deep, '[', AB_DEPTH_MAX);
	memset(deep + AB_DEPTH_MAX, ']', AB_DEPTH_MAX);
	check(ab_json_valid(ab_text_of(deep)), "is JSON", deep);
	memset(deep, '[', AB_DEPTH_MAX + 1);
	memset(deep + AB_DEPTH_MAX + 1, ']', AB_DEPTH_MAX + 1);
	check(!ab_json_valid((ab_text){deep, sizeof deep - 1}), "is too deep", deep);
}

static void numbers(void)
{
	static const struct {
		const char *text;
		bool whole;
		int64_t value, milli;
	} table[] = {
		{"0", true, 0, 0}, {"-7", true, -7, -7000}, {"3e4", true, 30000, 30000000}, {"30000.0", true, 30000, 30000000}, {"1.5", false, 0, 1500},
		{"-0.2549", false, 0, -254}, {"1.50000000000000000000000000", false, 0, 1500}, {"120e-1", true, 12, 12000}, {"0e999999999", true, 0, 0},
		{"9007199254740991", true, 9007199254740991, 9007199254740991000},
	};
	int64_t v;
	for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
		ab_text t = ab_text_of(table[i].text);
		check(ab_json_int(t, &v) == table[i].whole && (!table[i].whole || v == table[i].value), "whole number", t.at);
		check(ab_json_milli(t, &v) && v == table[i].milli, "thousandths", t.at);
	}
	check(!ab_json_int(ab_text_of("1e200"), &v) && !ab_json_int(ab_text_of("99999999999999999999"), &v) && !ab_json_int(ab_text_of("\"1\""), &v), "no whole number", "");
}

static void fields(void)
{
	char text[8];
	ab_text o = ab_text_of("{ \"a\" : 1 , \"\\u0062\" : \"x\\n\" , \"n\":null, \"d\":1,\"\\u0064\":2, \"z\":\"a\\u0000\" } ");
	check(ab_json_get(o, "a").n == 1, "get", "a");
	check(ab_json_text(ab_json_get(o, "b"), text, sizeof text) && strcmp(text, "x\n") == 0, "escaped key", "b");
	check(!ab_json_text(ab_json_get(o, "b"), text, 2), "a text that does not fit", "b");
	check(!ab_json_text(ab_json_get(o, "z"), text, sizeof text), "a text with NUL", "z");
	check(!ab_json_get(o, "n").at && !ab_json_get(o, "d").at && !ab_json_get(o, "").at, "null, twice, missing", "n d");
}

static void writing(void)
{
	char memory[128];
	ab_out o;
	ab_out_init(&o, memory, sizeof memory - 1);
	ab_object(&o);
	ab_key(&o, "t");
	ab_milli(&o, 21500);
	ab_key(&o, "l");
	ab_list(&o);
	ab_milli(&o, -50);
	ab_int(&o, INT64_MIN);
	ab_milli(&o, 0);
	ab_string(&o, "\"\\\n\xff\xC3\xA9");
	ab_bool(&o, true);
	ab_object(&o);
	ab_object_end(&o);
	ab_list_end(&o);
	ab_object_end(&o);
	memory[o.n] = 0;
	check(!o.full && strcmp(memory, "{\"t\":21.5,\"l\":[-0.05,-9223372036854775808,0,\"\\\"\\\\\\u000a\xEF\xBF\xBD\xC3\xA9\",true,{}]}") == 0, "written", memory);
	ab_out_init(&o, memory, 4);
	ab_string(&o, "long");
	check(o.full && o.n <= 4, "too large", "");
}

int main(void)
{
	validity();
	numbers();
	fields();
	writing();
	if (!failures)
		printf("OK\n");
	return failures != 0;
}
