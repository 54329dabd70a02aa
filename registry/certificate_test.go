package registry

import (
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/aibridge/aibridge/internal/bubble"
	"github.com/aibridge/aibridge/protocol"
)

const serial protocol.Serial = "8a1b2c3d4e5f6a7b"

func TestTheEndOfACertificateSuspendsItsAgents(t *testing.T) {
	t.Parallel()
	bubble.Test(t, func(t *testing.T) {
		var revoked atomic.Bool
		refusal := protocol.Errorf(protocol.CertificateRevoked, "revoked").With("serial", string(serial))
		w := newWorld(t, func(o *Options) {
			o.Certified = func(s protocol.Serial) error {
				if s == serial && revoked.Load() {
					return refusal
				}
				return nil
			}
		})
		defer w.close()
		holder := &protocol.Principal{Kind: protocol.KindAgent, ID: "boiler", Space: protocol.DefaultSpace, CertSerial: serial}
		d := w.connect("boiler", holder, nil) // it takes its time
		d.register()
		w.do(holder, "skill.register", `{"agent_id":"boiler","skill":`+heating+`}`, nil)
		other := w.connect("other", alice, nil)
		other.register()
		answer := make(chan *protocol.Response, 1)
		go func() { answer <- w.ask(question{who: alice, command: "skill.invoke", params: bleed}) }()
		synctest.Wait()

		revoked.Store(true)
		if ids := w.CertificateEnded(serial, refusal); len(ids) != 1 || ids[0] != "boiler" {
			t.Errorf("suspended %v", ids)
		}
		synctest.Wait()
		if err := w.failed(<-answer, protocol.CertificateRevoked); err.Details["agent_id"] != "boiler" || err.Details["serial"] != string(serial) {
			t.Errorf("the call in flight: %v", err.Details)
		}
		if w.mqtt.card(t, "boiler") != nil || w.mqtt.card(t, "other") == nil {
			t.Error("the wrong cards were withdrawn")
		}
		w.fails(alice, "skill.invoke", set, protocol.AgentOffline) // though its connection still stands
		status := func() Status {
			var got GetAgentResult
			w.do(holder, "agent.get", `{"agent_id":"boiler"}`, &got)
			return got.Status
		}
		if got := status(); got != Suspended {
			t.Errorf("it is %s", got)
		}
		d.die()
		again := w.connect("boiler", holder, echo) // reinstating is a new certificate
		if got := status(); got != Suspended {
			t.Errorf("reconnected it is %s", got)
		}
		renewed := *holder
		renewed.CertSerial = "1111111111111111"
		again.who = &renewed
		again.register()
		synctest.Wait()
		if got := status(); got != Online {
			t.Errorf("registered anew it is %s", got)
		}
		if w.mqtt.card(t, "boiler") == nil {
			t.Error("its card is not back")
		}
		w.do(alice, "skill.invoke", set, nil)
	})
}

func TestAnAgentWhoseCertificateEndedMeanwhileStartsSuspended(t *testing.T) {
	t.Parallel()
	bubble.Test(t, func(t *testing.T) {
		first := newWorld(t)
		holder := &protocol.Principal{Kind: protocol.KindAgent, ID: "boiler", Space: protocol.DefaultSpace, CertSerial: serial}
		first.connect("boiler", holder, nil).register()
		first.close()
		agents := first.agents
		w := newWorld(t, func(o *Options) {
			o.Agents = agents
			o.Certified = func(protocol.Serial) error { return protocol.Errorf(protocol.CertificateExpired, "expired") }
		})
		defer w.close()
		a, _, _ := agents.Get("default/boiler")
		w.index.agentChanged("default/boiler", nil, a) // the memory tells nobody of what was there
		w.board.agentChanged("default/boiler", nil, a)
		w.connect("boiler", holder, nil)
		var got GetAgentResult
		w.do(holder, "agent.get", `{"agent_id":"boiler"}`, &got)
		if got.Status != Suspended {
			t.Errorf("it is %s", got.Status)
		}
	})
}
