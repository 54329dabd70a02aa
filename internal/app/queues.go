package app

import (
	"context"

	"github.com/aibridge/aibridge/broker"
	"github.com/aibridge/aibridge/cluster"
	mqttdoor "github.com/aibridge/aibridge/doors/mqtt"
	"github.com/aibridge/aibridge/doors/mqtt/queue"
)

// newQueues makes the keeper of queues, and where some are configured has its rules count
// for $queue. It ends after the broker, which tells it what workers have.
func newQueues(s *state, d *domains, options *mqttdoor.ServerOptions) *queue.Keeper {
	o := queue.Options{
		Queues: s.config.Queues, Table: d.queued, Registerer: s.metrics, Log: s.log,
		MayHear: func(c *broker.Client, filter string) broker.Verdict {
			r := d.rights.MaySubscribe(c.Principal(), filter)
			return broker.Verdict{Reason: r.Reason, Text: r.Text}
		},
	}
	if d.relay != nil {
		o.Self = s.Members.Self().String()
		o.Gone = func(ctx context.Context, process string) bool {
			node, err := cluster.ParseNode(process)
			return err == nil && s.Members.Catchup(ctx) == nil && !s.Members.Alive(node)
		}
	}
	k := queue.Open(o)
	s.life.Add("queues", k.Close)
	if len(s.config.Queues) > 0 {
		options.Broker.Lending = queue.Prefix
		options.Profiles = append(options.Profiles, mqttdoor.Profile{Root: queue.Prefix, Topics: func() mqttdoor.Topics { return k }})
	}
	return k
}
