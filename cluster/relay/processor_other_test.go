//go:build !unix

package relay

import "time"

// processorTime is what this process has used, 0 where it cannot be told.
func processorTime() time.Duration { return 0 }
