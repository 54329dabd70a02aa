package bench

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"
)

// comingBack is the number of times that the client comes back.
const comingBack = 50

// measureResumption tells how many of a client's TLS connections to a bridge go on with
// the keys of one before, by the tickets that it was given.
func (o GoalsOptions) measureResumption(ctx context.Context) (Report, error) {
	report := Report{Machine: machine()}
	b, err := startBroker(ctx, bridgePeer(bridgeName, o.Bridge), OverTCP, false)
	if err != nil {
		return report, err
	}
	defer b.stop()
	var address string
	err = b.await(ctx, func() (err error) {
		address, err = secureAddress(b.dir)
		return err
	})
	if err != nil {
		return report, err
	}
	result := Result{Scenario: resumeName, Base: resumeName, Peer: bridgeName, Round: 1}
	config := clientTLS()
	config.ClientSessionCache = tls.NewLRUClientSessionCache(0)
	for i := range 1 + comingBack {
		resumed, err := shakeHands(ctx, address, config)
		if err != nil {
			result.Err = err.Error()
			break
		}
		if i > 0 && resumed {
			result.Resumed += 100.0 / comingBack
		}
	}
	if result.Err == "" && result.Resumed == 0 {
		result.Err = "no connection was resumed"
	}
	o.progress(fmt.Sprintf("%s: %.0f %% resumed  %s", resumeName, result.Resumed, result.faults()))
	report.Results = append(report.Results, result)
	return report, ctx.Err()
}

// shakeHands makes one connection of MQTT over TLS, with which tickets come, and reports
// whether it was resumed.
func shakeHands(ctx context.Context, address string, config *tls.Config) (resumed bool, err error) {
	conn, err := (&net.Dialer{Timeout: 5 * time.Second}).DialContext(ctx, "tcp", address)
	if err != nil {
		return false, err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
	secure := tls.Client(conn, config)
	p := &plain{Conn: secure, in: bufio.NewReader(secure)}
	if err := p.connect(connectPacket(version5, "bench-resuming", 0)); err != nil {
		return false, err
	}
	return secure.ConnectionState().DidResume, nil
}

// secureAddress is the address at which the bridge that uses a folder serves MQTT over
// TLS.
func secureAddress(dir string) (string, error) {
	text, err := os.ReadFile(filepath.Join(dir, "addresses.json"))
	if err != nil {
		return "", err
	}
	var known struct{ MQTTS string }
	if err := json.Unmarshal(text, &known); err != nil {
		return "", err
	}
	if known.MQTTS == "" {
		return "", errors.New("the bridge serves no MQTT over TLS")
	}
	return known.MQTTS, nil
}
