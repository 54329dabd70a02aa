package password

import (
	"context"
	"crypto/sha512"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aibridge/aibridge/protocol"
)

// Passwords as mosquitto_passwd 2.0 wrote them.
const (
	sha512Of  = "$6$"
	pbkdf2Of  = "$7$"
	rightWord = "correct horse"
)

// hashed has mosquitto_passwd write the password of a user, or skips the test.
func hashed(t *testing.T, kind, name, word string) string {
	t.Helper()
	tool, err := exec.LookPath("mosquitto_passwd")
	if err != nil {
		t.Skip("mosquitto_passwd is not here: apt-get install mosquitto")
	}
	path := filepath.Join(t.TempDir(), "passwords")
	how := map[string]string{sha512Of: "sha512", pbkdf2Of: "sha512-pbkdf2"}[kind]
	if out, err := exec.Command(tool, "-H", how, "-c", "-b", path, name, word).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func open(t *testing.T, c Settings) *Service {
	t.Helper()
	s, err := Open(c, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestPasswordsOfMosquittoAreRight(t *testing.T) {
	for _, kind := range []string{sha512Of, pbkdf2Of} {
		line := hashed(t, kind, "lamp", rightWord)
		if !strings.HasPrefix(line, "lamp:"+kind) {
			t.Fatalf("the tool wrote %q", line)
		}
		path := filepath.Join(t.TempDir(), "passwords")
		write(t, path, line)
		c := DefaultSettings()
		c.File = path
		s := open(t, c)
		who, err := s.Verify(t.Context(), Login{User: "lamp", Password: rightWord})
		if err != nil {
			t.Fatalf("%s: %v", kind, err)
		}
		if who.Kind != protocol.KindAgent || who.ID != "lamp" || !slices.Equal(who.Roles, []string{protocol.RoleEndAgent}) || who.Method != protocol.MethodPassword {
			t.Errorf("%s: it is %+v", kind, who)
		}
		for _, wrong := range []Login{{User: "lamp", Password: "other"}, {User: "lamp"}, {User: "other", Password: rightWord}, {User: "", Password: rightWord}} {
			if _, err := s.Verify(t.Context(), wrong); !errors.Is(err, ErrWrong) {
				t.Errorf("%s: %+v: %v", kind, wrong, err)
			}
		}
		if !s.Stands(who) {
			t.Error("what was just shown does not stand")
		}
		write(t, path, hashed(t, kind, "lamp", "another"))
		if changed, err := s.file.load(slog.New(slog.DiscardHandler)); err != nil || !changed {
			t.Fatalf("the new file: %v, %v", changed, err)
		}
		if s.Stands(who) {
			t.Error("it stands though the password was changed")
		}
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	later := time.Now().Add(time.Duration(len(text)) * time.Hour) // another stamp, however fast the test is
	if err := os.Chtimes(path, later, later); err != nil {
		t.Fatal(err)
	}
}

func TestLinesThatCannotBeUsedAreTold(t *testing.T) {
	const good = "$6$c2FsdHNhbHQ=$"
	sum := good + "MTIzNDU2Nzg5MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNA=="
	users, faults, err := Parse(strings.NewReader(strings.Join([]string{
		"# comment", "", "good:" + sum, "clear:hunter2", "empty:", "argon:$argon2id$v=19$m=1$c2FsdA$aGFzaA", "broken:$7$many$c2FsdHNhbHQ=$aGFzaA==",
		"nothing", "apikey:" + sum, "a/b:" + sum, "weak:$7$1000001$c2FsdHNhbHQ=$aGFzaA==", "short:$6$YQ==$aGFzaA==",
	}, "\n")))
	if err != nil || len(users) != 1 {
		t.Errorf("%d users, %v", len(users), err)
	}
	var lines []int
	for _, f := range faults {
		lines = append(lines, f.Line)
		if strings.Contains(f.Why.Error(), "hunter2") {
			t.Error("a password is told")
		}
	}
	if want := []int{4, 5, 6, 7, 8, 9, 10, 11, 12}; !slices.Equal(lines, want) {
		t.Errorf("lines %v are told, want %v", lines, want)
	}
}

func FuzzHash(f *testing.F) {
	f.Add("$6$c2FsdHNhbHQ=$aGFzaA==", "x")
	f.Add("$7$101$c2FsdHNhbHQ=$aGFzaA==", "x")
	f.Fuzz(func(t *testing.T, text, word string) {
		h, err := ParseHash(text)
		if err == nil && h.iterations < 1000 {
			h.Matches(word)
		}
	})
}

// askedOf is a service for passwords that answers one way.
func askedOf(t *testing.T, status int, answer string, change func(*HTTPSettings)) (s *Service, asked *atomic.Int32, last *atomic.Pointer[http.Request], body *atomic.Value) {
	t.Helper()
	asked, last, body = new(atomic.Int32), new(atomic.Pointer[http.Request]), new(atomic.Value)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		asked.Add(1)
		last.Store(r)
		body.Store(string(text))
		w.WriteHeader(status)
		_, _ = io.WriteString(w, answer)
	}))
	t.Cleanup(server.Close)
	c := DefaultSettings()
	c.HTTP.URL = server.URL + "/auth"
	if change != nil {
		change(&c.HTTP)
	}
	s = open(t, c)
	t.Cleanup(s.web.client.CloseIdleConnections)
	return s, asked, last, body
}

func TestTheServiceSaysWhoGetsIn(t *testing.T) {
	for name, test := range map[string]struct {
		status  int
		answer  string
		allowed bool
		code    protocol.Code // of a failure, "" for a no
	}{
		"allow":           {200, `{"result":"allow","is_superuser":false}`, true, ""},
		"allow, no body":  {204, "", true, ""},
		"deny":            {200, `{"result":"deny"}`, false, ""},
		"ignore":          {200, `{"result":"ignore"}`, false, ""},
		"unauthorized":    {401, "", false, ""},
		"another answer":  {200, `{"result":"maybe"}`, false, protocol.TargetUnavailable},
		"no JSON":         {200, `<html>`, false, protocol.TargetUnavailable},
		"a broken one":    {500, "", false, protocol.TargetUnavailable},
		"another address": {302, "", false, protocol.TargetUnavailable},
		"much too long":   {200, `{"result":"allow"` + strings.Repeat(" ", mostAnswer) + "}", false, protocol.TargetUnavailable},
	} {
		s, _, _, _ := askedOf(t, test.status, test.answer, nil)
		who, err := s.Verify(t.Context(), Login{User: "lamp", Password: "word", Client: "c1"})
		switch {
		case test.allowed && (err != nil || who.ID != "lamp" || !s.Stands(who)):
			t.Errorf("%s: %+v, %v", name, who, err)
		case !test.allowed && test.code == "" && !errors.Is(err, ErrWrong):
			t.Errorf("%s: %v", name, err)
		case test.code != "" && protocol.CodeOf(err) != test.code:
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestTheServiceIsToldWhoAsks(t *testing.T) {
	t.Setenv("AUTH_SECRET", "Bearer s3cret")
	s, asked, last, body := askedOf(t, 200, `{"result":"allow","is_superuser":true}`, func(c *HTTPSettings) {
		c.AuthorizationEnv, c.SuperuserRoles = "AUTH_SECRET", []string{"operator"}
	})
	for range 2 { // the second time it is remembered
		who, err := s.Verify(t.Context(), Login{User: "lamp", Password: "word", Client: "c1"})
		if err != nil || !slices.Equal(who.Roles, []string{"operator"}) {
			t.Fatalf("%+v, %v", who, err)
		}
	}
	var fields map[string]string
	if err := json.Unmarshal([]byte(body.Load().(string)), &fields); err != nil || fields["username"] != "lamp" || fields["password"] != "word" || fields["clientid"] != "c1" {
		t.Errorf("it is told %v, %v", fields, err)
	}
	if got := last.Load().Header.Get("Authorization"); got != "Bearer s3cret" || asked.Load() != 1 {
		t.Errorf("authorization %q, asked %d times", got, asked.Load())
	}
	if _, err := s.Verify(t.Context(), Login{User: "lamp", Password: "other", Client: "c1"}); err != nil || asked.Load() != 2 {
		t.Errorf("another password: asked %d times, %v", asked.Load(), err)
	}
	s.web.now = func() time.Time { return time.Now().Add(time.Hour) }
	if _, err := s.Verify(t.Context(), Login{User: "lamp", Password: "word", Client: "c1"}); err != nil || asked.Load() != 3 {
		t.Errorf("an hour later: asked %d times, %v", asked.Load(), err)
	}
}

func TestANoIsNotRemembered(t *testing.T) {
	s, asked, last, _ := askedOf(t, 200, `{"result":"deny"}`, func(c *HTTPSettings) { c.Method = "get" })
	for range 2 {
		if _, err := s.Verify(t.Context(), Login{User: "lamp", Password: "w rd&", Client: "c1"}); !errors.Is(err, ErrWrong) {
			t.Error(err)
		}
	}
	if query := last.Load().URL.Query(); asked.Load() != 2 || query.Get("password") != "w rd&" || query.Get("username") != "lamp" {
		t.Errorf("asked %d times, last %v", asked.Load(), query)
	}
}

// TestAServiceThatCannotBeReachedLetsNobodyIn looks for the password in the log.
func TestAServiceThatCannotBeReachedLetsNobodyIn(t *testing.T) {
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	c := DefaultSettings()
	c.HTTP.URL, c.HTTP.Method = gone.URL, "get"
	var log strings.Builder
	s, err := Open(c, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Verify(context.Background(), Login{User: "lamp", Password: "hunter2"}); protocol.CodeOf(err) != protocol.TargetUnavailable {
		t.Error(err)
	}
	if log.Len() == 0 || strings.Contains(log.String(), "hunter2") {
		t.Errorf("the log has %q", log.String())
	}
}

func TestSettingsAreChecked(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*Settings)
		good   bool
	}{
		"none":            {func(*Settings) {}, true},
		"on this machine": {func(c *Settings) { c.HTTP.URL = "http://127.0.0.1:8080/auth" }, true},
		"over TLS":        {func(c *Settings) { c.HTTP.URL = "https://auth.example.org/mqtt" }, true},
		"in the clear":    {func(c *Settings) { c.HTTP.URL = "http://auth.example.org/mqtt" }, false},
		"with a password": {func(c *Settings) { c.HTTP.URL = "https://a:b@auth.example.org" }, false},
		"no address":      {func(c *Settings) { c.HTTP.URL = "auth.example.org" }, false},
		"another method":  {func(c *Settings) { c.HTTP.Method = "put" }, false},
		"for ever":        {func(c *Settings) { c.HTTP.CacheSeconds = 1 << 20 }, false},
		"no variable":     {func(c *Settings) { c.HTTP.URL, c.HTTP.AuthorizationEnv = "https://a.example", "THERE_IS_NONE" }, false},
	} {
		c := DefaultSettings()
		test.change(&c)
		var said []string
		c.Check(func(format string, _ ...any) { said = append(said, format) })
		if (len(said) == 0) != test.good {
			t.Errorf("%s: %q", name, said)
		}
	}
}

// TestADecoyCostsWhatAUserCosts looks at the work of a check, not at its time.
func TestADecoyCostsWhatAUserCosts(t *testing.T) {
	salt, sum := make([]byte, leastSalt), make([]byte, sha512.Size)
	for name, test := range map[string]struct {
		file map[string]Hash
		want map[int]float64 // share of the names, by iterations
	}{
		"no user":     {nil, map[int]float64{1000: 1}},
		"one cost":    {map[string]Hash{"a": {210_000, salt, sum}, "b": {210_000, salt, sum}}, map[int]float64{210_000: 1}},
		"salted once": {map[string]Hash{"a": {0, salt, sum}}, map[int]float64{0: 1}},
		"two costs":   {map[string]Hash{"a": {101, salt, sum}, "b": {1000, salt, sum}, "c": {101, salt, sum}, "d": {101, salt, sum}}, map[int]float64{101: 0.75, 1000: 0.25}},
	} {
		users, again, got := newUsers(test.file), newUsers(test.file), map[int]float64{}
		const names = 10_000
		for i := range names {
			stranger := fmt.Sprint("stranger-", i)
			cost := users.decoy(stranger).iterations
			if other := again.decoy(stranger).iterations; other != cost {
				t.Fatalf("%s: %s costs %d and then %d", name, stranger, cost, other)
			}
			got[cost] += 1.0 / names
		}
		for cost, share := range test.want {
			if math.Abs(got[cost]-share) > 0.05 {
				t.Errorf("%s: the shares are %v, want %v", name, got, test.want)
			}
		}
	}
}
