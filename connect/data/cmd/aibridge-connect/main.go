// Command aibridge-connect moves data between a bridge and other systems, as a
// configuration file says: the command line of Benthos, with components for AI
// Bridge, PostgreSQL and Kafka.
package main

import (
	"context"

	_ "github.com/redpanda-data/benthos/v4/public/components/io"
	_ "github.com/redpanda-data/benthos/v4/public/components/pure"
	"github.com/redpanda-data/benthos/v4/public/service"

	_ "github.com/aibridge/aibridge/connect/data/bridge"
	_ "github.com/aibridge/aibridge/connect/data/kafka"
	_ "github.com/aibridge/aibridge/connect/data/postgres"
)

// Set by the linker.
var version = "dev"

func main() {
	service.RunCLI(context.Background(),
		service.CLIOptSetVersion(version, ""),
		service.CLIOptSetBinaryName("aibridge-connect"),
		service.CLIOptSetProductName("AI Bridge Connect"),
		service.CLIOptSetMainSchemaFrom(schema),
		service.CLIOptSetDocumentationURL("https://github.com/aibridge/aibridge/tree/main/connect/data"),
	)
}

// schema is that of configuration files. The engine's own HTTP server, with its state and
// metrics, is for this machine alone unless a file says otherwise.
func schema() *service.ConfigSchema {
	s := service.GlobalEnvironment().FullConfigSchema(version, "")
	s.SetFieldDefault("127.0.0.1:4195", "http", "address")
	return s
}
