package app_test

import (
	"bytes"
	"fmt"
	"net/http"
	"testing"

	"github.com/eclipse/paho.golang/paho"

	"github.com/aibridge/aibridge/internal/backup"
	"github.com/aibridge/aibridge/internal/bridgetest"
	"github.com/aibridge/aibridge/internal/storage"
)

// TestABackupOfAClusterHasTheSessionsOfAllBridges makes a backup while three bridges have
// a session each that a message waits for, by one that runs and from NATS itself, and
// restores it for a bridge that is alone and for two that work together.
func TestABackupOfAClusterHasTheSessionsOfAllBridges(t *testing.T) {
	t.Parallel()
	_, n := three(t)
	for i := range n {
		sleeper := n[i].Connect(t, fmt.Sprint("sleeper-", i), kept)
		sleeper.Listen(t, "x/#")
		sleeper.Drop()
	}
	speaker := n[1].Connect(t, "speaker")
	for topic, retain := range map[string]bool{"x/waits": false, "state/lamp": true} {
		if code := publishes(t, speaker, &paho.Publish{Topic: topic, QoS: 1, Payload: []byte("on"), Retain: retain}); code >= 0x80 {
			t.Fatalf("%s is refused with %#x", topic, code)
		}
	}
	status, running := fetchBackup(t, n[2])
	if status != http.StatusOK {
		t.Fatalf("a backup is answered with %d: %s", status, running)
	}
	var external bytes.Buffer
	if _, err := storage.Backup(t.Context(), n[0].Config, &external, backup.Options{}); err != nil {
		t.Fatal(err)
	}
	for name, archive := range map[string][]byte{"of a bridge that runs": running, "from NATS": external.Bytes()} {
		t.Run(name+", for a bridge that is alone", func(t *testing.T) {
			t.Parallel()
			alone := &bridgetest.Node{Config: n[0].Config}
			alone.Config.NATS.URL, alone.Config.Cluster.Working = "", "one"
			has(t, restored(t, alone, archive))
		})
		t.Run(name+", for a cluster", func(t *testing.T) {
			t.Parallel()
			with := &bridgetest.Node{Config: n[0].Config}
			with.Config.NATS.URL = startNATS(t)
			a := restored(t, with, archive)
			has(t, together(t, with.Config.NATS.URL, "z", a), a)
		})
	}
}

// TestARestoreReplacesWhatAClusterHas restores an earlier backup over the state of bridges
// that all worked.
func TestARestoreReplacesWhatAClusterHas(t *testing.T) {
	t.Parallel()
	url := startNATS(t)
	n := bridgetest.Start(t, beside(t, url, "a", nil))
	status, archive := fetchBackup(t, n)
	if status != http.StatusOK {
		t.Fatalf("a backup is answered with %d: %s", status, archive)
	}
	sleeper := n.Connect(t, "later", kept)
	sleeper.Listen(t, "x/#")
	if code := publishes(t, sleeper, &paho.Publish{Topic: "state/later", QoS: 1, Payload: []byte("on"), Retain: true}); code >= 0x80 {
		t.Fatalf("refused with %#x", code)
	}
	sleeper.Drop()
	n.Stop(t)
	if _, err := storage.Restore(t.Context(), n.Config, bytes.NewReader(archive), true); err != nil {
		t.Fatal(err)
	}
	n.Restart(t)
	if again := n.Connect(t, "later", kept); again.Connack.SessionPresent {
		t.Error("a session is there that was made after the backup")
	}
	listener := n.Connect(t, "listener")
	listener.Listen(t, "state/#", "mark")
	listener.Send(t, "mark", "end")
	if p := listener.Next(t); p.Topic != "mark" {
		t.Errorf("%s is retained, of after the backup", p.Topic)
	}
}

// has checks that bridges have the sessions with what waits, and what was retained.
func has(t *testing.T, nodes ...*bridgetest.Node) {
	t.Helper()
	for i := range 3 {
		sleeper := nodes[i%len(nodes)].Connect(t, fmt.Sprint("sleeper-", i), kept)
		if p := sleeper.Next(t); p.Topic != "x/waits" || string(p.Payload) != "on" {
			t.Errorf("sleeper-%d got %s %s", i, p.Topic, p.Payload)
		}
	}
	for _, n := range nodes {
		listener := n.Connect(t, "listener")
		listener.Listen(t, "state/#")
		if p := listener.Next(t); p.Topic != "state/lamp" || !p.Retain {
			t.Errorf("the listener got %s", p.Topic)
		}
	}
}
