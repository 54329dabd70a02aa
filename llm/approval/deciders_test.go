package approval

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/llm/tools"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/protocol/grant"
)

func person(id string, roles ...string) *protocol.Principal {
	return &protocol.Principal{Kind: protocol.KindOperator, ID: id, Space: protocol.DefaultSpace, Roles: append([]string{protocol.RoleOperator}, roles...)}
}

// waits asks about a kept call of the oven.
func (d *desk) waits(t *testing.T, x *tools.Execution) Approval {
	t.Helper()
	x.Parks = true
	var question *tools.Question
	if err := d.Gate(t.Context(), oven, x); !errors.As(err, &question) {
		t.Fatalf("it does not wait: %v", err)
	}
	r := question.Draft.(*Record)
	r.Task = "task"
	if err := d.Open(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	return d.asked(t)
}

// heard is the next event of that name.
func (d *desk) heard(t *testing.T, name string) Approval {
	t.Helper()
	for {
		e := <-d.events
		if e.Name != name {
			continue
		}
		var a Approval
		if err := json.Unmarshal(e.Data, &a); err != nil {
			t.Fatal(err)
		}
		return a
	}
}

func ruled(rules ...Rule) func(*Options) { return func(o *Options) { o.Rules = rules } }

func TestWhoAgreesInWhichPlace(t *testing.T) {
	for name, test := range map[string]struct {
		rule   Rule
		asker  *protocol.Principal
		votes  []string // of whom, "!" before one that is refused
		ends   State
		places string
	}{
		"one is enough":                   {Rule{}, bot, []string{"alice"}, Approved, "alice"},
		"two of anybody":                  {Rule{Needs: 2}, bot, []string{"alice", "!alice", "bob"}, Approved, "alice bob"},
		"the asker never":                 {Rule{Needs: 2}, alice, []string{"!alice", "bob", "!bob"}, Pending, "bob"},
		"people by name":                  {Rule{Deciders: Deciders{People: []string{"carol"}}}, bot, []string{"!alice", "carol"}, Approved, "carol"},
		"by role":                         {Rule{Deciders: Deciders{Roles: []string{"safety"}}}, bot, []string{"!alice", "sam"}, Approved, "sam"},
		"by role or name":                 {Rule{Needs: 2, Deciders: Deciders{Roles: []string{"safety"}, People: []string{"carol"}}}, bot, []string{"carol", "!bob", "sam"}, Approved, "carol sam"},
		"a substitute":                    {Rule{Deciders: Deciders{People: []string{"carol"}, Substitutes: map[string]string{"carol": "dave"}}}, bot, []string{"dave"}, Approved, "carol"},
		"not both":                        {Rule{Needs: 2, Deciders: Deciders{People: []string{"alice", "carol"}, Substitutes: map[string]string{"carol": "dave"}}}, bot, []string{"dave", "!carol", "alice"}, Approved, "carol alice"},
		"nor twice":                       {Rule{Needs: 2, Deciders: Deciders{People: []string{"carol", "dave"}, Substitutes: map[string]string{"carol": "dave"}}}, bot, []string{"dave", "!dave", "carol"}, Approved, "dave carol"},
		"not for the asker":               {Rule{Deciders: Deciders{People: []string{"carol"}, Substitutes: map[string]string{"carol": "dave"}}}, person("carol"), []string{"!dave", "!carol"}, Pending, ""},
		"in another place than the asker": {Rule{Deciders: Deciders{People: []string{"carol", "dave"}, Substitutes: map[string]string{"carol": "dave"}}}, person("carol"), []string{"dave"}, Approved, "dave"},
		"not of another space":            {Rule{}, bot, []string{"!eve"}, Pending, ""},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t, ruled(test.rule))
			a := d.waits(t, heat(test.asker))
			known := map[string]*protocol.Principal{"alice": alice, "bob": bob, "eve": eve, "sam": person("sam", "safety")}
			for _, vote := range test.votes {
				id, refused := strings.CutPrefix(vote, "!")
				who := known[id]
				if who == nil {
					who = person(id)
				}
				if err := d.decide(who, a, "approve", "ok"); (err != nil) != refused {
					t.Errorf("%s: %v", vote, err)
				}
			}
			r, _, _ := d.table.Get(a.ID)
			var places []string
			for _, v := range r.Agreed {
				places = append(places, v.Seat)
			}
			if r.State != test.ends || strings.Join(places, " ") != test.places || len(r.view().Votes) != len(places) {
				t.Errorf("it is %s with %q", r.State, places)
			}
		})
	}
}

func TestOneDenialIsEnough(t *testing.T) {
	d := newDesk(t, ruled(Rule{Needs: 3}))
	a := d.waits(t, heat(bot))
	if err := d.decide(alice, a, "approve", ""); err != nil {
		t.Fatal(err)
	}
	if told := d.heard(t, "approval.voted"); told.State != Pending || len(told.Votes) != 1 || told.Votes[0].By != "alice" || told.Needs != 3 || told.Nonce != a.Nonce {
		t.Errorf("told %+v", told)
	}
	if err := d.decide(bob, a, "deny", "no"); err != nil {
		t.Fatal(err)
	}
	if told := d.heard(t, "approval.denied"); told.State != Denied || told.DecidedBy != "bob" {
		t.Errorf("told %+v", told)
	}
}

// Many decide at once: as many votes count as are needed, each once.
func TestDecidersRace(t *testing.T) {
	for range 20 {
		d := newDesk(t, ruled(Rule{Needs: 3}))
		d.table.Yield()
		a := d.waits(t, heat(bot))
		var at sync.WaitGroup
		errs := make([]error, 8)
		for i := range errs {
			at.Go(func() { errs[i] = d.decide(person(fmt.Sprintf("p%d", i/2)), a, "approve", "") })
		}
		at.Wait()
		good := 0
		for _, err := range errs {
			if err == nil {
				good++
			}
		}
		r, _, _ := d.table.Get(a.ID)
		if good != 3 || len(r.Agreed) != 3 || r.State != Approved {
			t.Fatalf("%d have decided, it has %d votes and is %s: %v", good, len(r.Agreed), r.State, errs)
		}
	}
}

func TestOnlyThoseDecideWhomARuleNames(t *testing.T) {
	d := newDesk(t, ruled(Rule{Tools: []string{"door.*"}, Needs: 2, Life: time.Hour}, Rule{Risks: []string{"high"}, Needs: 3}, Rule{Spaces: []protocol.SpaceID{"elsewhere"}, Needs: 4}))
	group := heat(bot)
	group.Reaches = []string{"lamp.on", "Door.open"}
	for _, test := range []struct {
		x     *tools.Execution
		tool  *tools.Tool
		needs int
	}{{group, oven, 2}, {heat(bot), oven, 3}, {heat(eve), &tools.Tool{Declaration: tools.Declaration{Name: "lamp.on", Risk: "ask"}}, 4}, {heat(bot), &tools.Tool{Declaration: tools.Declaration{Name: "lamp.on", Risk: "ask"}}, 0}} {
		r, err := d.draft(t.Context(), test.tool, test.x, "")
		if err != nil || r.Needs != test.needs || test.needs == 2 && r.Expires-r.AskedAt != time.Hour.Milliseconds() {
			t.Errorf("%s: %+v, %v", test.tool.Name, r, err)
		}
	}
}

// setClock is a clock that tests set.
type setClock struct {
	mu sync.Mutex
	at time.Time
}

func (c *setClock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *setClock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

// Policy may let somebody decide about some calls alone, by what they are. These are
// seen by whoever may decide about them, and are missing for others.
func TestWhoeverMayDecideAboutACallSeesIt(t *testing.T) {
	var ovens string
	d := newDesk(t, func(o *Options) {
		o.MayDecide = func(who *protocol.Principal, _ protocol.SpaceID, id string) bool { return who == alice && id == ovens }
	})
	ovens = "none"
	other := d.waits(t, heat(bot))
	x := heat(bot)
	x.TraceID = "t-2"
	a := d.waits(t, x)
	ovens = a.ID
	for who, sees := range map[*protocol.Principal]int{alice: 1, bob: 0, bot: 2} {
		list, err := d.List(t.Context(), &commands.Call{Principal: who}, ListParams{})
		if err != nil || list.Total != sees {
			t.Errorf("%s sees %d: %v", who.ID, list.Total, err)
		}
	}
	if err := d.decide(bob, a, "approve", ""); protocol.CodeOf(err) != protocol.NotFound {
		t.Errorf("bob: %v", err)
	}
	if err := d.decide(alice, other, "approve", ""); protocol.CodeOf(err) != protocol.NotFound {
		t.Errorf("alice, about another call: %v", err)
	}
	if err := d.decide(alice, a, "approve", ""); err != nil {
		t.Error(err)
	}
}

func TestWhoIsAskedAfterAWhile(t *testing.T) {
	clock := &setClock{at: time.Now()}
	d := newDesk(t, func(o *Options) {
		o.Now = clock.now
		o.Rules = []Rule{{
			Deciders: Deciders{People: []string{"carol"}}, Remind: time.Hour, Life: 10 * time.Hour,
			Escalate: 150 * time.Minute, EscalateTo: Deciders{Roles: []string{"chief"}, People: []string{"bob"}},
		}}
	})
	a := d.waits(t, heat(bot))
	if a.EscalatesAt != a.AskedAt+(150*time.Minute).Milliseconds() || !slices.Contains(a.EscalatesTo.Roles, "chief") {
		t.Errorf("asked %+v", a)
	}
	look := func(after time.Duration, want string) {
		t.Helper()
		clock.add(after)
		before := len(d.events)
		d.look(t.Context(), a.ID)
		if want == "" {
			if len(d.events) != before {
				t.Errorf("told %s", (<-d.events).Name)
			}
			return
		}
		if len(d.events) == before {
			t.Fatalf("told nothing, not %s", want)
		}
		if e := <-d.events; e.Name != want {
			t.Errorf("told %s, not %s", e.Name, want)
		}
	}
	look(59*time.Minute, "")
	look(time.Minute, "approval.reminded")
	look(0, "")
	if err := d.decide(bob, a, "approve", ""); protocol.CodeOf(err) != protocol.PermissionDenied {
		t.Errorf("bob decided too soon: %v", err)
	}
	look(-2*time.Hour, "") // the clock is set back
	look(3*time.Hour, "approval.reminded")
	look(30*time.Minute, "approval.escalated")
	look(0, "")
	look(5*time.Hour, "approval.reminded") // once, however long nobody looked
	look(0, "")
	if err := d.decide(bob, a, "approve", ""); err != nil {
		t.Error(err)
	}
	look(10*time.Hour, "")
	if r, _, _ := d.table.Get(a.ID); r.State != Approved {
		t.Errorf("it is %s", r.State)
	}
}

// What is due is looked at by one calendar, whoever waits.
func TestTheCalendarKnowsWhatIsDue(t *testing.T) {
	d := newDesk(t, ruled(Rule{Remind: time.Hour, Escalate: 30 * time.Minute, EscalateTo: Deciders{People: []string{"bob"}}}))
	a := d.waits(t, heat(bot))
	if ids, _ := d.calendar.due(time.UnixMilli(a.AskedAt + 29*60_000)); len(ids) > 0 {
		t.Errorf("due %q", ids)
	}
	if ids, _ := d.calendar.due(time.UnixMilli(a.AskedAt + 30*60_000)); !slices.Equal(ids, []string{a.ID}) {
		t.Errorf("due %q", ids)
	}
}

// revocable are grants that can be taken back.
type revocable struct {
	grant.Unlimited
	mu   sync.Mutex
	gone map[string]error
}

func (g *revocable) revoke(id string, why error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.gone[id] = why
}

func (g *revocable) Principal(of grant.Grant) (*protocol.Principal, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if why := g.gone[of.ID]; why != nil {
		return nil, why
	}
	return grant.Original(of), nil
}

// The vote of somebody whose credential is taken back does not count, also if it
// was the last one and the call is not made yet.
func TestAVoteCountsAsLongAsItsVoterMayDecide(t *testing.T) {
	keys := &revocable{gone: make(map[string]error)}
	d := newDesk(t, ruled(Rule{Needs: 2}), func(o *Options) { o.Grants = keys })
	x := heat(bot)
	a := d.waits(t, x)
	x.Approval = a.ID
	vote := func(id string) {
		t.Helper()
		if err := d.decide(person(id), a, "approve", ""); err != nil {
			t.Fatal(err)
		}
	}
	vote("ann")
	keys.revoke("ann", protocol.Errorf(protocol.CredentialInvalid, "the key was revoked"))
	vote("ben")
	if s := d.state(a.ID); s != Pending {
		t.Fatalf("with a vote that does not count it is %s", s)
	}
	vote("cid")
	if s := d.state(a.ID); s != Approved {
		t.Fatalf("with two votes it is %s", s)
	}
	keys.revoke("ben", protocol.Errorf(protocol.CredentialInvalid, "the key was revoked"))
	var question *tools.Question
	if err := d.Gate(t.Context(), oven, x); !errors.As(err, &question) || question.Approval != a.ID {
		t.Fatalf("it does not wait again: %v", err)
	}
	if again := d.heard(t, "approval.reopened"); again.State != Pending || len(again.Votes) != 1 || again.DecidedBy != "" {
		t.Errorf("it waits as %+v", again)
	}
	vote("dan")
	keys.revoke("dan", protocol.Errorf(protocol.CredentialInvalid, "expired").With("reason", grant.ReasonExpired))
	if err := d.Gate(t.Context(), oven, x); err != nil {
		t.Errorf("a vote ends with the time of its token: %v", err)
	}
	if s := d.state(a.ID); s != Used {
		t.Errorf("it is %s", s)
	}
}

// hotter is a call as the oven's would be with other arguments.
func hotter(_ context.Context, r *Record, args json.RawMessage) (*tools.Tool, *tools.Execution, error) {
	x := heat(bot)
	x.Parks, x.ArgumentsJSON, x.Task = true, args, r.Task
	return oven, x, nil
}

func (d *desk) edit(who *protocol.Principal, a Approval, args string) (Approval, error) {
	return d.Edit(context.Background(), &commands.Call{Principal: who}, EditParams{ID: a.ID, Nonce: a.Nonce, Args: json.RawMessage(args), Reason: "too hot"})
}

func TestAChangedCallIsAnotherQuestion(t *testing.T) {
	d := newDesk(t, ruled(Rule{Needs: 2}), func(o *Options) { o.MayDecideEdited = func(who *protocol.Principal) bool { return who.ID == "root" } })
	d.OnEdit(hotter)
	a := d.waits(t, heat(bot))
	if err := d.decide(bob, a, "approve", ""); err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]string{`{"celsius":220}`: "are those that it has", `[]`: "is no object", `null`: "is no object"} {
		if _, err := d.edit(alice, a, args); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", args, err)
		}
	}
	if _, err := d.edit(bot, a, `{"celsius":20}`); protocol.CodeOf(err) != protocol.PermissionDenied {
		t.Errorf("the asker changed it: %v", err)
	}
	next, err := d.edit(alice, a, `{"celsius":180}`)
	if err != nil {
		t.Fatal(err)
	}
	if next.ID != a.ID || next.Hash == a.Hash || next.Nonce == a.Nonce || len(next.Votes) != 0 || next.EditedBy != "alice" || strings.Join(next.Changes, "") != `the arguments were {"celsius":220}` {
		t.Errorf("it asks %+v", next)
	}
	if told := d.heard(t, "approval.edited"); string(told.Args) != `{"celsius":180}` {
		t.Errorf("told %+v", told)
	}
	if err := d.decide(bob, a, "approve", ""); err == nil {
		t.Error("approved what was shown before")
	}
	if err := d.decide(alice, next, "approve", ""); protocol.CodeOf(err) != protocol.PermissionDenied {
		t.Errorf("who has changed it approved it: %v", err)
	}
	for _, id := range []string{"bob", "carol"} {
		if err := d.decide(person(id), next, "approve", ""); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := d.edit(bob, next, `{"celsius":20}`); protocol.CodeOf(err) != protocol.InvalidState {
		t.Errorf("changed after the decision: %v", err)
	}
	was, is := heat(bot), heat(bot)
	was.Approval, is.Approval, is.ArgumentsJSON = a.ID, a.ID, json.RawMessage(`{"celsius":180}`)
	var question *tools.Question
	if err := d.Gate(t.Context(), oven, was); !errors.As(err, &question) {
		t.Errorf("the call as the model wanted it is made: %v", err)
	}
	if err := d.Gate(t.Context(), oven, is); err != nil {
		t.Error(err)
	}
	if e := d.Edited(a.ID); e == nil || string(e.Args) != `{"celsius":180}` || e.By != "alice" || e.Reason != "too hot" {
		t.Errorf("it was changed: %+v", e)
	}
}

// What was asked about before has other deciders, another risk, another life and
// another effect than what is asked about now: an edit is no way around those.
func TestAChangedCallIsDecidedAsItIsNow(t *testing.T) {
	vault := func(o *Options) {
		o.Rules = []Rule{{Tools: []string{"vault.*"}, Deciders: Deciders{People: []string{"carol", "dan"}}, Needs: 2, Escalate: time.Hour, Life: time.Minute}, {Remind: time.Hour}}
	}
	d := newDesk(t, vault)
	d.OnEdit(func(ctx context.Context, r *Record, args json.RawMessage) (*tools.Tool, *tools.Execution, error) {
		tool, x, err := hotter(ctx, r, args)
		x.Reaches, x.Effect, x.Risks = []string{"vault.open"}, "vault", []string{"critical"}
		return tool, x, err
	})
	x := heat(bot)
	x.Effect = "oven"
	a := d.waits(t, x)
	next, err := d.edit(alice, a, `{"group":"vaults"}`)
	if err != nil {
		t.Fatal(err)
	}
	if next.Needs != 2 || len(next.Deciders.People) != 2 || next.EscalatesAt == 0 || next.Expires > next.AskedAt+2*time.Minute.Milliseconds() {
		t.Errorf("it is decided as before: %+v", next)
	}
	if err := d.decide(bob, next, "approve", ""); protocol.CodeOf(err) != protocol.PermissionDenied {
		t.Errorf("bob opened the vault: %v", err)
	}
	if err := d.Gate(t.Context(), oven, x); reason(err) == "same_effect" {
		t.Error("the effect of the call as it was is still taken")
	}
	same := heat(bot)
	same.Effect, same.Parks, same.TraceID = "vault", true, "t-2"
	if err := d.Gate(t.Context(), oven, same); reason(err) != "same_effect" {
		t.Errorf("the effect that the call has now is not taken: %v", err)
	}
	other := heat(bot)
	other.Effect, other.TraceID = "lamp", "t-3"
	if _, err := d.edit(alice, d.waits(t, other), `{"group":"vaults"}`); reason(err) != "same_effect" {
		t.Errorf("changed to what is asked about already: %v", err)
	}
}

func TestNobodyAgreesForWhoeverHasChangedTheCall(t *testing.T) {
	d := newDesk(t, ruled(Rule{Deciders: Deciders{People: []string{"carol", "bob"}, Substitutes: map[string]string{"carol": "dave"}}}))
	d.OnEdit(hotter)
	a, err := d.edit(person("carol"), d.waits(t, heat(bot)), `{"celsius":180}`)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.decide(person("dave"), a, "approve", ""); protocol.CodeOf(err) != protocol.PermissionDenied {
		t.Errorf("dave agreed for carol: %v", err)
	}
	if err := d.decide(bob, a, "approve", ""); err != nil {
		t.Error(err)
	}
}

func TestAnAdministratorMayAgreeToItsOwnChange(t *testing.T) {
	d := newDesk(t, func(o *Options) { o.MayDecideEdited = func(who *protocol.Principal) bool { return who.ID == "alice" } })
	d.OnEdit(hotter)
	a := d.waits(t, heat(bot))
	for i := range maxEdits {
		var err error
		if a, err = d.edit(alice, a, fmt.Sprintf(`{"celsius":%d}`, i)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := d.edit(alice, a, `{}`); protocol.CodeOf(err) != protocol.LimitReached {
		t.Errorf("changed once more: %v", err)
	}
	if err := d.decide(alice, a, "approve", ""); err != nil {
		t.Error(err)
	}
}

func TestACallThatIsHeldCannotBeChanged(t *testing.T) {
	d := newDesk(t)
	d.OnEdit(hotter)
	passed := d.gate(t.Context(), oven, heat(bot))
	a := d.asked(t)
	if _, err := d.edit(alice, a, `{}`); protocol.CodeOf(err) != protocol.InvalidState {
		t.Errorf("changed: %v", err)
	}
	if err := d.decide(alice, a, "deny", ""); err != nil {
		t.Fatal(err)
	}
	<-passed
}

func TestEqualCallsAreDecidedAtOnce(t *testing.T) {
	d := newDesk(t)
	var list []Shown
	for range 3 {
		a := d.waits(t, heat(bot))
		list = append(list, Shown{a.ID, a.Nonce})
	}
	other := heat(bot)
	other.ArgumentsJSON = json.RawMessage(`{"celsius":20}`)
	cold := d.waits(t, other)
	batch := func(who *protocol.Principal, list ...Shown) (BatchResult, error) {
		return d.Batch(t.Context(), &commands.Call{Principal: who}, BatchParams{Approvals: list, Decision: "approve"})
	}
	for want, list := range map[string][]Shown{
		"is another call than the first": {list[0], {cold.ID, cold.Nonce}},
		"is there twice":                 {list[0], list[0]},
		"no approval":                    {list[0], {"nothing", "x"}},
	} {
		if _, err := batch(alice, list...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if _, err := batch(eve, list...); protocol.CodeOf(err) != protocol.NotFound {
		t.Errorf("eve: %v", err)
	}
	list[1].Nonce = "of something else"
	got, err := batch(alice, list...)
	if err != nil || got.Failed != 1 || got.Decided[0].State != Approved || got.Decided[1].Code != protocol.InvalidParameter || got.Decided[2].State != Approved {
		t.Errorf("got %+v, %v", got, err)
	}
	if s := d.state(list[1].ID); s != Pending {
		t.Errorf("undecided it is %s", s)
	}
}

func TestRulesAreCheckedBeforeTheyCount(t *testing.T) {
	for want, rule := range map[string]RuleSettings{
		"":                           {Deciders: Deciders{People: []string{"a", "b"}, Substitutes: map[string]string{"a": "c"}}, Approvals: 2, EscalateMinutes: 5, EscalateTo: Deciders{People: []string{"d"}}},
		"approvals: 3 have to agree": {Deciders: Deciders{People: []string{"a", "b"}}, Approvals: 3},
		"approvals: 21 is not":       {Approvals: 21},
		"escalate_to: nobody":        {EscalateMinutes: 5},
		"escalate_minutes: is":       {EscalateTo: Deciders{Roles: []string{"a"}}},
		"c is not one of":            {Deciders: Deciders{People: []string{"a"}, Substitutes: map[string]string{"c": "d"}}},
		"a needs somebody else":      {Deciders: Deciders{People: []string{"a"}, Substitutes: map[string]string{"a": "a"}}},
		"life_hours: 2161":           {LifeHours: 2161},
	} {
		var faults []string
		c := DefaultSettings()
		c.Rules = []RuleSettings{rule}
		c.Check(func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) })
		if want == "" && len(faults) > 0 || want != "" && (len(faults) != 1 || !strings.HasPrefix(faults[0], "approvals.rules[0].") || !strings.Contains(faults[0], want)) {
			t.Errorf("%s: %q", want, faults)
		}
	}
}
