package broker

// A will waits for its client to vanish.
type will struct {
	msg    *message
	delay  uint32 // seconds
	life   uint32 // message expiry interval, 0 none
	fires  int64  // steady time when, once the connection is gone
	since  int64  // when its client connected, as directories count it; 0 where there is none
	run    uint64 // of the bridge whose journal it is in, once it fires; 0 for a bridge that is alone
	record string // key of its own record; empty for none
	again  bool   // an earlier process may have published it
}

// A firedWill is a Will that is to be published: its client is gone. Whoever
// takes it publishes it: the timers, or the turn in which the client connects
// again.
type firedWill struct {
	client *Client
	will   *will
	taken  bool          // guarded by timers.mu
	done   chan struct{} // closed when it is published
}

// fire has a Will published.
func (k *timers) fire(client *Client, w *will) {
	w.run = k.b.index.self().Epoch
	f := &firedWill{client: client, will: w, done: make(chan struct{})}
	key := client.Session()
	k.mu.Lock()
	k.wills = append(k.wills, f)
	k.willsOf[key] = append(k.willsOf[key], f)
	k.mu.Unlock()
	k.alert()
}

// fireLocked has the Will of a session published, whose mu is held. In a cluster that
// may have to wait: the Will gets a record of its own, since that of the session does
// not have it any more.
func (t *turn) fireLocked(s *session) {
	w := s.will
	s.will = nil
	if t.b.isOneOfMany() && w.record == "" {
		t.b.recordWill(t, s, w)
	}
	t.b.timers.fire(s.client, w)
}

// isOneOfMany reports whether the broker is one of a cluster's, or serves the sessions
// of one.
func (b *Broker) isOneOfMany() bool { return b.index.peers != nil || b.options.adopter != nil }

// PublishWills has the broker publish Wills from now on. One with peers holds back
// those that it has before, of clients of its earlier processes: nobody elsewhere would
// hear them while it does not know who listens there. It is called once all bridges
// know each other, and the handlers are there.
func (b *Broker) PublishWills() {
	b.publishesWills.Store(true)
	for _, m := range b.family() {
		m.timers.alert()
	}
}

// mayPublishWills reports whether Wills are not held back. Those of an adopted broker
// are its adopter's to publish.
func (b *Broker) mayPublishWills() bool {
	if b.gaveUpWills.Load() {
		return false
	}
	if adopter := b.options.adopter; adopter != nil {
		b = adopter
	}
	return b.index.peers == nil || b.publishesWills.Load()
}

// takeWill claims a Will for its caller to publish; false if it was taken.
func (k *timers) takeWill(f *firedWill) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if f.taken {
		return false
	}
	f.taken = true
	return true
}

// firedOf lists the Wills of a client id that are not published yet.
func (k *timers) firedOf(key SessionID) []*firedWill {
	k.mu.Lock()
	defer k.mu.Unlock()
	return append([]*firedWill(nil), k.willsOf[key]...)
}

// willsLeft is the number of Wills that are fired and not published.
func (k *timers) willsLeft() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.willsOf)
}

// publishFired publishes a Will that its caller has taken.
func (t *turn) publishFired(f *firedWill) {
	if t.b.isOneOfMany() {
		t.entrust(f)
	} else {
		t.publishWill(f.client, f.will)
		t.forgetWill(f.will)
	}
	t.b.timers.published(f)
	if s := t.b.session(f.client.Session()); s != nil {
		t.b.tellSettled(s)
	}
}

// published notes that a Will is.
func (k *timers) published(f *firedWill) {
	key := f.client.Session()
	k.mu.Lock()
	defer k.mu.Unlock()
	close(f.done)
	left := k.willsOf[key][:0]
	for _, other := range k.willsOf[key] {
		if other != f {
			left = append(left, other)
		}
	}
	if len(left) == 0 {
		delete(k.willsOf, key)
	} else {
		k.willsOf[key] = left
	}
}

// settleWills returns when the Wills of a client's earlier connections are
// published: before it is told that it is connected again, so that what it says
// then is newer. It does not wait for those that are held back. No lock of a session
// may be held.
func (t *turn) settleWills(client *Client) {
	if !t.b.mayPublishWills() {
		return
	}
	for _, f := range t.b.timers.firedOf(client.Session()) {
		if t.b.timers.takeWill(f) {
			t.publishFired(f)
		} else {
			<-f.done // the timers are at it, and never wait for a client
		}
	}
}

// publishWill publishes the will of a client that is gone, if it may
// [MQTT-3.1.2-8] [MQTT-3.1.2-14] [MQTT-3.1.2-15].
func (t *turn) publishWill(client *Client, w *will) {
	if v := t.mayWill(client, w.msg); !v.Allowed() {
		t.b.log.Info("will refused", "client", client.ID, "topic", w.msg.topic, "reason", v.Text)
		return
	}
	if v := t.admits(client, w.msg.topic, w.msg.payload); !v.Allowed() {
		t.b.log.Info("will refused", "client", client.ID, "topic", w.msg.topic, "reason", v.Text)
		return
	}
	m := *w.msg
	m.to = everybody(client.Principal().Home())
	if w.life > 0 {
		m.expires = t.now + seconds(w.life)
	}
	r := t.route([]byte(m.topic))
	t.use(&m)
	if v := t.inspect(client, r.inspectors); !v.Allowed() {
		t.b.log.Info("will refused", "client", client.ID, "topic", w.msg.topic, "reason", v.Text)
		return
	}
	if m.qos > 0 && w.since != 0 && t.b.index.peers != nil {
		t.origin = origin{number: uint64(w.since), again: w.again, run: w.run}
	}
	t.publishLoaded(client, r)
	t.count.wills++
}

func (t *turn) mayWill(client *Client, m *message) Verdict {
	if may := t.b.options.MayWill; may != nil {
		if v := may(client); !v.Allowed() {
			return v
		}
	}
	return t.b.options.Permissions.MayPublish(client, m.topic, m.retain)
}
