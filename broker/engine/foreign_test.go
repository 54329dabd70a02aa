package engine

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// The clients that most people have on their machines. Paho's two Go clients
// are in the tests of package broker.
func TestMosquittoClients(t *testing.T) {
	for _, tool := range []string{"mosquitto_pub", "mosquitto_sub"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip(tool + " is not installed")
		}
	}
	everywhere(t, func(t *testing.T, readers int) {
		n := newNode(t, readers)
		host, port, _ := net.SplitHostPort(n.addr)
		for _, version := range []string{"mqttv311", "mqttv5"} {
			for qos := range 3 {
				t.Run(fmt.Sprint(version, qos), func(t *testing.T) {
					ctx, cancel := context.WithTimeout(t.Context(), patience)
					defer cancel()
					common := []string{"-h", host, "-p", port, "-V", version, "-q", fmt.Sprint(qos)}
					topic := fmt.Sprintf("foreign/%s/%d", version, qos)
					sub := exec.CommandContext(ctx, "mosquitto_sub", append(common, "-t", topic+"/#", "-C", "100", "-F", "%t %r %p")...)
					out, err := sub.StdoutPipe()
					if err != nil {
						t.Fatal(err)
					}
					before := n.counters().subscriptions
					if err := sub.Start(); err != nil {
						t.Fatal(err)
					}
					eventually(t, "subscribed", func() bool { return n.counters().subscriptions > before })
					var lines strings.Builder
					for i := range 100 {
						fmt.Fprintln(&lines, "message", i)
					}
					pub := exec.CommandContext(ctx, "mosquitto_pub", append(common, "-t", topic, "-l", "-r")...)
					pub.Stdin = strings.NewReader(lines.String())
					if got, err := pub.CombinedOutput(); err != nil {
						t.Fatalf("mosquitto_pub: %v %s", err, got)
					}
					scanner := bufio.NewScanner(out)
					for i := 0; scanner.Scan(); i++ {
						if want := fmt.Sprintf("%s 0 message %d", topic, i); scanner.Text() != want {
							t.Errorf("%q, want %q", scanner.Text(), want)
						}
					}
					if err := sub.Wait(); err != nil {
						t.Errorf("mosquitto_sub: %v", err)
					}
					again := exec.CommandContext(ctx, "mosquitto_sub", append(common, "-t", topic, "-C", "1", "-F", "%r %p")...)
					if got, err := again.CombinedOutput(); err != nil || string(got) != "1 message 99\n" {
						t.Errorf("retained: %v %q", err, got)
					}
				})
			}
		}
	})
}

// TestMosquittoRequestResponse: a responder within the broker answers
// mosquitto_rr.
func TestMosquittoRequestResponse(t *testing.T) {
	if _, err := exec.LookPath("mosquitto_rr"); err != nil {
		t.Skip("mosquitto_rr is not installed")
	}
	n := newNode(t, 0)
	n.Handle("ask", func(p *Publication) {
		if _, err := n.Publish(Message{Topic: p.ResponseTopic, Payload: append([]byte("echo "), p.Payload...), QoS: 1, CorrelationData: p.CorrelationData}); err != nil {
			t.Error(err)
		}
	})
	host, port, _ := net.SplitHostPort(n.addr)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	start := time.Now()
	out, err := exec.CommandContext(ctx, "mosquitto_rr", "-h", host, "-p", port, "-V", "mqttv5", "-t", "ask", "-e", "answer/1", "-m", "hi").CombinedOutput()
	if err != nil || strings.TrimSpace(string(out)) != "echo hi" {
		t.Errorf("%v %q after %v", err, out, time.Since(start))
	}
}
