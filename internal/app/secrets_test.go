package app_test

import (
	"bytes"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aibridge/aibridge/internal/app"
	"github.com/aibridge/aibridge/internal/bridgetest"
	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/protocol"
)

// besides starts a bridge beside another, with the same secrets and rights.
func (h *house) besides(url, id string) *house {
	h.t.Helper()
	strict := func(c *app.Config) { c.Dev = false }
	return &house{Node: bridgetest.Start(h.t, beside(h.t, url, id, h.Node), strict), t: h.t, admin: h.admin}
}

// needed is the number of API keys that need a version of the pepper, by the
// bridge's word.
func (h *house) needed(version string) int {
	h.t.Helper()
	var status struct {
		Secrets []rotation `json:"secrets"`
	}
	if err := json.Unmarshal([]byte(h.must("secret.status", `{}`)), &status); err != nil {
		h.t.Fatal(err)
	}
	for _, secret := range status.Secrets {
		for _, v := range secret.Versions {
			if secret.Secret == "pepper" && v.Version == version {
				return v.Uses["api_keys"]
			}
		}
	}
	h.t.Fatalf("there is no version %s in %+v", version, status)
	return 0
}

// TestThePepperRotatesWhereThreeBridgesWork rotates it while a caller shows its key
// at all bridges in turn, has a bridge killed, and rotates it again.
func TestThePepperRotatesWhereThreeBridgesWork(t *testing.T) {
	t.Parallel()
	url := startNATS(t)
	a := newHouse(t, beside(t, url, "a", nil))
	b, c := a.besides(url, "b"), a.besides(url, "c")
	all := []*house{a, b, c}
	lamp := a.key(protocol.KindAgent, "lamp", protocol.RoleEndAgent)
	counts := func(key string, at ...*house) {
		t.Helper()
		for _, h := range at {
			eventually.Holds(t, "the key counts at "+h.Config.ID, func() bool { code, _ := h.run(key, "agent.list", `{}`); return code == "" })
		}
	}
	counts(lamp, all...)

	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			at := all[i%len(all)]
			request, _ := http.NewRequest(http.MethodPost, at.HTTPURL("/api/v1/commands/agent.list"), strings.NewReader(`{}`))
			request.Header.Set("Content-Type", "application/json")
			request.Header.Set("X-API-Key", lamp)
			answer, err := http.DefaultClient.Do(request)
			if err != nil {
				t.Errorf("%s: %v", at.Config.ID, err)
				return
			}
			_ = answer.Body.Close()
			if answer.StatusCode != http.StatusOK {
				t.Errorf("%s answers %d", at.Config.ID, answer.StatusCode)
				return
			}
		}
	}()
	if made := b.rotate("pepper"); made.Version != "2" || made.Versions[0].State != "active" {
		t.Errorf("rotated: %+v", made)
	}
	fan := c.key(protocol.KindAgent, "fan", protocol.RoleEndAgent)
	counts(fan, all...)
	eventually.Holds(t, "no key needs the first version", func() bool { return c.needed("1") == 0 })
	if code, body := a.run(a.admin, "secret.retire", `{"secret":"pepper","version":"1"}`); code != protocol.InvalidState || !strings.Contains(body, "retry_after_ms") {
		t.Errorf("retired while another bridge may be about to store a key under it: %s", body)
	}
	close(stop)
	<-stopped

	a.Stop(t)
	if made := c.rotate("pepper"); made.Version != "3" {
		t.Errorf("rotated again: %+v", made)
	}
	door := b.key(protocol.KindAgent, "door", protocol.RoleEndAgent)
	counts(door, b, c)
	a.Restart(t)
	for _, key := range []string{lamp, fan, door} {
		counts(key, all...)
	}
	eventually.Holds(t, "all keys need the third version", func() bool { return a.needed("3") == 4 && a.needed("2") == 0 })
	data := a.rotate("data_key")
	if data.Resealed < 2 || data.Resealed > 5 || len(data.Versions) != 2 { // two peppers, and the keys of three audit trails once these were lent
		t.Errorf("the data key: %+v", data)
	}
	for _, h := range all {
		counts(h.key(protocol.KindAgent, "late-"+h.Config.ID, protocol.RoleEndAgent), all...)
	}
}

// versions are those of a secret, as a bridge shows them.
func (h *house) versions(secret string) string {
	h.t.Helper()
	var status struct {
		Secrets []rotation `json:"secrets"`
	}
	if err := json.Unmarshal([]byte(h.must("secret.status", `{}`)), &status); err != nil {
		h.t.Fatal(err)
	}
	var all []string
	for _, s := range status.Secrets {
		for _, v := range s.Versions {
			if s.Secret == secret {
				all = append(all, fmt.Sprint(v.Version, " ", v.State, " at ", strings.Join(v.Bridges, ",")))
			}
		}
	}
	return strings.Join(all, "; ")
}

// TestKeyFilesRotateWhereThreeBridgesWork rotates seal.key and ca.key while a bridge
// is away and a caller asks the others, who notices nothing; the one that was away
// comes back with its old files.
func TestKeyFilesRotateWhereThreeBridgesWork(t *testing.T) {
	t.Parallel()
	url := startNATS(t)
	a := newHouse(t, beside(t, url, "a", nil))
	b, c := a.besides(url, "b"), a.besides(url, "c")
	all := []*house{a, b, c}
	a.rotate("pepper") // which is sealed
	lamp := a.key(protocol.KindAgent, "lamp", protocol.RoleEndAgent)
	counts := func(at ...*house) {
		t.Helper()
		for _, h := range at {
			eventually.Holds(t, "the key counts at "+h.Config.ID, func() bool { code, _ := h.run(lamp, "agent.list", `{}`); return code == "" })
		}
	}
	counts(all...)
	for _, secret := range []string{"seal_key", "ca_key"} {
		eventually.Holds(t, "all say what they have", func() bool { return b.versions(secret) == "1 active at a,b,c" })
	}
	c.Stop(t)

	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			if code, body := all[i%2].run(lamp, "agent.list", `{}`); code != "" {
				t.Errorf("%s answers %s", all[i%2].Config.ID, body)
				return
			}
		}
	}()
	for _, secret := range []string{"seal_key", "ca_key"} {
		if made := b.rotate(secret); made.Version != "2" || made.Versions[0].State != "active" {
			t.Errorf("rotated: %+v", made)
		}
		eventually.Holds(t, "those that are there have it", func() bool { return a.versions(secret) == "2 active at a,b; 1 open at c" })
		if code, body := a.run(a.admin, "secret.retire", `{"secret":"`+secret+`","version":"1"}`); code != protocol.InvalidState || !strings.Contains(body, `"c"`) {
			t.Errorf("retired while c lacks the next: %s", body)
		}
	}
	close(stop)
	<-stopped

	b.rotate("authorities") // while c is away
	c.Restart(t)
	for _, secret := range []string{"seal_key", "ca_key"} {
		eventually.Holds(t, "all have it", func() bool { return c.versions(secret) == "2 active at a,b,c; 1 open at " })
	}
	for _, file := range []string{"seal.key", "ca.key"} {
		var held [][]byte
		for _, h := range all {
			key, err := os.ReadFile(filepath.Join(h.Config.Data, file))
			if err != nil {
				t.Fatal(err)
			}
			held = append(held, key)
		}
		if !bytes.Equal(held[0], held[1]) || !bytes.Equal(held[1], held[2]) {
			t.Errorf("%s differs", file)
		}
	}
	for _, h := range all { // each starts with its new files alone
		h.Restart(t)
		counts(h)
		csr, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, newKey(t))
		if err != nil {
			t.Fatal(err)
		}
		params, _ := json.Marshal(map[string]any{"authority": "operator", "skill_id": "x-" + h.Config.ID, "role": "agent_route",
			"scene_types": []string{"SMART_HOME"}, "csr": string(pemOf("CERTIFICATE REQUEST", csr))})
		h.must("cert.issue", string(params))
	}
	if made := c.rotate("authorities"); made.Version != "3" || made.Versions[1].Uses["certificates"] != 3 {
		t.Errorf("the authorities: %+v", made)
	}
	if data := b.rotate("data_key"); data.Resealed == 0 {
		t.Errorf("the data key: %+v", data)
	}
	counts(all...)
}
