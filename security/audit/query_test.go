package audit

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

var (
	admin = &protocol.Principal{ID: "root", Space: "default", Roles: []string{protocol.RoleAdministrator}}
	alice = &protocol.Principal{ID: "alice", Space: "one", Credential: "k1", Method: protocol.MethodAPIKey}
	bob   = &protocol.Principal{ID: "bob", Space: "two"}
)

func ask(t *testing.T, trail *Trail, who *protocol.Principal, p QueryParams) QueryResult {
	t.Helper()
	if p.Limit == 0 {
		p.Limit = 100
	}
	r, err := NewService(trail, nil).Query(t.Context(), &commands.Call{Principal: who}, p)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// names lists which entries were found, by what they are of.
func names(r QueryResult) string {
	var all []string
	for _, e := range r.Entries {
		all = append(all, e.Event+"/"+e.Principal)
	}
	return strings.Join(all, " ")
}

func TestQueriesChoose(t *testing.T) {
	trail := openTrail(t, &memoryLog{})
	defer shut(t, trail)
	at := func(minute int) time.Time { return time.Date(2026, 1, 1, 0, minute, 0, 0, time.UTC) }
	for i, e := range []Entry{
		Entry{Event: "skill.invoke", Code: OK, Resource: "skill/a"}.By(alice),
		Entry{Event: "skill.register", Code: "2003", Resource: "skill/b", Security: true}.By(bob),
		Entry{Event: "cap.declare", Code: OK, Resource: "cap/a"}.By(alice),
		Entry{Event: "cap.remove", Code: "3001", Resource: "cap/b"}.By(bob),
	} {
		e.Time = at(i)
		trail.Record(t.Context(), e)
		if err := trail.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	one := uint64(3)
	for name, c := range map[string]struct {
		who  *protocol.Principal
		p    QueryParams
		want string
	}{
		"by principal":      {admin, QueryParams{Principal: "alice"}, "cap.declare/alice skill.invoke/alice"},
		"by event":          {admin, QueryParams{Event: "cap.remove"}, "cap.remove/bob"},
		"by events":         {admin, QueryParams{Event: "skill.*"}, "skill.register/bob skill.invoke/alice"},
		"by code":           {admin, QueryParams{Code: "2003"}, "skill.register/bob"},
		"failures":          {admin, QueryParams{Code: "failed"}, "cap.remove/bob skill.register/bob"},
		"by resource":       {admin, QueryParams{Resource: "cap/*"}, "cap.remove/bob cap.declare/alice"},
		"security":          {admin, QueryParams{Security: true}, "skill.register/bob"},
		"since":             {admin, QueryParams{Since: at(2), Until: at(4)}, "cap.remove/bob cap.declare/alice"},
		"until":             {admin, QueryParams{Until: at(2)}, "skill.register/bob skill.invoke/alice"},
		"after":             {admin, QueryParams{After: &one, Until: at(9)}, "cap.declare/alice cap.remove/bob"},
		"the space's own":   {alice, QueryParams{}, "cap.declare/alice skill.invoke/alice"},
		"nothing of others": {alice, QueryParams{Principal: "bob"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := names(ask(t, trail, c.who, c.p)); got != c.want {
				t.Errorf("found %q, want %q", got, c.want)
			}
		})
	}
}

func TestPagesAreCompleteInBothDirections(t *testing.T) {
	trail := openTrail(t, &memoryLog{})
	defer shut(t, trail)
	for i := range 57 {
		trail.Record(t.Context(), Entry{Event: fmt.Sprintf("n.x%d", i), Code: OK})
		if i%10 == 0 {
			if err := trail.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	zero := uint64(0)
	for _, after := range []*uint64{nil, &zero} {
		var seen []uint64
		for p := (QueryParams{Limit: 7, After: after}); ; {
			r := ask(t, trail, admin, p)
			for _, e := range r.Entries {
				seen = append(seen, e.Seq)
			}
			if p.Cursor = r.Next; p.Cursor == "" {
				break
			}
		}
		slices.Sort(seen)
		if len(seen) != 58 || seen[0] != 1 || seen[57] != 58 || len(slices.Compact(seen)) != 58 {
			t.Errorf("saw %v", seen)
		}
	}
	for _, cursor := range []string{"x", "1", "1.2.3", "-1.2", "YgA", "Yg==", "Z"} {
		if _, err := NewService(trail, nil).Query(t.Context(), &commands.Call{Principal: admin}, QueryParams{Limit: 1, Cursor: cursor}); protocol.CodeOf(err) != protocol.InvalidParameter {
			t.Errorf("cursor %q: %v", cursor, err)
		}
	}
}

func TestACallIsRecordedWithoutItsSecrets(t *testing.T) {
	log := &memoryLog{}
	trail := openTrail(t, log)
	call := commands.Audited{
		At: time.Now(), Principal: alice, SenderID: "carol", RequestID: "r", TraceID: "t", Door: "mqtt", Address: netip.MustParseAddr("192.0.2.9"),
		Command: "skill.invoke", Action: "skill:invoke", Effect: commands.Act, Resource: commands.Resource{Type: "skill", ID: "lamp"},
		Params: []byte(`{"skill_id":"lamp","pin":"1234"}`), Loggable: []string{"skill_id"}, Executed: true,
		Err: protocol.Errorf(protocol.TargetUnavailable, "the lamp said 1234"),
	}
	trail.Audit(call)
	call.Err, call.Executed = protocol.InvalidParam("pin", "1234 is too short"), false
	trail.Audit(call)
	call.Err = protocol.Errorf(protocol.PermissionDenied, "not on Sundays")
	trail.Audit(call)
	call.Params, call.Principal = []byte(`{"skill_id":"lamp","pin":"1235"}`), bob // of alice it would be a repeat
	trail.Audit(call)
	shut(t, trail)
	for _, g := range log.groups {
		if strings.Contains(string(g), "1234") {
			t.Fatalf("the trail has the secret: %s", g)
		}
	}
	all := entries(t, log)[1:5]
	e := all[0]
	if e.Principal != "alice" || e.ActsFor != "carol" || e.Credential != "k1" || e.Space != "one" || e.Resource != "skill/lamp" ||
		string(e.Params) != `{"skill_id":"lamp"}` || len(e.Digest) != 32 || e.Code != "4006" || e.Reason != "target unavailable" ||
		e.Address != call.Address || e.TraceID != "t" || e.RequestID != "r" || e.Door != "mqtt" || e.Action != "skill:invoke" {
		t.Errorf("recorded %+v", e)
	}
	for i, want := range []string{"target unavailable", "invalid parameter: pin", "not on Sundays"} {
		if got := all[i].Reason; got != want {
			t.Errorf("reason %q, want %q", got, want)
		}
	}
	if all[0].Digest != all[1].Digest || all[2].Digest == all[3].Digest {
		t.Error("digests do not tell parameters apart")
	}
	if !all[2].Security || all[0].Security {
		t.Error("a refusal is not one of security")
	}
}

func TestLevelsSayWhatIsRecorded(t *testing.T) {
	for _, c := range []struct {
		level  Level
		effect commands.Effect
		code   protocol.Code
		want   bool
	}{
		{Changes, commands.Read, "", false}, {Changes, commands.Read, "2003", true}, {Changes, commands.Read, "3001", false},
		{Changes, commands.Write, "", true}, {Changes, commands.Act, "4007", true}, {Changes, commands.Act, "4008", false},
		{All, commands.Read, "", true}, {Off, commands.Act, "", false},
	} {
		trail := &Trail{o: Options{Level: c.level}}
		if got := trail.Wants(c.effect, c.code); got != c.want {
			t.Errorf("%s %v %s: %v", c.level, c.effect, c.code, got)
		}
	}
}

func TestOperatorsAreToldOfSecurityAtABoundedRate(t *testing.T) {
	var told []Entry
	c := crier{publish: func(e Entry) { told = append(told, e) }}
	now := time.Now()
	for range 200 {
		c.tell(Entry{Event: LoginFailed}, now)
	}
	if len(told) != tellBurst {
		t.Errorf("told %d times", len(told))
	}
	c.tell(Entry{Event: "x.y"}, now.Add(time.Second))
	if got := told[len(told)-1]; got.Event != "x.y" || got.Details["suppressed"] != "150" {
		t.Errorf("told %+v", got)
	}
}
