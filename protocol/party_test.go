package protocol

import (
	"encoding/json"
	"testing"
)

func TestAPartyIsItsKindItsSpaceAndItsID(t *testing.T) {
	agent := &Principal{Kind: KindAgent, ID: "lamp-1"}
	for name, other := range map[string]*Principal{
		"another kind":  {Kind: KindOperator, ID: "lamp-1"},
		"another space": {Kind: KindAgent, ID: "lamp-1", Space: "lab"},
		"another id":    {Kind: KindAgent, ID: "lamp-2"},
	} {
		if agent.Same(other) || agent.Party().Is(other) || agent.Party().String() == other.Party().String() {
			t.Errorf("%s is the same party", name)
		}
	}
	again := &Principal{Kind: KindAgent, ID: "lamp-1", Space: DefaultSpace, Credential: "k2", Roles: []string{RoleObserver}}
	if !agent.Same(again) || !agent.Party().Is(again) || AgentID("lamp-1").Party("") != again.Party() {
		t.Error("with another credential it is another party")
	}
}

func TestAPartySurvivesARecordAndReadsOlderOnes(t *testing.T) {
	type record struct {
		Owner Party `json:"owner"`
	}
	anna := &Principal{Kind: KindOperator, ID: "anna", Space: "lab"}
	text, err := json.Marshal(record{anna.Party()})
	if err != nil || string(text) != `{"owner":"lab/operator/anna"}` {
		t.Errorf("%s, %v", text, err)
	}
	for text, want := range map[string]Party{
		`{"owner":"lab/operator/anna"}`: anna.Party(),
		`{"owner":"anna"}`:              {ID: "anna"},
		`{"owner":"lab/anna"}`:          {Space: "lab", ID: "anna"},
		`{"owner":""}`:                  {},
		`{}`:                            {},
	} {
		var r record
		if err := json.Unmarshal([]byte(text), &r); err != nil || r.Owner != want {
			t.Errorf("%s: %+v, %v", text, r.Owner, err)
		}
		if is := r.Owner.Is(anna); is != (want.ID != "") {
			t.Errorf("%s: is anna %v", text, is)
		}
	}
	var p Party
	if p.UnmarshalText([]byte("a/b/c/d")) == nil {
		t.Error("four parts name a party")
	}
	if (Party{}).Is(&Principal{}) {
		t.Error("nobody is somebody")
	}
}
