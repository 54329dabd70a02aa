package model

import (
	"strings"
	"testing"

	"github.com/aibridge/aibridge/llm/wire/wiretest"
	"github.com/aibridge/aibridge/protocol"
)

func TestAFailureKeepsItsReasonOnceTheProviderIsLeftAlone(t *testing.T) {
	for name, test := range map[string]struct {
		reply  wiretest.Reply
		code   protocol.Code
		reason string
		told   string
	}{
		"a wrong key":  {wiretest.JSON(401, `{"error":{"message":"no such key sk-1"}}`), protocol.LLMRefused, "auth", "401 from p0: the provider refuses the bridge's credential"},
		"a limit":      {wiretest.JSON(429, `{"error":{"message":"alice asks too much"}}`), protocol.LLMUnavailable, "rate_limited", "429 from p0: "},
		"out of order": {wiretest.JSON(500, `{"error":{"message":"alice asks too much"}}`), protocol.LLMUnavailable, "unavailable", "500 from p0: "},
	} {
		t.Run(name, func(t *testing.T) {
			s := wiretest.New(t, test.reply)
			h := newHouse(t, at(s))
			const asked = openAfter + 3
			for i := range asked {
				_, err := h.ask(t, `{"query":"a"}`)
				if err == nil || err.Code != test.code || err.Details["reason"] != test.reason || err.Details["provider"] != "p0" || err.Details["status"] == nil || !strings.HasPrefix(err.Message, test.told) {
					t.Fatalf("query %d: %v %v", i+1, err, err.Details)
				}
				if i == asked-1 && strings.Contains(err.Message, "alice") {
					t.Errorf("what the service said to another caller is told: %v", err)
				}
			}
			if n := len(s.Requests()); n > openAfter {
				t.Errorf("the provider was asked %d times", n)
			}
		})
	}
}

func TestTheFailuresOfAllProvidersAreTold(t *testing.T) {
	key, limit := wiretest.New(t, wiretest.JSON(401, `{}`)), wiretest.New(t, wiretest.JSON(429, `{}`))
	_, err := newHouse(t, at(key, limit)).ask(t, `{"query":"a"}`)
	if err == nil || err.Code != protocol.LLMUnavailable || err.Details["reason"] != "rate_limited" || err.Details["provider"] != "p1" {
		t.Fatalf("got %v %v", err, err.Details)
	}
	if want := "401 from p0: the provider refuses the bridge's credential; 429 from p1: too many requests"; err.Message != want {
		t.Errorf("got %q", err.Message)
	}
	if reports, ok := err.Details["failures"].([]FailureReport); !ok || len(reports) != 2 || reports[0] != (FailureReport{"p0", "auth", 401}) {
		t.Errorf("got %v", err.Details["failures"])
	}
}

func TestFailuresHaveTheCodesOfTheLLMProtocol(t *testing.T) {
	gone := &wiretest.Server{URL: "http://127.0.0.1:1"} // a port that no other server is given
	for name, test := range map[string]struct {
		provider *wiretest.Server
		query    string
		want     protocol.SouthboundCode
	}{
		"too many requests":      {wiretest.New(t, wiretest.JSON(429, `{}`)), `{"query":"a"}`, protocol.SouthboundBusy},
		"overloaded":             {wiretest.New(t, wiretest.JSON(529, `{}`)), `{"query":"a"}`, protocol.SouthboundBusy},
		"nobody there":           {gone, `{"query":"a"}`, protocol.SouthboundNetwork},
		"cut off":                {wiretest.New(t, wiretest.Reply{Cut: true}), `{"query":"a"}`, protocol.SouthboundNetwork},
		"a model nobody has":     {wiretest.New(t, said("ok")), `{"query":"a","options":{"model":"none"}}`, protocol.SouthboundNotFound},
		"a model it has not":     {wiretest.New(t, wiretest.JSON(404, `{}`)), `{"query":"a"}`, protocol.SouthboundNotFound},
		"a key that is refused":  {wiretest.New(t, wiretest.JSON(401, `{}`)), `{"query":"a"}`, protocol.SouthboundUnavailable},
		"a service out of order": {wiretest.New(t, wiretest.JSON(500, `{}`)), `{"query":"a"}`, protocol.SouthboundUnavailable},
	} {
		_, err := newHouse(t, at(test.provider)).ask(t, test.query)
		if err == nil || protocol.SouthboundCodeOf(err) != test.want {
			t.Errorf("%s: %v %v is not %s", name, err, err.Details, test.want)
		}
	}
}
