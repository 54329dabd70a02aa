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

// Relay measures what a message costs between two bridges on one NATS server,
// against one whose publisher and subscriber are at one of them: the processor time
// of both bridges and of NATS together.
func Relay(ctx context.Context, o RelayOptions) (Report, error) {
	run := Options{Peers: []Peer{{}}, Scenarios: relayScenarios(), Rounds: o.Rounds, Duration: o.Duration, Progress: o.Progress}
	if err := run.setDefaults(); err != nil {
		return Report{}, err
	}
	report := Report{Machine: machine()}
	for round := range run.Rounds {
		for _, direct := range []bool{false, true} {
			results, err := o.measure(ctx, direct, run)
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

// measure starts two bridges, and puts all loads on them.
func (o *RelayOptions) measure(ctx context.Context, direct bool, run Options) (results []Result, err error) {
	pair, err := o.start(ctx, direct)
	defer pair.stop()
	if err != nil {
		return nil, err
	}
	ways := []string{wayHere, wayNATS}
	if direct {
		ways = []string{wayHere, wayDirect}
	}
	for _, s := range run.Scenarios {
		for _, way := range ways {
			at := target{address: pair.bridges[0].address, version: version5, pid: pair.nats.pid}
			for _, b := range pair.bridges {
				at.beside = append(at.beside, b.pid)
			}
			if way != wayHere {
				at.hears = pair.bridges[1].address
			}
			result, err := measure(ctx, s, at, run)
			if err != nil {
				return results, err
			}
			result.Peer = way
			results = append(results, result)
		}
	}
	return results, pair.went(ctx, direct)
}

// A bridgePair is two bridges on a NATS server.
type bridgePair struct {
	nats    *process
	bridges []*process
	http    netip.AddrPort // of the first bridge
}

func (p *bridgePair) stop() {
	for _, b := range p.bridges {
		b.stop()
	}
	if p.nats != nil {
		p.nats.stop()
	}
}

func (o *RelayOptions) start(ctx context.Context, direct bool) (p *bridgePair, err error) {
	p = new(bridgePair)
	var at [3]netip.AddrPort // for clients, routes and health
	for i := range at {
		if at[i], err = freeAddress(); err != nil {
			return p, err
		}
	}
	if p.nats, err = newProcess(); err != nil {
		return p, err
	}
	definition, err := json.Marshal(map[string]any{
		"name": "nats", "host": at[0].Addr().String(), "port": at[0].Port(), "route": at[1].Port(), "health": at[2].Port(), "dir": p.nats.dir,
	})
	if err != nil {
		return p, err
	}
	if err := p.nats.start(append(slices.Clone(o.NATS), string(definition)), false); err != nil {
		return p, err
	}
	for _, id := range []string{"a", "b"} {
		if err := o.startBridge(ctx, p, id, at[0], direct); err != nil {
			return p, err
		}
	}
	if direct {
		err = p.await(ctx, "aibridge_relay_direct_peers 1")
	} else {
		err = p.await(ctx, "aibridge_relay_peers 1")
	}
	return p, err
}

// startBridge starts one of the bridges, with the secrets of the one before.
func (o *RelayOptions) startBridge(ctx context.Context, p *bridgePair, id string, nats netip.AddrPort, direct bool) error {
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
	argv := append(slices.Clone(o.Bridge), "--dev", "--id", id, "--data", b.dir, "--mqtt", b.address.String(), "--http", web.String(), "--ws", "127.0.0.1:0", "--mqtts", "127.0.0.1:0",
		"--nats-url", "nats://"+nats.String(), "--nats-replicas", "1", "--cluster-working", "all", "--vfs-store", "nats")
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
func (p *bridgePair) await(ctx context.Context, line string) error {
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

func (p *bridgePair) metrics(ctx context.Context) (string, error) {
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
func (p *bridgePair) went(ctx context.Context, direct bool) error {
	text, err := p.metrics(ctx)
	if err == nil && direct && !strings.Contains(text, "\naibridge_relay_direct_lines_broken_total 0\n") {
		err = errors.New("the direct line between the bridges broke, so that some went over NATS")
	}
	return err
}
