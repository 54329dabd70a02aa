package verify_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/aibridge/aibridge/internal/app"
	"github.com/aibridge/aibridge/internal/backup"
	"github.com/aibridge/aibridge/internal/bridgetest"
	"github.com/aibridge/aibridge/internal/config"
	"github.com/aibridge/aibridge/internal/leaks"
	"github.com/aibridge/aibridge/internal/storage"
	"github.com/aibridge/aibridge/internal/verify"
	"github.com/aibridge/aibridge/llm/approval"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/security/audit"
)

func TestMain(m *testing.M) { leaks.Verify(m) }

// A saved bridge is its configuration and a backup of its state.
type saved struct {
	config  app.Config
	archive []byte
}

// save runs a bridge, stops it and makes a backup.
func save(t *testing.T, change ...func(*app.Config)) saved {
	t.Helper()
	n := bridgetest.Start(t, append([]func(*app.Config){func(c *app.Config) { c.Dev = false }}, change...)...)
	n.Stop(t)
	var archive bytes.Buffer
	if _, err := storage.Backup(t.Context(), n.Config, &archive, backup.Options{WithoutContents: true}); err != nil {
		t.Fatal(err)
	}
	return saved{n.Config, archive.Bytes()}
}

// verified tries the promises and returns what was found, by promise.
func (s saved) verified(t *testing.T, change ...func(*verify.Options)) map[string]verify.Result {
	t.Helper()
	o := verify.Options{Config: s.config, Archive: bytes.NewReader(s.archive), Original: s.config.Data}
	for _, f := range change {
		f(&o)
	}
	results, err := verify.Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	found := make(map[string]verify.Result)
	for _, r := range results {
		found[r.Promise] = r
	}
	return found
}

// broken lists the promises that are.
func broken(found map[string]verify.Result) (names []string) {
	for name, r := range found {
		if r.State == verify.Broken {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func TestABridgeKeepsItsPromises(t *testing.T) {
	t.Parallel()
	found := save(t).verified(t)
	if len(found) != 10 {
		t.Errorf("%d promises were tried", len(found))
	}
	for name, r := range found {
		if r.State != verify.Kept {
			t.Errorf("%s is %s: %s", name, r.State, r.What)
		}
	}
}

func TestWhatIsNotTriedIsNotKept(t *testing.T) {
	t.Parallel()
	found := save(t, func(c *app.Config) { c.Dev = true }).verified(t, func(o *verify.Options) { o.Original = "" })
	for name, r := range found {
		want := verify.Kept
		switch name {
		case "revoked credential", "rights", "tenant isolation", "state", "audit trail":
			want = verify.NotApplicable
		}
		if r.State != want || r.What == "" {
			t.Errorf("%s is %s: %s", name, r.State, r.What)
		}
	}
}

// TestFaultsAreFound seeds one fault after the other between the checks and the
// bridge, or in what is checked, and wants it to be found, and no other.
func TestFaultsAreFound(t *testing.T) {
	t.Parallel()
	sound := save(t)
	for name, seed := range map[string]func(*verify.Options){
		"replay": faulty(func(r *request) {
			if strings.Contains(string(r.Params), `"capability_id":"act"`) {
				r.ID = protocol.NewID()
			}
		}),
		"duplicate": faulty(func(r *request) {
			r.replace(`"effect_key":"{what}",`, ``)
		}),
		"unknown outcome": faulty(func(r *request) {
			if strings.Contains(string(r.Params), `"vanish"`) {
				r.ID = protocol.NewID()
			}
		}),
		"revoked credential": faulty(func(r *request) {
			if r.Command == "key.revoke" {
				r.Command, r.Params = "key.list", json.RawMessage(`{}`)
			}
		}),
		"tenant isolation": faulty(func(r *request) {
			r.replace(`,"space_id":"verify-elsewhere"`, ``)
		}),
		"mutated approval": faulty(func(r *request) {
			r.replace(`Not as it was approved any more.`, `As it was approved.`)
		}),
		"tampered audit": func(o *verify.Options) {
			o.VerifyAudit = func(context.Context, config.Config, ...string) (audit.Verification, error) {
				return audit.Verification{Report: audit.Report{OK: true}}, nil
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := broken(sound.verified(t, seed)); !slices.Equal(got, []string{name}) {
				t.Errorf("found %q", got)
			}
		})
	}
}

func TestAPolicyThatPermitsEverythingIsFound(t *testing.T) {
	t.Parallel()
	policies := t.TempDir()
	if err := os.WriteFile(filepath.Join(policies, "all.cedar"), []byte(`permit (principal, action, resource);`), 0o600); err != nil {
		t.Fatal(err)
	}
	found := save(t, func(c *app.Config) { c.Security.Policies = policies }).verified(t)
	if got := broken(found); !slices.Contains(got, "rights") {
		t.Errorf("found %q", got)
	}
}

func TestPoliciesThatForbidTheControlsAreNoFault(t *testing.T) {
	t.Parallel()
	policies := t.TempDir()
	if err := os.WriteFile(filepath.Join(policies, "no.cedar"), []byte(`forbid (principal, action == Action::"skill:invoke", resource);`), 0o600); err != nil {
		t.Fatal(err)
	}
	found := save(t, func(c *app.Config) { c.Security.Policies = policies }).verified(t)
	for name, r := range found {
		want := verify.NotApplicable
		switch name {
		case "state", "audit trail", "tampered audit", "revoked credential", "tenant isolation":
			want = verify.Kept
		}
		if r.State != want {
			t.Errorf("%s is %s: %s", name, r.State, r.What)
		}
	}
}

func TestRulesThatWantSeveralPeopleAreNoFault(t *testing.T) {
	t.Parallel()
	found := save(t, func(c *app.Config) { c.Approvals.Rules = []approval.RuleSettings{{Approvals: 2}} }).verified(t)
	for name, r := range found {
		want := verify.Kept
		if name == "mutated approval" {
			want = verify.NotApplicable
		}
		if r.State != want {
			t.Errorf("%s is %s: %s", name, r.State, r.What)
		}
	}
}

func TestATrailThatWasTamperedWithIsFound(t *testing.T) {
	t.Parallel()
	n := bridgetest.Start(t, func(c *app.Config) { c.Dev = false })
	n.Stop(t)
	var archive bytes.Buffer
	if _, err := storage.Backup(t.Context(), n.Config, &archive, backup.Options{WithoutContents: true}); err != nil {
		t.Fatal(err)
	}
	segments, err := filepath.Glob(filepath.Join(n.Config.Data, "evidence", "*.log"))
	if err != nil || len(segments) == 0 {
		t.Fatal("there is no trail", err)
	}
	text, err := os.ReadFile(segments[0])
	if err != nil {
		t.Fatal(err)
	}
	text[len(bytes.TrimRight(text, "\x00"))/2] ^= 1
	if err := os.WriteFile(segments[0], text, 0o600); err != nil {
		t.Fatal(err)
	}
	found := saved{n.Config, archive.Bytes()}.verified(t)
	if found["audit trail"].State != verify.Broken {
		t.Errorf("the trail is %+v", found["audit trail"])
	}
}

// TestEveryTableIsKeptOrEmptied holds the copy to the tables that there are: what
// is not named would be gone on with.
func TestEveryTableIsKeptOrEmptied(t *testing.T) {
	t.Parallel()
	named := slices.Concat(verify.KeptTables, verify.EmptiedTables)
	declared := regexp.MustCompile(`NewTable\[[^\]]*\]\([^,]*, "([^"]+)"\)`)
	files, err := filepath.Glob("../app/*.go")
	if err != nil || len(files) == 0 {
		t.Fatal("no files", err)
	}
	n := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range declared.FindAllStringSubmatch(string(text), -1) {
			if n++; !slices.Contains(named, m[1]) {
				t.Errorf("%s: the copy of verify neither keeps nor empties %q", file, m[1])
			}
		}
	}
	if n < 25 {
		t.Errorf("found %d tables", n)
	}
}

// A request is one of the checks', which a fault changes.
type request struct {
	Version   string          `json:"version"`
	ID        string          `json:"id"`
	Timestamp int64           `json:"timestamp"`
	Type      string          `json:"type"`
	Command   string          `json:"command"`
	Params    json.RawMessage `json:"params"`
	Metadata  json.RawMessage `json:"metadata"`
}

func (r *request) replace(old, new string) {
	r.Params = json.RawMessage(strings.ReplaceAll(string(r.Params), old, new))
}

// faulty seeds a fault that shows as if requests were others.
func faulty(change func(*request)) func(*verify.Options) {
	return func(o *verify.Options) {
		o.Transport = func(to http.RoundTripper) http.RoundTripper { return &middleman{to: to, change: change} }
	}
}

type middleman struct {
	to     http.RoundTripper
	change func(*request)
	mu     sync.Mutex
}

func (m *middleman) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body == nil {
		return m.to.RoundTrip(r)
	}
	text, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	var q request
	if err := json.Unmarshal(text, &q); err != nil {
		return nil, err
	}
	m.mu.Lock()
	m.change(&q)
	m.mu.Unlock()
	if text, err = json.Marshal(q); err != nil {
		return nil, err
	}
	changed := r.Clone(r.Context())
	changed.Body, changed.ContentLength = io.NopCloser(bytes.NewReader(text)), int64(len(text))
	return m.to.RoundTrip(changed)
}
