package drill

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/eclipse/paho.golang/packets"
	"golang.org/x/sync/errgroup"
)

// Drain has one of three bridges end that all work, with so many clients of its own,
// half of them with kept sessions, while messages for these are published at another.
func Drain(ctx context.Context, o Options, clients int, window time.Duration) (DrainReport, error) {
	o.Mode = Many
	if err := o.setDefaults(); err != nil {
		return DrainReport{}, err
	}
	if clients < 1 || clients > 50_000 {
		return DrainReport{}, fmt.Errorf("drill: clients are 1 to 50000, not %d", clients)
	}
	// They are all one principal, which may have half of all places.
	o.Flags = append(o.Flags, fmt.Sprintf("--limits-connections=%d", 3*clients+1000),
		"--quotas-principal-connections=-1", "--quotas-principal-sessions=-1", "--quotas-space-connections=-1", "--quotas-space-sessions=-1")
	o.Flags = append(o.Flags, fmt.Sprintf("--cluster-drain-window-seconds=%d", int(window.Seconds())))
	record := newRecorder()
	cluster, err := newCluster(ctx, &o, record)
	defer cluster.close()
	if err != nil {
		return DrainReport{}, err
	}
	d := &drain{cluster: cluster, record: record, progress: o.Progress}
	for i := range clients {
		g := &guest{drain: d, name: fmt.Sprintf("guest-%d", i), keeps: i%2 == 0, got: make(map[int]int)}
		d.guests = append(d.guests, g)
		if g.keeps {
			d.kept = append(d.kept, g)
		}
	}
	report, err := d.measure(ctx)
	report.Clients, report.Keep, report.Window = clients, len(d.kept), window
	return report, err
}

// A drain is one measurement.
type drain struct {
	cluster  *cluster
	record   *recorder
	progress func(string)
	guests   []*guest
	kept     []*guest // guests of these with kept sessions
	returned atomic.Int64
	ended    atomic.Bool // by which clients stay away
}

func (d *drain) measure(ctx context.Context) (r DrainReport, err error) {
	leaving, host := d.cluster.bridges[0], d.cluster.bridges[1].endpoint
	var arriving errgroup.Group
	arriving.SetLimit(64)
	for _, g := range d.guests {
		arriving.Go(func() error { return g.arrive(ctx, leaving.endpoint) })
	}
	if err := arriving.Wait(); err != nil {
		return r, err
	}
	d.progress(fmt.Sprintf("%d clients are connected", len(d.guests)))
	var staying sync.WaitGroup
	defer staying.Wait()
	defer d.dismiss()
	for _, g := range d.guests {
		staying.Go(func() { g.stay(ctx) })
	}
	sender := newSender(d, host)
	defer sender.leave(false)
	if err := d.cluster.until(ctx, "messages are acknowledged", func(context.Context) error { return sender.some(len(d.kept) / 10) }); err != nil {
		return r, err
	}
	began := time.Now()
	if err := leaving.retire(func() error { return d.ask(ctx, host, leaving.endpoint) }); err != nil {
		return r, err
	}
	r.Took = time.Since(began)
	d.progress("the bridge has ended")
	err = d.cluster.until(ctx, "all clients are back", func(context.Context) error {
		if n := d.returned.Load(); int(n) < len(d.guests) {
			return fmt.Errorf("%d of %d", n, len(d.guests))
		}
		return nil
	})
	r.Back = time.Since(began)
	if err != nil {
		return r, err
	}
	err = sender.finish(ctx)
	d.count(&r, sender)
	return r, err
}

// ask has one bridge drain another, as "aibridge cluster drain" does.
func (d *drain) ask(ctx context.Context, at, leaving endpoint) error {
	c := newCaller("drill-operator", 0, []endpoint{at}, d.cluster.http, d.record, nil)
	response, err := c.once(ctx, at, "bridge.drain", map[string]any{"bridge_id": leaving.name})
	if code := codeOf(response, err); code != "" {
		return fmt.Errorf("%s does not drain %s: %s", at.name, leaving.name, code)
	}
	return nil
}

// count sums up the outcome of all clients.
func (d *drain) count(r *DrainReport, s *sender) {
	acked := s.acked()
	r.Acknowledged = len(acked)
	var left, back []time.Time
	for _, g := range d.guests {
		g.mu.Lock()
		if g.told {
			r.Told++
		}
		if g.found {
			r.Kept++
		}
		left, back = append(left, g.left), append(back, g.back)
		for _, n := range g.got {
			r.Repeated += n - 1
		}
		g.mu.Unlock()
	}
	r.returned(left, back)
	for number := range acked {
		if !d.of(number).has(number) {
			r.Lost++
		}
	}
}

// of is the receiver of a message.
func (d *drain) of(number int) *guest { return d.kept[number%len(d.kept)] }

// dismiss disconnects all clients.
func (d *drain) dismiss() {
	d.ended.Store(true)
	for _, g := range d.guests {
		g.mu.Lock()
		if g.wire != nil {
			_ = g.wire.conn.Close()
		}
		g.mu.Unlock()
	}
}

// A guest is a client of the bridge that ends. It follows the reference to another
// server.
type guest struct {
	*drain
	name  string
	keeps bool // its session outlives the connection

	mu    sync.Mutex
	wire  *wire
	told  bool // where to go
	found bool // its session was there
	left  time.Time
	back  time.Time
	got   map[int]int
}

func (g *guest) topic() string { return "drill/guest/" + g.name }

func (g *guest) has(number int) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.got[number] > 0
}

func (g *guest) dial(ctx context.Context, to endpoint) error {
	keep := uint32(0)
	if g.keeps {
		keep = expiry
	}
	w, err := dial(ctx, to, &packets.Connect{
		ProtocolName: "MQTT", ProtocolVersion: 5, ClientID: g.name, Properties: &packets.Properties{SessionExpiryInterval: &keep},
	}, longPatience)
	if err == nil {
		g.mu.Lock()
		g.wire = w
		g.mu.Unlock()
	}
	return err
}

// arrive connects and subscribes.
func (g *guest) arrive(ctx context.Context, to endpoint) error {
	if err := g.dial(ctx, to); err != nil {
		return err
	}
	if err := g.subscribe(); err != nil {
		return err
	}
	answer, err := packets.ReadPacket(g.wire.read)
	if err != nil {
		return err
	}
	if _, ok := answer.Content.(*packets.Suback); !ok {
		return fmt.Errorf("drill: SUBSCRIBE was answered by %s", answer)
	}
	return nil
}

func (g *guest) subscribe() error {
	return g.wire.write(&packets.Subscribe{PacketID: 1, Properties: &packets.Properties{}, Subscriptions: []packets.SubOptions{{Topic: g.topic(), QoS: 1}}})
}

// stay reads until the connection ends, connects to the server of the reference, and
// stays there.
func (g *guest) stay(ctx context.Context) {
	elsewhere := g.read()
	if g.ended.Load() {
		return
	}
	left := time.Now()
	// Without a reference a client tries another address of its own list.
	to := endpoint{mqtt: cmp.Or(elsewhere, g.cluster.bridges[1].mqtt)}
	for g.dial(ctx, to) != nil {
		if g.ended.Load() || !pause(ctx, 100*time.Millisecond) {
			return
		}
	}
	g.mu.Lock()
	g.told, g.found, g.left, g.back = elsewhere != "", g.wire.present, left, time.Now()
	g.mu.Unlock()
	g.returned.Add(1)
	if !g.found && g.subscribe() != nil {
		return
	}
	g.read()
}

// read reads packets until the connection ends. It returns the first server reference,
// "" for none.
func (g *guest) read() string {
	for {
		packet, err := packets.ReadPacket(g.wire.read)
		if err != nil {
			return ""
		}
		switch p := packet.Content.(type) {
		case *packets.Publish:
			if _, number, ok := parseMessage(p.Payload); ok {
				g.mu.Lock()
				g.got[number]++
				g.mu.Unlock()
			}
			_ = g.wire.write(&packets.Puback{PacketID: p.PacketID, Properties: &packets.Properties{}})
		case *packets.Disconnect:
			const moved = 0x9D
			if p.ReasonCode == moved && p.Properties != nil {
				first, _, _ := strings.Cut(p.Properties.ServerReference, " ")
				return first
			}
			return ""
		}
	}
}

// A sender publishes to guests, one after the other, at a bridge that stays.
type sender struct {
	*session
	drain   *drain
	stop    context.CancelFunc
	running sync.WaitGroup
	number  int
}

func newSender(d *drain, at endpoint) *sender {
	s := &sender{drain: d, session: &session{name: "drill-sender", kept: true, nodes: []endpoint{at}, record: d.record}}
	s.session.start()
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	s.running.Go(func() {
		for pause(ctx, time.Millisecond) {
			if s.publish(d.of(s.number+1).topic(), "guests", s.number+1, 1, false) {
				s.number++
			}
		}
	})
	return s
}

func (s *sender) leave(abrupt bool) {
	s.stop()
	s.running.Wait()
	s.session.leave(abrupt)
}

func (s *sender) some(n int) error {
	if got := s.acks(); got < n {
		return fmt.Errorf("%d of %d", got, n)
	}
	return nil
}

// acked returns the numbers of acknowledged messages.
func (s *sender) acked() map[int]bool {
	numbers := make(map[int]bool)
	for _, e := range s.record.history() {
		if e.Kind == Acked {
			numbers[e.Number] = true
		}
	}
	return numbers
}

// finish stops the sender, and waits until all acknowledged messages have arrived, or
// no more arrive.
func (s *sender) finish(ctx context.Context) error {
	s.stop()
	s.running.Wait()
	err := s.drain.cluster.until(ctx, "all is acknowledged", func(context.Context) error {
		if n := s.waiting(); n > 0 {
			return fmt.Errorf("%d messages are not", n)
		}
		return nil
	})
	if err != nil {
		return err
	}
	acked := s.acked()
	// The messages that do not come are counted.
	_ = s.drain.cluster.until(ctx, "all has come", func(context.Context) error {
		for number := range acked {
			if !s.drain.of(number).has(number) {
				return fmt.Errorf("%d has not", number)
			}
		}
		return nil
	})
	return ctx.Err()
}
