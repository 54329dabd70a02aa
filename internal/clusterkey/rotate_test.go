package clusterkey

import (
	"bytes"
	"slices"
	"strings"
	"testing"
)

// again is a key as it is read from its file.
func again(t *testing.T, k *Key) *Key {
	t.Helper()
	text, err := k.Encode()
	if err == nil {
		k, err = Decode(text)
	}
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// letsIn reports whether a server with one key lets in a server with another.
func letsIn(k, other *Key) bool {
	return slices.ContainsFunc(append(k.AlsoRoutes(), k.Routes), func(key []byte) bool { return bytes.Equal(key, other.Routes) })
}

func TestBridgesBesideAStepOfARotationKnowEachOther(t *testing.T) {
	first, err := New("")
	if err != nil {
		t.Fatal(err)
	}
	before := first
	for _, want := range []Step{Announced, Turned, Finished, Announced} {
		after, step := before.Rotate()
		after = again(t, after)
		if step != want {
			t.Fatalf("step %d comes, not %d", step, want)
		}
		if !letsIn(before, after) || !letsIn(after, before) {
			t.Errorf("before and after step %d they do not know each other", step)
		}
		for file, secret := range first.Secrets {
			if !bytes.Equal(after.Secrets[file], secret) {
				t.Errorf("step %d changes %s", step, file)
			}
		}
		if step == Finished && (letsIn(after, first) || bytes.Equal(after.Routes, first.Routes)) {
			t.Error("the old key is let in at the end")
		}
		before = after
	}
}

func TestAKeyFileOfTwoRotationsIsRefused(t *testing.T) {
	k, err := New("")
	if err != nil {
		t.Fatal(err)
	}
	for want, damage := range map[string]func(*Key){
		"two rotations":           func(k *Key) { k.Next, k.Last = k.Routes, k.Routes },
		"routes_next has 3 bytes": func(k *Key) { k.Next = []byte("abc") },
		"routes_last has 3 bytes": func(k *Key) { k.Last = []byte("abc") },
	} {
		damaged := *k
		damage(&damaged)
		text, err := damaged.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Decode(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}
