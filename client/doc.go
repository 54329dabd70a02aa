// Package client is the Go SDK of AI Bridge: call commands, serve skills, take
// part in channels. It speaks MQTT 5, reconnects by itself, and after a
// reconnect everything stands again: subscriptions, the agent's registration
// and its skills.
//
//	c, err := client.Dial(ctx, "mqtt://127.0.0.1:1883", client.WithAgent(client.Agent{ID: "hall-1"}))
//	…
//	defer c.Close()
//
//	type reading struct{ Celsius float64 `json:"celsius"` }
//	_, err = c.ServeSkill(ctx, client.Skill{
//		ID: "thermostat", Name: "Thermostat",
//		Capabilities: []client.Capability{{
//			ID: "read", Idempotent: true,
//			Handler: client.Handle(func(ctx context.Context, in *client.Invocation, _ struct{}) (reading, error) {
//				return reading{Celsius: sensor.Read()}, nil
//			}),
//		}},
//	})
//
//	found, err := client.Call[Discovery](ctx, c, "skill.discover", map[string]any{"capability": "read"})
//
// # Errors
//
// Every refusal or failure of the bridge, and every failure to get an answer, is a
// [*protocol.Error] with a code. Errors are repeated by their class as long as the
// call has time left: a lost connection with growing pauses and the same request
// id, so that the bridge runs it once at most; 4008 and 4009 after the pause the
// bridge asks for; 1xxx and 2xxx never. See [Call].
//
// # Goroutines
//
// All methods may be called at the same time by many goroutines. Handlers of
// skills run on goroutines of their own, as many as [WithConcurrency] allows;
// a subscription's handler gets one message at a time, in order. A handler may
// call commands itself; the calls carry on its trace.
package client
