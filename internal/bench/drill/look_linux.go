package drill

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/eclipse/paho.golang/packets"

	"github.com/aibridge/aibridge/protocol"
)

// look records the acknowledged state that every serving node has.
func (w *crew) look(ctx context.Context) {
	serving := w.cluster.serving(ctx)
	var looking sync.WaitGroup
	for _, b := range serving {
		for _, stream := range w.retainedStreams() {
			looking.Go(func() { w.lookRetained(ctx, b.endpoint, stream) })
		}
	}
	for _, c := range w.callers {
		registrations, tasks := c.harvest()
		for _, b := range serving {
			looking.Go(func() { w.lookRegistrations(ctx, c, b.endpoint, registrations) })
		}
		if len(serving) > 0 {
			looking.Go(func() { w.lookTasks(ctx, c, serving[0].endpoint, tasks) })
		}
	}
	looking.Wait()
}

// lookRetained subscribes anew on a node, and records the retained messages.
func (w *crew) lookRetained(ctx context.Context, at endpoint, stream string) {
	want := 0
	for _, e := range w.record.history() {
		if e.Kind == Acked && e.Stream == stream {
			want = max(want, e.Number)
		}
	}
	var got atomic.Int64
	s := w.newSession("look-"+at.name+"-"+stream, false, 0, topicFlow+"/"+stream)
	s.nodes = []endpoint{at}
	s.hear = func(_ *session, _ *wire, p *packets.Publish) {
		if _, number, ok := parseMessage(p.Payload); ok {
			got.Store(int64(number))
		}
	}
	s.start()
	_ = w.cluster.until(ctx, "the retained message", func(context.Context) error {
		if have := got.Load(); have < int64(want) {
			return fmt.Errorf("it is %d instead of %d", have, want)
		}
		return nil
	})
	s.leave(false)
	w.record.add(Event{Kind: Retained, Node: at.name, Stream: stream, Number: int(got.Load())})
}

// lookRegistrations asks a node for the acknowledged registrations.
func (w *crew) lookRegistrations(ctx context.Context, c *caller, at endpoint, ids []string) {
	for _, id := range ids {
		code := ""
		_ = w.cluster.until(ctx, "the registration", func(ctx context.Context) error {
			code = codeOf(c.once(ctx, at, "resource.get", map[string]any{"resource_id": id}))
			if code != "" {
				return fmt.Errorf("it answers %s", code)
			}
			return nil
		})
		w.record.add(Event{Kind: Stored, Client: c.name, Node: at.name, ID: id, Code: code})
	}
}

// lookTasks waits until the tasks have ended.
func (w *crew) lookTasks(ctx context.Context, c *caller, at endpoint, tasks map[string]string) {
	for id, task := range tasks {
		state := ""
		_ = w.cluster.until(ctx, "the end of the task", func(ctx context.Context) error {
			state = c.taskState(ctx, at, task)
			if state == statePending || state == stateRunning {
				return fmt.Errorf("it is %s", state)
			}
			return nil
		})
		w.record.add(Event{Kind: Ended, Client: c.name, Node: at.name, ID: id, Code: state})
		code := ""
		if state == string(protocol.NotFound) {
			code = state
		}
		w.record.add(Event{Kind: Stored, Client: c.name, Node: at.name, ID: id, Code: code})
	}
}

// addProber asks a node all the time whether it is ready, and holds it to that.
func (w *crew) addProber(home int) {
	b := w.cluster.bridges[home]
	s := w.newSession("probe-"+b.name(), true, 0)
	s.nodes = []endpoint{b.endpoint}
	p := &publisher{session: s, stream: streamProbe + "-" + b.name(), qos: 1}
	c := newCaller(streamProbe+"-"+b.name(), home, []endpoint{b.endpoint}, w.cluster.http, w.record, w.load)
	s.start()
	w.running.Go(func() {
		defer s.leave(false)
		for n := 1; w.load.wait(w.run, 500*time.Millisecond); n++ {
			code := w.probe(b, p, c, n)
			w.record.add(Event{Kind: Probed, Node: b.name(), Code: code})
		}
	})
}

// probe asks a node whether it is ready, has it work, and asks again.
func (w *crew) probe(b *bridgeNode, p *publisher, c *caller, n int) string {
	if w.cluster.ready(w.run, b) != nil {
		return probeUnready
	}
	failed := ""
	if p.waiting() == 0 && p.publish(topicFlow+"/"+p.stream, p.stream, p.number+1, p.qos, false) {
		p.number++
	}
	id := fmt.Sprintf("%s-%d", c.name, n)
	request, err := protocol.NewRequest("skill.invoke", map[string]any{"skill_id": fmt.Sprintf("drill-%d", c.home), "capability_id": "do", "params": job{id}})
	if err != nil {
		return err.Error()
	}
	request.ID = id
	w.record.add(Event{Kind: Asked, Client: c.name, Stream: streamProbe, ID: id})
	code := codeOf(c.ask(w.run, b.endpoint, request, 10*time.Second))
	w.record.add(Event{Kind: Answered, Client: c.name, Node: b.name(), Stream: streamProbe, ID: id, Code: code})
	if code != "" && protocol.Code(code) != protocol.AgentOffline { // its agent is elsewhere, or on its way
		failed = "skill.invoke: " + code
	}
	if p.waiting() > 0 && failed == "" {
		pause(w.run, 5*time.Second)
		if p.waiting() > 0 {
			failed = "a message of QoS 1 is not acknowledged"
		}
	}
	if failed != "" && w.cluster.ready(w.run, b) != nil {
		return probeUnready
	}
	return failed
}
