package bench

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// InvokeOptions configure [Invoke].
type InvokeOptions struct {
	// Bridge is the command that runs a bridge, without flags: the path of
	// aibridge, "serve". It is given --dev, an address and a folder.
	Bridge []string
	// AuditOff measures the bridge once more without its audit trail, which
	// records every call.
	AuditOff bool
	// SyncAlways measures it once more with --sync always, which makes claims
	// survive a power cut.
	SyncAlways bool
	// Bare are the brokers for bare request and reply. Ratios refer to the
	// first.
	Bare []Peer

	// Web measures calls by the HTTP doors instead of MQTT, beside [KindHTTP]; Windows
	// and Bare are ignored then.
	Web bool

	// Model, if not nil, has clients ask a language model by llm.query instead, beside
	// the model alone; Windows and Bare mean nothing then. It is of [KindModel].
	Model *Peer

	// Processors are the numbers of processors that the bridge is measured with besides,
	// as it would be on a machine that has so many (GOMAXPROCS).
	Processors []int

	Agents  int   // that are called, each by its share of the callers; default 1
	Callers []int // clients that call them, each a scenario; default 50 and 1
	Windows []int // calls each of them has open at a time, default 1 and 16
	Payload int   // bytes of a request, and approximately of an answer; default 512

	Rounds           int           // default 3
	Warmup, Duration time.Duration // of each run, default 500 ms and 3 s
	Patience         time.Duration // without progress, default 2 s
	Messages         int64         // see [Options]
	Quiet            float64       // see [Options]
	Progress         func(line string)
}

func (o *InvokeOptions) setDefaults() error {
	if len(o.Bridge) == 0 {
		return errors.New("bench: no command that runs a bridge")
	}
	if len(o.Callers) == 0 {
		o.Callers = []int{50, 1}
	}
	o.Agents = cmp.Or(o.Agents, 1)
	if o.Agents < 1 || o.Agents > maxConnections {
		return fmt.Errorf("bench: %d agents are out of range", o.Agents)
	}
	for _, n := range o.Processors {
		if n < 1 {
			return fmt.Errorf("bench: a bridge cannot run on %d processors", n)
		}
	}
	o.Payload = cmp.Or(o.Payload, 512)
	if o.Web || o.Model != nil {
		o.Windows = []int{1}
	}
	if o.Model != nil {
		o.Bare = []Peer{*o.Model}
	}
	if len(o.Windows) == 0 {
		o.Windows = []int{1, 16}
	}
	if o.Payload < minInvokePayload {
		return fmt.Errorf("bench: a call of %d bytes cannot be made, at least %d", o.Payload, minInvokePayload)
	}
	return nil
}

// minInvokePayload is the size of the envelope alone, in bytes.
const minInvokePayload = 400

// bareSuffix is the suffix of the name of a broker that carries bare requests and
// replies.
const bareSuffix = ", bare"

// peers are the bare brokers and then the bridge.
func (o *InvokeOptions) peers() []Peer {
	peers := slices.Clone(o.Bare)
	for i := range peers {
		if !o.Web && o.Model == nil {
			peers[i].Name += bareSuffix
		}
	}
	peers = append(peers, bridgePeer(bridgeName, o.Bridge))
	if o.AuditOff {
		peers = append(peers, bridgePeer(bridgeName+", audit off", o.Bridge, "--audit-level", "off"))
	}
	if o.SyncAlways {
		peers = append(peers, bridgePeer(bridgeName+", sync always", o.Bridge, "--sync", "always"))
	}
	for _, n := range o.Processors {
		peers = append(peers, o.limited(n))
	}
	return peers
}

// limited is the bridge on a number of processors.
func (o *InvokeOptions) limited(processors int) Peer {
	command := append([]string{"env", "GOMAXPROCS=" + strconv.Itoa(processors)}, o.Bridge...)
	return bridgePeer(limitedName(processors), command)
}

func limitedName(processors int) string {
	return fmt.Sprintf("%s, GOMAXPROCS %d", bridgeName, processors)
}

// bridgePeer is a whole bridge, run by a command with more flags.
func bridgePeer(name string, command []string, more ...string) Peer {
	p := Peer{Name: name, bridge: true, Serves: []Over{OverHTTP, OverHTTP2, OverMCP, OverLLM}, Command: func(address, dir string) ([]string, error) {
		argv := append(slices.Clone(command), "--dev", "--mqtt", address, "--http", "127.0.0.1:0", "--ws", "127.0.0.1:0",
			"--data", dir, "--log-level", "error")
		return append(argv, more...), nil
	}}
	p.Over = func(_ Over, address, dir string) ([]string, error) { return p.Command(address, dir) }
	return p
}

// invokeName begins the names of scenarios that invoke a skill.
const invokeName = "skill.invoke"

// isInvoke reports whether a scenario invokes a skill of a bridge.
func (s Scenario) isInvoke() bool { return strings.HasPrefix(s.Name, invokeName) }

// options returns the options for a comparison of brokers.
func (o *InvokeOptions) options() Options {
	out := Options{
		Peers: o.peers(), Rounds: o.Rounds, Warmup: o.Warmup, Duration: o.Duration,
		Patience: o.Patience, Messages: o.Messages, Quiet: o.Quiet, Progress: o.Progress, Model: o.Model,
	}
	for _, n := range o.Callers {
		if o.Model != nil {
			out.Scenarios = append(out.Scenarios, queries(n, o.Payload)...)
			continue
		}
		callers := fmt.Sprintf("%d callers", n)
		if n == 1 {
			callers = "one caller"
		}
		if o.Agents > 1 {
			callers += fmt.Sprintf(" and %d agents", o.Agents)
		}
		for _, w := range o.Windows {
			out.Scenarios = append(out.Scenarios, Scenario{
				Name: fmt.Sprintf(invokeName+", %s, window %d", callers, w), Shape: Ask,
				Publishers: n, Agents: o.Agents, QoS: 1, Payload: o.Payload, Window: w,
			})
		}
	}
	if o.Web {
		out.Scenarios = overWeb(out.Scenarios)
	}
	return out
}
