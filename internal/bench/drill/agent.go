package drill

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aibridge/aibridge/client"
	"github.com/aibridge/aibridge/protocol"
)

// A balancer is the one address of all bridges: each connection goes to the next
// node that takes it.
type balancer struct {
	listener net.Listener
	nodes    []endpoint
	next     atomic.Int64
}

func newBalancer(host string, home int, nodes []endpoint) (*balancer, error) {
	listener, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		return nil, err
	}
	b := &balancer{listener: listener, nodes: nodes}
	b.next.Store(int64(home))
	go b.accept()
	return b, nil
}

func (b *balancer) accept() {
	for {
		from, err := b.listener.Accept()
		if err != nil {
			return
		}
		go b.carry(from)
	}
}

func (b *balancer) carry(from net.Conn) {
	defer from.Close()
	for range b.nodes {
		to, err := net.DialTimeout("tcp", b.nodes[int(b.next.Load())%len(b.nodes)].mqtt, longPatience)
		if err != nil {
			b.next.Add(1)
			continue
		}
		join(from, to)
		b.next.Add(1) // the connection ended: the next node may be better
		return
	}
}

// join copies both ways until one ends.
func join(a, b net.Conn) {
	var both sync.WaitGroup
	one := func(to, from net.Conn) {
		_, _ = io.Copy(to, from)
		_, _ = to.Close(), from.Close()
	}
	both.Go(func() { one(a, b) })
	both.Go(func() { one(b, a) })
	both.Wait()
}

// An agent serves a skill through the SDK, and counts what it runs.
type agent struct {
	name, skill string
	address     string // of the balancer
	record      *recorder
}

// serve serves until ctx ends, with a new client after each one that ends for good. It
// calls serving once, at the first registration of the skill.
func (a *agent) serve(ctx context.Context, serving func()) {
	for pause(ctx, 100*time.Millisecond) {
		c, err := client.Dial(ctx, "mqtt://"+a.address, client.WithAgent(client.Agent{ID: protocol.AgentID(a.name)}), client.WithKeepAlive(5*time.Second))
		if err != nil {
			continue
		}
		if _, err := c.ServeSkill(ctx, a.does()); err == nil {
			serving()
			select {
			case <-c.Done():
			case <-ctx.Done():
			}
		}
		_ = c.Close()
	}
}

type job struct {
	Job string `json:"job"`
}

func (a *agent) does() client.Skill {
	return client.Skill{
		ID: protocol.SkillID(a.skill), Name: a.skill, Description: fmt.Sprintf("Counts what %s is asked for", a.name), Version: "1.0.0",
		// Models may call the first capability at once, and the other with an approval.
		Capabilities: []client.Capability{{ID: "do", Handler: client.Handle(a.do)}, {ID: "risk", Risk: "high", Handler: client.Handle(a.do)}},
	}
}

func (a *agent) do(_ context.Context, _ *client.Invocation, j job) (job, error) {
	a.record.add(Event{Kind: Executed, Client: a.name, ID: j.Job})
	return j, nil
}
