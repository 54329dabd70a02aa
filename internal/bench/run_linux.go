package bench

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"sync"
	"time"
)

// A target is a running broker under load.
type target struct {
	address netip.AddrPort
	version byte
	pid     int  // 0 if its figures are not wanted
	bridge  bool // questions are invocations of a skill

	web    netip.AddrPort // where it serves HTTP, if that is measured
	silent bool           // it has no MQTT, and answers invocations itself

	hears  netip.AddrPort   // address for receivers, if it differs
	spread []netip.AddrPort // servers over which all clients spread evenly, if there are several
	beside []int            // further processes whose processor time counts for the broker
}

// A rig is everything of one run.
type rig struct {
	scenario Scenario
	target   target
	load     *load
	pump     *pump

	asking, hearing *loop // two threads: publishers and receivers
	subscribers     []*subscriber
	requesters      []*requester
	web             []*webCaller
	http2           []*http2Caller // those of them that have no connection of their own
	latency         histogram      // of the loop that measures
}

// measure puts one load on one broker and returns the result. An error is about the
// machine or the scenario; faults of the broker are in the result.
func measure(ctx context.Context, s Scenario, t target, o Options) (Result, error) {
	start := time.Now()
	r := &rig{scenario: s, target: t, load: &load{limit: o.Messages, copies: 1}}
	var err error
	if r.asking, err = newLoop(start); err != nil {
		return Result{}, err
	}
	defer r.asking.close()
	if r.hearing, err = newLoop(start); err != nil {
		return Result{}, err
	}
	defer r.hearing.close()

	if s.Shape == Idle {
		return r.crowd(ctx, o)
	}
	result := s.result()
	if err := r.connect(); err != nil {
		result.Err = err.Error()
		return result, nil
	}
	stop := r.startLoops()
	defer stop()
	if err := r.awaitReady(ctx, o.Patience); err != nil {
		result.Err = err.Error()
		return result, ctx.Err()
	}
	stalled := r.drive(ctx, o, &result)
	stop()
	r.count(&result)
	if err := r.failure(); err != nil {
		result.Err = err.Error()
	} else if text := r.load.complaint.Load(); text != nil {
		result.Err = "not what was asked for: " + *text
	} else if stalled {
		result.Err = "stalled"
	}
	return result, ctx.Err()
}

// connect opens all connections; their handshakes proceed in the loops.
func (r *rig) connect() error {
	l, s := r.load, r.scenario
	l.senders = r.asking
	r.pump = &pump{load: l, loop: r.asking, batch: s.Batch, rate: s.Rate}
	if s.Shape == Flow {
		if !s.Pairs {
			l.copies = int64(s.Subscribers)
		}
		if s.QoS == 0 && s.Rate == 0 {
			r.pump.window = int64(s.Window) * int64(s.Publishers) * l.copies
			l.enough = r.pump.window / 2
		}
	}
	r.asking.turn = r.pump.turn
	switch {
	case s.Shape == Flow:
		return r.connectFlow()
	case r.target.bridge, s.Over.isWeb():
		return r.connectInvoke()
	}
	return r.connectAsk()
}

func (r *rig) connectFlow() error {
	s := r.scenario
	topic := func(i int) string { return "bench/flow/" + strconv.Itoa(i) }
	for i := range s.Subscribers {
		role := &subscriber{load: r.load, size: s.Payload, streams: make([]stream, s.Publishers), latency: &r.latency}
		filter := "bench/flow/+"
		switch {
		case s.Pairs:
			filter, role.first, role.streams = topic(i), i, role.streams[:1]
		case s.Publishers == 1:
			filter = topic(0)
		}
		r.subscribers = append(r.subscribers, role)
		if _, err := r.dial(r.hearing, "sub", i, filter, role); err != nil {
			return err
		}
	}
	for i := range s.Publishers {
		role := newPublisher(r.load, s, r.target.version, topic(i), i)
		c, err := r.dial(r.asking, "pub", i, "", role)
		if err != nil {
			return err
		}
		role.c = c
		r.pump.senders = append(r.pump.senders, role)
	}
	return nil
}

func (r *rig) connectAsk() error {
	s := r.scenario
	if s.Shape == Ask {
		if _, err := r.dial(r.hearing, "responder", 0, askPrefix+"+", newResponder(s, r.target.version)); err != nil {
			return err
		}
	}
	for i := range s.Publishers {
		role := newRequester(r.load, s, r.target.version, i, &r.latency)
		c, err := r.dial(r.asking, "requester", i, replyPrefix+strconv.Itoa(i), role)
		if err != nil {
			return err
		}
		r.enlist(role, c)
	}
	return nil
}

// enlist lets a requester take part.
func (r *rig) enlist(role *requester, c *conn) {
	role.c = c
	r.requesters = append(r.requesters, role)
	r.pump.senders = append(r.pump.senders, role)
}

func (r *rig) dial(l *loop, kind string, index int, filter string, role role) (*conn, error) {
	return r.dialAt(l, r.target.at(l == r.hearing, index), "bench-"+kind+"-"+strconv.Itoa(index), filter, role)
}

func (r *rig) dialAs(l *loop, clientID, filter string, role role) (*conn, error) {
	return r.dialAt(l, r.target.at(l == r.hearing, 0), clientID, filter, role)
}

// at is the address for a client, by its index among the receivers or the senders. If
// clients are spread, the receivers of one server's senders are spread, too.
func (t *target) at(hears bool, index int) netip.AddrPort {
	n := len(t.spread)
	switch {
	case n > 0 && hears:
		return t.spread[index/n%n]
	case n > 0:
		return t.spread[index%n]
	case hears && t.hears.IsValid():
		return t.hears
	}
	return t.address
}

func (r *rig) dialAt(l *loop, address netip.AddrPort, clientID, filter string, role role) (*conn, error) {
	d := dialling{
		address: address, version: r.target.version, clientID: clientID,
		filter: filter, qos: r.scenario.QoS, over: r.scenario.Over, silent: r.scenario.Shape == Idle,
	}
	if d.over.isWeb() {
		d.over = OverTCP // of the agent
	}
	if filter != "" {
		d.receiveMaximum = r.scenario.ReceiveMaximum
	}
	return l.dial(d, role)
}

// startLoops runs both loops until the returned function is called, which may
// be called again.
func (r *rig) startLoops() (stop func()) {
	var threads sync.WaitGroup
	for _, l := range []*loop{r.asking, r.hearing} {
		threads.Go(l.run)
	}
	for _, c := range r.http2 {
		threads.Go(c.run)
	}
	return func() {
		for _, l := range []*loop{r.asking, r.hearing} {
			l.stop.Store(true)
			l.wake()
		}
		for _, c := range r.http2 {
			c.stop()
		}
		threads.Wait()
	}
}

func (r *rig) awaitReady(ctx context.Context, patience time.Duration) error {
	want := int64(len(r.asking.conns) + len(r.hearing.conns))
	ready := func() int64 { return r.asking.ready.Load() + r.hearing.ready.Load() }
	err := r.await(ctx, max(patience, 5*time.Second), ready, func() bool { return ready() == want })
	if errors.Is(err, errStalled) {
		return fmt.Errorf("%d of %d clients could connect", ready(), want)
	}
	return err
}

var errStalled = errors.New("no progress")

// await waits for done, as long as progress changes now and then and no
// connection is lost.
func (r *rig) await(ctx context.Context, patience time.Duration, progress func() int64, done func() bool) error {
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	last, changed := progress(), time.Now()
	for !done() {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		if err := r.failure(); err != nil {
			return err
		}
		if now := progress(); now != last {
			last, changed = now, time.Now()
		} else if time.Since(changed) > patience {
			return errStalled
		}
	}
	return nil
}

func (r *rig) failure() error {
	for _, l := range []*loop{r.asking, r.hearing} {
		if err := l.firstErr.Load(); err != nil {
			return fmt.Errorf("%d connections lost, first: %w", l.lost.Load(), *err)
		}
	}
	return nil
}

// drive starts the senders, measures, stops them and waits for the outstanding
// deliveries. It reports whether the broker stalled.
func (r *rig) drive(ctx context.Context, o Options, result *Result) (stalled bool) {
	l := r.load
	warmup := o.Warmup
	if l.limit > 0 {
		warmup = 0
		l.measuring.Store(true)
	}
	before := r.sample()
	l.sending.Store(true)
	r.asking.wake()
	stalled = r.pass(ctx, warmup, o.Patience)
	if warmup > 0 {
		before = r.sample()
		l.measuring.Store(true)
	}
	if !stalled {
		stalled = r.pass(ctx, o.Duration, o.Patience)
	}
	after := r.sample()
	l.measuring.Store(l.limit > 0)
	l.sending.Store(false)
	// Losses at QoS 0 show as silence, for which a short wait suffices.
	err := r.await(ctx, o.Patience, l.progress, r.settled)
	stalled = stalled || errors.Is(err, errStalled) && r.scenario.QoS > 0
	if l.limit > 0 {
		after = r.sample()
	}
	result.fill(before, after)
	return stalled
}

// sample takes the figures of one moment of the run.
func (r *rig) sample() moment {
	m := sample(r.target.pid, r.load)
	for _, pid := range r.target.beside {
		m.broker += processorTimeOf(pid)
		m.memory += memoryOf(pid)
	}
	return m
}

// pass lets time go by, unless the load is all sent, nothing moves any more or
// a connection is lost.
func (r *rig) pass(ctx context.Context, d, patience time.Duration) (stalled bool) {
	end := time.Now().Add(d)
	err := r.await(ctx, patience, r.load.progress, func() bool {
		return time.Now().After(end) || r.load.limit > 0 && r.load.sent.Load() >= r.load.limit
	})
	return errors.Is(err, errStalled)
}

// settled reports whether all sent messages have arrived or, without acknowledgements,
// were overtaken by later ones.
func (r *rig) settled() bool {
	arrived := r.load.progress()
	if r.scenario.QoS == 0 {
		arrived = r.load.accounted()
	}
	return arrived >= r.load.sent.Load()*r.load.copies
}

// count adds up the counts of the roles, after the loops have stopped.
func (r *rig) count(result *Result) {
	result.Sent = r.load.sent.Load()
	result.Refused, result.Garbled = r.load.refused.Load(), r.load.garbled.Load()
	add := func(s *stream) {
		result.Received += s.distinct
		result.Duplicates += s.duplicates
		result.Disordered += s.disordered
	}
	for _, sub := range r.subscribers {
		for i := range sub.streams {
			add(&sub.streams[i])
		}
	}
	for _, req := range r.requesters {
		if r.target.bridge {
			req.answers.disordered = 0 // a bridge runs calls side by side
		}
		add(&req.answers)
	}
	for _, c := range r.web {
		add(&c.answered)
	}
	for _, c := range r.http2 {
		r.latency.merge(c.latency)
	}
	result.P50, result.P99 = r.latency.quantile(0.50), r.latency.quantile(0.99)
	result.Lost = result.Sent*r.load.copies - result.Received
}

// crowd connects many idle clients, a few at a time, and measures their cost.
func (r *rig) crowd(ctx context.Context, o Options) (Result, error) {
	const atOnce = 64
	s, l := r.scenario, r.asking
	result := s.result()
	l.turn = func() time.Duration {
		for n := len(l.conns); n < s.Subscribers && n-int(l.ready.Load()) < atOnce; n++ {
			if _, err := r.dial(l, "idle", n, "bench/idle/"+strconv.Itoa(n), idler{}); err != nil {
				l.fail(err)
				l.stop.Store(true)
				break
			}
		}
		return -1
	}
	before := r.sample()
	stop := r.startLoops()
	defer stop()
	err := r.await(ctx, max(o.Patience, 5*time.Second), l.ready.Load, func() bool { return l.ready.Load() == int64(s.Subscribers) })
	after := r.sample()
	after.received = before.received + l.ready.Load()
	result.fill(before, after)
	if err != nil {
		result.Err = fmt.Sprintf("%d of %d clients could connect: %v", l.ready.Load(), s.Subscribers, err)
		return result, ctx.Err()
	}
	// The memory of connecting goes back to the system after a while.
	select {
	case <-time.After(min(o.Duration, 3*time.Second)):
	case <-ctx.Done():
		return result, ctx.Err()
	}
	if err := r.failure(); err != nil {
		result.Err = err.Error()
	}
	result.Memory = memoryOf(r.target.pid)
	result.PerClient = (result.Memory - before.memory) / int64(s.Subscribers)
	result.Sent, result.Received = int64(s.Subscribers), l.ready.Load()
	return result, nil
}
