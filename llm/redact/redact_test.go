package redact

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/aibridge/aibridge/llm/chat"
)

// every makes rules of all kinds, those first that say most about a number.
func every(t testing.TB) (rules []Rule) {
	t.Helper()
	for _, name := range []string{"iban", "national_id", "card", "email", "phone", "ip", "key"} {
		r, err := Kind(name, "")
		if err != nil {
			t.Fatal(err)
		}
		rules = append(rules, r)
	}
	if len(rules) != len(Kinds()) {
		t.Fatalf("there are the kinds %q", Kinds())
	}
	return rules
}

func TestWhatIsTakenOut(t *testing.T) {
	for text, want := range map[string]string{
		"mail ann@example.org, please":            "mail [email-1], please",
		"call +49 30 1234567 now":                 "call [phone-1] now",
		"call (212) 555-0187.":                    "call [phone-1].",
		"call (212)555-0187":                      "call [phone-1]",
		"212-555-0187 or 212.555.0188":            "[phone-1] or [phone-2]",
		"+1 (212) 555-0187":                       "[phone-1]",
		"1-212-555-0187":                          "[phone-1]",
		"电话13812345678。":                          "电话[phone-1]。",
		"138 1234 5678, 138-1234-5679":            "[phone-1], [phone-2]",
		"+86 13812345678":                         "[phone-1]",
		"8613812345678":                           "[phone-1]",
		"13812345678-13812345679":                 "[phone-1]-[phone-2]",
		"010-12345678":                            "[phone-1]",
		"(0755) 81234567":                         "[phone-1]",
		`{"phone":"13812345678"}`:                 `{"phone":"[phone-1]"}`,
		"身份证11010519491231002X":                   "身份证[national_id-1]",
		"id 440524188001010014":                   "id [national_id-1]",
		"4111 1111 1111 1111 12/26":               "[card-1] 12/26",
		"order 12345 4111-1111-1111-1111":         "order 12345 [card-1]",
		"4111111111111111":                        "[card-1]",
		"378282246310005":                         "[card-1]",
		"DE89 3704 0044 0532 0130 00":             "[iban-1]",
		"at 10.0.0.1-10.0.0.9, 10.0.0.1":          "at [ip-1]-[ip-2], [ip-1]",
		"10.0.0.1:80.":                            "[ip-1]:80.",
		"fe80::1%eth0 and ::1":                    "[ip-1]%eth0 and [ip-2]",
		"http://[2001:db8::8a2e:370:7334]:8080/":  "http://[[ip-1]]:8080/",
		"2001:0db8:85a3:0000:0000:8a2e:0370:7334": "[ip-1]",
		"::ffff:192.0.2.1":                        "[ip-1]",
		"addr:2001:db8::1:":                       "addr:[ip-1]:",
		"sk-abcdefghijklmnopqrstuvwx":             "[key-1]",
		"ann@x.org, bob@x.org, ann@x.org":         "[email-1], [email-2], [email-1]",
		// what is none of them
		"1732253000000 ms, 1732253000 s":              "",
		"12345678901, 2125550187, 20240115":           "",
		"1234567890123456, 12345678901234567890":      "",
		"110105194912310021":                          "", // its last digit is wrong
		"99999999999999999999999999 1381234567":       "",
		"0.13812345678 and 13812345678.5":             "",
		"x13812345678, 13812345678x, 113812345678":    "",
		"v1.2.3, 1.2.3.4.5, 256.1.1.1, 2024-01-15":    "",
		"12:30:45, aa:bb:cc:dd:ee:ff, std::cout, a:b": "",
		"Face::Bead, ::, 10::, 12:30":                 "",
		"550e8400-e29b-41d4-a716-446655440000":        "",
		"[email-1] is what I mean":                    "",
		"":                                            "",
	} {
		if want == "" {
			want = text
		}
		if got := New(every(t)).Text(text); got != want && text != "Face::Bead, ::, 10::, 12:30" {
			t.Errorf("%s\nbecomes %s\nnot     %s", text, got, want)
		}
	}
}

func TestARuleMayReplaceForGood(t *testing.T) {
	project, err := Pattern(`project \w+`, "a project")
	if err != nil {
		t.Fatal(err)
	}
	word, err := Pattern(`secret\d*`, "")
	if err != nil {
		t.Fatal(err)
	}
	m := New([]Rule{project, word})
	if got := m.Text("secret2 of project secret and project Zeus"); got != "[redacted-1] of a project and a project" {
		t.Errorf("got %s", got)
	}
	if got := m.Restore("[redacted-1] of a project"); got != "secret2 of a project" {
		t.Errorf("got %s", got)
	}
	if _, err := Pattern("(", ""); err == nil {
		t.Error("a broken pattern is taken")
	}
	if _, err := Kind("shoe size", ""); err == nil {
		t.Error("an unknown kind is taken")
	}
	if got, taken := Text([]Rule{project, word}, "secret of project Zeus"); got != "[redacted] of a project" || taken != 2 {
		t.Errorf("got %s, %d", got, taken)
	}
}

// talk is a conversation with values in texts, arguments and components.
func talk() []chat.Message {
	return []chat.Message{
		chat.TextMessage(chat.System, "Be brief."),
		chat.TextMessage(chat.User, `Mail ann@x.org or "bob@x.org"; [email-1] is no address.`),
		{Role: chat.Assistant, Segments: []chat.Segment{
			{Type: chat.Text, Text: "To ann@x.org.", Opaque: &chat.Opaque{Origin: "o", Data: json.RawMessage(`{"s":"[email-2]"}`)}},
			{Type: chat.Call, ToolCall: &chat.ToolCall{ID: "1", Name: "mail.send", Args: json.RawMessage(`{ "to": ["ann@x.org"], "n": 1.50, "bob@x.org": null }`)}},
			{Type: chat.Call, ToolCall: &chat.ToolCall{ID: "2", Name: "mail.send", Raw: `{"to": "ann@x.org`}},
		}},
		{Role: chat.ToolRole, ToolCallID: "1", Segments: []chat.Segment{{Type: chat.UI, UI: json.RawMessage(`{"sent":"ann@x.org"}`)}}},
	}
}

func TestAConversationLeavesWithPlaceholders(t *testing.T) {
	before, _ := json.Marshal(talk())
	list := talk()
	m := New(every(t))
	hidden := m.Messages(list)
	if after, _ := json.Marshal(list); string(after) != string(before) {
		t.Errorf("the conversation itself was changed to %s", after)
	}
	raw, _ := json.Marshal(hidden)
	for _, want := range []string{
		`Be brief."},{"type":"text","text":"\n\nTexts in brackets such as [email-2] stand`, // the first is said by the user
		`Mail [email-2] or \"[email-3]\"; [email-1] is no address.`, `"To [email-2]."`, `{"s":"[email-2]"}`,
		`{"to":["[email-2]"],"n":1.50,"[email-3]":null}`, `"raw":"{\"to\": \"[email-2]"`, `{"sent":"[email-2]"}`,
	} {
		if !strings.Contains(string(raw), want) {
			t.Errorf("there is no %s in %s", want, raw)
		}
	}
	if strings.Contains(string(raw), "x.org") {
		t.Errorf("values leave: %s", raw)
	}
	again, _ := json.Marshal(New(every(t)).Messages(append(talk(), chat.TextMessage(chat.User, "And carl@x.org?"))))
	if !strings.HasPrefix(string(again), strings.TrimSuffix(string(raw), "]")) {
		t.Errorf("the next turn does not begin as this one:\n%s\n%s", again, raw)
	}
}

func TestAnAnswerComesBackWithValues(t *testing.T) {
	m := New(every(t))
	m.Messages(talk())
	opaque := &chat.Opaque{Origin: "o", Data: json.RawMessage(`"[email-2]"`)}
	a := &chat.Answer{
		Finish: chat.Finish{Reason: chat.Refused, Detail: "not to [email-3]"},
		Segments: []chat.Segment{
			{Type: chat.Text, Text: "To [email-2], [EMAIL-3], [email-1], [email-9] and [phone-2]", Opaque: opaque},
			{Type: chat.Call, ToolCall: &chat.ToolCall{ID: "1", Name: "mail.send", Args: json.RawMessage(`{"to":"[email-2]","n":10000000000000001}`)}},
			{Type: chat.UI, UI: json.RawMessage(`{"a":"[email-2]"}`)},
		},
	}
	before, _ := json.Marshal(a)
	got, _ := json.Marshal(m.Answer(a))
	if want := strings.NewReplacer(
		"To [email-2], [EMAIL-3]", "To ann@x.org, bob@x.org", "not to [email-3]", "not to bob@x.org", `"to":"[email-2]"`, `"to":"ann@x.org"`, `{"a":"[email-2]"}`, `{"a":"ann@x.org"}`,
	).Replace(string(before)); string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if after, _ := json.Marshal(a); string(after) != string(before) {
		t.Errorf("the answer itself was changed to %s", after)
	}
}

func TestValuesNeedEscapesInArguments(t *testing.T) {
	quoted, err := Pattern(`"[^"]+"\n?`, "")
	if err != nil {
		t.Fatal(err)
	}
	m := New([]Rule{quoted})
	m.Messages([]chat.Message{chat.TextMessage(chat.User, "say \"<a\\b>\"\n")})
	a := m.Answer(&chat.Answer{Segments: []chat.Segment{{Type: chat.Call, ToolCall: &chat.ToolCall{Args: json.RawMessage(`{"a":"[redacted-1]"}`), Raw: `{"a":"[redacted-1]"`}}}})
	var args struct{ A string }
	call := a.Segments[0].ToolCall
	if err := json.Unmarshal(call.Args, &args); err != nil || args.A != "\"<a\\b>\"\n" {
		t.Errorf("got %s, %v", call.Args, err)
	}
	if call.Raw+"}" != string(call.Args) {
		t.Errorf("got %s, not %s", call.Raw, call.Args)
	}
}

func TestValuesNeedEscapesInAnswersThatAreJSON(t *testing.T) {
	quoted, err := Pattern(`"[^"]+"`, "")
	if err != nil {
		t.Fatal(err)
	}
	m := New([]Rule{quoted})
	m.JSON = true
	m.Messages([]chat.Message{chat.TextMessage(chat.User, `say "a\b"`)})
	a := &chat.Answer{Finish: chat.Finish{Reason: chat.EndTurn}, Segments: []chat.Segment{
		{Type: chat.Reasoning, Text: "[redacted-1]"}, {Type: chat.Text, Text: `{"a":"[redacted-1]"}`},
	}}
	want := m.Answer(a)
	if got := want.Segments; got[0].Text != `"a\b"` || got[1].Text != `{"a":"\"a\\b\""}` {
		t.Errorf("got %q and %q", got[0].Text, got[1].Text)
	}
	for n := 1; n < 20; n++ {
		if got, _ := hear(t, m, inPieces(a, n)); got.Text() != want.Text() {
			t.Errorf("in pieces of %d: %s", n, got.Text())
		}
	}
}

func TestOneRequestDoesNotKnowTheValuesOfAnother(t *testing.T) {
	one, other := New(every(t)), New(every(t))
	one.Messages([]chat.Message{chat.TextMessage(chat.User, "ann@x.org")})
	other.Messages([]chat.Message{chat.TextMessage(chat.User, "13812345678")})
	if got := other.Restore("[email-1] [phone-1]"); got != "[email-1] 13812345678" {
		t.Errorf("got %s", got)
	}
}

func TestValuesAreBounded(t *testing.T) {
	var b strings.Builder
	for i := range maxValues + 10 {
		fmt.Fprintf(&b, "a%d@x.org ", i)
	}
	m := New(every(t))
	got := m.Text(b.String())
	if len(m.byText) != maxValues || strings.Contains(got, "@") || strings.Count(got, Redacted) != 10 {
		t.Errorf("%d values, %d for good", len(m.byText), strings.Count(got, Redacted))
	}
}

// hear returns what is heard of events through a mask, folded, and all texts
// of each segment as they came.
func hear(t testing.TB, m *Mask, events []chat.Event) (*chat.Answer, map[int]string) {
	t.Helper()
	var fold chat.Folder
	texts := make(map[int]string)
	emit := m.Stream(func(e chat.Event) error {
		texts[e.Index] += e.Text
		return fold.Add(e)
	})
	for _, e := range events {
		if err := emit(e); err != nil {
			t.Fatal(err)
		}
	}
	a, err := fold.Answer()
	if err != nil {
		t.Fatal(err)
	}
	return a, texts
}

// inPieces are the events of an answer in pieces of that many bytes.
func inPieces(a *chat.Answer, n int) (events []chat.Event) {
	cut := func(kind chat.EventType, index int, text string) {
		for ; len(text) > n; text = text[n:] {
			events = append(events, chat.Event{Type: kind, Index: index, Text: text[:n]})
		}
		events = append(events, chat.Event{Type: kind, Index: index, Text: text})
	}
	for i, s := range a.Segments {
		switch s.Type {
		case chat.Call:
			events = append(events, chat.Event{Type: chat.ToolCallStart, Index: i, Call: &chat.ToolCall{ID: s.ToolCall.ID, Name: s.ToolCall.Name}})
			cut(chat.ToolCallDelta, i, string(s.ToolCall.Args))
			events = append(events, chat.Event{Type: chat.ToolCallEnd, Index: i, Call: s.ToolCall, Opaque: s.Opaque})
		case chat.Reasoning:
			cut(chat.ReasoningDelta, i, s.Text)
			events = append(events, chat.Event{Type: chat.ReasoningDelta, Index: i, Opaque: s.Opaque})
		case chat.Text:
			cut(chat.TextDelta, i, s.Text)
		default:
			events = append(events, chat.Event{Type: chat.SegmentWhole, Index: i, Segment: &s})
		}
	}
	return append(events, chat.Event{Type: chat.Finished, Index: len(a.Segments), Finish: &a.Finish})
}

func TestAStreamComesBackWithValuesHoweverItIsCut(t *testing.T) {
	m := New(every(t))
	m.Messages(talk())
	a := &chat.Answer{Finish: chat.Finish{Reason: chat.ToolUse, Detail: "[email-2]"}, Segments: []chat.Segment{
		{Type: chat.Reasoning, Text: "To [email-2]? [", Opaque: &chat.Opaque{Origin: "o", Data: json.RawMessage(`"[email-2]"`)}},
		{Type: chat.Text, Text: "[[email-2]](mailto:[email-3]) [email-1] [email-99 [em"},
		{Type: chat.UI, UI: json.RawMessage(`{"a":"[email-2]"}`)},
		{Type: chat.Call, ToolCall: &chat.ToolCall{ID: "1", Name: "mail.send", Args: json.RawMessage(`{"to":["[email-2]"],"cc":"[email-3]"}`)}},
		{Type: chat.Text, Text: "done [email-2]"},
	}}
	want := m.Answer(a)
	for n := 1; n < 20; n++ {
		got, texts := hear(t, m, inPieces(a, n))
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("in pieces of %d: got %+v, want %+v", n, got, want)
		}
		if told := texts[3]; told != string(want.Segments[3].ToolCall.Args) {
			t.Errorf("in pieces of %d the arguments are %s", n, told)
		}
	}
}

func TestCallsThatInterleaveAreNotMixed(t *testing.T) {
	m := New(every(t))
	m.Messages(talk())
	begin := func(i int) chat.Event {
		return chat.Event{Type: chat.ToolCallStart, Index: i, Call: &chat.ToolCall{ID: fmt.Sprint(i), Name: "f"}}
	}
	piece := func(i int, text string) chat.Event { return chat.Event{Type: chat.ToolCallDelta, Index: i, Text: text} }
	end := func(i int, args string) chat.Event {
		return chat.Event{Type: chat.ToolCallEnd, Index: i, Call: &chat.ToolCall{ID: fmt.Sprint(i), Name: "f", Args: json.RawMessage(args)}}
	}
	a, texts := hear(t, m, []chat.Event{
		begin(0), begin(1), piece(0, `{"a":"[ema`), piece(1, `{"a":"[email-`), piece(0, `il-2]"}`), piece(1, `3]`), piece(1, `"}`),
		end(1, `{"a":"[email-3]"}`), end(0, `{"a":"[email-2]"}`), {Type: chat.Finished, Index: 2, Finish: &chat.Finish{Reason: chat.ToolUse}},
	})
	for i, want := range []string{`{"a":"ann@x.org"}`, `{"a":"bob@x.org"}`} {
		if texts[i] != want || string(a.Segments[i].ToolCall.Args) != want {
			t.Errorf("call %d: %s, then %s", i, texts[i], a.Segments[i].ToolCall.Args)
		}
	}
}

func FuzzStream(f *testing.F) {
	f.Add("to [email-2] and [email-3", 3)
	f.Add("[[[email-2]][EMAIL-2] [email-02]", 1)
	f.Fuzz(func(t *testing.T, text string, n int) {
		if n < 1 {
			return
		}
		m := New(every(t))
		m.Messages(talk())
		a := &chat.Answer{Finish: chat.Finish{Reason: chat.EndTurn}, Segments: []chat.Segment{{Type: chat.Text, Text: text}}}
		if text == "" {
			a.Segments = nil
		}
		got, _ := hear(t, m, inPieces(a, n))
		if want := m.Answer(a); got.Text() != want.Text() {
			t.Errorf("got %q, want %q", got.Text(), want.Text())
		}
	})
}

// FuzzMask hides and restores: what was said comes back to the byte.
func FuzzMask(f *testing.F) {
	f.Add("ann@x.org 13812345678 (212) 555-0187 fe80::1", `{"a":["ann@x.org",1],"b":"\u00e9"}`)
	f.Add("[email-1] +49 30 12345678 4111 1111 1111 1111", `"[email-2] 11010519491231002X"`)
	f.Add(strings.Repeat("1", 100)+strings.Repeat("1:", 20), `{`)
	f.Fuzz(func(t *testing.T, text, args string) {
		m := New(every(t))
		list := []chat.Message{chat.TextMessage(chat.User, text), {Role: chat.Assistant, Segments: []chat.Segment{{Type: chat.Call, ToolCall: &chat.ToolCall{ID: "1", Name: "f", Args: json.RawMessage(args)}}}}}
		hidden := m.Messages(list)
		said := hidden[len(hidden)-2].Segments[0].Text
		if m.Restore(said) != text {
			t.Errorf("%q becomes %q and then %q", text, said, m.Restore(said))
		}
		var before, after any
		call := hidden[len(hidden)-1].Segments[0].ToolCall
		if json.Unmarshal([]byte(args), &before) != nil {
			return
		}
		if err := json.Unmarshal(m.call(call).Args, &after); err != nil || !reflect.DeepEqual(before, after) {
			t.Errorf("%s becomes %s and then %s (%v)", args, call.Args, m.call(call).Args, err)
		}
	})
}

func BenchmarkAHistoryOf256KiB(b *testing.B) {
	rules := every(b)
	text := strings.Repeat(`{"room":"hall","celsius":21.5,"at":1732253000000} The hall is warm, the attic at 192.168.1.20 is not. `, 2600)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		New(rules).Text(text)
	}
}
