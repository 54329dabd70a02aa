// Command thermostat-go is a thermostat as a skill, with the Go SDK.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/aibridge/aibridge/client"
	"github.com/aibridge/aibridge/protocol"
)

const name = "thermostat-go"

func main() {
	log.SetFlags(log.Ltime)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	options := []client.Option{client.WithAgent(client.Agent{ID: name, Name: "Thermostat in Go"})}
	if key := os.Getenv("AIBRIDGE_API_KEY"); key != "" {
		options = append(options, client.WithAPIKey(key))
	}
	url := cmp.Or(os.Getenv("AIBRIDGE_URL"), "mqtt://127.0.0.1:1883")
	c, err := client.Dial(ctx, url, options...)
	if err != nil {
		return fmt.Errorf("connect to %s: %w", url, err)
	}
	defer c.Close()

	device := &thermostat{celsius: 19, target: 20, highest: highest}
	if _, err := c.ServeSkill(ctx, device.skill()); err != nil {
		return fmt.Errorf("register: %w", err)
	}
	log.Printf("serving %s on %s", name, url)

	select {
	case <-ctx.Done():
		log.Print("stopping")
	case <-c.Done(): // another client took over
	}
	return c.Err()
}

// A thermostat pretends to heat a room.
type thermostat struct {
	mu      sync.Mutex
	celsius float64
	target  float64
	highest float64 // that anybody may aim at
}

// settings are the state of the thermostat that others set, also while it is away.
type settings struct {
	Highest float64 `json:"highest"`
}

type reading struct {
	Celsius float64 `json:"celsius"`
	Target  float64 `json:"target"`
}

type setTarget struct {
	Celsius float64 `json:"celsius"`
}

const (
	lowest  = 5
	highest = 30
)

func (d *thermostat) skill() client.Skill {
	return client.Skill{
		ID:          name,
		Name:        "Thermostat",
		Description: "Reads and sets the temperature of a room",
		Version:     "1.1.0",
		// The bridge checks what others desire against this, and keeps it until
		// the thermostat is there.
		StateSchema: json.RawMessage(fmt.Sprintf(`{
			"type": "object",
			"properties": {"highest": {"type": "number", "minimum": %d, "maximum": %d}},
			"additionalProperties": false
		}`, lowest, highest)),
		Desired: client.Desire(d.take),
		Capabilities: []client.Capability{
			{
				ID:          "read",
				Description: "the temperature now and the one aimed at",
				Effect:      client.EffectRead,
				Handler:     client.Handle(d.read),
			},
			{
				ID:          "set_target",
				Description: "aim at a temperature",
				Idempotent:  true,
				// The bridge checks params against this before it asks.
				ParamsSchema: json.RawMessage(fmt.Sprintf(`{
					"type": "object",
					"properties": {"celsius": {"type": "number", "minimum": %d, "maximum": %d}},
					"required": ["celsius"],
					"additionalProperties": false
				}`, lowest, highest)),
				Handler: client.Handle(d.setTarget),
			},
		},
	}
}

func (d *thermostat) read(context.Context, *client.Invocation, struct{}) (reading, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.celsius += (d.target - d.celsius) / 10 // the room follows slowly
	log.Printf("read: %.1f °C", d.celsius)
	return reading{d.celsius, d.target}, nil
}

// take makes settings its own, and returns them for the bridge to know.
func (d *thermostat) take(_ context.Context, wanted settings) (settings, error) {
	if wanted.Highest < lowest || wanted.Highest > highest {
		return settings{}, fmt.Errorf("highest must be %d to %d, is %g", lowest, highest, wanted.Highest)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.highest, d.target = wanted.Highest, min(d.target, wanted.Highest)
	log.Printf("highest: %.1f °C", d.highest)
	return settings{d.highest}, nil
}

func (d *thermostat) setTarget(_ context.Context, _ *client.Invocation, p setTarget) (reading, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	// A device does not rely on others for what could harm it.
	if p.Celsius < lowest || p.Celsius > d.highest {
		return reading{}, protocol.InvalidParam("params.celsius", fmt.Sprintf("must be %d to %g, is %g", lowest, d.highest, p.Celsius))
	}
	d.target = p.Celsius
	log.Printf("set_target: %.1f °C", d.target)
	return reading{d.celsius, d.target}, nil
}
