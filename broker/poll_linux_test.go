package broker

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// freely is a polling with processors left for others.
func freely() polling { return newPolling(1, func() int { return 2 }) }

// waits has a polling learn from n waits of the same time.
func (p *polling) waits(n int, took time.Duration) {
	for range n {
		p.note(took, 1)
	}
}

func TestPollingBeginsAfterShortWaitsInARow(t *testing.T) {
	p := freely()
	p.waits(pollFrom-1, pollTime)
	p.note(pollTime+1, 1)
	p.waits(pollFrom-1, 0)
	if p.on {
		t.Fatal("it polls although a long wait has come between")
	}
	if p.note(pollTime, pollFew); !p.on {
		t.Error("it does not poll after short waits in a row")
	}
}

func TestPollingGoesOnWhileItPays(t *testing.T) {
	p := freely()
	p.waits(10*pollProof, pollPays/2)
	p.note(pollTime, 1) // late once, as a client is now and then
	p.waits(pollMean, pollPays/2)
	if !p.on {
		t.Error("one late message has ended it")
	}
	if p.note(time.Second, 1); p.on {
		t.Error("it polls although the load is over")
	}
	if p.need != pollFrom {
		t.Errorf("polling that has paid is tried again after %d waits, not %d", p.need, pollFrom)
	}
}

// TestPollingIsLeftWhereItDoesNotPay tests that messages at a pace, just close enough to
// be polled, are polled for a vanishing part of the time.
func TestPollingIsLeftWhereItDoesNotPay(t *testing.T) {
	p := freely()
	const all = 1_000_000
	polled := 0
	for range all {
		if p.note(pollTime*9/10, 1); p.on {
			polled++
		}
	}
	if polled > all/100 {
		t.Errorf("%d of %d waits were polled", polled, all)
	}
	p.waits(pollLast, 0)
	if !p.on {
		t.Error("it is never tried again")
	}
}

func TestCrowdsAreNotPolledFor(t *testing.T) {
	p := freely()
	for range pollLast {
		if p.note(0, pollFew+1); p.on {
			t.Fatal("it polls")
		}
	}
	p.waits(pollFrom, 0)
	for range pollMean {
		p.note(0, pollFew+1)
	}
	if p.on {
		t.Error("it polls on when many have come")
	}
}

func TestNoPollingWithoutAProcessorForOthers(t *testing.T) {
	has := 1
	p := newPolling(1, func() int { return has })
	if p.waits(pollLast, 0); p.on {
		t.Error("it polls")
	}
	has = 2 // as the limit of a container is raised while it runs
	if p.waits(pollLast, 0); !p.on {
		t.Error("it does not poll although there is a processor for others now")
	}
	has = 1
	if p.waits(2*pollProof, 0); p.on {
		t.Error("it polls on although no processor is left for others")
	}
}

// TestACrowdIsMoreThanTheProcessorsOfTheMoment tests that the number of processors is
// asked for when it counts.
func TestACrowdIsMoreThanTheProcessorsOfTheMoment(t *testing.T) {
	var wait, has int
	crowd := crowded(func() int { return wait }, 2, func() int { return has })
	for _, test := range []struct {
		wait, has int
		want      bool
	}{{2, 4, false}, {3, 4, true}, {3, 8, false}, {1, 2, true}, {0, 1, false}} {
		if wait, has = test.wait, test.has; crowd() != test.want {
			t.Errorf("%d wait and there are %d processors: %t", wait, has, !test.want)
		}
	}
}

// TestAPollingWaitEnds tests that a wait that polls sees what comes before, during and
// after it, and that its time passes.
func TestAPollingWaitEnds(t *testing.T) {
	r := newRung(t)
	defer r.end()
	poll := func() { r.polling = polling{need: 1, on: true, spare: func() bool { return true }} }
	r.ring()
	poll()
	r.wants(1, -1)
	r.hush()
	poll()
	go r.ring()
	r.wants(1, -1)
	r.hush()
	poll()
	r.wants(0, 1)
	if n, err := pollUntil(r.epfd, make([]unix.EpollEvent, 1), time.Now()); n != 0 || err != nil {
		t.Errorf("nothing to poll for: %d events, %v", n, err)
	}
}
