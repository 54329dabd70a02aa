package broker

import (
	"strings"
	"testing"

	"github.com/aibridge/aibridge/broker/packet"
	"github.com/aibridge/aibridge/protocol"
)

func TestTopicsHaveOnlySoManyLevels(t *testing.T) {
	const most = 20
	n := newNode(t, 1, func(o *Options) { o.Limits.TopicLevels = most })
	good := strings.Repeat("l/", most-1) + "x"
	deep := "l/" + good
	for _, version := range []byte{4, 5} {
		p := n.connect(version, "a")
		refused := packet.TopicFilterInvalid
		if version == packet.V311 {
			refused = 0x80
		}
		for _, share := range []string{"", "$share/g/"} {
			for filter, want := range map[string]packet.Reason{good: 0, deep: refused, strings.Repeat("+/", most) + "#": refused} {
				if r := p.trySubscribe(share+filter, 0); r[0] != want {
					t.Errorf("version %d, %.9s… of %d levels: %v, want %v", version, share+filter, strings.Count(filter, "/")+1, r[0], want)
				}
			}
		}
		refused = packet.TopicNameInvalid
		if version == packet.V311 {
			refused = packet.Success // it has no word for that
		}
		for _, qos := range []byte{0, 1, 2} {
			m := text(deep, "deep")
			m.QoS = qos
			if qos == 0 {
				p.publish(m)
			} else if r := p.publish(m); r != refused {
				t.Errorf("version %d, QoS %d: %v, want %v", version, qos, r, refused)
			}
		}
		p.publish(text(good, "good"))
		p.take("good")
		p.take("good") // as the group's only member
		p.quiet()
		n.leave(p, "a")
	}
	if p := n.tryConnect(5, "b", offline(deep)); p.connack.Reason != packet.TopicNameInvalid {
		t.Errorf("a will: %v", p.connack.Reason)
	}
	if _, err := n.Publish(protocol.Everybody(protocol.DefaultSpace), protocol.Message{Topic: deep}); err == nil {
		t.Error("the bridge publishes what nobody may subscribe to")
	}
}
