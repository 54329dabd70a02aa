package model

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/aibridge/aibridge/internal/records/recordstest"
	"github.com/aibridge/aibridge/llm/wire/wiretest"
	"github.com/aibridge/aibridge/protocol"
)

// keyed is alice with one of her keys.
func keyed(key string) *protocol.Principal {
	who := *alice
	who.Method, who.Credential = protocol.MethodAPIKey, key
	return &who
}

// A key has its own models, budget and rate, whoever shows it; another key of the
// same principal has not.
func TestAKeyAsksWhatItIsAllowed(t *testing.T) {
	c := at(wiretest.New(t, said("ok")))
	second := c.Models[0]
	second.Name, second.Aliases = "large", nil
	c.Models = append(c.Models, second)
	now := time.Date(2030, 5, 4, 12, 0, 0, 0, time.UTC)
	spent := recordstest.New[Spent]()
	allowances := map[string]*protocol.Allowance{
		"large":  {Models: []string{"large"}},
		"small":  {Models: []string{"small"}}, // an alias
		"thrift": {Window: "day", Requests: 5},
		"slow":   {PerMinute: 1},
	}
	var alerts []string
	house := func() *house {
		return newHouse(t, c, func(o *Options) {
			o.Now, o.Spent = func() time.Time { return now }, spent
			o.Allowance = func(key string) *protocol.Allowance { return allowances[key] }
			o.Alert = func(a BudgetAlert) { alerts = append(alerts, fmt.Sprintf("%s %s %d", a.Owner, a.Window, a.Percent)) }
		})
	}
	h := house()
	ask := func(who *protocol.Principal, model string, want protocol.Code) {
		t.Helper()
		reply, err := h.asks(t, who, fmt.Sprintf(`{"query":"a","options":{"model":%q}}`, model), nil)
		switch {
		case want == "" && err != nil, want != "" && (err == nil || err.Code != want):
			t.Errorf("%s asks %q: %v, want %q", who.Credential, model, err, want)
		case want == "" && model == "" && who.Credential == "large" && reply.Model != "large":
			t.Errorf("the default of a key for the large model is %q", reply.Model)
		}
	}
	ask(keyed("large"), "large", "")
	ask(keyed("large"), "", "")
	ask(keyed("large"), "small", protocol.NotFound)
	ask(keyed("small"), "m", "")
	ask(keyed("small"), "large", protocol.NotFound)
	ask(keyed("other"), "large", "")
	token := keyed("large")
	token.Method = protocol.MethodToken // which only has the id of a key
	ask(token, "small", "")
	if list := h.ListFor(keyed("small")); len(list) != 1 || list[0].ID != "m" || !list[0].Default {
		t.Errorf("the key sees %+v", list)
	}

	for range 5 {
		ask(keyed("thrift"), "", "")
	}
	ask(keyed("thrift"), "", protocol.BudgetSpent)
	h.store(t.Context())
	h = house() // after a restart
	h.budgets.load()
	ask(keyed("thrift"), "", protocol.BudgetSpent)
	ask(keyed("slow"), "", "")
	ask(keyed("slow"), "", protocol.BudgetSpent)
	now = now.Add(time.Minute)
	ask(keyed("slow"), "", "")
	if want := []string{"thrift day 50", "thrift day 80", "thrift day 100"}; !slices.Equal(alerts, want) {
		t.Errorf("told %q, want %q", alerts, want)
	}
	for who, want := range map[*protocol.Principal][]string{
		keyed("thrift"): {"thrift day 5 of 5"},
		keyed("slow"):   {"slow minute 1 of 1"},
		alice:           nil,
		{Kind: protocol.KindOperator, ID: "op", Space: "default", Roles: []string{protocol.RoleOperator}}: {"slow minute 1 of 1", "thrift day 5 of 5"},
		{Kind: protocol.KindOperator, ID: "op", Space: "lab", Roles: []string{protocol.RoleOperator}}:     nil,
	} {
		var got []string
		for _, b := range h.Budgets(who) {
			got = append(got, fmt.Sprintf("%s %s %g of %g", b.Owner, b.Window, b.Limits[0].Spent, b.Limits[0].Limit))
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s %s sees %q, want %q", who.ID, who.Credential, got, want)
		}
	}
	delete(allowances, "thrift")
	ask(keyed("thrift"), "", "")
}
