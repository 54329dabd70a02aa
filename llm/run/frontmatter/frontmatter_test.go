package frontmatter

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/aibridge/aibridge/llm/run/fault"
)

const sample = `---
schemaVersion: "1.1"
workflowType: create-story # what it makes
currentNodeId: ""
stepsCompleted: []
variables:
  count: 3
  "on": yes
# decided so far
decisionLog: []
date: 2026-01-03
---
# Body
---
not frontmatter
`

func parse(t *testing.T, text string) *Document {
	t.Helper()
	d, err := Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func apply(t *testing.T, text, update string) string {
	t.Helper()
	u, err := ParseUpdate([]byte(update))
	if err != nil {
		t.Fatal(err)
	}
	after, err := parse(t, text).Apply(u)
	if err != nil {
		t.Fatal(err)
	}
	return string(after)
}

func TestValuesAreWhatJSONWouldHave(t *testing.T) {
	d := parse(t, sample)
	want := map[string]any{
		"schemaVersion": "1.1", "workflowType": "create-story", "currentNodeId": "",
		"stepsCompleted": []any{}, "decisionLog": []any{}, "date": "2026-01-03",
		"variables": map[string]any{"count": int64(3), "on": "yes"},
	}
	if got := d.Values(); !reflect.DeepEqual(got, want) {
		t.Errorf("values are\n%#v, not\n%#v", got, want)
	}
	if got := string(d.Body()); got != "# Body\n---\nnot frontmatter\n" {
		t.Errorf("the body is %q", got)
	}
	if text, ok := parse(t, "---\nschemaVersion: 1.10\n---\n").Text("schemaVersion"); !ok || text != "1.10" {
		t.Errorf("the text of 1.10 is %q, %v", text, ok)
	}
}

func TestAPatchChangesWhatItNamesAndNothingElse(t *testing.T) {
	got := apply(t, sample, `{
		"stepsCompleted": {"append": ["step-01", "step-01", "step-02"]},
		"variables": {"set": {"kind": "a: b", "count": 4, "ratio": 0.5, "whole": 2.0, "list": [1, null, true], "big": 1e30}},
		"decisionLog": {"append": [{"from": "step-01", "to": "step-02", "label": "next"}]},
		"artifacts": {"append": "artifacts/a.md"},
		"currentNodeId": {"set": "step-02"},
		"updatedAt": {"set": "2026-01-03T10:00:00Z"}}`)
	want := `---
schemaVersion: "1.1"
workflowType: create-story # what it makes
currentNodeId: "step-02"
stepsCompleted:
  - step-01
  - step-02
variables:
  count: 4
  "on": yes
  big: 1e+30
  kind: 'a: b'
  list:
    - 1
    - null
    - true
  ratio: 0.5
  whole: 2
# decided so far
decisionLog:
  - from: step-01
    label: next
    to: step-02
date: 2026-01-03
artifacts:
  - artifacts/a.md
updatedAt: "2026-01-03T10:00:00Z"
---
# Body
---
not frontmatter
`
	if got != want {
		t.Errorf("the file is\n%s\nnot\n%s", got, want)
	}
}

func TestApplyingAPatchTwiceIsApplyingItOnce(t *testing.T) {
	update := `{"stepsCompleted":{"append":["a"]},"artifacts":{"append":["x"]},"decisionLog":{"append":[{"from":"a","to":"b","label":"next","n":1}]},"variables":{"set":{"v":{"deep":[1.5]}}},"currentNodeId":{"set":"b"}}`
	once := apply(t, sample, update)
	if twice := apply(t, once, update); twice != once {
		t.Errorf("a second time made\n%s\nof\n%s", twice, once)
	}
	// the same choice again after another one is one more, as in a loop
	other := apply(t, once, `{"decisionLog":{"append":[{"from":"b","to":"a","label":"back"}]}}`)
	again := parse(t, apply(t, other, update)).Values()["decisionLog"].([]any)
	if len(again) != 3 {
		t.Errorf("the log has %d entries, not 3", len(again))
	}
}

func TestWindowsLinesAndByteOrderMarksStay(t *testing.T) {
	text := "\ufeff" + strings.ReplaceAll("---\na: 1\nnote: |\n  two\n  lines\n---\nbody\n", "\n", "\r\n") + "plain\nend"
	got := apply(t, text, `{"currentNodeId":{"set":"x"}}`)
	want := "\ufeff" + strings.ReplaceAll("---\na: 1\nnote: |\n  two\n  lines\ncurrentNodeId: x\n---\nbody\n", "\n", "\r\n") + "plain\nend"
	if got != want {
		t.Errorf("got %q, not %q", got, want)
	}
	if note := parse(t, got).Values()["note"]; note != "two\nlines\n" {
		t.Errorf("the note is %q", note)
	}
}

func TestTextsThatLookLikeSomethingElseStayTexts(t *testing.T) {
	for _, text := range []string{"", "yes", "null", "1.1", "0x10", "2026-01-03", "- a", "a: b", "#", "---", "...", "%x", "\ttab", "two\nlines", " \n ", "é😀", "\u0085\u2028", "\x00", "'\"", "*a", "&a", "<<", "@x", "`"} {
		u := Update{Variables: &SetMap{Set: map[string]any{text: text}}, StepsCompleted: &Append{Append: Texts{text}}, CurrentNodeID: &SetValue{Set: text}}
		after, err := parse(t, sample).Apply(u)
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		v := parse(t, string(after)).Values()
		if v["variables"].(map[string]any)[text] != text || v["currentNodeId"] != text || v["stepsCompleted"].([]any)[0] != text {
			t.Errorf("%q became %#v", text, v)
		}
	}
}

func TestMissingAndEmptyFieldsAreMade(t *testing.T) {
	for _, text := range []string{"---\n---\n", "---\n# only this\n---\n", "---\nstepsCompleted:\nvariables: ~\n---\n", "---\n---", "---   \n--- "} {
		got := parse(t, apply(t, text, `{"stepsCompleted":{"append":["a"]},"variables":{"set":{"x":1}}}`)).Values()
		want := map[string]any{"stepsCompleted": []any{"a"}, "variables": map[string]any{"x": int64(1)}}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%q became %#v", text, got)
		}
	}
}

func TestAliasesStandForTheirValues(t *testing.T) {
	text := "---\nbase: &b {x: 1, y: [1, 2]}\ncopy: *b\nvariables:\n  <<: *b\n  y: 3\n---\n"
	want := map[string]any{"x": int64(1), "y": []any{int64(1), int64(2)}}
	v := parse(t, text).Values()
	if !reflect.DeepEqual(v["copy"], want) || !reflect.DeepEqual(v["variables"], map[string]any{"y": int64(3), "x": int64(1)}) {
		t.Errorf("values are %#v", v)
	}
	// a change of one leaves the other alone
	v = parse(t, apply(t, text, `{"variables":{"set":{"x":9}}}`)).Values()
	if !reflect.DeepEqual(v["base"], want) || v["variables"].(map[string]any)["x"] != int64(9) {
		t.Errorf("values are %#v", v)
	}
}

func TestBadFrontmatterIsRefused(t *testing.T) {
	bomb := "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n"
	for i := range 9 {
		bomb += fmt.Sprintf("a%d: &a%d [%s]\n", i+1, i+1, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d,", i), 10), ","))
	}
	for name, text := range map[string]string{
		"nothing":            "",
		"no fence":           "# Title\n",
		"no end":             "---\na: 1\n",
		"one line":           "---",
		"fence with text":    "--- x\na: 1\n---\n",
		"list":               "---\n- a\n---\n",
		"text":               "---\nhello\n---\n",
		"broken":             "---\na: [1\n---\n",
		"tabs":               "---\na:\n\t- b\n---\n",
		"duplicate":          "---\na: 1\nb: 2\na: 3\n---\n",
		"nested duplicate":   "---\nv: {a: 1, \"a\": 2}\n---\n",
		"two documents":      "---\na: 1\n...\nb: 2\n---\n",
		"second document":    "---\na: 1\n--- {b: 2}\n---\n",
		"list as key":        "---\n? [a]\n: 1\n---\n",
		"bomb":               "---\n" + bomb + "---\n",
		"endless alias":      "---\na: &a [*a]\n---\n",
		"unknown alias":      "---\na: *nobody\n---\n",
		"deep":               "---\na: " + strings.Repeat("[", 5000) + strings.Repeat("]", 5000) + "\n---\n",
		"many":               "---\na: [" + strings.Repeat("1,", MaxNodes) + "1]\n---\n",
		"large":              "---\na: " + strings.Repeat("x", MaxBytes) + "\n---\n",
		"not UTF-8":          "---\na: \xff\n---\n",
		"control characters": "---\na: \x01\n---\n",
		"binary":             "\x7fELF\x00\x01",
		"UTF-16":             "\xff\xfe-\x00-\x00-\x00\n\x00",
		"bad merge":          "---\na: &a 1\n<<: *a\n---\n",
	} {
		begun := time.Now()
		_, err := Parse([]byte(text))
		if code := fault.CodeOf(err); code != fault.InvalidFrontmatter {
			t.Errorf("%s: %v", name, err)
		}
		if took := time.Since(begun); took > time.Minute {
			t.Errorf("%s: took %v", name, took)
		}
	}
}

func TestUpdatesAreChecked(t *testing.T) {
	for _, update := range []string{
		``, `[]`, `{"steps":{"append":[]}}`, `{"stepsCompleted":["a"]}`, `{"stepsCompleted":{"append":[1]}}`, `{"stepsCompleted":{"set":["a"]}}`,
		`{"currentNodeId":"x"}`, `{"currentNodeId":{"set":1}}`, `{"variables":{"set":[]}}`, `{"decisionLog":{"append":["x"]}}`,
	} {
		if _, err := ParseUpdate([]byte(update)); fault.CodeOf(err) != fault.SchemaValidation {
			t.Errorf("%s: %v", update, err)
		}
	}
	for _, text := range []string{"---\nstepsCompleted: x\n---\n", "---\nstepsCompleted: {a: b}\n---\n"} {
		_, err := parse(t, text).Apply(Update{StepsCompleted: &Append{Append: Texts{"a"}}})
		if fault.CodeOf(err) != fault.SchemaValidation {
			t.Errorf("%q: %v", text, err)
		}
	}
	if _, err := parse(t, sample).Apply(Update{CurrentNodeID: &SetValue{Set: strings.Repeat("x", MaxBytes)}}); fault.CodeOf(err) != fault.InvalidFrontmatter {
		t.Errorf("a frontmatter that grows too large: %v", err)
	}
	if u, err := ParseUpdate([]byte(`{"stepsCompleted":null}`)); err != nil || !u.Empty() {
		t.Errorf("null: %v, %v", u, err)
	}
}

func FuzzPatch(f *testing.F) {
	f.Add([]byte(sample), []byte(`{"stepsCompleted":{"append":["a"]},"variables":{"set":{"x":[1,{"y":null}]}},"currentNodeId":{"set":"b"}}`))
	f.Add([]byte("\ufeff---\r\na: &x [1]\r\nb: *x\r\n---\r\nbody"), []byte(`{"decisionLog":{"append":[{"from":"a","to":"b","label":"c"}]}}`))
	f.Add([]byte("---\n# c\nvariables: {a: |-\n   x\n}\n? b\n: c\n---\n"), []byte(`{"variables":{"set":{"a":"\n x"}},"artifacts":{"append":"x"}}`))
	f.Add([]byte("---\n!!map {a: !!str 1, b: !!float 1, <<: {c: 1}}\n---\n"), []byte(`{"updatedAt":{"set":"now"}}`))
	f.Fuzz(func(t *testing.T, text, update []byte) {
		d, err := Parse(text)
		if err != nil {
			if fault.CodeOf(err) != fault.InvalidFrontmatter {
				t.Fatal(err)
			}
			return
		}
		body, before := string(d.Body()), d.Values()
		u, err := ParseUpdate(update)
		if err != nil {
			return
		}
		after, err := d.Apply(u)
		if err != nil {
			return
		}
		again, err := Parse(after)
		if err != nil {
			t.Fatalf("what was written cannot be read: %v\n%q", err, after)
		}
		if string(again.Body()) != body {
			t.Fatalf("the body changed from %q to %q", body, again.Body())
		}
		for key, v := range before {
			switch key {
			case "stepsCompleted", "artifacts", "decisionLog", "variables", "currentNodeId", "updatedAt":
				continue
			}
			if !reflect.DeepEqual(again.Values()[key], v) {
				t.Fatalf("%q changed from %#v to %#v", key, v, again.Values()[key])
			}
		}
	})
}
