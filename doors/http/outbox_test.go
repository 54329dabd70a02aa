package http

import "testing"

func TestOutboxKeepsOrderAndBounds(t *testing.T) {
	t.Parallel()
	o := newOutbox(3, 10)
	for _, m := range []string{"one", "two"} {
		if !o.put([]byte(m)) {
			t.Fatalf("%q found no room", m)
		}
	}
	taken := o.take(nil)
	if len(taken) != 2 || string(taken[0]) != "one" || string(taken[1]) != "two" {
		t.Errorf("took %q", taken)
	}
	if !o.put(make([]byte, 100)) {
		t.Error("a large message alone found no room")
	}
	if o.put([]byte("x")) || !o.ended() {
		t.Error("a message over the bytes was taken")
	}
	o.take(taken)
	if o.put([]byte("y")) {
		t.Error("a message after a lost one was taken")
	}
	<-o.wake // the writer is told
}

func TestOutboxCountsMessages(t *testing.T) {
	t.Parallel()
	o := newOutbox(2, 1000)
	if !o.put([]byte("a")) || !o.put([]byte("b")) || o.put([]byte("c")) {
		t.Error("took other than two")
	}
}
