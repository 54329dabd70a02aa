package security

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/internal/records/recordstest"
	"github.com/aibridge/aibridge/protocol"
)

// keyHouse is a key service on a clock of its own.
type keyHouse struct {
	*KeyService
	keys   *recordstest.Memory[Key]
	uses   *recordstest.Memory[KeyUse]
	clock  time.Time
	events []KeyEvent
}

func newKeyHouse(t *testing.T) *keyHouse {
	t.Helper()
	h := &keyHouse{keys: recordstest.New[Key](), uses: recordstest.New[KeyUse](), clock: time.Now()}
	ring := openRing(t, t.TempDir(), h.keys)
	ring.now = func() time.Time { return h.clock }
	h.KeyService = NewKeyService(KeyOptions{Ring: ring, Index: IndexKeys(ring.keys), Uses: h.uses, BridgeID: "aibridge",
		Changed: func(_ context.Context, e KeyEvent) { h.events = append(h.events, e) }})
	return h
}

func by(who *protocol.Principal) *commands.Call { return &commands.Call{Principal: who} }

func (h *keyHouse) make(t *testing.T, p KeyCreateParams) KeyCreateResult {
	t.Helper()
	made, err := h.Create(t.Context(), by(admin), p)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func TestAKeyOpensWhatItWasMadeFor(t *testing.T) {
	h := newKeyHouse(t)
	made := h.make(t, KeyCreateParams{Principal: "lamp-1", Name: "the lamp", Roles: []string{protocol.RoleEndAgent},
		Scopes: []string{"skill:*"}, Space: "lab", ExpiresIn: 60})
	who, ok := h.Ring.Recognise(made.Secret)
	if !ok || who.ID != "lamp-1" || who.Kind != protocol.KindAgent || who.Space != "lab" || !slices.Equal(who.Roles, []string{protocol.RoleEndAgent}) ||
		!slices.Equal(who.Scopes, []string{"skill:*"}) || who.Credential != made.ID || who.Method != protocol.MethodAPIKey || !who.Expires.Equal(h.clock.Add(time.Minute)) {
		t.Errorf("recognised %+v, %v", who, ok)
	}
	if len(h.events) != 1 || h.events[0].Revoked || h.events[0].Key.CreatedBy != admin.ID {
		t.Errorf("told %+v", h.events)
	}
	for _, key := range h.keys.All() {
		if strings.Contains(made.Secret, string(key.MAC)) {
			t.Error("the secret is kept")
		}
	}
	h.clock = h.clock.Add(time.Minute)
	if _, ok := h.Ring.Recognise(made.Secret); ok {
		t.Error("an expired key opens")
	}
}

func TestKeysAreListedWithoutTheirSecrets(t *testing.T) {
	h := newKeyHouse(t)
	for range 3 {
		h.make(t, KeyCreateParams{Principal: "lamp-1"})
	}
	h.make(t, KeyCreateParams{Principal: "other", Kind: protocol.KindOperator, Space: "lab"})
	page, err := h.List(t.Context(), by(admin), KeyListParams{Limit: 2})
	if err != nil || len(page.Keys) != 2 || page.Total != 3 || page.NextCursor == "" {
		t.Fatalf("%+v, %v", page, err)
	}
	rest, err := h.List(t.Context(), by(admin), KeyListParams{Limit: 2, Cursor: page.NextCursor})
	if err != nil || len(rest.Keys) != 1 || rest.NextCursor != "" || rest.Keys[0].ID <= page.Keys[1].ID {
		t.Errorf("%+v, %v", rest, err)
	}
	lab, err := h.List(t.Context(), by(admin), KeyListParams{Space: "lab"})
	if err != nil || len(lab.Keys) != 1 || !slices.Equal(lab.Keys[0].Roles, []string{protocol.RoleObserver}) {
		t.Errorf("%+v, %v", lab, err)
	}
	operator := &protocol.Principal{ID: "anna", Roles: []string{protocol.RoleOperator}}
	if _, err := h.List(t.Context(), by(operator), KeyListParams{Space: "lab"}); protocol.CodeOf(err) != protocol.NotFound {
		t.Errorf("another space: %v", err)
	}
	if none, err := h.List(t.Context(), by(admin), KeyListParams{State: KeyRevoked}); err != nil || none.Total != 0 {
		t.Errorf("%+v, %v", none, err)
	}
}

func TestNobodyGivesWhatItDoesNotHave(t *testing.T) {
	operator := &protocol.Principal{ID: "anna", Roles: []string{protocol.RoleOperator}}
	limited := &protocol.Principal{ID: "ci", Roles: []string{protocol.RoleAdministrator}, Scopes: []string{"key:create", "skill:*"}}
	for name, test := range map[string]struct {
		who  *protocol.Principal
		p    KeyCreateParams
		want protocol.Code
	}{
		"a role of its own":                   {operator, KeyCreateParams{Principal: "x", Roles: []string{protocol.RoleOperator}}, ""},
		"a role that its own includes":        {operator, KeyCreateParams{Principal: "x"}, ""},
		"a role above":                        {operator, KeyCreateParams{Principal: "x", Roles: []string{protocol.RoleAdministrator}}, protocol.PermissionDenied},
		"a role besides":                      {operator, KeyCreateParams{Principal: "x", Roles: []string{protocol.RoleRouteAgent}}, protocol.PermissionDenied},
		"another space":                       {operator, KeyCreateParams{Principal: "x", Space: "lab"}, protocol.NotFound},
		"the administrator's name":            {operator, KeyCreateParams{Principal: "administrator"}, protocol.PermissionDenied},
		"the bridge's name":                   {admin, KeyCreateParams{Principal: "aibridge"}, protocol.InvalidParameter},
		"nobody's name":                       {admin, KeyCreateParams{Principal: "anonymous"}, protocol.InvalidParameter},
		"the role of --dev":                   {admin, KeyCreateParams{Principal: "x", Roles: []string{protocol.RoleAnonymous}}, protocol.InvalidParameter},
		"an administrator any role":           {admin, KeyCreateParams{Principal: "x", Roles: []string{"painter", protocol.RoleAdministrator}}, ""},
		"scopes within its own":               {limited, KeyCreateParams{Principal: "x", Scopes: []string{"skill:invoke", "skill:*"}}, ""},
		"no scopes, having some":              {limited, KeyCreateParams{Principal: "x"}, protocol.PermissionDenied},
		"scopes beyond its own":               {limited, KeyCreateParams{Principal: "x", Scopes: []string{"skill:invoke", "*"}}, protocol.PermissionDenied},
		"scopes of a family that begins same": {limited, KeyCreateParams{Principal: "x", Scopes: []string{"skills:invoke"}}, protocol.PermissionDenied},
		"what is no scope":                    {admin, KeyCreateParams{Principal: "x", Scopes: []string{"skill"}}, protocol.InvalidParameter},
	} {
		if _, err := newKeyHouse(t).Create(t.Context(), by(test.who), test.p); protocol.CodeOf(err) != test.want {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestARevokedKeyOpensNothingAndStaysRevoked(t *testing.T) {
	h := newKeyHouse(t)
	made := h.make(t, KeyCreateParams{Principal: "lamp-1"})
	for range 2 { // once is as good as twice
		got, err := h.Revoke(t.Context(), by(admin), KeyRevokeParams{ID: made.ID, Reason: "lost"})
		if err != nil || got.State != KeyRevoked || got.RevokedAt == 0 || got.Reason != "lost" {
			t.Fatalf("%+v, %v", got, err)
		}
	}
	if _, ok := h.Ring.Recognise(made.Secret); ok {
		t.Error("a revoked key opens")
	}
	if len(h.events) != 2 || !h.events[1].Revoked {
		t.Errorf("told %+v", h.events)
	}
	for name, p := range map[string]KeyRevokeParams{"unknown": {ID: "0"}, "another space": {ID: made.ID, Space: "lab"}} {
		if _, err := h.Revoke(t.Context(), by(admin), p); protocol.CodeOf(err) != protocol.NotFound {
			t.Errorf("%s: %v", name, err)
		}
	}
	top := h.make(t, KeyCreateParams{Principal: "root", Roles: []string{protocol.RoleAdministrator}})
	operator := &protocol.Principal{ID: "anna", Roles: []string{protocol.RoleOperator}}
	if _, err := h.Revoke(t.Context(), by(operator), KeyRevokeParams{ID: top.ID}); protocol.CodeOf(err) != protocol.PermissionDenied {
		t.Errorf("an operator revokes an administrator's key: %v", err)
	}
	h.clock = h.clock.Add(keepRevoked + time.Hour)
	h.forget(t.Context())
	if _, _, ok := h.keys.Get(made.ID); ok || h.keys.Len() != 1 {
		t.Errorf("%d keys are kept", h.keys.Len())
	}
}

// TestAKeyThatIsChangedMeanwhileIsRevoked has another bridge change the key
// between the reading and the writing.
func TestAKeyThatIsChangedMeanwhileIsRevoked(t *testing.T) {
	h := newKeyHouse(t)
	made := h.make(t, KeyCreateParams{Principal: "lamp-1"})
	h.keys.Before(func(id string) {
		key, _, _ := h.keys.Get(id)
		other := *key
		other.Name = "changed"
		if _, err := h.keys.Put(t.Context(), id, &other); err != nil {
			t.Error(err)
		}
	})
	got, err := h.Revoke(t.Context(), by(admin), KeyRevokeParams{ID: made.ID})
	if err != nil || got.State != KeyRevoked || got.Name != "changed" {
		t.Errorf("%+v, %v", got, err)
	}
	if len(h.events) != 2 || h.events[1].Key.Name != "changed" {
		t.Errorf("told %+v", h.events)
	}
}

func TestARevokedAdministratorsKeyIsNotBroughtBackByAStart(t *testing.T) {
	h, dir := newKeyHouse(t), t.TempDir()
	if _, err := h.Ring.EnsureAdministrator(t.Context(), dir, h.clock); err != nil {
		t.Fatal(err)
	}
	before := adminKey(t, dir)
	id, _, _ := parseKey(before)
	if _, err := h.Revoke(t.Context(), by(admin), KeyRevokeParams{ID: id}); err != nil {
		t.Fatal(err)
	}
	if made, err := h.Ring.EnsureAdministrator(t.Context(), dir, h.clock); err != nil || !made {
		t.Fatalf("made %v, %v", made, err)
	}
	if _, ok := h.Ring.Recognise(before); ok {
		t.Error("the revoked key opens")
	}
	if _, ok := h.Ring.Recognise(adminKey(t, dir)); !ok || adminKey(t, dir) == before {
		t.Error("there is no new key in the file")
	}
}

func TestLastUseIsKeptCoarsely(t *testing.T) {
	h := newKeyHouse(t)
	made := h.make(t, KeyCreateParams{Principal: "lamp-1"})
	lastUse := func() int64 {
		list, err := h.List(t.Context(), by(admin), KeyListParams{})
		if err != nil {
			t.Fatal(err)
		}
		return list.Keys[0].LastUseAt
	}
	if lastUse() != 0 {
		t.Error("used before it was shown")
	}
	h.Ring.Recognise(made.Secret)
	first := lastUse()
	if first == 0 {
		t.Error("not used")
	}
	h.storeUses(t.Context(), useGrain)
	use := func() *KeyUse { u, _, _ := h.uses.Get(made.ID); return u }
	stored := use()
	h.clock = h.clock.Add(useGrain / 2)
	h.Ring.Recognise(made.Secret)
	h.storeUses(t.Context(), useGrain)
	if use() != stored || lastUse() <= first {
		t.Error("stored again within the hour, or not noted")
	}
	h.storeUses(t.Context(), 0) // at the end
	if use() == stored {
		t.Error("not stored at the end")
	}
	h.used.Clear() // a restart
	if lastUse() <= first {
		t.Error("forgotten by a restart")
	}
}

func TestScopesLimitWhatACredentialIsFor(t *testing.T) {
	for _, test := range []struct {
		scopes []string
		action string
		want   bool
	}{
		{nil, "skill:invoke", true},
		{[]string{"skill:invoke"}, "skill:invoke", true},
		{[]string{"skill:invoke"}, "skill:register", false},
		{[]string{"skill:*"}, "skill:register", true},
		{[]string{"skill:*"}, "skill:", false},
		{[]string{"skill:*"}, "skills:register", false},
		{[]string{"skill:*"}, "skill", false},
		{[]string{"*"}, "anything:at-all", true},
		{[]string{"none:none"}, "skill:invoke", false},
		{[]string{"a:b", "skill:invoke"}, "skill:invoke", true},
		{[]string{""}, "", true},
		{[]string{"*:invoke"}, "skill:invoke", false},
	} {
		if got := ScopeAllows(&protocol.Principal{Scopes: test.scopes}, test.action); got != test.want {
			t.Errorf("%q allow %s: %v", test.scopes, test.action, got)
		}
	}
}

func TestAKeyThatIsLimitedInModelsMakesNoOther(t *testing.T) {
	h := newKeyHouse(t)
	limit := &protocol.Allowance{Models: []string{"fast"}, PerMinute: 5}
	made := h.make(t, KeyCreateParams{Principal: "shop", Kind: protocol.KindOperator, Roles: []string{protocol.RoleAdministrator}, LLM: limit})
	if got := h.Ring.Allowance(made.ID); got == nil || !slices.Equal(got.Models, limit.Models) || got.PerMinute != 5 || h.Ring.Allowance("none") != nil {
		t.Errorf("it is allowed %+v", got)
	}
	who, ok := h.Ring.Recognise(made.Secret)
	if !ok {
		t.Fatal("the key opens nothing")
	}
	_, err := h.Create(t.Context(), by(who), KeyCreateParams{Principal: "shop-2", Kind: protocol.KindOperator})
	if e := protocol.AsError(err); e == nil || e.Code != protocol.PermissionDenied || e.Details["param_name"] != "llm" {
		t.Errorf("it makes another key: %v", err)
	}
	list, err := h.List(t.Context(), by(admin), KeyListParams{})
	if err != nil || len(list.Keys) != 1 || list.Keys[0].LLM == nil || list.Keys[0].LLM.PerMinute != 5 {
		t.Errorf("listed %+v, %v", list.Keys, err)
	}
}
