package model

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/llm/wire/openai"
	"github.com/aibridge/aibridge/llm/wire/wiretest"
)

const someFile = `
providers:
  - {name: here, wire: openai, base_url: "http://127.0.0.1:1/v1", key_file: KEY, idle: 30s}
models:
  - {name: NAME, routes: [{provider: here}]}
`

// folder is the folder of a configuration and its history.
type folder struct {
	t    *testing.T
	dir  string
	mu   sync.Mutex
	told []Configured
}

func newFolder(t *testing.T) *folder {
	f := &folder{t: t, dir: t.TempDir()}
	f.write("key", "k1")
	return f
}

func (f *folder) path(name string) string { return filepath.Join(f.dir, name) }

func (f *folder) write(name, text string) {
	f.t.Helper()
	if err := os.WriteFile(f.path(name), []byte(text), 0o600); err != nil {
		f.t.Fatal(err)
	}
}

// models writes a configuration with a model of that name.
func (f *folder) models(name string) {
	f.t.Helper()
	f.write("llm.yaml", strings.NewReplacer("NAME", name, "KEY", f.path("key")).Replace(someFile))
}

func (f *folder) open() (*Service, *File) {
	f.t.Helper()
	s := New(Options{Configured: func(c Configured) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.told = append(f.told, c)
	}})
	file, err := OpenFile(s, f.path("llm.yaml"), f.path("history"))
	if err != nil {
		f.t.Fatal(err)
	}
	return s, file
}

func (f *folder) last() Configured {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.told[len(f.told)-1]
}

func TestAFileConfiguresTheModels(t *testing.T) {
	f := newFolder(t)
	f.models("one")
	s, file := f.open()
	revision := func() uint64 { return s.catalog.Load().revision }
	if s.catalog.Load().find("one", access{space: "default"}) == nil || revision() != 1 {
		t.Fatalf("revision %d", revision())
	}
	if idle := s.catalog.Load().providers[0].config.Idle; idle != 30*time.Second {
		t.Errorf("idle is %v", idle)
	}
	file.Reload()
	if len(f.told) != 1 {
		t.Error("the same is configured again")
	}
	f.models("two")
	file.Reload()
	if s.catalog.Load().find("two", access{space: "default"}) == nil || revision() != 2 {
		t.Errorf("a change is not followed: revision %d", revision())
	}
	f.write("key", "k2")
	file.Reload()
	if secrets := s.catalog.Load().providers[0]; revision() != 2 || secrets.config.KeyFile == "" || len(f.told) != 3 {
		t.Errorf("a new key is not read: revision %d, %d configurations", revision(), len(f.told))
	}
	f.write("llm.yaml", "modells: []")
	file.Reload()
	file.Reload()
	if err := f.last().Err; err == nil || !strings.Contains(err.Error(), "there is no setting modells") || len(f.told) != 4 || revision() != 2 {
		t.Errorf("what is wrong: %v after %d", err, len(f.told))
	}
	f.models("two")
	file.Reload()
	if s.catalog.Load().find("two", access{space: "default"}) == nil || len(f.told) != 4 {
		t.Errorf("what was at work is configured again: %v", f.told)
	}
}

func TestRevisionsOutliveARestartAndCanBePutBack(t *testing.T) {
	f := newFolder(t)
	f.models("one")
	f.open()
	f.models("two")
	s, _ := f.open()
	if r := s.catalog.Load().revision; r != 2 {
		t.Errorf("the second configuration is revision %d", r)
	}
	s, _ = f.open()
	if r := s.catalog.Load().revision; r != 2 {
		t.Errorf("the same after a restart is revision %d", r)
	}
	first, err := os.ReadFile(f.path("history/000001.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	f.write("llm.yaml", string(first))
	s, _ = f.open()
	if r := s.catalog.Load().revision; r != 3 || s.catalog.Load().find("one", access{space: "default"}) == nil {
		t.Errorf("the first put back is revision %d", r)
	}
}

func TestHistoryIsBounded(t *testing.T) {
	h := history{t.TempDir()}
	for i := range keptRevisions + 5 {
		if r, err := h.revision([]byte{byte(i)}); err != nil || r != uint64(i+1) {
			t.Fatalf("revision %d, %v", r, err)
		}
	}
	kept, err := h.list()
	if err != nil || len(kept) != keptRevisions || kept[0] != 6 {
		t.Errorf("%d are kept, from %d: %v", len(kept), kept[0], err)
	}
}

func TestAFileIsFollowedWhileItChanges(t *testing.T) {
	f := newFolder(t)
	f.models("one")
	s, file := f.open()
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = file.Run(ctx) })
	defer running.Wait()
	defer cancel()
	f.models("two")
	for deadline := time.Now().Add(eventually.Patience); s.catalog.Load().find("two", access{space: "default"}) == nil; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it is not")
		}
	}
}

// TestAKeyInAnotherFolderIsFollowed replaces the key of a provider, which lies where
// secrets are, as they are replaced: by another file. Nothing looks without a notification.
func TestAKeyInAnotherFolderIsFollowed(t *testing.T) {
	f, secrets := newFolder(t), t.TempDir()
	key := filepath.Join(secrets, "key")
	replace := func(text string) {
		t.Helper()
		if err := os.WriteFile(key+".new", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(key+".new", key); err != nil {
			t.Fatal(err)
		}
	}
	replace("k1")
	f.models("one")
	s, file := f.open()
	file.anyway = time.Hour
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = file.Run(ctx) })
	defer running.Wait()
	defer cancel()
	f.write("llm.yaml", strings.NewReplacer("NAME", "two", "KEY", key).Replace(someFile))
	shows := func(want string) func() bool {
		return func() bool {
			providers := s.catalog.Load().providers
			if len(providers) == 0 { // the file is being written
				return false
			}
			here, ok := providers[0].Provider.(*openai.Provider)
			return ok && here.Client.Header.Get("Authorization") == "Bearer "+want
		}
	}
	for n := range 3 {
		want := "k" + strconv.Itoa(n+1)
		replace(want)
		eventually.Holds(t, "the key is "+want, shows(want))
	}
}

func TestAWrongFileStopsTheStart(t *testing.T) {
	f := newFolder(t)
	for text, want := range map[string]string{
		"modells: []":        "there is no setting modells",
		"default: x":         `there is no model "x"`,
		"{":                  "yaml",
		"models: [{name: a}": "yaml",
	} {
		f.write("llm.yaml", text)
		if _, err := OpenFile(New(Options{}), f.path("llm.yaml"), f.path("history")); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
	if _, err := OpenFile(New(Options{}), f.path("none"), f.path("history")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	f.write("llm.yaml", "")
	if _, err := OpenFile(New(Options{}), f.path("llm.yaml"), f.path("history")); err != nil {
		t.Errorf("an empty one: %v", err)
	}
}

func TestKeysDoNotCrossTheInternetInTheClear(t *testing.T) {
	for host, ok := range map[string]bool{
		"127.0.0.1": true, "[::1]": true, "10.1.2.3": true, "192.168.0.9": true, "localhost": true, "ollama": true,
		"box.local": true, "host.docker.internal": true, "llm.ai.svc": true, "api.example.com": false, "8.8.8.8": false, "local.example.com": false,
	} {
		c := at(&wiretest.Server{URL: "http://" + host + ":8080/v1"})
		if err := c.Check(); (err == nil) != ok {
			t.Errorf("%s: %v", host, err)
		}
	}
}

func FuzzParseConfig(f *testing.F) {
	f.Add([]byte(someFile))
	f.Add([]byte("budgets: [{per: space, window: day, tokens: 5}]\ncache: {ttl: 1h}\nredact: [{kinds: [email]}]\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := ParseConfig(text)
		if err != nil {
			return
		}
		for i := range c.Providers { // reads no file of the machine
			c.Providers[i].KeyEnv, c.Providers[i].KeyFile = "", ""
		}
		if c.Check() == nil {
			if _, err := New(Options{}).Configure(c); err != nil {
				t.Errorf("a good configuration cannot be put to work: %v", err)
			}
		}
	})
}
