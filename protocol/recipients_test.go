package protocol_test

import (
	"testing"

	"github.com/aibridge/aibridge/protocol"
)

func TestRecipientsAreThoseWhoWereSaid(t *testing.T) {
	t.Parallel()
	ann := protocol.Party{Kind: protocol.KindOperator, Space: "red", ID: "ann"}
	lamp := protocol.AgentID("lamp").Party("red")
	operatorLamp := protocol.Party{Kind: protocol.KindOperator, Space: "red", ID: "lamp"}
	blueAnn := protocol.Party{Kind: protocol.KindOperator, Space: "blue", ID: "ann"}
	for name, test := range map[string]struct {
		to        protocol.Recipients
		has       []protocol.Party
		hasNot    []protocol.Party
		unbounded bool
		nobody    bool
	}{
		"the zero value":              {protocol.Recipients{}, nil, []protocol.Party{ann, {}}, false, true},
		"everybody in no space":       {protocol.Everybody(""), nil, []protocol.Party{ann, {}}, false, true},
		"only nobody":                 {protocol.Only(protocol.Party{}), nil, []protocol.Party{ann, {}}, false, true},
		"one who is said, and nobody": {protocol.Either(ann, protocol.Party{Space: "red"}), nil, []protocol.Party{ann, {}}, false, true},
		"everybody in a space":        {protocol.Everybody("red"), []protocol.Party{ann, lamp}, []protocol.Party{blueAnn}, true, false},
		"one party":                   {protocol.Only(ann), []protocol.Party{ann}, []protocol.Party{blueAnn, lamp}, false, false},
		"either of two":               {protocol.Either(ann, lamp), []protocol.Party{ann, lamp}, []protocol.Party{blueAnn, operatorLamp}, false, false},
		"administrators":              {protocol.Administrators(), nil, []protocol.Party{ann}, true, false},
	} {
		if test.to.Nobody() != test.nobody || test.to.HasUnbounded() != test.unbounded {
			t.Errorf("%s: nobody %v, unbounded %v", name, test.to.Nobody(), test.to.HasUnbounded())
		}
		for _, who := range test.has {
			if !test.to.Has(&who) {
				t.Errorf("%s: misses %v", name, who)
			}
		}
		for _, who := range test.hasNot {
			if test.to.Has(&who) {
				t.Errorf("%s: has %v", name, who)
			}
		}
	}
}
