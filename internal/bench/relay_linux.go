package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// The ways that a message goes in [Relay].
const (
	wayHere   = "one bridge" // of two: publisher and subscriber are connected to it
	wayNATS   = "over NATS"
	wayDirect = "direct"

	wayAlone       = "one bridge alone"
	waySpreadNATS  = "three, over NATS"
	waySpreadLines = "three, direct"
)

// relayScenarios are the loads: both with clients whose sessions are not kept.
func relayScenarios() []Scenario {
	qos0 := Scenario{Name: "relay-qos0", Shape: Flow, Publishers: 50, Subscribers: 50, Pairs: true, Payload: 256, Window: 20}
	qos1 := qos0
	qos1.Name, qos1.QoS = "relay-qos1", 1
	paced := func(s Scenario) Scenario {
		s.Name += "-paced"
		s.Rate = 5_000
		return s
	}
	return []Scenario{qos0, qos1, paced(qos0), paced(qos1)}
}

// spreadScenarios are the relay scenarios with the clients spread evenly over three
// bridges: each bridge has subscribers of the publishers at every bridge.
func spreadScenarios() []Scenario {
	all := relayScenarios()
	for i := range all {
		all[i].Name = strings.Replace(all[i].Name, "relay", "spread", 1)
		all[i].Publishers, all[i].Subscribers = 54, 54
	}
	return all
}

// A formation is the bridges that a load is put on, and where its clients are.
type formation struct {
	bridges []string // their ids
	alone   bool     // the bridge is one that needs no NATS
	direct  bool     // there are direct lines
	spread  bool     // clients connect to all bridges evenly
	ways    []string // for each, all loads
}

// Relay measures the cost of a message between two bridges on one NATS server, compared
// with a message within one of them, and the cost at three bridges over which clients
// spread, compared with a single bridge: the processor time of all bridges and of NATS
// together.
func Relay(ctx context.Context, o RelayOptions) (Report, error) {
	run := Options{Peers: []Peer{{}}, Scenarios: relayScenarios(), Rounds: o.Rounds, Duration: o.Duration, Progress: o.Progress}
	formations := []formation{
		{bridges: []string{"a", "b"}, ways: []string{wayHere, wayNATS}},
		{bridges: []string{"a", "b"}, direct: true, ways: []string{wayHere, wayDirect}},
	}
	if o.Spread {
		run.Scenarios = spreadScenarios()
		three := []string{"a", "b", "c"}
		formations = []formation{
			{bridges: three[:1], alone: true, ways: []string{wayAlone}},
			{bridges: three, spread: true, ways: []string{waySpreadNATS}},
			{bridges: three, spread: true, direct: true, ways: []string{waySpreadLines}},
		}
	}
	if err := run.setDefaults(); err != nil {
		return Report{}, err
	}
	report := Report{Machine: machine()}
	for round := range run.Rounds {
		for _, f := range formations {
			results, err := o.measure(ctx, f, run)
			for _, r := range results {
				r.Round = round + 1
				report.Results = append(report.Results, r)
				run.Progress(progressLine(r, run.Rounds))
			}
			if err != nil {
				return report, err
			}
		}
	}
	return report, nil
}

// measure starts the bridges of a formation, and puts all loads on them.
func (o *RelayOptions) measure(ctx context.Context, f formation, run Options) (results []Result, err error) {
	fleet, err := o.start(ctx, f)
	defer fleet.stop()
	if err != nil {
		return nil, err
	}
	for _, s := range run.Scenarios {
		for _, way := range f.ways {
			at := target{address: fleet.bridges[0].address, version: version5}
			if fleet.nats != nil {
				at.beside = append(at.beside, fleet.nats.pid)
			}
			for i, b := range fleet.bridges {
				if i == 0 {
					at.pid = b.pid
				} else {
					at.beside = append(at.beside, b.pid)
				}
				if f.spread {
					at.spread = append(at.spread, b.address)
				}
			}
			if way == wayNATS || way == wayDirect {
				at.hears = fleet.bridges[1].address
			}
			result, err := measure(ctx, s, at, run)
			if err != nil {
				return results, err
			}
			result.Peer = way
			results = append(results, result)
		}
	}
	return results, fleet.went(ctx, f.direct)
}

// A fleet is bridges on a NATS server, or one that is alone.
type fleet struct {
	nats    *process // nil for none
	bridges []*process
	http    netip.AddrPort // of the first bridge
}

func (p *fleet) stop() {
	for _, b := range p.bridges {
		b.stop()
	}
	if p.nats != nil {
		p.nats.stop()
	}
}

func (o *RelayOptions) start(ctx context.Context, f formation) (p *fleet, err error) {
	p = new(fleet)
	var nats netip.AddrPort
	if !f.alone {
		if nats, err = o.startNATS(p); err != nil {
			return p, err
		}
	}
	for _, id := range f.bridges {
		if err := o.startBridge(ctx, p, id, nats, f.direct); err != nil {
			return p, err
		}
	}
	switch others := len(f.bridges) - 1; {
	case f.alone:
	case f.direct:
		err = p.await(ctx, fmt.Sprintf("aibridge_relay_direct_peers %d", others))
	default:
		err = p.await(ctx, fmt.Sprintf("aibridge_relay_peers %d", others))
	}
	return p, err
}

// startNATS starts the server, and returns where it serves clients.
func (o *RelayOptions) startNATS(p *fleet) (address netip.AddrPort, err error) {
	var at [3]netip.AddrPort // for clients, routes and health
	for i := range at {
		if at[i], err = freeAddress(); err != nil {
			return at[0], err
		}
	}
	if p.nats, err = newProcess(); err != nil {
		return at[0], err
	}
	definition, err := json.Marshal(map[string]any{
		"name": "nats", "host": at[0].Addr().String(), "port": at[0].Port(), "route": at[1].Port(), "health": at[2].Port(), "dir": p.nats.dir,
	})
	if err != nil {
		return at[0], err
	}
	return at[0], p.nats.start(append(slices.Clone(o.NATS), string(definition)), false)
}

// startBridge starts one of the bridges, with the secrets of the one before.
func (o *RelayOptions) startBridge(ctx context.Context, p *fleet, id string, nats netip.AddrPort, direct bool) error {
	b, err := newProcess()
	if err != nil {
		return err
	}
	p.bridges = append(p.bridges, b)
	for _, secret := range []string{"pepper", "ca.key", "seal.key"} {
		data, err := os.ReadFile(filepath.Join(p.bridges[0].dir, secret))
		if err == nil && len(p.bridges) > 1 {
			err = os.WriteFile(filepath.Join(b.dir, secret), data, 0o600)
		}
		if err != nil && len(p.bridges) > 1 {
			return err
		}
	}
	if b.address, err = freeAddress(); err != nil {
		return err
	}
	web, err := freeAddress()
	if err != nil {
		return err
	}
	if len(p.bridges) == 1 {
		p.http = web
	}
	argv := append(slices.Clone(o.Bridge), "--dev", "--id", id, "--data", b.dir, "--mqtt", b.address.String(), "--http", web.String(), "--ws", "127.0.0.1:0", "--mqtts", "127.0.0.1:0")
	if nats.IsValid() {
		argv = append(argv, "--nats-url", "nats://"+nats.String(), "--nats-replicas", "1", "--cluster-working", "all", "--vfs-store", "nats")
	}
	if direct {
		argv = append(argv, "--cluster-relay", "127.0.0.1:0")
	}
	if err := b.start(argv, false); err != nil {
		return err
	}
	if err := b.awaitReady(ctx, OverTCP, version5); err != nil {
		return fmt.Errorf("bridge %s does not answer: %w; it said: %s", id, err, b.output)
	}
	return nil
}

// await returns when the metrics of the first bridge have a line.
func (p *fleet) await(ctx context.Context, line string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		text, err := p.metrics(ctx)
		if err == nil && strings.Contains(text, "\n"+line+"\n") {
			return nil
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("the metrics of a bridge never had %q", line), err)
		}
	}
}

func (p *fleet) metrics(ctx context.Context) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.http.String()+"/metrics", nil)
	if err != nil {
		return "", err
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: (&net.Dialer{Timeout: time.Second}).DialContext}}
	response, err := client.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, 4<<20))
	return string(text), err
}

// went fails if messages did not go the way that was measured.
func (p *fleet) went(ctx context.Context, direct bool) error {
	text, err := p.metrics(ctx)
	if err == nil && direct && !strings.Contains(text, "\naibridge_relay_direct_lines_broken_total 0\n") {
		err = errors.New("the direct line between the bridges broke, so that some went over NATS")
	}
	return err
}
