package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aibridge/aibridge/internal/clusterkey"
)

func TestTheBridgesOfAClusterAreATable(t *testing.T) {
	var out bytes.Buffer
	result := `{"bridge_id":"a","members":[
		{"id":"a","epoch":7,"state":"working","ready":true,"age_ms":120,"started_at":0,"version":"1.0","addresses":{"mqtt":"10.0.0.1:1883"}},
		{"id":"b\u001b","epoch":9,"state":"working","ready":false,"why":"the disk is full","version":"1.0"}],
		"absent":[{"id":"d\u001b","state":"dead","keeps":"10.0.0.4:6222"}],
		"peers":[{"bridge_id":"b","by":"nats","open":false},{"bridge_id":"c","by":"nats","open":true,"served_by":"b\u001b"}],
		"parts":[{"name":"nats","ok":true},{"name":"disk","ok":false,"why":"no room"}]}`
	if err := writeCluster(&out, json.RawMessage(result)); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 11 {
		t.Fatalf("%d lines:\n%s", len(lines), &out)
	}
	for i, words := range [][]string{{"NODE", "LEASE"}, {"a ", " 7 ", "yes", "120ms", "10.0.0.1:1883"}, {"no: the disk is full", " - "}, {"d", " is away (dead)", "10.0.0.4:6222"}, {}, {"Messages of a"}, {"FLOW"}, {"b ", " no "}, {"c ", " yes, to b"}, {"c has ended; b"}, {"disk of a does not work: no room"}} {
		for _, word := range words {
			if !strings.Contains(lines[i]+" ", word) {
				t.Errorf("line %d lacks %q: %s", i, word, lines[i])
			}
		}
	}
	if strings.Contains(out.String(), "\x1b") {
		t.Error("an id is printed raw")
	}
}

func TestADrainIsToldInASentence(t *testing.T) {
	for result, want := range map[string]string{
		`{"id":"b","epoch":9,"clients":3,"window_seconds":5,"others":["a"]}`:     "b drains: 3 clients go elsewhere within 5 s; a takes over\n",
		`{"id":"b","epoch":9,"clients":0,"window_seconds":0,"others":["a","c"]}`: "b drains: 0 clients go elsewhere within 0 s; a, c take over\n",
		`{"id":"b","epoch":9,"clients":1,"window_seconds":5,"others":["a"]}`:     "b drains: 1 client goes elsewhere within 5 s; a takes over\n",
		`{"id":"b","epoch":9,"already":true,"others":[]}`:                        "b was draining already\n",
	} {
		var out bytes.Buffer
		if err := writeDrained(&out, json.RawMessage(result)); err != nil || out.String() != want {
			t.Errorf("%v: %q, want %q", err, out.String(), want)
		}
		hostile := strings.ReplaceAll(result, `"b"`, `"b\u001b"`)
		if err := writeDrained(&out, json.RawMessage(hostile)); err != nil || strings.Contains(out.String(), "\x1b") {
			t.Errorf("an id is printed raw: %v %q", err, out.String())
		}
	}
}

func TestARemovalIsToldInSentences(t *testing.T) {
	for result, want := range map[string]string{
		`{"bridge_id":"b"}`:                            "b is removed, and its id is used no more\n",
		`{"bridge_id":"b","already":true,"keepers":3}`: "b was removed before, and its id is used no more\n3 bridges keep the state now\n",
		`{"bridge_id":"b","kept_state":true,"keepers":2,"lacking_copies":9,"address":"c:1","served_by":"a"}`: "b is removed, and its id is used no more\n2 bridges keep the state now\n" +
			"9 streams have fewer copies than they are to have, until another bridge takes its place\n" +
			"start that one with an id of its own, at c:1 or with another address for that in cluster.join\n" +
			"a serves its sessions until their clients come back, or they expire\n",
	} {
		var out bytes.Buffer
		if err := writeRemoved(&out, json.RawMessage(result)); err != nil || out.String() != want {
			t.Errorf("%v: %q, want %q", err, out.String(), want)
		}
		hostile := strings.ReplaceAll(result, `"b"`, `"b\u001b"`)
		if err := writeRemoved(&out, json.RawMessage(hostile)); err != nil || strings.Contains(out.String(), "\x1b") {
			t.Errorf("an id is printed raw: %v %q", err, out.String())
		}
	}
}

func TestAClustersKeyIsMadeAnewFromAFolder(t *testing.T) {
	dir := t.TempDir()
	home, data, fresh := filepath.Join(dir, "home.key"), filepath.Join(dir, "data"), filepath.Join(dir, "new.key")
	run := func(args ...string) error {
		cmd := root()
		cmd.SetArgs(append([]string{"cluster", "init"}, args...))
		cmd.SetErr(io.Discard)
		cmd.SetContext(t.Context())
		return cmd.Execute()
	}
	if err := run(home); err != nil {
		t.Fatal(err)
	}
	key, err := clusterkey.Read(home)
	if err == nil {
		err = errors.Join(os.Mkdir(data, 0o700), key.Install(data), os.WriteFile(filepath.Join(data, "seal.key"), bytes.Repeat([]byte{7}, 32), 0o600))
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := run(fresh, "--renew", home); err == nil || !strings.Contains(err.Error(), "takes --data") {
		t.Errorf("without a folder: %v", err)
	}
	if err := run(fresh, "--renew", home, "--data", data); err != nil {
		t.Fatal(err)
	}
	anew, err := clusterkey.Read(fresh)
	if err != nil || !bytes.Equal(anew.Routes, key.Routes) || anew.Secrets["seal.key"][0] != 7 {
		t.Errorf("made anew: %v", err)
	}
}
