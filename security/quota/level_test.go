package quota

import (
	"testing"
	"time"

	"github.com/aibridge/aibridge/protocol"
)

func TestLevelsSayWhatIsNotFreeAgain(t *testing.T) {
	now := time.Now()
	k, err := New(Options{
		Principal: Limits{Requests: 10, Connections: 3, Retained: 7}, Privileged: Limits{Requests: 100}, Space: Limits{Requests: 50},
		Records: RecordLimits{Device: 4, Space: 9}, Now: func() time.Time { return now }, Shared: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	lamp := &protocol.Principal{Kind: protocol.KindAgent, ID: "lamp", Space: "home"}
	level := func(p protocol.Party, privileged bool, limit string) Level {
		t.Helper()
		for _, l := range k.Levels(p, privileged, Holding{Retained: 5}) {
			if l.Limit == limit {
				return l
			}
		}
		t.Fatalf("there is no level of %s", limit)
		return Level{}
	}
	for range 5 {
		if err := k.Admit(lamp, 1); err != nil {
			t.Fatal(err)
		}
	}
	k.Records().Count(lamp.Party(), 2)
	if err := k.Connect(lamp); err != nil {
		t.Fatal(err)
	}
	space := protocol.Party{Space: "home"}
	for what, test := range map[string]struct{ got, want Level }{
		"requests":              {level(lamp.Party(), false, "requests"), Level{Limit: "requests", Most: 10, Rate: true, Used: 5}},
		"as a privileged one":   {level(lamp.Party(), true, "requests"), Level{Limit: "requests", Most: 100, Rate: true, Used: 50}}, // the same time
		"of the space":          {level(space, false, "requests"), Level{Limit: "requests", Most: 50, Rate: true, Used: 5}},
		"messages":              {level(lamp.Party(), false, "messages"), Level{Limit: "messages", Rate: true}},
		"connections":           {level(lamp.Party(), false, "connections"), Level{Limit: "connections", Most: 3, Used: 1}},
		"retained":              {level(lamp.Party(), false, "retained"), Level{Limit: "retained", Most: 7, Used: 5, Same: true}},
		"records":               {level(lamp.Party(), false, "records"), Level{Limit: "records", Most: 4, Used: 2, Same: true}},
		"records of the space":  {level(space, false, "records"), Level{Limit: "records", Most: 9, Used: 2, Same: true}},
		"of a party of no name": {level(protocol.Party{Kind: protocol.KindAgent, ID: "x", Space: "home"}, false, "requests"), Level{Limit: "requests", Most: 10, Rate: true}},
	} {
		if test.got != test.want {
			t.Errorf("%s: %+v, want %+v", what, test.got, test.want)
		}
	}
	if n := k.accounts(); n != 2 {
		t.Errorf("a look has opened accounts: there are %d", n)
	}
	k.Share(map[string][]Use{"b": {{Party: lamp.Party(), Asked: [rates]int64{100}}}})
	if l := level(lamp.Party(), false, "requests"); l.Share != 5 || l.Used != 3 {
		t.Errorf("while another bridge gives the rest: %+v", l)
	}
	now = now.Add(time.Second)
	if l := level(lamp.Party(), false, "requests"); l.Used != 0 {
		t.Errorf("a second later: %+v", l)
	}
}
