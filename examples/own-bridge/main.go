// Own-bridge is a bridge with a command and a permission check of its own: a
// greenhouse that is watered by command, but not in the midday sun.
//
//	go run . --data /tmp/greenhouse
package main

import (
	"context"
	"flag"
	"log"
	"os/signal"
	"syscall"
	"time"

	"github.com/aibridge/aibridge/bridge"
	"github.com/aibridge/aibridge/commands"
)

func main() {
	config := bridge.DefaultConfig()
	flag.StringVar(&config.Data, "data", config.Data, "folder for everything that must survive")
	flag.StringVar(&config.MQTT.Address, "mqtt", config.MQTT.Address, "address for MQTT")
	flag.StringVar(&config.HTTP, "http", config.HTTP, "address for HTTP")
	flag.StringVar(&config.WS, "ws", config.WS, "address for WebSocket")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, config, time.Now); err != nil {
		log.Fatal(err)
	}
}

// run serves a bridge for the greenhouse until ctx ends.
func run(ctx context.Context, config bridge.Config, now func() time.Time) error {
	b, err := bridge.New(ctx, config,
		bridge.WithCommands(commands.New(waterSpec, water)),
		bridge.WithExtensions(commands.Extensions{Permissions: []commands.PermissionCheck{shade{now}}}),
	)
	if err != nil {
		return err
	}
	return b.Run(ctx)
}
