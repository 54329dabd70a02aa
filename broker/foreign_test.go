package broker

import (
	"bufio"
	"context"
	"encoding/pem"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/internal/freeport"
	"github.com/aibridge/aibridge/protocol"
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
		if readers >= overWebSocket {
			return // which they do not speak
		}
		n := newNode(t, readers)
		host, port, _ := net.SplitHostPort(n.addr)
		var trust []string
		if n.secure {
			trust = []string{"--cafile", ownRoots(t), "--insecure"} // the certificate has no name
		}
		for _, version := range []string{"mqttv311", "mqttv5"} {
			for qos := range 3 {
				t.Run(fmt.Sprint(version, qos), func(t *testing.T) {
					ctx, cancel := context.WithTimeout(t.Context(), patience)
					defer cancel()
					common := append([]string{"-h", host, "-p", port, "-V", version, "-q", fmt.Sprint(qos)}, trust...)
					topic := fmt.Sprintf("foreign/%s/%d", version, qos)
					id := fmt.Sprint("sub-", version, qos)
					sub := exec.CommandContext(ctx, "mosquitto_sub", append(common, "-i", id, "-t", topic+"/#", "-C", "100", "-F", "%t %r %p")...)
					out, err := sub.StdoutPipe()
					if err != nil {
						t.Fatal(err)
					}
					if err := sub.Start(); err != nil {
						t.Fatal(err)
					}
					eventually.Holds(t, "subscribed", func() bool { return slices.Contains(n.seen.all(), id+" subscribed "+topic+"/#") })
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

// ownRoots is a file with the certificate of nodes.
func ownRoots(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "roots.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ownCertificate()[0].Certificate[0]})
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestMosquittoRequestResponse: a responder within the broker answers
// mosquitto_rr.
func TestMosquittoRequestResponse(t *testing.T) {
	if _, err := exec.LookPath("mosquitto_rr"); err != nil {
		t.Skip("mosquitto_rr is not installed")
	}
	n := newNode(t, 0)
	n.Handle("ask", func(p *Publication) {
		if _, err := n.Publish(protocol.Everybody(protocol.DefaultSpace), protocol.Message{Topic: p.ResponseTopic, Payload: append([]byte("echo "), p.Payload...), QoS: 1, CorrelationData: p.CorrelationData}); err != nil {
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

const pahoPython = `
import sys, threading
import paho.mqtt.client as mqtt
host, port = sys.argv[1], int(sys.argv[2])
for version in (mqtt.MQTTv311, mqtt.MQTTv5):
    got, done, ready = [], threading.Event(), threading.Event()
    try:
        c = mqtt.Client(mqtt.CallbackAPIVersion.VERSION1, client_id="python", protocol=version)
    except AttributeError:
        c = mqtt.Client(client_id="python", protocol=version)
    c.on_connect = lambda c, *a: c.subscribe("python/#", qos=2)
    c.on_subscribe = lambda *a: ready.set()
    def on_message(c, u, m):
        got.append(m.payload.decode())
        if len(got) == 60: done.set()
    c.on_message = on_message
    c.connect(host, port)
    c.loop_start()
    assert ready.wait(10), "not subscribed"
    for i in range(60):
        c.publish("python/%d" % (i % 3), str(i), qos=i % 3)
    assert done.wait(10), "received %r" % got
    assert sorted(got, key=int) == [str(i) for i in range(60)], got
    c.disconnect()
    c.loop_stop()
`

const mqttJS = `
const mqtt = require('mqtt');
const [host, port] = process.argv.slice(1);
async function run(protocolVersion) {
  const c = await mqtt.connectAsync('mqtt://' + host + ':' + port, { clientId: 'js', protocolVersion });
  const got = [];
  const done = new Promise(resolve => c.on('message', (t, p) => { got.push(p.toString()); if (got.length === 60) resolve(); }));
  await c.subscribeAsync('js/#', { qos: 2 });
  await Promise.all(Array.from({ length: 60 }, (_, i) => c.publishAsync('js/' + i % 3, String(i), { qos: i % 3 })));
  await done;
  got.sort((a, b) => a - b);
  if (got.some((p, i) => p !== String(i))) throw new Error('received ' + got);
  await c.endAsync();
}
run(4).then(() => run(5)).then(() => process.exit(0), e => { console.error(e); process.exit(1); });
`

func TestScriptClients(t *testing.T) {
	n := newNode(t, 0)
	host, port, _ := net.SplitHostPort(n.addr)
	for name, c := range map[string]struct{ program, flag, probe, script string }{
		"paho Python": {"/usr/bin/python3", "-c", "import paho.mqtt.client", pahoPython},
		"MQTT.js":     {"node", "-e", "require('mqtt')", mqttJS},
	} {
		t.Run(name, func(t *testing.T) {
			if exec.CommandContext(t.Context(), c.program, c.flag, c.probe).Run() != nil {
				t.Skip("not installed")
			}
			ctx, cancel := context.WithTimeout(t.Context(), 3*patience)
			defer cancel()
			if out, err := exec.CommandContext(ctx, c.program, c.flag, c.script, host, port).CombinedOutput(); err != nil {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
}

// TestMosquittoBridgeConnects: a bridge of mosquitto's, as it is configured when
// nothing is said about the protocol, carries messages both ways.
func TestMosquittoBridgeConnects(t *testing.T) {
	broker, err := exec.LookPath("mosquitto")
	if err != nil {
		if broker, err = exec.LookPath("/usr/sbin/mosquitto"); err != nil {
			t.Skip("mosquitto is not installed")
		}
	}
	n := newNode(t, 0)
	_, port, err := net.SplitHostPort(freeport.Address())
	if err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(t.TempDir(), "mosquitto.conf")
	text := fmt.Sprintf("listener %s 127.0.0.1\nallow_anonymous true\nconnection ours\naddress %s\nbridge_protocol_version mqttv311\nrestart_timeout 1\nnotifications false\ntopic # both 1\n", port, n.addr)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	mosquitto := exec.CommandContext(ctx, broker, "-c", config)
	if err := mosquitto.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { cancel(); _ = mosquitto.Wait() }()
	eventually.Holds(t, "the bridge has subscribed", func() bool {
		return slices.ContainsFunc(n.seen.all(), func(line string) bool { return strings.HasSuffix(line, "subscribed #") })
	})
	listener := n.connect(5, "listener")
	listener.subscribe("theirs", 0)
	eventually.Holds(t, "a message of theirs is carried here", func() bool {
		out, err := exec.CommandContext(ctx, "mosquitto_pub", "-h", "127.0.0.1", "-p", port, "-t", "theirs", "-m", "hello").CombinedOutput()
		if err != nil {
			t.Logf("mosquitto_pub: %v %s", err, out)
			return false
		}
		_, _, ok := listener.next(time.Second)
		return ok
	})
}
