package app_test

import (
	"crypto/sha512"
	"encoding/base64"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/aibridge/aibridge/internal/app"
	"github.com/aibridge/aibridge/internal/bridgetest"
)

// hashOf is a password as mosquitto_passwd -H sha512 writes it.
func hashOf(word string) string {
	const salt = "salt of the test"
	sum := sha512.Sum512([]byte(word + salt))
	return "$6$" + base64.StdEncoding.EncodeToString([]byte(salt)) + "$" + base64.StdEncoding.EncodeToString(sum[:])
}

// TestAChangedPasswordEndsItsConnection has a device come with the password that
// mosquitto had for it, register itself, and lose its connection with that.
func TestAChangedPasswordEndsItsConnection(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "passwords")
	bridgetest.Write(t, path, "lamp:"+hashOf("old")+"\nother:"+hashOf("other")+"\n")
	h := newHouse(t, func(c *app.Config) { c.Passwords.File = path })
	lamp, err := h.TryConnect(t, "lamp-1", withPassword("lamp", "old"))
	if err != nil {
		t.Fatal(err)
	}
	lamp.Listen(t, "aibridge/client/lamp-1/response")
	if answer := h.ask(lamp, "agent.register", `{"agent_id":"lamp","type":"end_agent"}`); answer.Err != nil {
		t.Errorf("it registers itself: %v", answer.Err)
	}
	if answer := h.ask(lamp, "key.list", `{}`); answer.Err == nil {
		t.Error("it lists keys")
	}
	other := h.Connect(t, "other-1", withPassword("other", "other"))
	if _, err := h.TryConnect(t, "lamp-2", withPassword("lamp", "new")); err == nil {
		t.Error("a wrong password is let in")
	}
	bridgetest.Write(t, path, "lamp:"+hashOf("new")+"\nother:"+hashOf("other")+"\n")
	later := time.Now().Add(time.Hour) // another time than the first, however fast the test is
	if err := os.Chtimes(path, later, later); err != nil {
		t.Fatal(err)
	}
	select {
	case <-lamp.Dismissed:
	case <-time.After(bridgetest.Patience):
		t.Fatal("the connection with the old password stays")
	}
	if _, err := h.TryConnect(t, "lamp-1", withPassword("lamp", "new")); err != nil {
		t.Errorf("the new password: %v", err)
	}
	select {
	case <-other.Dismissed:
		t.Error("a client whose password is as it was is ended, too")
	default:
	}
}
