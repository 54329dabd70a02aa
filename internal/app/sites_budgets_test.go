package app_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aibridge/aibridge/connect/site"
	"github.com/aibridge/aibridge/internal/app"
	"github.com/aibridge/aibridge/internal/bridgetest"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/llm"
	"github.com/aibridge/aibridge/llm/wire/scripted"
	"github.com/aibridge/aibridge/protocol"
)

// A budgeted is a plant with a model, for which budgets of the centre hold.
type budgeted struct {
	*plant
	model *scripted.Server
	http  *http.Client // one, as much is asked
	bob   string       // key of an operator at the edge, who asks the model
	asked int
}

// newBudgeted makes a plant whose centre bounds its requests in a month.
func newBudgeted(t *testing.T, requests int, alone site.Alone) *budgeted {
	b := &budgeted{model: scripted.ForBridge(t, says("That is it.")), http: bridgetest.HTTPClient(t)}
	file := filepath.Join(t.TempDir(), "llm.yaml")
	bridgetest.Write(t, file, fmt.Sprintf("providers: [{name: a, wire: openai, base_url: %s}]\nmodels: [{name: small, routes: [{provider: a}]}]\n"+
		"budgets: [{per: principal, of: default/agent/plant-bridge, window: month, requests: %d}]\n", b.model.URL, requests))
	b.plant = newPlantAt(t, func(c *app.Config) { c.LLM.File = file }, func(c *app.Config) {
		withModel(b.model)(c)
		c.Sites.Join.Budgets = site.Budgets{Hold: true, Alone: alone}
	})
	b.bob = b.edge.key(protocol.KindOperator, "bob", "operator")
	return b
}

// run has somebody run a command over a connection that was used before.
func (b *budgeted) run(h *house, key, command, params string) (status int, body []byte) {
	b.t.Helper()
	request, err := http.NewRequestWithContext(b.t.Context(), http.MethodPost, h.HTTPURL("/api/v1/commands/"+command), strings.NewReader(params))
	if err != nil {
		b.t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("X-API-Key", key)
	response, err := b.http.Do(request)
	if err != nil {
		b.t.Fatal(err)
	}
	defer response.Body.Close()
	if body, err = io.ReadAll(response.Body); err != nil {
		b.t.Fatal(err)
	}
	return response.StatusCode, body
}

// restarts restarts a bridge.
func (b *budgeted) restarts(h *house) {
	b.t.Helper()
	b.http.CloseIdleConnections()
	h.Restart(b.t)
}

// asks has the model at the edge asked something new, and returns the code of a failure with its
// reason, or "ok".
func (b *budgeted) asks() string {
	b.t.Helper()
	b.asked++
	status, body := b.run(b.edge, b.bob, "llm.query", fmt.Sprintf(`{"query":"question %d"}`, b.asked))
	if status == http.StatusOK {
		return withinBudget
	}
	var failed struct {
		Error struct {
			Code    protocol.Code
			Details struct{ Reason string }
		}
	}
	if err := json.Unmarshal(body, &failed); err != nil {
		b.t.Fatalf("%s: %v", body, err)
	}
	return string(failed.Error.Code) + " " + failed.Error.Details.Reason
}

func (b *budgeted) is(want string) {
	b.t.Helper()
	if got := b.asks(); got != want {
		b.t.Fatalf("the model's asker is told %q, not %q", got, want)
	}
}

// comesTo asks until an answer is as wanted.
func (b *budgeted) comesTo(want string) {
	b.t.Helper()
	var got string
	eventually.Holds(b.t, "the model's asker is told "+want, func() bool {
		got = b.asks()
		return got == want
	}, &got)
}

// spent waits until the centre knows of so many requests, of which the site may hold some more.
func (b *budgeted) spent(want float64) {
	b.t.Helper()
	var list []byte
	eventually.Holds(b.t, fmt.Sprint(want, " requests are spent at the centre"), func() bool {
		_, list = b.run(b.centre, b.centre.admin, "llm.budget.list", `{}`)
		var got llm.BudgetListResult
		if err := json.Unmarshal(list, &got); err != nil {
			b.t.Fatal(err)
		}
		return len(got.Budgets) == 1 && got.Budgets[0].Owner == "plant-bridge" && got.Budgets[0].Limits[0].Spent == want
	}, func() any { return string(list) })
}

const (
	withinBudget       = "ok"
	spentAtCentre      = string(protocol.BudgetSpent) + " centre"
	centreUnasked      = string(protocol.LLMUnavailable) + " centre_unreachable"
	spentWithoutCentre = string(protocol.BudgetSpent) + " centre_unreachable"
)

// TestBudgetsOfTheCentreHoldAtASite over a line that is cut, and restarts of both ends.
func TestBudgetsOfTheCentreHoldAtASite(t *testing.T) {
	t.Parallel()
	b := newBudgeted(t, 4, site.Alone{})
	b.comesTo(withinBudget)
	b.is(withinBudget)
	b.spent(2)
	b.line.rests(true)
	b.comesTo(centreUnasked)
	b.restarts(b.edge)
	b.is(centreUnasked)
	b.line.rests(false)
	b.comesTo(withinBudget)
	b.spent(3)
	b.restarts(b.centre)
	b.comesTo(withinBudget)
	b.comesTo(spentAtCentre)
	b.spent(4)
	eventually.Holds(t, "the centre has told of its budget", func() bool {
		_, trail := b.run(b.centre, b.centre.admin, "audit.query", `{"event":"llm.budget"}`)
		return strings.Count(string(trail), "plant-bridge") >= 2 && strings.Contains(string(trail), "100")
	})
	if status := b.edge.must("bridge.status", `{}`); strings.Contains(status, "budgets:") {
		t.Errorf("the site complains: %s", status)
	}
}

// TestASiteSpendsWhatIsDeclaredForTheTimeWithoutItsCentre and tells it once.
func TestASiteSpendsWhatIsDeclaredForTheTimeWithoutItsCentre(t *testing.T) {
	t.Parallel()
	b := newBudgeted(t, 100, site.Alone{Window: "month", Requests: 3})
	b.line.rests(true)
	b.is(withinBudget)
	b.is(withinBudget)
	b.restarts(b.edge)
	b.is(withinBudget)
	b.is(spentWithoutCentre)
	b.line.rests(false)
	b.spent(3)
	b.comesTo(withinBudget)
	b.spent(4)
	b.restarts(b.edge)
	b.comesTo(withinBudget)
	b.spent(5)
}

// TestABudgetOfTheCentreIsKeptOverARoughLine which drops connections while it is asked.
func TestABudgetOfTheCentreIsKeptOverARoughLine(t *testing.T) {
	t.Parallel()
	const most = 40
	b := newBudgeted(t, most, site.Alone{})
	b.comesTo(withinBudget)
	b.line.isRough(true)
	count := 1
	eventually.Holds(t, "the budget is spent", func() bool {
		got := b.asks()
		if got == withinBudget {
			count++
		}
		return got == spentAtCentre
	})
	if count != most {
		t.Errorf("%d of %d questions are answered, while the line was cut %d times", count, most, b.line.wasCut())
	}
	b.line.isRough(false)
	b.spent(most)
}

// TestOnlySitesBorrow and under their own names.
func TestOnlySitesBorrow(t *testing.T) {
	t.Parallel()
	b := newBudgeted(t, 100, site.Alone{})
	lend := func(site string) string {
		return fmt.Sprintf(`{"site":%q,"account":"edge","number":1,"need":{"tokens":1,"cost":0,"requests":1}}`, site)
	}
	device := b.centre.key(protocol.KindAgent, "thing", "end_agent")
	stray := b.centre.key(protocol.KindAgent, "stray", "site")
	for name, c := range map[string]struct {
		key, params string
		code        protocol.Code
	}{
		"the site":         {b.key, lend("plant"), ""},
		"another name":     {b.key, lend("ship"), protocol.PermissionDenied},
		"a device":         {device, lend("plant"), protocol.PermissionDenied},
		"a key of no site": {stray, lend("plant"), protocol.PermissionDenied},
		"a person":         {b.person, lend("plant"), protocol.PermissionDenied},
		"no site's name":   {b.person, lend("ship"), protocol.PermissionDenied},
		"less than none":   {b.key, `{"site":"plant","account":"edge","number":2,"used":{"tokens":-1,"cost":0,"requests":0}}`, protocol.InvalidParameter},
	} {
		if code, body := b.centre.run(c.key, "llm.budget.lend", c.params); code != c.code {
			t.Errorf("%s: %s, want %s", name, body, c.code)
		}
	}
	if code, body := b.centre.run(b.key, "llm.budget.list", `{}`); code != protocol.PermissionDenied {
		t.Errorf("the site lists budgets: %s", body)
	}
}
