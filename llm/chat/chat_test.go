package chat

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

func TestOlderMessagesAreRead(t *testing.T) {
	for older, want := range map[string]string{
		`{"role":"user","content":"hi"}`: `{"role":"user","segments":[{"type":"text","text":"hi"}]}`,
		`{"role":"user","content":[{"type":"text","text":"a"},{"type":"image","data":"x","mimeType":"i/p"}]}`: `{"role":"user","segments":[{"type":"text","text":"a"},{"type":"image","data":"x","mimeType":"i/p"}]}`,
		`{"role":"assistant","content":"I look","toolCalls":[{"name":"get_weather","args":{"at":"x"}}]}`:      `{"role":"assistant","segments":[{"type":"text","text":"I look"},{"type":"tool_call","toolCall":{"id":"","name":"get_weather","args":{"at":"x"}}}]}`,
		`{"role":"assistant","content":null}`:               `{"role":"assistant","segments":null}`,
		`{"role":"tool","tool_call_id":"a","content":"21"}`: `{"role":"tool","segments":[{"type":"text","text":"21"}],"tool_call_id":"a"}`,
	} {
		var m Message
		if err := json.Unmarshal([]byte(older), &m); err != nil {
			t.Errorf("%s: %v", older, err)
		}
		if got, _ := json.Marshal(m); string(got) != want {
			t.Errorf("%s is read as %s", older, got)
		}
	}
	if err := json.Unmarshal([]byte(`{"role":"user","content":7}`), new(Message)); err == nil {
		t.Error("a number is no content")
	}
}

func TestConversationsAreChecked(t *testing.T) {
	for conversation, want := range map[string]string{
		`[{"role":"user","content":"a"}]`: "",
		`[{"role":"assistant","toolCalls":[{"name":"f"},{"name":"g","id":"2"}]},{"role":"tool","content":"x"},{"role":"tool","tool_call_id":"2","content":"y"}]`: "",
		`[{"role":"assistant","toolCalls":[{"id":"1","name":"f"},{"id":"2","name":"g"}]},{"role":"tool","tool_call_id":"2","content":"y"}]`:                      "messages[1].tool_call_id must be that of the next call without an answer, 1",
		`[{"role":"assistant","toolCalls":[{"id":"1","name":"f"}]},{"role":"user","content":"x"}]`:                                                               "messages[1] stands before the answer to the call 1",
		`[{"role":"assistant","toolCalls":[{"id":"1","name":"f"}]}]`:                                                                                             "messages end before the answer to the call 1",
		`[{"role":"tool","content":"x"}]`:                                                  "messages[0] answers no call",
		`[{"role":"developer","content":"x"}]`:                                             "messages[0].role must be",
		`[{"role":"user","content":[{"type":"image","data":"x"}]}]`:                        "messages[0].segments[0].mimeType must be",
		`[{"role":"user","content":[{"type":"image","mimeType":"image/png"}]}]`:            "messages[0].segments[0].data is missing",
		`[{"role":"user","content":[{"type":"song"}]}]`:                                    "messages[0].segments[0].type must be",
		`[{"role":"user","content":[{"type":"ui"}]}]`:                                      "messages[0].segments[0].ui is missing",
		`[{"role":"user","toolCalls":[{"name":"f"}]}]`:                                     "messages[0].segments[0] is a call",
		`[{"role":"assistant","toolCalls":[{"name":""}]}]`:                                 "messages[0].segments[0].toolCall.name is missing",
		`[{"role":"assistant","toolCalls":[{"name":"f","args":"{}"}]}]`:                    "messages[0].segments[0].toolCall.args must be",
		`[{"role":"assistant","toolCalls":[{"id":"1","name":"f"},{"id":"1","name":"f"}]}]`: "messages[0].segments[1].toolCall.id is used twice",
		`[{"role":"user","segments":[{"type":"reasoning","text":"x"}]}]`:                   "messages[0].segments[0] is reasoning",
	} {
		var list []Message
		if err := json.Unmarshal([]byte(conversation), &list); err != nil {
			t.Fatal(err)
		}
		err := Complete(list)
		if got := new(Fault); want == "" && err != nil || want != "" && (!errors.As(err, &got) || !strings.HasPrefix(got.Error(), want)) {
			t.Errorf("%s\ngot  %v\nwant %s", conversation, err, want)
		}
	}
}

func TestEventsFoldToTheirAnswer(t *testing.T) {
	var f Folder
	for _, e := range []Event{
		{Type: ReasoningDelta, Index: 0, Text: "h"}, {Type: ReasoningDelta, Index: 0, Text: "m"},
		{Type: ReasoningDelta, Index: 0, Opaque: &Opaque{Origin: "o"}},
		{Type: TextDelta, Index: 1, Text: "a"}, {Type: TextDelta, Index: 1, Text: "b"},
		{Type: ToolCallStart, Index: 2, Call: &ToolCall{ID: "1"}}, {Type: ToolCallDelta, Index: 2, Text: "{}"},
		{Type: SegmentWhole, Index: 3, Segment: &Segment{Type: Image, Data: "x", MIMEType: "image/png"}},
		{Type: ToolCallEnd, Index: 2, Call: &ToolCall{ID: "1", Name: "f", Args: json.RawMessage("{}")}},
		{Type: Finished, Finish: &Finish{Reason: ToolUse, Usage: Usage{Input: 1, Output: 2}}},
	} {
		if err := f.Add(e); err != nil {
			t.Fatal(err)
		}
	}
	a, err := f.Answer()
	got, _ := json.Marshal(a.Segments)
	if want := `[{"type":"reasoning","text":"hm","opaque":{"origin":"o","data":null}},{"type":"text","text":"ab"},{"type":"tool_call","toolCall":{"id":"1","name":"f","args":{}}},{"type":"image","data":"x","mimeType":"image/png"}]`; err != nil || string(got) != want {
		t.Errorf("got %s, %v", got, err)
	}
	if a.Text() != "ab" || len(a.Calls()) != 1 || a.Finish.Usage.Total() != 3 {
		t.Errorf("got %q, %v, %v", a.Text(), a.Calls(), a.Finish)
	}
	if err := f.Add(Event{Type: TextDelta}); err == nil {
		t.Error("an event after the end")
	}
	for _, bad := range []Event{{Type: TextDelta, Index: -1}, {Type: TextDelta, Index: maxSegments}, {Type: "song"}, {Type: Finished}} {
		if new(Folder).Add(bad) == nil {
			t.Errorf("%v is taken", bad)
		}
	}
}
