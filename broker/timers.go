package broker

import (
	"container/heap"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aibridge/aibridge/broker/packet"
)

// tick is the interval at which connections are looked over.
const tick = 250 * time.Millisecond

// timers do what happens by time: wills, session expiry, keep alive and
// the other deadlines of connections.
type timers struct {
	b    *Broker
	wake chan struct{}

	looks atomic.Uint64 // how often all connections were looked over

	mu      sync.Mutex
	dates   dates                      // one for a session at most
	wills   []*firedWill               // in the order of firing
	willsOf map[SessionID][]*firedWill // those of them that are not published yet
	orphan  []*redelivery              // for other members of their groups
	later   []*redelivery              // the same, for which there was nobody
}

type date struct {
	when int64
	s    *session
}

type dates []date

func (d dates) Len() int           { return len(d) }
func (d dates) Less(i, j int) bool { return d[i].when < d[j].when }
func (d dates) Swap(i, j int) {
	d[i], d[j] = d[j], d[i]
	d[i].s.dated, d[j].s.dated = i+1, j+1
}
func (d *dates) Push(x any) {
	*d = append(*d, x.(date))
	x.(date).s.dated = len(*d)
}
func (d *dates) Pop() any {
	last := len(*d) - 1
	popped := (*d)[last]
	popped.s.dated = 0
	(*d)[last] = date{}
	*d = (*d)[:last]
	return popped
}

func newTimers(b *Broker) *timers {
	return &timers{b: b, wake: make(chan struct{}, 1), willsOf: make(map[SessionID][]*firedWill)}
}

// schedule has the session looked at when the time has come. What comes later
// is scheduled when that is done, see turn.due.
func (k *timers) schedule(when int64, s *session) {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case s.dated == 0:
		heap.Push(&k.dates, date{when, s})
	case when < k.dates[s.dated-1].when:
		k.dates[s.dated-1].when = when
		heap.Fix(&k.dates, s.dated-1)
	}
}

// forget has a session that ended not be looked at any more.
func (k *timers) forget(s *session) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if s.dated != 0 {
		heap.Remove(&k.dates, s.dated-1)
	}
}

func (k *timers) alert() {
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

// run works until stop is closed, and once more then, for the Wills of clients whose
// connections the broker cut off as it ended. An adopted journal is left as it is: its
// fate could not be put on record any more, so its Wills are the next adopter's.
func (k *timers) run(stop <-chan struct{}) {
	t := newTurn(k.b)
	stamps := stamps{b: k.b}
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for ticks := 0; ; {
		select {
		case <-stop:
			if k.b.options.adopter == nil {
				k.work(t.begin())
			}
			return
		case <-k.wake:
			k.work(t.begin())
		case <-ticker.C:
			k.resume()
			k.work(t.begin())
			k.b.patrol(t)
			t.end()
			stamps.renew(t)
			k.looks.Add(1)
			if ticks++; ticks%40 == 0 {
				k.b.retained.expire(t.now, t.recordAgain)
				t.end()
			}
		}
	}
}

// work does the due work.
func (k *timers) work(t *turn) {
	for {
		may := k.b.mayPublishWills()
		k.mu.Lock()
		var wills []*firedWill
		if may {
			wills, k.wills = k.wills, nil
		}
		orphan := k.orphan
		k.orphan = nil
		var due []*session
		for len(k.dates) > 0 && k.dates[0].when <= t.now {
			due = append(due, heap.Pop(&k.dates).(date).s)
		}
		k.mu.Unlock()
		if len(wills) == 0 && len(due) == 0 && len(orphan) == 0 {
			return
		}
		for _, f := range wills {
			if k.takeWill(f) {
				t.publishFired(f)
			}
		}
		for _, r := range orphan {
			t.redeliver(r)
		}
		for _, s := range due {
			t.due(s)
		}
		t.end()
		if len(orphan) > 0 {
			k.b.AnswerReceipts()
		}
	}
}

// patrol ends connections that are over one of their times.
func (b *Broker) patrol(t *turn) {
	today := b.clock.Now()
	slow := 0
	defer func() { b.stats.slow.Store(int64(slow)) }()
	for _, c := range b.allConns() {
		c.mu.Lock()
		gone, closed, since, blocked := c.gone, c.closed, c.since, c.out.blocked
		c.mu.Unlock()
		limits := &b.options.Limits
		switch phase := c.phase.Load(); {
		case gone:
		case closed:
			if t.now-since > int64(b.options.linger) {
				c.abort()
			}
		case phase == phaseNew || phase == phaseAuth:
			if t.now > c.until.Load() {
				c.end(0, "", t.now)
			}
		case phase == phaseOpen:
			if c.late.look(c, blocked, t.now) {
				slow++
			}
			if blocked && t.now-since > int64(limits.WriteTimeout) {
				t.leave(c, "write timeout")
				c.abort()
			} else if e := c.client.Principal().Expires; !e.IsZero() && !today.Before(e) {
				t.stop(c, packet.NotAuthorized, "the credential has expired", "credential expired")
			} else if c.keepAlive > 0 && t.now-c.lastRead.Load() > int64(c.keepAlive)*3/2 { // [MQTT-3.1.2-22]
				t.stop(c, packet.KeepAliveTimeout, "", "keep alive timeout")
			}
		}
	}
}

// lingerTime is the time that a connection that was ended may take to receive its
// last bytes and close its side.
const lingerTime = 2 * time.Second
