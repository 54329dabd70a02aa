package security

import (
	"testing"
	"time"

	"github.com/aibridge/aibridge/internal/records/recordstest"
	"github.com/aibridge/aibridge/protocol"
)

func TestRevokedTokensAreListedToThoseOfTheirSpace(t *testing.T) {
	table := recordstest.New[Revocation]()
	s := NewTokenService(TokenOptions{Revocations: table, LongestLife: time.Hour})
	anna := &protocol.Principal{ID: "anna", Space: "lab", Roles: []string{protocol.RoleOperator}}
	for _, p := range []TokenRevokeParams{{Principal: "alice"}, {Principal: "bob"}, {Token: "lost"}} {
		if _, err := s.Revoke(t.Context(), by(anna), p); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Revoke(t.Context(), by(admin), TokenRevokeParams{Token: "everywhere"}); err != nil {
		t.Fatal(err)
	}
	list := func(who *protocol.Principal, p TokenListParams) TokenListResult {
		t.Helper()
		got, err := s.List(t.Context(), by(who), p)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	page := list(anna, TokenListParams{Limit: 2})
	if len(page.Revoked) != 2 || page.Total != 3 || page.NextCursor == "" {
		t.Fatalf("%+v", page)
	}
	if rest := list(anna, TokenListParams{Limit: 2, Cursor: page.NextCursor}); len(rest.Revoked) != 1 || rest.NextCursor != "" {
		t.Errorf("the second page: %+v", rest)
	}
	if of := list(anna, TokenListParams{Principal: "bob"}); of.Total != 1 || of.Revoked[0].Principal != "bob" {
		t.Errorf("of bob: %+v", of)
	}
	if all := list(admin, TokenListParams{Space: "lab"}); all.Total != 4 {
		t.Errorf("an administrator, of the lab: %+v", all)
	}
	if own := list(admin, TokenListParams{}); own.Total != 1 {
		t.Errorf("an administrator, of its own space: %+v", own)
	}
	if _, err := s.List(t.Context(), by(anna), TokenListParams{Space: "other"}); protocol.CodeOf(err) != protocol.NotFound {
		t.Errorf("another space: %v", err)
	}
}
