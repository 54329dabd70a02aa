package broker

import (
	"strings"
	"testing"
	"unsafe"

	"github.com/aibridge/aibridge/protocol"
)

// TestAnAudienceIsItsRecipients compares what both say.
func TestAnAudienceIsItsRecipients(t *testing.T) {
	t.Parallel()
	anna := protocol.Party{Kind: protocol.KindOperator, Space: "home", ID: "anna"}
	lamp := protocol.Party{Kind: protocol.KindAgent, Space: "home", ID: "lamp"}
	other := protocol.Party{Kind: protocol.KindOperator, Space: "office", ID: "anna"}
	for name, r := range map[string]protocol.Recipients{
		"nobody":         {},
		"a space":        protocol.Everybody("home"),
		"no space":       protocol.Everybody(""),
		"one party":      protocol.Only(anna),
		"two parties":    protocol.Either(anna, lamp),
		"administrators": protocol.Administrators(),
	} {
		a := audienceOf(&r)
		if a.nobody() != r.Nobody() || a.space != r.Space() || a.hasUnbounded() != r.HasUnbounded() {
			t.Errorf("%s: %+v is not %+v", name, a, r)
		}
		parties, ok := a.parties()
		if wantParties, want := r.Parties(); ok != want || parties != wantParties {
			t.Errorf("%s: parties %v, %v, want %v, %v", name, parties, ok, wantParties, want)
		}
		for _, who := range []protocol.Party{anna, lamp, other, {}} {
			if a.has(&who) != r.Has(&who) {
				t.Errorf("%s: has %v: %v", name, who, a.has(&who))
			}
		}
	}
}

// TestAKeptMessageStaysForItsRecipients although its turn goes on with another one.
func TestAKeptMessageStaysForItsRecipients(t *testing.T) {
	t.Parallel()
	anna := protocol.Party{Kind: protocol.KindOperator, Space: "home", ID: "anna"}
	lamp := protocol.Party{Kind: protocol.KindAgent, Space: "home", ID: "lamp"}
	turn := newTurn(newNode(t, 1).Broker).begin()
	toAnna, toLamp := protocol.Only(anna), protocol.Only(lamp)
	turn.loadOwn(&toAnna, &protocol.Message{Topic: "t"})
	kept := turn.msg.keep()
	turn.loadOwn(&toLamp, &protocol.Message{Topic: "t"})
	if !kept.to.has(&anna) || kept.to.has(&lamp) || !turn.msg.to.has(&lamp) {
		t.Errorf("for %+v, then %+v", *kept.to.others, *turn.msg.to.others)
	}
}

// TestMessagesOfOneParserShareTheirStrings beside the topic, which is the one given.
func TestMessagesOfOneParserShareTheirStrings(t *testing.T) {
	t.Parallel()
	m := &message{
		topic: "lamp/1", payload: []byte("on"), props: []byte{1, 1}, qos: 1, retain: true,
		from: "publisher", owner: "user home anna", to: everybody("home"), expires: 7,
	}
	encoded := appendMessage(nil, m, m.expires)
	var p messageParser
	for _, known := range []string{"lamp/1", "lamp/2", ""} {
		read, err := p.message(encoded, known)
		if err != nil {
			t.Fatal(err)
		}
		if read.topic != m.topic || string(read.payload) != "on" || string(read.props) != "\x01\x01" || read.qos != 1 || !read.retain ||
			read.from != m.from || read.owner != m.owner || read.to != m.to || read.expires != 7 {
			t.Errorf("with %q known: %+v, want %+v", known, read, m)
		}
	}
	known := strings.Clone(m.topic)
	one, _ := p.message(encoded, known)
	other, _ := p.message(encoded, known)
	for _, pair := range [][2]string{{one.topic, known}, {one.from, other.from}, {one.owner, other.owner}, {string(one.to.space), string(other.to.space)}} {
		if unsafe.StringData(pair[0]) != unsafe.StringData(pair[1]) {
			t.Errorf("%q is in memory twice", pair[0])
		}
	}
	for key, want := range map[string]string{keyRetained + "a/b": "a/b", keyOfRetained(m): "lamp/1", keyRetained + "home\x00r/x": "r/x"} {
		if got := topicOfRetained(key); got != want {
			t.Errorf("the topic of %q is %q, want %q", key, got, want)
		}
	}
}
