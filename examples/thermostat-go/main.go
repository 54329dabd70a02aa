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

	device := &thermostat{celsius: 19, target: 20}
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
		Version:     "1.0.0",
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

func (d *thermostat) setTarget(_ context.Context, _ *client.Invocation, p setTarget) (reading, error) {
	// A device does not rely on others for what could harm it.
	if p.Celsius < lowest || p.Celsius > highest {
		return reading{}, protocol.InvalidParam("params.celsius", fmt.Sprintf("must be %d to %d, is %g", lowest, highest, p.Celsius))
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.target = p.Celsius
	log.Printf("set_target: %.1f °C", d.target)
	return reading{d.celsius, d.target}, nil
}
