package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/aibridge/aibridge/protocol"
)

func TestApprovalsAreListedForPeople(t *testing.T) {
	for result, want := range map[string]string{
		`{"approvals":[],"total":0}`: "none\n",
		`{"total":1,"approvals":[{"approval_id":"a1","state":"pending","tool":"group.dispatch","arguments":{"on":true},"roster":["one","two"],"requester":"carol","why":"it declares the risk \"high\"","expires_at":1}]}`: "a1  pending  group.dispatch {\"on\":true} for carol, reaching [one two]\n  because it declares the risk \"high\"; until ",
		`{"total":1,"approvals":[{"approval_id":"a2","state":"denied","tool":"oven.heat","arguments":{"x":"\u001b[2J"},"requester":"bot","decided_by":"alice","reason":"no\nway"}]}`:                                       "a2  denied  oven.heat {\"x\":\"\\u001b[2J\"} for bot\n  by alice no way\n",
		`{"total":1,"approvals":[{"approval_id":"a3","state":"expired","tool":"oven.heat\u001b[31m","arguments":{},"requester":"bot","reason":"nobody decided in time"}]}`:                                                 "a3  expired  oven.heat [31m {} for bot\n  nobody decided in time\n",
	} {
		var out bytes.Buffer
		if err := writeApprovals(&out, json.RawMessage(result)); err != nil || !strings.HasPrefix(out.String(), want) {
			t.Errorf("got %q, %v, want %q", out.String(), err, want)
		}
	}
}

func TestEventsOfApprovalsAreShownInALine(t *testing.T) {
	event := protocol.Event{
		Version: protocol.Version, ID: "a1", Timestamp: 1, Name: "approval.requested", Seq: 1,
		Data: []byte(`{"approval_id":"a1","tool":"oven.heat","arguments":{"celsius":220},"requester":"carol"}`),
	}
	for shown, want := range map[format]string{asTable: "approval.requested  a1  oven.heat {\"celsius\":220} for carol\n", asJSON: `"event":"approval.requested"`} {
		var out bytes.Buffer
		if err := writeApprovalEvent(&out, event.Append(nil), shown); err != nil || !strings.Contains(out.String(), want) || strings.Count(out.String(), "\n") != 1 {
			t.Errorf("got %q, %v", out.String(), err)
		}
	}
	if err := writeApprovalEvent(new(bytes.Buffer), []byte("oops"), asTable); err == nil {
		t.Error("what is no event is shown")
	}
}

func TestAConversationIsShownAsItComes(t *testing.T) {
	var out, notes bytes.Buffer
	c := &conversation{out: &out, notes: &notes}
	for _, e := range []struct{ name, data string }{
		{"llm.delta", `{"type":"text_delta","text":"I look."}`},
		{"llm.delta", `{"type":"reasoning_delta","text":"hm"}`},
		{"llm.tool_call", `{"name":"oven.heat","args":{"celsius":1}}`},
		{"llm.tool_call", `{"name":"oven.heat","args":null,"raw":"{oops"}`},
		{"llm.tool_result", `{"name":"oven.heat","status":"Failed","text":"Error:\u001b[2J broken"}`},
		{"llm.delta", `{"type":"text_delta","text":"It is \u001b[31mbroken.\n"}`},
		{"llm.delta", `oops`},
	} {
		c.heard(&protocol.Event{Name: e.name, Data: []byte(e.data)})
	}
	if got := out.String(); got != "I look.\nIt is  [31mbroken.\n" {
		t.Errorf("said %q", got)
	}
	if got := notes.String(); got != "→ oven.heat {\"celsius\":1}\n→ oven.heat {oops\n← Failed Error: [2J broken\n" {
		t.Errorf("did %q", got)
	}
}

// Somebody may change a call between a look at it and the agreement to it.
func TestAChangedCallIsApprovedAsItWasSeen(t *testing.T) {
	plain, changed := approvalSeen{Nonce: "now"}, approvalSeen{Nonce: "now", EditedBy: "bob"}
	for name, test := range map[string]struct {
		seen            approvalSeen
		decision, given string
		want, refused   string
	}{
		"as the model wanted it":           {seen: plain, decision: "approve", want: "now"},
		"as it was seen":                   {seen: plain, decision: "approve", given: "then", want: "then"},
		"changed":                          {seen: changed, decision: "approve", refused: "bob has changed the call; if this is what you agree to, add --nonce now"},
		"changed, as it was seen":          {seen: changed, decision: "approve", given: "then", want: "then"},
		"changed, and denied all the same": {seen: changed, decision: "deny", want: "now"},
	} {
		nonce, err := test.seen.decidedBy(test.decision, test.given)
		if nonce != test.want || (err == nil) != (test.refused == "") || err != nil && err.Error() != test.refused {
			t.Errorf("%s: %q, %v", name, nonce, err)
		}
	}
}
