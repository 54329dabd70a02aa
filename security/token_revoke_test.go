package security

import (
	"strconv"
	"testing"
	"time"

	"github.com/aibridge/aibridge/internal/bubble"
	"github.com/aibridge/aibridge/internal/clock"
	"github.com/aibridge/aibridge/internal/records"
	"github.com/aibridge/aibridge/internal/records/recordstest"
	"github.com/aibridge/aibridge/protocol"
)

func putRevocation(t *testing.T, table records.Table[Revocation], r *Revocation) {
	t.Helper()
	if _, err := table.Put(t.Context(), r.key(), r); err != nil {
		t.Error(err)
	}
}

// TestARevocationIsNeverUndoneByAnother revokes what somebody else, perhaps at
// another bridge, revokes up to a later time in the same moment.
func TestARevocationIsNeverUndoneByAnother(t *testing.T) {
	now := time.Now().UTC().Truncate(time.Millisecond)
	for name, known := range map[string]bool{"the first": false, "one more": true} {
		table := recordstest.New[Revocation]()
		s := NewTokenService(TokenOptions{Revocations: table, LongestLife: time.Hour, Now: func() time.Time { return now }})
		if known {
			if _, err := s.Revoke(t.Context(), by(admin), TokenRevokeParams{Principal: "alice", Before: now.Add(-time.Hour).UnixMilli()}); err != nil {
				t.Fatal(err)
			}
		}
		other := &Revocation{Principal: "alice", Space: admin.Home(), Before: now, Until: now.Add(time.Hour)}
		table.Before(func(string) { putRevocation(t, table, other) })
		view, err := s.Revoke(t.Context(), by(admin), TokenRevokeParams{Principal: "alice", Before: now.Add(-time.Minute).UnixMilli()})
		if err != nil || view.Before != now.UnixMilli() {
			t.Errorf("%s: revoked up to %d, want %d; %v", name, view.Before, now.UnixMilli(), err)
		}
		who := &protocol.Principal{ID: "alice", Method: protocol.MethodToken, Issued: now.Add(-time.Second)}
		if !s.Revoked(who) {
			t.Errorf("%s: a token that was revoked lets somebody in again", name)
		}
	}
}

func TestNobodyTakesTheRoomForTheRevocationsOfOthers(t *testing.T) {
	table := recordstest.New[Revocation]()
	for i := range maxRevocations {
		r := &Revocation{Token: strconv.Itoa(i), Space: "lab", Until: time.Now().Add(time.Hour)}
		putRevocation(t, table, r)
	}
	s := NewTokenService(TokenOptions{Revocations: table, LongestLife: time.Hour})
	tenant := &protocol.Principal{ID: "tom", Space: "lab", Roles: []string{protocol.RoleOperator}}
	if _, err := s.Revoke(t.Context(), by(tenant), TokenRevokeParams{Token: "more"}); protocol.CodeOf(err) != protocol.LimitReached {
		t.Errorf("one more of the same space: %v", err)
	}
	if _, err := s.Revoke(t.Context(), by(tenant), TokenRevokeParams{Token: "0"}); err != nil {
		t.Errorf("one that is there: %v", err)
	}
	if _, err := s.Revoke(t.Context(), by(admin), TokenRevokeParams{Token: "lost"}); err != nil {
		t.Fatalf("one of all spaces: %v", err)
	}
	for space, tokens := range map[protocol.SpaceID]map[string]bool{
		"lab":   {"0": true, "lost": true, "more": false},
		"other": {"0": false, "lost": true},
	} {
		for token, want := range tokens {
			who := &protocol.Principal{ID: "x", Space: space, Method: protocol.MethodToken, Credential: token}
			if got := s.Revoked(who); got != want {
				t.Errorf("token %s in space %s is revoked: %t", token, space, got)
			}
		}
	}
}

func TestAClockThatIsBrieflyAheadForgetsNoRevocation(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := clock.New()
		s := NewTokenService(TokenOptions{Revocations: recordstest.New[Revocation](), LongestLife: time.Hour, Now: c.Now, Settled: c.Settled})
		if _, err := s.Revoke(t.Context(), by(admin), TokenRevokeParams{Token: "lost"}); err != nil {
			t.Fatal(err)
		}
		lost := &protocol.Principal{ID: "bob", Space: admin.Home(), Method: protocol.MethodToken, Credential: "lost"}
		forget := func(step time.Duration) {
			c.Step(step)
			s.forget(t.Context())
			s.Note()
		}
		forget(24 * time.Hour)
		forget(-24 * time.Hour)
		if !s.Revoked(lost) {
			t.Error("it was forgotten while the clock was ahead")
		}
		time.Sleep(2 * time.Hour)
		forget(0)
		if s.Revoked(lost) {
			t.Error("it is never forgotten")
		}
	})
}

// TestAnUndatedTokenDoesNotOutliveItsRevocation has a token that was refused
// because it lasted too long come back when less of it is left.
func TestAnUndatedTokenDoesNotOutliveItsRevocation(t *testing.T) {
	for _, undated := range []bool{true, false} {
		now := time.Now()
		table := recordstest.New[Revocation]()
		s := NewTokenService(TokenOptions{Revocations: table, LongestLife: time.Hour, AcceptsUndated: undated, Now: func() time.Time { return now }})
		var views []RevocationView
		for _, p := range []TokenRevokeParams{{Principal: "alice"}, {Token: "lost"}} {
			view, err := s.Revoke(t.Context(), by(admin), p)
			if err != nil {
				t.Fatal(err)
			}
			views = append(views, view)
		}
		now = now.Add(1000 * time.Hour)
		s.forget(t.Context())
		s.Note()
		for _, view := range views {
			if told := view.Until == 0; told != undated {
				t.Errorf("undated tokens %v: forgotten at %d", undated, view.Until)
			}
		}
		for _, who := range []protocol.Principal{{ID: "alice", Credential: "another"}, {ID: "bob", Credential: "lost"}} {
			who.Method, who.Space = protocol.MethodToken, admin.Home()
			if s.Revoked(&who) != undated {
				t.Errorf("undated tokens %v: %s is let in: %v", undated, who.ID, undated)
			}
		}
		dated := &protocol.Principal{ID: "alice", Space: admin.Home(), Method: protocol.MethodToken, Credential: "new", Issued: now}
		if s.Revoked(dated) {
			t.Error("a newer token is refused")
		}
	}
}

// TestARevocationIsOfOneKindOfPrincipal: an agent and a person may have the same
// id, by different issuers.
func TestARevocationIsOfOneKindOfPrincipal(t *testing.T) {
	kinds := []protocol.Kind{protocol.KindOperator, protocol.KindAgent, protocol.KindSkill}
	for _, revoked := range append(kinds, "") {
		s := NewTokenService(TokenOptions{Revocations: recordstest.New[Revocation](), LongestLife: time.Hour})
		for _, again := range []protocol.Kind{revoked, protocol.KindSkill} { // each is kept besides the other
			if _, err := s.Revoke(t.Context(), by(admin), TokenRevokeParams{Principal: "sam", Kind: again}); err != nil {
				t.Fatal(err)
			}
		}
		for _, kind := range kinds {
			who := &protocol.Principal{ID: "sam", Kind: kind, Space: admin.Home(), Method: protocol.MethodToken}
			if got, want := s.Revoked(who), revoked == "" || kind == revoked || kind == protocol.KindSkill; got != want {
				t.Errorf("those of kind %q are revoked: the token of the %s is: %t", revoked, kind, got)
			}
		}
	}
	s := NewTokenService(TokenOptions{Revocations: recordstest.New[Revocation](), LongestLife: time.Hour})
	if _, err := s.Revoke(t.Context(), by(admin), TokenRevokeParams{Token: "lost", Kind: protocol.KindAgent}); protocol.CodeOf(err) != protocol.InvalidParameter {
		t.Errorf("a token of a kind: %v", err)
	}
}
