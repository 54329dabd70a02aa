package run

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/aibridge/aibridge/commands/listing"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/llm/chat"
	"github.com/aibridge/aibridge/llm/model"
	"github.com/aibridge/aibridge/protocol"
)

// priced is a model whose answers cost something.
type priced struct{ scripted }

func (m priced) Ask(ctx context.Context, q model.Question, emit func(chat.Event) error) (*model.Reply, error) {
	r, err := m.scripted.Ask(ctx, q, emit)
	if err == nil {
		r.Provider, r.Cost, r.Usage = "house", 0.25, chat.Usage{Input: 100, Output: 10}
	}
	return r, err
}

func (w *world) trace(id string, p TraceParams) TraceResult {
	w.t.Helper()
	p.Run = id
	got, err := w.Trace(w.t.Context(), callOf(alice), p)
	if err != nil {
		w.t.Fatal(err)
	}
	return got
}

// told is each span in a few words.
func (r *TraceResult) told() (list []string) {
	for _, s := range r.Spans {
		list = append(list, fmt.Sprintf("%s %s %s %s", s.ID, s.Kind, s.Name, s.State))
	}
	return list
}

func TestATraceShowsWhatARunDidAndWhatItDoes(t *testing.T) {
	asked := make(chan struct{})
	goOn := make(chan struct{})
	first := script(calls("thermostat-go.read", "{}", "thermostat-go.set_target", `{"celsius":21}`, "no.such", "{}"), says("Done."))
	n := 0
	m := scripted(func(ctx context.Context, q model.Question) (*chat.Answer, error) {
		if n++; n == 1 {
			close(asked)
			<-goOn
		}
		return first(ctx, q)
	})
	w := newWorld(t, nil, func(o *Options) { o.Asker = priced{m} })
	w.device.holds, w.device.begun = true, make(chan struct{})
	id := w.start(StartParams{Input: ptr("Make it warm."), Tools: []string{"thermostat-go.*"}})
	<-asked
	if got := w.trace(id, TraceParams{}); !slices.Equal(got.told(), []string{"C01 model  running"}) || got.Turns != 1 || got.Spans[0].At == 0 {
		t.Errorf("while the model is asked: %+v", got)
	}
	close(goOn)
	<-w.device.begun
	got := w.trace(id, TraceParams{})
	if want := []string{"C01 model scripted ok", "C01.1 tool thermostat-go.read ok", "C01.2 tool thermostat-go.set_target running", "C01.3 tool no.such running"}; !slices.Equal(got.told(), want) {
		t.Errorf("while a device acts: %q", got.told())
	}
	if s := got.Spans[0]; s.Provider != "house" || s.Cost != 0.25 || s.Input != 100 || s.Output != 10 {
		t.Errorf("the turn cost %+v", s)
	}
	if r, err := w.Status(t.Context(), callOf(alice), StatusParams{Run: id}); err != nil || r.Turns != 1 || r.Tokens != 110 || r.Cost != 0.25 || r.TraceID != "trace-1" {
		t.Errorf("so far: %+v, %v", r, err)
	}
	if _, err := w.Cancel(t.Context(), callOf(alice), CancelParams{Run: id}); err != nil {
		t.Fatal(err)
	}
	w.device.mu.Lock()
	w.device.holds = false
	w.device.mu.Unlock()
	w.goOn(id, nil)
	if r := w.rest(id); r.Turns != 2 || r.Tokens != 220 || r.Cost != 0.5 {
		t.Errorf("at rest: %+v", r)
	}
	got = w.trace(id, TraceParams{After: 1})
	if !slices.Equal(got.told(), []string{"C02 model scripted ok"}) || got.Turns != 2 {
		t.Errorf("the second page: %+v", got)
	}
	got = w.trace(id, TraceParams{Limit: 1})
	if got.NextAfter != 1 || got.Turns != 2 || len(got.Spans) != 4 || got.Spans[2].State != spanFailed || got.Spans[2].CallID != "call_1_2" || got.Spans[2].Parent != "C01" || got.Spans[1].Code != "" || got.Spans[1].At == 0 {
		t.Errorf("the first page: %+v", got)
	}
	if _, err := w.Trace(t.Context(), callOf(bob), TraceParams{Run: id}); protocol.CodeOf(err) != protocol.NotFound {
		t.Errorf("bob: %v", err)
	}
	w.restart(script())
	if r, err := w.Status(t.Context(), callOf(alice), StatusParams{Run: id}); err != nil || r.Tokens != 220 || r.Cost != 0.5 {
		t.Errorf("after a restart: %+v, %v", r, err)
	}
}

func TestAWorkflowIsDrawnWholeWhenThatIsAskedFor(t *testing.T) {
	w := imported(t, script(says("hello")))
	id := w.start(StartParams{Package: "climate-check", Project: "p"})
	w.rest(id)
	plain, err := w.Status(t.Context(), callOf(alice), StatusParams{Run: id})
	if err != nil || plain.Graph != nil {
		t.Errorf("unasked: %+v, %v", plain.Graph, err)
	}
	got, err := w.Status(t.Context(), callOf(alice), StatusParams{Run: id, Graph: true})
	if err != nil || got.Graph == nil {
		t.Fatal(err)
	}
	if got.Graph.Entry != got.Node || len(got.Graph.Nodes) < 5 || len(got.Graph.Edges) < len(got.Graph.Nodes)-1 {
		t.Errorf("drawn %+v", got.Graph)
	}
	for _, e := range got.Graph.Edges {
		for _, end := range []string{e.From, e.To} {
			if !slices.ContainsFunc(got.Graph.Nodes, func(n Node) bool { return n.ID == end }) {
				t.Errorf("%s leads nowhere", end)
			}
		}
	}
}

func TestRunsAreFoundSortedAndPaged(t *testing.T) {
	w := imported(t, func(context.Context, model.Question) (*chat.Answer, error) { return says("hello"), nil })
	flow := w.start(StartParams{Package: "climate-check", Project: "Kitchen"})
	talk := w.start(StartParams{Input: ptr("hello")})
	again := w.start(StartParams{Input: ptr("hello")})
	for _, id := range []string{flow, talk, again} {
		w.rest(id)
	}
	w.goOn(talk, ptr("and?"))
	w.rest(talk)
	eventually.Holds(t, "the phases are stored", func() bool {
		got, err := w.List(t.Context(), callOf(alice), ListParams{Phase: WaitingUser})
		return err == nil && got.Total == 3
	})
	for name, test := range map[string]struct {
		p    ListParams
		want []string
	}{
		"latest first":     {ListParams{}, []string{again, talk, flow}},
		"by turns":         {ListParams{Sort: "-turns", Page: listing.Page{Limit: 1}}, []string{talk}},
		"chats":            {ListParams{Mode: ModeChat, Sort: "id"}, []string{talk, again}},
		"a package":        {ListParams{Package: "climate-check"}, []string{flow}},
		"no such package":  {ListParams{Package: "climate"}, []string{}},
		"in any case":      {ListParams{Find: "kITchen"}, []string{flow}},
		"of somebody else": {ListParams{Principal: "bob"}, []string{}},
		"failed ones":      {ListParams{Phase: Failed}, []string{}},
	} {
		got, err := w.List(t.Context(), callOf(alice), test.p)
		ids := []string{}
		for _, r := range got.Runs {
			ids = append(ids, r.ID)
		}
		if err != nil || !slices.Equal(ids, test.want) {
			t.Errorf("%s: %q, %v; want %q", name, ids, err, test.want)
		}
	}
	var all []string
	for page := (listing.Page{Limit: 2}); ; {
		got, err := w.List(t.Context(), callOf(alice), ListParams{Page: page})
		if err != nil || got.Total != 3 {
			t.Fatal(got.Total, err)
		}
		for _, r := range got.Runs {
			all = append(all, r.ID)
		}
		if page.Cursor = got.NextCursor; page.Cursor == "" {
			break
		}
	}
	if !slices.Equal(all, []string{again, talk, flow}) {
		t.Errorf("the pages have %q", all)
	}
	elsewhere := &protocol.Principal{Kind: protocol.KindOperator, ID: "alice", Space: "lab", Roles: []string{protocol.RoleOperator}}
	if got, err := w.List(t.Context(), callOf(elsewhere), ListParams{}); err != nil || got.Total != 0 {
		t.Errorf("in another space: %+v, %v", got, err)
	}
}
