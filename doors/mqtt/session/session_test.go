package session

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/internal/leaks"
	"github.com/aibridge/aibridge/protocol"
)

func TestMain(m *testing.M) { leaks.Verify(m) }

// A fake broker has sessions and notes who was kicked.
type fake struct {
	sessions []Info
	kicked   []string
}

func (f *fake) StartTrace(protocol.SpaceID, string, time.Time) (found, room bool) {
	return false, false
}

func (f *fake) Trace(protocol.SpaceID, string, uint64, int) (Trace, bool) { return Trace{}, false }

func (f *fake) StopTrace(protocol.SpaceID, string) bool { return false }

func (f *fake) Sessions() iter.Seq[Info] { return slices.Values(f.sessions) }

func (f *fake) Session(space protocol.SpaceID, clientID string) (Info, bool) {
	for _, i := range f.sessions {
		if i.ClientID == clientID && i.space() == space {
			return i, true
		}
	}
	return Info{}, false
}

func (f *fake) Kick(space protocol.SpaceID, clientID string, forget bool) bool {
	i := slices.IndexFunc(f.sessions, func(i Info) bool { return i.ClientID == clientID && i.space() == space })
	if i < 0 {
		return false
	}
	f.kicked = append(f.kicked, fmt.Sprint(clientID, " ", forget))
	f.sessions[i].Connected = false
	if forget {
		f.sessions = slices.Delete(f.sessions, i, i+1)
	}
	return true
}

var (
	root  = &protocol.Principal{ID: "root", Roles: []string{protocol.RoleAdministrator}}
	dev   = &protocol.Principal{ID: "dev", Space: protocol.DefaultSpace, Roles: []string{protocol.RoleAnonymous}}
	carol = &protocol.Principal{ID: "carol", Space: "lab"}

	ends = time.UnixMilli(1795254498313)
)

func house() *fake {
	return &fake{sessions: []Info{
		{ClientID: "lamp", Principal: "alice", Space: protocol.DefaultSpace, Connected: true, Remote: "127.0.0.1:5000",
			Listener: "mqtt", Version: 5, Subscriptions: 1, Filters: []Filter{{Filter: "lamp/#", QoS: 1}}, Inflight: 2, Queued: 3, QueuedBytes: 30, Outbox: 7, Will: "lamp/gone", Late: ends.Add(-time.Minute)},
		{ClientID: "away", Principal: "alice", Version: 4, Dropped: 5, Expiry: time.Hour, Expires: ends},
		{ClientID: "lab/1", Principal: "carol", Space: "lab", Connected: true, Version: 3, Expiry: time.Hour},
		{ClientID: "door", Principal: "bob", Space: protocol.DefaultSpace, Connected: true, Version: 5, Expiry: (1<<32 - 1) * time.Second, Late: ends.Add(-time.Hour)},
	}}
}

func call(who *protocol.Principal) *commands.Call { return &commands.Call{Principal: who} }

func ids(views []View) string {
	var all []string
	for _, v := range views {
		all = append(all, v.ClientID)
	}
	return strings.Join(all, " ")
}

func TestSessionsAreListedBySpaceStateAndOwner(t *testing.T) {
	t.Parallel()
	s := New(house(), "", nil)
	for name, test := range map[string]struct {
		who    *protocol.Principal
		params ListParams
		want   string
		total  int
	}{
		"all of the own space":          {root, ListParams{}, "away door lamp", 3},
		"another space, as root":        {root, ListParams{Space: "lab"}, "lab/1", 1},
		"another space, under --dev":    {dev, ListParams{Space: "lab"}, "lab/1", 1},
		"a space that nobody is in":     {root, ListParams{Space: "moon"}, "", 0},
		"the own space, as its member":  {carol, ListParams{}, "lab/1", 1},
		"the own space by name":         {carol, ListParams{Space: "lab"}, "lab/1", 1},
		"those with a client":           {root, ListParams{State: Connected}, "door lamp", 2},
		"those without":                 {root, ListParams{State: Kept}, "away", 1},
		"those of one owner":            {root, ListParams{Principal: "alice"}, "away lamp", 2},
		"those with a text":             {root, ListParams{Find: "LAM"}, "lamp", 1},
		"backwards":                     {root, ListParams{Sort: "-id"}, "lamp door away", 3},
		"who is late for longest first": {root, ListParams{Sort: "-late"}, "door lamp away", 3},
		"who keeps up first":            {root, ListParams{Sort: "late"}, "away lamp door", 3},
		"who missed most first":         {root, ListParams{Sort: "-dropped"}, "away lamp door", 3},
		"the first page":                {root, ListParams{Limit: 2}, "away door", 3},
		"the last page":                 {root, ListParams{Limit: 2, Cursor: "door"}, "lamp", 3},
		"beyond the last page":          {root, ListParams{Cursor: "zebra"}, "", 3},
		"from an id that is gone since": {root, ListParams{Cursor: "cat"}, "door lamp", 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := s.List(t.Context(), call(test.who), test.params)
			if err != nil {
				t.Fatal(err)
			}
			if ids(got.Sessions) != test.want || got.Total != test.total {
				t.Errorf("%q of %d, want %q of %d", ids(got.Sessions), got.Total, test.want, test.total)
			}
			if more := name == "the first page"; (got.NextCursor != "") != more || more && got.NextCursor != "door" {
				t.Errorf("next_cursor = %q", got.NextCursor)
			}
		})
	}
}

func TestOtherSpacesDoNotExist(t *testing.T) {
	t.Parallel()
	broker := house()
	s := New(broker, "", nil)
	_, listed := s.List(t.Context(), call(carol), ListParams{Space: protocol.DefaultSpace})
	_, shown := s.Get(t.Context(), call(carol), Params{ClientID: "lamp"})
	_, named := s.Get(t.Context(), call(carol), Params{ClientID: "lamp", Space: protocol.DefaultSpace})
	_, kicked := s.Kick(t.Context(), call(carol), KickParams{Params: Params{ClientID: "lamp"}})
	_, elsewhere := s.Get(t.Context(), call(root), Params{ClientID: "lab/1"})
	_, nobody := s.Kick(t.Context(), call(root), KickParams{Params: Params{ClientID: "nobody"}})
	for i, err := range []error{listed, shown, named, kicked, elsewhere, nobody} {
		if protocol.CodeOf(err) != protocol.NotFound {
			t.Errorf("%d: error = %v, want 3001", i, err)
		}
	}
	if len(broker.kicked) != 0 {
		t.Errorf("kicked %v", broker.kicked)
	}
}

func TestASessionIsShown(t *testing.T) {
	t.Parallel()
	s := New(house(), "", nil)
	for id, want := range map[string]GetResult{
		"lamp": {
			View: View{ClientID: "lamp", Principal: "alice", Space: "default", State: Connected, Protocol: "5.0", Listener: "mqtt",
				Remote: "127.0.0.1:5000", Subscriptions: 1, Inflight: 2, Queued: 3, LateSince: ends.Add(-time.Minute).UnixMilli()},
			QueuedBytes: 30, Outbox: 7, Will: "lamp/gone", Filters: []Filter{{Filter: "lamp/#", QoS: 1}},
		},
		"away": {
			View:   View{ClientID: "away", Principal: "alice", Space: "default", State: Kept, Protocol: "3.1.1", ExpiresAt: ends.UnixMilli(), Dropped: 5},
			Expiry: 3600, Filters: []Filter{},
		},
		"door": {
			View:   View{ClientID: "door", Principal: "bob", Space: "default", State: Connected, Protocol: "5.0", LateSince: ends.Add(-time.Hour).UnixMilli()},
			Expiry: forever, Filters: []Filter{},
		},
	} {
		got, err := s.Get(t.Context(), call(root), Params{ClientID: id})
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, %v, want %+v", id, got, err, want)
		}
	}
}

func TestManySubscriptionsAreCutShort(t *testing.T) {
	t.Parallel()
	broker := house()
	for i := range 1000 {
		broker.sessions[0].Filters = append(broker.sessions[0].Filters, Filter{Filter: fmt.Sprint(i)})
	}
	broker.sessions[0].Subscriptions = 1001
	got, err := New(broker, "", nil).Get(t.Context(), call(root), Params{ClientID: "lamp"})
	if err != nil || len(got.Filters) != mostFilters || got.Subscriptions != 1001 {
		t.Errorf("%d of %d subscriptions, %v", len(got.Filters), got.Subscriptions, err)
	}
}

func TestKickSaysWhatWasDone(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		id     string
		space  protocol.SpaceID
		forget bool
		want   KickResult
	}{
		{"lamp", "", false, KickResult{"lamp", true, true}}, // ends with its connection
		{"door", "", false, KickResult{"door", true, false}},
		{"door", "", true, KickResult{"door", true, true}},
		{"away", "", false, KickResult{"away", false, false}},
		{"away", "", true, KickResult{"away", false, true}},
		{"lab/1", "lab", false, KickResult{"lab/1", true, false}},
	} {
		broker := house()
		got, err := New(broker, "", nil).Kick(t.Context(), call(root), KickParams{Params{test.id, test.space}, test.forget})
		if err != nil || got != test.want {
			t.Errorf("%s: %+v, %v, want %+v", test.id, got, err, test.want)
		}
		if want := fmt.Sprint(test.id, " ", test.forget); len(broker.kicked) != 1 || broker.kicked[0] != want {
			t.Errorf("kicked %v, want %s", broker.kicked, want)
		}
	}
}

// administrators allows its principal what it decided on.
type administrators struct{ asked []string }

func (a *administrators) Authorize(_ context.Context, who *protocol.Principal, action string, on commands.Resource) error {
	a.asked = append(a.asked, fmt.Sprintf("%s %s/%s/%s", action, on.Type, on.Space, on.ID))
	if who.Administrator() {
		return nil
	}
	return protocol.Errorf(protocol.PermissionDenied, "no")
}

func (*administrators) ActFor(context.Context, *protocol.Principal, string) error { return nil }

func TestCommandsRunBehindTheRouterForAdministratorsAlone(t *testing.T) {
	t.Parallel()
	broker := house()
	set, err := commands.NewSet(New(broker, "", nil).Commands()...)
	if err != nil {
		t.Fatal(err)
	}
	gate := new(administrators)
	router := commands.NewRouter(set, commands.RouterOptions{Authorizer: gate})
	t.Cleanup(func() { _ = router.Close(context.Background()) })
	run := func(who *protocol.Principal, id, command, params string) *protocol.Response {
		body := fmt.Sprintf(`{"version":"0.6.3","id":%q,"timestamp":%d,"type":"request","command":%q,"params":%s}`,
			id, time.Now().UnixMilli(), command, params)
		return router.Handle(t.Context(), commands.Inbound{Principal: who, Body: []byte(body)})
	}
	asked := []string{
		"session:list session/lab/", "session:get session//lamp", "session:kick session//lamp",
	}
	for i, line := range []string{
		`session.list {"space_id":"lab","state":"connected"}`,
		`session.get {"client_id":"lamp"}`,
		`session.kick {"client_id":"lamp","forget":true}`,
	} {
		command, params, _ := strings.Cut(line, " ")
		if r := run(carol, fmt.Sprint("carol", i), command, params); protocol.CodeOf(r.Err) != protocol.PermissionDenied {
			t.Errorf("%s for anyone: %v", command, r.Err)
		}
		r := run(root, fmt.Sprint("root", i), command, params)
		if r.Err != nil || !json.Valid(r.Result) || !strings.Contains(string(r.Result), `"client_id":`) {
			t.Errorf("%s: %s, %v", command, r.Result, r.Err)
		}
		if got := gate.asked; len(got) != 2 || got[1] != asked[i] {
			t.Errorf("%s asked for %q, want %q", command, got, asked[i])
		}
		gate.asked = nil
	}
	if !slices.Equal(broker.kicked, []string{"lamp true"}) {
		t.Errorf("kicked %v", broker.kicked)
	}
	if r := run(root, "none", "session.get", `{"client_id":""}`); protocol.CodeOf(r.Err) != protocol.InvalidParameter {
		t.Errorf("an empty id: %v", r.Err)
	}
}

func TestTheZeroServiceDeclaresItsCommands(t *testing.T) {
	t.Parallel()
	if _, err := commands.NewSet(new(Service).Commands()...); err != nil {
		t.Error(err)
	}
}
