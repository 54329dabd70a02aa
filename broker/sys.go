package broker

import (
	"cmp"
	"strconv"
	"time"
)

// publishSys publishes the broker's figures under $SYS/broker, retained,
// until stop is closed.
func (b *Broker) publishSys(stop <-chan struct{}) {
	start := time.Now()
	ticker := time.NewTicker(b.options.SysInterval)
	defer ticker.Stop()
	for {
		b.sys(int(time.Since(start).Seconds()))
		select {
		case <-stop:
			return
		case <-ticker.C:
		}
	}
}

func (b *Broker) sys(uptime int) {
	n := b.counters()
	s := &b.stats
	var in, out, received, sent uint64
	for _, d := range s.allDoors() {
		in += d.bytesIn.Load()
		out += d.bytesOut.Load()
	}
	for q := range 3 {
		received += s.received[q].Load()
		sent += s.sent[q].Load()
	}
	t := b.getTurn().begin()
	defer b.putTurn(t)
	t.own = true
	put := func(name, value string) {
		m := &message{topic: "$SYS/broker/" + name, payload: []byte(value), retain: true, to: administrators, here: true}
		t.use(m)
		b.retained.set(m, retainLimits{bytes: b.options.Limits.RetainedBytes}, func(*message) {})
		t.deliver(t.route([]byte(m.topic)))
	}
	number := func(name string, v uint64) { put(name, strconv.FormatUint(v, 10)) }
	put("version", "aibridge version "+cmp.Or(b.options.Version, "unknown"))
	put("uptime", strconv.Itoa(uptime)+" seconds")
	number("clients/connected", uint64(n.clients))
	number("clients/disconnected", uint64(max(0, n.sessions-n.clients)))
	number("clients/total", uint64(n.sessions))
	number("subscriptions/count", uint64(n.subscriptions))
	number("retained messages/count", uint64(n.retained))
	number("messages/received", received)
	number("messages/sent", sent)
	number("publish/messages/dropped", s.dropped.Load())
	number("bytes/received", in)
	number("bytes/sent", out)
}
